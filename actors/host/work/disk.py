"""The real disk: `Disk` and `File` of `ports/` on a directory of a Linux file system.

This file alone handles file descriptors and the errors that the kernel reports for them. Rules:

1. Opening a file costs a stat; a descriptor is taken on first use. At most `handles_max` are open at once: the one used
   longest ago is closed, and opened again when needed. A pinned one (a sync is waiting for it) stays. If the process
   has no descriptor left, a quarter of them is closed. Only the thread that made the disk does that, as another thread
   could close one in use; other threads wait. What a lack of descriptors or of memory means is in `shortages.py`.
2. A read asks the page cache only (RWF_NOWAIT). What is not there is None: a read never waits. On file systems without
   this flag (tmpfs) reads are plain.
3. An append is all or nothing: when the disk is full, the file is truncated to its old size. What may have the room that is
   kept back for then is tried once more with it (`kept_room.py`).
4. After an error of the device, every later call on the file fails too. The error names path and position. What is to be
   written or renamed and is not there has failed too: the node removes nothing that it writes, so the whole directory was
   unmounted or moved away. A file that is opened or read may be missing: FileNotFoundError.
5. A cold read may run in a thread beside the loop, because it uses a descriptor of its own. So may a read of what is at
   rest, which goes past the page cache.
"""

import contextlib
import errno
import mmap
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from actors.host.work import durable
from actors.host.work.descriptors import Reserve
from actors.host.work.kept_room import NO_ROOM, KeptRoom, of_records
from actors.host.work.shortages import AGAIN_S, NO_DESCRIPTOR, SHORT
from actors.ports import Buffer, DiskFailed, DiskFull, NotMade, Space
from fastpath.bytes.frame_pool import Pool

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG)) | SHORT
"""Errors that say nothing about the device: there is no room on the disk, or the process lacks descriptors or memory.
"""
NO_NOWAIT = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL))
T = TypeVar("T")

DIRECT = getattr(os, "O_DIRECT", 0)
"""The flag of reads past the page cache; 0: this system has none."""
DIRECT_BYTES = 4096
"""The alignment in bytes of a direct read."""
PARTS_MAX = 512
POOLED_BYTES = 32 << 10
HANDLES_MAX = 4096
GONE_MAX = 1 << 16
"""The number of names remembered as gone: far more than are renamed while a small file waits for its sync."""


NONE = Reserve(0)

Named = set[tuple["LocalDisk", str]]
"""Directories, by disk and path."""


