"""`rayft.follow` beside a server of bytes: time limits, damaged answers, Ctrl-C."""

import asyncio
import threading
import time
from typing import Any

import pytest

import rayft
from actors.arrow.reading import Partition
from actors.client.errors import ClientError
from actors.client.operations import fetching
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.builder import Builder
from tests.unit.arrow.test_reading import offsets
from tests.unit.client.listening import Listening
from tests.unit.client.operations.test_fetching import IDS, Broker, batch, part, reply


@pytest.mark.timeout(20)
def test_a_time_limit_holds_while_no_partition_has_a_leader() -> None:
    with (
        Listening({"Fetch": Broker(), "ListOffsets": offsets(0)}, t=[1]) as server,
        rayft.follow(server.address, "t", config={"metadata.max.age.ms": 0}) as following,
    ):
        assert following.next_batch(0.3) is None
        server.topics["t"] = [-1]
        for _ in range(3):
            assert following.next_batch(0.5) is None


@pytest.mark.timeout(20)
def test_a_time_limit_holds_while_nobody_answers() -> None:
    with Listening({"Fetch": Broker(), "ListOffsets": offsets(0)}, t=[1]) as server:
        following = rayft.follow(server.address, "t", config={"metadata.max.age.ms": 0})
        assert following.next_batch(0.3) is None
    with following:
        assert following.next_batch(0.5) is None


