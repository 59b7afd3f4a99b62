"""Topics by address to Arrow: `rayft.read` beside what people write today, confluent-kafka with pyarrow.

`python -m bench.by_address [--records 3000000] [--rounds 6] [--codec none zstd] [--broker rayft kafka]`

Records of 100 bytes in six partitions of one broker, all columns but headers. Both readers take turns, in an order that
changes from round to round; the best of the rounds counts on either side, and the median of the rounds' ratios. `raw` is
what the same client reads without making columns: the limit that is left. The memory is that of a process of its own which
reads once, above what it has after its imports.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.arrow.ranges import ranges
from actors.client.operations.fetching import Fetched, Fetcher
from actors.host.client.blocking import connect
from bench import apache, frames

PARTITIONS = 6
MEMORY = """
import sys, rayft, actors.arrow.reading, pyarrow
def of(name):  # the largest size of a process in rusage is its parent's, where that was larger
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
before, rows = of("VmRSS"), 0
for batch in rayft.read(sys.argv[1], sys.argv[2]): rows += batch.num_rows
print(rows, (of("VmHWM") - before) >> 10)
"""


def fill(servers: str, topic: str, records: int, codec: str) -> None:
    """Write the records."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20,
                         "batch.size": 1_000_000, "queue.buffering.max.messages": 2_000_000})  # fmt: skip
    values = [os.urandom(25).hex().encode() + b"x" * 50 for _ in range(1000)]
    for n in range(records):
        while True:
            try:
                producer.produce(topic, values[n % 1000], key=b"%d" % n, partition=n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0


def by_address(servers: str, topic: str) -> int:
    """`rayft.read`."""
    return sum(batch.num_rows for batch in rayft.read(servers, topic))


def by_hand(servers: str, topic: str) -> int:
    """confluent-kafka, and arrays by pyarrow."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, "enable.auto.commit": False,
                         "queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 1 << 20})  # fmt: skip
    parts = [TopicPartition(topic, n, 0) for n in range(PARTITIONS)]
    left = sum(consumer.get_watermark_offsets(one, 30)[1] for one in parts)
    consumer.assign(parts)
    rows = 0
    while rows < left:
        some = consumer.consume(min(10_000, left - rows), 10)
        batch = pa.record_batch(
            {
                "key": pa.array([one.key() for one in some], pa.binary()),
                "value": pa.array([one.value() for one in some], pa.binary()),
                "topic": pa.array([one.topic() for one in some]),
                "partition": pa.array([one.partition() for one in some], pa.int32()),
                "offset": pa.array([one.offset() for one in some], pa.int64()),
                "timestamp": pa.array([one.timestamp()[1] for one in some], pa.timestamp("ms", "UTC")),
            }
        )
        rows += batch.num_rows
    consumer.close()
    return rows


def raw(servers: str, topic: str) -> int:
    """The client alone: bytes of Fetch answers, and nothing made of them."""
    with connect(servers, {"max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 16 << 20}) as kafka:
        plan = kafka.run(ranges([topic], "earliest", "latest", 0))
        fetcher = Fetcher(kafka.config, {part: one.first for part, one in plan.items()})
        left = dict(plan)
        while left:
            for one in kafka.run(fetcher.fetch()):
                assert isinstance(one, Fetched)
                if one.next_offset >= left[one.topic, one.partition].end:
                    del left[one.topic, one.partition]
                    fetcher.leave(one.topic, one.partition)
    return sum(one.end for one in plan.values())


READERS: dict[str, Callable[[str, str], int]] = {"rayft.read": by_address, "by hand": by_hand, "raw": raw}


def measured(servers: str, topic: str, records: int, rounds: int) -> dict[str, list[float]]:
    """Millions of records a second, round by round."""
    found: dict[str, list[float]] = {name: [] for name in READERS}
    for number in range(rounds + 1):
        names = list(READERS) if number % 2 else list(READERS)[::-1]
        for name in names:
            begin = time.perf_counter()
            rows = READERS[name](servers, topic)
            seconds = time.perf_counter() - begin
            assert rows == records, f"{name}: {rows}"
            if number:  # the first round warms caches
                found[name].append(rows / seconds / 1e6)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.by_address", description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--codec", nargs="+", default=["none", "lz4", "zstd"])
    parser.add_argument("--broker", nargs="+", default=["rayft", "kafka"])
    args = parser.parse_args()
    print(f"{'broker':8}{'codec':8}{'reader':12}{'best, M/s':>10}{'median of ratios to by hand':>30}")
    for broker in args.broker:
        kind = rayft.Cluster if broker == "rayft" else apache.ApacheKafka
        with kind(controllers=1, brokers=1) as cluster:
            servers = cluster.bootstrap_servers
            host, _, port = servers.rpartition(":")
            for codec in args.codec:
                topic = f"read-{codec}"
                connection = frames.Connection((host, int(port)))
                frames.check_created(connection.exchange(frames.create_topic(topic, PARTITIONS, 1)))
                connection.close()
                time.sleep(1)
                fill(servers, topic, args.records, codec)
                found = measured(servers, topic, args.records, args.rounds)
                for name, rates in found.items():
                    ratio = statistics.median(a / b for a, b in zip(rates, found["by hand"], strict=True))
                    print(f"{broker:8}{codec:8}{name:12}{max(rates):10.2f}{ratio:30.1f}", flush=True)
                memory = subprocess.run([sys.executable, "-c", MEMORY, servers, topic], capture_output=True, text=True)
                print(f"{broker:8}{codec:8}rows and MiB above the start: {memory.stdout.strip()}{memory.stderr[-500:]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
