"""The targets of faults: clusters whose nodes can be killed, frozen, cut off and filled, on any host.

`Wired` is a cluster of local processes in which all connections go through `links`. `OnRay` is a cluster of Ray actors,
without wires.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.cluster import probe
from actors.host.cluster.on_processes import Cluster
from actors.host.work import locks
from actors.host.work.system_random import SystemRandom, uuid_text
from actors.settings.node_config import node_config
from tests.integration.faults.links import CLIENT

ROOT = Path(__file__).resolve().parents[3]


class Target(Protocol):
    """What a fault needs of a cluster."""

    brokers: Sequence[int]
    controllers: Sequence[int]
    wires: "Wires | None"

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""

    def leader(self) -> int | None:
        """The active controller, if it is known."""

    def signal(self, node: int, number: int) -> bool:
        """Send a signal to a node's process. False if it has none now."""

    def kill(self, node: int, *, restart: bool = True) -> bool:
        """kill -9. False if the node does not run. It is restarted by its host or, without `restart`, by `start`."""

    def start(self, node: int) -> None:
        """Start a node that was killed with `restart=False`."""

    def log(self, node: int) -> str:
        """The log of a node."""

    def member(self, node: int) -> plans.Member:
        """A node's place in the plan."""


@contextlib.contextmanager
def small_disk(directory: Path, mebibytes: int = 96) -> Iterator[Path | None]:
    """A file system of its own that can be filled; None if none can be mounted, which only root may do."""
    directory.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "none", str(directory)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False)


class Wires:
    """The handle of the `links` process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.faults.links"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._lock = threading.Lock()

    def tell(self, command: str, *arguments: object) -> None:
        """Send one command. Returns when it is done."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with self._lock:
            stdin.write(json.dumps([command, arguments]) + "\n")
            stdin.flush()
            if stdout.readline() != "done\n":
                raise RuntimeError("the proxies have ended")

    def cut(self, one: str, other: str, state: str = "cut") -> None:
        """Cut both directions between two ends."""
        self.tell("set", one, other, state)
        self.tell("set", other, one, state)

    def slow(self, one: str, other: str, delay_ms: int) -> None:
        """Slow down both directions between two ends."""
        self.tell("set", one, other, "open", delay_ms)
        self.tell("set", other, one, "open", delay_ms)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


class Wired:
    """Local processes, each behind a proxy. A context manager."""

    def __init__(self, directory: Path, controllers: int, brokers: int, config: Mapping[str, str],
                 small: Path | None = None) -> None:  # fmt: skip
        """`small`: a file system that may be filled; it holds the first broker's data."""
        self.wires: Wires | None = Wires()
        self.small = small
        self._known = create(directory, controllers, brokers, config, self.wires, small)
        self.cluster = Cluster(dir=directory, on_event=self._heard)
        self._pids: dict[str, int] = {}
        self.brokers = range(1, brokers + 1)
        self.controllers = range(plans.FIRST_CONTROLLER, plans.FIRST_CONTROLLER + controllers)

    def __enter__(self) -> "Wired":
        try:
            self.cluster.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        wires, self.wires = self.wires, None
        self.cluster.stop()
        if wires is not None:
            wires.close()

    @property
    def bootstrap(self) -> str:
        """The brokers' proxies."""
        return ",".join(f"127.0.0.1:{self._known[f'broker-{id}']}" for id in self.brokers)

    def member(self, node: int) -> plans.Member:
        """A node's place in the plan."""
        return self.cluster._plan.member(node)

    def name(self, node: int) -> str:
        """A node's name in the wires."""
        return f"broker-{node}" if node in self.brokers else f"controller-{node}"

    def leader(self) -> int | None:
        """The active controller, asked directly and not through the proxies."""
        try:
            return self.cluster.quorum().leader_id
        except probe.NoAnswer:
            return None

    def signal(self, node: int, number: int) -> bool:
        """Send a signal to a node's process."""
        pid = self.cluster.pids.get(node)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def kill(self, node: int, *, restart: bool = True) -> bool:
        """kill -9. The node's port refuses from then on until it listens again."""
        if node not in self.cluster.pids:
            return False
        assert self.wires is not None
        self.wires.tell("refuse", self.name(node))
        try:
            self.cluster.kill(node, restart=restart)
        except (KeyError, ProcessLookupError):
            return False
        return True

    def start(self, node: int) -> None:
        """Start the node again."""
        self.cluster.start_node(node)

    def log(self, node: int) -> str:
        """The node's log."""
        return self.cluster.log(node)

    def _heard(self, event: dict[str, Any]) -> None:
        wires, name = self.wires, event.get("name", "")
        if wires is None or not name:
            return
        with contextlib.suppress(RuntimeError, OSError):
            if event["event"] == "forked":
                self._pids[name] = event["pid"]
                wires.tell("pids", self._pids)
            elif event["event"] == "ended":
                self._pids.pop(name, None)
                wires.tell("refuse", name)
            elif event["event"] == "listening":
                wires.tell("accept", name)