@pytest.mark.timeout(20)
def test_what_takes_longer_than_the_time_limit_goes_on_in_the_next_call() -> None:
    answer = offsets(2)

    def slowly(server: Any, version: int, request: Any) -> Any:
        time.sleep(0.2)
        return answer(server, version, request)

    with (
        Listening({"Fetch": Broker(reply(part(0, batch(0)))), "ListOffsets": slowly}, t=[1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        while (found := following.next_batch(0.01)) is None:
            pass
        assert found.num_rows == 2 and server.asked.count("ListOffsets") == 2


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_partition_that_gets_a_leader_again_is_read_while_another_broker_is_frozen(in_a_loop: bool) -> None:
    """Nobody else answers meanwhile, and the frozen broker's answer may take a minute."""
    thawed, kind, since = threading.Event(), message("MetadataResponse"), list[float]()

    def fetch(server: Any, version: int, request: Any) -> Any:
        (offset,) = [one.fetch_offset for topic in request.topics for one in topic.partitions] or [-1]
        if offset == 2 and not since:
            since.append(time.monotonic())
        if offset not in (0, 2):
            return reply(session=0)
        return reply(
            part(0, batch(offset)) if leads() else part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER), session=0
        )

    def leads() -> bool:
        return not since or time.monotonic() > since[0] + 0.5

    def metadata(server: Any, version: int, request: Any) -> Any:
        brokers = [
            kind.MetadataResponseBroker(node_id=id, host="127.0.0.1", port=one.server.port)
            for id, one in ((1, first), (2, second))
        ]
        parts = [
            kind.MetadataResponsePartition(
                partition_index=number, leader_id=leader, leader_epoch=1, replica_nodes=[1, 2], isr_nodes=[1, 2]
            )
            for number, leader in enumerate((1 if leads() else -1, 2))
        ]
        topic = kind.MetadataResponseTopic(name="t", topic_id=next(iter(IDS)), partitions=parts)
        return kind(brokers=brokers, controller_id=1, topics=[topic])

    answers: dict[str, Any] = {"Fetch": fetch, "ListOffsets": offsets(0), "Metadata": metadata}
    frozen: dict[str, Any] = {**answers, "Fetch": lambda *_: thawed.wait(60) and None}
    with Listening(answers, t=[1, 2]) as first, Listening(frozen, t=[1, 2]) as second:
        config = {"request.timeout.ms": 60_000}
        began, found = time.monotonic(), 0
        following = rayft.follow(first.address, "t", "earliest", config=config)

        async def awaited() -> int:
            count = 0
            async for one in following:
                count += one.num_rows
                if count >= 4:
                    break
            await following.aclose()
            return count

        try:
            if in_a_loop:
                found = asyncio.run(asyncio.wait_for(awaited(), 25))
            else:
                with following:
                    while found < 4 and time.monotonic() < began + 25:
                        one = following.next_batch(25)
                        found += 0 if one is None else one.num_rows
        finally:
            thawed.set()
        assert found >= 4


def test_what_cannot_be_read_ends_it_and_nothing_behind_it_is_given() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    broker = Broker(reply(part(0, bytes(damaged)), part(1, batch(0))), reply(part(0, batch(2))))
    answers: dict[str, Any] = {"Fetch": broker, "ListOffsets": offsets(9)}
    with (
        Listening(answers, t=[1, 1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        given = [following.next_batch(10)]
        for _ in range(2):
            with pytest.raises(ClientError, match="partition t/0 behind offset 0"):
                given.append(following.next_batch(10))
        assert [one.column("partition").to_pylist() for one in given if one is not None] == [[1, 1]]
        assert following.positions == {("t", 0): 0, ("t", 1): 2}


def marker(base: int) -> bytes:
    """The marker of a transaction: a batch that moves a position and gives no record."""
    builder = Builder(base_offset=base, epoch=1, attributes=0x30, producer_id=7, producer_epoch=0)
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\0")
    return bytes(builder.build())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("in_a_loop", [False, True], ids=["for", "async for"])
def test_nothing_behind_an_error_is_given_where_an_answer_moves_only_positions(in_a_loop: bool) -> None:
    """What was asked for in the turn in which the error came lies behind what could not be read. It was given, and then
    the error: what was committed between them was behind the damage."""
    damaged = bytearray(batch(2))
    damaged[-1] ^= 1
    broker = Broker(
        reply(part(0, batch(0))), reply(part(0, bytes(damaged)), part(1, marker(0))), reply(part(0, batch(4)))
    )
    given: list[list[int]] = []
    with Listening({"Fetch": broker, "ListOffsets": offsets(9)}, t=[1, 1]) as server:
        following = rayft.follow(server.address, "t", "earliest")

        async def awaited() -> None:
            async with following:
                async for one in following:
                    given.append(one.column("offset").to_pylist())
                    await asyncio.sleep(0.3)  # the next answer comes meanwhile

        with pytest.raises(ClientError, match="partition t/0 behind offset 2"):
            if in_a_loop:
                asyncio.run(awaited())
            else:
                with following:
                    for one in following:
                        given.append(one.column("offset").to_pylist())
                        time.sleep(0.3)
    assert given == [[0, 1]] and following.positions[("t", 0)] == 2


@pytest.mark.parametrize("at", [(Partition, "batches"), (fetching, "Fetched")], ids=["decoded", "fetched"])
def test_nothing_is_left_out_behind_an_interruption(at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    broker = Broker(reply(part(0, batch(0))), reply(part(0, batch(2))))
    with (
        Listening({"Fetch": broker, "ListOffsets": offsets(9)}, t=[1]) as server,
        rayft.follow(server.address, "t", "earliest") as following,
    ):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(*at, interrupted)
            following.next_batch(10)
        for _ in range(2):
            with pytest.raises(ClientError, match="interrupted"):
                following.next_batch(10)
        assert following.positions == {("t", 0): 0}


class Coordinator:
    """Keeps one offset of a group, and its leader epoch."""

    def __init__(self) -> None:
        self.kept = (-1, -1)

    def answers(self, server: Listening) -> dict[str, Any]:
        """What the broker of a coordinator answers."""

        def find(*_: Any) -> Any:
            kind = message("FindCoordinatorResponse")
            return kind(coordinators=[kind.Coordinator(key="g", node_id=1, host="127.0.0.1", port=server.server.port)])

        def stored(_: Any, version: int, request: Any) -> Any:
            kind = message("OffsetFetchResponse")
            row = kind.OffsetFetchResponsePartitions(
                partition_index=0, committed_offset=self.kept[0], committed_leader_epoch=self.kept[1], metadata=""
            )
            topic = kind.OffsetFetchResponseTopics(name="t", partitions=[row])
            return kind(groups=[kind.OffsetFetchResponseGroup(group_id="g", topics=[topic])])

        def commit(_: Any, version: int, request: Any) -> Any:
            kind, row = message("OffsetCommitResponse"), request.topics[0].partitions[0]
            self.kept = row.committed_offset, row.committed_leader_epoch
            told = kind.OffsetCommitResponsePartition(partition_index=0)
            return kind(topics=[kind.OffsetCommitResponseTopic(name="t", partitions=[told])])

        return {"FindCoordinator": find, "OffsetFetch": stored, "OffsetCommit": commit}


def epoch_ends(*ends: int) -> Any:
    """Answers OffsetForLeaderEpoch with one end after the other."""
    left = list(ends)

    def answer(server: Any, version: int, request: Any) -> Any:
        kind, asked = message("OffsetForLeaderEpochResponse"), request.topics[0].partitions[0]
        row = kind.EpochEndOffset(partition=0, leader_epoch=asked.leader_epoch, end_offset=left.pop(0))
        return kind(topics=[kind.OffsetForLeaderTopicResult(topic="t", partitions=[row])])

    return answer


@pytest.mark.timeout(20)
def test_a_log_that_was_cut_behind_what_a_group_has_read_is_told_though_it_is_as_long_again() -> None:
    coordinator = Coordinator()

    def fetch(_: Any, version: int, request: Any) -> Any:
        first = [one.fetch_offset for topic in request.topics for one in topic.partitions]
        return reply(part(0, batch(first[0], 4, epoch=3))) if first and first[0] < 8 else reply()

    answers: dict[str, Any] = {"Fetch": fetch, "ListOffsets": offsets(9), "OffsetForLeaderEpoch": epoch_ends(8, 2)}
    with Listening(answers, t=(3, [1])) as server:
        answers |= coordinator.answers(server)
        for ends in (4, 8):
            with rayft.follow(server.address, "t", "earliest", group="g") as following:
                assert following.next_batch(10).num_rows == 4  # type: ignore[union-attr]
                following.commit()
            assert coordinator.kept == (ends, 3)
        server.topics["t"] = (5, [1])
        with (
            rayft.follow(server.address, "t", "earliest", group="g") as following,
            pytest.raises(ClientError, match="its log ends at 2 now, and 8 was reached"),
        ):
            following.next_batch(10)
