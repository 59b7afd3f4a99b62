"""Leader epochs and their start offsets: the table behind log truncation (KIP-101, KIP-279, KIP-320).

Rules:

1. Epochs and their start offsets rise strictly. A new pair that breaks this removes the older pairs that contradict it:
   the log was truncated and another leader wrote on.
2. An epoch ends where the next known one begins. The newest ends at the log's end.
3. For an unknown epoch, the answer is the newest known one below it.

The file `leader-epoch-checkpoint` is Apache Kafka's: "0", the number of lines, then "epoch start_offset".

The table is two tuples: logs without records have one entry at most, and share the tuples that say it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
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
        self.epochs: tuple[int, ...] = ()
        """The known epochs. Invariant: strictly rising, as long as `starts`."""
        self.starts: tuple[int, ...] = ()
        """First offset of each epoch. Invariant: strictly rising."""
        self.latest = UNDEFINED_EPOCH
        """The newest epoch. Invariant: the last of `epochs`; -1 if there is none."""
        self.dirty = False

    @classmethod
    def parse(cls, data: Buffer) -> "EpochCache":
        """The cache with the entries of a file. Raises CorruptCheckpoint."""
        epochs, starts = list[int](), list[int]()
        for number, line in enumerate(lines(data)):
            try:
                epoch, start = (int(word) for word in line.split(" "))
            except ValueError:
                raise CorruptCheckpoint(f"entry {number} is not 'epoch offset': {line!r}") from None
            if epochs and (epoch <= epochs[-1] or start <= starts[-1]):
                raise CorruptCheckpoint(f"entry {number} does not rise: {line!r}")
            if epoch >= 0:
                epochs.append(epoch)
                starts.append(start)
        cache = cls()
        cache._set(epochs, starts)
        return cache

    def encode(self) -> bytes:
        """The content of the file."""
        return text([f"{epoch} {start}" for epoch, start in zip(self.epochs, self.starts, strict=True)])

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`. Nothing happens if it is the newest epoch already, or below 0."""
        if epoch == self.latest or epoch < 0:
            return
        keep = min(bisect_left(self.epochs, epoch), bisect_left(self.starts, start_offset))
        self._set((*self.epochs[:keep], epoch), (*self.starts[:keep], start_offset))
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
        self._set(self.epochs[place - 1 :], (start_offset, *self.starts[place:]))
        self.dirty = True

    def clear(self) -> None:
        """Forget everything, because the log is empty."""
        self._keep(0)

    def _keep(self, count: int) -> None:
        if count < len(self.epochs):
            self._set(self.epochs[:count], self.starts[:count])
            self.dirty = True

    def _set(self, epochs: Sequence[int], starts: Sequence[int]) -> None:
        self.epochs, self.starts = _shared(tuple(epochs)), _shared(tuple(starts))
        self.latest = epochs[-1] if epochs else UNDEFINED_EPOCH

    def copy(self) -> "EpochCache":
        """A copy of the table, to be read elsewhere or to take the place of another."""
        copied = EpochCache()
        copied.epochs, copied.starts, copied.latest = self.epochs, self.starts, self.latest
        return copied

    def check(self) -> None:
        """Assert the invariants."""
        assert list(self.epochs) == sorted(set(self.epochs)) and list(self.starts) == sorted(set(self.starts))
        assert len(self.epochs) == len(self.starts)
        assert self.latest == (self.epochs[-1] if self.epochs else UNDEFINED_EPOCH)


def _shared(table: tuple[int, ...]) -> tuple[int, ...]:
    return _one(*table) if len(table) == 1 else table


@lru_cache(maxsize=1024)
def _one(entry: int) -> tuple[int, ...]:
    """The tuple of one number. Logs that have no more than this have it in common."""
    return (entry,)
