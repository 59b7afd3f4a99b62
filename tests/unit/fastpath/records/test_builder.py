"""The builder writes what the twin writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.records import batch
from tests.reference import batch as slow
from tests.unit.fastpath.records.batches import built, codecs, read, rows


@given(rows, st.integers(0, 2**62), st.integers(-1, 2**31 - 1), st.integers(-1, 2**62), st.integers(-1, 2**15 - 1))
def test_the_same_bytes_as_the_twin(content, base: int, epoch: int, producer: int, sequence: int) -> None:
    made = built(
        content,
        base_offset=base,
        epoch=epoch,
        attributes=16,
        producer_id=producer,
        producer_epoch=sequence,
        base_sequence=sequence,
    )
    assert made == slow.build(content, base, epoch, 16, (producer, sequence, sequence))
    assert read(made) == content


@given(rows, codecs)
def test_records_come_back_through_every_codec(content, codec: int) -> None:
    made = built(content, attributes=codec, base_offset=40)
    assert batch.verify(made).attributes == codec
    assert read(made) == content
    assert [r.offset for r in batch.records(made)] == list(range(40, 40 + len(content)))


def test_size_and_count_grow_with_the_records() -> None:
    builder = batch.Builder(timestamp_ms=9)
    assert (builder.size, builder.count) == (batch.HEADER_SIZE, 0)
    builder.append(None, b"x" * 200)
    assert builder.count == 1
    size = builder.size
    made = builder.build()
    assert len(made) == size
    assert [r.timestamp for r in batch.records(made)] == [9]


def test_what_cannot_be_a_record_adds_nothing() -> None:
    builder = batch.Builder()
    for key, value, headers in (
        ("text", None, ()),
        (None, bytearray(b"x"), ()),
        (None, b"", [(None, b"")]),
        (None, b"", [("text", b"")]),
        (None, b"", [b"abc"]),
    ):
        with pytest.raises((TypeError, ValueError)):
            builder.append(key, value, 0, headers)
    assert (builder.size, builder.count) == (batch.HEADER_SIZE, 0)


def test_an_empty_or_spent_builder_builds_nothing() -> None:
    builder = batch.Builder()
    with pytest.raises(ValueError, match="needs a record"):
        builder.build()
    builder.append(None, None)
    builder.build()
    for use in (builder.build, lambda: builder.append(None, None), lambda: builder.size):
        with pytest.raises(ValueError, match="built already"):
            use()


def test_time_may_go_back_by_any_amount() -> None:
    content = [slow.Row(None, None, t) for t in (2**62, -(2**62), 0)]
    assert read(built(content)) == content
    assert batch.header(built(content)).max_timestamp == 2**62
