"""The heaviest legal request of every API, by address, beside a good client: rayft and Apache Kafka in turn.

`python -m bench.heaviest [--sides rayft "Apache Kafka"] [--apis Fetch Metadata ...] [--seconds 30] [--out FILE.json]`

Three controllers and three brokers run on each side. A request is heavy in one of its lists, which has as many elements as
rayft lets in (`actors/wire/limits.py`); requests are made from the schemas (`tests/heaviest.py`), for each API, each of its
lists, the oldest and the newest version, and go to a broker or, where only controllers serve them, to the active controller.
Each is sent alone by a process of the lowest priority, and one in eight sixteen times in a row behind a Fetch that waits.
Then ten such processes with an address each send them all at once, for `--seconds`.

The good client sends a record with acks=all, and asks for the newest one, every 20 ms each. What is shown is how long
it waited while requests were served: from the first byte that was sent to the last of the answer. A leader that moves, a
replica that leaves the ISR, a record that is refused and a node that ends are counted as harm.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import rayft
from actors.node.api import handlers, table
from actors.node.runtime.calls import Listener
from actors.wire.messages import message
from bench import apache, frames
from bench.end_to_end import Side
from fastpath.records import batch
from tests.heaviest import Path as ListPath
from tests.heaviest import elements, heavy, lists

EVERY_SECONDS = 0.02
ANSWER_SECONDS_MAX = 60.0
FRAME_BYTES_MAX = 16 << 20
"""A longer frame is left out when requests are sent in a row or all at once: what is measured then is not the loopback."""
IN_A_ROW = 16
ROW_EVERY = 8
ATTACKERS = 10
LOWEST_PRIORITY = 19
REPLICAS = 3
TOPIC = "good"
RECORD = b"x" * 100
TICK_BYTES = 1024


class Shape(NamedTuple):
    """A request that is heavy in one list."""

    listener: Listener
    name: str
    version: int
    path: ListPath

    def __str__(self) -> str:
        return f"{self.name} {self.version} {'.'.join(self.path)}"

    def elements(self) -> int:
        """How many elements of the list are let in."""
        return elements(self.name, self.version, self.path)

    def frame(self) -> bytes:
        """The whole frame. Raises WireError where the version cannot say it."""
        body = heavy(self.name, self.version, self.path, self.elements())
        return frames.frame(self.name, self.version, body, client="heavy")


@dataclass
class Waits:
    """How long the good client waited, in milliseconds, and what harmed it."""

    produce_ms: list[float] = field(default_factory=list)
    fetch_ms: list[float] = field(default_factory=list)
    harm: list[str] = field(default_factory=list)

    def since(self, marks: tuple[int, int]) -> tuple[list[float], list[float]]:
        """What came behind the marks."""
        return self.produce_ms[marks[0] :], self.fetch_ms[marks[1] :]

    def marks(self) -> tuple[int, int]:
        """Where both lists end now."""
        return len(self.produce_ms), len(self.fetch_ms)


@dataclass
class Served:
    """What one request did."""

    shape: str
    megabytes: float
    seconds: float
    answer: str
    produce_ms: float
    """The longest wait."""
    fetch_ms: float
    grown_mb: float
    """By how much the node that grew most was above what it had before, at its peak."""


def shapes(names: Sequence[str] = ()) -> list[Shape]:
    """Every request that is served, heavy in each of its lists; `names`: of these APIs only."""
    handlers.load()
    found: dict[tuple[str, int, ListPath], Shape] = {}
    for listener in (Listener.CLIENT, Listener.INTER_BROKER, Listener.CONTROLLER):
        for api in table.TABLE["drafts"].get(listener, {}).values():
            if (names and api.name not in names) or not _has_schema(api.name):
                continue
            for version in sorted({api.versions[0], api.versions[-1]}):
                for path in lists(message(f"{api.name}Request"), version)[1:]:
                    found.setdefault((api.name, version, path), Shape(listener, api.name, version, path))
    return sorted(found.values(), key=str)


class GoodClient:
    """A producer and a consumer with a connection each, until `end`."""

    def __init__(self, side: Side) -> None:
        self.waits = Waits()
        self.acknowledged = 0
        self._address = side.leader_of(TOPIC)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._produce, self._fetch)]
        for one in self._threads:
            one.start()

    def end(self) -> None:
        """Send no more; both threads have ended."""
        self._ended.set()
        for one in self._threads:
            one.join(2 * ANSWER_SECONDS_MAX)

    def _every(
        self, name: str, version: int, body: Callable[[], Any], took: list[float], refused: Callable[[Any], int]
    ) -> None:
        connection = frames.Connection(self._address, ANSWER_SECONDS_MAX)
        due = time.monotonic()
        while not self._ended.is_set():
            due += EVERY_SECONDS
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            try:
                error = refused(connection.ask(name, version, body()))
            except OSError as failed:
                self.waits.harm.append(f"{name}: {failed!r}")
                with contextlib.suppress(OSError):
                    connection = frames.Connection(self._address, ANSWER_SECONDS_MAX)
                continue
            took.append((time.monotonic() - began) * 1000)
            due = max(due, time.monotonic() - EVERY_SECONDS)  # what was missed while it waited is not sent at once
            if error:
                self.waits.harm.append(f"{name}: error {error}")

    def _produce(self) -> None:
        kind = message("ProduceRequest")

        def body() -> Any:
            builder = batch.Builder(timestamp_ms=time.time_ns() // 1_000_000)
            builder.append(None, RECORD)
            part = kind.PartitionProduceData(index=0, records=bytes(builder.build()))
            topics = [kind.TopicProduceData(name=TOPIC, partition_data=[part])]
            return kind(acks=-1, timeout_ms=30_000, topic_data=topics)

        def refused(reply: Any) -> int:
            error = int(reply.responses[0].partition_responses[0].error_code)
            self.acknowledged += not error
            return error

        self._every("Produce", 9, body, self.waits.produce_ms, refused)

    def _fetch(self) -> None:
        kind = message("FetchRequest")

        def body() -> Any:
            at = max(0, self.acknowledged - 1)
            part = kind.FetchPartition(partition=0, fetch_offset=at, partition_max_bytes=TICK_BYTES)
            topics = [kind.FetchTopic(topic=TOPIC, partitions=[part])]
            return kind(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)

        self._every("Fetch", 11, body, self.waits.fetch_ms, lambda r: int(r.responses[0].partitions[0].error_code))


class Attacker:
    """A process of the lowest priority that makes a request when it is told to, and sends it when it is told to."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_attack, args=(other,), daemon=True)
        self._process.start()

    def make(self, shape: Shape) -> int:
        """Make a request. Its size in bytes; 0: it cannot be said in that version."""
        self._pipe.send(shape)
        return int(self._pipe.recv())

    def send(self, address: tuple[str, int], times: int) -> tuple[float, str]:
        """Send it so often; more than once: behind a Fetch that waits. The seconds to the last answer, and what came."""
        self._pipe.send((address, times))
        seconds, answer = self._pipe.recv()
        return seconds, answer

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


