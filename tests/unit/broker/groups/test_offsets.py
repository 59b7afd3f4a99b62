"""Offsets that are forgotten, and those of transactions: topics that are deleted, records that cannot be read."""

from collections.abc import Callable
from functools import partial

import pytest

from actors.broker.groups import coordinator, shard
from actors.broker.groups.records import CommittedOffset, offset_record
from actors.broker.groups.shard import PORTION_KEYS
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.counted import lines_of
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


KINDS_OF_KEYS = ["committed", "unsettled", "in a transaction"]


def large_group(kind: str, partitions: int) -> World:
    """One group that has committed something for each partition of topic b, and has something of each of topic a."""
    world = World()
    world.machine.commit("g", [("b", number, value(number)) for number in range(partitions)], lambda error: None)
    world.drain()
    offsets = [("a", number, value(number)) for number in range(partitions)]
    if kind == "in a transaction":
        world.machine.commit_transactional("g", (7, 0), offsets, lambda error: None)
    else:
        world.machine.commit("g", offsets, lambda error: None)
    if kind != "unsettled":
        world.drain()
    world.machine.tick(world.now)
    return world


@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
def test_a_large_group_takes_many_turns_too(kind: str) -> None:
    """No turn removes, or runs more lines, as the group grows."""
    lines: dict[int, int] = {}
    for partitions in (2 * coordinator.KEYS_A_TICK, 5 * coordinator.KEYS_A_TICK):
        world = large_group(kind, partitions)
        written = len(world.machine.writes)
        most = lines_of(lambda world=world: world.machine.forget_topic("a"))  # type: ignore[misc]
        while world.machine.deadline_ms() == 0:
            removed = sum(len(write.records) for write in world.machine.writes[written:])
            assert removed <= coordinator.KEYS_A_TICK + PORTION_KEYS
            assert all(len(write.records) <= PORTION_KEYS for write in world.machine.writes[written:])
            if kind != "unsettled":
                world.drain()
            written = len(world.machine.writes)
            most = max(most, lines_of(lambda world=world: world.machine.tick(world.now)))  # type: ignore[misc]
        world.drain()
        lines[partitions] = most
        if kind == "in a transaction":
            place = world.machine.marker_place(0)
            assert place is not None
            world.machine.transaction_ended(0, 7, True, place)
        found = world.machine.fetch("g")
        assert isinstance(found, dict)
        assert found.keys() == {("b", number) for number in range(partitions)}
    few, many = lines.values()
    assert many <= 1.2 * few, lines


def turns(world: World, begin: Callable[[], object]) -> tuple[int, int]:
    """The most lines that a turn runs from `begin` on until nothing is left to do, and how many turns there were."""
    most, count = lines_of(begin), 0
    world.drain()
    while world.machine.deadline_ms() == 0:
        assert all(len(write.records) <= PORTION_KEYS for write in world.machine.writes)
        most, count = max(most, lines_of(lambda: world.machine.tick(world.now))), count + 1
        world.drain()
    return most, count


def done_to(world: World, what: str, told: list[ErrorCode]) -> None:
    """Begin what ends or removes all that a group has."""
    machine = world.machine
    place = machine.marker_place(0)
    assert place is not None
    if what == "delete":
        machine.delete("g", told.append)
    elif what == "missing":
        machine.expire_offsets(world.now, lambda topic: topic == "b")
    elif what in ("end", "abort"):
        machine.transaction_ended(0, 7, what == "end", place)
    else:
        machine.expire_offsets(Now(world.now.mono_ms, world.now.wall_ms + (1 << 40)))


LONG = [(kind, what) for kind in KINDS_OF_KEYS for what in ("delete", "missing")]
LONG += [
    ("committed", "expire"),
    ("committed", "expire some"),
    ("in a transaction", "end"),
    ("in a transaction", "abort"),
]


