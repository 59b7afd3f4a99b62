"""Opening a log after any kind of stop: what was sound stays, what is torn goes, and the report says which."""

import errno
from random import Random

import pytest

from actors.broker.log.directories.checkpoints import CLEANED_OFFSETS, RECOVERY_POINTS, TOPIC_IDS
from actors.broker.log.directories.directory import LogDirectory
from actors.broker.log.log import PartitionLog
from actors.broker.log.retention import drop_segments
from actors.broker.log.truncation import truncate_to
from actors.ports import DiskFull
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, new, offsets, put, reopen, stop

LOG = f"{DIRECTORY}/00000000000000000000.log"


def _disk(log: PartitionLog) -> VirtualDisk:
    assert isinstance(log.disk, VirtualDisk)
    return log.disk


def test_a_tail_torn_at_every_byte() -> None:
    log = new()
    put(log, build(2, 20), epoch=1)
    put(log, build(1, 30), epoch=2)
    whole = bytes(_disk(log).files[LOG].data)
    first = batch.header(whole).size
    for size in range(len(whole) + 1):
        log.disk = VirtualDisk()
        log.disk.open(LOG, create=True).append((whole[:size],))
        again = reopen(log, recovery_point=0)
        kept = len(whole) if size == len(whole) else first if size >= first else 0
        assert content(again.log) == whole[:kept]
        assert again.log.log_end_offset == (3 if kept > first else 2 if kept else 0)
        assert again.log.epochs.epochs == ((1, 2) if kept > first else (1,) if kept else ())
        if size == kept:
            assert again.cuts == ()
        else:
            assert again.cuts == ((LOG, kept, size - kept, "torn"),)
        again.log.check()


def test_each_byte_damaged() -> None:
    """Every damaged byte behind the recovery point is found, save where the CRC does not reach: offset and epoch."""
    log = new()
    for _ in range(3):
        put(log, build(1, 5), epoch=3)
    whole = bytes(_disk(log).files[LOG].data)
    size = len(whole) // 3
    for position in range(size, 2 * size):
        log.disk = VirtualDisk()
        log.disk.open(LOG, create=True).append((whole,))
        log.disk.corrupt(LOG, position)
        again = reopen(log, recovery_point=0)
        again.log.check()
        places = [cut.position for cut in again.cuts]
        if position - size in range(12, 16):
            assert places == []
        elif position - size in range(5, 8):
            assert places == [2 * size], "a higher offset is a gap; the batch after it goes back"
        else:
            assert places == [size]
            assert content(again.log) == whole[:size]


@pytest.mark.parametrize("interval_bytes", [0, 4096])
def test_nothing_below_the_recovery_point_is_touched(interval_bytes: int) -> None:
    log = new(index_interval_bytes=interval_bytes)
    for _ in range(4):
        put(log, build(1, 5))
    flush(log)
    put(log, build(1, 5))
    disk = _disk(log)
    before = bytes(disk.files[LOG].data)
    disk.corrupt(LOG, 70)
    again = reopen(log)
    assert again.cuts == ()
    assert len(disk.files[LOG].data) == len(before)
    assert again.log.log_end_offset == 5


@pytest.mark.parametrize("interval_bytes", [0, 4096])
@pytest.mark.parametrize(
    ("byte", "mask", "fault"),
    [(2, 0x03, "offset"), (6, 0x03, "stale"), (8, 0x40, "torn"), (8, 0x80, "length"), (16, 0x40, "magic")],
)
def test_a_header_damaged_below_the_recovery_point_leaves_no_hole(
    interval_bytes: int, byte: int, mask: int, fault: str
) -> None:
    """The recovery point lies in a segment that others follow, and so does the damage, before it."""
    log = new(segment_bytes=600, index_interval_bytes=interval_bytes)
    for _ in range(20):
        put(log, build(1, 50))
    victim, disk = log.segments[1], _disk(log)
    path, point = victim.path(".log"), log.segments[2].base_offset - 1
    whole = bytes(disk.files[path].data)
    position = len(whole) // (log.segments[2].base_offset - victim.base_offset)
    if interval_bytes == 0:  # the walk begins at the last entry below the recovery point
        position *= point - 1 - victim.base_offset
    disk.corrupt(path, position + byte, mask)
    before = bytes(disk.files[path].data)
    again = reopen(log, recovery_point=point)
    assert again.cuts == () and disk.files[path].data == before
    assert again.log.damaged == f"{fault} at byte {position} of {path}"
    assert again.log.log_end_offset == 20 and len(again.log.segments) == len(log.segments)
    disk.corrupt(path, position + byte, mask)
    assert offsets(content(again.log)) == list(range(20))


