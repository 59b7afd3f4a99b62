"""Snapshot files of the metadata log: which there are, slices of them, and one that is being received (KIP-630).

This file alone decides which checkpoints are kept: the newest and the one before it, where the log starts. So a
replica that is a little behind still fetches records.

Rules:

1. A checkpoint has its name only when it is whole. Received bytes go into a `.part` file, which is verified batch by
   batch before it is renamed.
2. Nothing is unlinked by the loop.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from actors.metadata.ops import CorruptMetadata
from actors.metadata.snapshot import InPieces, verified_batches
from actors.node.quorum.files import DELETED, PART, TEMPORARY, DamagedFile, checkpoint_name, checkpoint_of
from actors.ports import Buffer, Disk, DiskFailed, DiskFull, File
from actors.raft import SnapshotId, SnapshotSlice
from fastpath.records.batch import CorruptBatch

HEAD_BYTES = 1 << 20
"""How many bytes of a checkpoint are read to see its first batch, which names the voters."""


class Damage(NamedTuple):
    """The first batch of a checkpoint that is not sound."""

    position: int
    reason: str


def verify(data: Buffer | InPieces) -> Damage | None:
    """Check every batch of a checkpoint, and that there is one; returns the damage, or None. Blocking; touches nothing but
    the file, of which it holds a piece at a time: one of a million partitions has 70 MB."""
    position = 0
    try:
        for batch in verified_batches(data):
            position += len(batch.data)
    except CorruptMetadata as error:
        cause = error.__cause__
        return Damage(position, cause.reason if isinstance(cause, CorruptBatch) else error.reason)
    return None if position else Damage(0, "the file is empty")


class Missed(NamedTuple):
    """What a slice needs from the disk."""

    job: Callable[[], Any]
    """Outside the loop; raises DiskFull, DiskFailed, FileNotFoundError."""
    take: Callable[[Any], None]
    """Takes its result."""


class Checkpoints:
    """The checkpoints of one directory, oldest first."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self.disk = disk
        self.directory = directory
        self.ids: list[SnapshotId] = []
        self.garbage: list[tuple[str, File | None]] = []
        """Renamed files that wait to be unlinked."""
        self.missed: Missed | None = None
        """What the last `slice` which answered None needs."""
        self._open: dict[SnapshotId, File] = {}
        self._warm: tuple[SnapshotId, int, memoryview] | None = None
        self._part: tuple[SnapshotId, File] | None = None

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    def path(self, snapshot: SnapshotId) -> str:
        return f"{self.directory}/{checkpoint_name(snapshot)}"

    def recover(self) -> None:
        """Find what is there; what was left half done is unlinked (start-up only)."""
        for name in self.disk.names(self.directory):
            if name.endswith((PART, DELETED, TEMPORARY)):
                self.disk.remove(f"{self.directory}/{name}")
        found = (checkpoint_of(name) for name in self.disk.names(self.directory))
        self.ids = sorted(one for one in found if one is not None)

    def head(self) -> memoryview:
        """The first `HEAD_BYTES` of the newest checkpoint, all of which is sound; empty if there is none. Raises
        DamagedFile, DiskFailed; may block."""
        if not self.ids:
            return memoryview(b"")
        file = self._file(self.ids[-1])
        damage = verify(file)
        if damage is not None:
            raise DamagedFile(
                f"{file.path} is damaged at byte {damage.position} ({damage.reason}). Restore it from a copy, or empty "
                f"the directory and let this node fetch the metadata from the others"
            )
        return file.read_cold(0, HEAD_BYTES)

    def load(self, snapshot: SnapshotId) -> File:
        """The file of a checkpoint, to be read piece by piece, which may block. Raises FileNotFoundError, DiskFailed."""
        return self._file(snapshot)

    def slice(self, snapshot: SnapshotId, position: int, bytes_max: int) -> SnapshotSlice | None:
        """A slice of a checkpoint, as `LogReader.read_snapshot` returns it. None: it is not in memory, or could
        not be read by the loop; see `missed`."""
        if snapshot not in self.ids:
            raise FileNotFoundError(self.path(snapshot))
        try:
            file = self._file(snapshot)
        except (DiskFull, DiskFailed):  # there is no descriptor, or the job finds out what is wrong
            self.missed = Missed(partial(self.disk.open, self.path(snapshot)), partial(self._opened, snapshot))
            return None
        size = min(bytes_max, max(file.size - position, 0))
        if position < 0 or size == 0:
            return SnapshotSlice(file.size, b"")
        if self._warm is not None and self._warm[:2] == (snapshot, position):
            return SnapshotSlice(file.size, self._warm[2][:size])
        try:
            data = file.read(position, size)
        except (DiskFull, DiskFailed):
            data = None
        if data is None:
            self.missed = Missed(partial(file.read_cold, position, size), partial(self._warmed, file, position))
            return None
        return SnapshotSlice(file.size, data)

    def _warmed(self, file: File, position: int, data: memoryview) -> None:
        for snapshot, known in self._open.items():
            if known is file:
                self._warm = (snapshot, position, data)

    def _opened(self, snapshot: SnapshotId, file: File) -> None:
        if snapshot not in self.ids or self._open.setdefault(snapshot, file) is not file:
            file.close()

    def _file(self, snapshot: SnapshotId) -> File:
        file = self._open.get(snapshot)
        if file is None:
            file = self._open[snapshot] = self.disk.open(self.path(snapshot))
        return file

    # -- receiving

    def write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> File:
        """Write bytes of a snapshot in transfer into its file. At position 0 the file starts over."""
        if self._part is None or self._part[0] != snapshot or position == 0:
            self._drop_part()
            self._part = (snapshot, self.disk.open(self.path(snapshot) + PART, create=True))
            if self._part[1].size:
                self._part[1].truncate(0)
        file = self._part[1]
        assert file.size == position, (file.size, position)
        file.append((data,))
        return file

    def receives(self, file: File) -> bool:
        """Whether that file is still the one in transfer."""
        return self._part is not None and self._part[1] is file

    def adopt_part(self, snapshot: SnapshotId) -> None:
        """Give the verified file its name, beside the others. Raises DiskFull, DiskFailed: it has the old one."""
        assert self._part is not None and self._part[0] == snapshot
        file = self._part[1]
        self.disk.rename(file.path, self.path(snapshot))
        self._part = None
        self.ids = sorted({*self.ids, snapshot})
        self._warm = None
        file.close()

    def _drop_part(self) -> None:
        if self._part is not None:
            path, file = self._part[1].path, self._part[1]
            self.disk.rename(path, path + DELETED)
            self._part = None
            self.garbage.append((path + DELETED, file))

    # -- keeping

    def discard(self, snapshot: SnapshotId) -> None:
        """Remove a received file that came too late."""
        path = self.path(snapshot)
        self.disk.rename(path, path + DELETED)
        self.garbage.append((path + DELETED, None))

    def keep(self, kept: Sequence[SnapshotId], added: SnapshotId) -> None:
        """Keep the checkpoints `kept` and `added` from now on; the rest goes. One that finds no room for another name stays
        until the next time. Raises DiskFailed."""
        stay = []
        for snapshot in self.ids:
            if snapshot not in kept and snapshot != added:
                path = self.path(snapshot)
                try:
                    self.disk.rename(path, path + DELETED)
                except DiskFull:
                    stay.append(snapshot)
                    continue
                self.garbage.append((path + DELETED, self._open.pop(snapshot, None)))
        self.ids = sorted({*kept, *stay, added})
        self._warm = None
