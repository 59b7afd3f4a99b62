"""Cleaning a log: what stays, where crashes leave it, and what readers, recovery and cuts make of gaps."""

import errno
import random
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from actors.broker.log.cleaning.cleanable import Cleanable, cleanable, due, groups
from actors.broker.log.cleaning.cleaner import (
    Cleaned,
    CleaningLimits,
    CleaningSlice,
    DamagedSegment,
    Durable,
    LogCleaning,
    Retired,
)
from actors.broker.log.cleaning.replacing import SegmentsChanged
from actors.broker.log.log import PartitionLog
from actors.broker.log.retention import drop_segments
from actors.broker.log.truncation import fits, prepare_cut, truncate_to
from actors.ports import DiskFull, Sync
from fastpath.records import batch
from tests.simulator.disk import VirtualDirectory, VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import content, flush, put, reopen

NOW = 1_700_000_000_000
LIMITS = CleaningLimits(1 << 16, 0.9, 4096)
COMPACT = {"cleanup_policy": ("compact",), "segment_bytes": 600, "index_interval_bytes": 100}


def new(**changes: Any) -> PartitionLog:
    return logs.new(**{**COMPACT, **changes})


def keyed(key: bytes, value: bytes | None, timestamp_ms: int = NOW, **header: Any) -> bytearray:
    builder = batch.Builder(timestamp_ms=timestamp_ms, **header)
    builder.append(key, value, timestamp_ms)
    return builder.build()


