"""A cluster in virtual time with one topic `t` of one partition with small segments, and one client.

For tests of a partition's files. Each request about the data goes to the leader.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

DIRECTORY = "t-0"
SMALL = {"internal.segment.bytes": "500"}


class OneTopic:
    def __init__(
        self,
        replicas: Sequence[int] | None = None,
        settings: Mapping[str, str] = SMALL,
        config: Mapping[str, str] | None = None,
        directories: int = 1,
        seed: int = 1,
    ) -> None:
        """`replicas` is None for all three brokers, in an order that the controller chooses. `settings`: of the topic.
        `config`: of the nodes. `directories`: how many log directories a broker has."""
        self.settings = settings
        self.world = World(seed)
        self.cluster = Cluster(self.world, config=config, directories=directories)
        self.cluster.start()
        self.until(self.cluster.ready)
        self.client = Client(self.world, "client")
        self.create(replicas)

    def create(self, replicas: Sequence[int] | None) -> None:
        """Create the topic, again after `drop`."""
        kind = message("CreateTopicsRequest")
        configs = [kind.CreatableTopicConfig(name=name, value=value) for name, value in self.settings.items()]
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=3, configs=configs)
        if replicas is not None:
            topic.num_partitions = topic.replication_factor = -1
            topic.assignments = [kind.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
        assert self.client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
        self.world.run_for(1_000)

    def drop(self) -> None:
        """Delete the topic `t`."""
        kind = message("DeleteTopicsRequest")
        request = kind(topics=[kind.DeleteTopicState(name="t")], timeout_ms=5_000)
        assert self.client.call("b1", "DeleteTopics", 6, request).responses[0].error_code == 0
        self.world.run_for(1_000)

    def reassign(self, replicas: Sequence[int] | None) -> None:
        """Begin a reassignment of the partition; None: cancel the one that is under way."""
        kind = message("AlterPartitionReassignmentsRequest")
        wanted = None if replicas is None else list(replicas)
        partition = kind.ReassignablePartition(partition_index=0, replicas=wanted)
        request = kind(topics=[kind.ReassignableTopic(name="t", partitions=[partition])], timeout_ms=5_000)
        reply = self.client.call("b1", "AlterPartitionReassignments", 0, request)
        assert (reply.error_code, reply.responses[0].partitions[0].error_code) == (0, 0)

    def move(self, replicas: Sequence[int]) -> None:
        """Reassign the partition, and wait until that is done."""
        self.reassign(replicas)
        self.until(lambda: tuple(self.image.replicas(self._row)) == tuple(replicas) and self.leader in replicas)
        self.world.run_for(1_000)

    def until(self, condition: Callable[[], bool], milliseconds_max: int = 60_000) -> None:
        """Move the world until the condition holds. It fails if that takes too long."""
        assert self.world.run_until(condition, milliseconds_max)

    def stop(self, broker: int) -> None:
        """Stop a broker in an orderly way."""
        process = self.cluster.brokers[broker]
        assert process.node is not None
        process.node.shutdown()
        process.wake()
        self.until(lambda: process.stopped_with is not None)

    @property
    def image(self) -> Any:
        """The active controller's image."""
        active = self.cluster.active()
        assert active is not None
        return active.node.controller.image

    @property
    def _row(self) -> int:
        return int(self.image.topic_partitions(self.image.topic("t"))[0])

    @property
    def leader(self) -> int:
        return int(self.image.leader(self._row))

    @property
    def isr(self) -> set[int]:
        return set(self.image.isr(self._row))

    def partition(self, broker: int) -> Partition:
        """The partition at a broker, which must run and have a replica."""
        node = self.cluster.brokers[broker].node
        assert node is not None and node.broker is not None
        partition = node.broker.replicas.get("t", 0)
        assert partition is not None
        return partition

    def log(self, broker: int) -> PartitionLog:
        return self.partition(broker).log

    def file(self, broker: int, path: str) -> bytes:
        """The content of a file of that broker now, durable or not; empty when there is no file."""
        inode = self.cluster.brokers[broker].disk.files.get(path)
        return b"" if inode is None else bytes(inode.data)

    def call(self, name: str, version: int, request: Any) -> Any:
        """Send a request to the leader. None: no answer."""
        return self.client.call(f"b{self.leader}", name, version, request)

    def send(self, *values: bytes, acks: int = -1, leader: int | None = None, **producer: int) -> Any:
        """Produce one batch of these values. Returns the partition's answer; None: no answer. `leader`: the broker
        asked. `producer`: fields of the batch's header."""
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000, **producer)
        for value in values:
            builder.append(None, value)
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        request = kind(acks=acks, timeout_ms=3000, topic_data=[data])
        reply = self.client.call(f"b{leader or self.leader}", "Produce", 12, request)
        return reply.responses[0].partition_responses[0] if reply is not None else None

    def produce(self, *values: bytes, acks: int = -1, leader: int | None = None, **producer: int) -> int:
        """Produce one batch, which must be acknowledged. Returns its base offset."""
        answer = self.send(*values, acks=acks, leader=leader, **producer)
        assert answer.error_code == 0, answer
        return int(answer.base_offset)

    def delete_records(self, offset: int) -> None:
        """Delete everything below `offset`."""
        kind = message("DeleteRecordsRequest")
        wanted = kind.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = kind.DeleteRecordsTopic(name="t", partitions=[wanted])
        reply = self.call("DeleteRecords", 2, kind(topics=[topic], timeout_ms=3000))
        assert reply.topics[0].partitions[0].error_code == 0
        assert reply.topics[0].partitions[0].low_watermark == offset

    def fetch(self, offset: int = 0) -> Any:
        """The partition's answer to a consumer; None: none."""
        kind = message("FetchRequest")
        wanted = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = kind.FetchTopic(topic_id=self.image.topic_id(self.image.topic("t")), partitions=[wanted])
        reply = self.call("Fetch", 16, kind(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic]))
        return reply.responses[0].partitions[0] if reply is not None else None

    def read(self) -> dict[int, bytes]:
        """All records that a consumer is given from the log's start on, by offset."""
        found: dict[int, bytes] = {}
        position = self.log(self.leader).log_start_offset
        while (answer := self.fetch(position)).records:
            assert answer.error_code == 0, answer
            for header in batches.headers(answer.records):
                for record in batches.records(answer.records, header.position):
                    found[record.offset] = record.value
                position = header.last_offset + 1
        assert answer.error_code == 0, answer
        return found
