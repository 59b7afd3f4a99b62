"""Measures replay: Kafka's own readers, and rayft in one process, on Spark, on Ray Data, and from shared buffers.

`python -m bench.replay [--scale 1.0] [--rounds 3] [--only metadata topics lz4 zstd] [--out FILE.json]`

(metadata) a metadata log with 10 million records of Apache Kafka's: copies of a log with a million partitions in the
folder RAYFT_KAFKA_DATA; left out if it does not exist. (topics) 10 million records of 100 bytes in 6 partitions,
written by Apache Kafka's producer into Apache Kafka. (lz4, zstd) the same, compressed. All readers read the same files,
Spark's kafka source through the broker that wrote them. Each reader has two cores. The best of the rounds counts; one
round before them is not counted. Spark's kafka source and rayft on Spark take turns. `--scale 0.1` takes a tenth of the
records. MB are those of the records' values, or of the metadata log's file.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
from rich.console import Console
from rich.table import Table

from actors import replay
from actors.replay import shared
from actors.replay.columns import metadata
from actors.replay.logs.chunks import ChunkReading
from actors.replay.read_options import read_options
from bench import apache, cpu, spark_kafka
from bench.chart import bars
from fastpath.records.batch import headers, patch

RECORDS, VALUE_BYTES, PARTITIONS = 10_000_000, 100, 6
MILLION = "one-million-partitions/00000000000000000000.log.zst"
METADATA_COLUMNS = "offset,epoch,timestamp,type,version,partition,partition_change"
CASES = ("metadata", "topics", "lz4", "zstd")
RESULTS = Path(__file__).parent / "results"


class Spent(NamedTuple):
    """The cost of a pass. CPU: of all processes that took part, brokers too; it is used if others share the machine."""

    seconds: float
    cpu_seconds: float


class Figure(NamedTuple):
    """One reader on one log."""

    case: str
    reader: str
    records: int
    bytes: int
    spent: "Spent"

    @property
    def seconds(self) -> float:
        """Elapsed seconds."""
        return self.spent.seconds

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


class Log(NamedTuple):
    """The log that is read."""

    case: str
    path: Path
    columns: str
    """empty: the default columns"""
    records: int
    bytes: int

    @property
    def options(self) -> dict[str, str]:
        """The options of a read."""
        return {"path": str(self.path)} | ({"columns": self.columns} if self.columns else {})


def best(rounds: int, action: Callable[[], object]) -> Spent:
    """The shortest elapsed time and the least CPU time of some rounds, after one that does not count."""
    return in_turn(rounds, lambda: once(action))[0]


def in_turn(rounds: int, *passes: Callable[[], Spent]) -> list[Spent]:
    """The best pass of each, with one round of each in turn: a machine that becomes slower does so for all of them."""
    found = [[one() for one in passes] for _ in range(rounds + 1)][1:]
    return [
        Spent(min(spent.seconds for spent in each), min(spent.cpu_seconds for spent in each))
        for each in zip(*found, strict=True)
    ]


def once(action: Callable[[], object]) -> Spent:
    """The cost of an action, in this process and all its descendants."""
    began, before = time.perf_counter(), cpu.seconds()
    action()
    return Spent(time.perf_counter() - began, cpu.seconds() - before)


# ---- the logs -----------------------------------------------------------------------------------------------------


def million() -> Path:
    """Apache Kafka's log of a million partitions."""
    return Path(os.environ.get("RAYFT_KAFKA_DATA", Path.cwd().parent / "shared/data/apache-kafka-4.3.1")) / MILLION


def metadata_log(work: Path, records: int) -> Log:
    """Copies of Apache Kafka's log of a million partitions, one after the other, with renumbered offsets."""
    one = bytearray(memoryview(cramjam.zstd.decompress(million().read_bytes())))
    folder = work / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    path, offset = folder / f"{0:020}.log", 0
    with path.open("wb") as file:
        while offset < records:
            for header in headers(one):
                patch(one, header.position, offset, 1)
                offset += header.count
                if offset >= records:
                    file.write(one[: header.position + header.size])
                    break
            else:
                file.write(one)
    return Log("metadata", folder, METADATA_COLUMNS, offset, path.stat().st_size)


