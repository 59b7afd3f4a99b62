"""The index of aborted transactions: Apache Kafka's bytes, what is not believed, and what a range of offsets finds."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log.producers import transaction_index
from actors.broker.log.producers.transaction_index import (
    Aborted,
    CorruptTransactionIndex,
    TransactionIndex,
    check,
    encode,
    entries,
    narrowed,
    overlapping,
)
from tests.simulator.disk import VirtualDisk

GOLDEN = bytes.fromhex(
    "0000 0000000000000fa0 000000000000005a 000000000000006e 000000000000005f"
    "0000 0000000000000fa1 000000000000005f 000000000000006f 0000000000000070"
    "0000 0000000000000fa0 0000000000000070 000000000000008c 000000000000008d"
)
"""Written by Apache Kafka 4.3.1: TransactionIndex.append of these three, in the segment that begins at 100."""
THREE = [Aborted(4000, 90, 110, 95), Aborted(4001, 95, 111, 112), Aborted(4000, 112, 140, 141)]


def test_an_index_is_kafkas_bytes() -> None:
    assert b"".join(map(encode, THREE)) == GOLDEN
    assert entries(GOLDEN) == THREE
    check(GOLDEN, 100, 141)
    check(b"", 100, 100)


@pytest.mark.parametrize(
    "changes",
    [
        {(1, "version"): 1},
        {(0, "last_offset"): 99},
        {(2, "last_offset"): 150},
        {(1, "last_offset"): 110},
        {(1, "last_offset"): 141},
        {(2, "last_stable_offset"): 111},
        {(0, "first_offset"): -1},
        {(0, "first_offset"): 110},
    ],
    ids=str,
)
def test_what_no_log_can_have_is_not_believed(changes: dict[tuple[int, str], int]) -> None:
    rows = [list(struct.unpack(">hqqqq", GOLDEN[place * 34 : place * 34 + 34])) for place in range(3)]
    names = ["version", "producer_id", "first_offset", "last_offset", "last_stable_offset"]
    for (row, name), value in changes.items():
        rows[row][names.index(name)] = value
    with pytest.raises(CorruptTransactionIndex):
        check(b"".join(struct.pack(">hqqqq", *row) for row in rows), 100, 150)


def test_part_of_an_entry_is_not_believed() -> None:
    for size in range(1, len(GOLDEN)):
        if size % 34:
            with pytest.raises(CorruptTransactionIndex):
                check(GOLDEN[:size], 100, 141)


@given(data=st.binary(max_size=300), base=st.integers(0, 1 << 62), end=st.integers(0, 1 << 62))
def test_no_bytes_break_the_check(data: bytes, base: int, end: int) -> None:
    try:
        check(data, base, end)
    except CorruptTransactionIndex:
        return
    last = [entry.last_offset for entry in entries(data)]
    assert last == sorted(set(last)) and all(base <= one < end for one in last)


def slow(found: list[Aborted], offset: int, upper: int) -> tuple[list[tuple[int, int]], bool]:
    """Entry by entry."""
    result = []
    for one in found:
        if one.last_offset >= offset and one.first_offset < upper:
            result.append((one.producer_id, one.first_offset))
        if one.last_offset >= offset and one.last_stable_offset >= upper:
            return result, True
    return result, False


@given(offset=st.integers(80, 150), size=st.integers(0, 60))
def test_a_range_finds_what_overlaps_it(offset: int, size: int) -> None:
    upper = offset + size
    for data in (GOLDEN, memoryview(GOLDEN), bytearray(GOLDEN)):
        part = narrowed(data, offset, upper)
        assert (overlapping(part.rows, offset, upper), part.complete) == slow(THREE, offset, upper)


@st.composite
def histories(draw: st.DrawFn) -> list[Aborted]:
    """Any sound index: transactions over one another, beside one that stays open for a while."""
    found, marker, stable = [], 0, 0
    for _ in range(draw(st.integers(0, 40))):
        marker += draw(st.integers(1, 4))
        stable = max(stable, draw(st.integers(0, marker + 1)))
        found.append(Aborted(draw(st.integers(0, 9)), draw(st.integers(0, marker - 1)), marker, stable))
    return found


@given(found=histories(), offset=st.integers(0, 150), size=st.integers(0, 60))
def test_a_large_file_is_searched_as_a_small_one(found: list[Aborted], offset: int, size: int) -> None:
    disk, upper = VirtualDisk(), offset + size
    data = b"".join(map(encode, found))
    disk.open("i", create=True).append((data,))
    index = TransactionIndex(disk, "i", 0)
    index.claim()
    for whole in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction_index, "WHOLE_BYTES", whole)
            part = index.candidates(offset, upper, 1 << 40, cold=False)
        assert part is not None
        assert (overlapping(part.rows, offset, upper), part.complete) == slow(found, offset, upper)


def test_of_a_large_file_little_is_read() -> None:
    disk = VirtualDisk()
    count = 100_000
    rows = [Aborted(1, 2 * number, 2 * number + 1, 2 * number + 2) for number in range(count)]
    disk.open("i", create=True).append((b"".join(map(encode, rows)),))
    sizes: list[int] = []
    disk.cold = lambda path, position, size: sizes.append(size) is not None
    index = TransactionIndex(disk, "i", 0)
    index.claim()
    part = index.candidates(60_000, 60_010, 1 << 40, cold=False)
    assert part is not None and overlapping(part.rows, 60_000, 60_010) == [(1, 60_000 + 2 * n) for n in range(5)]
    assert sum(sizes) < 60 * 34
    disk.cold = lambda path, position, size: True
    assert index.candidates(60_000, 60_010, 1 << 40, cold=False) is None
    assert index.candidates(60_000, 60_010, 1 << 40, cold=True) == part


def test_the_entries_of_a_segment_that_grows_can_be_searched() -> None:
    """A view of the bytes that is kept would make the next append fail."""
    data = bytearray(GOLDEN)
    assert overlapping(data, 0, 200) == [(4000, 90), (4001, 95), (4000, 112)]
    data += GOLDEN
    assert np.frombuffer(bytes(data), "u1").size == 204
