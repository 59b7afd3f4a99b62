"""rayft and Apache Kafka on the same machine, in one run, in turn.

`python -m bench.end_to_end [--rounds 3] [--only NAME ...] [--out FILE.json]`

A figure is measured on both sides in each round, and the order changes from round to round. What counts is the median
of the rounds' ratios, never an absolute time. Every metric says which direction is better, its aim, and whether the aim
is met.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

import rayft
from bench import apache, frames

SETTLE_SECONDS = 1.0
RESULTS = Path(__file__).parent / "results"
USUAL = {"group.initial.rebalance.delay.ms": "0", "num.partitions": "1"}
"""The settings that users of both would have."""


class Side(NamedTuple):
    """One running cluster of either software."""

    name: str
    cluster: Any

    @property
    def broker(self) -> tuple[str, int]:
        """Address of the first broker."""
        host, _, port = self.cluster.bootstrap_servers.split(",")[0].rpartition(":")
        return host, int(port)

    @property
    def controllers(self) -> dict[int, tuple[str, int]]:
        """Addresses of the controllers by id."""
        if isinstance(self.cluster, apache.ApacheKafka):
            return {id: ("127.0.0.1", port) for id, port in self.cluster.controller_ports.items()}
        return {id: self.cluster.address(id) for id in self.cluster.controller_ids}

    def leader(self) -> int:
        """Id of the active controller, as a broker answers it."""
        from actors.wire.messages import message

        Request = message("DescribeQuorumRequest")
        topic = Request.TopicData(
            topic_name="__cluster_metadata", partitions=[Request.PartitionData(partition_index=0)]
        )
        connection = frames.Connection(self.broker)
        reply = connection.ask("DescribeQuorum", 1, Request(topics=[topic]))
        connection.close()
        return int(reply.topics[0].partitions[0].leader_id)

    def leader_of(self, topic: str) -> tuple[str, int]:
        """Address of the broker that leads partition 0 of a topic."""
        metadata = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers}).list_topics(topic, timeout=30)
        broker = metadata.brokers[metadata.topics[topic].partitions[0].leader]
        return broker.host, broker.port

    def pids(self) -> dict[int, int]:
        """Process ids by node."""
        if isinstance(self.cluster, apache.ApacheKafka):
            return {id: process.pid for id, process in self.cluster.processes.items()}
        return dict(self.cluster.pids)

    def cpu_seconds(self) -> float:
        """Processor time of all nodes since their start."""
        fields = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self.pids().values()]
        return sum(int(field[11]) + int(field[12]) for field in fields) / os.sysconf("SC_CLK_TCK")

    def kill(self, node: int) -> None:
        """kill -9, without a restart."""
        if isinstance(self.cluster, apache.ApacheKafka):
            self.cluster.kill(node)
        else:
            self.cluster.kill(node, restart=False)


@contextmanager
def running(
    name: str, controllers: int, brokers: int, config: Mapping[str, str] = USUAL, heap: str = "512m"
) -> Iterator[Side]:
    """A cluster of either software with the same topology and the same settings. `heap`: of Apache Kafka's nodes."""
    if name == "rayft":
        with rayft.Cluster(controllers=controllers, brokers=brokers, config=config) as cluster:
            yield Side(name, cluster)
    else:
        with apache.ApacheKafka(controllers, brokers, config, heap=heap) as kafka:
            yield Side(name, kafka)


class Metric(NamedTuple):
    """One measurement. `ratio` is rayft over Kafka, for times and bytes as for rates; `aim` is its bound."""

    name: str
    unit: str
    lower_is_better: bool
    aim: float
    aim_absolute: float | None
    controllers: int
    brokers: int
    measure: Callable[[Side], float]


# ---- the measurements


def create_p50(side: Side) -> float:
    """Milliseconds of one CreateTopics through a broker, without other load."""
    warm = [frames.create_topic(f"warm-{n}", 1, 1) for n in range(150)]
    frames.latencies(side.broker, warm, frames.check_created)
    timed = [frames.create_topic(f"timed-{n}", 1, 1) for n in range(60)]
    return statistics.median(frames.latencies(side.broker, timed, frames.check_created)) * 1000


def create_64(side: Side) -> float:
    """Topics a second from 64 connections directly to the active controller (Kafka's brokers forward one at a time)."""
    address = side.controllers[side.leader()]
    frames.rate(address, [frames.create_topic(f"w64-{n}", 1, 1) for n in range(500)], 64, frames.check_created)
    todo = [frames.create_topic(f"c64-{n}", 1, 1) for n in range(3000)]
    return frames.rate(address, todo, 64, frames.check_created)


