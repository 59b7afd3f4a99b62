"""The settings of one node, and the rules by which they fit together.

This file alone decides modes and roles (KIP-631, Deployment and Configurations), ids, controllers to contact and what a
`NodeConfig` answers. How the file is read and which names there are is in `properties.py`, listeners in `listeners.py`, and
which values a single setting may have in `keys.py`. Rules:

1. Contradictory settings stop the start with one sentence that says what to write instead. Nothing is guessed, and no id is
   invented (R631-029).
2. This code opens no socket and no file: the host name to advertise for a wildcard address is an input.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from actors.settings.groups import check_node as check_groups
from actors.settings.keys import ConfigError
from actors.settings.listener_security import ListenerSecurity
from actors.settings.listeners import (
    PUSH,
    SOURCE,
    ListenerConfig,
    check_joins,
    check_pushed,
    controller_names,
    controllers_told,
    is_pusher,
    listeners_of,
    security,
    told_inter_broker,
)
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.properties import ALIASES, canonical, refuse
from actors.settings.topics import TopicSettings, topic_settings

AUTO_JOIN = "controller.quorum.auto.join.enable"
ROLES = ("broker", "controller")
LEGAL_ROLES = "process.roles=broker, process.roles=controller or process.roles=broker,controller"


@dataclass(frozen=True)
class NodeConfig:
    """The settings of one node. Only `node_config` builds it, so it is consistent."""

    roles: frozenset[str]
    broker_id: int
    """The broker id; -1 without the broker role."""
    controller_id: int
    """The controller id; -1 without the controller role."""
    listeners: tuple[ListenerConfig, ...]
    advertised: tuple[ListenerConfig, ...]
    """The advertised endpoints of a broker, the control plane's included (R291-24). Controller listeners are not among
    them."""
    bridge_endpoints: tuple[ListenerConfig, ...]
    """The endpoints at which brokers in ZooKeeper mode and their clients reach this controller, under their own names
    for listeners."""
    controller_advertised: tuple[ListenerConfig, ...]
    """The addresses under which others reach each listener of `controller_endpoints`, in their order. A host that is
    empty or names every interface is unknown. Those that advertised.listeners does not name are as they listen."""
    controller_listener_names: tuple[str, ...]
    """The names of controller listeners; the first is the one that others connect to (A12). A broker without controller
    role has them too, if given."""
    inter_broker_listener: str
    control_plane_listener: str | None
    push_listener: str
    """The name of the brokers' listener at which a controller tells them of metadata (R291-25, R291-26)."""
    security: Mapping[str, ListenerSecurity]
    """The security of listeners, by listener name; those of other nodes that this node dials among them."""
    controller_connect: tuple[tuple[int | None, str, int], ...]
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    rack: str | None
    given: Mapping[str, str] = field(repr=False)
    """Values as text, by canonical name. A setting that neither file nor options give is absent."""
    notices: tuple[str, ...]
    """Lines for the start-up log, one for each setting without an effect here."""

    @property
    def node_id(self) -> int:
        """The id for logs and client quotas: the broker's, else the controller's."""
        return self.broker_id if self.broker_id >= 0 else self.controller_id

    @property
    def is_pushed(self) -> bool:
        """Whether this is a broker that does not pull the metadata log, and waits to be told."""
        return "broker" in self.roles and self.value(SOURCE) == "push"

    @property
    def pushes(self) -> bool:
        """Whether this is a controller that tells such brokers of metadata."""
        return "controller" in self.roles and bool(self.value(PUSH))

    @property
    def controller_endpoints(self) -> tuple[ListenerConfig, ...]:
        """The listeners of the controller role. The first is the one that others connect to."""
        order = self.controller_listener_names
        mine = [listener for listener in self.listeners if listener.kind == "controller"]
        return tuple(sorted(mine, key=lambda listener: order.index(listener.name)))

    def advertises(self, listener: str) -> bool:
        """Whether advertised.listeners names that listener."""
        told = self.value("advertised.listeners") or ()
        return any(entry.partition("://")[0].upper() == listener for entry in told)

    def value(self, name: str) -> Any:
        """The typed value of a node's setting, its default included. Raises KeyError for a name that does not exist."""
        name = ALIASES.get(name, name)
        key = BROKER_CONFIGS[name]
        return key.parse(self.given[name]) if name in self.given else key.default

    def topic(self, overrides: Mapping[str, str], cluster: Mapping[str, str] | None = None) -> TopicSettings:
        """Settings of a topic: `overrides`, else the cluster-wide dynamic ones of brokers, else this node's."""

        def node(name: str) -> tuple[bool, Any]:
            if cluster and name in cluster and BROKER_CONFIGS[name].allows(cluster[name]):
                return True, BROKER_CONFIGS[name].parse(cluster[name])
            return name in self.given, self.value(name)

        return topic_settings(overrides, node)

    def heartbeat_interval_ms(self, level: int | None) -> int:
        """Time between heartbeats at a metadata.format level, in ms; None: the level is not known yet (A25)."""
        if level == 1 and "registration.heartbeat.interval.ms" not in self.given:
            return 3000
        return int(self.value("registration.heartbeat.interval.ms"))

    def lease_ms(self, level: int) -> int:
        """Length of a lease that this node grants as active controller, in ms (R631-144, A25)."""
        if level == 1 and "registration.lease.timeout.ms" not in self.given:
            return 10 * self.heartbeat_interval_ms(level)
        return int(self.value("registration.lease.timeout.ms"))

    def with_ports(self, ports: Mapping[str, int]) -> "NodeConfig":
        """The configuration with real ports, by listener name, for listeners with port 0."""

        def real(listeners: Iterable[ListenerConfig]) -> tuple[ListenerConfig, ...]:
            return tuple(x._replace(port=ports.get(x.name, 0)) if x.port == 0 else x for x in listeners)

        return replace(
            self,
            listeners=real(self.listeners),
            advertised=real(self.advertised),
            bridge_endpoints=real(self.bridge_endpoints),
            controller_advertised=real(self.controller_advertised),
        )


