"""Every bit of what is at rest: flipped one after the other, each is found where it is, and sound files have no fault."""

from itertools import pairwise

import numpy as np
import pytest

from actors.broker.log import scrubbing
from actors.broker.log.directories.checkpoints import LEADER_EPOCHS
from actors.broker.log.directories.directory import PARTITION_METADATA
from actors.broker.log.mending import aborted_again, tells_aborted
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX
from actors.broker.log.scrubbing import SegmentScrub, SmallFiles
from actors.broker.log.segment import INDEX, LOG, TIME_INDEX
from fastpath.records import batch as batches
from fastpath.records.indexes import SegmentIndex
from tests.unit.broker.log.logs import DIRECTORY, build, flush, new, put, stop
from tests.unit.broker.log.transactions import end, write

PIECES = [70, 200, 1 << 20]
"""Bytes read at a time: less than a batch, more than one, all."""


def _log(**settings):
    """A log of several sealed segments in three epochs, durable, with times that rise and fall."""
    log = new(segment_bytes=600, index_interval_bytes=100, **settings)
    for number in range(24):
        time = 1_000 + 7 * number - 20 * (number % 3)
        put(
            log,
            build(1 + number % 2, 30, time, producer_id=5, producer_epoch=0, base_sequence=number + number // 2),
            number // 9,
        )
    flush(log)
    return log


def _scrubs(log, piece_bytes=1 << 20, rebuild=False, only=None):
    found = []
    for segment, behind in pairwise(log.segments):
        if only not in (None, segment):
            continue
        scrub = SegmentScrub(
            log.disk,
            log.directory,
            segment.base_offset,
            behind.base_offset,
            segment.log,
            sparse=log.sparse,
            start_offset=log.log_start_offset,
            epochs=(log.epochs.epochs, log.epochs.starts),
            transactions=segment.aborted.exists,
            rebuild=SegmentIndex(segment.base_offset, segment.interval_bytes) if rebuild else None,
            piece_bytes=piece_bytes,
        )
        while not scrub.done:
            scrub.step()
        found.append(scrub)
    return found


def _faults(log, piece_bytes=1 << 20, only=None):
    scrubs = _scrubs(log, piece_bytes, only=only)
    return [one for scrub in scrubs for one in scrub.faults], {
        scrub.path(ending): why for scrub in scrubs for ending, why in scrub.index_faults.items()
    }


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_a_sound_log_has_no_fault(piece_bytes):
    log = _log()
    assert len(log.segments) > 3 and log.epochs.epochs == (0, 1, 2)
    assert _faults(log, piece_bytes) == ([], {})
    for scrub, segment in zip(_scrubs(log, piece_bytes, rebuild=True), log.segments, strict=False):
        assert scrub.rebuild.offsets.data() == log.disk.files[scrub.path(INDEX)].data
        assert scrub.rebuild.times.data() == log.disk.files[scrub.path(TIME_INDEX)].data
        assert len(scrub.rebuild.offsets) and scrub.path(LOG) == segment.log.path


@pytest.mark.parametrize("piece_bytes", PIECES)
def test_each_bit_of_a_log_file_is_found_and_no_other_batch_is_blamed(piece_bytes):
    log = _log()
    path = log.segments[1].log.path
    sound = bytes(log.disk.files[path].data)
    heads = batches.headers(sound)
    for head in (heads[0], heads[2], heads[-1]):
        for position in range(head.position, head.position + head.size):
            for bit in range(8):
                log.disk.corrupt(path, position, 1 << bit)
                faults, wrong = _faults(log, piece_bytes, log.segments[1])
                assert wrong == {}
                assert len(faults) == 1, (position, bit, faults)
                fault = faults[0]
                assert (fault.path, fault.position, fault.size) == (path, head.position, head.size), (position, bit)
                assert (fault.first_offset, fault.next_offset) == (head.base_offset, head.last_offset + 1)
                log.disk.corrupt(path, position, 1 << bit)
            if position - head.position > 64:
                break  # one byte of its records is like another


def test_two_damaged_batches_are_two_faults_and_neighbours_are_one():
    log = _log()
    path = log.segments[1].log.path
    heads = batches.headers(bytes(log.disk.files[path].data))
    for wanted in ([(0, 1)], [(0, 1), (2, 3)], [(1, 3)], [(len(heads) - 1, len(heads))], [(0, len(heads))]):
        for first, last in wanted:
            for head in heads[first:last]:
                log.disk.corrupt(path, head.position + 30)
        faults, _ = _faults(log)
        places = [(one.position, one.first_offset, one.next_offset) for one in faults]
        assert places == [
            (heads[first].position, heads[first].base_offset, heads[last - 1].last_offset + 1) for first, last in wanted
        ]
        for first, last in wanted:
            for head in heads[first:last]:
                log.disk.corrupt(path, head.position + 30)


@pytest.mark.parametrize("ending", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("piece_bytes", PIECES)
def test_each_bit_of_an_index_is_found(ending, piece_bytes):
    log = _log()
    path = log.segments[1].path(ending)
    size = len(log.disk.files[path].data)
    assert size >= 12
    for position in range(size):
        for bit in range(8):
            log.disk.corrupt(path, position, 1 << bit)
            faults, wrong = _faults(log, piece_bytes, log.segments[1])
            assert faults == [] and list(wrong) == [path], (position, bit)
            log.disk.corrupt(path, position, 1 << bit)


@pytest.mark.parametrize("ending", [INDEX, TIME_INDEX])
def test_an_index_that_is_short_or_missing_is_found(ending):
    log = _log()
    path, width = log.segments[1].path(ending), 8 if ending == INDEX else 12
    whole = bytes(log.disk.files[path].data)
    log.disk.files[path].data[:] = whole[:-1]
    assert list(_faults(log)[1]) == [path]
    log.disk.files[path].data[:] = whole[:-width]
    # Shorter, an index of offsets is only slow.
    assert list(_faults(log)[1]) == ([path] if ending == TIME_INDEX else [])
    log.disk.remove(path)
    assert list(_faults(log)[1]) == [path]


def test_entries_that_point_into_damage_are_not_judged():
    log = _log()
    segment = log.segments[1]
    heads = batches.headers(bytes(log.disk.files[segment.log.path].data))
    for head in heads:
        log.disk.corrupt(segment.log.path, head.position + 40)
        faults, wrong = _faults(log)
        assert len(faults) == 1 and wrong == {}
        log.disk.corrupt(segment.log.path, head.position + 40)


def test_zeros_in_a_file_are_damage():
    log = _log()
    segment = log.segments[1]
    inode = log.disk.files[segment.log.path]
    heads = batches.headers(bytes(inode.data))
    begin = heads[2].position
    inode.data[begin:] = bytes(len(inode.data) - begin)
    (fault,), _ = _faults(log)
    assert (fault.position, fault.size) == (begin, len(inode.data) - begin)
    assert (fault.first_offset, fault.next_offset) == (heads[2].base_offset, log.segments[2].base_offset)


def test_a_length_that_reaches_far_is_no_reason_to_hold_that_much(monkeypatch):
    monkeypatch.setattr(scrubbing, "BATCH_BYTES_MAX", 400)
    log = _log()
    segment = log.segments[1]
    log.disk.corrupt(segment.log.path, 10, 0x01)
    wanted = []
    read = type(segment.log).read_at_rest
    monkeypatch.setattr(type(segment.log), "read_at_rest", lambda f, p, n: wanted.append(n) or read(f, p, n))
    assert len(_faults(log, 200)[0]) == 1
    assert max(wanted) <= 800


def test_a_batch_inside_a_record_is_not_taken_for_one_of_the_log():
    """The record's value is a batch of another log, sound and with plausible offsets."""
    log = new(segment_bytes=2_000)
    inner = bytes(build(2, 40))
    for _ in range(3):
        builder = batches.Builder(timestamp_ms=1_000)
        builder.append(b"k", inner)
        builder.append(b"l", bytes(900))
        put(log, builder.build())
    put(log, build(1, 1_900))
    flush(log)
    path = log.segments[0].log.path
    head = batches.headers(bytes(log.disk.files[path].data))[0]
    log.disk.corrupt(path, head.position + 30)
    (fault, *more), _ = _faults(log)
    assert (fault.position, fault.size, more) == (0, head.size, [])


def test_each_bit_of_the_small_files_is_found():
    log = _log()
    stop(log)
    job = SmallFiles(
        log.disk,
        log.directory,
        (log.epochs.epochs, log.epochs.starts),
        (log.topic_id, log.instance),
        tuple(log.snapshots.offsets),
    )
    assert job.read()[0] == [] and len(log.snapshots.offsets) > 2
    names = [LEADER_EPOCHS, PARTITION_METADATA, *(f"{offset:020d}.snapshot" for offset in log.snapshots.offsets)]
    for name in names:
        path = f"{DIRECTORY}/{name}"
        for position in range(len(log.disk.files[path].data)):
            for bit in range(8):
                log.disk.corrupt(path, position, 1 << bit)
                found, _ = job.read()
                assert [one.path for one in found] == [path], (name, position, bit)
                log.disk.corrupt(path, position, 1 << bit)
        content = bytes(log.disk.files[path].data)
        log.disk.remove(path)
        assert [one.path for one in job.read()[0]] == [path]
        log.disk.replace(path, content)


def test_a_compacted_log_may_have_gaps_and_a_log_of_one_history_may_not():
    log = _log(cleanup_policy=("compact",))
    assert log.sparse and _faults(log) == ([], {})
    segment = log.segments[1]
    inode = log.disk.files[segment.log.path]
    heads = batches.headers(bytes(inode.data))
    del inode.data[heads[1].position : heads[2].position]
    assert _faults(log)[0] == []
    log.cleaned_offset = -1
    (fault,), _ = _faults(log)
    assert fault.first_offset == heads[1].base_offset


def test_what_an_index_says_of_times_is_what_it_says_of_the_latest():
    """Two batches have the same time: the first one counts."""
    log = new(segment_bytes=800, index_interval_bytes=1)
    for time in (5, 9, 9, 3, 9, 11, 11, 4, 12, 12):
        put(log, build(1, 30, time))
    flush(log)
    assert len(log.segments) > 1 and _faults(log) == ([], {})
    times = np.frombuffer(bytes(log.disk.files[log.segments[0].path(TIME_INDEX)].data), scrubbing._TIMES)
    assert len(times) >= 2


def test_each_bit_of_a_transaction_index_is_found_by_its_markers_or_by_the_log():
    log = new(segment_bytes=600)
    for number in range(12):
        write(log, 7, number)
        write(log, 8 + number, 0)
        end(log, 8 + number, commit=number % 3 == 0)
    end(log, 7, commit=False)
    flush(log)
    aborting = [one for one in log.aborted.segments if one is not log.active]
    assert len(aborting) > 1 and _faults(log) == ([], {})
    for segment in aborting[:2]:
        path = segment.path(TRANSACTION_INDEX)
        content = bytes(log.disk.files[path].data)
        assert tells_aborted(log, segment) and aborted_again(log, segment)() == content
        by_marker = 0
        for position in range(len(content)):
            for bit in range(8):
                log.disk.corrupt(path, position, 1 << bit)
                faults, wrong = _faults(log, only=segment)
                assert faults == [] and list(wrong) in ([], [path])
                by_marker += bool(wrong)
                assert bytes(log.disk.files[path].data) != aborted_again(log, segment)()
                log.disk.corrupt(path, position, 1 << bit)
        assert by_marker >= 8 * 18 * len(content) // 34
