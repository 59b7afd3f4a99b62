"""Groups that stand still, out of one look after another; transactions that hang, and those of which nobody tells."""

import asyncio
import time
from typing import Any

import pytest

from actors.command.by_address import health
from actors.page.live.troubles import Standing, Troubles
from actors.why.answers import HANGING_MS
from actors.why.groups import STANDS_MS, GroupSample
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.operations.test_leaders import cluster, offsets
from tests.unit.client.servers import Server, World
from tests.unit.command.by_address.test_exporter import Kafka as Blocking
from tests.unit.page.live.test_lags import Kafka

PART, OTHER = ("orders", 0), ("orders", 1)


def look(time_ms: int, committed: int, end: int = 100) -> dict[str, GroupSample]:
    """The group g, which has read everything of another partition."""
    return {"g": GroupSample(time_ms, 0, {PART: committed, OTHER: 5}, {PART: end, OTHER: 5})}


def test_a_group_stands_since_it_committed_last() -> None:
    standing = Standing()
    for time_ms, committed in ((0, 7), (5_000, 9), (10_000, 9), (5_000 + STANDS_MS - 1, 9)):
        standing.look(look(time_ms, committed))
        assert standing.found == ()
    for time_ms in (5_000 + STANDS_MS, 5_000 + 5 * STANDS_MS):
        standing.look(look(time_ms, 9))
        (one,) = standing.found
        assert (one.group, one.lag, one.stands_ms, one.partitions) == ("g", 91, time_ms - 5_000, ("orders-0",))
    standing.look(look(400_000, 10))
    assert standing.found == ()


def test_a_group_that_has_read_everything_or_is_gone_does_not_stand() -> None:
    standing = Standing()
    for time_ms in (0, STANDS_MS, 2 * STANDS_MS):
        standing.look(look(time_ms, 100))
        assert standing.found == ()
    standing.look(look(3 * STANDS_MS, 100, 200))
    assert standing.found == (), "what it lacks came just now"
    standing.look({})
    standing.look(look(9 * STANDS_MS, 100, 200))
    assert standing.found == (), "it is another one with that name"


def held(timeout_ms: int, of_second: Any) -> World:
    """Two brokers, and a transaction that is open for long. The second one coordinates it. `of_second`: its transactional
    id, or what the second one answers to ListTransactions instead."""
    world = cluster([1])
    began_ms = int(time.time() * 1000) - HANGING_MS - 60_000
    listing, description = message("ListTransactionsResponse"), message("DescribeTransactionsResponse")

    def ends(server: Server, version: int, request: Any) -> Any:
        told = offsets(server, version, request)
        for topic in told.topics:
            for one in topic.partitions:
                one.offset -= 4 * request.isolation_level
        return told

    def producers(server: Server, version: int, request: Any) -> Any:
        kind = message("DescribeProducersResponse")
        one = kind.ProducerState(
            producer_id=7, producer_epoch=0, last_sequence=0, last_timestamp=began_ms, current_txn_start_offset=5
        )
        part = kind.PartitionResponse(partition_index=0, active_producers=[one])
        return kind(topics=[kind.TopicResponse(name="t", partitions=[part])])

    def listed(server: Server, version: int, request: Any) -> Any:
        if server.host == "a":
            return listing()
        if not isinstance(of_second, str):
            return of_second
        one = listing.TransactionState(transactional_id=of_second, producer_id=7, transaction_state="Ongoing")
        return listing(transaction_states=[one])

    def described(server: Server, version: int, request: Any) -> Any:
        one = description.TransactionState(
            error_code=0, transactional_id="flink", transaction_state="Ongoing", transaction_timeout_ms=timeout_ms,
            transaction_start_time_ms=began_ms, producer_id=7, producer_epoch=0, topics=[],
        )  # fmt: skip
        return description(transaction_states=[one])

    for server in world.servers.values():
        server.answers |= {
            "ListOffsets": ends, "DescribeProducers": producers, "ListTransactions": listed,
            "DescribeTransactions": described, "DescribeLogDirs": message("DescribeLogDirsResponse")(),
            "DescribeQuorum": message("DescribeQuorumResponse")(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        }  # fmt: skip
    return world


def hangs(world: World) -> list[str]:
    troubles = Troubles(Kafka(world), lambda most: [("t", 0)], lambda: None)  # type: ignore[arg-type]
    return [one.id for one in asyncio.run(troubles._transactions())]


def test_a_transaction_hangs_beyond_its_timeout() -> None:
    assert hangs(held(60_000, "flink")) == ["flink"]
    assert hangs(held(3_600_000, "flink")) == [], "its coordinator will end it"


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionError("reset"),
        message("ListTransactionsResponse")(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        message("ListTransactionsResponse")(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_a_transaction_whose_coordinator_does_not_tell_is_not_said_to_hang(answer: Any) -> None:
    assert hangs(held(3_600_000, answer)) == []
    world = held(3_600_000, answer)
    seen = health._look(Blocking(world))  # type: ignore[arg-type]
    assert [one.kind for one in seen.explanations] == []
    assert any("coordinators of transactions are not looked at: " in one for one in seen.unseen)
    asked = [request for one in world.servers.values() for name, _, request in one.asked if name == "DescribeLogDirs"]
    assert len(asked) == 2 and all(one.topics == [] for one in asked), "what each replica takes is not asked for"
