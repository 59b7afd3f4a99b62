"""Offsets by time, against reading every record."""

from random import Random

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.offsets_by_time import TimeOffset, TimeSearch
from actors.broker.log.slices import Sliced
from actors.ports import More
from fastpath.records import batch
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, stop


def _search(log: PartitionLog, timestamp: int, upper: int | None = None) -> TimeOffset | None:
    answer = log.offset_for_time(timestamp, upper)
    assert isinstance(answer, TimeSearch)
    return answer()


def _filled(seed: int) -> tuple[PartitionLog, list[TimeOffset]]:
    random = Random(seed)
    log = new(segment_bytes=random.choice([600, 3000]), index_interval_bytes=random.choice([0, 200, 4096]))
    clock = 1000
    for number in range(60):
        builder = batch.Builder(timestamp_ms=clock)
        for _ in range(random.randrange(1, 4)):
            builder.append(None, bytes(random.randrange(60)), clock + random.randrange(-300, 300))
        put(log, builder.build(), epoch=number // 20)
        clock += random.randrange(0, 100)
    records = []
    for header in batch.headers(content(log)):
        for record in batch.records(content(log), header.position):
            records.append(TimeOffset(record.offset, record.timestamp, header.epoch))
    return log, records


@pytest.mark.parametrize("seed", range(12))
def test_the_first_record_at_or_after_a_time(seed: int) -> None:
    log, records = _filled(seed)
    log.delete_records(7)
    times = sorted({record.timestamp for record in records})
    for timestamp in [0, *(t + d for t in times for d in (0, 1)), times[-1] + 1]:
        expected = next((r for r in records if r.timestamp >= timestamp and r.offset >= 7), None)
        assert _search(log, timestamp) == expected


@pytest.mark.parametrize("seed", range(12))
def test_the_largest_timestamp(seed: int) -> None:
    log, records = _filled(seed)
    largest = max(record.timestamp for record in records)
    expected = next(record for record in records if record.timestamp == largest)
    assert _search(log, -3) == expected
    stop(log)
    assert _search(reopen(log, clean=True).log, -3) == expected


@pytest.mark.parametrize("seed", range(4))
def test_the_largest_timestamp_is_one_of_the_records_that_are_left(seed: int) -> None:
    log, records = _filled(seed)
    for offset in range(1, log.log_end_offset):
        log.delete_records(offset)
        left = [record for record in records if record.offset >= offset]
        assert _search(log, -3) == max(left, key=lambda record: (record.timestamp, -record.offset))


def timed(*batches: tuple[int, ...], segment_bytes: int = 1 << 20) -> PartitionLog:
    """A log with these times in its batches; -1: a record has none."""
    log = new(segment_bytes=segment_bytes, index_interval_bytes=0)
    for times in batches:
        builder = batch.Builder(timestamp_ms=times[0])
        for time in times:
            builder.append(b"k", b"v", time)
        put(log, builder.build())
    return log


@pytest.mark.parametrize(
    "batches, offset, time",
    [
        ([(0,)], 0, 0),
        ([(-1, 0)], 1, 0),
        ([(-1,), (-1, 0, 0), (-1,)], 2, 0),
        ([(0,), (0, 1), (0,)], 2, 1),
        ([(-1,)], 0, -1),
        ([(-1, -1), (-1,)], 0, -1),
        ([(5,), (-1,), (0,)], 0, 5),
    ],
)
@pytest.mark.parametrize("segment_bytes", [1 << 20, 80])
@pytest.mark.parametrize("restarted", [False, True])
def test_the_largest_timestamp_may_be_zero_or_none(
    batches: list[tuple[int, ...]], offset: int, time: int, segment_bytes: int, restarted: bool
) -> None:
    """Zero is a time, 1970-01-01. Of records without a time the first is told, as by Apache Kafka."""
    log = timed(*batches, segment_bytes=segment_bytes)
    if restarted:
        stop(log)
        log = reopen(log, clean=True).log
    assert _search(log, -3) == TimeOffset(offset, time, 0)
    at_zero = next((at for at, one in enumerate(one for some in batches for one in some) if one >= 0), None)
    found = _search(log, 0)
    assert (found.offset if found else None) == at_zero


def test_the_largest_timestamp_of_what_is_left_may_be_zero_or_none() -> None:
    log = timed((9,), (0, 0), (-1,), (-1,))
    seen = []
    for offset in range(1, 5):
        log.delete_records(offset)
        seen.append(_search(log, -3))
    assert seen == [TimeOffset(1, 0, 0), TimeOffset(2, 0, 0), TimeOffset(3, -1, 0), TimeOffset(4, -1, 0)]
    assert _search(log, -3, upper=4) is None
    assert _search(new(), -3) is None


def test_the_largest_timestamp_of_a_log_with_deleted_records_reads_each_batch_once() -> None:
    """The first segment was searched for its largest time, and then once more."""
    log = new(segment_bytes=1 << 20, index_interval_bytes=0)
    for number in range(20):
        put(log, build(3, 60, timestamp_ms=1000 + number))
    log.delete_records(7)
    segment, reads = log.segments[0], 0
    read_cold = segment.log.read_cold

    class Counted:
        size = segment.log.size

        def read_cold(self, position: int, size: int) -> memoryview:
            nonlocal reads
            reads += size > batch.HEADER_SIZE  # an entry of the index is held against its batch
            return read_cold(position, size)

    segment.log = Counted()  # type: ignore[assignment]
    assert _search(log, -3) == TimeOffset(57, 1019, 0)
    assert reads == 2, "one of them for the entry of the time index"


@pytest.mark.parametrize("clean", [True, False])
def test_times_are_found_after_a_restart_where_every_batch_was_flushed(clean: bool) -> None:
    """All of a segment is on the disk before the next one begins, save what its time index gets when it is sealed."""
    log = new(segment_bytes=600, index_interval_bytes=200)
    for number in range(20):
        put(log, build(1, 60, timestamp_ms=1000 * number))
        flush(log)
    if clean:
        stop(log)
    log = reopen(log, clean=clean).log
    assert [_search(log, 1000 * number) for number in range(20)] == [
        TimeOffset(number, 1000 * number, 0) for number in range(20)
    ]


def test_the_ends_of_the_log() -> None:
    log, _ = _filled(1)
    end = log.log_end_offset
    assert log.offset_for_time(-1) == (end, -1, 2)
    assert log.offset_for_time(-1, 5) == (5, -1, 2)
    assert log.offset_for_time(-2) == log.offset_for_time(-4) == (0, -1, 0)
    log.delete_records(end - 1)
    assert log.offset_for_time(-2) == (end - 1, -1, 2)
    assert log.offset_for_time(-5) is None


def test_nothing_at_or_above_the_upper_offset_is_found() -> None:
    log, records = _filled(2)
    last = records[-1]
    assert _search(log, last.timestamp, last.offset) != last
    assert _search(new(), 0) is None
    assert _search(new(), -3) is None


def test_the_logs_own_time_is_that_of_the_batch() -> None:
    log = new()
    builder = batch.Builder(timestamp_ms=5)
    for _ in range(3):
        builder.append(None, b"x", 5)
    data = builder.build()
    accepted = batch.accept(data, 0, len(data), 0, 0, now_ms=900, append_time=True)
    log.append(data, accepted.headers, 900)
    assert _search(log, 900) == (0, 900, 0)
    assert _search(log, 901) is None


def test_the_times_of_many_segments_are_read_in_slices() -> None:
    """The first search behind a start read those of all segments of a log at once."""
    log = new(segment_bytes=100)
    for number in range(600):
        put(log, build(1, 20, timestamp_ms=1_000 + number))
    stop(log)
    log = reopen(log, clean=True).log
    for timestamp in (1_599, -3):
        for segment in log.segments:
            segment.last_timestamp = None
        search = log.offset_for_time(timestamp)
        assert isinstance(search, TimeSearch)
        job, slices = Sliced(search.steps()), 1
        while isinstance(result := job(), More):
            slices += 1
        assert slices > 2 and result == TimeOffset(599, 1_599, 0)
