"""The records of a fetch, one by one, for those who print them: of every codec, without control batches, and without what
aborted transactions wrote.

An aborted transaction is known by its producer and its first offset, and ends at that producer's next marker (KIP-98).
"""

from collections.abc import Iterator

from actors.client.errors import ClientError
from actors.client.operations.fetching import Fetched
from fastpath.records import batch as batches

TRANSACTIONAL, CONTROL = 0x10, 0x20


def records(found: Fetched, check_crcs: bool = True) -> Iterator[batches.Record]:
    """From the position on that was asked for. Raises ClientError for damaged bytes, with topic, partition and offset."""
    begins = sorted((offset, producer) for producer, offset in found.aborted)
    aborting: set[int] = set()
    offset = found.offset
    try:
        for head in batches.headers(found.records):
            offset = max(found.offset, head.base_offset)
            if check_crcs:
                batches.verify(found.records, head.position)
            while begins and begins[0][0] <= head.last_offset:
                aborting.add(begins.pop(0)[1])
            if head.attributes & CONTROL:
                aborting.discard(head.producer_id)
            elif not (head.attributes & TRANSACTIONAL and head.producer_id in aborting):
                for record in batches.records(found.records, head.position):
                    if record.offset >= found.offset:
                        yield record
    except batches.CorruptBatch as error:
        raise ClientError(f"partition {found.topic}/{found.partition} at offset {offset}: {error.reason}") from None