def filled(count: int = 60, keys: int = 7, **changes: Any) -> PartitionLog:
    """`count` batches of one record over `keys` keys, several segments."""
    log = new(**changes)
    for number in range(count):
        put(log, keyed(b"k%d" % (number % keys), b"v%d" % number), epoch=number // 25)
    flush(log)
    log.checkpointed_offset = log.recovery_point
    return log


def latest(log: PartitionLog) -> dict[bytes, tuple[int, bytes | None]]:
    """Key -> (offset, value) of its last record, as a consumer reads the log."""
    data = content(log)
    return {
        one.key: (one.offset, one.value)
        for head in batch.headers(data)
        for one in batch.records(data, head.position)
        if one.key is not None
    }


def steps(log: PartitionLog, now_ms: int = NOW, limits: CleaningLimits = LIMITS, upper: int | None = None) -> Any:
    log.checkpointed_offset = log.log_end_offset
    found = cleanable(log, log.log_end_offset if upper is None else upper, now_ms)
    return LogCleaning(log, found, limits, bytes(16), now_ms)


def test_a_batch_longer_than_16_mib_is_read_whole() -> None:
    """Its length fills four bytes."""
    size = (1 << 24) + 100
    data = memoryview(bytes(8) + (size - 12).to_bytes(4, "big") + bytes(size - 12))
    asked: list[int] = []

    def read_cold(position: int, count: int) -> memoryview:
        asked.append(count)
        return data[position : position + count]

    segment: Any = SimpleNamespace(size=size, log=SimpleNamespace(path="x", read_cold=read_cold))
    cleaning: Any = SimpleNamespace(_slice_bytes=1 << 16)
    assert len(LogCleaning._read(cleaning, segment, 0)) == size == asked[-1]


def drive(cleaning: LogCleaning, log: PartitionLog) -> Iterator[Any]:
    """Do what it wants, and stop behind each thing done."""
    assert isinstance(log.disk, VirtualDisk)
    running, result = cleaning.steps(), None
    while True:
        try:
            wish = running.send(result)
        except StopIteration as end:
            log.cleaned_offset = end.value.end_offset
            yield end.value
            return
        result = None
        if isinstance(wish, CleaningSlice):
            result = wish.job()
        elif isinstance(wish, Durable):
            log.disk.sync(Sync(0, wish.files, []))
        else:
            assert isinstance(wish, Retired)
            for job in wish.jobs:
                job()
        yield wish


def clean(log: PartitionLog, now_ms: int = NOW, limits: CleaningLimits = LIMITS, upper: int | None = None) -> Cleaned:
    done = list(drive(steps(log, now_ms, limits, upper), log))[-1]
    assert isinstance(done, Cleaned)
    log.check()
    return done


# ---- what is cleaned, and when


def test_one_record_of_each_key_is_left_and_the_active_segment_is_as_it_was() -> None:
    log = filled()
    wanted, active = latest(log), log.active
    sealed = log.segments[-1].base_offset
    done = clean(log)
    assert latest(log) == wanted
    assert log.active is active and done.end_offset == log.cleaned_offset == sealed
    below = [head for head in batch.headers(content(log)) if head.last_offset < sealed]
    assert sum(head.count for head in below) == 7
    assert done.records_read > done.records_kept == 7


def test_what_is_above_the_high_watermark_counts_for_nothing() -> None:
    log = filled()
    mark = log.segments[3].base_offset + 1
    clean(log, upper=mark)
    assert log.cleaned_offset == mark - 1
    found = [head.base_offset for head in batch.headers(content(log))]
    assert found[-(60 - log.cleaned_offset) :] == list(range(log.cleaned_offset, 60))


def test_dirtiness_and_lags_decide() -> None:
    log = filled(min_cleanable_dirty_ratio=0.5)
    found = cleanable(log, 60, NOW)
    assert found.ratio == 1.0 and due(log, found)
    clean(log)
    found = cleanable(log, 60, NOW)
    assert found.cleanable_bytes == 0 and not due(log, found)
    for number in range(12):
        put(log, keyed(b"new", b"%d" % number))
    log.checkpointed_offset = log.log_end_offset
    few = cleanable(log, log.log_end_offset, NOW)
    log.configure(logs.settings(**{**COMPACT, "min_cleanable_dirty_ratio": few.ratio}))
    assert 0 < few.ratio < 1 and not due(log, few)
    log.configure(logs.settings(**{**COMPACT, "min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 50}))
    assert not due(log, cleanable(log, log.log_end_offset, NOW + 50))
    assert due(log, cleanable(log, log.log_end_offset, NOW + 51))
    log.configure(logs.settings(**{**COMPACT, "min_cleanable_dirty_ratio": 0.0, "min_compaction_lag_ms": 100}))
    assert not due(log, cleanable(log, log.log_end_offset, NOW + 99))
    assert due(log, cleanable(log, log.log_end_offset, NOW + 100))


@pytest.mark.parametrize("time, waits_ms", [(NOW, 51), (0, 51), (-1, None)])
def test_a_first_time_of_zero_is_a_time_and_records_without_one_are_looked_at_once(
    time: int, waits_ms: int | None
) -> None:
    """A log whose first batch has no time was asked for it for ever, and never cleaned."""
    log = new(max_compaction_lag_ms=50, min_cleanable_dirty_ratio=0.5)
    for number in range(60):
        put(log, keyed(b"k%d" % (number % 7), b"v%d" % number, time))
    flush(log)
    log = reopen(log, recovery_point=60).log
    log.checkpointed_offset = log.log_end_offset
    while (found := cleanable(log, 60, max(time, 0) + 51)).warm:
        assert all(segment.first_timestamp is None for segment in log.segments[1:-1])
        for job in found.warm:
            job()
    assert due(log, found), "all of it is dirty"
    log.configure(logs.settings(**{**COMPACT, "min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 50}))
    waits = (ms for ms in (50, 51) if due(log, cleanable(log, 60, max(time, 0) + ms)))
    assert next(waits, None) == waits_ms


def test_what_a_look_does_not_know_is_read_by_jobs() -> None:
    log = filled(min_compaction_lag_ms=10, max_compaction_lag_ms=1 << 40)
    log = reopen(log, recovery_point=60).log
    for segment in log.segments[:-1]:
        segment.index = segment.last_timestamp = None
    assert isinstance(log.disk, VirtualDisk)
    looks = 0
    while (found := cleanable(log, 60, NOW + 10)).warm:
        assert not due(log, found)
        looks += 1
        for job in found.warm:
            job()
    assert looks and due(log, found) and found.first_uncleanable == log.segments[-1].base_offset


def test_of_what_is_clean_no_time_is_read() -> None:
    """Behind a start the times of all segments were read from the first one on, some at each look: that of what was to be
    cleaned came last."""
    log = filled(600, min_compaction_lag_ms=10)
    log = reopen(log, recovery_point=600).log
    for segment in log.segments[:-1]:
        segment.index = segment.last_timestamp = None
    clean = len(log.segments) - 4
    log.cleaned_offset, log.checkpointed_offset, looks = log.segments[clean].base_offset, 600, 0
    while (found := cleanable(log, 600, NOW + 10)).warm:
        assert len(found.warm) == 1
        looks += 1
        found.warm[0]()
    assert clean > 70 and looks == 1 and found.cleanable_bytes > 0
    assert all(segment.max_timestamp() is None for segment in log.segments[:clean])


@pytest.mark.parametrize("first", [-1, 0, 5, NOW])
def test_a_first_batch_without_a_time_does_not_stop_the_cleaning_of_a_log(first: int) -> None:
    """It says nothing of an age, and that is known once it has been read."""
    log = new(max_compaction_lag_ms=60_000)
    put(log, keyed(b"k", b"v", timestamp_ms=first))
    for number in range(40):
        put(log, keyed(b"k%d" % (number % 5), b"v"))
    flush(log)
    log = reopen(log).log
    log.checkpointed_offset = log.recovery_point
    for _ in range(3):
        found = cleanable(log, log.log_end_offset, NOW + 60_000)
        for job in found.warm:
            job()
    assert not found.warm and due(log, found)
    assert found.delay_ms == (NOW - first if first >= 0 else 0)


def test_nothing_above_the_checkpointed_recovery_point_is_cleaned() -> None:
    log = filled()
    log.checkpointed_offset = log.segments[2].base_offset + 1
    found = cleanable(log, 60, NOW)
    assert found.first_uncleanable == log.segments[2].base_offset


def test_where_an_epoch_began_outlives_its_batches() -> None:
    """Another replica's records in the gap are told from this log's."""
    log = new()
    for number in range(30):
        put(log, keyed(b"k", b"%d" % number), epoch=number // 3)
    flush(log)
    before = log.epochs.starts[:]
    clean(log)
    flush(log)
    assert len(batch.headers(content(log))) < 15
    assert reopen(log, recovery_point=30, cleaned_offset=log.cleaned_offset).log.epochs.starts == before
    data = content(log)
    follower = logs.new(**COMPACT)
    follower.append_fetched(data, NOW)
    first = batch.header(data)
    assert first.base_offset > 0 and follower.epochs.starts[0] == 0
    assert follower.end_offset_for_epoch(0).end_offset == 0
    log.disk.remove(f"{log.directory}/leader-epoch-checkpoint")
    learnt = reopen(log, recovery_point=0, cleaned_offset=log.cleaned_offset).log.epochs
    assert (learnt.epochs, learnt.starts) == (follower.epochs.epochs, follower.epochs.starts)


def test_records_that_come_back_have_their_epochs_again() -> None:
    """The start was deleted, the table of epochs was written, and a kill came before the checkpoint of the start."""
    log = new()
    for number in range(30):
        put(log, keyed(b"k%d" % (number % 5), b"%d" % number), epoch=number // 10)
    flush(log)
    clean(log)
    log.delete_records(15)
    flush(log)
    opened = reopen(log, recovery_point=30, log_start_offset=0, cleaned_offset=log.cleaned_offset).log
    assert opened.log_start_offset == 0
    for head in batch.headers(content(opened)):
        assert opened.epochs.epoch_at(head.base_offset) == head.epoch
    opened.check()


def test_a_small_map_cleans_as_far_as_it_reaches() -> None:
    log = filled(keys=30, min_cleanable_dirty_ratio=0.0)
    wanted = latest(log)
    small = CleaningLimits(24 * 12, 0.9, 4096)
    ends = []
    while due(log, cleanable(log, 60, NOW)):
        ends.append(clean(log, limits=small).end_offset)
        assert latest(log) == wanted
        assert len(ends) < 2 or ends[-1] > ends[-2]
    assert len(ends) > 2 and ends[-1] == log.segments[-1].base_offset


def test_segments_are_joined_within_their_limits() -> None:
    log = filled()
    sizes = [sum(one.size for one in group.segments) for group in groups(log, 60)]
    assert all(size <= 600 or len(group.segments) == 1 for size, group in zip(sizes, groups(log, 60), strict=True))
    clean(log)
    for number in range(60):
        put(log, keyed(b"k%d" % (number % 7), b"w%d" % number))
    found = groups(log, log.segments[-1].base_offset)
    assert len(found[0].segments) > 1 and sum(one.size for one in found[0].segments) <= 600
    log.settings = logs.settings(**{**COMPACT, "segment_bytes": 1 << 20, "segment_index_bytes": 12 * 8})
    assert all(sum(one.size for one in group.segments) // 100 + 1 <= 8 for group in groups(log, 120)[:-1])


# ---- tombstones and producers


def test_a_tombstone_stays_until_its_horizon() -> None:
    log = new(delete_retention_ms=1_000, min_cleanable_dirty_ratio=0.0)
    put(log, keyed(b"gone", b"x"))
    put(log, keyed(b"gone", None))
    for number in range(20):
        put(log, keyed(b"stays", b"%d" % number))
    flush(log)

    def seen() -> list[int]:
        data = content(log)
        heads = batch.headers(data)
        return [one.offset for head in heads for one in batch.records(data, head.position) if one.key == b"gone"]

    def again(now_ms: int) -> None:
        for number in range(20):
            put(log, keyed(b"stays", b"%d" % number))
        flush(log)
        clean(log, now_ms)

    clean(log, NOW)
    assert seen() == [1]
    again(NOW + 999)
    assert seen() == [1]
    again(NOW + 1_000)
    assert seen() == []


def test_the_last_sequence_of_a_producer_outlives_its_records() -> None:
    log = new()
    put(log, keyed(b"k", b"old", producer_id=9, producer_epoch=1, base_sequence=4))
    for number in range(20):
        put(log, keyed(b"k", b"%d" % number))
    flush(log)
    before = log.producers
    clean(log)
    heads = batch.headers(content(log))
    assert (heads[0].producer_id, heads[0].count, heads[0].base_offset) == (9, 0, 0)
    for path in [path for path in log.disk.files if path.endswith(".snapshot")]:  # type: ignore[attr-defined]
        log.disk.remove(path)
    opened = reopen(log, recovery_point=0).log
    assert opened.producers.equals(before)


# ---- crashes


def test_a_name_that_an_ended_cleaning_has_left_open_is_made_durable_once() -> None:
    """By the next cleaning, however that ends itself; the one behind it need not wait for a sync."""
    log = filled()
    next(wish for wish in drive(steps(log), log) if log.unplaced is not None)
    for owed in (True, False):
        running = drive(steps(log), log)
        durable = next(wish for wish in running if isinstance(wish, Durable))
        (file, *others) = durable.files
        assert (isinstance(file, VirtualDirectory), not others) == (owed, owed), "else the files of a cleaned segment"
        if owed:
            next(running)
        running.close()  # type: ignore[attr-defined]
    assert log.standing is None
    clean(log)


def test_a_crash_at_any_step_loses_no_latest_value() -> None:
    for stop in range(1, 200):
        log = filled(keys=9)
        disk, wanted, end = log.disk, latest(log), log.log_end_offset
        assert isinstance(disk, VirtualDisk)
        running = drive(steps(log), log)
        done = None
        for _ in range(stop):
            done = next(running)
        disk.crash(random.Random(stop))
        found = reopen(log, recovery_point=random.Random(stop).choice([0, 30, end]), cleaned_offset=0)
        assert not found.cuts
        assert latest(found.log) == wanted and found.log.log_end_offset == end
        assert not [name for name in disk.names(log.directory) if name.endswith((".swap", ".cleaned"))]
        clean(found.log)
        assert latest(found.log) == wanted
        if isinstance(done, Cleaned):
            return
    raise AssertionError("the cleaning never ended")


def test_a_crash_at_any_rename_loses_no_latest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(Exception):
        pass

    rename = VirtualDisk.rename
    for stop in range(1, 200):
        log = filled(keys=9)
        disk, wanted, count = log.disk, latest(log), 0
        assert isinstance(disk, VirtualDisk)

        def failing(self: VirtualDisk, old: str, new: str, stop: int = stop) -> None:
            nonlocal count
            count += 1
            if count == stop:
                raise Crash
            rename(self, old, new)

        with monkeypatch.context() as patched:
            patched.setattr(VirtualDisk, "rename", failing)
            try:
                clean(log)
                ended = True
            except Crash:
                ended = False
        disk.crash(random.Random(stop))
        opened = reopen(log, cleaned_offset=0).log
        assert latest(opened) == wanted and opened.log_end_offset == 60
        if ended:
            assert stop > 15
            return
    raise AssertionError("the cleaning never ended")


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize("unlinked", [False, True])
def test_a_segment_that_leaves_before_it_has_its_name_tells_a_start_which_way(
    unlinked: bool, front: bool, place: int
) -> None:
    """There was no room for the name, and of what came then a power cut keeps only that it has left. A start took what was
    cut for the front of the log, and dropped records that were to stay; or it called the log damaged."""
    log, named = filled(keys=60), 0
    disk, cleaning = log.disk, steps(log)
    assert isinstance(disk, VirtualDisk)

    def short(operation: str, path: str) -> int:
        nonlocal named
        named += operation == "rename" and path.endswith(".index.swap")
        return errno.ENOSPC * (named > place)

    disk.fault = short
    with pytest.raises(DiskFull):
        list(drive(cleaning, log))
    disk.fault = None
    assert cleaning.retired is not None
    for job in cleaning.retired.jobs if unlinked else ():
        job()
    disk.sync(Sync(0, [log.names.listing], []))
    (unnamed,) = (one for one in log.segments if one.suffix)
    assert log.segments.index(unnamed) == place
    before = content(log)
    if front:
        drop_segments(log, place + 1)
    else:
        truncate_to(log, unnamed.base_offset - 1)
    disk.crash(None, keeps=lambda change: ".swap" in change.old)
    again = reopen(log, recovery_point=60, cleaned_offset=0, log_start_offset=0).log
    assert again.damaged is None
    assert again.log_start_offset == log.log_start_offset == (again.segments[0].base_offset if front else 0)
    assert len(content(again)) and (before.endswith if front else before.startswith)(content(again))


def test_what_a_cleaning_could_not_remove_costs_no_segment_when_the_next_one_is_interrupted() -> None:
    """A start took the cleaned segment that has its place and not yet its name for one of several of an unfinished split."""
    for stop_at in range(1, 200):
        log = filled(keys=60)
        disk, before = log.disk, latest(log)
        assert isinstance(disk, VirtualDisk)
        left = disk.open(f"{log.directory}/{8:020d}.log.cleaned", create=True)
        left.append((b"a part",))
        disk.sync(Sync(0, [left], []))
        log.configure(logs.settings(**{**COMPACT, "segment_bytes": 1_300}))  # two segments become one
        running, done = drive(steps(log), log), None
        for _ in range(stop_at):
            done = next(running)
        disk.crash()
        again = reopen(log, recovery_point=60, cleaned_offset=0).log
        assert latest(again) == before and again.damaged is None, stop_at
        if isinstance(done, Cleaned):
            return
    raise AssertionError("the cleaning never ended")


def test_a_swap_of_several_apache_kafka_segments_counts_whole_or_not_at_all() -> None:
    log = filled()
    disk = log.disk
    wanted = content(log)
    first, second = log.segments[:2]
    for segment, suffix in ((first, ".cleaned"), (second, ".swap")):
        copy = disk.open(segment.path(".log") + suffix, create=True)
        copy.append((bytes(segment.log.read_cold(0, segment.size))[:61],))
        disk.sync(Sync(0, [copy], []))  # type: ignore[attr-defined]
    assert content(reopen(log).log) == wanted


# ---- what may happen meanwhile


def test_a_cut_ends_it() -> None:
    log = filled()
    cleaning = steps(log)
    running = drive(cleaning, log)
    next(running)
    assert not cleaning.outdated
    truncate_to(log, 30)
    assert cleaning.outdated and log.cleaned_offset == 0
    with pytest.raises(SegmentsChanged):
        list(running)


def test_segments_that_go_meanwhile_end_it() -> None:
    log = filled()
    running = drive(steps(log), log)
    while not isinstance(next(running), Durable):
        pass
    drop_segments(log, 2)
    with pytest.raises(SegmentsChanged):
        list(running)


def test_a_cut_below_it_takes_the_checkpoint_back() -> None:
    log = filled()
    clean(log)
    assert log.cleaned_offset > 20
    truncate_to(log, 20)
    assert log.cleaned_offset == log.log_end_offset <= 20
    offset = put(log, keyed(b"k0", b"after")).base_offset
    assert latest(log)[b"k0"] == (offset, b"after")


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    log = filled()
    before, wanted = content(log), latest(log)
    assert isinstance(log.disk, VirtualDisk)
    cleaning = steps(log)
    log.disk.room = 10
    with pytest.raises(DiskFull):
        list(drive(cleaning, log))
    assert content(log) == before and latest(log) == wanted
    log.disk.room = None
    assert cleaning.leftover is not None
    assert [name for name in log.disk.names(log.directory) if "cleaned" in name]
    cleaning.leftover.delete()()
    assert not [name for name in log.disk.names(log.directory) if "cleaned" in name]


@pytest.mark.parametrize("place", [0, 2])
def test_damage_ends_it_with_file_and_position(place: int) -> None:
    log = filled()
    assert isinstance(log.disk, VirtualDisk)
    position = batch.headers(log.segments[place].log.read_cold(0, 1 << 20))[1].position
    log.disk.corrupt(log.segments[place].path(".log"), position + 70)
    with pytest.raises(DamagedSegment, match=rf"{log.segments[place].path('.log')} at byte {position}: .*CRC"):
        list(drive(steps(log), log))


@pytest.mark.parametrize("bit", [0x80, 0x40])
def test_a_batch_whose_length_cannot_be_ends_it(bit: int) -> None:
    """Read as a signed number the first one is below the size of any batch, the second one beyond the file's."""
    log = filled()
    assert isinstance(log.disk, VirtualDisk)
    log.disk.corrupt(log.segments[0].path(".log"), 8, bit)
    with pytest.raises(DamagedSegment, match=rf"{log.segments[0].path('.log')} ends inside the batch at byte 0"):
        list(drive(steps(log), log))


def test_readers_of_an_old_segment_go_on() -> None:
    log = filled()
    before = content(log)
    reading = log.cold_read(0, 1 << 20)
    slow = [segment for segment in log.segments[:-1]]
    for segment in slow:
        segment.drop_index()
    assert isinstance(log.disk, VirtualDisk)
    log.disk.cold = lambda path, position, size: True
    cut = prepare_cut(log, log.segments[1].base_offset + 1)
    log.disk.cold = None
    assert cut is not None and fits(log, cut)
    clean(log)
    found = reading()
    assert bytes(found.data) == before[: len(found.data)] and len(found.data) > 0
    assert all(segment.load_index(cold=True) is not None for segment in slow)
    assert not fits(log, cut), "positions in an old index are not those of the new file"


# ---- gaps


def gapped(keys: int = 3) -> PartitionLog:
    log = filled(keys=keys)
    clean(log)
    return log


@pytest.mark.parametrize("clean_stop", [True, False])
@pytest.mark.parametrize("point", [0, 25, 60])
def test_a_log_with_gaps_is_opened_as_it_was(clean_stop: bool, point: int) -> None:
    log = gapped()
    before, producers = content(log), log.producers
    found = reopen(log, clean=clean_stop, recovery_point=point, cleaned_offset=log.cleaned_offset)
    assert not found.cuts and content(found.log) == before
    assert found.log.producers.equals(producers) and found.log.sparse
    for offset in range(60):
        read = found.log.read(offset, 1)
        read = found.log.cold_read(offset, 1)() if read is None else read
        head = batch.header(read.data)
        assert head.last_offset >= offset and not [
            one for one in batch.headers(before) if offset <= one.last_offset < head.base_offset
        ]


@pytest.mark.parametrize("place", [8, 10, 11])
@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_a_damaged_length_does_not_pass_for_a_gap(place: int, bits: int) -> None:
    """What comes behind it in the segment must not be passed over in silence."""
    log = gapped(keys=30)
    assert isinstance(log.disk, VirtualDisk)
    segment = next(one for one in log.segments[:-1] if len(batch.headers(one.log.read_cold(0, 1 << 20))) > 2)
    heads = batch.headers(segment.log.read_cold(0, 1 << 20))
    log.disk.corrupt(segment.path(".log"), heads[1].position + place, bits)
    for read in (log.read, lambda *args: log.cold_read(*args)()):
        offset, found = segment.base_offset, list[int]()
        with pytest.raises(batch.CorruptBatch):
            while offset < log.segments[-1].base_offset:
                got = read(offset, 1)
                assert got is not None and got.data
                head = batch.verify(got.data)
                assert head.base_offset in [one.base_offset for one in heads[:2]], "something was passed over"
                found.append(head.base_offset)
                offset = got.next_offset


def test_a_lost_tail_is_still_found_in_a_compacted_log() -> None:
    log = filled()
    segment = log.segments[2]
    heads = batch.headers(segment.log.read_cold(0, 1 << 20))
    segment.log.truncate(heads[-1].position)
    found = reopen(log, recovery_point=0)
    assert {cut.reason for cut in found.cuts} == {"behind"}
    assert found.log.log_end_offset == heads[-1].base_offset


def test_a_follower_stores_gaps_byte_for_byte() -> None:
    leader = gapped()
    for policy in ("compact", "delete"):
        follower = logs.new(**{**COMPACT, "cleanup_policy": (policy,)})
        data = content(leader)
        position = 0
        for head in batch.headers(data):
            assert follower.append_fetched(data[position : position + head.size], NOW) is not None
            position += head.size
        assert content(follower) == data and follower.sparse
        assert follower.log_end_offset == leader.log_end_offset
        assert content(reopen(follower, recovery_point=0).log) == data


def test_a_cut_inside_a_gap_ends_the_log_behind_the_last_batch() -> None:
    data = content(gapped())
    heads = batch.headers(data)
    gap = next(one for one, two in pairwise(heads) if two.base_offset > one.last_offset + 2)
    log = logs.new(**COMPACT)
    log.append_fetched(data, NOW)
    truncate_to(log, gap.last_offset + 3)
    assert log.log_end_offset == gap.last_offset + 1
    assert content(log)[-gap.size :] == data[gap.position : gap.position + gap.size]
    assert put(log, keyed(b"k", b"v"), epoch=9).base_offset == gap.last_offset + 1


def test_the_segment_of_a_removed_end_is_still_whole() -> None:
    """The last batch of each segment stays, so that a lost tail can be told from a gap."""
    log = filled(keys=60)
    put(log, keyed(b"k0", b"again"))
    clean(log)
    for segment, behind in zip(log.segments, log.segments[1:], strict=False):
        assert batch.headers(segment.log.read_cold(0, 1 << 20))[-1].last_offset == behind.base_offset - 1


def test_a_look_at_nothing() -> None:
    log = new()
    assert cleanable(log, 0, NOW) == Cleanable(0, 0, 0, 0, 0)
    assert not due(log, cleanable(log, 0, NOW))
