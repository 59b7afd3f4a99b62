"""Listeners of a node: what is bound, what others are told, and what each is for.

This file alone decides how the settings of listeners fit together: purposes (KIP-291), the listener of brokers among
themselves, controllers' listeners (KIP-631), those for brokers in ZooKeeper mode, and the security of each. Listener names
are compared in upper case (R291-23).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from actors.authorization.addresses import is_every_interface
from actors.settings.keys import ConfigError
from actors.settings.listener_security import ListenerSecurity, listener_security

SOURCE, PUSH = "rayft.metadata.source", "rayft.metadata.push.enable"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerConfig(NamedTuple):
    """One listener: the address to bind or, in `advertised`, the address to tell others."""

    name: str
    host: str
    """The host name or address; empty: every interface."""
    port: int
    """The port number; 0: any free port."""
    protocol: str
    kind: str
    """The purpose of the listener: client, inter-broker, control-plane, controller or bridge, the values of
    `node/runtime/calls.Listener`."""


def controller_names(roles: Sequence[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the controllers' listeners; the first is the one that other nodes dial."""
    names = tuple(name.upper() for name in values.get("controller.listeners") or () if name)
    if "controller" in roles and not names:
        raise ConfigError(
            "controller.listeners is not set and this process has the controller role: name its listener, for example "
            "controller.listeners=CONTROLLER with CONTROLLER://host:port among listeners."
        )
    if len(set(names)) != len(names):
        raise ConfigError(f"controller.listeners={','.join(names)} names a listener twice: write each once.")
    return names


def listeners_of(
    roles: Sequence[str], values: Mapping[str, Any], controller_names: tuple[str, ...], hostname: str
) -> tuple[tuple[ListenerConfig, ...], tuple[ListenerConfig, ...], str, str | None]:
    """(to bind, to advertise, name of the inter-broker listener, name of the control plane or None)."""
    protocols = _protocols(values, controller_names)
    entries = values.get("listeners") or ("PLAINTEXT://127.0.0.1:9092",)
    bound = [entry.partition("://")[0].upper() for entry in entries]
    bridge = _bridge(roles, values, bound, controller_names)
    _check_controller_listeners(roles, [name for name in bound if name not in bridge], controller_names)
    bind = _endpoints("listeners", entries, protocols)
    given = values.get("advertised.listeners") or ()
    advertised = _endpoints("advertised.listeners", given, protocols) if given else bind
    inter_broker = _inter_broker(roles, values, bind, controller_names) if "broker" in roles else ""
    control = (values.get("control.plane.listener.name") or "").upper() or None
    if control and "broker" not in roles and is_pusher(roles, values):
        _check_plane_is_not_controllers(control, controller_names)
    elif control:
        _check_control_plane(roles, control, bind, advertised, protocols, inter_broker, controller_names)
    data = [x for x in bind if x.name not in controller_names and x.name != control]
    if "broker" in roles and not data:
        raise ConfigError(
            "no listener is left for data after the controllers' and the control plane's: add one to listeners, "
            "for example PLAINTEXT://host:9092."
        )
    separate = "inter.broker.listener.name" in values and len(data) > 1

    def kind(name: str) -> str:
        if name in controller_names:
            return "controller"
        if name in bridge:
            return "bridge"
        if name == control:
            return "control-plane"
        return "inter-broker" if separate and name == inter_broker else "client"

    told: tuple[ListenerConfig, ...] = ()
    if "broker" in roles or bridge:
        is_controller = "controller" in roles
        told = _advertised(advertised, controller_names, bool(given), hostname, is_controller=is_controller)
    if bridge:
        _check_bridge_is_told(bridge, _names(told))
    elif told:
        _check_told(_names(told), _names(bind), inter_broker)
    return (
        tuple(x._replace(kind=kind(x.name)) for x in bind),
        tuple(x._replace(kind=kind(x.name)) for x in told),
        inter_broker,
        control,
    )


