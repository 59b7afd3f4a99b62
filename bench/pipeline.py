"""Topics by address in Spark and Ray Data, beside what they bring themselves: Spark's kafka connector and `read_kafka`.

`python -m bench.pipeline [--records 1000000] [--rounds 4] [--codec none zstd] [--broker rayft kafka] [--part batch stream]`

Records of 100 bytes in six partitions of one broker. A round of Spark computes the sum of a hash over all seven columns, so
every value is needed, and both sides have to come to the same sum. Both sides run on the PySpark for which the connector is
published (`bench/spark_kafka.py` fetches both), each in a session of its own that waits between its rounds, and take turns
in an order that changes. `stream` reads everything that is available now in one turn, into the same sum; the time is that
of the turn, without the start of the query. `latency` is the median time of a turn of 1,000 records, and `write-latency` of
a turn that also writes them, with the sinks of `write`. `ray` counts the bytes of all keys and values by `map_batches`.
`shared`: decoded once and read by Ray Data from the object store, beside reading by address twice. `write`:
Spark's sinks for rows that Spark makes, rayft's exactly once and Spark's own at least once; `once`: rayft's exactly once,
beside at least once. `ray-write`: rayft.ray.Sink exactly once, beside `write_kafka`. The best round counts on either side,
and the median of the rounds' ratios, in seconds and in CPU seconds of all processes, brokers included: other users of the
machine hardly distort those.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench import apache, by_address, cpu, frames, spark_kafka

SIDES = ("rayft", "kafka")
SUM = "sum(hash(key, value, topic, partition, offset, timestamp, timestampType))"
COUNT = "count(value)"
LATENCY_TURNS = 12
CONFIG = {
    "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
}  # fmt: skip
RECORDS = "RAYFT_BENCH_RECORDS"
"""How many rows a sink is given."""
RAY_LESS = 20
"""`write_kafka` is given so many times fewer rows: it takes thousands a second."""
PARTS = ("batch", "stream", "latency", "write-latency", "write", "once", "ray", "shared", "ray-write")
ON_RAY = ("ray", "shared", "ray-write")


# ---- a side of Spark, in a process of its own


def session(side: str) -> Any:
    """The Spark session of a side."""
    if side == "rayft":
        from actors.pipeline import spark

        made = spark.session("bench", spark_kafka.MASTER, spark_kafka.MEMORY)
    else:
        made = spark_kafka.session(Path(os.environ["RAYFT_CONNECTOR"]))
    made.sparkContext.setLogLevel("ERROR")
    return made


class Side:
    """The rounds of one side."""

    def __init__(self, side: str, servers: str) -> None:
        self.side, self.servers = side, servers
        self.spark = session(side)
        self.queries = 0

    def options(self, reader: Any, topic: str) -> Any:
        """A reader of a topic from its beginning."""
        own = {"kafka.bootstrap.servers": self.servers, "subscribe": topic, "startingOffsets": "earliest"}
        return reader.format(self.side).options(**own)

    def batch(self, topic: str) -> list[Any]:
        """Seconds of a batch over a topic, and its sum."""
        begun = time.perf_counter()
        frame = self.options(self.spark.read, topic).load()
        found = frame.selectExpr(SUM, COUNT).first()
        return [time.perf_counter() - begun, list(found)]

    def stream(self, topic: str) -> list[Any]:
        """Seconds of the turns of a stream over what is available now, and its sum."""
        sums: list[Any] = []
        with tempfile.TemporaryDirectory() as folder:
            frame = self.options(self.spark.readStream, topic).load()
            writer = frame.writeStream.foreachBatch(lambda part, _: sums.append(part.selectExpr(SUM, COUNT).first()))
            query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
            query.awaitTermination()
            turns = [one for one in query.recentProgress if one.numInputRows]
        seconds = sum(one.durationMs["triggerExecution"] for one in turns) / 1000
        return [seconds, [sum(one[0] or 0 for one in sums), sum(one[1] for one in sums)]]

    def latency(self, topic: str) -> list[Any]:
        """The median seconds of turns of 1,000 records, and how many records there were."""
        with tempfile.TemporaryDirectory() as folder:
            frame = self.options(self.spark.readStream, topic).option("maxOffsetsPerTrigger", "1000").load()
            writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            turns = [one for one in query.recentProgress if one.numInputRows]
        times = [one.durationMs["triggerExecution"] / 1000 for one in turns[2:]]  # the first ones compile
        return [statistics.median(times), [0, sum(one.numInputRows for one in turns)]]

    def write_latency(self, topic: str) -> list[Any]:
        """The median seconds of turns that write 1,000 records to another topic, and how many records there were."""
        self.queries += 1
        own = {"kafka.bootstrap.servers": self.servers, "topic": f"{topic}-out"}
        own |= {"sinkId": f"{topic}-{self.queries}"} if self.side == "rayft" else {}
        with tempfile.TemporaryDirectory() as folder:
            frame = self.options(self.spark.readStream, topic).option("maxOffsetsPerTrigger", "1000").load()
            writer = frame.select("key", "value").writeStream.format(self.side).options(**own)
            query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
            query.awaitTermination()
            turns = [one for one in query.recentProgress if one.numInputRows]
        times = [one.durationMs["triggerExecution"] / 1000 for one in turns[2:]]  # the first ones compile
        return [statistics.median(times), [0, sum(one.numInputRows for one in turns)]]

    def write(self, topic: str) -> list[Any]:
        """Seconds of writing rows, each of them once where the side can."""
        return self._written(topic, {"sinkId": topic} if self.side == "rayft" else {})

    def at_least_once(self, topic: str) -> list[Any]:
        """Seconds of writing rows without transactions."""
        return self._written(topic, {"delivery": "at-least-once"})

    def _written(self, topic: str, more: dict[str, str]) -> list[Any]:
        records = int(os.environ[RECORDS])
        frame = self.spark.range(0, records, 1, by_address.PARTITIONS)
        frame = frame.selectExpr("cast(id as string) key", "rpad(cast(id as string), 100, 'x') value")
        own = {"kafka.bootstrap.servers": self.servers, "topic": topic, "kafka.compression.type": topic.rsplit("-")[-1]}
        begun = time.perf_counter()
        frame.write.format(self.side).options(**own, **more).mode("append").save()
        return [time.perf_counter() - begun, records]


def main_side(side: str, servers: str) -> None:
    """The main function of a side's process: a line says what to do, a line is the answer."""
    own = Side(side, servers)
    for line in sys.stdin:
        word, topic = line.split()
        print(json.dumps(getattr(own, word)(topic)), flush=True)
    own.spark.stop()


