"""From a properties file to a `NodeConfig`, or to an error of one sentence that says what to write instead.

This file alone decides how settings fit together: modes and roles (KIP-631, Deployment and Configurations), ids,
listeners and their purposes (KIP-291), controllers to contact, aliases of released Apache Kafka. `definitions.py` decides
which values a single setting may have.

Rules:

1. Unknown and contradictory settings stop the start. Nothing is guessed, and no id is invented (R631-029).
2. A setting may have several names (`ALIASES`). Two of its names with different values are a contradiction.
3. Listener names are compared in upper case (R291-23).
4. This code opens no socket and no file: the host name to advertise for a wildcard address is an input.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from actors.authorization.addresses import is_every_interface
from actors.settings.definitions import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    TOPIC_CONFIGS,
    ConfigError,
    ConfigKey,
    ConfigType,
    TopicSettings,
    inherited,
    topic_settings,
)
from actors.settings.groups import check_node as check_groups
from actors.settings.listener_security import ListenerSecurity, is_listener_setting, listener_security

__all__ = [
    "ALIASES",
    "BROKER_CONFIGS",
    "TOPIC_CONFIGS",
    "ConfigError",
    "ConfigKey",
    "ConfigType",
    "ListenerConfig",
    "NodeConfig",
    "TopicSettings",
    "inherited",
    "is_listener_setting",
    "mode",
    "node_config",
    "properties",
]

ALIASES = {
    "controller.listener.names": "controller.listeners",
    "controller.quorum.voters": "controller.connect",
    "controller.quorum.bootstrap.servers": "controller.connect",
    "broker.heartbeat.interval.ms": "registration.heartbeat.interval.ms",
    "broker.session.timeout.ms": "registration.lease.timeout.ms",
    "delegation.token.master.key": "delegation.token.secret.key",
}
"""Released name -> name of the drafts; and a name of before -> the present one."""

AUTO_JOIN = "controller.quorum.auto.join.enable"
SOURCE, PUSH = "rayft.metadata.source", "rayft.metadata.push.enable"
ROLES = ("broker", "controller")
LEGAL_ROLES = "process.roles=broker, process.roles=controller or process.roles=broker,controller"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SECURITY = "that kind of security does not exist here: leave it out."
REFUSED: dict[str, str] = {
    "zookeeper.": "there is no ZooKeeper in KIP-500 mode: leave it out, controllers are named in controller.connect.",
    "ssl.": _SECURITY,
    "sasl.kerberos.": "Kerberos is not supported: leave it out, and use SCRAM-SHA-512 or OAUTHBEARER.",
    "sasl.": _SECURITY,
    "listener.name.": _SECURITY,
    "principal.builder.class": _SECURITY,
    "client.quota.callback.class": "no class of Java can be loaded: set quotas with kafka-configs and leave it out.",
    "host.name": "write listeners=PLAINTEXT://host:port.",
    "host": "write listeners=PLAINTEXT://host:port.",
    "port": "write listeners=PLAINTEXT://host:port.",
    "advertised.host.name": "write advertised.listeners=PLAINTEXT://host:port.",
    "advertised.host": "write advertised.listeners=PLAINTEXT://host:port.",
    "advertised.port": "write advertised.listeners=PLAINTEXT://host:port.",
    "inter.broker.protocol.version": "levels are a feature of the cluster (metadata.format): leave it out.",
    "log.message.format.version": "record batches have one format: leave it out.",
}
"""Names, or beginnings of names that end in a dot, that stop the start, with what to do."""

IDLE = frozenset(
    {
        "alter.config.policy.class.name", "alter.log.dirs.replication.quota.window.num",
        "alter.log.dirs.replication.quota.window.size.seconds", "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms", "cordoned.log.dirs", "create.topic.policy.class.name",
        "early.start.listeners", "follower.fetch.last.tiered.offset.enable", "group.coordinator.background.threads",
        "group.share.max.groups", "internal.metadata.delete.delay.millis",
        "internal.metadata.max.batch.size.in.bytes", "metric.reporters", "metrics.num.samples",
        "metrics.recording.level", "metrics.sample.window.ms", "security.providers", "server.max.startup.time.ms",
        "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
        "transaction.state.log.load.buffer.size", "transaction.two.phase.commit.enable",
        "unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    }
)  # fmt: skip
"""Apache Kafka's names that are accepted and have no effect here."""
IDLE_PREFIXES = ("remote.", "kafka.metrics.")
"""Beginnings of more such names: tiered storage, reporters."""


