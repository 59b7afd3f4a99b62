"""The names in the directory of one log, and which of their changes the disk does not have for certain.

This file alone decides how a log's files change their names, and what a flush has to sync for that to be durable: the
directory itself, the directory above where the log has come from another one, and partition.metadata until it was synced
once. Files that leave the log are renamed, and handed out later as a job that unlinks them. None gets a name under which
another one waits for that: the job would take it, and it may have to have its own name again. Their names say which way the
log became shorter, and with a number which way it did last: names of the time before may lie beside them. Before it becomes
shorter the other way the names are made durable, so that a power cut leaves only changes of one way half done.

What there was no room or no descriptor for is `owed`: names that are to be again what memory says, and files that are no
part of the log any more and that a start would believe. It is done before anything else of the log changes (`settle`), so
none of these files is ever read as true, and no start is needed.
"""

from collections.abc import Callable, Iterable, Sequence
from errno import ENOENT

from actors.broker.log.directories.directory import PARTITION_METADATA
from actors.broker.log.directories.renames import HalfRenamed, Pair, rename_all, torn
from actors.broker.log.segment import DELETED, LOG, Job, unlinking
from actors.ports import Directory, Disk, DiskFailed, DiskFull, File


class Names:
    """The names in one log's directory."""

    __slots__ = (
        "_back", "_durable_changes", "_first", "_highest", "_identified", "_identity", "_unlinks", "_unsure", "_unwanted",
        "_waiting", "_way", "changes", "directory", "disk", "flush_wanted", "placed",
    )  # fmt: skip

    def __init__(self, disk: Disk, directory: str, has_identity: bool) -> None:
        """The names in a directory where this process has changed none. `has_identity`: partition.metadata is written
        beside the first file."""
        self.disk = disk
        self.directory = directory
        """The name of the log's directory on `disk`: `<topic>-<partition>`."""
        self.changes = self._durable_changes = 0
        """How often names in the directory have changed, and how many of these changes are durable."""
        self.placed = True
        """Whether the name of the directory is durable, as far as this process has changed it."""
        self.flush_wanted = False
        """Whether a file was begun, has another name or is to be written again, and no flush was asked for since."""
        self._identity: File | None = None
        """The open file partition.metadata, while a flush syncs it."""
        self._identified = not has_identity
        """Whether partition.metadata is durable. If it existed when the process began, that is not known."""
        self._unlinks: dict[str, None] = {}
        """Files to be unlinked that an operation left when it failed half way: the next one's job does it, or that of
        `PartitionLog.left_over`."""
        self._waiting: set[str] = set()
        """Files of which a job that was handed out may still unlink one of that name."""
        self._way = ""
        """The ending with which segments left last."""
        self._first = self._highest = 0
        """The number from which on their names have one since they go that way, and the highest that any name has had."""
        self._unsure = False
        """Whether names of an earlier process may not be durable."""
        self._back: list[Pair] = []
        """The renames by which names that have changed in part are again what memory says, in their order."""
        self._unwanted: dict[str, str] = {}
        """Files that are no part of the log, under names that a start believes, with the names that they are to have; empty:
        they are to be removed."""

    @property
    def listing(self) -> Directory:
        """The directory with its names, to be synced."""
        return self.disk.directory(self.directory)

    def changed(self) -> None:
        """Note that the name of a file has changed."""
        self.changes += 1
        self.flush_wanted = True

    def go_on_from(self, number: int) -> None:
        """Note the highest number that a start has found in a name. What an earlier process has unlinked a power cut may
        bring back, under a higher one."""
        self._highest, self._unsure = number, True

    def doubts(self) -> Job | None:
        """The job that makes durable what an earlier process has done, as long as nothing has left since: else the first
        change waits for that. None: it is durable. The job raises DiskFull, DiskFailed."""
        return self._make_sure if self._unsure else None

    def _make_sure(self) -> None:
        directory = self.directory
        self.disk.settle(directory)
        if self.directory == directory:  # else it has another name, and nothing was done there
            self._unsure = False

    def ending(self, paths: Iterable[str], ending: str) -> str:
        """The ending with which files of these paths leave the log: `ending`, or one that has a number before it as well.
        May wait for the disk, once. Raises DiskFull, DiskFailed."""
        paths, number = list(paths), 1
        if paths and ending != DELETED:  # of a snapshot
            if ending != self._way:
                if self._unsure or (self._way and self.changes != self._durable_changes):
                    self.disk.settle(self.directory)
                    self._unsure = False
                self._way, self._first = ending, self._highest + 1
            number = self._first
        found = _numbered(ending, number)
        while any(path + found in self._waiting or path + found in self._unlinks for path in paths):
            number += 1
            found = _numbered(ending, number)
        self._highest = max(self._highest, number)
        return found

    def leave(self, pairs: Sequence[Pair], last: Callable[[], None] | None = None) -> None:
        """Give files the names under which they wait to be unlinked, and then do what is `last`. Raises what `last` raises;
        DiskFull or DiskFailed: no file has such a name; HalfRenamed, Torn."""
        rename_all(self.disk, pairs, last)
        if pairs:
            self._unlinks.update((name, None) for _, name in pairs)
            self.changed()

    def unlink_later(self, paths: Iterable[str]) -> None:
        """Let the next operation's job, or that of `PartitionLog.left_over`, unlink files that have left the log."""
        self._unlinks.update(dict.fromkeys(paths))

    # ---- what there was no room for

    @property
    def owed(self) -> bool:
        """Whether there was no room for something that has to be done before the log changes again."""
        return bool(self._back or self._unwanted)

    def owe(self, half: HalfRenamed) -> None:
        """Note that names have changed in part, and are to be changed back."""
        assert not self._back, "nothing is renamed before that"
        self._back = list(half.back)
        self.changed()

    def discard(self, path: str, to: str = "") -> None:
        """Remove a file that is no part of the log any more, or name it `to`, now or when there is room for it. Raises
        DiskFailed."""
        try:
            self._take_away(path, to)
        except DiskFull:
            self._unwanted.setdefault(path, to)
        self.changes += 1

    def _take_away(self, path: str, to: str) -> None:
        if not to:
            self.disk.remove(path)
            return
        try:
            self.disk.rename(path, to)
        except DiskFailed as error:
            if error.errno != ENOENT:  # else it was removed under the running broker
                raise

    def take_back(self) -> None:
        """Change names back that have changed in part. Raises DiskFull: some are left; Torn."""
        while self._back:
            now, before = self._back[0]
            try:
                if not before.endswith(LOG) and self.disk.exists(before):
                    self._unlinks[now] = None  # an index that memory had to give up meanwhile is the whole one
                else:
                    self.disk.rename(now, before)
            except DiskFailed as error:
                raise torn(self.disk, now, error) from error
            del self._back[0]
            self.changed()

    def settle(self) -> None:
        """Do what is owed. Raises DiskFull: some of it is left; DiskFailed, Torn."""
        self.take_back()
        while self._unwanted:
            path, to = next(iter(self._unwanted.items()))
            self._take_away(path, to)
            del self._unwanted[path]
            self.changed()

    def take_unlinks(self) -> list[Job]:
        """The job that unlinks the files that have left the log."""
        paths, self._unlinks = list(self._unlinks), {}
        self._waiting.update(paths)
        return [unlinking(self.disk, self.directory, paths, self._waiting)] if paths else []

    def leave_directory(self) -> None:
        """Note that the log's directory is another log's now, or nobody's: no job unlinks anything there any more."""
        self._waiting.clear()

    def move(self, directory: str) -> None:
        """Give the log's directory another name. Raises DiskFull, DiskFailed: it has its old name."""
        self.settle()
        self.disk.rename(self.directory, directory)
        # A job that was handed out looks where the log was, and finds nothing.
        left, before = [*self._unlinks, *self._waiting], len(self.directory)
        self._waiting.clear()
        self._unlinks = {directory + path[before:]: None for path in left}
        self.directory = directory
        self.placed = False
        self.release()

    def unsynced(self, has_segments: bool) -> tuple[list[File | Directory], list[File | Directory]]:
        """What a flush syncs before the log's files, and after them. Raises DiskFailed."""
        after = list[File | Directory]()
        if not self._identified and has_segments:
            if self._identity is None:
                self._identity = self._open_identity()
            after.append(self._identity)
        if not self.placed:
            after.append(self.disk.directory(self.directory.rpartition("/")[0]))
        return [self.listing] if self.changes != self._durable_changes else [], after

    def _open_identity(self) -> File:
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            return self.disk.open(path)
        except FileNotFoundError as error:  # the log directory was unmounted or moved away
            raise DiskFailed(error.errno, "the file is gone", path) from None

    def flushed(self, files: Sequence[File | Directory], changes: int) -> None:
        """Note that a sync of these files, and of that many changes of names, is done."""
        if self._identity is not None and self._identity in files:
            self._identified = True
            self.release()
        self._durable_changes = max(self._durable_changes, changes)

    def release(self) -> None:
        """Close partition.metadata, if it is open."""
        if self._identity is not None:
            self._identity.close()
            self._identity = None


def _numbered(ending: str, number: int) -> str:
    return ending if number == 1 else f".{number}{ending}"
