"""Topics by address to Arrow and back: `rayft.read` and `rayft.write` beside what people write today, confluent-kafka with
pyarrow.

`python -m bench.by_address [--what read write] [--records 3000000] [--rounds 6] [--codec none zstd] [--broker rayft kafka]`

Records of 100 bytes in six partitions of one broker, all columns but headers; what is written are keys and values of
one table, with acks=all and idempotence on either side, into a new topic each time. All take turns, in an order that
changes from round to round; the best of the rounds counts on either side, and the median of the rounds' ratios. `raw`
is what the same client reads without making columns, or writes of batches that were made before: the limit that is
left. `--what tls` reads a topic of a broker of rayft through TLS 1.3 and without it, in turn. The memory is that of a
process of its own which reads or writes once, above what it has after its imports. A profile of one write says where
its time goes.
"""

import argparse
import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

import rayft
from actors.arrow.ranges import ranges
from actors.arrow.writing import LARGE
from actors.arrow.written_columns import columns
from actors.client.operations import topics
from actors.client.operations.fetching import Fetched, Fetcher
from actors.client.operations.producing import Placed
from actors.client.operations.producing import Producer as Sender
from actors.client.properties import CODECS
from actors.host.client.blocking import clock_ms, connect
from bench import apache, frames, tls
from fastpath.arrow.columns_to_batches import Batches, Closed

PARTITIONS = 6
MEMORY = """
import sys, rayft, actors.arrow.reading, pyarrow
def of(name):  # the largest size of a process in rusage is its parent's, where that was larger
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
before, rows = of("VmRSS"), 0
for batch in rayft.read(sys.argv[1], sys.argv[2]): rows += batch.num_rows
print(rows, (of("VmHWM") - before) >> 10)
"""


WRITE_MEMORY = """
import sys, rayft, actors.arrow.writing, pyarrow as pa
def of(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
value = b"v" * 100
def batches():
    for n in range(0, int(sys.argv[4]), 10_000):
        keys = pa.array([b"%d" % one for one in range(n, n + 10_000)])
        yield pa.record_batch({"key": keys, "value": pa.array([value] * 10_000)})
schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
before = of("VmRSS")
reader = pa.RecordBatchReader.from_batches(schema, batches())
written = rayft.write(sys.argv[1], sys.argv[2], reader, config={"compression.type": sys.argv[3]})
print(written.count, (of("VmHWM") - before) >> 10)
"""


def values() -> list[bytes]:
    """Values of 100 bytes, half of which compress."""
    return [os.urandom(25).hex().encode() + b"x" * 50 for _ in range(1000)]


