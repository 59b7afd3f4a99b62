"""Which partitions, offsets and times can fulfil a filter, so that nothing else is fetched.

A filter is an Arrow expression, and Arrow's own simplifier judges it: a fragment of a dataset promises something of its
rows, and the fragments that a filter contradicts are left out. So whatever an engine makes of a condition is understood,
no expression is taken apart here, and what cannot be judged is read. Rules:

1. A partition is left out if its topic, its number and the offsets that it has contradict the filter.
2. The lowest and highest offset, and the earliest time, are found by cutting a range into pieces: those from one end on that
   contradict the filter are left out, and the next piece is cut again.
3. The rows that are left are filtered by the caller: what is found here is never too narrow.
"""

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as fs

from actors.client.operations.leaders import Part

PIECES = 32
"""How many pieces a range is cut into at a time."""
US_MAX = (1 << 62) - 1
"""The last time that a filter is asked about, in µs."""
_FORMAT = ds.IpcFileFormat()
_FILES = fs.LocalFileSystem()
Promise = Callable[[int, int], pc.Expression]
"""(first, last) -> what rows of such a range promise."""


def possible(schema: pa.Schema, wanted: pc.Expression, promises: Sequence[pc.Expression]) -> list[int]:
    """The numbers of the promises that do not contradict a filter. No file is opened."""
    fragments = [_FORMAT.make_fragment(str(n), _FILES, partition_expression=one) for n, one in enumerate(promises)]
    dataset = ds.FileSystemDataset(fragments, schema, _FORMAT, _FILES)
    return sorted(int(one.path) for one in dataset.get_fragments(filter=wanted))


def offsets(first: int, last: int) -> pc.Expression:
    """What rows of these offsets promise."""
    return (ds.field("offset") >= pa.scalar(first, pa.int64())) & (ds.field("offset") <= pa.scalar(last, pa.int64()))


def times(first: int, last: int) -> pc.Expression:
    """What rows of these times promise, in µs."""
    low, high = (pa.scalar(one, pa.timestamp("us", "UTC")) for one in (first, last))
    return (ds.field("timestamp") >= low) & (ds.field("timestamp") <= high)


def partitions(schema: pa.Schema, wanted: pc.Expression, ranges: dict[Part, tuple[int, int]]) -> list[Part]:
    """The partitions that can have rows that fulfil a filter. `ranges`: part -> (first offset, last offset)."""
    parts = list(ranges)
    promises = [
        (ds.field("topic") == topic)
        & (ds.field("partition") == pa.scalar(number, pa.int32()))
        & offsets(*ranges[topic, number])
        for topic, number in parts
    ]
    return [parts[n] for n in possible(schema, wanted, promises)]


def lowest(schema: pa.Schema, wanted: pc.Expression, promise: Promise, first: int, last: int) -> int:
    """The lowest number of a range that can fulfil a filter, `last` + 1 if none can."""
    return _edge(schema, wanted, promise, first, last, lambda begin, end: (begin, end))


def highest(schema: pa.Schema, wanted: pc.Expression, promise: Promise, first: int, last: int) -> int:
    """The highest number of a range that can fulfil a filter, `first` - 1 if none can."""
    mirrored = _edge(schema, wanted, promise, -last, -first, lambda begin, end: (-end, -begin))
    return -mirrored


def _edge(
    schema: pa.Schema,
    wanted: pc.Expression,
    promise: Promise,
    first: int,
    last: int,
    turned: Callable[[int, int], tuple[int, int]],
) -> int:
    """`lowest`, of a range that is turned round for `highest`."""
    while first <= last:
        width = max(1, (last - first + PIECES) // PIECES)
        pieces = [(begin, min(begin + width - 1, last)) for begin in range(first, last + 1, width)]
        found = possible(schema, wanted, [promise(*turned(*one)) for one in pieces])
        if not found:
            return last + 1
        first, last = pieces[found[0]]
        if width == 1:
            return first
    return first


def referenced(
    schema: pa.Schema, columns: Iterable[str] | dict[str, pc.Expression] | None, wanted: pc.Expression | None
) -> list[str]:
    """The columns that a scan of `columns` with a filter needs. Raises ValueError for one that does not exist."""
    chosen = list(schema.names) if columns is None else columns if isinstance(columns, dict) else list(columns)
    ds.Scanner.from_batches(iter(()), schema=schema, columns=chosen, filter=wanted)
    return [
        name
        for name in schema.names
        if not _binds(pa.schema([one for one in schema if one.name != name]), chosen, wanted)
    ]


def _binds(schema: pa.Schema, columns: list[str] | dict[str, pc.Expression], wanted: pc.Expression | None) -> bool:
    try:
        ds.Scanner.from_batches(iter(()), schema=schema, columns=columns, filter=wanted)
    except (ValueError, KeyError):
        return False
    return True
