"""Each kind of credential by each protocol, by address: what is taken away ends on every node, and comes in no more.

The two lists below make the table; a cell is an end, or, where a protocol cannot carry that credential, the proof that it
cannot. Sessions of TLS are tried as well as handshakes. How long each end took is printed.
"""

import base64
import contextlib
import datetime
import random
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors.authentication.client import ScramLogin
from actors.authentication.scram import Mechanism, salted
from actors.host.security.certificates import Issued, authority, issue, write
from bench.ports import free_ports
from tests.integration.answers.dialogue import Closed, request
from tests.integration.conftest import ROOT, command, until
from tests.integration.security.nodes import ADMIN, ADMIN_PASSWORD, PLAIN
from tests.integration.security.test_refused import Peer

pytestmark = pytest.mark.timeout(240)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ENDS = (
    "node is shut out", "user is deleted", "token is expired", "certificate is over", "certificate's authority is taken out",
    "rule denies",
)  # fmt: skip
NOW = datetime.datetime.now(datetime.UTC)
SCRAM = Mechanism.SCRAM_SHA_512
SALT = b"salt of sixteen."
DESCRIBE, ALL, ALLOW, DENY = 8, 2, 3, 2
CLUSTER_DENIED, NO_LOGIN_HERE = 31, 34
CERTIFICATE_S = 8
"""How long a certificate is good that ends during a test."""
NODE = "rayft-node-77"