def test_a_damaged_middle_segment_ends_the_log() -> None:
    log = new(segment_bytes=300, index_interval_bytes=0)
    for _ in range(10):
        put(log, build(1, 50))
    victim = log.segments[2]
    kept = victim.base_offset + 1
    position = victim.index.offsets.lookup(kept)[1] if victim.index else 0
    _disk(log).corrupt(victim.path(".log"), position + 65)
    again = reopen(log, recovery_point=0)
    assert offsets(content(again.log)) == list(range(kept))
    assert [(cut.reason, cut.position) for cut in again.cuts] == [("crc", position), ("behind", 0), ("behind", 0)]
    names = log.disk.names(DIRECTORY)
    assert [name for name in names if name.endswith(".log")] == [f"{n:020d}.log" for n in (0, 2, 4)]
    put(again.log, build(1, 50))
    assert again.log.log_end_offset == kept + 1


@pytest.mark.parametrize("damage", ["gone", "short", "flipped", "empty", "zeros"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_lost_or_damaged_index_costs_nothing_but_time(damage: str, suffix: str) -> None:
    log = new(segment_bytes=2000, index_interval_bytes=200)
    for number in range(60):
        put(log, build(1, 60, timestamp_ms=1000 + number * 10))
    stop(log)
    disk = _disk(log)
    for name in disk.names(DIRECTORY):
        path = f"{DIRECTORY}/{name}"
        if not name.endswith(suffix) or not disk.files[path].data:
            continue
        if damage == "gone":
            disk.remove(path)
        elif damage == "short":
            del disk.files[path].data[-5:]
        elif damage == "flipped":
            disk.corrupt(path, 0)
        elif damage == "empty":
            disk.files[path].data.clear()
        else:
            disk.files[path].data += bytes(24 * 100)
    again = reopen(log, clean=True).log
    assert offsets(content(again)) == list(range(60))
    for offset in range(60):
        found = again.read(offset, 1)
        found = again.cold_read(offset, 1)() if found is None else found
        assert offsets(bytes(found.data)) == [offset]
        search = again.offset_for_time(1000 + offset * 10)
        assert callable(search)
        assert search() == (offset, 1000 + offset * 10, 0)


def test_a_full_disk_keeps_no_log_from_being_opened() -> None:
    """The indexes had not been written when the power was cut; they are once there is room."""
    log = new(segment_bytes=300, index_interval_bytes=0)
    for _ in range(10):
        put(log, build(1, 50))
    whole, disk = content(log), _disk(log)
    disk.room = 0
    again = reopen(log, recovery_point=0).log
    assert content(again) == whole and len(again.segments) > 2
    disk.room = None
    flush(again)
    for segment in again.segments[:-1]:
        assert segment.index is not None
        assert disk.files[segment.path(".timeindex")].data == segment.index.times.data()


def test_a_log_whose_start_was_deleted_is_opened_on_a_full_disk() -> None:
    log = new()
    put(log, build(1, 50))
    disk = _disk(log)

    def no_new_files(path: str, *, create: bool = False) -> VirtualFile:
        if create and path not in disk.files:
            raise DiskFull(errno.ENOSPC, "no room for a new file", path)
        return VirtualDisk.open(disk, path, create=create)

    disk.open = no_new_files  # type: ignore[method-assign]
    again = reopen(log, recovery_point=0, log_start_offset=100).log
    assert (again.log_start_offset, again.log_end_offset, again.segments) == (100, 100, [])
    del disk.open
    assert put(again, build(1, 50)).base_offset == 100


def test_leftovers_of_a_crash_are_cleared_away() -> None:
    log = new()
    put(log, build())
    disk = _disk(log)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000009.index",
        "x.tmp",
        "00000000000000000077.snapshot",
    ):
        disk.open(f"{DIRECTORY}/{name}", create=True)
    again = reopen(log)
    assert again.log.log_end_offset == 1
    assert disk.names(DIRECTORY) == ["00000000000000000000.log", "partition.metadata"]


@pytest.mark.parametrize("way", ["front", "cut"])
def test_a_start_waits_for_no_disk_because_the_start_of_a_log_was_moving(way: str) -> None:
    """There may be thousands of logs. A job does it, and removes no name before it is durable. What was cut would come back
    beside what is appended: there the start waits."""
    log, seen = new(segment_bytes=100), list[str]()
    for _ in range(10):
        put(log, build(producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset))
    flush(log)
    drop_segments(log, 4) if way == "front" else truncate_to(log, 6)
    disk = _disk(log)
    left = [path for path in disk.files if path.endswith(".deleted")]

    def look(operation: str, path: str) -> int:
        if operation in ("settle", "remove"):
            seen.append(operation)
        return 0

    disk.fault = look
    again = reopen(log, recovery_point=0, log_start_offset=0).log
    assert (again.log_start_offset, again.log_end_offset) == ((4, 10) if way == "front" else (0, 6))
    assert seen == ([] if way == "front" else ["settle", *["remove"] * len(left)])
    for job in again.left_over():
        job()
    assert seen == ["settle", *["remove"] * len(left)] and not any(map(disk.found, left)) and len(left) > 5
    assert not again.left_over()


def test_a_log_start_above_the_end_begins_again_there() -> None:
    log = new()
    put(log, build(3))
    again = reopen(log, log_start_offset=50).log
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)
    assert not [name for name in _disk(log).names(DIRECTORY) if name.endswith(".deleted")], "what was before is gone"
    put(again, build(1))
    assert offsets(content(again)) == [50]


