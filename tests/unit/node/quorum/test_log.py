"""The metadata log on disk: appends, reads, cuts, and what recovery does with damage."""

import errno
import json
from contextlib import suppress
from random import Random

import pytest

from actors.node.quorum import log as metadata_log
from actors.node.quorum.files import (
    AHEAD,
    DELETED,
    DURABLE,
    DamagedFile,
    checkpoint_name,
    checkpoint_of,
    durable,
    quorum_state,
    read_quorum_state,
    segment_name,
    segment_of,
)
from actors.node.quorum.log import SECTOR_BYTES, MetadataLog, Segment
from actors.node.quorum.store import Store
from actors.ports import Batch, DiskFailed, DiskFull, Sync
from actors.raft import HardState, ReplicaKey, SnapshotId
from fastpath.records.batch import Builder
from tests.simulator.disk import VirtualDisk

DIRECTORY = "log"


def batch(offset: int, epoch: int = 1, count: int = 1, size: int = 50) -> Batch:
    builder = Builder(offset, epoch, timestamp_ms=5)
    for number in range(count):
        builder.append(None, b"%d" % (offset + number) + bytes(size))
    return Batch(offset, offset + count - 1, epoch, builder.build())


def new(disk: VirtualDisk, segment_bytes: int = 1000) -> MetadataLog:
    log = MetadataLog(disk, DIRECTORY, segment_bytes, 1 << 40)
    log.recover(0, lambda one, attributes: None)
    return log


def sync(disk: VirtualDisk, log: MetadataLog) -> None:
    taken = log.take_dirty()
    disk.sync(Sync(0, [segment.file for segment in taken], ()))
    log.synced(taken)


def filled(disk: VirtualDisk, batches: int = 40, segment_bytes: int = 1000, size: int = 50) -> list[Batch]:
    log = new(disk, segment_bytes)
    made = [batch(2 * number, 1 + number // 10, 2, size) for number in range(batches)]
    log.append(made, 0)
    sync(disk, log)
    return made


def contents(log: MetadataLog, start: int = 0) -> list[Batch]:
    found: list[Batch] = []
    offset = start
    while offset < log.end_offset:
        part = log.read(offset, 300)
        assert part
        found += part
        offset = part[-1].last_offset + 1
    return [Batch(one.base_offset, one.last_offset, one.epoch, bytes(one.data)) for one in found]


def plain(batches: list[Batch]) -> list[Batch]:
    return [one._replace(data=bytes(one.data)) for one in batches]


def test_reads_back_what_was_appended_from_memory_and_from_files() -> None:
    disk = VirtualDisk()
    made = filled(disk)
    assert contents(new(disk)) == plain(made)
    assert len([name for name in disk.names(DIRECTORY) if name.endswith(".log")]) > 5
    log = new(disk)
    for offset in range(log.end_offset):
        found = log.read(offset, 1)
        assert found is not None
        assert len(found) == 1
        assert found[0].base_offset == offset // 2 * 2


def test_a_batch_larger_than_a_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "READ_BYTES", 256)
    disk = VirtualDisk()
    made = filled(disk, 12, 1 << 20, 9000)
    assert contents(new(disk, 1 << 20)) == plain(made)


def test_the_tail_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "TAIL_BYTES_MAX", 2000)
    disk = VirtualDisk()
    log = new(disk)
    made = [batch(offset) for offset in range(100)]
    for one in made:
        log.append([one], 0)
        assert log._tail_bytes == sum(len(kept.data) for kept in log._tail) <= 2000
    assert contents(log) == plain(made)


def test_cold_reads_are_asked_for_and_served() -> None:
    disk = VirtualDisk()
    made = filled(disk)
    log = new(disk)
    disk.cold = lambda path, position, size: True
    assert log.read(10, 100) is None
    missed = log.missed
    assert missed is not None
    log.warm(missed, missed.job())
    found = log.read(10, 100)
    assert found is not None
    assert bytes(found[0].data) == bytes(made[5].data)


def test_what_is_wrong_with_a_device_under_a_read_is_found_by_the_job() -> None:
    disk = VirtualDisk()
    filled(disk)
    log = new(disk)
    disk.fault = lambda operation, path: errno.EIO if operation == "read" else 0
    assert log.read(10, 100) is None and log.missed is not None
    with pytest.raises(DiskFailed):
        log.missed.job()


