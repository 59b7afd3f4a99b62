"""Fetch without brokers: sessions, positions, a replica in the rack, epochs, and what brokers say is wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.client.asks import Steps
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange, Result
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID, message
from fastpath.records.batch import Builder
from tests.unit.client.servers import Server, World

RESPONSE = message("FetchResponse")
IDS = {b"t".ljust(16, b"\1"): "t"}


def batch(base: int, count: int = 2, epoch: int = 1) -> bytes:
    builder = Builder(base_offset=base, epoch=epoch)
    for _ in range(count):
        builder.append(None, b"v")
    return bytes(builder.build())


def part(number: int = 0, records: bytes = b"", **fields: Any) -> Any:
    return RESPONSE.PartitionData(partition_index=number, records=records, **fields)


def reply(*parts: Any, session: int = 7, **fields: Any) -> Any:
    topic = RESPONSE.FetchableTopicResponse(topic_id=next(iter(IDS)), partitions=list(parts))
    return RESPONSE(session_id=session, responses=[topic] if parts else [], **fields)


class Broker:
    """Answers fetches one after the other, with what it is given; then with nothing."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []

    def __call__(self, server: Server, version: int, request: Any) -> Any:
        self.asked.append(request)
        return self.answers.pop(0) if self.answers else reply()

    def positions(self, n: int) -> dict[int, int]:
        """Of the n-th request: partition -> offset."""
        return {one.partition: one.fetch_offset for topic in self.asked[n].topics for one in topic.partitions}


def world(*brokers: Broker, leaders: Any = (1, [1, 1]), **config: Any) -> World:
    servers = [Server(f"h{n}", n, {"Fetch": broker}) for n, broker in enumerate(brokers, 1)]
    made = World(*servers, **config)
    for one in servers:
        one.answers["Metadata"] = lambda *_: made.metadata(t=leaders() if callable(leaders) else leaders)
    return made


def while_asked(broker: Broker, count: int, does: Callable[[], Any]) -> None:
    """Let something happen while a request is under way: the one of that number."""

    class Answers(list[Any]):
        def pop(self, at: Any = -1) -> Any:
            if len(broker.asked) == count:
                does()
            return super().pop(at)

    broker.answers = Answers(broker.answers)


def rounds(fetcher: Fetcher, count: int) -> Steps[list[list[Result]]]:
    found = []
    for _ in range(count):
        found.append((yield from fetcher.fetch()))
    return found


def test_a_session_names_only_what_has_changed() -> None:
    broker = Broker(reply(part(0, batch(0))), reply(part(1, batch(4, 3))), reply(), reply(part(0, batch(2))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 4})
    made.run(rounds(fetcher, 5))
    assert [broker.positions(n) for n in range(5)] == [{0: 0, 1: 4}, {0: 2}, {1: 7}, {}, {0: 4}]
    assert [(one.session_id, one.session_epoch) for one in broker.asked] == [(0, 0), (7, 1), (7, 2), (7, 3), (7, 4)]
    assert fetcher.positions() == {("t", 0): 4, ("t", 1): 7}


def test_a_partition_that_is_left_is_forgotten() -> None:
    broker = Broker(reply(part(0, batch(0))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 0})
    made.run(rounds(fetcher, 1))
    fetcher.leave("t", 1)
    made.run(rounds(fetcher, 1))
    assert [list(one.partitions) for one in broker.asked[1].forgotten_topics_data] == [[1]]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ],
)
def test_a_session_that_is_gone_begins_anew(code: ErrorCode) -> None:
    broker = Broker(reply(part(0, batch(0))), reply(error_code=code, session=0), reply(part(0, batch(2))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 0})
    made.run(rounds(fetcher, 3))
    assert (broker.asked[2].session_id, broker.asked[2].session_epoch) == (0, 0)
    assert broker.positions(2) == {0: 2, 1: 0}
    assert fetcher.position("t", 0) == 4


def test_a_connection_that_is_lost_begins_a_session_anew_and_reads_nothing_twice() -> None:
    broker = Broker(reply(part(0, batch(0))), ConnectionError("reset"), reply(part(0, batch(2))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0})
    found = made.run(rounds(fetcher, 3))
    assert [one.offset for some in found for one in some if isinstance(one, Fetched)] == [0, 2]
    assert broker.asked[2].session_id == 0