def create(directory: Path, controllers: int, brokers: int, config: Mapping[str, str], wires: Wires,
           small: Path | None) -> dict[str, int]:  # fmt: skip
    """Write and format a cluster whose nodes know each other by the ports of proxies. Returns those ports by node."""
    directory.mkdir(parents=True, exist_ok=True)
    reserved = [plans.reserve("127.0.0.1", 0) for _ in range(2 * (controllers + brokers))]
    ports = [int(sock.getsockname()[1]) for sock in reserved]
    own, known = ports[: controllers + brokers], ports[controllers + brokers :]
    addresses = [("127.0.0.1", port) for port in own]
    files = plans.describe(directory, addresses[:controllers], addresses[controllers:], config)
    by_name = dict(zip(files, known, strict=True))
    ids = [plans.FIRST_CONTROLLER + place for place in range(controllers)]
    for name, file in files.items():
        file["controller.connect"] = ",".join(f"{id}@127.0.0.1:{port}" for id, port in zip(ids, known, strict=False))
        if name.startswith("broker"):
            file["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{by_name[name]}"
        if name == "broker-1" and small is not None:
            file["log.dirs"] = str(small / name)
    random = SystemRandom()
    cluster_id, directory_ids = uuid_text(random.uuid()), {name: random.uuid() for name in files}
    voters = [
        storage.Voter(id, "127.0.0.1", by_name[f"controller-{id}"], directory_ids[f"controller-{id}"]) for id in ids
    ]
    for name, file in files.items():
        storage.format_node(node_config(file), cluster_id, voters=voters, directory_id=directory_ids[name])
    plans.write(directory, files)
    for sock in reserved:
        sock.close()
    for name, port, target in zip(files, known, own, strict=True):
        wires.tell("route", name, port, target)
    return by_name


class OnRay:
    """Actors of a running Ray, which restarts what was killed."""

    wires: Wires | None = None

    def __init__(self, directory: Path, address: str, environment: Mapping[str, str], controllers: int, brokers: int,
                 config: Mapping[str, str], port: int) -> None:  # fmt: skip
        self._directory, self._address, self._environment = directory, address, dict(environment)
        self._config, self._port = config, port
        self.brokers = range(1, brokers + 1)
        self.controllers = range(plans.FIRST_CONTROLLER, plans.FIRST_CONTROLLER + controllers)
        self._plan: plans.Plan

    def __enter__(self) -> "OnRay":
        settings = [part for name, value in self._config.items() for part in ("--set", f"{name}={value}")]
        ran = self._command("up", "--controllers", str(len(self.controllers)), "--brokers", str(len(self.brokers)),
                            "--port", str(self._port), "--insecure", *settings)  # fmt: skip
        if ran.returncode:
            raise RuntimeError(ran.stderr)
        plan = plans.load(self._directory)
        assert plan is not None
        self._plan = plan
        return self

    def __exit__(self, *_: object) -> None:
        self._command("down", "--timeout", "10")

    def _command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "actors.command.cli", *arguments, "--ray", self._address, "--dir", str(self._directory)],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers."""
        return self._plan.bootstrap_servers

    def leader(self) -> int | None:
        """The active controller."""
        try:
            return probe.quorum([member.address("controller") for member in self._plan.controllers]).leader_id
        except probe.NoAnswer:
            return None

    def member(self, node: int) -> plans.Member:
        """A node's place in the plan."""
        return self._plan.member(node)

    def pid(self, node: int) -> int | None:
        """The process that holds the node's directory."""
        found = locks.holder(self.member(node).config.metadata_log_dir)
        return None if found is None else found.pid

    def signal(self, node: int, number: int) -> bool:
        """Send a signal to the actor's process."""
        pid = self.pid(node)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def kill(self, node: int, *, restart: bool = True) -> bool:
        """kill -9 of the actor's process; Ray starts the actor again in any case."""
        return self.signal(node, signal.SIGKILL)

    def start(self, node: int) -> None:
        """Nothing to do: Ray restarts the actor."""

    def log(self, node: int) -> str:
        """The node's log."""
        return (self._directory / f"{self.member(node).name}.log").read_text(errors="replace")


def wait_for(holds: Any, timeout_s: float) -> bool:
    """Whether something holds in time."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


__all__ = ["CLIENT", "OnRay", "Target", "Wired", "Wires", "wait_for"]