class Nodes:
    """A combined node and a broker. Each has a listener of each protocol for clients; those with TLS want certificates."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.among, self.old, self.new = (authority(name, NOW) for name in ("nodes", "old", "new"))
        write(home / "nodes.pem", self.among.certificate)
        self.trust(self.old, self.new)
        names = ["rayft-node-1-1001", "rayft-node-2"]
        ports = [free_ports(len(PROTOCOLS) + 1) for _ in names]
        (controller,) = free_ports(1)
        clients = ("ssl", "sasl_ssl")
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1001@127.0.0.1:{controller}",
            "listener.security.protocol.map": ",".join(f"{one}:{one}" for one in PROTOCOLS)
            + ",NODES:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "NODES",
            "ssl.client.auth": "required",
            "ssl.truststore.location": str(home / "nodes.pem"),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "delegation.token.secret.key": "secret of this cluster",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{one}" for one in (*names, NODE, ADMIN)),
            "offsets.topic.num.partitions": "2",
            "connection.failed.authentication.delay.ms": "50",
        }
        common |= {f"listener.name.{one}.ssl.truststore.location": str(home / "clients.pem") for one in clients}
        for one in ("sasl_plaintext", "sasl_ssl"):
            users = f'user_{ADMIN}="{ADMIN_PASSWORD}"'
            common[f"listener.name.{one}.plain.sasl.jaas.config"] = f"{PLAIN} required {users};"
        own = [{"process.roles": "broker,controller", "controller.id": "1001"}, {"process.roles": "broker"}]
        identity = command("random-id").stdout.strip()
        self.logs, self.processes = [], []  # type: list[Path], list[subprocess.Popen[bytes]]
        self.places = [dict(zip(PROTOCOLS, of_node, strict=False)) for of_node in ports]
        """Of each node the port of each protocol."""
        for number, (name, of_node, roles) in enumerate(zip(names, ports, own, strict=True), 1):
            write(home / f"{name}.pem", issue(self.among, name, NOW, ["127.0.0.1"]).pem)
            listeners = [f"{one}://127.0.0.1:{port}" for one, port in zip((*PROTOCOLS, "NODES"), of_node, strict=True)]
            if "controller" in roles["process.roles"]:
                listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
            values = common | roles | {
                "broker.id": str(number),
                "listeners": ",".join(listeners),
                "log.dirs": str(home / f"data-{number}"),
                "ssl.keystore.location": str(home / f"{name}.pem"),
            }  # fmt: skip
            file, log = home / f"node-{number}.properties", home / f"node-{number}.log"
            file.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
            alone = ["--standalone"] if "controller.id" in roles else []
            ran = command("format", "--config", str(file), "--cluster-id", identity, *alone)
            assert ran.returncode == 0, ran.stderr
            words = [sys.executable, "-m", "actors.command.cli", "node", "--config", str(file)]
            self.logs.append(log)
            with log.open("wb") as out:
                self.processes.append(subprocess.Popen(words, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT))
        try:
            until(lambda: all("serves clients" in log.read_text() for log in self.logs))
        except BaseException:
            self.stop()
            raise

    def trust(self, *authorities: Issued) -> None:
        """Whose certificates clients may show."""
        write(self.home / "clients.pem", b"".join(one.certificate for one in authorities))

    def context(self, certificate: Issued) -> ssl.SSLContext:
        """TLS of a client with a certificate."""
        context = ssl.create_default_context(cadata=self.among.certificate.decode())
        path = self.home / f"client-{random.randbytes(8).hex()}.pem"
        write(path, certificate.pem)
        context.load_cert_chain(path)
        return context

    def admin(self, name: str, **fields: Any) -> Any:
        """What the operator is answered."""
        peer = Comer(self.places[0]["SASL_PLAINTEXT"]).log_in(ADMIN, ADMIN_PASSWORD)
        versions = {"CreateAcls": 3, "DeleteAcls": 3, "AlterUserScramCredentials": 0}
        try:
            told = peer.ask(name, versions[name], request(name, **fields))
        finally:
            peer.close()
        results = told.filter_results if name == "DeleteAcls" else told.results
        assert [one.error_code for one in results] == [0], told
        return told

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
            process.wait(timeout=30)


class Comer(Peer):
    """A peer that has connected, perhaps with TLS. Raises OSError."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None) -> None:
        super().__init__(("127.0.0.1", port))
        sock = socket.create_connection(("127.0.0.1", port), 20)
        self._socket = sock
        if context is not None:
            self._socket = context.wrap_socket(sock, server_hostname="127.0.0.1", session=session)

    @property
    def session(self) -> ssl.SSLSession | None:
        """That of its TLS, once an answer was read."""
        return self._socket.session if isinstance(self._socket, ssl.SSLSocket) else None

    def code(self) -> int | None:
        """The error of a request that asks for DESCRIBE on the cluster; None: the connection is closed."""
        if self._socket is None:
            return None
        matches = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        try:
            return int(self.ask("DescribeAcls", 3, request("DescribeAcls", **matches)).error_code)
        except (Closed, OSError):
            self.close()
            return None


class Credential(NamedTuple):
    """By which somebody is known."""

    certificate: Issued
    name: str = ""
    secret: str = ""
    token: bool = False

    def comes(self, nodes: Nodes, protocol: str, number: int, session: ssl.SSLSession | None = None,
              context: ssl.SSLContext | None = None) -> Comer | None:  # fmt: skip
        """A connection to a node that is let in; None: it is not."""
        peer = None
        try:
            if protocol.endswith("SSL"):
                context = context or nodes.context(self.certificate)
            peer = Comer(nodes.places[number][protocol], context if protocol.endswith("SSL") else None, session)
            if protocol.startswith("SASL") and not self._logs_in(peer):
                peer.close()
                return None
            peer.ask("ApiVersions", 2, request("ApiVersions"))
        except (Closed, OSError):
            if peer is not None:
                peer.close()
            return None
        return peer

    def _logs_in(self, peer: Comer) -> bool:
        assert peer.handshake(SCRAM.sasl_name).error_code == 0
        login = ScramLogin(SCRAM, self.name, self.secret, random.randbytes(16))
        login._bare += ",tokenauth=true" if self.token else ""
        told = peer.token(login.first())
        if told.error_code == 0:
            proof = login.next(bytes(told.auth_bytes))
            assert proof is not None
            told = peer.token(proof)
        return bool(told.error_code == 0)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    found = Nodes(tmp_path_factory.mktemp("table"))
    yield found
    found.stop()


