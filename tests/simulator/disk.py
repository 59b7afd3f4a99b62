"""A disk in memory that forgets what was never synced: the `Disk` and `File` of ports.py without a device.

The disk is deterministic: every choice comes from the seeded `Random` given to `crash`, and the test switches on every
fault.

- An append is in the page cache (`data`). A sync makes the file durable (`durable`) as it is at that time.
- `crash` is a power cut. Of each file there remains what was durable and, with a `random`, perhaps some of what came
  after. Changed pages reach the device in any order, each or not. So a later page may be there without an earlier one,
  which then reads as what was durable there, or else as zeros. A page may be there as it was after an earlier append.
  The file ends after the last page that is there, or inside it, or in zeros after it.
- A truncation that was not synced may be undone. The page in which it cut may be there nevertheless.
- A file that was never synced is gone after a crash or, with a `random`, may be there with some of its pages.
- A rename or a removal is durable once its directory was synced: by name, with a file whose name is new, or with a small
  file that was replaced there. Of those that are not a crash with a `random` keeps some and undoes the others, in any order,
  as POSIX allows and not as one file system happens to do. What one of them replaced comes back where it is undone. Without
  a `random` all are kept.
- A directory is made with its first file. It is durable once the directory above it was synced, as it is with a file that is
  new in it and with a small file of it. Where a directory of the same name was renamed away before it and that is undone,
  the new one is gone with all that is in it, or has its former name: two directories never become one.
- With `keep_room` some room is kept back, as on the real host: records of partitions never have it, all else does once
  there is no other, and from then on no records are taken before there is room for it twice. What is removed or cut gives
  its room back.
- `fault` is an adversary: it is asked before every operation, and may let it fail with any error of a kernel. A file of
  which an operation has failed with an error of the device fails in every later one too.
- A killed process (`kill`) loses nothing, because the page cache outlives it.
"""

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random

from actors.host.work.kept_room import of_records
from actors.ports import Buffer, Content, DiskFailed, DiskFull, NotMade, Space, Sync

PAGE_BYTES = (512, 4096)
"""The size that a device writes as a whole: a sector, or a page of the cache. Files here are small, so both are used
equally often."""

UNLIMITED_BYTES = 1 << 40
"""The size of a volume on which room is never short."""


FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class Change:
    """A change of names in one directory that is not durable yet."""

    __slots__ = ("directory", "new", "number", "of_directory", "old")

    def __init__(self, number: int, old: str, new: str | None, of_directory: bool = False) -> None:
        self.number = number
        """The place of the change in their order: of two that give the same name to two files the later one counts."""
        self.old = old
        self.new = new
        """The new name; None: the file is removed, or another one has got its name."""
        self.directory = old.rpartition("/")[0]
        """Which has to be synced."""
        self.of_directory = of_directory
        """Whether a directory has left the name `old`."""

    def done(self, path: str | None) -> str | None:
        """What this change makes of the path of a file."""
        if path is None:
            return None
        if path == self.old:
            return self.new
        if path.startswith(f"{self.old}/"):
            return None if self.new is None else self.new + path[len(self.old) :]
        return path


