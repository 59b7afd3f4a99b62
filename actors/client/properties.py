"""From a client's properties, by Kafka's own names, to a `ClientConfig`.

This file alone decides which settings a client has. Rules:

1. Names, defaults and meanings are those of Apache Kafka's clients 4.3, so that a client.properties of its tools is read as
   it is. A few names of librdkafka are taken too, where Java has none (`sasl.username`, `sasl.password`).
2. A name that nobody knows is refused with the closest one that there is. One of Java's that means nothing here has no
   effect and is listed in `ClientConfig.idle`.
3. A value is checked when it is read. No secret is in an error, nor in a config's repr.

KIP-85 (sasl.jaas.config), KIP-651 (PEM), KIP-580 (back-off), KIP-899 (metadata.recovery.strategy).
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.settings.jaas import BadJaas
from actors.settings.jaas import options as jaas_options
from actors.settings.keys import ConfigError
from actors.settings.properties import properties as properties
from actors.settings.tls import PROTOCOLS, STORE_TYPES, Store

SECURITY = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
INT_MAX = (1 << 31) - 1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class TlsConfig(NamedTuple):
    """The TLS settings of a client. Files are read by the host."""

    keys: Store
    """The client's key and certificate; empty: the client shows no certificate."""
    key_password: str
    trusted: Store
    """The trusted authorities; empty: those of the system."""
    protocols: tuple[str, ...]
    ciphers: tuple[str, ...]
    checks_host: bool

    def __repr__(self) -> str:
        return f"TlsConfig({self.keys}, {self.trusted})"


class Login(NamedTuple):
    """The credentials with which a client logs in."""

    mechanism: str
    name: str = ""
    password: str = ""
    token: str = ""
    """The token of OAUTHBEARER, as it is."""
    token_file: str = ""
    """The path of a file that has the token, read by the host for each login."""
    extensions: tuple[tuple[str, str], ...] = ()
    """The extensions of OAUTHBEARER (KIP-342). With SCRAM: `tokenauth` (KIP-48)."""

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.name})"


