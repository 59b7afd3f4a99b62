"""The takeover of a large cluster with ZooKeeper: how long it takes, how long a controller is silent meanwhile, and when a
broker that dies is fenced.

`python -m bench.bridge_takeover [--topics 10000] [--partitions 20] [--latency-ms 1] [--out FILE.json]`

A ZooKeeper of Apache Kafka 2.8.2's jars, behind a proxy of its own process that holds every byte for --latency-ms on its way
there and on its way back. Topics, partitions and states are made as a controller makes them; three brokers are znodes of
sessions of this program. Nobody listens where they say, so what brokers cost a controller is not measured. Three controllers
of rayft take over. Then a broker dies; it is back; the active controller is killed, and while the next one compares both
sides another broker dies. All the while Metadata is asked of every controller, where old brokers reach it: the longest time
without an answer is its silence, and a broker is fenced once the active controller's answer lacks it.
"""

import argparse
import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from actors.bridge import znodes
from actors.bridge.subjects import topics
from actors.host.bridge.zookeeper_session import Session
from actors.host.cluster import plan, probe
from actors.ports.zookeeper import Change, Create, Get
from actors.wire.messages import message
from bench.end_to_end import RESULTS, machine
from tests.integration.bridge.zookeeper_mode import ZooKeeper

BROKERS = (1, 2, 3)
CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
AT_ONCE = 2000
POLL_S = 0.05
WAIT_S = 1800.0


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=20, help="of each topic")
    parser.add_argument("--latency-ms", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "bridge_takeover.json")
    parser.add_argument("--proxy", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.proxy:
        proxy(options.proxy, options.latency_ms / 1000)
        return
    found = measured(options.topics, options.partitions, options.latency_ms)
    found |= {"machine": machine(), "at": datetime.now(UTC).isoformat(timespec="seconds")}
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


# ---- a ZooKeeper that is far away


def proxy(server: str, delay_s: float) -> None:
    """Pass bytes on, each `delay_s` later; the port is printed."""
    host, _, port = server.rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            near, _ = listener.accept()
            far = socket.create_connection((host, int(port)))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                held: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                threading.Thread(target=_taken, args=(one, held, delay_s), daemon=True).start()
                threading.Thread(target=_given, args=(other, held), daemon=True).start()


def _taken(one: socket.socket, held: "queue.SimpleQueue[tuple[float, bytes]]", delay_s: float) -> None:
    data = b"?"
    while data:
        with contextlib.suppress(OSError):
            data = b""
            data = one.recv(1 << 18)
        held.put((time.monotonic() + delay_s, data))


def _given(other: socket.socket, held: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    while True:
        due, data = held.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                other.shutdown(socket.SHUT_WR)
                return
            other.sendall(data)
        except OSError:
            return


@contextlib.contextmanager
def far_away(server: str, latency_ms: float) -> Iterator[str]:
    """Where `server` is reached more slowly."""
    command = [sys.executable, "-m", "bench.bridge_takeover", "--proxy", server, "--latency-ms", str(latency_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


# ---- the old cluster


def fill(session: Session, names: int, partitions: int) -> None:
    """What a controller of 2.8 leaves in ZooKeeper."""
    roots: list[Change] = [Create(path) for path in ("/cluster", "/brokers", "/admin", "/config", "/kafka-acl")]
    roots += [Create(path) for path in (znodes.BROKER_IDS, znodes.TOPICS, znodes.DELETE_TOPICS, znodes.CONFIG_CHANGES)]
    roots += [Create(f"{znodes.CONFIG}/{kind}") for kind in ("topics", "brokers", "clients", "users", "ips")]
    roots += [Create(znodes.CLUSTER_ID, znodes.written(version="1", id=CLUSTER)), Create(znodes.CONTROLLER_EPOCH, b"7")]
    roots += [Create(path) for path in (znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES)]
    session.change(roots)
    changes: list[Change] = []
    for number in range(names):
        name, id = f"topic-{number:05d}", number.to_bytes(8) + b"topic-id"
        placed = [[(number + part + place) % 3 + 1 for place in range(3)] for part in range(partitions)]
        data = znodes.written(
            removing_replicas={}, partitions={str(part): replicas for part, replicas in enumerate(placed)},
            topic_id=topics.id_text(id), adding_replicas={}, version=3,
        )  # fmt: skip
        path = topics.path_of(name)
        changes += [Create(path, data), Create(f"{path}/partitions")]
        changes.append(Create(f"{znodes.CONFIG}/topics/{name}", b'{"version":1,"config":{"retention.ms":"86400000"}}'))
        for part, replicas in enumerate(placed):
            state = znodes.written(controller_epoch=7, leader=replicas[0], version=1, leader_epoch=3, isr=replicas)
            changes += topics.state_znodes(name, part, state)
        if len(changes) >= AT_ONCE or number == names - 1:
            session.change(changes)
            changes = []


def broker(id: int) -> bytes:
    """A broker's znode. Nobody listens there."""
    return znodes.written(
        features={}, listener_security_protocol_map={"PLAINTEXT": "PLAINTEXT"},
        endpoints=[f"PLAINTEXT://127.0.0.1:{id}"], jmx_port=-1, port=id, host="127.0.0.1", version=5, timestamp="1",
    )  # fmt: skip


class Broker:
    """A session with a broker's znode."""

    def __init__(self, zookeeper: str, id: int) -> None:
        self._session = Session(zookeeper)
        self._session.__enter__()
        self._session.change([Create(f"{znodes.BROKER_IDS}/{id}", broker(id), ephemeral=True)])

    def die(self) -> None:
        """Its session ends."""
        self._session.__exit__(None, None, None)


# ---- what is seen from outside


class Watch:
    """Asks one controller again and again: its longest silence, and the brokers that it shows."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.silence_s = 0.0
        self.brokers: frozenset[int] = frozenset()
        self._answered = time.monotonic()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        request = message("MetadataRequest")(topics=[])
        while not self._ends.wait(POLL_S):
            try:
                reply = probe.ask(self._address, "Metadata", request, 9, 30.0)
            except probe.NoAnswer:
                self._answered = time.monotonic()  # it is not there
                continue
            now = time.monotonic()
            self.silence_s = max(self.silence_s, now - self._answered)
            self._answered, self.brokers = now, frozenset(one.node_id for one in reply.brokers)

    def stop(self) -> None:
        """Ask no more."""
        self._ends.set()
        self._thread.join()


def until(holds: Callable[[], Any], what: str) -> float:
    """Wait for something; how long that was, in seconds."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < WAIT_S, what
        time.sleep(0.02)
    return time.monotonic() - began


def stages(cluster: plan.Plan) -> list[tuple[float, str]]:
    """(seconds since the epoch, line) of the controllers' logs that tell of stages and claims, oldest first."""
    found = []
    for member in cluster.controllers:
        path = cluster.directory / f"{member.name}.log"
        for line in path.read_text().splitlines() if path.exists() else ():
            if " bridge: " in line or " is active in epoch" in line:
                moment = datetime.strptime(line[:23], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
                found.append((moment.timestamp(), f"{member.name} {line[30:]}"))
    return sorted(found)


def measured(names: int, partitions: int, latency_ms: float) -> dict[str, Any]:
    """All figures."""
    found: dict[str, Any] = {"topics": names, "partitions": names * partitions, "latency_ms": latency_ms}
    with tempfile.TemporaryDirectory(prefix="takeover-") as folder, contextlib.ExitStack() as kept:
        zookeeper = kept.enter_context(ZooKeeper())
        began = time.monotonic()
        with Session(zookeeper.address) as session:
            fill(session, names, partitions)
        print(f"made in {time.monotonic() - began:.0f} s", flush=True)
        living = {id: Broker(zookeeper.address, id) for id in BROKERS}
        kept.callback(lambda: [one.die() for one in living.values()])
        address = kept.enter_context(far_away(zookeeper.address, latency_ms))
        directory = Path(folder) / "rayft"
        command = [
            sys.executable,
            "-m",
            "actors.command.cli",
            "bridge",
            "--zookeeper",
            address,
            "--dir",
            str(directory),
            "--brokers",
            "0",
        ]
        kept.callback(lambda: subprocess.run([*command[:3], "down", "--dir", str(directory)], check=False))
        taking = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        until(lambda: (directory / plan.CLUSTER_JSON).exists(), "the controllers start")
        cluster = plan.load(directory)
        assert cluster is not None
        watches = {member.config.controller_id: Watch(_bridge_address(member)) for member in cluster.controllers}
        kept.callback(lambda: [one.stop() for one in watches.values()])

        def reached(word: str, times: int = 1) -> bool:
            return sum(word in line for _, line in stages(cluster)) >= times

        until(lambda: reached("everything is committed: driving"), "it is taken over")
        lines = stages(cluster)
        at = {line.rpartition(": ")[2]: moment for moment, line in lines}
        found["read_and_judged_s"] = round(at["claiming"] - at["looking"], 1)
        found["claimed_to_read_s"] = round(at["writing"] - at["claiming"], 1)
        found["read_to_driving_s"] = round(at["driving"] - at["writing"], 1)
        found["elections"] = sum("is active" in line for _, line in lines)
        taking.wait()

        def leader() -> int:
            with Session(zookeeper.address) as session:
                (znode,) = session.read([Get(znodes.CONTROLLER)])
            return int(json.loads(znode.data)["brokerid"])

        first = leader()
        until(lambda: watches[first].brokers >= set(BROKERS), "all brokers are shown")
        living.pop(2).die()
        found["fenced_while_driving_s"] = round(until(lambda: 2 not in watches[first].brokers, "broker 2 is fenced"), 2)
        living[2] = Broker(zookeeper.address, 2)
        until(lambda: 2 in watches[first].brokers, "it is back")
        rows = json.loads((directory / plan.CLUSTER_JSON).read_text())["controllers"]
        os.kill(next(row["pid"] for row in rows if row["id"] == first), signal.SIGKILL)
        began = time.monotonic()
        until(lambda: reached("everything is read: writing", 2), "the next controller compares")
        found["killed_to_told_again_s"] = round(time.monotonic() - began, 1)
        second = leader()
        living.pop(3).die()
        took = until(lambda: 3 not in watches[second].brokers and watches[second].brokers, "broker 3 is fenced")
        found["fenced_while_comparing_s"] = round(took, 2)
        found["was_comparing"] = not reached("everything is committed: driving", 2)
        until(lambda: reached("everything is committed: driving", 2), "both sides are compared")
        found["compared_s"] = round(time.monotonic() - began, 1)
        found["longest_silence_s"] = {id: round(one.silence_s, 2) for id, one in watches.items()}
        for line in stages(cluster):
            print(*line)
    return found


def _bridge_address(member: Any) -> tuple[str, int]:
    listener = next(one for one in member.config.listeners if one.name == "PLAINTEXT")
    return listener.host or "127.0.0.1", listener.port


if __name__ == "__main__":
    main()