class Inode:
    """The bytes and the name of one file. Invariant: a power cut leaves at least `durable`; None if not even the name
    is durable."""

    __slots__ = ("changes", "cut", "data", "durable", "ends", "modified_ms", "named", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.named: str | None = path
        """The path that is durable, as far as it is not the present one: see `changes`."""
        self.changes: list[Change] = []
        """Changes of the file's name since that was durable."""
        self.data = bytearray()
        self.modified_ms: int | None = None
        """When it was written; None: a disk without a clock does not know."""
        self.durable: bytes | None = None
        self.cut = 0
        """The smallest size since it was durable: the durable bytes from there on may come back only as a whole."""
        self.ends: list[int] = []
        """Sizes after the appends since then."""

    def make_durable(self) -> None:
        """Make the present content durable."""
        self.durable = bytes(self.data)
        self.cut = len(self.data)
        self.ends = []


class VirtualFile:
    """A handle of a file; several may share a file."""

    __slots__ = ("_size", "closed", "disk", "failed", "inode")

    def __init__(self, disk: "VirtualDisk", inode: Inode) -> None:
        self.disk, self.inode = disk, inode
        self.closed = False
        self.failed: DiskFailed | None = None
        """The error of the device that an operation had."""
        self._size: int | None = None
        """The size before an append that the device ended short: as on the real host, this handle never saw the rest."""

    def _step(self, operation: str, part: Callable[[Random], None] | None = None) -> None:
        """Begin an operation. `part` makes some of it, where the device ends it short."""
        if self.disk.looked_at:
            return
        if self.failed is not None:
            raise self.failed
        try:
            self.disk.step(operation, self.path)
        except DiskFailed as error:
            self.failed, self._size = error, len(self.inode.data)
            if part is not None and self.disk.short is not None:
                part(self.disk.short)
            raise

    @property
    def path(self) -> str:
        """The present path of the file. A rename changes it."""
        return self.inode.path

    @property
    def size(self) -> int:
        return len(self.inode.data) if self._size is None else self._size

    @property
    def modified_ms(self) -> int | None:
        return self.inode.modified_ms

    def append(self, parts: Sequence[Buffer]) -> int:
        data = b"".join(bytes(part) for part in parts)
        self._step("append", lambda random: self._appended(data[: random.randrange(len(data) + 1)]))
        if self.disk.append_fails is not None and self.disk.append_fails(self.path):
            self.disk.refused += 1
            raise self.disk.error(errno.EIO, "append failed", self.path)
        self.disk.take_room(self, len(data))
        self._appended(data)
        return len(self.inode.data)

    def _written(self) -> None:
        if self.disk.clock is not None:
            self.inode.modified_ms = self.disk.clock()

    def _appended(self, data: bytes) -> None:
        self._written()
        self.inode.data += data
        self.inode.ends.append(len(self.inode.data))
        self.disk.appended_bytes += len(data)

    def read(self, position: int, size: int) -> memoryview | None:
        self._step("read")
        if self.disk.cold is not None and self.disk.cold(self.path, position, size):
            return None
        if self.closed and self.disk.gone:
            raise FileNotFoundError(errno.ENOENT, "closed and gone", self.path)
        return self._bytes(position, size)

    def read_cold(self, position: int, size: int) -> memoryview:
        self._step("read")
        if self.disk.unreadable is not None and self.disk.unreadable(self.path, position, size):
            self.disk.refused += 1
            raise self.disk.error(errno.EIO, f"read failed at byte {position}", self.path)
        if self.disk.gone or (self.closed and self.disk.files.get(self.path) is not self.inode):
            raise FileNotFoundError(errno.ENOENT, "closed and removed", self.path)
        return self._bytes(position, size)

    def read_at_rest(self, position: int, size: int) -> memoryview:
        return self.read_cold(position, size)

    def _bytes(self, position: int, size: int) -> memoryview:
        return memoryview(bytes(self.inode.data[position : position + size]))

    def overwrite(self, position: int, data: Buffer) -> None:
        assert position + len(data) <= len(self.inode.data), "overwrite is for bytes that exist"
        self._step("overwrite", lambda random: self._over(position, bytes(data)[: random.randrange(len(data) + 1)]))
        self._over(position, data)

    def _over(self, position: int, data: Buffer) -> None:
        self._written()
        self.inode.data[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        assert size <= len(self.inode.data), "truncate only cuts"
        self._step("truncate")
        inode = self.inode
        self._written()
        self.disk._give_back(len(inode.data) - size)
        del inode.data[size:]
        inode.cut = min(inode.cut, size)
        inode.ends = [end for end in inode.ends if end <= size]

    def close(self) -> None:
        self.closed = True


def _beside(runs: list[list[Callable[[], None]]], order: Random) -> Iterator[None]:
    """Make a step of one run after the other, each of which ends where a step fails. Raises what failed first, at the
    end."""
    failed: OSError | None = None
    runs = [run for run in runs if run]
    places = [0] * len(runs)
    left = list(range(len(runs)))
    while left:
        run = left[order.randrange(len(left))] if len(left) > 1 else left[0]
        try:
            runs[run][places[run]]()
        except (DiskFailed, DiskFull) as error:
            failed = error if failed is None or isinstance(failed, DiskFull) else failed
            places[run] = len(runs[run])
        else:
            places[run] += 1
        if places[run] == len(runs[run]):
            left.remove(run)
        yield
    if failed is not None:
        raise failed


def _make_durable(file: object) -> None:
    """What the host does for a file of a sync. Raises DiskFailed."""
    assert isinstance(file, VirtualFile | VirtualDirectory)
    file.disk._sync_step(file.path)
    if isinstance(file, VirtualDirectory):
        file.disk._settle(file.path)
        return
    if file.inode.durable is None or file.inode.changes:
        file.disk._settle_new(file.path)
    file.inode.make_durable()


def _replace(replacement: tuple[object, str, Content], asked: int) -> None:
    """What the host does for a small file of a sync. `asked`: the `departures` of its disk when the sync was asked for.
    Raises DiskFull, DiskFailed."""
    disk, path, content = replacement
    assert isinstance(disk, VirtualDisk)
    directory = path.rpartition("/")[0]
    if directory in disk._left and not disk.holds(directory):
        return  # it was submitted in the turn in which its directory went
    if disk._left.get(directory, 0) <= asked:
        disk.replace(path, content)


class VirtualDirectory:
    """The names in a directory, for a sync."""

    __slots__ = ("disk", "path")

    def __init__(self, disk: "VirtualDisk", path: str) -> None:
        self.disk, self.path = disk, path


class Files(dict[str, Inode]):
    """Files by path, and how many of them are below each directory: logs ask ten thousand times in a world whether there is
    a file, and mostly there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.below: Counter[str] = Counter()

    def __setitem__(self, path: str, inode: Inode) -> None:
        if path not in self:
            for directory in _directories(path):
                self.below[directory] += 1
        super().__setitem__(path, inode)

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        for directory in _directories(path):
            self.below[directory] -= 1

    def clear(self) -> None:
        super().clear()
        self.below.clear()


def _directories(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


class VirtualDisk:
    """One log directory in memory."""

    def __init__(self, room: int | None = None) -> None:
        """`room` is how many bytes may still be appended; None: no limit."""
        self.id: bytes | None = None
        """The directory id of a disk that replaced a lost one."""
        self.files = Files()
        self.room = room
        self.cold: Callable[[str, int, int], bool] | None = None
        """(path, position, size) -> whether a read answers None."""
        self.unreadable: Callable[[str, int, int], bool] | None = None
        """(path, position, size) -> whether the device fails."""
        self.append_fails: Callable[[str], bool] | None = None
        """path -> whether an append to it fails."""
        self.replace_full: Callable[[str], bool] | None = None
        """path -> whether a small file finds no room to be written."""
        self.sync_fails: Callable[[str], bool] | None = None
        """path -> whether its sync fails."""
        self.failed = False
        """Whether the device has failed altogether: names cannot be changed either."""
        self.gone = False
        """Whether the directory was unmounted or moved away: the node finds no name in it. Tests look at `files`."""
        self._mounted: Files | None = None
        """The files of a directory that is unmounted."""
        self.departures = 0
        """How often a name was renamed away or removed."""
        self._left: dict[str, int] = {}
        """The value of `departures` when a name last went, even if the name exists again."""
        self.appended_bytes = 0
        self.syncs = 0
        self.failed_syncs = 0
        """Failed syncs since the process began."""
        self.refused = 0
        """All failures since the process began, lack of room included."""
        self.fault: Callable[[str, str], int] | None = None
        """(operation, path) -> the error number with which it fails; 0: it does not."""
        self.looked_at = False
        """Whether somebody looks who is no part of the node: nothing fails then."""
        self.short: Random | None = None
        """How much of a write that the device ends is made; None: nothing of it."""
        self.lacked = 0
        """How often the adversary has let room or descriptors be short since the process began."""
        self.clock: Callable[[], int] | None = None
        """The wall clock of the machine, ms; None: when a file was written only a test says."""
        self.steps = 0
        """Operations since the disk was made."""
        self.kept_size = 0
        """Bytes that are kept back while `room` is limited; 0: none, and what is removed gives nothing back."""
        self.kept = 0
        """The bytes that are kept back now."""
        self.unsettled: list[Change] = []
        """Changes of names that are not durable, in their order."""
        self._replaced: list[Inode] = []
        """Files without a name of which a power cut may bring one back."""
        self._unnamed: set[str] = set()
        """Directories that were made and are not durable."""
        self._changes = 0

    def step(self, operation: str, path: str) -> None:
        """Begin an operation. Raises what the adversary wants."""
        if self.looked_at:
            return
        self.steps += 1
        number = self.fault(operation, path) if self.fault is not None else 0
        if number:
            self.refused += number not in FULL
            self.lacked += number in FULL
            raise self.error(number, f"{operation} fails: {errno.errorcode[number]}", path)

    def error(self, number: int, sentence: str, path: str) -> DiskFull | DiskFailed:
        """An error of this disk, as the real one tells of it."""
        found = (DiskFull if number in FULL else DiskFailed)(number, sentence, path)
        found.disk = self
        return found

    # -- ports.Disk ---------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> VirtualFile:
        inode = None if self.gone else self.files.get(path)
        self.step("open" if not create else "create" if inode is None else "open to write", path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._works(path)
            self._make_directories(path)
            inode = self.files[path] = Inode(path)
        return VirtualFile(self, inode)

    def _make_directories(self, path: str) -> None:
        self._unnamed.update(one for one in _directories(path) if not self.files.below[one])

    def names(self, path: str) -> list[str]:
        self.step("names", path)
        return self.listed(path)

    def listed(self, path: str) -> list[str]:
        """The names in a directory, for who only looks at it: no operation of the node."""
        if self.gone:
            return []
        prefix = f"{path}/" if path else ""
        return sorted({name[len(prefix) :].split("/")[0] for name in self.files if name.startswith(prefix)})

    def exists(self, path: str) -> bool:
        self.step("exists", path)
        return self.found(path)

    def found(self, path: str) -> bool:
        """Whether the node would find that name, for who only looks."""
        return not self.gone and self.holds(path)

    def holds(self, path: str) -> bool:
        """Whether the disk has that file or directory, even while the node does not find it."""
        return path in self.files or self.files.below[path] > 0

    def rename(self, old: str, new: str) -> None:
        self.step("rename", old)
        self._works(old)
        moved = {name: self.files[name] for name in self._all(old)}
        if not moved:
            self.refused += 1
            raise self.error(errno.ENOENT, "rename failed: no such file", old)
        if old == new:
            return  # POSIX: nothing is done, and it is no error
        refused = self._not_replaced(old, new)
        if refused:
            self.refused += 1
            raise self.error(refused, f"rename failed: {errno.errorcode[refused]}", old)
        change = self._change(old, new)
        for name in moved:
            del self.files[name]
        for name, inode in moved.items():
            inode.path = new + name[len(old) :]
            inode.changes.append(change)
            replaced = self.files.get(inode.path)
            if replaced is not None:
                self._gone(replaced, self._change(inode.path, None, change.number))
            self.files[inode.path] = inode
        for waiting in self.unsettled:
            if waiting is not change and (waiting.directory == old or waiting.directory.startswith(f"{old}/")):
                waiting.directory = new + waiting.directory[len(old) :]
        self._leave(old)

    def _not_replaced(self, old: str, new: str) -> int:
        """The error number with which POSIX refuses that name; 0: a file may take the place of a file."""
        if new.startswith(f"{old}/"):
            return errno.EINVAL
        if self.files.below[new] > 0:
            return errno.EISDIR if old in self.files else errno.ENOTEMPTY
        return errno.ENOTDIR if new in self.files and old not in self.files else 0

    def remove(self, path: str) -> None:
        self.step("remove", path)
        self._works(path)
        change = self._change(path, None)
        if not self.holds(path):
            self.unsettled.remove(change)  # nothing had the name, so nothing can have it again
        for name in self._all(path):
            self._gone(self.files[name], change)
            self._give_back(len(self.files[name].data))
            del self.files[name]
        self._leave(path)

    def _change(self, old: str, new: str | None, number: int = 0) -> Change:
        self._changes += not number
        change = Change(number or self._changes, old, new, self.files.below[old] > 0)
        self.unsettled.append(change)
        return change

    def _gone(self, inode: Inode, change: Change) -> None:
        inode.changes.append(change)
        self._replaced.append(inode)

    def directory(self, path: str) -> VirtualDirectory:
        return VirtualDirectory(self, path)

    def settle(self, path: str) -> None:
        self.step("settle", path)
        self._works(path)
        self._settle(path)

    def _settle(self, directory: str) -> None:
        """The names in a directory are durable."""
        if not any(one.directory == directory for one in self.unsettled):
            return
        for inode in [*self.files.values(), *self._replaced]:
            for one in inode.changes:
                if one.directory == directory:
                    inode.named = one.done(inode.named)
            inode.changes = [one for one in inode.changes if one.directory != directory]
        self.unsettled = [one for one in self.unsettled if one.directory != directory]
        self._replaced = [one for one in self._replaced if one.changes]

    def _settle_new(self, path: str) -> None:
        """The name of a file is durable, and so are the directories above it that were made for it."""
        self._settle(path.rpartition("/")[0])
        for directory in [one for one in _directories(path) if one in self._unnamed]:
            self._unnamed.discard(directory)
            self._settle(directory.rpartition("/")[0])

    def _leave(self, path: str) -> None:
        self._unnamed.discard(path)
        self.departures += 1
        self._left[path] = self.departures

    def _all(self, path: str) -> list[str]:
        """A file, or what is below a directory."""
        prefix = f"{path}/"
        return [path] if path in self.files else [name for name in self.files if name.startswith(prefix)]

    def space(self) -> Space:
        self.step("space", "")
        self._works("")
        used = sum(len(inode.data) for inode in self.files.values())
        usable = self.room if self.room is not None else UNLIMITED_BYTES - used
        return Space(used + usable, usable)

    # -- what the host does for a Sync --------------------------------------------------------------------------------

    def sync(self, sync: Sync) -> None:
        """Make files durable as they are, then replace small files, in order: none whose directory went since it was asked
        for, as on the real host. Runs come first, beside each other. Raises DiskFailed, DiskFull."""
        for _ in self.syncing(sync):
            pass

    def syncing(self, sync: Sync, seed: int | None = None) -> Iterator[None]:
        """The same step by step. Which run goes on with each step is drawn by `seed`, or by how many syncs there were."""
        self.syncs += 1
        order = Random(self.syncs if seed is None else seed)
        asked = iter(sync.asked())
        yield from _beside([[partial(_make_durable, file) for file in run.files] for run in sync.runs], order)
        yield from _beside(
            [[partial(_replace, one, next(asked))] for run in sync.runs for one in run.replacements], order
        )
        for file in sync.files:
            _make_durable(file)
            yield
        for one in sync.replacements:
            _replace(one, next(asked))
            yield

    def _sync_step(self, path: str) -> None:
        try:
            self.step("sync", path)
        except DiskFailed:
            self.failed_syncs += 1
            raise
        self._may_fail(path)

    def _may_fail(self, path: str) -> None:
        if self.sync_fails is not None and self.sync_fails(path):
            self.failed_syncs += 1
            self.refused += 1
            raise self.error(errno.EIO, "sync failed", path)

    def replace(self, path: str, content: Content | Buffer) -> None:
        """Write a small file whole, durable at once. Raises DiskFull, DiskFailed: it may have been written nevertheless, if
        its directory was not synced. Raises NotMade."""
        if not isinstance(content, bytes | bytearray | memoryview):
            try:
                content = b"".join(content)
            except Exception as error:
                raise NotMade(repr(error)) from error
        try:
            self.step("replace", path)
        except DiskFailed:
            if self.short is not None and self.short.randrange(2):
                self._replaced_by(path, content)
            raise
        self._may_fail(path)
        if self.replace_full is not None and self.replace_full(path):
            self.refused += 1
            raise self.error(errno.ENOSPC, "no room to replace the file", path)
        if self.kept_size:
            self._take(path, len(memoryview(content).cast("B")), records=False)
            self._give_back(len(self.files[path].data) if path in self.files else 0)
        self._replaced_by(path, content)

    def _replaced_by(self, path: str, content: Buffer) -> None:
        self._make_directories(path)
        inode = Inode(path)
        inode.data += content
        inode.make_durable()
        self.files[path] = inode
        self._settle_new(path)

    # -- faults -------------------------------------------------------------------------------------------------------

    def fail(self, *, reads: bool, gone: bool = False) -> None:
        """From now on nothing can be written, renamed, removed or synced. `reads`: nor read from the device. `gone`: nor
        found."""
        self.failed = True
        self.gone = gone
        self.append_fails = self.sync_fails = lambda path: True
        if reads:
            self.cold = self.unreadable = lambda path, position, size: True

    def work(self) -> None:
        """The device was repaired, and has its content."""
        self.failed = self.gone = False
        self.append_fails = self.sync_fails = self.cold = self.unreadable = self.fault = None

    def unmount(self) -> None:
        """An empty directory is in the place of this one: what is open goes on, and what is named from now on is there."""
        assert self._mounted is None, "it is unmounted already"
        self._mounted, self.files = self.files, Files()

    def mount(self) -> None:
        """The directory is back, and hides what was named meanwhile."""
        assert self._mounted is not None, "it is mounted"
        self.files, self._mounted = self._mounted, None

    @contextmanager
    def readable(self) -> Iterator[None]:
        """A context in which every read succeeds at once, also of a file that has failed, for a checker that looks at the
        content."""
        before = self.cold, self.unreadable, self.gone, self.looked_at
        self.cold, self.unreadable, self.gone, self.looked_at = None, None, False, True
        try:
            yield
        finally:
            self.cold, self.unreadable, self.gone, self.looked_at = before

    def _works(self, path: str) -> None:
        if self.failed:
            self.refused += 1
            raise self.error(errno.EIO, "the device failed", path)

    def keep_room(self, room: int, kept: int) -> None:
        """From now on there are `room` bytes, and `kept` bytes beside them that are kept back."""
        self.room, self.kept_size, self.kept = room, kept, kept

    def unlimited(self) -> None:
        """Let there be room for everything."""
        self.room, self.kept_size, self.kept = None, 0, 0

    @property
    def lacks_room(self) -> bool:
        """Whether no records are taken: what was kept back is given up, and there is no room to keep it again."""
        if self.room is None or not self.kept_size or self.kept:
            return False
        if self.room < 2 * self.kept_size:
            return True
        self.room -= self.kept_size
        self.kept = self.kept_size
        return False

    def take_room(self, file: VirtualFile, size: int) -> None:
        """Raises DiskFull when `size` bytes do not fit; nothing is kept then."""
        if self.room is not None:
            self._take(file.path, size, of_records(file.path))

    def _take(self, path: str, size: int, records: bool) -> None:
        assert self.room is not None
        if size > self.room and not records:
            self.room, self.kept = self.room + self.kept, 0
        if size > self.room or (records and self.lacks_room):
            self.refused += not self.kept_size
            raise self.error(errno.ENOSPC, "no room", path)
        self.room -= size

    def _give_back(self, size: int) -> None:
        if self.room is not None and self.kept_size:
            self.room += size

    def crash(self, random: Random | None = None, keeps: Callable[[Change], bool] | None = None) -> None:
        """Cut the power of the disk. Handles opened before are worthless after. `keeps`: which changes of names that
        were not synced have reached the device; without it all have, or, with a `random`, some."""
        page = random.choice(PAGE_BYTES) if random is not None else 0
        if keeps is None:
            keeps = self._coin if random is not None else lambda change: True
        kept, undone = set[Change](), list[Change]()
        for change in self.unsettled:
            if keeps(change) and not (
                change.of_directory and any(one.old == change.new for one in undone if one.of_directory)
            ):
                kept.add(change)
            else:  # a directory does not take the name of another one that has that again
                undone.append(change)
        numbers = {change.number for change in kept}
        found: dict[str, tuple[int, bytes, int | None]] = {}
        here = [(self.files[path], True) for path in sorted(self.files)]
        for inode, named in [*here, *((one, False) for one in self._replaced)]:
            left = _left(inode, page, random) if named else inode.durable
            path, last = inode.named, 0
            for change in inode.changes:
                if change.number in numbers:
                    path, last = change.done(path), change.number
            if path is not None and _displaced(inode, path, undone):
                continue
            if left is not None and path is not None and last >= found.get(path, (-1,))[0]:
                found[path] = last, left, inode.modified_ms
        self.files.clear()
        self.unsettled.clear()
        self._unnamed.clear()
        self._replaced.clear()
        for path, (_, left, modified_ms) in sorted(found.items()):
            inode = Inode(path)
            inode.modified_ms = modified_ms
            inode.data += left
            inode.make_durable()
            self.files[path] = inode

    def _coin(self, change: Change) -> bool:
        """A coin that is the same for every run of a world, and none of the draws that decide about the rest of it."""
        return bool(hash((change.number, len(change.old), self.appended_bytes)) >> 3 & 1)

    def corrupt(self, path: str, position: int, mask: int = 0xFF) -> None:
        """Flip bits of one byte, in memory and on the device."""
        inode = self.files[path]
        inode.data[position] ^= mask
        if inode.durable is not None and position < len(inode.durable):
            durable = bytearray(inode.durable)
            durable[position] ^= mask
            inode.durable = bytes(durable)


def _displaced(inode: Inode, path: str, undone: list[Change]) -> bool:
    """Whether the directory that a file is in is gone, as one that had its name before has that again."""
    for one in undone:
        if one.of_directory and path.startswith(f"{one.old}/") and one not in inode.changes:
            left = min((own.number for own in inode.changes if own.old == one.old), default=one.number + 1)
            if one.number < left:
                return True
    return False


def _left(inode: Inode, page: int, random: Random | None) -> bytes | None:
    """The part of a file that outlives a power cut; None: not even its name."""
    durable, data = inode.durable, bytes(inode.data)
    if random is None:
        return durable
    if durable is None:
        if random.randrange(2):
            return None
        durable = b""
    elif durable == data:
        return durable
    cut = min(inode.cut, len(durable))
    if cut < len(durable) and random.randrange(2):
        return _undone(durable, data, cut - cut % page, page, random)
    return _grown(durable[:cut], data, inode.ends, page, random)


def _undone(durable: bytes, data: bytes, begin: int, page: int, random: Random) -> bytes:
    """The truncation is undone, but the page in which it cut may have reached the device: with its present content,
    then zeros."""
    end = min(begin + page, len(durable))
    if random.randrange(2):
        return durable
    return durable[:begin] + data[begin:end].ljust(end - begin, b"\0") + durable[end:]


def _grown(base: bytes, data: bytes, ends: list[int], page: int, random: Random) -> bytes:
    """Some of the pages that differ from `base`; then perhaps a shorter end, or zeros up to the whole size."""
    likely = random.choice((0.0, 0.5, 0.5, 0.9, 1.0))
    left = bytearray(base)
    for begin in range(0, len(data), page):
        end = min(begin + page, len(data))
        if data[begin:end] == base[begin:end] or random.random() >= likely:
            continue
        stop = end
        earlier = [one for one in ends if max(begin, len(base)) < one < end]
        if earlier and not random.randrange(4):
            stop = random.choice(earlier)
        left.extend(bytes(max(stop - len(left), 0)))
        left[begin:stop] = data[begin:stop]
    choice = random.randrange(4)
    if choice == 0:
        del left[random.randint(len(base), len(left)) :]
    elif choice == 1:
        left.extend(bytes(random.randint(0, max(len(data) - len(left), 0))))
    return bytes(left)
