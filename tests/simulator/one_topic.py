"""A cluster in virtual time with one topic `t` of one partition on three brokers, its segments small, and one client.

For tests of what becomes of a partition's files. Each request goes to the leader.
"""

from typing import Any

from actors.wire.messages import message
from fastpath import batch as batches
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

DIRECTORY = "t-0"


class OneTopic:
    def __init__(self) -> None:
        self.world = World(1)
        self.cluster = Cluster(self.world)
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "client")
        kind = message("CreateTopicsRequest")
        small = kind.CreatableTopicConfig(name="internal.segment.bytes", value="500")
        topic = kind.CreatableTopic(name="t", num_partitions=1, replication_factor=3, configs=[small])
        assert self.client.call("b1", "CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
        self.world.run_for(1_000)

    @property
    def image(self) -> Any:
        """The active controller's."""
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

    def call(self, name: str, version: int, request: Any) -> Any:
        """Ask the leader; None: no answer."""
        return self.client.call(f"b{self.leader}", name, version, request)

    def produce(self, *values: bytes) -> None:
        """One batch, acknowledged by all."""
        kind = message("ProduceRequest")
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        for value in values:
            builder.append(None, value)
        partition = kind.PartitionProduceData(index=0, records=builder.build())
        data = kind.TopicProduceData(name="t", partition_data=[partition])
        reply = self.call("Produce", 12, kind(acks=-1, timeout_ms=3000, topic_data=[data]))
        assert reply.responses[0].partition_responses[0].error_code == 0

    def fetch(self, offset: int = 0) -> Any:
        """The partition's answer to a consumer; None: none."""
        kind = message("FetchRequest")
        wanted = kind.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topic = kind.FetchTopic(topic_id=self.image.topic_id(self.image.topic("t")), partitions=[wanted])
        reply = self.call("Fetch", 16, kind(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic]))
        return reply.responses[0].partitions[0] if reply is not None else None
