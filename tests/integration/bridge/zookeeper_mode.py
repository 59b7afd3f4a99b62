"""ZooKeeper, and Apache Kafka's last brokers that live with it, as processes of a `with` block.

The jars come from Maven at first use (`.ci/zookeeper-mode`). Everything is on loopback and on free ports, with small heaps,
in directories that are removed in the end.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

import pytest
from confluent_kafka.admin import AdminClient

from bench.ports import free_ports

ROOT = Path(__file__).resolve().parents[3]
JARS = ROOT / ".kafka"
RELEASES = ("2.8.2", "3.9.1")
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60
COORDINATORS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
"""Settings that all brokers of a cluster have to share: 2.8 reads the number of these partitions at its start."""
LOG4J = """log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


@cache
def jars(release: str) -> Path:
    """The folder with the jars of a release; they are fetched if they are not there. Skips the test if they cannot be."""
    folder = JARS / release
    if not (folder / ".complete").exists():
        subprocess.run([ROOT / ".ci" / "zookeeper-mode", release, str(JARS)], check=False)
    if not (folder / ".complete").exists() or not shutil.which("java"):
        pytest.skip(f"Apache Kafka {release} cannot be fetched, or there is no Java")
    return folder


class _Java:
    """Processes of Java in a directory of their own."""

    def __init__(self, release: str, prefix: str) -> None:
        self._classes = jars(release)
        self.directory = Path(tempfile.mkdtemp(prefix=prefix))
        (self.directory / "log4j.properties").write_text(LOG4J)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def run(self, number: int, main: str, *arguments: str, heap: str = "256m") -> None:
        """Start a class as a process."""
        with self.output(number).open("ab") as log:
            self.processes[number] = subprocess.Popen(
                [
                    "java",
                    f"-Xmx{heap}",
                    "-XX:+UseSerialGC",
                    f"-Dlog4j.configuration=file:{self.directory}/log4j.properties",
                    "-cp",
                    f"{self._classes}/*",
                    main,
                    *arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self, number: int) -> Path:
        """The file with what a process has written."""
        return self.directory / f"{number}.out"

    def log(self, number: int) -> str:
        """What a process has written."""
        return self.output(number).read_text(errors="replace")

    def answers(self, number: int, port: int) -> None:
        """Wait until a process listens."""
        end = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.processes[number].poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"process {number} did not start:\n{self.log(number)[-3000:]}") from None
                time.sleep(0.05)

    def terminate(self, number: int) -> int:
        """Ask a process to end, and wait for it. Returns its exit code."""
        self.processes[number].terminate()
        return self.processes[number].wait(STOP_SECONDS_MAX)

    def kill(self, number: int) -> None:
        """End a process at once."""
        self.processes[number].kill()
        self.processes[number].wait()

    def signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, to a process."""
        self.processes[number].send_signal(what)

    def close(self) -> None:
        """End every process and remove the directory."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait()
        if os.environ.get("RAYFT_KEEP"):
            print(f"kept {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ZooKeeper(_Java):
    """`with ZooKeeper() as zookeeper: zookeeper.address`."""

    def __init__(self) -> None:
        super().__init__(RELEASES[0], "zookeeper-")
        (self._port,) = free_ports(1)
        self.address = f"127.0.0.1:{self._port}"

    def __enter__(self) -> "ZooKeeper":
        lines = {
            "tickTime": "500",
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self._port),
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "maxClientCnxns": "0",
        }
        (self.directory / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def start(self) -> None:
        """Start it, for the first time or after `kill`; what it holds stays."""
        self.run(0, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.directory / "zoo.cfg"), heap="128m")
        self.answers(0, self._port)


class ZooKeeperBrokers(_Java):
    """`with ZooKeeperBrokers(zookeeper, "2.8.2", brokers=3) as kafka: kafka.bootstrap_servers`."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        release: str,
        brokers: int = 1,
        config: Mapping[str, str] | None = None,
        among: tuple[str, str] | None = None,
        clients: tuple[str, str] = ("PLAINTEXT", "PLAINTEXT"),
        login: Mapping[str, str] | None = None,
    ) -> None:
        """`among`: (name, security protocol) of a listener by which the brokers reach each other; None: they use the one of
        `clients`. `login`: how a client of librdkafka gets in."""
        super().__init__(release, f"kafka-{release}-")
        self._zookeeper = zookeeper
        self._config = dict(config or {})
        self._listeners = ([] if among is None else [among]) + [clients]
        self._login = dict(login or {})
        ports = iter(free_ports(brokers * len(self._listeners)))
        self._ports = {id: [next(ports) for _ in self._listeners] for id in range(1, brokers + 1)}
        self.ports = {id: own[-1] for id, own in self._ports.items()}
        """Of the listener for clients."""

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> "ZooKeeperBrokers":
        try:
            for id in self.ports:
                self.start(id)
            for id, port in self.ports.items():
                self.answers(id, port)
            for port in self.ports.values():
                self._knows_all(port)
        except BaseException:
            self.close()
            raise
        return self

    def _knows_all(self, port: int) -> None:
        """Wait until one broker has heard of all others."""
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0} | self._login)
        end = time.monotonic() + START_SECONDS_MAX
        while len(client.list_topics(timeout=START_SECONDS_MAX).brokers) < len(self.ports):
            assert time.monotonic() < end, "the brokers do not hear of each other"
            time.sleep(0.1)

    def data(self, id: int) -> Path:
        """The log directory of a broker."""
        return self.directory / f"data-{id}"

    def start(self, id: int) -> None:
        """Start a broker, for the first time or again."""
        many = str(min(3, len(self.ports)))
        lines = {
            "broker.id": str(id),
            "zookeeper.connect": self._zookeeper.address,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": ",".join(
                f"{name}://127.0.0.1:{port}" for (name, _), port in zip(self._listeners, self._ports[id], strict=True)
            ),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in self._listeners),
            "inter.broker.listener.name": self._listeners[0][0],
            "log.dirs": str(self.data(id)),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": many,
            "transaction.state.log.replication.factor": many,
            "transaction.state.log.min.isr": "1",
            "log.cleaner.dedupe.buffer.size": "2000000",
            **COORDINATORS,
            **self._config,
        }
        path = self.directory / f"{id}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self.run(id, "kafka.Kafka", str(path))
