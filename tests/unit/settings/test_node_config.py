"""Configuration: the rows of docs/kips.md on modes, listeners, ids, leases and the control plane."""

import importlib
import pkgutil

import pytest

from actors.settings import tables
from actors.settings.keys import ConfigError, ConfigKey
from actors.settings.listeners import ListenerConfig
from actors.settings.node_config import NodeConfig, mode, node_config
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.properties import ALIASES, IDLE, IDLE_PREFIXES, properties
from actors.settings.topics import TOPIC_CONFIGS

BROKER = {
    "process.roles": "broker",
    "broker.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.connect": "1001@127.0.0.1:9093",
}
CONTROLLER = {
    "process.roles": "controller",
    "controller.id": "1001",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "controller.listeners": "CONTROLLER",
    "controller.connect": "1001@127.0.0.1:9093",
}
COMBINED = {
    "process.roles": "broker,controller",
    "broker.id": "1",
    "controller.id": "1001",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listeners": "CONTROLLER",
    "controller.connect": "1001@127.0.0.1:9093",
}
THREE = COMBINED | {
    "listeners": "INTERNAL://h1:9092,CP://h1:9091,CONTROLLER://h1:9093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CP:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
    "control.plane.listener.name": "CP",
}


def config(base: dict[str, str], **changes: str | None) -> NodeConfig:
    """`base` with changes; underscores of keywords are dots, None takes a setting out."""
    given = dict(base)
    for keyword, value in changes.items():
        name = keyword.replace("_", ".")
        if value is None:
            given.pop(name)
        else:
            given[name] = value
    return node_config(given)


def refused(base: dict[str, str], *words: str, **changes: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        config(base, **changes)
    sentence = str(caught.value)
    for word in words:
        assert word in sentence, sentence
    assert sentence.endswith("."), sentence


# ---- R631-001 to R631-010, A54: modes and roles


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "legacy"),
        ({"broker.id": "1"}, "legacy"),
        ({"process.roles": "broker"}, "kip-500"),
        ({"process.roles": "controller"}, "kip-500"),
        ({"process.roles": "broker,controller"}, "kip-500"),
        ({"process.roles": "broker", "zookeeper.connect": "h:2181"}, "kip-500"),
    ],
)
def test_process_roles_alone_decides_the_mode(given: dict[str, str], expected: str) -> None:
    assert mode(given) == expected


def test_legacy_mode_is_refused_with_the_legal_values() -> None:
    refused(
        BROKER,
        "process.roles=broker",
        "process.roles=controller",
        "process.roles=broker,controller",
        process_roles=None,
    )


def test_r631_014_controller_listeners_do_nothing_in_legacy_mode() -> None:
    assert mode({"controller.listeners": "CONTROLLER", "broker.id": "1"}) == "legacy"
    refused(CONTROLLER, "process.roles is not set", process_roles=None)


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("broker", {"broker"}),
        ("broker,controller", {"broker", "controller"}),
        ("controller,broker", {"broker", "controller"}),
        (" broker , controller ", {"broker", "controller"}),
    ],
)
def test_legal_roles(text: str, roles: set[str]) -> None:
    base = COMBINED if len(roles) == 2 else BROKER
    assert config(base, process_roles=text).roles == roles


@pytest.mark.parametrize("text", ["", " ", "observer", "broker,broker", "broker,observer", "broker,", "BROKER"])
def test_illegal_roles_name_the_legal_ones(text: str) -> None:
    refused(BROKER, "process.roles=broker,controller", process_roles=text)


@pytest.mark.parametrize("name", ["zookeeper.connect", "zookeeper.session.timeout.ms"])
def test_zookeeper_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no ZooKeeper"):
        node_config(BROKER | {name: "h:2181"})


# ---- R631-011 to R631-015: controller.listeners


def test_controller_listeners_are_a_list_and_the_first_is_dialled() -> None:
    made = config(
        CONTROLLER,
        controller_listeners="two, ONE",
        listeners="ONE://h:1,TWO://h:2",
        listener_security_protocol_map="ONE:PLAINTEXT,TWO:PLAINTEXT",
    )
    assert [listener.port for listener in made.controller_endpoints] == [2, 1]


@pytest.mark.parametrize("base", [CONTROLLER, COMBINED])
def test_controller_listeners_are_mandatory_for_controllers(base: dict[str, str]) -> None:
    refused(base, "controller.listeners", "CONTROLLER://host:port", controller_listeners=None)


def test_an_unknown_controller_listener_is_refused() -> None:
    refused(COMBINED, "OTHER", "add OTHER://host:port", controller_listeners="OTHER")


