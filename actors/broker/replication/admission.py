"""Whether a produced batch is accepted, and what is changed in it.

The order is Apache Kafka's, since the first fault found decides the error of the answer:

1. `check`: form, size and codec, from one look at the header.
2. `judge`: fields of the header that do not depend on the records.
3. `believe`: a batch that is or gets compressed, whose records have been inspected before
   (`roles/broker/replication/batch_inspections.py`). If the topic asks for another codec than it came with (`target`,
   KIP-390), the log gets the batch in that form, and its size counts once more.
4. `accept`: every length, checksum, count, key and time of the records, and the offsets that the batch gets (KIP-98,
   KIP-32).

A transactional batch belongs to a producer that has named its transactional id. Whether the partition is in the producer's
transaction the transaction coordinator says (KIP-890); that is not decided here.

Between 1 and 2 the partition says who leads it, and whether its ISR is large enough. After 4 the log says whether the batch
follows on the producer's last one. How much of a compressed batch is looked at in a turn, `batch_inspections.py` decides.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from actors.ports import Buffer
from actors.settings.tables.log import AS_PRODUCED
from actors.settings.topics import TopicSettings
from actors.wire import batch_header
from actors.wire.batch_header import MAGIC, SIZE_BYTES
from actors.wire.errors import ErrorCode
from fastpath.records import batch
from fastpath.records.batch import HEADER_SIZE, OUTPUT_BYTES_MAX, CorruptBatch, Header, InvalidRecord, InvalidRecords
from fastpath.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from fastpath.records.inspection import AFTER, BEFORE, Rules, record_errors
from fastpath.records.recompression import Target

APPEND_TIME = "LogAppendTime"
"""The value of message.timestamp.type with which the broker's time is that of each record."""
SHORTEST = 14
"""The smallest length that a batch of any format has."""
FORMER_MAGIC = (0, 1)
ZSTD_FROM = 7
CODECS, TRANSACTIONAL = 0x07, 0x10
FORMS: dict[str, Callable[[TopicSettings], tuple[int, int]]] = {
    "uncompressed": lambda settings: (NONE, 0),
    "gzip": lambda settings: (GZIP, settings.compression_gzip_level),
    "snappy": lambda settings: (SNAPPY, 0),
    "lz4": lambda settings: (LZ4, settings.compression_lz4_level),
    "zstd": lambda settings: (ZSTD, settings.compression_zstd_level),
}
"""The codec and the level of each compression.type."""
_HEADER = struct.Struct(">qi4xb4xh20xqhi4x")


