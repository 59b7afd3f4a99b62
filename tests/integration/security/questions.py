"""Questions about rights: every person asks every API of a client about things of its own, and the answers are kept.

A person may do one operation on its own topic, group and transactional id and on the cluster, so the answers show which
operation is enough for what. Some persons have other kinds of rules: prefixed, for everything, for everybody, denied, for
another host, or none.
"""

import ipaddress
import json
from collections.abc import Iterable, Iterator
from typing import Any

from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.node.net.envelopes import principal_bytes
from actors.wire import framing
from actors.wire.messages import message
from fastpath.records import batch
from tests.integration.answers.dialogue import Broker, Closed, codes, plain, request
from tests.integration.conftest import until

ADMIN, PASSWORD = "admin", "secret"
OPERATIONS = {
    "reader": Operation.READ,
    "writer": Operation.WRITE,
    "creator": Operation.CREATE,
    "deleter": Operation.DELETE,
    "alterer": Operation.ALTER,
    "describer": Operation.DESCRIBE,
    "node": Operation.CLUSTER_ACTION,
    "settings-reader": Operation.DESCRIBE_CONFIGS,
    "settings-writer": Operation.ALTER_CONFIGS,
    "idempotent": Operation.IDEMPOTENT_WRITE,
    "owner": Operation.ALL,
}
"""Person -> the one operation that it may do."""
PERSONS = (*OPERATIONS, "prefixed", "wild", "denied", "elsewhere", "nobody")
OTHER = "another-cluster-12345"
"""A wrong cluster id: who may ask is told of it, and nothing happens."""
LISTENERS = [{"name": "CONTROLLER", "host": "localhost", "port": 9}]
MISSING = bytes(15) + b"\x09"
"""An id that no topic has."""
LOADING = (14, 15, 16)
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR"""
NOBODYS = 1 << 40
"""A producer id that is not given out."""
TOPIC, GROUP, CLUSTER, ID = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID


class Person(Broker):
    """A connection of somebody who logs in with PLAIN."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        super().__init__(address)
        self.name = name

    def ask(self, name: str, version: int, body: Any, *, silent: bool = False) -> Any:
        """The decoded answer, after a login if there was none yet. Raises Closed."""
        if self._socket is None:
            super().ask("SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism="PLAIN"))
            token = f"\0{self.name}\0{PASSWORD}".encode()
            told = super().ask("SaslAuthenticate", 2, message("SaslAuthenticateRequest")(auth_bytes=token))
            assert told.error_code == 0, told.error_message
        return super().ask(name, version, body, silent=silent)


class Refused(Exception):
    """An Envelope was refused, with this error."""


class Enveloped:
    """Requests of somebody that a node passes on in Envelopes (KIP-590)."""

    def __init__(self, sender: Person, name: str, host: str = "127.0.0.1") -> None:
        """`sender`: logs in as itself, and says that the requests are those of `name` at `host`."""
        self._sender = sender
        self._principal = principal_bytes(f"User:{name}", False)
        self._host = ipaddress.ip_address(host).packed

    def ask(self, name: str, version: int, body: Any) -> Any:
        """The decoded answer in the Envelope's. Raises Closed, and Refused for an Envelope that is not opened."""
        inner = b"".join(framing.encode_request(name, version, 7, "answers", body))[4:]
        told = self._sender.ask(
            "Envelope",
            0,
            message("EnvelopeRequest")(
                request_data=inner, request_principal=self._principal, client_host_address=self._host
            ),
        )
        if told.error_code:
            raise Refused(told.error_code)
        return framing.decode_response(name, version, memoryview(bytes(told.response_data)))

    def close(self) -> None:
        """The sender's connection stays for others."""


def jaas() -> str:
    """The JAAS line of a cluster that knows everybody."""
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in (ADMIN, *PERSONS))
    return (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ADMIN}" password="{PASSWORD}" {users};'
    )


def topic(person: str) -> str:
    return f"topic-{person}"


