"""What every coordinator has: where a name is found, and writes on their way."""

import pytest

from actors.broker.coordinators.coordination import Coordination, partition_of
from actors.ports import Now
from actors.wire.errors import ErrorCode

NOW = Now(1, 1)


class Shard:
    def __init__(self, partition: int, epoch: int) -> None:
        self.partition, self.epoch, self.loaded = partition, epoch, True


def made(partitions: int = 1) -> Coordination[Shard]:
    machine = Coordination(partitions, Shard)
    for partition in range(partitions):
        machine.gained(partition, 1)
    return machine


@pytest.mark.parametrize(
    ("name", "partition"), [("a", 47), ("polygenelubricants", 0), ("my-transactional-id", 46), ("zzzzzz", 14)]
)
def test_a_name_is_found_where_apache_kafka_finds_it(name: str, partition: int) -> None:
    """By the absolute value of a hash that is below zero, not by its lower bits: `kafka-transactions.sh` and a directory
    of Apache Kafka would look elsewhere."""
    assert partition_of(name, 50) == partition


def test_a_write_is_told_once_and_with_its_partition_those_that_are_on_their_way() -> None:
    machine, told = made(2), list[tuple[str, ErrorCode]]()
    shards = machine.shards
    tokens = [
        machine._write(shard, name, [(b"k", None)], lambda error, now, name=name: told.append((name, error)))  # type: ignore[misc]
        for name, shard in (("a", shards[0]), ("b", shards[0]), ("c", shards[1]))
    ]
    assert [write.partition for write in machine.writes] == [0, 0, 1]
    machine.written(tokens[0], ErrorCode.NONE, NOW)
    machine.lost(0)
    machine.written(tokens[1], ErrorCode.NONE, NOW)
    assert told == [("a", ErrorCode.NONE), ("b", ErrorCode.NOT_COORDINATOR)]
    assert machine._under_way == {(1, "c"): 1} and machine.is_written(shards[1], "c")


def test_what_is_read_of_a_leadership_that_is_over_is_not_taken_in() -> None:
    machine = made()
    machine.gained(0, 2)
    machine.shards[0].loaded = False
    assert machine.shard_loading(0, 1) is None and machine.shard_loading(0, 2) is machine.shards[0]
    assert machine.loading() and machine.shard_of("x") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    machine.lost(0)
    assert machine.shard_of("x") is ErrorCode.NOT_COORDINATOR
