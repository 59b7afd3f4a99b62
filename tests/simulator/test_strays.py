"""A partition's directory names its topic, also after a power cut, or it is not read. The same holds for
checkpoints."""

from typing import Any

from actors.node.roles.broker.log.log_manager import LogManager
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

LOG, NAME = "t-0/00000000000000000000.log", "t-0/partition.metadata"


class Alone:
    """One broker to check, and a topic `t` of one partition with a replica on every broker."""

    def __init__(self, brokers: int = 1, **configs: str) -> None:
        self.world = World(1)
        self.cluster = Cluster(self.world, brokers=brokers)
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.broker = self.cluster.brokers[brokers]
        self.client = Client(self.world, "client")
        self.create(**configs)

    def create(self, **configs: str) -> None:
        kind = message("CreateTopicsRequest")
        given = [kind.CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        topics = [
            kind.CreatableTopic(name="t", num_partitions=1, replication_factor=len(self.cluster.brokers), configs=given)
        ]
        assert self.client.call("b1", "CreateTopics", 7, kind(topics=topics)).topics[0].error_code == 0
        self.world.run_for(1_000)

    def delete(self) -> None:
        kind = message("DeleteTopicsRequest")
        reply = self.client.call("b1", "DeleteTopics", 6, kind(topics=[kind.DeleteTopicState(name="t")]))
        assert reply.responses[0].error_code == 0
        self.world.run_for(1_000)

    def produce(self) -> None:
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, b"x")
        part = kind.PartitionProduceData(index=0, records=builder.build())
        request = kind(acks=-1, timeout_ms=3000, topic_data=[kind.TopicProduceData(name="t", partition_data=[part])])
        replies = [self.client.call(f"b{id}", "Produce", 12, request) for id in self.cluster.brokers]
        assert ErrorCode.NONE in [reply.responses[0].partition_responses[0].error_code for reply in replies]

    def restart(self) -> Any:
        """Restart after a power cut that leaves only what is durable. Returns the partition."""
        self.broker.kill()
        self.broker.disk.crash()
        self.broker.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        return self.broker.node.broker.replicas.get("t", 0)


def test_what_is_flushed_can_be_named():
    alone = Alone(flush_messages="1")
    alone.produce()
    assert alone.restart().log.log_end_offset == 1
    assert not [name for name in alone.broker.disk.names("") if name.endswith("-stray")]


def test_a_log_without_a_name_is_set_aside_and_not_taken_for_its_namesakes():
    """The device kept the batch of a topic that is deleted by now, and lost the file that names the topic."""
    alone = Alone()
    alone.produce()
    files = alone.broker.disk.files
    content, name = bytes(files[LOG].data), bytes(files[NAME].data)
    assert content and name
    alone.delete()
    alone.create()
    alone.broker.kill()
    for path, data in ((LOG, content), (NAME, b"")):
        alone.broker.disk.replace(path, data)
    partition = alone.restart()
    assert partition.log.log_end_offset == 0 and not partition.log.segments
    (stray,) = [name for name in alone.broker.disk.names("") if name.endswith("-stray")]
    alone.world.run_for(120_000)
    assert bytes(alone.broker.disk.files[LOG.replace("t-0", stray)].data) == content
    alone.produce()
    assert alone.restart() and alone.broker.disk.exists(stray)


def test_a_checkpoint_of_a_deleted_namesake_commits_nothing(monkeypatch):
    opened: list[tuple[int, int, int]] = []
    original = LogManager.open

    def spied(logs: Any, *partition: Any) -> Any:
        log, settings, high_watermark = original(logs, *partition)
        opened.append((log.log_end_offset, log.recovery_point, high_watermark))
        return log, settings, high_watermark

    monkeypatch.setattr(LogManager, "open", spied)
    alone = Alone()
    for _ in range(3):
        alone.produce()
    marks = alone.broker.disk.files
    assert alone.world.run_until(lambda: b"t 0 3" in marks["replication-offset-checkpoint"].data, 10_000)
    alone.delete()
    alone.create()
    alone.produce()
    assert b"t 0 3" in marks["replication-offset-checkpoint"].data
    alone.broker.kill()
    alone.broker.start()
    assert alone.world.run_until(alone.cluster.ready, 60_000)
    assert opened[-1] == (1, 0, 0)


def test_the_directory_of_a_topic_that_went_while_its_broker_was_away_goes_too():
    alone = Alone(brokers=2)
    alone.produce()
    disk = alone.broker.disk
    assert alone.world.run_until(lambda: disk.exists(LOG), 10_000)
    alone.broker.kill()
    alone.delete()
    alone.broker.start()
    alone.world.run_for(3_000)
    assert not disk.exists("t-0")
    alone.world.run_for(120_000)
    assert not [name for name in disk.names("") if name.startswith("t-0")]