def test_a_position_moves_over_control_batches_and_gaps() -> None:
    gap = batch(0) + batch(50)
    broker = Broker(reply(part(0, gap + batch(52)[:70])))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 1})
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched) and (one.offset, one.next_offset) == (1, 52)
    assert bytes(one.records[: len(gap)]) == gap


def test_an_offset_that_is_not_there_is_told_once_and_waits_for_a_seek() -> None:
    broker = Broker(reply(part(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)), reply(part(0, batch(30))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 9})
    first, second = made.run(rounds(fetcher, 2))
    assert (first, second) == ([OutOfRange("t", 0, 9)], [])
    fetcher.seek("t", 0, 30)
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched) and fetcher.position("t", 0) == 32


def test_the_replica_in_the_rack_is_asked_and_left_when_it_lacks_something() -> None:
    leader = Broker(reply(part(0, preferred_read_replica=2)), reply(part(0, batch(2))))
    follower = Broker(reply(part(0, batch(0))), reply(part(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)))
    made = world(leader, follower, leaders=(1, [1]), client_rack="r")
    fetcher = Fetcher(made.config, {("t", 0): 0})
    found = made.run(rounds(fetcher, 4))
    assert leader.asked[0].rack_id == "r"
    assert [one.offset for some in found for one in some if isinstance(one, Fetched)] == [0, 2]
    assert len(follower.asked) == 2 and not any(isinstance(one, OutOfRange) for some in found for one in some)


def test_a_leader_that_has_moved_is_followed() -> None:
    where = [(1, [1])]
    moved = part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    first, second = Broker(reply(moved)), Broker(reply(part(0, batch(0))))
    made = world(first, second, leaders=lambda: where[0])
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 1))
    where[0] = (2, [2])
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched)
    assert second.asked[0].topics[0].partitions[0].current_leader_epoch == 2


def test_a_log_that_ends_before_what_was_read_is_told() -> None:
    where = [(1, [1])]
    moved = part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    first, second = Broker(reply(part(0, batch(0, 5))), reply(moved)), Broker(reply(part(0, batch(5))))
    made = world(first, second, leaders=lambda: where[0])
    kind = message("OffsetForLeaderEpochResponse")
    asked = []

    def ends(server: Server, version: int, request: Any) -> Any:
        asked.append(request.topics[0].partitions[0].leader_epoch)
        end = kind.EpochEndOffset(partition=0, leader_epoch=1, end_offset=3)
        return kind(topics=[kind.OffsetForLeaderTopicResult(topic="t", partitions=[end])])

    for one in made.servers.values():
        one.answers["OffsetForLeaderEpoch"] = ends
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 2))
    where[0] = (2, [2])
    assert made.run(rounds(fetcher, 2)) == [[Diverged("t", 0, 5, 3)], []]
    assert asked == [1] and not second.asked


@pytest.mark.parametrize(
    ("begins", "told"), [(0, [Diverged("t", 0, 5, 0)]), (4, [Diverged("t", 0, 5, 4)]), (5, []), (9, [])]
)
def test_a_leader_that_knows_nothing_of_what_was_read_has_lost_it(begins: int, told: list[Result]) -> None:
    """All behind the beginning of its log: nothing says that what is there now is what was read."""
    where = [(1, [1])]
    moved = part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    made = world(Broker(reply(part(0, batch(0, 5))), reply(moved)), Broker(), leaders=lambda: where[0])
    kind = message("ListOffsetsResponse")
    offset = kind.ListOffsetsPartitionResponse(partition_index=0, offset=begins)
    for one in made.servers.values():
        one.answers["OffsetForLeaderEpoch"] = epoch_end(-1)
        one.answers["ListOffsets"] = kind(topics=[kind.ListOffsetsTopicResponse(name="t", partitions=[offset])])
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 2))
    where[0] = (2, [2])
    assert made.run(rounds(fetcher, 1)) == [told]


def test_records_that_are_damaged_are_told_with_their_place() -> None:
    for data in (b"\0" * 61 + b"x" * 20, batch(0)[:-3]):
        made = world(Broker(reply(part(0, data))))
        ((one,),) = made.run(rounds(Fetcher(made.config, {("t", 0): 0}), 1))
        assert isinstance(one, Failed) and "partition t/0 at offset 0" in str(one.error)


