"""The records of a fetch, one by one, for those who want few: of every codec, without control batches, and without what
aborted transactions wrote (`committed.py`). And one record as a batch."""

from collections.abc import Iterator

from actors.client.committed import Committed
from actors.client.errors import ClientError
from actors.client.operations.fetching import Fetched
from actors.client.properties import CODECS
from fastpath.records import batch as batches
from fastpath.records.builder import Builder


def records(found: Fetched, check_crcs: bool = True) -> Iterator[batches.Record]:
    """The records of a fetch, from the position on that was asked for. Raises ClientError for damaged bytes, with
    topic, partition and offset."""
    committed = Committed(found.aborted)
    offset = found.offset
    try:
        for head in batches.headers(found.records):
            offset = max(found.offset, head.base_offset)
            if check_crcs:
                batches.verify(found.records, head.position)
            if committed.keeps(head.last_offset, head.producer_id, head.attributes):
                for record in batches.records(found.records, head.position):
                    if record.offset >= found.offset:
                        yield record
    except batches.CorruptBatch as error:
        raise ClientError(f"partition {found.topic}/{found.partition} at offset {offset}: {error.reason}") from None


def first_header(found: Fetched) -> batches.Header | None:
    """The header of the first batch of a fetch, whatever is in it; None: there is none that is whole and sound."""
    try:
        return next(iter(batches.headers(found.records)), None)
    except batches.CorruptBatch:
        return None


def batch(key: bytes | None, value: bytes | None, timestamp_ms: int, codec: str = "none") -> bytearray:
    """One record as a batch that a producer sends. `codec`: a compression.type."""
    builder = Builder(attributes=CODECS.index(codec), timestamp_ms=timestamp_ms)
    builder.append(key, value)
    return builder.build()