def _bridge(
    roles: Sequence[str], values: Mapping[str, Any], bound: Sequence[str], controller_names: Sequence[str]
) -> tuple[str, ...]:
    """The listeners for brokers in ZooKeeper mode and their clients."""
    setting = "rayft.bridge.listener.names"
    names = tuple(dict.fromkeys(name.upper() for name in values.get(setting) or () if name))
    zookeeper = "rayft.bridge.zookeeper.connect"
    if values.get(zookeeper) and not names:
        raise ConfigError(
            f"{zookeeper} without {setting}: the brokers of that cluster could not reach this controller; write it too."
        )
    if names and "broker" in roles:
        raise ConfigError(
            f"{setting} and process.roles={','.join(roles)}: a broker has listeners of these names itself: leave it out, "
            f"and run controllers as processes of their own."
        )
    if names and not values.get(PUSH):
        raise ConfigError(
            f"{setting} without {PUSH}=true: brokers in ZooKeeper mode are told of metadata; write it too."
        )
    for name in names:
        if name in controller_names:
            raise ConfigError(f"{setting} and controller.listeners both name {name}: write two listeners.")
        if name not in bound:
            raise ConfigError(
                f"{setting} names {name}, which is not among listeners ({_listed(bound)}): add {name}://host:port."
            )
    return names


def _check_bridge_is_told(names: Sequence[str], told: Sequence[str]) -> None:
    if set(names) != set(told):
        raise ConfigError(
            f"advertised.listeners has {_listed(told)}, and rayft.bridge.listener.names {_listed(names)}: write an "
            f"address for each of the latter, and no other."
        )


def is_pusher(roles: Sequence[str], values: Mapping[str, Any]) -> bool:
    """Whether a process tells brokers of metadata."""
    return "controller" in roles and bool(values.get(PUSH))


def told_inter_broker(values: Mapping[str, Any]) -> str:
    """The name of the brokers' inter-broker listener, as far as a node knows it that has none itself."""
    return str(
        values.get("inter.broker.listener.name") or values.get("security.inter.broker.protocol") or "PLAINTEXT"
    ).upper()


def check_pushed(
    roles: Sequence[str],
    values: Mapping[str, Any],
    given: Mapping[str, str],
    listeners: Sequence[ListenerConfig],
) -> None:
    """Check that a broker can do with what controllers push: they are heard while it is fenced, and know neither rules
    nor credentials. Raises ConfigError."""
    setting = f"{SOURCE}=push"
    if "controller" in roles:
        raise ConfigError(
            f"{setting} and process.roles=broker,controller: a controller has the metadata log: write log."
        )
    if all(listener.kind == "client" for listener in listeners):
        raise ConfigError(
            f"{setting} needs a listener that is open while the broker is fenced: name one in control.plane.listener.name, "
            f"or a separate one in inter.broker.listener.name."
        )
    if values.get("authorizer.class.name"):
        raise ConfigError(
            f"{setting} and authorizer.class.name: access rules are not pushed: write log, or leave it out."
        )
    if any("SCRAM" in text for name, text in given.items() if name.endswith("sasl.enabled.mechanisms")):
        raise ConfigError(
            f"{setting} and SCRAM: credentials are not pushed: write log, or let clients log in otherwise."
        )


def security(
    given: Mapping[str, str],
    values: Mapping[str, Any],
    listeners: Sequence[ListenerConfig],
    inter_broker: str,
    controller_names: Sequence[str],
    pushed_to: str | None,
) -> dict[str, ListenerSecurity]:
    """The security of each listener here, and of the listeners that this node dials: the controllers', and the brokers'
    at which it tells them of metadata (`pushed_to`)."""
    protocols = {listener.name: listener.protocol for listener in listeners}
    known = _protocols(values, controller_names)
    if controller_names:
        protocols.setdefault(controller_names[0], known.get(controller_names[0], "PLAINTEXT"))
    if pushed_to is not None:
        protocols.setdefault(pushed_to, known.get(pushed_to, "PLAINTEXT"))
    result = {}
    for name, protocol in protocols.items():
        mechanism: str | None = None
        if name in (inter_broker, pushed_to):
            mechanism = values.get("sasl.mechanism.inter.broker.protocol", "")
        elif name in controller_names[:1]:
            mechanism = values.get("sasl.mechanism.controller.protocol", "")
        result[name] = listener_security(given, name, protocol, mechanism)
    return result


def _protocols(values: Mapping[str, Any], controller_names: Sequence[str]) -> dict[str, str]:
    """The security protocol of each listener name: as given, or else the protocol of that name, or PLAINTEXT for
    controllers."""
    text = values.get("listener.security.protocol.map")
    if text is None:
        return {name: name for name in PROTOCOLS} | {n: "PLAINTEXT" for n in controller_names if n not in PROTOCOLS}
    result = {}
    for pair in text.split(","):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"listener.security.protocol.map says {pair}: write NAME:PROTOCOL with one of {', '.join(PROTOCOLS)}."
            )
        result[name] = protocol
    return result


