"""Arrow data of every layout that can be written, drawn at random, and the same rows as Python has them."""

import random
from typing import Any

import pyarrow as pa

from tests.reference.columns_to_batches import Row

BYTES = (
    pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view(), pa.binary(7),
    pa.dictionary(pa.int16(), pa.binary()), pa.dictionary(pa.int32(), pa.large_string()), pa.null(),
    pa.dictionary(pa.uint64(), pa.string_view()),
)  # fmt: skip
HEADER_BYTES = tuple(one for one in BYTES if not pa.types.is_dictionary(one))
TIMES = tuple(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "+05:30"))
UNITS = {"s": 0.001, "ms": 1, "us": 1000, "ns": 1_000_000}
NUMBERS = (pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64())
NOW_MS = 1_777_000_000_123


def text(draw: random.Random, kind: pa.DataType) -> bytes:
    if pa.types.is_fixed_size_binary(kind):
        return draw.randbytes(7)
    size = draw.choice([0, 1, 2, 3, 4, 7, 11, 12, 13, 30, 64, 200])
    return bytes(draw.choices(b"abc\x00z~", k=size))


def column(draw: random.Random, kind: pa.DataType, rows: int, nulls: float) -> pa.Array:
    """Values of a type, with rows in front of and behind them, of which it is a slice."""
    before, behind = draw.choice([0, 1, 5, 9]), draw.choice([0, 3])
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    values = [None if draw.random() < nulls else text(draw, plain) for _ in range(before + rows + behind)]
    if pa.types.is_dictionary(kind):
        return encoded(draw, values, kind).slice(before, rows)
    if pa.types.is_null(kind):
        return pa.nulls(before + rows + behind).slice(before, rows)
    made: pa.Array = pa.array(values, pa.binary() if not pa.types.is_fixed_size_binary(plain) else plain).cast(plain)
    return made.slice(before, rows)


def encoded(draw: random.Random, values: list[bytes | None], kind: pa.DictionaryType) -> pa.Array:
    """Values as a dictionary, whose words are a slice, and one of them null."""
    words = [None, *dict.fromkeys(one for one in values if one is not None)]
    indices = [draw.choice([None, 0]) if one is None else words.index(one) for one in values]
    whole = pa.array([b"in front of them", *words], pa.binary()).cast(kind.value_type)
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), whole.slice(1))


def headers(draw: random.Random, rows: int, nulls: float) -> pa.Array:
    before = draw.choice([0, 2, 9])
    counts = [draw.choice([0, 0, 1, 2, 5]) for _ in range(before + rows)]
    total = sum(counts)
    name = draw.choice([one for one in HEADER_BYTES if not pa.types.is_null(one)])
    fields = {"key": column(draw, name, total, 0.0), "value": column(draw, draw.choice(HEADER_BYTES), total, nulls)}
    names = draw.choice([["key", "value"], ["value", "key"]])
    pairs = pa.StructArray.from_arrays([fields[one] for one in names], names)
    if draw.random() < 0.5:  # pairs in front of those that the lists hold, which are null
        front = pa.array([None] * draw.randint(1, 9), pairs.type)
        pairs = pa.concat_arrays([front, pairs]).slice(len(front))
    ends = [0]
    for one in counts:
        ends.append(ends[-1] + one)
    kind, number = draw.choice([(pa.ListArray, pa.int32()), (pa.LargeListArray, pa.int64())])
    absent = [draw.random() < nulls for _ in counts]
    made: pa.Array = kind.from_arrays(pa.array(ends, number), pairs, mask=pa.array(absent, pa.bool_()))
    return made.slice(before)


def times(draw: random.Random, rows: int, nulls: float) -> pa.Array:
    kind = draw.choice(TIMES)
    last = int(4_000_000_000_000 * UNITS[kind.unit])
    values = [None if draw.random() < nulls else draw.randint(0, last) for _ in range(rows + 3)]
    return pa.array(values, pa.int64()).cast(kind).slice(3)


def batch(draw: random.Random, rows: int, partitions: int) -> pa.RecordBatch:
    """A record batch with some of the columns, in any order."""
    nulls = draw.choice([0.0, 0.3])
    found: dict[str, pa.Array] = {"value": column(draw, draw.choice(BYTES), rows, nulls)}
    if draw.random() < 0.8:
        found["key"] = column(draw, draw.choice(BYTES), rows, draw.choice([0.0, 0.5]))
    if draw.random() < 0.5:
        found["headers"] = headers(draw, rows, nulls)
    if draw.random() < 0.5:
        found["timestamp"] = times(draw, rows, nulls)
    if draw.random() < 0.3:
        numbers = [draw.randrange(min(partitions, 100)) for _ in range(rows + 2)]
        found["partition"] = pa.array(numbers, draw.choice(NUMBERS)).slice(2)
    names = list(found)
    draw.shuffle(names)
    return pa.record_batch([found[one] for one in names], names)


def plain(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def ms(value: pa.Scalar) -> int:
    if not value.is_valid:
        return NOW_MS
    number: int = value.cast(pa.int64()).as_py()
    return {"s": number * 1000, "ms": number, "us": number // 1000, "ns": number // 1_000_000}[value.type.unit]


def rows(batch: pa.RecordBatch) -> list[Row]:
    """The rows, as pyarrow reads them."""
    found = {name: batch.column(name) for name in batch.schema.names}
    return [
        Row(
            plain(found["key"][n].as_py()) if "key" in found else None,
            plain(found["value"][n].as_py()),
            [(plain(one["key"]) or b"", plain(one["value"])) for one in found["headers"][n].as_py() or []]
            if "headers" in found
            else [],
            ms(found["timestamp"][n]) if "timestamp" in found else NOW_MS,
            found["partition"][n].as_py() if "partition" in found else None,
        )
        for n in range(batch.num_rows)
    ]
