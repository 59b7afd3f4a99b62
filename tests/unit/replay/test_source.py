"""Splits: every record once wherever a file is cut, and values that travel."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from actors import replay
from fastpath.records.batch import Builder
from tests.unit.replay import metadata_logs
from tests.unit.replay.written import append, batches

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"


def write(directory: Path, batches: int = 20, each: int = 7, name: str = "orders-3") -> Path:
    """A topic's partition of two segments; keys and values name their offset."""
    folder = directory / name
    folder.mkdir(parents=True)
    for first in (0, batches // 2):
        parts = []
        for index in range(first, first + batches // 2):
            builder = Builder(index * each, 5, timestamp_ms=1_000 + index)
            for at in range(index * each, (index + 1) * each):
                builder.append(None if at % 5 == 0 else f"k{at}".encode(), f"v{at}".encode(), 1_000 + index)
            parts.append(bytes(builder.build()))
        (folder / f"{first * each:020}.log").write_bytes(b"".join(parts))
    return folder


def offsets(splits: list[replay.Split], **options: object) -> list[int]:
    found: list[int] = []
    for split in splits:
        for batch in replay.read(pickle.loads(pickle.dumps(split)), ["offset"], **options):  # type: ignore[arg-type]
            found += batch.column(0).to_pylist()
    return found


@pytest.mark.parametrize("bytes_max", [1, 300, 1000, 1 << 30])
def test_splits_hold_every_record_once_and_in_order(tmp_path: Path, bytes_max: int) -> None:
    splits = replay.open(write(tmp_path)).splits(bytes_max)
    assert offsets(splits) == list(range(140))
    assert sum(split.records for split in splits) == 140
    assert [split.base_offset for split in splits[1:]] == [split.next_offset for split in splits[:-1]]


def test_splits_of_a_metadata_log_hold_every_record_once() -> None:
    source = replay.open(GOLDEN)
    assert (source.table, source.family) == ("records", "released")
    whole, cut = source.splits(), source.splits(4096)
    assert len(whole) == 1 and len(cut) > 15
    one, many = (pa.Table.from_batches([b for s in splits for b in replay.read(s)]) for splits in (whole, cut))
    assert one.num_rows == 1237 and many.equals(one.combine_chunks())


def test_offsets_cut_inside_batches(tmp_path: Path) -> None:
    source = replay.open(write(tmp_path))
    key = ("orders", 3)
    splits = source.splits(200, {key: 10}, {key: 90})
    assert offsets(splits) == list(range(10, 90))
    assert min(split.next_offset for split in splits) > 10 and max(split.base_offset for split in splits) < 90
    (metadata,) = replay.open(GOLDEN).splits(1 << 30, {("__cluster_metadata", 0): 17}, {("__cluster_metadata", 0): 999})
    assert offsets([metadata]) == list(range(17, 999))


@pytest.mark.parametrize("bytes_max", [1, 300, 1 << 30])
def test_a_torn_batch_in_front_of_another_segment_is_damage(tmp_path: Path, bytes_max: int) -> None:
    folder = write(tmp_path)
    first = folder / f"{0:020}.log"
    size = first.stat().st_size
    begin = replay.open(folder).splits(1)[9].begin
    os.truncate(first, size - 10)
    splits = replay.open(folder).splits(bytes_max)
    with pytest.raises(replay.CorruptLog, match=f"{first}, byte {begin}: the bytes end inside the batch"):
        offsets(splits)
    told: list[replay.Damage] = []
    assert offsets(splits, on_damage=told.append) == [*range(63), *range(70, 140)]
    assert [(one.position, one.end) for one in told] == [(begin, size - 10)]


def test_an_end_that_is_not_behind_the_first_offset_leaves_nothing(tmp_path: Path) -> None:
    metadata = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 12))
    for path, key in ((write(tmp_path), ("orders", 3)), (metadata, ("__kafka_metadata", 0))):
        for first, end in ((5, 3), (3, 3), (12, 2)):
            for split in replay.open(path).splits(1 << 30, {key: first}, {key: end}):
                assert [batch.num_rows for batch in replay.read(split)] == [], (path, first, end)


def test_a_file_that_is_being_written_ends_before_the_torn_batch(tmp_path: Path) -> None:
    folder = write(tmp_path)
    last = folder / f"{70:020}.log"
    whole = last.read_bytes()
    source = replay.open(folder)
    end = source.splits()[-1].end
    for tail in (whole[:-1], whole + whole[:100], whole + bytes(500)):
        last.write_bytes(tail)
        splits = source.splits()
        assert splits[-1].end <= end
        assert offsets(splits) == list(range(140 if len(tail) > len(whole) else 133))
        assert source.ends() == {("orders", 3): 140 if len(tail) > len(whole) else 133}
    assert source.beginnings() == {("orders", 3): 0}


