"""The compression of records, by the codecs that the three bits of a batch's attributes name.

This file alone decides how a compressed batch body becomes bytes and back. Rules:

1. Output comes in pieces of `PIECE_BYTES` or fewer, and its total size is bounded. So a small body that claims to hold
   much costs no memory. Only snappy has larger pieces: a block, which holds at most 22 times its compressed size.
2. The code reads what any Kafka client writes: gzip, snappy raw or in snappy-java's stream of blocks, lz4 frames, zstd
   frames. A body that ends early, or has bytes after its end, is damaged.
3. The code writes what every Kafka client reads: snappy as a stream of blocks, lz4 with independent blocks, no content
   size.
4. An error never keeps output alive: it is raised outside of any handler of a codec's exception.

The codecs themselves come from isal, cramjam, lz4 and zstandard. Where there is no isal, which reads gzip in three fifths
of the time, zlib does the same.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import cramjam
import lz4.frame
import numpy as np
import zstandard

from fastpath.records import zstd_frames

try:
    from isal import isal_zlib as gunzip
except ImportError:  # not a machine that it is made for
    gunzip = zlib  # type: ignore[misc]

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LZ4_DEFAULT_LEVEL = 9
PIECE_BYTES = 128 * 1024
STREAM_BYTES = 64 * 1024
"""The memory of a decoder beside its window or block."""

Bytes = bytes | bytearray | memoryview
Piece = bytes | memoryview

_GZIP_WINDOW = 31  # zlib's number for a gzip header and any window size
_INPUT_BYTES = 64 * 1024  # zlib and lz4 copy the input that they do not consume at once, so it is given in parts
_STREAM_MAGIC = b"\x82SNAPPY\0"
_STREAM_HEADER = _STREAM_MAGIC + b"\0\0\0\1\0\0\0\1"  # version, oldest version that can read it
_STREAM_BLOCK_BYTES = 32 * 1024
_SNAPPY_GROWTH = 22  # the longest copy is 64 bytes for 3
_ZSTD_SOURCE_BYTES = 8 << 20
_COMPRESSOR_BYTES = 512 * 1024  # window, tables and one block of zlib, lz4 or snappy
_LZ4_SEARCH_FROM = 3  # the lowest level at which the library does more than its fast compressor
_SPARE_MAX, _SPARE_WINDOW_BYTES = 8, 8 << 20
_SPARE: list[zstandard.ZstdDecompressor] = []
"""Decoders that are not in use: a new one costs more than a small batch. Taken out and put back in one step each, so
that two threads never have the same one."""
_DAMAGED: tuple[Any, ...] = (cramjam.DecompressionError, gunzip.error, zstandard.ZstdError, RuntimeError)


class CompressionError(ValueError):
    """The bytes are not of that codec, are damaged, or hold more than the limit."""


class TooLarge(CompressionError):
    """The bytes hold more than the limit."""


def _gunzip(data: memoryview, bytes_max: int) -> Iterator[Piece]:
    decoder = gunzip.decompressobj(_GZIP_WINDOW)
    for pos in range(0, len(data), _INPUT_BYTES):
        part: Bytes = data[pos : pos + _INPUT_BYTES]
        while len(part):
            if decoder.eof:  # a gzip stream may have several members
                decoder = gunzip.decompressobj(_GZIP_WINDOW)
            piece = decoder.decompress(part, PIECE_BYTES)
            part = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            yield piece
            while len(piece) == PIECE_BYTES and not len(part) and not decoder.eof:  # zlib may hold back more output
                piece = decoder.decompress(b"", PIECE_BYTES)
                yield piece
    if not decoder.eof:
        raise CompressionError("a gzip stream that ends early")


def _unframe(data: memoryview, bytes_max: int) -> Iterator[Piece]:
    decoder = lz4.frame.LZ4FrameDecompressor()
    for pos in range(0, len(data), _INPUT_BYTES):
        part: Bytes = data[pos : pos + _INPUT_BYTES]
        while True:
            if decoder.eof:
                decoder = lz4.frame.LZ4FrameDecompressor()
            yield decoder.decompress(part, PIECE_BYTES)
            part = (decoder.unused_data or b"") if decoder.eof else b""
            if not len(part) and (decoder.eof or decoder.needs_input):
                break
    if not decoder.eof:
        raise CompressionError("an lz4 frame that ends early")


def _unzstd(data: memoryview, bytes_max: int) -> Iterator[Piece]:
    whole, window_bytes = zstd_frames.ends(data)
    try:
        decoder = _SPARE.pop()
    except IndexError:
        decoder = zstandard.ZstdDecompressor()
    try:
        reader = decoder.stream_reader(data, read_across_frames=True)
        while piece := reader.read(PIECE_BYTES):
            yield piece
    finally:
        if window_bytes <= _SPARE_WINDOW_BYTES and len(_SPARE) < _SPARE_MAX:
            _SPARE.append(decoder)
    if not whole:
        raise CompressionError("zstd frames that end early")


def _unsnap(data: memoryview, bytes_max: int) -> Iterator[Piece]:
    if data[: len(_STREAM_MAGIC)] != _STREAM_MAGIC:
        yield _block(data, bytes_max)
        return
    if len(data) < len(_STREAM_HEADER):
        raise CompressionError("a snappy stream that ends inside its header")
    pos = len(_STREAM_HEADER)
    while pos < len(data):
        size = int.from_bytes(data[pos : pos + 4], "big")
        if size > len(data) - pos - 4:
            raise CompressionError(f"a snappy block of {size} bytes does not fit at byte {pos}")
        yield _block(data[pos + 4 : pos + 4 + size], bytes_max)
        pos += 4 + size


def _block(data: memoryview, bytes_max: int) -> Piece:
    claimed = int(cramjam.snappy.decompress_raw_len(data))
    if claimed > _SNAPPY_GROWTH * len(data):
        raise CompressionError(f"a snappy block of {len(data)} bytes cannot hold {claimed}")
    if claimed > bytes_max:
        raise TooLarge(f"a snappy block holds {claimed} bytes")
    out = np.empty(claimed, dtype=np.uint8).data
    return out[: int(cramjam.snappy.decompress_raw_into(data, out))]


def _snap(data: Bytes) -> bytes:
    parts = [_STREAM_HEADER]
    for pos in range(0, len(data), _STREAM_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[pos : pos + _STREAM_BLOCK_BYTES]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _frame(data: Bytes) -> bytes:
    return bytes(lz4.frame.compress(data, block_linked=False, store_size=False))


_PIECES: Mapping[int, Callable[[memoryview, int], Iterator[Piece]]] = {
    GZIP: _gunzip,
    SNAPPY: _unsnap,
    LZ4: _unframe,
    ZSTD: _unzstd,
}
_COMPRESS: Mapping[int, Callable[[Any], Any]] = {
    GZIP: cramjam.gzip.compress,
    SNAPPY: _snap,
    LZ4: _frame,
    ZSTD: cramjam.zstd.compress,
}


class Compressor(Protocol):
    """A codec that takes bytes piece by piece; what comes out is one body in the codec's form."""

    def compress(self, data: Bytes) -> Bytes:
        """The output that is ready after these bytes; it may be empty."""

    def flush(self) -> Bytes:
        """The rest of the output. No bytes go in after that."""


