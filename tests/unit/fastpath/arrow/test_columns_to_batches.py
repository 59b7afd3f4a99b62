"""Record batches made of Arrow columns: the bytes of a plain twin over generated data, limits, and rows that do not fit."""

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from actors.arrow import written_columns
from fastpath.arrow import columns_to_batches
from fastpath.arrow.array_views import Array
from fastpath.arrow.columns_to_batches import BadRow, Batches, Columns
from fastpath.bytes.murmur2 import partition_of
from fastpath.records import batch
from tests.reference import columns_to_batches as slow
from tests.unit.fastpath.arrow import columns as drawn

LARGE = 1 << 30


def filled(
    batches: Batches, found: pa.RecordBatch, number: int = 0, step: int = 1 << 30
) -> list[columns_to_batches.Closed]:
    """The closed batches after all rows were taken, in steps of so many."""
    read, row, closed = written_columns.columns(found), 0, []
    while row < found.num_rows:
        row = batches.fill(read, row, min(row + step, found.num_rows), number, drawn.NOW_MS, LARGE)
        closed += batches.taken()
    return closed


@pytest.mark.parametrize("seed", range(150))
def test_the_same_batches_as_the_twin(seed: int) -> None:
    draw = random.Random(seed)
    partitions, size = draw.choice([1, 2, 6, 50]), draw.choice([61, 200, 1000, 5000])
    turns = draw.sample(range(partitions), draw.randint(1, partitions))
    batches, twin = Batches(partitions, size, 1 << 20, 0, turns), slow.Batches(partitions, size, list(turns))
    closed, number = [], 0
    for _ in range(draw.randint(1, 4)):
        some = drawn.batch(draw, draw.choice([0, 1, 7, 60, 200]), partitions)
        written_columns.check(some.schema)
        closed += filled(batches, some, number, draw.choice([1, 13, 1 << 20]))
        for at, row in enumerate(drawn.rows(some)):
            twin.add(number + at, row)
        number += some.num_rows
    batches.close()
    twin.close_all()
    closed += batches.taken()
    assert [(one.partition, bytes(one.data), one.rows.tolist()) for one in closed] == twin.closed
    assert [one.records for one in closed] == [len(one.rows) for one in twin.closed]
    assert (batches.open_bytes, batches.closed_bytes) == (0, 0)


@pytest.mark.parametrize("codec", range(5))
def test_every_codec_gives_the_records_back(codec: int) -> None:
    draw = random.Random(codec)
    some = drawn.batch(draw, 500, 3)
    batches = Batches(3, 4000, 1 << 20, codec)
    closed = filled(batches, some)
    batches.close()
    closed += batches.taken()
    rows = drawn.rows(some)
    seen = []
    for one in closed:
        head = batch.verify(one.data)
        assert head.attributes == codec and head.count == one.records
        read = list(batch.records(one.data))
        for number, record in zip(one.rows.tolist(), read, strict=True):
            row = rows[number]
            assert (record.key, record.value, record.timestamp, list(record.headers)) == (*row[:2], row.ms, row.headers)
            seen.append(number)
    assert sorted(seen) == list(range(500))


def only(values: list[bytes | None], **more: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **more})


def test_rows_without_a_key_stay_until_the_batch_is_closed() -> None:
    batches = Batches(3, 61 + 40, 1 << 20, 0, [2, 0])
    closed = filled(batches, only([b"0123456789"] * 7))
    batches.close()
    closed += batches.taken()
    assert [(one.partition, one.rows.tolist()) for one in closed] == [(2, [0, 1]), (0, [2, 3]), (2, [4, 5]), (0, [6])]


def test_a_record_that_fits_into_no_batch_has_one_alone() -> None:
    batches = Batches(1, 100, 500)
    closed = filled(batches, only([b"a", b"b" * 400, b"c"]))
    batches.close()
    closed += batches.taken()
    assert [one.rows.tolist() for one in closed] == [[0], [1], [2]]


def test_a_record_is_too_large_from_one_byte_on() -> None:
    whole = len(slow.batch.build([slow.batch.Row(None, b"x" * 300, drawn.NOW_MS)]))
    assert filled(Batches(1, 100, whole), only([b"x" * 300])) == []
    batches = Batches(1, 100, whole - 1)
    with pytest.raises(BadRow) as found:
        filled(batches, only([b"", None, b"x" * 300, b""]), 1000)
    assert (found.value.number, found.value.reason, found.value.value) == (1002, columns_to_batches.TOO_LARGE, whole)
    batches.close()
    assert [number for one in batches.taken() for number in one.rows.tolist()] == [1000, 1001], (
        "those before it are there"
    )


