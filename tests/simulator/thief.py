"""A cluster whose nodes may do everything, and a client that was stolen: it has a name, and the rights that rules give it.

`DEEDS` lists what a client can change, each with the rights of which any is enough, written down from Kafka's
documentation of its operations and resources: not taken from the code. `NODES_DEEDS` are requests of nodes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from actors.authorization.access_rules import Rule
from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.metadata import snapshot
from actors.node.api import handlers
from actors.node.net.envelopes import principal_bytes
from actors.node.quorum.files import TOPICS
from actors.wire import framing
from actors.wire.messages import message
from fastpath.records import batch
from tests.integration.answers.dialogue import codes, plain, request
from tests.reference import access_rules
from tests.simulator.one_topic import OneTopic
from tests.simulator.strangers import HOST, Connection

handlers.load()
THIEF, KNOWN_NODE = "User:thief", "User:rayft-node-77"
TOPIC, GROUP, CLUSTER, ID = Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID
DO = Operation
DENIED = frozenset({29, 30, 31, 53})
DAY_MS = 86_400_000
"""No transaction ends by itself while somebody looks."""
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "transaction.max.timeout.ms": str(DAY_MS),
}
Right = tuple[Resource, str, Operation]
Body = Callable[["Scene", int], dict[str, Any]]


class Deed(NamedTuple):
    """A request that changes something if it is allowed."""

    api: str
    version: int
    body: Body
    """The scene, and a number that no other deed has, -> fields of the request."""
    enough: Callable[[int], Iterable[tuple[Right, ...]]]
    """Number -> sets of rights of which one is enough."""
    changes: bool = True
    """Whether the metadata or a log is another one afterwards, each time it is allowed."""


class Scene:
    """Three controllers, three brokers, a topic `t`, and the thief."""

    def __init__(self) -> None:
        self.t = OneTopic(config=SETTINGS)
        self.world, self.cluster = self.t.world, self.t.cluster
        self.rules: list[Rule] = []
        self.admin("FindCoordinator", 3, key="g", key_type=0)
        self.admin("FindCoordinator", 3, key="x", key_type=1)
        self.world.run_for(3_000)
        begun = self.admin("InitProducerId", 4, transactional_id="x", transaction_timeout_ms=DAY_MS)
        assert begun.error_code == 0, begun
        self.producer_id, self.producer_epoch = begun.producer_id, begun.producer_epoch

    def admin(self, api: str, version: int, **fields: Any) -> Any:
        """A request of somebody who may do everything, to a broker that can answer it."""
        for id in (1, 2, 3):
            told = self.t.client.call(f"b{id}", api, version, request(api, **fields))
            if not codes(plain(message(f"{api}Response").__struct__, told, version)) & {6, 14, 15, 16}:
                break
        return told

    def set_rules(self, rules: Iterable[Rule]) -> None:
        """The thief's rules from now on."""
        anything = {
            "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
            "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        self.admin("DeleteAcls", 3, filters=[anything])
        self.rules = list(rules)
        creations = [
            {
                "resource_type": rule.resource, "resource_name": rule.name, "resource_pattern_type": rule.pattern,
                "principal": rule.principal, "host": rule.host, "operation": rule.operation,
                "permission_type": rule.permission,
            }
            for rule in self.rules
        ]  # fmt: skip
        told = self.admin("CreateAcls", 3, creations=creations)
        assert not [one for one in told.results if one.error_code], told
        self.world.run_for(1_000)

    def may(self, enough: Iterable[tuple[Right, ...]], principal: str = THIEF) -> bool:
        """What the rules say, by the slow twin."""
        return any(
            all(
                access_rules.decide(self.rules, principal, HOST, operation, resource, name) is True
                for resource, name, operation in rights
            )
            for rights in enough
        )

    def tell(self, process: str, api: str, version: int, body: Any, principal: str = THIEF) -> Connection:
        """Send a request of the thief on a connection of its own."""
        place = self.world.processes[process]
        connection = Connection(self.world, place, place.config.listeners[0].name)
        assert place.node is not None
        known = place.node.dispatch.requests.connections.get(connection.conn)
        assert known is not None
        known.principal = principal
        connection.ask(api, version, body)
        return connection

    def ask(self, process: str, api: str, version: int, body: Any, principal: str = THIEF) -> Any:
        """The decoded answer to a request of the thief; None: its connection was closed, or nothing came."""
        connection = self.tell(process, api, version, body, principal)
        self.world.run_until(lambda: bool(connection.answers) or not connection.open, 1_000)
        self.world.run_for(200)
        connection.leave()
        if not connection.answers:
            return None
        return framing.decode_response(api, version, memoryview(bytes(connection.answers[0])[4:]))

    @property
    def active(self) -> str:
        """The name of the active controller."""
        found = self.cluster.active()
        assert found is not None
        return found.name

    def state(self) -> dict[str, Any]:
        """Everything that a client could change: the metadata, the quorum, and the data of every broker."""
        found: dict[str, Any] = {}
        for process in self.cluster.controllers.values():
            assert process.node is not None
            raft = process.node.quorum.raft
            found[f"{process.name}'s quorum"] = (raft.epoch, raft.leader_id)
            pin = process.image.pin()
            found[f"{process.name}'s metadata"] = b"".join(snapshot.encode(pin, 1, 2, 0, None))
            pin.release()
        for process in self.cluster.brokers.values():
            assert process.node is not None and process.node.broker is not None
            for one in process.node.broker.replicas:
                found[f"{process.name}'s {one!r}"] = (one.log.log_start_offset, one.log.log_end_offset)
        return found


def error_codes(api: str, version: int, told: Any) -> set[int]:
    """All error codes in an answer, but for settings that somebody may not see of a topic that they make."""

    def of(value: Any) -> Iterator[int]:
        if isinstance(value, dict):
            for key, one in value.items():
                if key.endswith("error_code") and key != "topic_config_error_code":
                    yield one
                else:
                    yield from of(one)
        elif isinstance(value, list):
            for one in value:
                yield from of(one)

    return set(of(plain(message(f"{api}Response").__struct__, told, version)))


def records() -> bytes:
    builder = batch.Builder(timestamp_ms=1_600_000_000_000)
    builder.append(None, b"stolen")
    return bytes(builder.build())


def one(*rights: Right) -> Callable[[int], Iterable[tuple[Right, ...]]]:
    """All of these are needed."""
    return lambda number: (rights,)


def any_of(*rights: Right) -> Callable[[int], Iterable[tuple[Right, ...]]]:
    """One of these is enough."""
    return lambda number: tuple((right,) for right in rights)


def cluster(operation: Operation) -> Right:
    return CLUSTER, "kafka-cluster", operation


def _victim(scene: Scene, number: int) -> dict[str, Any]:
    name = f"victim-{number}"
    scene.admin("CreateTopics", 5, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}])
    scene.world.run_for(500)
    return {"topic_names": [name], "timeout_ms": 5000}