class ListenerConfig(NamedTuple):
    """One listener: the address to bind or, in `advertised`, the address to tell others."""

    name: str
    host: str
    """Empty: every interface."""
    port: int
    """0: any free port."""
    protocol: str
    kind: str
    """client, inter-broker, control-plane, controller or bridge: the values of `node/runtime/calls.Listener`."""


@dataclass(frozen=True)
class NodeConfig:
    """The settings of one node. Only `node_config` builds it, so it is consistent."""

    roles: frozenset[str]
    broker_id: int
    """-1 without the broker role."""
    controller_id: int
    """-1 without the controller role."""
    listeners: tuple[ListenerConfig, ...]
    advertised: tuple[ListenerConfig, ...]
    """For brokers: every advertised endpoint, the control plane's included (R291-24). Controller listeners are not
    among them."""
    bridge_endpoints: tuple[ListenerConfig, ...]
    """For controllers: where brokers in ZooKeeper mode and their clients reach this one, as those name their listeners."""
    controller_advertised: tuple[ListenerConfig, ...]
    """For controllers: where others reach each listener of `controller_endpoints`, in their order. A host that is empty or
    names every interface is unknown. Those that advertised.listeners does not name are as they listen."""
    controller_listener_names: tuple[str, ...]
    """Controller listeners; the first is the one that others connect to (A12). A broker without controller role has
    them too, if given."""
    inter_broker_listener: str
    control_plane_listener: str | None
    push_listener: str
    """For controllers: the listener of brokers at which they are told of metadata (R291-25, R291-26)."""
    security: Mapping[str, ListenerSecurity]
    """How peers of a listener say who they are, by listener name; those of other nodes that this node dials among them."""
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
        """A broker that does not pull the metadata log, and waits to be told."""
        return "broker" in self.roles and self.value(SOURCE) == "push"

    @property
    def pushes(self) -> bool:
        """A controller that tells such brokers."""
        return "controller" in self.roles and bool(self.value(PUSH))

    @property
    def controller_endpoints(self) -> tuple[ListenerConfig, ...]:
        """Listeners of the controller role. The first is the one that others connect to."""
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
        """The same configuration with real ports, by listener name, for listeners with port 0."""

        def real(listeners: Iterable[ListenerConfig]) -> tuple[ListenerConfig, ...]:
            return tuple(x._replace(port=ports.get(x.name, 0)) if x.port == 0 else x for x in listeners)

        return replace(
            self,
            listeners=real(self.listeners),
            advertised=real(self.advertised),
            bridge_endpoints=real(self.bridge_endpoints),
            controller_advertised=real(self.controller_advertised),
        )


class SubscriptionSettings(NamedTuple):
    """A CLIENT_METRICS resource (KIP-714)."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[str, ...]


def subscription_settings(given: Mapping[str, str]) -> SubscriptionSettings:
    """What was set of a subscription, and defaults where nothing was, or something that is not allowed here."""
    values = {
        key.name: key.parse(given[key.name]) if key.name in given and key.allows(given[key.name]) else key.default
        for key in CLIENT_METRICS_CONFIGS.values()
    }
    return SubscriptionSettings(values["metrics"], values["interval.ms"], values["match"])


def mode(given: Mapping[str, str]) -> str:
    """`legacy` or `kip-500`. process.roles alone decides (R631-001)."""
    return "kip-500" if "process.roles" in given else "legacy"


# ---- the file


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def properties(text: str) -> dict[str, str]:
    """Names and values of a Java properties file: comments, continued lines, escapes; the last of two lines wins."""
    result: dict[str, str] = {}
    lines = iter(re.split(r"\r\n|\r|\n", text))
    for line in lines:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while (len(line) - len(line.rstrip("\\"))) % 2 == 1:
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
        assert match is not None, "the pattern matches the empty text"
        result[_unescape(match[1])] = _unescape(line[match.end() :])
    return result


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    text = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", plain, text, flags=re.DOTALL)
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")  # joins surrogate pairs


_SECRET = tuple(name for name, key in BROKER_CONFIGS.items() if key.sensitive)
"""Also the ends of the names of listeners' own settings."""


def has_secrets(written: Mapping[str, str]) -> bool:
    """Whether settings, as a file has them, hold a secret themselves: not a reference to one (KIP-421)."""
    return any(
        text.strip() and not ("${" in text and "config.providers" in written)
        for name, text in written.items()
        if name.endswith(_SECRET)
    )