def rules() -> Iterator[dict[str, Any]]:
    """Everybody's rules, as CreateAcls has them."""

    def rule(who: str, kind: Resource, name: str, what: Operation, **more: Any) -> dict[str, Any]:
        return {
            "resource_type": int(kind),
            "resource_name": name,
            "resource_pattern_type": int(more.get("pattern", Pattern.LITERAL)),
            "principal": f"User:{who}",
            "host": more.get("host", "*"),
            "operation": int(what),
            "permission_type": int(more.get("permission", Permission.ALLOW)),
        }

    for who, what in OPERATIONS.items():
        yield rule(who, TOPIC, topic(who), what)
        yield rule(who, GROUP, f"group-{who}", what)
        yield rule(who, ID, f"id-{who}", what)
        yield rule(who, CLUSTER, "kafka-cluster", what)
    for kind in (TOPIC, GROUP, ID):
        yield rule("prefixed", kind, kind.name.lower()[:2], Operation.ALL, pattern=Pattern.PREFIXED)
        yield rule("wild", kind, "*", Operation.ALL)
        yield rule("denied", kind, "*", Operation.ALL)
        yield rule("elsewhere", kind, "*", Operation.ALL, host="10.9.8.7")
    for what in (Operation.READ, Operation.DESCRIBE):
        yield rule("denied", TOPIC, topic("denied"), what, permission=Permission.DENY)
        yield rule("denied", GROUP, "group-", what, permission=Permission.DENY, pattern=Pattern.PREFIXED)
        yield rule("denied", ID, "id-denied", what, permission=Permission.DENY)


def record() -> bytes:
    builder = batch.Builder(timestamp_ms=1)
    builder.append(b"k", b"v")
    return bytes(builder.build())