def test_a_controller_listener_needs_a_security_protocol() -> None:
    refused(COMBINED, "add CONTROLLER:PLAINTEXT", listener_security_protocol_map="PLAINTEXT:PLAINTEXT")


def test_a_broker_does_not_bind_a_controllers_listener() -> None:
    refused(
        BROKER, "take CONTROLLER out", listeners="PLAINTEXT://h:1,CONTROLLER://h:2", controller_listeners="CONTROLLER"
    )  # fmt: skip


def test_a_controller_binds_nothing_else() -> None:
    refused(CONTROLLER, "PLAINTEXT", "leave only CONTROLLER", listeners="PLAINTEXT://h:1,CONTROLLER://h:2")


def test_a_combined_node_has_three_kinds_of_listener() -> None:
    made = config(THREE)
    assert {listener.name: listener.kind for listener in made.listeners} == {
        "INTERNAL": "client",
        "CP": "control-plane",
        "CONTROLLER": "controller",
    }


def test_r291_23_names_of_listeners_compare_in_upper_case() -> None:
    made = config(
        THREE, listeners="internal://h1:9092,Cp://h1:9091,controller://h1:9093", control_plane_listener_name="cP"
    )
    assert [listener.name for listener in made.listeners] == ["INTERNAL", "CP", "CONTROLLER"]
    assert made.control_plane_listener == "CP"


def test_control_plane_and_controller_listener_must_differ() -> None:
    refused(THREE, "control.plane.listener.name=CONTROLLER", "controller.listeners=CONTROLLER", "two names",
            control_plane_listener_name="CONTROLLER")  # fmt: skip


# ---- R631-016, R631-017, A11: controller.connect


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1001@h:1", [(1001, "h", 1)]),
        ("1001@h1:1,1002@h2:2, 1003@h3:3", [(1001, "h1", 1), (1002, "h2", 2), (1003, "h3", 3)]),
        ("h1:1,h2:2", [(None, "h1", 1), (None, "h2", 2)]),
        ("CONTROLLER://h:1", [(None, "h", 1)]),
        ("1001@[::1]:9093", [(1001, "::1", 9093)]),
        ("[fe80::1%eth0]:9093", [(None, "fe80::1%eth0", 9093)]),
        ("2@a:1,3@b:1,4@c:1,5@d:1,6@e:1", [(2, "a", 1), (3, "b", 1), (4, "c", 1), (5, "d", 1), (6, "e", 1)]),
    ],
)
def test_controllers_to_contact(text: str, expected: list[tuple[int | None, str, int]]) -> None:
    assert list(config(BROKER, controller_connect=text).controller_connect) == expected


@pytest.mark.parametrize(
    "entry", ["h", "h:", "h:x", "h:0", "h:70000", ":1", "x@h:1", "1@", "::1:9093", "1@h:1@2", "2147483648@h:1"]
)
def test_a_malformed_controller_is_named(entry: str) -> None:
    refused(BROKER, f"the entry {entry}", "id@host:port", controller_connect=f"1@h:1,{entry}")


def test_ids_are_given_to_all_controllers_or_to_none_and_once() -> None:
    refused(BROKER, "for all, or for none", controller_connect="1@h:1,h:2")
    refused(BROKER, "twice", controller_connect="1@h:1,1@h:2")


@pytest.mark.parametrize("base", [BROKER, CONTROLLER, COMBINED])
def test_every_node_needs_controllers_to_contact(base: dict[str, str]) -> None:
    refused(base, "controller.connect", "1001@host1:9093", controller_connect=None)
    refused(base, "controller.connect", controller_connect="")


@pytest.mark.parametrize(
    "given",
    [
        {"process.roles": "broker", "broker.id": "1", "controller.connect": "h:9093"},
        {
            "process.roles": "controller",
            "controller.id": "1001",
            "controller.listeners": "CONTROLLER",
            "listeners": "CONTROLLER://h:9093",
            "controller.connect": "1001@h:9093",
        },
    ],
    ids=["broker", "controller"],
)
def test_r500_05_what_a_node_must_be_told_and_nothing_else(given: dict[str, str]) -> None:
    """What it is, who it is, and where controllers are. A broker listens where Kafka's clients look for it."""
    made = node_config(given)
    assert (made.broker_id, made.controller_id) in ((1, -1), (-1, 1001)) and made.log_dirs
    assert made.controller_id > 0 or (made.listeners[0].host, made.listeners[0].port) == ("127.0.0.1", 9092)
    for name in given:
        with pytest.raises(ConfigError):
            node_config({other: value for other, value in given.items() if other != name})


# ---- R631-018, R631-019, R631-026 to R631-029, A13: ids


