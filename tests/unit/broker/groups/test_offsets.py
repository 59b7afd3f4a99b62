"""Offsets that are forgotten, and those of transactions: topics that are deleted, records that cannot be read."""

import pytest

from actors.broker.groups import coordinator
from actors.broker.groups.records import CommittedOffset, offset_record
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.test_coordinator import World


def value(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 1_000_000)


def commit(world: World, group: str, topic: str, offset: int) -> None:
    told: list[ErrorCode] = []
    world.machine.commit(group, [(topic, 0, value(offset))], told.append)
    world.drain()
    assert told == [ErrorCode.NONE]


def committed(world: World, group: str) -> dict[str, int]:
    found = world.machine.fetch(group)
    assert isinstance(found, dict)
    return {topic: one.offset for (topic, _), one in found.items()}


def tick(world: World) -> None:
    assert world.machine.deadline_ms() == 0
    world.machine.tick(world.now)
    world.drain()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> World:
    """Twelve groups with offsets of three topics each; a turn looks at those of two groups."""
    monkeypatch.setattr(coordinator, "KEYS_A_TICK", 8)
    world = World()
    for group in range(12):
        for topic in ("a", "b", "c"):
            commit(world, f"g{group}", topic, group + 1)
    world.machine.tick(world.now)
    return world


def left(world: World, topic: str) -> int:
    return sum(topic in committed(world, f"g{group}") for group in range(12))


def test_offsets_of_a_deleted_topic_go_over_many_turns(slow: World) -> None:
    slow.machine.forget_topic("a")
    slow.drain()
    assert left(slow, "a") == 10
    turns = 0
    while slow.machine.deadline_ms() == 0:
        tick(slow)
        turns += 1
        assert left(slow, "a") == max(0, 10 - 2 * turns)
    assert turns in (5, 6) and left(slow, "b") == left(slow, "c") == 12
    assert slow.heir().fetch("g3") == {("b", 0): value(4), ("c", 0): value(4)}


def test_topics_that_are_deleted_meanwhile_share_a_walk(slow: World) -> None:
    slow.machine.forget_topic("a")
    for topic in ("b", *(f"none-{number}" for number in range(100)), "c"):
        slow.machine.forget_topic(topic)
    turns = 0
    while slow.machine.deadline_ms() == 0:
        tick(slow)
        turns += 1
        assert turns < 14
    assert left(slow, "a") == left(slow, "b") == left(slow, "c") == 0
    assert slow.heir().fetch("g7") == {}


@pytest.mark.parametrize("turns", [0, 1, 4])
@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_committed_for_a_topic_of_the_same_name_stays(slow: World, turns: int, transactional: bool) -> None:
    slow.machine.forget_topic("b")
    slow.machine.forget_topic("a")
    slow.drain()
    for _ in range(turns):
        tick(slow)
    for group in ("g0", "g3", "g11"):
        for offset in (50, 51):
            if transactional:
                slow.machine.commit_transactional(group, (7, 0), [("a", 0, value(offset))], lambda error: None)
                slow.drain()
            else:
                commit(slow, group, "a", offset)
    slow.machine.forget_topic("c")
    while slow.machine.deadline_ms() == 0:
        tick(slow)
    if transactional:
        place = slow.machine.marker_place(0)
        assert place is not None
        slow.machine.transaction_ended(0, 7, True, place)
    assert [committed(slow, group) for group in ("g0", "g3", "g11")] == [{"a": 51}] * 3
    assert left(slow, "a") == 3 and left(slow, "b") == left(slow, "c") == 0


def test_a_shard_that_is_lost_takes_its_walk_with_it(slow: World) -> None:
    slow.machine.forget_topic("a")
    slow.machine.lost(0)
    slow.machine.writes.clear()
    slow.machine.tick(slow.now)
    assert slow.machine.deadline_ms() > 0 and not slow.machine.writes


def test_a_record_that_cannot_be_read_hides_no_transaction() -> None:
    """What stands behind it in its batch belongs to the transaction all the same."""
    world = World()
    machine = world.machine
    machine.gained(0, 2)
    key, encoded = offset_record("g", "t", 0, value(1))
    assert encoded is not None
    later = (key, (9).to_bytes(2, "big") + encoded[2:])
    machine.load(0, 2, [offset_record("g", "t", 1, value(5))], -1)
    machine.load(0, 2, [later, offset_record("g", "t", 1, value(777))], 4000)
    machine.load_end(0, 2, 4000, False)
    machine.load(0, 2, [(key, None)], -1)
    machine.loaded(0, 2, Now(1, 1))
    assert machine.fetch("g") == {("t", 1): value(5)}