def test_no_more_is_taken_than_memory_allows() -> None:
    batches = Batches(4, 1000, 1 << 20)
    read = written_columns.columns(only([b"x" * 90] * 1000))
    row = batches.fill(read, 0, 1000, 0, 0, 5000)
    held = batches.open_bytes + batches.closed_bytes
    assert 5000 <= held < 5000 + 120 + 61
    assert batches.fill(read, row, 1000, 0, 0, 5000) == row
    taken = batches.taken()
    assert batches.closed_bytes == 0 and batches.open_bytes < held
    assert sum(len(one.data) + one.rows.nbytes for one in taken) + batches.open_bytes == held
    assert batches.fill(read, row, 1000, 0, 0, 5000) > row


def test_smaller_batches_can_be_asked_for() -> None:
    batches = Batches(1, 100_000, 1 << 20)
    filled(batches, only([b"x" * 100] * 10))
    batches.batch_bytes = 500
    closed = filled(batches, only([b"x" * 100] * 10), 10)
    assert [one.records for one in closed] == [10, 4, 4]


def bad(some: pa.RecordBatch, partitions: int = 2) -> tuple[int, str, int]:
    with pytest.raises(BadRow) as found:
        filled(Batches(partitions, 1000, 1 << 20), some)
    return found.value.number, found.value.reason, found.value.value


@pytest.mark.parametrize("number", [-1, 2, 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63)])
def test_a_partition_that_is_none_is_named(number: int) -> None:
    some = only([b""] * 3, partition=pa.array([0, 1, number], pa.int64()))
    assert bad(some) == (2, columns_to_batches.PARTITION_OUTSIDE, number)


@pytest.mark.parametrize("kind", [pa.int32(), pa.null()], ids=str)
def test_a_partition_that_is_null_is_the_one_of_the_key(kind: pa.DataType) -> None:
    """As with Java's producer, and with Spark's own sink."""
    keys = [b"%d" % n for n in range(100)] + [None]
    named = [None if kind == pa.null() or n % 2 else 3 for n in range(len(keys))]
    some = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": [b""] * 101, "partition": pa.array(named, kind)}
    )
    batches = Batches(8, 1000, 1 << 20)
    closed = filled(batches, some)
    batches.close()
    where = {row: one.partition for one in closed + batches.taken() for row in one.rows.tolist()}
    assert len(where) == 101
    for key, number, row in zip(keys, named, range(101), strict=True):
        assert key is None or where[row] == (number if number is not None else partition_of(key, 8))


@pytest.mark.parametrize(
    ("unit", "time"),
    [(unit, -1) for unit in ("s", "ms", "us", "ns")]
    + [("s", 9223372036854776), ("s", (1 << 63) - 1), ("ms", 9223372036854776), ("ms", (1 << 63) - 1)],
)
def test_a_time_that_no_record_can_have_is_named(unit: str, time: int) -> None:
    last = {"s": 9223372036854, "ms": 9223372036854775, "us": (1 << 63) - 1, "ns": (1 << 63) - 1}[unit]
    some = only([b""] * 3, timestamp=pa.array([0, last, time], pa.int64()).cast(pa.timestamp(unit)))
    assert bad(some) == (2, columns_to_batches.TIME_OUTSIDE, time)


def test_a_header_without_a_key_is_named() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for row in ([{"key": None, "value": b""}], [{"key": "a", "value": b""}, None]):
        some = only([b""] * 2, headers=pa.array([[], row], kind))
        assert bad(some)[:2] == (1, columns_to_batches.NO_NAME)


def test_offsets_that_lead_elsewhere_are_named() -> None:
    value = Array("small", 3, 0, None, np.array([0, 4, 8, 99], np.int32), [b"12345678"])
    pairs, names = Array("null", 2), Array("small", 3, 0, None, np.array([0, 4, 8, 8], np.int32), [b"12345678"])
    for columns in (
        Columns(3, value=value),
        Columns(3, key=value),
        Columns(3, headers=(Array("small", 3, 0, None, np.array([0, 1, 2, 3], np.int32)), pairs, names, names)),
        Columns(3, headers=(Array("large", 3, 0, None, np.array([0, 1, 2, -1])), pairs, names, names)),
    ):
        batches = Batches(1, 1000, 1 << 20)
        with pytest.raises(BadRow) as found:
            batches.fill(columns, 0, 3, 7, 0, LARGE)
        assert (found.value.number, found.value.reason) == (9, columns_to_batches.DAMAGED)


