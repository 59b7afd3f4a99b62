"""Every configuration by name: type, default, legal values, what it does, whether it changes at run time.

This file alone decides which names exist. `BROKER_CONFIGS` holds the settings of a node's properties file and of a
BROKER config resource, `TOPIC_CONFIGS` those that a topic may override. Names, types and defaults are those of Apache
Kafka 4.3

Rules:

1. A row says what the setting does *here*. A setting without an effect has `effect=False`, and a notice at the start
   says so.
2. A value is checked when it is read: `parse` returns the typed value or raises a `ConfigError` that says what to write
   instead.
3. The default of a topic setting is the node's own setting of `synonyms`; the first one that is given counts.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple


class ConfigError(ValueError):
    """A setting that stops the start. The sentence names the setting and says what to write instead."""


class ConfigType(IntEnum):
    """Types of values, numbered as DescribeConfigs (KIP-569) sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Check(NamedTuple):
    """A condition on a typed value, and the words for the error: "write <wants>"."""

    wants: str
    holds: Callable[[Any], bool]


class ConfigKey(NamedTuple):
    """One row of a table."""

    name: str
    type: ConfigType
    default: Any
    """The typed default; None if there is none."""
    validator: Check | None
    doc: str
    dynamic: str
    """`cluster-wide`: it can change at run time, and is the default of a topic setting. Empty: it is read at start
    only, or never. `topic`: every topic setting can change at run time."""
    sensitive: bool
    synonyms: tuple[str, ...]
    """For a topic setting: the node's settings that give its default. The first one counts most."""
    effect: bool
    """False: accepted, because files for Kafka contain it, but without an effect here."""

    def parse(self, text: str) -> Any:
        """The typed value of `text`. Raises ConfigError."""
        try:
            value = _PARSE[self.type](text.strip())
        except ValueError:
            raise ConfigError(f"{self.name}={text} is not {_NOUN[self.type]}: write {self._wants()}.") from None
        if self.validator is not None and not self.validator.holds(value):
            raise ConfigError(f"{self.name}={text} is not allowed: write {self._wants()}.")
        return value

    def allows(self, text: str) -> bool:
        """Whether `parse` accepts the text. Metadata may hold a value that an older release allowed: it counts as not
        set."""
        try:
            self.parse(text)
        except ConfigError:
            return False
        return True

    def _wants(self) -> str:
        return self.validator.wants if self.validator else _NOUN[self.type]

    def text(self, value: Any) -> str | None:
        """The value as Kafka's tools show it; None if it is not set."""
        if value is None:
            return None
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return str(value).replace("e+", "E").replace("e", "E")
        return ",".join(value) if isinstance(value, tuple) else str(value)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1 or "_" in text:
            raise ValueError
        return value

    return parse


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


_PARSE: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer(32),
    ConfigType.SHORT: _integer(16),
    ConfigType.LONG: _integer(64),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
_NOUN = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "names separated by commas",
    ConfigType.CLASS: "the name of a class",
    ConfigType.PASSWORD: "a password",
}

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, PASSWORD = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT,
    ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST, ConfigType.PASSWORD,
)  # fmt: skip
CLUSTER = "cluster-wide"
MAX_INT, MAX_LONG = (1 << 31) - 1, (1 << 63) - 1