def mode(given: Mapping[str, str]) -> str:
    """`legacy` or `kip-500`. process.roles alone decides (R631-001)."""
    return "kip-500" if "process.roles" in given else "legacy"


def node_config(given: Mapping[str, str], hostname: str = "localhost") -> NodeConfig:
    """Check everything and build the configuration. `hostname`: the name to advertise for a listener on every
    interface.

    Raises ConfigError with one sentence about the first thing that is wrong.
    """
    refuse(given)
    named, notices = canonical(given)
    values = {name: BROKER_CONFIGS[name].parse(text) for name, text in named.items() if name in BROKER_CONFIGS}
    roles = _roles(given, values)
    broker_id, controller_id = _ids(roles, values)
    _lease(values)
    check_groups(lambda name: values.get(name, BROKER_CONFIGS[name].default))
    names = controller_names(roles, values)
    listeners, advertised, inter_broker, control_plane = listeners_of(roles, values, names, hostname)
    connect = _controllers(values)
    if "broker" in roles and broker_id in {id for id, _, _ in connect}:
        raise ConfigError(
            f"controller.connect names {broker_id} as the id of a controller, and it is this broker's: brokers and "
            f"controllers share one id space, give one of the two another number."
        )
    told = controllers_told(roles, values, names, listeners, hostname)
    if told and values.get(AUTO_JOIN):
        check_joins(told[0], controller_id, connect)
    log_dirs = tuple(dict.fromkeys(path for path in values.get("log.dirs") or values.get("log.dir") or () if path))
    log_dirs = log_dirs or BROKER_CONFIGS["log.dir"].default
    if "broker" in roles and values.get(SOURCE) == "push":
        check_pushed(roles, values, named, listeners)
    elif control_plane and "broker" in roles:
        notices.append(f"control.plane.listener.name={control_plane}: serves probes only; brokers pull their metadata.")
    push_listener = control_plane or inter_broker or told_inter_broker(values)
    return NodeConfig(
        roles=frozenset(roles),
        broker_id=broker_id,
        controller_id=controller_id,
        listeners=listeners,
        advertised=() if "broker" not in roles else advertised,
        bridge_endpoints=() if "broker" in roles else advertised,
        controller_advertised=told,
        controller_listener_names=names,
        inter_broker_listener=inter_broker,
        control_plane_listener=control_plane,
        push_listener=push_listener,
        security=security(
            named, values, listeners, inter_broker, names, push_listener if is_pusher(roles, values) else None
        ),
        controller_connect=connect,
        log_dirs=log_dirs,
        metadata_log_dir=values.get("metadata.log.dir") or log_dirs[0],
        rack=values.get("broker.rack") or None,
        given=named,
        notices=tuple(notices),
    )


