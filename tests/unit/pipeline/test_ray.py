"""How a plan becomes the tasks of Ray Data."""

from typing import Any

import pytest

pytest.importorskip("ray.data", reason="Ray Data is not installed")

from actors.pipeline import ray as door
from actors.pipeline.planning import Slice
from actors.replay import ray as files


def sizes(cores: int, *offsets: int) -> list[list[int]]:
    """The offsets of the tasks of each partition, for partitions with so many."""
    slices = tuple(Slice("t", number, 5, 5 + count, bytes(16)) for number, count in enumerate(offsets))
    found: list[list[int]] = [[] for _ in offsets]
    for one in door.Topics({}, slices, ("key",)).pieces(cores):
        found[one.partition].append(one.end - one.first)
    return found


def test_a_large_partition_is_read_by_many_tasks_however_many_small_ones_there_are() -> None:
    large, *small = sizes(50, 10_000_000, *99 * [10])
    assert len(large) == 50 and set(large) == {200_000} and small == 99 * [[10]]
    assert sizes(4, 10_000_000, 10) == [4 * [2_500_000], [10]], "no more tasks than there are cores, but for partitions"
    assert sizes(200, 100, 100) == [[100], [100]]
    assert sizes(0, 400_000) == sizes(1, 400_000) == [[400_000]]
    assert sizes(9) == []


@pytest.mark.parametrize("is_old", [True, False])
def test_a_task_is_made_as_older_and_newer_rays_take_it(monkeypatch: pytest.MonkeyPatch, is_old: bool) -> None:
    made: list[dict[str, Any]] = []
    metadata: list[dict[str, Any]] = []

    class Old:
        def __init__(self, read_fn: Any, metadata: Any) -> None:
            made.append({})

    class New:
        def __init__(self, read_fn: Any, metadata: Any, schema: Any = None, per_task_row_limit: Any = None) -> None:
            made.append({"schema": schema, "limit": per_task_row_limit})

    monkeypatch.setattr(files, "ReadTask", Old if is_old else New)
    monkeypatch.setattr(files, "BlockMetadata", lambda **told: metadata.append(told))
    files.read_task(iter, 7, "here", "a schema", 5)  # type: ignore[arg-type]
    assert made == [{} if is_old else {"schema": "a schema", "limit": 5}]
    more = {"schema": "a schema"} if is_old else {}
    assert metadata == [{"num_rows": None, "size_bytes": 7, "exec_stats": None, "input_files": ("here",)} | more]