@pytest.mark.parametrize("text", ["-1", "2147483648", "one", "", "1.5", "1_0"])
@pytest.mark.parametrize(("base", "name"), [(CONTROLLER, "controller_id"), (BROKER, "broker_id")])
def test_an_id_that_cannot_be(base: dict[str, str], name: str, text: str) -> None:
    refused(base, name.replace("_", "."), **{name: text})


@pytest.mark.parametrize("id", [0, 2147483647])
def test_ids_from_end_to_end(id: int) -> None:
    assert config(CONTROLLER, controller_id=str(id)).controller_id == id
    assert config(BROKER, broker_id=str(id)).broker_id == id
    assert config(COMBINED, controller_id=str(id)).controller_id == id


@pytest.mark.parametrize(
    ("base", "name"), [(CONTROLLER, "controller_id"), (BROKER, "broker_id"), (COMBINED, "broker_id")]
)
def test_an_id_is_never_invented(base: dict[str, str], name: str) -> None:
    refused(base, name.replace("_", "."), "never invented", **{name: None})


def test_a_broker_needs_no_controller_id() -> None:
    made = config(BROKER)
    assert (made.broker_id, made.controller_id) == (1, -1)


def test_one_id_space() -> None:
    refused(COMBINED, "broker.id and controller.id are both 7", broker_id="7", controller_id="7")


def test_node_id_stands_for_the_one_id() -> None:
    assert config(BROKER, broker_id=None, node_id="5").broker_id == 5
    assert config(CONTROLLER, controller_id=None, node_id="5").controller_id == 5
    assert config(BROKER, node_id="1").broker_id == 1
    refused(BROKER, "node.id=5 and broker.id=1", node_id="5")


def test_node_id_alone_cannot_name_two_roles() -> None:
    refused(COMBINED, "broker.id and controller.id", broker_id=None, controller_id=None, node_id="1")


def test_generated_ids_mean_nothing() -> None:
    made = config(BROKER, broker_id_generation_enable="true", reserved_broker_max_id="0")
    assert made.broker_id == 1
    assert sum("no effect" in notice for notice in made.notices) == 2


# ---- R631-020 to R631-025, A25: leases


def test_heartbeats_and_leases_by_default() -> None:
    made = config(BROKER)
    assert [made.heartbeat_interval_ms(level) for level in (None, 1, 2)] == [2000, 3000, 2000]
    assert [made.lease_ms(level) for level in (1, 2)] == [30000, 20000]


@pytest.mark.parametrize(("interval", "first", "second"), [("3000", 30000, 20000), ("500", 5000, 20000)])
def test_a_lease_is_ten_intervals_at_level_1_and_independent_at_level_2(interval: str, first: int, second: int) -> None:
    made = config(BROKER, registration_heartbeat_interval_ms=interval)
    assert (made.lease_ms(1), made.lease_ms(2)) == (first, second)
    assert made.heartbeat_interval_ms(1) == int(interval)


def test_a_lease_that_is_given_wins_at_both_levels() -> None:
    made = config(BROKER, broker_session_timeout_ms="9000")
    assert (made.lease_ms(1), made.lease_ms(2)) == (9000, 9000)


@pytest.mark.parametrize(("interval", "lease"), [("2000", "2000"), ("5000", "4000"), ("20000", None)])
def test_a_lease_that_cannot_be_kept(interval: str, lease: str | None) -> None:
    changes = {} if lease is None else {"registration_lease_timeout_ms": lease}
    refused(BROKER, lease or "20000", interval, registration_heartbeat_interval_ms=interval, **changes)


def test_a_weakened_quorum_has_snapshot_settings_of_its_own() -> None:
    made = config(CONTROLLER)
    for name in ("metadata.log.max.record.bytes.between.snapshots", "metadata.log.max.snapshot.interval.ms"):
        assert made.value(name + ".degraded") == 10 * made.value(name)


# ---- R631-031, R631-035; R291-18 to R291-24: listeners