class Process:
    """A side in a process of its own. Raises RuntimeError with its output when it ends by itself."""

    def __init__(self, side: str, servers: str, folder: Path, records: int) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(folder / "pyspark"), str(spark_kafka.ROOT)]),
            "SPARK_HOME": str(folder / "pyspark" / "pyspark"),
            "PYSPARK_PYTHON": sys.executable,
            "RAYFT_CONNECTOR": str(folder / "libs"),
            RECORDS: str(records),
        }
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed in __exit__
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.pipeline", "--side", side, servers],
            env=environment, cwd=spark_kafka.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            text=True,
        )  # fmt: skip

    def run(self, word: str, topic: str) -> tuple[float, Any]:
        """Seconds and the sum of a round."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(f"{word} {topic}\n")
            self._process.stdin.flush()
            seconds, found = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            self._errors.seek(0)
            raise RuntimeError(f"a side of Spark failed:\n{self._errors.read()[-3000:]}") from None
        return seconds, found

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._errors.close()


# ---- Ray Data


def counted(dataset: Any) -> int:
    """The bytes of all keys and values."""

    def size(table: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        lengths = [pc.sum(pc.binary_length(table.column(name).cast(pa.binary()))).as_py() for name in ("key", "value")]
        return pa.table({"bytes": [sum(one or 0 for one in lengths)]})

    return sum(row["bytes"] for row in dataset.map_batches(size, batch_format="pyarrow", batch_size=None).take_all())


def on_ray(servers: str, topic: str) -> dict[str, Callable[[], int]]:
    """The readers of Ray Data."""
    import ray.data

    import rayft

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
        logging.getLogger("ray.data").setLevel(logging.ERROR)

    return {
        "rayft": lambda: counted(rayft.ray.read(servers, topic)),
        "kafka": lambda: counted(ray.data.read_kafka(topic, bootstrap_servers=servers, timeout_ms=600_000)),
    }


def shared_on_ray(servers: str, topic: str) -> dict[str, Callable[[], int]]:
    """Reading twice: from batches that were decoded once, and by address."""
    import rayft

    on_ray(servers, topic)

    def once() -> int:
        handle = rayft.ray.share(servers, topic)
        try:
            return sum(counted(rayft.ray.dataset(handle)) for _ in range(2))
        finally:
            rayft.ray.close(handle)

    return {"rayft": once, "kafka": lambda: sum(counted(rayft.ray.read(servers, topic)) for _ in range(2))}


def written_on_ray(servers: str, topic: str, records: int) -> dict[str, Callable[[], int]]:
    """The sinks of Ray Data."""
    import pyarrow as pa
    import ray.data

    import rayft

    on_ray(servers, topic)

    def texts(table: Any) -> Any:
        import pyarrow.compute as pc

        keys = table.column("id").cast(pa.string())
        return pa.table({"key": keys, "value": pc.utf8_rpad(keys, 100, "x")})

    rows = ray.data.range(records, override_num_blocks=by_address.PARTITIONS).map_batches(texts, batch_format="pyarrow")
    rows = rows.materialize()
    codec = topic.rsplit("-")[-1]

    def ours() -> int:
        rows.write_datasink(rayft.ray.Sink(servers, topic, sink=topic, config={"compression.type": codec}))
        return records

    def theirs() -> int:
        rows.write_kafka(topic, servers, key_field="key", producer_config={"compression.type": codec})
        return records

    return {"rayft": ours, "kafka": theirs}


# ---- rounds


Rounds = dict[str, list[tuple[float, float]]]
"""Seconds and CPU seconds of each reader, round by round."""


def alternating(readers: dict[str, Callable[[], tuple[float, Any]]], rounds: int) -> Rounds:
    """The rounds of readers; the first one warms up and is left out. All have to find the same."""
    found: Rounds = {name: [] for name in readers}
    for number in range(rounds + 1):
        names = list(readers) if number % 2 else list(readers)[::-1]
        sums = {}
        for name in names:
            before = cpu.seconds()
            seconds, sums[name] = readers[name]()
            if number:
                found[name].append((seconds, cpu.seconds() - before))
        assert len({json.dumps(one) for one in sums.values()}) == 1, sums
    return found


def timed(reader: Callable[[], Any]) -> Callable[[], tuple[float, Any]]:
    """A reader that also gives its seconds."""

    def run() -> tuple[float, Any]:
        begun = time.perf_counter()
        found = reader()
        return time.perf_counter() - begun, found

    return run


def measured(part: str, servers: str, topic: str, rounds: int, folder: Path | None, records: int) -> Rounds:
    """The rounds of both sides in one part of the bench."""
    if part in ON_RAY:
        if part == "ray-write":
            readers = written_on_ray(servers, topic, records)
        else:
            readers = (on_ray if part == "ray" else shared_on_ray)(servers, topic)
        return alternating({name: timed(reader) for name, reader in readers.items()}, rounds)
    assert folder is not None
    with Process("rayft", servers, folder, records) as ours:
        if part == "once":
            words = {"rayft": "write", "kafka": "at_least_once"}
            return alternating({side: partial(ours.run, word, topic) for side, word in words.items()}, rounds)
        with Process("kafka", servers, folder, records) as theirs:
            word = part.replace("-", "_")
            return alternating(
                {"rayft": lambda: ours.run(word, topic), "kafka": lambda: theirs.run(word, topic)}, rounds
            )


def made(servers: str, topic: str) -> None:
    """Make a topic."""
    host, _, port = servers.rpartition(":")
    connection = frames.Connection((host, int(port)))
    frames.check_created(connection.exchange(frames.create_topic(topic, by_address.PARTITIONS, 1)))
    connection.close()
    time.sleep(1)


def filled(servers: str, topic: str, records: int, codec: str) -> None:
    """Make a topic and write its records."""
    made(servers, topic)
    by_address.fill(servers, topic, records, codec)


def lines(args: argparse.Namespace) -> Iterator[str]:
    """The lines of the table."""
    import rayft

    folder = spark_kafka.fetched(Path(args.connector))
    for broker in args.broker:
        kind = rayft.Cluster if broker == "rayft" else apache.ApacheKafka
        with kind(controllers=1, brokers=1, config=CONFIG) as cluster:
            servers = cluster.bootstrap_servers
            for codec in args.codec:
                if {"batch", "stream", "ray", "shared"} & set(args.part):
                    filled(servers, f"t-{codec}", args.records, codec)
                if {"latency", "write-latency"} & set(args.part):
                    filled(servers, f"l-{codec}", LATENCY_TURNS * 1000, codec)
                for part in args.part:
                    if folder is None and part not in ON_RAY:
                        continue
                    topic = f"{'l' if 'latency' in part else 't'}-{codec}"
                    if part == "write-latency":
                        made(servers, f"{topic}-out")
                    if part in ("write", "once", "ray-write"):
                        topic = f"{part}-{codec}"
                        made(servers, topic)
                    records = args.records // (RAY_LESS if part == "ray-write" else 1)
                    found = measured(part, servers, topic, args.rounds, folder, records)
                    yield row(broker, codec, part, records, found)


def row(broker: str, codec: str, part: str, records: int, found: Rounds) -> str:
    """One line of the table."""
    best = {name: min(seconds for seconds, _ in rounds) for name, rounds in found.items()}
    pairs = list(zip(found["rayft"], found["kafka"], strict=True))
    ratio, used = (statistics.median(theirs[n] / ours[n] for ours, theirs in pairs) for n in (0, 1))
    if "latency" in part:
        shown = [f"{best[name] * 1000:.0f} ms" for name in SIDES]
    else:
        shown = [f"{records / best[name] / 1e6:.2f} M/s" for name in SIDES]
    return f"{broker:8}{codec:6}{part:10}{shown[0]:>12}{shown[1]:>12}{ratio:9.1f}{used:9.1f}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--codec", nargs="+", default=["none", "zstd"])
    parser.add_argument("--broker", nargs="+", default=["rayft", "kafka"])
    parser.add_argument("--part", nargs="+", default=list(PARTS))
    parser.add_argument(
        "--connector", default=str(Path.cwd() / ".kafka" / "spark"), help="where Spark's is fetched into"
    )
    args = parser.parse_args(arguments)
    print(
        f"Spark's kafka connector {spark_kafka.VERSION}; `shared` beside reading by address twice, `once` beside "
        "at least once"
    )
    print(f"{'broker':8}{'codec':6}{'part':10}{'rayft':>12}{'other':>12}{'ratio':>9}{'of CPU':>9}", flush=True)
    for line in lines(args):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        main_side(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
