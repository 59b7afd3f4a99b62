"""The index of aborted transactions: Apache Kafka's bytes, what is not believed, and what a range of offsets finds."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.log.transaction_index import (
    Aborted,
    CorruptTransactionIndex,
    check,
    encode,
    entries,
    overlapping,
)

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
        if one.last_stable_offset >= upper:
            return result, True
    return result, False


@given(offset=st.integers(80, 150), size=st.integers(0, 60))
def test_a_range_finds_what_overlaps_it(offset: int, size: int) -> None:
    upper = offset + size
    for data in (GOLDEN, memoryview(GOLDEN), bytearray(GOLDEN)):
        assert overlapping(data, offset, upper) == slow(THREE, offset, upper)


def test_the_entries_of_a_segment_that_grows_can_be_searched() -> None:
    """A view of the bytes that is kept would make the next append fail."""
    data = bytearray(GOLDEN)
    assert overlapping(data, 0, 200).found == [(4000, 90), (4001, 95), (4000, 112)]
    data += GOLDEN
    assert np.frombuffer(bytes(data), "u1").size == 204
