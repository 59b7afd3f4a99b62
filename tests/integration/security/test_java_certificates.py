"""Java's producer and consumer while their certificate ends: both hear why, and work again with a renewed one."""

import datetime
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host.security.certificates import Issued, authority, issue, write
from tests.integration.conftest import kafka_libs
from tests.integration.security.nodes import SecureCluster

admin = pytest.importorskip("confluent_kafka.admin")
LIBS = kafka_libs()
PROGRAM = Path(__file__).with_name("ShownCertificate.java")
GOOD_S = 20
"""How long the certificate is good with which both begin: a JVM that compiles its program first takes some of it."""
WAIT_S = 60
pytestmark = [
    pytest.mark.skipif(
        shutil.which("java") is None or LIBS is None, reason="needs java and Apache Kafka's jars (make kafka)"
    ),
    pytest.mark.timeout(240),
]


class Cluster:
    """One node that asks for certificates, and the authority that issues them."""

    def __init__(self, home: Path) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.home, self.by = home, authority("test", now)
        write(home / "node.pem", issue(self.by, "node", now, ["127.0.0.1"]).pem)
        write(home / "ca.pem", self.by.certificate)
        more = {
            "listener.security.protocol.map": "BROKER:SSL,CONTROLLER:SSL",
            "ssl.keystore.location": str(home / "node.pem"),
            "ssl.truststore.location": str(home / "ca.pem"),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:CN=([a-z]+)/$1/,DEFAULT",
            "super.users": "User:node;User:operator",
        }
        self.nodes = SecureCluster(home, more, nodes=1)

    def certificate(self, name: str, good_s: float | None = None) -> Path:
        """A file of `operator`. `good_s`: how long from now on; None: for a day."""
        since = datetime.datetime.now(datetime.UTC)
        if good_s is not None:
            since += datetime.timedelta(days=-1, seconds=good_s)
        issued: Issued = issue(self.by, "operator", since, days=1)
        write(self.home / f"{name}.pem", issued.pem)
        return self.home / f"{name}.pem"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("java"))
    yield found
    found.nodes.stop()


class Program:
    """The two clients in a JVM, and what they have said."""

    def __init__(self, cluster: Cluster, topic: str, version: str) -> None:
        self.said: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._process = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", str(PROGRAM),
             cluster.nodes.bootstrap_servers, topic, version, str(cluster.home / "ca.pem")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(cluster.home / f"{topic}.err").open("w"), text=True,
        )  # fmt: skip
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip())

    def show(self, keystore: Path) -> None:
        """Begin with this certificate."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{keystore}\n")
        self._process.stdin.flush()

    def until(self, *beginnings: str) -> None:
        """Wait until a line with each of these was said from now on."""
        left, end_s = set(beginnings), time.monotonic() + WAIT_S
        while left:
            line = self._lines.get(timeout=max(0.1, end_s - time.monotonic()))
            self.said.append(line)
            left = {one for one in left if not line.startswith(one)}

    def numbers(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self.said if line.startswith(f"{word} ")]

    def refusals(self) -> tuple[dict[str, str], list[str]]:
        """What each of the two has said last when it gave up; and all of that."""
        told = [line for line in self.said if line.startswith(("producer ", "consumer "))]
        return {line.split()[0]: line for line in told}, told

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_hear_that_their_certificate_has_ended_and_a_renewed_one_works(
    cluster: Cluster, version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = version.lower().replace(".", "-")
    operator = {"bootstrap.servers": cluster.nodes.bootstrap_servers, "security.protocol": "ssl"}
    operator |= {"ssl.ca.location": str(cluster.home / "ca.pem")}
    own = cluster.certificate("admin")
    client = admin.AdminClient(operator | {"ssl.certificate.location": str(own), "ssl.key.location": str(own)})
    client.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
    program = Program(cluster, topic, version)
    try:
        short = cluster.certificate(f"{topic}-short", GOOD_S)
        program.show(short)
        program.until("sent ", "read ")
        program.until("producer ", "consumer ")
        first, told = program.refusals()
        assert "SslAuthenticationException" in first["consumer"], told
        assert any(one in first["producer"] for one in ("SslAuthenticationException", "TimeoutException")), told
        program.show(short)  # a producer that knows where partitions are says only that its records were late
        program.until("producer ", "consumer ")
        again, told = program.refusals()
        assert all("SslAuthenticationException" in line for line in again.values()), told
        program.show(cluster.certificate(f"{topic}-renewed"))
        last = max(program.numbers("sent"))
        while not program.numbers("read") or max(program.numbers("read")) <= last + 3:
            program.until("sent ", "read ")
        sent, read = program.numbers("sent"), program.numbers("read")
        assert set(range(1, last + 1)) <= set(sent) | set(read), "nothing is lost between the two"
        with capsys.disabled():
            print(f"\n{version}: {last} records, then {told}; {max(sent) - last} with the renewed certificate")
    finally:
        program.close()
