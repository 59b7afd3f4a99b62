"""A real cluster under attack, and the measures of the attack: CPU time, memory, other clients' latency, lost leases.

Attackers run in processes of their own, so that the CPU time that they use does not delay the client that is measured.
Every attack is bounded in bytes and seconds and goes to a loopback address.
"""

import contextlib
import multiprocessing
import os
import re
import reprlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import rayft
from actors.wire import framing
from tests.integration.answers.dialogue import request
from tests.integration.files import looked_at

Address = tuple[str, int]

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PING_EVERY_S = 0.02
ATTACK_SECONDS_MAX = 60
LOST_LEASE = re.compile(r"fenced|lease ended|the lease .* over|no longer leader of the quorum")
BROKEN = re.compile(r" failed: | ends: |Traceback")


class Cost(NamedTuple):
    """The effects of an attack. `cpu_s` and `resident_bytes` by node id; `resident_bytes` is the growth of the peak."""

    seconds: float
    cpu_s: dict[int, float]
    resident_bytes: dict[int, int]
    ping_p99_ms: float
    ping_max_ms: float
    lost: list[str]
    """Log lines about a broker that was fenced or a controller that was deposed."""
    broken: list[str]
    """Log lines about a handler or a process that failed."""

    def __str__(self) -> str:
        cpu = ", ".join(f"{id}: {one:.2f}" for id, one in self.cpu_s.items())
        resident = ", ".join(f"{id}: {one / 1e6:.0f}" for id, one in self.resident_bytes.items())
        return (
            f"{self.seconds:.1f} s, CPU seconds {cpu}; memory MB {resident}; others' p99 {self.ping_p99_ms:.1f} ms, "
            f"longest {self.ping_max_ms:.1f} ms; leases and leaderships lost: {len(self.lost)}"
        )