def test_a_read_for_which_there_is_no_descriptor_is_left_to_a_job() -> None:
    disk = VirtualDisk()
    made = filled(disk)
    log = new(disk)
    disk.fault = lambda operation, path: errno.EMFILE if operation == "read" else 0
    assert log.read(10, 100) is None
    missed = log.missed
    assert missed is not None
    disk.fault = None
    log.warm(missed, missed.job())
    found = log.read(10, 100)
    assert found is not None and bytes(found[0].data) == bytes(made[5].data)


@pytest.mark.parametrize("restart", [False, True])
def test_what_was_read_before_a_cut_is_not_served_after_it(restart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "TAIL_BYTES_MAX", 200)
    disk = VirtualDisk()
    filled(disk, 40, 1 << 20)
    log = new(disk, 1 << 20)
    disk.cold = lambda path, position, size: True
    assert log.read(10, 100) is None
    missed = log.missed
    assert missed is not None
    data = missed.job()
    if restart:
        log.restart_at(0, 0)
        others = [batch(2 * number, 9, 2, 80) for number in range(20)]
    else:
        log.truncate(14)
        others = [batch(14 + 2 * number, 9, 2, 80) for number in range(20)]
    log.append(others, 0)
    log.warm(missed, data)
    disk.cold = None
    assert [one.epoch for one in contents(log, 14)] == [one.epoch for one in others if one.base_offset >= 14]


