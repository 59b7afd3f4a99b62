"""A client's settings by Kafka's own names."""

import pytest

from actors.client.properties import TWO_PHASE, ClientConfig, client_config, properties
from actors.settings.keys import ConfigError

HERE = {"bootstrap.servers": "localhost:9092"}
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="hush";'


def test_names_of_java_become_typed_values() -> None:
    text = """
    bootstrap.servers = a:1, [::1]:9093,PLAINTEXT://c:3
    request.timeout.ms=5
    isolation.level=read_committed
    acks=all
    key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
    """
    config = client_config(properties(text))
    assert config.bootstrap == (("a", 1), ("::1", 9093), ("c", 3))
    assert (config.request_timeout_ms, config.isolation, config.acks) == (5, 1, -1)
    assert config.idle == ("key.deserializer",)
    assert config.tls is None and config.login is None


def test_defaults_are_those_of_java() -> None:
    config = client_config(HERE)
    assert (config.request_timeout_ms, config.api_timeout_ms, config.retry_backoff_ms) == (30_000, 60_000, 100)
    assert config == ClientConfig(bootstrap=(("localhost", 9092),))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "localhost"}, "localhost in bootstrap.servers is no address: write host:port"),
        ({"bootstrap.servers": "localhost:99999"}, "is no address"),
        (HERE | {"request.timout.ms": "5"}, "did you mean request.timeout.ms?"),
        (HERE | {"request.timeout.ms": "0"}, "request.timeout.ms=0 is not allowed: write a number from 1"),
        (HERE | {"isolation.level": "some"}, "write read_uncommitted or read_committed"),
        (HERE | {"security.protocol": "TLS"}, "write one of PLAINTEXT, SSL"),
        (HERE | {"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        (
            HERE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
            "sasl.mechanism=GSSAPI is not supported",
        ),
        (HERE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "PLAIN needs a name and a password"),
        (HERE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs a token"),
        (HERE | {"security.protocol": "SSL", "ssl.keystore.key": "x"}, "belong together"),
        (HERE | {"transactional.id": "t", "acks": "1"}, "acks must be all"),
        (HERE | {"acks": "1", "enable.idempotence": "true"}, "needs acks=all"),
        (HERE | {TWO_PHASE: "true"}, f"{TWO_PHASE}=true needs a transactional.id"),
        (HERE | {TWO_PHASE: "true", "transactional.id": "t", "transaction.timeout.ms": "5"}, "has no meaning with"),
        (HERE | {"bootstrap.controllers": "x:1"}, "write bootstrap.servers"),
        (HERE | {"metadata.broker.list": "x:1"}, "mean the same setting and differ"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")):
        client_config(given)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS},
        {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "hush"},
        {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "hush"},
    ],
)
def test_secrets_are_not_shown(given: dict[str, str]) -> None:
    more = {"security.protocol": "SASL_SSL", "ssl.key.password": "hush", "ssl.keystore.password": "hush"}
    config = client_config(HERE | given | more)
    assert config.login is not None and "hush" in (config.login.password, config.login.token)
    assert "hush" not in repr(config)


def test_a_secret_is_in_no_error() -> None:
    with pytest.raises(ConfigError) as raised:
        client_config(
            HERE
            | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "Module required x=hush"}
        )
    assert "hush" not in str(raised.value)


def test_acks_of_one_leader_turn_idempotence_off() -> None:
    assert not client_config(HERE | {"acks": "1"}).idempotent
    assert client_config(HERE).idempotent


def test_a_token_is_in_a_file() -> None:
    for given in (
        {"sasl.oauthbearer.token.file": "/t"},
        {"sasl.oauthbearer.token.endpoint.url": "file:///t"},
    ):
        config = client_config(HERE | {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"} | given)
        assert config.login is not None and config.login.token_file == "/t"