def test_what_cannot_be_columns_or_batches() -> None:
    one, two, names = Array("null", 1), Array("null", 2), Array("small", 1, 0, None, bytes(8), [b""])
    for wrong in (
        lambda: Columns(2, value=one),
        lambda: Columns(1, partition=names),
        lambda: Columns(1, timestamp=names),
        lambda: Columns(1, unit="min"),
        lambda: Columns(1, headers=(one, two, one, two)),
        lambda: Columns(1, headers=(one, two, two, one)),
        lambda: Batches(0, 1000, 1000),
        lambda: Batches(2, 1000, 1000, 0, []),
        lambda: Batches(2, 1000, 1000, 0, [2]),
        lambda: Batches(2, 1000, 1000).fill(Columns(1), 0, 2, 0, 0, 1),
        lambda: Batches(2, 1000, 1000).fill(Columns(1), -1, 1, 0, 0, 1),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_batches_that_nobody_takes_are_freed() -> None:
    batches = Batches(4, 1000, 1 << 20)
    read = written_columns.columns(only([b"x" * 90] * 1000))
    batches.fill(read, 0, 1000, 0, 0, LARGE)
    assert batches.closed_bytes and batches.open_bytes
    del batches  # the sanitizers see what is left


MANY = """
import pyarrow as pa
from actors.arrow.written_columns import columns
from fastpath.arrow.columns_to_batches import Batches
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
batches = Batches(20_000, 512_000, 8 << 20)
rows = pa.record_batch({"value": pa.array([b"v" * 100] * 40_000), "partition": pa.array(list(range(20_000)) * 2)})
read, before = columns(rows), resident()
for number in range(8):
    assert batches.fill(read, 0, 40_000, 0, 0, 1 << 40) == 40_000
counted, while_open = batches.open_bytes >> 10, resident() - before
batches.close()
waiting = batches.taken()
print(counted, while_open, resident() - before)
"""


@pytest.mark.long
def test_small_batches_take_little_more_memory_than_is_counted() -> None:
    """Thousands of partitions have batches of a few records: what is kept for them is what buffer.memory bounds."""
    said = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True).stdout
    counted, while_open, waiting = map(int, said.split())
    assert counted > 30_000 and while_open < 2.5 * counted and waiting < 2.5 * counted, said


CHANGING = """
import threading, time
import numpy as np
from fastpath.arrow.array_views import Array
from fastpath.arrow.columns_to_batches import BadRow, Batches, Columns
from fastpath.records import batch

ROWS = 20_000
ONE = np.arange(ROWS + 1, dtype=np.int32)
ends, data = ONE.copy(), np.zeros(ROWS * 300, np.uint8)
value = Array("null", ROWS)
lists = Array("small", ROWS, 0, None, ONE)
pairs = Array("fixed", ROWS, 0, None, None, [None], 0)
names = Array("small", ROWS, 0, None, np.zeros(ROWS + 1, np.int32), [data])
columns = Columns(ROWS, None, value, headers=(lists, pairs, names, Array("small", ROWS, 0, None, ends, [data])))
over = False

def change():
    while not over:
        for width in (1, 300, 7):
            ends[:] = ONE * width

thread = threading.Thread(target=change, daemon=True)
thread.start()
until, faults, written = time.monotonic() + 3, set(), 0
while time.monotonic() < until:
    batches, row = Batches(1, 1 << 14, 1 << 20), 0
    while row < ROWS:
        try:
            row = batches.fill(columns, row, ROWS, 0, 1, 1 << 30)
        except BadRow as error:
            faults.add(error.reason)
            row = error.number + 1
    batches.close()
    for one in batches.taken():
        assert batch.verify(one.data).count == one.records == len(one.rows)
        assert sum(1 for _ in batch.records(one.data)) == one.records
        written += one.records
    assert (batches.open_bytes, batches.closed_bytes) == (0, 0)
over = True
thread.join()
print(written > 0, sorted(faults))
"""


def test_headers_that_change_while_they_are_written_break_nothing() -> None:
    """Arrow arrays may lie over memory that another thread writes into."""
    found = subprocess.run([sys.executable, "-c", CHANGING], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")
    written, faults = found.stdout.split(" ", 1)
    assert written == "True" and columns_to_batches.CHANGED in faults
