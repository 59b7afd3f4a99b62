"""The log as the quorum sees it: where epochs begin, where it starts and ends, and how much of it is durable.

This file alone decides offsets and epochs. It holds no written record: batches are opaque and kept by the node
(`LogReader`). Only batches that the next `Ready` will give to the node to write are kept here.

Rules (KIP-595 "Log divergence", KIP-630 "Validation of the fetch offset"):

1. Epochs never fall along the log. The epoch of an empty log is that of the snapshot at which it starts (0 for none).
2. What a finished sync covered is durable. Truncation lowers the durable offset too, also for syncs still in flight.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from actors.ports import Batch, Buffer
from actors.raft.messages import OffsetAndEpoch, SnapshotId

NO_SNAPSHOT = SnapshotId(0, 0)


class SnapshotSlice(NamedTuple):
    """Part of a snapshot file: `size` of the whole file in bytes, and the requested bytes."""

    size: int
    data: Buffer


class LogReader(Protocol):
    """What the node implements: reads of the log, from memory first and then from the file."""

    def read(self, offset: int, bytes_max: int) -> Sequence[Batch] | None:
        """Whole batches, beginning with the one that holds `offset`: at least one, and about `bytes_max`. None: the
        batch is not in memory; the node reads it and then calls `Raft.warmed`."""

    def read_snapshot(self, snapshot: SnapshotId, position: int, bytes_max: int) -> SnapshotSlice | None:
        """Bytes of a snapshot file. None: as for `read`. Raises FileNotFoundError when the file is gone."""


class EpochTable:
    """(epoch, first offset) of every leader epoch in the log, with the start and the end of the log.

    Invariant: epochs and offsets both rise; every first offset is in `[start.end_offset, end_offset)`.
    """

    __slots__ = ("_epochs", "_offsets", "end_offset", "start")

    def __init__(
        self, entries: Iterable[tuple[int, int]] = (), start: SnapshotId = NO_SNAPSHOT, end_offset: int | None = None
    ) -> None:
        """`entries` are (epoch, first offset) in order; `start` is the snapshot at which the log begins."""
        self.start = start
        self.end_offset = start.end_offset if end_offset is None else end_offset
        self._epochs: list[int] = []
        self._offsets: list[int] = []
        for epoch, offset in entries:
            self._epochs.append(epoch)
            self._offsets.append(offset)
        self.cut_front(start)

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, or of the snapshot before it."""
        return self._epochs[-1] if self._epochs else self.start.epoch

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, first offset) in order: what leader-epoch-checkpoint holds."""
        return list(zip(self._epochs, self._offsets, strict=True))

    def append(self, batch: Batch) -> None:
        """Note the batch's offsets and epoch. It must continue the log."""
        assert batch.base_offset == self.end_offset, (batch.base_offset, self.end_offset)
        assert batch.epoch >= self.last_epoch, (batch.epoch, self.last_epoch)
        if not self._epochs or batch.epoch > self._epochs[-1]:
            self._epochs.append(batch.epoch)
            self._offsets.append(batch.base_offset)
        self.end_offset = batch.last_offset + 1

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch known to the log that is not above `epoch`, and the offset where it ends."""
        place = bisect_right(self._epochs, epoch) - 1
        if place < 0:
            return OffsetAndEpoch(self.start.end_offset, self.start.epoch)
        if place + 1 < len(self._offsets):
            return OffsetAndEpoch(self._offsets[place + 1], self._epochs[place])
        return OffsetAndEpoch(self.end_offset, self._epochs[place])

    def epoch_at(self, offset: int) -> int:
        """Epoch of the record just below `offset`."""
        place = bisect_right(self._offsets, offset - 1) - 1
        return self._epochs[place] if place >= 0 else self.start.epoch

    def truncate(self, end_offset: int) -> None:
        """Forget the epochs that begin at or after `end_offset`; the log ends there now."""
        while self._offsets and self._offsets[-1] >= end_offset:
            self._offsets.pop()
            self._epochs.pop()
        self.end_offset = end_offset

    def cut_front(self, start: SnapshotId) -> None:
        """Let the log begin at `start`. If that lies beyond the log's end, the log is then empty."""
        self.start = start
        self.end_offset = max(self.end_offset, start.end_offset)
        first = bisect_right(self._offsets, start.end_offset) - 1
        if first > 0:
            del self._epochs[:first], self._offsets[:first]
        if self._offsets and self._offsets[0] < start.end_offset:
            self._offsets[0] = start.end_offset
        if self._offsets and self._offsets[0] >= self.end_offset:
            del self._epochs[:], self._offsets[:]