def at_least(low: float) -> Check:
    """Numbers from `low` on."""
    return Check(f"a number of at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Check:
    """Numbers from `low` to `high`, both included."""
    return Check(f"a number from {low} to {high}", lambda value: low <= value <= high)


def one_of(*names: str) -> Check:
    """Exactly one of these words."""
    return Check(" or ".join(names), lambda value: value in names)


def some_of(*names: str) -> Check:
    """A list made of these words."""
    return Check("a list out of " + ", ".join(names), lambda value: all(part in names for part in value))


named = Check("a name", bool)

_PORT_LIST = Check(
    "NAME:PROTOCOL pairs separated by commas", lambda value: all(":" in p for p in value.split(",") if p)
)
_GZIP = Check("-1 or a number from 1 to 9", lambda value: value == -1 or 1 <= value <= 9)
AS_PRODUCED = "producer"
"""The compression.type that keeps a batch's own codec."""
_CODEC = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", AS_PRODUCED)
_TIME_TYPE = one_of("CreateTime", "LogAppendTime")
_CLEANUP = Check(
    "delete, compact or both, or nothing to keep every record",
    lambda value: all(part in ("delete", "compact") for part in value),
)
_RETAINED = Check("a number of at least 1, or -1 to keep all", lambda value: value != 0)
_PAIR = re.compile("([0-9]+:[0-9]+)?")
_THROTTLED = Check(
    "* or partition:broker pairs separated by commas",
    lambda value: value == ("*",) or all(map(_PAIR.fullmatch, value)),
)
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTOR = Check(
    f"{RACK_AWARE}, or nothing to serve consumers from leaders; classes of your own cannot be loaded here",
    lambda value: value in ("", RACK_AWARE),
)
_ASSIGNORS = Check(
    "uniform, range or both", lambda value: bool(value) and all(one in ("uniform", "range") for one in value)
)
_MIGRATION = Check(
    "disabled, upgrade, downgrade or bidirectional",
    lambda value: value.lower() in ("disabled", "upgrade", "downgrade", "bidirectional"),
)
_SIMPLE = Check("simple, the one assignor of share groups", lambda value: value == ("simple",))
_PERSISTER = "org.apache.kafka.server.share.persister.DefaultStatePersister"
_NO_REMOTE = Check("false: there is no remote storage", lambda value: value is False)


def _key(
    name: str,
    kind: ConfigType,
    default: Any,
    check: Check | None,
    doc: str,
    dynamic: str = "",
    synonyms: tuple[str, ...] = (),
    effect: bool = True,
) -> tuple[str, ConfigKey]:
    return name, ConfigKey(name, kind, default, check, doc, dynamic, kind is ConfigType.PASSWORD, synonyms, effect)


def _idle(
    name: str, kind: ConfigType, default: Any, check: Check | None, why: str, dynamic: str = ""
) -> tuple[str, ConfigKey]:
    return _key(name, kind, default, check, f"Accepted, does nothing here: {why}.", dynamic, (), False)


_ONE_THREAD = "one thread serves a whole node"
_NO_ZK = "ids are never handed out automatically"
_SCHEDULE = "work is scheduled by the node itself"

BROKER_CONFIGS: dict[str, ConfigKey] = dict(
    [
        # --- nodes and listeners
        _key("process.roles", LIST, None, None, "Roles of this process: broker, controller or both."),
        _key("broker.id", INT, -1, None, "Id of the broker in this process. One id space with controllers."),
        _key("controller.id", INT, -1, None, "Id of the controller in this process. One id space with brokers."),
        _key("node.id", INT, -1, None, "The one id of a process with one role; stands for broker.id or controller.id."),
        _key("listeners", LIST, None, None, "Sockets to open: NAME://host:port, separated by commas."),
        _key("advertised.listeners", LIST, None, None, "What clients and other controllers are told instead of listeners."),
        _key("listener.security.protocol.map", STRING, None, _PORT_LIST,
             "Security protocol of each listener name."),
        _key("inter.broker.listener.name", STRING, None, None, "Listener that brokers use among themselves."),
        _key("security.inter.broker.protocol", STRING, "PLAINTEXT",
             one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
             "Picks the inter-broker listener by its protocol; not together with inter.broker.listener.name."),
        _key("control.plane.listener.name", STRING, None, None, "Listener of a broker's control plane (KIP-291)."),
        _key("rayft.metadata.push.enable", BOOLEAN, False, None,
             "Controllers: tell brokers that do not pull the metadata log what changes, with LeaderAndIsr, UpdateMetadata "
             "and StopReplica."),
        _key("rayft.metadata.source", STRING, "log", one_of("log", "push"),
             "Brokers: log: pull the metadata log. push: be told by the active controller."),
        _key("rayft.bridge.listener.names", LIST, None, None,
             "Controllers: listeners for Apache Kafka's brokers in ZooKeeper mode and their clients, named as those brokers "
             "name their own."),
        _key("rayft.bridge.zookeeper.connect", STRING, "", None,
             "Controllers: the ZooKeeper of a cluster to take over, as its brokers have it in zookeeper.connect (extra "
             "`bridge`)."),
        _key("rayft.bridge.zookeeper.session.timeout.ms", INT, 18000, at_least(1000),
             "Controllers: after this time without them ZooKeeper forgets their session."),
        _key("controller.listeners", LIST, None, None, "Listeners of the controller role; the first one is dialled."),
        _key("controller.connect", LIST, None, None, "Controllers to contact at start: [id@]host:port."),
        _key("rayft.kept.room.bytes", LONG, 16777216, at_least(0),
             "Room kept back in each log directory for what makes room when its disk is full: names, checkpoints, snapshots "
             "and the metadata log; an eighth of the disk at most. 0 keeps none."),
        _key("rayft.peer.memory.bytes", LONG, 536870912, at_least(1 << 20),
             "Memory for what is kept for peers beyond their requests: fetch and share sessions, members of groups, parked "
             "requests, metrics of clients. What becomes of more, `Memory for requests and answers` says."),
        _key("rayft.peer.memory.principal.bytes", LONG, 268435456, at_least(1 << 20),
             "The part of that which one principal may have. Peers that nobody has asked who they are have no such bound."),
        _key("rayft.metrics.listen", STRING, None, None,
             "host:port at which Prometheus finds the metrics of this process (extra `metrics`)."),
        _key("telemetry.max.bytes", INT, 1048576, at_least(1),
             "What a client may push of its metrics at once, compressed (KIP-714)."),
        _key("broker.rack", STRING, None, None, "Rack of the broker; replicas are spread over racks."),
        _idle("broker.id.generation.enable", BOOLEAN, False, None, _NO_ZK),
        _idle("reserved.broker.max.id", INT, 1000, None, _NO_ZK),
        # --- TLS: each may also be that of one listener, as listener.name.NAME.ssl...
        _key("ssl.keystore.location", STRING, None, None, "File with the private key and certificates of a listener."),
        _key("ssl.keystore.type", STRING, "", None, "PEM or PKCS12. Empty: what the file's content says."),
        _key("ssl.keystore.password", PASSWORD, None, None, "Password of that file."),
        _key("ssl.key.password", PASSWORD, None, None, "Password of the private key, if it has one of its own."),
        _key("ssl.keystore.key", PASSWORD, None, None, "The private key itself, as PEM, in place of a file."),
        _key("ssl.keystore.certificate.chain", PASSWORD, None, None, "Its certificates, as PEM."),
        _key("ssl.truststore.location", STRING, None, None, "File with the certificates that are trusted."),
        _key("ssl.truststore.type", STRING, "", None, "PEM or PKCS12. Empty: what the file's content says."),
        _key("ssl.truststore.password", PASSWORD, None, None, "Password of that file."),
        _key("ssl.truststore.certificates", PASSWORD, None, None, "The certificates themselves, as PEM."),
        _key("ssl.client.auth", STRING, "none", one_of("none", "requested", "required"),
             "Whether clients are asked for a certificate."),
        _key("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), None, "Versions of TLS."),
        _key("ssl.cipher.suites", LIST, (), None, "Cipher suites of TLS 1.2, by OpenSSL's names. Empty: OpenSSL's choice."),
        _key("ssl.endpoint.identification.algorithm", STRING, "https", None,
             "https: the certificate of a node that is dialled has to name its host. Empty: it need not."),
        _key("ssl.principal.mapping.rules", STRING, "DEFAULT", None,
             "From the name in a certificate to that of a principal: RULE:pattern/replacement/ with L or U, or DEFAULT."),
        # --- who is there, and who may do what
        _key("sasl.enabled.mechanisms", LIST, (), None,
             "SASL mechanisms of listeners with SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. A listener may have "
             "its own: listener.name.NAME.sasl.enabled.mechanisms."),
        _key("sasl.jaas.config", PASSWORD, None, None,
             "A JAAS line: users of PLAIN (user_alice=\"...\"), and name and password with which nodes log in to each "
             "other. Usually for one listener and mechanism: listener.name.NAME.MECHANISM.sasl.jaas.config."),
        _key("sasl.mechanism.inter.broker.protocol", STRING, "", None,
             "The SASL mechanism with which brokers log in to each other. Empty: the first of that listener."),
        _key("sasl.mechanism.controller.protocol", STRING, "", None,
             "The SASL mechanism with which nodes log in to controllers. Empty: the first of that listener."),
        _key("sasl.server.max.receive.size", INT, 8192, at_least(1),
             "Largest request of a peer that has not logged in, on listeners with SASL; a larger one closes its connection "
             "before it takes any memory."),
        _key("connections.max.reauth.ms", LONG, 0, at_least(0),
             "How long a login is good; a client has to log in anew before that (KIP-368). 0: as long as the connection."),
        _key("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None,
             "Where the keys are that tokens are signed with, as a JWKS: file:///path, https:// or http://."),
        _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, at_least(1000),
             "How often the keys are fetched anew. A token with an unknown key asks for it too, every 10 seconds at most."),
        _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, at_least(1),
             "Wait before keys that could not be fetched are asked for again; it doubles with each failure."),
        _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, at_least(1), "Its longest value."),
        _key("sasl.oauthbearer.expected.audience", LIST, None, None,
             "Audiences of which a token has to name one. Not set: a token may not name any."),
        _key("sasl.oauthbearer.expected.issuer", STRING, None, None, "The issuer that a token has to name."),
        _key("sasl.oauthbearer.clock.skew.seconds", INT, 30, at_least(0),
             "By how much the clock of the identity provider may differ."),
        _key("sasl.oauthbearer.scope.claim.name", STRING, "scope", named, "The claim of a token with its scopes."),
        _key("sasl.oauthbearer.sub.claim.name", STRING, "sub", named, "The claim of a token with the name of its user."),
        _key("sasl.oauthbearer.jwt.validator.class", STRING, None, None,
             "What Kafka calls the check of a token: its own names are accepted, and nothing else."),
        _key("sasl.server.callback.handler.class", STRING, None, None,
             "What Kafka calls the check of a login: for OAUTHBEARER its own names are accepted, and nothing else."),
        _key("delegation.token.secret.key", PASSWORD, None, None,
             "The key from which the secrets of delegation tokens are made: the same on every node. Not set: there are none."
             " Its older name is delegation.token.master.key."),
        _key("delegation.token.max.lifetime.ms", LONG, 604800000, at_least(1), "A delegation token's longest life."),
        _key("delegation.token.expiry.time.ms", LONG, 86400000, at_least(1),
             "How long a delegation token is good before it has to be renewed."),
        _key("delegation.token.expiry.check.interval.ms", LONG, 3600000, at_least(1),
             "How often delegation tokens whose time is over are removed."),
        _key("authorizer.class.name", STRING, "", Check(
             "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or leave it out for no authorizer",
             lambda name: name in ("", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")),
             "Who decides what a principal may do. Empty: everybody may do everything."),
        _key("rayft.authorizer.log.allowed", BOOLEAN, False, None,
             "Whether what is allowed is a line in the log too, as what is denied always is."),
        _key("super.users", STRING, "", Check(
             "principals as User:name, with ; between them",
             lambda text: all(":" in one for one in text.split(";") if one)),
             "Principals that may do everything, with ; between them."),
        _key("allow.everyone.if.no.acl.found", BOOLEAN, False, None,
             "Allow everybody everything on a resource that has no access rules."),
        # --- the quorum and the metadata log
        _key("registration.heartbeat.interval.ms", INT, 2000, at_least(1), "Time between two heartbeats of a broker."),
        _key("registration.lease.timeout.ms", INT, 20000, at_least(1), "How long a broker's lease lasts (KIP-631)."),
        _idle("initial.broker.registration.timeout.ms", INT, 60000, at_least(1),
              "a broker asks until it is registered"),
        _key("controlled.shutdown.enable", BOOLEAN, True, None, "Move leaders away before stopping."),
        _key("controller.quorum.election.timeout.ms", INT, 1000, at_least(1), "Wait for a vote before trying again."),
        _key("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0), "Longest wait between elections."),
        _key("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(1),
             "A voter that has not fetched from a leader for this long starts an election."),
        _key("controller.quorum.request.timeout.ms", INT, 2000, at_least(1),
             "Longest wait for an answer in the quorum."),
        _key("controller.quorum.retry.backoff.ms", INT, 20, at_least(0),
             "Wait before a failed quorum request is repeated."),
        _key("controller.quorum.auto.join.enable", BOOLEAN, False, None,
             "A controller that is no voter asks to become one by itself, once a disk."),
        _idle("controller.quorum.append.linger.ms", INT, 25, at_least(0), "the node syncs as soon as the disk is free"),
        _key("controller.quorum.fetch.max.bytes", INT, 1048576, at_least(1), "Bytes of a metadata fetch."),
        _key("controller.quorum.fetch.snapshot.max.bytes", INT, 1048576, at_least(1), "Bytes of a snapshot fetch."),
        _key("metadata.log.dir", STRING, None, None, "Where the metadata log lives; the first of log.dirs when unset."),
        _key("metadata.log.segment.bytes", INT, 1073741824, at_least(8388608), "Size of a metadata segment."),
        _key("internal.metadata.log.segment.bytes", INT, None, at_least(1024),
             "Before the former when set; for tests."),
        _key("metadata.log.segment.ms", LONG, 604800000, at_least(1), "Age at which a metadata segment is rolled."),
        _key("metadata.log.max.record.bytes.between.snapshots", LONG, 20971520, at_least(1),
             "Bytes of metadata after which a snapshot is written."),
        _key("metadata.log.max.snapshot.interval.ms", LONG, 3600000, at_least(0),
             "Time after which a snapshot is written."),
        _key("metadata.log.max.record.bytes.between.snapshots.degraded", LONG, 209715200, at_least(1),
             "The same while the quorum is a bare majority, at metadata.format 1."),
        _key("metadata.log.max.snapshot.interval.ms.degraded", LONG, 36000000, at_least(0),
             "The same while the quorum is a bare majority, at metadata.format 1."),
        _idle("metadata.max.retention.bytes", LONG, 104857600, None,
              "the metadata log is cut behind its newest snapshot"),
        _idle("metadata.max.retention.ms", LONG, 604800000, None, "the metadata log is cut behind its newest snapshot"),
        _idle("metadata.max.idle.interval.ms", INT, 500, at_least(0), "an idle quorum writes nothing"),
        # --- topics and the log
        _key("log.dirs", LIST, None, None, "Directories for data, separated by commas."),
        _key("log.dir", LIST, ("/tmp/kafka-logs",), None, "Used when log.dirs is not set."),
        _key("auto.create.topics.enable", BOOLEAN, True, None, "Create a topic when a client asks for its metadata."),
        _key("delete.topic.enable", BOOLEAN, True, None, "Allow topics to be deleted."),
        _key("num.partitions", INT, 1, at_least(1), "Partitions of a topic for which no number is given."),
        _key("default.replication.factor", INT, 1, at_least(1), "Replicas of a topic for which no number is given."),
        _key("min.insync.replicas", INT, 1, at_least(1), "Replicas in sync that acks=all needs.", CLUSTER),
        _key("unclean.leader.election.enable", BOOLEAN, False, None,
             "Elect a replica that is not in sync when no other is left; loses data.", CLUSTER),
        _key("auto.leader.rebalance.enable", BOOLEAN, True, None, "Give leadership back to preferred replicas."),
        _key("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), "How often leadership is given back."),
        _key("message.max.bytes", INT, 1048588, at_least(0), "Largest record batch.", CLUSTER),
        _key("compression.type", STRING, "producer", _CODEC,
             "Codec that produced batches are stored in; producer keeps the one that they came with.", CLUSTER),
        _key("compression.gzip.level", INT, -1, _GZIP, "Level at which the broker compresses with gzip.", CLUSTER),
        _key("compression.lz4.level", INT, 9, between(1, 17), "Level at which the broker compresses with lz4.", CLUSTER),
        _key("compression.zstd.level", INT, 3, between(-131072, 22),
             "Level at which the broker compresses with zstd.", CLUSTER),
        _key("log.cleanup.policy", LIST, ("delete",), _CLEANUP,
             "What happens to old segments: delete them, compact them to the last record of each key, or both.",
             CLUSTER),
        _key("log.retention.ms", LONG, None, _RETAINED, "Age at which records go; -1 keeps all.", CLUSTER),
        _key("log.retention.minutes", INT, None, _RETAINED, "The same in minutes, when log.retention.ms is unset."),
        _key("log.retention.hours", INT, 168, _RETAINED, "The same in hours, when the other two are unset."),
        _key("log.retention.bytes", LONG, -1, None, "Bytes of a partition to keep; -1 for no limit.", CLUSTER),
        _key("log.retention.check.interval.ms", LONG, 300000, at_least(1), "How often retention is applied."),
        _key("log.initial.task.delay.ms", LONG, 30000, at_least(0),
             "Time from a broker's start to its first look at what retention may delete."),
        _key("log.segment.bytes", INT, 1073741824, at_least(1048576), "Size of a segment.", CLUSTER),
        _key("log.segment.delete.delay.ms", LONG, 60000, at_least(0),
             "Time before a dropped file is unlinked.", CLUSTER),
        _key("log.roll.ms", LONG, None, at_least(1), "Age at which a segment is rolled.", CLUSTER),
        _key("log.roll.hours", INT, 168, at_least(1), "The same in hours, when log.roll.ms is unset."),
        _idle("log.roll.jitter.ms", LONG, None, at_least(0), "segments roll when they are due", CLUSTER),
        _idle("log.roll.jitter.hours", INT, 0, at_least(0), "segments roll when they are due"),
        _key("log.index.interval.bytes", INT, 4096, at_least(0), "Bytes of log for an entry of the index.", CLUSTER),
        _key("log.index.size.max.bytes", INT, 10485760, at_least(4), "Largest index file.", CLUSTER),
        _idle("log.preallocate", BOOLEAN, False, None, "segments grow as they are written", CLUSTER),
        _key("log.flush.interval.messages", LONG, MAX_LONG, at_least(1), "Records between two syncs.", CLUSTER),
        _key("log.flush.interval.ms", LONG, None, None, "Time between two syncs.", CLUSTER),
        _key("log.flush.scheduler.interval.ms", LONG, MAX_LONG, None, "The same, when log.flush.interval.ms is unset."),
        _idle("log.flush.offset.checkpoint.interval.ms", INT, 60000, at_least(0),
              "all checkpoints follow replica.high.watermark.checkpoint.interval.ms"),
        _idle("log.flush.start.offset.checkpoint.interval.ms", INT, 60000, at_least(0),
              "all checkpoints follow replica.high.watermark.checkpoint.interval.ms"),
        _key("log.message.timestamp.type", STRING, "CreateTime", _TIME_TYPE, "Whose clock stamps records.", CLUSTER),
        _key("log.message.timestamp.before.max.ms", LONG, MAX_LONG, at_least(0), "Oldest timestamp accepted.", CLUSTER),
        _key("log.message.timestamp.after.max.ms", LONG, 3600000, at_least(0), "Furthest future accepted.", CLUSTER),
        _key("log.cleaner.enable", BOOLEAN, True, None, "Whether compacted topics are compacted.", CLUSTER),
        _key("log.cleaner.backoff.ms", LONG, 15000, at_least(0),
             "How long the cleaner waits when no log is dirty enough.", CLUSTER),
        _key("log.cleaner.delete.retention.ms", LONG, 86400000, at_least(0),
             "How long a tombstone stays once it has been compacted.", CLUSTER),
        _key("log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, between(0, 1),
             "Share of a compacted log that has to be dirty before it is cleaned.", CLUSTER),
        _key("log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0),
             "How long a record stays as it is, at least.", CLUSTER),
        _key("log.cleaner.max.compaction.lag.ms", LONG, MAX_LONG, at_least(1),
             "When a log is cleaned although little of it is dirty.", CLUSTER),
        _key("log.cleaner.dedupe.buffer.size", LONG, 134217728, at_least(1024),
             "Memory for keys, 24 bytes each, of all cleanings at once.", CLUSTER),
        _key("log.cleaner.threads", INT, 1, at_least(0),
             "How many logs are cleaned at once; four threads share the work.", CLUSTER),
        _key("log.cleaner.io.buffer.size", INT, 524288, at_least(0), "How much a cleaning reads at a time.", CLUSTER),
        _key("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, between(0, 1),
             "How full the memory for keys may be.", CLUSTER),
        _key("log.cleaner.io.max.bytes.per.second", DOUBLE, 1.7976931348623157e308, None,
             "Bytes that all cleanings together read and write in a second.", CLUSTER),
        _key("rayft.log.scrub.bytes.per.second", LONG, 4194304, at_least(0),
             "How fast what is at rest in the log directories is read again to find damage, and mended; 0: never.", CLUSTER),
        _key("rayft.log.scrub.interval.ms", LONG, 604800000, at_least(1000),
             "From the begin of one such reading of a log directory to the begin of the next.", CLUSTER),
        _idle("log.local.retention.ms", LONG, -2, at_least(-2), "there is no remote storage", CLUSTER),
        _idle("log.local.retention.bytes", LONG, -2, at_least(-2), "there is no remote storage", CLUSTER),
        _idle("log.dir.failure.timeout.ms", LONG, 30000, at_least(1), "a failed directory stops the node at once"),
        # --- replication
        _key("replica.lag.time.max.ms", LONG, 30000, at_least(1), "A follower further behind in time leaves the ISR."),
        _key("replica.fetch.max.bytes", INT, 1048576, at_least(0), "Bytes of a partition in a replica fetch."),
        _key("replica.fetch.response.max.bytes", INT, 10485760, at_least(0), "Bytes of a whole replica fetch."),
        _key("replica.fetch.min.bytes", INT, 1, at_least(0), "Bytes for which a replica fetch waits."),
        _key("replica.fetch.wait.max.ms", INT, 500, at_least(0), "How long a replica fetch waits."),
        _key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, MAX_LONG, at_least(0),
             "Bytes a second for replicas that are moved between log directories, all together.", CLUSTER),
        _idle("replica.fetch.backoff.ms", INT, 1000, at_least(0), "a refused fetch is tried again after 50 ms"),
        _key("replica.socket.timeout.ms", INT, 30000, at_least(1), "Longest wait for an answer of another broker."),
        _key("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, at_least(1),
             "How often they are written down."),
        _key("leader.replication.throttled.rate", LONG, MAX_LONG, at_least(0),
             "Bytes a second that this broker sends to listed replicas that are not in sync (KIP-73).", CLUSTER),
        _key("follower.replication.throttled.rate", LONG, MAX_LONG, at_least(0),
             "Bytes a second that listed replicas here that are not in sync take in (KIP-73).", CLUSTER),
        _key("replication.quota.window.num", INT, 11, at_least(1), "Windows over which these rates are taken."),
        _key("replication.quota.window.size.seconds", INT, 1, at_least(1), "The length of such a window."),
        _key("replica.selector.class", ConfigType.CLASS, None, _SELECTOR,
             "Sends consumers that name their rack to a replica in it; empty: to the leader (KIP-392)."),
        _idle("replica.socket.receive.buffer.bytes", INT, 65536, None, "the system sizes the buffer"),
        _idle("num.replica.fetchers", INT, 1, at_least(1), "one connection a broker", CLUSTER),
        # --- requests and connections
        _key("socket.request.max.bytes", INT, 104857600, at_least(1),
             "Largest request; a larger one closes the connection."),
        _key("socket.listen.backlog.size", INT, 50, at_least(1), "Connections that wait to be accepted."),
        _key("socket.send.buffer.bytes", INT, 102400, at_least(-1), "SO_SNDBUF when given; else the system decides."),
        _key("socket.receive.buffer.bytes", INT, 102400, at_least(-1),
             "SO_RCVBUF when given; else the system decides."),
        _key("queued.max.requests", INT, 500, at_least(1), "Requests waiting in the data lane before reading stops."),
        _key("queued.max.request.bytes", LONG, -1, None, "Bytes waiting in the data lane; -1 for no limit."),
        _key("connections.max.idle.ms", LONG, 600000, None, "A connection without traffic for this long is closed."),
        _key("max.connections", INT, MAX_INT, at_least(0),
             "Connections of a node; more are closed on arrival.", CLUSTER),
        _key("max.connections.per.ip", INT, MAX_INT, at_least(0), "Connections of one address.", CLUSTER),
        _key("max.connections.per.ip.overrides", STRING, "", None,
             "address:number pairs, before the general limit."),
        _idle("max.connection.creation.rate", INT, MAX_INT, at_least(0), "accepting is not throttled", CLUSTER),
        _idle("request.timeout.ms", INT, 30000, at_least(1), "each request to another node has a limit of its own"),
        _idle("controller.socket.timeout.ms", INT, 30000, at_least(1),
              "each request to a controller has a limit of its own"),
        _key("fetch.max.bytes", INT, 57671680, at_least(1024), "Largest answer to a fetch."),
        _key("max.incremental.fetch.session.cache.slots", INT, 1000, at_least(0), "Fetch sessions kept."),
        _key("max.request.partition.size.limit", INT, 2000, at_least(1),
             "Partitions in a DescribeTopicPartitions answer."),
        # --- client quotas
        _key("quota.window.num", INT, 11, at_least(1), "Samples over which the rates of client quotas are taken."),
        _key("quota.window.size.seconds", INT, 1, at_least(1), "How long each of these samples lasts."),
        _key("controller.quota.window.num", INT, 11, at_least(1),
             "Samples for which a client may save up changes of the controller that its quota allows."),
        _key("controller.quota.window.size.seconds", INT, 1, at_least(1), "How long each of these samples lasts."),
        _idle("num.network.threads", INT, 3, at_least(1), _ONE_THREAD, CLUSTER),
        _idle("num.io.threads", INT, 8, at_least(1), _ONE_THREAD, CLUSTER),
        _idle("background.threads", INT, 10, at_least(1), _ONE_THREAD, CLUSTER),
        _idle("num.recovery.threads.per.data.dir", INT, 2, at_least(1), _ONE_THREAD, CLUSTER),
        _key("num.replica.alter.log.dirs.threads", INT, None, None,
             "How many replicas are moved between log directories at once; unset: as many as there are directories."),
        _idle("fetch.purgatory.purge.interval.requests", INT, 1000, None, _SCHEDULE),
        _idle("producer.purgatory.purge.interval.requests", INT, 1000, None, _SCHEDULE),
        _idle("delete.records.purgatory.purge.interval.requests", INT, 1, None, _SCHEDULE),
        _key("connection.failed.authentication.delay.ms", INT, 100, at_least(0),
             "How long a login that failed waits for its answer and the end of its connection."),
        # --- groups, transactions, producers
        _key("group.min.session.timeout.ms", INT, 6000, at_least(0), "Shortest session of a classic member."),
        _key("group.max.session.timeout.ms", INT, 1800000, at_least(0), "Longest session of a classic member."),
        _key("group.max.size", INT, MAX_INT, at_least(1), "Members of a classic group."),
        _key("group.initial.rebalance.delay.ms", INT, 3000, at_least(0), "Wait for more members of a new group."),
        _key("group.coordinator.rebalance.protocols", LIST, ("classic", "consumer", "streams"),
             some_of("classic", "consumer", "share", "streams"),
             "Without consumer or streams in it, members of that protocol (KIP-848, KIP-1071) are not served. The others do "
             "nothing."),
        _key("group.consumer.session.timeout.ms", INT, 45000, at_least(1),
             "When a member of a consumer group that is not heard of is removed."),
        _key("group.consumer.min.session.timeout.ms", INT, 45000, at_least(1),
             "Shortest consumer.session.timeout.ms of a group."),
        _key("group.consumer.max.session.timeout.ms", INT, 60000, at_least(1),
             "Longest consumer.session.timeout.ms of a group."),
        _key("group.consumer.heartbeat.interval.ms", INT, 5000, at_least(1),
             "How often members of consumer groups send heartbeats."),
        _key("group.consumer.min.heartbeat.interval.ms", INT, 5000, at_least(1),
             "Shortest consumer.heartbeat.interval.ms of a group."),
        _key("group.consumer.max.heartbeat.interval.ms", INT, 15000, at_least(1),
             "Longest consumer.heartbeat.interval.ms of a group."),
        _key("group.consumer.assignment.interval.ms", INT, 1000, at_least(0),
             "Least time between two target assignments of a consumer group. One that is set at run time counts as far as "
             "the node's bounds allow.", CLUSTER),
        _key("group.consumer.min.assignment.interval.ms", INT, 0, at_least(0),
             "Shortest consumer.assignment.interval.ms of a group."),
        _key("group.consumer.max.assignment.interval.ms", INT, 15000, at_least(0),
             "Longest consumer.assignment.interval.ms of a group."),
        _idle("group.consumer.assignor.offload.enable", BOOLEAN, True, None,
              "target assignments are always made outside the loop"),
        _key("group.consumer.max.size", INT, MAX_INT, at_least(1), "Members of a consumer group."),
        _key("group.consumer.assignors", LIST, ("uniform", "range"), _ASSIGNORS,
             "Assignors that members may ask for; the first where they ask for none."),
        _key("group.consumer.regex.refresh.interval.ms", INT, 600000, at_least(10000),
             "How often regular expressions of members are matched with the topics anew."),
        _key("group.consumer.migration.policy", STRING, "bidirectional", _MIGRATION,
             "Whether a group with members of both protocols becomes a consumer group (upgrade), and a classic group again "
             "when the last new member leaves (downgrade)."),
        # --- share groups
        _key("group.share.session.timeout.ms", INT, 45000, at_least(1),
             "When a member of a share group that is not heard of is removed."),
        _key("group.share.min.session.timeout.ms", INT, 45000, at_least(1),
             "Shortest share.session.timeout.ms of a group."),
        _key("group.share.max.session.timeout.ms", INT, 60000, at_least(1),
             "Longest share.session.timeout.ms of a group."),
        _key("group.share.heartbeat.interval.ms", INT, 5000, at_least(1),
             "How often members of share groups send heartbeats."),
        _key("group.share.min.heartbeat.interval.ms", INT, 5000, at_least(1),
             "Shortest share.heartbeat.interval.ms of a group."),
        _key("group.share.max.heartbeat.interval.ms", INT, 15000, at_least(1),
             "Longest share.heartbeat.interval.ms of a group."),
        _key("group.share.assignment.interval.ms", INT, 1000, at_least(0),
             "Least time between two target assignments of a share group. One that is set at run time counts as far as "
             "the node's bounds allow.", CLUSTER),
        _key("group.share.min.assignment.interval.ms", INT, 0, at_least(0),
             "Shortest share.assignment.interval.ms of a group."),
        _key("group.share.max.assignment.interval.ms", INT, 15000, at_least(0),
             "Longest share.assignment.interval.ms of a group."),
        _key("group.share.max.size", INT, 200, between(1, 1000), "Members of a share group."),
        _key("group.share.initialize.retry.interval.ms", INT, 30000, at_least(1),
             "When the beginning of a share partition is asked for again, if its answer was lost."),
        _idle("group.share.assignors", LIST, ("simple",), _SIMPLE, "there is one assignor for share groups"),
        _idle("group.share.assignor.offload.enable", BOOLEAN, True, None,
              "target assignments are always made outside the loop"),
        _key("group.share.partition.max.record.locks", INT, 2000, between(100, 10000),
             "Records of a share partition that may be acquired at a time."),
        _key("group.share.min.partition.max.record.locks", INT, 100, between(100, 2000),
             "Least share.partition.max.record.locks of a group."),
        _key("group.share.max.partition.max.record.locks", INT, 4000, between(2000, 10000),
             "Largest share.partition.max.record.locks of a group."),
        _key("group.share.delivery.count.limit", INT, 5, between(2, 10),
             "How often a record is delivered to a share group before it is given up."),
        _key("group.share.min.delivery.count.limit", INT, 2, between(2, 5),
             "Least share.delivery.count.limit of a group."),
        _key("group.share.max.delivery.count.limit", INT, 10, between(5, 25),
             "Largest share.delivery.count.limit of a group."),
        _key("group.share.record.lock.duration.ms", INT, 30000, between(1000, 3600000),
             "How long a record stays acquired by one member."),
        _key("group.share.min.record.lock.duration.ms", INT, 15000, between(1000, 30000),
             "Shortest share.record.lock.duration.ms of a group."),
        _key("group.share.max.record.lock.duration.ms", INT, 60000, between(30000, 3600000),
             "Longest share.record.lock.duration.ms of a group."),
        _idle("group.share.persister.class.name", STRING, _PERSISTER, one_of(_PERSISTER),
              "what share groups remember is kept in __share_group_state"),
        _key("group.share.max.share.sessions", INT, 2000, at_least(1), "Share sessions that a broker keeps."),
        _idle("share.fetch.purgatory.purge.interval.requests", INT, 1000, None, _SCHEDULE),
        _key("share.coordinator.state.topic.num.partitions", INT, 50, at_least(1), "Partitions of __share_group_state."),
        _key("share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1),
             "Its replicas; as many as there are brokers where fewer are there and it is not given."),
        _key("share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1),
             "Its min.insync.replicas; no more than it has replicas where it is not given."),
        _key("share.coordinator.state.topic.segment.bytes", INT, 104857600, at_least(1), "Its segment size."),
        _key("share.coordinator.state.topic.prune.interval.ms", INT, 300000, at_least(1),
             "How often what is not needed any more is deleted from it."),
        _key("share.coordinator.cold.partition.snapshot.interval.ms", INT, 300000, at_least(1),
             "When a share partition that is not written gets a new snapshot, so that what is before it can be deleted."),
        _key("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500),
             "Updates of a share partition between two snapshots."),
        _key("share.coordinator.write.timeout.ms", INT, 5000, at_least(1),
             "Longest wait until what share groups remember is replicated."),
        _idle("share.coordinator.threads", INT, 1, at_least(1), _ONE_THREAD),
        _idle("share.coordinator.load.buffer.size", INT, 5242880, at_least(1), "partitions load in slices of 256 KiB"),
        _idle("share.coordinator.state.topic.compression.codec", INT, 0, None, "its records are not compressed"),
        _idle("share.coordinator.append.linger.ms", INT, -1, at_least(-1), "a turn's writes share a batch"),
        _idle("share.coordinator.cached.buffer.max.bytes", INT, 1048588, at_least(512 * 1024), "no buffers are kept",
              CLUSTER),
        # --- streams groups
        _key("group.streams.session.timeout.ms", INT, 45000, at_least(1),
             "When a member of a streams group that is not heard of is removed."),
        _key("group.streams.min.session.timeout.ms", INT, 45000, at_least(1),
             "Shortest streams.session.timeout.ms of a group."),
        _key("group.streams.max.session.timeout.ms", INT, 60000, at_least(1),
             "Longest streams.session.timeout.ms of a group."),
        _key("group.streams.heartbeat.interval.ms", INT, 5000, at_least(1),
             "How often members of streams groups send heartbeats."),
        _key("group.streams.min.heartbeat.interval.ms", INT, 5000, at_least(1),
             "Shortest streams.heartbeat.interval.ms of a group."),
        _key("group.streams.max.heartbeat.interval.ms", INT, 15000, at_least(1),
             "Longest streams.heartbeat.interval.ms of a group."),
        _key("group.streams.assignment.interval.ms", INT, 1000, at_least(0),
             "Least time between two target assignments of a streams group. One that is set at run time counts as far as "
             "the node's bounds allow.", CLUSTER),
        _key("group.streams.min.assignment.interval.ms", INT, 0, at_least(0),
             "Shortest streams.assignment.interval.ms of a group."),
        _key("group.streams.max.assignment.interval.ms", INT, 15000, at_least(0),
             "Longest streams.assignment.interval.ms of a group."),
        _key("group.streams.num.standby.replicas", INT, 0, at_least(0), "Standby tasks of each stateful task."),
        _key("group.streams.max.standby.replicas", INT, 2, at_least(0),
             "Largest streams.num.standby.replicas of a group."),
        _key("group.streams.initial.rebalance.delay.ms", INT, 3000, at_least(0),
             "Wait for more members of a new streams group."),
        _key("group.streams.max.size", INT, MAX_INT, at_least(1), "Members of a streams group."),
        _idle("group.streams.assignor.offload.enable", BOOLEAN, True, None,
              "target assignments are always made outside the loop"),
        _idle("group.coordinator.threads", INT, 4, at_least(1), _ONE_THREAD),
        _idle("group.coordinator.cached.buffer.max.bytes", INT, 1048588, at_least(512 * 1024), "no buffers are kept",
              CLUSTER),
        _idle("group.coordinator.append.linger.ms", INT, -1, at_least(-1), "a turn's writes share a batch"),
        _key("offset.metadata.max.bytes", INT, 4096, at_least(0), "Largest text beside a committed offset."),
        _key("offsets.commit.timeout.ms", INT, 5000, at_least(1), "Longest wait until a commit is replicated."),
        _key("offsets.retention.minutes", INT, 10080, at_least(1), "How long offsets of an empty group are kept."),
        _key("offsets.retention.check.interval.ms", LONG, 600000, at_least(1), "How often old offsets are dropped."),
        _key("offsets.topic.num.partitions", INT, 50, at_least(1), "Partitions of __consumer_offsets."),
        _key("offsets.topic.replication.factor", SHORT, 3, at_least(1),
             "Its replicas; as many as there are brokers where fewer are there and it is not given."),
        _key("offsets.topic.segment.bytes", INT, 104857600, at_least(1),
             "Its segment size. The log cleaner compacts what is behind the segment that takes appends."),
        _idle("offsets.load.buffer.size", INT, 5242880, at_least(1), "group partitions load in slices of 256 KiB"),
        _idle("offsets.topic.compression.codec", INT, 0, None, "offsets are not compressed"),
        _key("transaction.max.timeout.ms", INT, 900000, at_least(1), "Longest timeout that a producer may ask for."),
        _key("transactional.id.expiration.ms", INT, 604800000, at_least(1),
             "When a transactional id that is not used is removed."),
        _key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, at_least(1),
             "How often transactions that are over their time are aborted."),
        _key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, at_least(1),
             "How often transactional ids that are not used are removed."),
        _key("transaction.partition.verification.enable", BOOLEAN, True, None,
             "Ask the coordinator whether a partition is in the transaction before a batch is appended (KIP-890).", CLUSTER),
        _key("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0),
             "How long a leader waits for the end of the transaction before, when it adds its partition to the next."),
        _key("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), "Longest time between two such attempts."),
        _key("transaction.state.log.num.partitions", INT, 50, at_least(1), "Partitions of __transaction_state."),
        _key("transaction.state.log.replication.factor", SHORT, 3, at_least(1),
             "Its replicas; as many as there are brokers where fewer are there and it is not given."),
        _key("transaction.state.log.min.isr", INT, 2, at_least(1),
             "Its min.insync.replicas; no more than it has replicas where it is not given."),
        _key("transaction.state.log.segment.bytes", INT, 104857600, at_least(1), "Its segment size."),
        _key("producer.id.expiration.ms", INT, 86400000, at_least(1),
             "When an unused producer id is forgotten.", CLUSTER),
        _key("producer.id.expiration.check.interval.ms", INT, 600000, at_least(1),
             "How often a broker looks for producer ids to forget."),
    ]
)  # fmt: skip

_FLUSH_MS = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")

BROKER_SYNONYMS = {name: names for names in (_FLUSH_MS, _RETENTION, _ROLL, _JITTER) for name in names}
"""Node settings that say the same in other units, the strongest first."""

UNIT_MS = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}
"""Node settings whose name ends in one of these words count in this many milliseconds."""


