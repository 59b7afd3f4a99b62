"""Random bodies for every API of every listener, with extreme values in every field, at whole nodes in virtual time.

No handler fails, no node ends, the quorum keeps its leader and its epoch, and the cluster still creates a topic and
accepts a record. Some requests are not sent, because an unauthenticated peer may do harm with them by writing a node's
exact id: leading or ending an epoch in the name of a voter, taking the id of a broker, unregistering one.

The nodes have an authorizer, for which every sender is a super user, users with passwords, and delegation tokens; a
request for these comes with a certificate, since they are for peers that are known.
"""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.node.api import handlers as rpc
from actors.node.quorum.files import TOPIC_ID, TOPICS
from actors.node.runtime.calls import Listener
from actors.settings.node_config import node_config
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.integration.answers.dialogue import request
from tests.served import TABLE
from tests.simulator.cluster import CLUSTER_ID, PORT, Client, Cluster, directory_id
from tests.simulator.strangers import Connection
from tests.simulator.world import World
from tests.unit.wire.strategies import Vocabulary, bodies

rpc.load()
EXAMPLES = int(os.environ.get("RANDOM_BODIES", "10"))
"""The number of bodies for each API of each listener; five times as many if few bodies name the one topic and
partition."""
QUORUM = frozenset({"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot"})
LISTENERS = {
    Listener.CLIENT: ("PLAINTEXT", "b1"),
    Listener.INTER_BROKER: ("INTERNAL", "b1"),
    Listener.CONTROL_PLANE: ("CP", "b1"),
    Listener.CONTROLLER: ("CONTROLLER", "c1001"),
    Listener.BRIDGE: ("BRIDGE", "c1001"),
}
BRIDGE = {
    "listeners": f"CONTROLLER://c{{id}}:{PORT},BRIDGE://c{{id}}:9004",
    "rayft.bridge.listener.names": "BRIDGE",
    "rayft.metadata.push.enable": "true",
    "inter.broker.listener.name": "BRIDGE",
}
"""Settings of controllers that also drive brokers in ZooKeeper mode."""
ROWS = sorted(TABLE, key=lambda row: (row[1], row[0].value))
ADMIN, USER = "User:admin", "User:alice"
KNOWN = {"CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken"}
"""APIs that are served on connections of peers that are known."""
SECURE = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;{ADMIN}",
    "delegation.token.secret.key": "a key of the cluster",
    "ssl.keystore.location": "none.pem",
}
CHANGING = {"CreateAcls", "DeleteAcls", "AlterUserScramCredentials", *KNOWN}
"""APIs whose answers are looked at. Brokers pass them on."""
PATIENCE_MS = 300
PROTOCOLS = "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT,BRIDGE:PLAINTEXT,CERTIFIED:SSL,CONTROLLER:SSL"
STRANGERS_ID = st.sampled_from((-(1 << 31), -2, -1, 77, (1 << 31) - 1))
MOSTLY = {
    (type, attribute): st.sampled_from(values)
    for type, attributes, values in (
        ("int32", ("partition_index", "partition", "partition_id", "index"), (0, 0, 0, 0, -1, 1, (1 << 31) - 1)),
        (
            "int32",
            ("leader_epoch", "replica_epoch"),
            (2, 3, 100, 1 << 30, (1 << 31) - 2, (1 << 31) - 1, -1, -(1 << 31)),
        ),
        ("string", ("cluster_id",), (CLUSTER_ID, CLUSTER_ID, CLUSTER_ID, "", "other")),
        ("string", ("topic_name",), (*[TOPICS["drafts"]] * 5, TOPICS["released"], "there", "")),
        ("string", ("topic", "name"), (*TOPICS.values(), "there", "there", "", "none", "x" * 300)),
        ("uuid", ("topic_id",), (TOPIC_ID, TOPIC_ID, bytes(16), b"\xff" * 16)),
        ("int8", ("resource_type", "resource_type_filter"), (1, 2, 2, 3, 4, 5, 6, 7, 0, 8, 127)),
        ("int8", ("resource_pattern_type", "pattern_type_filter"), (1, 2, 3, 3, 3, 4, 0, 9)),
        ("int8", ("operation",), (1, *range(2, 15), 2, 3, 4, 0, 99)),
        ("int8", ("permission_type",), (1, 2, 2, 3, 3, 0, 9)),
        ("int8", ("mechanism",), (1, 1, 2, 0, 3)),
        ("int32", ("iterations",), (4096, 8192, 16384, 4095, 1 << 30)),
        ("string", ("principal", "principal_filter"), (*[ADMIN, USER, "User:*"] * 3, "nobody", "Group:x", "")),
        ("string", ("owner_principal_type", "principal_type"), (*["User"] * 6, "", "Group")),
        ("string", ("owner_principal_name", "principal_name"), ("alice", "admin", "alice", "x" * 300, "")),
        ("string", ("host", "host_filter"), ("*", "*", "10.0.0.66", "not a host", "")),
    )
    for attribute in attributes
}
"""Values with which a body gets beyond the first check."""
ONLY_STRANGERS = {
    ("BrokerHeartbeatRequest", "broker_id"),
    ("UnregisterBrokerRequest", "broker_id"),
    ("BeginQuorumEpochRequest", "leader_id"),
    ("EndQuorumEpochRequest", "leader_id"),
}


