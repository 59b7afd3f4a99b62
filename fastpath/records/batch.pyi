from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Buffer

from fastpath.records.builder import Builder as Builder

HEADER_SIZE: int
"""The bytes of a batch before its first record: 61."""
OUTPUT_BYTES_MAX: int
"""The default limit of what `records` decompresses: 100 MiB."""
HEADER_DTYPE: np.dtype[np.void]
"""A header as a numpy structure. The fields are those of `Header`."""

class CorruptBatch(ValueError):
    """Bytes that are not a sound batch. `position`: that of the batch in the given buffer; `reason`: a sentence."""

    position: int
    reason: str
    of_records: bool
    """Whether the batch is sound, but one of its records is refused: it lacks a key, or its time is not accepted."""
    def __init__(self, position: int, reason: str) -> None: ...

class InvalidRecord(CorruptBatch):
    """The bytes arrived as they were sent (the CRC matches), but a client may not send such a batch."""

class InvalidRecords(InvalidRecord):
    """Some records of a sound batch are refused."""

    errors: tuple[tuple[int, str], ...]
    """(index of the record, reason) of the first ones."""
    mistimed: bool
    """Whether one of the records is refused for its timestamp."""
    def __init__(self, reason: str, errors: tuple[tuple[int, str], ...], mistimed: bool) -> None: ...

class Header(NamedTuple):
    """The header of one batch, and where it lies. `last_offset == base_offset + last_offset_delta`."""

    position: int
    size: int
    """The bytes of the whole batch."""
    base_offset: int
    last_offset: int
    epoch: int
    """The partition leader epoch."""
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]
    """The number of records; after compaction fewer than offsets, and possibly 0."""

class Accepted(NamedTuple):
    """What `accept` has found in produced batches."""

    next_offset: int
    """The offset after the last batch; the given base offset when there was none."""
    max_timestamp: int
    """Largest max_timestamp of a batch, ms; -1 without one."""
    max_timestamp_offset: int
    """Last offset of the first batch that has it; -1 without one."""
    headers: list[Header]

class Record(NamedTuple):
    """One record, copied from its batch."""

    offset: int
    timestamp: int
    """The time in ms; the batch's max_timestamp when the log decides the time."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]

def header(data: Buffer, pos: int = 0) -> Header:
    """The header at `pos`; the CRC is not checked. Raises CorruptBatch when the batch is cut off or its numbers are
    invalid."""

def verify(data: Buffer, pos: int = 0) -> Header:
    """The header at `pos`, after a check of the CRC too. The GIL is released for batches of 64 KiB and more. Raises
    CorruptBatch as `header`."""

def headers(data: Buffer, pos: int = 0, end: int | None = None) -> list[Header]:
    """Headers of all whole batches in `[pos, end)`; CRCs are not checked. A last batch that is cut off is left out.

    CorruptBatch at the first batch whose numbers are invalid.
    """

def columns(
    data: Buffer, pos: int = 0, end: int | None = None, fields: Iterable[str] = ...
) -> dict[str, np.ndarray[Any, Any]]:
    """The headers of all whole batches in `[pos, end)`, as one contiguous array for each of the fields of `Header`.

    int64: position, size, base_offset, last_offset, base_timestamp, max_timestamp, producer_id; int32: epoch,
    last_offset_delta, base_sequence, count; uint32: crc; int16: attributes, producer_epoch; int8: magic.
    """

def accept(
    data: Buffer,
    pos: int,
    end: int,
    base_offset: int,
    epoch: int,
    *,
    now_ms: int = 0,
    append_time: bool = False,
    client: bool = True,
    keyed: bool = False,
    oldest_ms: int = ...,
    newest_ms: int = ...,
) -> Accepted:
    """Prepare produced batches for a log: check all in `[pos, end)`, then write offsets from `base_offset` on, and
    `epoch`.

    `data` must be writable (else BufferError) and is changed in place, or not at all. Checked are magic, length and
    CRC; with `client` also control bit, codec, contiguous offsets and, in uncompressed batches, the framing of every
    record. In those, `keyed` refuses a record without a key (for topics that are compacted), and a timestamp outside
    [`oldest_ms`, `newest_ms`] (ms) that is not -1 is refused too. `fastpath.records.inspection` checks compressed
    records. `append_time` writes `now_ms` as the time of every record. Otherwise a client's uncompressed batch gets the
    largest time of its records, whatever its header says. CorruptBatch when the bytes are damaged or the last batch is
    cut off, InvalidRecord when a client broke the rules. Batches of 64 KiB and more are handled without the GIL.
    """

def claimed(data: Buffer) -> Header:
    """The header of the one batch that fills `data`, after a check of the CRC and of all rules of `accept` for clients,
    except those for records.

    CorruptBatch, InvalidRecord. Without the GIL.
    """

def retime(data: Buffer, pos: int, max_timestamp: int) -> None:
    """Write the largest timestamp (ms) of the batch at `pos` and its CRC, if the timestamp differs. Raises CorruptBatch
    as `header`."""

def patch(data: Buffer, pos: int, base_offset: int, epoch: int) -> None:
    """Write base offset and leader epoch of the batch at `pos`, outside its CRC. Raises CorruptBatch as `header`."""

def records(data: Buffer, pos: int = 0, *, output_bytes_max: int = ...) -> Iterator[Record]:
    """The records of the batch at `pos`, decompressed when needed; the CRC is not checked.

    CorruptBatch at once for the header and for bytes that do not decompress within `output_bytes_max`, and later for
    records whose lengths or offsets are invalid. `data` must not be resized during the iteration.
    """
