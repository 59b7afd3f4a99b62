"""MirrorMaker 2 between Apache Kafka and rayft, both ways at a time: records, new partitions, settings of topics and offsets
of groups arrive, and its topics are made on both sides."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

import rayft
from bench import apache
from tests.integration.applications.programs import PATIENCE_SECONDS, Program, Reader, classes, properties

RECORDS = 300
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Side:
    """One of both clusters, under the name that MirrorMaker has for it."""

    def __init__(self, name: str, servers: str) -> None:
        self.name, self.servers = name, servers
        self.client = {"bootstrap.servers": servers, "log_level": 0}
        self.admin = AdminClient(self.client)

    def begin(self) -> None:
        """A topic with settings and records, and a group that has read a part of it."""
        topic = NewTopic("orders", 2, 1, config={"retention.ms": "7654321", "cleanup.policy": "compact,delete"})
        self.admin.create_topics([topic])["orders"].result(30)
        self.produce(0, RECORDS)
        self.commit(0, RECORDS // 2)

    def produce(self, first: int, count: int, partitions: int = 2) -> None:
        producer = Producer(self.client)
        for number in range(first, first + count):
            headers = [("number", b"%d" % number)]
            producer.produce("orders", f"{self.name} {number}", f"{number}", number % partitions, headers=headers)
        assert producer.flush(60) == 0

    def commit(self, partition: int, offset: int) -> None:
        """The group has read a partition up to there."""
        consumer = Consumer(self.client | {"group.id": f"group-of-{self.name}", "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
        consumer.close()

    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        return {name: len(one.partitions) for name, one in self.admin.list_topics(timeout=30).topics.items()}

    def setting(self, topic: str, name: str) -> str | None:
        (future,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return str(future.result(30)[name].value)

    def change(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """What the group has committed here."""
        (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return {(one.topic, one.partition): one.offset for one in future.result(30).topic_partitions}


def values(side: Side, topic: str, count: int) -> list[bytes | None]:
    with Reader(side.servers, [topic]) as reader:
        assert reader.until(lambda: len(reader.read[topic]) >= count, PATIENCE_SECONDS), len(reader.read[topic])
        reader.quiet(0.5)
        return [value for _, _, _, value in sorted(reader.read[topic])]


def mirrored(source: Side, target: Side, program: Program) -> None:
    """Everything of one side is on the other."""
    topic, group = f"{source.name}.orders", f"group-of-{source.name}"
    program.until(lambda: topic in target.topics())
    assert values(target, topic, RECORDS) == values(source, "orders", RECORDS)
    assert target.setting(topic, "retention.ms") == "7654321"
    assert target.setting(topic, "cleanup.policy") == "compact,delete"
    # The group's offset in partition 0 is that of its end now: it is known exactly.
    program.until(lambda: target.offsets(group).get((topic, 0), 0) >= RECORDS // 2)
    source.change("orders", "retention.ms", "7000000")
    source.admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
    program.until(lambda: target.setting(topic, "retention.ms") == "7000000" and target.topics()[topic] == 3)
    source.produce(RECORDS, 30, partitions=3)
    assert len(values(target, topic, RECORDS + 30)) == RECORDS + 30
    # In the middle of a partition it may be lower. MirrorMaker knows nothing of offsets before its own start: so it is
    # committed now, behind what was copied before.
    middle = RECORDS // 2 + 5
    source.commit(1, middle)
    program.until(lambda: target.offsets(group).get((topic, 1), 0) > 0)
    moved = target.offsets(group)
    assert moved[topic, 0] == RECORDS // 2 <= moved[topic, 1] <= middle
    with Reader(target.servers, [f"{source.name}.checkpoints.internal", f"{source.name}.heartbeats"]) as reader:
        checkpoints, beats = reader.read.values()
        assert reader.until(lambda: bool(beats and checkpoints), PATIENCE_SECONDS)
    assert any(group.encode() in (key or b"") for _, _, key, _ in checkpoints)
    assert target.setting(f"{source.name}.checkpoints.internal", "cleanup.policy") == "compact"
    with Reader(source.servers, [f"mm2-offset-syncs.{target.name}.internal"]) as reader:
        (syncs,) = reader.read.values()
        assert reader.until(lambda: bool(syncs), PATIENCE_SECONDS)
    assert {"heartbeats", f"mm2-offset-syncs.{target.name}.internal"} <= set(source.topics())
    own = {f"mm2-{what}.{source.name}.internal" for what in ("configs", "offsets", "status")}
    assert own <= set(target.topics())
    assert not [name for name in target.topics() if name.startswith(f"{source.name}.{target.name}.orders")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_both_ways_between_apache_kafka_and_rayft(tmp_path: Path) -> None:
    path = classes()
    with (
        apache.ApacheKafka(config=CONFIG, heap="512m") as kafka,
        rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", config=CONFIG) as cluster,
    ):
        theirs, ours = Side("theirs", kafka.bootstrap_servers), Side("ours", cluster.bootstrap_servers)
        for side in (theirs, ours):
            side.begin()
        settings = {
            "clusters": "theirs, ours",
            "theirs.bootstrap.servers": theirs.servers,
            "ours.bootstrap.servers": ours.servers,
            "theirs->ours.enabled": "true",
            "ours->theirs.enabled": "true",
            "topics": "orders",
            "groups": "group-of-.*",
            "replication.factor": 1,
            "offset-syncs.topic.replication.factor": 1,
            "heartbeats.topic.replication.factor": 1,
            "checkpoints.topic.replication.factor": 1,
            "offset.storage.replication.factor": 1,
            "status.storage.replication.factor": 1,
            "config.storage.replication.factor": 1,
            "refresh.topics.interval.seconds": 1,
            "refresh.groups.interval.seconds": 1,
            "sync.topic.configs.interval.seconds": 1,
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": 1,
            "emit.checkpoints.interval.seconds": 1,
            "emit.heartbeats.interval.seconds": 1,
            "offset.lag.max": 0,
            "offset.flush.interval.ms": 500,
            "plugin.discovery": "service_load",
        }
        file = properties(tmp_path / "mirror.properties", settings)
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        with (
            Program(path, main, str(file), log=tmp_path / "mirror.log", heap="512m") as program,
            ThreadPoolExecutor() as pool,
        ):
            for done in [pool.submit(mirrored, *way, program) for way in ((theirs, ours), (ours, theirs))]:
                done.result()