def _topic(name: str, synonym: str | tuple[str, ...], default: Any = None) -> tuple[str, ConfigKey]:
    """A topic setting that is a node's setting under another name. It has the node's type, check and default."""
    synonyms = (synonym,) if isinstance(synonym, str) else synonym
    key = BROKER_CONFIGS[synonyms[0]]
    default = key.default if default is None else default
    return name, key._replace(name=name, default=default, dynamic="topic", synonyms=synonyms)


TOPIC_CONFIGS: dict[str, ConfigKey] = dict(
    [
        _topic("cleanup.policy", "log.cleanup.policy"),
        _topic("compression.type", "compression.type"),
        _topic("compression.gzip.level", "compression.gzip.level"),
        _topic("compression.lz4.level", "compression.lz4.level"),
        _topic("compression.zstd.level", "compression.zstd.level"),
        _topic("delete.retention.ms", "log.cleaner.delete.retention.ms"),
        _topic("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        _topic("flush.messages", "log.flush.interval.messages"),
        _key("flush.ms", LONG, MAX_LONG, at_least(0), "Time between two syncs.", "topic", _FLUSH_MS),
        _key("follower.replication.throttled.replicas", LIST, (), _THROTTLED,
             "Replicas that fetch at follower.replication.throttled.rate while out of sync: * or partition:broker pairs.",
             "topic"),
        _key("leader.replication.throttled.replicas", LIST, (), _THROTTLED,
             "Leaders that send at leader.replication.throttled.rate to replicas not in sync: * or partition:broker pairs.",
             "topic"),
        _topic("index.interval.bytes", "log.index.interval.bytes"),
        _topic("local.retention.bytes", "log.local.retention.bytes"),
        _topic("local.retention.ms", "log.local.retention.ms"),
        _topic("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        _topic("max.message.bytes", "message.max.bytes"),
        _topic("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
        _topic("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
        _topic("message.timestamp.type", "log.message.timestamp.type"),
        _topic("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
        _topic("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
        _topic("min.insync.replicas", "min.insync.replicas"),
        _topic("preallocate", "log.preallocate"),
        _key("internal.segment.bytes", INT, None, at_least(14), "Before segment.bytes when set; for tests.", "topic"),
        _key("remote.storage.enable", BOOLEAN, False, _NO_REMOTE, "Only false: there is no remote storage.", "topic",
             (), False),
        _key("remote.log.copy.disable", BOOLEAN, False, None,
             "Accepted, does nothing here: there is no remote storage.", "topic", (), False),
        _key("remote.log.delete.on.disable", BOOLEAN, False, None,
             "Accepted, does nothing here: there is no remote storage.", "topic", (), False),
        _topic("retention.bytes", "log.retention.bytes"),
        _key("retention.ms", LONG, 604_800_000, at_least(-1), "Age at which records go; -1 keeps all.", "topic", _RETENTION),
        _topic("segment.bytes", "log.segment.bytes"),
        _topic("segment.index.bytes", "log.index.size.max.bytes"),
        _topic("segment.jitter.ms", _JITTER, 0),
        _topic("segment.ms", _ROLL, 604_800_000),
        _topic("unclean.leader.election.enable", "unclean.leader.election.enable"),
    ]
)  # fmt: skip


UNSHOWN = frozenset({
    "leader.replication.throttled.rate", "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
})  # fmt: skip
"""Settings of a broker that are shown only where somebody has set them: kafka-reassign-partitions.sh takes one that is shown
for a throttle that is still there."""

CLIENT_METRICS = "client metrics"
_MATCHES = (
    "client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
)  # fmt: skip
_PATTERNS = Check(
    "name=pattern pairs, the names out of " + ", ".join(_MATCHES),
    lambda value: all(part.partition("=")[0].strip() in _MATCHES and part.partition("=")[2].strip() for part in value),
)
CLIENT_METRICS_CONFIGS: dict[str, ConfigKey] = dict(
    [
        _key("interval.ms", INT, 300_000, between(100, 3_600_000),
             "How often a client pushes.", CLIENT_METRICS, (), False),
        _key("match", LIST, (), _PATTERNS,
             "Which clients are asked: those of which each attribute named matches.", CLIENT_METRICS, (), False),
        _key("metrics", LIST, (), None,
             "What they push: metrics whose names begin so, * for all.", CLIENT_METRICS, (), False),
    ]
)  # fmt: skip
"""Settings of a subscription to metrics of clients (KIP-714)."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of one topic, typed: `retention.ms` is `.retention_ms`, and so on for all rows with an effect."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compact(self) -> bool:
        """Whether cleanup.policy names compact."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Age at which a segment is rolled: what is in the last one is never compacted, so max.compaction.lag.ms counts."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    @property
    def delete(self) -> bool:
        """Whether cleanup.policy names delete."""
        return "delete" in self.cleanup_policy


def topic_settings(overrides: Mapping[str, str], node: Callable[[str], tuple[bool, Any]]) -> TopicSettings:
    """The settings of a topic: its own `overrides` (as text), else the node's, else the default.

    `node(name)` answers (whether it is given, typed value) for a setting of BROKER_CONFIGS. Raises ConfigError.
    """
    values: dict[str, Any] = {}
    for name, key in TOPIC_CONFIGS.items():
        if name in overrides:
            values[name] = _parsed(name, overrides[name])
        else:
            values[name] = inherited(key, node)
    if (small := values.pop("internal.segment.bytes")) is not None:
        values["segment.bytes"] = small
    return TopicSettings(**{n.replace(".", "_"): v for n, v in values.items() if TOPIC_CONFIGS[n].effect})


@lru_cache(maxsize=512)
def _parsed(name: str, text: str) -> Any:
    """The typed value of a topic's setting. All partitions of a topic ask for the same one, and a list may be long."""
    return TOPIC_CONFIGS[name].parse(text)


def inherited(key: ConfigKey, node: Callable[[str], tuple[bool, Any]]) -> Any:
    """The value of a topic setting without an override: the first of its synonyms that is given, in the topic's
    unit."""
    for synonym in key.synonyms:
        given, value = node(synonym)
        if given and value is not None:
            unit = UNIT_MS.get(synonym.rpartition(".")[2], 1)
            return value * unit if unit > 1 and value >= 0 else value
    return key.default
