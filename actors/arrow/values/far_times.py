"""Times of typed columns that are further away than whole numbers of microseconds reach: which rows have one.

This file alone decides that. Milliseconds reach a thousand times as far: the largest number of them, which some write for
never, would be a time of 1969 in microseconds.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MS_MAX = (1 << 63) // 1000


def far(column: pa.Array) -> pa.Array:
    """The rows that have such a time, at any depth: a column of booleans."""
    return pa.array(_far(column))


def _far(column: pa.Array) -> NDArray[np.bool_]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        times = np.asarray(column.cast(pa.int64()).fill_null(0))
        return (times > MS_MAX) | (times < -MS_MAX)
    found = np.zeros(len(column), dtype=np.bool_)
    if pa.types.is_struct(kind):
        for n in range(kind.num_fields):
            found |= _far(column.field(n))
        found &= np.asarray(column.is_valid())
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        sums = np.concatenate([[0], np.cumsum(_far(column.values))])
        ends = np.asarray(column.offsets)
        found = sums[ends[1:]] > sums[ends[:-1]]
    return found