def fill(servers: str, topic: str, records: int, codec: str) -> None:
    """Write the records."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20,
                         "batch.size": 1_000_000, "queue.buffering.max.messages": 2_000_000})  # fmt: skip
    some = values()
    for n in range(records):
        while True:
            try:
                producer.produce(topic, some[n % 1000], key=b"%d" % n, partition=n % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0


def by_address(servers: str, topic: str, config: Mapping[str, str] | None = None) -> int:
    """`rayft.read`."""
    return sum(batch.num_rows for batch in rayft.read(servers, topic, config=config))


def through_tls(records: int, rounds: int, codec: str) -> None:
    """Print how fast a topic is read through TLS, and without it."""
    with tempfile.TemporaryDirectory() as home, tls.rayft_cluster(Path(home), tls.certificates(Path(home))) as side:
        plain, topic = side.cluster.plain, f"tls-{codec}"
        with connect(plain) as kafka:
            kafka.run(topics.create([topics.NewTopic(topic, PARTITIONS, 1)]))
        fill(plain, topic, records, codec)
        config = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": f"{home}/ca.pem"}
        encrypted = side.cluster.bootstrap_servers
        ways: dict[str, Callable[[], int]] = {
            "plaintext": lambda: by_address(plain, topic),
            "tls": lambda: by_address(encrypted, topic, config),
            "raw": lambda: raw(plain, topic),
            "raw tls": lambda: raw(encrypted, topic, config),
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        spent: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name in list(ways) if number % 2 else list(ways)[::-1]:
                begin, own, theirs = time.perf_counter(), time.process_time(), side.cpu_seconds()
                assert ways[name]() == records
                if number:
                    rates[name].append(records / (time.perf_counter() - begin) / 1e6)
                    spent[name].append((time.process_time() - own, side.cpu_seconds() - theirs))
        for name, found in rates.items():
            here, there = (statistics.median(one) / records * 1e9 for one in zip(*spent[name], strict=True))
            print(
                f"rayft   {codec:8}{name:12}{max(found):10.2f}{here:12.0f} + {there:.0f} ms of processor time for a million"
            )
        for one, other in (("tls", "plaintext"), ("raw tls", "raw")):
            clock = statistics.median(a / b for a, b in zip(rates[one], rates[other], strict=True))
            processor = statistics.median(sum(b) / sum(a) for a, b in zip(spent[one], spent[other], strict=True))
            print(
                f"rayft   {codec:8}{one} is {clock:.2f} of {other} by clock and {processor:.2f} by processor time of "
                f"client and nodes, medians of {rounds} rounds",
                flush=True,
            )


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


def raw(servers: str, topic: str, config: Mapping[str, str] | None = None) -> int:
    """The client alone: bytes of Fetch answers, and nothing made of them."""
    with connect(
        servers, {**(config or {}), "max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 16 << 20}
    ) as kafka:
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


def table(records: int) -> pa.Table:
    """The rows that are written."""
    some = values()
    return pa.table(
        {
            "key": pa.array([b"%d" % n for n in range(records)]),
            "value": pa.array([some[n % 1000] for n in range(records)]),
        }
    )


def write_by_address(servers: str, topic: str, rows: pa.Table, codec: str) -> int:
    """`rayft.write`."""
    return rayft.write(servers, topic, rows, config={"compression.type": codec}).count


def write_by_hand(servers: str, topic: str, rows: pa.Table, codec: str) -> int:
    """confluent-kafka, a call for each row."""
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, "acks": "all",
                         "enable.idempotence": True, "partitioner": "murmur2_random", "batch.size": 1_000_000,
                         "queue.buffering.max.messages": 2_000_000})  # fmt: skip
    for batch in rows.to_batches(10_000):
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.1)
    assert producer.flush(300) == 0
    return rows.num_rows


MADE: list[tuple[int, memoryview]] = []
"""The batches of the table, for `write_raw`."""


def make(rows: pa.Table, codec: str) -> None:
    """Make the batches that `write_raw` sends."""
    batches = Batches(PARTITIONS, LARGE["batch.size"], LARGE["max.request.size"], CODECS.index(codec))
    found: list[Closed] = []
    for one in rows.to_batches():
        batches.fill(columns(one), 0, one.num_rows, 0, clock_ms(), 1 << 40)
        found += batches.taken()
    batches.close()
    MADE[:] = [(one.partition, one.data) for one in [*found, *batches.taken()]]


def write_raw(servers: str, topic: str, rows: pa.Table, codec: str) -> int:
    """The client alone: batches that are there already."""
    with connect(servers, LARGE) as kafka:
        kafka.run(topics.led([topic]))
        producer, at_once = Sender(kafka.config), 4 * PARTITIONS
        for start in range(0, len(MADE), at_once):
            placed = kafka.run(producer.send(((topic, part), data) for part, data in MADE[start : start + at_once]))
            assert all(isinstance(one, Placed) for one in placed)
    return rows.num_rows


WRITERS: dict[str, Callable[[str, str, pa.Table, str], int]] = {
    "rayft.write": write_by_address,
    "by hand": write_by_hand,
    "raw": write_raw,
}


def new_topic(servers: str) -> str:
    """A topic that has leaders."""
    name = f"write-{uuid.uuid4().hex[:8]}"
    with connect(servers) as kafka:
        kafka.run(topics.create([topics.NewTopic(name, PARTITIONS, 1)]))
        kafka.run(topics.led([name]))
    return name


def measured_writes(servers: str, rows: pa.Table, codec: str, rounds: int) -> dict[str, list[float]]:
    """Millions of records a second, round by round."""
    found: dict[str, list[float]] = {name: [] for name in WRITERS}
    make(rows, codec)
    for number in range(rounds + 1):
        for name in list(WRITERS) if number % 2 else list(WRITERS)[::-1]:
            topic = new_topic(servers)
            begin = time.perf_counter()
            count = WRITERS[name](servers, topic, rows, codec)
            seconds = time.perf_counter() - begin
            with connect(servers) as kafka:
                ends = kafka.run(ranges([topic], "earliest", "latest", 0))
                assert count == sum(one.end for one in ends.values()) == rows.num_rows, name
                kafka.run(topics.delete([topic]))
            if number:
                found[name].append(rows.num_rows / seconds / 1e6)
    return found


def profile(servers: str, rows: pa.Table, codec: str) -> str:
    """Where the time of one write goes, as the largest parts of it."""
    topic = new_topic(servers)
    profiler = cProfile.Profile()
    profiler.runcall(write_by_address, servers, topic, rows, codec)
    stats = pstats.Stats(profiler)
    spent = sorted(((row[2], place[2]) for place, row in stats.stats.items()), reverse=True)  # type: ignore[attr-defined]
    whole = sum(seconds for seconds, _ in spent)
    return ", ".join(f"{name} {seconds / whole:.0%}" for seconds, name in spent[:8])


def show(broker: str, codec: str, found: dict[str, list[float]]) -> None:
    """Print the best of the rounds, and the median of their ratios to the work by hand."""
    for name, rates in found.items():
        ratio = statistics.median(a / b for a, b in zip(rates, found["by hand"], strict=True))
        print(f"{broker:8}{codec:8}{name:12}{max(rates):10.2f}{ratio:30.1f}", flush=True)


def memory(program: str, *arguments: str) -> str:
    """What a process that reads or writes once says of its memory."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)
    return f"{done.stdout.strip()}{done.stderr[-500:]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.by_address", description=__doc__)
    parser.add_argument("--what", nargs="+", default=["read", "write"])
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--codec", nargs="+", default=["none", "lz4", "zstd"])
    parser.add_argument("--broker", nargs="+", default=["rayft", "kafka"])
    args = parser.parse_args()
    print(f"{'broker':8}{'codec':8}{'reader':12}{'best, M/s':>10}{'median of ratios to by hand':>30}")
    for codec in args.codec if "tls" in args.what else ():
        through_tls(args.records, args.rounds, codec)
    for broker in args.broker if {"read", "write"} & {*args.what} else ():
        kind = rayft.Cluster if broker == "rayft" else apache.ApacheKafka
        with kind(controllers=1, brokers=1) as cluster:
            servers = cluster.bootstrap_servers
            host, _, port = servers.rpartition(":")
            for codec in args.codec:
                if "write" in args.what:
                    rows = table(args.records)
                    show(broker, codec, measured_writes(servers, rows, codec, args.rounds))
                    said = memory(WRITE_MEMORY, servers, new_topic(servers), codec, str(args.records))
                    print(f"{broker:8}{codec:8}rows written and MiB above the start: {said}")
                    print(f"{broker:8}{codec:8}a write spends: {profile(servers, rows, codec)}", flush=True)
                if "read" not in args.what:
                    continue
                topic = f"read-{codec}"
                connection = frames.Connection((host, int(port)))
                frames.check_created(connection.exchange(frames.create_topic(topic, PARTITIONS, 1)))
                connection.close()
                time.sleep(1)
                fill(servers, topic, args.records, codec)
                show(broker, codec, measured(servers, topic, args.records, args.rounds))
                print(f"{broker:8}{codec:8}rows and MiB above the start: {memory(MEMORY, servers, topic)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