# ---- from names and values to a node


def node_config(given: Mapping[str, str], hostname: str = "localhost") -> NodeConfig:
    """Check everything and build the configuration. `hostname`: the name to advertise for a listener on every
    interface.

    Raises ConfigError with one sentence about the first thing that is wrong.
    """
    _refuse(given)
    canonical, notices = _canonical(given)
    values = {name: BROKER_CONFIGS[name].parse(text) for name, text in canonical.items() if name in BROKER_CONFIGS}
    roles = _roles(given, values)
    broker_id, controller_id = _ids(roles, values)
    _lease(values)
    check_groups(lambda name: values.get(name, BROKER_CONFIGS[name].default))
    names = _controller_names(roles, values)
    listeners, advertised, inter_broker, control_plane = _listeners(roles, values, names, hostname)
    connect = _controllers(values)
    if "broker" in roles and broker_id in {id for id, _, _ in connect}:
        raise ConfigError(
            f"controller.connect names {broker_id} as the id of a controller, and it is this broker's: brokers and "
            f"controllers share one id space, give one of the two another number."
        )
    controllers_told = _controllers_told(roles, values, names, listeners, hostname)
    if controllers_told and values.get(AUTO_JOIN):
        _check_joins(controllers_told[0], controller_id, connect)
    log_dirs = tuple(dict.fromkeys(path for path in values.get("log.dirs") or values.get("log.dir") or () if path))
    log_dirs = log_dirs or BROKER_CONFIGS["log.dir"].default
    if "broker" in roles and values.get(SOURCE) == "push":
        _check_pushed(roles, values, canonical, listeners)
    elif control_plane and "broker" in roles:
        notices.append(f"control.plane.listener.name={control_plane}: serves probes only; brokers pull their metadata.")
    push_listener = control_plane or inter_broker or _told_inter_broker(values)
    return NodeConfig(
        roles=frozenset(roles),
        broker_id=broker_id,
        controller_id=controller_id,
        listeners=listeners,
        advertised=() if "broker" not in roles else advertised,
        bridge_endpoints=() if "broker" in roles else advertised,
        controller_advertised=controllers_told,
        controller_listener_names=names,
        inter_broker_listener=inter_broker,
        control_plane_listener=control_plane,
        push_listener=push_listener,
        security=_security(
            canonical, values, listeners, inter_broker, names, push_listener if _is_pusher(roles, values) else None
        ),
        controller_connect=connect,
        log_dirs=log_dirs,
        metadata_log_dir=values.get("metadata.log.dir") or log_dirs[0],
        rack=values.get("broker.rack") or None,
        given=canonical,
        notices=tuple(notices),
    )


def _refuse(given: Mapping[str, str]) -> None:
    for name in given:
        if name in BROKER_CONFIGS or is_listener_setting(name):
            continue
        for refused, sentence in REFUSED.items():
            if name == refused or (refused.endswith(".") and name.startswith(refused)):
                raise ConfigError(f"{name} is not supported: {sentence}")
    if given.get("remote.log.storage.system.enable", "false").strip().lower() == "true":
        raise ConfigError(
            "remote.log.storage.system.enable=true is not supported: there is no remote storage, write false."
        )


def _canonical(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The settings by the drafts' names, and notices about those without an effect."""
    result: dict[str, str] = {}
    spelt: dict[str, str] = {}
    notices: list[str] = []
    for name, text in given.items():
        canonical = ALIASES.get(name, name)
        if canonical in BROKER_CONFIGS:
            if canonical != name and not text.strip():
                continue
            if canonical in result and result[canonical].strip() != text.strip():
                if BROKER_CONFIGS[canonical].sensitive:
                    raise ConfigError(
                        f"{spelt[canonical]} and {name} mean the same setting and differ: keep one of them."
                    )
                raise ConfigError(
                    f"{spelt[canonical]}={result[canonical]} and {name}={text} mean the same setting and differ: "
                    f"keep one of them, as {canonical}."
                )
            result[canonical], spelt[canonical] = text, name
            if not BROKER_CONFIGS[canonical].effect:
                notices.append(f"{name} has no effect. {BROKER_CONFIGS[canonical].doc}")
        elif is_listener_setting(name):
            result[name] = text
        elif name in IDLE or name.startswith(IDLE_PREFIXES):
            notices.append(f"{name} has no effect.")
        else:
            raise ConfigError(f"{name} is not a setting{_nearest(name)}.")
    return result, notices


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name, [*BROKER_CONFIGS, *ALIASES], n=1, cutoff=0.6)
    if near:
        return f": did you mean {near[0]}? Otherwise leave it out"
    if name in TOPIC_CONFIGS:
        return f" of a node: it belongs to a topic; here write {TOPIC_CONFIGS[name].synonyms[0]}"
    return ": leave it out"


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
    """R631-024, checked for level 2. At level 1 a lease that is not set is ten intervals."""
    interval = values.get("registration.heartbeat.interval.ms", 2000)
    lease = values.get("registration.lease.timeout.ms", 20000)
    if lease <= interval:
        raise ConfigError(
            f"registration.lease.timeout.ms={lease} is not longer than registration.heartbeat.interval.ms={interval}: "
            f"no broker could keep its lease; write a lease of {10 * interval}."
        )


