"""Streams by address without Spark, against real brokers: each record once, and what is told of topics that change."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from actors.pipeline.query import query
from actors.pipeline.slices import DataLoss, RecordsLost, read
from actors.pipeline.streams import OffsetsNotCommitted, Stored, Stream
from tests.integration.conftest import everywhere
from tests.integration.pipeline.conftest import Topics

Row = tuple[int, int]


class Follower:
    """A query that is begun anew before each turn, as after a restart from its checkpoint."""

    def __init__(self, topics: Topics, **options: str) -> None:
        self.options = {"kafka.bootstrap.servers": topics.servers, "startingOffsets": "earliest"}
        self.options |= {name.replace("__", "."): text for name, text in options.items()}
        self.streams: list[Stream] = []
        self.position: Stored = {}

    def stream(self) -> Stream:
        self.streams.append(Stream(query(self.options, True)))
        return self.streams[-1]

    def begin(self) -> "Follower":
        self.position = self.stream().beginning()
        return self

    def turn(self) -> list[int]:
        """The numbers that the next turn reads."""
        stream = self.stream()
        end = json.loads(json.dumps(stream.latest(self.position)))
        start, self.position = self.position, end
        return self.between(start, end)

    def between(self, start: Stored, end: Stored) -> list[int]:
        stream = self.stream()
        found = []
        for piece in stream.slices(start, end):
            for batch in read(stream.query.settings, piece, ("value",), stream.query.fail_on_data_loss):
                found += [int(value) for value in batch.column(0).to_pylist()]
        return found

    def close(self) -> None:
        for one in self.streams:
            one.close()


@pytest.fixture
def follow(topics: Topics) -> Iterator[Callable[..., Follower]]:
    made: list[Follower] = []

    def begin(**options: str) -> Follower:
        made.append(Follower(topics, **options))
        return made[-1].begin()

    yield begin
    for one in made:
        one.close()


def produce(topics: Topics, name: str, first: int, last: int, partitions: int = 1, **config: Any) -> None:
    producer = Producer({"bootstrap.servers": topics.servers, **config})
    for n in range(first, last):
        producer.produce(name, b"%d" % n, partition=n % partitions)
    assert producer.flush(30) == 0


def test_each_record_is_read_once_in_whatever_turns(topics: Topics, follow: Any, name: str) -> None:
    """Topics grow, one more fits the pattern, some records are of transactions, and turns are asked for twice."""
    draw = random.Random(11)
    topics.make(f"{name}-a", 2)
    one = follow(
        subscribePattern=f"{name}-.*", maxOffsetsPerTrigger="70", maxRecordsPerPartition="13",
        kafka__isolation__level="read_committed",
    )  # fmt: skip
    expected, found, partitions = 0, [], {f"{name}-a": 2}
    producer = Producer({"bootstrap.servers": topics.servers, "transactional.id": name})
    producer.init_transactions(30)
    for step in range(12):
        for topic, count in partitions.items():
            more = draw.randint(0, 60)
            produce(topics, topic, expected, expected + more, count)
            expected += more
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(f"{name}-a", b"-1", partition=0)
        producer.flush(30)
        producer.abort_transaction(30)
        if step == 4:
            topics.make(f"{name}-b", 1)
            partitions[f"{name}-b"] = 1
        if step == 7:
            topics.admin.create_partitions([NewPartitions(f"{name}-a", 3)])[f"{name}-a"].result(30)
            everywhere(topics.cluster, f"{name}-a", 3)
            partitions[f"{name}-a"] = 3
        start = one.position
        turn = one.turn()
        assert len(turn) <= 70
        assert sorted(one.between(start, one.position)) == sorted(turn), "a turn that is run again is the same"
        found += turn
    for _ in range(40):
        before = one.position
        found += one.turn()
        if one.position == before:  # no turn begins where nothing is new
            break
    assert sorted(found) == list(range(expected)) and one.position == before


def test_a_position_is_sparks_json_with_topic_id_and_leader_epoch(topics: Topics, follow: Any, name: str) -> None:
    topics.make(name, 2)
    produce(topics, name, 0, 10, 2)
    one = follow(subscribe=name)
    assert one.position[name] == {"0": 0, "1": 0}
    one.turn()
    assert one.position[name] == {"0": 5, "1": 5}
    more = one.position[f"@{name}"]
    assert len(more["id"]) == 22 and set(more["epochs"]) == {"0", "1"} and "begun" not in more
    produce(topics, name, 10, 14, 2)
    one.position = {name: {"0": 5, "1": 5}}  # as in a checkpoint of Spark's own source
    assert sorted(one.turn()) == [10, 11, 12, 13]
    assert one.position[f"@{name}"]["id"] == more["id"]
    latest = follow(subscribe=name, startingOffsets="latest")
    assert latest.position == one.position and latest.turn() == []
    given = follow(subscribe=name, startingOffsets=json.dumps({name: {"0": 6, "1": -1}}))
    assert given.turn() == [12]


def test_a_topic_that_was_deleted_or_made_again_is_a_loss(topics: Topics, follow: Any, name: str) -> None:
    topics.make(name, 2)
    produce(topics, name, 0, 10, 2)
    strict, lenient = follow(subscribe=name), follow(subscribe=name, failOnDataLoss="false")
    for one in (strict, lenient):
        assert len(one.turn()) == 10
    produce(topics, name, 10, 12, 2)
    planned = strict.position, strict.stream().latest(strict.position)
    topics.delete(name)
    with pytest.raises(DataLoss, match=f"{name}/0: it is gone, and what came behind 5 was not read"):
        strict.turn()
    with pytest.raises(DataLoss, match=f"{name}/0: the topic was deleted, and offsets up to 5 were not read"):
        strict.stream().slices(*planned)
    with pytest.warns(RecordsLost, match="it is gone"):
        assert lenient.turn() == []
    topics.make(name, 1)  # with fewer partitions, and more records
    produce(topics, name, 100, 120)
    with pytest.raises(DataLoss, match=f"topic {name} was deleted and made again.*read from its first record"):
        strict.turn()
    with pytest.raises(DataLoss, match="the topic was deleted"):
        strict.stream().slices(*planned)
    with pytest.warns(RecordsLost, match="made again"):
        assert lenient.turn() == list(range(100, 120))
    assert lenient.position[name] == {"0": 20}, "the old topic's partition 1 is no part of the new one"
    assert lenient.turn() == []


def test_records_that_were_deleted_before_they_were_read(topics: Topics, follow: Any, name: str) -> None:
    topics.make(name, 1)
    produce(topics, name, 0, 20)
    strict, lenient = follow(subscribe=name), follow(subscribe=name, failOnDataLoss="false")
    part = TopicPartition(name, 0, 8)
    topics.admin.delete_records([part])[TopicPartition(name, 0)].result(30)
    with pytest.raises(DataLoss, match=f"{name}/0: offsets 0 to 7 were deleted before they were read"):
        strict.turn()
    with pytest.warns(RecordsLost, match="offsets 0 to 7"):
        assert lenient.turn() == list(range(8, 20))
    assert follow(subscribe=name).turn() == list(range(8, 20)), "a query that begins now misses nothing"


def test_a_partition_that_is_new_is_read_from_the_offset_that_the_position_names(
    topics: Topics, follow: Any, name: str
) -> None:
    def deleted(up_to: int) -> None:
        part = TopicPartition(f"{name}-b", 0, up_to)
        topics.admin.delete_records([part])[TopicPartition(f"{name}-b", 0)].result(30)

    topics.make(f"{name}-a", 1)
    one = follow(subscribePattern=f"{name}-.*")
    topics.make(f"{name}-b", 1)
    assert one.turn() == [] and f"{name}-b" not in one.position, "no turn begins for a partition without records"
    produce(topics, f"{name}-b", 0, 20)
    deleted(8)
    start = one.position
    assert one.turn() == list(range(8, 20))
    assert one.position[f"@{name}-b"]["begun"] == {"0": 8}
    deleted(12)
    with pytest.raises(DataLoss, match=f"{name}-b/0: offsets 8 to 11 were deleted"):
        one.between(start, one.position)


def test_limits_of_a_turn(topics: Topics, follow: Any, name: str) -> None:
    topics.make(name, 2)
    produce(topics, name, 0, 100, 2)
    one = follow(subscribe=name, maxOffsetsPerTrigger="30", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    assert len(one.turn()) == 30
    stream = one.stream()
    end = stream.latest(one.position)
    assert len(one.between(one.position, end)) == 30
    end = stream.latest(end, limited=False)
    assert sum(end[name].values()) == 100, "a turn without limits reads everything"
    produce(topics, name, 100, 109, 2)
    assert stream.latest(end) == end, "nine are fewer than ten"
    stream.query = stream.query._replace(delay_max_ms=0)
    assert sum(stream.latest(end)[name].values()) == 109, "they waited long enough"
    stream.query = stream.query._replace(delay_max_ms=3_600_000)
    produce(topics, name, 109, 111, 2)
    end = stream.latest(end)
    assert sum(end[name].values()) == 111
    produce(topics, name, 111, 112, 2)
    stream.freeze()
    produce(topics, name, 112, 150, 2)
    last = stream.latest(stream.latest(end))
    assert sum(last[name].values()) == 112, "what is available now, though it is less than the least"
    assert stream.latest(last) == last


def test_a_group_shows_how_far_a_query_is(topics: Topics, follow: Any, name: str) -> None:
    topics.make(name, 2)
    produce(topics, name, 0, 10, 2)
    one = follow(subscribe=name, kafka__group__id=name)
    one.turn()
    one.stream().commit(one.position)
    consumer = Consumer({"bootstrap.servers": topics.servers, "group.id": name})
    parts = [TopicPartition(name, n) for n in range(2)]
    assert [part.offset for part in consumer.committed(parts, 30)] == [5, 5]
    consumer.subscribe([name])
    while not consumer.assignment():
        consumer.poll(1)
    with pytest.warns(OffsetsNotCommitted, match=f"offsets of group {name}: "):
        one.stream().commit(one.position)
    consumer.close()
    quiet = follow(subscribe=name)
    quiet.turn()
    quiet.stream().commit(quiet.position)