def _roles(given: Mapping[str, str], values: Mapping[str, Any]) -> tuple[str, ...]:
    if mode(given) == "legacy":
        raise ConfigError(
            f"process.roles is not set, which asks for the legacy mode with ZooKeeper, and that does not exist here: "
            f"write {LEGAL_ROLES}."
        )
    roles: tuple[str, ...] = values["process.roles"]
    if not roles or any(role not in ROLES for role in roles) or len(set(roles)) != len(roles):
        raise ConfigError(f"process.roles={given['process.roles']} is not allowed: write {LEGAL_ROLES}.")
    return roles


def _ids(roles: Sequence[str], values: Mapping[str, Any]) -> tuple[int, int]:
    """(broker id, controller id). `node.id` stands for the one id of a process with one role (A13)."""
    both = len(roles) == 2
    alias = values.get("node.id")
    ids: dict[str, Any] = {role: values.get(f"{role}.id") for role in ROLES}
    if both and alias is not None and (ids["broker"] is None or ids["controller"] is None):
        raise ConfigError(
            f"node.id={alias} cannot name both roles of this process: write broker.id and controller.id, two different "
            f"numbers."
        )
    for role in roles:
        name = f"{role}.id"
        if ids[role] is None and not both:
            ids[role], name = alias, "node.id" if alias is not None else name
        elif alias is not None and alias != ids[role] and (not both or alias not in ids.values()):
            raise ConfigError(f"node.id={alias} and {name}={ids[role]} contradict each other: keep {name} only.")
        if ids[role] is None:
            raise ConfigError(
                f"{name} is not set: write {name}= and a number from 0 to 2147483647; ids are never invented."
            )
        if ids[role] < 0:
            raise ConfigError(f"{name}={ids[role]} is not allowed: write a number from 0 to 2147483647.")
    if both and ids["broker"] == ids["controller"]:
        raise ConfigError(
            f"broker.id and controller.id are both {ids['broker']}: brokers and controllers share one id space, "
            f"write two different numbers, for example controller.id={ids['broker'] + 1000}."
        )
    return (ids["broker"] if "broker" in roles else -1), (ids["controller"] if "controller" in roles else -1)


def _lease(values: Mapping[str, Any]) -> None:
    """Check the lease for level 2 (R631-024). At level 1 a lease that is not set is ten intervals."""
    interval = values.get("registration.heartbeat.interval.ms", 2000)
    lease = values.get("registration.lease.timeout.ms", 20000)
    if lease <= interval:
        raise ConfigError(
            f"registration.lease.timeout.ms={lease} is not longer than registration.heartbeat.interval.ms={interval}: "
            f"no broker could keep its lease; write a lease of {10 * interval}."
        )


_CONTROLLER = re.compile(
    r"(?:(?P<id>[0-9]+)@|(?P<name>[A-Za-z0-9_.-]+)://)?(?P<host>\[[0-9a-fA-F:.]+(?:%\w+)?\]|[^\[\]:/@\s]+):(?P<port>[0-9]+)"
)


def _controllers(values: Mapping[str, Any]) -> tuple[tuple[int | None, str, int], ...]:
    """The controllers to contact, from entries `[id@]host:port` or `LISTENER://host:port` (A11)."""
    entries = [entry for entry in values.get("controller.connect") or () if entry]
    if not entries:
        raise ConfigError(
            "controller.connect is not set: name the controllers to contact, for example "
            "controller.connect=1001@host1:9093,1002@host2:9093."
        )
    result: list[tuple[int | None, str, int]] = []
    for entry in entries:
        match = _CONTROLLER.fullmatch(entry)
        if match is None or not 0 < int(match["port"]) <= 65535 or (match["id"] and int(match["id"]) > 2147483647):
            raise ConfigError(
                f"controller.connect has the entry {entry}: write id@host:port or host:port, IPv6 addresses in "
                f"brackets."
            )
        result.append((int(match["id"]) if match["id"] else None, match["host"].strip("[]"), int(match["port"])))
    ids = [id for id, _, _ in result if id is not None]
    if ids and len(ids) != len(result):
        raise ConfigError(
            "controller.connect gives an id to some entries only: write id@host:port for all, or for none."
        )
    if len(set(ids)) != len(ids):
        raise ConfigError(f"controller.connect={','.join(entries)} names an id twice: write each controller once.")
    return tuple(result)