@dataclass(frozen=True)
class ClientConfig:
    """All settings of a client. Times are in ms, sizes in bytes."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "rayft"
    rack: str = ""
    tls: TlsConfig | None = None
    login: Login | None = None
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    retries: int = INT_MAX
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    setup_timeout_ms: int = 10_000
    setup_timeout_max_ms: int = 30_000
    idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    rebootstrap: bool = True
    in_flight_max: int = 5
    receive_bytes_max: int = 100_000_000
    receive_buffer_bytes: int = 65_536
    send_buffer_bytes: int = 131_072
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_wait_ms: int = 500
    partition_fetch_bytes: int = 1_048_576
    isolation: int = READ_UNCOMMITTED
    check_crcs: bool = True
    offset_reset: str = "latest"
    group: str = ""
    acks: int = -1
    idempotent: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    two_phase: bool = False
    compression: str = "none"
    request_bytes_max: int = 1_048_576
    batch_bytes: int = 16_384
    linger_ms: int = 5
    buffer_bytes: int = 33_554_432
    create_topics: bool = True
    idle: tuple[str, ...] = field(default=(), repr=False)
    """The names that were given and have no effect here."""


class Setting(NamedTuple):
    """One row of the table: which attribute a name is, and how its text is read."""

    attribute: str
    parse: Callable[[str], Any]
    wants: str


def _number(low: int, high: int = INT_MAX) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return parse


def _choice(**values: Any) -> Callable[[str], Any]:
    return lambda text: values[text.strip().lower()]


def _setting(attribute: str, low: int = 0) -> Setting:
    return Setting(attribute, _number(low), f"a number from {low} to {INT_MAX}")


def _flag(attribute: str) -> Setting:
    return Setting(attribute, _choice(true=True, false=False), "true or false")


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS: dict[str, Setting] = {
    "client.id": Setting("client_id", str, "a name"),
    "client.rack": Setting("rack", str, "a name"),
    "request.timeout.ms": _setting("request_timeout_ms", 1),
    "default.api.timeout.ms": _setting("api_timeout_ms", 1),
    "delivery.timeout.ms": _setting("delivery_timeout_ms", 1),
    "retries": _setting("retries"),
    "retry.backoff.ms": _setting("retry_backoff_ms"),
    "retry.backoff.max.ms": _setting("retry_backoff_max_ms"),
    "reconnect.backoff.ms": _setting("reconnect_backoff_ms"),
    "reconnect.backoff.max.ms": _setting("reconnect_backoff_max_ms"),
    "socket.connection.setup.timeout.ms": _setting("setup_timeout_ms", 1),
    "socket.connection.setup.timeout.max.ms": _setting("setup_timeout_max_ms", 1),
    "connections.max.idle.ms": Setting("idle_ms", _number(-1), "a number of ms, or -1 for never"),
    "metadata.max.age.ms": _setting("metadata_max_age_ms"),
    "metadata.recovery.strategy": Setting("rebootstrap", _choice(rebootstrap=True, none=False), "rebootstrap or none"),
    "max.in.flight.requests.per.connection": _setting("in_flight_max", 1),
    "receive.message.max.bytes": _setting("receive_bytes_max", 1000),
    "receive.buffer.bytes": Setting("receive_buffer_bytes", _number(-1), "a number of bytes, or -1 for the system's"),
    "send.buffer.bytes": Setting("send_buffer_bytes", _number(-1), "a number of bytes, or -1 for the system's"),
    "fetch.min.bytes": _setting("fetch_min_bytes"),
    "fetch.max.bytes": _setting("fetch_max_bytes"),
    "fetch.max.wait.ms": _setting("fetch_wait_ms"),
    "max.partition.fetch.bytes": _setting("partition_fetch_bytes"),
    "isolation.level": Setting(
        "isolation",
        _choice(read_uncommitted=READ_UNCOMMITTED, read_committed=READ_COMMITTED),
        "read_uncommitted or read_committed",
    ),
    "check.crcs": _flag("check_crcs"),
    "auto.offset.reset": Setting(
        "offset_reset", _choice(earliest="earliest", latest="latest", none="none"), "earliest, latest or none"
    ),
    "group.id": Setting("group", str, "a name"),
    "acks": Setting("acks", _choice(**{"all": -1, "-1": -1, "0": 0, "1": 1}), "all, 1 or 0"),
    "enable.idempotence": _flag("idempotent"),
    "transactional.id": Setting("transactional_id", lambda text: text or None, "a name"),
    "transaction.timeout.ms": _setting("transaction_timeout_ms", 1),
    "transaction.two.phase.commit.enable": _flag("two_phase"),
    "compression.type": Setting("compression", _choice(**{one: one for one in CODECS}), ", ".join(CODECS)),
    "max.request.size": _setting("request_bytes_max", 1000),
    "batch.size": _setting("batch_bytes"),
    "linger.ms": _setting("linger_ms"),
    "buffer.memory": _setting("buffer_bytes"),
    "allow.auto.create.topics": _flag("create_topics"),
}

TLS_NAMES = frozenset({
    "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
    "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password",
    "ssl.truststore.type",
})  # fmt: skip
TWO_PHASE = "transaction.two.phase.commit.enable"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
SASL_NAMES = frozenset({
    "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password", "sasl.oauthbearer.token",
    "sasl.oauthbearer.token.file", TOKEN_URL,
})  # fmt: skip
SECRET = frozenset({
    "sasl.jaas.config", "sasl.password", "sasl.oauthbearer.token", "ssl.key.password", "ssl.keystore.key",
    "ssl.keystore.password", "ssl.truststore.password",
})  # fmt: skip
ALIASES = {"sasl.mechanisms": "sasl.mechanism", "metadata.broker.list": "bootstrap.servers"}
"""Java's name of each of librdkafka's names."""
IDLE = frozenset({
    "auto.commit.interval.ms", "client.dns.lookup", "compression.gzip.level", "compression.lz4.level",
    "compression.zstd.level", "enable.auto.commit", "enable.metrics.push", "exclude.internal.topics",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "interceptor.classes",
    "internal.throw.on.fetch.stable.offset.unsupported", "key.deserializer", "key.serializer", "max.block.ms",
    "max.poll.interval.ms", "max.poll.records", "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms",
    "metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "partitioner.class", "partitioner.ignore.keys",
    "sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class",
    "security.providers", "session.timeout.ms", "share.acknowledgement.mode", "share.acquire.mode",
    "ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider",
    "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    "value.deserializer", "value.serializer",
})  # fmt: skip
"""The names of Java's settings that mean nothing here."""
IDLE_PREFIXES = (
    "sasl.login.", "sasl.kerberos.", "sasl.oauthbearer.", "config.providers.", "schema.registry.", "basic.auth.",
)  # fmt: skip
REFUSED = {
    "bootstrap.controllers": "write bootstrap.servers with the address of a broker",
    "config.providers": "references to other files are not followed here: write the values",
}
NAMES = frozenset({"bootstrap.servers", "security.protocol", *SETTINGS, *TLS_NAMES, *SASL_NAMES})