def _of_share_groups(group: str, own: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """About a group that is no share group, of members and sessions that are not there."""
    member = {"group_id": group, "member_id": "A" * 22}
    session = {**member, "share_session_epoch": 5, "topics": []}
    yield "ShareGroupHeartbeat", 1, {**member, "member_epoch": 5, "subscribed_topic_names": [own]}
    yield "ShareGroupDescribe", 1, {"group_ids": [group], "include_authorized_operations": True}
    yield "ShareFetch", 1, {**session, "max_wait_ms": 0, "min_bytes": 0, "max_records": 1, "batch_size": 1}
    yield "ShareAcknowledge", 1, session
    place = {"partition": 0}
    for api, more in (
        ("InitializeShareGroupState", {"state_epoch": 0, "start_offset": 0}),
        ("ReadShareGroupState", {"leader_epoch": 0}),
        ("WriteShareGroupState", {"state_epoch": 0, "leader_epoch": 0, "start_offset": 0, "state_batches": []}),
        ("DeleteShareGroupState", {}),
        ("ReadShareGroupStateSummary", {"leader_epoch": 0}),
    ):
        yield api, 0, {"group_id": group, "topics": [{"topic_id": MISSING, "partitions": [place | more]}]}
    asked = {"group_id": group, "topics": [{"topic_name": own, "partitions": [0]}]}
    yield "DescribeShareGroupOffsets", 0, {"groups": [asked]}
    changed = {"topic_name": own, "partitions": [{"partition_index": 0, "start_offset": 0}]}
    yield "AlterShareGroupOffsets", 0, {"group_id": group, "topics": [changed]}
    yield "DeleteShareGroupOffsets", 0, {"group_id": group, "topics": [{"topic_name": own}]}


def questions(who: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(API, version, request) of everything that a person asks, in this order."""
    own, group, id = topic(who), f"group-{who}", f"id-{who}"
    missing = f"topic-{who}-missing"
    yield (
        "Metadata",
        9,
        {"topics": None, "include_topic_authorized_operations": True, "include_cluster_authorized_operations": True},
    )
    yield "Metadata", 4, {"topics": [{"name": own}, {"name": missing}], "allow_auto_topic_creation": False}
    yield "DescribeCluster", 1, {"include_cluster_authorized_operations": True}
    yield (
        "Produce",
        9,
        {
            "acks": -1,
            "timeout_ms": 5000,
            "transactional_id": None,
            "topic_data": [
                {"name": name, "partition_data": [{"index": 0, "records": record()}]} for name in (own, missing)
            ],
        },
    )
    yield (
        "Fetch",
        11,
        {
            "replica_id": -1,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "topics": [
                {"topic": name, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]}
                for name in (own, missing)
            ],
        },
    )
    yield (
        "Fetch",
        12,
        {
            "replica_id": 77,
            "max_wait_ms": 0,
            "min_bytes": 0,
            "topics": [
                {
                    "topic": own,
                    "partitions": [
                        {"partition": 0, "current_leader_epoch": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
                    ],
                }
            ],
        },
    )
    yield (
        "ListOffsets",
        5,
        {
            "replica_id": -1,
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]} for name in (own, missing)
            ],
        },
    )
    yield (
        "OffsetForLeaderEpoch",
        4,
        {
            "replica_id": -2,
            "topics": [{"topic": name, "partitions": [{"partition": 0, "leader_epoch": 0}]} for name in (own, missing)],
        },
    )
    yield "DescribeTopicPartitions", 0, {"topics": [{"name": own}, {"name": missing}], "response_partition_limit": 10}
    yield "FindCoordinator", 3, {"key": group, "key_type": 0}
    yield "FindCoordinator", 3, {"key": id, "key_type": 1}
    yield (
        "JoinGroup",
        3,
        {
            "group_id": group,
            "session_timeout_ms": 6000,
            "rebalance_timeout_ms": 6000,
            "member_id": "x",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
    )
    yield "SyncGroup", 3, {"group_id": group, "generation_id": 1, "member_id": "x", "assignments": []}
    yield "Heartbeat", 3, {"group_id": group, "generation_id": 1, "member_id": "x"}
    yield "LeaveGroup", 3, {"group_id": group, "members": [{"member_id": "x"}]}
    yield (
        "OffsetCommit",
        7,
        {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [
                {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]} for name in (own, missing)
            ],
        },
    )
    yield (
        "OffsetFetch",
        7,
        {"group_id": group, "require_stable": False, "topics": [{"name": own, "partition_indexes": [0]}]},
    )
    yield "OffsetFetch", 8, {"groups": [{"group_id": group, "topics": None}], "require_stable": False}
    yield "DescribeGroups", 5, {"groups": [group], "include_authorized_operations": True}
    member = {"member_id": "A" * 22, "member_epoch": 5, "rebalance_timeout_ms": -1, "topic_partitions": None}
    yield "ConsumerGroupHeartbeat", 1, {"group_id": group, "subscribed_topic_names": [own], **member}
    yield "ConsumerGroupDescribe", 1, {"group_ids": [group], "include_authorized_operations": True}
    yield from _of_share_groups(group, own)
    streams = {"member_id": "A" * 22, "member_epoch": 5, "endpoint_information_epoch": 0, "topology": None}
    yield "StreamsGroupHeartbeat", 0, {"group_id": group, **streams}
    yield "StreamsGroupDescribe", 0, {"group_ids": [group], "include_authorized_operations": True}
    yield "ListGroups", 4, {"states_filter": []}
    yield "OffsetDelete", 0, {"group_id": group, "topics": [{"name": own, "partitions": [{"partition_index": 0}]}]}
    yield "InitProducerId", 4, {"transactional_id": None, "transaction_timeout_ms": 1000}
    yield "InitProducerId", 4, {"transactional_id": id, "transaction_timeout_ms": 60000}
    yield (
        "AddPartitionsToTxn",
        3,
        {
            "v3_and_below_transactional_id": id,
            "v3_and_below_producer_id": NOBODYS,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": own, "partitions": [0]}],
        },
    )
    yield "AddOffsetsToTxn", 3, {"transactional_id": id, "producer_id": NOBODYS, "producer_epoch": 0, "group_id": group}
    yield (
        "TxnOffsetCommit",
        3,
        {
            "transactional_id": id,
            "group_id": group,
            "producer_id": NOBODYS,
            "producer_epoch": 0,
            "topics": [{"name": own, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        },
    )
    yield "EndTxn", 3, {"transactional_id": id, "producer_id": NOBODYS, "producer_epoch": 0, "committed": True}
    marker = {"producer_id": NOBODYS, "topics": [{"name": missing, "partition_indexes": [0]}], "coordinator_epoch": 0}
    yield "WriteTxnMarkers", 1, {"markers": [marker]}
    yield "DescribeTransactions", 0, {"transactional_ids": [id]}
    yield "ListTransactions", 0, {"state_filters": [], "producer_id_filters": []}
    yield "DescribeProducers", 0, {"topics": [{"name": own, "partition_indexes": [0]}]}
    yield (
        "DeleteRecords",
        2,
        {"topics": [{"name": own, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1000},
    )
    yield (
        "DescribeConfigs",
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": own, "configuration_keys": ["cleanup.policy"]},
                {"resource_type": 4, "resource_name": "1", "configuration_keys": ["num.partitions"]},
            ]
        },
    )
    yield (
        "IncrementalAlterConfigs",
        1,
        {
            "validate_only": False,
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": own,
                    "configs": [{"name": "retention.ms", "config_operation": 0, "value": "1000000"}],
                },
                {
                    "resource_type": 4,
                    "resource_name": "",
                    "configs": [{"name": "log.cleaner.threads", "config_operation": 1, "value": None}],
                },
            ],
        },
    )
    yield (
        "AlterConfigs",
        2,
        {
            "validate_only": True,
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": own,
                    "configs": [{"name": "retention.ms", "value": "1000000"}],
                },
                {"resource_type": 4, "resource_name": "1", "configs": [{"name": "log.cleaner.threads", "value": "1"}]},
            ],
        },
    )
    yield "AlterReplicaLogDirs", 2, {"dirs": [{"path": "/nowhere", "topics": [{"name": own, "partitions": [0]}]}]}
    yield (
        "CreateTopics",
        5,
        {
            "topics": [{"name": f"topic-{who}-new", "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    )
    yield (
        "CreateTopics",
        5,
        {
            "topics": [{"name": own, "num_partitions": 1, "replication_factor": 1}],
            "timeout_ms": 5000,
            "validate_only": True,
        },
    )
    yield (
        "CreatePartitions",
        3,
        {"topics": [{"name": own, "count": 2, "assignments": None}], "timeout_ms": 5000, "validate_only": True},
    )
    yield "DeleteTopics", 5, {"topic_names": [f"topic-{who}-missing"], "timeout_ms": 5000}
    yield "DescribeLogDirs", 4, {"topics": [{"topic": own, "partitions": [0]}]}
    yield (
        "ElectLeaders",
        2,
        {"election_type": 0, "topic_partitions": [{"topic": own, "partitions": [0]}], "timeout_ms": 5000},
    )
    yield (
        "AlterPartitionReassignments",
        0,
        {"timeout_ms": 5000, "topics": [{"name": own, "partitions": [{"partition_index": 0, "replicas": None}]}]},
    )
    yield "ListPartitionReassignments", 0, {"timeout_ms": 5000, "topics": None}
    yield (
        "DescribeAcls",
        3,
        {
            "resource_type_filter": 2,
            "resource_name_filter": own,
            "pattern_type_filter": 3,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
    )
    yield (
        "CreateAcls",
        3,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "other",
                    "resource_pattern_type": 3,
                    "principal": "User:zoe",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    )
    yield (
        "DeleteAcls",
        3,
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "other",
                    "pattern_type_filter": 3,
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
    )
    yield "DescribeUserScramCredentials", 0, {"users": [{"name": "zoe"}]}
    yield "AlterUserScramCredentials", 0, {"deletions": [{"name": "zoe", "mechanism": 1}], "upsertions": []}
    yield "DescribeClientQuotas", 1, {"components": [], "strict": False}
    limit = {"key": "producer_byte_rate", "value": 1e9, "remove": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": "zoe"}], "ops": [limit]}
    yield "AlterClientQuotas", 1, {"entries": [entry], "validate_only": True}
    yield "ListConfigResources", 1, {"resource_types": [2]}
    yield (
        "DescribeQuorum",
        1,
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
    )
    yield "UnregisterBroker", 0, {"broker_id": 999}
    yield "UpdateFeatures", 1, {"timeout_ms": 5000, "feature_updates": [], "validate_only": True}
    yield "DeleteGroups", 2, {"groups_names": [f"group-{who}"]}
    voter = {"cluster_id": OTHER, "voter_id": 77, "voter_directory_id": bytes(15) + b"\x07"}
    yield "AddRaftVoter", 0, voter | {"timeout_ms": 1000, "listeners": LISTENERS}
    yield "RemoveRaftVoter", 0, voter


ENVELOPED = frozenset(
    {
        "AddRaftVoter", "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments", "AlterUserScramCredentials",
        "CreateAcls", "CreatePartitions", "CreateTopics", "DeleteAcls", "DeleteTopics", "DescribeQuorum", "ElectLeaders",
        "IncrementalAlterConfigs", "ListPartitionReassignments", "RemoveRaftVoter", "UnregisterBroker", "UpdateFeatures",
    }
)  # fmt: skip
"""What brokers pass on to the active controller."""


def questions_to_controllers(who: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """What a person asks on the listener of the controllers: what brokers pass on, and what only nodes ask."""
    for asked in questions(who):
        if asked[0] in ENVELOPED - {"AlterUserScramCredentials"} | {"DescribeAcls", "DescribeConfigs"}:
            yield asked
    yield "DescribeCluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 2}
    place = {"partition_index": 0, "leader_id": 77, "leader_epoch": 1}
    yield (
        "Vote",
        0,
        {
            "cluster_id": OTHER,
            "topics": [
                {
                    "topic_name": "__cluster_metadata",
                    "partitions": [{"partition_index": 0, "replica_epoch": 1, "replica_id": 77}],
                }
            ],
        },
    )
    for name in ("BeginQuorumEpoch", "EndQuorumEpoch"):
        more = {"preferred_successors": []} if name == "EndQuorumEpoch" else {}
        yield (
            name,
            0,
            {"cluster_id": OTHER, "topics": [{"topic_name": "__cluster_metadata", "partitions": [place | more]}]},
        )
    yield (
        "Fetch",
        12,
        {
            "cluster_id": OTHER,
            "replica_id": 77,
            "topics": [{"topic": "__cluster_metadata", "partitions": [{"partition": 0, "fetch_offset": 0}]}],
        },
    )
    snapshot = {"partition": 0, "snapshot_id": {"end_offset": 1, "epoch": 1}, "position": 0}
    yield (
        "FetchSnapshot",
        0,
        {
            "cluster_id": OTHER,
            "replica_id": 77,
            "topics": [{"name": "__cluster_metadata", "partitions": [snapshot]}],
        },
    )
    yield "AllocateProducerIds", 0, {"broker_id": 77, "broker_epoch": 1}
    voter = {"cluster_id": OTHER, "voter_id": 77, "voter_directory_id": bytes(15) + b"\x07", "listeners": LISTENERS}
    feature = {"min_supported_version": 0, "max_supported_version": 1}
    yield "UpdateRaftVoter", 0, voter | {"current_leader_epoch": 1, "k_raft_version_feature": feature}


def answers(bootstrap_servers: str, bootstrap_controllers: str) -> dict[str, Any]:
    """What everybody is answered, by person, API and version."""
    at_brokers, at_controllers = _address(bootstrap_servers), _address(bootstrap_controllers)
    admin = Person(at_brokers, ADMIN)
    names = [topic(who) for who in PERSONS]
    admin.ask(
        "CreateTopics",
        5,
        request(
            "CreateTopics",
            timeout_ms=10_000,
            topics=[{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names],
        ),
    )
    created = admin.ask("CreateAcls", 3, request("CreateAcls", creations=list(rules())))
    assert {one.error_code for one in created.results} == {0}
    until(lambda: _settled(admin, names))
    found: dict[str, Any] = {}
    for who in PERSONS:
        _ask_all(found, who, Person(at_brokers, who), questions(who))
    for who in PERSONS:
        _ask_all(found, f"{who} at a controller", Person(at_controllers, who), questions_to_controllers(who))
    node = Person(at_controllers, "node")
    for who in PERSONS:
        passed_on = [one for one in questions(who) if one[0] in ENVELOPED]
        _ask_all(found, f"{who} in an envelope", Enveloped(node, who), passed_on)
    node.close()
    found["elsewhere from its host"] = _told(Enveloped(node, "elsewhere", "10.9.8.7"), *_creation("topic-elsewhere"))
    found["what nobody passes on"] = _told(Enveloped(node, ADMIN), "Metadata", 4, {"topics": []})
    for who in PERSONS:
        sender = Person(at_controllers, who)
        found[f"an envelope of {who}"] = _told(Enveloped(sender, ADMIN), *_creation(f"topic-{who}-new"))
        sender.close()
    stranger = Person(at_brokers, "owner")
    found["an envelope to a broker"] = _told(Enveloped(stranger, ADMIN), *_creation("topic-owner-new"))
    _ask_last(found, admin, at_brokers)
    admin.close()
    return found


def _ask_last(found: dict[str, Any], admin: Person, address: tuple[str, int]) -> None:
    """Topics made by asking for them, and topics that go: by id, then by name."""
    for who in PERSONS:
        body = {"topics": [{"name": f"{topic(who)}-auto"}], "allow_auto_topic_creation": True}
        person = Person(address, who)
        found[f"{who} makes a topic by asking"] = (
            "denied" if 29 in codes(_told(person, "Metadata", 4, body)) else "made"
        )
        person.close()
    known = admin.ask("Metadata", 12, request("Metadata", topics=[{"name": topic(who)} for who in PERSONS]))
    ids = {one.name: one.topic_id for one in known.topics}
    for who in PERSONS:
        person = Person(address, who)
        for title, id in (
            ("its topic", ids[topic(who)]),
            ("no topic", bytes(15) + b"\1"),
            ("another", ids[topic("node")]),
        ):
            body = {"topics": [{"name": None, "topic_id": id}], "timeout_ms": 5000}
            found[f"{who} deletes by the id of {title}"] = _told(person, "DeleteTopics", 6, body)
        body = {"topic_names": [topic(who)], "timeout_ms": 5000}
        found[f"{who} deletes its topic"] = _told(person, "DeleteTopics", 5, body)
        person.close()


def _address(bootstrap_servers: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.rpartition(":")
    return host, int(port)


def _creation(name: str) -> tuple[str, int, dict[str, Any]]:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
    return "CreateTopics", 5, {"topics": topics, "timeout_ms": 5000, "validate_only": True}


def _ask_all(
    found: dict[str, Any], title: str, person: Person | Enveloped, asked: Iterable[tuple[str, int, dict[str, Any]]]
) -> None:
    numbers: dict[str, int] = {}
    for api, version, body in asked:
        numbers[api] = numbers.get(api, 0) + 1
        found[f"{title}: {api} {numbers[api]}"] = _told(person, api, version, body)
    person.close()


def _told(person: Person | Enveloped, api: str, version: int, body: dict[str, Any]) -> Any:
    try:
        reply = person.ask(api, version, request(api, **body))
    except Closed:
        return "closed"
    except Refused as refused:
        return {"envelope": refused.args[0]}
    return _reduced(plain(message(f"{api}Response").__struct__, reply, version))


def _settled(admin: Person, names: list[str]) -> bool:
    """Whether the broker knows all topics, rules and coordinators."""
    told = admin.ask("Metadata", 4, request("Metadata", topics=[{"name": name} for name in names]))
    leaders = [one.leader_id for topic in told.topics for one in topic.partitions]
    listed = admin.ask(
        "DescribeAcls",
        3,
        request(
            "DescribeAcls",
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        ),
    )
    known = sum(len(one.acls) for one in listed.resources)
    ready = [
        admin.ask("FindCoordinator", 6, request("FindCoordinator", coordinator_keys=[key], key_type=kind))
        for key, kind in (("group-owner", 0), ("id-owner", 1), (f"group-owner:{'A' * 22}:0", 2))
    ]
    if any(one.error_code for told in ready for one in told.coordinators):
        return False
    loaded = [
        admin.ask("OffsetFetch", 7, request("OffsetFetch", group_id=f"group-{who}", topics=[])).error_code
        for who in PERSONS
    ]
    begun = [
        admin.ask(
            "InitProducerId", 4, request("InitProducerId", transactional_id=f"id-{who}", transaction_timeout_ms=60_000)
        ).error_code
        for who in PERSONS
    ]
    topics = [{"topic_id": MISSING, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    state = admin.ask("ReadShareGroupState", 0, request("ReadShareGroupState", group_id="group-owner", topics=topics))
    if state.results[0].partitions[0].error_code in LOADING:
        return False
    return (
        len(leaders) == len(names)
        and min(leaders) > 0
        and known == len(list(rules()))
        and not any(loaded)
        and not any(begun)
    )


def _reduced(answer: Any) -> Any:
    """An answer without what is not about rights: offsets, times, epochs, names of settings and states, and the brokers that
    observe the quorum, of which a process with both roles is none here."""
    if isinstance(answer, dict):
        return {
            key: _reduced(value)
            for key, value in sorted(answer.items())
            if key in KEPT or (isinstance(value, dict | list) and key != "observers")
        }
    if isinstance(answer, list):
        return sorted((_reduced(one) for one in answer), key=lambda one: json.dumps(one, sort_keys=True))
    return answer


KEPT = frozenset(
    {
        "error_code", "topic_config_error_code", "partition_error_code", "name", "topic", "topic_name", "group_id", "user",
        "transactional_id", "topic_authorized_operations", "cluster_authorized_operations", "authorized_operations",
        "resource_type", "resource_name", "principal", "operation", "permission_type", "num_partitions",
    }
)  # fmt: skip
"""What of an answer is about rights."""
__all__ = ["ADMIN", "PASSWORD", "answers", "jaas"]
