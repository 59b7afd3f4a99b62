"""Metadata and DescribeTopicPartitions of many partitions: rayft and Apache Kafka in turn, asked by the same client.

`python -m bench.metadata [--sizes 10000 100000 1000000] [--kafka-max 100000] [--rounds 3] [--out FILE.json]`

One broker runs on each side; the replicas are on three brokers that are only registered (`fake_brokers.py`), so what is
measured is metadata alone. The client counts bytes and reads nothing of them. Before each first request for all topics one
more topic is made, so that no answer of before can be given again. A probe asks for ApiVersions every 5 ms on a connection
of its own meanwhile: its longest wait is the longest pause of the broker. `grows`: the exponent with which a cost grows with
the number of partitions, fitted over the sizes; 1 is proportional, 0 not at all.
"""

import argparse
import gc
import json
import math
import os
import platform
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

import rayft
from actors.wire.messages import message
from bench import apache, fake_brokers, frames
from bench.end_to_end import RESULTS, SETTLE_SECONDS, Side

SIDES = ("rayft", "Apache Kafka")
FAKES = range(101, 104)
TOGETHER = 8
NAMED = 100
PAGE = 2000
PARTITIONS_A_REQUEST = 5_000
PROBE_SECONDS = 0.005
METADATA_VERSION = 12


class Line(NamedTuple):
    """A line of the table. `aims`: the bound by the number of partitions; 0: of any number."""

    name: str
    unit: str
    aims: dict[int, float]
    measure: Callable[["Bench"], float]


class Reader(frames.Connection):
    """A connection whose answers are read into the same memory each time, and counted."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, 120)
        self.room = memoryview(bytearray(1 << 20))

    def send(self, frame: bytes) -> None:
        """Send a prepared frame."""
        self.socket.sendall(frame)

    def take(self) -> int:
        """Read an answer; its size in bytes. What it says is thrown away."""
        left = size = int.from_bytes(self._read(4), "big")
        while left:
            got = self.socket.recv_into(self.room[: min(left, len(self.room))])
            if not got:
                raise ConnectionError("the server closed the connection")
            left -= got
        return size

    def timed(self, frame: bytes) -> float:
        """Milliseconds from sending a frame to the last byte of its answer."""
        begin = time.perf_counter()
        self.send(frame)
        self.take()
        return (time.perf_counter() - begin) * 1000


class Probe:
    """Asks for ApiVersions every 5 ms while its block runs; `longest_ms` is the longest wait for an answer."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._reader = Reader(address)
        self._frame = frames.frame(
            "ApiVersions", 3, message("ApiVersionsRequest")(client_software_name="p", client_software_version="1")
        )
        self._ends = threading.Event()
        self.longest_ms = 0.0

    def __enter__(self) -> "Probe":
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._reader.close()

    def _run(self) -> None:
        while not self._ends.wait(PROBE_SECONDS):
            self.longest_ms = max(self.longest_ms, self._reader.timed(self._frame))


