"""Apache Kafka's own DumpLogSegments reads what the log writes: segments, their indexes, producer snapshots, markers of
transactions."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from actors.broker.log.directories.checkpoints import parse_offsets
from actors.broker.log.directories.directory import LogDirectory
from actors.broker.log.log import PartitionLog
from actors.broker.log.truncation import truncate_to
from actors.host.work.disk import LocalDisk
from tests.integration.conftest import kafka_libs
from tests.unit.broker.log.logs import build, put, settings
from tests.unit.broker.log.transactions import end, write

LIBS = kafka_libs()

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None or LIBS is None, reason="needs java and Apache Kafka's jars (make kafka)"
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, stopped cleanly."""
    root = tmp_path_factory.mktemp("logs")
    disk = LocalDisk(str(root))
    changed = settings(segment_bytes=20_000, index_interval_bytes=300)
    log = PartitionLog(disk, "topic-0", changed, bytes(range(16)))
    for number in range(250):
        header = {"producer_id": 4000 + number % 3, "producer_epoch": 2, "base_sequence": number // 3 * 2}
        data = build(2, 100, timestamp_ms=1_700_000_000_000 + number * 1000 - number % 7 * 3000, **header)
        put(log, data, epoch=number // 100)
    truncate_to(log, 440)
    log.flushed(log.flush())
    for number in range(60):
        put(log, build(1, 100, timestamp_ms=1_700_001_000_000 + number), epoch=5)
    _stop(log)
    return root / "topic-0"


def _stop(log: PartitionLog) -> None:
    wanted = log.close()
    for disk, path, content in wanted.replacements:
        assert isinstance(disk, LocalDisk)
        disk.replace(path, content)
    log.flushed(wanted)
    log.release()


def _dump(*arguments: str) -> str:
    command = ["java", "-cp", f"{LIBS}/*", "org.apache.kafka.tools.DumpLogSegments", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _files(directory: Path, suffix: str) -> str:
    found = sorted(directory.glob(f"*{suffix}"))
    assert found
    return ",".join(map(str, found))


def test_kafka_reads_every_record(directory: Path) -> None:
    text = _dump("--deep-iteration", "--files", _files(directory, ".log"))
    assert "isvalid: true" in text and "isvalid: false" not in text
    offsets = [int(n) for n in re.findall(r"^\| offset: (\d+)", text, re.M)]
    assert offsets == list(range(500))
    assert "partitionLeaderEpoch: 5" in text


def test_kafka_finds_no_fault_in_the_indexes(directory: Path) -> None:
    for suffix in (".index", ".timeindex"):
        text = _dump("--files", _files(directory, suffix))
        assert len(re.findall(r"^(?:offset|timestamp): ", text, re.M)) > 50
        assert "Mismatches" not in text and "Found" not in text and "out of order" not in text


def test_kafka_checks_the_indexes_against_the_log(directory: Path) -> None:
    text = _dump("--verify-index-only", "--files", _files(directory, ".index"))
    assert "Mismatch" not in text


def test_kafka_reads_the_producer_snapshots(directory: Path) -> None:
    text = _dump("--files", _files(directory, ".snapshot"))
    last = text[text.rindex("Dumping") :]
    assert "00000000000000000500.snapshot" in last
    found = re.findall(r"producerId: (\d+) producerEpoch: (-?\d+) .*?lastSequence: (\d+) lastOffset: (\d+)", last)
    assert found == [
        ("4000", "2", "147", "439"), ("4001", "2", "145", "435"), ("4002", "2", "145", "437")
    ]  # fmt: skip


@pytest.fixture(scope="module")
def transactions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments with transactions: committed, aborted across segments, not replicated, open."""
    root = tmp_path_factory.mktemp("logs")
    log = PartitionLog(LocalDisk(str(root)), "topic-0", settings(segment_bytes=400), bytes(range(16)))
    write(log, 4000, 0, epoch=3)
    for number in range(6):
        write(log, 4001, number * 2, 2)
        end(log, 4001, number % 2 == 0, coordinator_epoch=7)
    end(log, 4000, False, epoch=4, coordinator_epoch=9)
    write(log, 4002, 0)
    _stop(log)
    return root / "topic-0"


def test_kafka_reads_markers(transactions: Path) -> None:
    text = _dump("--deep-iteration", "--files", _files(transactions, ".log"))
    assert "isvalid: true" in text and "isvalid: false" not in text
    assert len(re.findall("endTxnMarker: COMMIT coordinatorEpoch: 7", text)) == 3
    assert len(re.findall("endTxnMarker: ABORT coordinatorEpoch: 7", text)) == 3
    assert len(re.findall("endTxnMarker: ABORT coordinatorEpoch: 9", text)) == 1
    assert "producerId: 4000 producerEpoch: 4" in text and "isTransactional: true" in text


def test_kafka_reads_the_aborted_transactions(transactions: Path) -> None:
    text = _dump("--files", _files(transactions, ".txnindex"))
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    found = re.findall(" ".join(rf"{name}: (\d+)" for name in names), text)
    assert [tuple(map(int, one)) for one in found] == [
        (4001, 4, 6, 0),
        (4001, 10, 12, 0),
        (4001, 16, 18, 0),
        (4000, 0, 19, 20),
    ]


def test_kafka_reads_a_snapshot_with_transactions(transactions: Path) -> None:
    text = _dump("--files", _files(transactions, ".snapshot"))
    last = text[text.rindex("Dumping") :]
    assert "00000000000000000021.snapshot" in last
    found = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: (\S+) ", last
    )
    assert found == [
        ("4000", "4", "9", "OptionalLong.empty"),
        ("4001", "0", "7", "OptionalLong.empty"),
        ("4002", "0", "-1", "OptionalLong[20]"),
    ]


def test_the_checkpoints_have_kafkas_form(tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    offsets = {("b", 1): 7, ("a.b-c", 0): 9}
    for target, path, content in LogDirectory(disk).checkpoints(offsets, {}, {}, {}):
        assert isinstance(target, LocalDisk)
        target.replace(path, content)
    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert text == "0\n2\na.b-c 0 9\nb 1 7\n"
    assert parse_offsets(text.encode()) == offsets
