"""How long stock consumers take for a topic with a large fetch.min.bytes, beside one that waits for nothing.

`python -m bench.min_bytes [--megabytes 48] [--rounds 5] [--broker rayft kafka]`

librdkafka and Java's consumer read topics of one and of six partitions with segments of several sizes, each from the
beginning up to an offset behind which there is more than an answer holds: at the end of a log a consumer that asks for more
than there is waits, as it should. Apart from fetch.min.bytes all their settings are the clients' own. Each round reads with
every value in turn, 1 among them; what counts is the best time of each, since other work on the machine only adds to it: one
wait of fetch.max.wait.ms takes longer than the whole reading.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

import rayft
from bench import apache

AIM = 1.2
RECORD_BYTES = 1_000
BEHIND_BYTES = 8 << 20
"""What each partition has behind the offset up to which it is read."""
SEGMENTS = (1 << 20, 4 << 20, 1 << 30)
MIN_BYTES = (100_000, 1_000_000, 5_000_000, 50_000_000)
PARTITIONS = (1, 6)
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


def best(read: Read, topic: str, partitions: int, offset: int, rounds: int) -> dict[int, float]:
    """The shortest time in seconds with each value; the first round does not count."""
    values = (1, *MIN_BYTES)
    found: dict[int, float] = {}
    for number in range(rounds + 1):
        for value in values if number % 2 else values[::-1]:
            seconds = read(topic, partitions, offset, value)
            if number:
                found[value] = min(seconds, found.get(value, seconds))
    return found


def main() -> int:
    """The command. Returns 1 if something is above the aim."""
    parser = argparse.ArgumentParser(prog="python -m bench.min_bytes", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=48, help="read of each topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, nargs="*", default=PARTITIONS)
    parser.add_argument("--segments", type=int, nargs="*", default=SEGMENTS, help="sizes in bytes")
    parser.add_argument("--broker", nargs="*", choices=["rayft", "kafka"], default=["rayft"])
    options = parser.parse_args()
    if apache.libs() is None:
        sys.exit(apache.MISSING)
    missed = 0
    for name in options.broker:
        kind = rayft.Cluster if name == "rayft" else apache.ApacheKafka
        table = Table(title=f"{name}: times as long as with fetch.min.bytes=1, best of {options.rounds}")
        for column in ("client", "partitions", "segment.bytes", "with 1", *map(str, MIN_BYTES)):
            table.add_column(column, justify="right")
        with kind(controllers=1, brokers=1) as cluster:
            java = Java(cluster.bootstrap_servers)
            clients: dict[str, Read] = {"librdkafka": librdkafka(cluster.bootstrap_servers), "Java": java}
            for partitions in options.partitions:
                for segment in options.segments:
                    topic = f"read-{partitions}-{segment}"
                    offset = options.megabytes * 1_000_000 // RECORD_BYTES // partitions
                    fill(cluster.bootstrap_servers, topic, partitions, segment, offset)
                    for client, read in clients.items():
                        times = best(read, topic, partitions, offset, options.rounds)
                        ratios = [times[value] / times[1] for value in MIN_BYTES]
                        missed += sum(one > AIM for one in ratios) if name == "rayft" else 0
                        cells = [f"{times[1] * 1000:.0f} ms", *(f"{one:.2f}" for one in ratios)]
                        table.add_row(client, str(partitions), str(segment), *cells)
            java.close()
        Console(width=140).print(table)
    print("all within" if not missed else f"{missed} above", AIM)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
