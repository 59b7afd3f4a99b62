"""A snapshot that takes the place of what a broker knows."""

import errno

import pytest

from actors.metadata import ops
from actors.metadata import snapshot as snapshots
from actors.metadata.ops import CorruptMetadata
from actors.metadata.snapshot import encode
from actors.ports import DiskFull
from actors.raft.messages import SnapshotId
from fastpath.records import batch as batches
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab
from tests.unit.node.roles.loading import load_into


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
        load_into(lab.broker(1), OneShort(whole, int(len(whole) * (1 - left_out))), snapshot)
    assert cache.topic_name(TOPIC_ID) == "t" and [cache.image.topic_name(row) for row in cache.image.topics()] == ["t"]
    assert cache.image.next_offset == before and cache.image.partition(cache.image.topic("t"), 0) >= 0
    load_into(lab.broker(1), whole, snapshot)
    assert [cache.image.topic_name(row) for row in cache.image.topics()] == ["t", "u"]


@pytest.mark.parametrize("damage", ["none", "short", "rotten"])
def test_a_broker_shows_what_it_knew_until_a_snapshot_is_whole(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One slice a batch. A snapshot that ends before its footer, or rots meanwhile, is never shown."""
    monkeypatch.setattr(snapshots, "SLICE_BYTES", 1)
    lab = Lab(2)
    lab.topic([1, 2])
    lab.cut = {1}
    for number in range(1, 40):
        lab.commit(ops.TopicSet(f"u{number}", bytes([7 * number % 256, *range(15)])))
    lab.settle()
    image, broker = lab.broker(2).cache.image, lab.broker(1)
    whole = bytearray(b"".join(encode(image.pin(), 1, 2, lab.now.wall_ms, None)))
    headers = batches.headers(whole)
    if damage == "short":
        del whole[headers[-1].position :]
    old, known = broker.cache.image, broker.cache.image.next_offset
    slices, done = broker.loading(bytes(whole), SnapshotId(image.next_offset, 1)), 0
    if damage == "rotten":
        whole[headers[30].position + 70] ^= 1
        slices = broker.loading(memoryview(whole), SnapshotId(image.next_offset, 1))
    try:
        for _ in slices:
            done += 1
            assert broker.cache.image is old and [old.topic_name(row) for row in old.topics()] == ["t"]
            lab.pass_ms(10)
            assert broker._snapshots.busy, "a snapshot of what is about to be replaced is of no use"
    except CorruptMetadata:
        assert damage != "none" and done >= 25
        assert broker.cache.image is old and old.next_offset == known
    else:
        assert damage == "none" and done >= 25
        for _ in broker.loaded():
            pass
        assert broker.cache.image.topic_count == 40 and broker.cache.image.next_offset == image.next_offset
        broker.cache.image.check()