def password(nodes: Nodes, name: str, secret: str | None) -> None:
    """Give a user a password; None: it loses the one that it has."""
    fields: dict[str, Any] = {"deletions": [{"name": name, "mechanism": int(SCRAM)}], "upsertions": []}
    if secret is not None:
        known = salted(SCRAM, secret, SALT, 4096)
        one = {"name": name, "mechanism": int(SCRAM), "iterations": 4096, "salt": SALT, "salted_password": known}
        fields = {"deletions": [], "upsertions": [one]}
    nodes.admin("AlterUserScramCredentials", **fields)


def rule(nodes: Nodes, name: str, operation: int, permission: int) -> None:
    one = {
        "resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 3, "principal": f"User:{name}",
        "host": "*", "operation": operation, "permission_type": permission,
    }  # fmt: skip
    nodes.admin("CreateAcls", creations=[one])


def no_rules(nodes: Nodes, name: str) -> None:
    one = {
        "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1,
        "principal_filter": f"User:{name}", "host_filter": None, "operation": 1, "permission_type": 1,
    }  # fmt: skip
    nodes.admin("DeleteAcls", filters=[one])


def token(nodes: Nodes, owner: Credential) -> tuple[str, str, Callable[[], None]]:
    """(id, secret, what expires it) of a delegation token."""
    peer = come(nodes, owner, "SASL_PLAINTEXT", 0)
    fields = {"owner_principal_type": None, "owner_principal_name": None, "renewers": [], "max_lifetime_ms": -1}
    made = peer.ask("CreateDelegationToken", 3, request("CreateDelegationToken", **fields))
    assert made.error_code == 0, made
    hmac = bytes(made.hmac)

    def expire() -> None:
        gone = request("ExpireDelegationToken", hmac=hmac, expiry_time_period_ms=-1)
        assert peer.ask("ExpireDelegationToken", 2, gone).error_code == 0

    return made.token_id, base64.b64encode(hmac).decode(), expire


def carries(end: str, protocol: str) -> bool:
    """Whether a peer can be known by such a credential on a listener of that protocol."""
    if end.startswith("certificate"):
        return protocol.endswith("SSL")
    if end.startswith(("user", "token")):
        return protocol.startswith("SASL")
    return protocol != "PLAINTEXT" or not end.startswith("node")


def made(nodes: Nodes, end: str, protocol: str) -> tuple[Credential, Callable[[], None]]:
    """A credential, and what ends it. Where two are shown, the other one stays good."""
    name = f"u{ENDS.index(end)}{PROTOCOLS.index(protocol)}"
    login = protocol.startswith("SASL")
    if end.startswith("node"):
        name = NODE
    by, since = nodes.new, NOW
    if end == "certificate is over":
        since = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=-1, seconds=CERTIFICATE_S)
    if end == "certificate's authority is taken out":
        by = nodes.old
    certificate = issue(by, "other" if login else name, since, days=1)
    known = "ANONYMOUS" if protocol == "PLAINTEXT" else name
    password(nodes, name, "right")
    found = Credential(certificate, name, "right")
    if end.startswith("token"):
        id, secret, expire = token(nodes, found)
        return Credential(certificate, id, secret, token=True), expire
    if end.startswith("rule"):
        rule(nodes, known, DESCRIBE, ALLOW)
    steps: dict[str, Callable[[], None]] = {
        "node": lambda: rule(nodes, NODE, ALL, DENY),
        "user": lambda: password(nodes, name, None),
        "rule": lambda: rule(nodes, known, DESCRIBE, DENY),
        "certificate": lambda: None,
        "certificate's": lambda: nodes.trust(nodes.new),
    }
    return found, steps[end.partition(" ")[0]]


