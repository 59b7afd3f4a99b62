"""Batches in another codec (KIP-390): the same records, whatever the codecs and levels, as plain Python reads them."""

import itertools

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fastpath.records import batch, compression
from fastpath.records.batch import HEADER_SIZE, CorruptBatch, InvalidRecord, InvalidRecords
from fastpath.records.inspection import Rules, TooLarge
from fastpath.records.recompression import Outgrown, Recompression, Target
from tests.reference import batch as slow
from tests.unit.fastpath.records.test_inspection import ROWS

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
LEVELS = {
    NONE: (0,),
    GZIP: (-1, 1, 9),
    SNAPPY: (0,),
    LZ4: (1, 2, 3, 9, 12, 17),
    ZSTD: (-131072, -1, 0, 1, 3, 9, 22),
}
FIELDS = {"epoch": -1, "producer_id": 77, "producer_epoch": 3, "base_sequence": 41}
LARGE = 1 << 30


def sent(rows: list[slow.Row], codec: int, attributes: int = 0x10) -> bytes:
    head = slow.fields(slow.build(rows, attributes=attributes))._replace(attributes=attributes | codec, **FIELDS)
    body = slow.build(rows)[HEADER_SIZE:]
    return slow.sealed(head, body if codec == NONE else compression.compress(codec, body))


def large(value: bytes, codec: int) -> bytes:
    """A batch of one record that plain Python would take long to build."""
    builder = batch.Builder(attributes=codec, timestamp_ms=1_000)
    builder.append(None, value)
    return bytes(builder.build())


def recompressed(data: bytes, codec: int, level: int = -1, bytes_max: int = LARGE, rules: Rules = Rules()) -> bytes:  # noqa: B008
    one = Recompression(data, Target(codec, level, bytes_max))
    for _ in one.steps(data, rules):
        pass
    return bytes(one.batch)


def body_of(data: bytes) -> bytes:
    codec = batch.header(data).attributes & 7
    body = data[HEADER_SIZE:]
    return body if codec == NONE else bytes(compression.decompress(codec, body, LARGE))


@given(rows=ROWS, codecs=st.tuples(st.sampled_from(CODECS), st.sampled_from(CODECS)))
def test_only_codec_length_and_crc_change(rows: list[slow.Row], codecs: tuple[int, int]) -> None:
    source, target = codecs
    before = sent(rows, source)
    after = recompressed(before, target, LEVELS[target][0])
    assert body_of(after) == body_of(before)
    old, new = slow.fields(before), slow.fields(after)
    latest = max(row.timestamp for row in rows)
    assert new.attributes == 0x10 | target and new.max_timestamp == max(latest, -1)
    same = dict.fromkeys(("attributes", "size", "length", "crc", "max_timestamp"), 0)
    kept = {name: value for name, value in new._asdict().items() if name not in same}
    assert kept == {name: value for name, value in old._asdict().items() if name not in same}
    assert batch.verify(after).size == len(after)


@pytest.mark.parametrize("codecs", list(itertools.product(CODECS, CODECS)))
def test_the_time_that_another_log_has_set_is_judged_where_the_batch_is_accepted(codecs: tuple[int, int]) -> None:
    """That is behind the codec: an uncompressed batch still claims it there, and no codec; a compressed one is looked into
    before, and keeps the times of its records."""
    source, target = codecs
    rows = [slow.Row(b"k", b"v", 1_000), slow.Row(b"l", b"w", 3_000)]
    after = slow.fields(recompressed(sent(rows, source, attributes=0x08), target))
    assert after.attributes == (0x08 if target == NONE else target)
    assert after.max_timestamp == 3_000


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec in CODECS for level in LEVELS[codec]])
def test_every_level_of_a_codec_is_read_by_it(codec: int, level: int) -> None:
    """Several pieces, of which each is more than a block of any codec."""
    builder = batch.Builder(attributes=GZIP if codec != GZIP else ZSTD)
    values = [bytes([n % 251]) * 7_000 + b"%d" % n for n in range(60)]
    for n, value in enumerate(values):
        builder.append(b"k%d" % n, value, 1_000 + n)
    before = bytes(builder.build())
    after = recompressed(before, codec, level)
    assert body_of(after) == body_of(before)
    assert [record.value for record in batch.records(after)] == values
    if codec != NONE and level != -131072:
        assert len(after) < len(body_of(before)) // 4


def test_a_higher_level_makes_less_of_it() -> None:
    words = [b"w%d" % (n * n % 997) for n in range(30_000)]
    before = large(b" ".join(words), NONE)
    for codec, low, high in ((GZIP, 1, 9), (LZ4, 9, 12), (ZSTD, 1, 19)):
        sizes = [len(recompressed(before, codec, level)) for level in (low, high)]
        assert sizes[1] < sizes[0] < len(before), codec


def test_a_small_batch_gets_small_tables() -> None:
    """Those for the largest take 30 ms to clear at level 15, for each batch. The frame says how large its window is."""
    for size in (1_000, 100_000):
        after = recompressed(large(bytes(size), NONE), ZSTD, 15)
        assert zstandard.get_frame_parameters(after[HEADER_SIZE:]).window_size < 4 * size


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(CODECS, 2)))
def test_what_grows_beyond_its_limit_is_given_up_at_once(source: int, target: int) -> None:
    before = large(bytes(range(256)) * 1_000, source)
    size = len(recompressed(before, target, LEVELS[target][0]))
    assert len(recompressed(before, target, LEVELS[target][0], size)) == size
    with pytest.raises(Outgrown):
        recompressed(before, target, LEVELS[target][0], size - 1)


def test_little_is_held_of_what_grows() -> None:
    bomb = large(bytes(64 << 20), ZSTD)
    one = Recompression(bomb, Target(NONE, 0, 1 << 20))
    read = 0
    with pytest.raises(Outgrown):
        for size in one.steps(bomb, Rules()):
            read += size
    assert read <= 1 << 20


@pytest.mark.parametrize("source", CODECS)
def test_records_are_checked_as_those_of_any_batch(source: int) -> None:
    good = sent([slow.Row(b"k", b"v", 1_000), slow.Row(None, b"v", 1_000)], source)
    head = slow.fields(good)
    with pytest.raises(InvalidRecords, match="without a key"):
        recompressed(good, LZ4, 9, rules=Rules(keyed=True))
    with pytest.raises(InvalidRecords, match="timestamp"):
        recompressed(good, LZ4, 9, rules=Rules(newest_ms=999))
    with pytest.raises(InvalidRecord):
        recompressed(slow.sealed(head._replace(count=3, last_offset_delta=2), good[HEADER_SIZE:]), LZ4, 9)
    with pytest.raises(CorruptBatch):
        recompressed(good[:-1] + bytes([good[-1] ^ 1]), LZ4, 9)
    if source != NONE:
        with pytest.raises(TooLarge):
            recompressed(good, LZ4, 9, rules=Rules(output_bytes_max=3))
