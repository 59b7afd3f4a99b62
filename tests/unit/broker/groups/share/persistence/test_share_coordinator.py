"""The share coordinator: who is fenced, what is written, what is remembered after a load and after writes that fail."""

from collections.abc import Callable

import pytest

from actors.broker.coordinators.coordination import Record
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_coordinator import COLD_A_TICK, UNINITIALIZED, ShareStateVerdict
from actors.broker.groups.share.persistence.share_state import Batch, ShareState, Update
from actors.broker.groups.share.persistence.share_state_records import read, record
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.share.persistence.world import FAILED, KEY, NONE, OTHER, TOPIC, World

ACKED = [Batch(0, 4, 2, 1)]


def begun(updates: int = 3, cold_ms: int = 1_000) -> World:
    world = World(updates, cold_ms)
    world.initialize()
    world.settle()
    return world


def kinds(records: list[Record]) -> list[str]:
    lines = [read(*one) for one in records]
    return ["removal" if one and one.record is None else type(one and one.record).__name__ for one in lines]


def test_nothing_is_answered_before_it_is_committed() -> None:
    world = World()
    told = world.initialize(start=7)
    assert not told
    assert kinds(world.settle()) == ["ShareState"] and told == [ShareStateVerdict(NONE)]
    written, seen = world.write(ACKED), world.read()
    assert not written and not seen, "a read waits for the write before it"
    world.settle()
    assert written == [ShareStateVerdict(NONE)] and seen[0].state.batches == ()
    assert world.state().start_offset == 7


def test_a_read_sees_what_was_written_before_it() -> None:
    world = begun()
    world.write(ACKED)
    told = world.read()
    world.settle()
    assert told[0].state.batches == tuple(ACKED)


def test_what_was_not_begun_can_neither_be_read_nor_written() -> None:
    world = World()
    for told in (world.read(), world.write(ACKED)):
        assert told[0].error is ErrorCode.INVALID_REQUEST and "uninitialized" in (told[0].message or "")
    assert world.summary() == [ShareStateVerdict(NONE, None, UNINITIALIZED)]
    assert world.delete() == [ShareStateVerdict(NONE)] and not world.machine.writes, (
        "nothing is there, nothing is written"
    )


def test_a_leader_that_reads_fences_the_leaders_before_it() -> None:
    world = begun()
    told = world.read(leader_epoch=5)
    assert not told, "its epoch is remembered first"
    assert kinds(world.settle()) == ["Update"] and told[0].error is NONE
    assert world.read(leader_epoch=5)[0].error is NONE and not world.machine.writes, "known: nothing to write"
    assert world.write(ACKED, leader_epoch=4)[0].error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.read(leader_epoch=4)[0].error is ErrorCode.FENCED_LEADER_EPOCH
    world.load()
    assert world.write(ACKED, leader_epoch=4)[0].error is ErrorCode.FENCED_LEADER_EPOCH
    assert world.summary()[0].state.leader_epoch == 5


def test_a_group_that_begins_again_fences_those_who_know_an_earlier_state() -> None:
    world = begun()
    world.write(ACKED)
    world.initialize(state_epoch=2, start=50)
    world.settle()
    assert world.write(ACKED, state_epoch=1)[0].error is ErrorCode.FENCED_STATE_EPOCH
    assert world.initialize(state_epoch=1)[0].error is ErrorCode.FENCED_STATE_EPOCH
    assert world.state()[1:5] == (2, 0, 50, 0) and world.state().batches == ()


def test_a_leader_stays_fenced_when_the_group_begins_again() -> None:
    world = begun()
    world.read(leader_epoch=9)
    world.initialize(state_epoch=1)
    world.settle()
    assert world.read(leader_epoch=8)[0].error is ErrorCode.FENCED_LEADER_EPOCH


