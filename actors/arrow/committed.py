"""Which batches of a Fetch a reader of committed records is given (KIP-98).

This file alone decides that. A broker tells which aborted transactions overlap what it returns, each as a producer id
and the offset of its first record; where one ends, an abort marker says. So batches are looked at in the order of the
log:

1. A transaction begins to be aborted at its first offset, and ends with the next abort marker of its producer.
2. Transactional batches of a producer in between are left out. Its other batches, and all batches of others, stay.
3. A commit marker ends nothing: a producer may have a transaction that was committed before one that was aborted.

Where nothing was aborted, which is nearly always, no batch is looked at.
"""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from actors.ports import Buffer
from actors.replay.logs.files import Headers
from fastpath.records.batch import CorruptBatch, records

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT = 0
MARKER_BYTES_MAX = 4096
"""A control batch that is compressed and larger is no marker."""
_KEY = struct.Struct(">hh")


class Committed:
    """The aborted transactions of one Fetch of one partition. It is asked for batch after batch, in the order of the log."""

    def __init__(self, data: Buffer, aborted: Sequence[tuple[int, int]]) -> None:
        """`data`: the bytes in which the batches lie; `aborted`: (producer id, first offset)."""
        self._data = data
        self._to_come = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._aborting: set[int] = set()
        """Producers whose transaction here was aborted, and whose marker has not come yet."""

    def of(self, headers: Headers) -> NDArray[np.bool_]:
        """Which of some batches are given to the reader, as far as transactions decide it."""
        kept = np.ones(len(headers), dtype=np.bool_)
        if not self._to_come and not self._aborting:
            return kept
        for index, header in enumerate(headers):
            last_offset, producer = int(header["last_offset"]), int(header["producer_id"])
            while self._to_come and self._to_come[-1][0] <= last_offset:
                self._aborting.add(self._to_come.pop()[1])
            attributes = int(header["attributes"])
            if producer not in self._aborting or not attributes & TRANSACTIONAL:
                continue
            if attributes & CONTROL:
                if self._is_abort(int(header["position"])):
                    self._aborting.discard(producer)
            else:
                kept[index] = False
        return kept

    def _is_abort(self, position: int) -> bool:
        """Whether a control batch is an abort marker: its key is a version and the type, both int16."""
        try:
            for record in records(self._data, position, output_bytes_max=MARKER_BYTES_MAX):
                key = record.key
                return key is not None and len(key) >= _KEY.size and _KEY.unpack_from(key)[1] == ABORT
        except CorruptBatch:
            pass
        return False