def test_controllers_listen_apart_from_brokers() -> None:
    refused(COMBINED, "same 127.0.0.1:9092", listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9092")
    refused(BROKER, "twice", listeners="PLAINTEXT://h:1,PLAINTEXT://h:2")


def test_controller_endpoints_are_never_advertised() -> None:
    assert [listener.name for listener in config(COMBINED).advertised] == ["PLAINTEXT"]
    both = config(COMBINED, advertised_listeners="PLAINTEXT://h:1,CONTROLLER://h:2")
    assert [listener.name for listener in both.advertised] == ["PLAINTEXT"]
    assert [(one.name, one.host, one.port) for one in both.controller_advertised] == [("CONTROLLER", "h", 2)]
    refused(BROKER, "a controller's listener", advertised_listeners="PLAINTEXT://h:1,CONTROLLER://h:2",
            controller_listeners="CONTROLLER")  # fmt: skip


def test_a_brokers_id_is_no_controllers() -> None:
    refused(BROKER, "names 1 as the id of a controller", broker_id="1", controller_connect="1@h:9093")
    refused(COMBINED, "share one id space", controller_connect=f"{config(COMBINED).broker_id}@h:9093,1001@h:9094")


JOINS = {"controller_quorum_auto_join_enable": "true", "controller_connect": "first:9093"}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"listeners": "CONTROLLER://:9093"}, ("this-machine", 9093)),
        ({"listeners": "CONTROLLER://10.0.0.2:9093"}, ("10.0.0.2", 9093)),
        ({"listeners": "CONTROLLER://0.0.0.0:9093"}, ("0.0.0.0", 9093)),
        ({"listeners": "CONTROLLER://[::]:9093"}, ("::", 9093)),
        ({"listeners": "CONTROLLER://0.0.0.0:9093", "advertised_listeners": "controller://b:19093"}, ("b", 19093)),
        ({"listeners": "CONTROLLER://0.0.0.0:9093", "advertised_listeners": "CONTROLLER://:19093"},
         ("this-machine", 19093)),
    ],
)  # fmt: skip
def test_where_a_controller_is_reached(changes: dict[str, str], told: tuple[str, int]) -> None:
    given = {name.replace("_", "."): value for name, value in changes.items()}
    made = node_config(CONTROLLER | given, "this-machine")
    assert [(one.host, one.port) for one in made.controller_advertised] == [told]
    assert made.advertises("CONTROLLER") is ("advertised_listeners" in changes)
    if told[0] in ("0.0.0.0", "::"):
        refused(CONTROLLER, "listens on every interface", **changes, **JOINS)
        named = config(CONTROLLER, **changes, **JOINS | {"controller_connect": f"{made.controller_id}@first:9093"})
        assert named.controller_advertised == made.controller_advertised
    else:
        assert config(CONTROLLER, **changes, **JOINS).value("controller.quorum.auto.join.enable")


def test_what_a_controller_advertises_is_obeyed_or_refused() -> None:
    refused(CONTROLLER, "not among listeners", advertised_listeners="PLAINTEXT://h:1")
    refused(CONTROLLER, "no address that others can dial", advertised_listeners="CONTROLLER://0.0.0.0:9093")


KIP_291 = BROKER | {
    "listeners": "INTERNAL://192.1.1.8:9092,EXTERNAL://10.1.1.5:9093,CONTROLLER://192.1.1.8:9091",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "INTERNAL",
    "control.plane.listener.name": "controller",
}


def test_the_example_of_kip_291() -> None:
    made = config(
        KIP_291,
        ssl_keystore_location="node.pem",
        advertised_listeners="INTERNAL://b1.example.com:9092,EXTERNAL://host1.example.com:9093,CONTROLLER://b1.example.com:9091",
    )
    assert made.control_plane_listener == "CONTROLLER"
    assert made.inter_broker_listener == "INTERNAL"
    assert made.listeners == (
        ListenerConfig("INTERNAL", "192.1.1.8", 9092, "PLAINTEXT", "inter-broker"),
        ListenerConfig("EXTERNAL", "10.1.1.5", 9093, "SSL", "client"),
        ListenerConfig("CONTROLLER", "192.1.1.8", 9091, "SSL", "control-plane"),
    )
    assert [(x.name, x.host, x.port) for x in made.advertised] == [
        ("INTERNAL", "b1.example.com", 9092),
        ("EXTERNAL", "host1.example.com", 9093),
        ("CONTROLLER", "b1.example.com", 9091),
    ]


def test_without_a_control_plane_nothing_is_added() -> None:
    made = config(BROKER)
    assert made.control_plane_listener is None
    assert [listener.kind for listener in made.listeners] == ["client"]


def test_bind_and_advertised_lists() -> None:
    assert config(BROKER, listeners=None).listeners[0][:3] == ("PLAINTEXT", "127.0.0.1", 9092)
    made = config(BROKER, advertised_listeners="PLAINTEXT://public:29092")
    assert made.listeners[0].host == "127.0.0.1"
    assert made.advertised[0][:3] == ("PLAINTEXT", "public", 29092)
    every = node_config(BROKER | {"listeners": "PLAINTEXT://:9092"}, "me.example.com")
    assert (every.listeners[0].host, every.advertised[0].host) == ("", "me.example.com")


