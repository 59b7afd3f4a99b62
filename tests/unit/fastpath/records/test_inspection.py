"""Compressed batches of clients: what is accepted, against plain Python, whatever the bytes and wherever a piece ends."""

import gc
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpath.records import batch, compression
from fastpath.records.batch import HEADER_SIZE, CorruptBatch, InvalidRecord, InvalidRecords
from fastpath.records.inspection import Rules, TooLarge, inspect, record_errors
from fastpath.records.record_stream import Walk
from tests.reference import batch as slow
from tests.reference.varint import Bad

CODECS = (compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD)
CONTENT = [slow.Row(b"k%d" % i, b"v" * i, 1000 + i) for i in range(50)]
BODY = slow.build(CONTENT)[HEADER_SIZE:]
KEYS = st.none() | st.binary(max_size=40)
ROWS = st.lists(
    st.builds(
        slow.Row,
        KEYS,
        KEYS,
        st.integers(-1, 3000),
        st.lists(st.tuples(st.binary(max_size=9), KEYS), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)
RULES = Rules(keyed=True, oldest_ms=500, newest_ms=2500)


def compressed(codec: int, body: bytes, **fields: int) -> bytearray:
    """A batch whose header tells of `CONTENT`, save `fields`."""
    head = slow.fields(slow.build(CONTENT, attributes=codec))._replace(**fields)
    return bytearray(slow.sealed(head, compression.compress(codec, body)))


def verdict(data: bytes | bytearray, rules: Rules = Rules()) -> int:  # noqa: B008
    steps = inspect(data, rules)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value)


def fed(walk: Walk, body: bytes, cuts: list[int]) -> str | None:
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    fault = None
    for start, stop in itertools.pairwise(edges):
        fault = fault or walk.feed(body[start:stop])
    return fault


@given(rows=ROWS, cuts=st.lists(st.integers(0, 5000), max_size=20))
def test_records_are_the_same_wherever_a_piece_ends(rows: list[slow.Row], cuts: list[int]) -> None:
    data = slow.build(rows)
    head, body = slow.fields(data), data[HEADER_SIZE:]
    walk = Walk(len(rows), len(rows) - 1, head.base_timestamp, strict=True, keyed=True, oldest_ms=500, newest_ms=2500)
    assert fed(walk, body, cuts) is None and walk.whole
    assert walk.latest == max(row.timestamp for row in rows)
    assert walk.kept_errors == slow.refused(head, body, True, 500, 2500)
    search = Walk(len(rows), len(rows) - 1, head.base_timestamp, strict=False, from_ms=1500, from_delta=2)
    assert fed(search, body, cuts) is None
    expected = next(((n, row.timestamp) for n, row in enumerate(rows) if n >= 2 and row.timestamp >= 1500), None)
    assert search.found == expected


@given(rows=ROWS, data=st.data())
def test_any_damage_gets_the_verdict_of_plain_python(rows: list[slow.Row], data: st.DataObject) -> None:
    whole = slow.build(rows)
    head, body = slow.fields(whole), bytearray(whole[HEADER_SIZE:])
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.sampled_from([len(body), len(body), len(body) - 1]))])
    count = len(rows) + data.draw(st.sampled_from([0, 0, 0, 1, -1]))
    told = head._replace(count=count, last_offset_delta=count - 1)
    cuts = data.draw(st.lists(st.integers(0, 600), max_size=6))
    walk = Walk(count, count - 1, head.base_timestamp, strict=True, keyed=True)
    fault = fed(walk, cut, cuts)
    try:
        expected = slow.refused(told, cut, True)
    except Bad:
        assert fault is not None or not walk.whole
    else:
        assert fault is None and walk.whole and walk.kept_errors == expected


@pytest.mark.parametrize("codec", CODECS)
@given(rows=ROWS)
def test_sound_batches_of_every_codec_are_accepted(codec: int, rows: list[slow.Row]) -> None:
    plain = slow.build(rows)
    sealed = slow.sealed(
        slow.fields(slow.build(rows, attributes=codec)), compression.compress(codec, plain[HEADER_SIZE:])
    )
    assert verdict(sealed) == max(-1, *(row.timestamp for row in rows))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("body", "fields", "told"),
    [
        (BODY, {"count": 51, "last_offset_delta": 50}, "tells of 51 records, and there are 50"),
        (BODY, {"count": 49, "last_offset_delta": 48}, "bytes behind the last record"),
        (BODY, {"last_offset_delta": 1000}, "last offset delta plus 1"),
        (BODY, {"count": 0}, "last offset delta plus 1"),
        (BODY, {"count": (1 << 31) - 1, "last_offset_delta": (1 << 31) - 2}, "tells of 2147483647 records"),
        (b"", {}, "tells of 50 records, and there are 0"),
        (BODY + b"\0", {}, "bytes behind the last record"),
        (BODY[:-1], {}, "tells of 50 records, and there are 49"),
        (BODY[1:], {}, "make no sense"),
        (slow.record(CONTENT[0], 0, 1) * 50, {}, "out of order"),
    ],
)
def test_a_header_that_tells_of_other_records_is_refused(
    codec: int, body: bytes, fields: dict[str, int], told: str
) -> None:
    with pytest.raises(InvalidRecord, match=told):
        verdict(compressed(codec, body, **fields))


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_of_a_compressed_body_is_refused(codec: int) -> None:
    body = compression.compress(codec, BODY)
    head = slow.fields(slow.build(CONTENT, attributes=codec))
    for cut in range(len(body)):
        with pytest.raises(InvalidRecord):
            verdict(slow.sealed(head, body[:cut]))
    with pytest.raises(InvalidRecord):
        verdict(slow.sealed(head, body + b"behind"))


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_crc_is_damage_and_not_the_clients_fault(codec: int) -> None:
    data = compressed(codec, BODY)
    data[-1] ^= 1
    with pytest.raises(CorruptBatch) as raised:
        verdict(data)
    assert not isinstance(raised.value, InvalidRecord)


