"""Bytes that Apache Kafka 4.3.1 wrote: read, and written again.

`__cluster_metadata-0` is the metadata log of a small cluster; `batches/` holds one batch a codec, made by its
MemoryRecordsBuilder.
"""

import pytest

from fastpath.records import batch
from tests.reference import batch as slow
from tests.unit.fastpath.records.batches import GOLDEN, built, read

LOG = (GOLDEN / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()

LEADER_CHANGE = bytes.fromhex(
    "00000000000000000000005e00000001020599ec3f002000000000000001a1fd530eb4000001a1fd530eb4ffffffffffffffffffffffffffff"
    "00000001580000000800000002440000000003e904000003e900000003ea00000003eb0003000003ea00000003e9000000"
)
NO_OP = bytes.fromhex(
    "000000000000000d0000003c00000001023b2ab827000000000000000001a1fd531196000001a1fd531196ffffffffffffffffffffffffffff"
    "000000011400000001080114000000"
)


def test_every_batch_of_a_real_log_is_read_and_built_again() -> None:
    heads = batch.headers(LOG)
    assert len(heads) == 1178 and heads[-1].position + heads[-1].size == len(LOG)
    for head in heads:
        assert batch.verify(LOG, head.position) == head
        content = read(LOG, head.position)
        again = built(content, base_offset=head.base_offset, epoch=head.epoch, attributes=head.attributes)
        assert again == LOG[head.position : head.position + head.size]


def test_offsets_of_a_real_log_have_no_gap() -> None:
    columns = batch.columns(LOG)
    assert columns["base_offset"][0] == 0
    assert (columns["base_offset"][1:] == columns["last_offset"][:-1] + 1).all()


def test_batches_known_in_hex() -> None:
    head = batch.verify(LEADER_CHANGE)
    assert (head.base_offset, head.epoch, head.attributes, head.crc, head.count) == (0, 1, 0x20, 93973567, 1)
    (record,) = batch.records(LEADER_CHANGE)
    assert record.key == b"\0\0\0\2" and len(record.value) == 34
    (record,) = batch.records(NO_OP)
    assert record == (13, 1795251442070, None, b"\x01\x14\0\0", ())


CONTENT = [
    slow.Row(
        None if i % 3 == 0 else b"key-%d" % i,
        None if i % 7 == 0 else b"value %d " % i * (i % 13),
        1_700_000_000_000 + i * 37 % 100,
        ((b"h", None), (b"trace", bytes([i]))) if i % 5 == 0 else (),
    )
    for i in range(40)
]


@pytest.mark.parametrize(("codec", "name"), list(enumerate(["none", "gzip", "snappy", "lz4", "zstd"])))
def test_a_batch_of_each_codec(codec: int, name: str) -> None:
    data = (GOLDEN / "batches" / f"batch-{name}.bin").read_bytes()
    head = batch.verify(data)
    assert head[2:6] == (7000 + codec, 7039 + codec, 5, 2)
    assert (head.attributes, head.producer_id, head.producer_epoch, head.base_sequence) == (16 + codec, 42, 3, 17)
    assert read(data) == CONTENT
    assert batch.accept(bytearray(data), 0, len(data), 0, 0).next_offset == 40


def test_the_uncompressed_one_is_built_byte_for_byte() -> None:
    header = {"epoch": 5, "attributes": 16, "producer_id": 42, "producer_epoch": 3, "base_sequence": 17}
    assert built(CONTENT, base_offset=7000, **header) == (GOLDEN / "batches" / "batch-none.bin").read_bytes()