@pytest.mark.parametrize("bytes_max", [1, 450, 1 << 30])
def test_damage_is_told_once_and_costs_only_its_batch(tmp_path: Path, bytes_max: int) -> None:
    folder = write(tmp_path)
    first = folder / f"{0:020}.log"
    data = bytearray(first.read_bytes())
    (split, *_) = replay.open(folder).splits(1)
    data[split.end + 70] ^= 1  # in the second batch's records
    first.write_bytes(data)
    splits = replay.open(folder).splits(bytes_max)
    with pytest.raises(replay.CorruptLog, match=f"{first}, byte {split.end}: .*CRC"):
        offsets(splits)
    told: list[replay.Damage] = []
    assert offsets(splits, on_damage=told.append) == [*range(7), *range(14, 140)]
    assert [(one.path, one.position) for one in told] == [(str(first), split.end)]
    assert offsets(splits, verify=False) == list(range(140))


def test_columns_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    (split, _) = replay.open(write(tmp_path)).splits()
    with pytest.raises(ValueError, match="'offsets'"):
        list(replay.read(split, ["offsets"]))
    (split,) = replay.open(GOLDEN).splits()
    with pytest.raises(ValueError, match="'offsets'"):
        list(replay.read(split, ["offsets"]))


def test_what_is_read_has_the_schema_that_was_said(tmp_path: Path) -> None:
    log, records = replay.open(write(tmp_path)), replay.open(GOLDEN)
    for source, columns in ((log, None), (log, ("headers", "key")), (records, None), (records, ("json", "topic"))):
        for split in source.splits():
            for batch in replay.read(split, columns):
                batch.validate(full=True)
                assert batch.schema.equals(source.schema(columns))


def test_reading_loads_neither_pandas_nor_the_machines() -> None:
    program = f"""
import sys
from actors import replay
assert "pyarrow" not in sys.modules
replay.state({str(GOLDEN)!r}, 800, ["partitions"])
for split in replay.open({str(GOLDEN)!r}).splits():
    assert sum(batch.num_rows for batch in replay.read(split)) == 1237
print(sorted({{"pandas", "ray", "pyspark", "duckdb", "asyncio", "actors.node.node"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_of_several_copies_the_one_counts_that_reaches_furthest(tmp_path: Path) -> None:
    write(tmp_path / "broker-1", 10)
    write(tmp_path / "broker-2", 20)
    write(tmp_path / "broker-3", 20, name="orders-4")
    source = replay.open(tmp_path)
    assert source.ends() == {("orders", 3): 140, ("orders", 4): 140}
    assert sorted(offsets(source.splits())) == sorted([*range(140), *range(140)])
    for node, end in (("controller-1", 9), ("controller-2", 15)):
        metadata_logs.write(
            tmp_path / node, [one for one in metadata_logs.batches(metadata_logs.ops(), 1) if one.last_offset < end]
        )
    assert replay.open(tmp_path).ends() == {("__kafka_metadata", 0): 15}


def test_a_copy_that_rolled_earlier_does_not_reach_further(tmp_path: Path) -> None:
    ahead, lagging = write(tmp_path / "broker-1", 20), write(tmp_path / "broker-2", 20)  # segments at 0 and 70
    (ahead / f"{70:020}.log").write_bytes(b"")
    with (ahead / f"{0:020}.log").open("ab") as file:
        file.write((lagging / f"{70:020}.log").read_bytes())
    (ahead / f"{70:020}.log").unlink()
    (lagging / f"{70:020}.log").write_bytes(b"")
    assert replay.open(tmp_path).ends() == {("orders", 3): 140}, "one segment to 140, before two that end at 70"
    assert offsets(replay.open(tmp_path).splits()) == list(range(140))


@pytest.mark.parametrize("suffix", ["delete", "future", "stray"])
def test_what_is_set_aside_beside_the_logs_is_no_log(tmp_path: Path, suffix: str) -> None:
    write(tmp_path / "broker-1")
    aside = write(tmp_path / "broker-1", name=f"orders-3.{'0af1' * 8}-{suffix}")
    for path in (tmp_path / "broker-1", tmp_path):
        assert replay.open(path).keys == [("orders", 3)]
    assert replay.open(aside).keys == [("orders", 3)], "it is read where it is asked for by itself"


def test_a_path_that_begins_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "broker-1")
    metadata = metadata_logs.write(tmp_path / "controller-1", metadata_logs.batches(metadata_logs.ops(), 1))
    monkeypatch.chdir(folder)
    (split, *_) = replay.open(".").splits()
    assert (split.topic, split.partition) == ("orders", 3)
    assert replay.open(f"{70:020}.log").keys == replay.open("..").keys == [("orders", 3)]
    monkeypatch.chdir(metadata)
    assert replay.open(".").table == replay.open("..").table == "records"
    assert replay.state(".") == replay.state(metadata)
    monkeypatch.chdir("/")
    assert offsets([split]) == list(range(split.base_offset, split.next_offset)), "a split is read from anywhere"


def test_a_log_that_is_truncated_while_it_is_read_ends_there_and_a_split_says_so(tmp_path: Path) -> None:
    """In a process of its own: pages of a mapped file that went end the process that looks at them."""
    folder = write(tmp_path, batches=2000)
    program = f"""
