from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from fastpath.bytes.byte_builder import Rooms

KEY: int
VALUE: int
HEADERS: int
OFFSET: int
TIMESTAMP: int
TIMESTAMP_TYPE: int

def unpack(
    data: Buffer,
    headers: NDArray[np.void],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    want: int = 63,
    rooms: Rooms | None = None,
) -> dict[str, Any]:
    """Columns of the records of some batches, as a dict of numpy arrays.

    `headers`: HEADER_DTYPE, one for each batch; `starts`, `ends`: where its records lie in `data`, uncompressed.
    `want`: a sum of KEY ... TIMESTAMP_TYPE. Returns the wanted ones of: `offset` int64; `timestamp` int64,
    microseconds; `timestamp_type` int32 (0 create time, 1 append time); `key`, `value`: (offsets int32, data uint8,
    validity bits uint8, nulls); `headers`: (offsets, name offsets, name data, value offsets, value data, absent bytes).
    Their memory, except that of headers, belongs to `rooms` and goes back there. Raises CorruptBatch (`position`: index
    of the batch) for invalid records, even if the CRC is right.
    """
