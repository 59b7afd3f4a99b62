"""Who is refused by a real cluster: one clear line each, and the metadata log as it was.

What a stolen client may do with which rules is tried in virtual time (tests/simulator/test_stolen_client.py), and what each
API asks for is compared with Apache Kafka (test_authorization_answers.py).
"""

import datetime
import hashlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.authentication.client import ScramLogin
from actors.authentication.scram import Mechanism
from actors.host.security.certificates import authority, issue, write
from actors.node.net.envelopes import principal_bytes
from actors.node.runtime.calls import Listener
from actors.wire import framing
from actors.wire.errors import WireError
from actors.wire.messages import message
from bench.ports import free_ports
from tests.integration.answers.dialogue import Broker, Closed, request
from tests.integration.answers.test_random_requests import pick
from tests.integration.conftest import ROOT, command, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, SecureCluster
from tests.served import TABLE
from tests.unit.wire.generator import random_message

SCRAM = Mechanism.SCRAM_SHA_256


def address(servers: str) -> tuple[str, int]:
    host, _, port = servers.rpartition(":")
    return host, int(port)


class Peer(Broker):
    """A connection on which somebody may log in."""

    def handshake(self, mechanism: str) -> Any:
        return self.ask("SaslHandshake", 1, message("SaslHandshakeRequest")(mechanism=mechanism))

    def token(self, data: bytes) -> Any:
        return self.ask("SaslAuthenticate", 2, message("SaslAuthenticateRequest")(auth_bytes=data))

    def log_in(self, name: str, password: str) -> "Peer":
        assert self.handshake("PLAIN").error_code == 0
        assert self.token(f"\0{name}\0{password}".encode()).error_code == 0
        return self


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    """One node, whose users are admin, alice and bob; logins are good for two seconds."""
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = f'{plain} required username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}"'
    more = {
        "listener.name.controller.plain.sasl.jaas.config": f'{users} user_alice="alice-secret";',
        "listener.name.broker.connections.max.reauth.ms": "2000",
    }
    cluster = SecureCluster(tmp_path_factory.mktemp("refused"), more, nodes=1)
    yield cluster
    cluster.stop()


def admin(cluster: SecureCluster) -> Peer:
    return Peer(address(cluster.bootstrap_servers)).log_in(ADMIN, ADMIN_PASSWORD)


def log_bytes(cluster: SecureCluster) -> bytes:
    """The metadata log on the disk."""
    folder = cluster.logs[0].parent / "data-1" / "__kafka_metadata-0"
    found = b"".join(file.read_bytes() for file in sorted(folder.glob("*.log*")))
    assert len(found) > 500, "there is a log"
    return found


def lines(cluster: SecureCluster, *words: str) -> list[str]:
    """Lines of the log with all of these words."""
    text = cluster.logs[0].read_text().splitlines()
    return [line for line in text if all(word in line for word in words)]


def set_password(cluster: SecureCluster, name: str, password: str | None) -> None:
    """A SCRAM user; None: it goes."""
    salt, iterations = b"salt of sixteen.", 4096
    if password is None:
        fields: dict[str, Any] = {"deletions": [{"name": name, "mechanism": int(SCRAM)}], "upsertions": []}
    else:
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
        new = {
            "name": name, "mechanism": int(SCRAM), "iterations": iterations, "salt": salt, "salted_password": salted,
        }  # fmt: skip
        fields = {"deletions": [], "upsertions": [new]}
    peer = admin(cluster)
    told = peer.ask("AlterUserScramCredentials", 0, request("AlterUserScramCredentials", **fields))
    assert [one.error_code for one in told.results] == [0], told
    peer.close()


def scram_login(peer: Peer, name: str, password: str) -> tuple[int, list[bytes]]:
    """(error of the last answer, all tokens that were sent)."""
    assert peer.handshake(SCRAM.sasl_name).error_code == 0
    login = ScramLogin(SCRAM, name, password, random.randbytes(16))
    sent = [login.first()]
    told = peer.token(sent[0])
    if told.error_code == 0:
        proof = login.next(bytes(told.auth_bytes))
        assert proof is not None
        sent.append(proof)
        told = peer.token(proof)
    return told.error_code, sent