def test_a_right_that_was_taken_away_is_told_and_the_others_go_on() -> None:
    denied = part(0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    made = world(Broker(reply(denied, part(1, batch(0)))))
    (found,) = made.run(rounds(Fetcher(made.config, {("t", 0): 0, ("t", 1): 0}), 1))
    assert [type(one) for one in found] == [Failed, Fetched]
    assert "partition t/0: no permission for that topic" in str(found[0].error)


def test_brokers_are_asked_one_by_one() -> None:
    first, second = Broker(reply(part(0, batch(0)))), Broker(reply(part(1, batch(5))))
    made = world(first, second, leaders=(1, [1, 2]))
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 5})
    assert made.run(fetcher.prepare()) == ([1, 2], [])
    tasks = [made.client.start(fetcher.fetch_from(node), made.now_us) for node in (1, 2)]
    found = [made.wait(task) for task in tasks]
    assert [[(one.partition, one.next_offset) for one in some] for some in found] == [[(0, 2)], [(1, 7)]]
    assert first.positions(0) == {0: 0} and second.positions(0) == {1: 5}


def test_a_new_leader_of_which_a_broker_tells_is_asked_for_the_end_of_the_epoch_first() -> None:
    hint = RESPONSE.LeaderIdAndEpoch(leader_id=2, leader_epoch=2)
    first = Broker(
        reply(part(0, batch(0, 5))), reply(part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint))
    )
    second = Broker(reply(part(1, batch(5))))
    made = world(first, second, leaders=(1, [1, 2]))
    kind = message("OffsetForLeaderEpochResponse")
    end = kind.EpochEndOffset(partition=0, leader_epoch=1, end_offset=3)
    for one in made.servers.values():
        one.answers["OffsetForLeaderEpoch"] = kind(
            topics=[kind.OffsetForLeaderTopicResult(topic="t", partitions=[end])]
        )
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 5})
    assert made.run(fetcher.prepare()) == ([1, 2], [])
    for node in (1, 2, 1, 2):
        made.run(fetcher.fetch_from(node))
    assert [list(second.positions(n)) for n in (0, 1)] == [[1], [1]]
    _, told = made.run(fetcher.prepare())
    assert told == [Diverged("t", 0, 5, 3)]


def test_a_topic_that_is_deleted_while_a_replica_in_the_rack_is_read() -> None:
    leader, follower = Broker(reply(part(0, preferred_read_replica=2))), Broker(reply(part(0, batch(0))))
    made = world(leader, follower, leaders=(1, [1]), client_rack="r")
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 2))
    for one in made.servers.values():
        one.answers["Metadata"] = lambda *_: made.metadata(t=int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    fetcher._stale = True
    ((told,),) = [some for some in made.run(rounds(fetcher, 9)) if some]
    assert isinstance(told, Failed) and "topic t does not exist" in str(told.error)


@pytest.mark.parametrize("session", [0, 7])
def test_an_answer_to_what_was_asked_before_a_seek_is_not_taken(session: int) -> None:
    """Also of a broker that keeps no sessions: else the records between would be left out in silence."""
    broker = Broker(reply(part(0, batch(100)), session=session), reply(part(0, batch(0)), session=session))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 100})
    while_asked(broker, 1, lambda: fetcher.seek("t", 0, 0))
    assert made.run(rounds(fetcher, 1)) == [[]]
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched) and (one.offset, one.next_offset) == (0, 2)


def test_a_partition_that_an_answer_has_twice_is_read_once() -> None:
    made = world(Broker(reply(part(0, batch(0)), part(0, batch(0)), session=0)))
    fetcher = Fetcher(made.config, {("t", 0): 0})
    (found,) = made.run(rounds(fetcher, 1))
    assert len(found) == 1


def epoch_end(end_offset: int) -> Any:
    kind = message("OffsetForLeaderEpochResponse")
    end = kind.EpochEndOffset(partition=0, leader_epoch=1, end_offset=end_offset)
    return kind(topics=[kind.OffsetForLeaderTopicResult(topic="t", partitions=[end])])


def test_an_answer_of_an_old_leader_says_nothing_about_a_new_one() -> None:
    """The metadata is that of all operations: it may name another leader while an answer is on its way."""
    first, second = Broker(reply(part(0, batch(0, 5))), reply(part(0, batch(5)))), Broker()
    made = world(first, second, leaders=(1, [1]))
    made.servers["h2", 2].answers["OffsetForLeaderEpoch"] = epoch_end(3)
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 1))
    while_asked(first, 2, lambda: made.client.metadata.new_leader("t", 0, 2, 2))
    made.run(fetcher.fetch_from(1))
    assert made.run(rounds(fetcher, 1)) == [[Diverged("t", 0, 7, 3)]]


