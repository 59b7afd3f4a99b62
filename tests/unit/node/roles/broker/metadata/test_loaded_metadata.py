"""A snapshot that takes the place of what a broker knows."""

import errno

import pytest

from actors.metadata import ops
from actors.metadata import snapshot as snapshots
from actors.metadata.ops import CorruptMetadata
from actors.metadata.snapshot import encode
from actors.node.roles.broker.metadata import metadata_publisher
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


FEW, MANY = 8, 40


def behind(lab: Lab) -> tuple[bytes, SnapshotId]:
    """Broker 1 has missed that broker 2 leads all of `t`, that `gone` is deleted and that `new` is there. The snapshot that
    says so."""
    lab.topic([1, 2], partitions=MANY)
    lab.topic([1, 2], "gone", bytes(range(1, 17)), 12)
    lab.cut = {1}
    for number in range(MANY):
        lab.change([1, 2], 2, number)
    lab.commit(ops.TopicGone(bytes(range(1, 17)), "gone"))
    lab.topic([1, 2], "new", bytes(range(2, 18)), 12)
    return snapshot_of(lab)


def snapshot_of(lab: Lab) -> tuple[bytes, SnapshotId]:
    image = lab.broker(2).cache.image
    lab.seen[1], lab.cut = len(lab.log), {1}
    return b"".join(encode(image.pin(), 1, 2, lab.now.wall_ms, None)), SnapshotId(image.next_offset, 1)


def follows(lab: Lab) -> list[int]:
    """The partitions of `t` that broker 1 takes from broker 2."""
    return [number for number in range(MANY) if lab.partition(1, number).leader == 2]


def compared(lab: Lab) -> None:
    """Turns until everything is compared; the replicas are what the metadata says then."""
    broker, turns = lab.broker(1), 0
    while broker.applier.compares or broker.replicas.arriving or broker.replicas.leaving:
        assert broker.deadline_ms() == 0
        lab.nodes[1].turn()
        turns += 1
        assert turns < 100
    image = broker.cache.image
    hosted = {(image.topic_name(image.topic_of(row)), image.number(row)): row for row in image.rows_of(1).data}
    here = {(one.topic, one.number): one for one in broker.replicas}
    assert here.keys() == hosted.keys()
    for key, row in hosted.items():
        one = here[key]
        assert (one.leader, one.leader_epoch) == (image.leader(row), image.leader_epoch(row)), key
        assert one.isr.partition_epoch == image.partition_epoch(row) and one.isr.isr == set(image.isr(row)), key


def test_a_snapshot_is_compared_a_few_replicas_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_publisher, "COMPARED_A_TURN", FEW)
    lab = Lab(2)
    load_into(lab.broker(1), *behind(lab))
    assert follows(lab) == list(range(FEW)), "the others go by what was known before"
    assert lab.partition(1, 0, "gone") is not None
    lab.nodes[1].turn()
    assert follows(lab) == list(range(2 * FEW))
    compared(lab)
    assert follows(lab) == list(range(MANY)) and lab.partition(1, 0, "gone") is None
    assert lab.partition(1, 11, "new").leads


def test_what_the_log_says_amid_a_comparison_holds_at_once_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_publisher, "COMPARED_A_TURN", FEW)
    lab = Lab(2)
    load_into(lab.broker(1), *behind(lab))
    lab.cut = set()
    last = MANY - 1
    lab.change([1, 2], 1, last)
    assert lab.partition(1, last).leads and last - 1 not in follows(lab)
    again = bytes(range(3, 19))
    lab.commit(ops.TopicGone(bytes(range(2, 18)), "new"))
    lab.commit(ops.TopicSet("new", again), ops.PartitionsSet(again, range(2), [[1, 2]] * 2, [[1, 2]] * 2))
    lab.commit(ops.PartitionsSet(TOPIC_ID, [last - 1], [[2]], [[2]], leader_epoch=[9], partition_epoch=[9]))
    compared(lab)
    assert lab.partition(1, last).leads and lab.partition(1, last - 1) is None
    assert lab.partition(1, 1, "new").topic_id == again and lab.partition(1, 2, "new") is None


def test_a_newer_snapshot_amid_a_comparison_is_compared_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_publisher, "COMPARED_A_TURN", FEW)
    lab = Lab(2)
    load_into(lab.broker(1), *behind(lab))
    lab.nodes[1].turn()
    lab.change([1, 2], 1, 0)
    lab.commit(ops.PartitionsSet(TOPIC_ID, [1], [[2]], [[2]], leader_epoch=[9], partition_epoch=[9]))
    assert lab.partition(1, 0).leader == 2
    load_into(lab.broker(1), *snapshot_of(lab))
    assert lab.partition(1, 0).leads
    compared(lab)
    assert lab.partition(1, 1) is None


def test_a_broker_that_stops_amid_a_comparison_stops_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_publisher, "COMPARED_A_TURN", FEW)
    lab = Lab(2)
    load_into(lab.broker(1), *behind(lab))
    lab.cut = set()
    lab.broker(1).shutdown()
    lab.settle()
    lab.start(1)
    lab.pass_ms(2_000)
    compared(lab)
    assert lab.partition(1, 0, "gone") is None


def test_files_that_a_snapshot_assigns_are_not_removed_before_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has found files of replicas that were moved away, and then back: the snapshot says so. It also says that this
    broker is registered, so that it serves before everything is compared."""
    monkeypatch.setattr(metadata_publisher, "COMPARED_A_TURN", FEW)
    lab = Lab(2)
    lab.topic([1, 2], partitions=MANY)
    for number in range(MANY):
        lab.produce(2, b"x", number=number)
        lab.produce(1, b"x", number=number)
    lab.settle()
    lab.crash(1)
    numbers, epochs = range(MANY), [3] * MANY
    away = ops.PartitionsSet(TOPIC_ID, numbers, [[2]] * MANY, [[2]] * MANY, leader_epoch=epochs, partition_epoch=epochs)
    lab.commit(away)
    lab.hold_heartbeats = True
    lab.start(1)
    lab.nodes[1].turn()
    broker = lab.broker(1)
    assert broker.logs.in_use and not broker.logs.claims.settled and len(broker.logs.claims.unclaimed) == MANY
    lab.cut = {1}
    epochs = [4] * MANY
    lab.commit(
        ops.PartitionsSet(TOPIC_ID, numbers, [[1, 2]] * MANY, [[2]] * MANY, leader_epoch=epochs, partition_epoch=epochs)
    )
    load_into(broker, *snapshot_of(lab))
    broker.heartbeats.was_serving = True
    monkeypatch.setattr(broker.heartbeats, "tick", lambda now: None)
    lab.nodes[1].turn()
    assert broker.applier.compares and not broker.logs.claims.settled
    compared(lab)
    lab.nodes[1].turn()
    assert broker.logs.claims.settled
    assert [lab.partition(1, number).log.log_end_offset for number in range(MANY)] == [1] * MANY
