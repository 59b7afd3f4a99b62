"""How a listener asks its peers who they are: from settings to a `ListenerSecurity`.

This file alone decides which mechanisms a listener has, who may log in with a password that the configuration knows, and how
long a login is good. Rules:

1. `listener.name.NAME.X` counts before `X`; `listener.name.NAME.MECHANISM.X` before both. NAME and MECHANISM are in lower
   case.
2. A listener whose protocol is SASL_PLAINTEXT or SASL_SSL has at least one mechanism; any other has none.
3. Credentials stand in JAAS lines (KIP-85). Nothing here repeats a value of one.

KIP-103 (settings of a listener), KIP-84, KIP-255, KIP-368, KIP-768.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from actors.settings.jaas import BadJaas, options
from actors.settings.keys import ConfigError
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.oauthbearer import HANDLER, OAuthBearerSettings, oauthbearer_settings
from actors.settings.oauthbearer import MECHANISM as OAUTHBEARER
from actors.settings.oauthbearer import NAMES as OAUTHBEARER_NAMES
from actors.settings.tls import NAMES, TlsSettings, tls_settings

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
"""The SASL mechanisms that are served."""
INSTEAD = {
    "GSSAPI": "Kerberos is not supported: write SCRAM-SHA-512 for users with passwords, or OAUTHBEARER where an identity "
    "provider issues tokens, in",
}
"""The reason why a mechanism of Kafka is refused, and what to use instead."""
JAAS = "sasl.jaas.config"
USER = "user_"
"""The beginning of the options by which PLAIN names a user: user_alice="password"."""
OF_A_LISTENER = frozenset({JAAS, "sasl.enabled.mechanisms", "connections.max.reauth.ms", *NAMES, *OAUTHBEARER_NAMES})
"""The settings that a listener may have of its own."""


class Login(NamedTuple):
    """The login with which this node connects to another node's listener."""

    mechanism: str
    name: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.name})"


class ListenerSecurity(NamedTuple):
    """The proofs of identity that a listener asks of its peers."""

    mechanisms: tuple[str, ...] = ()
    """The SASL mechanisms; empty: peers do not log in."""
    passwords: Mapping[str, str] = {}
    """The passwords of users that may log in with PLAIN, by name."""
    reauthentication_ms: Mapping[str, int] = {}
    """How long a login is good, by mechanism; 0: as long as the connection (KIP-368)."""
    login: Login | None = None
    """The login for connections to this listener on other nodes."""
    tls: TlsSettings | None = None
    """The TLS of the listener; None: bytes travel as they are."""
    oauthbearer: OAuthBearerSettings | None = None
    """The checks of tokens of an identity provider; None: such tokens are not accepted."""

    @property
    def asks(self) -> bool:
        """Whether every peer has to prove its identity."""
        return bool(self.mechanisms) or (self.tls is not None and self.tls.client_auth == "required")

    def __repr__(self) -> str:
        return f"ListenerSecurity({', '.join(self.mechanisms)})"


def is_listener_setting(name: str) -> bool:
    """Whether a name has the form of a listener's own setting, and ends in one that a listener may have."""
    return name.startswith("listener.name.") and any(name.endswith("." + one) for one in OF_A_LISTENER)


