"""A streams group beside groups of other kinds, its removal, its limits, and what its members do at random."""

import random
from typing import Any

import pytest

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.streams import partitioning
from actors.broker.groups.streams.answers import StreamsBeat
from actors.broker.groups.streams.partitioning import TASKS_MAX, partition
from actors.broker.groups.streams.topology import Topology
from actors.wire.errors import ErrorCode
from tests.unit.broker.groups.streams.world import World, subtopology

READS = Topology(0, (subtopology("0", "lines"),))
TOPOLOGY, CLASSIC = 23, 2


def test_an_empty_classic_group_becomes_a_streams_group_and_back() -> None:
    world = World(lines=2)
    joined = world.join_classic()
    assert world.machine.leave("g", [(joined.member_id, None)], world.now) == [ErrorCode.NONE]
    world.drain()
    world.kinds()
    assert world.join("a", READS).error is ErrorCode.NONE
    assert -CLASSIC in world.kinds(), "the log has one group of the name"
    assert world.machine.groups() == []
    world.answer(world.beat("a", -1))
    world.kinds()
    assert world.join_classic().error is ErrorCode.NONE
    assert -TOPOLOGY in world.kinds() and world.machine.groups("streams") == []


def test_a_group_with_members_keeps_its_kind() -> None:
    world = World(lines=2)
    world.join("a", READS)
    assert world.join_classic().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = World(lines=2)
    other.join_classic()
    assert other.join("a", READS).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert other.answer(other.beat("a", -1)).message == "Group g is not a streams group."


def test_a_deletion_removes_every_key_and_a_failed_one_leaves_the_group_as_it_was() -> None:
    world = World(lines=2)
    world.join("a", READS)
    codes: list[ErrorCode] = []
    world.machine.delete("g", codes.append)
    assert codes == [ErrorCode.NON_EMPTY_GROUP]
    world.answer(world.beat("a", -1))
    world.held = True
    world.machine.delete("g", codes.append)
    world.held = False
    world.drain(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert world.join("a", READS).error is ErrorCode.NONE, "it is there as before"
    world.answer(world.beat("a", -1))
    world.kinds()
    world.machine.delete("g", codes.append)
    world.drain()
    assert codes[-1] is ErrorCode.NONE and {-17, -20, -TOPOLOGY} <= set(world.kinds())
    assert world.heir().machine.groups("streams") == []


def test_a_full_group_takes_nobody_else() -> None:
    world = World(size_max=1, lines=2)
    world.join("a", READS)
    assert world.join("b", READS).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("a", READS).error is ErrorCode.NONE, "who is in it may come again"


def test_tags_and_names_that_are_too_long_are_refused_and_leave_nothing() -> None:
    world = World(lines=2)
    for more in ({"tags": (("k", "v" * (1 << 14)),)}, {"process": "p" * 1025}):
        beat = world.join("a", READS, **more)
        assert beat.error is ErrorCode.INVALID_REQUEST and "characters" in (beat.message or "")
    assert world.machine.groups("streams") == [] and world.log == []


def test_a_topology_with_too_many_tasks_is_refused() -> None:
    with pytest.raises(RequestRefused) as refused:
        partition(READS, lambda topic: TASKS_MAX + 1)
    assert refused.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_a_long_chain_of_subtopologies_costs_one_look_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over all of them for each link would hold the broker for seconds."""
    links, looks = 1_000, 0
    parts = [subtopology(f"{links - n:05}", repartitions=(f"r{n}",), sinks=(f"r{n + 1}",)) for n in range(links)]
    chain = Topology(0, (*sorted(parts), subtopology("99999", "lines", sinks=("r0",))))
    known = partitioning._known

    def counted(*given: Any) -> list[int]:
        nonlocal looks
        looks += 1
        return known(*given)

    monkeypatch.setattr(partitioning, "_known", counted)
    found = partition(chain, lambda topic: 3 if topic == "lines" else None)
    assert set(found.tasks.values()) == {3} and len(found.missing) == links
    assert looks < 3 * links


@pytest.mark.parametrize("seed", range(30))
def test_whatever_members_do_a_task_is_active_at_one_and_in_the_end_each_is_run(seed: int) -> None:
    """`World.drain` checks the group's invariants after each step."""
    choose = random.Random(seed)
    world = World(interval_ms=choose.choice((0, 500)), standby=choose.choice((0, 1)), lines=4, log=4)
    topology = Topology(0, (subtopology("0", "lines", changelogs=("log",)),))
    epochs: dict[str, int] = {}
    has: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]] = {}

    def hear(id: str, beat: StreamsBeat) -> None:
        if beat.error is not ErrorCode.NONE:
            epochs.pop(id, None)
            has.pop(id, None)
            return
        epochs[id] = beat.epoch
        if beat.tasks is not None:
            active, standby = ({one: tuple(numbers) for one, numbers in sets.items()} for sets in beat.tasks[:2])
            has[id] = active, standby

    def step(id: str, lost: bool = False) -> None:
        if id not in epochs:
            hear(id, world.join(id, topology, process=f"process-{ord(id) % 3}"))
            return
        active, standby = has.get(id, ({}, {}))
        ticket = world.beat(id, epochs[id], {"active": active, "standby": standby, "warmup": {}})
        if not lost:
            hear(id, world.answer(ticket))

    for _ in range(120):
        id = choose.choice("abcd")
        what = choose.randrange(20)
        if what == 0 and id in epochs:
            world.beat(id, -1)
            epochs.pop(id), has.pop(id, None)
        elif what == 1:
            world = world.heir()
        else:
            step(id, lost=not choose.randrange(5))
        world.pass_ms(choose.randrange(1_500))
    for _ in range(30):
        for id in "abcd":
            if id in epochs or id == "a":
                step(id)
        world.pass_ms(2_000)
    assert world.group().state() == "Stable"
    assert sorted(number for active, _ in has.values() for number in active.get("0", ())) == [0, 1, 2, 3]