def good_until(certificate: Issued) -> float:
    """When a certificate is over, in seconds of the wall clock."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.certificate).not_valid_after_utc.timestamp()


def enters(nodes: Nodes, credential: Credential, protocol: str, number: int, *ways: Any) -> bool:
    """Whether somebody is let in and may do what it might before."""
    peer = credential.comes(nodes, protocol, number, *ways)
    code = None if peer is None else peer.code()
    if peer is not None:
        peer.close()
    return code == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("end", ENDS)
def test_what_is_taken_away_ends_on_all_nodes(
    nodes: Nodes, end: str, protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not carries(end, protocol):
        refused_as_such(nodes, end, protocol)
        return
    credential, take_away = made(nodes, end, protocol)
    stays = Credential(issue(nodes.new, "stays", NOW), "stays", "right")
    allowed = [] if end.startswith("node") else [name_of(credential, end, protocol)]
    try:
        password(nodes, "stays", "right")
        for name in allowed:
            rule(nodes, name, DESCRIBE, ALLOW)
        contexts = [nodes.context(credential.certificate) for _ in nodes.places]
        live = [come(nodes, credential, protocol, number, contexts[number]) for number in range(len(nodes.places))]
        others = [come(nodes, stays, protocol, number) for number in range(len(nodes.places))]
        for one in live:
            until(lambda one=one: one.code() == 0)  # type: ignore[misc]
        sessions = [one.session for one in live]
        assert all(sessions) == protocol.endswith("SSL")
        take_away()
        began = good_until(credential.certificate) if end == "certificate is over" else time.time()
        time.sleep(max(0.0, began - time.time()))
        after = []
        left = CLUSTER_DENIED if end.startswith("rule") else None
        for one in live:
            until(lambda one=one: one.code() == left)  # type: ignore[misc]
            after.append(time.time() - began)
        for number, context in enumerate(contexts):
            assert not enters(nodes, credential, protocol, number), "by a handshake or a login"
            assert not enters(nodes, credential, protocol, number, sessions[number], context), "by an earlier session"
        if protocol != "PLAINTEXT" or left is None:
            assert all(one.code() is not None for one in others), "who is known otherwise stays"
        with capsys.disabled():
            print(f"\n{end}, {protocol}: {', '.join(f'{one:.2f} s' for one in after)}")
    finally:
        nodes.trust(nodes.old, nodes.new)
        for name in {*allowed, NODE, "ANONYMOUS"}:
            no_rules(nodes, name)


def name_of(credential: Credential, end: str, protocol: str) -> str:
    """The user whom a node knows by it."""
    if protocol == "PLAINTEXT":
        return "ANONYMOUS"
    return f"u{ENDS.index(end)}{PROTOCOLS.index(protocol)}" if credential.token else credential.name


def come(nodes: Nodes, credential: Credential, protocol: str, number: int,
         context: ssl.SSLContext | None = None) -> Comer:  # fmt: skip
    """A connection that is let in, as soon as that node has heard of the credential."""
    found: list[Comer] = []

    def comes() -> bool:
        one = credential.comes(nodes, protocol, number, None, context)
        found.extend([] if one is None else [one])
        return bool(found)

    until(comes)
    return found[0]


def refused_as_such(nodes: Nodes, end: str, protocol: str) -> None:
    """Nobody is known by this here, so nothing has to end."""
    for place in nodes.places:
        if end.startswith("certificate"):
            with (
                pytest.raises(OSError),
                contextlib.closing(socket.create_connection(("127.0.0.1", place[protocol]), 20)) as sock,
            ):
                nodes.context(issue(nodes.new, "stays", NOW)).wrap_socket(sock, server_hostname="127.0.0.1")
            continue
        context = nodes.context(issue(nodes.new, "stays", NOW)) if protocol.endswith("SSL") else None
        peer = Comer(place[protocol], context)
        assert peer.handshake(SCRAM.sasl_name).error_code == NO_LOGIN_HERE
        peer.close()
