"""Record compression: what the three codec bits of a batch's attributes mean.

This file alone decides how a compressed batch body becomes bytes and back. Rules:

1. Output is bounded. It is written into one array of at most `bytes_max` bytes whose pages are only touched as far as
   they are filled, so a small body that claims to be huge costs an error and no memory.
2. We read what any Kafka client writes: gzip, snappy raw or in snappy-java's stream of blocks, lz4 frames, zstd frames.
3. We write what every Kafka client reads: snappy as a stream of blocks, lz4 with independent blocks, no content size.

The codecs themselves come from cramjam and lz4.
"""

from collections.abc import Callable, Mapping
from typing import Any

import cramjam
import lz4.frame
import numpy as np

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

Bytes = bytes | bytearray | memoryview

_STREAM_MAGIC = b"\x82SNAPPY\0"
_STREAM_HEADER = _STREAM_MAGIC + b"\0\0\0\1\0\0\0\1"  # version, oldest version that can read it
_STREAM_BLOCK_BYTES = 32 * 1024
_FIRST_GUESS = 16  # times the compressed size


class CompressionError(ValueError):
    """The bytes are not of that codec, are damaged, or hold more than the limit."""


def _unsnap(data: Bytes, out: memoryview) -> int:
    if bytes(data[: len(_STREAM_MAGIC)]) != _STREAM_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(data, out))
    if len(data) < len(_STREAM_HEADER):
        raise CompressionError("a snappy stream that ends inside its header")
    pos, filled = len(_STREAM_HEADER), 0
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        if size > len(data) - pos - 4:
            raise CompressionError(f"a snappy block of {size} bytes does not fit at byte {pos}")
        filled += int(cramjam.snappy.decompress_raw_into(data[pos + 4 : pos + 4 + size], out[filled:]))
        pos += 4 + size
    return filled


def _snap(data: Bytes) -> bytes:
    parts = [_STREAM_HEADER]
    for pos in range(0, len(data), _STREAM_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[pos : pos + _STREAM_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _frame(data: Bytes) -> bytes:
    return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))


_DECOMPRESS: Mapping[int, Callable[[Any, Any], int]] = {
    GZIP: cramjam.gzip.decompress_into,
    SNAPPY: _unsnap,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}
_COMPRESS: Mapping[int, Callable[[Any], Any]] = {
    GZIP: cramjam.gzip.compress,
    SNAPPY: _snap,
    LZ4: _frame,
    ZSTD: cramjam.zstd.compress,
}


def decompress_into(codec: int, data: Bytes, out: memoryview) -> int:
    """The same into memory that is there; the bytes filled. CompressionError also when `out` is too small."""
    try:
        return _DECOMPRESS[codec](data, out)
    except KeyError:
        raise CompressionError(f"no compression codec has the number {codec}") from None
    except cramjam.DecompressionError as error:
        raise CompressionError(f"codec {codec} within {len(out)} bytes: {error}") from error


def decompress(codec: int, data: Bytes, bytes_max: int) -> memoryview:
    """The bytes of a compressed batch body, in memory of their own.

    `codec` is 1 to 4. Raises CompressionError when damaged, of another codec, or longer than `bytes_max`.
    """
    if codec not in _DECOMPRESS:
        raise CompressionError(f"no compression codec has the number {codec}")
    guess = min(bytes_max, max(_FIRST_GUESS * len(data), 64 * 1024))
    for room in (guess, bytes_max) if guess < bytes_max else (bytes_max,):
        out = np.empty(room, dtype=np.uint8).data
        try:
            return out[: _DECOMPRESS[codec](data, out)]
        except (CompressionError, cramjam.DecompressionError) as error:
            reason = error
    raise CompressionError(f"codec {codec} within {bytes_max} bytes: {reason}") from reason


def compress(codec: int, data: Bytes) -> bytes:
    """A batch body in the codec's form. `codec` is 1 to 4, else CompressionError."""
    if codec not in _COMPRESS:
        raise CompressionError(f"no compression codec has the number {codec}")
    return bytes(_COMPRESS[codec](data))