_ENDPOINT = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.]+(?:%\w+)?\]|[^\[\]:/]*):(-?[0-9]+)")


def _endpoints(setting: str, entries: Sequence[str], protocols: Mapping[str, str]) -> tuple[ListenerConfig, ...]:
    result: list[ListenerConfig] = []
    for entry in entries:
        match = _ENDPOINT.fullmatch(entry)
        if match is None or not 0 <= int(match[3]) <= 65535:
            raise ConfigError(
                f"{setting} has the entry {entry}: write NAME://host:port, for example PLAINTEXT://127.0.0.1:9092."
            )
        name, host, port = match[1].upper(), match[2].strip("[]"), int(match[3])
        if name not in protocols:
            raise ConfigError(
                f"{setting} has the name {name}, which has no security protocol: add {name}:PLAINTEXT to "
                f"listener.security.protocol.map."
            )
        for other in result:
            if other.name == name:
                raise ConfigError(f"{setting} has the name {name} twice: write each name once.")
            if setting == "listeners" and port != 0 and (other.host, other.port) == (host, port):
                raise ConfigError(f"{setting} has {other.name} and {name} on the same {host}:{port}: write two ports.")
        result.append(ListenerConfig(name, host, port, protocols[name], ""))
    return tuple(result)


def _listed(names: Sequence[str]) -> str:
    """Names as a part of a sentence, which does not end in the middle where there are none."""
    return ", ".join(names) or "nothing"


def _names(listeners: Iterable[ListenerConfig]) -> list[str]:
    return [listener.name for listener in listeners]