def client_config(given: Mapping[str, Any]) -> ClientConfig:
    """The config of a client's properties. Values may be text, numbers, true and false. Raises ConfigError."""
    text, idle = _texts(given)
    found: dict[str, Any] = {"bootstrap": _bootstrap(text.get("bootstrap.servers", "")), "idle": tuple(idle)}
    for name, setting in SETTINGS.items():
        if name in text:
            try:
                found[setting.attribute] = setting.parse(text[name].strip())
            except (ValueError, KeyError):
                raise ConfigError(f"{name}={text[name]} is not allowed: write {setting.wants}.") from None
    protocol = text.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in SECURITY:
        raise ConfigError(f"security.protocol={protocol} is not supported: write one of {', '.join(SECURITY)}.")
    if protocol.endswith("SSL"):
        found["tls"] = _tls(text)
    if protocol.startswith("SASL"):
        found["login"] = _login(text)
    config = ClientConfig(**found)
    if config.transactional_id is not None and text.get("enable.idempotence", "true").strip().lower() == "false":
        raise ConfigError("enable.idempotence=false contradicts transactional.id: leave one of them out.")
    if config.two_phase and config.transactional_id is None:
        raise ConfigError(f"{TWO_PHASE}=true needs a transactional.id: write one.")
    if config.two_phase and "transaction.timeout.ms" in text:
        raise ConfigError(f"transaction.timeout.ms has no meaning with {TWO_PHASE}=true: leave one of them out.")
    if config.transactional_id is not None and config.acks != -1:
        raise ConfigError("acks must be all where there is a transactional.id: leave it out.")
    if config.acks != -1 and "enable.idempotence" not in text:
        object.__setattr__(config, "idempotent", False)  # as in Java: acks=1 turns it off unless it was asked for
    if config.idempotent and config.acks != -1:
        raise ConfigError("enable.idempotence=true needs acks=all: leave acks out, or write enable.idempotence=false.")
    return config


