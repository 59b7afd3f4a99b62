"""A batch that a topic found too large, as two smaller ones.

The sequence numbers of the halves are those of the whole, so the batches behind it keep theirs. Records are objects here:
it happens to few batches, since smaller ones are made after the first that was too large.
"""

from actors.client.errors import ClientError
from actors.wire.errors import ErrorCode
from actors.wire.messages import Buffer
from fastpath.records.batch import Builder, CorruptBatch, header, records

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""The answers to a batch that is larger than max.message.bytes or a segment."""
CODEC = 0x07
RECORDS_BYTES_MAX = (1 << 31) - 1
"""The most bytes of records: those of the largest batch. They are the caller's own, and no stranger's to be bounded."""


def halves(data: Buffer) -> tuple[bytearray, bytearray]:
    """The first half of a batch's records, and the second. The batch must have two records. Raises ClientError if it is
    damaged."""
    try:
        head = header(data)
        found = list(records(data, output_bytes_max=RECORDS_BYTES_MAX))
    except CorruptBatch as error:
        raise ClientError(f"a batch cannot be divided: {error}") from None
    middle = len(found) // 2
    made = []
    for part in (found[:middle], found[middle:]):
        builder = Builder(attributes=head.attributes & CODEC)
        for one in part:
            builder.append(one.key, one.value, one.timestamp, one.headers)
        made.append(builder.build())
    return made[0], made[1]
