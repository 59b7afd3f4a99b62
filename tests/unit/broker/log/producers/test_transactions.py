"""Transactions in a log's files: snapshots, indexes of aborted transactions, and who may write what."""

import struct

import pytest

from actors.broker.log.aborted_search import AbortedSearch
from actors.broker.log.aborted_transactions import aborted_transactions
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import (
    CoordinatorFenced,
    CorruptSnapshot,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    Producers,
)
from actors.broker.log.producers.transactions import NO_LIMIT, Ended
from actors.broker.log.truncation import prepare_cut, truncate_fully, truncate_to
from actors.ports import DiskFull
from fastpath.bytes.crc32c import crc32c
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, retained, stop, sync
from tests.unit.broker.log.transactions import aborted, end, last_stable, write

SNAPSHOT = bytes.fromhex(
    "0001 92d6ac8f 00000002"
    "0000000000000fa0 0003 00000006 000000000000008b 00000002 0000018bcfe56864 00000009 ffffffffffffffff"
    "0000000000000fa1 0001 ffffffff ffffffffffffffff 00000000 0000018bcfe569c8 0000000a 0000000000000087"
)
"""Written by Apache Kafka 4.3.1: ProducerStateManager.writeSnapshot of one producer behind a marker, one with an open
transaction."""


def indexes(log: PartitionLog) -> list[str]:
    return [name for name in log.disk.names("topic-0") if ".txnindex" in name]


# ---- snapshots


def test_a_snapshot_with_transactions_is_kafkas_bytes() -> None:
    state = Producers.parse(SNAPSHOT)
    assert state.snapshot() == SNAPSHOT
    assert dict(state.transactions.open) == {4001: 135}
    assert state.transactions.first_unstable == 135
    one, other = state.by_id[4000], state.by_id[4001]
    assert (one.epoch, one.coordinator_epoch, one.transaction_offset) == (3, 9, -1)
    assert (one.batches[0].first_sequence, one.batches[0].last_sequence) == (4, 6)
    assert (other.epoch, other.coordinator_epoch, other.batches) == (1, 10, [])


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_outlives_the_damage_of_every_snapshot(clean: bool) -> None:
    """It began in a segment that no start reads any more: with no sound snapshot, the whole log says who has begun what."""
    log = new(segment_bytes=300)
    write(log, 1, 0)
    write(log, 2, 0)
    end(log, 2, True)
    for sequence in range(1, 9):
        write(log, 2, sequence)
        end(log, 2, False)
    flush(log)
    if clean:
        stop(log)
    assert len(log.segments) > 4 and len(log.snapshots.offsets) > 2
    for offset in log.snapshots.offsets:
        log.disk.corrupt(f"topic-0/{offset:020d}.snapshot", 12)  # type: ignore[attr-defined]
    again = reopen(log, clean=clean).log
    assert again.producers.equals(log.producers)
    assert last_stable(again, again.log_end_offset) == 0
    assert aborted(again, 0, again.log_end_offset) == aborted(log, 0, log.log_end_offset)


def test_open_transactions_of_a_snapshot_count_by_their_offsets() -> None:
    log = new()
    write(log, 1, 0)
    write(log, 2, 0)
    end(log, 1, True)
    write(log, 1, 1)
    again = Producers.parse(log.producers.snapshot())
    assert list(again.transactions.open) == [2, 1] and again.equals(log.producers)


def test_a_snapshot_keeps_what_ended_and_is_not_replicated() -> None:
    log = new()
    write(log, 1, 0)
    write(log, 1, 1)
    end(log, 1, False)
    write(log, 2, 0)
    end(log, 2, True)
    log.producers.transactions.replicated(3)
    again = Producers.parse(log.producers.snapshot())
    assert again.transactions.ended == [Ended(3, 4, 2)]
    assert again.equals(log.producers)
    end(log, 3, True)
    assert again.transactions.first_unstable == 3


def test_every_damage_behind_kafkas_part_of_a_snapshot_is_noticed() -> None:
    log = new()
    write(log, 1, 0)
    end(log, 1, True)
    body = log.producers.snapshot()[6:]
    for damaged in (body + b"\0", body[:-1], body[:-24] + struct.pack(">i", -1), body + bytes(4)):
        with pytest.raises(CorruptSnapshot):
            Producers.parse(struct.pack(">hI", 1, crc32c(damaged)) + damaged)


# ---- the index


