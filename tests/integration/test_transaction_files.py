"""Apache Kafka's own log opens a directory of ours with transactions. It builds the same indexes of aborted
transactions, byte for byte, and gives readers of committed records the same."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk
from tests.integration.conftest import kafka_libs
from tests.unit.broker.log.logs import build, put, settings
from tests.unit.broker.log.transactions import aborted, end, last_stable, write

LIBS = kafka_libs()
PROGRAM = Path(__file__).parent / "CommittedReads.java"

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or LIBS is None, reason="needs java and Apache Kafka's jars (make kafka)"
)


def history(log: PartitionLog, seed: int) -> None:
    """Six producers, in any order; some transactions go over many segments, some never end."""
    choose = random.Random(seed)
    producers = {producer: (0, 0) for producer in range(4000, 4006)}
    for _ in range(250):
        producer = choose.choice(list(producers))
        epoch, sequence = producers[producer]
        action = choose.randrange(10)
        if action < 6:
            count = choose.randrange(3) + 1
            write(log, producer, sequence, count, epoch, size=choose.randrange(60))
            producers[producer] = epoch, sequence + count
        elif action < 9 and producer != 4000:
            rises = choose.randrange(2)
            end(log, producer, choose.randrange(2) == 0, epoch + rises)
            producers[producer] = epoch + rises, 0 if rises else sequence
        elif action == 9:
            put(log, build(1))
    end(log, 4000, False)
    write(log, 4003, producers[4003][1], 1, producers[4003][0])


@pytest.mark.parametrize("seed", [1, 2])
def test_kafka_builds_the_same_indexes_and_reads_the_same(seed: int, tmp_path: Path) -> None:
    log = PartitionLog(LocalDisk(str(tmp_path)), "topic-0", settings(segment_bytes=900), bytes(range(16)))
    history(log, seed)
    wanted = log.close()
    for disk, path, content in wanted.replacements:
        assert isinstance(disk, LocalDisk)
        disk.replace(path, content)
    log.flushed(wanted)
    theirs = tmp_path / "kafka" / "topic-0"
    shutil.copytree(tmp_path / "topic-0", theirs)
    for file in theirs.glob("*"):
        if file.suffix in (".txnindex", ".snapshot", ".index", ".timeindex"):
            file.unlink()
    command = ["java", "-cp", f"{LIBS}/*", str(PROGRAM), str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ours = {file.name: file.read_bytes() for file in (tmp_path / "topic-0").glob("*.txnindex")}
    assert len(ours) > 5
    assert ours == {file.name: file.read_bytes() for file in theirs.glob("*.txnindex")}
    first, *reads = done.stdout.splitlines()
    assert first == f"stable {last_stable(log, log.log_end_offset)}"
    for line in reads:
        _, start, following, *told = line.split()
        found = [f"{producer}@{offset}" for producer, offset in aborted(log, int(start), int(following))]
        # It takes a range up to the next entry of its offset index: what begins behind the records is of no use.
        useful = [one for one in told if int(one.split("@")[1]) < int(following)]
        assert found == useful, line
    assert len(reads) > 50
    log.release()
