"""Listeners that take tokens of an identity provider: what is taken, and what stops the start."""

import pytest

from actors.settings.keys import ConfigError
from actors.settings.listener_security import ListenerSecurity, listener_security
from actors.settings.oauthbearer import OAuthBearerSettings

OWN = "listener.name.clients.oauthbearer."
URL = f"{OWN}sasl.oauthbearer.jwks.endpoint.url"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
GIVEN = {
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b";',
    URL: "https://provider/keys",
}


def security(more: dict[str, str] | None = None, login: str | None = None) -> ListenerSecurity:
    given = {name: value for name, value in (GIVEN | (more or {})).items() if value}
    return listener_security(given, "CLIENTS", "SASL_PLAINTEXT", login)


def test_the_settings_of_a_listener_become_one_value() -> None:
    found = security(
        {
            f"{OWN}sasl.jaas.config": f"{MODULE} required ssl.truststore.location='/ca.pem';",
            f"{OWN}sasl.oauthbearer.expected.audience": "kafka, other",
            "sasl.oauthbearer.expected.issuer": "https://provider",
            "listener.name.clients.sasl.oauthbearer.clock.skew.seconds": "5",
            "sasl.oauthbearer.sub.claim.name": "user",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
            f"{OWN}sasl.server.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
        }
    )
    assert found.oauthbearer == OAuthBearerSettings(
        "https://provider/keys",
        "/ca.pem",
        60_000,
        100,
        10_000,
        ("kafka", "other"),
        "https://provider",
        5,
        "scope",
        "user",
    )
    assert found.passwords == {"a": "b"}


def test_without_the_mechanism_nothing_is_asked() -> None:
    assert security({"sasl.enabled.mechanisms": "PLAIN"}).oauthbearer is None


@pytest.mark.parametrize(
    ("more", "login", "words"),
    [
        (
            {URL: ""},
            None,
            "nothing says who signs its tokens: write listener.name.clients.oauthbearer.sasl.oauthbearer",
        ),
        ({URL: "ftp://provider/keys"}, None, "no address of a key set"),
        ({URL: "file://host/keys"}, None, "no address of a key set"),
        ({URL: "http://[::1/keys"}, None, "no address of a key set"),
        (
            {f"{OWN}sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="admin";'},
            None,
            "unsecuredLoginStringClaim_sub, which makes or takes tokens that nobody has signed",
        ),
        ({f"{OWN}sasl.server.callback.handler.class": "com.example.Mine"}, None, "no Java class is run here"),
        ({"listener.name.clients.plain.sasl.server.callback.handler.class": "com.example.Mine"}, None, "no Java class"),
        ({"sasl.oauthbearer.jwt.validator.class": "com.example.Mine"}, None, "no Java class is run here"),
        ({}, "OAUTHBEARER", "which is for clients only: write SCRAM-SHA-512 or PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, None, "Kerberos is not supported: write SCRAM-SHA-512 for users"),
        ({}, "GSSAPI", "Kerberos is not supported"),
        (
            {"sasl.enabled.mechanisms": "NTLM"},
            None,
            "write some of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER in",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(more: dict[str, str], login: str | None, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        security(more, login)
    assert words in str(caught.value) and str(caught.value).endswith(".") and "admin" not in str(caught.value)
