"""How fast one thread compacts a log, beside Apache Kafka's own cleaner, and in how much memory for keys.

`python -m bench.cleaner [--megabytes 200] [--codec NAME ...] [--writes 10] [--rounds 3] [--out FILE.json]`

In each round a log is written anew, copied, and cleaned once by either side; who comes first changes. The log has batches of
a hundred records, keys of 14 bytes, values of a hundred bytes, and each key about `--writes` times. Both sides have the same
memory for the offset map, and both must keep the same number of records.

MB/s a thread counts the bytes of the log once, though the dirty part is read twice, and seconds of the thread's processor:
what else the machine does and how fast its disk is do not count. For Apache Kafka it is the one thread that cleans, without
its collector and its compiler; that thread has cleaned two such logs before it counts.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from actors.broker.log.cleaning.cleanable import cleanable
from actors.broker.log.cleaning.cleaner import Cleaned, CleaningLimits, CleaningSlice, Durable, LogCleaning
from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk, LocalFile
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import topic_settings
from bench import apache
from bench.end_to_end import RESULTS, machine
from fastpath.records import batch
from fastpath.records.offset_map import SLOT_BYTES

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAP_BYTES = 128 << 20
KAFKA_KEY_BYTES = 24
"""Of Apache Kafka's offset map: an MD5 hash and an offset."""
AIM = 2.0
WARM_ROUNDS = 2
NOW_MS = 1_700_000_000_000
PROGRAM = Path(__file__).parent / "CleanKafka.java"


class Pass(NamedTuple):
    """One log, cleaned once."""

    cpu_seconds: float
    seconds: float
    records_read: int
    records_kept: int


def written(root: str, megabytes: int, codec: int, writes: int = 10) -> PartitionLog:
    """A compacted topic's log of so many megabytes, with each key so many times."""
    overrides = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20)}
    settings = topic_settings(overrides, lambda name: (False, BROKER_CONFIGS[name].default))
    log = PartitionLog(LocalDisk(root), "topic-0", settings, bytes(range(16)))
    choose = random.Random(1)
    keys = megabytes * 1_000_000 // (125 * writes)
    pool = choose.randbytes(1 << 20)
    while log.size < megabytes * 1_000_000:
        builder = batch.Builder(attributes=codec, timestamp_ms=NOW_MS)
        for _ in range(100):
            at = choose.randrange(len(pool) - 100)
            builder.append(b"key-%010d" % choose.randrange(keys), pool[at : at + 50] * 2)
        data = builder.build()
        log.append(data, batch.accept(data, 0, len(data), log.log_end_offset, 0).headers, 0)
    log.roll(0)
    log.flush()
    log.checkpointed_offset = log.log_end_offset
    return log


def cleaned(log: PartitionLog) -> tuple[Cleaned, int]:
    """Clean it as the broker does; what came of it, and the memory of the map in bytes."""
    found = cleanable(log, log.log_end_offset, NOW_MS + 100_000)
    cleaning = LogCleaning(log, found, CleaningLimits(MAP_BYTES, 0.9, 512 << 10), bytes(16), NOW_MS + 100_000)
    steps, result = cleaning.steps(), None
    while True:
        try:
            wish = steps.send(result)
        except StopIteration as end:
            done: Cleaned = end.value
            return done, cleaning.map_bytes
        result = None
        if isinstance(wish, CleaningSlice):
            result = wish.job()
        elif isinstance(wish, Durable):
            for file in wish.files:
                assert isinstance(file, LocalFile)
                os.fsync(file.fileno())
        else:
            for segment in wish.segments:
                segment.close()
            for job in wish.jobs:
                job()


def ours(log: PartitionLog) -> tuple[Pass, int]:
    """By rayft, in this thread; also the memory of the map in bytes."""
    cpu, begun = time.process_time(), time.perf_counter()
    done, memory = cleaned(log)
    seconds = time.perf_counter() - begun
    return Pass(time.process_time() - cpu, seconds, done.records_read, done.records_kept), memory


