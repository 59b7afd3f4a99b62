"""Partitions whose leader is away, or which have none: what their leaders tell of the others is told."""

from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World


def offsets(server: Server, version: int, request: Any) -> Any:
    """The answer of a leader: 9 for all."""
    kind = message("ListOffsetsResponse")
    rows = [
        kind.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                kind.ListOffsetsPartitionResponse(
                    partition_index=one.partition_index, error_code=0, timestamp=-1, offset=9, leader_epoch=1
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return kind(topics=rows)


def cluster(leaders: list[int], is_away: bool = False) -> World:
    """Two brokers; the second one may be away."""
    servers = [Server(name, 1, {"ListOffsets": offsets}) for name in ("a", "b")]
    world = World(*servers)
    for one in servers:
        one.answers["Metadata"] = lambda *_: world.metadata(t=leaders)
    servers[1].refuses = is_away
    return world


@pytest.mark.parametrize(("leaders", "is_away"), [([1, -1], False), ([1, 2], True)])
def test_who_looks_again_soon_is_told_of_the_leaders_that_answer(leaders: list[int], is_away: bool) -> None:
    parts = [("t", 0), ("t", 1)]
    with pytest.raises(NotInTime):
        cluster(leaders, is_away).run(list_offsets(parts), 10_000)
    world = cluster(leaders, is_away)
    told = world.run(list_offsets(parts, tries=TRIES_SAMPLED), 10_000)
    assert isinstance(told["t", 0], Found) and isinstance(told["t", 1], ClientError) and len(told) == 2
    assert ("nothing listens there" in str(told["t", 1])) is is_away
    assert is_away or told["t", 1].code == ErrorCode.LEADER_NOT_AVAILABLE
    assert cluster([1, 2]).run(list_offsets(parts, tries=TRIES_SAMPLED)).keys() == set(parts)


def test_a_leader_that_has_moved_is_asked_where_it_is() -> None:
    world = cluster([1])
    first = next(iter(world.servers.values()))
    answers = [int(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    def moved(server: Server, version: int, request: Any) -> Any:
        found = offsets(server, version, request)
        found.topics[0].partitions[0].error_code = answers.pop() if answers else 0
        return found

    first.answers["ListOffsets"] = moved
    (told,) = world.run(list_offsets([("t", 0)], tries=TRIES_SAMPLED), 10_000).values()
    assert isinstance(told, Found) and not answers