def test_a_log_start_above_the_end_leaves_no_producers_of_before() -> None:
    log = new(segment_bytes=200)
    for number in range(6):
        put(log, build(producer_id=7, producer_epoch=0, base_sequence=number))
    stop(log)
    assert log.snapshots.offsets
    again = reopen(log, clean=True, log_start_offset=10).log
    assert not again.snapshots.offsets and not again.producers.by_id
    assert not [name for name in log.disk.names(DIRECTORY) if name.endswith(".snapshot")]


def test_what_reaches_into_the_next_segment_is_cut() -> None:
    log = new(segment_bytes=250)
    for _ in range(4):
        put(log, build(1, 100))
    disk = _disk(log)
    data = bytes(disk.files[f"{DIRECTORY}/00000000000000000001.log"].data)
    disk.files[f"{DIRECTORY}/00000000000000000001.log"].data += disk.files[f"{DIRECTORY}/00000000000000000002.log"].data
    again = reopen(log, recovery_point=0)
    assert [(cut.position, cut.reason) for cut in again.cuts] == [(len(data), "stale")]
    assert offsets(content(again.log)) == [0, 1, 2, 3]


def test_epochs_are_read_back_without_their_file() -> None:
    log = new(segment_bytes=400)
    for epoch in (0, 0, 2, 2, 5, 7, 7):
        put(log, build(1, 100), epoch=epoch)
    expected = (log.epochs.epochs, log.epochs.starts)
    again = reopen(log, recovery_point=0).log
    assert (again.epochs.epochs, again.epochs.starts) == expected
    stop(log)
    log.disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    again = reopen(log, clean=True).log
    assert (again.epochs.epochs, again.epochs.starts) == expected


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("start", [0, 1, 3, 4])
def test_epochs_reach_back_to_records_whose_deletion_no_checkpoint_knows(start: int, clean: bool) -> None:
    """The table was written after the deletion, the checkpoint of the log's start before it."""
    log = new()
    for epoch in (1, 2, 2, 4):
        put(log, build(3), epoch=epoch)
    log.delete_records(10)
    flush(log)
    assert (log.epochs.epochs, log.epochs.starts) == ((4,), (10,))
    again = reopen(log, recovery_point=12, clean=clean, log_start_offset=start).log
    expected = ((1, 2, 4), (start, 3, 9)) if start < 3 else ((2, 4), (start, 9))
    assert (again.epochs.epochs, again.epochs.starts) == expected