class Log:
    """The epoch table, with the batches that are not written yet and the offset below which all is durable.

    Invariant: `durable_offset <= end_offset`, and the unwritten batches are the last ones.
    """

    __slots__ = ("_in_flight", "durable_epoch", "durable_offset", "latest", "reader", "table", "unwritten")

    def __init__(self, table: EpochTable, reader: LogReader, latest: SnapshotId) -> None:
        self.table = table
        self.reader = reader
        self.latest = latest
        """The newest snapshot that can be served to a replica that is too far behind."""
        self.unwritten: list[Batch] = []
        """The batches that the next Ready gives to the node to write."""
        self.durable_offset = table.start.end_offset
        """Everything below this offset is durable. Batches that recovery found may be in the page cache only, so it
        begins at the log's start."""
        self.durable_epoch = -1
        """The epoch of the newest quorum-state that a finished sync covered."""
        self._in_flight: deque[tuple[int, int, int]] = deque()

    @property
    def end_offset(self) -> int:
        return self.table.end_offset

    @property
    def start_offset(self) -> int:
        return self.table.start.end_offset

    @property
    def last_epoch(self) -> int:
        return self.table.last_epoch

    @property
    def syncing(self) -> bool:
        """Whether a sync is in flight."""
        return bool(self._in_flight)

    def append(self, batch: Batch) -> None:
        self.table.append(batch)
        self.unwritten.append(batch)

    def truncate(self, end_offset: int) -> None:
        """Cut the log at `end_offset`. Allowed only while no appended batch waits for the next Ready."""
        assert not self.unwritten
        assert self.start_offset <= end_offset <= self.end_offset, (self.start_offset, end_offset, self.end_offset)
        self.table.truncate(end_offset)
        self.durable_offset = min(self.durable_offset, end_offset)
        self._in_flight = deque((token, min(end, end_offset), epoch) for token, end, epoch in self._in_flight)

    def restart_at(self, snapshot: SnapshotId) -> None:
        """Throw the log away, and let it begin, empty, at the end of a snapshot that was just received."""
        assert not self.unwritten
        self.table = EpochTable(start=snapshot)
        self.latest = snapshot
        self.durable_offset = min(self.durable_offset, snapshot.end_offset)
        self._in_flight = deque((token, self.durable_offset, epoch) for token, _, epoch in self._in_flight)

    def sync_started(self, token: int, epoch: int) -> None:
        """Note that a sync begins, which covers the log to its end and a quorum-state of `epoch`."""
        self._in_flight.append((token, self.end_offset, epoch))

    def synced(self, token: int) -> None:
        """Note that the sync `token`, and so every earlier one, is done."""
        while self._in_flight and self._in_flight[0][0] <= token:
            _, end_offset, epoch = self._in_flight.popleft()
            self.durable_offset = max(self.durable_offset, end_offset)
            self.durable_epoch = max(self.durable_epoch, epoch)
        assert self.durable_offset <= self.end_offset, (self.durable_offset, self.end_offset)

    def read(self, offset: int, bytes_max: int) -> Sequence[Batch] | None:
        """Whole batches as from `LogReader.read`, including batches that are not written yet."""
        if not self.unwritten or offset < self.unwritten[0].base_offset:
            return self.reader.read(offset, bytes_max)
        found: list[Batch] = []
        size = 0
        for batch in self.unwritten:
            if batch.last_offset < offset:
                continue
            if found and size + len(batch.data) > bytes_max:
                break
            found.append(batch)
            size += len(batch.data)
        return found