def test_a_log_without_aborted_transactions_has_no_index() -> None:
    log = new(segment_bytes=300)
    for sequence in range(6):
        write(log, 1, sequence)
        end(log, 1, True)
    flush(log)
    stop(log)
    assert indexes(log) == [] and log.aborted.segments == []
    assert aborted(log, 0, 12) == []


def test_the_index_is_written_with_its_segment_and_goes_with_it() -> None:
    log = new(segment_bytes=300, retention_bytes=0, retention_ms=-1)
    for sequence in range(4):
        write(log, 1, sequence)
        end(log, 1, False)
    assert indexes(log) == []
    wanted = log.flush()
    assert {file.path for file in wanted.files} >= {one.aborted.path for one in log.aborted.segments}
    sync(log, wanted)
    log.flushed(wanted)
    assert len(indexes(log)) == len(log.aborted.segments) == 3
    assert [one.aborted.in_memory for one in log.segments] == [False, False, True]
    result = retained(log, 1_000, 8)
    assert len([name for name in indexes(log) if name.endswith(".txnindex.front.deleted")]) == 3
    for job in result.jobs:
        job()
    assert indexes(log) == [] and log.aborted.segments == []
    assert reopen(log).log.aborted.segments == []


def test_what_a_crash_left_of_an_index_is_removed() -> None:
    log = new()
    write(log, 1, 0)
    flush(log)
    for name in ("00000000000000000077.txnindex", "00000000000000000000.txnindex.deleted"):
        log.disk.open(f"topic-0/{name}", create=True).append((b"x" * 34,))
    assert reopen(log).rebuilt == () and indexes(log) == []


def test_a_segment_that_begins_has_nothing_of_an_earlier_index() -> None:
    log = new()
    log.disk.open("topic-0/00000000000000000000.txnindex", create=True).append((b"x" * 34,))
    write(log, 1, 0)
    end(log, 1, False)
    flush(log)
    assert aborted(reopen(log, clean=True).log, 0, 2) == [(1, 0)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["version", "part", "behind the end", "gone"])
def test_a_damaged_index_is_built_again_and_told(damage: str, clean: bool) -> None:
    log = new(segment_bytes=300)
    write(log, 2, 0)
    for sequence in range(4):
        write(log, 1, sequence)
        end(log, 1, False)
    stop(log)
    assert isinstance(log.disk, VirtualDisk)
    path = log.aborted.segments[1].aborted.path
    inode = log.disk.files[path]
    before = bytes(inode.data)
    if damage == "version":
        inode.data[1] = 1
    elif damage == "part":
        del inode.data[20:]
    elif damage == "behind the end":
        inode.data[18:26] = (500).to_bytes(8, "big")
    else:
        inode.data.clear()
    found = reopen(log, clean=clean)
    if damage != "gone":
        assert len(found.rebuilt) == 1
        assert found.rebuilt[0].startswith(f"{path} is damaged, and is built again: ")
        assert bytes(log.disk.files[path].data) != before, "replaced whole, with the next flush"
        wanted = [(1, 1), (1, 3), (1, 5), (1, 7)]
        assert aborted(found.log, 0, 9) == wanted
        flush(found.log)
        assert bytes(log.disk.files[path].data) == before
        assert reopen(found.log, clean=True).rebuilt == ()
    else:
        assert found.rebuilt == (), "that nothing was aborted there may be true"


def test_an_index_behind_the_recovery_point_is_built_again() -> None:
    """A power cut may have left anything of it, and it looks sound."""
    log = new()
    write(log, 1, 0)
    end(log, 1, False)
    flush(log)
    assert isinstance(log.disk, VirtualDisk)
    for number in range(3):
        write(log, 1, number + 1)
        end(log, 1, False)
    data = log.disk.files["topic-0/00000000000000000000.txnindex"].data
    assert len(data) == 34
    found = reopen(log)
    assert found.rebuilt == ()
    assert aborted(found.log, 0, 8) == [(1, 0), (1, 2), (1, 4), (1, 6)]
    flush(found.log)
    assert len(log.disk.files["topic-0/00000000000000000000.txnindex"].data) == 4 * 34


def test_a_full_disk_loses_no_entry() -> None:
    log = new()
    write(log, 1, 0)
    end(log, 1, False)
    assert isinstance(log.disk, VirtualDisk)
    log.disk.room = 24  # the other indexes find some
    with pytest.raises(DiskFull):
        log.flush()
    assert aborted(log, 0, 2) == [(1, 0)]
    log.disk.room = None
    flush(log)
    assert aborted(reopen(log, clean=True).log, 0, 2) == [(1, 0)]


