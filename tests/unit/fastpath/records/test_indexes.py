"""The compiled indexes against their slow twin, and against bytes drawn by hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.records import batch, indexes
from tests.reference import indexes as slow

BASE = 1000


def rising(count: int, least: int = 1) -> Any:
    return st.lists(st.tuples(st.integers(least, 50), st.integers(1, 500)), max_size=count)


def build(base_offset: int, count: int, size: int, timestamp: int, epoch: int = 0) -> bytearray:
    builder = batch.Builder(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp)
    for _ in range(count):
        builder.append(None, bytes(size), timestamp)
    return builder.build()


shapes = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 120), st.integers(1, 1000), st.integers(0, 3)), min_size=1, max_size=25
)
"""(records, value bytes, timestamp, offsets skipped before)."""


def file_of(shape: list[tuple[int, int, int, int]]) -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """A log file and its batches as (base offset, last offset, bytes, timestamp)."""
    data, batches, offset = b"", [], BASE
    for count, size, timestamp, skip in shape:
        offset += skip
        one = bytes(build(offset, count, size, timestamp))
        data += one
        batches.append((offset, offset + count - 1, len(one), timestamp))
        offset += count
    return data, batches


def test_entries_are_kafkas_bytes() -> None:
    offsets = indexes.OffsetIndex(BASE)
    offsets.append(BASE + 258, 4097)
    assert offsets.data() == bytes.fromhex("00000102 00001001")
    times = indexes.TimeIndex(BASE)
    assert times.append(1_700_000_000_000, BASE + 1)
    assert times.data() == bytes.fromhex("0000018bcfe56800 00000001")


@given(rising(40), st.integers(BASE - 5, BASE + 2100))
def test_offset_lookup_is_the_twins(steps: list[tuple[int, int]], wanted: int) -> None:
    fast, twin = indexes.OffsetIndex(BASE), slow.OffsetIndex(BASE)
    offset, position = BASE, 0
    for up, on in steps:
        offset, position = offset + up, position + on
        fast.append(offset, position)
        twin.append(offset, position)
    assert fast.lookup(wanted) == twin.lookup(wanted)
    assert fast.data() == twin.data()
    assert [fast.entry(n) for n in range(len(fast))] == twin.entries
    assert indexes.OffsetIndex.parse(BASE, fast.data(), position + 1).data() == fast.data()
    fast.truncate(wanted)
    twin.truncate(wanted)
    assert fast.data() == twin.data()


@given(rising(40, least=0), st.integers(-5, 2100), st.integers(BASE - 5, BASE + 2100))
def test_time_lookup_is_the_twins(steps: list[tuple[int, int]], wanted: int, cut: int) -> None:
    fast, twin = indexes.TimeIndex(BASE), slow.TimeIndex(BASE)
    timestamp, offset = 0, BASE
    for up, on in steps:
        timestamp, offset = timestamp + up, offset + on % 4
        fast.append(timestamp, offset)
        twin.append(timestamp, offset)
    assert fast.lookup(wanted) == twin.lookup(wanted)
    assert fast.data() == twin.data()
    assert indexes.TimeIndex.parse(BASE, fast.data()).data() == fast.data()
    fast.truncate(cut)
    twin.truncate(cut)
    assert fast.data() == twin.data()


@given(shapes, st.sampled_from([0, 100, 300, 4096]))
def test_append_and_scan_decide_as_the_twin(shape: list[tuple[int, int, int, int]], interval: int) -> None:
    data, batches = file_of(shape)
    offsets, times, largest = slow.indexes(BASE, interval, [(last, size, ts) for _, last, size, ts in batches])
    appended, scanned = indexes.SegmentIndex(BASE, interval), indexes.SegmentIndex(BASE, interval)
    assert appended.append(data, 0) == batches[-1][1]
    found = scanned.scan(data, 0, len(data), BASE)
    assert found == (len(data), batches[-1][1] + 1, 0, None)
    for index in (appended, scanned):
        assert index.offsets.data() == offsets.data()
        assert index.times.data() == times.data()
        assert index.max_timestamp == largest


@given(shapes, st.integers(1, 400))
def test_a_scan_in_pieces_is_a_scan(shape: list[tuple[int, int, int, int]], piece: int) -> None:
    data, batches = file_of(shape)
    index, position, next_offset, wanted = indexes.SegmentIndex(BASE, 100), 0, BASE, piece
    while position < len(data):
        found = index.scan(data[position : position + wanted], position, len(data), next_offset)
        assert found.fault is None and (found.stop or found.needed > min(wanted, len(data) - position))
        position, next_offset = position + found.stop, found.next_offset
        wanted = max(piece, found.needed)
    whole = indexes.SegmentIndex(BASE, 100)
    whole.scan(data, 0, len(data), BASE)
    assert next_offset == batches[-1][1] + 1
    assert index.offsets.data() == whole.offsets.data() and index.times.data() == whole.times.data()


@given(shapes, st.integers(BASE - 2, BASE + 80), st.integers(BASE - 2, BASE + 80), st.integers(0, 900), st.booleans())
def test_span_is_the_twins(
    shape: list[tuple[int, int, int, int]], first: int, upper: int, bytes_max: int, at_least_one: bool
) -> None:
    data, batches = file_of(shape)
    found = indexes.span(data, first, upper, bytes_max, at_least_one)
    expected = slow.span([entry[:3] for entry in batches], first, upper, bytes_max, at_least_one)
    if expected[0] == expected[1]:
        assert (found.start == found.stop, found.next_offset, found.needed) == (True, first, 0)
    else:
        assert found == (*expected, 0)


def test_span_of_a_cut_buffer_says_what_it_needs() -> None:
    data, batches = file_of([(1, 50, 1, 0), (1, 500, 1, 0), (1, 50, 1, 0)])
    one, two = batches[0][2], batches[1][2]
    assert indexes.span(data[: one + 5], BASE, 1 << 60, 10_000) == (0, one, BASE + 1, 0)
    assert indexes.span(data[: one + 5], BASE + 1, 1 << 60, 10_000) == (one, one, BASE + 1, 61)
    assert indexes.span(data[: one + 70], BASE + 1, 1 << 60, 10_000) == (one, one, BASE + 1, two)
    assert indexes.span(data[: one + 70], BASE + 2, 1 << 60, 10_000) == (one + two, one + two, BASE + 2, 61)


@pytest.mark.parametrize(
    ("where", "value", "fault"),
    [
        (8, b"\x00\x00\x00\x05", "length"),
        (8, b"\xff\xff\xff\xff", "length"),
        (8, b"\x7f\xff\xff\xff", "torn"),
        (16, b"\x01", "magic"),
        (0, b"\x00\x00\x00\x00\x00\x00\x03\xe8", "offset"),
        (0, b"\x7f\x00\x00\x00\x00\x00\x00\x00", "offset"),
        (23, b"\xff\xff\xff\xff", "offset"),
        (40, b"\x55", "crc"),
        (70, b"\x55", "crc"),
    ],
)
def test_a_scan_says_why_it_stops(where: int, value: bytes, fault: str) -> None:
    data, batches = file_of([(2, 20, 1, 0), (2, 20, 1, 0), (2, 20, 1, 0)])
    begin = batches[0][2]
    damaged = bytearray(data)
    damaged[begin + where : begin + where + len(value)] = value
    index = indexes.SegmentIndex(BASE, 0)
    assert index.scan(damaged, 0, len(damaged), BASE) == (begin, BASE + 2, 0, fault)
    assert len(index.offsets) == 0


@pytest.mark.parametrize("size", range(1, 61))
def test_a_tail_shorter_than_a_header_is_torn(size: int) -> None:
    data, _ = file_of([(1, 10, 1, 0)])
    whole = len(data)
    data += data[:size]
    assert indexes.SegmentIndex(BASE).scan(data, 0, len(data), BASE).fault == "torn"
    assert indexes.SegmentIndex(BASE).scan(data, 0, len(data), BASE).stop == whole


@pytest.mark.parametrize(
    "data",
    ["000000", "0000000500000010 0000000500000020", "0000000500000010 0000000600000010", "00000005ffffffff",
     "ffffffff00000000", "0000000500001000", "0000000500000010 0000000000000000"],
)  # fmt: skip
def test_a_damaged_offset_index_is_refused(data: str) -> None:
    with pytest.raises(indexes.CorruptIndex):
        indexes.OffsetIndex.parse(BASE, bytes.fromhex(data), 0x1000)


@pytest.mark.parametrize(
    "data",
    ["0000", "000000000000000500000001 000000000000000500000002", "000000000000000500000003 000000000000000600000002",
     "0000000000000005ffffffff", "000000000000000500000001 000000000000000000000000"],
)  # fmt: skip
def test_a_damaged_time_index_is_refused(data: str) -> None:
    with pytest.raises(indexes.CorruptIndex):
        indexes.TimeIndex.parse(BASE, bytes.fromhex(data))


def test_entries_that_do_not_fit_are_refused() -> None:
    index = indexes.OffsetIndex(BASE)
    for offset, position in ((BASE - 1, 0), (BASE + 2**31, 0), (BASE, 2**31), (BASE, -1)):
        with pytest.raises(ValueError):
            index.append(offset, position)
    index.append(BASE + 5, 10)
    for offset, position in ((BASE + 5, 11), (BASE + 6, 10)):
        with pytest.raises(ValueError):
            index.append(offset, position)
    times = indexes.TimeIndex(BASE)
    times.append(5, BASE + 5)
    with pytest.raises(ValueError):
        times.append(6, BASE + 4)
    assert not times.append(5, BASE + 6)


def test_bytes_that_are_no_batches_are_refused() -> None:
    index = indexes.SegmentIndex(BASE)
    data, _ = file_of([(1, 10, 1, 0)])
    for damaged in (data[:-1], data + b"x", data[:8] + b"\x00\x00\x00\x01" + data[12:]):
        with pytest.raises(ValueError):
            index.append(damaged, 0)


def test_sealing_enters_the_largest_timestamp_once() -> None:
    index = indexes.SegmentIndex(BASE, 10_000)
    data, batches = file_of([(1, 10, 7, 0), (1, 10, 9, 0), (1, 10, 8, 0)])
    index.append(data, 0)
    assert len(index.times) == 0
    index.seal()
    index.seal()
    assert [index.times.entry(n) for n in range(len(index.times))] == [(9, batches[1][1])]


@pytest.mark.parametrize("base_offset", [(1 << 63) - 1, (1 << 63) - 3, (1 << 31) - 2, 1 << 62])
def test_an_offset_too_far_for_the_segment_is_a_fault_up_to_the_last_bit(base_offset: int) -> None:
    """Base offsets are not under the CRC, and the last offset of such a batch is beyond 63 bits."""
    builder = batch.Builder(base_offset=base_offset)
    for _ in range(5):
        builder.append(None, b"x")
    data = bytes(builder.build())
    found = indexes.SegmentIndex(0).scan(data, 0, len(data), 0)
    assert (found.stop, found.next_offset, found.fault) == (0, 0, "offset")
