"""The moments of a log that are kept, and how many.

A kept moment (a pin) shares all pages with its neighbours that nothing has changed in between, so it costs as much as was
changed. This file alone decides which moments are kept. Rules:

1. The first and the last are always kept: the beginning of the log, and now.
2. Between them there is one for every `step` records, STEP at first.
3. When there are more than PINS_MAX, or when they hold more than the bound besides what the last one holds, the step is
   doubled and those between are let go, so any moment stays about equally near to a kept one. With two left nothing more
   is let go.

What a pin holds is counted from the pages that its successor does not share; entries of maps and rare fields are counted
by a size that is usual for them.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from actors.replay.columns.moment import Moment
from actors.replay.timeline.pieces import LogPlace

STEP = 10_000
"""Records between two pins, as long as nothing was let go."""
PINS_MAX = 1_000
BYTES_MAX = 48 << 20
"""What pins hold at most, in bytes, besides the last one."""

CHUNK_BYTES = 33 * 4096
"""A chunk of partitions (fastpath/image/views.pxd)."""
PAGE_BYTES = 8 * 4096
CHAIN_BYTES = 12 * 4096
ENTRY_BYTES = 400
"""An entry of a map, or a partition's rare fields: about."""
POINTERS = 3 * 1024 * 8
"""The shards of both maps, and what is small besides."""


class PinnedMoment(NamedTuple):
    """A moment that is kept, and where the log goes on behind it."""

    moment: Moment
    place: LogPlace
    time_max_ms: int
    """The highest time of a batch up to here, in ms."""

    @property
    def offset(self) -> int:
        """Exclusive: the records below it."""
        return self.moment.offset


class Pins:
    """The kept moments of a log, by offset. One thread changes them; any thread reads `all`, which is never changed in
    place."""

    def __init__(self, bytes_max: int = BYTES_MAX, step: int = STEP) -> None:
        self.step = step
        self.all: tuple[PinnedMoment, ...] = ()
        self._bytes_max = bytes_max
        self._costs: list[int] = []
        """What each holds that its successor does not; Invariant: one less than there are pins."""

    @property
    def bytes(self) -> int:
        """What the pins hold besides the last one, in bytes."""
        return sum(self._costs)

    def is_due(self, offset: int) -> bool:
        """Whether a pin is due at an offset, while a log is read to its end."""
        return not self.all or offset - self.all[-1].offset >= self.step

    def put(self, kept: PinnedMoment) -> None:
        """Add a moment that is later than all others. It takes the place of the last one if that is not a step away from
        the one before."""
        before = self.all
        if len(before) > 1 and before[-1].offset - before[-2].offset < self.step:
            before = before[:-1]
            self._costs.pop()
        if before:
            self._costs.append(cost(before[-1].moment, kept.moment))
        self.all = (*before, kept)
        while len(self.all) > 2 and (len(self.all) > PINS_MAX or self.bytes > self._bytes_max):
            self._thin()

    def _thin(self) -> None:
        self.step *= 2
        self.all = (*_spaced(self.all, self.step), self.all[-1])
        self._costs = [cost(one.moment, other.moment) for one, other in pairwise(self.all)]


def before(pins: Sequence[PinnedMoment], offset: int) -> PinnedMoment | None:
    """The last pin at or below an offset."""
    at = bisect_right(pins, offset, key=lambda one: one.offset)
    return pins[at - 1] if at else None


def until(pins: Sequence[PinnedMoment], time_ms: int) -> PinnedMoment | None:
    """The last pin before which no batch is later than a time."""
    at = bisect_right(pins, time_ms, key=lambda one: one.time_max_ms)
    return pins[at - 1] if at else None


def _spaced(pins: tuple[PinnedMoment, ...], step: int) -> list[PinnedMoment]:
    """The first of the pins, and of those between it and the last each that is a step behind the one that stays."""
    left = [pins[0]]
    for one in pins[1:-1]:
        if one.offset - left[-1].offset >= step:
            left.append(one)
    return left


def cost(one: Moment, next_: Moment) -> int:
    """What a moment holds that the next one does not, in bytes."""
    chunks, rare = one.columns.differing(next_.columns)
    pages = one.pin.names.differing(next_.pin.names) + one.columns.topic_ids.differing(next_.columns.topic_ids)
    chains = one.columns.chains.differing(next_.columns.chains)
    entries = rare + one.pin.configs.differing(next_.pin.configs) + one.pin.entities.differing(next_.pin.entities)
    entries += len(one.pin.brokers) + len(one.pin.features)
    pointers = 16 * one.columns.chunk_count + 16 * len(one.columns.directory_ids) + 32 * one.counters.used * 2
    lists = pages * PAGE_BYTES + chains * CHAIN_BYTES
    return chunks * CHUNK_BYTES + lists + entries * ENTRY_BYTES + pointers + POINTERS