def test_a_replayed_exchange_is_refused(alone: SecureCluster) -> None:
    set_password(alone, "carol", "right")
    where, before = address(alone.bootstrap_servers), log_bytes(alone)

    def logs_in() -> tuple[int, list[bytes]]:
        peer = Peer(where)
        found = scram_login(peer, "carol", "right")
        peer.close()
        return found

    until(lambda: logs_in()[0] == 0)
    _, recorded = logs_in()
    thief = Peer(where)
    thief.handshake(SCRAM.sasl_name)
    codes = [thief.token(one).error_code for one in recorded]
    assert codes == [0, 58]
    with pytest.raises(Closed):
        thief.ask("Metadata", 4, request("Metadata", topics=None))
    assert len(lines(alone, "its login failed: a SCRAM proof of user 'carol' for another exchange")) == 1
    assert log_bytes(alone) == before


def test_a_revoked_user_is_out_at_once(alone: SecureCluster) -> None:
    set_password(alone, "dave", "right")
    where = address(alone.bootstrap_servers)
    peer = Peer(where)

    def in_at_last() -> bool:
        peer.close()
        return scram_login(peer, "dave", "right")[0] == 0

    until(in_at_last)
    set_password(alone, "dave", None)
    until(lambda: _closed(peer))
    until(lambda: bool(lines(alone, "the login of User:dave was taken back")))
    peer.close()
    assert scram_login(peer, "dave", "right")[0] == 58
    assert lines(alone, "a wrong password, or an unknown user: 'dave'")


def _closed(peer: Peer) -> bool:
    try:
        time.sleep(0.1)
        peer.ask("Metadata", 4, request("Metadata", topics=[]))
    except Closed:
        return True
    return False


def test_a_mechanism_that_a_listener_does_not_have_is_refused(alone: SecureCluster) -> None:
    peer = Peer(address(alone.bootstrap_controllers))
    told = peer.handshake(SCRAM.sasl_name)
    assert (told.error_code, list(told.mechanisms)) == (33, ["PLAIN"])
    with pytest.raises(Closed):
        peer.token(b"n,,n=admin,r=abc")
    assert len(lines(alone, "it wants SASL mechanism 'SCRAM-SHA-256'", "CONTROLLER has PLAIN")) == 1


def test_an_envelope_from_a_client_is_refused(alone: SecureCluster) -> None:
    topics = [{"name": "smuggled", "num_partitions": 1, "replication_factor": 1}]
    inner = framing.encode_request("CreateTopics", 7, 1, "c", request("CreateTopics", topics=topics, timeout_ms=5000))
    body = request(
        "Envelope",
        request_data=b"".join(inner)[4:],
        request_principal=principal_bytes(f"User:{ADMIN}", False),
        client_host_address=b"\x7f\0\0\1",
    )
    before = log_bytes(alone)
    peer = Peer(address(alone.bootstrap_controllers)).log_in("alice", "alice-secret")
    assert peer.ask("Envelope", 0, body).error_code == 31
    peer.close()
    assert (
        len(lines(alone, "User:alice is denied CLUSTER_ACTION from 127.0.0.1 on CLUSTER:kafka-cluster (API 58)")) == 1
    )
    peer = Peer(address(alone.bootstrap_servers)).log_in("alice", "alice-secret")
    with pytest.raises(Closed):
        peer.ask("Envelope", 0, body)
    until(lambda: bool(lines(alone, "API 58 is not served on listener BROKER")))
    assert log_bytes(alone) == before


def test_random_requests_of_a_stolen_client_change_nothing(alone: SecureCluster) -> None:
    before, rng = log_bytes(alone), random.Random(11)
    for listener, servers in (
        (Listener.CLIENT, alone.bootstrap_servers),
        (Listener.CONTROLLER, alone.bootstrap_controllers),
    ):
        peer = Peer(address(servers), patience_seconds=2.0)
        for (place, _), api in sorted(TABLE.items(), key=lambda row: row[0][1]):
            if place is not listener or api.name.startswith("Sasl"):
                continue
            kind = message(f"v28:{api.name}Request" if framing.is_draft(api.name) else f"{api.name}Request")
            for version in (api.versions[0], api.versions[-1]):
                peer.close()
                peer.log_in("alice", "alice-secret")
                try:
                    body = random_message(kind, version, rng, pick)
                    peer.ask(api.name, version, body, silent=api.name == "Produce" and body.acks == 0)
                except (Closed, WireError):
                    continue
        peer.close()
    assert log_bytes(alone) == before
    assert not lines(alone, "Traceback")


