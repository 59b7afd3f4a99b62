"""Offsets that are forgotten, and those of transactions: topics that are deleted, records that cannot be read."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from actors.broker.groups import coordinator, shard
from actors.broker.groups.kind import Expiry
from actors.broker.groups.records import CommittedOffset, offset_record
from actors.broker.groups.shard import PORTION_KEYS
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.counted import lines_of
from tests.unit.broker.groups.test_coordinator import World

pytestmark = pytest.mark.long


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


def ended(world: World, producer_id: int, *, commit: bool = True) -> None:
    place = world.machine.marker_place(0)
    assert place is not None
    world.machine.transaction_ended(0, producer_id, commit, place)


def until_done(world: World) -> None:
    while world.machine.deadline_ms() == 0:
        tick(world)
        world.machine.shards[0].transactional.check()


@pytest.mark.parametrize("more", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_while_the_one_before_is_taken_in(more: int, commit: bool) -> None:
    """What it has written before the first marker was told is its own all the same, and ends with the second."""
    world = large_group("in a transaction", 2 * coordinator.KEYS_A_TICK)
    machine = world.machine
    place = machine.marker_place(0)
    assert place is not None
    later = [("a", number, value(90_000)) for number in range(3)] + [("c", 0, value(90_001))]
    machine.commit_transactional("g", (7, 1), later, lambda error: None)
    world.drain()
    machine.transaction_ended(0, 7, True, place)
    if more:
        offsets = [("a", number, value(90_002)) for number in range(more)]
        machine.commit_transactional("g", (7, 1), offsets, lambda error: None)
        world.drain()
    ended(world, 7, commit=commit)
    assert machine.unstable("g"), "none of them is taken in whole"
    until_done(world)
    found = machine.fetch("g")
    assert isinstance(found, dict) and not machine.unstable("g")
    told = [found[topic, number].offset if (topic, number) in found else None for topic, number, _ in later]
    assert told == ([90_002] * more + [90_000] * (3 - more) + [90_001] if commit else [None] * 4)


@pytest.mark.parametrize("first", [7, 8])
def test_of_two_transactions_that_are_taken_in_together_the_later_value_of_a_key_is_visible(first: int) -> None:
    world = large_group("committed", coordinator.KEYS_A_TICK)
    machine = world.machine
    machine.forget_topic("b")
    assert machine.deadline_ms() == 0, "this turn has no time left"
    for producer, offset in ((7, 90_000), (8, 90_001)):
        machine.commit_transactional("g", (producer, 0), [("c", 0, value(offset))], lambda error: None)
        world.drain()
    ended(world, first)
    ended(world, 15 - first)
    until_done(world)
    found = machine.fetch("g")
    assert isinstance(found, dict) and found["c", 0].offset == 90_001


def wall(world: World, days: int) -> Now:
    return Now(world.now.mono_ms, world.now.wall_ms + days * 86_400_000)


@pytest.mark.parametrize("failed", [False, True])
def test_what_is_being_committed_while_a_large_group_is_looked_through_does_not_expire(failed: bool) -> None:
    """The value that is visible is old, and its removal would stand behind the new one in the log."""
    world = large_group("committed", 2 * coordinator.KEYS_A_TICK)
    machine = world.machine
    machine.commit("g", [("z", 0, value(1)._replace(wall_ms=1 << 41))], lambda error: None)
    world.drain()
    told: list[ErrorCode] = []
    machine.expire_offsets(wall(world, 1000))
    while len(world.machine.fetch("g")) > 4 * coordinator.KEYS_A_TICK:  # type: ignore[arg-type]
        tick(world)
    last = ("a", 2 * coordinator.KEYS_A_TICK - 1)
    machine.commit("g", [(*last, value(90_000)._replace(wall_ms=1 << 41))], told.append)
    if failed:
        machine.written(machine.writes.pop().token, ErrorCode.NOT_ENOUGH_REPLICAS, world.now)
    while machine.deadline_ms() == 0:
        machine.tick(world.now)
    world.drain()
    found = machine.fetch("g")
    assert isinstance(found, dict) and len(told) == 1
    assert found.keys() == ({("z", 0)} if failed else {("z", 0), last})
    assert world.heir().fetch("g") == found


def test_an_old_offset_of_which_an_open_transaction_has_a_new_value_does_not_expire() -> None:
    """Also not in a group that goes on, of whose topics members no longer read one: the removal would be the newer."""
    world = large_group("committed", 2)
    machine = world.machine
    machine.commit_transactional("g", (7, 0), [("a", 0, value(90_000))], lambda error: None)
    world.drain()
    of_group = next(iter(machine.shards.values()))
    every = Expiry(lambda key, committed: True, whole=False)
    assert coordinator._old(of_group, "g", [("a", 0), ("a", 1)], every) == [("a", 1)]
    ended(world, 7)
    until_done(world)
    assert coordinator._old(of_group, "g", [("a", 0), ("a", 1)], every) == [("a", 0), ("a", 1)]


def old_groups(count: int, keys: int) -> World:
    """So many groups, each with so many offsets that have expired and one that has not."""
    world = World()
    fresh = value(1)._replace(wall_ms=1 << 41)
    for group in range(count):
        offsets = [("a", number, value(number)) for number in range(keys)] + [("z", 0, fresh)]
        world.machine.commit(f"g{group}", offsets, lambda error: None)
        world.drain()
    world.machine.tick(world.now)
    return world


def test_a_turn_looks_at_as_many_offsets_of_many_groups_as_of_one() -> None:
    lines = []
    for count in (200, 400):
        world = old_groups(count, 100)
        most, _ = turns(world, lambda world=world: world.machine.expire_offsets(wall(world, 1000)))  # type: ignore[misc]
        lines.append(most)
        assert all(committed(world, f"g{group}") == {"z": 1} for group in range(count))
    assert lines[1] <= 1.2 * lines[0], lines


def test_a_large_group_expires_while_others_of_its_partition_commit() -> None:
    world = large_group("committed", 2 * coordinator.KEYS_A_TICK)
    machine = world.machine
    for _ in range(2):
        machine.expire_offsets(wall(world, 1000))
        while machine.deadline_ms() == 0:
            machine.commit("other", [("z", 0, value(1)._replace(wall_ms=1 << 41))], lambda error: None)
            tick(world)
    assert machine.find("g") is None and not machine.fetch("g") and committed(world, "other") == {"z": 1}


Logged = tuple[list[tuple[bytes | None, bytes | None]], int] | tuple[int, bool]
"""Records and whose transaction they belong to (-1: none), or a marker: whose, and whether it commits."""


def history(seed: int) -> tuple[World, list[Logged]]:
    """Three producers and a consumer without a group commit offsets of few keys. Markers are told late, some are written
    twice, and all are taken in late. No producer goes on before it has heard that its transaction has ended."""
    chance, world, log = random.Random(seed), World(), list[Logged]()
    machine, markers, offset = world.machine, list[tuple[int, bool, coordinator.MarkerPlace, int]](), 0
    ends: dict[int, tuple[int, bool]] = {}
    """Producer -> the end of its transaction that it waits for: its number, and whether that commits."""
    for _ in range(chance.randrange(5, 80)):
        what = chance.choice(("commit", "commit", "commit", "plain", "end", "end", "told", "told", "turn"))
        producer = chance.randrange(3)
        if (what == "commit" and producer not in ends) or what == "plain":
            offset += 1
            offsets = [("t", number, value(offset)) for number in chance.sample(range(6), chance.randrange(1, 6))]
            if what == "plain":
                machine.commit("g", offsets, lambda error: None)
            else:
                machine.commit_transactional("g", (producer, 0), offsets, lambda error: None)
            log += [(list(write.records), producer if what == "commit" else -1) for write in machine.writes]
            world.drain()
        elif what == "end":
            place = machine.marker_place(0)
            assert place is not None
            number, commits = ends.setdefault(producer, (len(log), chance.random() < 0.7))
            markers.append((producer, commits, place, number))
            log.append((producer, commits))
        elif what == "told" and markers:
            producer, commits, place, number = markers.pop(0)
            if ends.get(producer, (-1,))[0] == number:
                del ends[producer]
            machine.transaction_ended(0, producer, commits, place)
        else:
            machine.tick(world.now)
            world.drain()
        machine.shards[0].transactional.check()
    for producer, commits, place, _ in markers:
        machine.transaction_ended(0, producer, commits, place)
    until_done(world)
    return world, log


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_offsets_of_transactions_that_are_taken_in_late_are_those_that_the_log_has(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "KEYS_A_TICK", 3)
    monkeypatch.setattr(coordinator, "PORTION_KEYS", 2)
    for seed in range(first, first + 200):
        world, log = history(seed)
        heir = World().machine
        heir.gained(0, 2)
        for what, more in log:
            if isinstance(what, list):
                heir.load(0, 2, what, more)
            else:
                heir.load_end(0, 2, what, bool(more))
        heir.loaded(0, 2, world.now)
        assert world.machine.fetch("g") == heir.fetch("g"), seed
        assert set(world.machine.unstable("g")) == set(heir.unstable("g")), seed
