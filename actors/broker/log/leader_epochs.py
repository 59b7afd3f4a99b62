"""Leader epochs and their start offsets: the table behind log truncation (KIP-101, KIP-279, KIP-320).

Rules:

1. Epochs and their start offsets rise strictly. A new pair that breaks this removes the older pairs that contradict it:
   the log was truncated and another leader wrote on.
2. An epoch ends where the next known one begins. The newest ends at the log's end.
3. For an unknown epoch, the answer is the newest known one below it.

The file `leader-epoch-checkpoint` is Apache Kafka's: "0", the number of lines, then "epoch start_offset".
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from actors.broker.log.directories.checkpoints import CorruptCheckpoint, lines, text
from actors.ports import Buffer

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """The newest epoch at or below the requested one, and the offset after its last record; (-1, -1): unknown."""

    epoch: int
    end_offset: int


UNDEFINED = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)


class EpochCache:
    """The epochs of one log, in memory; `dirty` until its file has been written."""

    __slots__ = ("dirty", "epochs", "latest", "starts")

    def __init__(self) -> None:
        self.epochs: list[int] = []
        """The known epochs. Invariant: strictly rising, as long as `starts`."""
        self.starts: list[int] = []
        """First offset of each epoch. Invariant: strictly rising."""
        self.latest = UNDEFINED_EPOCH
        """The newest epoch. Invariant: the last of `epochs`; -1 if there is none."""
        self.dirty = False

    @classmethod
    def parse(cls, data: Buffer) -> "EpochCache":
        """The cache with the entries of a file. Raises CorruptCheckpoint."""
        cache = cls()
        for number, line in enumerate(lines(data)):
            try:
                epoch, start = (int(word) for word in line.split(" "))
            except ValueError:
                raise CorruptCheckpoint(f"entry {number} is not 'epoch offset': {line!r}") from None
            if cache.epochs and (epoch <= cache.latest or start <= cache.starts[-1]):
                raise CorruptCheckpoint(f"entry {number} does not rise: {line!r}")
            cache.assign(epoch, start)
        cache.dirty = False
        return cache

    def encode(self) -> bytes:
        """The content of the file."""
        return text([f"{epoch} {start}" for epoch, start in zip(self.epochs, self.starts, strict=True)])

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`. Nothing happens if it is the newest epoch already, or below 0."""
        if epoch == self.latest or epoch < 0:
            return
        keep = min(bisect_left(self.epochs, epoch), bisect_left(self.starts, start_offset))
        self._keep(keep)
        self.epochs.append(epoch)
        self.starts.append(start_offset)
        self.latest = epoch
        self.dirty = True

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where `epoch` ended in this log, as OffsetForLeaderEpoch answers it."""
        if epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        above = bisect_right(self.epochs, epoch)
        known = self.epochs[above - 1] if above else epoch
        return EpochEnd(known, self.starts[above])

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 if the table does not go back that far."""
        place = bisect_right(self.starts, offset)
        return self.epochs[place - 1] if place else UNDEFINED_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or above `end_offset`: the log now ends there."""
        self._keep(bisect_left(self.starts, end_offset))

    def truncate_start(self, start_offset: int) -> None:
        """Note that the log now begins at `start_offset`, and so does the epoch that contains it."""
        place = bisect_right(self.starts, start_offset)
        if place == 0 or (place == 1 and self.starts[0] == start_offset):
            return
        del self.epochs[: place - 1]
        del self.starts[: place - 1]
        self.starts[0] = start_offset
        self.dirty = True

    def clear(self) -> None:
        """Forget everything, because the log is empty."""
        self._keep(0)

    def _keep(self, count: int) -> None:
        if count < len(self.epochs):
            del self.epochs[count:]
            del self.starts[count:]
            self.latest = self.epochs[-1] if count else UNDEFINED_EPOCH
            self.dirty = True

    def copy(self) -> "EpochCache":
        """A copy of the table, to be read elsewhere or to take the place of another."""
        copied = EpochCache()
        copied.epochs, copied.starts, copied.latest = self.epochs.copy(), self.starts.copy(), self.latest
        return copied

    def check(self) -> None:
        """Assert the invariants."""
        assert self.epochs == sorted(set(self.epochs)) and self.starts == sorted(set(self.starts))
        assert len(self.epochs) == len(self.starts)
        assert self.latest == (self.epochs[-1] if self.epochs else UNDEFINED_EPOCH)
