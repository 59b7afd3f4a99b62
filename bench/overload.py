"""How long a broker takes to obey a new leader while clients keep its queue full: KIP-291's case, measured.

`python -m bench.overload [--moves 60] [--connections 100] [--bytes 1000000] [--out FILE.json]`

A controller and two brokers. The leadership of partitions moves from one broker to the other and back, by ElectLeaders at
the idle one. What is measured is the time from the commit at the controller until the loaded broker has taken the change
over; both note it by the machine's monotonic clock. Meanwhile --connections clients send it Produce requests of --bytes
bytes, each with the next requests behind it, so that its queue of data requests is full. This is done four times: with
metadata that is pulled and pushed, each with the control plane's lane and without it. Without: what is pushed takes the
listener between brokers, and the answers of controllers wait in the lane of data. Beside the JSON stands a chart (FILE.svg).

Own commands, which the bench starts by itself: `node` runs a node that notes times, `load` is the clients.
"""

import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from actors.wire import framing
from actors.wire.messages import message
from bench import apache
from bench.chart import bars
from bench.end_to_end import RESULTS, machine

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS_MAX = 60
CONTROLLER, LOADED, IDLE = 3001, 1, 2
IN_FLIGHT = 8
"""Requests that a client has under way."""
PARTITIONS = 20
WARM_SECONDS = 5


class Case(NamedTuple):
    """How metadata comes to the broker."""

    pushed: bool
    lane: bool

    def __str__(self) -> str:
        return f"{'pushed' if self.pushed else 'pulled'}, {'with' if self.lane else 'without'} the lane"


class Moved(NamedTuple):
    """One leadership, as a node has noted it."""

    topic: str
    number: int
    leader: int
    epoch: int


# ---- a node that notes times


def node(file: str, times: str, lane: bool) -> int:
    """Run a node; note when changes of partitions are committed here, and when they are obeyed."""
    from actors import cli
    from actors.broker.replicas import Replicas
    from actors.metadata.dialects import dialect
    from actors.metadata.ops import PartitionsChanged
    from actors.node.net.channels import Channels
    from actors.node.roles.controller.role import ControllerRole
    from actors.node.runtime.calls import Lane

    out = os.open(times, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(what: str, topic_id: bytes, number: int, leader: int, epoch: int) -> None:
        os.write(out, f"{what} {topic_id.hex()} {number} {leader} {epoch} {time.monotonic_ns()}\n".encode())

    replay, assign = ControllerRole.replay, Replicas.assign

    def committed(self: Any, batch: Any) -> None:
        at = time.monotonic_ns()
        replay(self, batch)
        if not batch.data[22] & 0x20:  # control batch
            for _, op in dialect(self.committed_level).decode(batch):
                for state in op if isinstance(op, PartitionsChanged) else ():
                    line = f"committed {state.topic_id.hex()} {state.number} {state.leader} {state.leader_epoch} {at}\n"
                    os.write(out, line.encode())

    def obeyed(self: Any, topic: str, topic_id: bytes, number: int, assignment: Any, mono_ms: int) -> None:
        assign(self, topic, topic_id, number, assignment, mono_ms)
        note("obeyed", topic_id, number, assignment.leader, assignment.leader_epoch)

    ControllerRole.replay, Replicas.assign = committed, obeyed  # type: ignore[method-assign]
    if not lane:
        Channels.lane = lambda self, conn: Lane.DATA  # type: ignore[method-assign]
    sys.argv = ["rayft", "node", "--config", file]
    return cli.main()


# ---- the clients


def load(host: str, port: int, connections: int, size: int) -> None:
    """Keep a broker's queue full until this process is ended."""
    from fastpath.records.batch import Builder

    builder = Builder(timestamp_ms=1)
    builder.append(None, os.urandom(size))
    records = builder.build()
    kind = message("ProduceRequest")
    frames = []
    for number in range(8):
        data = kind.PartitionProduceData(index=number, records=records)
        request = kind(
            acks=1, timeout_ms=30_000, topic_data=[kind.TopicProduceData(name="load", partition_data=[data])]
        )
        frames.append(b"".join(framing.encode_request("Produce", 9, number, "load", request)))
    selector = selectors.DefaultSelector()
    for number in range(connections):
        sock = socket.create_connection((host, port))
        sock.setblocking(False)
        selector.register(
            sock, selectors.EVENT_READ | selectors.EVENT_WRITE, [memoryview(frames[number % 8]), 0, 0, bytearray()]
        )
    while True:
        for key, events in selector.select():
            _converse(selector, key, events, frames)


def _converse(selector: selectors.BaseSelector, key: Any, events: int, frames: Sequence[bytes]) -> None:
    sock, state = key.fileobj, key.data
    left, sent, answered, read = state
    try:
        if events & selectors.EVENT_READ:
            read += sock.recv(65536)
            while len(read) >= 4 and len(read) >= 4 + int.from_bytes(read[:4], "big"):
                del read[: 4 + int.from_bytes(read[:4], "big")]
                answered += 1
        if events & selectors.EVENT_WRITE and sent - answered < IN_FLIGHT:
            left = left[sock.send(left) :]
            if not left:
                sent += 1
                left = memoryview(frames[sent % len(frames)])
    except BlockingIOError:
        pass
    state[:] = left, sent, answered, read
    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if sent - answered < IN_FLIGHT else 0)
    if wanted != key.events:
        selector.modify(sock, wanted, state)


