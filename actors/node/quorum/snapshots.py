"""Taking a snapshot of an image: pin it, encode it outside the loop, hand the file over once it is safe (KIP-630).

What this file alone decides: when a snapshot that was taken is handed over, or thrown away. It shows the state at the
pinned log end, which on an active controller may not be committed yet; so it waits until the high watermark has passed
that offset, and is thrown away if that state is undone.
"""

from bisect import bisect_left
from typing import Any

from actors.metadata import snapshot as snapshots
from actors.metadata.dialects import FORMAT
from actors.metadata.image import Image
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer
from fastpath.records import batch as batches

GRAIN_BYTES = 1 << 16


class Snapshotting:
    """The snapshots that one role takes of its image."""

    def __init__(self, runtime: Runtime, quorum: QuorumReplica, storage: Storage) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._storage = storage
        self.offset = -1
        """End offset of the newest complete snapshot; -1: none (A47)."""
        self.bytes_generated = 0
        """The size of the newest snapshot that this process has taken; 0: it has taken none."""
        self.generated_ms = -1
        """The monotonic time when that was done."""
        self._running = False
        self._waiting: tuple[int, int, Buffer] | None = None
        """(end offset, epoch, content) of a snapshot that is encoded and not committed yet; None: there is none."""
        self._discard = False
        self._epoch = 0
        self._timestamp_ms = 0
        self._bytes = 0
        self._offsets: list[int] = [0]
        self._totals: list[int] = [0]

    @property
    def timestamp_ms(self) -> int:
        """The time of the newest record that was replayed, by its writer's clock; 0: none was."""
        return self._timestamp_ms

    @property
    def busy(self) -> bool:
        """Whether a snapshot is under way."""
        return self._running or self._waiting is not None

    def load(self, image: Image, data: Buffer | snapshots.InPieces, snapshot: Any) -> None:
        """Fill an empty image from a snapshot, which is the newest from now on. A snapshot that is under way is
        dropped, as it is of an older state."""
        self._waiting, self._discard = None, True
        loaded = snapshots.load(data, image, snapshot.end_offset, self._storage.family)
        self._timestamp_ms = loaded.last_timestamp_ms
        self.offset, self._epoch = snapshot.end_offset, snapshot.epoch
        self._offsets, self._totals, self._bytes = [snapshot.end_offset], [0], 0

    def replayed(self, batch: Batch) -> None:
        """Count a committed batch."""
        self._epoch = batch.epoch
        self._timestamp_ms = batches.header(batch.data).max_timestamp
        self._bytes += len(batch.data)
        if self._bytes - self._totals[-1] >= GRAIN_BYTES:
            self._offsets.append(batch.last_offset + 1)
            self._totals.append(self._bytes)

    def bytes_since(self, offset: int) -> int:
        """Bytes committed after `offset`, to a grain; what is older than this process counts as nothing."""
        place = min(bisect_left(self._offsets, offset), len(self._totals) - 1)
        return self._bytes - self._totals[place]

    def take(self, image: Image, epoch: int | None = None, timestamp_ms: int | None = None) -> None:
        """Begin a snapshot of the state as it is now. `epoch` and `timestamp_ms` of the newest record, if the image
        holds records that are not committed. Does nothing while one is under way, or when there is nothing new."""
        end = image.next_offset
        if self.busy or end <= max(0, self.offset):
            return
        self._running, self._discard = True, False
        pin = image.pin()
        epoch = self._epoch if epoch is None else epoch
        timestamp_ms = self._timestamp_ms if timestamp_ms is None else timestamp_ms
        voters = self._quorum.voters_at(end)
        level = image.feature(FORMAT) or self._storage.format_level

        def encode() -> Buffer:
            return b"".join(snapshots.encode(pin, epoch, level, timestamp_ms, voters))

        def then(result: Any) -> None:
            pin.release()
            self._running = False
            if isinstance(result, Exception):
                self._runtime.log.error(f"the snapshot at {end} failed: {result!r}")
            elif not self._discard:
                self._waiting = (end, epoch, result)
                self.committed(self._quorum.raft.high_watermark)

        self._runtime.work(encode, then)

    def committed(self, high_watermark: int) -> None:
        """Hand over a snapshot whose end is committed now."""
        if self._waiting is not None and self._waiting[0] <= high_watermark:
            (end, epoch, data), self._waiting = self._waiting, None
            self._quorum.snapshot(end, epoch, data)
            self.offset = end
            self.bytes_generated, self.generated_ms = len(data), self._runtime.now.mono_ms

    def undone(self, next_offset: int) -> None:
        """Drop a snapshot of a state that was undone, since the image went back to `next_offset`."""
        if self._waiting is not None and self._waiting[0] > next_offset:
            self._waiting = None
        self._discard = True
