"""Memory that goes round between chunks: never while somebody reads it, always when nobody does any longer."""

from pathlib import Path

import pyarrow as pa
import pytest

from actors.metadata.batches import BatchWriter
from actors.replay.columns import column_plans, metadata, record_columns
from actors.replay.logs.chunks import Chunk, ChunkReading, chunks
from actors.replay.logs.copies import metadata_log
from actors.wire.messages import encode, message
from fastpath.arrow import batches_to_columns
from fastpath.bytes.byte_builder import Rooms
from fastpath.records.batch import Builder

TOPIC, PARTITION = 2, 3
SMALL_CHUNKS = ChunkReading(chunk_bytes=4096)


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


def rows(decoded: metadata.Decoded, family: column_plans.Family) -> list[pa.RecordBatch]:
    return [decoded.table(family.kinds[slot]) for slot in decoded.rows]


def test_what_is_held_stays_as_it_was(path: Path) -> None:
    family = column_plans.family("released")
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
    family, rooms = column_plans.family("released"), Rooms()
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


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A topic's log, with null keys and values and no two values alike."""
    data, offset = b"", 0
    while offset < 2000:
        builder = Builder(offset, timestamp_ms=1_600_000_000_000 + offset)
        for n in range(offset, offset + 1 + offset % 17):
            builder.append(None if n % 3 else b"key %d" % n, None if n % 7 == 0 else b"value %d " % n * (n % 9))
        data += builder.build()
        offset += 1 + offset % 17
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)
    return path


def test_records_of_topics_that_are_held_stay_as_they_were(orders: Path) -> None:
    decoder = record_columns.Decoder("orders", 3, record_columns.COLUMNS, SMALL_CHUNKS)
    held, now = [], []
    for number, chunk in enumerate(chunks(orders, SMALL_CHUNKS)):
        alone = batches_to_columns.unpack(chunk.data, chunk.headers, chunk.starts, chunk.ends)
        for batch in decoder.batches(chunk):
            assert batch["offset"].to_pylist() == alone["offset"].tolist()
            assert batch["value"].buffers()[2].to_pybytes() == alone["value"][1].tobytes()
            now.append(batch.to_pylist())
            held.append(batch.slice(1) if number % 3 else None)
    assert len(now) > 20
    assert [row["offset"] for rows in now for row in rows] == list(range(sum(map(len, now))))
    assert {(row["topic"], row["partition"]) for rows in now for row in rows} == {("orders", 3)}
    for after, before in zip(held, now, strict=True):
        assert after is None or after.to_pylist() == before[1:]


def test_columns_of_topics_are_built_where_others_were(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes back last is what the next chunk gets, though another decoder asks."""
    first, second, *_ = chunks(orders, SMALL_CHUNKS)

    def batch(chunk: Chunk) -> pa.RecordBatch:
        (made,) = record_columns.Decoder("orders", 0, ["value"], SMALL_CHUNKS).batches(chunk)
        return made

    monkeypatch.setattr(record_columns, "ROOMS", Rooms())
    kept = batch(first)
    address = kept["value"].buffers()[2].address
    assert batch(second)["value"].buffers()[2].address != address
    del kept
    places = {batch(chunk)["value"].buffers()[2].address for chunk in (first, second)}
    assert len(places) == 1
