"""Batches of the metadata log: control records both ways, and operations that stay in one batch."""

import pytest

from actors.metadata.batches import (
    BatchWriter,
    Control,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    Voters,
    control_batch,
    controls,
    is_control,
)  # fmt: skip
from actors.metadata.ops import CorruptMetadata
from fastpath.records import batch as records
from fastpath.records.batch import Builder

EVERY: list[Control] = [
    LeaderChange(3, (1, 2, 3), (1, 3)),
    SnapshotHeader(1_700_000_000_000),
    SnapshotFooter(),
    KRaftVersion(1),
    Voters((Voter(1, bytes(range(16)), (("CONTROLLER", "host", 9093),), (0, 1)), Voter(2, bytes(16)))),
]


def test_control_records_are_read_as_they_were_written() -> None:
    made = control_batch(40, 7, 5, EVERY)
    assert (made.base_offset, made.last_offset, made.epoch) == (40, 44, 7)
    assert is_control(made.data) and records.header(made.data, 0).attributes == 0x20
    assert controls(made.data) == list(zip(range(40, 45), EVERY, strict=True))


def test_the_keys_are_apache_kafkas() -> None:
    made = control_batch(0, 1, 5, EVERY)
    keys = [record.key for record in records.records(made.data, 0)]
    assert keys == [bytes((0, 0, 0, kind)) for kind in (2, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"\0\0\0\x09", b"\0\0", "type 9 is not known"),
        (b"\0\0\2", b"\0\0", "a key of 4 bytes"),
        (None, b"\0\0", "a key of 4 bytes"),
        (b"\0\0\0\2", None, "and a value"),
        (b"\0\0\0\2", b"\0\0\1", "LeaderChangeMessage version 0"),
        (b"\0\0\0\5", b"\0\x63\0\0", "KRaftVersionRecord version 99"),
    ],
)
def test_what_is_no_control_record_is_corrupt(key: bytes | None, value: bytes | None, said: str) -> None:
    builder = Builder(9, 1, 0x20, timestamp_ms=1)
    builder.append(key, value)
    with pytest.raises(CorruptMetadata, match=said):
        controls(builder.build())


def test_bytes_behind_a_control_record_are_corrupt() -> None:
    made = control_batch(0, 1, 5, [KRaftVersion(1)])
    (record,) = records.records(made.data, 0)
    builder = Builder(0, 1, 0x20, timestamp_ms=1)
    assert record.value is not None
    builder.append(record.key, record.value + b"x")
    with pytest.raises(CorruptMetadata):
        controls(builder.build())


def written(writer: BatchWriter, count: int) -> None:
    for number in range(count):
        writer.add(b"record-%d" % number)


def test_a_writer_counts_its_offsets_and_is_empty_without_records() -> None:
    writer = BatchWriter(100, 4, 5)
    assert writer.finish() == []
    writer = BatchWriter(100, 4, 5)
    written(writer, 3)
    (made,) = writer.finish()
    assert (made.base_offset, made.last_offset, made.epoch) == (100, 102, 4)
    assert not is_control(made.data) and len(list(records.records(made.data, 0))) == 3


def test_batches_are_cut_at_their_size_and_an_operation_is_not() -> None:
    writer = BatchWriter(0, 4, 5, bytes_max=200)
    written(writer, 30)
    cut = writer.finish()
    assert len(cut) > 1 and [one.base_offset for one in cut[1:]] == [one.last_offset + 1 for one in cut[:-1]]
    whole = BatchWriter(0, 4, 5, bytes_max=200)
    written(whole, 2)
    whole.begin()
    written(whole, 30)
    whole.end()
    assert 30 in [one.last_offset - one.base_offset + 1 for one in whole.finish()]


def test_what_is_abandoned_leaves_no_record() -> None:
    writer = BatchWriter(0, 4, 5)
    written(writer, 1)
    writer.begin()
    written(writer, 5)
    writer.abandon()
    (made,) = writer.finish()
    assert made.last_offset == 0
