"""Which batches of a Fetch a reader of committed records is given (KIP-98).

This file alone decides that. A broker tells which aborted transactions overlap what it returns, each as a producer id
and the offset of its first record; where one ends, a marker says. So batches are looked at in the order of the log:

1. A transaction begins to be aborted at its first offset, and ends with the next marker of its producer: between the
   two there is no other marker of that producer.
2. Transactional batches of a producer in between are left out. Its other batches, and all batches of others, stay.
3. Markers are control batches, and no records.

Where nothing was aborted, which is nearly always, no batch is looked at.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TRANSACTIONAL, CONTROL = 0x10, 0x20


class Committed:
    """The aborted transactions of one Fetch of one partition. It is asked about batch after batch, in the order of the
    log."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        """`aborted`: (producer id, first offset) of each."""
        self._to_come = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._aborting: set[int] = set()
        """Producers whose transaction here was aborted, and whose marker has not come yet."""

    def keeps(self, last_offset: int, producer_id: int, attributes: int) -> bool:
        """Whether the next batch holds records for the reader, as far as transactions decide it."""
        while self._to_come and self._to_come[-1][0] <= last_offset:
            self._aborting.add(self._to_come.pop()[1])
        if attributes & CONTROL:
            self._aborting.discard(producer_id)
            return False
        return not (attributes & TRANSACTIONAL and producer_id in self._aborting)

    def of(self, headers: NDArray[np.void]) -> NDArray[np.bool_]:
        """Whether each of the next batches holds records for the reader, as bool, shape (batches,).
        `headers`: an array of HEADER_DTYPE."""
        kept: NDArray[np.bool_] = headers["attributes"] & CONTROL == 0
        if self._to_come or self._aborting:
            for index, one in enumerate(headers):
                kept[index] = self.keeps(int(one["last_offset"]), int(one["producer_id"]), int(one["attributes"]))
        return kept