class Bench:
    """One side under its requests."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self._create()
        self.good = GoodClient(side)
        self._placed = self._place()
        self._brokers = [_address(one) for one in side.cluster.bootstrap_servers.split(",")]
        self._controller = side.controllers[side.leader()]
        time.sleep(2)

    def alone(self, which: Sequence[Shape], say: Callable[[str], None]) -> list[Served]:
        """Send each by itself."""
        attacker, found = Attacker(), []
        try:
            for number, shape in enumerate(which):
                size = attacker.make(shape)
                if size:
                    found.append(self._served(attacker, shape, size, 1))
                    if number % ROW_EVERY == 0 and size <= FRAME_BYTES_MAX:
                        found.append(self._served(attacker, shape, size, IN_A_ROW))
                    say(f"{self.side.name}: {number + 1} of {len(which)}: {found[-1]}")
        finally:
            attacker.end()
        self._look()
        return found

    def together(self, which: Sequence[Shape], seconds: float) -> dict[str, Any]:
        """Send all from ten addresses at once."""
        context = multiprocessing.get_context("fork")
        chosen = [one for one in which if len(one.frame()) <= FRAME_BYTES_MAX]
        made = [(self._target(number, one), one.frame()) for number, one in enumerate(chosen)]
        running = [
            context.Process(target=_flood, args=(f"127.0.0.{2 + number}", made, number, seconds), daemon=True)
            for number in range(ATTACKERS)
        ]
        before, marks = self._resident(), self.good.waits.marks()
        for one in running:
            one.start()
        time.sleep(seconds)
        produced, fetched = self.good.waits.since(marks)
        peak = self._resident(peak=True)
        for one in running:
            one.join(2 * ANSWER_SECONDS_MAX)
            one.kill()
        self._look()
        time.sleep(5)
        after = self._resident()
        return {
            "produce": _shown(produced),
            "fetch": _shown(fetched),
            "grown_mb": max(peak[one] - before[one] for one in before) / 1e6,
            "kept_mb": max(after[one] - before[one] for one in before) / 1e6,
        }

    def _served(self, attacker: Attacker, shape: Shape, size: int, times: int) -> Served:
        for pid in self.side.pids().values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        before, marks = self._resident(), self.good.waits.marks()
        seconds, answer = attacker.send(self._target(0, shape), times)
        time.sleep(3 * EVERY_SECONDS)
        peak = self._resident(peak=True)
        produced, fetched = self.good.waits.since(marks)
        self._look()
        return Served(
            f"{shape}{f' x {times}' if times > 1 else ''}",
            size * times / 1e6,
            seconds,
            answer,
            max(produced, default=1000 * ANSWER_SECONDS_MAX),
            max(fetched, default=1000 * ANSWER_SECONDS_MAX),
            max(peak[one] - before[one] for one in before) / 1e6,
        )

    def _target(self, number: int, shape: Shape) -> tuple[str, int]:
        leader = self.good._address
        brokers = [leader, *(one for one in self._brokers if one != leader)]
        return self._controller if shape.listener is Listener.CONTROLLER else brokers[number % len(brokers)]

    def _create(self) -> None:
        kind = message("CreateTopicsRequest")
        configs = [kind.CreatableTopicConfig(name="min.insync.replicas", value="2")]
        topic = kind.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=REPLICAS, configs=configs)
        connection = frames.Connection(self.side.broker)
        reply = connection.ask("CreateTopics", 5, kind(topics=[topic], timeout_ms=30_000))
        connection.close()
        if reply.topics[0].error_code:
            raise RuntimeError(f"{TOPIC}: {reply.topics[0].error_code}")
        time.sleep(2)

    def _place(self) -> tuple[int, int, tuple[int, ...]]:
        """The good topic's leader, its epoch and the ISR."""
        kind = message("MetadataRequest")
        connection = frames.Connection(self.good._address)
        reply = connection.ask("Metadata", 9, kind(topics=[kind.MetadataRequestTopic(name=TOPIC)]))
        connection.close()
        part = reply.topics[0].partitions[0]
        return part.leader_id, part.leader_epoch, tuple(sorted(part.isr_nodes))

    def _look(self) -> None:
        now = self._place()
        if now != self._placed:
            self.good.waits.harm.append(f"leader, epoch and ISR were {self._placed} and are {now}")
            self._placed = now

    def _resident(self, peak: bool = False) -> dict[int, int]:
        found = {}
        for node, pid in self.side.pids().items():
            text = Path(f"/proc/{pid}/status").read_text()
            line = text.split("VmHWM:" if peak else "VmRSS:")[1]
            found[node] = int(line.split()[0]) * 1024
        return found