def test_what_follows_a_cut_below_the_start_is_no_hole() -> None:
    """The log's start lies inside a batch that is cut off; the next segment begins at the log's end."""
    log = new(segment_bytes=1_000)
    put(log, build(2))
    put(log, build(5))
    log.delete_records(5)
    truncate_to(log, 6)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    put(log, build(1, size=990))
    put(log, build(1, size=990))
    again = reopen(log)
    assert again.cuts == ()
    assert offsets(content(again.log)) == [5, 6]


def test_an_epoch_that_wrote_nothing_does_not_hide_later_batches() -> None:
    log = new()
    put(log, build(2), epoch=1)
    log.start_epoch(4)
    flush(log)
    truncate_to(log, 2)
    put(log, build(2), epoch=5)
    again = reopen(log, recovery_point=2).log
    assert (again.epochs.epochs, again.epochs.starts) == ((1, 5), (0, 2))


@pytest.mark.parametrize("seed", range(150))
def test_after_a_power_cut_what_was_synced_is_there(seed: int) -> None:
    random = Random(seed)
    log = new(segment_bytes=random.choice([300, 1000, 100_000]), index_interval_bytes=random.choice([0, 150, 4096]))
    for life in range(4):
        for step in range(random.randrange(1, 25)):
            choice = random.randrange(10)
            if choice < 7:
                put(log, build(random.randrange(1, 4), random.randrange(80), 1000 + step), epoch=life)
            elif choice == 7:
                flush(log)
            elif choice == 8 and log.log_end_offset:
                for job in truncate_to(log, random.randrange(log.log_end_offset)):
                    job()
            elif log.active is not None and log.active.size:
                log.roll(0)
        durable = content(log, upper=log.recovery_point)
        recovery_point = log.recovery_point
        _disk(log).crash(random)
        log = reopen(log, recovery_point=recovery_point, log_start_offset=0).log
        log.check()
        found = content(log)
        assert found.startswith(durable)
        assert log.log_end_offset >= recovery_point or not durable
        again = reopen(log, recovery_point=0).log
        assert content(again) == found
        assert (again.epochs.epochs, again.epochs.starts) == (log.epochs.epochs, log.epochs.starts)


@pytest.mark.parametrize("known", [0, 6, 21])
def test_gaps_above_the_recovery_point_are_gaps_after_a_kill(known: int) -> None:
    """The leader's log was compacted, the topic is not now, and no checkpoint says so yet."""
    log = new(segment_bytes=400)
    for base in (0, 5, 6, 20, 21, 30, 31, 40, 50):
        data = build()
        batch.patch(data, 0, base, 0)
        log.append_fetched(data, 1)
    flush(log)
    assert log.sparse
    again = reopen(log, recovery_point=known).log
    assert again.sparse and again.cleaned_offset == 0
    whole = new(segment_bytes=400)
    for _ in range(9):
        put(whole, build())
    flush(whole)
    assert not reopen(whole, recovery_point=known % 9).log.sparse


def test_a_log_is_known_to_have_gaps_before_its_recovery_point_is() -> None:
    """A kill between two checkpoints leaves the first ones."""
    directory = LogDirectory(VirtualDisk())
    names = [path for _, path, _ in directory.checkpoints({("t", 0): 9}, {}, {}, {("t", 0): bytes(16)}, {("t", 0): 0})]
    assert names.index(CLEANED_OFFSETS) < names.index(RECOVERY_POINTS) < names.index(TOPIC_IDS)


