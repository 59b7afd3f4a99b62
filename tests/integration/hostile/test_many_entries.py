"""Requests of eight megabytes that name a thing a million times are refused while they are read, before objects are
made.

Before there was a bound, a Produce request with 1.4 million empty partitions cost 18.2 s of CPU, and the broker was fenced.
"""

from collections.abc import Callable
from typing import Any

import pytest

from actors.wire.messages import message
from tests.integration.hostile.scene import Peer, Scene, attackers, encoded

BYTES = 8 << 20
SENDERS = 2
PING_LONGEST_MS = 5_000

Body = Callable[[int], Any]
"""A function that makes a request's body with this many entries."""


def _produce(count: int) -> Any:
    kind = message("ProduceRequest")
    empty = kind.PartitionProduceData(index=0, records=None)
    return kind(acks=1, timeout_ms=1000, topic_data=[kind.TopicProduceData(name="t", partition_data=[empty] * count)])


def _create_topics(count: int) -> Any:
    kind = message("CreateTopicsRequest")
    topics = [
        kind.CreatableTopic(name=f"a.{number:08d}", num_partitions=1, replication_factor=1) for number in range(count)
    ]
    return kind(topics=topics, validate_only=True)


def _dotted(count: int) -> Any:
    kind = message("CreateTopicsRequest")
    topics = [
        kind.CreatableTopic(name=f"{number:08d}.._.", num_partitions=1, replication_factor=1) for number in range(count)
    ]
    return kind(topics=topics, validate_only=True)


def _of(api: str, field: str, struct: str, inner: dict[str, tuple[str, dict[str, Any]]], /, **values: Any) -> Body:
    """A body with the same entry of `field` again and again. `inner`: the entries of its own arrays, one each."""

    def make(count: int) -> Any:
        kind = message(f"{api}Request")
        entry = dict(values)
        for array, (cls, given) in inner.items():
            entry[array] = [getattr(kind, cls)(**given)] if cls else [0]
        return kind(**{field: [getattr(kind, struct)(**entry)] * count})

    return make


def _strings(name: str, field: str) -> Body:
    return lambda count: message(f"{name}Request")(**{field: ["name"] * count})


