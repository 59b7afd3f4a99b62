"""A bit rots in the first offset of a batch, and the process is killed: the next start puts it back, and cuts nothing."""

from itertools import product

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.rotted_offsets import mend
from actors.broker.log.segment import NO_LIMIT
from actors.broker.log.truncation import truncate_to
from fastpath.records import batch
from fastpath.records.indexes import SegmentIndex
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, new, offsets, put, reopen

BITS = range(64)


def written() -> PartitionLog:
    """Batches of one record and of several, in segments."""
    log = new(segment_bytes=700, index_interval_bytes=200)
    for number in range(24):
        put(log, build(1 + number % 3, timestamp_ms=1_000 + number), epoch=number // 9)
    flush(log)
    assert len(log.segments) > 3
    return log


WHOLE = content(written())
HEADS = batch.headers(WHOLE)


def flip(log: PartitionLog, place: int, bit: int) -> str:
    """Let a bit of the first offset of a batch rot. Returns the name of its file."""
    segment = log.segments[log.segment_of(HEADS[place].base_offset)]
    begins = next(one for one in HEADS if one.base_offset == segment.base_offset)
    position = HEADS[place].position - begins.position
    disk, path = log.disk, segment.path(".log")
    assert isinstance(disk, VirtualDisk)
    disk.corrupt(path, position + 7 - bit // 8, 1 << bit % 8)
    return path


@pytest.mark.parametrize("place", range(len(HEADS) - 1))
def test_an_offset_that_has_rotted_is_put_back(place: int) -> None:
    for bit in BITS:
        log = written()
        path = flip(log, place, bit)
        again = reopen(log, recovery_point=0)
        assert content(again.log) == WHOLE and not again.cuts and again.log.damaged is None, bit
        (said,) = again.rebuilt
        assert path in said and f"it is {HEADS[place].base_offset} again" in said
        again.log.check()
        flush(again.log)
        assert isinstance(log.disk, VirtualDisk)
        log.disk.crash(None)
        third = reopen(again.log, recovery_point=0)
        assert content(third.log) == WHOLE and not third.rebuilt, "it is durable"


def test_two_of_one_segment_are_put_back() -> None:
    log = written()
    flip(log, 2, 3)
    flip(log, 4, 0)
    again = reopen(log, recovery_point=0)
    assert content(again.log) == WHOLE and len(again.rebuilt) == 2


@pytest.mark.parametrize("bit", BITS)
def test_of_the_last_batch_nobody_knows_it(bit: int) -> None:
    """What is not sound beside it is cut, as before, and nothing in front of it."""
    log = written()
    flip(log, len(HEADS) - 1, bit)
    again = reopen(log, recovery_point=0)
    assert content(again.log).startswith(WHOLE[: HEADS[-1].position]) and not again.rebuilt


def test_a_batch_that_has_rotted_otherwise_too_is_cut() -> None:
    log = written()
    path = flip(log, 1, 1)
    assert isinstance(log.disk, VirtualDisk)
    log.disk.corrupt(path, HEADS[1].position + HEADS[1].size - 1)
    again = reopen(log, recovery_point=0)
    assert again.cuts and not again.rebuilt and content(again.log) == WHOLE[: HEADS[1].position]


def test_batches_of_an_older_history_are_not_taken_for_rotted_ones() -> None:
    """A power cut has brought back what was cut, where new batches were to be: they go on from offsets of their own."""
    log, old = new(), new()
    for _ in range(5):
        put(log, build())
    put(old, build(4))
    for _ in range(3):
        put(old, build())
    flush(log)
    found = content(log)
    stale = content(old)[batch.headers(content(old))[1].position :]  # begins at 4, a bit less than 5
    assert isinstance(log.disk, VirtualDisk)
    log.disk.files[f"{DIRECTORY}/{0:020}.log"].data += stale
    again = reopen(log, recovery_point=0)
    assert not again.rebuilt and content(again.log) == found


@pytest.mark.parametrize("bit", range(32))
def test_a_length_that_rots_where_no_start_looks_leads_nobody_astray(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another batch of the segment, which was durable, has a bit of its length flipped as well."""
    log = written()
    path = flip(log, 5, 3)
    place = log.segment_of(HEADS[5].base_offset)
    first = log.segments[place].base_offset
    assert HEADS[4].base_offset > first
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.corrupt(path, 11 - bit // 8, 1 << bit % 8)
    read, reads = VirtualFile.read_cold, 0

    def counted(file: VirtualFile, position: int, size: int) -> memoryview:
        nonlocal reads
        reads += 1
        assert reads < 1_000, "it walks for ever"
        assert position >= 0, "the kernel would say EINVAL, and the log directory would go offline"
        return read(file, position, size)

    monkeypatch.setattr(VirtualFile, "read_cold", counted)
    begun = next(one for one in HEADS if one.base_offset == first)
    segment = log.segments[place]
    index = SegmentIndex(first)  # that of a start that trusts none
    assert mend(segment, HEADS[5].position - begun.position, NO_LIMIT, index) is None


@pytest.mark.parametrize("bit", [0, 5, 63])
def test_little_is_read_for_it_however_many_batches_are_in_front(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut of a segment of ten million small batches stopped the broker for a minute."""
    log, count, reads = new(), 3_000, 0
    for _ in range(count):
        put(log, build(size=1))
    flush(log)
    before, disk, read = content(log), log.disk, VirtualFile.read_cold
    assert isinstance(disk, VirtualDisk)
    rotted = batch.headers(before)[count - 20].position + 7 - bit // 8
    disk.corrupt(log.segments[0].path(".log"), rotted, 1 << bit % 8)

    def counted(file: VirtualFile, position: int, size: int) -> memoryview:
        nonlocal reads
        reads += 1
        return read(file, position, size)

    monkeypatch.setattr(VirtualFile, "read_cold", counted)
    truncate_to(log, count - 10)
    assert content(log) == before[: batch.headers(before)[count - 10].position]
    assert reads < 400, "three entries of an index with 4 KiB between them"
    reads = 0
    disk.corrupt(log.segments[0].path(".log"), rotted, 1 << bit % 8)
    assert len(reopen(log, recovery_point=0).rebuilt) == 1
    assert reads < 400


@pytest.mark.parametrize("byte", [7, 0, 11, 16])
@pytest.mark.parametrize("segment_bytes", [500, 1 << 20])
def test_a_cut_leaves_no_batch_that_has_rotted_in_front_of_what_comes_next(byte: int, segment_bytes: int) -> None:
    """Of its first offset, its length or its magic a bit has rotted. Readers got records twice, and a start cut off what was
    written since."""
    cut, grown, came = 9, 12, 0
    for place, bit in product(range(cut), range(8)):
        log = new(index_interval_bytes=4096, segment_bytes=segment_bytes)
        for number in range(grown):
            put(log, build(timestamp_ms=1_000 + number))
        flush(log)
        before, heads = content(log), batch.headers(content(log))
        segment = log.segments[log.segment_of(place)]
        if segment is not log.segments[log.segment_of(cut)]:
            continue
        disk = log.disk
        assert isinstance(disk, VirtualDisk)
        disk.corrupt(segment.path(".log"), heads[place].position - heads[segment.base_offset].position + byte, 1 << bit)
        truncate_to(log, cut)
        assert log.log_end_offset <= cut and before.startswith(content(log)), (place, bit)
        flush(log)
        while log.log_end_offset < grown:
            put(log, build(timestamp_ms=2_000))
        flush(log)
        assert offsets(content(log)) == list(range(grown)), (place, bit)
        again = reopen(log, recovery_point=0)
        assert again.log.log_end_offset == grown and not again.cuts and not again.rebuilt
        came += 1
    assert came > 20
