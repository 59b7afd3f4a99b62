"""Idempotent producers: what is a repetition, what is out of order, and what survives files and cuts."""

import struct
from typing import Any

import pytest

from actors.broker.log.log import Appended, PartitionLog
from actors.broker.log.producers.producers import (
    SEQUENCE_MAX,
    CorruptSnapshot,
    InvalidProducerBatches,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    Producers,
)
from actors.broker.log.producers.transactions import NO_LIMIT
from actors.broker.log.truncation import fits, prepare_cut, truncate_to
from fastpath.bytes.crc32c import crc32c
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk, VirtualFile
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, settings, stop


def send(log: PartitionLog, sequence: int, count: int = 1, epoch: int = 0, producer: int = 9, **more: Any) -> Any:
    data = build(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more)
    return put(log, data)


def test_the_last_five_batches_are_recognised() -> None:
    log = new()
    for sequence in range(0, 14, 2):
        send(log, sequence, 2)
    before = content(log)
    for sequence in range(4, 14, 2):
        assert send(log, sequence, 2) == Appended(sequence, sequence + 1, True, 1_000)
    with pytest.raises(OutOfOrderSequence):
        send(log, 2, 2)
    assert content(log) == before


def test_a_repetition_has_the_same_first_and_last_sequence() -> None:
    log = new()
    send(log, 0, 3)
    for first, count in ((0, 2), (1, 2), (0, 4)):
        with pytest.raises(OutOfOrderSequence):
            send(log, first, count)


@pytest.mark.parametrize("sequence", [1, 3, 100, SEQUENCE_MAX])
def test_a_gap_is_out_of_order(sequence: int) -> None:
    log = new()
    send(log, 0, 2)
    with pytest.raises(OutOfOrderSequence) as caught:
        send(log, sequence, 1)
    assert caught.value.code == 45
    assert log.log_end_offset == 2


def test_sequences_wrap() -> None:
    log = new()
    send(log, SEQUENCE_MAX - 2, 2)
    send(log, SEQUENCE_MAX, 3)
    assert log.producers.by_id[9].batches[-1].last_sequence == 1
    assert send(log, SEQUENCE_MAX, 3).duplicate
    send(log, 2)
    with pytest.raises(OutOfOrderSequence):
        send(log, 4)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = new()
    assert send(log, 77, 2) == Appended(0, 1)
    assert send(log, 79) == Appended(2, 2)


def test_epochs_of_a_producer_only_rise() -> None:
    log = new()
    send(log, 0, 2, epoch=3)
    with pytest.raises(InvalidProducerEpoch) as caught:
        send(log, 2, epoch=2)
    assert caught.value.code == 47
    with pytest.raises(OutOfOrderSequence):
        send(log, 2, epoch=4)
    assert send(log, 0, 2, epoch=4) == Appended(2, 3)
    assert send(log, 0, 2, epoch=4) == Appended(2, 3, True, 1_000)
    with pytest.raises(InvalidProducerEpoch):
        send(log, 2, epoch=3)


def test_several_batches_of_a_producer_in_one_request_are_refused() -> None:
    log = new()
    data = build(producer_id=9, producer_epoch=0, base_sequence=0) + build(
        producer_id=9, producer_epoch=0, base_sequence=1
    )
    with pytest.raises(InvalidProducerBatches):
        put(log, data)
    assert log.log_end_offset == 0


def test_a_follower_remembers_and_does_not_judge() -> None:
    leader, follower = new(), new()
    for sequence in range(8):
        send(leader, sequence)
    follower.append_fetched(content(leader, offset=5), 0)
    assert follower.producers.by_id[9].batches == leader.producers.by_id[9].batches[-3:]
    assert send(follower, 7).duplicate


def test_a_batch_of_an_older_epoch_that_a_leader_has_taken_takes_no_epoch_back() -> None:
    leader, follower = new(), new()
    send(leader, 0, epoch=3)
    older = build(1, producer_id=9, producer_epoch=2, base_sequence=7, attributes=0x10, base_offset=1)
    follower.append_fetched(content(leader), 0)
    follower.append_fetched(older, 0)
    known = follower.producers.by_id[9]
    assert known.epoch == 3 and [one.first_sequence for one in known.batches] == [0]
    assert follower.producers.transactions.open == {9: 1}
    with pytest.raises(InvalidProducerEpoch):
        send(follower, 8, epoch=2)


