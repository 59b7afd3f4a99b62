"""Record batches against their slow twin: what is sound is read and stamped, what is not is refused and left alone."""

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fastpath.records import batch
from tests.reference import batch as slow
from tests.reference.varint import Bad
from tests.unit.fastpath.records.batches import built, read, rows

ONE = [slow.Row(b"k", b"v", 5)]


def twin_of(data: bytes, pos: int = 0) -> tuple[int, ...]:
    """A header as the twin reads it, in the order of `batch.Header`."""
    head = slow.fields(data, pos)
    last = head.base_offset + head.last_offset_delta
    return (pos, head.length + 12, head.base_offset, last, head.epoch, head.magic, head.crc, *head[5:])


def reseal(data: bytes, **changed: int) -> bytearray:
    """The batch with other header fields and the CRC that makes them look sent that way."""
    return bytearray(slow.sealed(slow.fields(data)._replace(**changed), data[61:]))


def refused(data, kind=batch.CorruptBatch, pos: int = 0, **rules: int) -> batch.CorruptBatch:
    before = bytes(data)
    with pytest.raises(batch.CorruptBatch) as caught:
        batch.accept(data, pos, len(data), 100, 3, **rules)
    assert type(caught.value) is kind
    assert bytes(data) == before
    return caught.value


# ---- reading


@given(st.lists(rows, max_size=4), st.integers(0, 80))
def test_headers_and_columns_agree_with_the_twin_and_leave_out_a_cut_batch(contents, cut: int) -> None:
    whole = [slow.build(content, base_offset=100 * i, epoch=i) for i, content in enumerate(contents)]
    data = b"##" + b"".join(whole) + slow.build(ONE)[: min(cut, 60)]
    expected, pos = [], 2
    for each in whole:
        expected.append(twin_of(data, pos))
        pos += len(each)
    found = batch.headers(data, 2)
    assert found == expected
    assert [batch.verify(data, head.position) for head in found] == found
    columns = batch.columns(data, 2)
    assert {name: column.tolist() for name, column in columns.items()} == {
        name: [getattr(head, name) for head in found] for name in batch.Header._fields
    }
    few = batch.columns(data, 2, fields=("size", "crc"))
    assert {name: column.tolist() for name, column in few.items()} == {
        name: columns[name].tolist() for name in ("size", "crc")
    }
    assert columns["crc"].dtype == np.uint32 and columns["base_offset"].flags.c_contiguous


def test_the_end_bounds_what_is_read() -> None:
    data = slow.build(ONE) * 3
    size = len(data) // 3
    assert len(batch.headers(data, 0, 2 * size)) == len(batch.headers(data, 0, 3 * size - 1)) == 2
    assert batch.columns(data, size, 3 * size)["position"].tolist() == [size, 2 * size]
    for pos, end in ((-1, 5), (5, 4), (0, len(data) + 1)):
        with pytest.raises(ValueError, match="not inside"):
            batch.headers(data, pos, end)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"base_offset": -1}, "negative"),
        ({"base_offset": 2**63 - 1, "last_offset_delta": 1}, "beyond 63 bits"),
        ({"last_offset_delta": -1}, "negative"),
        ({"count": -1}, "count"),
        ({"count": 2}, "count"),
        ({"magic": 1}, "magic"),
        ({"magic": 0}, "magic"),
    ],
)
def test_numbers_that_make_no_sense_are_refused_though_the_crc_holds(changed: dict[str, int], reason: str) -> None:
    data = bytes(slow.build(ONE) + reseal(slow.build(ONE), **changed))
    pos = len(data) // 2
    for function in (batch.header, batch.verify, batch.records):
        with pytest.raises(batch.CorruptBatch, match=reason) as caught:
            function(data, pos)
        assert caught.value.position == pos
    for function in (batch.headers, batch.columns):
        with pytest.raises(batch.CorruptBatch, match=reason) as caught:
            function(data)
        assert caught.value.position == pos


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 48, 2**31 - 1])
def test_a_length_that_makes_no_sense_is_refused_and_believed_by_nobody(length: int) -> None:
    data = bytearray(slow.build(ONE))
    data[8:12] = struct.pack(">i", length)
    for function in (batch.header, batch.verify, batch.records, batch.headers):
        with pytest.raises(batch.CorruptBatch, match="length"):
            function(data)


@pytest.mark.parametrize("size", range(len(slow.build(ONE))))
def test_a_cut_batch_is_refused_at_every_length(size: int) -> None:
    data = bytearray(slow.build(ONE)[:size])
    for function in (batch.header, batch.verify, batch.records):
        with pytest.raises(batch.CorruptBatch, match="end inside"):
            function(data)
    assert batch.headers(data) == []
    if data:
        refused(data)


