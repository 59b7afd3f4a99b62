"""TLS with real processes and real clients: certificates on both sides between nodes, and what a stranger's are worth."""

import datetime
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors.host.security.certificates import Issued, authority, issue, write
from tests.integration.conftest import until
from tests.integration.security.nodes import SecureCluster

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")
NOW = datetime.datetime.now(datetime.UTC)


class Encrypted(NamedTuple):
    """A cluster whose nodes and clients show certificates, and the authority that issued them."""

    cluster: SecureCluster
    home: Path
    by: Issued

    def client(self, issued: Issued | None, **more: Any) -> dict[str, Any]:
        """Settings of a librdkafka client with a certificate."""
        found = {
            "bootstrap.servers": self.cluster.bootstrap_servers,
            "security.protocol": "ssl",
            "ssl.ca.pem": self.by.certificate.decode(),
            "reconnect.backoff.max.ms": 200,
        }
        if issued is not None:
            found |= {"ssl.certificate.pem": issued.certificate.decode(), "ssl.key.pem": issued.key.decode()}
        return found | more


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    home = tmp_path_factory.mktemp("encrypted")
    by = authority("test", NOW)
    write(home / "node.pem", issue(by, "node", NOW, ["127.0.0.1", "localhost"], "rayft").pem)
    write(home / "ca.pem", by.certificate)
    cluster = SecureCluster(
        home,
        {
            "listener.security.protocol.map": "BROKER:SSL,CONTROLLER:SSL",
            "ssl.keystore.location": str(home / "node.pem"),
            "ssl.truststore.location": str(home / "ca.pem"),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:CN=([a-z]+)(,OU=rayft)?/$1/,DEFAULT",
            "super.users": "User:node;User:operator",
        },
    )
    yield Encrypted(cluster, home, by)
    cluster.stop()


def topics(settings: dict[str, Any]) -> set[str] | None:
    """What a client sees; None: nothing."""
    client = admin.AdminClient(settings)
    try:
        return set(client.list_topics(timeout=3).topics)
    except confluent_kafka.KafkaException:
        return None


def test_an_operator_with_a_certificate_works_and_its_name_counts(encrypted: Encrypted, name: str) -> None:
    operator = admin.AdminClient(encrypted.client(issue(encrypted.by, "operator", NOW)))
    until(lambda: len(operator.list_topics(timeout=10).brokers) == 2)
    operator.create_topics([admin.NewTopic(name, 1, 2)])[name].result(20)
    producer = confluent_kafka.Producer(encrypted.client(issue(encrypted.by, "operator", NOW)) | {"acks": "all"})
    sent = os.urandom(200_000)
    producer.produce(name, sent)
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer(
        encrypted.client(issue(encrypted.by, "operator", NOW)) | {"group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([name])
    read = consumer.poll(20)
    consumer.close()
    assert read is not None and read.value() == sent
    assert topics(encrypted.client(issue(encrypted.by, "stranger", NOW))) == set(), "known, and allowed nothing"


@pytest.mark.parametrize("case", ["none", "foreign", "expired", "early", "plain"])
def test_who_shows_no_good_certificate_gets_nowhere(encrypted: Encrypted, case: str) -> None:
    days = datetime.timedelta(days=1)
    certificates = {
        "none": None,
        "foreign": issue(authority("test", NOW), "operator", NOW),
        "expired": issue(encrypted.by, "operator", NOW - 10 * days, days=5),
        "early": issue(encrypted.by, "operator", NOW + 10 * days),
        "plain": None,
    }
    more = {"security.protocol": "plaintext"} if case == "plain" else {}
    settings = encrypted.client(certificates[case]) | more
    if case == "plain":
        settings = {key: value for key, value in settings.items() if not key.startswith("ssl.")}
    assert topics(settings) is None
    if case != "plain":
        assert encrypted.cluster.said("no TLS with 127.0.0.1 on BROKER")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("case", "word"),
    [
        ("foreign", "UNKNOWN_CA"),
        ("expired", "CERTIFICATE_EXPIRED"),
        ("none", "(HANDSHAKE_FAILURE|CERTIFICATE_REQUIRED)"),
    ],
)
def test_who_is_not_let_in_hears_why(encrypted: Encrypted, case: str, word: str, version: ssl.TLSVersion) -> None:
    """A client that hears it gives up; one whose connection breaks comes again."""
    host, port = encrypted.cluster.bootstrap_servers.split(":")
    context = ssl.create_default_context(cadata=encrypted.by.certificate.decode())
    context.minimum_version = context.maximum_version = version
    by = authority("test", NOW) if case == "foreign" else encrypted.by
    since = NOW - datetime.timedelta(days=10) if case == "expired" else NOW
    write(encrypted.home / "shown.pem", issue(by, "operator", since, days=5).pem)
    if case != "none":
        context.load_cert_chain(encrypted.home / "shown.pem")
    with socket.create_connection((host, int(port)), 20) as sock, pytest.raises(ssl.SSLError, match=f"ALERT_{word}"):
        shaken = context.wrap_socket(sock, server_hostname="127.0.0.1")
        shaken.sendall(b"the first request, which may be there before the verdict")
        shaken.recv(1)


def test_a_new_certificate_is_used_without_a_restart(encrypted: Encrypted) -> None:
    host, port = encrypted.cluster.bootstrap_servers.split(":")

    def serial() -> int:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=encrypted.by.certificate.decode())
        mine = encrypted.home / "mine.pem"
        write(mine, issue(encrypted.by, "operator", NOW).pem)
        context.load_cert_chain(mine)
        with (
            socket.create_connection((host, int(port))) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            found = tls.getpeercert()
            assert found is not None and tls.version() == "TLSv1.3"
            return int(found["serialNumber"], 16)

    before = serial()
    (encrypted.home / "node.pem").write_bytes(b"-----BEGIN NONSENSE-----")
    until(lambda: encrypted.cluster.said("The certificates that were read before stay in use"))
    assert serial() == before
    write(encrypted.home / "node.pem", issue(encrypted.by, "node", NOW, ["127.0.0.1", "localhost"], "rayft").pem)
    until(lambda: serial() != before)
