"""A snapshot that takes the place of what a broker knows."""

import errno

import pytest

from actors.metadata import ops
from actors.metadata.snapshot import encode
from actors.ports import DiskFull
from actors.raft.messages import SnapshotId
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab


class OneShort:
    """A snapshot of which one piece is read, and then there is no descriptor."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data, self._piece = memoryview(data), piece

    @property
    def size(self) -> int:
        return len(self._data)

    def read_cold(self, position: int, size: int) -> memoryview:
        if position:
            raise DiskFull(errno.EMFILE, "no descriptor")
        return self._data[: self._piece]


@pytest.mark.parametrize("left_out", [0.01, 0.5])
def test_a_broker_that_cannot_read_a_snapshot_to_its_end_knows_what_it_knew(left_out: float) -> None:
    """It waits for a descriptor, and serves meanwhile: clients were told that their topics do not exist."""
    lab = Lab(2)
    lab.topic([1, 2])
    lab.cut = {1}
    lab.commit(ops.TopicSet("u", bytes(range(1, 17))))
    lab.settle()
    image, cache = lab.broker(2).cache.image, lab.broker(1).cache
    snapshot = SnapshotId(image.next_offset, 1)
    whole = b"".join(encode(image.pin(), 1, 2, lab.now.wall_ms, None))
    before = cache.image.next_offset
    with pytest.raises(DiskFull):
        lab.broker(1).load(OneShort(whole, int(len(whole) * (1 - left_out))), snapshot)
    assert cache.topic_name(TOPIC_ID) == "t" and [cache.image.topic_name(row) for row in cache.image.topics()] == ["t"]
    assert cache.image.next_offset == before and cache.image.partition(cache.image.topic("t"), 0) >= 0
    lab.broker(1).load(whole, snapshot)
    assert [cache.image.topic_name(row) for row in cache.image.topics()] == ["t", "u"]