def test_compaction_leaves_holes_and_even_empty_batches() -> None:
    sparse = slow.Fields(10, 0, 1, 2, 0, 0, 9, 7, 7, -1, -1, -1, 0)
    assert batch.verify(slow.sealed(sparse, b"")).last_offset == 19
    assert read(slow.sealed(sparse, b"")) == []
    body = slow.record(ONE[0], 0, 2) + slow.record(ONE[0], 0, 9)
    assert [r.offset for r in batch.records(slow.sealed(sparse._replace(count=2), body))] == [12, 19]


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = reseal(slow.build([slow.Row(None, b"a", 5), slow.Row(None, b"b", 9)]), attributes=8, max_timestamp=77)
    assert [r.timestamp for r in batch.records(data)] == [77, 77]


# ---- the produce path


@given(st.lists(rows, max_size=3), st.integers(0, 2**60), st.integers(-1, 2**31 - 1))
def test_accepted_batches_get_their_offsets_and_nothing_else_changes(contents, base: int, epoch: int) -> None:
    before = [slow.build(content, base_offset=i, epoch=-1) for i, content in enumerate(contents)]
    data = bytearray(b"#" + b"".join(before) + b"#")
    accepted = batch.accept(data, 1, len(data) - 1, base, epoch)
    pos, offset, headers = 1, base, []
    for content, old in zip(contents, before, strict=True):
        assert data[pos : pos + len(old)] == slow.build(content, offset, epoch)
        headers.append(twin_of(data, pos))
        offset += len(content)
        pos += len(old)
    assert data[0] == data[-1] == ord("#")
    assert accepted.next_offset == offset
    assert accepted.headers == headers == batch.headers(data, 1, len(data) - 1)
    latest = max((head.max_timestamp for head in accepted.headers), default=-1)
    assert accepted.max_timestamp == latest
    if latest >= 0:
        assert accepted.max_timestamp_offset == next(
            head.last_offset for head in accepted.headers if head.max_timestamp == latest
        )


@given(rows, st.integers(0, 2**41))
def test_append_time_is_written_into_the_header_with_a_new_crc(content, now_ms: int) -> None:
    data = bytearray(slow.build(content))
    accepted = batch.accept(data, 0, len(data), 0, 0, now_ms=now_ms, append_time=True)
    assert data == reseal(slow.build(content, 0, 0), attributes=8, max_timestamp=now_ms)
    assert accepted.max_timestamp == now_ms and batch.verify(data) == accepted.headers[0]


@given(rows, rows, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**60))
def test_the_largest_timestamp_is_that_of_the_records_whatever_a_client_says(
    first, second, said: int, base: int
) -> None:
    data = bytearray(slow.build(first) + reseal(slow.build(second), max_timestamp=said))
    accepted = batch.accept(data, 0, len(data), base, 3)
    assert data == slow.build(first, base, 3) + slow.build(second, base + len(first), 3)
    assert accepted.headers == [batch.verify(data), batch.verify(data, accepted.headers[0].size)]


def test_what_the_cluster_or_compression_says_of_the_largest_timestamp_stands() -> None:
    for changed, client in (({"attributes": 3}, True), ({}, False)):
        data = reseal(slow.build(ONE), max_timestamp=77, **changed)
        assert batch.accept(data, 0, len(data), 0, 0, client=client).max_timestamp == 77


def test_nothing_to_take_in_is_nothing() -> None:
    assert batch.accept(bytearray(), 0, 0, 7, 1) == (7, -1, -1, [])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"attributes": 32}, "control"),
        ({"attributes": 5}, "codec"),
        ({"attributes": 7}, "codec"),
        ({"count": 0, "last_offset_delta": 0}, "not its last offset delta"),
        ({"last_offset_delta": 1}, "not its last offset delta"),
        ({"last_offset_delta": 1, "count": 2}, "lengths"),
        ({"last_offset_delta": 2**31 - 1, "count": 2**31 - 1}, "not its last offset delta"),
        ({"last_offset_delta": 2**31 - 2, "count": 2**31 - 1}, "lengths"),
    ],
)
def test_what_a_client_may_not_send(changed: dict[str, int], reason: str) -> None:
    first = bytes(slow.build(ONE))
    error = refused(bytearray(first + reseal(first, **changed)), batch.InvalidRecord)
    assert reason in error.reason and error.position == len(first)


@given(rows, st.integers(0, 2**62))
def test_a_client_that_claims_one_time_for_all_records_leaves_them_their_own(content, claimed: int) -> None:
    """A mirror passes batches on as they are. Apache Kafka drops the claim, too, where records keep their times."""
    data = reseal(slow.build(content), attributes=8, max_timestamp=claimed)
    slow.check(bytes(data))
    accepted = batch.accept(data, 0, len(data), 0, 0)
    assert data == slow.build(content, 0, 0) and batch.verify(data) == accepted.headers[0]