class _Plain:
    def compress(self, data: Bytes) -> Bytes:
        return bytes(data)

    def flush(self) -> Bytes:
        return b""


class _SnappyStream:
    def __init__(self) -> None:
        self._rest = bytearray()
        self._begun = False

    def compress(self, data: Bytes) -> Bytes:
        self._rest += data
        whole = len(self._rest) - len(self._rest) % _STREAM_BLOCK_BYTES
        return self._blocks(whole)

    def flush(self) -> Bytes:
        return self._blocks(len(self._rest))

    def _blocks(self, size: int) -> Bytes:
        parts = [] if self._begun else [_STREAM_HEADER]
        self._begun = True
        data = bytes(self._rest[:size])
        del self._rest[:size]
        for pos in range(0, size, _STREAM_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[pos : pos + _STREAM_BLOCK_BYTES]))
            parts += (len(block).to_bytes(4, "big"), block)
        return b"".join(parts)


class _Lz4Frame:
    def __init__(self, level: int) -> None:
        self._frame = lz4.frame.LZ4FrameCompressor(block_linked=False, compression_level=level)
        self._begun = False

    def compress(self, data: Bytes) -> Bytes:
        return self._begin() + bytes(self._frame.compress(data))

    def flush(self) -> Bytes:
        return self._begin() + bytes(self._frame.flush())

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return bytes(self._frame.begin())