def own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under Java's names. Raises ConfigError if two names of one setting differ."""
    found: dict[str, Any] = {}
    for spelt, value in given.items():
        name = ALIASES.get(spelt, spelt)
        if name in found and _plain(found[name]) != _plain(value):
            alias = next(one for one in given if one != name and ALIASES.get(one) == name)
            raise ConfigError(f"{alias} and {name} mean the same setting and differ: keep one of them.")
        found[name] = value
    return found


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(given: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The text of each setting under the names of this client, and the names without an effect."""
    text: dict[str, str] = {}
    idle: list[str] = []
    for name, value in own_names(given).items():
        if name in REFUSED:
            raise ConfigError(f"{name} is not supported: {REFUSED[name]}.")
        if name in NAMES:
            text[name] = _plain(value)
        elif name in IDLE or name.startswith(IDLE_PREFIXES):
            idle.append(name)
        else:
            near = difflib.get_close_matches(name, [*NAMES, *IDLE], n=1, cutoff=0.6)
            raise ConfigError(
                f"{name} is not a setting of a client" + (f": did you mean {near[0]}?" if near else ": leave it out.")
            )
    return text, idle


def _bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for one in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = one.rpartition("://")[2].rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
            raise ConfigError(f"{one} in bootstrap.servers is no address: write host:port.")
        found.append((host, int(port)))
    if not found:
        raise ConfigError("bootstrap.servers is missing: write the address of a broker, as in localhost:9092.")
    return tuple(found)


def _tls(text: Mapping[str, str]) -> TlsConfig:
    def of(name: str, default: str = "") -> str:
        return text.get(name, default)

    protocols = tuple(one.strip() for one in of("ssl.enabled.protocols", ",".join(PROTOCOLS)).split(",") if one.strip())
    if not protocols or any(one not in PROTOCOLS for one in protocols):
        raise ConfigError(
            f"ssl.enabled.protocols={of('ssl.enabled.protocols')} is not allowed: write some of {', '.join(PROTOCOLS)}."
        )
    key, chain = of("ssl.keystore.key"), of("ssl.keystore.certificate.chain")
    if bool(key) != bool(chain):
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain belong together: write both.")
    keys = Store(
        of("ssl.keystore.type").upper(), of("ssl.keystore.location"), of("ssl.keystore.password"),
        f"{chain}\n{key}" if key else "",
    )  # fmt: skip
    trusted = Store(
        of("ssl.truststore.type").upper(), of("ssl.truststore.location"), of("ssl.truststore.password"),
        of("ssl.truststore.certificates"),
    )  # fmt: skip
    for name, store in (("keystore", keys), ("truststore", trusted)):
        if store.type and store.type not in STORE_TYPES:
            raise ConfigError(f"ssl.{name}.type={store.type} is not supported: write PEM or PKCS12.")
    ciphers = tuple(one.strip() for one in of("ssl.cipher.suites").split(",") if one.strip())
    checks = of("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if checks not in ("", "https", "none"):
        raise ConfigError(
            "ssl.endpoint.identification.algorithm must be https, or empty so that a certificate may name any host."
        )
    return TlsConfig(keys, of("ssl.key.password"), trusted, protocols, ciphers, checks == "https")


def _login(text: Mapping[str, str]) -> Login:
    mechanism = text.get("sasl.mechanism", "").strip().upper()
    if mechanism not in MECHANISMS:
        given = f"sasl.mechanism={mechanism} is not supported" if mechanism else "sasl.mechanism is missing"
        raise ConfigError(f"{given}: write one of {', '.join(MECHANISMS)}.")
    options: dict[str, str] = {}
    if text.get("sasl.jaas.config", "").strip():
        try:
            options = jaas_options(text["sasl.jaas.config"])
        except BadJaas as error:
            raise ConfigError(f"sasl.jaas.config is not a JAAS line: {error}.") from None
    if mechanism == "OAUTHBEARER":
        return _bearer(text, options)
    name = text.get("sasl.username", options.get("username", ""))
    password = text.get("sasl.password", options.get("password", ""))
    if not name or not password:
        raise ConfigError(
            f"{mechanism} needs a name and a password: write sasl.username and sasl.password, or sasl.jaas.config with "
            f"username and password."
        )
    by_token = options.get("tokenauth", "").lower() == "true" and mechanism.startswith("SCRAM")
    return Login(mechanism, name, password, extensions=(("tokenauth", "true"),) if by_token else ())


def _bearer(text: Mapping[str, str], options: Mapping[str, str]) -> Login:
    token, file = text.get("sasl.oauthbearer.token", "").strip(), text.get("sasl.oauthbearer.token.file", "").strip()
    url = text.get(TOKEN_URL, "").strip()
    if url.startswith("file:"):
        file = file or "/" + url.removeprefix("file:").lstrip("/")
    elif url:
        raise ConfigError(
            f"{TOKEN_URL}={url} is not supported: write the token's file, as file:///path or in "
            f"sasl.oauthbearer.token.file, and keep it fresh."
        )
    if not token and not file:
        raise ConfigError("OAUTHBEARER needs a token: write sasl.oauthbearer.token.file, or sasl.oauthbearer.token.")
    extensions = tuple(
        (name.removeprefix("extension_"), value) for name, value in options.items() if name.startswith("extension_")
    )
    return Login("OAUTHBEARER", token=token, token_file="" if token else file, extensions=extensions)
