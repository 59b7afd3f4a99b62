"""Appends, rolls, reads, cuts of one log."""

import errno

import pytest

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import Appended, OffsetOutOfRange, OffsetsOutOfOrder, PartitionLog, Unsettled
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFull
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import (
    DIRECTORY,
    build,
    content,
    flush,
    new,
    offsets,
    put,
    reopen,
    retained,
    settings,
    stop,
    sync,
)


def test_an_append_gets_the_next_offsets() -> None:
    log = new()
    assert put(log, build(3)) == Appended(0, 2)
    assert put(log, build(2)) == Appended(3, 4)
    assert log.log_end_offset == 5
    assert offsets(content(log)) == [0, 3]
    log.check()


def test_no_file_before_the_first_append() -> None:
    log = new()
    assert log.disk.names("") == []
    put(log, build())
    assert log.disk.names(DIRECTORY) == ["00000000000000000000.log", "partition.metadata"]


def test_segments_roll_by_size_and_are_read_on() -> None:
    log = new(segment_bytes=500, index_interval_bytes=100)
    for _ in range(30):
        put(log, build(1, 60))
    assert len(log.segments) > 5
    assert all(segment.size <= 500 for segment in log.segments)
    assert offsets(content(log)) == list(range(30))
    assert offsets(content(log, offset=17)) == list(range(17, 30))