def failover(side: Side) -> float:
    """Milliseconds from kill -9 of the active controller to the next committed change through a broker."""
    connection = frames.Connection(side.broker, 60)
    for n in range(20):
        frames.check_created(connection.exchange(frames.create_topic(f"before-{n}", 1, 1)))
    leader = side.leader()
    begin = time.perf_counter()
    side.kill(leader)
    frames.check_created(connection.exchange(frames.create_topic("after", 1, 1)))
    milliseconds = (time.perf_counter() - begin) * 1000
    connection.close()
    return milliseconds


def produce_seconds(side: Side, topic: str, count: int, size: int, **config: Any) -> float:
    """How long `count` records of `size` bytes take, acks=all. `config`: more settings of the producer."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, record: object) -> None:
        if error is not None:
            failed.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": side.cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1 << 20,
            "log_level": 0,
            "on_delivery": delivered,
            **config,
        }
    )
    value = os.urandom(size // 2).hex().encode()[:size]
    produce, poll = producer.produce, producer.poll
    produce(topic, value)
    producer.flush(60)
    begin = time.perf_counter()
    for n in range(count):
        try:
            produce(topic, value)
        except BufferError:
            poll(0.1)
            produce(topic, value)
        if not n & 0xFFF:
            poll(0)
    left = producer.flush(120)
    seconds = time.perf_counter() - begin
    if failed or left:
        raise RuntimeError(f"{len(failed)} records failed, {left} left: {failed[:1]}")
    return seconds


def consume_seconds(side: Side, topic: str, count: int, **config: Any) -> float:
    """How long reading `count` records from the beginning takes. `config`: more settings of the consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.cluster.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,  # otherwise it stops fetching for a second whenever 100,000 wait
            "queued.max.messages.kbytes": 2_097_151,
            "log_level": 0,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen = 0
    begin = time.perf_counter()
    while seen < count:
        seen += len(consumer.consume(min(100_000, count - seen), 5.0))
        if time.perf_counter() - begin > 120:
            raise RuntimeError(f"read {seen} of {count}")
    seconds = time.perf_counter() - begin
    consumer.close()
    return seconds


def _topic(side: Side, name: str, partitions: int = 1, factor: int = 1) -> str:
    connection = frames.Connection(side.broker)
    frames.check_created(connection.exchange(frames.create_topic(name, partitions, factor)))
    connection.close()
    time.sleep(SETTLE_SECONDS / 2)
    return name