@pytest.mark.parametrize(("kind", "what"), LONG)
def test_nothing_that_is_done_to_a_large_group_is_one_turn(kind: str, what: str) -> None:
    lines: dict[int, int] = {}
    for partitions in (2 * coordinator.KEYS_A_TICK, 4 * coordinator.KEYS_A_TICK):
        world = large_group(kind, partitions)
        machine, told = world.machine, list[ErrorCode]()
        if what == "expire some":
            machine.commit("g", [("b", 0, value(1)._replace(wall_ms=1 << 41))], lambda error: None)
            world.drain()
        machine.kinds.classic.simple(machine.shards[0], "g")
        lines[partitions], count = turns(world, partial(done_to, world, what, told))
        assert count >= 1, "and not all at once"
        found = machine.fetch("g")
        assert isinstance(found, dict)
        names = {topic for topic, _ in found}
        if what == "delete":
            assert told == [ErrorCode.NONE] and not found and machine.find("g") is None
            assert not machine.shards[0].keys_at_most("g") or kind == "in a transaction"
        elif what == "expire some":
            assert len(found) == 1 and machine.find("g") is not None
        elif what == "expire":
            assert not found and machine.find("g") is None
        else:
            assert names == {"missing": {"b"}, "end": {"a", "b"}, "abort": {"b"}}[what]
        machine.shards[0].transactional.check()
    few, many = lines.values()
    assert many <= 1.2 * few, lines


def test_a_group_lives_on_whose_removal_fails_half_way_and_a_shard_that_is_lost_says_so() -> None:
    world = large_group("committed", 3 * coordinator.KEYS_A_TICK)
    told: list[ErrorCode] = []
    world.machine.kinds.classic.simple(world.machine.shards[0], "g")
    world.machine.delete("g", told.append)
    world.machine.tick(world.now)
    world.drain(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.machine.commit_error("g", "", None, -1, world.now) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is dead"
    while world.machine.deadline_ms() == 0:
        tick(world)
    assert told == [ErrorCode.NOT_ENOUGH_REPLICAS] and world.machine.find("g") is not None
    world.machine.delete("g", told.append)
    world.machine.tick(world.now)
    world.machine.lost(0)
    world.machine.tick(world.now)
    assert told[1:] == [ErrorCode.NOT_COORDINATOR] and world.machine.deadline_ms() != 0


def test_a_transaction_that_goes_on_while_the_one_before_is_taken_in_keeps_what_it_has_written() -> None:
    """A marker is committed after its producer has written more: that belongs to the next transaction."""
    world = large_group("in a transaction", 2 * coordinator.KEYS_A_TICK)
    machine = world.machine
    place = machine.marker_place(0)
    assert place is not None
    later = [("a", number, value(9)) for number in range(3)]
    machine.commit_transactional("g", (7, 1), later, lambda error: None)
    world.drain()
    machine.transaction_ended(0, 7, True, place)
    more = [("a", number, value(11)) for number in range(2, 5)]
    machine.commit_transactional("g", (7, 1), more, lambda error: None)
    world.drain()
    assert machine.unstable("g")
    while machine.deadline_ms() == 0:
        tick(world)
        machine.shards[0].transactional.check()
    assert set(machine.unstable("g")) == {("a", number) for number in range(5)}
    place = machine.marker_place(0)
    assert place is not None
    machine.transaction_ended(0, 7, True, place)
    while machine.deadline_ms() == 0:
        tick(world)
    found = machine.fetch("g")
    assert isinstance(found, dict) and not machine.unstable("g")
    assert [found["a", number].offset for number in range(6)] == [9, 9, 11, 11, 11, found["a", 5].offset]
    assert len(found) == 4 * coordinator.KEYS_A_TICK


@pytest.mark.parametrize("kind", KINDS_OF_KEYS)
def test_a_key_is_removed_once_wherever_it_is_while_the_group_is_looked_through(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes and transactions end between two portions: what they bring is looked at as well."""
    monkeypatch.setattr(coordinator, "KEYS_A_TICK", 10)
    monkeypatch.setattr(shard, "PORTION_KEYS", 10)
    world = large_group(kind, 40)
    before = len(world.machine.writes)
    removed = []
    world.machine.forget_topic("a")
    for turn in range(100):
        if turn == 2:
            removed += [key for write in world.machine.writes[before:] for key, _ in write.records]
            world.drain()
            before = 0
            if kind == "in a transaction":
                place = world.machine.marker_place(0)
                assert place is not None
                world.machine.transaction_ended(0, 7, True, place)
        world.machine.tick(world.now)
        if world.machine.deadline_ms():
            break
    removed += [key for write in world.machine.writes[before:] for key, _ in write.records]
    world.drain()
    assert len(removed) == len(set(removed)) == 40
    found = world.machine.fetch("g")
    assert isinstance(found, dict) and {topic for topic, _ in found} == {"b"}


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