def test_every_so_many_updates_there_is_a_snapshot() -> None:
    world = begun(updates=3)
    found = []
    for number in range(9):
        world.write([Batch(2 * number, 2 * number, 2, 1)])
        found += kinds(world.settle())
    assert found == ["Update", "Update", "Update", "ShareState"] * 2 + ["Update"]
    before = world.state()
    assert len(before.batches) == 9 and before.snapshot_epoch == 2
    world.load()
    assert world.state() == before


def test_without_updates_between_them_every_write_is_a_snapshot() -> None:
    world = begun(updates=0)
    world.write(ACKED)
    assert kinds(world.settle()) == ["ShareState"]


def test_after_a_write_that_failed_memory_and_log_agree_again() -> None:
    world = begun()
    told = world.write(ACKED)
    world.settle(FAILED, appended=False)
    assert told[0].error is FAILED
    told = world.read()
    assert kinds(world.settle()) == ["ShareState"], "the log may be without it: nobody is told before it has all"
    assert told[0].state.batches == tuple(ACKED)
    world.load()
    assert world.state().batches == tuple(ACKED)


def test_a_write_behind_one_that_failed_is_a_snapshot() -> None:
    world = begun()
    world.write(ACKED)
    world.settle(FAILED, appended=False)
    world.write([Batch(9, 9, 4, 1)])
    assert kinds(world.settle()) == ["ShareState"]
    world.load()
    assert world.state().batches == (*ACKED, Batch(9, 9, 4, 1))


def test_a_removal_that_failed_is_written_again() -> None:
    world = begun()
    told = world.delete()
    world.settle(FAILED, appended=False)
    assert told[0].error is FAILED
    assert world.read()[0].error is ErrorCode.INVALID_REQUEST
    told = world.delete()
    assert kinds(world.settle()) == ["removal"] and told == [ShareStateVerdict(NONE)]
    world.load()
    assert not world.machine.shards[0].entries


def test_a_second_removal_waits_for_the_first() -> None:
    world = begun()
    world.delete()
    told = world.delete()
    assert not told and len(world.machine.writes) == 1
    world.settle()
    assert told == [ShareStateVerdict(NONE)] and not world.machine.shards[0].entries