def _check_controller_listeners(roles: Sequence[str], bind: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if "controller" in roles and name not in bind:
            raise ConfigError(
                f"controller.listeners names {name}, which is not among listeners ({_listed(bind)}): "
                f"add {name}://host:port to listeners."
            )
        if "controller" not in roles and name in bind:
            raise ConfigError(
                f"listeners has {name}, which controller.listeners gives to controllers, and this process has the "
                f"broker "
                f"role only: take {name} out of listeners."
            )
    if "broker" not in roles and (extra := [name for name in bind if name not in names]):
        raise ConfigError(
            f"listeners has {', '.join(extra)}, and a process with the controller role only opens no listener for "
            f"brokers or clients: leave only {_listed(names)}."
        )


def _inter_broker(
    roles: Sequence[str], values: Mapping[str, Any], bind: Sequence[ListenerConfig], controller_names: Sequence[str]
) -> str:
    """The name of the inter-broker listener: given, or the first with security.inter.broker.protocol's protocol
    (R291-20)."""
    name = (values.get("inter.broker.listener.name") or "").upper()
    protocol = values.get("security.inter.broker.protocol")
    if name and protocol:
        raise ConfigError(
            f"inter.broker.listener.name={name} and security.inter.broker.protocol={protocol} are both set: keep the "
            f"first."
        )
    mine = [x for x in bind if x.name not in controller_names]
    control = (values.get("control.plane.listener.name") or "").upper()
    if name and name in controller_names:
        raise ConfigError(f"inter.broker.listener.name={name} is a controller's listener: name a broker's listener.")
    if name and name not in _names(mine):
        raise ConfigError(
            f"inter.broker.listener.name={name} is not among listeners ({_listed(_names(bind))}): add "
            f"{name}://host:port."
        )
    if name:
        return name
    wanted = protocol or "PLAINTEXT"
    candidates = [x for x in mine if x.name == wanted] or [x for x in mine if x.protocol == wanted]
    others = [x for x in candidates if x.name != control] or candidates
    if others:
        return others[0].name
    left = [x for x in mine if x.name != control]
    if not left:
        return ""
    raise ConfigError(f"no listener speaks {wanted} among brokers: write inter.broker.listener.name={left[0].name}.")


def _check_plane_is_not_controllers(name: str, controller_names: Sequence[str]) -> None:
    if name in controller_names:
        raise ConfigError(
            f"control.plane.listener.name={name} and controller.listeners={','.join(controller_names)} share a listener: "
            f"one is a broker's, the other a controller's; write two names."
        )


def _check_control_plane(
    roles: Sequence[str],
    name: str,
    bind: Sequence[ListenerConfig],
    advertised: Sequence[ListenerConfig],
    protocols: Mapping[str, str],
    inter_broker: str,
    controller_names: Sequence[str],
) -> None:
    """Check V1 to V6 of KIP-291's start-up validation, the most helpful first."""
    setting = f"control.plane.listener.name={name}"
    if "broker" not in roles:
        raise ConfigError(f"{setting} does nothing on a process with the controller role only: leave it out.")
    _check_plane_is_not_controllers(name, controller_names)
    if name == inter_broker:
        raise ConfigError(
            f"{setting} is also the inter-broker listener (inter.broker.listener.name, given or derived: "
            f"{inter_broker}): "
            f"add a listener of its own for the control plane."
        )
    if name not in protocols:
        raise ConfigError(
            f"{setting} has no security protocol: add {name}:PLAINTEXT to listener.security.protocol.map."
        )
    if name not in _names(bind):
        raise ConfigError(f"{setting} is not among listeners ({_listed(_names(bind))}): add {name}://host:port.")
    if name not in _names(advertised):
        raise ConfigError(
            f"{setting} is not among advertised.listeners ({_listed(_names(advertised))}): add {name}://host:port "
            f"there too."
        )


def _advertised(
    listeners: Sequence[ListenerConfig],
    controller_names: Sequence[str],
    given: bool,
    hostname: str,
    *,
    is_controller: bool,
) -> tuple[ListenerConfig, ...]:
    result = []
    for listener in listeners:
        if listener.name in controller_names:
            if given and not is_controller:
                raise ConfigError(
                    f"advertised.listeners has {listener.name}, a controller's listener, which brokers never "
                    f"advertise: take it out."
                )
            continue
        if listener.host and is_every_interface(listener.host):
            raise ConfigError(
                f"{listener.name}://{listener.host}:{listener.port} cannot be told to clients, as "
                f"{listener.host} is no address: write advertised.listeners={listener.name}://host:{listener.port} with a "
                f"name they can reach."
            )
        result.append(listener._replace(host=listener.host or hostname))
    return tuple(result)


def controllers_told(
    roles: Sequence[str],
    values: Mapping[str, Any],
    names: Sequence[str],
    listeners: Sequence[ListenerConfig],
    hostname: str,
) -> tuple[ListenerConfig, ...]:
    """The addresses under which others reach the controller listeners of this process, the one that they connect to
    first."""
    if "controller" not in roles:
        return ()
    entries = _endpoints("advertised.listeners", values.get("advertised.listeners") or (), _protocols(values, names))
    given = {one.name: one for one in entries}
    if "broker" not in roles:
        unknown = [name for name in given if name not in _names(listeners)]
        if unknown:
            raise ConfigError(
                f"advertised.listeners has {unknown[0]}, which is not among listeners ({', '.join(_names(listeners))}): add "
                f"{unknown[0]}://host:port there too."
            )
    found = []
    for listener in sorted((x for x in listeners if x.kind == "controller"), key=lambda x: names.index(x.name)):
        told = given.get(listener.name)
        if told is not None and told.host and is_every_interface(told.host):
            raise ConfigError(
                f"advertised.listeners has {told.name}://{told.host}:{told.port}, which is no address that others can dial: "
                f"write {told.name}://host:{told.port} with a name that they can reach."
            )
        told = told or listener
        found.append(told._replace(kind="controller", host=told.host or hostname))
    return tuple(found)


def check_joins(told: ListenerConfig, id: int, connect: Sequence[tuple[int | None, str, int]]) -> None:
    """Check that a controller that joins by itself says where it is reached."""
    if told.host and is_every_interface(told.host) and all(one != id for one, _, _ in connect):
        raise ConfigError(
            f"{told.name}://{told.host}:{told.port} listens on every interface, which is no address for others, and "
            f"controller.quorum.auto.join.enable=true has this controller say where it is reached: write "
            f"advertised.listeners={told.name}://host:{told.port} with a name that they can reach."
        )


def _check_told(told: Sequence[str], bind: Sequence[str], inter_broker: str) -> None:
    for name in told:
        if name not in bind:
            raise ConfigError(
                f"advertised.listeners has {name}, which is not among listeners ({_listed(bind)}): add {name}://host:port "
                f"there too."
            )
    if inter_broker not in told:
        raise ConfigError(
            f"the inter-broker listener {inter_broker} is not among advertised.listeners ({_listed(told)}), and brokers "
            f"learn there how to reach each other: add {inter_broker}://host:port."
        )