def test_a_late_replacement_does_not_reach_the_next_segment_of_that_name() -> None:
    log = new()
    write(log, 1, 0)
    end(log, 1, False)
    stop(log)
    assert isinstance(log.disk, VirtualDisk)
    log.disk.files["topic-0/00000000000000000000.txnindex"].data[1] = 1
    log = reopen(log, clean=True).log
    wanted = log.flush()
    assert wanted.indexes
    for job in truncate_fully(log, 0):
        job()
    write(log, 5, 0)
    sync(log, wanted)
    log.flushed(wanted)
    flush(log)
    again = reopen(log, clean=True)
    assert again.rebuilt == () and aborted(again.log, 0, 1) == []


# ---- what the log takes


def test_a_control_batch_that_is_no_marker_ends_nothing() -> None:
    """An empty one, as compaction leaves it, or a leader change."""
    log = new()
    write(log, 1, 0)
    other = batch.Builder(base_offset=1, attributes=0x30, producer_id=1, producer_epoch=7)
    other.append(b"\0\0\0\2", b"\0\0\0\0\0\0")
    log.append_fetched(other.build(), 0)
    assert dict(log.producers.transactions.open) == {1: 0}
    assert log.producers.by_id[1].epoch == 0


def test_outside_of_an_open_transaction_its_producer_writes_nothing() -> None:
    log = new()
    write(log, 1, 0)
    with pytest.raises(InvalidTransactionState) as caught:
        write(log, 1, 1, attributes=0)
    assert caught.value.code == 48
    with pytest.raises(InvalidTransactionState):
        write(log, 1, 0, epoch=1, attributes=0)
    end(log, 1, True)
    assert write(log, 1, 1, attributes=0).base_offset == 2


def test_a_producer_without_batches_begins_with_sequence_0() -> None:
    log = new()
    end(log, 1, True, epoch=2)
    with pytest.raises(OutOfOrderSequence):
        write(log, 1, 1, epoch=2)
    write(log, 1, 0, epoch=2)


def test_rules_of_markers() -> None:
    log = new()
    write(log, 1, 0, epoch=3)
    check = log.producers.check_marker
    with pytest.raises(InvalidProducerEpoch) as caught:
        check(1, 2, 0, 0)
    assert caught.value.code == 47
    check(1, 3, 0, 1)
    with pytest.raises(InvalidProducerEpoch):
        check(1, 3, 0, 2)
    check(1, 4, 0, 2)
    end(log, 1, True, epoch=4, coordinator_epoch=6)
    check(1, 4, 6, 2)
    with pytest.raises(CoordinatorFenced) as fenced:
        check(1, 4, 5, 2)
    assert fenced.value.code == 52
    check(2, 0, 0, 2)


def test_offsets_committed_in_a_transaction_have_no_sequence_numbers() -> None:
    log = new()
    data = build(2, producer_id=7, producer_epoch=1, base_sequence=-1, attributes=0x10)
    for _ in range(2):
        accepted = batch.accept(data, 0, len(data), log.log_end_offset, 0, client=False)
        log.append(data, accepted.headers, 1_000, client=False)
    assert dict(log.producers.transactions.open) == {7: 0}
    assert log.producers.by_id[7].batches == []
    assert Producers.parse(log.producers.snapshot()).equals(log.producers)
    assert reopen(log).log.producers.equals(log.producers)


def test_an_open_transaction_is_never_forgotten() -> None:
    log = new()
    write(log, 1, 0)
    write(log, 2, 0)
    end(log, 2, True)
    assert log.producers.expire(1 << 50, 1) == 1
    assert last_stable(log, 3) == 0
    end(log, 1, True)
    assert log.producers.expire(1 << 50, 1) == 1


def test_a_marker_is_found_in_the_middle_of_what_is_appended() -> None:
    """A follower is given several batches at once."""
    leader, follower = new(), new()
    write(leader, 1, 0, 3)
    put(leader, build(2))
    end(leader, 1, False, coordinator_epoch=4)
    write(leader, 2, 0)
    follower.append_fetched(content(leader), 0)
    assert follower.producers.equals(leader.producers)
    assert aborted(follower, 0, 7) == [(1, 0)]
    assert follower.producers.by_id[1].coordinator_epoch == 4
    assert markers.read(content(leader, 5), 0) == markers.Marker(False, 4)


