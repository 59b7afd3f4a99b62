"""Where an index had to be built because its files are not sound, nothing of them is ever taken for a part of it."""

from struct import pack
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.offsets_by_time import TimeSearch
from actors.broker.log.producers.producers import CorruptSnapshot
from actors.broker.log.segment import INDEX, LOG, TIME_INDEX, Segment
from actors.broker.log.truncation import prepare_cut, truncate_to
from actors.ports import DiskFull
from fastpath.records.batch import headers
from fastpath.records.indexes import SegmentIndex
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, retained, settings, stop

SMALL = {"segment_bytes": 2000}


def files(segment: Segment) -> list[bytes]:
    found = []
    for ending in (INDEX, TIME_INDEX):
        file = segment.disk.open(segment.path(ending))
        found.append(bytes(file.read_cold(0, file.size)))
    return found


def entries(index: SegmentIndex | None) -> list[bytes]:
    assert index is not None
    return [index.offsets.data(), index.times.data()]


def stopped(interval: int, timestamp_ms: int = 1_000) -> PartitionLog:
    """A log of some segments, after a clean stop."""
    log = new(index_interval_bytes=interval, **SMALL)
    for number in range(80):
        put(log, build(size=number % 50, timestamp_ms=timestamp_ms + number if timestamp_ms >= 0 else -1))
    stop(log)
    assert len(log.segments) > 2
    return log


def cut(log: PartitionLog, offset: int) -> None:
    """Cut as a follower does."""
    job = prepare_cut(log, offset)
    truncate_to(log, offset, job() if job is not None else None)
    flush(log)


def all_found(log: PartitionLog) -> bool:
    """Whether each offset is found by the index."""
    for offset in range(log.log_end_offset):
        log.hints.clear()
        read = log.read(offset, 1) or log.cold_read(offset, 1)()
        if not any(one.base_offset <= offset <= one.last_offset for one in headers(read.data)):
            return False
    return True


@pytest.mark.parametrize("at", range(2, 12))
def test_a_cut_keeps_no_entry_of_files_from_which_the_index_was_not_read(at: int) -> None:
    """Records without timestamps have no time index, so this one is built; and with more entries than the file has."""
    log = stopped(interval=350, timestamp_ms=-1)
    log.settings = settings(index_interval_bytes=200, **SMALL)
    log = reopen(log, clean=True).log
    cut(log, at)
    put(log, build(count=60, timestamp_ms=2_000))
    for number in range(40):
        put(log, build(timestamp_ms=3_000 + number))
    first = log.segments[0]
    flush(log)
    assert files(first) == entries(first.index)
    stop(log)
    assert all_found(reopen(log, clean=True).log)


