"""TLS of a listener: from settings to a `TlsSettings`. Files are read by the host.

This file alone decides which `ssl.*` settings there are and what they may be. Names, defaults and meanings are those of
Apache Kafka; keystores are PEM (KIP-651) or PKCS12. A Java keystore (JKS) is refused with the command that makes PKCS12 of
it.
KIP-103, KIP-371 (`ssl.principal.mapping.rules`).
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from actors.settings.keys import ConfigError

PROTOCOLS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")
STORE_TYPES = ("PEM", "PKCS12", "JKS")
NAMES = (
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The names of all settings of TLS; each may be a listener's own."""


class Store(NamedTuple):
    """Keys or certificates, in a file or in the setting itself."""

    type: str
    """The form of the store: PEM, PKCS12, or empty: what the file's content says."""
    location: str
    password: str
    text: str
    """The PEM text that stands in the settings; empty: it is in the file."""

    def __repr__(self) -> str:
        return f"Store({self.type}, {self.location})"


_GROUP = r"\$(\d+)"
"""The pattern of a reference to a group, in a replacement."""


class MappingRule(NamedTuple):
    """One rule from the name in a certificate to the name of a principal."""

    pattern: re.Pattern[str] | None
    """The pattern of the name; None: DEFAULT, which takes the name as it is."""
    replacement: str
    case: str
    """The letter for the case of the result: L: lower case, U: upper case, or empty."""

    def applied(self, name: str) -> str | None:
        """The name that the rule makes of a name; None: the rule is not for this one."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        found = re.sub(_GROUP, lambda group: match[int(group[1])] or "", self.replacement)
        if self.case == "L":
            return found.lower()
        return found.upper() if self.case == "U" else found


class TlsSettings(NamedTuple):
    """The TLS settings of a listener."""

    keys: Store
    key_password: str
    trusted: Store
    client_auth: str
    protocols: tuple[str, ...]
    ciphers: tuple[str, ...]
    checks_host: bool
    """Whether this node compares the name in a certificate with the host that it dials."""
    rules: tuple[MappingRule, ...]

    def __repr__(self) -> str:
        return f"TlsSettings({self.keys}, {self.trusted}, {self.client_auth})"

    def principal(self, name: str) -> str:
        """The principal of a peer whose certificate has that distinguished name. Raises ValueError if no rule is for
        it: such a peer is not let in, and not known under its whole name either, as with Apache Kafka."""
        for rule in self.rules:
            found = rule.applied(name)
            if found is not None:
                return f"User:{found}"
        raise ValueError(
            f"no rule of ssl.principal.mapping.rules is for {name}: add one, or DEFAULT for names that no other is for"
        )


def tls_settings(listener: str, text: Callable[[str], str | None]) -> TlsSettings:
    """The TLS settings of one listener. `text`: a setting as it was given for it. Raises ConfigError."""

    def of(name: str, default: str = "") -> str:
        found = text(name)
        return default if found is None else found.strip()

    client_auth = of("ssl.client.auth", "none")
    if client_auth not in CLIENT_AUTH:
        raise ConfigError(f"ssl.client.auth={client_auth} is not allowed: write {', '.join(CLIENT_AUTH)}.")
    protocols = tuple(one.strip() for one in of("ssl.enabled.protocols", ",".join(PROTOCOLS)).split(",") if one.strip())
    if not protocols or any(one not in PROTOCOLS for one in protocols):
        raise ConfigError(
            f"ssl.enabled.protocols={','.join(protocols)} is not allowed: write some of {', '.join(PROTOCOLS)}."
        )
    keys = Store(
        of("ssl.keystore.type").upper(),
        of("ssl.keystore.location"),
        of("ssl.keystore.password"),
        of("ssl.keystore.certificate.chain") + "\n" + of("ssl.keystore.key") if of("ssl.keystore.key") else "",
    )
    trusted = Store(
        of("ssl.truststore.type").upper(),
        of("ssl.truststore.location"),
        of("ssl.truststore.password"),
        of("ssl.truststore.certificates"),
    )
    for name, store in (("keystore", keys), ("truststore", trusted)):
        if store.type and store.type not in STORE_TYPES:
            raise ConfigError(f"ssl.{name}.type={store.type} is not supported: write PEM or PKCS12.")
    if not keys.location and not keys.text:
        raise ConfigError(
            f"listener {listener} speaks TLS and has no certificate: write ssl.keystore.location=... (PEM or PKCS12)."
        )
    if client_auth != "none" and not trusted.location and not trusted.text:
        raise ConfigError(
            f"listener {listener} wants certificates of its peers (ssl.client.auth={client_auth}) and trusts none: write "
            f"ssl.truststore.location=..."
        )
    return TlsSettings(
        keys,
        of("ssl.key.password"),
        trusted,
        client_auth,
        protocols,
        tuple(one.strip() for one in of("ssl.cipher.suites").split(",") if one.strip()),
        of("ssl.endpoint.identification.algorithm", "https").lower() == "https",
        mapping_rules(of("ssl.principal.mapping.rules") or "DEFAULT"),
    )


_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<to>(?:\\.|[^\\/])*)/(?P<case>[LU]?))\s*(?:,|$)"
)


def _check_groups(rule: str, groups: int, to: str) -> None:
    """Check that a replacement names groups of its pattern; another one would break each handshake. Raises
    ConfigError."""
    for number in re.findall(_GROUP, to):
        if int(number) > groups:
            has = "no group" if not groups else "1 group" if groups == 1 else f"{groups} groups"
            raise ConfigError(
                f"ssl.principal.mapping.rules has {rule}, whose replacement names ${number}, and its pattern has {has}: put "
                f"what is wanted of the name between ( and )."
            )


def mapping_rules(text: str) -> tuple[MappingRule, ...]:
    """The rules of a text as in `RULE:^CN=([a-z]+),.*$/$1/L,DEFAULT`. Raises ConfigError."""
    found, position = [], 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None:
            raise ConfigError(
                f"ssl.principal.mapping.rules cannot be read at {text[position : position + 40]!r}: write rules as "
                f"RULE:pattern/replacement/ with L or U behind it, or DEFAULT, with commas between them."
            )
        try:
            pattern = None if match["default"] else re.compile(match["pattern"])
        except re.error as error:
            raise ConfigError(f"ssl.principal.mapping.rules has a pattern that cannot be read: {error}.") from None
        to = match["to"] or ""
        if pattern is not None:
            _check_groups(match[0].strip(" ,"), pattern.groups, to)
        found.append(MappingRule(pattern, to, match["case"] or ""))
        position = match.end()
    return tuple(found)