# ---- the cluster


class Cluster:
    """The three nodes of one case."""

    def __init__(self, home: Path, case: Case, stack: ExitStack) -> None:
        self.home = home
        self.ports = apache.free_ports(9)
        controller = self.ports[0]
        common = {
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CP:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "rayft.metadata.push.enable": "true",
            "offsets.topic.replication.factor": "1",
            "log.retention.check.interval.ms": "1000",
            "log.segment.delete.delay.ms": "0",
        }
        plane = {"control.plane.listener.name": "CP"} if case.lane and case.pushed else {}
        nodes = {
            CONTROLLER: {
                "process.roles": "controller",
                "controller.id": str(CONTROLLER),
                "listeners": f"CONTROLLER://127.0.0.1:{controller}",
                **plane,
            }
        }
        for id in (LOADED, IDLE):
            clients, internal, control = self.ports[3 * id - 2 : 3 * id + 1]
            listeners = f"PLAINTEXT://127.0.0.1:{clients},INTERNAL://127.0.0.1:{internal}"
            nodes[id] = {
                "process.roles": "broker",
                "broker.id": str(id),
                "listeners": listeners + (f",CP://127.0.0.1:{control}" if plane else ""),
                "rayft.metadata.source": "push" if case.pushed else "log",
                **plane,
            }
        rayft = [sys.executable, "-m", "actors.cli"]
        identity = subprocess.run(
            [*rayft, "random-id"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        for id, own in nodes.items():
            file = home / f"{id}.properties"
            values = {**common, **own, "log.dirs": str(home / f"data-{id}")}
            file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            alone = ["--standalone"] if id == CONTROLLER else []
            subprocess.run(
                [*rayft, "format", "--config", str(file), "--cluster-id", identity, *alone],
                cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            out = stack.enter_context((home / f"{id}.log").open("wb"))
            command = [sys.executable, "-m", "bench.overload", "node", str(file), str(self.times(id))]
            process = subprocess.Popen(
                [*command, *([] if case.lane else ["--no-lane"])], cwd=ROOT, stdout=out, stderr=out
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        end = time.monotonic() + START_SECONDS_MAX
        for id in (LOADED, IDLE):
            while "serves clients" not in (home / f"{id}.log").read_text():
                if time.monotonic() > end:
                    raise RuntimeError(f"broker {id} did not start:\n" + (home / f"{id}.log").read_text()[-2000:])
                time.sleep(0.05)

    def times(self, id: int) -> Path:
        """Where a node notes its times."""
        return self.home / f"{id}.times"

    def noted(self, id: int, what: str) -> dict[Moved, int]:
        """Leaderships and when the node noted them first, in ns."""
        found: dict[Moved, int] = {}
        for line in self.times(id).read_text().splitlines():
            kind, topic, number, leader, epoch, at = line.split()
            if kind == what:
                found.setdefault(Moved(topic, int(number), int(leader), int(epoch)), int(at))
        return found


class Operator:
    """Questions to the idle broker."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._correlation = 0

    def ask(self, name: str, version: int, request: Any) -> Any:
        """One request and its answer."""
        self._correlation += 1
        self._socket.sendall(b"".join(framing.encode_request(name, version, self._correlation, "bench", request)))
        size = int.from_bytes(self._read(4), "big")
        return framing.decode_response(name, version, memoryview(bytearray(self._read(size))))

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the idle broker has closed the connection")
            data += piece
        return data

    def create(self, name: str, assignments: Sequence[Sequence[int]], configs: dict[str, str]) -> None:
        """A topic with these replicas."""
        kind = message("CreateTopicsRequest")
        topic = kind.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                kind.CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
                for number, replicas in enumerate(assignments)
            ],
            configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        (result,) = self.ask("CreateTopics", 7, kind(topics=[topic], timeout_ms=30_000)).topics
        if result.error_code:
            raise RuntimeError(f"{name} is not created: error {result.error_code}")

    def move(self, name: str, number: int, leader: int, other: int) -> bool:
        """Make `leader` the leader of a partition; whether it is now."""
        kind = message("AlterPartitionReassignmentsRequest")
        one = kind.ReassignablePartition(partition_index=number, replicas=[leader, other])
        topics = [kind.ReassignableTopic(name=name, partitions=[one])]
        self.ask("AlterPartitionReassignments", 0, kind(topics=topics, timeout_ms=30_000))
        kind = message("ElectLeadersRequest")
        topics = [kind.TopicPartitions(topic=name, partitions=[number])]
        reply = self.ask("ElectLeaders", 2, kind(election_type=0, topic_partitions=topics, timeout_ms=30_000))
        return all(one.error_code == 0 for topic in reply.replica_election_results for one in topic.partition_result)


def measure(cluster: Cluster, operator: Operator, moves: int) -> list[float]:
    """Milliseconds from the commit to the loaded broker, for so many leaderships that have moved."""
    before = set(cluster.noted(CONTROLLER, "committed"))
    leader, other = LOADED, IDLE
    moved = 0
    for number in range(10 * moves):
        if operator.move("moved", number % PARTITIONS, leader, other):
            moved += 1
        if number % PARTITIONS == PARTITIONS - 1:
            leader, other = other, leader
        if moved >= moves:
            break
        time.sleep(0.01)
    end = time.monotonic() + 60
    while True:
        committed = {key: at for key, at in cluster.noted(CONTROLLER, "committed").items() if key not in before}
        obeyed = cluster.noted(LOADED, "obeyed")
        missing = {key for key in committed if key not in obeyed and _is_newest(key, committed)}
        if not missing or time.monotonic() > end:
            break
        time.sleep(0.2)
    return [(obeyed[key] - at) / 1e6 for key, at in committed.items() if key in obeyed]


def _is_newest(key: Moved, committed: dict[Moved, int]) -> bool:
    return all(key.epoch >= one.epoch for one in committed if one[:2] == key[:2])


@contextmanager
def loaded(port: int, connections: int, size: int) -> Iterator[None]:
    """Clients that keep the queue full."""
    command = [sys.executable, "-m", "bench.overload", "load", str(port), str(connections), str(size)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        time.sleep(WARM_SECONDS)
        yield
    finally:
        process.kill()
        process.wait()


def quantiles(found: Sequence[float]) -> dict[str, float]:
    """What is shown of a series."""
    ordered = sorted(found)
    return {
        "changes": len(ordered),
        "p50_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "largest_ms": round(ordered[-1], 3),
    }


def run(case: Case, moves: int, connections: int, size: int) -> dict[str, dict[str, float]]:
    """One case, idle and under load."""
    with tempfile.TemporaryDirectory(prefix="rayft-overload-") as home, ExitStack() as stack:
        cluster = Cluster(Path(home), case, stack)
        operator = Operator(cluster.ports[3 * IDLE - 2])
        operator.create("moved", [[LOADED, IDLE]] * PARTITIONS, {})
        retained = {"retention.bytes": "16000000", "segment.bytes": "16000000", "max.message.bytes": str(2 * size)}
        operator.create("load", [[LOADED]] * 8, retained)
        time.sleep(2)
        measure(cluster, operator, 10)
        idle = quantiles(measure(cluster, operator, moves))
        with loaded(cluster.ports[3 * LOADED - 2], connections, size):
            return {"idle": idle, "loaded": quantiles(measure(cluster, operator, moves))}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--moves", type=int, default=60, help="leaderships that move in each series")
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="of a Produce request")
    parser.add_argument("--out", type=Path, help="where the JSON goes; the chart stands beside it")
    given = parser.parse_args(arguments)
    found = {}
    for case in (Case(pushed, lane) for pushed in (False, True) for lane in (True, False)):
        found[str(case)] = run(case, given.moves, given.connections, given.bytes)
        print(f"{case!s:28} {found[str(case)]}", flush=True)
    out = given.out or RESULTS / f"overload-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(exist_ok=True)
    settings = {"moves": given.moves, "connections": given.connections, "bytes": given.bytes}
    out.write_text(json.dumps({"machine": dict(machine()), "settings": settings, "cases": found}, indent=1) + "\n")
    rows = [(f"{case}, {state}: p99", one["p99_ms"]) for case, both in found.items() for state, one in both.items()]
    title = f"ms from a commit to the broker, {given.connections} clients of {given.bytes:,} bytes a request"
    out.with_suffix(".svg").write_text(bars(title, rows, "with the lane"))
    print(f"written to {out} and {out.with_suffix('.svg')}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["node"]:
        sys.exit(node(sys.argv[2], sys.argv[3], "--no-lane" not in sys.argv))
    if sys.argv[1:2] == ["load"]:
        load("127.0.0.1", int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(main())
