"""Valid requests in which one field at a time is the smallest, the largest, negative, empty or very long, so that each
gets past the checks of the other fields. `test_random_bodies.py` says what must hold.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from actors.node.quorum.files import TOPIC_ID
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from tests.integration.answers.dialogue import fill, request
from tests.simulator.strangers import Connection
from tests.simulator.test_random_bodies import Stage, inner, records
from tests.unit.wire.generator import INTEGERS
from tests.unit.wire.strategies import LONG_ARRAY, LONGEST

TOPIC = "__kafka_metadata"
ENDPOINT = {"name": "PLAINTEXT", "host": "b77", "port": 9000, "security_protocol": 0}


def sound(stage: Stage) -> "dict[str, tuple[Listener, int, dict[str, Any]]]":
    """Name -> (listener, version, fields): requests of the controllers' listener first, then of clients."""
    active = stage.cluster.active()
    assert active is not None and active.node is not None
    image, quorum = active.node.controller.image, active.node.quorum
    epoch, broker = quorum.raft.epoch, image.broker(1)
    topic_id = image.topic_id(image.topic("there"))
    asked = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 1, "last_fetched_epoch": epoch}
    part = {"partition": 0, "current_leader_epoch": epoch, "snapshot_id": {"end_offset": 0, "epoch": 0}, "position": 0}
    candidate = {"replica_id": 1002, "replica_epoch": epoch + 1, "last_offset_epoch": epoch, "last_offset": 1 << 40}
    led = {"leader_id": 77, "leader_epoch": epoch + 1}
    isr = {"partition_id": 0, "leader": 1, "isr": [1, 2], "current_zk_version": 0, "isr_broker_epochs": [0, 0]}
    batch = records()[0]
    control, client = Listener.CONTROLLER, Listener.CLIENT
    return {
        "BrokerHeartbeat": (control, 0, {
            "target_state": 3, "broker_id": 77, "lease_start_time_ms": 1, "cur_metadata_offset": image.next_offset - 1,
            "listeners": [ENDPOINT], "rack": "r", "incarnation_id": b"i" * 16, "log_dirs": [b"d" * 16],
            "features": [{"name": "metadata.format", "min_supported_version": 1, "max_supported_version": 2}],
            "unreadable": [{"topic_id": topic_id, "partitions": [0]}],
        }),
        "ControllerHeartbeat": (control, 0, {
            "controller_id": 1002, "last_snapshot_offset": 0,
            "features": [{"name": "metadata.format", "min_supported_version": 1, "max_supported_version": 2}],
        }),
        "AlterIsr": (control, 0, {
            "broker_id": 1, "broker_epoch": broker.epoch,
            "topics": [{"topic": "there", "topic_id": topic_id, "partitions": [isr]}],
        }),
        "AllocateProducerIds": (control, 0, {"broker_id": 1, "broker_epoch": broker.epoch}),
        "Vote": (control, 2, {"voter_id": -1, "topics": [{"topic_name": TOPIC, "partitions": [candidate]}]}),
        "BeginQuorumEpoch": (control, 1, {"voter_id": -1, "topics": [{"topic_name": TOPIC, "partitions": [led]}],
                                          "leader_endpoints": [{"name": "CONTROLLER", "host": "x", "port": 1}]}),
        "EndQuorumEpoch": (control, 1, {"topics": [{"topic_name": TOPIC, "partitions": [
            led | {"preferred_candidates": [{"candidate_id": 1002, "candidate_directory_id": b"c" * 16}]}]}]}),
        "Fetch": (control, 17, {"replica_state": {"replica_id": 77}, "max_wait_ms": 0, "max_bytes": 1 << 20,
                                "topics": [{"topic_id": TOPIC_ID, "partitions": [asked]}]}),
        "FetchSnapshot": (control, 1, {"replica_id": 77, "max_bytes": 1 << 20,
                                       "topics": [{"name": TOPIC, "partitions": [part]}]}),
        "Envelope": (control, 0, {"request_data": inner()[1], "request_principal": inner()[-1],
                                  "client_host_address": b"\x7f\0\0\1"}),
        "UpdateFeatures": (control, 1, {"timeout_ms": 1, "validate_only": True, "feature_updates": [
            {"feature": "metadata.format", "max_version_level": 2, "upgrade_type": 1}]}),
        "UnregisterBroker": (control, 0, {"broker_id": 78}),
        "CreateTopics": (client, 7, {"timeout_ms": 1, "validate_only": False, "topics": [
            {"name": "made", "num_partitions": 1, "replication_factor": 1,
             "configs": [{"name": "retention.ms", "value": "1000"}]}]}),
        "Produce": (client, 9, {"acks": 1, "timeout_ms": 1, "topic_data": [
            {"name": "there", "partition_data": [{"index": 0, "records": batch}]}]}),
        "Fetch of a client": (client, 12, {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20,
                                           "topics": [{"topic": "there", "partitions": [
                {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}]}]}),
        "Fetch of a follower": (Listener.INTER_BROKER, 15, {
            "replica_state": {"replica_id": 2, "replica_epoch": image.broker(2).epoch}, "max_wait_ms": 0, "min_bytes": 0,
            "max_bytes": 1 << 20, "topics": [{"topic_id": topic_id, "partitions": [
                {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}]}]}),
        "ListOffsets": (client, 7, {"replica_id": -1, "topics": [
            {"name": "there", "partitions": [{"partition_index": 0, "timestamp": -1}]}]}),
        "OffsetForLeaderEpoch": (client, 4, {"replica_id": -1, "topics": [
            {"topic": "there", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}]}),
        "OffsetCommit": (client, 8, {"group_id": "g", "topics": [
            {"name": "there", "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]}]}),
        "JoinGroup": (client, 7, {"group_id": "g", "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
                                  "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b"m"}]}),
        "DeleteRecords": (client, 2, {"timeout_ms": 1, "topics": [
            {"name": "there", "partitions": [{"partition_index": 0, "offset": 0}]}]}),
        "InitProducerId": (client, 4, {"transaction_timeout_ms": 1000}),
        "CreatePartitions": (client, 3, {"timeout_ms": 1, "validate_only": True, "topics": [
            {"name": "there", "count": 2, "assignments": [{"broker_ids": [1, 2]}]}]}),
        "ElectLeaders": (client, 2, {"election_type": 0, "timeout_ms": 1, "topic_partitions": [
            {"topic": "there", "partitions": [0]}]}),
        "AlterPartitionReassignments": (client, 0, {"timeout_ms": 1, "topics": [
            {"name": "there", "partitions": [{"partition_index": 0, "replicas": [1, 2]}]}]}),
        "IncrementalAlterConfigs": (client, 1, {"resources": [
            {"resource_type": 2, "resource_name": "there",
             "configs": [{"name": "retention.ms", "config_operation": 0, "value": "99999999"}]}]}),
        "DescribeTopicPartitions": (client, 0, {"topics": [{"name": "there"}], "response_partition_limit": 10,
                                                "cursor": {"topic_name": "there", "partition_index": 0}}),
    }  # fmt: skip


def extremes(field: Any, value: Any) -> "Iterator[Any]":
    """The extreme values for a field that has `value` in the valid request."""
    if field.array:
        yield []
        if value:
            yield value * 2
            yield (value * LONG_ARRAY)[:LONG_ARRAY]
    elif field.type in INTEGERS:
        low, high = INTEGERS[field.type]
        yield from {low, low + 1, -1 if low < 0 else 0, 0, 1, high - 1, high, high // 2} - {value}
    elif field.type == "string":
        yield from ("", "\0", "ß" * 100, LONGEST)
    elif field.type == "uuid":
        yield from (bytes(16), b"\xff" * 16)
    elif field.type in ("bytes", "records"):
        yield from (b"", b"\0", b"\xff" * 100, *records(), *inner())
    elif field.type == "bool":
        yield not value
    if field.nullable.last >= field.nullable.first:
        yield None


def changed(struct: Any, values: "dict[str, Any]") -> "Iterator[dict[str, Any]]":
    """Copies of `values` with one field, at any depth, at an extreme; also fields that `values` does not give."""
    for field in struct.fields:
        value = values.get(field.attribute, [] if field.array else None)
        if not (field.type == "struct" and not field.array):
            for other in extremes(field, value):
                yield {**deepcopy(values), field.attribute: other}
        if field.type != "struct" or not value:
            continue
        first = value[0] if field.array else value
        for other in changed(field.struct, first):
            yield {**deepcopy(values), field.attribute: [other, *value[1:]] if field.array else other}


NAMES = [
    "BrokerHeartbeat", "ControllerHeartbeat", "AlterIsr", "AllocateProducerIds", "Vote", "BeginQuorumEpoch",
    "EndQuorumEpoch", "Fetch", "FetchSnapshot", "Envelope", "UpdateFeatures", "UnregisterBroker", "CreateTopics", "Produce",
    "Fetch of a client", "Fetch of a follower", "ListOffsets", "OffsetForLeaderEpoch", "OffsetCommit", "JoinGroup",
    "DeleteRecords", "InitProducerId", "CreatePartitions", "ElectLeaders", "AlterPartitionReassignments",
    "IncrementalAlterConfigs", "DescribeTopicPartitions",
]  # fmt: skip


@pytest.mark.parametrize("title", NAMES)
def test_no_extreme_breaks_a_node(title: str) -> None:
    stage = Stage()
    listener, version, values = sound(stage)[title]
    name = title.split()[0]
    kind = message(f"v28:{name}Request" if framing.is_draft(name) else f"{name}Request")
    for other in (values, *changed(kind.__struct__, values)):
        try:
            stage.tell(listener, name, version, fill(kind.__struct__, kind, kind, other))
        except WireError:
            continue  # a value that this version cannot carry
    stage.rest()


def test_a_stranger_that_writes_a_brokers_id_does_not_cost_the_broker_its_connection() -> None:
    """AlterIsr counts from the newest connection of a broker. A peer that does not know the broker's epoch is not that
    broker."""
    stage = Stage()
    active = stage.cluster.active()
    assert active is not None and active.node is not None
    broker = active.node.controller.image.broker(1)
    holder = Connection(stage.world, active, "CONTROLLER")
    body = request("AlterIsr", broker_id=1, broker_epoch=broker.epoch, topics=[])
    holder.ask("AlterIsr", 0, body)
    stage.world.run_for(5)
    for epoch in (-1, broker.epoch + 1, (1 << 63) - 1):
        stage.tell(Listener.CONTROLLER, "AlterIsr", 0, request("AlterIsr", broker_id=1, broker_epoch=epoch, topics=[]))
    for id in range(1000):
        holder.ask("AlterIsr", 0, request("AlterIsr", broker_id=10_000 + id, broker_epoch=5, topics=[]))
    holder.ask("AlterIsr", 0, body)
    stage.world.run_for(50)
    assert holder.usable and len(holder.answers) >= 2
    assert set(active.node.controller.soft.isr_connections) <= {1, 2}
