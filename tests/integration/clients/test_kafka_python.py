"""kafka-python, unmodified: all features of its consumer, producer and admin client that rayft supports."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

kafka = pytest.importorskip("kafka")
errors = pytest.importorskip("kafka.errors")

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # noqa: E402
from kafka.admin import ConfigResource, OffsetSpec  # noqa: E402
from kafka.structs import OffsetAndMetadata  # noqa: E402

from tests.integration.conftest import everywhere, until  # noqa: E402

SECONDS = 30


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture(scope="module")
def producer(cluster: Any) -> Iterator[Any]:
    client = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    yield client
    client.close()


def create(cluster: Any, admin: Any, name: str, partitions: int = 1, **configs: str) -> None:
    options = {
        "num_partitions": partitions,
        "replication_factor": 3,
        "configs": {key.replace("_", "."): value for key, value in configs.items()},
    }
    admin.create_topics({name: options})
    everywhere(cluster, name, partitions)


def produce(producer: Any, topic: str, values: list[bytes], **options: Any) -> list[Any]:
    sent = [producer.send(topic, value, **options) for value in values]
    return [future.get(SECONDS) for future in sent]


def consumer(cluster: Any, group: str | None = None, **options: Any) -> Any:
    return KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest", **options
    )


def consume(reader: Any, count: int) -> list[Any]:
    records: list[Any] = []
    end = time.monotonic() + SECONDS
    while len(records) < count and time.monotonic() < end:
        for batch in reader.poll(500, max_records=count - len(records)).values():
            records += batch
    return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(cluster: Any, admin: Any, name: str, codec: str | None) -> None:
    module = {"snappy": "snappy", "lz4": "lz4", "zstd": "zstandard"}.get(codec or "")
    if module is not None:
        pytest.importorskip(module, reason=f"kafka-python compresses {codec} with the package {module}")
    create(cluster, admin, name)
    writer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec, linger_ms=20)
    values = [b"%d" % n * 20 for n in range(300)]
    produce(writer, name, values)
    writer.close()
    reader = consumer(cluster)
    reader.assign([TopicPartition(name, 0)])
    assert [record.value for record in consume(reader, 300)] == values
    reader.close()


def test_keys_headers_and_timestamps_arrive(cluster: Any, admin: Any, producer: Any, name: str) -> None:
    create(cluster, admin, name)
    (place,) = produce(
        producer, name, [b"v"], key=b"k", headers=[("h", b"1"), ("n", b"")], timestamp_ms=1_600_000_000_000
    )
    assert (place.partition, place.offset, place.timestamp) == (0, 0, 1_600_000_000_000)
    reader = consumer(cluster)
    reader.assign([TopicPartition(name, 0)])
    (record,) = consume(reader, 1)
    assert (record.key, record.value, record.timestamp, record.timestamp_type) == (b"k", b"v", 1_600_000_000_000, 0)
    assert [(key, bytes(value)) for key, value in record.headers] == [("h", b"1"), ("n", b"")]
    reader.close()


def test_a_group_goes_on_where_it_committed(cluster: Any, admin: Any, producer: Any, name: str) -> None:
    create(cluster, admin, name, 3)
    values = [b"%d" % n for n in range(300)]
    produce(producer, name, values)
    first = consumer(cluster, name, enable_auto_commit=False)
    first.subscribe([name])
    some = consume(first, 100)
    first.commit()
    first.close()
    second = consumer(cluster, name)
    second.subscribe([name])
    rest = consume(second, 200)
    second.close()
    assert sorted(record.value for record in some + rest) == sorted(values)


def test_two_members_share_the_partitions(cluster: Any, admin: Any, name: str) -> None:
    create(cluster, admin, name, 4)
    members = [consumer(cluster, name), consumer(cluster, name)]
    for member in members:
        member.subscribe([name])
        # kafka-python joins before it knows the topic's partitions, and assigns nothing if it learns them late.
        assert member.partitions_for_topic(name)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and [len(member.assignment()) for member in members] != [2, 2]:
        for member in members:
            member.poll(100)
    shares = [{place.partition for place in member.assignment()} for member in members]
    assert shares[0] | shares[1] == {0, 1, 2, 3} and not shares[0] & shares[1]
    group = admin.describe_groups([name])[name]
    assert (group["group_state"], len(group["members"])) == ("Stable", 2)
    for member in members:
        member.close()


def test_offsets_by_time_and_the_ends(cluster: Any, admin: Any, producer: Any, name: str) -> None:
    create(cluster, admin, name)
    for n in range(10):
        producer.send(name, b"x", timestamp_ms=1_600_000_000_000 + n * 1000)
    producer.flush(SECONDS)
    place = TopicPartition(name, 0)
    reader = consumer(cluster)
    assert reader.beginning_offsets([place]) == {place: 0}
    assert reader.end_offsets([place]) == {place: 10}
    assert reader.offsets_for_times({place: 1_600_000_003_500})[place].offset == 4
    assert reader.offsets_for_times({place: 1_700_000_000_000})[place] is None
    reader.close()
    for spec, offset in ((OffsetSpec.EARLIEST, 0), (OffsetSpec.LATEST, 10), (OffsetSpec.MAX_TIMESTAMP, 9)):
        assert admin.list_partition_offsets({place: spec})[place].offset == offset


def test_configurations_are_described_altered_and_reset(cluster: Any, admin: Any, name: str) -> None:
    create(cluster, admin, name, retention_ms="3600000")

    def modified() -> dict[str, str]:
        found = admin.describe_configs([ConfigResource("TOPIC", name)], config_filter="modified")["topic"][name]
        return {key: entry["value"] for key, entry in found.items()}

    until(lambda: modified() == {"retention.ms": "3600000"})
    admin.alter_configs(
        [ConfigResource("TOPIC", name, {"retention.ms": "7200000", "cleanup.policy": ("APPEND", "compact")})]
    )
    until(lambda: modified() == {"retention.ms": "7200000", "cleanup.policy": "delete,compact"})
    admin.alter_configs([ConfigResource("TOPIC", name, {"segment.bytes": "1048576"})], incremental=False)
    until(lambda: modified().get("segment.bytes") == "1048576")
    admin.reset_configs([ConfigResource("TOPIC", name, ["retention.ms"])])
    until(lambda: "retention.ms" not in modified())


def test_topics_grow_lose_records_and_go(cluster: Any, admin: Any, producer: Any, name: str) -> None:
    create(cluster, admin, name)
    produce(producer, name, [b"%d" % n for n in range(10)], partition=0)
    place = TopicPartition(name, 0)
    assert admin.delete_records({place: 4})[place]["low_watermark"] == 4
    assert admin.list_partition_offsets({place: OffsetSpec.EARLIEST})[place].offset == 4
    admin.create_partitions({name: 3})
    end = time.monotonic() + SECONDS
    everywhere(cluster, name, 3)
    admin.delete_topics([name])
    while name in admin.list_topics():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_groups_are_listed_moved_and_deleted(cluster: Any, admin: Any, producer: Any, name: str) -> None:
    create(cluster, admin, name)
    produce(producer, name, [b"a", b"b", b"c"])
    reader = consumer(cluster, name)
    reader.subscribe([name])
    assert len(consume(reader, 3)) == 3
    reader.close()
    assert name in {group["group_id"] for group in admin.list_groups()}
    place = TopicPartition(name, 0)
    assert admin.list_group_offsets({name: None})[name][place].offset == 3
    admin.alter_group_offsets(name, {place: OffsetAndMetadata(1, "", -1)})
    assert admin.list_group_offsets({name: [place]})[name][place].offset == 1
    admin.delete_group_offsets(name, [place])
    assert place not in admin.list_group_offsets({name: None})[name]
    admin.delete_groups([name])
    assert name not in {group["group_id"] for group in admin.list_groups()}


def test_the_cluster_is_described(admin: Any) -> None:
    found = admin.describe_cluster()
    assert len(found["brokers"]) == 3
    assert found["controller_id"] in {broker["broker_id"] for broker in found["brokers"]}
    quorum = admin.describe_metadata_quorum()
    (partition,) = quorum["topics"][0]["partitions"]
    assert len(partition["current_voters"]) == 3 and partition["leader_id"] >= 0


def test_what_kafka_refuses_is_refused_with_its_error(cluster: Any, admin: Any, name: str) -> None:
    create(cluster, admin, name)
    for topic, options, error in (
        (name, {}, errors.TopicAlreadyExistsError),
        ("bad/name", {}, errors.InvalidTopicError),
        ("ok", {"num_partitions": 0}, errors.InvalidPartitionsError),
        ("ok", {"replication_factor": 4}, errors.InvalidReplicationFactorError),
        ("ok", {"configs": {"no.such.thing": "1"}}, errors.InvalidConfigurationError),
    ):
        with pytest.raises(error):
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, **options}})
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name + "-none"])