def _attack(pipe: "Pipe[Any, Any]") -> None:
    os.nice(LOWEST_PRIORITY)
    data = b""
    while True:
        told = pipe.recv()
        if isinstance(told, Shape):
            data = b""
            with contextlib.suppress(ValueError):
                data = told.frame()
            pipe.send(len(data))
            continue
        address, times = told
        began = time.monotonic()
        answer = _sent(address, data, times)
        pipe.send((time.monotonic() - began, answer))


def _sent(address: tuple[str, int], data: bytes, times: int) -> str:
    """Send and read all answers. What the last one was."""
    try:
        connection = frames.Connection(address, ANSWER_SECONDS_MAX)
        if times == 1:
            return f"{len(connection.exchange(data)):,} bytes"
        threading.Thread(target=_push, args=(connection.socket, _parked() + data * times), daemon=True).start()
        return f"{sum(len(connection.answer()) for _ in range(times + 1)):,} bytes"
    except OSError as failed:
        return "closed" if not isinstance(failed, TimeoutError) else "no answer"


def _push(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)


def _parked() -> bytes:
    kind = message("FetchRequest")
    part = kind.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    topics = [kind.FetchTopic(topic=TOPIC, partitions=[part])]
    return frames.frame(
        "Fetch", 11, kind(max_wait_ms=1000, min_bytes=1 << 30, max_bytes=1 << 30, session_epoch=-1, topics=topics)
    )