def _rule_of_zoe(scene: Scene, number: int) -> dict[str, Any]:
    rule = Rule(TOPIC, f"zoe-{number}", Pattern.LITERAL, "User:zoe", "*", DO.READ, Permission.ALLOW)
    scene.admin("CreateAcls", 3, **_creation(rule))
    scene.world.run_for(500)
    wanted = {
        "resource_type_filter": 2, "resource_name_filter": rule.name, "pattern_type_filter": 3, "principal_filter": None,
        "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    return {"filters": [wanted]}


def _creation(rule: Rule) -> dict[str, Any]:
    return {
        "creations": [
            {
                "resource_type": int(rule.resource), "resource_name": rule.name, "resource_pattern_type": int(rule.pattern),
                "principal": rule.principal, "host": rule.host, "operation": int(rule.operation),
                "permission_type": int(rule.permission),
            }
        ]
    }  # fmt: skip


def _partitions(scene: Scene, number: int) -> dict[str, Any]:
    count = len(scene.t.image.topic_partitions(scene.t.image.topic("t"))) + 1
    return {"topics": [{"name": "t", "count": count, "assignments": None}], "timeout_ms": 5000}


def _reassigned(scene: Scene, number: int) -> dict[str, Any]:
    row = int(scene.t.image.topic_partitions(scene.t.image.topic("t"))[0])
    first, *rest = scene.t.image.replicas(row)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [*rest, first]}]}]
    return {"topics": topics, "timeout_ms": 5000}


def _setting(kind: int, name: str, key: str) -> Body:
    return lambda scene, number: {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": key, "config_operation": 0, "value": str(1_000_000 + number)}],
            }
        ]
    }


def _offsets(scene: Scene, number: int) -> dict[str, Any]:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": number}]}]
    return {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}


def _with_offsets(fields: dict[str, Any]) -> Body:
    """A request about group `g`, which has committed something."""

    def body(scene: Scene, number: int) -> dict[str, Any]:
        scene.admin("OffsetCommit", 7, **_offsets(scene, number))
        return fields

    return body


def _produced(scene: Scene, number: int) -> dict[str, Any]:
    part = {"index": 0, "records": records()}
    return {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "t", "partition_data": [part]}]}


