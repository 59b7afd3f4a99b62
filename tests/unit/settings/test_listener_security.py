"""Which setting of a listener counts, and what stops the start."""

import pytest

from actors.settings.keys import ConfigError
from actors.settings.listener_security import is_listener_setting, listener_security

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="node" password="n-secret" '
USERS = {"listener.name.out.plain.sasl.jaas.config": PLAIN + 'user_alice="a-secret" user_node="n-secret";'}
MECHANISMS = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}


def test_the_own_setting_of_a_listener_counts_and_that_of_its_mechanism_most() -> None:
    given = {
        **USERS, **MECHANISMS, "listener.name.out.sasl.enabled.mechanisms": "PLAIN", "connections.max.reauth.ms": "1",
        "listener.name.out.connections.max.reauth.ms": "2", "listener.name.out.plain.connections.max.reauth.ms": "3",
    }  # fmt: skip
    found = listener_security(given, "OUT", "SASL_PLAINTEXT", None)
    assert (found.mechanisms, found.reauthentication_ms) == (("PLAIN",), {"PLAIN": 3})
    assert found.passwords == {"alice": "a-secret", "node": "n-secret"} and found.login is None and found.asks
    other = listener_security(given, "IN", "SASL_PLAINTEXT", None)
    assert other.mechanisms == ("PLAIN", "SCRAM-SHA-512") and set(other.reauthentication_ms.values()) == {1}
    assert other.passwords == {}, "users of one listener are not those of another"
    assert listener_security(given, "OUT", "PLAINTEXT", None) == ((), {}, {}, None, None, None)


def test_nodes_log_in_with_the_first_mechanism_unless_one_is_named() -> None:
    given = {**USERS, "sasl.enabled.mechanisms": "PLAIN"}
    login = listener_security(given, "OUT", "SASL_PLAINTEXT", "").login
    assert login == ("PLAIN", "node", "n-secret")
    assert "n-secret" not in repr(login) + repr(listener_security(given, "OUT", "SASL_PLAINTEXT", ""))


@pytest.mark.parametrize(
    ("given", "login", "words"),
    [
        ({"sasl.enabled.mechanisms": ""}, None, "listener OUT has no SASL mechanism"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, None, "Kerberos is not supported"),
        ({"sasl.enabled.mechanisms": "CRAM-MD5"}, None, "CRAM-MD5, which is not supported"),
        (MECHANISMS, "SCRAM-SHA-256", "with SCRAM-SHA-256, which it does not have"),
        (MECHANISMS, "SCRAM-SHA-512", "there is no name and password for it"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER", "for clients only"),
        ({**MECHANISMS, "listener.name.out.plain.sasl.jaas.config": "x-secret"}, None, "is not a JAAS line"),
        (
            {**MECHANISMS, "listener.name.out.plain.sasl.server.callback.handler.class": "x.Y"},
            None,
            "plain.sasl.server.callback.handler.class is not supported, since no Java class is run here",
        ),
    ],
)
def test_what_cannot_be_is_told_and_no_secret_of_it(given: dict[str, str], login: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        listener_security(given, "OUT", "SASL_PLAINTEXT", login)
    assert "secret" not in str(error.value)


def test_which_names_are_settings_of_a_listener() -> None:
    assert is_listener_setting("listener.name.out.plain.sasl.jaas.config")
    assert is_listener_setting("listener.name.out.ssl.keystore.location")
    assert not is_listener_setting("sasl.jaas.config") and not is_listener_setting("listener.name.out.broker.id")
