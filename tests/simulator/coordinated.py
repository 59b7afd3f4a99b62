"""A cluster in virtual time with a client that commits offsets for topic `t` without being a member; offsets segments
are small.

For tests of the state that a coordinator finds when it takes over. Each request goes to the group's coordinator.
"""

from typing import Any

from actors.wire.messages import message
from tests.simulator.cluster import Client, Cluster
from tests.simulator.world import World

OFFSETS = "__consumer_offsets"
FILE = f"{OFFSETS}-0/00000000000000000000.log"
TOPIC, BROKER = 2, 4


class Coordinated:
    def __init__(self, seed: int = 1, **config: str) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, config={"offsets.topic.num.partitions": "1", **config})
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "client")
        self.create("t", 1)

    def create(self, name: str, partitions: int) -> None:
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(name=name, num_partitions=partitions, replication_factor=3)
        assert self.ask("CreateTopics", 7, kind(topics=[topic])).topics[0].error_code == 0
        self.world.run_for(500)

    def small_segments(self, policy: str = "delete", topic: str = OFFSETS) -> None:
        """Make segments of the offsets topic so small that a few commits fill one. `policy`: `compact` lets the log cleaner
        compact them all the time."""
        self.coordinator("g")
        kind = message("IncrementalAlterConfigsRequest")
        wanted = {"internal.segment.bytes": "600", "cleanup.policy": policy, "min.cleanable.dirty.ratio": "0.01"}
        configs = [kind.AlterableConfig(name=name, config_operation=0, value=value) for name, value in wanted.items()]
        resource = kind.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=configs)
        reply = self.ask("IncrementalAlterConfigs", 1, kind(resources=[resource]))
        assert reply.responses[0].error_code == 0
        self.world.run_for(500)

    def ask(self, name: str, version: int, request: Any) -> Any:
        """Send a request to a broker that serves."""
        brokers = self.cluster.brokers.values()
        serving = next(one for one in brokers if one.alive and "PLAINTEXT" in one.listening)
        return self.client.call(serving.name, name, version, request)

    def coordinator(self, group: str) -> int:
        """The coordinator's broker id, once there is one."""
        request = message("FindCoordinatorRequest")(key_type=0, coordinator_keys=[group])
        for _ in range(40):
            reply = self.ask("FindCoordinator", 4, request)
            if reply is not None and reply.coordinators[0].error_code == 0:
                return int(reply.coordinators[0].node_id)
            self.world.run_for(500)
        raise AssertionError("no coordinator")

    def call(self, group: str, name: str, version: int, request: Any) -> Any:
        """Send a request to the coordinator. None: no answer."""
        return self.client.call(f"b{self.coordinator(group)}", name, version, request)

    def commit(self, group: str, offset: int) -> None:
        """Commit an offset of a group. It is repeated until it is accepted."""
        kind = message("OffsetCommitRequest")
        partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = kind(group_id=group, generation_id_or_member_epoch=-1, topics=[topic])
        for _ in range(20):
            reply = self.call(group, "OffsetCommit", 8, request)
            if reply is not None and reply.topics[0].partitions[0].error_code == 0:
                return
            self.world.run_for(300)
        raise AssertionError("not committed")

    def committed(self, group: str) -> int | None:
        """The committed offset, -1 when there is none; None: an error, or no answer."""
        kind = message("OffsetFetchRequest")
        topic = kind.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        reply = self.call(group, "OffsetFetch", 7, kind(group_id=group, topics=[topic]))
        if reply is None or reply.error_code:
            return None
        return int(reply.topics[0].partitions[0].committed_offset)

    def heir(self, topic: str = OFFSETS) -> int:
        """The broker that leads the only partition of a coordinators' topic when its leader is gone."""
        active = self.cluster.active()
        assert active is not None
        image = active.node.controller.image
        row = int(image.topic_partitions(image.topic(topic))[0])
        leader, isr = image.leader(row), image.isr(row)
        return next(int(id) for id in image.replicas(row) if id != leader and id in isr)


class Producer:
    """A transactional producer that commits offsets of groups, and asks again until it is served."""

    def __init__(self, c: Coordinated, id: str = "x") -> None:
        self.c, self.transactional_id = c, id
        request = message("InitProducerIdRequest")(transactional_id=id, transaction_timeout_ms=900_000)
        reply = self._ask("InitProducerId", 4, request)
        self.id, self.epoch = reply.producer_id, reply.producer_epoch

    def _ask(self, name: str, version: int, request: Any) -> Any:
        kind = message("FindCoordinatorRequest")
        for _ in range(40):
            found = self.c.ask("FindCoordinator", 4, kind(key_type=1, coordinator_keys=[self.transactional_id]))
            if found is not None and found.coordinators[0].error_code == 0:
                reply = self.c.client.call(f"b{found.coordinators[0].node_id}", name, version, request)
                if reply is not None and reply.error_code == 0:
                    return reply
            self.c.world.run_for(300)
        raise AssertionError(f"{name} is refused")

    def commit(self, group: str, offset: int) -> None:
        who = {"transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch}
        self._ask("AddOffsetsToTxn", 3, message("AddOffsetsToTxnRequest")(**who, group_id=group))
        kind = message("TxnOffsetCommitRequest")
        part = kind.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        topic = kind.TxnOffsetCommitRequestTopic(name="t", partitions=[part])
        reply = self.c.call(group, "TxnOffsetCommit", 3, kind(**who, group_id=group, topics=[topic]))
        assert reply.topics[0].partitions[0].error_code == 0

    def end(self, committed: bool) -> None:
        who = {"transactional_id": self.transactional_id, "producer_id": self.id, "producer_epoch": self.epoch}
        self._ask("EndTxn", 3, message("EndTxnRequest")(**who, committed=committed))
        self.c.world.run_for(500)