@pytest.mark.parametrize("codec", CODECS)
def test_records_without_a_key_or_with_a_far_time_are_named(codec: int) -> None:
    rows = [slow.Row(b"k", b"", 1000), slow.Row(None, b"", 1000), slow.Row(b"k", b"", 2501), slow.Row(b"k", b"", -1)]
    plain = slow.build(rows)
    head = slow.fields(slow.build(rows, attributes=codec))
    found = []
    with pytest.raises(InvalidRecords) as raised:
        verdict(slow.sealed(head, compression.compress(codec, plain[HEADER_SIZE:])), RULES)
    found.append(raised.value)
    plain_error = record_errors(plain, RULES)
    assert isinstance(plain_error, InvalidRecords)
    found.append(plain_error)
    for error in found:
        assert [index for index, _ in error.errors] == [1, 2] and error.mistimed
        assert error.reason.startswith("2 of 4 records are refused")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (slow.record(slow.Row(None, b"", 0), 0, 0) + b"\2\0", "tells of 2 records, and there are 1"),
        (slow.record(slow.Row(None, b"", 0), 0, 0), "tells of 2 records, and there are 1"),
        (slow.record(slow.Row(None, b"", 0), 0, 0) * 2, "at record 1"),
        (slow.record(slow.Row(None, b"", 0), 0, 0) + slow.record(slow.Row(b"k", b"", 0), 0, 1) + b"\0", "at record 2"),
    ],
)
def test_a_record_that_makes_no_sense_is_told_of_before_one_without_a_key(body: bytes, told: str) -> None:
    """No record can be named then, since nobody knows where the others begin: the fault is that of the batch, the only one
    of its buffer."""
    rows = [slow.Row(None, b"", 0), slow.Row(b"k", b"", 0)]
    error = record_errors(slow.sealed(slow.fields(slow.build(rows)), body), RULES._replace(oldest_ms=0))
    assert type(error) is InvalidRecord and error.reason.endswith(told)
    assert error.position == 0 and str(error).endswith("(batch at byte 0)")


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused_at_the_limit_and_holds_a_piece(codec: int) -> None:
    builder = batch.Builder(attributes=codec, timestamp_ms=0)
    builder.append(b"k", bytes(8 << 20))
    bomb = builder.build()
    assert verdict(bomb) == 0
    with pytest.raises(TooLarge):
        verdict(bomb, Rules(output_bytes_max=1 << 20))
    pieces = list(inspect(bomb, Rules()))
    assert sum(pieces) > 8 << 20 and max(pieces) <= compression.PIECE_BYTES


def errors_alive() -> int:
    """How many exceptions of this kind exist in the process; other tests may have left some."""
    return sum(isinstance(one, compression.CompressionError | CorruptBatch) for one in gc.get_objects())


@pytest.mark.parametrize("codec", CODECS)
def test_an_error_keeps_no_output(codec: int) -> None:
    """Exceptions that held each other, and an array of 100 MiB, waited for the garbage collector."""
    bomb = compression.compress(codec, bytes(1 << 20))
    gc.collect()
    gc.disable()
    try:
        before = errors_alive()
        for _ in range(3):
            with pytest.raises(compression.CompressionError):
                compression.decompress(codec, bomb, 1 << 18)
            with pytest.raises(CorruptBatch):
                batch.records(compressed(codec, bytes(1 << 20)), output_bytes_max=1 << 18)
        assert errors_alive() == before
    finally:
        gc.enable()


def claimed_by_log(rows: list[slow.Row], time_ms: int) -> bytes:
    """An uncompressed batch that says that another log has set the time of its records."""
    data = slow.build(rows, attributes=0x08)
    head = slow.fields(data)._replace(max_timestamp=time_ms)
    return slow.sealed(head, data[HEADER_SIZE:])


@pytest.mark.parametrize("time_ms", [499, 2501, -1])
def test_a_time_that_another_log_has_set_is_what_is_wrong_where_the_records_are_sound(time_ms: int) -> None:
    sound = [slow.Row(b"k", b"v", 1_000), slow.Row(b"k", b"w", 1_000)]
    error = record_errors(claimed_by_log(sound, time_ms), RULES)
    assert isinstance(error, InvalidRecords) and [index for index, _ in error.errors] == [0, 1]
    assert "all 2 records are refused, because the time of its batch is not between 500 and 2500" in error.reason


@pytest.mark.parametrize("time_ms", [1_000, 499])
def test_records_that_are_wrong_themselves_are_named_before_the_time_of_their_batch(time_ms: int) -> None:
    rows = [slow.Row(b"k", b"v", 1_000), slow.Row(None, b"w", 1_000)]
    error = record_errors(claimed_by_log(rows, time_ms), RULES)
    assert isinstance(error, InvalidRecords) and [index for index, _ in error.errors] == [1]
