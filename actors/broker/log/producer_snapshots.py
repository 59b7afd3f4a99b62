"""The snapshots of the producers' state that one log keeps: those on the disk, and those that the next flush writes.

This file alone decides which snapshot a rebuilt state begins with: the newest sound one. One that is not sound is forgotten.
One of an offset that the log has not any more is forgotten at once, and its file goes before anything is appended
(`names.py`). Where it was the last one a start would take the log for one without producers: it has another name then until
there is a snapshot again, and a start that finds it there reads the log from its beginning.
"""

from collections.abc import Iterable, Sequence

from actors.broker.log.directories.renames import Pair, present
from actors.broker.log.names import Names
from actors.broker.log.producers.producers import CorruptSnapshot, Producers
from actors.broker.log.segment import DELETED

SNAPSHOT = ".snapshot"


class ProducerSnapshots:
    """The snapshots of one log."""

    __slots__ = ("_begun", "_names", "left", "offsets", "pending")

    def __init__(self, names: Names) -> None:
        self._names = names
        self.offsets: list[int] = []
        """The offsets of the snapshots that are on the disk, rising."""
        self.pending: dict[int, bytes] = {}
        """The content of the snapshots that the next flush writes, by offset."""
        self._begun: set[int] = set()
        """The offsets of snapshots that a flush may have written that has not ended, or has found no room for the rest."""
        self.left: list[str] = []
        """The names of snapshots that have left the log and say that it had some, while there is none on the disk."""

    def __bool__(self) -> bool:
        return bool(self.offsets or self.pending)

    def path(self, offset: int) -> str:
        """The path of a snapshot's file."""
        return f"{self._names.directory}/{offset:020d}{SNAPSHOT}"

    def paths(self) -> tuple[tuple[int, str], ...]:
        """(offset, path) of the snapshots on the disk, rising."""
        return tuple((offset, self.path(offset)) for offset in self.offsets)

    def kept(self, offset: int) -> bytes | str | None:
        """The snapshot of an offset, or its path on the disk; None: there is none."""
        if offset in self.pending:
            return self.pending[offset]
        return self.path(offset) if offset in self.offsets else None

    def before(self, offset: int) -> int:
        """The offset of the newest snapshot at or below an offset; -1: none."""
        return max((one for one in (*self.offsets, *self.pending) if one <= offset), default=-1)

    def newest(self, otherwise: int, begin: int) -> tuple[Producers, int]:
        """The state of the newest sound snapshot, and its offset. Without any it is an empty state, and `otherwise`; if
        there are only damaged ones, an empty state and `begin`. Blocking."""
        for offset in sorted({*self.offsets, *self.pending}, reverse=True):
            try:
                return Producers.parse(self.pending.get(offset) or self._content(offset)), offset
            except (CorruptSnapshot, FileNotFoundError):
                self.forget(offset)
                self.pending.pop(offset, None)
                otherwise = begin
        return Producers(), otherwise

    def _content(self, offset: int) -> memoryview:
        file = self._names.disk.open(self.path(offset))
        try:
            return file.read_cold(0, file.size)
        finally:
            file.close()

    def forget(self, offset: int) -> None:
        """Forget a snapshot whose file cannot be trusted."""
        self.offsets = [one for one in self.offsets if one != offset]

    def leaving(self, offsets: Sequence[int]) -> list[Pair]:
        """The names that snapshots get when they leave the log. Raises DiskFailed."""
        names = [self.path(offset) for offset in offsets]
        ending = self._names.ending(names, DELETED)
        return present(self._names.disk, [(name, name + ending) for name in names])

    def retire(self, offsets: Sequence[int]) -> None:
        """Take snapshots out of the log, one after the other. Raises DiskFull or DiskFailed: the rest stay."""
        for offset in offsets:
            if pairs := self.leaving([offset]):
                self._names.leave(pairs)
            self.offsets.remove(offset)

    def drop_above(self, offset: int, *, segments: int) -> None:
        """Forget the snapshots of offsets that the log no longer has, and remove their files. Unlinks, so for start-up and
        truncation only. `segments`: how many the log has, or a power cut may bring back; a start reads a single one anyway.
        Raises DiskFailed."""
        gone = [one for one in self.offsets if one > offset]
        self.offsets = self.offsets[: len(self.offsets) - len(gone)]
        if gone and segments > 1 and not self.offsets and not self.left:
            path = self.path(gone.pop())
            left = path + self._names.ending([path], DELETED)
            self._names.discard(path, left)
            self.left.append(left.rpartition("/")[2])
        for snapshot in gone:
            self._names.discard(self.path(snapshot))
        self.pending = {one: content for one, content in self.pending.items() if one <= offset}

    def begin_flush(self) -> None:
        """Remove what earlier flushes may have written that is not wanted any more, and note what this one writes. Raises
        DiskFailed."""
        for one in self._begun - set(self.pending) - set(self.offsets):
            self._names.discard(self.path(one))
        self._begun.update(self.pending)

    def flushed(self, offsets: Iterable[int]) -> None:
        """Note that a flush has written the snapshots of these offsets."""
        for offset in offsets:
            if self.pending.pop(offset, None) is not None and offset not in self.offsets:
                self.offsets = sorted([*self.offsets, offset])
        self._begun.intersection_update(self.pending)
        if self.offsets and self.left:
            self._names.unlink_later(f"{self._names.directory}/{name}" for name in self.left)
            self.left = []

    def outdated(self, offsets: Iterable[int]) -> None:
        """Drop the snapshots that a flush has written while the log was truncated: they may be wrong. Raises DiskFailed."""
        for offset in offsets:
            if offset not in self.pending and offset not in self.offsets:
                self._names.discard(self.path(offset))
