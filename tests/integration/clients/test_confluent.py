"""confluent-kafka (librdkafka), unmodified: all of its features that rayft supports."""

import time
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.integration.conftest import everywhere, until

SECONDS = 30


@pytest.fixture(scope="module")
def admin(cluster: Any) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


def create(cluster: Any, admin: AdminClient, name: str, partitions: int = 3, **config: str) -> None:
    for future in admin.create_topics(
        [NewTopic(name, partitions, 3, config={key.replace("_", "."): value for key, value in config.items()})]
    ).values():
        future.result(SECONDS)
    everywhere(cluster, name, partitions)


def produce(cluster: Any, topic: str, values: list[bytes], **config: Any) -> list[tuple[int, int]]:
    """(partition, offset) of each record, acknowledged by all in-sync replicas."""
    places: list[tuple[int, int]] = []

    def delivered(error: KafkaError | None, record: Any) -> None:
        assert error is None, error
        places.append((record.partition(), record.offset()))

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, **config})
    for value in values:
        producer.produce(topic, value, key=value, on_delivery=delivered)
    assert producer.flush(SECONDS) == 0
    assert len(places) == len(values)
    return places


def consume(consumer: Consumer, count: int) -> list[Any]:
    records: list[Any] = []
    end = time.monotonic() + SECONDS
    while len(records) < count and time.monotonic() < end:
        for record in consumer.consume(count - len(records), 0.5):
            assert record.error() is None, record.error()
            records.append(record)
    return records


def consumer(cluster: Any, group: str, **config: Any) -> Consumer:
    return Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **config}
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_passes_through_untouched(cluster: Any, admin: AdminClient, name: str, codec: str) -> None:
    create(cluster, admin, name, 1)
    values = [f"{codec}-{n}".encode() * 20 for n in range(500)]
    produce(cluster, name, values, **{"compression.type": codec, "linger.ms": 20})
    reader = consumer(cluster, name)
    reader.assign([TopicPartition(name, 0, 0)])
    assert [record.value() for record in consume(reader, len(values))] == values
    reader.close()


@pytest.mark.parametrize("wanted", [1_000_000, 10_000_000])
def test_a_consumer_that_wants_more_than_an_answer_can_have_does_not_wait(
    cluster: Any, admin: AdminClient, name: str, wanted: int
) -> None:
    """Each answer ends at a segment; a single wait would be longer than this test has."""
    create(cluster, admin, name, 1, segment_bytes="1048576")
    produce(cluster, name, [b"%1000d" % n for n in range(6000)])
    slow = {"fetch.min.bytes": wanted, "fetch.wait.max.ms": 120_000, "socket.timeout.ms": 240_000}
    reader = consumer(cluster, name, **slow)
    reader.assign([TopicPartition(name, 0, 0)])
    assert [int(record.value()) for record in consume(reader, 5000)] == list(range(5000))
    reader.close()


def test_a_group_reads_everything_commits_and_goes_on_where_it_was(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name)
    values = [b"%d" % n for n in range(1000)]
    produce(cluster, name, values)
    first = consumer(cluster, name, **{"enable.auto.commit": False})
    first.subscribe([name])
    some = consume(first, 400)
    assert len(some) == 400
    first.commit(asynchronous=False)
    first.close()
    second = consumer(cluster, name)
    second.subscribe([name])
    rest = consume(second, 600)
    second.close()
    assert sorted(record.value() for record in some + rest) == sorted(values)


def test_two_members_share_the_partitions(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 4)
    one, two = consumer(cluster, name), consumer(cluster, name)
    one.subscribe([name])
    two.subscribe([name])
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        one.poll(0.1)
        two.poll(0.1)
        if len(one.assignment()) == 2 and len(two.assignment()) == 2:
            break
    mine = {part.partition for part in one.assignment()}
    theirs = {part.partition for part in two.assignment()}
    assert mine | theirs == {0, 1, 2, 3} and not mine & theirs
    described = admin.describe_consumer_groups([name])[name].result(SECONDS)
    assert len(described.members) == 2
    two.close()
    one.close()


def test_offsets_by_time_and_the_ends(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for n in range(10):
        producer.produce(name, b"x", timestamp=1_600_000_000_000 + n * 1000)
    assert producer.flush(SECONDS) == 0
    place = TopicPartition(name, 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 10),
        (OffsetSpec.for_timestamp(1_600_000_004_500), 5),
        (OffsetSpec.max_timestamp(), 9),
    ):
        assert admin.list_offsets({place: spec})[place].result(SECONDS).offset == offset
    reader = consumer(cluster, name)
    assert reader.get_watermark_offsets(place, SECONDS) == (0, 10)
    (found,) = reader.offsets_for_times([TopicPartition(name, 0, 1_600_000_002_000)], SECONDS)
    assert found.offset == 2
    reader.close()


def test_configurations_are_described_and_altered(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1, retention_ms="3600000")
    resource = ConfigResource(ResourceType.TOPIC, name)
    before = admin.describe_configs([resource])[resource].result(SECONDS)
    assert before["retention.ms"].value == "3600000" and not before["retention.ms"].is_default
    change = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[
            ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET),
            ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET),
        ],
    )
    admin.incremental_alter_configs([change])[change].result(SECONDS)

    def values() -> tuple[str, str]:
        after = admin.describe_configs([resource])[resource].result(SECONDS)
        return after["retention.ms"].value, after["segment.bytes"].value

    until(lambda: values() == ("7200000", "1048576"))
    bad = ConfigResource(
        ResourceType.TOPIC,
        name,
        incremental_configs=[ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)],
    )
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([bad])[bad].result(SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_topics_grow_and_go(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1)
    admin.create_partitions([NewPartitions(name, 4)])[name].result(SECONDS)
    end = time.monotonic() + SECONDS
    while len(admin.list_topics(name, SECONDS).topics[name].partitions) < 4:
        assert time.monotonic() < end
    admin.delete_topics([name])[name].result(SECONDS)
    while name in admin.list_topics(timeout=SECONDS).topics:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_kafka_refuses_is_refused_with_its_code(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1)
    for topic, code in (
        (NewTopic(name, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("bad/name", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("ok", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("ok", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("ok", 1, 1, config={"no.such.thing": "1"}), KafkaError.INVALID_CONFIG),
    ):
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([topic])[topic.topic].result(SECONDS)
        assert refused.value.args[0].code() == code, topic


def test_groups_are_listed_described_moved_and_deleted(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1)
    produce(cluster, name, [b"a", b"b", b"c"])
    reader = consumer(cluster, name)
    reader.subscribe([name])
    assert len(consume(reader, 3)) == 3
    reader.close()
    assert name in {group.group_id for group in admin.list_consumer_groups().result(SECONDS).valid}
    place = TopicPartition(name, 0, 1)
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, [place])])[name].result(SECONDS)
    (found,) = (
        admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])[name].result(SECONDS).topic_partitions
    )
    assert found.offset == 1
    admin.delete_consumer_groups([name])[name].result(SECONDS)
    assert name not in {group.group_id for group in admin.list_consumer_groups().result(SECONDS).valid}


def test_records_are_deleted_up_to_an_offset(cluster: Any, admin: AdminClient, name: str) -> None:
    create(cluster, admin, name, 1)
    produce(cluster, name, [b"%d" % n for n in range(10)])
    place = TopicPartition(name, 0, 4)
    admin.delete_records([place])[place].result(SECONDS)
    reader = consumer(cluster, name)
    reader.assign([TopicPartition(name, 0, 0)])
    assert [record.offset() for record in consume(reader, 6)] == [4, 5, 6, 7, 8, 9]
    reader.close()
