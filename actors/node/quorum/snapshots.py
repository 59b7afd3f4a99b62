"""Taking a snapshot of an image: pin it, and hand it over once it is safe; it is encoded while it is written (KIP-630).

What this file alone decides: when a snapshot that was taken is handed over, or thrown away. It shows the state at the
pinned log end, which on an active controller may not be committed yet; so it waits until the high watermark has passed
that offset, and is thrown away if that state is undone. Nothing of it is in memory but the piece that is being written.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from actors.metadata import snapshot as snapshots
from actors.metadata.dialects import FORMAT
from actors.metadata.image import Image, Pin
from actors.node.quorum.replica import QuorumReplica
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Batch, Buffer
from actors.raft import SnapshotId
from fastpath.records import batch as batches

GRAIN_BYTES = 1 << 16


class Pinned:
    """The content of a snapshot, made from a pinned image whenever it is asked for. Any thread may ask."""

    def __init__(self, pin: Pin, pieces: Callable[[], Iterator[Buffer]]) -> None:
        self._pin: Pin | None = pin
        self._pieces = pieces
        self.size = 0
        """How many bytes it had when it was made last; 0: it never was."""

    def __iter__(self) -> Iterator[Buffer]:
        size = 0
        for piece in self._pieces():
            size += memoryview(piece).nbytes
            yield piece
        self.size = size

    def release(self) -> None:
        """Free the image's generation: it is not asked for any more. A second call does nothing."""
        if self._pin is not None:
            self._pin.release()
            self._pin, self._pieces = None, lambda: iter(())


class Snapshotting:
    """The snapshots that one role takes of its image."""

    def __init__(self, runtime: Runtime, quorum: QuorumReplica, storage: Storage) -> None:
        self._runtime = runtime
        self._quorum = quorum
        self._storage = storage
        self.offset = -1
        """End offset of the newest complete snapshot; -1: none (A47)."""
        self._newest: Pinned | None = None
        """The newest snapshot that was handed over."""
        self.generated_ms = -1
        """The monotonic time when that was done."""
        self._running = False
        self._loading = False
        """Whether a snapshot is being loaded: what the image shows until then is not worth a snapshot any more."""
        self._loaded: tuple[Image, SnapshotId, int] | None = None
        """(image, snapshot, time of its newest record) of what is loaded and does not count yet; None: nothing is."""
        self._waiting: tuple[int, int, Pinned] | None = None
        """(end offset, epoch, content) of a snapshot that is not committed yet; None: there is none."""
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
    def bytes_generated(self) -> int:
        """The size of the newest snapshot that this process has taken; 0: it has written none."""
        return self._newest.size if self._newest is not None else 0

    @property
    def busy(self) -> bool:
        """Whether a snapshot is under way, here or in the other direction."""
        return self._running or self._loading or self._waiting is not None

    def loading(self, data: Buffer | snapshots.InPieces, snapshot: SnapshotId) -> Iterator[None]:
        """Begin to load a snapshot into an image of its own: the slices. One that is taken meanwhile is dropped, as it is of
        an older state, and so is what was loaded of another one."""
        self._drop()
        self._discard = self._loading = True
        self._loaded = None
        return self._slices(data, snapshot)

    def _slices(self, data: Buffer | snapshots.InPieces, snapshot: SnapshotId) -> Iterator[None]:
        image = Image()
        loaded = yield from snapshots.loading(data, image, snapshot.end_offset, self._storage.family)
        self._loaded = image, snapshot, loaded.last_timestamp_ms

    def loaded(self) -> Image:
        """The image of the snapshot whose last slice is done. The snapshot is the newest from now on."""
        assert self._loaded is not None, "its last slice is done"
        (image, snapshot, self._timestamp_ms), self._loaded = self._loaded, None
        self._loading = False
        self.offset, self._epoch = snapshot.end_offset, snapshot.epoch
        self._offsets, self._totals, self._bytes = [snapshot.end_offset], [0], 0
        return image

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

        content = Pinned(pin, lambda: snapshots.encode(pin, epoch, level, timestamp_ms, voters))

        def then(_: Any) -> None:
            self._running = False
            if self._discard:
                content.release()
            else:
                self._waiting = (end, epoch, content)
                self.committed(self._quorum.raft.high_watermark)

        # Not in this turn: what is undone or loaded in it comes first.
        self._runtime.work(lambda: None, then)

    def committed(self, high_watermark: int) -> None:
        """Hand over a snapshot whose end is committed now."""
        if self._waiting is not None and self._waiting[0] <= high_watermark:
            (end, epoch, content), self._waiting = self._waiting, None
            self._quorum.snapshot(end, epoch, content)
            self.offset = end
            self._newest, self.generated_ms = content, self._runtime.now.mono_ms

    def undone(self, next_offset: int) -> None:
        """Drop a snapshot of a state that was undone, since the image went back to `next_offset`."""
        if self._waiting is not None and self._waiting[0] > next_offset:
            self._drop()
        self._discard = True

    def _drop(self) -> None:
        if self._waiting is not None:
            self._waiting[2].release()
            self._waiting = None
