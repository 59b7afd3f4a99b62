"""Settings with which nodes can, or cannot, stand beside brokers that live with ZooKeeper."""

from pathlib import Path

import pytest

from actors.bridge.checks import Findings, findings
from actors.host.bridge import bridge_cluster, bridge_settings
from actors.host.bridge.bridge_cluster import WantedCluster
from actors.metadata.ops import EndPoint
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config
from tests.integration.bridge.golden import load

PLAINTEXT, SSL, SASL_PLAINTEXT = 0, 1, 2
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OBEYED = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:a"}


def found(**listeners: int) -> Findings:
    """A cluster of two brokers with these listeners, the access rules and the user alice of the golden one, whose password
    is `a`."""
    golden = findings(load("2.8.2"))
    assert not golden.refusals and golden.rules and [one.key for one in golden.credentials] == [("alice", 1)]
    brokers = [
        one._replace(endpoints=tuple(EndPoint(name, "h", 9000, protocol) for name, protocol in listeners.items()))
        for one in golden.brokers
    ]
    return golden._replace(brokers=brokers, listeners=sorted(listeners))


def shape(listener: str = "INTERNAL", host: str = "127.0.0.1", common: dict[str, str] | None = None) -> WantedCluster:
    return WantedCluster(Path("over"), "zk:2181", 3, 2, host, 0, listener, OBEYED if common is None else common)


def objections(cluster: Findings, **given: str) -> list[str]:
    host = given.pop("host", "127.0.0.1")
    names = {name.replace("__", "-").replace("_", "."): value for name, value in given.items()}
    return list(bridge_settings.objections(shape(host=host, common=OBEYED | names), cluster))


def test_nodes_have_every_listener_that_all_old_brokers_have() -> None:
    cluster = found(INTERNAL=PLAINTEXT, CLIENTS=PLAINTEXT, EXTERNAL=PLAINTEXT)
    ports = bridge_cluster.ports_behind(shape(), 3)
    assert len(set(ports)) == len(ports) == 3 + 2 + 3 * 3 + 2 * 2
    files = bridge_cluster.described(shape(), cluster, [9092 + port for port in ports])
    configs = {name: node_config(own) for name, own in files.items()}
    told = {one.port for config in configs.values() for one in config.listeners}
    assert len(told) == len(ports), "each has a port of its own"
    for config in configs.values():
        names = [one.name for one in config.advertised + config.bridge_endpoints]
        assert names == ["INTERNAL", "CLIENTS", "EXTERNAL"], "the brokers' own comes first"
        assert config.push_listener == "INTERNAL" and config.inter_broker_listener in ("", "INTERNAL")
    assert {config.broker_id for config in configs.values()} == {-1, 3, 4}
    assert {own["default.replication.factor"] for own in files.values()} == {"3"}


def test_what_the_operator_sets_of_replication_counts() -> None:
    cluster = found(INTERNAL=PLAINTEXT)
    own = shape(common={"default.replication.factor": "2"})
    files = bridge_cluster.described(own, cluster, [9092 + port for port in bridge_cluster.ports_behind(own, 1)])
    assert {file["default.replication.factor"] for file in files.values()} == {"2"}
    assert {file["offsets.topic.replication.factor"] for file in files.values()} == {"3"}


def test_delegation_tokens_are_not_dropped_unless_the_operator_says_so() -> None:
    cluster = found(INTERNAL=PLAINTEXT)._replace(tokens=2)
    (reason,) = objections(cluster)
    assert reason.startswith(
        "there are 2 delegation tokens, and nodes without delegation.token.secret.key let nobody in"
    )
    for name in ("delegation_token_secret_key", "delegation_token_master_key"):
        assert objections(cluster, **{name: "s3cret"}) == []
    assert objections(cluster, delegation_token_secret_key="") == []


def test_which_listener_is_the_brokers_own_is_asked_where_there_are_several() -> None:
    cluster = found(INTERNAL=PLAINTEXT, CLIENTS=PLAINTEXT)
    assert bridge_settings.listener(cluster, "internal") == "INTERNAL"
    with pytest.raises(ConfigError, match="CLIENTS, INTERNAL: write --listener with the one"):
        bridge_settings.listener(cluster, None)
    with pytest.raises(ConfigError, match="--listener NONE: the brokers have CLIENTS, INTERNAL in common"):
        bridge_settings.listener(cluster, "NONE")
    assert bridge_settings.listener(found(INTERNAL=PLAINTEXT), None) == "INTERNAL"


def test_plain_listeners_need_nothing() -> None:
    assert objections(found(INTERNAL=PLAINTEXT, CLIENTS=PLAINTEXT)) == []