def test_the_listener_of_brokers_is_told_to_brokers() -> None:
    """Else no follower would find its leader, and nobody would say why."""
    two = BROKER | {
        "listeners": "PLAINTEXT://h:1,INTERNAL://h:2",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
    }
    refused(two, "INTERNAL://host:port", advertised_listeners="PLAINTEXT://h:1")
    assert config(two, advertised_listeners="PLAINTEXT://h:1,INTERNAL://h:2").inter_broker_listener == "INTERNAL"


def test_no_listener_is_told_that_nobody_opens() -> None:
    refused(
        BROKER,
        "OTHER",
        advertised_listeners="PLAINTEXT://h:1,OTHER://h:2",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    )


@pytest.mark.parametrize(
    "changes", [{"listeners": "PLAINTEXT://0.0.0.0:9092"}, {"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}]
)
def test_an_address_that_is_none_is_not_advertised(changes: dict[str, str]) -> None:
    refused(BROKER, "advertised.listeners=PLAINTEXT://host:9092", **changes)


@pytest.mark.parametrize(
    "name", ["host", "port", "host.name", "advertised.host", "advertised.port", "advertised.host.name"]
)
def test_the_old_names_of_addresses(name: str) -> None:
    with pytest.raises(ConfigError, match=r"write (advertised\.)?listeners=PLAINTEXT://host:port"):
        node_config(BROKER | {name: "9092"})


def test_the_inter_broker_listener_is_given_or_derived() -> None:
    two = BROKER | {"listeners": "A://h:1,B://h:2", "listener.security.protocol.map": "A:SSL,B:PLAINTEXT"}
    two |= {"ssl.keystore.location": "node.pem"}
    assert config(two).inter_broker_listener == "B"
    assert config(two, security_inter_broker_protocol="SSL").inter_broker_listener == "A"
    assert config(two, inter_broker_listener_name="a").inter_broker_listener == "A"
    refused(two, "add C://host:port", inter_broker_listener_name="C")
    plane = BROKER | {"listeners": "CP://h:1,B://h:2", "listener.security.protocol.map": "CP:PLAINTEXT,B:PLAINTEXT"}
    assert config(plane, control_plane_listener_name="CP").inter_broker_listener == "B"


@pytest.mark.parametrize(
    "entry", ["PLAINTEXT", "PLAINTEXT://h", "PLAINTEXT://h:99999", "://h:1", "PLAINTEXT://h:1/x", "h:1"]
)
def test_a_malformed_listener_is_named(entry: str) -> None:
    refused(BROKER, f"the entry {entry}", "NAME://host:port", listeners=entry)


def test_real_ports_take_the_place_of_zero() -> None:
    made = config(BROKER, listeners="PLAINTEXT://h:0").with_ports({"PLAINTEXT": 4711})
    assert (made.listeners[0].port, made.advertised[0].port) == (4711, 4711)


# ---- start-up validation V1 to V8


def test_v1_not_among_listeners() -> None:
    refused(THREE, "CP", "add CP://host:port", listeners="INTERNAL://h1:9092,CONTROLLER://h1:9093")


def test_v2_not_among_advertised_listeners() -> None:
    refused(THREE, "advertised.listeners", "CP://host:port there too", advertised_listeners="INTERNAL://h1:9092")


def test_v3_no_security_protocol() -> None:
    refused(THREE, "CP", "add CP:PLAINTEXT", listener_security_protocol_map="INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT")


def test_v4_is_the_inter_broker_listener() -> None:
    refused(
        THREE,
        "control.plane.listener.name=INTERNAL",
        "inter.broker.listener.name",
        control_plane_listener_name="INTERNAL",
    )
    only = {"listeners": "CP://h1:1,CONTROLLER://h1:2", "security_inter_broker_protocol": "PLAINTEXT"}
    refused(THREE, "given or derived: CP", inter_broker_listener_name=None, **only)


def test_v5_is_a_controllers_listener() -> None:
    refused(THREE, "controller.listeners=CONTROLLER", control_plane_listener_name="controller")


def test_v6_does_nothing_on_a_controller() -> None:
    refused(CONTROLLER, "does nothing", control_plane_listener_name="CP")


def test_v7_two_ways_to_name_the_inter_broker_listener() -> None:
    refused(THREE, "both set", security_inter_broker_protocol="PLAINTEXT")


def test_v8_no_listener_is_left_for_data() -> None:
    refused(COMBINED, "no listener is left for data", listeners="CONTROLLER://h:1")


# ---- names, aliases, values


@pytest.mark.parametrize(("released", "name"), sorted(ALIASES.items()))
def test_both_names_are_accepted_and_must_agree(released: str, name: str) -> None:
    same = {"controller.listeners": "CONTROLLER", "controller.connect": "1001@127.0.0.1:9093"}.get(name, "4000")
    other = {"controller.listeners": "OTHER", "controller.connect": "1001@elsewhere:9093"}.get(name, "5000")
    base = {key: value for key, value in COMBINED.items() if key != name}
    assert node_config(base | {released: same}).given[name] == same
    assert node_config(base | {released: same, name: same}).given[name] == same
    with pytest.raises(ConfigError, match="mean the same setting and differ") as caught:
        node_config(base | {released: same, name: other})
    if BROKER_CONFIGS[name].sensitive:
        assert same not in str(caught.value) and other not in str(caught.value)


def test_voters_and_bootstrap_servers_must_agree() -> None:
    base = {key: value for key, value in BROKER.items() if key != "controller.connect"}
    with pytest.raises(ConfigError, match="differ"):
        node_config(base | {"controller.quorum.voters": "1@h:1", "controller.quorum.bootstrap.servers": "h:1"})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("log.retention.hrs", "did you mean log.retention.hours?"),
        ("proces.roles", "did you mean process.roles?"),
        ("retention.ms", "log.retention.ms"),
        ("completely.different", "leave it out"),
        ("transaction.state.log.replication.factr", "did you mean transaction.state.log.replication.factor?"),
        ("group.share.recrod.lock.duration.ms", "did you mean group.share.record.lock.duration.ms?"),
        ("group.streams.num.stanby.replicas", "did you mean group.streams.num.standby.replicas?"),
    ],
)
def test_an_unknown_setting_stops_the_start(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        node_config(BROKER | {name: "1"})
    assert name in str(caught.value)
    assert hint in str(caught.value)


def test_a_setting_is_in_one_table() -> None:
    rows = [row.name for path in pkgutil.iter_modules(tables.__path__) for row in table(path.name)]
    assert len(rows) == len(set(rows)) and set(rows) == BROKER_CONFIGS.keys()


def table(name: str) -> tuple[ConfigKey, ...]:
    found: tuple[ConfigKey, ...] = importlib.import_module(f"{tables.__name__}.{name}").ROWS
    return found


def test_what_has_an_effect_is_not_among_the_settings_without() -> None:
    assert not IDLE & BROKER_CONFIGS.keys()
    assert not [name for name in BROKER_CONFIGS if name.startswith(IDLE_PREFIXES)]


@pytest.mark.parametrize(
    "name", ["num.io.threads", "share.coordinator.threads", "metric.reporters", "group.share.max.groups"]
)
def test_settings_without_effect_are_named_in_the_log(name: str) -> None:
    assert any(notice.startswith(f"{name} has no effect") for notice in node_config(BROKER | {name: "3"}).notices)


def test_a_callback_for_quotas_is_refused_and_the_windows_are_read() -> None:
    with pytest.raises(ConfigError, match=r"client.quota.callback.class.*kafka-configs"):
        node_config(BROKER | {"client.quota.callback.class": "com.example.Quotas"})
    with pytest.raises(ConfigError, match=r"quota.window.num=0 is not allowed"):
        node_config(BROKER | {"quota.window.num": "0"}).value("quota.window.num")
    config = node_config(BROKER | {"quota.window.num": "3", "controller.quota.window.size.seconds": "5"})
    assert config.value("quota.window.num") == 3 and config.value("controller.quota.window.size.seconds") == 5
    assert not config.notices


@pytest.mark.parametrize("name", ["ssl.engine.factory.class", "sasl.login.class", "principal.builder.class"])
def test_security_is_refused_rather_than_ignored(name: str) -> None:
    with pytest.raises(ConfigError, match="does not exist here"):
        node_config(BROKER | {name: "x"})


@pytest.mark.parametrize(
    ("name", "text", "wants"),
    [
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "many", "at least 1"),
        ("log.cleanup.policy", "squash", "delete, compact or both"),
        ("log.segment.bytes", "100", "at least 1048576"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("compression.type", "brotli", "zstd"),
        ("log.cleaner.min.cleanable.ratio", "1.5", "from 0 to 1"),
        ("offsets.topic.replication.factor", "40000", "16 bits"),
    ],
)
def test_an_illegal_value_says_what_is_legal(name: str, text: str, wants: str) -> None:
    with pytest.raises(ConfigError) as caught:
        node_config(BROKER | {name: text})
    assert f"{name}={text}" in str(caught.value)
    assert wants in str(caught.value) or wants == "16 bits"


def test_values_and_defaults() -> None:
    made = config(BROKER, log_dirs="/a, /b", socket_request_max_bytes="1000")
    assert made.log_dirs == ("/a", "/b")
    assert made.metadata_log_dir == "/a"
    assert made.value("socket.request.max.bytes") == 1000
    assert made.value("queued.max.requests") == 500
    assert made.value("broker.session.timeout.ms") == 20000
    assert config(BROKER, log_dir="/c").log_dirs == ("/c",)
    with pytest.raises(KeyError):
        made.value("no.such.setting")


# ---- topics


def test_topic_settings_inherit_the_nodes() -> None:
    made = config(
        BROKER, log_retention_hours="2", log_roll_hours="3", min_insync_replicas="2", log_flush_interval_ms="7"
    )
    topic = made.topic({})
    assert (topic.retention_ms, topic.segment_ms, topic.min_insync_replicas, topic.flush_ms) == (
        7200000,
        10800000,
        2,
        7,
    )
    assert made.topic({"retention.ms": "5"}).retention_ms == 5
    assert config(BROKER, log_retention_minutes="1", log_retention_hours="9").topic({}).retention_ms == 60000
    assert config(BROKER, log_retention_hours="-1").topic({}).retention_ms == -1


def test_topic_settings_by_default() -> None:
    topic = config(BROKER).topic({})
    assert (topic.retention_ms, topic.segment_bytes, topic.flush_messages) == (604800000, 1 << 30, (1 << 63) - 1)
    assert (topic.compact, topic.delete) == (False, True)
    assert config(BROKER).topic({"cleanup.policy": "compact,delete"}).compact


def test_cluster_wide_settings_stand_between() -> None:
    made = config(BROKER, log_retention_ms="1000")
    assert made.topic({}, {"log.retention.ms": "2000"}).retention_ms == 2000
    assert made.topic({"retention.ms": "3000"}, {"log.retention.ms": "2000"}).retention_ms == 3000
    assert made.topic({}, {"log.retention.ms": "0"}).retention_ms == 1000, "recorded before it was refused"


def test_small_segments_for_tests() -> None:
    assert config(BROKER).topic({"internal.segment.bytes": "100"}).segment_bytes == 100


@pytest.mark.parametrize("name", ["segment.bytes", "cleanup.policy", "retention.ms", "remote.storage.enable"])
def test_a_topic_setting_is_checked(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
        config(BROKER).topic({name: "true" if name.startswith("remote") else "-7"})


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS])
def test_every_row_is_whole(table: dict) -> None:  # type: ignore[type-arg]
    for name, key in table.items():
        assert key.name == name
        assert key.doc.endswith("."), name
        if key.default is not None:
            assert key.parse(key.text(key.default)) == key.default, name
        for synonym in key.synonyms:
            assert synonym in BROKER_CONFIGS, name


