"""How a listener checks tokens that an identity provider has signed: from settings to `OAuthBearerSettings`.

This file alone decides what these settings may be. Rules:

1. A token counts only if it is signed. Apache Kafka takes unsigned tokens from anybody unless another callback handler is
   configured; here a listener without `sasl.oauthbearer.jwks.endpoint.url` is refused at the start, and so are the JAAS
   options that make unsigned tokens.
2. The names of Kafka's own validators are accepted, because files for Kafka contain them. Any other class is refused.

KIP-255, KIP-768, KIP-1139.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from actors.settings.keys import ConfigError

MECHANISM = "OAUTHBEARER"
URL = "sasl.oauthbearer.jwks.endpoint.url"
TRUSTED = "ssl.truststore.location"
HANDLER, VALIDATOR = "sasl.server.callback.handler.class", "sasl.oauthbearer.jwt.validator.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
CLASSES = {
    HANDLER: (
        f"{_PACKAGE}OAuthBearerValidatorCallbackHandler",
        f"{_PACKAGE}secured.OAuthBearerValidatorCallbackHandler",
    ),
    VALIDATOR: (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator"),
}
NAMES = (
    URL,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    HANDLER,
    VALIDATOR,
)


class OAuthBearerSettings(NamedTuple):
    """The checks of a token on one listener, and where the keys are that tokens are signed with."""

    url: str
    """The address of the key set: `file://`, `http://` or `https://`."""
    trusted: str = ""
    """The PEM file with the certificates that an https endpoint is trusted by. Empty: those of the system."""
    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    """The wait after the first failure, ms; it doubles with each further one."""
    backoff_max_ms: int = 10_000
    audiences: tuple[str, ...] = ()
    """The audiences of which a token must name one; empty: a token may not name any."""
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"


def oauthbearer_settings(
    listener: str, value: Callable[[str], Any], jaas: Mapping[str, str], jaas_name: str
) -> OAuthBearerSettings:
    """The token checks of one listener. `value`: setting -> typed value. `jaas`: the options of its JAAS line, which is
    called `jaas_name`. Raises ConfigError."""
    for option in jaas:
        if option != TRUSTED:
            unsigned = option.startswith("unsecured")
            why = (
                "makes or takes tokens that nobody has signed, which is not supported"
                if unsigned
                else "means nothing here"
            )
            raise ConfigError(
                f"{jaas_name} has the option {option}, which {why}: take it out, and name the keys of your identity "
                f"provider in {URL}."
            )
    for setting, known in CLASSES.items():
        named = value(setting)
        if named and named not in known:
            raise ConfigError(
                f"{setting}={named} of listener {listener} is not supported, since no Java class is run here: write "
                f"{known[0]}, or leave it out."
            )
    url = value(URL)
    if not url:
        raise ConfigError(
            f"listener {listener} has the SASL mechanism {MECHANISM}, and nothing says who signs its tokens: write "
            f"listener.name.{listener.lower()}.oauthbearer.{URL}=https://... (or file:///...) with the key set (JWKS) of "
            f"your identity provider."
        )
    return OAuthBearerSettings(
        checked_url(url),
        jaas.get(TRUSTED, ""),
        value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        value("sasl.oauthbearer.expected.audience") or (),
        value("sasl.oauthbearer.expected.issuer") or None,
        value("sasl.oauthbearer.clock.skew.seconds"),
        value("sasl.oauthbearer.scope.claim.name"),
        value("sasl.oauthbearer.sub.claim.name"),
    )


def checked_url(url: str) -> str:
    """Check the address of a key set, and return it. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        right = (parts.scheme == "file" and parts.path.startswith("/") and parts.netloc in ("", "localhost")) or (
            parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        )
    except ValueError:
        right = False
    if not right:
        raise ConfigError(
            f"{URL} is no address of a key set: write file:///path, https://host/path or http://host/path."
        )
    return url
