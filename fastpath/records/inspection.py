"""Checks a client's batch against its own header, as far as a broker has to take it apart: CRC, codec, every record in it.

This file alone decides in which steps that is done. A batch of a few kilobytes can hold a hundred megabytes of records.
So they are read piece by piece, and the caller decides when to go on: `inspect` stops after each piece.
"""

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE, Header, InvalidRecord, InvalidRecords, claimed
from fastpath.records.compression import Piece
from fastpath.records.record_stream import Walk

CODEC, LOG_APPEND_TIME = 0x07, 0x08
NO_TIME, ERRORS_MAX = -1, 100
NO_KEY = "a compacted topic takes no record without a key"
BEFORE, AFTER = -(1 << 63), (1 << 63) - 1

Bytes = bytes | bytearray | memoryview


class Rules(NamedTuple):
    """What a topic requires of each record. Times are ms."""

    keyed: bool = False
    append_time: bool = False
    """Whether the log decides the time of each record."""
    oldest_ms: int = BEFORE
    newest_ms: int = AFTER
    output_bytes_max: int = 100 << 20


class TooLarge(ValueError):
    """The records of a batch have more bytes than are accepted."""


def inspect(data: Bytes, rules: Rules, take: Callable[[Piece], None] | None = None) -> Generator[int, None, int]:
    """Read all records of the batch that fills `data`, compressed or not. Yields the number of bytes of each piece.
    `take` gets every piece whose records are sound, decompressed; the next one takes its place in memory.

    The generator's value is the largest timestamp (ms) of the records, -1 when none has a time. Raises CorruptBatch,
    InvalidRecord and InvalidRecords as `batch.accept` does, TooLarge, and what `take` raises.
    """
    head = claimed(data)
    walk = _walk(head, rules)
    pieces = _pieces(head.attributes & CODEC, memoryview(data)[HEADER_SIZE:], rules.output_bytes_max)
    while True:
        fault = large = None
        try:
            piece = next(pieces, None)
        except compression.TooLarge as error:
            large = str(error)
        except compression.CompressionError as error:
            fault = f"the records cannot be decompressed: {error}"
        if large is not None:
            raise TooLarge(large)
        if fault is None and piece is not None:
            fault = walk.feed(piece)
        if fault is not None:
            raise InvalidRecord(0, f"{fault}, at record {walk.index}")
        if piece is None:
            break
        if take is not None and not walk.errors:
            take(piece)
        yield len(piece)
    if not walk.whole:
        raise _too_few(head, walk)
    if walk.errors:
        raise _errors(walk, rules)
    if (stamp := _stamp_error(head, rules)) is not None:
        raise stamp
    return walk.latest


def _pieces(codec: int, body: memoryview, bytes_max: int) -> Iterator[Piece]:
    if codec != compression.NONE:
        return compression.pieces(codec, body, bytes_max)
    return (body[pos : pos + compression.PIECE_BYTES] for pos in range(0, len(body), compression.PIECE_BYTES))


def record_errors(data: Bytes, rules: Rules) -> InvalidRecord:
    """The error for the records of an uncompressed batch that `accept` has refused."""
    head = claimed(data)
    walk = _walk(head, rules)
    fault = walk.feed(memoryview(data)[HEADER_SIZE:])
    if fault:
        return InvalidRecord(0, f"{fault}, at record {walk.index}")
    if not walk.whole:
        return _too_few(head, walk)
    stamp = None if walk.errors else _stamp_error(head, rules)
    return _errors(walk, rules) if stamp is None else stamp


def _too_few(head: Header, walk: Walk) -> InvalidRecord:
    return InvalidRecord(0, f"the batch's header tells of {head.count} records, and there are {walk.index}")


def _walk(head: Header, rules: Rules) -> Walk:
    stamped = head.attributes & LOG_APPEND_TIME
    return Walk(
        head.count,
        head.last_offset_delta,
        head.base_timestamp,
        strict=True,
        keyed=rules.keyed,
        oldest_ms=BEFORE if stamped else rules.oldest_ms,
        newest_ms=rules.newest_ms,
    )


def _stamp_error(head: Header, rules: Rules) -> InvalidRecords | None:
    """The error if a batch claims the time of another log for all its records, and that time is not acceptable; None:
    it is. A mirror passes such batches on. The claim is dropped, and the records keep the times that they were produced
    with, however old; the claimed time must be one that the topic accepts, and no record's may be later than that."""
    if not head.attributes & LOG_APPEND_TIME:
        return None
    if rules.append_time:
        why = "a producer may not say that the log has set the time"
    elif head.max_timestamp == NO_TIME or not rules.oldest_ms <= head.max_timestamp <= rules.newest_ms:
        why = f"the time of its batch is not between {rules.oldest_ms} and {rules.newest_ms}"
    else:
        return None
    errors = tuple((index, why) for index in range(min(head.count, ERRORS_MAX)))
    return InvalidRecords(f"all {head.count} records are refused, because {why}", errors, True)


def _errors(walk: Walk, rules: Rules) -> InvalidRecords:
    untimely = f"its timestamp is not between {rules.oldest_ms} and {rules.newest_ms}"
    errors = [(index, NO_KEY if keyless else untimely) for index, keyless in walk.kept_errors]
    reason = f"{walk.errors} of {walk.index} records are refused, the first one because {errors[0][1]}"
    return InvalidRecords(reason, tuple(errors), walk.mistimed)