def test_who_waits_hears_that_the_leadership_is_over() -> None:
    world = begun()
    written, seen = world.write(ACKED), world.read()
    world.machine.lost(0)
    assert [one[0].error for one in (written, seen)] == [ErrorCode.NOT_COORDINATOR] * 2
    assert world.read()[0].error is ErrorCode.NOT_COORDINATOR
    world.machine.gained(0, 2)
    assert world.read()[0].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(
    ("begin", "code"),
    [
        (lambda w: w.initialize(SharePartitionKey("g", TOPIC, -1)), ErrorCode.INVALID_REQUEST),
        (lambda w: w.initialize(SharePartitionKey("g", TOPIC, 2)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda w: w.initialize(start=-2), ErrorCode.INVALID_REQUEST),
        (lambda w: w.delete(SharePartitionKey("g", b"\1" * 16, 0)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda w: w.summary(SharePartitionKey("g", TOPIC, 9)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (lambda w: w.write([Batch(5, 4, 2, 1)]), ErrorCode.INVALID_REQUEST),
        (lambda w: w.write([Batch(-1, 4, 2, 1)]), ErrorCode.INVALID_REQUEST),
        (lambda w: w.write([Batch(1, 4, 1, 1)]), ErrorCode.INVALID_REQUEST),
        (lambda w: w.write([Batch(1, 4, 2, -1)]), ErrorCode.INVALID_REQUEST),
        (lambda w: w.write([], start=-2), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_no_leader_writes_is_refused_and_not_written(
    begin: Callable[[World], list[ShareStateVerdict]], code: ErrorCode
) -> None:
    world = begun()
    (told,) = begin(world)
    assert told.error is code and told.message and not world.machine.writes


def test_the_state_of_a_deleted_topic_goes() -> None:
    world = begun()
    world.initialize(SharePartitionKey("g", OTHER, 0))
    world.settle()
    del world.topics[OTHER]
    world.machine.forget_topic(OTHER)
    assert kinds(world.settle()) == ["removal"]
    assert list(world.machine.shards[0].entries) == [KEY]


def test_the_state_of_a_topic_that_was_deleted_before_the_load_goes() -> None:
    world = begun()
    world.topics.clear()
    world.load()
    assert kinds(world.settle()) == ["removal"] and not world.machine.shards[0].entries


def test_what_later_software_has_written_is_neither_told_nor_replaced() -> None:
    world = begun()
    key, value = record(KEY, Update(0, 0, 5, 0, ()))
    assert value is not None
    world.log.append((key, b"\0\1" + value[2:]))
    assert "version 1" in world.load()[0]
    for told in (world.read(), world.write(ACKED), world.initialize(), world.delete(), world.summary()):
        assert told[0].error is ErrorCode.UNSUPPORTED_VERSION and "version 1" in (told[0].message or "")
    assert not world.machine.writes
    assert world.machine.redundant() == [(0, 0)], "its snapshot stays"
    world.log.append(record(KEY, ShareState(9, 0, 0, 8, 0, 1, 1, ())))
    world.load()
    assert world.state().start_offset == 8, "a snapshot that can be read takes its place"


def test_the_log_is_needed_from_the_oldest_of_the_last_snapshots() -> None:
    world = begun(updates=1)
    other = SharePartitionKey("h", TOPIC, 1)
    world.initialize(other)  # offset 1
    world.settle()
    for number in range(4):  # 2: update, 3: snapshot, 4: update, 5: snapshot
        world.write([Batch(number, number, 2, 1)])
        world.settle()
    assert world.machine.redundant() == [(0, 1)]
    world.delete(other)  # 6
    world.settle()
    assert world.machine.redundant() == [(0, 5)]
    world.write(ACKED)
    world.write(ACKED)
    assert world.machine.redundant() == [(0, 5)], "a snapshot counts when it is committed"
    before = world.state()
    kept = world.log[5:]
    world.load()
    assert world.machine.redundant() == [(0, 8)] and world.state() == before
    world.log = kept
    world.load()
    assert world.state() == before, "what was redundant is not missed"


def test_a_snapshot_that_failed_does_not_make_the_one_before_it_redundant() -> None:
    world = begun(updates=0)
    world.write(ACKED)
    world.settle(FAILED, appended=False)
    assert world.machine.redundant() == [(0, 0)]


def test_when_nothing_is_left_the_log_is_not_needed() -> None:
    world = begun()
    world.write(ACKED)
    world.delete()
    world.settle()
    assert world.machine.redundant() == [(0, 2)]


def test_who_is_not_written_gets_a_new_snapshot_while_others_are() -> None:
    world = begun()
    other = SharePartitionKey("h", TOPIC, 1)
    world.machine.tick(world.now)
    world.now = Now(2_000, 3_000)
    world.initialize(other)
    world.settle()
    world.machine.tick(world.now)
    assert kinds(world.settle()) == ["ShareState"]
    assert world.state().written_ms == 3_000 and world.state().created_ms == 1_000
    assert world.machine.redundant() == [(0, 1)]
    world.now = Now(9_000, 10_000)
    world.machine.tick(world.now)
    assert kinds(world.settle()) == ["ShareState", "ShareState"], "one of them was written since"
    world.now = Now(19_000, 20_000)
    world.machine.tick(world.now)
    assert world.settle() == [], "nothing goes on: new snapshots would help nobody"


def test_many_cold_ones_are_looked_at_in_turns() -> None:
    world = World()
    world.topics[TOPIC] = COLD_A_TICK + 5
    for number in range(COLD_A_TICK + 5):
        world.initialize(SharePartitionKey("g", TOPIC, number))
    world.settle()
    world.machine.tick(world.now)
    world.now = Now(5_000, 9_000)
    world.machine.tick(world.now)
    assert len(world.settle()) == COLD_A_TICK and world.machine.deadline_ms() == 0
    world.machine.tick(world.now)
    assert len(world.settle()) == 5 and world.machine.deadline_ms() == 6_000
