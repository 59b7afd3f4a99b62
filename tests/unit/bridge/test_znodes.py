"""A znode that is not as it must be gives one sentence, which names the path. Those that Apache Kafka wrote are
read."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from actors.bridge import znodes
from actors.bridge.checks import findings, next_producer_id
from actors.bridge.reading import Snapshot, everything
from actors.bridge.subjects import brokers, rules, settings, topics
from actors.bridge.znodes import BadZnode
from actors.metadata.image import Image
from actors.metadata.ops import EndPoint
from actors.ports.zookeeper import Reads, Znode
from tests.integration.bridge import golden
from tests.simulator.zookeeper import ZooKeeper
from tests.unit.bridge.played import CLUSTER, Bridge, Stage, add_topic, cluster, set_config

BROKER = json.loads(
    '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],"version":5}'
)
TOPIC = {"partitions": {"0": [1, 2]}, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "version": 3}
STATE = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]}


def read_broker(znode: Znode) -> Any:
    return brokers.broker("/brokers/ids/1", znode)


def read_topic(znode: Znode) -> Any:
    return topics.topic("/brokers/topics/t", znode)


def read_state(znode: Znode) -> Any:
    return topics.partition("/brokers/topics/t/partitions/0/state", znode, (1, 2))


def read_settings(znode: Znode) -> Any:
    path = "/config/users/alice"
    return settings.differences(Image(), "users/alice", settings.settings(path, znode))


def read_rules(znode: Znode) -> Any:
    return rules.rules("/kafka-acl/Topic/t", znode)


def rule(**more: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "acls": [{"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"} | more],
    }


@pytest.mark.parametrize(
    ("read", "content", "words"),
    [
        (read_broker, b"\xff", "is no JSON"),
        (read_broker, b"[]", "holds no JSON object"),
        (read_broker, b"[" * 100_000, "is no JSON"),
        (read_broker, BROKER | {"version": 4}, "2.6 or older"),
        (read_broker, BROKER | {"version": "x"}, "version"),
        (read_broker, BROKER | {"endpoints": []}, "0 endpoints"),
        (read_broker, BROKER | {"endpoints": ["h:9092"]}, "NAME://host:port"),
        (read_broker, BROKER | {"endpoints": [7]}, "NAME://host:port"),
        (read_broker, BROKER | {"endpoints": ["PLAINTEXT://h:90920"]}, "port of PLAINTEXT"),
        (read_broker, BROKER | {"endpoints": ["OTHER://h:1"]}, "listener OTHER"),
        (read_broker, BROKER | {"endpoints": None}, "lacks the field endpoints"),
        (read_broker, BROKER | {"features": {"f": 3}}, "levels of the feature"),
        (read_topic, TOPIC | {"partitions": {}}, "0, 1, 2"),
        (read_topic, TOPIC | {"partitions": {"1": [1]}}, "0, 1, 2"),
        (read_topic, TOPIC | {"partitions": {"0": []}}, "without replicas"),
        (read_topic, TOPIC | {"partitions": {"0": [1, 1]}}, "a broker twice"),
        (read_topic, TOPIC | {"partitions": {"0": [-1]}}, "a broker in partitions"),
        (read_topic, TOPIC | {"partitions": {"0": [True]}}, "a broker in partitions"),
        (read_topic, TOPIC | {"partitions": {"x": [1]}}, "a partition of partitions"),
        (read_topic, TOPIC | {"partitions": {"0": list(range(101))}}, "at most 100 brokers"),
        (read_topic, TOPIC | {"topic_id": "AAAA"}, "22 characters"),
        (read_topic, TOPIC | {"topic_id": "A" * 22}, "22 characters"),
        (read_state, STATE | {"isr": []}, "empty ISR"),
        (read_state, STATE | {"isr": [1, 3]}, "broker 3 in the ISR"),
        (read_state, STATE | {"leader": 2, "isr": [1]}, "broker 2 as the leader"),
        (read_state, STATE | {"leader": -2}, "leader"),
        (read_state, STATE | {"leader_epoch": 1 << 31}, "leader_epoch"),
        (read_settings, {"config": {"producer_byte_rate": "-1"}}, "above 0"),
        (read_settings, {"config": {"producer_byte_rate": "nan"}}, "above 0"),
        (read_settings, {"config": {"producer_byte_rate": 5}}, "not text"),
        (read_settings, {"config": {"SCRAM-SHA-256": "salt=secret"}}, "cannot be read"),
        (read_settings, {"config": []}, "config"),
        (read_settings, {"config": {"some.plugin": "\ud800"}}, "is no JSON"),
        (read_rules, {"acls": [7]}, "as a rule"),
        (read_rules, rule(operation="Fly"), "not known"),
        (read_rules, rule(operation="Any"), "cannot be"),
        (read_rules, rule(principal="alice"), "no colon"),
        (read_rules, rule(host=None), "lacks the field host"),
    ],
)
def test_a_znode_that_is_not_as_it_must_be(read: Callable[[Znode], Any], content: Any, words: str) -> None:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(BadZnode, match=r"^znode /") as caught:
        read(Znode(data))
    assert words in str(caught.value) and "secret" not in str(caught.value)


def test_a_broker_is_read_with_its_rack_and_its_listeners() -> None:
    content = BROKER | {
        "endpoints": ["IN://[::1]:9092", "OUT://h:9093"],
        "listener_security_protocol_map": {"IN": "SSL", "OUT": "SASL_SSL"},
        "rack": "r1",
        "features": {"f": {"min_version": 1, "max_version": 3}},
    }
    found = brokers.broker("/brokers/ids/7", Znode(json.dumps(content).encode(), czxid=99))
    assert found == (7, 99, (EndPoint("IN", "::1", 9092, 1), EndPoint("OUT", "h", 9093, 3)), "r1", (("f", 1, 3),))


def test_the_entry_of_a_controller_can_be_read_as_a_brokers() -> None:
    endpoints = (EndPoint("PLAINTEXT", "::1", 9500), EndPoint("SECURE", "h", 9501, 1))
    assert brokers.broker("/brokers/ids/1001", Znode(brokers.entry(endpoints, 5), czxid=3)).endpoints == endpoints


def looked(zookeeper: ZooKeeper) -> Snapshot:
    rounds = everything()
    session = zookeeper.begin(lambda event: None)
    reads = next(rounds)
    while True:
        try:
            reads = rounds.send(zookeeper.answer(session, Reads(0, reads)))  # type: ignore[arg-type]
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def no_topic_id(zookeeper: ZooKeeper) -> None:
    add_topic(zookeeper, "old", [[1]])
    zookeeper.put("/brokers/topics/old", b'{"version":1,"partitions":{"0":[1]}}')


def reassigned(zookeeper: ZooKeeper) -> None:
    add_topic(zookeeper, "moving", [[1]])
    data = json.loads(zookeeper.get("/brokers/topics/moving") or b"") | {"adding_replicas": {"0": [2]}}
    zookeeper.put("/brokers/topics/moving", json.dumps(data).encode())


def old_format(zookeeper: ZooKeeper) -> None:
    add_topic(zookeeper, "old", [[1]])
    set_config(zookeeper, "topics/old", message_format_version="0.10.2-IV0")


REFUSED: list[tuple[Callable[[ZooKeeper], Any], str]] = [
    (lambda z: z.remove("/cluster/id"), "the chroot is wrong"),
    (lambda z: z.remove("/brokers/ids"), "start the cluster's brokers first"),
    (lambda z: z.put("/brokers/ids/1001", z.get("/brokers/ids/1")), "has the id of a controller"),
    (lambda z: add_topic(z, "t", [[1001, 2]], states=False), "has the id of a controller"),
    (lambda z: z.put("/brokers/ids/2", BROKER_OF_2_6), "2.6 or older"),
    (lambda z: z.put("/admin/reassign_partitions", b"{}"), "a reassignment is under way"),
    (lambda z: z.put("/admin/delete_topics/t", b""), "topic t is being deleted"),
    (lambda z: z.put("/migration", b"{}"), "KIP-866"),
    (lambda z: z.put("/controller_epoch", b"many"), "/controller_epoch"),
    (lambda z: z.put("/latest_producer_id_block", b"{}"), "block_end"),
    (lambda z: z.put("/brokers/topics/bad name", b"{}"), "illegal"),
    (no_topic_id, "inter.broker.protocol.version is older than 2.8"),
    (reassigned, "is being reassigned"),
    (old_format, "message.format.version=0.10.2-IV0"),
    (
        lambda z: (
            (z.put("/brokers/topics/t/partitions/0/state", b"?") and None) or add_topic(z, "t", [[1]], states=False)
        ),
        "state",
    ),
]
BROKER_OF_2_6 = json.dumps(BROKER | {"version": 4}).encode()


@pytest.mark.parametrize(("spoil", "words"), REFUSED)
def test_what_forbids_a_takeover_is_said_before_anything_is_changed(
    spoil: Callable[[ZooKeeper], Any], words: str
) -> None:
    zookeeper = cluster()
    assert findings(looked(zookeeper), {1001}).refusals == []
    spoil(zookeeper)
    refusals = findings(looked(zookeeper), {1001}).refusals
    assert any(words in reason for reason in refusals), refusals
    assert all(reason.endswith(".") for reason in refusals)


def test_a_cluster_is_described() -> None:
    zookeeper = cluster()
    add_topic(zookeeper, "orders", [[1, 9], [2, 3]])
    found = findings(looked(zookeeper), {1001})
    assert (found.cluster_id, found.topics, found.partitions) == (CLUSTER, 1, 2)
    assert (found.controller, found.controller_epoch, found.listeners) == (1, 7, ["PLAINTEXT"])
    assert any("broker 9 with replicas not there" in notice for notice in found.notices)
    assert sum("which both sides have to agree on" in notice for notice in found.notices) == 2
    add_topic(zookeeper, "__consumer_offsets", [[1]])
    assert any("__transaction_state is not there" in notice for notice in findings(looked(zookeeper)).notices)
    assert not any("__consumer_offsets" in notice for notice in findings(looked(zookeeper)).notices)


# ---- what real clusters have written


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_golden_znodes_are_read_whole(release: str) -> None:
    snapshot = golden.load(release)
    found = findings(snapshot)
    assert found.refusals == [] and len(found.brokers) == 2 and found.listeners == ["PLAINTEXT"]
    assert found.rules == 3 and next_producer_id(snapshot) >= 0
    image = Image()
    for entity in snapshot.entities():
        path = settings.path_of(entity)
        for op in settings.differences(image, entity, settings.settings(path, snapshot.get(path))):
            image.replay(image.next_offset, op)
    assert image.config(2, "orders") == {"retention.ms": "86400000"}
    assert image.config(4, "") == {"log.retention.ms": "90000000"} and image.config(4, "1") == {
        "background.threads": "11"
    }
    quotas = {(op.key[0], op.key[1]): dict(op.fields)["value"] for op in image.every("quota")}  # type: ignore[misc]
    assert quotas == {
        ((("user", "alice"),), "producer_byte_rate"): 1000.0,
        ((("client-id", None), ("user", "o=b")), "consumer_byte_rate"): 2000.0,
        ((("client-id", "app"),), "request_percentage"): 12.5,
        ((("ip", "10.0.0.1"),), "connection_creation_rate"): 10.0,
    }
    (credential,) = image.every("scram")
    assert credential.key == ("alice", 1) and dict(credential.fields)["iterations"] == 4096


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_what_is_written_back_is_what_apache_kafka_wrote(release: str) -> None:
    snapshot = golden.load(release)
    zookeeper = cluster()
    for path in [path for path in zookeeper.entries if path]:
        zookeeper.entries.pop(path, None)
    for path, names in snapshot.names.items():
        zookeeper.put(path, b"")
        for name in names:
            zookeeper.put(f"{path}/{name}", b"")
    for path, znode in snapshot.znodes.items():
        zookeeper.put(path, znode.data)
    bridge = Bridge(zookeeper)
    bridge.here.cluster_id = findings(snapshot).cluster_id
    bridge.take_over()
    assert bridge.stage is Stage.DRIVING, bridge.told
    for entity in list(snapshot.entities()):
        path = settings.path_of(entity)
        have = settings.settings(path, snapshot.get(path))
        assert settings.same(have, settings.here(bridge.image, entity)), entity
    for path, znode in snapshot.rule_znodes():
        assert json.loads(rules.data(rules.rules(path, znode))) == json.loads(znode.data)
    for path, znode in snapshot.below(znodes.TOPICS):
        row = bridge.image.topic(path.rpartition("/")[2])
        written = json.loads(topics.topic_data(bridge.image, row))
        assert written == json.loads(znode.data)