def topic_log(kafka: apache.ApacheKafka, work: Path, case: str, records: int) -> Log:
    """A topic that Apache Kafka's own producer filled."""
    topic = f"bench-{case}"
    command = "org.apache.kafka.tools.TopicCommand"
    create = ["--create", "--topic", topic, "--partitions", str(PARTITIONS), "--bootstrap-server"]
    subprocess.run(apache.java(command, *create, kafka.bootstrap_servers), check=True, stdout=subprocess.DEVNULL)
    lines = (
        f"order {n:08} customer {n * 7919 % 10007:06} item {n * 104729 % 99991:06} state paid ".ljust(VALUE_BYTES, "x")
        for n in range(10_000)
    )
    payload = work / "payload.txt"
    payload.write_text("\n".join(lines))
    settings = [f"bootstrap.servers={kafka.bootstrap_servers}", "batch.size=65536", "linger.ms=20", "acks=1"]
    settings += [f"compression.type={case}"] if case in ("lz4", "zstd") else []
    arguments = ["--topic", topic, "--num-records", str(records), "--throughput", "-1", "--payload-file", str(payload)]
    tool = apache.java("org.apache.kafka.tools.ProducerPerformance", *arguments, "--command-property", *settings)
    subprocess.run(tool, check=True, stdout=subprocess.DEVNULL)
    (data,) = kafka.log_directories()
    path = work / case
    path.mkdir()
    for number in range(PARTITIONS):
        (path / f"{topic}-{number}").symlink_to(data / f"{topic}-{number}")
    written = sum(split.records for split in replay.open(path, "log").splits(1 << 40))
    assert written == records, f"{written} records in the files of {topic}"
    return Log(case, path, "", records, records * VALUE_BYTES)


# ---- the readers --------------------------------------------------------------------------------------------------


