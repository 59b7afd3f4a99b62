"""How a plan becomes the tasks of Ray Data."""

import pytest

pytest.importorskip("ray.data", reason="Ray Data is not installed")

from actors.pipeline import ray as door
from actors.pipeline.planning import Slice


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
