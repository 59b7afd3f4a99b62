"""Reconciliation, partitioning and assignment compared with what Apache Kafka's own classes made of random cases.

The programs beside the cases in tests/golden print them again.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.streams.answers import Tasks
from actors.broker.groups.streams.assignor import AssignedMember, StreamsGroupSpec, Targets, sticky
from actors.broker.groups.streams.partitioning import partition
from actors.broker.groups.streams.reconciliation import Fenced, StreamsMemberToReconcile, reconcile
from actors.broker.groups.streams.state import Current, MemberState, OwnedTasks
from actors.broker.groups.streams.topology import Copartition, Subtopology, Topic, Topology
from tests.rows import rows

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka-4.3.1" / "streams_groups"


def cases(name: str) -> list[Any]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def sets(told: dict[str, list[int]]) -> dict[str, frozenset[int]]:
    return {one: frozenset(numbers) for one, numbers in told.items()}


def tasks(told: list[Any]) -> Tasks:
    return Tasks(*(sets(role) for role in told))


def held(told: list[Any]) -> OwnedTasks:
    active = {one: {int(number): epoch for number, epoch in numbers.items()} for one, numbers in told[0].items()}
    return OwnedTasks(active, sets(told[1]), sets(told[2]))


def current(told: list[Any]) -> Current:
    return Current(told[0], told[1], MemberState(told[2]), held(told[3]), held(told[4]))


@rows((case,) for case in cases("reconciliation.txt"))
def test_a_member_comes_where_kafka_brings_it(case: list[Any]) -> None:
    before, target_epoch, target, owned, others, expected = case
    member = current(before)
    mine = {key for part in (member.assigned, member.revoking) for key in part.each()}

    def process(role: str, one: str, number: int) -> str | None:
        return "p" if (role, one, number) in mine else others.get(f"{role} {one} {number}")

    def available(role: str, one: str, number: int) -> bool:
        if role == "active":
            free = process("active", one, number) is None
            return free and "p" not in (process("standby", one, number), process("warmup", one, number))
        return all(process(other, one, number) != "p" for other in OwnedTasks._fields)

    question = StreamsMemberToReconcile(
        member, target_epoch, tasks(target), None if owned is None else tasks(owned), available
    )
    if expected == "fenced":
        with pytest.raises(Fenced):
            reconcile(question)
    else:
        assert reconcile(question) == current(expected)


@rows((case,) for case in cases("partitioning.txt"))
def test_topics_get_the_sizes_that_kafka_gives_them(case: list[Any]) -> None:
    sizes, said, parts, expected = case

    def topics(names: list[str]) -> tuple[Topic, ...]:
        return tuple(Topic(name, said.get(name, 0), 0, ()) for name in names)

    topology = Topology(
        1,
        tuple(
            Subtopology(
                str(number), tuple(reads), (), topics(logs), tuple(writes), topics(again),
                (Copartition(tuple(range(len(reads))), (), tuple(range(len(again)))),) if together else (),
            )
            for number, (reads, again, writes, logs, together) in enumerate(parts)
        ),
    )  # fmt: skip
    if isinstance(expected, str):
        assert expected == "StreamsInvalidTopologyException"
        with pytest.raises(RequestRefused):
            partition(topology, sizes.get)
        return
    found = partition(topology, sizes.get)
    status = None if found.problem is None else int(found.problem[0])
    assert [status, found.tasks, {one.name: one.partitions for one in found.missing}] == expected


def most(targets: Targets) -> int:
    """How many active tasks the member with the most has."""
    return max(sum(map(len, target.active.values())) for target in targets.values())


def copies(targets: Targets) -> int:
    """How many standby tasks there are."""
    return sum(len(numbers) for target in targets.values() for numbers in target.standby.values())


def kept(targets: Targets, members: dict[str, Any]) -> int:
    """Active tasks that stay at their member."""
    return sum(
        len(target.active.get(one, frozenset()) & numbers)
        for id, target in targets.items()
        for one, numbers in sets(members[id][1]).items()
    )


@rows((case,) for case in cases("assignor.txt"))
def test_tasks_are_spread_and_kept_as_kafka_does(case: list[Any]) -> None:
    counts, stateful, standby, members, expected = case
    places = {
        id: AssignedMember(at, Tasks(sets(active), sets(standbys))) for id, (at, active, standbys) in members.items()
    }
    found = sticky(StreamsGroupSpec(places, counts, frozenset(stateful), standby))
    kafkas = {id: Tasks(sets(active), sets(standbys)) for id, (active, standbys) in expected.items()}
    assert found.keys() == members.keys()
    assert most(found) <= most(kafkas)
    assert copies(found) == copies(kafkas)
    assert kept(found, members) >= kept(kafkas, members)
    everywhere = [(one, number) for target in found.values() for one, set in target.active.items() for number in set]
    assert sorted(everywhere) == sorted((one, number) for one, count in counts.items() for number in range(count))
    for process in {at for at, _, _ in members.values()}:
        inside = Counter(
            (one, number)
            for id, target in found.items()
            if members[id][0] == process
            for role in target
            for one, numbers in role.items()
            for number in numbers
        )
        assert all(times == 1 for times in inside.values()), "a process has a task in one role"