class RequestRefused(Exception):
    """A request to a partition is refused. `code` is the error of the answer. `records` are (index, sentence) of
    invalid records."""

    def __init__(self, code: ErrorCode, text: str = "", records: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(text or code.name)
        self.code = code
        self.records = records
        self.log_start_offset = -1
        """The log start offset of the log that refuses a produced batch; -1: the batch was refused before a log was
        looked at."""


class ProducedHeader(NamedTuple):
    """The fields of a produced batch's header that are checked here."""

    base_offset: int
    length: int
    """The bytes that follow the length field."""
    magic: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def compressed(records: Any) -> bool:
    """Whether a produced batch is compressed, according to its header. False for bytes that are too short."""
    return records is not None and len(records) >= HEADER_SIZE and records[batch_header.CODEC_AT] & CODECS != 0


def check(records: Any, settings: TopicSettings, version: int, transactional_id: str | None) -> ProducedHeader:
    """The claims of a batch whose form and size are valid. `version`: that of the Produce request.

    Raises RequestRefused: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE, TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
    size = 0 if records is None else len(records)
    claims = ProducedHeader._make(_HEADER.unpack_from(records)) if size >= HEADER_SIZE else None
    if claims is None or claims.length + SIZE_BYTES != size:
        raise RequestRefused(_form_error(records, claims), "a produce request holds one whole record batch a partition")
    if claims.magic != MAGIC:
        code = ErrorCode.INVALID_RECORD if claims.magic in FORMER_MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise RequestRefused(code, f"record batches have magic 2 here, not {claims.magic & 0xFF}")
    if size > settings.max_message_bytes:
        raise RequestRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes is larger than max.message.bytes={settings.max_message_bytes}",
        )
    if size > settings.segment_bytes:
        raise RequestRefused(ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes is larger than a segment")
    if claims.attributes & CODECS == ZSTD and version < ZSTD_FROM:
        raise RequestRefused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if claims.attributes & TRANSACTIONAL and not transactional_id:
        raise RequestRefused(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch comes with a transactional id"
        )
    return claims


def _form_error(records: Any, claims: ProducedHeader | None) -> ErrorCode:
    """The error for bytes that are not one whole batch. A client may have sent none, a part of one, or several; a
    length that cannot be one, or bytes behind the batch that are none, show damage."""
    if claims is None or claims.length + SIZE_BYTES > len(records):
        return ErrorCode.INVALID_RECORD
    behind = records[claims.length + SIZE_BYTES :] if claims.length >= SHORTEST else b""
    size = batch_header.batch_size(behind) if len(behind) >= SIZE_BYTES else -1
    another = SIZE_BYTES + SHORTEST <= size <= len(behind)
    return ErrorCode.INVALID_RECORD if another else ErrorCode.CORRUPT_MESSAGE


def judge(claims: ProducedHeader) -> None:
    """Check the header of a produced batch. Raises RequestRefused, INVALID_RECORD, if no producer writes such a header."""
    if claims.base_offset != 0:
        raise RequestRefused(
            ErrorCode.INVALID_RECORD, f"a produced batch counts its records from 0, not from {claims.base_offset}"
        )
    if claims.producer_id >= 0 and (claims.producer_epoch < 0 or claims.base_sequence < 0):
        raise RequestRefused(
            ErrorCode.INVALID_RECORD, "a batch of an idempotent producer has an epoch and a sequence number"
        )
    if claims.attributes & TRANSACTIONAL and claims.producer_id < 0:
        raise RequestRefused(ErrorCode.INVALID_RECORD, "a transactional batch has a producer id")


def target(settings: TopicSettings, attributes: int) -> Target | None:
    """The form in which the topic wants a batch with these attributes; None: the form in which it came."""
    if settings.compression_type == AS_PRODUCED:
        return None
    codec, level = FORMS[settings.compression_type](settings)
    if codec == attributes & CODECS:
        return None
    return Target(codec, level, min(settings.max_message_bytes, settings.segment_bytes))


def outgrown(settings: TopicSettings) -> RequestRefused:
    """The answer to a batch that is too large in the codec of its topic."""
    if settings.max_message_bytes <= settings.segment_bytes:
        limit = f"max.message.bytes={settings.max_message_bytes}"
        code = ErrorCode.MESSAGE_TOO_LARGE
    else:
        limit, code = "a segment", ErrorCode.RECORD_LIST_TOO_LARGE
    form = f"compression.type={settings.compression_type}"
    return RequestRefused(
        code, f"with the topic's {form} the batch is larger than {limit}: send fewer records in a batch"
    )


def believe(records: Any, verdict: int | bytearray | RequestRefused | None) -> Any:
    """The batch to append, once its records have been inspected. `verdict`: their largest timestamp (ms), which is written
    into its header; or the batch in the codec of its topic; or why it is refused; None: the inspection could not be done.
    Raises RequestRefused."""
    if verdict is None:
        raise RequestRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "the records of the batch could not be looked at")
    if isinstance(verdict, RequestRefused):
        raise verdict
    if isinstance(verdict, bytearray):
        return verdict
    batch.retime(records, 0, verdict)
    return records


def accept(
    data: Buffer, settings: TopicSettings, offset: int, leader_epoch: int, wall_ms: int, *, client: bool
) -> Sequence[Header]:
    """Check all records of one or more batches, and give them offsets from `offset` on. `data` is changed in place.
    Raises RequestRefused: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP."""
    oldest_ms, newest_ms = _times(settings, wall_ms)
    try:
        return batch.accept(
            data,
            0,
            len(data),
            offset,
            leader_epoch,
            now_ms=wall_ms,
            append_time=settings.message_timestamp_type == APPEND_TIME,
            client=client,
            keyed=settings.compact,
            oldest_ms=oldest_ms,
            newest_ms=newest_ms,
        ).headers
    except CorruptBatch as error:
        raise refusal(record_errors(data, rules(settings, wall_ms)) if error.of_records else error) from None


def rules(settings: TopicSettings, wall_ms: int) -> Rules:
    """The rules that each record of a client must follow at this time."""
    append_time = settings.message_timestamp_type == APPEND_TIME
    return Rules(
        settings.compact, append_time, *_times(settings, wall_ms), max(OUTPUT_BYTES_MAX, settings.max_message_bytes)
    )


def refusal(error: CorruptBatch) -> RequestRefused:
    """The refusal of a produced batch with such a fault."""
    if isinstance(error, InvalidRecords):
        code = ErrorCode.INVALID_TIMESTAMP if error.mistimed else ErrorCode.INVALID_RECORD
        return RequestRefused(code, error.reason, error.errors)
    invalid = isinstance(error, InvalidRecord)
    return RequestRefused(ErrorCode.INVALID_RECORD if invalid else ErrorCode.CORRUPT_MESSAGE, error.reason)


def _times(settings: TopicSettings, wall_ms: int) -> tuple[int, int]:
    """The first and the last timestamp that a record of a client may have now."""
    if settings.message_timestamp_type == APPEND_TIME:
        return BEFORE, AFTER
    oldest_ms = wall_ms - settings.message_timestamp_before_max_ms
    newest_ms = wall_ms + settings.message_timestamp_after_max_ms
    return oldest_ms if oldest_ms > BEFORE else BEFORE, newest_ms if newest_ms < AFTER else AFTER
