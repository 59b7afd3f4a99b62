"""Memory that goes round between chunks: never while somebody reads it, always when nobody does any longer."""

from pathlib import Path

import pyarrow as pa
import pytest

from actors.metadata.batches import BatchWriter
from actors.replay import metadata, programs
from actors.replay.files import metadata_log
from actors.replay.log import Chunk, Reading, chunks
from actors.wire.messages import encode, message
from fastpath.growth import Rooms

TOPIC, PARTITION = 2, 3
SMALL_CHUNKS = Reading(chunk_bytes=4096)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A metadata log of topics, of partitions with a null now and then, and of both, in batches of some hundred bytes."""
    topic, partition = message("metadata:TopicRecord"), message("metadata:PartitionRecord")
    out = BatchWriter(0, 1, 1000, 600)
    for n in range(2000):
        id_ = n.to_bytes(16, "big")
        if n % 1000 < 500 or n % 3:
            out.add(encode(topic(name="t" * (n % 90), topic_id=id_), 0, bytes((1, TOPIC, 0))))
        if n % 1000 > 400:
            body = partition(partition_id=n, topic_id=id_, replicas=list(range(n % 7)), removing_replicas=[n])
            out.add(encode(body, 0, bytes((1, PARTITION, 0))))
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(one.data for one in out.finish()))
    return path


def rows(decoded: metadata.Decoded, family: programs.Family) -> list[pa.RecordBatch]:
    return [decoded.table(family.kinds[slot]) for slot in decoded.rows]


def test_what_is_held_stays_as_it_was(path: Path) -> None:
    family = programs.family("released")
    alone = [metadata.Decoded(family, chunk, SMALL_CHUNKS) for chunk in chunks(path, SMALL_CHUNKS)]
    expected = [[table.to_pylist() for table in rows(one, family)] for one in alone]
    assert len(expected) > 20
    rooms, held, now = Rooms(), [], []
    for number, chunk in enumerate(chunks(path, SMALL_CHUNKS)):
        tables = rows(metadata.Decoded(family, chunk, SMALL_CHUNKS, rooms), family)
        now.append([table.to_pylist() for table in tables])
        held.append([table.slice(1) for table in tables] if number % 3 else None)
    assert now == expected
    for after, before in zip(held, expected, strict=True):
        assert after is None or [table.to_pylist() for table in after] == [some[1:] for some in before]


def test_memory_comes_back_with_its_last_reader(path: Path) -> None:
    family, rooms = programs.family("released"), Rooms()
    first, second, third, *_ = chunks(path, SMALL_CHUNKS)

    def offsets(chunk: Chunk) -> pa.Array:
        return metadata.Decoded(family, chunk, SMALL_CHUNKS, rooms).table(family.kinds[TOPIC])["offset"]

    def address(array: pa.Array) -> int:
        return int(array.buffers()[1].address)

    kept = offsets(first).slice(2)
    assert address(offsets(second)) != address(kept)
    held = offsets(second)
    places = {address(kept), address(held)}
    del kept
    assert address(offsets(third)) in places - {address(held)}


def test_a_log_in_typed_columns_is_the_same_however_it_is_cut(path: Path) -> None:
    log = metadata_log(path.parent)
    whole = metadata.tables(log, "released")
    cut = metadata.tables(log, "released", SMALL_CHUNKS)
    assert whole.keys() == cut.keys()
    for name, table in whole.items():
        assert table.combine_chunks().equals(cut[name].combine_chunks())
