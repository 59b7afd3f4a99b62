"""kafka-delegation-tokens.sh as in Kafka's documentation, and logins with tokens by Java's client (KIP-48, KIP-373)."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Java, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
SECRET = "the-key-of-this-cluster"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    more = {"delegation.token.secret.key": SECRET, "delegation.token.expiry.check.interval.ms": "500"}
    found = SecureCluster(tmp_path_factory.mktemp("tokens"), more)
    yield found
    found.stop()


class Scene:
    """Files for Java's clients, and what the tool prints."""

    def __init__(self, cluster: SecureCluster, java: Java, folder: Path) -> None:
        self.cluster, self.java, self.folder = cluster, java, folder

    def plain(self, name: str, password: str) -> str:
        return self._file(name, "PLAIN", f"plain.PlainLoginModule required username='{name}' password='{password}'")

    def token(self, id: str, secret: str, mechanism: str = "SCRAM-SHA-256") -> str:
        line = f"scram.ScramLoginModule required username='{id}' password='{secret}' tokenauth='true'"
        return self._file(f"token-{mechanism}", mechanism, line)

    def _file(self, name: str, mechanism: str, line: str) -> str:
        file = self.folder / f"{name}.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{line};\nrequest.timeout.ms=30000\ndefault.api.timeout.ms=120000\n"
        )
        return str(file)

    def run(self, who: str, *arguments: str, main: str = TOOL, check: bool = True) -> str:
        reach = ("--bootstrap-server", self.cluster.bootstrap_servers, "--command-config", who)
        return self.java.run(main, *reach, *arguments, check=check)

    def created(self, who: str, *arguments: str) -> tuple[str, str]:
        """(id, secret) of a new token."""
        shown = self.run(who, "--create", "--max-life-time-period", "-1", *arguments)
        return tokens(shown)[0]


def tokens(shown: str) -> list[tuple[str, str]]:
    """(id, secret) of every token in the tool's table."""
    return re.findall(r"^(\S{22}) +(\S{86}==) ", shown, re.MULTILINE)


@pytest.fixture
def scene(cluster: SecureCluster, java: Java, tmp_path: Path) -> Scene:
    return Scene(cluster, java, tmp_path)


def test_a_token_is_created_described_renewed_used_and_expired(scene: Scene, cluster: SecureCluster) -> None:
    admin, alice = scene.plain(ADMIN, ADMIN_PASSWORD), scene.plain("alice", "alice-secret")
    id, secret = scene.created(alice, "--renewer-principal", "User:bob")
    described = lambda: scene.run(alice, "--describe", "--owner-principal", "User:alice")  # noqa: E731
    until(lambda: tokens(described()) == [(id, secret)])
    assert "User:bob" in described()
    assert tokens(scene.run(scene.plain("bob", "bob-secret"), "--describe", "--owner-principal", "User:admin")) == []
    renewed = scene.run(scene.plain("bob", "bob-secret"), "--renew", "--renew-time-period", "-1", "--hmac", secret)
    assert "Completed renew operation" in renewed
    scene.run(admin, "--create", "--topic", "seen", "--partitions", "1", "--replication-factor", "1", main=TOPICS)
    acls = ("--add", "--allow-principal", "User:alice", "--operation", "Describe", "--topic", "seen")
    scene.run(admin, *acls, main="org.apache.kafka.tools.AclCommand")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        holder = scene.token(id, secret, mechanism)
        until(lambda holder=holder: scene.run(holder, "--list", main=TOPICS).split() == ["seen"])  # it is alice
    refused = scene.run(holder, "--create", "--max-life-time-period", "-1", check=False)
    assert not tokens(refused)  # a token makes no tokens
    expired = scene.run(alice, "--expire", "--expiry-time-period", "-1", "--hmac", secret)
    assert "Completed expire operation" in expired
    until(lambda: tokens(described()) == [])
    assert "Authentication failed" in scene.run(holder, "--list", main=TOPICS, check=False)
    assert cluster.said(f"its login failed: a wrong password, or an unknown user: '{id}'")
    settings = ("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    shown = scene.run(admin, *settings, main="kafka.admin.ConfigCommand")
    assert "delegation.token.secret.key=null" in shown and SECRET not in shown
    for log in cluster.logs:
        text = log.read_text()
        assert secret not in text and SECRET not in text


def test_a_token_for_somebody_else_needs_a_right(scene: Scene) -> None:
    admin, bob = scene.plain(ADMIN, ADMIN_PASSWORD), scene.plain("bob", "bob-secret")
    id, secret = scene.created(admin, "--owner-principal", "User:carol")
    for_carol = ("--create", "--max-life-time-period", "-1", "--owner-principal", "User:carol")
    assert not tokens(scene.run(bob, *for_carol, check=False))
    rule = ("--add", "--allow-principal", "User:bob", "--user-principal", "User:carol")
    scene.run(admin, *rule, "--operation", "CreateTokens", main="org.apache.kafka.tools.AclCommand")
    until(lambda: bool(tokens(scene.run(bob, *for_carol, check=False))))
    shown = lambda: tokens(scene.run(bob, "--describe", "--owner-principal", "User:carol"))  # noqa: E731
    assert shown() == []
    scene.run(admin, *rule, "--operation", "DescribeTokens", main="org.apache.kafka.tools.AclCommand")
    until(lambda: (id, secret) in shown())


def test_tokens_whose_time_is_over_are_removed(scene: Scene, cluster: SecureCluster) -> None:
    bob = scene.plain("bob", "bob-secret")
    id, secret = scene.created(bob)
    holder = scene.token(id, secret)
    until(lambda: "Authentication failed" not in scene.run(holder, "--list", main=TOPICS, check=False))
    scene.run(bob, "--expire", "--expiry-time-period", "100", "--hmac", secret)
    until(lambda: cluster.said(f"removed the delegation token {id}, whose time is over"))
    until(lambda: "Authentication failed" in scene.run(holder, "--list", main=TOPICS, check=False))
    assert id not in dict(tokens(scene.run(bob, "--describe")))