class Bench:
    """One side with so many partitions. Invariant: a topic has `per_topic` partitions, but for those of one that make the
    metadata change."""

    def __init__(self, side: Side, per_topic: int) -> None:
        self.side = side
        self.per_topic = per_topic
        self.topics = 0
        self.looked_bytes = 0
        """What the last broker that began anew has taken at most."""
        self.looked_seconds = 0.0
        """The processor time that it has taken until it served."""
        self.broker_bytes = 0
        """What the broker took before anybody asked it for all topics."""
        self._changes = 0
        self._asker = frames.Connection(side.broker, 120)

    def grow(self, partitions: int) -> None:
        """Make topics until there are so many partitions, and wait until the broker knows them."""
        while self.topics * self.per_topic < partitions:
            count = min(PARTITIONS_A_REQUEST, partitions - self.topics * self.per_topic) // self.per_topic
            self._create([(f"topic-{number:07}", self.per_topic) for number in range(self.topics, self.topics + count)])
            self.topics += count
        self._until_known(self.last)
        self.broker_bytes = self.resident()

    @property
    def last(self) -> str:
        """The name of the last topic."""
        return f"topic-{self.topics - 1:07}"

    def begin_anew(self) -> float:
        """Start a broker on empty directories: this one on rayft, one more on Apache Kafka, where an id is not given anew
        before its last session has timed out. Seconds until it serves and knows the last topic."""
        cluster, node = self.side.cluster, 1
        if isinstance(cluster, apache.ApacheKafka):
            node = cluster.add_broker()
            begin = time.perf_counter()
            cluster.start(node)
            cluster.wait()
            self._until_known(self.last, frames.Connection(("127.0.0.1", cluster.broker_ports[node]), 120))
            took = time.perf_counter() - begin
            self.looked_bytes = highest(cluster.processes[node].pid)
            self.looked_seconds = processor_seconds(cluster.processes[node].pid)
            cluster.remove_broker(node)
        else:
            pid = cluster.pids[node]
            cluster.kill(node, signal.SIGTERM, restart=False)
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.01)
            for path in (cluster.dir / f"broker-{node}").iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
            begin = time.perf_counter()
            cluster.start_node(node)
            cluster.wait_ready(node, 120)
            self._asker = frames.Connection(self.side.broker, 120)
            self._until_known(self.last)
            took = time.perf_counter() - begin
            self.looked_bytes = highest(cluster.pids[node])
            self.looked_seconds = processor_seconds(cluster.pids[node])
            self.broker_bytes = self.resident()
        return took

    def change(self) -> None:
        """Make one topic, so that the broker's metadata is another one."""
        self._changes += 1
        name = f"change-{self._changes:05}"
        self._create([(name, 1)])
        self._until_known(name)

    def all_topics(self) -> bytes:
        """The frame that asks for all topics."""
        return frames.frame("Metadata", METADATA_VERSION, message("MetadataRequest")(topics=None))

    def named(self) -> bytes:
        """The frame that asks for a hundred topics, spread over all."""
        kind = message("MetadataRequest")
        names = [f"topic-{number * self.topics // NAMED:07}" for number in range(NAMED)]
        topics = [kind.MetadataRequestTopic(name=name) for name in names]
        return frames.frame("Metadata", METADATA_VERSION, kind(topics=topics, allow_auto_topic_creation=False))

    def page(self) -> bytes:
        """The frame that asks for a page in the middle."""
        kind = message("DescribeTopicPartitionsRequest")
        cursor = kind.Cursor(topic_name=f"topic-{self.topics // 2:07}", partition_index=0)
        return frames.frame("DescribeTopicPartitions", 0, kind(topics=[], response_partition_limit=PAGE, cursor=cursor))

    def resident(self) -> int:
        """Resident bytes of the broker."""
        return apache.resident_bytes(self.side.pids()[1])

    def _create(self, topics: list[tuple[str, int]]) -> None:
        kind = message("CreateTopicsRequest")
        made = []
        for name, partitions in topics:
            spread = [
                kind.CreatableReplicaAssignment(
                    partition_index=number,
                    broker_ids=[FAKES[(number + turn) % len(FAKES)] for turn in range(len(FAKES))],
                )
                for number in range(partitions)
            ]
            made.append(kind.CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=spread))
        reply = self._asker.ask("CreateTopics", 5, kind(topics=made, timeout_ms=120_000))
        for one in reply.topics:
            if one.error_code:
                raise RuntimeError(f"{one.name}: {one.error_code} {one.error_message}")

    def _until_known(self, name: str, asker: frames.Connection | None = None) -> None:
        kind = message("MetadataRequest")
        request = kind(topics=[kind.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        end = time.monotonic() + 120
        asker = asker or self._asker
        while asker.ask("Metadata", 9, request).topics[0].error_code:
            if time.monotonic() > end:
                raise RuntimeError(f"the broker does not learn of {name}")
            time.sleep(0.005)


def highest(pid: int) -> int:
    """The most resident bytes that a process has had."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def processor_seconds(pid: int) -> float:
    """The processor time that a process has taken, all threads that it has together."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def first(bench: Bench) -> float:
    """Milliseconds of the first request for all topics after a change."""
    reader = Reader(bench.side.broker)
    bench.change()
    took = reader.timed(bench.all_topics())
    reader.close()
    return took


def again(bench: Bench) -> float:
    """Milliseconds of a request for all topics when nothing has changed."""
    reader = Reader(bench.side.broker)
    reader.timed(bench.all_topics())
    took = reader.timed(bench.all_topics())
    reader.close()
    return took


def together(bench: Bench) -> float:
    """Milliseconds until eight who ask at once, after a change, have their answers."""
    readers = [Reader(bench.side.broker) for _ in range(TOGETHER)]
    bench.change()
    threads = [threading.Thread(target=reader.take) for reader in readers]
    begin = time.perf_counter()
    for reader in readers:
        reader.send(bench.all_topics())
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = (time.perf_counter() - begin) * 1000
    for reader in readers:
        reader.close()
    return took


def pause(bench: Bench) -> float:
    """Milliseconds of the longest pause of the broker while eight ask for all topics."""
    with Probe(bench.side.broker) as probe:
        together(bench)
    return probe.longest_ms


def memory(bench: Bench) -> float:
    """MB by which the broker has grown since nobody had asked it, at the highest while eight ask for all topics."""
    pid = bench.side.pids()[1]
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    together(bench)
    return (highest(pid) - bench.broker_bytes) / 1e6


def some(bench: Bench) -> float:
    """Milliseconds of Metadata for a hundred topics: the median of 30."""
    return repeated(bench, bench.named())


def one_page(bench: Bench) -> float:
    """Milliseconds of a page of DescribeTopicPartitions: the median of 30."""
    return repeated(bench, bench.page())


def repeated(bench: Bench, frame: bytes) -> float:
    """The median of 30 requests, in milliseconds, after ten that are not counted."""
    reader = Reader(bench.side.broker)
    times = [reader.timed(frame) for _ in range(40)][10:]
    reader.close()
    return statistics.median(times)


def some_spent(bench: Bench) -> float:
    """Milliseconds of processor time of the broker for Metadata of a hundred topics."""
    return spent(bench, bench.named())


def page_spent(bench: Bench) -> float:
    """Milliseconds of processor time of the broker for a page of DescribeTopicPartitions."""
    return spent(bench, bench.page())


def spent(bench: Bench, frame: bytes) -> float:
    """Milliseconds of processor time of the broker for a request, over 200, after ten that are not counted."""
    reader, pid = Reader(bench.side.broker), bench.side.pids()[1]
    for _ in range(10):
        reader.timed(frame)
    begin = processor_seconds(pid)
    for _ in range(200):
        reader.timed(frame)
    took = processor_seconds(pid) - begin
    reader.close()
    return took * 1000 / 200


def look(bench: Bench) -> float:
    """Seconds of a new broker's first look."""
    return bench.begin_anew()


def look_spent(bench: Bench) -> float:
    """Seconds of processor time of that broker until it served."""
    return bench.looked_seconds


def looked(bench: Bench) -> float:
    """MB that this broker has taken at most in its first look."""
    return bench.looked_bytes / 1e6


LINES = [
    Line("Metadata of all topics, the first after a change", "ms", {100_000: 50, 1_000_000: 500}, first),
    Line("Metadata of all topics, again", "ms", {}, again),
    Line("eight at once, after a change", "ms", {}, together),
    Line("longest pause meanwhile", "ms", {0: 20}, pause),
    Line("the broker grows meanwhile by", "MB", {0: 64}, memory),
    Line("Metadata of 100 topics", "ms", {0: 1}, some),
    Line("the processor time of these", "ms", {0: 1}, some_spent),
    Line("a page of DescribeTopicPartitions", "ms", {0: 3}, one_page),
    Line("the page's processor time", "ms", {0: 3}, page_spent),
    Line("a new broker's first look", "s", {1_000_000: 1}, look),
    Line("the look's processor time", "s", {1_000_000: 1}, look_spent),
    Line("the look's memory", "MB", {1_000_000: 120}, looked),
]


@contextmanager
def running(name: str, heap: str) -> Iterator[Side]:
    """A cluster of one controller and one broker, beside which brokers are registered."""
    config = fake_brokers.LONG_LEASES[name]
    if name == "rayft":
        cluster: Any = rayft.Cluster(controllers=1, brokers=1, config=config)
    else:
        cluster = apache.ApacheKafka(1, 1, config, heap=heap)
    with cluster:
        side = Side(name, cluster)
        connection = fake_brokers.register(name, side.controllers[side.leader()], side.broker, FAKES)
        yield side
        connection.close()


def exponent(costs: dict[int, float]) -> float | None:
    """The exponent with which costs grow with sizes, fitted by least squares over their logarithms."""
    if len(costs) < 2:
        return None
    xs, ys = [math.log(size) for size in costs], [math.log(max(cost, 1e-3)) for cost in costs.values()]
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)


def measure(sizes: list[int], kafka_max: int, rounds: int, per_topic: int, heap: str) -> dict[str, Any]:
    """Medians by line, side and size."""
    found: dict[str, dict[str, dict[int, float]]] = {line.name: {side: {} for side in SIDES} for line in LINES}
    console = Console(stderr=True)
    with running(SIDES[0], heap) as ours, running(SIDES[1], heap) as theirs:
        benches = [Bench(ours, per_topic), Bench(theirs, per_topic)]
        for size in sizes:
            present = [one for one in benches if one.side.name == SIDES[0] or size <= kafka_max]
            for bench in present:
                begin = time.perf_counter()
                bench.grow(size)
                console.print(f"{bench.side.name}: {size:,} partitions in {time.perf_counter() - begin:.1f} s")
            times: dict[tuple[str, str], list[float]] = {}
            for turn in range(rounds):
                for line in LINES:
                    for bench in present if turn % 2 == 0 else reversed(present):
                        gc.collect()
                        time.sleep(SETTLE_SECONDS)  # the other side may still be collecting its garbage
                        times.setdefault((line.name, bench.side.name), []).append(line.measure(bench))
            for (line_name, side_name), values in times.items():
                found[line_name][side_name][size] = statistics.median(values)
    return found


def table(found: dict[str, Any], sizes: list[int]) -> Table:
    """What was found, as a table."""
    shown = Table(title="Metadata of many partitions")
    for heading in ("", "", *(f"{size:,}" for size in sizes), "grows", "aim"):
        shown.add_column(heading, justify="left" if not heading else "right")
    for line in LINES:
        for side in SIDES:
            costs = found[line.name][side]
            fitted = exponent(costs)
            shown.add_row(
                f"{line.name}, {line.unit}" if side == SIDES[0] else "",
                side,
                *(f"{costs[size]:.2f}" if size in costs else "" for size in sizes),
                "" if fitted is None else f"{fitted:.2f}",
                verdict(line, costs) if side == SIDES[0] else "",
            )
    return shown


def verdict(line: Line, costs: dict[int, float]) -> str:
    """Whether the aims of a line are met: each of them, or the first that is not."""
    for size, aim in line.aims.items():
        for measured, cost in costs.items():
            if size in (0, measured) and cost > aim:
                return f"[red]{aim:g} at {measured:,}[/]"
    return "met" if line.aims else ""


def main(arguments: list[str]) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.metadata", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--kafka-max", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--per-topic", type=int, default=10)
    parser.add_argument("--heap", default="2g", help="of Apache Kafka's nodes")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if apache.libs() is None:
        sys.exit(apache.MISSING)
    sizes = sorted(given.sizes)
    found = measure(sizes, given.kafka_max, given.rounds, given.per_topic, given.heap)
    Console(width=160).print(table(found, sizes))
    out = given.out or RESULTS / f"metadata-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps(
            {
                "machine": platform.platform(),
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "kafka": apache.version(),
                "per_topic": given.per_topic,
                "rounds": given.rounds,
                "lines": {
                    line.name: {
                        side: {"medians": found[line.name][side], "exponent": exponent(found[line.name][side])}
                        for side in SIDES
                    }
                    for line in LINES
                },
            },
            indent=1,
        )
    )
    print(out)


if __name__ == "__main__":
    main(sys.argv[1:])