def test_many_transactions_open_and_end() -> None:
    log = new()
    for producer in range(200):
        write(log, producer, 0)
    for producer in range(0, 200, 2):
        end(log, producer, producer % 4 == 0)
    assert last_stable(log, 300) == 1
    for producer in range(1, 200, 2):
        end(log, producer, True)
    assert last_stable(log, 350) == 101
    assert last_stable(log, 400) == 400
    assert log.producers.transactions.first_unstable == NO_LIMIT
    assert aborted(log, 0, 10) == [(2, 2), (6, 6)]


def test_many_aborted_transactions_are_looked_at_outside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a transaction that was open for long, every one that was aborted meanwhile has to be looked at."""
    log = new(segment_bytes=20_000)
    write(log, 1, 0)
    for sequence in range(300):
        write(log, 2, sequence)
        end(log, 2, False)
    end(log, 1, False)
    assert len(log.segments) > 2
    assert aborted(log, 0, 5) == [(2, 1), (2, 3), (1, 0)]
    assert isinstance(aborted_transactions(log, 0, 5), list)
    monkeypatch.setattr("actors.broker.log.aborted_transactions.ABORTED_BYTES_MAX", 200 * 34)
    assert isinstance(aborted_transactions(log, 0, 5), AbortedSearch)
    assert aborted(log, 0, 5) == [(2, 1), (2, 3), (1, 0)]
    flush(log)
    assert aborted(log, 0, 5) == [(2, 1), (2, 3), (1, 0)]
    assert isinstance(aborted_transactions(log, 590, 601), list), "few are left there"


def test_a_cut_into_a_sealed_segment_reads_its_index_outside_the_loop() -> None:
    log = new(segment_bytes=300)
    for sequence in range(6):
        write(log, 1, sequence)
        end(log, 1, False)
    flush(log)
    assert not log.segments[1].aborted.in_memory
    job = prepare_cut(log, 5)
    assert job is not None
    prepared = job()
    assert prepared.aborted is not None and len(prepared.aborted) == 2 * 34
    assert isinstance(log.disk, VirtualDisk)
    log.disk.unreadable = lambda path, position, size: path.endswith(".txnindex")
    truncate_to(log, 5, prepared)
    flush(log)
    assert aborted(log, 0, 5) == [(1, 0), (1, 2)]
    assert dict(log.producers.transactions.open) == {1: 4}
    end(log, 1, False)
    flush(log)
    log.disk.unreadable = None
    assert aborted(reopen(log, clean=True).log, 0, 6) == [(1, 0), (1, 2), (1, 4)]


@pytest.mark.parametrize("damage", [None, "checksum at byte 70 of another segment"])
def test_a_cut_takes_aborts_out_of_the_index_also_of_a_damaged_log(damage: str | None) -> None:
    log = new()
    for sequence in range(2):
        write(log, 1, sequence)
        end(log, 1, False)
    flush(log)
    log.damaged = damage
    truncate_to(log, 2)
    assert log.damaged == damage
    write(log, 1, 1)
    end(log, 1, True)
    flush(log)
    assert aborted(log, 0, 4) == [(1, 0)]
    assert aborted(reopen(log, clean=True).log, 0, 4) == [(1, 0)]


@pytest.mark.parametrize("how", ["start", "cut"])
def test_a_log_that_begins_inside_a_batch_knows_its_transaction(how: str) -> None:
    log = new()
    write(log, 1, 0, 2)
    put(log, build())
    log.delete_records(1)
    if how == "start":
        log = reopen(log).log
    else:
        truncate_to(log, 2)
        flush(log)
    assert last_stable(log, 2) == 1
    end(log, 1, False)
    assert aborted(log, 1, 2) == [(1, 0)]


def test_retention_goes_past_an_open_transaction() -> None:
    """As with Apache Kafka: the last stable offset is at least where the log begins."""
    log = new(segment_bytes=300, retention_bytes=0, retention_ms=-1)
    write(log, 1, 0)
    for _ in range(8):
        put(log, build())
    assert last_stable(log, 9) == 0
    flush(log)
    for job in retained(log, 1_000, 9).jobs:
        job()
    assert log.log_start_offset > 0
    assert last_stable(log, 9) == log.log_start_offset
    flush(log)
    again = reopen(log).log
    assert last_stable(again, 9) == log.log_start_offset, "the snapshot knows of it"
    end(again, 1, False)
    assert last_stable(again, 10) == 10
    assert aborted(again, again.log_start_offset, 10) == [(1, 0)]
