"""From the text of a properties file to settings by their names of the drafts.

This file alone decides how that text is read (Java's rules), which names are accepted, which of them say the same
(`ALIASES`), and which have no effect or stop the start. Rules:

1. Unknown settings stop the start, and the error names the closest one. Nothing is guessed.
2. A setting may have several names (`ALIASES`). Two of its names with different values are a contradiction.
"""

import difflib
import re
from collections.abc import Mapping

from actors.settings.keys import ConfigError
from actors.settings.listener_security import is_listener_setting
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import TOPIC_CONFIGS

ALIASES = {
    "controller.listener.names": "controller.listeners",
    "controller.quorum.voters": "controller.connect",
    "controller.quorum.bootstrap.servers": "controller.connect",
    "broker.heartbeat.interval.ms": "registration.heartbeat.interval.ms",
    "broker.session.timeout.ms": "registration.lease.timeout.ms",
    "delegation.token.master.key": "delegation.token.secret.key",
}
"""The name of the drafts for a released name, and the present name for an earlier one."""

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
"""The names, or beginnings of names that end in a dot, that stop the start, with what to do."""

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
        "transaction.state.log.load.buffer.size",
        "unclean.leader.election.interval.ms", "unstable.api.versions.enable", "unstable.feature.versions.enable",
    }
)  # fmt: skip
"""Apache Kafka's names that are accepted and have no effect here."""
IDLE_PREFIXES = ("remote.", "kafka.metrics.")
"""The beginnings of more names without an effect here: tiered storage, reporters."""

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
"""The names of secret settings, also as the ends of the names of listeners' own settings."""


def has_secrets(written: Mapping[str, str]) -> bool:
    """Whether settings, as a file has them, hold a secret themselves: not a reference to one (KIP-421)."""
    return any(
        text.strip() and not ("${" in text and "config.providers" in written)
        for name, text in written.items()
        if name.endswith(_SECRET)
    )


def refuse(given: Mapping[str, str]) -> None:
    """Check for settings that stop the start, whatever else there is. Raises ConfigError."""
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


def canonical(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
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
