"""Logins with tokens of an identity provider, with real clients (KIP-255, KIP-768)."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from tests.integration.conftest import Java, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster, settings
from tests.integration.security.provider import AUDIENCE, ISSUER, Provider

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
OWN = "listener.name.broker.oauthbearer."


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.stop()


def tokens_of(provider: Provider) -> dict[str, str]:
    """Settings of nodes that take its tokens."""
    return {
        "listener.name.broker.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{OWN}sasl.jaas.config": f"{MODULE} required;",
        f"{OWN}sasl.server.callback.handler.class": HANDLER,
        f"{OWN}sasl.oauthbearer.jwks.endpoint.url": provider.url,
        f"{OWN}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{OWN}sasl.oauthbearer.expected.issuer": ISSUER,
        f"{OWN}sasl.oauthbearer.clock.skew.seconds": "1",
        "super.users": f"User:{ADMIN};User:alice",
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecureCluster]:
    found = SecureCluster(tmp_path_factory.mktemp("oauthbearer"), tokens_of(provider))
    yield found
    found.stop()


def with_token(
    cluster: SecureCluster, token: Callable[[], str], lifetime_s: float = 300, **more: Any
) -> dict[str, Any]:
    """How a client of librdkafka's shows what `token()` returns."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token(), time.time() + lifetime_s),
        "reconnect.backoff.max.ms": 200,
    } | more


def refusal(cluster: SecureCluster, token: str) -> str:
    """What librdkafka says of a login with `token`."""
    errors: list[Any] = []
    client = admin.AdminClient(with_token(cluster, lambda: token, error_cb=errors.append))
    until(
        lambda: (
            client.poll(0.1) >= 0 and any(one.code() == confluent_kafka.KafkaError._AUTHENTICATION for one in errors)
        )
    )
    return " ".join(one.str() for one in errors)


def test_librdkafka_produces_and_consumes_with_a_token(cluster: SecureCluster, provider: Provider) -> None:
    client = admin.AdminClient(with_token(cluster, lambda: provider.token("alice")))
    until(lambda: len(client.list_topics(timeout=10).brokers) == 2)
    client.create_topics([admin.NewTopic("tokens", 2, 2)])["tokens"].result(20)
    producer = confluent_kafka.Producer(with_token(cluster, lambda: provider.token("alice")))
    producer.produce("tokens", b"x")
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(
        with_token(cluster, lambda: provider.token("alice")) | {"group.id": "tokens", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["tokens"])
    found: list[Any] = []
    until(
        lambda: bool((message := consumer.poll(0.2)) and not message.error() and found.append(message)) or bool(found)
    )
    consumer.close()


def test_a_token_of_somebody_else_may_do_what_its_user_may(cluster: SecureCluster, provider: Provider) -> None:
    client = admin.AdminClient(with_token(cluster, lambda: provider.token("mallory")))
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.create_topics([admin.NewTopic("mine", 1, 1)])["mine"].result(20)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_new_key_of_the_provider_is_fetched_when_a_token_names_it(cluster: SecureCluster, provider: Provider) -> None:
    provider.change_key("key-2")
    client = admin.AdminClient(with_token(cluster, lambda: provider.token("alice")))
    until(lambda: len(client.list_topics(timeout=10).brokers) == 2)


def test_what_is_wrong_with_a_token_is_one_line_in_the_log_and_nothing_for_the_client(
    cluster: SecureCluster, provider: Provider
) -> None:
    now = time.time()
    secret = "s" * 32
    tokens = {
        "has expired": provider.token("alice", exp=now - 100),
        "is not valid yet": provider.token("alice", nbf=now + 100),
        "is for the audience 'others'": provider.token("alice", aud="others"),
        "is of the issuer 'nobody'": provider.token("alice", iss="nobody"),
        "the algorithm 'none'": jwt.encode({"sub": "alice"}, "", algorithm="none"),
        "the algorithm 'HS256'": jwt.encode({"sub": "alice"}, secret, algorithm="HS256"),
    }
    for words, token in tokens.items():
        assert "invalid_token" in refusal(cluster, token)
        until(lambda words=words: cluster.said(words))
        assert not cluster.said(token) and not cluster.said(token.split(".")[1])


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecureCluster]:
    """A node that takes long tokens."""
    more = tokens_of(provider) | {"sasl.server.max.receive.size": "65536"}
    found = SecureCluster(tmp_path_factory.mktemp("patient"), more, nodes=1)
    yield found
    found.stop()


