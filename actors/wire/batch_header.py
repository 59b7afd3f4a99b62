"""The header of a record batch (magic 2): the places of its fields, for callers that look at one or two of them.

This file alone names those places in Python. The layout is drawn in `fastpath/records/batch.pyx`, which reads whole headers
and checks them. Here nothing is checked: where the bytes may be anything, the caller asks first whether a header is there.
"""

BASE_OFFSET = slice(0, 8)
LENGTH = slice(8, 12)
"""The bytes behind this field: all of the batch but its first `SIZE_BYTES`."""
MAGIC_AT = 16
CHECKSUM = slice(17, 21)
CHECKED = slice(21, None)
"""All that the checksum is of."""
CODEC_AT = 22
"""The byte of the attributes that has the compression codec."""
LAST_OFFSET_DELTA = slice(23, 27)
MAX_TIMESTAMP = slice(35, 43)
COUNT = slice(57, 61)

MAGIC = 2
SIZE_BYTES = 12
"""The bytes that a batch has besides those which its length counts: its base offset, and the length."""


def base_offset(batch: bytes | bytearray | memoryview) -> int:
    """The offset of the first record of a batch, from its first 8 bytes."""
    return int.from_bytes(batch[BASE_OFFSET], "big", signed=True)


def batch_size(batch: bytes | bytearray | memoryview) -> int:
    """The size of a batch in bytes, as it says itself in its first 12; below 12 if it says what cannot be."""
    return SIZE_BYTES + int.from_bytes(batch[LENGTH], "big", signed=True)


def last_offset(batch: bytes | bytearray | memoryview) -> int:
    """The offset of the last record of a batch, from its first 27 bytes."""
    return base_offset(batch) + int.from_bytes(batch[LAST_OFFSET_DELTA], "big", signed=True)


def max_timestamp(batch: bytes | bytearray | memoryview) -> int:
    """The largest timestamp of a batch, ms, from its first 43 bytes; -1 if no record has one."""
    return int.from_bytes(batch[MAX_TIMESTAMP], "big", signed=True)