BROKER: dict[str, tuple[str, int, int, Body]] = {
    "Produce": ("Produce", 9, 1_400_000, _produce),
    "CreateTopics": ("CreateTopics", 7, 441_000, _create_topics),
    "CreateTopics dotted": ("CreateTopics", 7, 441_000, _dotted),
    "Fetch": ("Fetch", 12, 180_000, _of("Fetch", "topics", "FetchTopic", {"partitions": ("FetchPartition", {})})),
    "ListOffsets": (
        "ListOffsets", 7, 400_000,
        _of("ListOffsets", "topics", "ListOffsetsTopic", {"partitions": ("ListOffsetsPartition", {})}),
    ),
    "Metadata": ("Metadata", 9, 1_000_000, _of("Metadata", "topics", "MetadataRequestTopic", {}, name="absent")),
    "OffsetCommit": (
        "OffsetCommit", 8, 350_000,
        _of("OffsetCommit", "topics", "OffsetCommitRequestTopic",
            {"partitions": ("OffsetCommitRequestPartition", {})}, name="t"),
    ),
    "OffsetFetch": (
        "OffsetFetch", 7, 800_000,
        _of("OffsetFetch", "topics", "OffsetFetchRequestTopic", {"partition_indexes": ("", {})}, name="t"),
    ),
    "OffsetDelete": (
        "OffsetDelete", 0, 600_000,
        _of("OffsetDelete", "topics", "OffsetDeleteRequestTopic",
            {"partitions": ("OffsetDeleteRequestPartition", {})}, name="t"),
    ),
    "DeleteRecords": (
        "DeleteRecords", 2, 400_000,
        _of("DeleteRecords", "topics", "DeleteRecordsTopic", {"partitions": ("DeleteRecordsPartition", {})}, name="t"),
    ),
    "DeleteTopics": ("DeleteTopics", 5, 1_200_000, _strings("DeleteTopics", "topic_names")),
    "CreatePartitions": (
        "CreatePartitions", 2, 800_000,
        _of("CreatePartitions", "topics", "CreatePartitionsTopic", {}, name="t", count=2, assignments=None),
    ),
    "DescribeConfigs": (
        "DescribeConfigs", 4, 1_000_000,
        _of("DescribeConfigs", "resources", "DescribeConfigsResource", {}, resource_type=2, resource_name="t",
            configuration_keys=None),
    ),
    "IncrementalAlterConfigs": (
        "IncrementalAlterConfigs", 1, 1_000_000,
        _of("IncrementalAlterConfigs", "resources", "AlterConfigsResource", {}, resource_type=2, resource_name="t"),
    ),
    "OffsetForLeaderEpoch": (
        "OffsetForLeaderEpoch", 4, 400_000,
        _of("OffsetForLeaderEpoch", "topics", "OffsetForLeaderTopic",
            {"partitions": ("OffsetForLeaderPartition", {})}, topic="t"),
    ),
    "DescribeTopicPartitions": (
        "DescribeTopicPartitions", 0, 1_500_000, _of("DescribeTopicPartitions", "topics", "TopicRequest", {}, name="t"),
    ),
    "DescribeGroups": ("DescribeGroups", 5, 1_500_000, _strings("DescribeGroups", "groups")),
    "DeleteGroups": ("DeleteGroups", 2, 1_500_000, _strings("DeleteGroups", "groups_names")),
    "FindCoordinator": ("FindCoordinator", 4, 1_500_000, _strings("FindCoordinator", "coordinator_keys")),
    "ElectLeaders": (
        "ElectLeaders", 2, 900_000,
        _of("ElectLeaders", "topic_partitions", "TopicPartitions", {"partitions": ("", {})}, topic="t"),
    ),
    "AlterPartitionReassignments": (
        "AlterPartitionReassignments", 0, 500_000,
        _of("AlterPartitionReassignments", "topics", "ReassignableTopic",
            {"partitions": ("ReassignablePartition", {})}, name="t"),
    ),
    "AlterReplicaLogDirs": (
        "AlterReplicaLogDirs", 2, 700_000,
        _of("AlterReplicaLogDirs", "dirs", "AlterReplicaLogDir",
            {"topics": ("AlterReplicaLogDirTopic", {"name": "t", "partitions": [0]})}, path="p"),
    ),
    "DescribeLogDirs": (
        "DescribeLogDirs", 2, 900_000,
        _of("DescribeLogDirs", "topics", "DescribableLogDirTopic", {"partitions": ("", {})}, topic="t"),
    ),
    "DescribeProducers": (
        "DescribeProducers", 0, 900_000,
        _of("DescribeProducers", "topics", "TopicRequest", {"partition_indexes": ("", {})}, name="t"),
    ),
    "WriteTxnMarkers": (
        "WriteTxnMarkers", 1, 300_000,
        _of("WriteTxnMarkers", "markers", "WritableTxnMarker",
            {"topics": ("WritableTxnMarkerTopic", {"name": "t", "partition_indexes": [0]})}, producer_id=1),
    ),
    "JoinGroup": (
        "JoinGroup", 9, 2_000_000, _of("JoinGroup", "protocols", "JoinGroupRequestProtocol", {}, name="p"),
    ),
    "SyncGroup": (
        "SyncGroup", 5, 2_000_000, _of("SyncGroup", "assignments", "SyncGroupRequestAssignment", {}, member_id="m"),
    ),
    "LeaveGroup": ("LeaveGroup", 5, 1_600_000, _of("LeaveGroup", "members", "MemberIdentity", {}, member_id="m")),
}  # fmt: skip
"""Requests for a broker, one of each kind: API, version, entries that fit into eight megabytes, body."""

CONTROLLER: dict[str, tuple[str, int, int, Body]] = {
    "AlterIsr": (
        "AlterIsr", 0, 250_000,
        _of("AlterIsr", "topics", "TopicData", {"partitions": ("PartitionData", {"isr": [1]})}, topic="t"),
    ),
    "BrokerHeartbeat": (
        "BrokerHeartbeat", 0, 600_000, _of("v28:BrokerHeartbeat", "listeners", "Listener", {}, name="n", host="h"),
    ),
    "ControllerHeartbeat": (
        "ControllerHeartbeat", 0, 1_000_000, _of("v28:ControllerHeartbeat", "features", "Feature", {}, name="f"),
    ),
    "Fetch": BROKER["Fetch"],
}  # fmt: skip
"""Requests for a controller."""