def test_silent_producers_are_forgotten() -> None:
    log = new()
    put(log, build(producer_id=1, producer_epoch=0, base_sequence=0, timestamp_ms=1000), now_ms=5000)
    put(log, build(producer_id=2, producer_epoch=0, base_sequence=0, timestamp_ms=9000), now_ms=5000)
    assert log.producers.expire(5999, 1000) == 0
    assert log.producers.expire(6000, 1000) == 1
    assert list(log.producers.by_id) == [2]
    assert log.producers.expire(10_000, 1000) == 1


@pytest.mark.parametrize("how", ["start", "cut"])
def test_silence_is_not_counted_from_the_time_of_old_records(how: str) -> None:
    """As a tool copies them that keeps their timestamps. Neither a snapshot nor a batch says when it was appended."""
    day_ms = 86_400_000
    log = new(segment_bytes=400)
    for sequence in range(6):
        put(
            log,
            build(producer_id=9, producer_epoch=0, base_sequence=sequence, timestamp_ms=1_000, size=100),
            0,
            9 * day_ms,
        )
    if how == "start":
        stop(log)
        log = reopen(log, clean=True, now_ms=9 * day_ms + 5_000).log
    else:
        truncate_to(log, 1)
    assert log.producers.expire(9 * day_ms + 35_000, day_ms) == 0
    assert log.producers.expire(11 * day_ms, day_ms) == 1


def test_a_snapshot_keeps_the_last_five_batches() -> None:
    log = new()
    for sequence in range(7):
        send(log, sequence, producer=1)
    send(log, SEQUENCE_MAX, 3, producer=2, epoch=5)
    again = Producers.parse(log.producers.snapshot())
    assert [one.first_sequence for one in again.by_id[1].batches] == [2, 3, 4, 5, 6]
    assert again.equals(log.producers)
    assert again.by_id[2].epoch == 5
    assert Producers.parse(Producers().snapshot()).by_id == {}


def test_a_snapshot_is_kafkas_bytes() -> None:
    state = Producers()
    state.append(batch.header(build(3, producer_id=258, producer_epoch=2, base_sequence=4, timestamp_ms=1000)), 0)
    assert state.snapshot()[6:] == bytes.fromhex(
        "00000001 0000000000000102 0002 00000006 0000000000000002 00000002 00000000000003e8 ffffffff ffffffffffffffff"
    )


def test_every_damaged_byte_of_a_snapshot_is_noticed() -> None:
    log = new()
    for sequence in range(3):
        send(log, sequence)
    data = log.producers.snapshot()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            Producers.parse(damaged)
    for size in range(len(data)):
        with pytest.raises(CorruptSnapshot):
            Producers.parse(data[:size])


def test_rolls_and_clean_stops_write_snapshots() -> None:
    log = new(segment_bytes=400)
    for sequence in range(10):
        send(log, sequence, size=100)
    flush(log)
    assert log.snapshots.offsets == [segment.base_offset for segment in log.segments[1:]]
    stop(log)
    assert log.snapshots.offsets[-1] == 10
    again = reopen(log, clean=True).log
    assert again.producers.equals(log.producers)


def test_a_kill_behind_a_roll_forgets_no_producer() -> None:
    """All was flushed before the roll, and its snapshot is not written yet."""
    log = new(segment_bytes=200)
    send(log, 0)
    send(log, 1)
    flush(log)
    put(log, build())
    assert [segment.base_offset for segment in log.segments] == [0, 2] and log.recovery_point == 2
    again = reopen(log).log
    assert again.producers.equals(log.producers)
    assert send(again, 1).duplicate


def test_a_kill_between_a_roll_and_its_flush_forgets_no_producer() -> None:
    """The snapshot that the roll kept for the next flush is gone, and the next flush is of another process."""
    log = new(segment_bytes=200)
    send(log, 0)
    send(log, 1)
    put(log, build())
    log = reopen(log).log
    flush(log)
    assert log.recovery_point == 3
    again = reopen(log).log
    assert send(again, 1).duplicate


def test_any_batch_in_flight_can_be_sent_again_after_a_clean_restart() -> None:
    """A client whose answers were lost repeats all five, the oldest first."""
    log = new()
    for sequence in range(5):
        send(log, sequence)
    stop(log)
    again = reopen(log, clean=True).log
    assert [send(again, sequence)[0] for sequence in range(5)] == [0, 1, 2, 3, 4]
    assert again.log_end_offset == 5


