"""A client's batch in the codec that its topic asks for (`compression.type`, KIP-390).

This file alone decides what of a batch changes: the codec bits, the length, the largest timestamp (that of the records), the
bit that claims one time for all of them, and the CRC. Every record stays as it was sent, byte for byte, and so do producer,
epoch, sequence, base timestamp and all other attributes. The records are checked before, as those of any client;
`inspection.py` reads them piece by piece, and each piece goes into the compressor at once, so neither the decompressed
records nor more of the result than is allowed are ever held.
"""

import struct
from collections.abc import Generator
from typing import NamedTuple

from fastpath.bytes.crc32c import crc32c
from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE
from fastpath.records.compression import Piece
from fastpath.records.inspection import CODEC, LOG_APPEND_TIME, Bytes, Rules, inspect

LENGTH, CRC, ATTRIBUTES, MAX_TIMESTAMP = 8, 17, 21, 35
"""The positions of these fields in a batch; see batch.pyx."""
UNCOUNTED = 12
"""The size of base offset and length: the bytes that the length does not count."""


class Target(NamedTuple):
    """The form that a batch is to have."""

    codec: int
    """The codec, as in a batch's attributes; 0: not compressed."""
    level: int
    bytes_max: int
    """The most bytes of the whole batch, its header included."""


class Outgrown(ValueError):
    """In its new form the batch has more bytes than `Target.bytes_max`."""


class Recompression:
    """One batch on its way into another form. After the last step of `steps`, `batch` is the result."""

    __slots__ = ("_codec", "_compressor", "_parts", "_size", "_target", "batch", "source_codec")

    def __init__(self, data: Bytes, target: Target) -> None:
        self.source_codec = memoryview(data)[ATTRIBUTES + 1] & CODEC
        self._target = target
        self._compressor = (
            compression.compressor(target.codec, target.level)
            if self.source_codec
            else compression.compressor(target.codec, target.level, len(data))
        )
        self._parts: list[Bytes] = []
        self._size = HEADER_SIZE
        self.batch = bytearray()

    def steps(self, data: Bytes, rules: Rules) -> Generator[int, None, int]:
        """Check all records of the batch that fills `data`, and build the new one. Yields the decompressed bytes of each
        piece; the value and the errors are those of `inspect`, and Outgrown."""
        latest = yield from inspect(data, rules, self._take)
        self._keep(self._compressor.flush())
        self.batch = _sealed(data, self._target.codec, self._parts, self._size, latest)
        self._parts.clear()
        return latest

    def _take(self, piece: Piece) -> None:
        self._keep(self._compressor.compress(piece))

    def _keep(self, part: Bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
        if self._size > self._target.bytes_max:
            raise Outgrown(f"more than {self._target.bytes_max} bytes")


def _sealed(data: Bytes, codec: int, parts: list[Bytes], size: int, latest: int) -> bytearray:
    made = bytearray(memoryview(data)[:HEADER_SIZE])
    made += b"".join(parts)
    (attributes,) = struct.unpack_from(">H", made, ATTRIBUTES)
    struct.pack_into(">i", made, LENGTH, size - UNCOUNTED)
    if codec == compression.NONE and attributes & LOG_APPEND_TIME:
        struct.pack_into(">H", made, ATTRIBUTES, attributes & ~CODEC)  # `batch.accept` judges the claim, and drops it
    else:
        struct.pack_into(">H", made, ATTRIBUTES, attributes & ~(CODEC | LOG_APPEND_TIME) | codec)
        struct.pack_into(">q", made, MAX_TIMESTAMP, latest)
    struct.pack_into(">I", made, CRC, crc32c(memoryview(made)[ATTRIBUTES:]))
    return made
