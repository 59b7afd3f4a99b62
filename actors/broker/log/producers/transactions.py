"""Which transactions of one log are undecided for its readers (KIP-98).

This file alone decides what the first unstable offset is. Rules:

1. A transaction is open from its first batch to its marker. A producer has one at most.
2. An ended transaction stays until its marker is below the high watermark: until then another leader may not have the
   marker, and a reader that has passed the data would read it once more as something else.
3. The first unstable offset is the lowest first offset of these. It is kept as transactions come and go; nobody looks at
   all of them to read from the log.
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import NamedTuple

NO_LIMIT = 1 << 62
"""An offset above every other."""


class Ended(NamedTuple):
    """A transaction that has its marker."""

    first_offset: int
    last_offset: int
    """The offset of the marker."""
    producer_id: int


class Transactions:
    """Open transactions, and ended ones whose marker may not be replicated."""

    __slots__ = ("ended", "first_unstable", "open")

    def __init__(self) -> None:
        self.open: OrderedDict[int, int] = OrderedDict()
        """The first offset of each open transaction, by producer id. Invariant: the offsets rise."""
        self.ended: list[Ended] = []
        """The ended transactions as a heap, the lowest first offset on top. One below the top may be replicated
        already."""
        self.first_unstable = NO_LIMIT
        """The first unstable offset. Invariant: the lowest first offset in `open` and `ended`; NO_LIMIT without any."""

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Note that a producer without an open transaction has written the first batch of one, at the log's end."""
        self.open[producer_id] = first_offset
        if first_offset < self.first_unstable:
            self.first_unstable = first_offset

    def end(self, producer_id: int, last_offset: int) -> Ended:
        """Note that the marker of an open transaction is in the log."""
        ended = Ended(self.open.pop(producer_id), last_offset, producer_id)
        heappush(self.ended, ended)
        return ended

    @property
    def oldest_open(self) -> int:
        """First offset of the oldest open transaction; NO_LIMIT without one."""
        return next(iter(self.open.values()), NO_LIMIT)

    def replicated(self, high_watermark: int) -> None:
        """Note that everything below the high watermark is on every replica of the ISR: markers there are final."""
        ended = self.ended
        if not ended:
            return
        while ended and ended[0].last_offset < high_watermark:
            heappop(ended)
        self._look()

    def restore(self, open: dict[int, int], ended: list[Ended]) -> None:
        """Take over what a producer snapshot says. `open`: first offsets by producer id."""
        self.open = OrderedDict(sorted(open.items(), key=lambda item: item[1]))
        self.ended = ended
        heapify(self.ended)
        self._look()

    def clear(self) -> None:
        """Forget all transactions."""
        self.restore({}, [])

    def _look(self) -> None:
        first_ended = self.ended[0].first_offset if self.ended else NO_LIMIT
        self.first_unstable = min(self.oldest_open, first_ended)