def test_segments_roll_by_the_time_of_their_records() -> None:
    log = new(segment_ms=1000)
    put(log, build(timestamp_ms=5000))
    put(log, build(timestamp_ms=6000))
    assert len(log.segments) == 1
    put(log, build(timestamp_ms=6001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full() -> None:
    log = new(index_interval_bytes=0, segment_index_bytes=40)
    for number in range(20):
        put(log, build(timestamp_ms=1000 + number))
    assert len(log.segments) > 3
    assert offsets(content(log)) == list(range(20))


def test_a_read_gives_whole_batches_up_to_the_limit() -> None:
    log = new()
    one = len(build(1, 100))
    for _ in range(10):
        put(log, build(1, 100))
    found = log.read(2, 3 * one)
    assert found is not None
    assert (offsets(bytes(found.data)), found.next_offset) == ([2, 3, 4], 5)
    found = log.read(2, 4 * one - 1)
    assert found is not None and found.next_offset == 5


def test_a_read_gives_one_batch_even_when_it_is_too_large() -> None:
    log = new()
    put(log, build(1, 10_000))
    found = log.read(0, 1)
    assert found is not None and found.next_offset == 1
    found = log.read(0, 1, at_least_one=False)
    assert found is not None and not found.data


def test_a_read_stays_below_the_upper_offset() -> None:
    log = new()
    for _ in range(5):
        put(log, build(2))
    found = log.read(0, 1 << 20, upper_offset=6)
    assert found is not None
    assert (offsets(bytes(found.data)), found.next_offset) == ([0, 2, 4], 6)
    found = log.read(6, 1 << 20, upper_offset=6)
    assert found is not None and (bytes(found.data), found.next_offset) == (b"", 6)


def test_a_read_in_a_gap_goes_on_behind_it_wherever_batches_end() -> None:
    first = build(4)
    for interval_bytes in range(len(first) - 62, len(first) + 3):
        log = new(index_interval_bytes=interval_bytes)
        put(log, bytearray(first))
        second = build(1)
        batch.patch(second, 0, 9, 0)
        log.append_fetched(second, 1_000)
        for offset in range(4, 10):
            found = log.read(offset, 1)
            assert found is not None and bytes(found.data) == bytes(second), (interval_bytes, offset)


def test_a_read_inside_a_batch_gives_the_whole_batch() -> None:
    log = new()
    put(log, build(5))
    put(log, build(5))
    found = log.read(7, 1 << 20)
    assert found is not None and offsets(bytes(found.data)) == [5]


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_a_read_outside_the_log_is_refused(offset: int) -> None:
    log = new()
    put(log, build(10))
    log.delete_records(5)
    with pytest.raises(OffsetOutOfRange):
        log.read(offset, 1000)


def test_what_is_not_in_memory_is_read_by_a_job() -> None:
    log = new(segment_bytes=1000)
    for _ in range(40):
        put(log, build(1, 50))
    flush(log)
    log = reopen(log, clean=True).log
    log.disk.cold = lambda path, position, size: True  # type: ignore[attr-defined]
    assert log.read(3, 1000) is None
    found = log.cold_read(3, 1 << 20)()
    assert offsets(bytes(found.data))[0] == 3
    assert offsets(content(log)) == list(range(40))


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    log = new()
    put(log, build(3))
    log.disk.room = 10  # type: ignore[attr-defined]
    with pytest.raises(DiskFull):
        put(log, build(3))
    log.disk.room = None  # type: ignore[attr-defined]
    log.check()
    assert put(log, build(2)).base_offset == 3
    assert offsets(content(log)) == [0, 3]


def test_fetched_batches_keep_their_offsets_and_epochs() -> None:
    leader, follower = new(), new()
    for epoch in (1, 1, 4):
        put(leader, build(2), epoch=epoch)
    data = content(leader)
    appended = follower.append_fetched(data[:-5], 0)
    assert appended is not None and appended.last_offset == 3
    assert follower.append_fetched(data[:20], 0) is None
    follower.append_fetched(content(leader, offset=4), 0)
    assert content(follower) == data
    assert (follower.epochs.epochs, follower.epochs.starts) == ((1, 4), (0, 4))


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x7f\xff\xff\xff"])
def test_a_fetched_batch_whose_length_cannot_be_is_left_out_with_what_follows(length: bytes) -> None:
    leader, follower = new(), new()
    for _ in range(3):
        put(leader, build(2), epoch=1)
    data = bytearray(content(leader))
    size = len(data) // 3
    data[size + 8 : size + 12] = length
    appended = follower.append_fetched(data, 0)
    assert appended is not None and appended.last_offset == 1
    assert follower.append_fetched(data[size:], 0) is None


def test_fetched_batches_with_a_wrong_byte_are_refused_whole() -> None:
    leader, follower = new(), new()
    put(leader, build(2))
    put(leader, build(2))
    data = bytearray(content(leader))
    data[-1] ^= 1
    with pytest.raises(batch.CorruptBatch):
        follower.append_fetched(data, 0)
    assert follower.log_end_offset == 0


def test_fetched_batches_that_do_not_continue_are_refused() -> None:
    leader, follower = new(), new()
    put(leader, build(2))
    follower.append_fetched(content(leader), 0)
    with pytest.raises(OffsetsOutOfOrder):
        follower.append_fetched(content(leader), 0)


def test_an_offset_far_from_the_segments_base_gets_a_segment_of_its_own() -> None:
    log = new()
    put(log, build(1))
    far = build(1)
    batch.patch(far, 0, 5_000_000_000, 0)
    log.append_fetched(far, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 5_000_000_000]
    assert offsets(content(log)) == [0, 5_000_000_000]


@pytest.mark.parametrize("target", range(0, 42))
def test_truncation_to_each_offset(target: int) -> None:
    log = new(segment_bytes=700, index_interval_bytes=100)
    for number in range(20):
        put(log, build(2, 30, timestamp_ms=1000 + number), epoch=number // 4)
    before = content(log)
    jobs = truncate_to(log, target)
    end = min(target - target % 2, 40)
    assert log.log_end_offset == end
    assert content(log) == before[: len(before) * end // 40]
    log.check()
    put(log, build(2, 30, timestamp_ms=5000), epoch=9)
    for job in jobs:
        job()
    assert offsets(content(log)) == [*range(0, end, 2), end]
    flush(log)
    again = reopen(log)
    assert again.cuts == ()
    assert content(again.log) == content(log)
    assert (again.log.epochs.epochs, again.log.epochs.starts) == (log.epochs.epochs, log.epochs.starts)
    expected = 1000 + end // 2 - 1 if end else -1
    assert all((s.max_timestamp(cold=True) or 0) <= max(expected, 5000) for s in again.log.segments)


def test_a_log_begun_elsewhere_keeps_its_offset_over_a_restart() -> None:
    log = new()
    put(log, build(3))
    for job in truncate_fully(log, 100):
        job()
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert reopen(log, log_start_offset=0).log.log_end_offset == 100
    put(log, build(2))
    assert offsets(content(log)) == [100]


def test_a_log_begins_anew_on_a_full_disk_and_gives_its_room_back() -> None:
    """Its first file comes with the first append that finds room."""
    log = new(segment_bytes=300)
    for _ in range(4):
        put(log, build(1, 100))
    disk = log.disk
    assert isinstance(disk, VirtualDisk)

    def no_new_files(path: str, *, create: bool = False) -> VirtualFile:
        if create and path not in disk.files:
            raise DiskFull(errno.ENOSPC, "no room for a new file", path)
        return VirtualDisk.open(disk, path, create=create)

    disk.open = no_new_files  # type: ignore[method-assign]
    jobs = truncate_fully(log, 100)
    assert (log.log_start_offset, log.log_end_offset, len(jobs)) == (100, 100, 1)
    for job in jobs:
        job()
    assert not [name for name in disk.names(DIRECTORY) if name.endswith(".deleted")]
    del disk.open
    assert put(log, build(1, 100)).base_offset == 100
    assert log.segments[0].base_offset == 100


def test_a_flush_that_began_before_a_truncation_says_nothing() -> None:
    log = new()
    put(log, build(10))
    wanted = log.flush()
    truncate_to(log, 0)
    put(log, build(20))
    log.flushed(wanted)
    assert log.recovery_point == 0


def test_a_flush_names_what_was_written_since_the_last() -> None:
    log = new(segment_bytes=300)
    put(log, build(1, 100))
    flush(log)
    assert log.recovery_point == 1
    put(log, build(1, 100))
    put(log, build(1, 100))
    assert log.flush_due(0)
    names = [file.path for file in log.flush().files if file.path.endswith(".log")]
    assert names == [f"{DIRECTORY}/{base:020d}.log" for base in (0, 1, 2)]  # the first was sealed since: its indexes


def test_a_new_file_wants_a_flush_so_that_no_later_one_is_taken_for_the_beginning() -> None:
    log = new(segment_bytes=300)
    put(log, build(1, 100))
    assert log.flush_due(0)
    flush(log)
    assert not log.flush_due(1 << 60)
    for _ in range(3):
        put(log, build(1, 100))
    assert len(log.segments) > 1
    log.disk.crash()  # the file that was never synced is gone, the first one is there
    again = reopen(log)
    assert again.log.log_start_offset == 0 and again.log.log_end_offset == 1


def test_flushes_fall_due_by_messages_and_by_time() -> None:
    log = new(flush_messages=3, flush_ms=1000)
    put(log, build(1))
    log.flush(4500)
    put(log, build(2))
    assert not log.flush_due(5000)
    assert log.flush_due(6000)
    log.flush(6000)
    assert not log.flush_due(9000)
    put(log, build(3))
    assert log.flush_due(6001)


def test_a_clean_stop_needs_no_scan_and_keeps_all() -> None:
    log = new(segment_bytes=600)
    for number in range(20):
        put(log, build(1, 50, producer_id=7, producer_epoch=0, base_sequence=number), epoch=number // 7)
    stop(log)
    again = reopen(log, clean=True)
    assert content(again.log) == content(log)
    assert again.log.recovery_point == 20
    assert again.log.producers.by_id[7].batches[-1].last_sequence == 19
    assert again.log.epochs.starts == log.epochs.starts


def test_settings_may_change_between_segments() -> None:
    log = new(segment_bytes=10_000)
    put(log, build(1, 100))
    log.settings = settings(segment_bytes=100)
    put(log, build(1, 100))
    assert len(log.segments) == 2


def test_a_cut_is_told_to_every_flush_until_one_of_it_is_done() -> None:
    log = new()
    for _ in range(4):
        put(log, build())
    before = log.flush()
    assert not before.cut
    truncate_to(log, 2)
    assert log.flush().cut, "the last one may have failed"
    sync(log, before)
    log.flushed(before)
    assert log.flush().cut, "that one knew nothing of it"
    flush(log)
    assert not log.flush().cut
    truncate_fully(log, 7)
    assert log.flush().cut


def test_what_a_flush_did_not_bring_to_the_disk_is_for_the_next() -> None:
    log = new()
    put(log, build(3), epoch=1)
    flush(log)
    put(log, build(3), epoch=2)
    lost = log.flush()
    assert lost.epochs == log.epochs.encode()
    truncate_to(log, 4)
    put(log, build(1), epoch=3)
    lost = log.flush()
    again = log.flush()
    assert (again.epochs, again.files) == (lost.epochs, lost.files)
    put(log, build(1), epoch=4)
    sync(log, again)
    log.flushed(again)
    assert log.flush().epochs == log.epochs.encode(), "an epoch began while the sync ran"
    flush(log)
    assert log.flush().epochs is None


def _at(offset: int, data: bytearray) -> bytearray:
    batch.patch(data, 0, offset, 0)
    return data


@pytest.mark.parametrize("synced", [True, False], ids=["on the disk", "to be written"])
def test_a_new_beginning_knows_nothing_of_the_producers_of_before(synced: bool) -> None:
    log = new(segment_bytes=200)
    for number in range(6):
        put(log, build(producer_id=7, producer_epoch=0, base_sequence=number))
    if synced:
        flush(log)
        assert log.snapshots.offsets
    truncate_fully(log, 21)
    flush(log)
    log.append_fetched(_at(21, build(producer_id=7, producer_epoch=0, base_sequence=20)), 1_000)
    flush(log)
    assert not [name for name in log.disk.names(DIRECTORY) if name.endswith(".snapshot") and int(name[:20]) < 21]
    again = reopen(log).log
    assert again.producers.equals(log.producers)
    put(again, build(producer_id=7, producer_epoch=0, base_sequence=21))


def test_indexes_that_left_memory_before_a_flush_are_synced_with_it() -> None:
    log = new(IndexCache(1), segment_bytes=100)
    for _ in range(5):
        put(log, build())
    assert [segment.index is None for segment in log.segments] == [True, True, True, False, False]
    flushed = {file.path for file in log.flush().files}
    for segment in log.segments:
        assert {segment.path(suffix) for suffix in (".log", ".index", ".timeindex")} <= flushed


def test_files_are_named_for_a_sync_in_the_order_in_which_they_rest_upon_each_other() -> None:
    """The host makes them durable in that order, and a power cut may come in between."""
    log = new(segment_bytes=400)
    for _ in range(16):
        put(log, build())
    wanted = [path for one in log.segments for path in (one.path(".log"), one.path(".index"), one.path(".timeindex"))]
    assert [file.path for file in log.flush().files][: len(wanted)] == wanted
    flush(log)
    assert len(log.segments) > 3
    bases = [segment.base_offset for segment in log.segments]
    truncate_to(log, bases[2] + 1)
    cut = log.segments[-1]
    assert [file.path for file in log.flush().files][:2] == [DIRECTORY, cut.path(".log")], (
        "why it ends there, then its end"
    )
    truncate_to(log, bases[1] + 1)
    again = log.segments[-1]
    files = [file.path for file in log.flush().files]
    assert again is not cut and files[:2] == [DIRECTORY, again.path(".log")]
    assert len(set(files)) == len(files)


def _begun_anew(offset: int, *, inside: bool = False) -> PartitionLog:
    """A log whose 40 records were too old, so that it is empty, and begins anew in front of where it ended."""
    log = new(retention_ms=1)
    for _ in range(40):
        put(log, build())
    flush(log)
    retained(log, 1 << 50, 40)
    flush(log)
    assert log.size == 0 and log.log_start_offset == log.recovery_point == 40
    truncate_fully(log, offset, inside=inside)
    return log


def _fetched(count: int, offset: int) -> bytearray:
    data = build(count)
    batch.accept(data, 0, len(data), offset, 7, now_ms=1_000)
    return data


def test_a_log_without_records_that_begins_anew_in_front_of_its_end_waits_for_the_checkpoints() -> None:
    """They say that all up to the end is durable: behind a power cut a start would believe what is half written there."""
    log = _begun_anew(20)
    with pytest.raises(Unsettled):
        log.append_fetched(_fetched(1, 20), 1_000)
    flush(log)
    log.append_fetched(_fetched(30, 20), 1_000)
    assert log.log_end_offset == 50


def test_a_log_that_begins_anew_inside_a_batch_does_not_wait() -> None:
    """The batch reaches where the log ended, so that a start checks it, or keeps it."""
    log = _begun_anew(35, inside=True)
    log.append_fetched(_fetched(10, 35), 1_000)
    again = reopen(log, recovery_point=40, log_start_offset=40).log
    assert (again.log_start_offset, again.log_end_offset) == (40, 45)
    log = _begun_anew(35, inside=True)
    log.append_fetched(_fetched(10, 35), 1_000)
    assert isinstance(log.disk, VirtualDisk)
    log.disk.files["topic-0/00000000000000000035.log"].data[70] ^= 1
    assert reopen(log, recovery_point=40).log.log_end_offset == 35


def test_what_comes_in_the_place_of_the_batch_inside_which_a_log_begins_waits_for_the_checkpoints() -> None:
    """That append had no room, another leader sent less, and behind a power cut a start believed what was torn of it."""
    log = _begun_anew(35, inside=True)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "append" else 0
    with pytest.raises(DiskFull):
        log.append_fetched(_fetched(10, 35), 1_000)
    disk.fault = None
    with pytest.raises(Unsettled):
        log.append_fetched(_fetched(3, 35), 1_000)
    assert log.log_end_offset == 35
    flush(log)
    log.append_fetched(_fetched(3, 35), 1_000)
    assert log.log_end_offset == 38


def test_nothing_comes_behind_the_batch_inside_which_a_log_begins_before_the_checkpoints() -> None:
    """It came into a next file, and a start called the log damaged behind a power cut that tore the batch."""
    log = _begun_anew(35, inside=True)
    log.settings = settings(segment_bytes=100)
    log.append_fetched(_fetched(10, 35), 1_000)
    with pytest.raises(Unsettled):
        log.append_fetched(_fetched(1, 45), 1_000)
    flush(log)
    log.append_fetched(_fetched(1, 45), 1_000)
    assert log.log_end_offset == 46


def test_a_batch_that_reaches_where_a_log_ended_lets_none_in_that_is_in_front_of_it() -> None:
    """Another leader sent both at once, and behind a power cut a start believed what was torn of the first."""
    log = _begun_anew(35, inside=True)
    with pytest.raises(Unsettled):
        log.append_fetched(bytes(_fetched(3, 35) + _fetched(10, 38)), 1_000)
    flush(log)
    log.append_fetched(bytes(_fetched(3, 35) + _fetched(10, 38)), 1_000)
    assert log.log_end_offset == 48


@pytest.mark.parametrize("number", [1, 12])
def test_a_log_of_which_all_files_are_lost_waits_for_the_checkpoints(number: int) -> None:
    """They say how far it was durable: behind another power cut a start believed what was torn below that."""
    log = reopen(new(segment_bytes=100), recovery_point=10, log_start_offset=0).log
    assert log.log_end_offset == 0 and not log.segments
    if number == 1:
        with pytest.raises(Unsettled):
            log.append_fetched(_fetched(number, 0), 1_000)
        wanted = log.flush()
        assert wanted.cut
        log.flushed(wanted)
    log.append_fetched(_fetched(number, 0), 1_000)
    assert log.log_end_offset == number


def test_a_log_without_a_file_that_begins_anew_in_front_of_its_end_waits_as_well() -> None:
    """There was no room for the file that says where it ends, so no file is cut."""
    log = new()
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "create" else 0
    truncate_fully(log, 40)
    assert not log.segments
    disk.fault = None
    truncate_fully(log, 20)
    with pytest.raises(Unsettled):
        log.append_fetched(_fetched(1, 20), 1_000)
    flush(log)
    log.append_fetched(_fetched(1, 20), 1_000)