@pytest.mark.parametrize("gone", [1, 2])
def test_a_cut_that_did_not_say_which_way_keeps_what_is_in_front(gone: int) -> None:
    """Apache Kafka, and earlier versions, take the oldest segment first and add nothing but `.deleted`: a kill in between
    leaves a hole, and behind it what was to go."""
    log = new(segment_bytes=400)
    for number in range(20):
        put(log, build(), epoch=number // 6)
    flush(log)
    disk, kept = _disk(log), content(log, upper=log.segments[1].base_offset)
    for segment in log.segments[1 : 1 + gone]:
        name = segment.path(".log")
        disk.rename(name, f"{name}.deleted")
    again = reopen(log)
    assert (again.log.log_start_offset, again.log.log_end_offset) == (0, log.segments[1].base_offset)
    assert content(again.log) == kept and again.log.damaged is None
    assert {cut.reason for cut in again.cuts} == {"behind"}


def test_a_start_that_was_moving_is_told_from_a_cut() -> None:
    log = new(segment_bytes=400)
    for number in range(20):
        put(log, build(), epoch=number // 6)
    flush(log)
    front = [segment.base_offset for segment in log.segments]
    drop_segments(log, 2)
    disk = _disk(log)
    for ending in (
        ".log",
        ".index",
        ".timeindex",
    ):  # the power cut has kept the second segment's names, not the first one's
        name = f"{DIRECTORY}/{front[0]:020d}{ending}"
        disk.rename(f"{name}.front.deleted", name)
    again = reopen(log, log_start_offset=0)
    assert (again.log.log_start_offset, again.log.log_end_offset, again.cuts) == (front[2], 20, ())


@pytest.mark.parametrize("told", ["", ".cut.deleted", ".2.cut.deleted"])
def test_a_hole_before_an_older_history_is_seen_as_well(told: str) -> None:
    """A cut log had grown again when the power went: one old segment is back, and a part of what was new is gone."""
    log = new(segment_bytes=400)
    for number in range(16):
        put(log, build(), epoch=(0, 0, 9, 2)[number // 4])
    flush(log)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8, 12]
    disk, short = _disk(log), log.segments[1]
    file = disk.open(short.log.path)
    file.truncate(file.size * 3 // 4)
    if told:
        disk.open(f"{DIRECTORY}/{8:020d}.log{told}", create=True)
    again = reopen(log).log
    if told:
        assert (again.log_end_offset, again.damaged) == (7, None)
    else:
        assert (again.log_end_offset, again.damaged) == (16, "offsets 7 to 7 are not there")


@pytest.mark.parametrize("bit", [0x40, 0x01])
def test_a_bit_of_an_epoch_that_rotted_takes_no_segment_away(bit: int) -> None:
    """No CRC covers a batch's leader epoch."""
    log = new(segment_bytes=400)
    for number in range(20):
        put(log, build(), epoch=4 + number // 4)
    flush(log)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8, 12, 16]
    disk, path = _disk(log), log.segments[1].log.path
    data = disk.files[path].data
    begin = batch.headers(bytes(data))[-1].position
    data[begin + 15] ^= bit
    disk.files[path].make_durable()
    again = reopen(log)
    assert (again.log.log_end_offset, again.cuts) == (20, ())
    assert (again.log.damaged is not None) is (bit == 0x40)


@pytest.mark.parametrize("flipped", [(12, 0x80), (12, 0x04), (14, 0x20), (15, 0x40), (15, 0x01), (15, 0x08)])
@pytest.mark.parametrize("recovery_point", [0, 8])
def test_a_bit_of_an_epoch_that_rotted_is_not_what_the_table_says(
    flipped: tuple[int, int], recovery_point: int
) -> None:
    """Behind the recovery point the table is made from the batches."""

    def of(offset: int) -> int:
        return -1 if offset < 0 else 16 + offset // 5 * 16

    log = new(segment_bytes=1_000)
    for number in range(30):
        put(log, build(), epoch=of(number))
    flush(log)
    expected = (log.epochs.epochs, log.epochs.starts)
    disk, (byte, bit) = _disk(log), flipped
    for segment in log.segments:
        inode = disk.files[segment.log.path]
        for header in batch.headers(bytes(inode.data))[:-1]:  # the last one of a segment is told as damage
            offset, wrong = header.base_offset, header.epoch ^ bit << 8 * (15 - byte)
            if offset < recovery_point or of(offset - 1) <= wrong <= of(offset + 1):
                continue  # it might be so
            inode.data[header.position + byte] ^= bit
            inode.make_durable()
            again = reopen(log, recovery_point=recovery_point)
            assert (again.log.log_end_offset, again.cuts, again.log.damaged) == (30, (), None)
            assert (again.log.epochs.epochs, again.log.epochs.starts) == expected, offset
            inode.data[header.position + byte] ^= bit
            inode.make_durable()


def test_an_epoch_that_falls_for_good_is_of_the_fewer_batches() -> None:
    log = new()
    for _ in range(8):
        put(log, build(), epoch=3)
    flush(log)
    disk = _disk(log)
    data = disk.files[log.segments[0].log.path].data
    for header, epoch in zip(batch.headers(bytes(data)), (3, 3, 3, 3, 7, 5, 5, 5), strict=True):
        data[header.position + 15] = epoch
    disk.files[log.segments[0].log.path].make_durable()
    again = reopen(log, recovery_point=0).log
    assert (again.epochs.epochs, again.epochs.starts) == ((3, 5), (0, 4))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ((5, 5, 5, 4, 6, 6, 6, 6), ((5, 6), (0, 3))),
        ((5, 5, 5, 7, 6, 6, 6, 6), ((5, 6), (0, 3))),
        ((5, 5, 5, -1, -1, -1, -1, -1), ((5,), (0,))),
        ((-1, -1, -1, 5, 5, 5, 6, 5), ((5,), (3,))),
        ((5, 5, -1, -1, 6, 6, 5, 6), ((5, 6), (0, 4))),
        ((-(1 << 31), 0, 0, 0), ((0,), (0,))),
    ],
)
def test_what_may_be_of_two_epochs_is_of_the_later_one_and_none_is_no_epoch(
    said: tuple[int, ...], expected: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    log = new()
    for _ in said:
        put(log, build(), epoch=3)
    flush(log)
    disk = _disk(log)
    inode = disk.files[log.segments[0].log.path]
    for header, epoch in zip(batch.headers(bytes(inode.data)), said, strict=True):
        inode.data[header.position + 12 : header.position + 16] = epoch.to_bytes(4, "big", signed=True)
    inode.make_durable()
    again = reopen(log, recovery_point=0).log
    assert (again.epochs.epochs, again.epochs.starts) == expected


def test_an_unclean_start_looks_at_the_end_of_each_segment_once() -> None:
    def reads(count: int) -> int:
        log, found = new(segment_bytes=400), 0
        while len(log.segments) < count:
            put(log, build(), epoch=len(log.segments) // 7)
        flush(log)

        def counted(operation: str, path: str) -> int:
            nonlocal found
            found += operation == "read"
            return 0

        _disk(log).fault = counted
        assert reopen(log).log.log_end_offset == log.log_end_offset
        return found

    assert reads(40) - reads(10) == 2 * 30  # the end of the index, and what follows in the log


@pytest.mark.parametrize("behind", [0, 2])
def test_an_empty_file_inside_what_the_log_had_goes(behind: int) -> None:
    """The log was cut, and then begun anew inside a batch. For neither there was room to make it durable, but a checkpoint
    was written. The power cut brought back what was there."""
    log = new(segment_bytes=100)
    for count in (2, 3, 2):
        put(log, build(count, 40), epoch=1)
    flush(log)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 5]
    disk, last = _disk(log), log.segments[-1]
    if not behind:
        last.log.truncate(0)
    disk.open(f"{DIRECTORY}/{4:020d}.log", create=True)
    again = reopen(log, recovery_point=4)
    assert again.log.damaged is None and again.cuts == ()
    assert [segment.base_offset for segment in again.log.segments] == [0, 2, 5]
    assert again.log.log_end_offset == 5 + behind and not disk.exists(f"{DIRECTORY}/{4:020d}.log")