def produce_rate(size: int, count: int, partitions: int = 1, factor: int = 1) -> Callable[[Side], float]:
    """Records a second, acks=all."""

    def measure(side: Side) -> float:
        topic = _topic(side, f"produce-{size}", partitions, factor)
        produce_seconds(side, topic, count // 4, size)
        return count / produce_seconds(side, topic, count, size)

    return measure


def produce_cpu(size: int, count: int) -> Callable[[Side], float]:
    """Processor seconds of all nodes together for a million records, acks=all, six partitions on three brokers."""

    def measure(side: Side) -> float:
        topic = _topic(side, f"cpu-{size}", 6, 3)
        produce_seconds(side, topic, count // 4, size)
        begin = side.cpu_seconds()
        produce_seconds(side, topic, count, size)
        return (side.cpu_seconds() - begin) / count * 1_000_000

    return measure


def consume_rate(size: int, count: int) -> Callable[[Side], float]:
    """Records a second, one partition, from the beginning, in fetches of the usual size; the median of five reads."""

    def measure(side: Side) -> float:
        topic = _topic(side, f"consume-{size}")
        produce_seconds(side, topic, count, size)
        consume_seconds(side, topic, count // 4)
        return count / statistics.median(consume_seconds(side, topic, count) for _ in range(5))

    return measure


def produce_latency(quantile: float, factor: int = 1) -> Callable[[Side], float]:
    """Milliseconds from sending one record (acks=all) to its acknowledgement, one after the other."""

    def measure(side: Side) -> float:
        topic = _topic(side, f"latency-{int(quantile * 100)}", 1, factor)
        times = frames.produce_latencies(side.leader_of(topic), topic, 3000)[1000:]
        return sorted(times)[int(len(times) * quantile)] * 1000

    return measure


def idle_bytes(side: Side) -> float:
    """Resident MiB of an idle node: the mean of all nodes, a few seconds after the start."""
    time.sleep(5)
    sizes = [apache.resident_bytes(pid) for pid in side.pids().values()]
    return statistics.mean(sizes) / (1 << 20)


def start_seconds(name: str) -> float:
    """Seconds from an empty directory (formatted by the same command) to the first acknowledged record, with one local
    node each."""
    begin = time.perf_counter()
    with running(name, 1, 1) as side:
        connection = frames.Connection(side.broker)
        frames.check_created(connection.exchange(frames.create_topic("first", 1, 1)))
        connection.close()
        frames.produce_latencies(side.broker, "first", 1)
        return time.perf_counter() - begin


METRICS = [
    Metric("create_topics_p50", "ms", True, 1 / 8, None, 3, 1, create_p50),
    Metric("create_topics_64_clients", "1/s", False, 2.0, None, 3, 1, create_64),
    Metric("controller_failover", "ms", True, 1 / 10, 300.0, 3, 1, failover),
    Metric("produce_100B", "records/s", False, 1.0, None, 1, 1, produce_rate(100, 800_000)),
    Metric("produce_1KB", "records/s", False, 1.0, None, 1, 1, produce_rate(1000, 300_000)),
    Metric("consume_100B", "records/s", False, 1.0, None, 1, 1, consume_rate(100, 800_000)),
    Metric("consume_1KB", "records/s", False, 1.0, None, 1, 1, consume_rate(1000, 300_000)),
    Metric("produce_p50", "ms", True, 1.3, None, 1, 1, produce_latency(0.5)),
    Metric("produce_p99", "ms", True, 1.3, None, 1, 1, produce_latency(0.99)),
    Metric("produce_rf3_100B", "records/s", False, 1.0, None, 1, 3, produce_rate(100, 800_000, 6, 3)),
    Metric("produce_rf3_1KB", "records/s", False, 1.0, None, 1, 3, produce_rate(1000, 200_000, 6, 3)),
    Metric("produce_rf3_p50", "ms", True, 1.3, None, 1, 3, produce_latency(0.5, 3)),
    Metric("produce_rf3_cpu", "s/million", True, 1.0, None, 1, 3, produce_cpu(100, 800_000)),
    Metric("idle_memory", "MiB", True, 1 / 4, None, 1, 1, idle_bytes),
]
START = Metric("start_to_first_record", "s", True, 1 / 2, None, 1, 1, lambda side: 0.0)


# ---- running


def rounds_of(metrics: list[Metric], rounds: int, say: Callable[[str], None]) -> dict[str, list[dict[str, float]]]:
    """Every figure of every round: name -> [{"rayft": x, "kafka": y}, ...]."""
    found: dict[str, list[dict[str, float]]] = {metric.name: [] for metric in metrics}
    for number in range(rounds):
        order = ("rayft", "kafka") if number % 2 == 0 else ("kafka", "rayft")
        for metric in metrics:
            pair: dict[str, float] = {}
            for name in order:
                if metric is START:
                    pair[name] = start_seconds(name)
                else:
                    with running(name, metric.controllers, metric.brokers) as side:
                        time.sleep(SETTLE_SECONDS)
                        pair[name] = metric.measure(side)
                say(f"round {number + 1}: {metric.name} {name} {pair[name]:.3f} {metric.unit}")
            found[metric.name].append(pair)
    return found


def verdict(metric: Metric, pairs: list[dict[str, float]]) -> dict[str, Any]:
    """The row of one metric."""
    ratio = statistics.median(pair["rayft"] / pair["kafka"] for pair in pairs)
    ours = statistics.median(pair["rayft"] for pair in pairs)
    met = ratio <= metric.aim if metric.lower_is_better else ratio >= metric.aim
    if metric.aim_absolute is not None:
        met = met and ours <= metric.aim_absolute
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "rayft": ours,
        "kafka": statistics.median(pair["kafka"] for pair in pairs),
        "ratio": ratio,
        "aim": metric.aim,
        "met": met,
        "rounds": pairs,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if every aim is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    names = [metric.name for metric in (*METRICS, START)]
    parser.add_argument("--only", nargs="+", choices=names, default=[], metavar="NAME", help=", ".join(names))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console = Console(width=110)
    metrics = [metric for metric in (*METRICS, START) if not given.only or metric.name in given.only]
    found = rounds_of(metrics, given.rounds, console.print)
    rows = [verdict(metric, found[metric.name]) for metric in metrics]
    table = Table("metric", "unit", "rayft", f"Kafka {apache.version()}", "ratio", "aim", "met")
    for metric, row in zip(metrics, rows, strict=True):
        sign = "at most" if metric.lower_is_better else "at least"
        table.add_row(
            row["metric"],
            row["unit"],
            f"{row['rayft']:.2f}",
            f"{row['kafka']:.2f}",
            f"{row['ratio']:.3f}",
            f"{sign} {metric.aim:.3g}",
            "yes" if row["met"] else "no",
        )
    console.print(table)
    out = given.out or RESULTS / f"end_to_end-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2))
    console.print(f"written to {out}")
    return 0 if all(row["met"] for row in rows) else 1


def machine() -> Mapping[str, Any]:
    """The machine on which the figures were taken."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "",
    )
    return {
        "commit": commit,
        "cpu": model,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "kafka": apache.version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "at": datetime.now(UTC).isoformat(),
    }


if __name__ == "__main__":
    sys.exit(main())