@pytest.mark.parametrize(
    "rows",
    [
        [(9, 1, 1, 0, 0)] * 5,  # six with the last
        [(8, 1, 1, 0, 0)],  # of a producer that has none
    ],
)
def test_a_snapshot_with_batches_of_nobody_is_not_believed(rows: list[tuple[int, ...]]) -> None:
    log = new()
    send(log, 0)
    before = b"".join(struct.pack(">qiqiq", *row) for row in rows)
    body = log.producers.snapshot()[6:] + struct.pack(">i", len(rows)) + before
    with pytest.raises(CorruptSnapshot, match="producer"):
        Producers.parse(struct.pack(">hI", 1, crc32c(body)) + body)


def test_a_log_without_producers_that_never_rolled_writes_no_snapshot() -> None:
    log = new()
    put(log, build())
    put(log, build())
    stop(log)
    assert [name for name in log.disk.names("topic-0") if name.endswith(".snapshot")] == []


@pytest.mark.parametrize("recovery", ["nothing flushed", "flushed", "damaged snapshot"])
def test_producers_are_rebuilt_after_an_unclean_stop(recovery: str) -> None:
    log = new(segment_bytes=400)
    for sequence in range(10):
        send(log, sequence, size=100)
        if sequence == 7 and recovery != "nothing flushed":
            flush(log)
    if recovery == "damaged snapshot":
        for offset in log.snapshots.offsets:
            log.disk.corrupt(f"topic-0/{offset:020d}.snapshot", 12)  # type: ignore[attr-defined]
    again = reopen(log).log
    expected = log.producers.by_id[9].batches
    found = again.producers.by_id[9].batches
    assert found == expected[-len(found) :] and len(found) >= 2
    assert send(again, 9, size=100).duplicate
    assert not send(again, 10).duplicate


@pytest.mark.parametrize("target", range(12))
def test_a_truncation_takes_producers_back(target: int) -> None:
    log = new(segment_bytes=400)
    for sequence in range(12):
        send(log, sequence, size=100)
    truncate_to(log, target)
    if target:
        assert log.producers.by_id[9].batches[-1].last_sequence == target - 1
        assert send(log, target - 1, size=100).duplicate
        with pytest.raises(OutOfOrderSequence):
            send(log, target + 1)
    else:
        assert len(log.producers) == 0
    assert send(log, target).base_offset == target


def test_a_truncation_takes_an_epoch_back() -> None:
    log = new()
    send(log, 0, epoch=1)
    send(log, 1, epoch=1)
    send(log, 0, epoch=2)
    truncate_to(log, 2)
    assert send(log, 1, epoch=1).duplicate
    assert not send(log, 2, epoch=1).duplicate


def test_a_flush_outrun_by_a_truncation_leaves_no_snapshot_behind() -> None:
    from tests.unit.broker.log.logs import sync

    log = new(segment_bytes=400)
    for sequence in range(6):
        send(log, sequence, size=100)
    wanted = log.flush()
    truncate_to(log, 1)
    sync(log, wanted)
    log.flushed(wanted)
    assert [name for name in log.disk.names("topic-0") if name.endswith(".snapshot")] == []


def test_transactions_leave_their_mark_in_the_snapshot() -> None:
    log = new()
    send(log, 0, 2, attributes=0x10)
    assert log.producers.transactions.oldest_open == 0
    assert Producers.parse(log.producers.snapshot()).by_id[9].transaction_offset == 0
    assert log.producers.expire(1 << 60, 1) == 0
    marker = batch.Builder(base_offset=2, attributes=0x30, producer_id=9, producer_epoch=0, timestamp_ms=5)
    marker.append(b"\0\0\0\1", b"\0\0\0\0\0\7", 5)
    log.append_fetched(marker.build(), 0)
    assert log.producers.transactions.oldest_open == NO_LIMIT
    assert log.producers.by_id[9].coordinator_epoch == 7
    assert reopen(log, recovery_point=0).log.producers.by_id[9].coordinator_epoch == 7