def test_thousands_of_refusals_are_a_few_lines(alone: SecureCluster) -> None:
    peer = Peer(address(alone.bootstrap_servers)).log_in("alice", "alice-secret")
    size = len(alone.logs[0].read_bytes())

    def refused(number: int) -> bool:
        name = f"{chr(97 + number % 26) * (1 + number % 20)}\nfake line {'x' * 30_000 if number % 100 == 0 else ''}"
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
        body = request("CreateTopics", topics=topics, timeout_ms=1000)
        try:
            told = peer.ask("CreateTopics", 7, body)
        except Closed:  # a login is good for two seconds
            told = peer.log_in("alice", "alice-secret").ask("CreateTopics", 7, body)
        return bool(told.topics[0].error_code == 29)

    assert all(refused(number) for number in range(3_000))
    # A user has so many lines an interval, and other tests may have used them.
    until(lambda: refused(1) and b"is denied CREATE" in alone.logs[0].read_bytes()[size:])
    peer.close()
    text = alone.logs[0].read_bytes()[size:]
    assert text.count(b"\n") < 700 and len(text) < 300_000
    assert not [line for line in text.splitlines() if line.startswith(b"fake")], "a name begins no line"
    assert b"is denied CREATE" in text


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureCluster, Path]]:
    """One node with certificates, and its folder."""
    home, now = tmp_path_factory.mktemp("certified"), datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    write(home / "node.pem", issue(by, "node", now, ["127.0.0.1", "localhost"], "rayft").pem)
    write(home / "ca.pem", by.certificate)
    cluster = SecureCluster(
        home,
        {
            "listener.security.protocol.map": "BROKER:SSL,CONTROLLER:SSL",
            "ssl.keystore.location": str(home / "node.pem"),
            "ssl.truststore.location": str(home / "ca.pem"),
            "ssl.client.auth": "required",
            "super.users": "User:CN=node,OU=rayft",
        },
        nodes=1,
    )
    yield cluster, home
    cluster.stop()


def test_a_node_of_another_cluster_does_not_join(certified: tuple[SecureCluster, Path], tmp_path: Path) -> None:
    """It trusts this cluster, and says the right cluster id: its own certificate is another authority's."""
    cluster, home = certified
    now = datetime.datetime.now(datetime.UTC)
    write(tmp_path / "node.pem", issue(authority("test", now), "node", now, ["127.0.0.1"], "rayft").pem)
    (port,) = free_ports(1)
    values = dict(line.split("=", 1) for line in (home / "node-1.properties").read_text().splitlines())
    values |= {
        "process.roles": "broker", "broker.id": "66", "listeners": f"BROKER://127.0.0.1:{port}",
        "log.dirs": str(tmp_path / "data"), "ssl.keystore.location": str(tmp_path / "node.pem"),
    }  # fmt: skip
    values.pop("controller.id")
    file, log = tmp_path / "node.properties", tmp_path / "node.log"
    file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    properties = (home / "data-1" / "meta.properties").read_text()
    identity = next(line.split("=", 1)[1] for line in properties.splitlines() if line.startswith("cluster.id"))
    assert command("format", "--config", str(file), "--cluster-id", identity).returncode == 0
    before = log_bytes(cluster)
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)],
            cwd=ROOT,
            stdout=out,
            stderr=out,
        )
    try:
        until(lambda: bool(lines(cluster, "no TLS with 127.0.0.1 on CONTROLLER", "certificate")))
        time.sleep(2)
        assert process.poll() is None and "serves clients" not in log.read_text()
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert log_bytes(cluster) == before
    assert len(lines(cluster, "no TLS with 127.0.0.1 on CONTROLLER")) < 5, "repeats are counted"