def _zstd_parameters(level: int, source_bytes: int = _ZSTD_SOURCE_BYTES) -> Any:
    # Tables for 8 MiB: nearly every batch is smaller, and the highest levels would otherwise take 800 MiB.
    source_bytes = min(max(source_bytes, 1), _ZSTD_SOURCE_BYTES)
    return zstandard.ZstdCompressionParameters.from_level(level, source_size=source_bytes, write_content_size=False)


def compressor(codec: int, level: int, source_bytes: int = _ZSTD_SOURCE_BYTES) -> Compressor:
    """A compressor of that codec, 0 for none, at one of Apache Kafka's levels (KIP-390): gzip -1 or 1 to 9, lz4 1 to 17,
    zstd -131072 to 22; snappy has none. lz4's 9, its default there, means the fast compressor; all others search longer.
    `source_bytes`: how much it is going to be given, where that is known. The tables of zstd are made for so much; those for
    8 MiB take longer to clear, at the highest levels, than a small batch takes to compress."""
    if codec == GZIP:
        return zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    if codec == SNAPPY:
        return _SnappyStream()
    if codec == LZ4:
        return _Lz4Frame(0 if level == LZ4_DEFAULT_LEVEL else max(level, _LZ4_SEARCH_FROM))
    if codec == ZSTD:
        parameters = _zstd_parameters(level, source_bytes)
        made: Compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        return made
    return _Plain()


def compressor_bytes(codec: int, level: int) -> int:
    """Memory that a compressor holds, in bytes."""
    if codec == ZSTD:
        return int(_zstd_parameters(level).estimated_compression_context_size()) + PIECE_BYTES
    return _COMPRESSOR_BYTES


def held_bytes(codec: int, data: Bytes) -> int:
    """Memory that `pieces` may hold between two pieces, in bytes: window or block, and the last piece."""
    view = memoryview(data)
    if codec == SNAPPY:
        return _SNAPPY_GROWTH * len(view)
    if codec == LZ4:
        block = 1 << (8 + 2 * (view[5] >> 4 & 7)) if len(view) > 5 else 0
        return 2 * block + PIECE_BYTES + STREAM_BYTES
    window = zstd_frames.ends(view)[1] if codec == ZSTD else 0
    return window + PIECE_BYTES + STREAM_BYTES


def pieces(codec: int, data: Bytes, bytes_max: int) -> Iterator[Piece]:
    """The bytes of a compressed batch body, piece by piece; some pieces are empty.

    `codec` is 1 to 4. Raises CompressionError when the bytes are damaged, TooLarge once there are more than
    `bytes_max`.
    """
    if codec not in _PIECES:
        raise CompressionError(f"no compression codec has the number {codec}")
    found, left = _PIECES[codec](memoryview(data).cast("B"), bytes_max), bytes_max
    while True:
        damage = None
        try:
            piece = next(found, None)
        except CompressionError:
            raise
        except _DAMAGED as error:
            damage = str(error)
        if damage is not None:
            raise CompressionError(f"codec {codec}: {damage}")
        if piece is None:
            return
        left -= len(piece)
        if left < 0:
            raise TooLarge(f"codec {codec}: the records are not within {bytes_max} bytes")
        yield piece


def decompress_into(codec: int, data: Bytes, out: memoryview) -> int:
    """Decompress into existing memory. Returns the number of bytes filled. Raises CompressionError also when `out` is
    too small."""
    filled = 0
    for piece in pieces(codec, data, len(out)):
        out[filled : filled + len(piece)] = piece
        filled += len(piece)
    return filled


def decompress(codec: int, data: Bytes, bytes_max: int) -> memoryview:
    """The bytes of a compressed batch body, in memory of their own. Errors as `pieces`."""
    whole = bytearray()
    for piece in pieces(codec, data, bytes_max):
        whole += piece
    return memoryview(whole)


def compress(codec: int, data: Bytes) -> bytes:
    """A batch body in the codec's form. `codec` is 1 to 4, else it raises CompressionError."""
    if codec not in _COMPRESS:
        raise CompressionError(f"no compression codec has the number {codec}")
    return bytes(_COMPRESS[codec](data))