def test_the_end_of_an_epoch_in_one_leaders_log_says_nothing_about_the_next() -> None:
    first, second, third = Broker(reply(part(0, batch(0, 5)))), Broker(), Broker()
    made = world(first, second, third, leaders=(1, [1]))
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 1))

    def sound(server: Server, version: int, request: Any) -> Any:
        made.client.metadata.new_leader("t", 0, 3, 3)
        return epoch_end(5)

    made.servers["h2", 2].answers["OffsetForLeaderEpoch"] = sound
    made.servers["h3", 3].answers["OffsetForLeaderEpoch"] = epoch_end(3)
    made.client.metadata.new_leader("t", 0, 2, 2)
    told = [one for some in made.run(rounds(fetcher, 3)) for one in some]
    assert told == [Diverged("t", 0, 5, 3)]


def test_a_seek_while_a_leader_is_asked_for_the_end_of_an_epoch() -> None:
    first, second = Broker(reply(part(0, batch(0, 5)))), Broker(reply(part(0, batch(9))))
    made = world(first, second, leaders=(1, [1]))
    fetcher = Fetcher(made.config, {("t", 0): 0})
    made.run(rounds(fetcher, 1))

    def sought(server: Server, version: int, request: Any) -> Any:
        fetcher.seek("t", 0, 9)
        return epoch_end(5)

    made.servers["h2", 2].answers["OffsetForLeaderEpoch"] = sought
    made.client.metadata.new_leader("t", 0, 2, 2)
    told = [one for some in made.run(rounds(fetcher, 2)) for one in some]
    assert [type(one) for one in told] == [Fetched] and fetcher.position("t", 0) == 11


def test_a_topic_that_a_seek_adds_waits_for_the_next_look_at_the_metadata() -> None:
    broker = Broker(reply(), reply(part(0, batch(0))))
    made = world(broker)
    made.run(Fetcher(made.config, {("t", 1): 0}).prepare())
    fetcher = Fetcher(made.config, {})
    fetcher.seek("t", 0, 0)
    assert made.run(fetcher.fetch_from(1)) == []
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched) and broker.positions(0) == {} and broker.positions(1) == {0: 0}


def test_a_partition_that_is_left_before_the_request_is_sent_is_not_asked_for() -> None:
    broker = Broker(reply(part(0, batch(0))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0, ("t", 1): 0})
    made.run(fetcher.prepare())
    asked = made.client.start(fetcher.fetch_from(1), made.now_us)
    fetcher.leave("t", 1)
    assert [(one.topic, one.partition) for one in made.wait(asked)] == [("t", 0)]
    assert broker.positions(0) == {0: 0}


def test_a_replica_that_began_after_the_metadata_was_told_is_looked_for() -> None:
    leader, follower = Broker(reply(part(0, preferred_read_replica=2))), Broker(reply(part(0, batch(0))))
    made = world(leader, follower, leaders=(1, [1]), client_rack="r")
    for one in made.servers.values():
        told = one.answers["Metadata"]
        one.answers["Metadata"] = lambda *_, told=told: alone(told()) if not leader.asked else told()
    fetcher = Fetcher(made.config, {("t", 0): 0})
    found = [one for some in made.run(rounds(fetcher, 2)) for one in some]
    assert [type(one) for one in found] == [Fetched] and len(follower.asked) == 1


def alone(metadata: Any) -> Any:
    """The answer of a broker that does not know the second one yet."""
    metadata.brokers = metadata.brokers[:1]
    return metadata


def test_the_id_of_a_topic_that_was_told_without_one_is_taken_when_it_is_told() -> None:
    """Some brokers are older than topic ids: while a cluster becomes newer one by one."""
    broker = Broker(reply(part(0, batch(0))))
    made = world(broker)
    fetcher = Fetcher(made.config, {("t", 0): 0}, {"t": ZERO_UUID})
    ((one,),) = made.run(rounds(fetcher, 1))
    assert isinstance(one, Fetched) and broker.asked[0].topics[0].topic_id == next(iter(IDS))