# ---- listeners


def _controller_names(roles: Sequence[str], values: Mapping[str, Any]) -> tuple[str, ...]:
    names = tuple(name.upper() for name in values.get("controller.listeners") or () if name)
    if "controller" in roles and not names:
        raise ConfigError(
            "controller.listeners is not set and this process has the controller role: name its listener, for example "
            "controller.listeners=CONTROLLER with CONTROLLER://host:port among listeners."
        )
    if len(set(names)) != len(names):
        raise ConfigError(f"controller.listeners={','.join(names)} names a listener twice: write each once.")
    return names


def _listeners(
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
    if control and "broker" not in roles and _is_pusher(roles, values):
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


def _is_pusher(roles: Sequence[str], values: Mapping[str, Any]) -> bool:
    return "controller" in roles and bool(values.get(PUSH))


def _told_inter_broker(values: Mapping[str, Any]) -> str:
    """What brokers call their inter-broker listener, as far as a node knows that has none itself."""
    return str(
        values.get("inter.broker.listener.name") or values.get("security.inter.broker.protocol") or "PLAINTEXT"
    ).upper()


def _check_pushed(
    roles: Sequence[str],
    values: Mapping[str, Any],
    given: Mapping[str, str],
    listeners: Sequence[ListenerConfig],
) -> None:
    """Whether a broker can do with what controllers push: they are heard while it is fenced, and know neither rules nor
    credentials."""
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


def _security(
    given: Mapping[str, str],
    values: Mapping[str, Any],
    listeners: Sequence[ListenerConfig],
    inter_broker: str,
    controller_names: Sequence[str],
    pushed_to: str | None,
) -> dict[str, ListenerSecurity]:
    """That of each listener here, and of the listeners that this node dials: the controllers', and the brokers' at which it
    tells them of metadata (`pushed_to`)."""
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
    """Security protocol of each listener name: as given, or else the protocol of that name, or PLAINTEXT for
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
    """Names in a sentence, which does not end in the middle where there are none."""
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
    """V1 to V6 of KIP-291's start-up validation, the most helpful first."""
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


def _controllers_told(
    roles: Sequence[str],
    values: Mapping[str, Any],
    names: Sequence[str],
    listeners: Sequence[ListenerConfig],
    hostname: str,
) -> tuple[ListenerConfig, ...]:
    """Where others reach the controller listeners of this process, the one that they connect to first."""
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


def _check_joins(told: ListenerConfig, id: int, connect: Sequence[tuple[int | None, str, int]]) -> None:
    """A controller that joins by itself says where it is reached."""
    if told.host and is_every_interface(told.host) and all(one != id for one, _, _ in connect):
        raise ConfigError(
            f"{told.name}://{told.host}:{told.port} listens on every interface, which is no address for others, and "
            f"{AUTO_JOIN}=true has this controller say where it is reached: write "
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


# ---- controllers to contact

_CONTROLLER = re.compile(
    r"(?:(?P<id>[0-9]+)@|(?P<name>[A-Za-z0-9_.-]+)://)?(?P<host>\[[0-9a-fA-F:.]+(?:%\w+)?\]|[^\[\]:/@\s]+):(?P<port>[0-9]+)"
)


def _controllers(values: Mapping[str, Any]) -> tuple[tuple[int | None, str, int], ...]:
    """Entries `[id@]host:port` or `LISTENER://host:port` (A11)."""
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