def settings_of(id: int) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "broker.id": str(id),
        "controller.connect": "1001@c1001:9000,1002@c1002:9000,1003@c1003:9000",
        "listeners": f"PLAINTEXT://b{id}:{PORT},INTERNAL://b{id}:9001,CP://b{id}:9002,CERTIFIED://b{id}:9003",
        "listener.security.protocol.map": PROTOCOLS,
        "control.plane.listener.name": "CP",
        "inter.broker.listener.name": "INTERNAL",
        "offsets.topic.num.partitions": "2",
        "log.dirs": "data",
        **SECURE,
    }


class Stage:
    """Three controllers and two brokers with every kind of listener, and topics to be named."""

    def __init__(self) -> None:
        self.world = World(5)
        self.cluster = Cluster(
            self.world,
            controllers=3,
            brokers=0,
            config={**SECURE, **BRIDGE, "listener.security.protocol.map": PROTOCOLS},
        )
        for id in (1, 2):
            self.cluster.brokers[id] = self.cluster._process(f"b{id}", node_config(settings_of(id)), directory_id(id))
        self.cluster.start()
        assert self.world.run_until(self.cluster.ready, 60_000)
        self.client = Client(self.world, "good")
        self.created = 0
        self.create("there")
        self.world.run_for(1_000)
        self.quorum = self._quorum()
        active = self.cluster.active()
        assert active is not None and active.node is not None and active.node.controller is not None
        active.node.controller.soft.zookeeper_epoch = 1  # as if it were the controller of brokers in ZooKeeper mode
        self.told = 0
        """How many requests were sent so far; the principals take turns by it."""
        self.hmac = self.token()

    def _quorum(self) -> tuple[str, int]:
        active = self.cluster.active()
        assert active is not None and active.node is not None, "no controller is active"
        return active.name, active.node.quorum.raft.epoch

    def active_image(self) -> Any:
        """The active controller's metadata."""
        active = self.cluster.active()
        assert active is not None and active.node is not None and active.node.controller is not None
        return active.node.controller.image

    def create(self, name: str) -> None:
        """Create a topic on both brokers, whatever other brokers have registered."""
        places = [{"partition_index": 0, "broker_ids": [1, 2]}]
        topics = [{"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": places}]
        reply = self.client.call("b2", "CreateTopics", 7, request("CreateTopics", topics=topics, timeout_ms=20_000))
        assert reply is not None and reply.topics[0].error_code == 0, reply

    def token(self) -> bytes:
        """The secret of a new delegation token."""
        self.told = 0
        body = request("CreateDelegationToken", owner_principal_type=None, renewers=[], max_lifetime_ms=-1)
        told = self.tell(Listener.CLIENT, "CreateDelegationToken", 3, body)
        assert told.error_code == 0, told
        return bytes(told.hmac)

    def tell(self, listener: Listener, name: str, version: int, body: Any) -> Any:
        """Send one request on a connection of its own, and check that nothing has broken. The answer, if one came."""
        listener_name, process = LISTENERS[listener]
        principal = None
        self.told += 1
        if name in KNOWN:
            principal = USER if self.told % 3 == 0 else ADMIN
            listener_name = "CERTIFIED" if listener is Listener.CLIENT else listener_name
        if listener in (Listener.CONTROLLER, Listener.BRIDGE):
            process = self.quorum[0]  # the active one decides; the others refuse
        connection = Connection(self.world, self.world.processes[process], listener_name, principal)
        connection.ask(name, version, body)
        self.world.run_for(PATIENCE_MS if name in CHANGING else 5)
        connection.leave()
        self.unbroken()
        if name not in CHANGING or not connection.answers:
            return None
        return framing.decode_response(name, version, memoryview(bytes(connection.answers[0])[4:]))

    def unbroken(self) -> None:
        broken = [text for text in self.world.errors if "Traceback" in text]
        self.world.errors.clear()
        assert not broken, "\n".join(broken)
        for process in self.world.processes.values():
            assert process.node is not None, (process.name, process.stopped_with)

    def rest(self) -> None:
        """After everything, the cluster is as it was, and works."""
        self.world.run_for(8_000)
        self.unbroken()
        assert self._quorum() == self.quorum
        self.hmac = self.token()
        if self.active_image().topic("there") < 0:  # to delete it is allowed
            self.create("there")
        self.created += 1
        name = f"after-{self.created}"
        self.create(name)
        builder = batches.Builder(timestamp_ms=1_600_000_000_000)
        builder.append(None, b"x")
        part = {"index": 0, "records": builder.build()}
        body = request("Produce", acks=-1, timeout_ms=5000, topic_data=[{"name": name, "partition_data": [part]}])
        codes = []
        for _ in range(20):
            replies = [self.client.call(f"b{id}", "Produce", 9, body) for id in (1, 2)]
            codes = [None if one is None else one.responses[0].partition_responses[0].error_code for one in replies]
            if 0 in codes:
                return
            self.world.run_for(500)
        raise AssertionError(f"no record is taken: {codes}")


