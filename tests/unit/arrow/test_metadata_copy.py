"""A copy that is kept within a bound: a newer snapshot beside the log, and what is let go in front of it."""

from pathlib import Path

import pytest

from actors import replay
from actors.arrow.metadata_copy import Copy
from actors.client.operations.tail import Slice
from actors.client.operations.uncommitted import Batches, OffsetAndEpoch
from actors.ports import Batch
from fastpath.records.scan import scan
from tests.unit.arrow.test_metadata_replay import same, snapshot
from tests.unit.replay import metadata_logs


def batches_of(batch: Batch) -> Batches:
    """A batch as a tail gives it."""
    headers, _, _ = scan(memoryview(batch.data), 0, len(batch.data), True)
    return Batches(memoryview(batch.data), headers)


def slices(directory: Path, offset: int, size: int = 200) -> list[Slice]:
    """A snapshot in pieces."""
    made = snapshot(directory, offset)
    id, data = OffsetAndEpoch(made.end_offset, made.epoch), memoryview(made.data)
    return [Slice(id, at, data[at : at + size], len(data)) for at in range(0, len(data), size)]


def names(copy: Copy) -> list[str]:
    """The names of its files, in few letters."""
    return sorted(one.name.lstrip("0") for one in copy.path.iterdir())


def test_a_copy_begins_with_the_newer_snapshot_once_it_is_cut(tmp_path: Path) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 1)
    directory = metadata_logs.write(tmp_path, log)
    offset, end = log[6].last_offset + 1, log[-1].last_offset + 1
    with Copy(segment_bytes=1) as copy:
        for one in log:
            copy.take(batches_of(one))
        before = names(copy)
        assert len(before) == len(log) and copy.bytes == sum(len(one.data) for one in log)
        *some, last = slices(directory, offset)
        for piece in some:
            copy.mark(piece)
        assert copy.marked is None, "it is not whole"
        same(replay.state(copy.path), replay.state(directory), "controllers")
        copy.mark(last)
        assert copy.marked == offset
        same(replay.state(copy.path, 3), replay.state(directory, 3), "controllers")
        copy.cut()
        assert copy.begin == offset and copy.marked is None and len(names(copy)) < len(before)
        for at in (offset, end):
            same(replay.state(copy.path, at), replay.state(directory, at), "controllers")
        with pytest.raises(replay.NothingToRead):
            replay.state(copy.path, offset - 2)


def test_a_newer_snapshot_that_is_not_whole_leaves_nothing(tmp_path: Path) -> None:
    log = metadata_logs.batches(metadata_logs.ops(), 1)
    directory = metadata_logs.write(tmp_path, log)
    with Copy() as copy:
        for one in log:
            copy.take(batches_of(one))
        before = names(copy)
        copy.mark(slices(directory, log[6].last_offset + 1)[0])
        assert names(copy) != before
        copy.forget_mark()
        assert names(copy) == before and copy.marked is None
