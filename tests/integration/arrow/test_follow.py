"""`rayft.follow` against both kinds of broker: all records once, from where a group left off; new partitions, and a deleted
topic."""

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

import rayft
from actors.arrow.following import Following
from actors.client.errors import ClientError
from actors.client.operations import groups, topics
from actors.host.client.blocking import connect
from tests.integration.arrow.test_write import made

pytestmark = pytest.mark.timeout(240)
OFTEN = {"metadata.max.age.ms": 300, "fetch.max.wait.ms": 100}


def write(kafka: Any, name: str, first: int, end: int, **more: Any) -> None:
    rows = {"value": pa.array([b"%d" % n for n in range(first, end)])}
    rows["partition"] = pa.array([n % 3 for n in range(first, end)])
    rayft.write(kafka.bootstrap_servers, name, pa.table(rows), **more)


def until(following: Following, count: int) -> list[int]:
    """The numbers of the next records, so many of them."""
    found: list[int] = []
    while len(found) < count:
        batch = following.next_batch(60)
        assert batch is not None, f"{len(found)} of {count} have come"
        found += [int(value) for value in batch.column("value").to_pylist()]
    return found


def test_records_come_as_they_are_written(kafka: Any, name: str) -> None:
    made(kafka, name, 3)
    write(kafka, name, 0, 90)
    with rayft.follow(kafka.bootstrap_servers, name, "latest", columns=("value",), config=OFTEN) as following:
        assert following.next_batch(0.3) is None, "what was there before the beginning is left out"
        for first in (90, 120, 150):
            write(kafka, name, first, first + 30)
            assert sorted(until(following, 30)) == list(range(first, first + 30))
        assert following.positions == {(name, n): 60 for n in range(3)}
        with pytest.raises(ClientError, match="without a group"):
            following.commit()
    with rayft.follow(kafka.bootstrap_servers, name, {(name, 1): 50}) as following:
        batch = next(following)
        assert batch.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
        assert set(batch.column("partition").to_pylist()) == {1} and batch.column("offset")[0].as_py() == 50


def committed(kafka: Any, name: str, group: str) -> list[int]:
    """What librdkafka says of the group's offsets."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group})
    found = [one.offset for one in consumer.committed([TopicPartition(name, n) for n in range(3)], 30)]
    consumer.close()
    return found


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactions"])
def test_a_group_goes_on_where_it_left_off(kafka: Any, name: str, transactional: bool) -> None:
    made(kafka, name, 3)
    group = f"{name}-group"
    config = {"isolation.level": "read_committed", **OFTEN}
    write(kafka, name, 0, 300, transactional_id=name if transactional else None)

    def follow() -> Following:
        return rayft.follow(kafka.bootstrap_servers, name, "earliest", group=group, config=config)

    seen: list[int] = []
    with follow() as following:
        while len(seen) < 100:
            batch = next(following)
            seen += map(int, batch.column("value").to_pylist())
            following.commit()
        positions = following.positions
        next(following)  # given, and not committed
    assert committed(kafka, name, group) == [positions[name, n] for n in range(3)]
    with follow() as following:
        seen += until(following, 300 - len(seen))
        following.commit()
        following.commit()
    assert sorted(seen) == list(range(300)), "each of them once"
    assert committed(kafka, name, group) == [101 if transactional else 100] * 3, "behind the markers: there is no lag"
    write(kafka, name, 300, 330, transactional_id=name if transactional else None)
    with follow() as following:
        assert sorted(until(following, 30)) == list(range(300, 330))


def test_a_part_of_an_answer_can_be_committed(kafka: Any, name: str) -> None:
    """Positions are those behind the batches that were given, not behind what was fetched."""
    made(kafka, name, 1)
    for n in range(3):
        rows = pa.table({"value": pa.array([b"%d" % m for m in range(10 * n, 10 * n + 10)])})
        rayft.write(kafka.bootstrap_servers, name, rows, config={"compression.type": ["none", "zstd", "lz4"][n]})
    with rayft.follow(kafka.bootstrap_servers, name, "earliest", group=name) as following:
        count = 0
        while count < 30:
            count += next(following).num_rows
            assert following.positions == {(name, 0): count}


def test_partitions_that_are_added_are_read_from_their_beginning(kafka: Any, name: str) -> None:
    made(kafka, name, 3)
    with rayft.follow(kafka.bootstrap_servers, name, "latest", columns=("value",), config=OFTEN) as following:
        assert following.next_batch(0.2) is None
        with connect(kafka.bootstrap_servers) as client:
            assert client.run(topics.add_partitions({name: 5})) == {name: None}
            client.run(topics.led([name]))
            while len(client.run(topics.describe([name]))[name].partitions) < 5:
                pass
        rows = {"value": pa.array([b"%d" % n for n in range(100)]), "partition": pa.array([n % 5 for n in range(100)])}
        rayft.write(kafka.bootstrap_servers, name, pa.table(rows))
        assert sorted(until(following, 100)) == list(range(100))


def test_a_topic_that_is_deleted_ends_it(kafka: Any, name: str) -> None:
    made(kafka, name, 3)
    write(kafka, name, 0, 30)
    with rayft.follow(kafka.bootstrap_servers, name, "earliest", config=OFTEN) as following:
        assert sorted(until(following, 30)) == list(range(30))
        with connect(kafka.bootstrap_servers) as client:
            assert client.run(topics.delete([name])) == {name: None}
        with pytest.raises(ClientError, match=f"topic {name} does not exist"):
            next(following)
        with pytest.raises(ClientError, match=f"topic {name} does not exist"):
            next(following)


def test_offsets_that_are_gone_are_told(kafka: Any, name: str) -> None:
    made(kafka, name, 3)
    with connect(kafka.bootstrap_servers) as client:
        assert client.run(groups.commit(name, {(name, 1): 99})) == {(name, 1): None}
    following = rayft.follow(kafka.bootstrap_servers, name, "earliest", group=name)
    with following, pytest.raises(ClientError, match=f"partition {name}/1 has no offset 99"):
        next(following)


def test_asyncio_gets_the_same(kafka: Any, name: str) -> None:
    made(kafka, name, 3)

    async def followed() -> list[int]:
        found: list[int] = []
        following = rayft.follow(kafka.bootstrap_servers, name, "earliest", group=f"{name}-a", config=OFTEN)
        async with following:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(following), 0.5)
            writer = threading.Thread(target=write, args=(kafka, name, 0, 900))
            writer.start()
            async for batch in following:
                found += map(int, batch.column("value").to_pylist())
                await following.commit_async()
                if len(found) == 900:
                    break
            await asyncio.to_thread(writer.join)
            with pytest.raises(ClientError, match="with async for"):
                following.commit()
        return found

    found = asyncio.run(followed())
    assert sorted(found) == list(range(900))
    assert committed(kafka, name, f"{name}-a") == [300, 300, 300]


def test_a_broker_that_dies_costs_nothing(kafka: Any, name: str) -> None:
    made(kafka, name, 3)
    with connect(kafka.bootstrap_servers) as client:
        client.run(topics.describe([name]))
        first = client.metadata.leader(name, 0)
    with rayft.follow(kafka.bootstrap_servers, name, "earliest", columns=("value",), config=OFTEN) as following:
        write(kafka, name, 0, 300)
        found = until(following, 300)
        kafka.kill(first)
        if not isinstance(kafka, rayft.Cluster):
            kafka.start(first)
        write(kafka, name, 300, 600)
        found += until(following, 300)
    assert sorted(found) == list(range(600))