@pytest.mark.parametrize("claimed", [-1, 99, 201])
def test_the_time_that_a_client_claims_for_all_records_must_be_one(claimed: int) -> None:
    data = reseal(slow.build([slow.Row(b"k", b"v", 150)]), attributes=8, max_timestamp=claimed)
    refused(data, batch.InvalidRecord, oldest_ms=100, newest_ms=200)
    fine = reseal(slow.build([slow.Row(b"k", b"v", 5)]), attributes=8, max_timestamp=150)
    assert batch.accept(fine, 0, len(fine), 0, 0, oldest_ms=100, newest_ms=200).max_timestamp == 5


def test_where_the_log_sets_the_time_a_client_does_not_claim_that_it_has() -> None:
    refused(reseal(slow.build(ONE), attributes=8), batch.InvalidRecord, append_time=True, now_ms=7)


def test_what_the_cluster_itself_may_write() -> None:
    data = reseal(slow.build(ONE), attributes=32, last_offset_delta=4)
    assert batch.accept(data, 0, len(data), 10, 1, client=False).next_offset == 15


def test_a_compacted_topic_needs_keys() -> None:
    data = bytearray(slow.build([slow.Row(b"k", None, 1), slow.Row(None, b"v", 1)]))
    assert "key" in refused(data, batch.InvalidRecord, keyed=True).reason
    assert batch.accept(data, 0, len(data), 0, 0).next_offset == 2


def test_read_only_bytes_cannot_be_stamped() -> None:
    with pytest.raises(BufferError):
        batch.accept(slow.build(ONE), 0, 10, 0, 0)
    with pytest.raises(BufferError):
        batch.patch(slow.build(ONE), 0, 0, 0)


def test_patch_changes_offset_and_epoch_outside_the_crc() -> None:
    data = bytearray(b"##" + slow.build(ONE))
    batch.patch(data, 2, 2**40, 9)
    assert data[2:] == slow.build(ONE, 2**40, 9)
    with pytest.raises(batch.CorruptBatch):
        batch.patch(data, 3, 0, 0)


# ---- damage

edits = st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=3)


def damaged(data: bytes, changes: list[tuple[float, int]], start: int = 0) -> bytearray:
    out = bytearray(data)
    for place, value in changes:
        out[start + int(place * (len(out) - start))] = value
    return out


def judged_alike(data: bytearray) -> None:
    """Twin and fast path give the same verdict; a refusal changes nothing, whatever is read stays inside the bytes."""
    for client, keyed in ((True, False), (True, True), (False, False)):
        try:
            slow.check(bytes(data), client, keyed)
        except Bad:
            with pytest.raises(batch.CorruptBatch) as caught:
                batch.accept(copy := bytearray(data), 0, len(data), 0, 0, client=client, keyed=keyed)
            assert copy == data
            assert 0 <= caught.value.position < len(data)
        else:
            batch.accept(bytearray(data), 0, len(data), 0, 0, client=client, keyed=keyed)
    try:
        read(data)
    except batch.CorruptBatch as error:
        assert error.position == 0


@given(rows, edits)
def test_any_damaged_byte_is_judged_as_by_the_twin(content, changes) -> None:
    judged_alike(damaged(slow.build(content), changes))


@given(rows, edits)
@example(ONE, [(0.0, 255)])
def test_records_damaged_before_they_were_sealed_are_judged_as_by_the_twin(content, changes) -> None:
    whole = slow.build(content)
    judged_alike(bytearray(slow.sealed(slow.fields(whole), bytes(damaged(whole, changes, 61))[61:])))


@given(st.binary(max_size=300), st.integers(-1, 5))
def test_any_bytes_as_records_are_judged_as_by_the_twin(body: bytes, count: int) -> None:
    judged_alike(bytearray(slow.sealed(slow.Fields(0, 0, 0, 2, 0, 0, 4, 0, 0, -1, -1, -1, count), body)))


@given(st.binary(max_size=200))
def test_any_bytes_as_batches_are_judged_as_by_the_twin(data: bytes) -> None:
    if data:
        judged_alike(bytearray(data))


def test_large_batches_take_the_way_without_the_gil() -> None:
    content = [slow.Row(b"%d" % i, bytes(1000), i) for i in range(80)]
    data = built(content)
    assert batch.accept(data, 0, len(data), 5, 1).headers == [batch.verify(data)]
    data[40_000] ^= 1
    assert refused(data).reason == "the batch's CRC does not match its bytes"
    with pytest.raises(batch.CorruptBatch, match="CRC"):
        batch.verify(data)
