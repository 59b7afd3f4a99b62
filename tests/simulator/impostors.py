"""Strangers of worlds with access rules: they say that they are nodes, or ask for what they have no right to.

Where nobody is authenticated such messages could not be told from a node's, so strangers there do not send them
(`strangers.py`). Here everything is sent, under three kinds of principal: none, one without any right (the name of one
begins as that of a super user), and that of a node whose key was stolen. The last one is a super user: it speaks for other
nodes, which it may not, and never asks what nodes may.
"""

from collections.abc import Callable
from typing import Any

from actors.metadata.image import Image
from actors.node.net.envelopes import principal_bytes
from actors.node.quorum.files import TOPIC_ID
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.integration.answers.dialogue import request
from tests.simulator.checkers.metadata_log import partitions
from tests.simulator.cluster import OPERATOR, STOLEN, directory_id, node_principal
from tests.simulator.strangers import (
    PREFERRED,
    TO_A_BROKER,
    TO_A_CONTROLLER,
    TOPIC,
    UNCLEAN,
    Strangers,
    Told,
)  # fmt: skip

NOBODIES = (None, "User:nobody", f"{OPERATOR}s", "User:rayft-node")
TOPICS = ("t0", "t1", "k0", "x0", "churn-0", "__consumer_offsets")
LARGE = 1 << 40