def test_a_token_of_more_than_8_kib_is_refused_with_one_line_that_names_the_setting(
    cluster: SecureCluster, provider: Provider, patient: SecureCluster
) -> None:
    """Providers that put every group of a user into a token make such."""

    def token() -> str:
        return provider.token("alice", groups=[f"group-{number:05}" for number in range(900)])

    size = len(token())
    assert 8192 < size < 65_536
    client = admin.AdminClient(with_token(cluster, token))
    with pytest.raises(confluent_kafka.KafkaException):
        client.list_topics(timeout=2)
    said = [
        line for path in cluster.logs for line in path.read_text().splitlines() if "sasl.server.max.receive" in line
    ]
    assert said and all(
        "8192 are allowed to a peer that has not logged in (sasl.server.max.receive.size: raise it" in one
        for one in said
    )
    assert len({line.partition(" closed ")[2] for line in said if "more in" not in line}) == 1
    assert not cluster.said(token()[:60])
    assert admin.AdminClient(with_token(patient, token)).list_topics(timeout=20).brokers


def test_a_session_ends_with_its_token_and_goes_on_with_the_next(cluster: SecureCluster, provider: Provider) -> None:
    """librdkafka logs in again when nine tenths of a session are over, and looks once a second for a token of which four
    fifths are over. It hears of half the lifetime, so that its next token is there by then: if it shows the old one again,
    the rest of that token is soon shorter than a busy machine needs.
    """
    shown: list[float] = []

    def token() -> str:
        shown.append(time.monotonic())
        return provider.token("alice", 12)

    producer = confluent_kafka.Producer(with_token(cluster, token, 6))
    end = time.monotonic() + 14
    while time.monotonic() < end:
        producer.produce("tokens", b"y")
        assert producer.flush(10) == 0
        time.sleep(0.2)
    assert len(shown) >= 2
    assert not cluster.said("the login of User:alice is no longer good")


def test_kafka_python_and_aiokafka_log_in_with_a_token(cluster: SecureCluster, provider: Provider) -> None:
    kafka = pytest.importorskip("kafka")
    aiokafka = pytest.importorskip("aiokafka")
    abc = pytest.importorskip("aiokafka.abc")
    oauth = pytest.importorskip("kafka.net.sasl.oauth")

    class Tokens(oauth.AbstractTokenProvider):  # type: ignore[misc, name-defined]
        def token(self) -> str:
            return provider.token("alice")

    common = {"bootstrap_servers": cluster.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    client = kafka.KafkaConsumer(**common, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Tokens())
    assert "tokens" in client.topics()
    client.close()

    class Waited(abc.AbstractTokenProvider):  # type: ignore[misc, name-defined]
        async def token(self) -> str:
            return provider.token("alice")

    async def ask() -> set[str]:
        consumer = aiokafka.AIOKafkaConsumer(**common, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Waited())
        await consumer.start()
        try:
            return set(await consumer.topics())
        finally:
            await consumer.stop()

    assert "tokens" in asyncio.run(ask())


def test_javas_client_shows_the_token_of_a_file(
    cluster: SecureCluster, provider: Provider, java: Java, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(provider.token("alice"))
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={MODULE} required;\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{token}\n"
    )
    shown = java.run(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", cluster.bootstrap_servers, "--command-config", str(file), "--list"),
        properties={"org.apache.kafka.sasl.oauthbearer.allowed.urls": f"file://{token}"},
    )
    assert "tokens" in shown


def test_passwords_still_work_beside_tokens(cluster: SecureCluster) -> None:
    client = admin.AdminClient(settings(cluster, "PLAIN", ADMIN, ADMIN_PASSWORD))
    assert len(client.list_topics(timeout=10).brokers) == 2