def _deleted_records(scene: Scene, number: int) -> dict[str, Any]:
    scene.t.produce(b"x")
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": -1}]}]
    return {"topics": topics, "timeout_ms": 1000}


def _credential(scene: Scene, number: int) -> dict[str, Any]:
    new = {
        "name": f"mole-{number}",
        "mechanism": 1,
        "iterations": 4096,
        "salt": b"s" * 16,
        "salted_password": b"p" * 32,
    }
    return {"deletions": [], "upsertions": [new]}


def _created(scene: Scene, number: int) -> dict[str, Any]:
    return {"topics": [{"name": f"made-{number}", "num_partitions": 1, "replication_factor": 3}], "timeout_ms": 5000}


def _transaction(*more: str, **fields: Any) -> Body:
    """A request about transaction `x` of the producer that has begun it. `more`: prefix of its fields' names."""
    prefix = more[0] if more else ""

    def body(scene: Scene, number: int) -> dict[str, Any]:
        return {
            f"{prefix}transactional_id": "x",
            f"{prefix}producer_id": scene.producer_id,
            f"{prefix}producer_epoch": scene.producer_epoch,
        } | fields

    return body


DEEDS = (
    Deed("CreateTopics", 7, _created, lambda n: ((cluster(DO.CREATE),), ((TOPIC, f"made-{n}", DO.CREATE),))),
    Deed("DeleteTopics", 5, _victim, lambda n: ((cluster(DO.DELETE),), ((TOPIC, f"victim-{n}", DO.DELETE),))),
    Deed("CreatePartitions", 3, _partitions, one((TOPIC, "t", DO.ALTER))),
    Deed("IncrementalAlterConfigs", 1, _setting(2, "t", "retention.ms"), one((TOPIC, "t", DO.ALTER_CONFIGS))),
    Deed("IncrementalAlterConfigs", 1, _setting(4, "", "log.retention.ms"), one(cluster(DO.ALTER_CONFIGS))),
    Deed("CreateAcls", 3, lambda s, n: _creation(
        Rule(TOPIC, f"own-{n}", Pattern.LITERAL, THIEF, "*", DO.ALL, Permission.ALLOW)), one(cluster(DO.ALTER))),
    Deed("DeleteAcls", 3, _rule_of_zoe, one(cluster(DO.ALTER))),
    Deed("AlterUserScramCredentials", 0, _credential, one(cluster(DO.ALTER))),
    Deed("AlterPartitionReassignments", 0, _reassigned, one(cluster(DO.ALTER))),
    Deed("ElectLeaders", 2, lambda s, n: {
        "election_type": 0, "topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 1000},
        one(cluster(DO.ALTER)), changes=False),
    Deed("UnregisterBroker", 0, lambda s, n: {"broker_id": 99}, one(cluster(DO.ALTER)), changes=False),
    Deed("UpdateFeatures", 1, lambda s, n: {"feature_updates": [], "timeout_ms": 1000},
        one(cluster(DO.ALTER)), changes=False),
    Deed("Produce", 9, _produced, one((TOPIC, "t", DO.WRITE))),
    Deed("DeleteRecords", 2, _deleted_records, one((TOPIC, "t", DO.DELETE))),
    Deed("OffsetCommit", 7, _offsets, one((GROUP, "g", DO.READ), (TOPIC, "t", DO.READ))),
    Deed("OffsetDelete", 0, _with_offsets({
        "group_id": "g", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]}),
        one((GROUP, "g", DO.DELETE), (TOPIC, "t", DO.READ))),
    Deed("DeleteGroups", 2, _with_offsets({"groups_names": ["g"]}), one((GROUP, "g", DO.DELETE))),
    Deed("JoinGroup", 3, lambda s, n: {
        "group_id": "g", "session_timeout_ms": 6000, "rebalance_timeout_ms": 6000, "member_id": "nobody",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
        one((GROUP, "g", DO.READ)), changes=False),
    Deed("LeaveGroup", 3, lambda s, n: {"group_id": "g", "members": [{"member_id": "nobody"}]},
        one((GROUP, "g", DO.READ)), changes=False),
    Deed("InitProducerId", 4, lambda s, n: {"transactional_id": f"id-{n}", "transaction_timeout_ms": DAY_MS},
        lambda n: (((ID, f"id-{n}", DO.WRITE),),)),
    Deed("AddPartitionsToTxn", 3, _transaction(
        "v3_and_below_", v3_and_below_topics=[{"name": "t", "partitions": [0]}]),
        one((ID, "x", DO.WRITE), (TOPIC, "t", DO.WRITE)), changes=False),
    Deed("AddOffsetsToTxn", 3, _transaction(group_id="g"), one((ID, "x", DO.WRITE), (GROUP, "g", DO.READ)), changes=False),
    Deed("TxnOffsetCommit", 2, _transaction(group_id="g", topics=[
        {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]),
        one((ID, "x", DO.WRITE), (GROUP, "g", DO.READ), (TOPIC, "t", DO.READ)), changes=False),
    Deed("EndTxn", 3, _transaction(committed=True), one((ID, "x", DO.WRITE)), changes=False),
    Deed("WriteTxnMarkers", 1, lambda s, n: {"markers": [{
        "producer_id": s.producer_id, "producer_epoch": s.producer_epoch, "transaction_result": True,
        "topics": [{"name": "t", "partition_indexes": [0]}], "coordinator_epoch": 0}]},
        any_of(cluster(DO.CLUSTER_ACTION), cluster(DO.ALTER)), changes=False),
)  # fmt: skip
"""What a client can change through a broker, and what that takes."""


def node_requests(scene: Scene) -> Iterator[tuple[str, str, int, Any, int]]:
    """(process, API, version, body, node in whose name) of what only nodes ask: each would change something."""
    active, name = scene.active, TOPICS["drafts"]
    place = scene.cluster.active()
    assert place is not None and place.node is not None
    epoch = place.node.quorum.raft.epoch
    other = next(id for id, process in scene.cluster.controllers.items() if process is not place)
    stands = {
        "partition_index": 0, "replica_id": other, "replica_epoch": epoch + 5, "last_offset_epoch": epoch + 4,
        "last_offset": 1 << 40,
    }  # fmt: skip
    topics = [{"topic_name": name, "partitions": [stands]}]
    yield active, "Vote", 0, request("Vote", topics=topics), other
    led = {"partition_index": 0, "leader_id": other, "leader_epoch": epoch + 5}
    body = request("BeginQuorumEpoch", topics=[{"topic_name": name, "partitions": [led]}])
    yield active, "BeginQuorumEpoch", 0, body, other
    mine = {"partition_index": 0, "leader_id": int(active[1:]), "leader_epoch": epoch}
    body = request("EndQuorumEpoch", topics=[{"topic_name": name, "partitions": [mine]}])
    yield f"c{other}", "EndQuorumEpoch", 0, body, int(active[1:])
    asked = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0}
    body = request("Fetch", replica_id=other, topics=[{"topic": name, "partitions": [asked]}], max_bytes=1 << 20)
    yield active, "Fetch", 12, body, other
    part = {"partition": 0, "snapshot_id": {"end_offset": 1, "epoch": 1}}
    body = request("FetchSnapshot", replica_id=other, topics=[{"name": name, "partitions": [part]}])
    yield active, "FetchSnapshot", 0, body, other
    values: dict[str, Any] = {
        "broker_id": 99, "broker_epoch": -1, "target_state": 2, "cur_metadata_offset": scene.t.image.next_offset,
        "lease_start_time_ms": 1 << 40, "listeners": [{"name": "PLAINTEXT", "host": "nowhere", "port": 1}],
        "log_dirs": [b"s" * 16],
    }  # fmt: skip
    yield active, "BrokerHeartbeat", 0, request("v28:BrokerHeartbeat", **values), 99
    yield active, "ControllerHeartbeat", 0, request("v28:ControllerHeartbeat", controller_id=other), other
    image = scene.t.image
    row = int(image.topic_partitions(image.topic("t"))[0])
    leader = scene.t.leader
    proposal = {
        "partition_id": 0, "leader": leader, "leader_epoch": int(image.leader_epoch(row)), "isr": [leader],
        "current_zk_version": int(image.partition_epoch(row)),
    }  # fmt: skip
    epoch_of_leader = image.broker(leader).epoch
    body = request(
        "AlterIsr",
        broker_id=leader,
        broker_epoch=epoch_of_leader,
        topics=[{"topic": "t", "partitions": [proposal]}],
    )
    yield active, "AlterIsr", 0, body, leader
    body = request("AllocateProducerIds", broker_id=leader, broker_epoch=epoch_of_leader)
    yield active, "AllocateProducerIds", 0, body, leader


def envelope(name: str, principal: str = "User:ANONYMOUS") -> Any:
    """A topic made in the name of somebody who may do everything."""
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
    inner = framing.encode_request("CreateTopics", 7, 1, "c", request("CreateTopics", topics=topics, timeout_ms=5000))
    return request(
        "Envelope",
        request_data=b"".join(inner)[4:],
        request_principal=principal_bytes(principal, False),
        client_host_address=b"\x7f\0\0\1",
    )
