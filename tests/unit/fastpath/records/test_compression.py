"""Compressed batches: damage and bombs are refused, within the memory that was allowed."""

import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastpath.records import batch, compression
from tests.reference import batch as slow
from tests.unit.fastpath.records.batches import read

CODECS = (compression.GZIP, compression.SNAPPY, compression.LZ4, compression.ZSTD)
CONTENT = [slow.Row(b"k%d" % i, b"v" * i, i) for i in range(50)]
BODY = slow.build(CONTENT)[61:]


def with_body(codec: int, body: bytes) -> bytes:
    return slow.sealed(slow.fields(slow.build(CONTENT, attributes=codec)), body)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damaged_output_of_a_codec_is_read_or_refused(codec: int, data: st.DataObject) -> None:
    body = bytearray(compression.compress(codec, BODY))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    try:
        assert len(read(with_body(codec, bytes(body)), output_bytes_max=1 << 20)) == len(CONTENT)
    except batch.CorruptBatch as error:
        assert error.position == 0


@pytest.mark.parametrize("codec", CODECS)
@given(body=st.binary(max_size=200))
def test_any_bytes_are_refused(codec: int, body: bytes) -> None:
    with pytest.raises(batch.CorruptBatch):
        read(with_body(codec, body), output_bytes_max=1 << 16)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_than_the_limit(codec: int) -> None:
    bomb = with_body(codec, compression.compress(codec, bytes(16 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(batch.CorruptBatch, match=f"within {1 << 20} bytes"):
            batch.records(bomb, output_bytes_max=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 3 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
def test_exactly_the_limit_is_allowed(codec: int) -> None:
    body = compression.compress(codec, BODY)
    assert compression.decompress(codec, body, len(BODY)) == BODY
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, body, len(BODY) - 1)


@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=400), st.integers(1, 60), st.integers(1, 9), st.data())
def test_a_gzip_stream_is_read_as_zlib_reads_it(piece: bytes, times: int, level: int, data: st.DataObject) -> None:
    """With isal and without it: the same bytes, and the same bodies are damaged."""
    stream = zlib.compress(piece * times, level, 31)
    body = bytearray(stream * data.draw(st.integers(1, 2)))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.integers(0, len(body) - 1))
        if place % len(stream) != 3:  # flags that mean nothing yet: zlib refuses them, Java and isal do not
            body[place] ^= 1 << data.draw(st.integers(0, 7))
    body = body[: len(body) - data.draw(st.sampled_from([0, 0, 1, 8, 20]))]
    try:
        expected = _zlib_reads(bytes(body))
    except zlib.error:
        with pytest.raises(compression.CompressionError):
            compression.decompress(compression.GZIP, bytes(body), 1 << 20)
    else:
        assert bytes(compression.decompress(compression.GZIP, bytes(body), 1 << 20)) == expected


def _zlib_reads(body: bytes) -> bytes:
    out, decoder = b"", zlib.decompressobj(31)
    while body:
        if decoder.eof:
            decoder = zlib.decompressobj(31)
        out += decoder.decompress(body)
        body = decoder.unused_data
    if not decoder.eof:
        raise zlib.error("it ends early")
    return out


def test_the_forms_that_clients_write() -> None:
    for codec, body in (
        (compression.SNAPPY, bytes(cramjam.snappy.compress_raw(BODY))),  # librdkafka: one raw block
        (compression.LZ4, lz4.frame.compress(BODY, block_linked=True, store_size=True, content_checksum=True)),
        (compression.LZ4, lz4.frame.compress(BODY, block_linked=False)),
        (compression.GZIP, bytes(cramjam.gzip.compress(BODY[:99])) + bytes(cramjam.gzip.compress(BODY[99:]))),
    ):
        assert read(with_body(codec, body)) == CONTENT


def test_an_xerial_stream_of_several_blocks() -> None:
    data = bytes(i * i & 0xFF for i in range(100_000))
    stream = compression.compress(compression.SNAPPY, data)
    assert stream.startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    assert compression.decompress(compression.SNAPPY, stream, 1 << 20) == data
    for cut in (7, 15, 17, 20, len(stream) - 1):
        with pytest.raises(compression.CompressionError):
            compression.decompress(compression.SNAPPY, stream[:cut], 1 << 20)


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_a_number_without_a_codec_is_refused(codec: int) -> None:
    with pytest.raises(compression.CompressionError):
        compression.compress(codec, b"")
    with pytest.raises(compression.CompressionError):
        compression.decompress(codec, b"", 1)