class LocalFile:
    """One file of a log directory. Invariant: `size` is the file's size, since no other process writes it."""

    __slots__ = ("_created", "_disk", "_failed", "_fd", "_pins", "_size", "modified_ms", "path")

    def __init__(self, disk: "LocalDisk", path: str, size: int, created: bool, modified_ms: int | None = None) -> None:
        self._disk = disk
        self.path = path
        """The path relative to the disk's root. A rename changes it."""
        self._size = size
        self._fd = -1
        self._pins = 0
        self._created = created
        """Whether the file's name, the first or the present one, is not durable yet: the next sync covers the directory
        too."""
        self._failed: DiskFailed | None = None
        self.modified_ms = modified_ms

    @property
    def size(self) -> int:
        return self._size

    @property
    def disk(self) -> "LocalDisk":
        """The disk on which the file lies."""
        return self._disk

    def append(self, parts: Sequence[Buffer]) -> int:
        """Append all parts to the file. Raises DiskFull (nothing is kept) or DiskFailed."""
        fd = self._fd if self._fd >= 0 and self._failed is None else self._open_for("append")
        disk = self._disk
        if disk.crowded or disk.room.full:
            disk.admit(self)
        size, given = self._size, disk.room.given
        try:
            if len(parts) == 1:
                wanted = memoryview(parts[0]).nbytes
                written = os.pwrite(fd, parts[0], size)
            else:
                wanted = sum(memoryview(part).nbytes for part in parts)
                written = os.pwritev(fd, parts[:PARTS_MAX], size)
            if written != wanted:
                self._write_rest(fd, parts, written)
        except OSError as error:
            wanted = self._append_again(fd, parts, error, given)
        self._size = size + wanted
        return self._size

    def _append_again(self, fd: int, parts: Sequence[Buffer], error: OSError, given: int) -> int:
        """Append once more with the room that was kept back, since an append has failed; also if a thread has given
        that room up since the append began (`given`: before that). Returns the bytes that the file has. Raises
        DiskFull, DiskFailed."""
        if error.errno not in NO_ROOM or of_records(self.path) or not self._disk.give_room(given):
            raise self._append_failed(fd, error) from None
        try:
            self._write_rest(fd, parts, 0)
        except OSError as again:
            raise self._append_failed(fd, again) from None
        return sum(memoryview(part).nbytes for part in parts)

    def _write_rest(self, fd: int, parts: Sequence[Buffer], written: int) -> None:
        """Write the rest of an append: the kernel took only `written` bytes, or there were more parts than it takes at
        once."""
        position = self._size
        done = 0
        for part in parts:
            view = memoryview(part).cast("B") if memoryview(part).nbytes else memoryview(b"")
            start = max(0, written - done)
            while start < len(view):
                count = os.pwrite(fd, view[start:], position + done + start)
                if count == 0:
                    raise OSError(errno.EIO, "the kernel takes no more bytes")
                start += count
            done += len(view)

    def _append_failed(self, fd: int, error: OSError) -> OSError:
        if error.errno in FULL:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self._size)
            return self._disk.error(error, f"no room at byte {self._size}", self._absolute())
        return self._fail(error, "append", self._size)

    def read(self, position: int, size: int) -> memoryview | None:
        """Read from the page cache, without waiting. None: not all of it is there. Raises DiskFailed."""
        size = min(size, self._size - position)
        if size <= 0:
            return memoryview(b"")
        disk = self._disk
        if not disk.nowait:
            return self.read_cold(position, size)
        try:
            fd = self._fd if self._fd >= 0 and self._failed is None else self._open()
        except DiskFull:  # no descriptor: a thread waits for one
            return None
        if disk.crowded:
            disk.used(self)
        target = disk.pool.take(size) if size >= POOLED_BYTES else memoryview(bytearray(size))
        try:
            count = os.preadv(fd, (target,), position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in NO_NOWAIT:
                disk.nowait = False
                return self.read_cold(position, size)
            if error.errno in SHORT:
                return None
            raise self._fail(error, "read", position) from None
        return target if count == size else None

    def read_cold(self, position: int, size: int) -> memoryview:
        """Read from the disk. May block; any thread may call it. Raises DiskFailed; DiskFull, by the loop's thread alone, if
        there is no descriptor."""
        size = min(size, self._size - position)
        if size <= 0:
            return memoryview(b"")
        target = self._disk.pool.take(size) if size >= POOLED_BYTES else memoryview(bytearray(size))
        fd = self._own_descriptor()
        done = 0
        try:
            while done < size:
                count = self._disk.taken(partial(os.preadv, fd, (target[done:],), position + done))
                if count == 0:
                    break
                done += count
        except OSError as error:
            raise self._fail(error, "read", position + done) from None
        finally:
            os.close(fd)
        return target[:done]

    def read_at_rest(self, position: int, size: int) -> memoryview:
        """Read from the device, past the page cache where the file system can. May block; any thread may call it. Raises
        DiskFailed, FileNotFoundError."""
        size = min(size, self._size - position)
        if size <= 0:
            return memoryview(b"")
        fd = self._direct()
        if fd < 0:
            return self.read_cold(position, size)
        begin = position // DIRECT_BYTES * DIRECT_BYTES
        lead = position - begin
        whole = (lead + size + DIRECT_BYTES - 1) // DIRECT_BYTES * DIRECT_BYTES
        target = memoryview(mmap.mmap(-1, whole))
        done = 0
        try:
            while done < lead + size:
                count = os.preadv(fd, (target[done:],), begin + done)
                done += count
                if count == 0 or count % DIRECT_BYTES:
                    break  # the end of the file
        except OSError as error:
            if error.errno in NO_NOWAIT:
                return self.read_cold(position, size)
            raise self._fail(error, "read", begin + done) from None
        finally:
            os.close(fd)
        return target[lead : min(done, lead + size)]

    def _direct(self) -> int:
        """A descriptor that reads past the page cache; -1: the file system has none. Raises DiskFailed,
        FileNotFoundError."""
        if self._failed is not None:
            raise self._failed
        while True:
            path = self.path
            try:
                return self._disk.descriptor(self._absolute(), os.O_RDONLY | DIRECT) if DIRECT else -1
            except FileNotFoundError:
                if self.path == path:  # else it was renamed just now
                    raise
            except OSError as error:
                if error.errno in NO_NOWAIT:
                    return -1
                raise self._fail(error, "open", 0) from None

    def overwrite(self, position: int, data: Buffer) -> None:
        """Overwrite bytes that exist, which lie below `size`. Raises DiskFull, DiskFailed."""
        view = memoryview(data).cast("B")
        assert position + len(view) <= self._size, "overwrite is for bytes that exist"
        fd = self._open_for("overwrite")
        try:
            self._disk.with_room(partial(_write_whole, fd, view, position))
        except OSError as error:
            if error.errno in FULL:
                raise self._disk.error(error, f"no room at byte {position}", self._absolute()) from None
            raise self._fail(error, "overwrite", position) from None

    def truncate(self, size: int) -> None:
        """Make the file shorter. Raises DiskFailed."""
        assert size <= self._size, "truncate only cuts"
        fd = self._open_for("truncate")
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            raise self._fail(error, "truncate", size) from None
        self._size = size

    def close(self) -> None:
        """Close the descriptor. A second call does nothing; a later read or append opens the file again."""
        self._disk.forget(self)

    # -- for the syncing thread's caller ------------------------------------------------------------------------------

    def fileno(self) -> int:
        """The descriptor, opened if need be. Any later call may close it unless `pin` holds it."""
        return self._open()

    def pin(self, named: "Named | None" = None) -> list[int]:
        """The descriptors to sync: the file's and, if its name is new, its directory's; and, as far as the names of the
        directories above it may not be durable, those that hold them. They stay open until `unpin`. `named`: directories
        that are synced before it anyway, by which every name is durable that there is now; these are added to it.

        For a file that was removed meanwhile, the list is empty. Raises DiskFailed; DiskFull if there are no descriptors
        for it now: it may be pinned later.
        """
        try:
            fds = [self._open()]
        except FileNotFoundError:
            return []
        self._pins += 1
        if self._created or not self._disk.is_placed(self.path):
            paths = self._disk.unnamed(self.path)
            new = paths if self._created else paths[1:]
            new = [path for path in new if named is None or (self._disk, path.rpartition("/")[0]) not in named]
            try:
                for path in new:
                    fds.append(self._disk.directory_descriptor(path))
            except OSError as error:
                self._disk.still_unnamed(paths[1:])
                if isinstance(error, FileNotFoundError) and not self._created:
                    return fds  # the log directory was unmounted or moved away
                if (fd := self.unpin(fds)) >= 0:
                    os.close(fd)
                if isinstance(error, FileNotFoundError):
                    return []
                raise self._fail(error, "opening the directory", 0) from None
            if named is not None:
                named.update((self._disk, path.rpartition("/")[0]) for path in new)
            self._created = False
        return fds

    def unpin(self, fds: Sequence[int]) -> int:
        """Give back the descriptors that `pin` returned. One that is returned is left to the caller to close, -1: none: the
        file was closed while it was pinned. It may have been removed too, and then to close it frees all that it held."""
        if not fds:
            return -1
        self._pins -= 1
        for directory in fds[1:]:
            os.close(directory)
        return -1 if self._disk.holds(self) else self._disk.let_go(self)

    # -- descriptors --------------------------------------------------------------------------------------------------

    def _open(self) -> int:
        if self._failed is not None:
            raise self._failed
        disk = self._disk
        if self._fd < 0:
            try:
                self._fd = disk.descriptor(self._absolute(), os.O_RDWR)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise self._fail(error, "open", 0) from None
        disk.used(self)
        return self._fd

    def _open_for(self, doing: str) -> int:
        """The descriptor, to write. Raises DiskFailed, also where the file is missing."""
        try:
            return self._open()
        except FileNotFoundError as error:
            raise self._fail(error, doing, self._size) from None

    def _own_descriptor(self) -> int:
        if self._failed is not None:
            raise self._failed
        try:
            return self._disk.taken(self._copy)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._fail(error, "open", 0) from None

    def _copy(self) -> int:
        with self._disk.closing:
            if self._fd >= 0:
                return os.dup(self._fd)
        while True:
            path = self._absolute()
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                if self._renamed_since(path):
                    continue
                raise
            if not self._renamed_since(path):
                return fd
            os.close(fd)  # another file may have got the name before it was opened

    def _renamed_since(self, path: str) -> bool:
        """Whether the file has another name than `path`. A rename that is under way is waited for."""
        with self._disk.naming:
            return self._absolute() != path

    def _absolute(self) -> str:
        return f"{self._disk.root}/{self.path}"

    def _fail(self, error: OSError, doing: str, position: int) -> DiskFailed | DiskFull:
        if error.errno in FULL:
            return self._disk.error(error, f"{doing} is not possible now: {error.strerror}", self._absolute())
        sentence = f"{doing} failed at byte {position}: {error.strerror}"
        self._failed = DiskFailed(error.errno, sentence, self._absolute())
        self._failed.disk = self._disk
        return self._failed


def _write_whole(fd: int, view: memoryview, position: int) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], position + done)


