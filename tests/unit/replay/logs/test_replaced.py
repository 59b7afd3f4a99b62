"""Segments that the log cleaner replaces between the planning of a read and the read itself."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk
from actors.replay import source
from actors.replay.follow import DataLoss, Followed
from actors.replay.logs.files import Damage
from actors.replay.read_options import read_options, scan
from fastpath.records import batch
from fastpath.records.scan import scan as headers_of
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT
from tests.unit.broker.log.logs import content, put, settings
from tests.unit.replay.test_compacted import cleaned

Planned = Callable[[], Iterable[int]]
"""The offsets of one part of a read, when it is read."""


def log_of(root: Path, first: int = 0, last: int = 120) -> PartitionLog:
    """Several segments; each key some twenty times, the values of unequal length."""
    log = PartitionLog(
        LocalDisk(str(root)), "topic-0", settings(**{**COMPACT, "segment_bytes": 2000}), bytes(range(16))
    )
    written(log, first, last)
    return log


def written(log: PartitionLog, first: int, last: int) -> None:
    for number in range(first, last):
        builder = batch.Builder(timestamp_ms=1_700_000_000_000, attributes=number % 5)
        for one in range(3):
            builder.append(b"k%d" % ((number * 3 + one) % 17), b"v%d" % number * (number % 7))
        put(log, builder.build())
        if number % 5 == 4:
            log.roll(0)
    log.flush()


def left(log: PartitionLog) -> list[int]:
    """The offsets that its files hold."""
    data = content(log)
    return [one.offset for head in batch.headers(data) for one in batch.records(data, head.position)]


def plain(root: Path) -> list[Planned]:
    """Plan as `replay.read` does."""
    options = read_options({"path": str(root), "splitBytes": "400"})
    return [lambda split=split: _offsets(scan(options, split, ("offset",))) for split in options.planned()]  # type: ignore[misc]


def stream(root: Path) -> list[Planned]:
    """Plan as a stream does."""
    one = Followed({"path": str(root), "splitBytes": "400"})
    start = one.beginning()
    splits = one.splits(start, one.latest(start, None, None))
    return [lambda split=split: _offsets(one.read(split, ("offset",))) for split in splits]  # type: ignore[misc]


def spark(root: Path) -> list[Planned]:
    """Plan as Spark does, without a session."""
    doors = pytest.importorskip("actors.replay.spark")
    reader = doors.Files({"path": str(root), "splitBytes": "400", "columns": "offset"})
    made = reader.reader(reader.schema())
    return [lambda one=one: _offsets(made.read(one)) for one in made.partitions()]  # type: ignore[misc]


def ray(root: Path) -> list[Planned]:
    """Plan as Ray does, without a cluster."""
    doors = pytest.importorskip("actors.replay.ray")
    tasks = doors.LogDatasource(
        read_options({"path": str(root), "splitBytes": "400", "columns": "offset"})
    ).get_read_tasks(1)
    return [lambda task=task: _offsets(task()) for task in tasks]  # type: ignore[misc]


def _offsets(batches: Iterable[Any]) -> list[int]:
    return [offset for one in batches for offset in one.column("offset").to_pylist()]


def read(parts: Sequence[Planned]) -> list[int]:
    return [offset for part in parts for offset in part()]


DOORS = pytest.mark.parametrize("door", [plain, stream, spark, ray])


@DOORS
def test_a_cleaning_between_planning_and_reading_gives_what_is_left(door: Any, tmp_path: Path) -> None:
    log = log_of(tmp_path)
    parts = door(tmp_path)
    assert len(parts) > 5
    before = len(log.segments)
    cleaned(log)
    assert len(log.segments) < before - 2, "segments are gone, too"
    assert read(parts) == left(log)


@DOORS
def test_a_cleaning_in_the_middle_of_a_read_gives_each_record_once(door: Any, tmp_path: Path) -> None:
    log = log_of(tmp_path)
    whole = left(log)
    parts = door(tmp_path)
    for half in (1, len(parts) // 2, len(parts) - 1):
        shutil.rmtree(tmp_path / "topic-0")
        log = log_of(tmp_path)
        parts = door(tmp_path)
        seen = read(parts[:half])
        cleaned(log)
        after = read(parts[half:])
        assert seen == whole[: len(seen)]
        assert after == [offset for offset in left(log) if offset >= whole[len(seen)]]


def test_a_file_that_is_mapped_is_read_to_its_end(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    whole = left(log)
    rows = scan(read_options({"path": str(tmp_path), "chunkBytes": "100"}), read_split(tmp_path), ("offset",))
    seen = list(next(rows).column("offset").to_pylist())
    cleaned(log)
    seen += _offsets(rows)
    assert seen == whole[:15], "a segment of five batches"


def read_split(root: Path) -> Any:
    return read_options({"path": str(root), "splitBytes": "1000000"}).planned()[0]


def test_two_cleanings_and_more_records(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    parts = stream(tmp_path)
    end = log.log_end_offset
    cleaned(log)
    written(log, 120, 200)
    cleaned(log)
    assert read(parts) == [offset for offset in left(log) if offset < end]


def test_segments_that_overlap_while_they_are_swapped_are_read_once(tmp_path: Path) -> None:
    """The new segment has its name already, and those that it replaces are still there."""
    log = log_of(tmp_path)
    parts = plain(tmp_path)
    shutil.copytree(tmp_path / "topic-0", tmp_path / "aside")
    cleaned(log)
    new = {path.name for path in (tmp_path / "topic-0").glob("*.log")}
    for path in (tmp_path / "aside").glob("*.log"):
        if path.name not in new:
            shutil.copy(path, tmp_path / "topic-0")
    shutil.rmtree(tmp_path / "aside")
    for found in (read(plain(tmp_path)), read(parts)):
        assert found == sorted(set(found))
        assert set(left(log)) <= set(found)


@pytest.mark.parametrize("gone", [0, 2])
def test_what_retention_deleted_is_no_cleaning(gone: int, tmp_path: Path) -> None:
    log = log_of(tmp_path)
    parts, followed = plain(tmp_path), stream(tmp_path)
    (tmp_path / log.segments[gone].log.path).unlink()
    with pytest.raises(FileNotFoundError):
        read(parts)
    with pytest.raises(DataLoss):
        read(followed)


def test_a_log_that_was_truncated_and_written_anew_is_no_cleaning(tmp_path: Path) -> None:
    log_of(tmp_path)
    followed = stream(tmp_path)
    shutil.rmtree(tmp_path / "topic-0")
    log_of(tmp_path, last=40)
    with pytest.raises(DataLoss):
        read(followed)


def test_a_split_of_before_says_no_fingerprint(tmp_path: Path) -> None:
    """Checkpoints of streams outlive versions."""
    log = log_of(tmp_path)
    splits = [one._replace(fingerprint=-1) for one in read_options({"path": str(tmp_path)}).planned()]
    found = [offset for one in splits for offset in _offsets(source.read(one, ("offset",)))]
    assert found == left(log)


@pytest.mark.parametrize("split_bytes", [1, 300, 1 << 20])
def test_a_batch_that_is_damaged_between_planning_and_reading_is_told(split_bytes: int, tmp_path: Path) -> None:
    log = log_of(tmp_path)
    whole = left(log)
    splits = read_options({"path": str(tmp_path), "splitBytes": str(split_bytes)}).planned()
    path = tmp_path / log.segments[0].log.path
    hurt = bytearray(path.read_bytes())
    hurt[16] ^= 1  # the magic of the first batch
    path.write_bytes(hurt)
    told: list[Damage] = []
    found = [offset for one in splits for offset in _offsets(source.read(one, ("offset",), True, told.append))]
    assert found == whole[3:] and [one.position for one in told] == [0]


@pytest.mark.parametrize("kept", [lambda i: i == 4, lambda i: i in (0, 4), lambda i: i != 2])
def test_another_file_of_the_same_inode_is_another_file(kept: Callable[[int], bool], tmp_path: Path) -> None:
    """A file system gives the inode of a file that is gone to the next one, and the first batch may be the same."""
    log_of(tmp_path, last=5)
    splits = read_options({"path": str(tmp_path)}).planned()
    (split,) = splits
    path, inode = Path(split.path), Path(split.path).stat().st_ino
    starts = [int(one["position"]) for one in headers_of(path.read_bytes(), 0, path.stat().st_size)[0]] + [split.end]
    assert len(starts) == 6
    data = path.read_bytes()
    path.write_bytes(b"".join(data[starts[i] : starts[i + 1]] for i in range(5) if kept(i)))
    assert path.stat().st_ino == inode
    found = [offset for one in splits for offset in _offsets(source.read(one, ("offset",)))]
    each = split.records // 5
    assert found == [offset for offset in range(split.records) if kept(offset // each)]