class Ping:
    """A well-behaved client: ApiVersions on a connection of its own, fifty times a second."""

    def __init__(self, address: Address) -> None:
        self.took_ms: list[float] = []
        self.failed = 0
        self._address = address
        self._frame = encoded("ApiVersions", 0, request("ApiVersions"))
        self._began, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="ping", daemon=True)
        self._thread.start()
        self._began.wait(5)  # so that attackers are not forked while it holds a lock of imports

    def end(self) -> None:
        """Send no more requests."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        peer: Peer | None = None
        while not self._ended.wait(PING_EVERY_S):
            began = time.monotonic()
            try:
                peer = peer or Peer(self._address)
                peer.send(self._frame)
                peer.read()
            except OSError:
                self.failed += 1
                peer = None
            self.took_ms.append((time.monotonic() - began) * 1000)
            self._began.set()


class Peer:
    """A raw connection. `host`: the source address of all connections that this process makes from now on."""

    host = "127.0.0.1"

    def __init__(self, address: Address, seconds: float = 30.0) -> None:
        self.socket = socket.create_connection(address, seconds, (self.host, 0))

    def __enter__(self) -> "Peer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it. Raises OSError."""
        self.socket.sendall(data)

    def read(self) -> bytes:
        """Read one whole frame, without its length. Raises OSError when the node has closed, or is silent for too
        long."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def closed(self) -> bool:
        """Whether the node closes this connection within the time limit, whatever it sends before."""
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("closed")
            data += part
        return bytes(data)


def encoded(name: str, version: int, body: Any, correlation: int = 1) -> bytes:
    """A whole frame, length included."""
    return b"".join(bytes(part) for part in framing.encode_request(name, version, correlation, "attack", body))


def framed(data: bytes) -> bytes:
    """Any bytes as a frame."""
    return struct.pack(">i", len(data)) + data


@contextlib.contextmanager
def attackers(
    function: Callable[..., object],
    arguments: Sequence[tuple[Any, ...]],
    seconds_max: float = ATTACK_SECONDS_MAX,
    *,
    endless: bool = False,
) -> Iterator[None]:
    """Run `function(*one)` for each of `arguments` in a process of its own, until all have ended.

    Raises AssertionError if an attack has not ended after `seconds_max`, or has ended with an exception. An attack
    whose connection the node closes has ended normally. `endless`: the attacks do not end, and are killed after
    `seconds_max`.
    """
    context = multiprocessing.get_context("fork")
    running = [
        context.Process(target=_until_closed, args=(function, one), name=_called(function, one), daemon=True)
        for one in arguments
    ]
    for one in running:
        one.start()
    end = time.monotonic() + seconds_max
    try:
        yield
        for one in running:
            one.join(max(0.0, end - time.monotonic()))
        late = [one.name for one in running if one.is_alive()]
        failed = [one.name for one in running if one.exitcode]
    finally:
        for one in running:
            if one.is_alive():
                one.kill()
            one.join()
    assert endless or not late, (
        f"{late[0]} has not ended after {seconds_max:g} s: {len(late)} of {len(running)} attacks"
    )
    assert not failed, f"{failed[0]} failed, and says why above: {len(failed)} of {len(running)} attacks"


def _until_closed(function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    with contextlib.suppress(ConnectionError):
        function(*arguments)


def _called(function: Callable[..., object], arguments: tuple[Any, ...]) -> str:
    """The attack in an error message, with long arguments cut."""
    shown = ", ".join(one.__name__ if callable(one) else reprlib.repr(one) for one in arguments)
    return f"the attack {function.__name__}({shown})"


class Scene:
    """A running cluster and its measures."""

    def __init__(self, cluster: "rayft.Cluster") -> None:
        self.cluster = cluster

    def brokers(self) -> list[Address]:
        """The brokers' addresses for clients."""
        return [
            (host, int(port))
            for host, _, port in (one.rpartition(":") for one in self.cluster.bootstrap_servers.split(","))
        ]

    def controllers(self) -> list[Address]:
        """The controllers' addresses for nodes."""
        return [
            (host, int(port))
            for host, _, port in (one.rpartition(":") for one in self.cluster.bootstrap_controllers.split(","))
        ]

    def resident_bytes(self) -> dict[int, int]:
        """Resident memory now, by node id."""
        return {id: _status(pid, "VmRSS") for id, pid in self.cluster.pids.items()}

    def measured(self, attack: Callable[[], None], *, ping: Address | None = None, settle_s: float = 0.5) -> Cost:
        """Run an attack, then wait for `settle_s`. Returns its cost. `ping`: the broker for the well-behaved client, by
        default the first one. Fails if a process was restarted."""
        pids = dict(self.cluster.pids)
        read = {path: about.st_size for path, about in looked_at(self._logs())}
        for pid in pids.values():
            _forget_peak(pid)
        cpu = {id: _cpu_s(pid) for id, pid in pids.items()}
        resident = {id: _status(pid, "VmRSS") for id, pid in pids.items()}
        client = Ping(ping or self.brokers()[0])
        began = time.monotonic()
        try:
            attack()
            time.sleep(settle_s)
        finally:
            client.end()
        seconds = time.monotonic() - began
        assert dict(self.cluster.pids) == pids, "a node was started anew"
        said = [line for path in self._logs() for line in _behind(path, read.get(path, 0))]
        took = sorted(client.took_ms) or [0.0]
        return Cost(
            seconds,
            {id: _cpu_s(pid) - cpu[id] for id, pid in pids.items()},
            {id: max(0, _status(pid, "VmHWM") - resident[id]) for id, pid in pids.items()},
            took[int(len(took) * 0.99)],
            took[-1],
            [line for line in said if LOST_LEASE.search(line)],
            [line for line in said if BROKEN.search(line)],
        )

    def _logs(self) -> list[Path]:
        return sorted(Path(self.cluster.dir).glob("*.log"))


def _behind(path: Path, position: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace").splitlines()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def _status(pid: int, name: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def _forget_peak(pid: int) -> None:
    """Let VmHWM count from now on."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