def dump_log(log: Log, rounds: int) -> Iterator[Figure]:
    """kafka-dump-log on one of its files."""
    split = max(replay.open(log.path).splits(1 << 40), key=lambda one: one.records)
    options = ["--cluster-metadata-decoder"] if log.case == "metadata" else ["--print-data-log"]
    command = apache.java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", split.path, heap="1g")
    spent = once(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    yield Figure(log.case, "kafka-dump-log", split.records, log.bytes * split.records // log.records, spent)


def one_process(log: Log, rounds: int) -> Iterator[Figure]:
    """This process, one split after the other."""
    source = replay.open(log.path)

    def typed() -> None:
        for found, decoded in metadata.typed_chunks(source.logs[0], source.family, ChunkReading()):
            for slot in decoded.rows:
                decoded.table(found.kinds[slot])

    def read() -> None:
        columns = log.columns.split(",") if log.columns else None
        count = sum(batch.num_rows for split in source.splits() for batch in replay.read(split, columns))
        assert count == log.records

    if log.case == "metadata":
        yield Figure(log.case, "rayft, one process, a table a record type", log.records, log.bytes, best(rounds, typed))
    yield Figure(log.case, "rayft, one process", log.records, log.bytes, best(rounds, read))


def on_spark(log: Log, rounds: int, session: Any, own: spark_kafka.Source | None = None) -> Iterator[Figure]:
    """Files, in turn with Spark's kafka source if there is one; then a mapped Arrow file with the same records."""

    def frame(**options: str) -> Any:
        return session.read.format("rayft").options(**options).load()

    files = frame(**log.options)
    readers = {"rayft on Spark": lambda: once(lambda: spark_kafka.noop(files))}
    if own is not None:
        readers[f"Spark's kafka source {spark_kafka.VERSION}"] = lambda: Spent(*own.round())
    for reader, spent in zip(readers, in_turn(rounds, *readers.values()), strict=True):
        yield Figure(log.case, reader, log.records, log.bytes, spent)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        handle = shared.write(read_options(log.options), Path(folder) / "shared.arrow")
        mapped = frame(shared=handle)
        spent = best(rounds, lambda: spark_kafka.noop(mapped))
    yield Figure(log.case, "rayft on Spark, mapped Arrow file", log.records, log.bytes, spent)


def on_ray(log: Log, rounds: int, session: Any) -> Iterator[Figure]:
    """Ray Data from files, the decoding alone, and Ray Data and Spark over the decoded batches."""
    from actors.replay import ray as door
    from actors.replay import ray_cache

    def passed(dataset: Any) -> None:
        count = sum(batch.num_rows for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
        assert count == log.records

    yield Figure(
        log.case,
        "rayft on Ray Data",
        log.records,
        log.bytes,
        best(rounds, lambda: passed(door.read(**log.options))),
    )
    handles: list[str] = []
    spent = once(lambda: handles.append(ray_cache.share(**log.options)))
    handle = handles[0]
    yield Figure(log.case, "rayft, decoded into Ray's store", log.records, log.bytes, spent)
    try:
        spent = best(rounds, lambda: passed(door.dataset(handle)))
        yield Figure(log.case, "rayft on Ray Data, shared", log.records, log.bytes, spent)
        frame = session.read.format("rayft").option("shared", handle).load()
        spent = best(rounds, lambda: spark_kafka.noop(frame))
        yield Figure(log.case, "rayft on Spark, shared by Ray", log.records, log.bytes, spent)
    finally:
        ray_cache.close(handle)


def own_source(log: Log, kafka: apache.ApacheKafka, folder: Path | None) -> AbstractContextManager[Any]:
    """Spark's kafka source, ready for its rounds; None if it could not be fetched."""
    if folder is None:
        return nullcontext()
    brokers = [process.pid for process in kafka.processes.values()]
    return spark_kafka.Source(folder, kafka.bootstrap_servers, f"bench-{log.case}", brokers)


# ---- the run ------------------------------------------------------------------------------------------------------


def measured(options: argparse.Namespace, work: Path) -> Iterator[Figure]:
    """Every figure, as soon as it is measured."""
    import ray

    from actors.pipeline import spark

    records = int(RECORDS * options.scale)
    # Ray starts first: later processes inherit its token, so that Spark's workers may attach.
    store = max(int(records * 400), 200_000_000)
    ray.init(num_cpus=2, object_store_memory=store, include_dashboard=False, log_to_driver=False, logging_level="error")
    session = spark.session("bench", spark_kafka.MASTER, spark_kafka.MEMORY)
    session.sparkContext.setLogLevel("ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        if "metadata" in options.only:
            log = metadata_log(work, records)
            for reader in (dump_log, one_process):
                yield from reader(log, options.rounds)
            yield from on_spark(log, options.rounds, session)
            yield from on_ray(log, options.rounds, session)
            shutil.rmtree(log.path)
        for case in [case for case in CASES[1:] if case in options.only]:
            with apache.ApacheKafka(config={"log.segment.bytes": str(512 << 20)}) as kafka:
                log = topic_log(kafka, work, case, records)
                for reader in (dump_log, one_process):
                    yield from reader(log, options.rounds)
                with own_source(log, kafka, spark_kafka.fetched(Path(options.connector))) as own:
                    yield from on_spark(log, options.rounds, session, own)
                yield from on_ray(log, options.rounds, session)
    finally:
        ray.shutdown()
        session.stop()


def judged(found: list[Figure]) -> list[str]:
    """The aims that this run measures: by elapsed time, and by CPU time in case others used the machine."""
    by = {(one.case, one.reader): one for one in found}
    lines = []
    for case in CASES:
        own = next((one for (of, reader), one in by.items() if of == case and reader.startswith("Spark's")), None)
        files, buffers = (by.get((case, f"rayft on Spark{how}")) for how in ("", ", shared by Ray"))
        if own and files:
            lines.append(f"{case}: on Spark {_times(own, files)} the rate of Spark's kafka source (aim: 4)")
        if files and buffers:
            lines.append(f"{case}: on Spark from shared buffers {_times(files, buffers)} the rate from files (aim: 1)")
    return lines


def _times(slow: Figure, fast: Figure) -> str:
    used = slow.spent.cpu_seconds / fast.spent.cpu_seconds
    return f"{fast.rate / slow.rate:.1f} times (by CPU {used:.1f})"


def main() -> int:
    """Run the command. Returns 2 without Apache Kafka."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--connector", default=str(Path.cwd() / ".kafka" / "spark"), help="Spark's kafka source, fetched into it"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "replay.json")
    options = parser.parse_args()
    console = Console()
    if apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    if "metadata" in options.only and not million().exists():
        console.print(f"no {million()}: the metadata log is left out; RAYFT_KAFKA_DATA names another folder")
        options.only.remove("metadata")
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="rayft-bench-") as folder:
        for figure in measured(options, Path(folder)):
            found.append(figure)
            console.print(
                f"{figure.case:9} {figure.reader:45} {figure.rate / 1e6:7.2f} M records/s {figure.seconds:8.2f} s"
            )
    table = Table("log", "reader", "records", "seconds", "M records/s", "MB/s", "CPU us a record")
    for one in found:
        used = one.spent.cpu_seconds / one.records * 1e6
        rates = (f"{one.rate / 1e6:.2f}", f"{one.bytes / 1e6 / one.seconds:,.0f}", f"{used:.2f}")
        figures = (f"{one.records:,}", f"{one.seconds:.2f}", *rates)
        table.add_row(one.case, one.reader, *figures)
    console.print(table)
    for line in judged(found):
        console.print(line)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "scale": options.scale,
        "rounds": options.rounds,
    }
    rows = [{**one._asdict(), "spent": one.spent._asdict()} for one in found]
    options.out.write_text(json.dumps(machine | {"figures": rows, "aims": judged(found)}, indent=1) + "\n")
    chart = options.out.with_suffix(".svg")
    chart.write_text(
        bars("Replay: million records a second", [(f"{one.case}: {one.reader}", one.rate / 1e6) for one in found])
    )
    console.print(f"{options.out} and {chart}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
