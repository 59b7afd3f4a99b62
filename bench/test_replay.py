"""The cost of reading logs in one process: metadata into typed columns, its state and changes, a snapshot, and
topics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.metadata.batches import BatchWriter
from actors.metadata.dialects import dialect
from actors.metadata.ops import FeatureSet, PartitionsChanged, PartitionsSet, TopicSet
from actors.replay.checkpoint import compact
from actors.replay.columns import metadata
from actors.replay.logs.chunks import ChunkReading
from fastpath.records.batch import Builder

TOPICS, EACH, CHANGES = 20, 2_000, 160_000
RECORDS = 200_000
VALUE = b"x" * 100


@pytest.fixture(scope="module")
def metadata_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,021 records: 40,000 partitions, and changes of them in blocks of 2,000."""
    folder = tmp_path_factory.mktemp("metadata") / "__kafka_metadata-0"
    folder.mkdir()
    out = BatchWriter(0, 1, 1_700_000_000_000)
    drafts = dialect(2)
    ids = [bytes([number]) * 16 for number in range(TOPICS)]
    numbers, replicas = range(EACH), [[1 + at % 9, 1 + (at + 1) % 9, 1 + (at + 2) % 9] for at in range(EACH)]
    drafts.encode([FeatureSet("metadata.format", 2)], out)
    for topic_id in ids:
        drafts.encode([TopicSet(topic_id.hex(), topic_id), PartitionsSet(topic_id, numbers, replicas, replicas)], out)
    for epoch in range(1, 1 + CHANGES // EACH):
        first = epoch // TOPICS % 2
        isr, leader = [ids[first:] for ids in replicas], [ids[first] for ids in replicas]
        op = PartitionsChanged.many([ids[epoch % TOPICS]] * EACH, numbers, isr, leader, [epoch] * EACH, [epoch] * EACH)
        drafts.encode([op], out)
    (folder / f"{0:020}.log").write_bytes(memoryview(out))
    return folder


@pytest.fixture(scope="module")
def topic_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,000 records of 100 bytes, 160 in a batch."""
    folder = tmp_path_factory.mktemp("topic") / "orders-0"
    folder.mkdir()
    parts = []
    for base in range(0, RECORDS, 160):
        builder = Builder(base, 1, timestamp_ms=1_700_000_000_000 + base)
        for offset in range(base, base + 160):
            builder.append(None, VALUE, 1_700_000_000_000 + offset)
        parts.append(bytes(builder.build()))
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    return folder


def rows(batches: Iterator[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_metadata_into_typed_columns(benchmark: Any, metadata_log: Path) -> None:
    log = replay.open(metadata_log).logs[0]

    def decode() -> int:
        return sum(
            decoded.table(found.kinds[slot]).num_rows
            for found, decoded in metadata.typed_chunks(log, "drafts", ChunkReading())
            for slot in decoded.rows
        )

    assert benchmark(decode) == 200_021


@pytest.mark.parametrize("columns", [None, ["offset", "type"], ["offset", "isr_change"]])
def test_records(benchmark: Any, metadata_log: Path, columns: list[str] | None) -> None:
    (split,) = replay.open(metadata_log).splits()
    assert benchmark(lambda: rows(replay.read(split, columns))) == 200_021


def test_state_as_of_the_middle(benchmark: Any, metadata_log: Path) -> None:
    found = benchmark(lambda: replay.state(metadata_log, 120_000, ["partitions"]))
    assert found["partitions"].num_rows == TOPICS * EACH


def test_changes(benchmark: Any, metadata_log: Path) -> None:
    assert benchmark(lambda: rows(replay.changes(metadata_log, kinds=["leader", "isr"]))) > CHANGES


def test_compact(benchmark: Any, metadata_log: Path) -> None:
    assert benchmark(lambda: compact(metadata_log).end_offset) == 200_021


@pytest.mark.parametrize("columns", [["offset"], ["offset", "key", "value"], None])
def test_topics(benchmark: Any, topic_log: Path, columns: list[str] | None) -> None:
    (split,) = replay.open(topic_log).splits()
    assert benchmark(lambda: rows(replay.read(split, columns))) == RECORDS
