"""The client on listeners that ask who it is: PLAIN, SCRAM, OAUTHBEARER, TLS with and without a certificate."""

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rayft
from actors.client.errors import ClientError
from actors.client.operations import topics
from actors.client.operations.fetching import Fetcher
from actors.client.operations.producing import Producer
from actors.host.client.blocking import connect
from actors.host.security.certificates import Issued, authority, issue, write
from tests.integration.client.batches import batch, read_to
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, PLAIN, SecureCluster
from tests.integration.security.provider import AUDIENCE, ISSUER, Provider

pytestmark = pytest.mark.timeout(180)
NOW = datetime.datetime.now(datetime.UTC)
OWN = "listener.name.broker.oauthbearer."
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def works(config: dict[str, Any], name: str) -> None:
    """Make a topic, write, and read."""
    with connect(config=config) as client:
        assert client.run(topics.create([topics.NewTopic(name, 2, 1)])) == {name: None}
        parts = [(name, 0), (name, 1)]
        client.run(Producer(client.config).send([(part, batch(b"x" * 50_000)) for part in parts]))
        found = read_to(client, Fetcher(client.config, dict.fromkeys(parts, 0)), dict.fromkeys(parts, 1))
        assert found == {part: [b"x" * 50_000] for part in parts}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    found = Provider()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecureCluster]:
    more = {
        "listener.name.broker.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        f"{OWN}sasl.jaas.config": f"{MODULE} required;",
        f"{OWN}sasl.server.callback.handler.class": HANDLER,
        f"{OWN}sasl.oauthbearer.jwks.endpoint.url": provider.url,
        f"{OWN}sasl.oauthbearer.expected.audience": AUDIENCE,
        f"{OWN}sasl.oauthbearer.expected.issuer": ISSUER,
        f"{OWN}sasl.oauthbearer.clock.skew.seconds": "1",
        f"{OWN}connections.max.reauth.ms": "3000",
        "super.users": f"User:{ADMIN};User:alice",
    }
    found = SecureCluster(tmp_path_factory.mktemp("asking"), more)
    yield found
    found.stop()


def test_plain_by_a_line_of_jaas(asking: SecureCluster, name: str) -> None:
    config = {
        "bootstrap.servers": asking.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="{ADMIN}" password="{ADMIN_PASSWORD}";',
    }
    works(config, name)
    wrong = config | {"sasl.jaas.config": f'{PLAIN} required username="{ADMIN}" password="hush";'}
    with connect(config=wrong) as client:
        with pytest.raises(ClientError, match="the name or the password is wrong") as raised:
            client.run(topics.describe())
        assert "hush" not in str(raised.value)


def test_a_token_of_a_file_is_read_anew_and_an_expired_one_is_told(
    asking: SecureCluster, provider: Provider, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(provider.token("alice"))
    config = {
        "bootstrap.servers": asking.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.file": str(file),
    }
    works(config, name)
    with connect(config=config) as client:
        client.run(topics.describe([name]))
        links = list(client.client._links)
        fetcher = Fetcher(client.config, {(name, 0): 1})
        for _ in range(12):  # six seconds, in which the login has to be renewed
            client.run(fetcher.fetch())
            client.run(topics.describe([name]))
        assert set(links) <= set(client.client._links), "the connections stay"
        file.write_text(provider.token("alice", lifetime_s=-60))
        with pytest.raises(ClientError, match="the token is wrong or has expired"):
            while True:
                client.run(fetcher.fetch())
                client.run(topics.describe([name]))


def test_scram_over_tls_as_the_operator(name: str) -> None:
    with rayft.Cluster(controllers=1, brokers=2, secure=True) as cluster:
        given = cluster.client_settings
        config = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": given["security.protocol"],
            "sasl.mechanism": given["sasl.mechanism"],
            "sasl.username": given["sasl.username"],
            "sasl.password": given["sasl.password"],
            "ssl.truststore.location": given["ssl.ca.location"],
            "ssl.truststore.type": "PEM",
        }
        works(config, name)
        with connect(config=config | {"sasl.password": "hush"}) as client:
            with pytest.raises(ClientError, match="the name or the password is wrong") as raised:
                client.run(topics.describe())
            assert "hush" not in str(raised.value)
        plain = {"bootstrap.servers": cluster.bootstrap_servers}
        with connect(config=plain) as client, pytest.raises(ClientError, match="TLS"):
            client.run(topics.describe(), timeout_s=5)
        untrusted = pytest.raises(ClientError, match="its certificate is not trusted")
        with connect(config=plain | {"security.protocol": "SSL"}) as client, untrusted:
            client.run(topics.describe(), timeout_s=5)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureCluster, Path, Issued]]:
    home = tmp_path_factory.mktemp("encrypted")
    by = authority("test", NOW)
    write(home / "node.pem", issue(by, "node", NOW, ["127.0.0.1", "localhost"]).pem)
    write(home / "ca.pem", by.certificate)
    more = {
        "listener.security.protocol.map": "BROKER:SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(home / "node.pem"),
        "ssl.truststore.location": str(home / "ca.pem"),
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:CN=([a-z]+)(,OU=rayft)?/$1/,DEFAULT",
        "super.users": "User:node;User:operator",
    }
    cluster = SecureCluster(home, more)
    yield cluster, home, by
    cluster.stop()


@pytest.mark.parametrize("inline", [False, True])
def test_a_certificate_says_who_the_client_is(encrypted: Any, name: str, inline: bool) -> None:
    cluster, home, by = encrypted
    issued = issue(by, "operator", NOW)
    config = {"bootstrap.servers": cluster.bootstrap_servers, "security.protocol": "SSL", "client.id": "c"}
    if inline:
        config |= {
            "ssl.truststore.certificates": by.certificate.decode(),
            "ssl.keystore.certificate.chain": issued.certificate.decode(),
            "ssl.keystore.key": issued.key.decode(),
        }
    else:
        write(home / "operator.pem", issued.pem)
        config |= {
            "ssl.truststore.location": str(home / "ca.pem"),
            "ssl.keystore.location": str(home / "operator.pem"),
        }
    works(config, name)


def test_a_client_without_a_certificate_hears_why(encrypted: Any) -> None:
    cluster, home, _ = encrypted
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "SSL",
        "ssl.truststore.location": str(home / "ca.pem"),
    }
    with connect(config=config) as client, pytest.raises(ClientError, match="certificate"):
        client.run(topics.describe(), timeout_s=5)
