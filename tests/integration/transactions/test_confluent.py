"""confluent-kafka's transactional producer (librdkafka, transaction version 1), unmodified, on three brokers."""

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.conftest import everywhere

SECONDS = 30
QUIET_S = 2.0
"""A reader has everything when nothing has come for so long."""


def create(cluster: Any, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, 2, 3) for name in names]).values():
        future.result(SECONDS)
    for name in names:
        everywhere(cluster, name, 2)


def producer(cluster: Any, id: str, **options: Any) -> Producer:
    made = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": id, **options})
    made.init_transactions(SECONDS)
    return made


def read(cluster: Any, *names: str, level: str = "read_committed") -> list[str]:
    """Every value of topics with two partitions each."""
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": level,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    reader.assign([TopicPartition(name, number, 0) for name in names for number in (0, 1)])
    found: list[str] = []
    last_s = time.monotonic()
    while time.monotonic() - last_s < QUIET_S:
        message = reader.poll(0.2)
        if message is None:
            continue
        assert message.error() is None, message.error()
        value = message.value()
        assert value is not None
        found.append(value.decode())
        last_s = time.monotonic()
    reader.close()
    return sorted(found)


def test_what_is_committed_is_seen_and_what_is_aborted_is_not(cluster: Any, name: str) -> None:
    one, two = f"{name}-1", f"{name}-2"
    create(cluster, one, two)
    writer = producer(cluster, name)
    for number in range(6):
        writer.begin_transaction()
        for place in range(4):
            writer.produce((one, two)[place % 2], f"{number}-{place}".encode(), partition=place // 2)
        assert writer.flush(SECONDS) == 0
        if number % 3 == 1:
            writer.abort_transaction(SECONDS)
        else:
            writer.commit_transaction(SECONDS)
    kept = sorted(f"{number}-{place}" for number in (0, 2, 3, 5) for place in range(4))
    assert read(cluster, one, two) == kept
    assert len(read(cluster, one, two, level="read_uncommitted")) == 24


def test_an_open_transaction_hides_what_comes_behind_it(cluster: Any, name: str) -> None:
    create(cluster, name)
    first, second = producer(cluster, f"{name}-a"), producer(cluster, f"{name}-b")
    first.begin_transaction()
    first.produce(name, b"open", partition=0)
    assert first.flush(SECONDS) == 0
    second.begin_transaction()
    second.produce(name, b"done", partition=0)
    second.commit_transaction(SECONDS)
    assert read(cluster, name) == []
    first.commit_transaction(SECONDS)
    assert read(cluster, name) == ["done", "open"]


def test_a_second_producer_with_the_id_fences_the_first(cluster: Any, name: str) -> None:
    create(cluster, name)
    first = producer(cluster, name)
    first.begin_transaction()
    first.produce(name, b"zombie", partition=0)
    assert first.flush(SECONDS) == 0
    second = producer(cluster, name)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(SECONDS)
    assert raised.value.args[0].code() == KafkaError._FENCED
    second.begin_transaction()
    second.produce(name, b"kept", partition=1)
    second.commit_transaction(SECONDS)
    assert read(cluster, name) == ["kept"]


def test_a_timeout_above_the_brokers_limit_is_refused(cluster: Any, name: str) -> None:
    with pytest.raises(KafkaException) as raised:
        producer(cluster, name, **{"transaction.timeout.ms": 900_001, "message.timeout.ms": 1000})
    assert raised.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_consume_transform_produce_is_exactly_once_through_aborts(cluster: Any, name: str) -> None:
    source, target, group = f"{name}-in", f"{name}-out", f"{name}-g"
    create(cluster, source, target)
    plain = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):
        plain.produce(source, str(number).encode(), partition=number % 2)
    assert plain.flush(SECONDS) == 0
    member = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([source])
    writer = producer(cluster, name)
    done, transactions, end_s = 0, 0, time.monotonic() + SECONDS
    while done < 100:
        assert time.monotonic() < end_s, f"{done} of 100 after {SECONDS} s"
        taken = member.consume(10, 1.0)
        if not taken:
            continue
        transactions += 1
        writer.begin_transaction()
        for message in taken:
            writer.produce(target, message.value(), partition=message.partition())
        writer.send_offsets_to_transaction(
            member.position(member.assignment()), member.consumer_group_metadata(), SECONDS
        )
        if transactions % 3 == 0:
            writer.abort_transaction(SECONDS)
            for place in member.committed(member.assignment(), SECONDS):
                member.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        else:
            writer.commit_transaction(SECONDS)
            done += len(taken)
    assert transactions > 3
    assert {place.offset for place in member.committed(member.assignment(), SECONDS)} == {50}
    member.close()
    assert read(cluster, target) == sorted(str(number) for number in range(100))