# ---- the file


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc:3\nd 4\n", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# no\n! no\n\n  a=1", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=one, \\\n   two", {"a": "one, two"}),
        ("a=end\\\\\nb=2", {"a": "end\\", "b": "2"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("a=\\u00e9\\t\\x", {"a": "é\tx"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=v \r\nb=w", {"a": "v ", "b": "w"}),
        ("a=#no comment", {"a": "#no comment"}),
    ],
)
def test_properties_files(text: str, expected: dict[str, str]) -> None:
    assert properties(text) == expected


def test_r631_089_r497_37_no_setting_gates_formats_the_clusters_feature_does() -> None:
    refused(
        BROKER,
        "inter.broker.protocol.version",
        "metadata.format",
        inter_broker_protocol_version="2.7",
    )


@pytest.mark.parametrize("name", ["log.retention.ms", "log.retention.minutes", "log.retention.hours"])
def test_a_retention_of_nothing_is_refused_as_apache_kafka_does(name: str) -> None:
    """Who means no limit writes -1; taken at its word, 0 deletes every record of every topic."""
    refused(BROKER, name, "-1", **{name.replace(".", "_"): "0"})
    assert config(BROKER, **{name.replace(".", "_"): "-1"}).topic({}).retention_ms == -1
    assert config(BROKER).topic({"retention.ms": "0"}).retention_ms == 0, "of one topic it is allowed"


# ---- KIP-291, push mode (G-40)

TOLD = {
    "process.roles": "broker",
    "broker.id": "1",
    "controller.connect": "1001@127.0.0.1:9093",
    "listeners": "PLAINTEXT://h1:9092,CP://h1:9091",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CP:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "control.plane.listener.name": "CP",
    "rayft.metadata.source": "push",
}


def test_a_broker_that_is_told_has_to_be_reached_while_it_is_fenced() -> None:
    assert config(TOLD).is_pushed and not config(TOLD, rayft_metadata_source="log").is_pushed
    assert not [line for line in config(TOLD).notices if "probes" in line]
    assert [line for line in config(TOLD, rayft_metadata_source="log").notices if "probes" in line]
    listeners = {"listeners": "PLAINTEXT://h1:9092", "control_plane_listener_name": None}
    refused(TOLD, "rayft.metadata.source=push", "open while the broker is fenced", **listeners)
    given = {key.replace(".", "_"): None for key in ("control.plane.listener.name",)}
    between = config(TOLD, inter_broker_listener_name="CP", **given)  # type: ignore[arg-type]
    assert between.is_pushed and between.push_listener == "CP"


def test_what_is_not_pushed_cannot_be_asked_of_a_broker_that_is_told() -> None:
    authorizer = {"authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    refused(TOLD, "rayft.metadata.source=push", "access rules are not pushed", **authorizer)
    refused(TOLD, "credentials are not pushed", sasl_enabled_mechanisms="SCRAM-SHA-512")
    refused(THREE, "rayft.metadata.source=push", "has the metadata log", rayft_metadata_source="push")
    refused(TOLD, "write log or push", rayft_metadata_source="pull")


def test_r291_25_26_a_controller_that_pushes_may_name_the_control_plane() -> None:
    pushes = CONTROLLER | {"rayft.metadata.push.enable": "true"}
    assert config(pushes).pushes and not config(CONTROLLER).pushes
    assert config(pushes).push_listener == "PLAINTEXT"
    assert config(pushes, inter_broker_listener_name="internal").push_listener == "INTERNAL"
    named = config(pushes, inter_broker_listener_name="INTERNAL", control_plane_listener_name="cp")
    assert (named.push_listener, [one.name for one in named.listeners]) == ("CP", ["CONTROLLER"])
    refused(pushes, "two names", control_plane_listener_name="CONTROLLER")


def test_a_controller_logs_in_at_the_control_plane_as_between_brokers() -> None:
    """Dialled with the protocol that goes with the listener's name."""
    made = config(
        CONTROLLER,
        rayft_metadata_push_enable="true",
        control_plane_listener_name="CP",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,CP:SASL_PLAINTEXT",
        sasl_mechanism_inter_broker_protocol="PLAIN",
        sasl_enabled_mechanisms="PLAIN",
        **{
            "listener.name.cp.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
            )
        },
    )
    login = made.security["CP"].login
    assert login is not None and (login.mechanism, login.name) == ("PLAIN", "u")


# ---- controllers for brokers in ZooKeeper mode

BRIDGE = CONTROLLER | {
    "listeners": "CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:9194",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT",
    "rayft.bridge.listener.names": "plaintext,INTERNAL",
    "rayft.metadata.push.enable": "true",
}


def test_a_controller_has_listeners_named_as_those_of_brokers_in_zookeeper_mode() -> None:
    found = config(BRIDGE)
    assert [(one.name, one.kind) for one in found.listeners] == [
        ("CONTROLLER", "controller"),
        ("PLAINTEXT", "bridge"),
        ("INTERNAL", "bridge"),
    ]
    told = found.with_ports({"PLAINTEXT": 4711}).bridge_endpoints
    assert [(one.name, one.host, one.port) for one in told] == [
        ("PLAINTEXT", "127.0.0.1", 4711),
        ("INTERNAL", "127.0.0.1", 9194),
    ]
    elsewhere = config(BRIDGE, advertised_listeners="PLAINTEXT://c1.example:9092,INTERNAL://c1.example:9094")
    assert [(one.name, one.host) for one in elsewhere.bridge_endpoints] == [
        ("PLAINTEXT", "c1.example"),
        ("INTERNAL", "c1.example"),
    ]
    assert not elsewhere.advertised and not config(CONTROLLER).bridge_endpoints


def test_bridge_listeners_that_cannot_be() -> None:
    name = "rayft.bridge.listener.names"
    refused(BRIDGE, "rayft.metadata.push.enable=true", rayft_metadata_push_enable="false")
    refused(BRIDGE, f"{name} and controller.listeners both name CONTROLLER", rayft_bridge_listener_names="CONTROLLER")
    refused(BRIDGE, f"{name} names SSL", rayft_bridge_listener_names="SSL,PLAINTEXT,INTERNAL")
    refused(BRIDGE, "listeners has INTERNAL", rayft_bridge_listener_names="PLAINTEXT")
    refused(BRIDGE, name, "for each of the latter", advertised_listeners="PLAINTEXT://c1.example:9092")
    refused(COMBINED, f"{name} and process.roles=broker,controller", rayft_bridge_listener_names="PLAINTEXT")
    refused(BRIDGE, "0.0.0.0 is no address", listeners=BRIDGE["listeners"].replace("127.0.0.1:0", "0.0.0.0:9092"))