@pytest.fixture(scope="module")
def stages() -> "Iterator[list[Stage]]":
    """A fixture with the present stage. A test that breaks it leaves none behind."""
    yield [Stage()]


def records() -> list[bytes]:
    """Sound batches, and broken ones."""
    builder = batches.Builder(timestamp_ms=1_600_000_000_000)
    builder.append(b"k", b"v")
    whole = bytes(builder.build())
    return [whole, whole[:-1], whole * 3, whole[:30] + b"\xff" * 31, b"\xff" * 70]


def inner() -> list[bytes]:
    """Requests for an Envelope: sound ones, ones that may not be in one, and an Envelope in an Envelope."""
    given = [
        ("Metadata", 12, request("Metadata", topics=[])),
        ("CreateTopics", 7, request("CreateTopics", topics=[{"name": "/", "num_partitions": -5}], timeout_ms=-1)),
        ("Vote", 2, request("Vote", voter_id=-1)),
        ("Fetch", 17, request("Fetch")),
        ("DescribeQuorum", 2, request("DescribeQuorum", topics=[])),
    ]
    found = [b"".join(framing.encode_request(*row[:2], 1, "c", row[2]))[4:] for row in given]
    for frame in list(found):
        body = message("EnvelopeRequest")(request_data=frame, request_principal=None, client_host_address=b"\x7f\0\0\1")
        found.append(b"".join(framing.encode_request("Envelope", 0, 1, "c", body))[4:])
    return [*found, found[0][:9], found[1] + b"\0", b"\0\x03\x7f\xff", b"\x7f\0\0\1", b"\0\0\x05User\x05name\0\0"]


def vocabulary(stage: Stage, name: str) -> Vocabulary:
    """Values that have a meaning in this cluster."""
    image = stage.active_image()

    def narrow(field: Any) -> Any:
        if (name, field.attribute) in ONLY_STRANGERS:
            return STRANGERS_ID
        if field.attribute == "hmac":
            return st.sampled_from((stage.hmac, stage.hmac, stage.hmac[:-1], bytes(64), b""))
        return MOSTLY.get((field.type, field.attribute))

    return Vocabulary(
        numbers=(77, 1001, 1002, stage.quorum[1], stage.quorum[1] + 1, image.next_offset),
        words=(
            "there",
            "none",
            "__consumer_offsets",
            *TOPICS.values(),
            CLUSTER_ID,
            "retention.ms",
            "1",
            "group",
            "range",
            "alice",
            "User",
        ),
        uuids=(TOPIC_ID, image.topic_id(image.topic("there"))),
        blobs=(*records(), *inner(), bytes(32)),
        narrow=narrow,
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].value}-{row[1]}-{TABLE[row].name}")
def test_no_body_breaks_a_node(row: tuple[Listener, int], stages: "list[Stage]") -> None:
    if not stages:
        stages.append(Stage())
    stage, api = stages.pop(), TABLE[row]
    kind = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
    known = vocabulary(stage, kind.__name__)
    versions = st.sampled_from(list(api.versions))
    examples = EXAMPLES * 5 if row[0] is Listener.CONTROLLER and api.name in QUORUM else EXAMPLES

    @settings(
        max_examples=examples, derandomize="RANDOM_BODIES" not in os.environ, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(version=versions, data=st.data())
    def tried(version: int, data: Any) -> None:
        body = data.draw(bodies(kind, version, known))
        try:
            stage.tell(row[0], api.name, version, body)
        except WireError:
            return  # a value that this version cannot carry

    tried()
    stage.rest()
    stages.append(stage)


@pytest.mark.parametrize("name", sorted(CHANGING))
def test_some_bodies_about_rules_users_and_tokens_do_what_they_say(name: str, stages: "list[Stage]") -> None:
    """Or the test above would show that the first check refuses everything."""
    if not stages:
        stages.append(Stage())
    stage = stages.pop()
    kind = message(f"{name}Request")
    known = vocabulary(stage, kind.__name__)
    version = max(next(api for api in TABLE.values() if api.name == name).versions)
    seen: Counter[int] = Counter()

    @settings(max_examples=60, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def tried(data: Any) -> None:
        try:
            told = stage.tell(Listener.CLIENT, name, version, data.draw(bodies(kind, version, known)))
        except WireError:
            return
        if told is not None:
            lists = [getattr(told, one) for one in ("results", "filter_results") if hasattr(told, one)]
            seen.update(row.error_code for row in (lists or [[told]])[0])

    tried()
    stage.rest()
    stages.append(stage)
    assert seen[0], f"every body was refused: {seen}"