@pytest.mark.parametrize("ending", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("size", [0, 5, 8, 13])
@pytest.mark.parametrize("drops", [True, False])
def test_what_is_left_of_an_index_file_ends_no_flush_and_no_drop(ending: str, size: int, drops: bool) -> None:
    log = stopped(interval=1)
    file = log.disk.open(log.segments[0].path(ending))
    whole = content(log)
    file.truncate(size)
    read = reopen(log, clean=True).log
    first = read.segments[0]
    for _ in range(2):  # a thread builds the index, and the next read takes it
        assert content(read, bytes_max=1) == whole
    assert first.index is not None
    if drops:
        right = entries(first.index)
        first.drop_index()
        assert content(read) == whole and files(first) == right
    cut(read, 3)
    put(read, build())
    flush(read)
    assert read.active is first and files(first) == entries(first.index)
    first.index = None
    assert all_found(read)


def test_an_index_that_is_dropped_before_the_cut_is_built_again_for_it() -> None:
    log = stopped(interval=1)
    log.disk.open(log.segments[0].path(TIME_INDEX)).truncate(5)
    log = reopen(log, clean=True).log
    job = prepare_cut(log, 3)
    assert job is not None
    prepared = job()
    content(log, bytes_max=1)
    log.segments[0].drop_index()
    truncate_to(log, 3, prepared)
    flush(log)
    assert files(log.segments[0]) == entries(log.segments[0].index)


def test_an_index_that_could_not_be_replaced_whole_leaves_nothing_of_the_old_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = stopped(interval=1)
    first = log.segments[0]
    right = entries(first.index)
    file = log.disk.open(first.path(TIME_INDEX))
    file.overwrite(0, (5).to_bytes(8, "big"))  # it rises as before, and is wrong
    file.truncate(24)
    log = reopen(log, clean=True).log
    first = log.segments[0]
    assert log.have_index(first)
    again = SegmentIndex(0, 1)
    first.scan(again, 0, 0, check_from=0)
    again.seal()
    append = VirtualFile.append

    def full(self: VirtualFile, parts: Any) -> int:
        raise DiskFull(28, "no room", self.path)

    monkeypatch.setattr(VirtualFile, "append", full)
    with pytest.raises(DiskFull):
        first.replace_index(again)
    monkeypatch.setattr(VirtualFile, "append", append)
    first.drop_index()
    assert files(first) == right


def rotten(ending: str, bit: int, **changes: Any) -> PartitionLog:
    """A log of which a bit has rotted in an index file of its second segment since it was opened."""
    log = new(index_interval_bytes=200, **SMALL, **changes)
    for number in range(60):
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        put(log, build(size=number % 50, timestamp_ms=1_000 + number, **producer))
    stop(log)
    log = reopen(log, clean=True, cleaned_offset=0 if changes else -1).log
    assert isinstance(log.disk, VirtualDisk)
    data = log.disk.files[log.segments[1].path(ending)].data
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    return log


@pytest.mark.parametrize("changes", [{}, {"cleanup_policy": ("compact",)}])
def test_a_bit_that_has_rotted_in_an_index_hides_no_record_and_leads_no_cut_astray(changes: dict[str, Any]) -> None:
    """A reader of a compacted log was given what came behind the records that it asked for, and a follower left them out;
    one of another log took the replica for damaged. A cut took more than it was to take, or left what it was to take."""
    for bit in range(4 * 64):
        log = rotten(INDEX, bit, **changes)
        begin, end = log.segments[1].base_offset, log.segments[2].base_offset
        for offset in range(begin, end):
            log.hints.clear()
            read = log.read(offset, 1) or log.cold_read(offset, 1)()
            assert [one.base_offset for one in headers(read.data)] == [offset], bit
            searched = log.offset_for_time(1_000 + offset)
            assert isinstance(searched, TimeSearch)
            found = searched()
            assert found is not None and found.offset == offset, bit
        at = begin + bit % (end - begin)
        cut(log, at)
        assert (log.log_end_offset, log.damaged) == (at, None), bit
        assert all_found(log)
        assert log.producers.by_id[7].batches[-1].last_offset == at - 1


def test_a_bit_that_has_rotted_in_an_index_hides_no_producer_from_a_cut() -> None:
    """A cut reads the producers from where the index says that a snapshot was made: the log was called damaged."""

    def more(log: PartitionLog, first: int, last: int) -> None:
        for number in range(first, last):
            put(log, build(size=number % 50, producer_id=7, producer_epoch=0, base_sequence=number))

    for bit in range(8 * 8 * 8):
        log = new(index_interval_bytes=200, segment_bytes=6_000)
        more(log, 0, 20)
        stop(log)
        log = reopen(log, clean=True).log
        more(log, 20, 40)
        log.roll(1_000)
        more(log, 40, 45)
        stop(log)
        log = reopen(log, clean=True).log
        segment = log.segments[0]
        assert isinstance(log.disk, VirtualDisk)
        data = log.disk.files[segment.path(INDEX)].data
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        index = segment.load_index(cold=True)
        assert index is not None
        segment.keep_index(index)
        cut(log, 30)
        assert (log.log_end_offset, log.damaged) == (30, None), bit
        assert log.producers.by_id[7].batches[-1].last_offset == 29


def test_a_snapshot_that_is_gone_is_told_from_a_segment_that_is_read_again() -> None:
    """A follower that was to be cut looked for it again and again, and never came back into the ISR."""
    log = new(**SMALL)
    for number in range(60):
        put(log, build(size=number, producer_id=7, producer_epoch=0, base_sequence=number))
    stop(log)
    log = reopen(log, clean=True).log
    assert isinstance(log.disk, VirtualDisk)
    begin = log.segments[1].base_offset
    log.disk.remove(log.snapshots.path(begin))
    log.disk.cold = lambda path, position, size: True
    job = prepare_cut(log, begin + 2)
    log.disk.cold = None
    assert job is not None and job.start == begin
    with pytest.raises(CorruptSnapshot):
        job()
    log.snapshots.forget(job.start)
    cut(log, begin + 2)
    assert (log.log_end_offset, log.damaged) == (begin + 2, None)
    assert log.producers.by_id[7].batches[-1].last_offset == begin + 1


@pytest.mark.parametrize("loaded", [False, True])
def test_a_bit_that_has_rotted_in_a_time_index_deletes_nothing_and_keeps_nothing_for_ever(loaded: bool) -> None:
    """Retention took a segment, on all replicas where the leader did, for the time that its index said it was of; or it kept
    that one and all behind it."""
    day_ms, begin_ms = 86_400_000, 1_700_000_000_000
    for bit in range(12 * 8):
        log = new(index_interval_bytes=200, retention_ms=7 * day_ms, **SMALL)
        for number in range(60):
            put(log, build(size=number % 50, timestamp_ms=begin_ms + number))
        stop(log)
        log = reopen(log, clean=True).log
        segment = log.segments[0]
        assert isinstance(log.disk, VirtualDisk)
        data = log.disk.files[segment.path(TIME_INDEX)].data
        data[len(data) - 12 + bit // 8] ^= 1 << bit % 8
        if loaded:
            index = segment.load_index(cold=True)
            assert index is not None
            segment.keep_index(index)
        assert retained(log, begin_ms + day_ms, log.log_end_offset).deleted == 0, bit
        if loaded:
            segment.drop_index()
        assert retained(log, begin_ms + 30 * day_ms, log.log_end_offset).deleted > 1, bit


def of_appends(interval: int, together: int, segment_bytes: int = 12_000) -> PartitionLog:
    """A stopped log the first segment of which Apache Kafka before 4.0 has fetched or cleaned, so many batches at a time."""
    log = new(index_interval_bytes=interval, segment_bytes=segment_bytes)
    for number in range(160):
        put(
            log,
            build(size=number % 50, timestamp_ms=1_000 + number, producer_id=7, producer_epoch=0, base_sequence=number),
        )
    stop(log)
    assert isinstance(log.disk, VirtualDisk)
    segment, found, behind = log.segments[0], bytearray(), 0
    whole = headers(log.disk.files[segment.path(LOG)].data)
    for place in range(0, len(whole), together):
        appended = whole[place : place + together]
        if behind > interval:
            found += pack(">ii", appended[-1].last_offset - segment.base_offset, appended[0].position)
            behind = 0
        behind += sum(one.size for one in appended)
    log.disk.files[segment.path(INDEX)].data[:] = found
    return log


def test_an_entry_of_several_batches_leads_to_the_first_of_them() -> None:
    """It was taken for rotten: a read of such a segment came through all entries and then all batches in front of it, in the
    loop, two thirds of a second in a segment of 1 GiB."""
    log = reopen(of_appends(100, 3), clean=True).log
    assert isinstance(log.disk, VirtualDisk)
    looked_at = list[tuple[int, int]]()
    for offset in range(log.segments[1].base_offset):
        log.hints.clear()
        assert log.have_index(log.segments[0])
        looked_at.clear()
        log.disk.cold = lambda path, position, size: looked_at.append((position, size)) or False  # type: ignore[func-returns-value]
        read = log.read(offset, 1)
        log.disk.cold = None
        assert read is not None and headers(read.data)[0].base_offset == offset
        assert sum(size for _, size in looked_at) < 1_200 and len(looked_at) < 9, (offset, looked_at)
    for segment in log.segments:
        assert segment.max_timestamp(cold=True) == 999 + log.end_of(segment)


def test_the_end_of_a_segment_with_entries_of_several_batches_is_found_by_the_last_of_them() -> None:
    """Behind a kill all that Apache Kafka had left was read to its last byte, of all logs."""
    log = reopen(of_appends(100, 3), clean=True).log
    segment, wanted = log.segments[0], list[int]()
    read_cold = segment.log.read_cold

    class Counted:
        size = segment.log.size

        def read_cold(self, position: int, size: int) -> memoryview:
            wanted.append(size)
            return read_cold(position, size)

    assert len(log.segments) > 1
    segment.log = Counted()  # type: ignore[assignment]
    assert segment.find_last() == (log.segments[1].base_offset, 0)
    assert sum(wanted) < 1_000


@pytest.mark.parametrize("together", [2, 3, 5])
def test_a_segment_with_entries_of_several_batches_can_be_cut_anywhere(together: int) -> None:
    """What was found behind such an entry did not rise above it."""
    for at in range(2, 100, 7):
        log = reopen(of_appends(100, together), clean=True).log
        cut(log, at)
        assert (log.log_end_offset, log.damaged) == (at, None)
        put(log, build(count=60, timestamp_ms=2_000, producer_id=7, producer_epoch=0, base_sequence=at))
        flush(log)
        first = log.segments[0]
        assert files(first) == entries(first.index)
        assert all_found(log)
        stop(log)
        assert all_found(reopen(log, clean=True).log)


def test_what_is_not_in_memory_of_a_log_does_not_make_a_cut_read_more_in_the_loop() -> None:
    """Where the index says that a cut comes was to be held against the log: not in memory, it counted as the begin of the
    segment, and nothing seemed to lie between the snapshot and that."""
    log = new(index_interval_bytes=1_000)

    def more(first: int, last: int) -> None:
        for number in range(first, last):
            put(log, build(size=20_000, producer_id=7, producer_epoch=0, base_sequence=number))

    more(0, 20)
    stop(log)
    log = reopen(log, clean=True).log
    more(20, 120)
    assert isinstance(log.disk, VirtualDisk) and log.active is not None and log.active.index is not None
    job = prepare_cut(log, 110)
    assert job is not None and job.start == 20 and job.position > 0
    behind = log.active.index.offsets.lookup(110)[1]
    log.disk.cold = lambda path, position, size: position == behind
    assert prepare_cut(log, 110) is not None
    log.disk.cold = None
    assert prepare_cut(log, 25) is None


def test_a_bit_that_has_rotted_in_a_time_index_hides_no_record_from_a_search() -> None:
    """Who asked for the first record of a time was sent behind it."""
    begin_ms = 1_700_000_000_000
    log = new(index_interval_bytes=200, **SMALL)
    for number in range(60):
        put(log, build(size=number % 50, timestamp_ms=begin_ms + 1_000 * number))
    stop(log)
    log = reopen(log, clean=True).log
    assert isinstance(log.disk, VirtualDisk)
    data = log.disk.files[log.segments[1].path(TIME_INDEX)].data
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        log.segments[1].last_timestamp = None
        for offset in range(log.segments[1].base_offset, log.segments[2].base_offset):
            search = log.offset_for_time(begin_ms + 1_000 * offset)
            assert isinstance(search, TimeSearch)
            assert (found := search()) is not None and found.offset == offset, bit
        data[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("together", [1, 4])
def test_a_start_goes_on_behind_the_last_entry_of_several_batches(clean: bool, together: int) -> None:
    """It looked at the whole of the last segment of each log."""
    started = reopen(of_appends(100, together, 1 << 20), clean=clean, recovery_point=160)
    log = started.log
    assert started.scanned_bytes < 1_000 and log.log_end_offset == 160
    for number in range(40):
        put(log, build(timestamp_ms=3_000 + number, producer_id=7, producer_epoch=0, base_sequence=160 + number))
    flush(log)
    assert log.active is not None and files(log.active) == entries(log.active.index)
    assert all_found(log)