@pytest.mark.parametrize("end_offset", [0, 2, 14, 16, 18, 44, 78, 80])
def test_truncate_cuts_exactly_there_and_survives(end_offset: int) -> None:
    disk = VirtualDisk()
    made = filled(disk)
    log = new(disk)
    log.truncate(end_offset)
    log.append([batch(end_offset, 9)], 0)
    kept = plain([*made[: end_offset // 2], batch(end_offset, 9)])
    assert contents(log) == kept
    assert contents(new(disk)) == kept


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
@pytest.mark.parametrize("end_offset", [0, 14, 44])
def test_a_cut_that_finds_no_room_at_any_step_is_made_by_the_next_call(end_offset: int, error: int) -> None:
    for step in range(1, 200):
        disk = VirtualDisk()
        made = filled(disk)
        log = new(disk)
        steps = 0

        def fault(operation: str, path: str, step: int = step) -> int:
            nonlocal steps
            steps += 1
            return error if steps in (step, step + 1) else 0

        disk.fault, full = fault, 0
        for _ in range(3):
            try:
                log.truncate(end_offset)
                break
            except DiskFull:
                full += 1
        disk.fault = None
        found = contents(new(disk))
        assert plain(made[: end_offset // 2]) == found
        log.append([batch(end_offset, 9)], 0)
        kept = plain([*made[: end_offset // 2], batch(end_offset, 9)])
        assert contents(log) == kept and contents(new(disk)) == kept
        if not full:
            assert step > 2
            return
    raise AssertionError("it never ends")


def test_deletes_whole_segments_only() -> None:
    disk = VirtualDisk()
    filled(disk)
    log = new(disk)
    second = log.segments[1].base_offset
    log.delete_below(second - 1)
    assert log.start_offset == 0
    log.delete_below(second + 1)
    assert log.start_offset == second
    assert [path for path, _ in log.garbage] == [f"{DIRECTORY}/{segment_name(0)}.deleted"]
    log.delete_below(1 << 40)
    assert len(log.segments) == 1


def test_rolls_behind_a_snapshot() -> None:
    disk = VirtualDisk()
    log = new(disk, 1 << 20)
    log.append([batch(0)], 0)
    log.roll()
    log.append([batch(1), batch(2)], 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_every_power_cut_leaves_a_prefix() -> None:
    """Over any number of segments, with syncs in flight, cuts of the log and kills between; pages reach the disk in any
    order. The durable mark says as much as it may."""
    ahead = prefixes = holes = 0
    for seed in range(600):
        random = Random(seed)
        segment_bytes = random.choice((1000, 1 << 20))
        disk = VirtualDisk()
        log = new(disk, segment_bytes)
        made: list[Batch] = []
        safe = 0
        flying: list[tuple[list[Segment], int]] = []
        finished: set[int] = set()
        truncated = False
        for _ in range(random.randrange(40)):
            choice = random.randrange(9)
            if choice < 5:
                made.append(batch(len(made), 1, 1, random.randrange(400)))
                log.append(made[-1:], 0)
            elif choice == 5:
                flying.append((log.take_dirty(), len(made)))
            elif choice == 6 and len(flying) > len(finished):
                turn = random.choice([place for place in range(len(flying)) if place not in finished])
                disk.sync(Sync(0, [segment.file for segment in flying[turn][0]], ()))
                log.synced(flying[turn][0])
                finished.add(turn)
                safe = max([safe] + [flying[place][1] for place in finished if finished >= set(range(place))])
            elif choice == 7 and len(made) > safe and len(finished) == len(flying):
                del made[random.randrange(safe, len(made)) :]
                log.truncate(len(made))
                truncated = True
            elif choice == 8 and not random.randrange(3):
                flying.clear()
                finished.clear()
                log = new(disk, segment_bytes)
        ahead += any(segment.ahead for segment in log.segments)
        disk.crash(random)
        log = MetadataLog(disk, DIRECTORY, segment_bytes, 1 << 40)
        size = sum(len(inode.data) for inode in disk.files.values())
        holes += bool(log.recover(0, lambda one, attributes: None, safe)) and log.size + 512 < size
        assert safe <= log.end_offset
        kept = contents(log)
        assert kept[:safe] == plain(made[:safe])
        if not truncated:  # else a power cut may bring back what was cut
            assert kept == plain(made[: log.end_offset])
        prefixes += not truncated and log.end_offset > safe
        sync(disk, log)
        assert not any(name.endswith(AHEAD) for name in disk.names(DIRECTORY))
        assert contents(new(disk)) == kept
    assert ahead > 40 and prefixes > 40 and holes > 40


def of_size(offset: int, epoch: int, size: int) -> Batch:
    made = batch(offset, epoch, 1, 2 * size - len(batch(offset, epoch, 1, size).data))
    assert len(made.data) == size
    return made


@pytest.mark.parametrize("torn", [False, True])
def test_nothing_is_appended_in_front_of_what_a_power_cut_may_bring_back(torn: bool) -> None:
    """Where all of a file was cut, the next batch went into the same file before that was durable. A power cut could keep
    the batch, and undo the cut behind it: the log had records of an earlier leader behind those of the next one, as if they
    were this one's."""
    for seed in range(200):
        disk = VirtualDisk()
        log = new(disk, 1 << 20)
        log.append([of_size(number, 1, SECTOR_BYTES) for number in range(4)], 0)
        sync(disk, log)
        if torn:
            path = f"{DIRECTORY}/{segment_name(0)}"
            disk.files[path].data[:SECTOR_BYTES] = bytes(SECTOR_BYTES)
            disk.files[path].make_durable()
            log = new(disk, 1 << 20)
        else:
            log.truncate(0)
        assert log.end_offset == 0
        log.append([of_size(0, 2, SECTOR_BYTES)], 0)
        disk.crash(Random(seed))
        found: list[tuple[int, int]] = []
        log = MetadataLog(disk, DIRECTORY, 1 << 20, 1 << 40)
        log.recover(0, lambda one, attributes: found.append((one.base_offset, one.epoch)))  # noqa: B023
        assert len({epoch for _, epoch in found}) <= 1, (seed, found)


def without_a_page(disk: VirtualDisk) -> str:
    """Ten batches in one file, the second page of which has not reached the disk; its path. Six are whole."""
    filled(disk, 10, 1 << 20, 50)
    path = f"{DIRECTORY}/{segment_name(0)}"
    disk.files[path].data[1024:1536] = bytes(512)
    return path


def test_a_page_that_is_missing_above_the_mark_is_cut_with_what_follows() -> None:
    disk = VirtualDisk()
    path = without_a_page(disk)
    log = MetadataLog(disk, DIRECTORY, 1 << 20, 1 << 40)
    (notice,) = log.recover(0, lambda one, attributes: None, 12)
    assert log.end_offset == 12 and notice.startswith(f"{path}: cut a torn tail of ")


def test_a_page_that_is_missing_below_the_mark_refuses() -> None:
    disk = VirtualDisk()
    without_a_page(disk)
    log = MetadataLog(disk, DIRECTORY, 1 << 20, 1 << 40)
    with pytest.raises(DamagedFile, match="it was durable up to offset 13"):
        log.recover(0, lambda one, attributes: None, 13)


def test_a_torn_end_below_the_mark_refuses() -> None:
    disk = VirtualDisk()
    filled(disk, 5, 1 << 20)
    path = f"{DIRECTORY}/{segment_name(0)}"
    disk.open(path).truncate(disk.open(path).size - 1)
    log = MetadataLog(disk, DIRECTORY, 1 << 20, 1 << 40)
    with pytest.raises(DamagedFile, match="it was durable up to offset 9"):
        log.recover(0, lambda one, attributes: None, 9)


def test_a_log_that_ends_below_the_mark_refuses() -> None:
    disk = VirtualDisk()
    filled(disk, 5)
    disk.replace(f"{DIRECTORY}/{DURABLE}", durable(11))
    with pytest.raises(DamagedFile, match="the log ends at offset 10, but was durable up to 11"):
        Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)
    disk.replace(f"{DIRECTORY}/{DURABLE}", durable(10))
    assert Store(disk, DIRECTORY, 1000, 1 << 40).recover(0).table.end_offset == 10


def test_a_mark_that_cannot_be_read_is_reported() -> None:
    disk = VirtualDisk()
    filled(disk, 5)
    disk.replace(f"{DIRECTORY}/{DURABLE}", b"0\n1x\n")
    assert "is not used" in Store(disk, DIRECTORY, 1000, 1 << 40).recover(0).notices[0]


def test_what_comes_after_a_cut_that_may_not_be_durable_has_a_file_of_its_own() -> None:
    """Else a power cut could leave the new batch in front of old ones."""
    disk = VirtualDisk()
    log = new(disk, 1 << 20)
    made = [batch(offset) for offset in range(5)]
    log.append(made, 0)
    sync(disk, log)
    log.truncate(2)
    log.append([batch(2, 7)], 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.truncate(2)
    sync(disk, log)
    log.append([batch(2, 8)], 0)
    assert [segment.base_offset for segment in log.segments] == [0]


def test_a_torn_segment_takes_along_what_was_never_durable_behind_it() -> None:
    disk = VirtualDisk()
    log = new(disk)
    made = [batch(offset, size=300) for offset in range(7)]
    log.append(made[:1], 0)
    sync(disk, log)
    log.append(made[1:], 0)
    second, third = (f"{DIRECTORY}/{segment_name(base)}{AHEAD}" for base in (2, 4))
    assert [segment.file.path for segment in log.segments][1:3] == [second, third]
    path = f"{DIRECTORY}/{segment_name(0)}"
    disk.open(path).truncate(len(made[0].data) + 9)
    log = MetadataLog(disk, DIRECTORY, 1000, 1 << 40)
    cut, *dropped = log.recover(0, lambda one, attributes: None)
    assert cut.startswith(f"{path}: cut a torn tail of 9 bytes")
    assert dropped[:2] == [f"{each}: dropped, it was never durable and the log ends at 1" for each in (second, third)]
    assert contents(log) == plain(made[:1])


def test_a_sealed_segment_keeps_the_end_it_was_synced_with() -> None:
    """What was durable and is damaged refuses, though a segment ahead follows."""
    disk = VirtualDisk()
    filled(disk, 9)
    log = new(disk)
    log.append([batch(18, size=800), batch(19, size=800)], 0)
    assert log.segments[-1].ahead
    path = f"{DIRECTORY}/{segment_name(0)}"
    disk.corrupt(path, disk.open(path).size - 1)
    with pytest.raises(DamagedFile, match="is damaged at byte"):
        new(disk)


def test_torn_tail_is_cut_and_reported() -> None:
    disk = VirtualDisk()
    made = filled(disk, 3)
    path = f"{DIRECTORY}/{segment_name(0)}"
    disk.open(path).truncate(sum(len(one.data) for one in made) - 7)
    log = MetadataLog(disk, DIRECTORY, 1000, 1 << 40)
    (cut,) = log.recover(0, lambda one, attributes: None)
    position = len(made[0].data) + len(made[1].data)
    assert cut.startswith(f"{path}: cut a torn tail of {len(made[2].data) - 7} bytes at byte {position}, offset 4 (")
    assert log.end_offset == 4


@pytest.mark.parametrize("inside", [-1, 0, 1, 5, 7])
def test_a_sound_batch_may_begin_in_the_page_that_is_missing(inside: int) -> None:
    """Its first bytes are zeros of its own: those of its offset. -1: one byte of the torn batch is in the next page."""
    disk = VirtualDisk()
    log = new(disk)
    first = batch(0)
    torn = batch(1, size=100)
    torn = batch(1, size=100 + SECTOR_BYTES - inside - len(first.data) - len(torn.data))
    log.append([first, torn, batch(2)], 0)
    assert len(first.data) + len(torn.data) == SECTOR_BYTES - inside
    file = disk.files[f"{DIRECTORY}/{segment_name(0)}"]
    file.data[len(first.data) : SECTOR_BYTES] = bytes(SECTOR_BYTES - len(first.data))
    log = MetadataLog(disk, DIRECTORY, 1000, 1 << 40)
    (cut,) = log.recover(0, lambda one, attributes: None)
    assert "cut a torn tail" in cut and contents(log) == plain([first])


@pytest.mark.parametrize("at", [0, 8, 11, 16, 20, 60, 100])
def test_damage_inside_refuses_with_file_and_position(at: int) -> None:
    disk = VirtualDisk()
    made = filled(disk, 5)
    path = f"{DIRECTORY}/{segment_name(0)}"
    position = len(made[0].data) + len(made[1].data)
    disk.corrupt(path, position + at, 0x55)
    following = position + len(made[2].data)
    with pytest.raises(DamagedFile) as refused:
        new(disk)
    assert f"{path} is damaged at byte {position}, offset 4 (" in str(refused.value)
    assert f"a sound batch follows at byte {following}" in str(refused.value)


def test_damage_at_the_end_of_an_older_segment_refuses() -> None:
    disk = VirtualDisk()
    filled(disk)
    path = f"{DIRECTORY}/{segment_name(0)}"
    file = disk.open(path)
    disk.corrupt(path, file.size - 1)
    with pytest.raises(DamagedFile, match="is damaged at byte"):
        new(disk)


def test_missing_segment_refuses() -> None:
    disk = VirtualDisk()
    filled(disk)
    log = new(disk)
    lost, before = log.segments[2].base_offset, log.segments[1]
    disk.remove(f"{DIRECTORY}/{segment_name(lost)}")
    with pytest.raises(DamagedFile, match=f"the log before it ends at {lost}"):
        new(disk)
    assert before.base_offset < lost


def test_checkpoint_beyond_the_log_wins() -> None:
    disk = VirtualDisk()
    filled(disk)
    snapshot = SnapshotId(1000, 7)
    disk.replace(f"{DIRECTORY}/{checkpoint_name(snapshot)}", bytes(batch(0).data))
    found = Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)
    assert (found.latest, found.table.start, found.table.end_offset) == (snapshot, snapshot, 1000)
    assert found.table.last_epoch == 7
    assert "starts anew" in found.notices[0]


def test_checkpoint_of_a_later_epoch_wins_over_a_longer_log() -> None:
    """The node stopped when the checkpoint that it had received had its name, and the log was not emptied yet."""
    disk = VirtualDisk()
    filled(disk)
    snapshot = SnapshotId(50, 7)
    disk.replace(f"{DIRECTORY}/{checkpoint_name(snapshot)}", bytes(batch(0).data))
    store = Store(disk, DIRECTORY, 1000, 1 << 40)
    found = store.recover(0)
    assert (found.latest, found.table.start, found.table.end_offset) == (snapshot, snapshot, 50)
    assert found.table.last_epoch == 7
    assert "starts anew" in found.notices[0]
    assert (store.log.end_offset, store.bytes_since_snapshot) == (50, 0)


def test_checkpoint_inside_the_log_leaves_it_alone() -> None:
    disk = VirtualDisk()
    filled(disk)
    for snapshot in (SnapshotId(40, 2), SnapshotId(50, 3)):
        disk.replace(f"{DIRECTORY}/{checkpoint_name(snapshot)}", bytes(batch(0).data))
    found = Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)
    assert (found.latest, found.table.start, found.table.end_offset) == (SnapshotId(50, 3), SnapshotId(40, 2), 80)
    assert found.table.entries() == [(3, 40), (4, 60)]
    assert found.notices == []


@pytest.mark.parametrize("at", [9, 20, 60, 130])
def test_damage_in_the_newest_checkpoint_refuses_with_file_and_position(at: int) -> None:
    """The first of all names the voters and is never loaded: nobody else would notice."""
    disk = VirtualDisk()
    name = f"{DIRECTORY}/{checkpoint_name(SnapshotId(0, 0))}"
    first, second = batch(0), batch(1)
    disk.replace(name, bytes(first.data) + bytes(second.data))
    disk.corrupt(name, at)
    begin = 0 if at < len(first.data) else len(first.data)
    with pytest.raises(DamagedFile, match=f"{name} is damaged at byte {begin} "):
        Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)


def test_a_checkpoint_that_has_become_empty_refuses() -> None:
    disk = VirtualDisk()
    name = f"{DIRECTORY}/{checkpoint_name(SnapshotId(0, 0))}"
    disk.replace(name, b"")
    with pytest.raises(DamagedFile, match=f"{name} is damaged at byte 0 "):
        Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)


def test_log_without_its_beginning_refuses() -> None:
    disk = VirtualDisk()
    filled(disk)
    disk.remove(f"{DIRECTORY}/{segment_name(0)}")
    with pytest.raises(DamagedFile, match="no checkpoint reaches it"):
        Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)


def test_epochs_are_rebuilt_from_the_log() -> None:
    disk = VirtualDisk()
    filled(disk)
    found = Store(disk, DIRECTORY, 1000, 1 << 40).recover(0)
    assert found.table.entries() == [(1, 0), (2, 20), (3, 40), (4, 60)]


def test_names() -> None:
    assert segment_of(segment_name(12)) == 12
    assert segment_of("12.log") is None
    assert checkpoint_name(SnapshotId(37, 1)) == "00000000000000000037-0000000001.checkpoint"
    assert checkpoint_of(checkpoint_name(SnapshotId(37, 1))) == SnapshotId(37, 1)


def test_who_has_voted_for_nobody_names_no_directory() -> None:
    written = json.loads(quorum_state(HardState(3, None, 2)))
    assert (written["votedId"], written["votedDirectoryId"]) == (-1, "A" * 22)
    assert (written["leaderId"], written["leaderEpoch"]) == (2, 3)


def test_quorum_state_of_apache_kafka() -> None:
    key = ReplicaKey(3, bytes(range(16)))
    for hard in (HardState(4, None, 2), HardState(7, key, -1)):
        assert read_quorum_state(quorum_state(hard), "quorum-state") == hard
    measured = (
        b'{"leaderId":2002,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert read_quorum_state(measured, "") == HardState(2, None, 2002)
    assert quorum_state(HardState(2, None, 2002)) == measured
    with pytest.raises(DamagedFile, match="x/quorum-state is not a quorum-state"):
        read_quorum_state(b"{", "x/quorum-state")


@pytest.mark.parametrize("step", range(1, 6))
@pytest.mark.parametrize("keeps", [AHEAD, DELETED])
def test_a_power_cut_while_the_beginning_goes_loses_nothing_behind_it(step: int, keeps: str) -> None:
    """The name of the second segment has just lost its ending, and of the names that change now only some are kept."""
    disk = VirtualDisk()
    log, made = new(disk), [batch(2 * number, 1, 2) for number in range(40)]
    log.append(made, 0)
    sync(disk, log)
    start, steps = log.segments[1].base_offset, 0

    def power_cut(operation: str, path: str) -> int:
        nonlocal steps
        steps += 1
        if steps == step:
            raise KeyboardInterrupt
        return 0

    disk.fault = power_cut
    with suppress(KeyboardInterrupt):
        log.delete_below(start)
    disk.fault = None
    disk.crash(Random(step), keeps=lambda change: keeps in f"{change.old} {change.new}")
    found = new(disk)
    assert found.start_offset <= start and found.end_offset == made[-1].last_offset + 1


class Failing:
    """Lets an operation of one kind fail, once, behind some that work."""

    def __init__(self, operation: str, number: int, skip: int = 0) -> None:
        self._operation, self._number, self._skip = operation, number, skip

    def __call__(self, operation: str, path: str) -> int:
        if operation != self._operation:
            return 0
        self._skip -= 1
        return self._number if self._skip == -1 else 0


@pytest.mark.parametrize(("operation", "skip"), [("rename", 0), ("settle", 0), ("settle", 1)])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_segment_is_part_of_the_log_until_its_name_has_gone(operation: str, skip: int, number: int) -> None:
    disk = VirtualDisk()
    made = filled(disk)
    log = new(disk)
    start = log.segments[2].base_offset
    disk.fault = Failing(operation, number, skip)
    with pytest.raises((DiskFull, DiskFailed)):
        log.delete_below(start)
    assert plain(contents(log)) == plain(made)
    log.delete_below(start)
    assert log.start_offset == start and not [name for name in disk.names(DIRECTORY) if name.endswith(DELETED * 2)]
    assert len(log.garbage) == 2
    assert contents(new(disk), start) == [one for one in plain(made) if one.base_offset >= start]


def test_a_segment_that_finds_no_room_for_its_name_gets_it_with_the_next_sync() -> None:
    disk = VirtualDisk()
    log = new(disk, 300)
    made = [batch(number) for number in range(8)]
    log.append(made, 0)
    assert any(segment.ahead for segment in log.segments)
    disk.fault = Failing("rename", errno.ENOSPC)
    sync(disk, log)
    assert [segment.ahead for segment in log.segments[1:]] == [True] * (len(log.segments) - 1)
    log.append([batch(8)], 0)
    sync(disk, log)
    assert not any(segment.ahead for segment in log.segments)
    assert contents(new(disk, 300)) == plain([*made, batch(8)])


@pytest.mark.parametrize("end", [None, 11])
@pytest.mark.parametrize("fails_at", [0, 1, 2, 5])
def test_a_cut_that_fails_on_its_way_leaves_a_log_that_knows_where_it_ends(end: int | None, fails_at: int) -> None:
    """A node whose disk had failed under a received snapshot looked for what its first segments did not have, and fell over
    that before it could say why it ended."""
    disk = VirtualDisk()
    made = filled(disk)
    log = new(disk)
    log.append([batch(80)], 0)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 6
    left, renames = len(bases) - fails_at, 0

    def fails(operation: str, path: str) -> int:
        nonlocal renames
        renames += operation == "rename"
        return errno.EIO if operation == "rename" and renames > fails_at else 0

    disk.fault = fails
    with pytest.raises(DiskFailed):
        if end is None:
            log.restart_at(500, 0)
        else:
            log.truncate(end)
    disk.fault = None
    assert [segment.base_offset for segment in log.segments] == bases[:left]
    assert log.end_offset == (bases[left - 1] if end is not None else [*bases, 81][left])
    for one in [*made, batch(80)]:
        found = log.read(one.base_offset, 1)
        assert found is not None and [each.data for each in found] == (
            [one.data] if one.last_offset < log.end_offset else []
        )


def test_a_log_that_begins_anew_has_nothing_in_memory_of_what_was_before_its_first_segment() -> None:
    """Segments go once a snapshot has passed them, and what they had stays in memory for a while."""
    disk = VirtualDisk()
    filled(disk)
    log = new(disk)
    log.append([batch(80 + number) for number in range(40)], 0)
    sync(disk, log)
    log.delete_below(100)
    assert 81 < log.start_offset <= 100 and log.read(81, 1) == [batch(81)], "it is still in memory"
    log.restart_at(500, 0)
    log.append([batch(500)], 0)
    assert log.read(500, 1) == [batch(500)]
    with pytest.raises(AssertionError, match="offset 81 is below the log's start 500"):
        log.read(81, 1)
