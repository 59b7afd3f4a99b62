"""Apache Kafka from Maven's jars, as a cluster that lives as long as a `with` block.

It is only for comparisons. It runs with its own defaults, on loopback and free ports, in a temporary directory that is
removed. The jars are in `KAFKA_LIBS`, or in `.kafka/libs` after `make kafka`.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60
BROKER_ID_MAX = 500
"""The highest id of a broker that a cluster begins with."""
MISSING = "Apache Kafka's jars are not there: run `make kafka` first, or set KAFKA_LIBS."


def libs() -> Path | None:
    """The folder with the jars of Apache Kafka; None if it does not exist."""
    folder = Path(os.environ.get("KAFKA_LIBS", ROOT / ".kafka" / "libs"))
    return folder if any(folder.glob("kafka_2.13-*.jar")) and shutil.which("java") else None


def version() -> str:
    """The version of the jars, such as 4.3.1."""
    folder = libs()
    assert folder is not None
    return next(folder.glob("kafka_2.13-*.jar")).stem.removeprefix("kafka_2.13-")


def java(main: str, *arguments: str, heap: str = "256m", **options: object) -> list[str]:
    """The command line of one of Kafka's classes."""
    folder = libs()
    assert folder is not None
    return ["java", f"-Xmx{heap}", "-cp", f"{folder}/*", main, *arguments]


class ApacheKafka:
    """`with ApacheKafka(controllers=3, brokers=1) as kafka: kafka.bootstrap_servers`. Without controllers the first broker
    is the controller too. `disks`: log directories of a broker."""

    def __init__(
        self,
        controllers: int = 1,
        brokers: int = 1,
        config: Mapping[str, str] | None = None,
        heap: str = "1g",
        disks: int = 1,
    ) -> None:
        self._heap = heap
        self._disks = disks
        self._config = dict(config or {})
        self.directory = Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        """The directories of all nodes lie in it: `data-<id>`, and `data-<id>-2` for a second disk."""
        ports = free_ports(max(controllers, 1) + brokers)
        self.controller_ports = {3000 + n: port for n, port in enumerate(ports[:controllers], 1)}
        self.broker_ports = {n: port for n, port in enumerate(ports[max(controllers, 1) :], 1)}
        self._voters = self.controller_ports or {1: ports[0]}
        self._added = 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.started_at = 0.0

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every broker."""
        return ",".join(f"127.0.0.1:{port}" for port in self.broker_ports.values())

    @property
    def bootstrap_controllers(self) -> str:
        """host:port of every controller."""
        return ",".join(f"127.0.0.1:{port}" for port in self._voters.values())

    def __enter__(self) -> "ApacheKafka":
        try:
            self._format([*self.controller_ports, *self.broker_ports])
            self.started_at = time.monotonic()
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start_all(self) -> None:
        """Start every node, for the first time or after `stop_all`. Returns when the brokers serve."""
        for node in (*self.controller_ports, *self.broker_ports):
            self.start(node)
        self.wait()

    def stop_all(self) -> None:
        """Shut down the brokers in a controlled way, the first one last, then the controllers. The directories stay."""
        for node in (*reversed(self.broker_ports), *self.controller_ports):
            self.processes[node].terminate()
            self.processes[node].wait(STOP_SECONDS_MAX)

    def start(self, node: int) -> None:
        """Start one node on its directory."""
        log = (self.directory / f"{node}.out").open("ab")
        self.processes[node] = subprocess.Popen(
            java("kafka.Kafka", str(self.directory / f"{node}.properties"), heap=self._heap),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def add_broker(self) -> int:
        """Make one more broker, which is not started: its settings and empty directories. Its id, which no other has had."""
        self._added += 1
        node = BROKER_ID_MAX + self._added
        (self.broker_ports[node],) = free_ports(1)
        self._format([node])
        return node

    def remove_broker(self, node: int) -> None:
        """End a broker that was added, and remove its directories."""
        self.kill(node)
        del self.broker_ports[node], self.processes[node]
        for path in self._data(node):
            shutil.rmtree(path)

    def kill(self, node: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to one node. After SIGKILL, wait for its end."""
        self.processes[node].send_signal(number)
        if number == signal.SIGKILL:
            self.processes[node].wait()

    def close(self) -> None:
        """End every process and remove the directory."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_directories(self) -> list[Path]:
        """The directories of the brokers' logs."""
        return [path for node in self.broker_ports for path in self._data(node)]

    def _data(self, node: int) -> list[Path]:
        more = range(2, self._disks + 1) if node in self.broker_ports else ()
        return [self.directory / f"data-{node}", *(self.directory / f"data-{node}-{disk}" for disk in more)]

    def resident_bytes(self, node: int) -> int:
        """Resident memory of one node."""
        return resident_bytes(self.processes[node].pid)

    def _format(self, nodes: Sequence[int]) -> None:
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self._voters.items())
        for node in nodes:
            roles = {"broker": ("PLAINTEXT", self.broker_ports[node])} if node in self.broker_ports else {}
            if node in self._voters:
                roles["controller"] = ("CONTROLLER", self._voters[node])
            lines = {
                "process.roles": ",".join(roles),
                "node.id": str(node),
                "listeners": ",".join(f"{name}://127.0.0.1:{of}" for name, of in roles.values()),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": ",".join(map(str, self._data(node))),
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.replication.factor": str(min(3, len(self.broker_ports))),
                "transaction.state.log.replication.factor": str(min(3, len(self.broker_ports))),
                "transaction.state.log.min.isr": str(min(2, len(self.broker_ports))),
                **self._config,
            }
            path = self.directory / f"{node}.properties"
            path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        formats = [
            subprocess.Popen(
                java(
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    "MkU3OEVBNTcwNTJENDM2Qg",
                    "-c",
                    str(self.directory / f"{node}.properties"),
                ),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            for node in nodes
        ]
        for one in formats:
            _, error = one.communicate()
            if one.returncode:
                raise RuntimeError(f"formatting Apache Kafka's storage failed: {error.decode()}")

    def wait(self) -> None:
        """Wait until every broker's port answers: it opens only when the broker is unfenced."""
        end = time.monotonic() + START_SECONDS_MAX
        for node, port in self.broker_ports.items():
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    if self.processes[node].poll() is not None or time.monotonic() > end:
                        text = (self.directory / f"{node}.out").read_text(errors="replace")[-2000:]
                        raise RuntimeError(f"Apache Kafka node {node} did not start:\n{text}") from None
                    time.sleep(0.01)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