def _flood(host: str, made: Sequence[tuple[tuple[str, int], bytes]], seed: int, seconds: float) -> None:
    os.nice(LOWEST_PRIORITY)
    order = list(made)
    random.Random(seed).shuffle(order)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for address, data in order:
            with contextlib.suppress(OSError), socket.create_connection(address, ANSWER_SECONDS_MAX, (host, 0)) as one:
                one.sendall(data)
                _read(one)
            if time.monotonic() > end:
                return


def _read(sock: socket.socket) -> None:
    """One answer, without keeping it."""
    left = 4
    head = bytearray()
    while left:
        part = sock.recv(left)
        if not part:
            return
        head += part
        left -= len(part)
    left = int.from_bytes(head, "big")
    while left > 0:
        part = sock.recv(min(left, 1 << 20))
        if not part:
            return
        left -= len(part)


def _has_schema(name: str) -> bool:
    try:
        message(f"{name}Request")
    except KeyError:
        return False
    return True


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _shown(took: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the longest, in milliseconds."""
    sound = sorted(took) or [float("inf")]
    return {
        "count": len(took),
        "p50": sound[len(sound) // 2],
        "p99": sound[int(0.99 * len(sound))],
        "longest": sound[-1],
    }


@contextlib.contextmanager
def running(name: str) -> Iterator[Side]:
    """Three controllers and three brokers of one side."""
    cluster: Any = (
        rayft.Cluster(controllers=3, brokers=3)
        if name == "rayft"
        else apache.ApacheKafka(controllers=3, brokers=3, heap="768m")
    )
    with cluster:
        yield Side(name, cluster)


def run(side: Side, which: Sequence[Shape], seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything on one side."""
    bench = Bench(side)
    pids = side.pids()
    marks = bench.good.waits.marks()
    served = bench.alone(which, say)
    alone = bench.good.waits.since(marks)
    harm_alone = list(bench.good.waits.harm)
    together = bench.together(which, seconds)
    bench.good.end()
    harm = bench.good.waits.harm
    if side.pids() != pids:
        harm.append("a node was started anew")
    return {
        "alone": {"produce": _shown(alone[0]), "fetch": _shown(alone[1]), "harm": harm_alone},
        "together": together | {"harm": harm[len(harm_alone) :]},
        "served": [asdict(one) for one in sorted(served, key=lambda one: -one.produce_ms)],
    }


def main() -> None:
    """Measure each side and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sides", nargs="*", default=["rayft", "Apache Kafka"])
    parser.add_argument("--apis", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    which = shapes(given.apis)
    found = {}
    for name in given.sides:
        with running(name) as side:
            found[name] = run(side, which, given.seconds, lambda text: print(text, file=sys.stderr, flush=True))
    shown = Table(title=f"{len(which)} heaviest requests")
    shown.add_column("a good client's wait, ms")
    for name in found:
        shown.add_column(name, justify="right")
    for when in ("alone", "together"):
        for what in ("produce", "fetch"):
            cells = [
                " / ".join(f"{one[when][what][key]:.1f}" for key in ("p50", "p99", "longest")) for one in found.values()
            ]
            shown.add_row(f"{when}: {what}, p50 / p99 / longest", *cells)
        shown.add_row(f"{when}: harm", *(str(len(one[when]["harm"])) for one in found.values()))
    shown.add_row(
        "most grown by one request, MB", *(f"{max(s['grown_mb'] for s in one['served']):.0f}" for one in found.values())
    )
    shown.add_row(
        "grown together, kept after, MB",
        *(f"{one['together']['grown_mb']:.0f}, {one['together']['kept_mb']:.0f}" for one in found.values()),
    )
    Console(width=120).print(shown)
    for name, one in found.items():
        for row in one["served"][:8]:
            print(f"{name}: {row}")
        print(f"{name}: harm {[*one['alone']['harm'], *one['together']['harm']][:5]}")
    if given.out:
        given.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