import os
from pathlib import Path
from actors import replay
from actors.replay.logs.chunks import ChunkReading, batches
path = Path({str(folder)!r}, "{0:020}.log")
several = batches(path, ChunkReading(chunk_bytes=1))
next(several)
split, *others = replay.open(path, "log").splits(1)
rows = [batch.num_rows for batch in replay.read(split)]
late = replay.read(others[0]._replace(end=others[-1].end, fingerprint=-1), chunk_bytes=1)
rows += [next(late).num_rows]
os.truncate(path, others[1].begin + 5)
print(rows, len(list(several)))
try:
    list(late)
except replay.FileTruncated as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    said = f"{folder}/{0:020}.log was truncated while it was read, as a running node may do: read it again."
    assert done.stdout == f"[7, 7] 1\n{said}\n", "a split has an end, so what is missing is told; a log has none"


def test_a_log_that_is_truncated_while_it_is_cut_ends_there(tmp_path: Path) -> None:
    folder = write(tmp_path, batches=2000)
    program = f"""
import os
from pathlib import Path
from actors.replay import source
from actors.replay.logs import files
path = Path({str(folder)!r}, "{0:020}.log")
files.LOOK_BYTES = 1
looks, scan, there = [], files.scan, files.still_there
cut = source._cut(path, 1000, source.Split("", 0, 0, "orders", 3, "log", "", 0, 0, 0))
next(cut)
size = path.stat().st_size
os.truncate(path, size - 20_000)
print(size - 21_000 < [*cut][-1].end <= size - 20_000)
files.still_there = lambda data: (len(looks) == 500 and os.truncate(path, 10_000)) or there(data)
files.scan = lambda data, position, *rest, **more: looks.append(0) or scan(data, position, *rest, **more)
print(files.behind(path) == 500 * 7)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\nTrue\n"


def test_a_file_that_is_no_log_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "orders.parquet"
    path.write_bytes(b"PAR1" + bytes(range(200)))
    with pytest.raises(replay.CorruptLog, match=r"orders\.parquet, byte 0: these bytes are no batch header"):
        replay.open(path)
    path.write_bytes(b"short")
    with pytest.raises(replay.CorruptLog, match="byte 0: the bytes end inside the batch"):
        replay.open(path)


def test_a_directory_that_holds_checkpoints_only() -> None:
    state = replay.state(GOLDEN.parents[1] / "snapshots", None, ["controllers", "brokers"])
    assert [(row["controller"], row["voter"]) for row in state["controllers"].to_pylist()] == [
        (2001, True),
        (2002, True),
        (2003, False),
    ]
    assert state["brokers"]["broker"].to_pylist() == [11]
    (split,) = replay.open(GOLDEN.parents[1] / "snapshots").splits()
    assert sum(batch.num_rows for batch in replay.read(split)) == 15


def test_a_segment_that_is_deleted_between_listing_and_planning(tmp_path: Path) -> None:
    """The directory is listed again; what is gone was deleted, and what is left is planned."""
    folder = append(tmp_path, "orders", 0, 0, 50).parent
    (folder / f"{50:020}.log").write_bytes(batches(50, 80, 10))
    found = replay.open(tmp_path, topics=["orders"])
    (folder / f"{0:020}.log").unlink()
    rows = [
        row for split in found.splits() for part in replay.read(split, ["offset"]) for row in part["offset"].to_pylist()
    ]
    assert rows == list(range(50, 80))
    (folder / f"{50:020}.log").unlink()
    with pytest.raises(replay.NothingToRead, match="holds no log"):
        found.splits()


def test_a_topic_that_is_made_again_between_listing_and_planning(tmp_path: Path) -> None:
    """Rows of two topics are not mixed."""
    said = append(tmp_path, "orders", 0, 0, 50).with_name("partition.metadata")
    said.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    found = replay.open(tmp_path, topics=["orders"])
    said.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    with pytest.raises(FileNotFoundError, match="orders-0 is gone: its topic was deleted and made again"):
        found.splits()


def test_a_file_that_is_gone_each_time_is_one_sentence(tmp_path: Path) -> None:
    path = append(tmp_path, "orders", 0, 0, 50)
    found = replay.open(path, "log")
    path.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"0000\.log is gone, which was there when its log was listed: read it again"
    ):
        found.splits()