class KafkaCleaner:
    """Apache Kafka's cleaner in a Java process of its own."""

    def __init__(self) -> None:
        folder = apache.libs()
        assert folder is not None
        command = ["java", "-Xmx1g", "-cp", f"{folder}/*", str(PROGRAM), str(MAP_BYTES)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def clean(self, directory: Path) -> Pass:
        """Clean the log of a partition's directory."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{directory}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().split()
        if len(line) != 4:
            raise RuntimeError("Apache Kafka's cleaner has ended; its error is above")
        cpu, clock, read, kept = map(int, line)
        return Pass(cpu / 1e9, clock / 1e9, read, kept)


@contextmanager
def kafka_cleaner() -> Iterator[KafkaCleaner]:
    """It ends with the block."""
    cleaner = KafkaCleaner()
    try:
        yield cleaner
    finally:
        cleaner.process.kill()
        cleaner.process.wait()


class Row(NamedTuple):
    """One codec."""

    codec: str
    log_bytes: int
    map_bytes: int
    keys: int
    rayft: list[Pass]
    kafka: list[Pass]

    def rate(self, passes: list[Pass], wall: bool = False) -> float:
        """MB/s, the median of the rounds."""
        return statistics.median(self.log_bytes / 1e6 / (one.seconds if wall else one.cpu_seconds) for one in passes)

    def ratio(self, wall: bool = False) -> float:
        """rayft's MB/s to Apache Kafka's, the median of the rounds."""
        times = [
            (theirs.seconds / mine.seconds if wall else theirs.cpu_seconds / mine.cpu_seconds)
            for mine, theirs in zip(self.rayft, self.kafka, strict=True)
        ]
        return statistics.median(times)


def measured(kafka: KafkaCleaner | None, directory: Path, codec: str, megabytes: int, writes: int, rounds: int) -> Row:
    """All rounds of one codec, in a directory that stays as long as Apache Kafka's process; without `kafka` only rayft's."""
    row = Row(codec, 0, 0, 0, [], [])
    for number in range(rounds + (WARM_ROUNDS if kafka else 0)):
        with tempfile.TemporaryDirectory() as root:
            log = written(root, megabytes, CODECS.index(codec), writes)
            size = sum(path.stat().st_size for path in Path(root).rglob("*.log"))
            theirs = directory / str(number) / "topic-0"
            if kafka is not None:
                shutil.copytree(Path(root) / "topic-0", theirs)
                os.sync()
            counts = number >= (WARM_ROUNDS if kafka else 0)
            passes: dict[str, Pass] = {}
            for side in ("rayft", "kafka") if number % 2 else ("kafka", "rayft"):
                if side == "rayft":
                    if counts:
                        passes[side], memory = ours(log)
                        row = row._replace(log_bytes=size, map_bytes=memory, keys=passes[side].records_kept)
                elif kafka is not None:
                    passes[side] = kafka.clean(theirs)
            if counts:
                row.rayft.append(passes["rayft"])
            if counts and kafka is not None:
                row.kafka.append(passes["kafka"])
                if passes["kafka"][2:] != passes["rayft"][2:]:
                    raise RuntimeError(f"the two do not keep the same records: {passes}")
    return row


def main(arguments: list[str] | None = None) -> int:
    """Run and print. Returns 0 if every ratio is met, or nothing was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200, help="of the uncompressed log; compressed: a third")
    parser.add_argument("--codec", choices=CODECS, action="append")
    parser.add_argument("--writes", type=int, default=10, help="of each key")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if not given.alone and apache.libs() is None:
        print(apache.MISSING, file=sys.stderr)
        return 2
    console = Console(width=120)
    rows: list[Row] = []
    for codec in given.codec or CODECS:
        megabytes = given.megabytes if codec == "none" else given.megabytes // 3
        with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
            kafka = None if given.alone else stack.enter_context(kafka_cleaner())
            rows.append(measured(kafka, Path(root), codec, megabytes, given.writes, given.rounds))
        console.print(f"{codec}: {rows[-1].rate(rows[-1].rayft):.0f} MB/s a thread")
    table = Table("codec", "log MB", "kept", "map MB", "rayft MB/s", "Kafka MB/s", "ratio", "by the clock", "met")
    for row in rows:
        compared = bool(row.kafka)
        table.add_row(
            row.codec,
            f"{row.log_bytes / 1e6:.0f}",
            f"{row.rayft[0].records_kept / row.rayft[0].records_read:.1%}",
            f"{row.map_bytes / 1e6:.0f}",
            f"{row.rate(row.rayft):.0f}",
            f"{row.rate(row.kafka):.0f}" if compared else "",
            f"{row.ratio():.2f}" if compared else "",
            f"{row.ratio(wall=True):.2f}" if compared else "",
            ("yes" if row.ratio() >= AIM else "no") if compared else "",
        )
    console.print(table)
    console.print(
        f"A key takes {SLOT_BYTES} bytes of the map here and {KAFKA_KEY_BYTES} in Apache Kafka's, which has all its "
        f"{MAP_BYTES >> 20} MiB from the start; here no more than the log's records can need."
    )
    if not given.alone:
        out = given.out or RESULTS / f"cleaner-{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
        out.parent.mkdir(parents=True, exist_ok=True)
        report = [
            {
                **row._asdict(),
                "ratio": row.ratio(),
                "ratio_by_the_clock": row.ratio(wall=True),
                "met": row.ratio() >= AIM,
            }
            for row in rows
        ]
        out.write_text(json.dumps({"machine": machine(), "rows": report}, indent=2))
        console.print(f"written to {out}")
    return 0 if given.alone or all(row.ratio() >= AIM for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