def listener_security(
    given: Mapping[str, str], name: str, protocol: str, login_mechanism: str | None
) -> ListenerSecurity:
    """The security of one listener. `given`: all settings as text. `login_mechanism`: what nodes use among themselves
    there; empty: its first one; None: no node dials it. Raises ConfigError."""

    def text(setting: str, mechanism: str = "") -> tuple[str, str] | None:
        own = f"listener.name.{name.lower()}."
        candidates = [own + setting, setting]
        if mechanism:
            candidates.insert(0, f"{own}{mechanism.lower()}.{setting}")
        return next(((one, given[one]) for one in candidates if one in given), None)

    def plain_text(setting: str) -> str | None:
        found = text(setting)
        return None if found is None else found[1]

    tls = tls_settings(name, plain_text) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL_"):
        return ListenerSecurity(tls=tls)

    def value(setting: str, mechanism: str = "") -> Any:
        found = text(setting, mechanism)
        key = BROKER_CONFIGS[setting]
        return key.default if found is None else key.parse(found[1])

    mechanisms = value("sasl.enabled.mechanisms")
    for mechanism in (*mechanisms, login_mechanism):
        if mechanism and mechanism not in MECHANISMS:
            instead = INSTEAD.get(mechanism, f"write some of {', '.join(MECHANISMS)} in")
            wrong = "sasl.enabled.mechanisms" if mechanism in mechanisms else "that setting"
            raise ConfigError(
                f"listener {name} has the SASL mechanism {mechanism}, which is not supported: {instead} {wrong}."
            )
    if not mechanisms:
        raise ConfigError(
            f"listener {name} has no SASL mechanism: write some of {', '.join(MECHANISMS)} in sasl.enabled.mechanisms."
        )
    for mechanism in mechanisms:
        handler = text(HANDLER, mechanism)
        if mechanism != OAUTHBEARER and handler is not None and handler[0].endswith(f".{mechanism.lower()}.{HANDLER}"):
            raise ConfigError(f"{handler[0]} is not supported, since no Java class is run here: leave it out.")
    plain = _options(text, PLAIN) if PLAIN in mechanisms else {}
    return ListenerSecurity(
        mechanisms=mechanisms,
        passwords={option.removeprefix(USER): secret for option, secret in plain.items() if option.startswith(USER)},
        reauthentication_ms={one: value("connections.max.reauth.ms", one) for one in mechanisms},
        tls=tls,
        login=None if login_mechanism is None else _login(text, name, login_mechanism, mechanisms),
        oauthbearer=_oauthbearer(text, name, value) if OAUTHBEARER in mechanisms else None,
    )


Text = Callable[..., tuple[str, str] | None]


def _options(text: Text, mechanism: str) -> dict[str, str]:
    found = text(JAAS, mechanism)
    if found is None:
        return {}
    try:
        return options(found[1])
    except BadJaas as error:
        raise ConfigError(f"{found[0]} is not a JAAS line: {error}.") from None


def _oauthbearer(text: Text, name: str, value: Callable[[str, str], Any]) -> OAuthBearerSettings:
    found = text(JAAS, OAUTHBEARER)
    # A line without the mechanism in its name may be that of PLAIN: what it says is for others.
    own = found is not None and found[0].endswith(f".{OAUTHBEARER.lower()}.{JAAS}")
    jaas = _options(text, OAUTHBEARER) if own else {}
    return oauthbearer_settings(name, lambda setting: value(setting, OAUTHBEARER), jaas, found[0] if found else JAAS)


def _login(text: Text, name: str, mechanism: str, mechanisms: tuple[str, ...]) -> Login:
    mechanism = mechanism or mechanisms[0]
    if mechanism == OAUTHBEARER:
        raise ConfigError(
            f"nodes log in to each other's listener {name} with {OAUTHBEARER}, which is for clients only: write "
            f"SCRAM-SHA-512 or PLAIN in sasl.mechanism.inter.broker.protocol (for a controllers' listener in "
            f"sasl.mechanism.controller.protocol), and add it to the listener's sasl.enabled.mechanisms."
        )
    if mechanism not in mechanisms:
        raise ConfigError(
            f"nodes log in to each other's listener {name} with {mechanism}, which it does not have: add {mechanism} to its "
            f"sasl.enabled.mechanisms, or name one of {', '.join(mechanisms)} in sasl.mechanism.inter.broker.protocol (for "
            f"a controllers' listener in sasl.mechanism.controller.protocol)."
        )
    found = _options(text, mechanism)
    if "username" not in found or "password" not in found:
        raise ConfigError(
            f"nodes log in to each other's listener {name} with {mechanism}, and there is no name and password for it: "
            f"write listener.name.{name.lower()}.{mechanism.lower()}.{JAAS} with username=... and password=..."
        )
    return Login(mechanism, found["username"], found["password"])
