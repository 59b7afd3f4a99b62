"""Records of `__share_group_state`: Apache Kafka's bytes, both ways, and what cannot be read."""

from pathlib import Path

import pytest

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_state import Batch, ShareState, Update
from actors.broker.groups.share.persistence.share_state_records import StateLine, read, record
from actors.wire.errors import WireError

GOLDEN = Path(__file__).parents[5] / "golden" / "kafka-4.3.1" / "share_group_state" / "records.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
TOPIC = bytes(range(16))
BATCHES = (Batch(10, 14, 0, 1), Batch(15, 15, 2, 2), Batch(17, 400, 4, 5))
EXPECTED = {
    "first-snapshot": StateLine(
        SharePartitionKey("group", TOPIC, 0), ShareState(0, 1, 0, -1, -1, 1700000000000, 1700000000000, ())
    ),
    "snapshot": StateLine(
        SharePartitionKey("ü世", TOPIC, 2147483647),
        ShareState(7, 3, 12, 10, 385, 1700000000000, 1700000000005, BATCHES),
    ),
    "update": StateLine(SharePartitionKey("ü世", TOPIC, 3), Update(7, 12, 10, 385, BATCHES)),
    "small-update": StateLine(SharePartitionKey("a:b", TOPIC, 3), Update(7, 12, -1, -1, ())),
    "removal": StateLine(SharePartitionKey("group", TOPIC, 0), None),
}


def both(row: list[str]) -> tuple[bytes, bytes | None]:
    return bytes.fromhex(row[1]), None if row[2] == "-" else bytes.fromhex(row[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_apache_kafkas_records_are_read_and_written(row: list[str]) -> None:
    line = EXPECTED[row[0]]
    assert record(line.key, line.record) == both(row)
    assert read(*both(row)) == line


@pytest.mark.parametrize("row", [row for row in ROWS if row[2] != "-"], ids=lambda row: row[0])
def test_a_value_that_is_cut_or_of_later_software_is_strange(row: list[str]) -> None:
    key, value = both(row)
    assert value is not None
    for size in range(len(value)):
        line = read(key, value[:size])
        assert line is not None and line.strange and line.record is None, size
    later = read(key, b"\0\1" + value[2:])
    assert later is not None and "version 1" in later.strange


def test_a_key_that_is_damaged_is_an_error_and_another_kind_is_none() -> None:
    key, value = both(ROWS[0])
    for size in range(2, len(key)):
        with pytest.raises(WireError):
            read(key[:size], value)
    with pytest.raises(WireError):
        read(key + b"x", value)
    assert read(b"\0\2" + key[2:], value) is None
    assert read(None, value) is None and read(b"\0", value) is None


def test_only_a_snapshot_is_ever_removed() -> None:
    key, _ = both(next(row for row in ROWS if row[0] == "update"))
    line = read(key, None)
    assert line is not None and line.strange


def test_a_snapshot_whose_batches_overlap_is_read_in_order() -> None:
    key = SharePartitionKey("g", TOPIC, 0)
    odd = ShareState(0, 0, 0, 5, 0, 1, 1, (Batch(9, 12, 0, 1), Batch(3, 9, 2, 1)))
    line = read(*record(key, odd))
    assert line is not None and isinstance(line.record, ShareState)
    assert line.record.batches == (Batch(5, 9, 2, 1), Batch(10, 12, 0, 1))
