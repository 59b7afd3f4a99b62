"""Arrow arrays over numpy's memory, without a copy.

This file alone decides how they are made: from buffers, never by `pyarrow.array`. That function imports pandas if it is
installed (a third of a second, 40 MB), to see whether its argument is a pandas object.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

TYPES = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64()}


def plain(values: Any, kind: pa.DataType | None = None, valid: Any = None) -> pa.Array:
    """An array of numbers of fixed width, or of bools for an array of bool. `valid`: a bool for each row, None: no row
    is null."""
    rows = len(values)
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    nulls = 0 if valid is None else rows - int(np.count_nonzero(valid))
    if values.dtype == bool:
        return pa.Array.from_buffers(
            pa.bool_(), rows, [bits, pa.py_buffer(np.packbits(values, bitorder="little"))], nulls
        )
    kind = TYPES[values.dtype.name] if kind is None else kind
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(np.ascontiguousarray(values))], nulls)


def lists(offsets: Any, values: pa.Array) -> pa.Array:
    """An array of lists, none of them null. `offsets`: int32, one more than there are rows."""
    return pa.Array.from_buffers(
        pa.list_(values.type), len(offsets) - 1, [None, pa.py_buffer(offsets)], 0, children=[values]
    )


def sizes(of: pa.Array) -> Any:
    """The number of values in each list."""
    first = of.offset
    return np.diff(np.frombuffer(of.buffers()[1], dtype=np.int32)[first : first + len(of) + 1])


def texts(some: Sequence[str | None]) -> pa.Array:
    """An array of a few strings."""
    raw = [b"" if one is None else one.encode() for one in some]
    offsets = np.cumsum([0, *map(len, raw)], dtype=np.int32)
    valid = np.array([one is not None for one in some], dtype=bool)
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers, len(raw) - int(valid.sum()))


def repeated(rows: int, text: str) -> pa.Array:
    """An array with the same string in every row."""
    raw = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(raw * rows)], 0)


def varied(kind: pa.DataType, rows: int, offsets: Any, data: Any, bits: Any, nulls: int) -> pa.Array:
    """An array of strings or bytes. `bits`: validity, least significant bit first."""
    valid = pa.py_buffer(bits) if nulls else None
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def spread(of: pa.Array, own: Any, rows: int) -> pa.Array:
    """An array of structs spread over the rows `own` (ascending) of a longer array that is null elsewhere. Bytes and
    the values of lists are not copied, only their offsets."""
    if len(own) == rows:
        return of
    valid = np.zeros(rows, dtype=bool)
    valid[own] = True
    at = np.zeros(rows + 1, dtype=np.intp)
    np.cumsum(valid, out=at[1:])
    return _spread(of, at, np.minimum(at[:-1], len(of) - 1), valid)


def _spread(of: pa.Array, at: Any, place: Any, valid: Any = None) -> pa.Array:
    """An array of values spread over rows. `at`: how many values come before each row, and before the end. `place`: the
    index of each row's value, if it has one."""
    kind, rows = of.type, len(place)
    if valid is None and of.null_count:
        valid = _bools(of.buffers()[0])[place]
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    nulls = 0 if valid is None else rows - int(np.count_nonzero(valid))
    if pa.types.is_struct(kind):
        children = [_spread(of.field(index), at, place) for index in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, rows, [bits], nulls, children=children)
    buffers = of.buffers()
    if pa.types.is_boolean(kind):
        data = np.packbits(_bools(buffers[1])[place], bitorder="little")
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(data)], nulls)
    if pa.types.is_primitive(kind):
        data = np.frombuffer(buffers[1], dtype=f"i{kind.bit_width // 8}")[place]
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(data)], nulls)
    offsets = pa.py_buffer(np.frombuffer(buffers[1], dtype=np.int32)[at])
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, rows, [bits, offsets], nulls, children=[of.values])
    return pa.Array.from_buffers(kind, rows, [bits, offsets, buffers[2]], nulls)


def _bools(bits: pa.Buffer) -> Any:
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little").view(bool)


class Uniform:
    """Arrays with the same value in every row: made once by `make(rows, of)` for each `of`, and sliced from then on."""

    def __init__(self, make: Callable[[int, Any], pa.Array]) -> None:
        self._make = make
        self._made: dict[Any, pa.Array] = {}

    def __call__(self, of: Any, rows: int) -> pa.Array:
        """An array of `rows` rows."""
        made = self._made.get(of)
        if made is None or len(made) < rows:
            made = self._made[of] = self._make(rows, of)
        return made.slice(0, rows)
