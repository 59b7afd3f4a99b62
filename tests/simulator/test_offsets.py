"""Committed offsets outlive their coordinator: the next coordinator returns what was committed, or an error."""

import errno

import pytest

from actors.broker.log.log import PartitionLog
from actors.config import node_config
from tests.simulator.coordinated import FILE, OFFSETS, Coordinated

GROUPS = 30


def _filled() -> Coordinated:
    """Several sealed segments of the offsets topic, complete on three brokers."""
    c = Coordinated()
    c.small_segments()
    for number in range(GROUPS):
        c.commit(f"g{number}", 1000 + number)
    c.world.run_for(3_000)
    return c


def _all_known(c: Coordinated) -> bool:
    return [c.committed(f"g{number}") for number in range(GROUPS)] == [1000 + number for number in range(GROUPS)]


@pytest.mark.parametrize("position", [3, 10, 14, 17, 22, 58, 61, 70, 80, 100], ids=lambda position: f"byte {position}")
def test_a_new_coordinator_finds_rot_in_its_offsets_and_another_one_takes_over(position):
    c = _filled()
    heir = c.cluster.brokers[c.heir()]
    heir.disk.corrupt(FILE, position)
    c.cluster.brokers[c.coordinator("g")].crash()
    assert c.world.run_until(lambda: heir.stopped_with is not None, 30_000)
    assert heir.stopped_with[0] == 1 and "fetch it from its leader" in heir.stopped_with[1]
    c.world.run_for(1_000)
    assert c.coordinator("g") != int(heir.name[1:]) and _all_known(c)
    assert c.world.errors == []


def test_a_flipped_bit_of_an_offset_is_told_to_nobody():
    c = _filled()
    first = c.coordinator("g")
    at = bytes(c.cluster.brokers[first].disk.files[FILE].data).index((1000).to_bytes(8, "big"))
    for id, process in c.cluster.brokers.items():
        if id != first:
            process.disk.corrupt(FILE, at + 5, 0x01)
    c.cluster.brokers[first].crash()
    c.world.run_for(5_000)
    assert sum(process.alive for process in c.cluster.brokers.values()) == 1, "the last replica is given up by nobody"
    assert c.committed("g0") is None, "nobody has a sound copy"


def test_a_new_coordinator_whose_disk_fails_hands_over():
    c = _filled()
    heir = c.cluster.brokers[c.heir()]
    heir.disk.cold = heir.disk.unreadable = lambda path, position, size: path == FILE
    c.cluster.brokers[c.coordinator("g")].crash()
    assert c.world.run_until(lambda: heir.stopped_with is not None, 30_000)
    c.world.run_for(1_000)
    assert _all_known(c)


def test_a_read_that_fails_for_want_of_something_else_is_tried_again():
    c = _filled()
    heir = c.heir()
    disk, failed = c.cluster.brokers[heir].disk, []

    def out_of_files(path: str, position: int, size: int) -> bool:
        if path == FILE and len(failed) < 2:
            failed.append(path)
            raise OSError(errno.EMFILE, "too many open files", path)
        return False

    disk.cold = lambda path, position, size: path == FILE
    disk.unreadable = out_of_files
    c.cluster.brokers[c.coordinator("g")].crash()
    c.world.run_for(6_000)
    assert failed and c.coordinator("g") == heir and _all_known(c)


def _restart(c: Coordinated, **config: str) -> None:
    """Restart all brokers, with other settings."""
    for process in c.cluster.brokers.values():
        process.kill()
    for process in c.cluster.brokers.values():
        process.config = node_config({**process.config.given, **config})
        process.start()
    assert c.world.run_until(c.cluster.ready, 60_000)
    c.world.run_for(3_000)


def test_groups_are_where_the_topic_says_whatever_the_configuration_says_since():
    c = Coordinated(**{"offsets.topic.num.partitions": "50"})
    for number in range(GROUPS):
        c.commit(f"g{number}", 1000 + number)
    _restart(c, **{"offsets.topic.num.partitions": "10"})
    assert _all_known(c)


def test_offsets_are_kept_by_a_topic_that_was_made_by_hand():
    c = Coordinated(**{"offsets.topic.num.partitions": "50"})
    c.create(OFFSETS, 1)
    c.commit("g1", 5)
    assert c.committed("g1") == 5


def _offsets_log(c: Coordinated, broker: int) -> PartitionLog:
    return c.cluster.brokers[broker].node.broker.replicas.get(OFFSETS, 0).log


def test_offsets_that_are_committed_again_and_again_take_little_room():
    """The coordinator compacts them, and all replicas delete the rest. A coordinator that takes over loads little."""
    c = Coordinated(**{"log.retention.check.interval.ms": "1000", "log.segment.delete.delay.ms": "1000"})
    c.small_segments("compact")
    c.commit("resting", 7)
    for offset in range(60):
        c.commit("g", offset)
    c.world.run_for(60_000)
    for broker in c.cluster.brokers:
        log = _offsets_log(c, broker)
        assert log.log_end_offset > 60 and log.log_end_offset - log.log_start_offset < 20
        assert log.size < 3_000
    for _ in range(3):
        c.cluster.brokers[c.coordinator("g")].crash()
        c.world.run_for(5_000)
        assert (c.committed("g"), c.committed("resting")) == (59, 7)
        for process in c.cluster.brokers.values():
            if not process.alive:
                process.start()
        c.world.run_for(5_000)
    assert c.world.errors == []
