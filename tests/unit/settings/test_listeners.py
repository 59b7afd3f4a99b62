"""How settings of listeners fit together: purposes, addresses for others, and what stops the start."""

from typing import Any

import pytest

from actors.settings.keys import ConfigError
from actors.settings.listeners import controller_names, controllers_told, listeners_of, told_inter_broker

BROKER, BOTH, CONTROLLER = ("broker",), ("broker", "controller"), ("controller",)
MAP = "C:PLAINTEXT,IN:PLAINTEXT,OUT:SASL_SSL,PLANE:PLAINTEXT"


def made(roles: tuple[str, ...], listeners: str, **given: Any) -> Any:
    values = {name.replace("_", "."): value for name, value in given.items()}
    for name in ("controller.listeners", "advertised.listeners", "rayft.bridge.listener.names"):
        if name in values:
            values[name] = tuple(values[name].split(","))
    values["listeners"] = tuple(listeners.split(","))
    return listeners_of(roles, values, controller_names(roles, values), "me.example")


def kinds(found: Any) -> dict[str, str]:
    return {one.name: one.kind for one in found[0]}


def test_each_listener_has_a_purpose() -> None:
    found = made(
        BOTH, "c://h:1,in://h:2,out://h:3,plane://h:4", controller_listeners="c", inter_broker_listener_name="in",
        control_plane_listener_name="plane", listener_security_protocol_map=MAP,
    )  # fmt: skip
    assert kinds(found) == {"C": "controller", "IN": "inter-broker", "OUT": "client", "PLANE": "control-plane"}
    assert found[2:] == ("IN", "PLANE") and [one.protocol for one in found[0]][2] == "SASL_SSL"
    assert [one.name for one in found[1]] == ["IN", "OUT", "PLANE"], "a controller's listener is not told to clients"


def test_brokers_share_the_only_listener_for_data_with_clients() -> None:
    found = made(BROKER, "PLAINTEXT://:9092", inter_broker_listener_name="plaintext")
    assert kinds(found) == {"PLAINTEXT": "client"} and found[2:] == ("PLAINTEXT", None)
    assert found[0][0].host == "" and found[1][0].host == "me.example", "every interface is bound, and a name is told"


def test_the_first_listener_of_the_protocol_is_the_brokers_own() -> None:
    found = made(BROKER, "OUT://h:1,IN://h:2", listener_security_protocol_map=MAP)
    assert found[2] == "IN"
    found = made(
        BROKER, "OUT://h:1,IN://h:2", listener_security_protocol_map=MAP, security_inter_broker_protocol="SASL_SSL"
    )
    assert found[2] == "OUT"
    plane = {"listener_security_protocol_map": MAP, "control_plane_listener_name": "PLANE"}
    assert made(BROKER, "PLANE://h:1,IN://h:2", **plane)[2] == "IN", "the plane of controllers comes last"


@pytest.mark.parametrize(
    ("roles", "listeners", "given", "words"),
    [
        (BROKER, "PLAINTEXT://h", {}, "write NAME://host:port"),
        (BROKER, "PLAINTEXT://h:65536", {}, "write NAME://host:port"),
        (BROKER, "PLAINTEXT://h:-1", {}, "write NAME://host:port"),
        (BROKER, "PLAINTEXT://a:1,plaintext://b:2", {}, "has the name PLAINTEXT twice"),
        (BROKER, "PLAINTEXT://a:1,SSL://a:1", {}, "on the same a:1: write two ports"),
        (BROKER, "MINE://a:1", {}, "MINE, which has no security protocol"),
        (BROKER, "PLAINTEXT://a:1", {"listener_security_protocol_map": "PLAINTEXT:TLS"}, "says PLAINTEXT:TLS"),
        (BOTH, "PLAINTEXT://a:1", {"controller_listeners": "C"}, "names C, which is not among listeners"),
        (BROKER, "PLAINTEXT://a:1,C://a:2", {"controller_listeners": "C"}, "take C out of listeners"),
        (CONTROLLER, "PLAINTEXT://a:1,C://a:2", {"controller_listeners": "C"}, "leave only C"),
        (CONTROLLER, "C://a:2", {}, "name its listener"),
        (BOTH, "C://a:2", {"controller_listeners": "C,c"}, "names a listener twice"),
        (BOTH, "C://a:2", {"controller_listeners": "C"}, "no listener is left for data"),
        (BROKER, "PLAINTEXT://a:1", {"inter_broker_listener_name": "IN"}, "IN is not among listeners"),
        (
            BROKER, "PLAINTEXT://a:1",
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"}, "are both set",
        ),
        (BROKER, "SSL://a:1", {}, "no listener speaks PLAINTEXT among brokers: write inter.broker.listener.name=SSL"),
        (BROKER, "PLAINTEXT://a:1", {"advertised_listeners": "SSL://a:1"}, "advertised.listeners has SSL, which is not"),
        (BROKER, "PLAINTEXT://0.0.0.0:1", {}, "cannot be told to clients"),
        (BROKER, "PLAINTEXT://a:1", {"rayft_bridge_listener_names": "PLAINTEXT"}, "a broker has listeners of these names"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_with_what_to_write(
    roles: tuple[str, ...], listeners: str, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        made(roles, listeners, **given)


def test_ports_of_the_systems_choice_may_be_alike_and_addresses_of_version_6_are_read() -> None:
    found = made(BROKER, "PLAINTEXT://a:0,SSL://a:0")
    assert [one.port for one in found[0]] == [0, 0]
    assert made(BROKER, "PLAINTEXT://[::1]:9092")[0][0].host == "::1"


def test_controllers_are_reached_where_they_say_or_where_they_listen() -> None:
    values = {
        "listeners": ("C://:1", "D://h:2"),
        "advertised.listeners": ("D://out:9",),
        "controller.listeners": ("D", "C"),
    }
    names = controller_names(CONTROLLER, values)
    bound = listeners_of(CONTROLLER, values, names, "me")[0]
    told = controllers_told(CONTROLLER, values, names, bound, "me")
    assert [(one.name, one.host, one.port) for one in told] == [("D", "out", 9), ("C", "me", 1)]
    with pytest.raises(ConfigError, match="no address that others can dial"):
        controllers_told(CONTROLLER, values | {"advertised.listeners": ("C://0.0.0.0:1",)}, names, bound, "me")
    assert controllers_told(BROKER, values, names, bound, "me") == ()


def test_the_name_that_a_controller_supposes_of_brokers() -> None:
    assert told_inter_broker({}) == "PLAINTEXT"
    assert told_inter_broker({"security.inter.broker.protocol": "SSL"}) == "SSL"
    assert told_inter_broker({"inter.broker.listener.name": "in", "security.inter.broker.protocol": "SSL"}) == "IN"