LONG: dict[str, tuple[str, int, int]] = {
    "Produce": ("Produce", 9, 99_000),
    "CreateTopics": ("CreateTopics", 7, 9_900),
    "CreateTopics dotted": ("CreateTopics", 7, 9_900),
    "Fetch": ("Fetch", 12, 199_000),
    "ListOffsets": ("ListOffsets", 7, 99_000),
    "Metadata": ("Metadata", 9, 99_000),
    "OffsetCommit": ("OffsetCommit", 8, 99_000),
    "OffsetFetch": ("OffsetFetch", 7, 99_000),
    "OffsetDelete": ("OffsetDelete", 0, 99_000),
    "DeleteRecords": ("DeleteRecords", 2, 99_000),
    "DeleteTopics": ("DeleteTopics", 5, 99_000),
    "CreatePartitions": ("CreatePartitions", 2, 99_000),
    "DescribeConfigs": ("DescribeConfigs", 4, 99_000),
    "IncrementalAlterConfigs": ("IncrementalAlterConfigs", 1, 99_000),
    "OffsetForLeaderEpoch": ("OffsetForLeaderEpoch", 4, 99_000),
    "DescribeGroups": ("DescribeGroups", 5, 99_000),
    "DeleteGroups": ("DeleteGroups", 2, 99_000),
    "FindCoordinator": ("FindCoordinator", 4, 99_000),
    "ElectLeaders": ("ElectLeaders", 2, 99_000),
    "AlterPartitionReassignments": ("AlterPartitionReassignments", 0, 99_000),
    "AlterReplicaLogDirs": ("AlterReplicaLogDirs", 2, 66_000),
    "DescribeLogDirs": ("DescribeLogDirs", 2, 99_000),
    "DescribeProducers": ("DescribeProducers", 0, 99_000),
    "WriteTxnMarkers": ("WriteTxnMarkers", 1, 66_000),
    "SyncGroup": ("SyncGroup", 5, 99_000),
    "LeaveGroup": ("LeaveGroup", 5, 99_000),
}
"""The longest requests that are accepted: API, version, entries."""
LONG_PING_LONGEST_MS = 5_000


def _send(address: tuple[str, int], frame: bytes) -> None:
    with Peer(address) as peer:
        peer.send(frame)
        peer.read()


@pytest.mark.parametrize("name", BROKER)
def test_a_broker_refuses_a_request_with_a_million_entries(small: Scene, name: str) -> None:
    api, version, count, body = BROKER[name]
    _attack(small, small.brokers()[0], name, encoded(api, version, body(count)))


@pytest.mark.parametrize("name", CONTROLLER)
def test_a_controller_refuses_a_request_with_a_million_entries(small: Scene, name: str) -> None:
    api, version, count, body = CONTROLLER[name]
    _attack(small, small.controllers()[0], name, encoded(api, version, body(count)))


@pytest.mark.parametrize("name", LONG)
def test_the_longest_requests_that_are_taken_keep_nobody_waiting(small: Scene, name: str) -> None:
    api, version, count = LONG[name]
    body = BROKER[name][3](count)
    _name_each(body)
    _attack(small, small.brokers()[0], f"long {name}", encoded(api, version, body), LONG_PING_LONGEST_MS, 1)


def _name_each(body: Any) -> None:
    """Give each entry that has a name a different one, because repeated names cost less."""
    for field in body.__layout__.names:
        entries = getattr(body, field)
        if isinstance(entries, list) and entries and all(one is entries[0] for one in entries):
            if isinstance(entries[0], str):
                entries[:] = [f"n{number:06d}" for number in range(len(entries))]
                continue
            label = next((one for one in ("name", "topic", "resource_name") if hasattr(entries[0], one)), None)
            if label is not None:
                kind, known = type(entries[0]), {one: getattr(entries[0], one) for one in entries[0].__layout__.names}
                entries[:] = [kind(**known | {label: f"n{number:06d}"}) for number in range(len(entries))]


def _attack(
    scene: Scene,
    address: tuple[str, int],
    name: str,
    frame: bytes,
    ping_longest_ms: float = PING_LONGEST_MS,
    senders: int = SENDERS,
) -> None:
    assert len(frame) <= BYTES * 1.3, len(frame)

    def attack() -> None:
        with attackers(_send, [(address, frame)] * senders):
            pass

    cost = scene.measured(attack, settle_s=0.1)
    print(f"{name}: {len(frame) / 1e6:.1f} MB, {senders} times: {cost}")
    assert not cost.lost and not cost.broken, cost
    assert cost.ping_max_ms < ping_longest_ms, cost
