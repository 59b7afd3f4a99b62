"""Reassignments: what a partition looks like while one runs, how it is given up, and what is refused."""

from typing import Any

import pytest

from actors.controller.partitions.reassignments import alter_partition_reassignments, list_partition_reassignments
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.controller.cluster import Cluster

KIND, LIST = message("AlterPartitionReassignmentsRequest"), message("ListPartitionReassignmentsRequest")


def cluster(*replicas: int) -> Cluster:
    c = Cluster(brokers=4)
    c.topic("t", replicas or (1, 2), (1, 2))
    return c


def asked(c: Cluster, *entries: tuple[str, int, list[int] | None], factor_may_change: bool = True) -> list[int]:
    """The error codes, in the order of the entries."""
    topics = [
        KIND.ReassignableTopic(
            name=name, partitions=[KIND.ReassignablePartition(partition_index=number, replicas=replicas)]
        )
        for name, number, replicas in entries
    ]
    reply = c.run(alter_partition_reassignments, KIND(topics=topics, allow_replication_factor_change=factor_may_change))
    return [one.error_code for topic in reply.responses for one in topic.partitions]


def held(c: Cluster, number: int = 0) -> tuple[Any, Any, Any]:
    row = c.image.partition(c.image.topic("t"), number)
    return c.image.replicas(row), c.image.adding(row), c.image.removing(row)


def running(c: Cluster, **topics: list[int]) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    named = [LIST.ListPartitionReassignmentsTopics(name=name, partition_indexes=some) for name, some in topics.items()]
    reply = c.run(list_partition_reassignments, LIST(topics=named or None))
    return {
        (topic.name, one.partition_index): (one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in reply.topics
        for one in topic.partitions
    }


def test_while_one_runs_replicas_are_the_target_and_what_goes_away() -> None:
    c = cluster()
    assert asked(c, ("t", 0, [3, 2])) == [0] and held(c) == ((3, 2, 1), (3,), (1,))
    assert running(c) == {("t", 0): ([3, 2, 1], [3], [1])}
    assert running(c, t=[1, 0, 0, 9]) == running(c) and running(c, t=[1]) == {} == running(c, u=[0])
    assert c.partition("t")[:2] == ((2, 1), 1), "who leads goes on"


def test_one_that_adds_nothing_is_over_at_once() -> None:
    c = cluster()
    assert asked(c, ("t", 0, [2])) == [0] and held(c) == ((2,), (), ()) and running(c) == {}
    assert c.partition("t")[:2] == ((2,), 2)


def test_another_target_takes_the_place_of_the_one_before() -> None:
    c = cluster()
    asked(c, ("t", 0, [3, 4]))
    assert asked(c, ("t", 0, [4, 1])) == [0] and held(c) == ((4, 1, 2), (4,), (2,)), "3 was never a replica"
    assert asked(c, ("t", 0, [4, 1])) == [0] and c.ops == [], "the same once more changes nothing"


def test_giving_up_leads_back_to_the_replicas_before() -> None:
    c = cluster()
    asked(c, ("t", 0, [3, 4]))
    assert asked(c, ("t", 0, None)) == [0] and held(c) == ((1, 2), (), ())
    assert asked(c, ("t", 0, None)) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS] and c.ops == []


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (("u", 0, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 9, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", -1, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("t", 0, []), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 0, [1, 1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 0, [9]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (("t", 0, [-1]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_cannot_be_is_refused_and_others_are_done(
    entry: tuple[str, int, list[int] | None], code: ErrorCode
) -> None:
    c = cluster()
    assert asked(c, entry, ("t", 1, [3])) == [code, 0]
    assert held(c) == ((1, 2), (), ()) and held(c, 1) == ((3, 1, 2), (3,), (1, 2))


def test_a_partition_that_is_named_twice_is_moved_once() -> None:
    c = cluster()
    assert asked(c, ("t", 0, [3]), ("t", 0, [4])) == [0, ErrorCode.INVALID_REQUEST]
    assert held(c) == ((3, 1, 2), (3,), (1, 2))


def test_the_number_of_replicas_stays_where_that_is_asked_for() -> None:
    c = cluster()
    assert asked(c, ("t", 0, [3]), factor_may_change=False) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert asked(c, ("t", 0, [3, 4]), factor_may_change=False) == [0]
    assert asked(c, ("t", 0, [2, 4]), factor_may_change=False) == [0], "what goes away does not count"