class LocalDirectory:
    """The names in a directory, for a sync."""

    __slots__ = ("disk", "path")

    def __init__(self, disk: "LocalDisk", path: str) -> None:
        self.disk = disk
        """The disk on which the directory lies."""
        self.path = path
        """The path relative to the disk's root; empty: the root itself."""

    def pin(self, named: "Named | None" = None) -> list[int]:
        """The descriptor to sync. For a directory that was removed or renamed meanwhile, or is in `named`, it is empty.
        Raises DiskFailed; DiskFull if there is no descriptor for it now."""
        absolute = f"{self.disk.root}/{self.path}"
        if named is not None:
            if (self.disk, self.path) in named:
                return []
            named.add((self.disk, self.path))
        try:
            return [self.disk.descriptor(absolute, os.O_RDONLY | os.O_DIRECTORY)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self.disk.error(error, f"opening the directory failed: {error.strerror}", absolute) from None

    def unpin(self, fds: Sequence[int]) -> int:
        """Close what `pin` returned; -1: nothing is left to close."""
        for fd in fds:
            os.close(fd)
        return -1


class LocalDisk:
    """The disk of one log directory."""

    def __init__(
        self,
        root: str,
        handles_max: int = HANDLES_MAX,
        pool: Pool | None = None,
        reserve: Reserve | None = None,
        kept_bytes: int = 0,
        synced: bool = True,
    ) -> None:
        """`root` is the path of the log directory. `reserve`: descriptors for when the process has none left.
        `kept_bytes`: room for when the disk is full. `synced`: False: what the kernel has counts as durable."""
        self.root = root
        """The absolute path of the directory."""
        self.synced = synced
        """Whether a sync waits for the device. Where it does not, a kill takes nothing, and a loss of power may."""
        self._reserve = reserve
        self.handles_max = handles_max
        self.nowait = hasattr(os, "RWF_NOWAIT")
        """Whether this file system can read from the page cache only."""
        self.pool = Pool(64 << 20) if pool is None else pool
        self.closing = threading.Lock()
        """Held while a descriptor is taken from its file, so that a thread never copies one that is being closed."""
        self.crowded = False
        """Whether more than half of the descriptors are in use. From then on the order of use is kept."""
        self.room = KeptRoom(root, kept_bytes)
        self._thread = threading.get_ident()
        self._handles: OrderedDict[LocalFile, None] = OrderedDict()
        """Files whose descriptor counts towards `handles_max`, the one used longest ago first."""
        self._files: dict[str, dict[str, list[LocalFile]]] = {}
        """Every file that was opened and not closed, by directory and name, so that a rename can change its path."""
        self.naming = threading.Lock()
        """Held while `_files`, `_gone` or the path of a file changes: a job in a thread may open an index, or a file that is
        being renamed."""
        self._gone: dict[str, None] = {}
        """Names that were renamed or removed, the last GONE_MAX. A small file for such a directory comes too late."""
        self._placed = {""}
        """Directories whose names a sync of a file makes durable, or has. All others may have been made a moment ago, here
        or by a process that was killed."""
        self._named: set[str] = set()
        """Directories whose names a replacement of a small file has made durable. These do not wait for the syncs of
        files."""
        self.departures = 0
        """How many names have been renamed or removed."""
        self._left: dict[str, int] = {}
        """The value of `departures` when a name last went, even if the name exists again; the last GONE_MAX."""

    # -- ports.Disk ---------------------------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> LocalFile:
        """The file at a path, made if `create` and missing. Raises FileNotFoundError, DiskFull, DiskFailed."""
        absolute = f"{self.root}/{path}"
        created, modified_ms = False, None
        try:
            found = os.stat(absolute)
            size, modified_ms = found.st_size, found.st_mtime_ns // 1_000_000
        except (FileNotFoundError, NotADirectoryError) as error:
            if not create:
                raise FileNotFoundError(error.errno, error.strerror, absolute) from None
            self._create(path, absolute)
            size, created = 0, True
        except OSError as error:
            raise self.error(error, f"open failed: {error.strerror}", absolute) from None
        file = LocalFile(self, path, size, created, modified_ms)
        directory, _, name = path.rpartition("/")
        with self.naming:
            self._files.setdefault(directory, {}).setdefault(name, []).append(file)
        return file

    def _create(self, path: str, absolute: str) -> None:
        directory = path.rpartition("/")[0]
        flags = os.O_RDWR | os.O_CREAT

        def create() -> None:
            try:
                fd = self.descriptor(absolute, flags)
            except FileNotFoundError:
                self._make_directory(directory)
                with self.naming:
                    self._gone.pop(directory, None)
                fd = self.descriptor(absolute, flags)
            os.close(fd)

        try:
            self.with_room(create)
        except OSError as error:
            raise self.error(error, f"create failed: {error.strerror}", absolute) from None

    def _make_directory(self, directory: str) -> None:
        """Make a directory and its parents. The first sync of a file in it makes their names durable, and so does the first
        replacement of a small file in it."""
        missing = []
        while directory and not os.path.isdir(f"{self.root}/{directory}"):
            missing.append(directory)
            directory = directory.rpartition("/")[0]
        for one in reversed(missing):
            self._placed.discard(one)
            self._named.discard(one)
            with contextlib.suppress(FileExistsError):  # a thread that writes a small file was faster
                os.mkdir(f"{self.root}/{one}", durable.DIRECTORY_MODE)

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; none if it is missing. Raises DiskFailed."""
        try:
            return sorted(self.taken(lambda: os.listdir(f"{self.root}/{path}")))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self.error(error, f"list failed: {error.strerror}", path) from None

    def exists(self, path: str) -> bool:
        """Whether something has that path. Raises DiskFull, DiskFailed."""
        absolute = f"{self.root}/{path}"
        try:
            os.stat(absolute)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self.error(error, f"stat failed: {error.strerror}", absolute) from None
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory; open files follow. Raises DiskFull, or DiskFailed, also if nothing has the old
        name."""
        with self.naming:
            try:
                self.with_room(lambda: os.rename(f"{self.root}/{old}", f"{self.root}/{new}"))
            except OSError as error:
                # A server of files may have renamed, and its answer was lost.
                if error.errno == errno.ENOENT or self._exists(old) or not self._exists(new):
                    raise self.error(error, f"rename failed: {error.strerror}", old) from None
            self._renamed(old, new)

    def _exists(self, path: str) -> bool:
        return os.path.lexists(f"{self.root}/{path}")

    def error(self, error: OSError, sentence: str, path: str) -> DiskFull | DiskFailed:
        """The exception for an error of the kernel on this disk."""
        kind = DiskFull if error.errno in FULL else DiskFailed
        found = kind(error.errno, sentence, path)
        found.disk = self
        return found

    def directory(self, path: str) -> "LocalDirectory":
        return LocalDirectory(self, path)

    def settle(self, path: str) -> None:
        """Make the names in a directory durable; blocks. Raises DiskFailed."""
        try:
            self.sync_directory(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.error(error, f"fsync failed: {error.strerror}", f"{self.root}/{path}") from None

    def _renamed(self, old: str, new: str) -> None:
        moved = self._files.pop(old, None)
        if moved is not None:
            self._files[new] = moved
            for files in moved.values():
                for file in files:
                    file.path = f"{new}/{file.path.rpartition('/')[2]}"
        self._leave(old)
        self._gone.pop(new, None)
        directory, _, name = old.rpartition("/")
        files = self._files.get(directory, {}).pop(name, [])
        if files:
            directory, _, name = new.rpartition("/")
            for file in files:
                file.path = new
                file._created = True
            self._files.setdefault(directory, {}).setdefault(name, []).extend(files)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it; a missing one is no error. Raises DiskFailed."""
        absolute = f"{self.root}/{path}"
        try:
            if os.path.isdir(absolute) and not os.path.islink(absolute):
                with self.naming:
                    self._leave(path)
                self.with_room(lambda: self.taken(lambda: shutil.rmtree(absolute)))
            else:
                self.with_room(lambda: os.unlink(absolute))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self.error(error, f"remove failed: {error.strerror}", absolute) from None

    def space(self) -> Space:
        """The size of the file system and its free room, in bytes. Raises DiskFailed."""
        try:
            volume = os.statvfs(self.root)
        except OSError as error:
            raise self.error(error, f"statvfs failed: {error.strerror}", self.root) from None
        return Space(volume.f_frsize * volume.f_blocks, volume.f_frsize * volume.f_bavail)

    def _leave(self, name: str) -> None:
        self.departures += 1
        self._placed.discard(name)
        self._named.discard(name)
        self._gone.pop(name, None)
        self._gone[name] = None
        self._left.pop(name, None)
        self._left[name] = self.departures
        for names in (self._gone, self._left):
            if len(names) > GONE_MAX:
                del names[next(iter(names))]

    # -- for the host's syncing thread --------------------------------------------------------------------------------

    def replace(self, path: str, content: Buffer | Iterable[Buffer], asked: int | None = None) -> None:
        """Write a small file whole: temporary name, sync, rename, sync of the directory. Blocks; from any thread.

        `asked`: the value of `departures` when the replacement was submitted. If its directory has been renamed or
        removed since, nothing is written, even if another directory has that name now. Raises DiskFull, DiskFailed, NotMade.
        """
        self.with_room(lambda: self.taken(lambda: self._replace(path, content, asked)))

    def _replace(self, path: str, content: Buffer | Iterable[Buffer], asked: int | None) -> None:
        directory = path.rpartition("/")[0]
        absolute, temporary = f"{self.root}/{path}", f"{self.root}/{path}.tmp"
        departures = self.departures
        try:
            try:
                durable.write_file(temporary, content, self.synced)
            except FileNotFoundError:
                if directory in self._gone:
                    return
                if not os.path.isdir(self.root):
                    raise
                self._make_directory(directory)
                durable.write_file(temporary, content, self.synced)
            if self._went(directory, asked):
                os.unlink(temporary)
                return
            os.replace(temporary, absolute)
            new = self.new_directories(directory)
            for one in (directory, *(one.rpartition("/")[0] for one in new)):
                self.sync_directory(one)
            self.are_named(new, departures)
        except FileNotFoundError as error:
            if directory not in self._gone and not self._went(directory, asked):
                raise self.error(error, f"replace failed: {error.strerror}", absolute) from None
        except OSError as error:
            if error.errno in FULL:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            raise self.error(error, f"replace failed: {error.strerror}", absolute) from None
        except (NotMade, MemoryError):
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def write_beside(self, path: str, content: Buffer, *, wait: bool = True) -> int:
        """Write the content that a small file is to have under its temporary name. Returns a descriptor, which the caller
        syncs and closes before `place`; -1: there is none for it now, and it is not to `wait` for one. From any thread;
        raises DiskFull, DiskFailed; FileNotFoundError: there is no such directory."""
        temporary = f"{self.root}/{path}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

        def write() -> int:
            fd = os.open(temporary, flags | os.O_CLOEXEC, durable.FILE_MODE)
            try:
                _write_whole(fd, memoryview(content).cast("B") if content else memoryview(b""), 0)
            except BaseException:
                os.close(fd)
                raise
            return fd

        try:
            return self.with_room(lambda: self.taken(write) if wait else write())
        except FileNotFoundError:
            raise
        except OSError as error:
            if not wait and error.errno in SHORT:
                return -1
            if error.errno in FULL:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            raise self.error(error, f"replace failed: {error.strerror}", path) from None

    def place(self, path: str, asked: int | None) -> bool:
        """Give what `write_beside` wrote its name; `asked` as for `replace`. Its directory is to be synced then. False: it
        went, and so has the file. From any thread; raises DiskFull, DiskFailed."""
        directory = path.rpartition("/")[0]
        absolute, temporary = f"{self.root}/{path}", f"{self.root}/{path}.tmp"
        try:
            if self._went(directory, asked):
                os.unlink(temporary)
                return False
            self.with_room(lambda: os.replace(temporary, absolute))
        except FileNotFoundError as error:
            if directory not in self._gone and not self._went(directory, asked):
                raise self.error(error, f"replace failed: {error.strerror}", absolute) from None
            return False
        except OSError as error:
            raise self.error(error, f"replace failed: {error.strerror}", absolute) from None
        return True

    def take_back(self, path: str) -> None:
        """Unlink what `write_beside` wrote, if it is there. From any thread."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self.root}/{path}.tmp")

    def _went(self, directory: str, asked: int | None) -> bool:
        return asked is not None and self._left.get(directory, 0) > asked

    def sync_directory(self, directory: str) -> None:
        """Make the names in a directory durable. Blocks; raises OSError."""
        if not self.synced:
            return
        fd = os.open(f"{self.root}/{directory}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def is_placed(self, path: str) -> bool:
        """Whether a sync of a file has made durable the names of the directories above a path, or does so now."""
        return path.rpartition("/")[0] in self._placed

    def unnamed(self, path: str) -> list[str]:
        """The path and the directories above it whose names may not be durable: the caller syncs those that hold them."""
        found = [path]
        while (directory := found[-1].rpartition("/")[0]) not in self._placed:
            self._placed.add(directory)
            found.append(directory)
        return found

    def still_unnamed(self, directories: Sequence[str]) -> None:
        """Note that the names of directories that `unnamed` returned have not been made durable."""
        self._placed.difference_update(directories)

    def new_directories(self, directory: str) -> list[str]:
        """A directory and the ones above it, as far as their names are not known to be durable. The caller replaces a small
        file: it syncs the directories in which these lie too, and calls `are_named`. From any thread."""
        found: list[str] = []
        while directory and directory not in self._named:
            found.append(directory)
            directory = directory.rpartition("/")[0]
        return found

    def are_named(self, directories: Iterable[str], departures: int) -> None:
        """Note that the names of directories are durable. `departures`: the value before the small file was placed; another
        directory may have such a name since. From any thread."""
        with self.naming:
            self._named.update(one for one in directories if not self._went(one, departures))

    def directory_descriptor(self, path: str) -> int:
        """A descriptor of the directory that `path` lies in, for a sync; the caller closes it."""
        return self.descriptor(os.path.dirname(f"{self.root}/{path}"), os.O_RDONLY | os.O_DIRECTORY)

    # -- room ---------------------------------------------------------------------------------------------------------

    @property
    def lacks_room(self) -> bool:
        """Whether no records are appended: the room that was kept back is given up, or there was none to keep."""
        return self.room.full

    def admit(self, file: LocalFile) -> None:
        """Let an append begin while descriptors are crowded or room lacks. Raises DiskFull."""
        if self.lacks_room and of_records(file.path):
            sentence = (
                f"no room: the {self.room.size} bytes that are kept back are for what makes room, not for records"
            )
            raise self.error(OSError(errno.ENOSPC, sentence), sentence, file._absolute())
        self.used(file)

    def with_room(self, do: Callable[[], T]) -> T:
        """What `do` returns; if it finds no room, it runs once more with the room that is kept back. Any thread may
        call it. Raises OSError."""
        given = self.room.given
        try:
            return do()
        except OSError as error:
            if error.errno not in NO_ROOM or not self.give_room(given):
                raise
        return do()

    def give_room(self, given: int) -> bool:
        """Give up the room that is kept back, unless that was done since `given`. False: there is none left."""
        return self.room.give(given)

    def has_room_again(self) -> bool:
        """Whether room can be kept back again; `keep_room` does it. Asked about once a second while room lacks."""
        try:
            return self.room.fits_twice()
        except OSError:
            return False

    def keep_room(self) -> None:
        """Keep room back again. May block; any thread may call it."""
        self.room.keep()

    # -- descriptors --------------------------------------------------------------------------------------------------

    def descriptor(self, absolute: str, flags: int, *, wait: bool = True) -> int:
        """A new descriptor of a file; `wait`: as `taken` does if there is none. Raises OSError."""

        def opened() -> int:
            return os.open(absolute, flags | os.O_CLOEXEC, durable.FILE_MODE)

        return self.taken(opened) if wait else opened()

    def taken(self, take: Callable[[], T]) -> T:
        """What `take` returns, which needs a descriptor. If something is lacking for it, a thread beside the loop waits; the
        loop's closes older ones, then takes from the reserve, then raises. Raises OSError."""
        while True:
            try:
                return take()
            except OSError as error:
                if error.errno not in SHORT:
                    raise
                helped = error.errno in NO_DESCRIPTOR and (self.shed() or (self._reserve or NONE).lend())
                if not helped and threading.get_ident() == self._thread:
                    raise
            if not helped:
                time.sleep(AGAIN_S)

    def shed(self) -> bool:
        """Close a quarter of the descriptors, those used longest ago. False: none may be closed."""
        if threading.get_ident() != self._thread:
            return False
        loose = [file for file in self._handles if not file._pins]
        for file in loose[: len(loose) // 4 + 1]:
            self._close(file)
        return bool(loose)

    def used(self, file: LocalFile) -> None:
        """Note that `file` has a descriptor and was just used."""
        handles = self._handles
        if file in handles:
            if self.crowded:
                handles.move_to_end(file)
                self.crowded = len(handles) > self.handles_max // 2
            return
        handles[file] = None
        self.crowded = len(handles) > self.handles_max // 2
        while len(handles) > self.handles_max:
            oldest = next((held for held in handles if not held._pins and held is not file), None)
            if oldest is None:
                break
            self._close(oldest)

    def holds(self, file: LocalFile) -> bool:
        """Whether a file's descriptor counts among the open ones."""
        return file in self._handles

    def forget(self, file: LocalFile) -> None:
        """Forget a file that its owner closes, and close its descriptor."""
        with self.naming:
            directory, _, name = file.path.rpartition("/")
            names = self._files.get(directory)
            if names is not None and file in names.get(name, ()):
                names[name].remove(file)
                if not names[name]:
                    del names[name]
                if not names:
                    del self._files[directory]
        self._close(file)

    def _close(self, file: LocalFile) -> None:
        self._handles.pop(file, None)
        self.loosen(file)

    def loosen(self, file: LocalFile) -> None:
        """Close the descriptor of a file, unless a sync waits for it."""
        if (fd := self.let_go(file)) >= 0:
            os.close(fd)

    def let_go(self, file: LocalFile) -> int:
        """Take the descriptor of a file away from it, unless a sync waits for it; -1: it has none."""
        if file._fd < 0 or file._pins:
            return -1
        with self.closing:
            fd, file._fd = file._fd, -1
        return fd

    @property
    def handles(self) -> int:
        """How many descriptors are open now."""
        return len(self._handles)