@pytest.mark.parametrize(
    ("protocol", "words"), [(SSL, "ssl.keystore.location"), (SASL_PLAINTEXT, "has no SASL mechanism")]
)
def test_what_a_listener_lacks_is_said_once(protocol: int, words: str) -> None:
    (reason,) = objections(found(INTERNAL=protocol, CLIENTS=PLAINTEXT))
    assert reason.startswith(
        "nodes with these settings cannot stand beside the brokers (--config FILE, --set NAME=VALUE)"
    )
    assert words in reason


def scram(name: str, password: str) -> dict[str, str]:
    return {
        "sasl_enabled_mechanisms": "SCRAM-SHA-256",
        "sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-256",
        "listener_name_internal_scram__sha__256_sasl_jaas_config": f'{MODULE} username="{name}" password="{password}";',
    }


@pytest.mark.parametrize(
    ("name", "password", "said"),
    [
        ("alice", "a", ""),
        ("alice", "b3-secret", "a password that is not the one in ZooKeeper"),
        ("carol", "a", "ZooKeeper has no such user"),
    ],
)
def test_a_login_with_scram_is_tried_before_anything_is_made(name: str, password: str, said: str) -> None:
    reasons = objections(found(INTERNAL=SASL_PLAINTEXT), **scram(name, password))
    assert len(reasons) == (1 if said else 0) and all(said in one and "b3-secret" not in one for one in reasons), (
        reasons
    )


@pytest.mark.parametrize(("user", "said"), [('user_admin="p3"', 0), ('user_admin="other"', 1), ('user_bob="p3"', 1)])
def test_a_login_with_plain_is_one_that_the_listener_knows(user: str, said: int) -> None:
    settings = {
        "sasl_enabled_mechanisms": "PLAIN",
        "sasl_mechanism_inter_broker_protocol": "PLAIN",
        "listener_name_internal_plain_sasl_jaas_config": f'{PLAIN_MODULE} username="admin" password="p3" {user};',
    }
    reasons = objections(found(INTERNAL=SASL_PLAINTEXT), **settings)
    assert len(reasons) == said and all('add user_admin="..."' in one and "p3" not in one for one in reasons), reasons


def test_controllers_that_others_reach_are_not_left_open_where_the_brokers_are_not() -> None:
    cluster = found(INTERNAL=SASL_PLAINTEXT)
    (reason,) = objections(cluster, host="192.0.2.1", **scram("alice", "a"))
    assert "controllers would speak PLAINTEXT among themselves at 192.0.2.1" in reason
    assert "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT" in reason
    wanted = {"listener_security_protocol_map": "CONTROLLER:PLAINTEXT"}
    assert objections(cluster, host="192.0.2.1", **scram("alice", "a"), **wanted) == []
    assert objections(found(INTERNAL=PLAINTEXT), host="192.0.2.1") == []


def test_a_listener_speaks_one_protocol_everywhere() -> None:
    cluster = found(INTERNAL=PLAINTEXT, CLIENTS=PLAINTEXT)
    (reason,) = objections(cluster, listener_security_protocol_map="CLIENTS:SSL")
    assert "listener.security.protocol.map gives SSL to CLIENTS" in reason
    first, second = cluster.brokers
    other = second._replace(endpoints=found(INTERNAL=PLAINTEXT, CLIENTS=SSL).brokers[1].endpoints)
    (reason,) = objections(cluster._replace(brokers=[first, other]))
    assert "listener CLIENTS speaks PLAINTEXT at one broker and SSL at broker 2" in reason


def test_access_rules_are_not_dropped_unless_the_operator_says_so() -> None:
    cluster = found(INTERNAL=PLAINTEXT)
    (reason,) = bridge_settings.objections(shape(common={}), cluster)
    assert reason.startswith("there are 3 access rules, and nodes without authorizer.class.name obey none of them")
    assert list(bridge_settings.objections(shape(common={"authorizer.class.name": ""}), cluster)) == []
    assert list(bridge_settings.objections(shape(common={}), cluster._replace(rules=0))) == []


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "PLAINTEXT"])
def test_controllers_that_log_in_with_scram_know_the_users_from_the_start(protocol: str, tmp_path: Path) -> None:
    line = f'{MODULE} username="alice" password="a";'
    settings = OBEYED | {
        "listener.security.protocol.map": f"CONTROLLER:{protocol}",
        "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "listener.name.controller.scram-sha-256.sasl.jaas.config": line,
    }
    wanted = shape(common=settings)._replace(directory=tmp_path / "over", controllers=1, brokers=1)
    cluster = found(INTERNAL=PLAINTEXT)
    assert list(bridge_settings.objections(wanted, cluster)) == []
    bridge_cluster.create(wanted, cluster)
    data = b"".join(path.read_bytes() for path in sorted((tmp_path / "over").rglob("*.checkpoint")))
    assert (b"alice" in data) is (protocol == "SASL_PLAINTEXT")