def test_a_log_without_producers_has_a_snapshot_at_every_roll() -> None:
    """Without it, a cut would not know where there was nobody, and read the log from its start."""
    log = new(segment_bytes=100)
    for _ in range(5):
        put(log, build())
    flush(log)
    assert log.snapshots.offsets == [segment.base_offset for segment in log.segments[1:]]
    assert not Producers.parse(log.disk.open(log.snapshots.path(1)).read_cold(0, 1 << 20)).by_id
    stop(log)
    assert reopen(log, clean=True).log.snapshots.offsets == [1, 2, 3, 4, 5]


class Counted(VirtualDisk):
    """It counts the bytes that are read from it, by those who wait for the disk."""

    def __init__(self) -> None:
        super().__init__()
        self.cold_bytes = 0

    def open(self, path: str, *, create: bool = False) -> VirtualFile:
        file = super().open(path, create=create)
        return CountedFile(file.disk, file.inode)


class CountedFile(VirtualFile):
    def read_cold(self, position: int, size: int) -> memoryview:
        data = super().read_cold(position, size)
        self.disk.cold_bytes += len(data)  # type: ignore[attr-defined]
        return data


def with_one_late_producer(snapshots: bool, size: int = 20_000) -> tuple[PartitionLog, Counted]:
    """64 segments of 20 batches, the last batch by a producer that nobody has heard of before."""
    disk = Counted()
    log = PartitionLog(disk, "topic-0", settings(segment_bytes=20 * size + 5_000), bytes(16))
    for _ in range(20 * 64 - 1):
        put(log, build(size=size))
    send(log, 0, size=size)
    flush(log)
    assert len(log.segments) == 64
    if not snapshots:
        log.snapshots.drop_above(-1, segments=1)
    disk.cold_bytes = 0
    return log, disk


@pytest.mark.parametrize("snapshots", [True, False])
def test_what_a_cut_reads_inside_the_loop_is_bounded(snapshots: bool) -> None:
    """One batch is cut. From the log's start, as old versions left it, 25 MB lie before it."""
    log, disk = with_one_late_producer(snapshots)
    target = log.log_end_offset - 1
    job = prepare_cut(log, target)
    assert job is not None and len(job.segments) == (1 if snapshots else 64)
    assert disk.cold_bytes == 0
    prepared = job()
    assert (disk.cold_bytes > 20_000_000) is not snapshots
    disk.cold_bytes = 0
    assert fits(log, job)
    truncate_to(log, target, prepared)
    assert disk.cold_bytes < 100_000
    assert log.log_end_offset == target and not log.producers.by_id


def test_a_log_without_snapshots_is_read_from_its_start_once() -> None:
    log, _ = with_one_late_producer(False)
    job = prepare_cut(log, log.log_end_offset - 1)
    assert job is not None
    truncate_to(log, log.log_end_offset - 1, job())
    send(log, 0, size=20_000)
    again = prepare_cut(log, log.log_end_offset - 1)
    assert again is not None and len(again.segments) == 1


def test_a_cut_that_reads_little_is_made_at_once() -> None:
    log = new(segment_bytes=4000)
    for sequence in range(10):
        send(log, sequence, producer=sequence + 1, size=100)
    assert all(prepare_cut(log, offset) is None for offset in range(12))


@pytest.mark.parametrize("target", [0, 1, 7, 20, 33, 39])
@pytest.mark.parametrize("flushed", [True, False])
def test_a_prepared_cut_leaves_what_any_cut_leaves(target: int, flushed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> PartitionLog:
        log = new(segment_bytes=700)
        for sequence in range(40):
            send(log, sequence // 3, producer=sequence % 3 + 1, size=100)
        if flushed:
            flush(log)
        return log

    plain, log = made(), made()
    for one in (plain, log):
        one.producers.by_id[1].transaction_offset = 0  # memory cannot go back
    truncate_to(plain, target)
    monkeypatch.setattr("actors.broker.log.truncation.INSIDE_BYTES_MAX", -1)
    job = prepare_cut(log, target)
    assert job is not None
    truncate_to(log, target, job())
    assert log.producers.equals(plain.producers)
    assert log.log_end_offset == plain.log_end_offset == target
    log.check()


def test_a_prepared_cut_of_another_log_does_not_fit() -> None:
    log, _ = with_one_late_producer(True, 20_000)
    job = prepare_cut(log, log.log_end_offset - 1)
    assert job is not None and fits(log, job)
    put(log, build())
    assert not fits(log, job)
    truncate_to(log, log.log_end_offset - 1)
    assert not fits(log, job)
