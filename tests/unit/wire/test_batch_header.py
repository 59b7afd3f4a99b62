"""The places of a batch's fields, against the header as `struct` packs it."""

import pytest

from actors.wire import batch_header
from tests.reference.batch import HEADER, Fields

FIELDS = Fields(
    base_offset=0x0102030405060708,
    length=0x11121314,
    epoch=0x21222324,
    magic=2,
    crc=0x31323334,
    attributes=0x4144,
    last_offset_delta=0x51525354,
    base_timestamp=0x6162636465666768,
    max_timestamp=0x7172737475767778,
    producer_id=0x0808080808080808,
    producer_epoch=0x0909,
    base_sequence=0x0A0A0A0A,
    count=0x0B0C0D0E,
)
BATCH = HEADER.pack(*FIELDS) + b"records"


def test_each_field_is_where_it_is_said_to_be() -> None:
    assert BATCH[batch_header.BASE_OFFSET] == FIELDS.base_offset.to_bytes(8, "big")
    assert BATCH[batch_header.LENGTH] == FIELDS.length.to_bytes(4, "big")
    assert BATCH[batch_header.MAGIC_AT] == batch_header.MAGIC
    assert BATCH[batch_header.CHECKSUM] == FIELDS.crc.to_bytes(4, "big")
    assert BATCH[batch_header.CHECKED] == BATCH[len(BATCH) - 40 - len(b"records") :]
    assert BATCH[batch_header.CODEC_AT] & 0x07 == FIELDS.attributes & 0x07 == 4
    assert BATCH[batch_header.LAST_OFFSET_DELTA] == FIELDS.last_offset_delta.to_bytes(4, "big")
    assert BATCH[batch_header.MAX_TIMESTAMP] == FIELDS.max_timestamp.to_bytes(8, "big")
    assert BATCH[batch_header.COUNT] == FIELDS.count.to_bytes(4, "big")


@pytest.mark.parametrize("as_", [bytes, bytearray, memoryview])
def test_numbers_are_read_from_a_batch(as_: type) -> None:
    batch = as_(BATCH)
    assert batch_header.base_offset(batch) == FIELDS.base_offset
    assert batch_header.batch_size(batch) == FIELDS.length + 12
    assert batch_header.last_offset(batch) == FIELDS.base_offset + FIELDS.last_offset_delta
    assert batch_header.max_timestamp(batch) == FIELDS.max_timestamp


def test_a_batch_of_impossible_fields_has_negative_ones() -> None:
    """A caller that compares with 0 or with `SIZE_BYTES` finds them out."""
    batch = HEADER.pack(*FIELDS._replace(base_offset=-1, length=-1, last_offset_delta=-3, max_timestamp=-1))
    assert batch_header.base_offset(batch) == -1
    assert batch_header.batch_size(batch) == 11 < batch_header.SIZE_BYTES
    assert batch_header.last_offset(batch) == -4
    assert batch_header.max_timestamp(batch) == -1