class Impostors(Strangers):
    """The messages, from the same stream as those of strangers."""

    def _drawn(self, to_a_controller: bool) -> tuple[str | None, Told]:
        if not self.choose.randrange(3):
            return node_principal(STOLEN), self.choose.choice(AS_A_NODE[to_a_controller])(self)
        return self.choose.choice(NOBODIES), self.choose.choice(ANYTHING[to_a_controller])(self)

    # ---- what the cluster is like

    def _image(self) -> Image | None:
        return next((one.image for one in self.cluster.brokers.values() if one.alive), None)

    def _now(self) -> int:
        """The newest epoch of the quorum."""
        return max((one.node.quorum.raft.epoch for one in self.cluster.controllers.values() if one.node), default=0)

    def _registered(self) -> tuple[int, int]:
        """A broker and its epoch."""
        id, image = self._broker(), self._image()
        found = None if image is None else image.broker(id)
        return id, -1 if found is None else found.epoch

    # ---- as a controller

    def begins(self) -> Told:
        led = {"partition_index": 0, "leader_id": self._voter(), "leader_epoch": self._now() + self.choose.randrange(3)}
        topics = [{"topic_name": TOPIC, "partitions": [led]}]
        places = [{"name": "CONTROLLER", "host": "nowhere", "port": 1}]
        yield "BeginQuorumEpoch", 1, request("BeginQuorumEpoch", voter_id=-1, topics=topics, leader_endpoints=places)

    def resigns(self) -> Told:
        active = self.cluster.active()
        leader = active.config.controller_id if active is not None else self._voter()
        led = {"partition_index": 0, "leader_id": leader, "leader_epoch": self._now()}
        yield "EndQuorumEpoch", 1, request("EndQuorumEpoch", topics=[{"topic_name": TOPIC, "partitions": [led]}])

    def stands(self) -> Told:
        id = self._voter()
        stands = {
            "replica_id": id, "replica_directory_id": directory_id(id), "replica_epoch": self._now() + 1,
            "last_offset_epoch": self._now(), "last_offset": LARGE, "pre_vote": bool(self.choose.randrange(2)),
        }  # fmt: skip
        yield "Vote", 2, request("Vote", voter_id=-1, topics=[{"topic_name": TOPIC, "partitions": [stands]}])

    def follows(self) -> Told:
        """A voter that has more than it was sent: what it has counts as committed."""
        id = self._voter()
        asked = {
            "partition": 0, "current_leader_epoch": self._now(), "fetch_offset": LARGE if self.choose.randrange(2) else 1,
            "last_fetched_epoch": self._now(), "replica_directory_id": directory_id(id), "high_watermark": LARGE,
        }  # fmt: skip
        topics = [{"topic_id": TOPIC_ID, "partitions": [asked]}]
        yield (
            "Fetch",
            18,
            request("Fetch", replica_state={"replica_id": id}, max_wait_ms=0, max_bytes=-1, topics=topics),
        )

    # ---- as a broker

    def beats(self) -> Told:
        """Under the present epoch: wants to be fenced, or to end. Or a new process of the broker."""
        id, epoch = self._registered()
        image = self._image()
        values: dict[str, Any] = {
            "broker_id": id, "broker_epoch": epoch if self.choose.randrange(3) else -1,
            "target_state": self.choose.choice((2, 3, 4)), "lease_start_time_ms": self.world.time_us // 1000,
            "cur_metadata_offset": 0 if image is None else image.next_offset,
            "listeners": [{"name": "PLAINTEXT", "host": "nowhere", "port": 1}], "log_dirs": [b"s" * 16],
            "incarnation_id": b"i" * 16, "previous_broker_epoch": epoch,
        }  # fmt: skip
        yield "BrokerHeartbeat", 0, request("v28:BrokerHeartbeat", **values)

    def shrinks(self) -> Told:
        """A leader that wants to be alone in the ISR."""
        image = self._image()
        found = [] if image is None else [(image, key, row) for key, row in partitions(image)]
        if not found:
            return
        known, (topic_id, number), row = self.choose.choice(found)
        leader = known.leader(row)
        registered = known.broker(leader)
        proposal = {
            "partition_id": number, "leader": leader, "leader_epoch": known.leader_epoch(row), "isr": [leader],
            "current_zk_version": known.partition_epoch(row),
        }  # fmt: skip
        topics = [{"topic": known.topic_name(known.topic_by_id(topic_id)), "partitions": [proposal]}]
        epoch = -1 if registered is None else registered.epoch
        yield "AlterIsr", 0, request("AlterIsr", broker_id=leader, broker_epoch=epoch, topics=topics)

    def takes_ids(self) -> Told:
        id, epoch = self._registered()
        yield "AllocateProducerIds", 0, request("AllocateProducerIds", broker_id=id, broker_epoch=epoch)

    def replicates(self) -> Told:
        """A follower that has everything: with it the high watermark rises."""
        image = self._image()
        found = [] if image is None else [(key, image.leader_epoch(row)) for key, row in partitions(image)]
        if not found:
            return
        (topic_id, number), leader_epoch = self.choose.choice(found)
        id, epoch = self._registered()
        asked = {
            "partition": number, "current_leader_epoch": leader_epoch, "fetch_offset": self.choose.choice((0, 50, LARGE)),
            "last_fetched_epoch": -1, "log_start_offset": 0, "partition_max_bytes": 1 << 16,
        }  # fmt: skip
        replica = {"replica_id": id, "replica_epoch": epoch}
        topics = [{"topic_id": topic_id, "partitions": [asked]}]
        yield "Fetch", 16, request("Fetch", replica_state=replica, max_wait_ms=0, max_bytes=1 << 16, topics=topics)

    # ---- as a client

    def marks(self) -> Told:
        """The end of somebody's transaction."""
        topics = [{"name": self.choose.choice(TOPICS), "partition_indexes": [0]}]
        marker = {
            "producer_id": self.choose.randrange(4), "producer_epoch": self.choose.randrange(3), "transaction_result": True,
            "topics": topics, "coordinator_epoch": self.choose.randrange(3),
        }  # fmt: skip
        yield "WriteTxnMarkers", 1, request("WriteTxnMarkers", markers=[marker])

    def _changes(self) -> tuple[str, int, Any]:
        """A request of an operator."""
        name = self.choose.choice(TOPICS)
        changes: tuple[tuple[str, int, dict[str, Any]], ...] = (
            ("CreateTopics", 7, {"topics": [{"name": f"{name}-of-nobody", "num_partitions": 1, "replication_factor": 1}]}),
            ("DeleteTopics", 6, {"topics": [{"name": name}]}),
            ("CreatePartitions", 3, {"topics": [{"name": name, "count": 5, "assignments": None}]}),
            ("IncrementalAlterConfigs", 1, {"resources": [{
                "resource_type": 2, "resource_name": name,
                "configs": [{"name": "retention.bytes", "config_operation": 0, "value": "1"}],
            }]}),
            ("CreateAcls", 3, {"creations": [{
                "resource_type": 2, "resource_name": "*", "resource_pattern_type": 3, "principal": "User:*", "host": "*",
                "operation": 2, "permission_type": 3,
            }]}),
            ("DeleteAcls", 3, {"filters": [{
                "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
                "principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1,
            }]}),
            ("AlterPartitionReassignments", 0, {"topics": [{
                "name": name, "partitions": [{"partition_index": 0, "replicas": [1]}],
            }]}),
            ("ElectLeaders", 2, {
                "election_type": self.choose.choice((PREFERRED, UNCLEAN)), "topic_partitions": None, "timeout_ms": 1000,
            }),
            ("UnregisterBroker", 0, {"broker_id": self._broker()}),
            ("AlterClientQuotas", 1, {"entries": [{
                "entity": [{"entity_type": "user", "entity_name": "alice"}],
                "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
            }]}),
        )  # fmt: skip
        api, version, values = self.choose.choice(changes)
        return api, version, request(api, **values)

    def changes(self) -> Told:
        yield self._changes()

    def writes(self) -> Told:
        """A record, an offset of a group, a deletion of records."""
        name = self.choose.choice(TOPICS)
        builder = Builder()
        builder.append(None, b"of nobody")
        kind = message("ProduceRequest")
        data = kind.PartitionProduceData(index=0, records=builder.build())
        topics = [kind.TopicProduceData(name=name, partition_data=[data])]
        yield "Produce", 12, kind(acks=self.choose.choice((-1, 1)), timeout_ms=1000, topic_data=topics)
        part = {"partition_index": 0, "committed_offset": 1 << 30, "committed_metadata": ""}
        offsets = [{"name": name, "partitions": [part]}]
        yield (
            "OffsetCommit",
            8,
            request("OffsetCommit", group_id="group", generation_id_or_member_epoch=-1, topics=offsets),
        )
        deleted = [{"name": name, "partitions": [{"partition_index": 0, "offset": -1}]}]
        yield "DeleteRecords", 2, request("DeleteRecords", topics=deleted, timeout_ms=1000)

    def looks(self) -> Told:
        """Lists of everything, and what one of all topics has."""
        yield "Metadata", 12, request("Metadata", topics=None)
        yield "ListGroups", 4, request("ListGroups")
        yield "ListTransactions", 1, request("ListTransactions")
        yield "DescribeGroups", 5, request("DescribeGroups", groups=["group", "copier"])
        yield "OffsetFetch", 8, request("OffsetFetch", groups=[{"group_id": "group", "topics": None}])
        yield (
            "DescribeConfigs",
            4,
            request("DescribeConfigs", resources=[{"resource_type": 2, "resource_name": name} for name in TOPICS]),
        )
        yield (
            "ListOffsets",
            7,
            request(
                "ListOffsets",
                replica_id=-1,
                topics=[{"name": name, "partitions": [{"partition_index": 0}]} for name in TOPICS],
            ),
        )

    def disguised(self) -> Told:
        """An Envelope that is said to be from an operator's client."""
        api, version, body = self._changes()
        data = b"".join(framing.encode_request(api, version, 1, "stranger", body))[4:]
        by_token = bool(self.choose.randrange(2))
        yield (
            "Envelope",
            0,
            request(
                "Envelope",
                request_data=data,
                request_principal=principal_bytes(OPERATOR, by_token),
                client_host_address=b"\x7f\0\0\1",
            ),
        )

    def any_body_to_a_controller(self) -> Told:
        return self._body(Listener.CONTROLLER, frozenset())

    def any_body_to_a_broker(self) -> Told:
        return self._body(Listener.CLIENT, frozenset())


Draws = tuple[Callable[[Any], Told], ...]
AS_A_NODE: dict[bool, Draws] = {
    True: (
        Impostors.begins, Impostors.resigns, Impostors.stands, Impostors.follows, Impostors.beats, Impostors.shrinks,
        Impostors.takes_ids, Impostors.alter_isr, Impostors.broker_heartbeat, Impostors.vote,
    ),
    False: (Impostors.replicates,),
}  # fmt: skip
"""What an impostor sends that has a node's key, and speaks for another node; the key says whether it sends to a
controller."""
ANYTHING: dict[bool, Draws] = {
    True: (
        *TO_A_CONTROLLER, *AS_A_NODE[True], Impostors.changes, Impostors.disguised, Impostors.any_body_to_a_controller,
    ),
    False: (
        *TO_A_BROKER, Impostors.replicates, Impostors.marks, Impostors.writes, Impostors.looks,
        Impostors.any_body_to_a_broker, *3 * (Impostors.changes,),
    ),
}  # fmt: skip


class PushyImpostors(Impostors):
    """Impostors that come all the time."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._pause_ms = 100
