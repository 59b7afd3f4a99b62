"""How long stock consumers take for a topic with a large fetch.min.bytes, beside one that waits for nothing.

`python -m bench.min_bytes [--megabytes 48] [--pairs 9] [--broker rayft kafka]`

librdkafka and Java's consumer read topics of one and of six partitions with segments of several sizes, each from the
beginning up to an offset behind which there is more than an answer holds: at the end of a log a consumer that asks for more
than there is waits, as it should. Apart from fetch.min.bytes all their settings are the clients' own. A reading with 1 and
one with another value are a pair, which of them is first changes from pair to pair, and said is the median of the pairs'
ratios: one wait of fetch.max.wait.ms takes longer than the whole reading.

On a busy machine times say little. So beside them is what others' work changes little: the broker's processor time, and on
rayft how many fetches it answered and how long they waited there, all as medians with 1 and with the other value.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import rayft
from actors.host.cluster import probe
from bench import apache
from bench.end_to_end import Side, running
from bench.ports import free_port
from bench.scraping import cpu_s

AIM = 1.2
BROKER = 1
RECORD_BYTES = 1_000
BEHIND_BYTES = 8 << 20
"""What each partition has behind the offset up to which it is read."""
SEGMENTS = (1 << 20, 4 << 20, 1 << 30)
MIN_BYTES = (100_000, 1_000_000, 5_000_000, 50_000_000)
PARTITIONS = (1, 6)
LATE_S = 0.7
"""So long a fetch of the reader before may still wait for data: longer than fetch.max.wait.ms."""
FETCHES = 'kafka_network_requestmetrics_requests_total{request="FetchConsumer"'
WAITED_MS = 'kafka_network_requestmetrics_remotetimems_sum{request="FetchConsumer"}'
PROGRAM = Path(__file__).parent / "MinBytes.java"
Read = Callable[[str, int, int, int], float]
"""Topic, partitions, offset, fetch.min.bytes -> seconds."""


def fill(servers: str, topic: str, partitions: int, segment: int, offset: int) -> None:
    """Make a topic and write it."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    new = NewTopic(topic, partitions, 1, config={"segment.bytes": str(segment)})
    admin.create_topics([new])[topic].result(60)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    for number in range(partitions * (offset + BEHIND_BYTES // RECORD_BYTES)):
        while True:
            try:
                producer.produce(topic, b"x" * RECORD_BYTES, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0


def librdkafka(servers: str) -> Read:
    """What reads with librdkafka."""

    def read(topic: str, partitions: int, offset: int, min_bytes: int) -> float:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "log_level": 0,
                "fetch.min.bytes": min_bytes,
            }
        )
        consumer.list_topics(topic, 30)
        left = set(range(partitions))
        begun = time.perf_counter()
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        while left:
            for one in consumer.consume(10_000, 0.05):
                if one.error() is None and (one.offset() or 0) + 1 >= offset:
                    left.discard(one.partition() or 0)
        took = time.perf_counter() - begun
        consumer.close()
        return took

    return read


class Java:
    """Java's consumer, in a process that stays."""

    def __init__(self, servers: str) -> None:
        command = ["java", "-Xmx1g", "-cp", f"{apache.libs()}/*", str(PROGRAM), servers]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def __call__(self, topic: str, partitions: int, offset: int, min_bytes: int) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{topic} {partitions} {offset} {min_bytes}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


class Counts(NamedTuple):
    """What a broker has done so far."""

    cpu_s: float
    fetches: float = 0.0
    waited_ms: float = 0.0
    """How long these fetches waited for data and disks, together."""


class Reading(NamedTuple):
    """One reading of a topic."""

    seconds: float
    did: Counts
    """What the broker did meanwhile."""


class Pairs(NamedTuple):
    """Readings with fetch.min.bytes=1 and, beside each of them, one with another value."""

    one: list[Reading]
    other: list[Reading]

    @property
    def ratio(self) -> float:
        """How many times as long a reading takes, the median of the pairs."""
        return statistics.median(b.seconds / a.seconds for a, b in zip(self.one, self.other, strict=True))

    def cells(self) -> list[str]:
        """A row of the table: time, processor time, fetches and their waits, with 1 and with the other value."""
        cells = [f"{self.ratio:.2f}"]
        for of in (
            lambda reading: reading.seconds * 1000,
            lambda reading: reading.did.cpu_s * 1000,
            lambda reading: reading.did.fetches,
            lambda reading: reading.did.waited_ms,
        ):
            cells.append(" ".join(f"{statistics.median(map(of, side)):.0f}" for side in self))
        return cells


class Broker:
    """The one broker that is read from, and what it says of itself."""

    def __init__(self, side: Side, metrics: tuple[str, int] | None) -> None:
        """The broker of a side, and where it shows its metrics."""
        self._metrics = metrics
        self._pid = side.pids()[BROKER]

    def counts(self) -> Counts:
        """What it has done so far."""
        cpu = cpu_s(self._pid)
        if self._metrics is None:
            return Counts(cpu)
        found = probe.metrics(self._metrics)
        fetches = sum(count for name, count in found.items() if name.startswith(FETCHES))
        return Counts(cpu, fetches, found.get(WAITED_MS, 0.0))

    def during(self, read: Callable[[int], float], min_bytes: int) -> Reading:
        """One reading with this value, and what the broker did meanwhile."""
        time.sleep(LATE_S)
        before = self.counts()
        seconds = read(min_bytes)
        return Reading(seconds, Counts(*(b - a for a, b in zip(before, self.counts(), strict=True))))


@contextmanager
def started(name: str) -> Iterator[tuple[Side, tuple[str, int] | None]]:
    """A cluster of one broker, and where rayft's shows its metrics."""
    if name == "rayft":
        address = "127.0.0.1", free_port()
        config = {"rayft.metrics.listen": "{}:{}".format(*address)}
        with rayft.Cluster(1, 1, config=config, combined=True) as cluster:
            yield Side(name, cluster), address
    else:
        with running(name, 1, 1) as side:
            yield side, None


def paired(read: Callable[[int], Reading], value: int, count: int) -> Pairs:
    """Readings with 1 and with a value in turn; the first pair does not count."""
    found = Pairs([], [])
    for number in range(count + 1):
        order = ((1, found.one), (value, found.other))
        for min_bytes, readings in order if number % 2 else order[::-1]:
            reading = read(min_bytes)
            if number:
                readings.append(reading)
    return found


def main() -> int:
    """The command. Returns 1 if something is above the aim."""
    parser = argparse.ArgumentParser(prog="python -m bench.min_bytes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=48, help="read of each topic")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--partitions", type=int, nargs="*", default=PARTITIONS)
    parser.add_argument("--segments", type=int, nargs="*", default=SEGMENTS, help="sizes in bytes")
    parser.add_argument("--broker", nargs="*", choices=["rayft", "kafka"], default=["rayft"])
    options = parser.parse_args()
    if apache.libs() is None:
        sys.exit(apache.MISSING)
    missed = 0
    for name in options.broker:
        table = Table(title=f"{name}: fetch.min.bytes beside 1, medians of {options.pairs} pairs")
        for column in (
            "client",
            "partitions",
            "segment.bytes",
            "min.bytes",
            "times as long",
            "ms",
            "broker's CPU, ms",
            "fetches",
            "waited, ms",
        ):
            table.add_column(column, justify="right")
        with started(name) as (side, metrics):
            servers = side.cluster.bootstrap_servers
            broker, java = Broker(side, metrics), Java(servers)
            clients: dict[str, Read] = {"librdkafka": librdkafka(servers), "Java": java}
            for partitions in options.partitions:
                for segment in options.segments:
                    topic = f"read-{partitions}-{segment}"
                    offset = options.megabytes * 1_000_000 // RECORD_BYTES // partitions
                    fill(servers, topic, partitions, segment, offset)
                    for (client, read), value in product(clients.items(), MIN_BYTES):
                        once = partial(broker.during, partial(read, topic, partitions, offset))
                        pairs = paired(once, value, options.pairs)
                        missed += pairs.ratio > AIM and name == "rayft"
                        table.add_row(client, str(partitions), str(segment), str(value), *pairs.cells())
            java.close()
        Console(width=140).print(table)
    print("all within" if not missed else f"{missed} above", AIM)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
