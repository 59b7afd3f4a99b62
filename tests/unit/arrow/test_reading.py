"""`rayft.read` beside a server of bytes: a slow user, a leader that moves, an end that does not come, sockets."""

import datetime
import gc
import itertools
import time
import warnings
from typing import Any

import numpy as np
import pytest

import rayft
from actors.arrow.ranges import Range
from actors.arrow.reading import batches
from actors.client.errors import ClientError, NotInTime
from actors.host.client.blocking import Kafka, settings
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.listening import Listening
from tests.unit.client.operations.test_fetching import Broker, batch, part, reply

OFFSETS = message("ListOffsetsResponse")


def offsets(end: int) -> Any:
    """Answers ListOffsets for partitions that begin at 0."""

    def answer(server: Any, version: int, request: Any) -> Any:
        rows = [
            OFFSETS.ListOffsetsPartitionResponse(
                partition_index=one.partition_index, offset=0 if one.timestamp == -2 else end, timestamp=-1
            )
            for one in request.topics[0].partitions
        ]
        return OFFSETS(topics=[OFFSETS.ListOffsetsTopicResponse(name="t", partitions=rows)])

    return answer


def test_a_user_may_take_longer_than_a_request() -> None:
    broker = Broker(*(reply(part(0, batch(n))) for n in range(0, 4, 2)))
    config = {"default.api.timeout.ms": 2000, "request.timeout.ms": 2000, "fetch.max.wait.ms": 0}
    with Listening({"Fetch": broker, "ListOffsets": offsets(4)}, t=[1]) as server:
        rows = 0
        for found in rayft.read(server.address, "t", config=config):
            rows += found.num_rows
            time.sleep(2.2)
    assert rows == 4
    assert len(broker.asked) == 2, "what came while the user was busy is not asked for again"


def test_a_leader_that_moves_is_not_asked_without_a_pause() -> None:
    begun = time.monotonic()

    def fetch(server: Any, version: int, request: Any) -> Any:
        if time.monotonic() < begun + 1.0:
            return reply(part(0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return reply(part(0, batch(0)))

    with Listening({"Fetch": fetch, "ListOffsets": offsets(2)}, t=[1]) as server:
        assert rayft.read(server.address, "t").read_all().num_rows == 2
    assert server.asked.count("Fetch") < 20


def test_a_session_that_is_always_lost_is_not_begun_without_a_pause() -> None:
    begun = time.monotonic()

    def fetch(server: Any, version: int, request: Any) -> Any:
        if time.monotonic() < begun + 1.0:
            return reply(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return reply(part(0, batch(0)))

    with Listening({"Fetch": fetch, "ListOffsets": offsets(2)}, t=[1]) as server:
        assert rayft.read(server.address, "t").read_all().num_rows == 2
    assert server.asked.count("Fetch") < 20


@pytest.mark.timeout(20)
def test_a_partition_of_which_nothing_comes_ends_the_read() -> None:
    broker = Broker(reply(part(0, batch(0))))
    config = {"default.api.timeout.ms": 700, "fetch.max.wait.ms": 50}
    with Listening({"Fetch": broker, "ListOffsets": offsets(4)}, t=[1]) as server:
        reader = rayft.read(server.address, "t", config=config)
        assert reader.read_next_batch().num_rows == 2
        server.topics["t"] = (2, [-1])
        begun = time.monotonic()
        with pytest.raises(NotInTime, match="t/0"):
            reader.read_next_batch()
        assert 0.5 < time.monotonic() - begun < 5


@pytest.mark.timeout(20)
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_broker_that_once_gave_nothing_is_asked_again_beside_the_others(is_lost: bool) -> None:
    slow = Broker(*(reply(part(0, batch(n))) for n in range(0, 60, 2)))
    late = Broker(reply(), reply(part(1, batch(0, 60))))

    def slowly(server: Any, version: int, request: Any) -> Any:
        time.sleep(0.05)
        return slow(server, version, request)

    def lately(server: Any, version: int, request: Any) -> Any:
        answer = late(server, version, request)
        if is_lost and len(late.asked) == 1:
            raise ConnectionError
        return answer

    with (
        Listening({"Fetch": slowly, "ListOffsets": offsets(60)}, t=(1, [1, 2])) as one,
        Listening({"Fetch": lately, "ListOffsets": offsets(60)}) as other,
    ):
        told = one._answer("Metadata", 12, None)
        told.brokers.append(type(told.brokers[0])(node_id=2, host="127.0.0.1", port=other.server.port))
        one.server.answers["Metadata"] = other.server.answers["Metadata"] = told
        found = [b.column(0)[0].as_py() for b in rayft.read(one.address, "t", columns=("partition",))]
    assert found.count(0) == 30 and found.index(1) < 25


@pytest.mark.timeout(20)
def test_a_server_that_always_asks_to_wait_ends_the_read() -> None:
    broker = Broker(reply(part(0, batch(0)), throttle_time_ms=(1 << 31) - 1))
    config = {"default.api.timeout.ms": 700, "fetch.max.wait.ms": 50}
    with Listening({"Fetch": broker, "ListOffsets": offsets(4)}, t=[1]) as server:
        reader = rayft.read(server.address, "t", config=config)
        assert reader.read_next_batch().num_rows == 2
        with pytest.raises(NotInTime, match="t/0"):
            reader.read_next_batch()


def falling(*ends: int, low: int = 0) -> Any:
    """Answers ListOffsets with another end each time, and then with the last of them."""
    left = list(ends)

    def answer(server: Any, version: int, request: Any) -> Any:
        first = request.topics[0].partitions[0].timestamp == -2
        offset = low if first else left.pop(0) if len(left) > 1 else left[0]
        row = OFFSETS.ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=-1)
        return OFFSETS(topics=[OFFSETS.ListOffsetsTopicResponse(name="t", partitions=[row])])

    return answer


def read_on(server: Any, first: int, end: int, **config: Any) -> tuple[list[int], list[str]]:
    """The offsets of a range, read by a reader that goes on behind what is gone, and what it was told."""
    told: list[str] = []
    kafka = Kafka(settings(server.address, {"default.api.timeout.ms": 700, "fetch.max.wait.ms": 50, **config}))
    found = batches(kafka, {("t", 0): Range(first, end)}, ("offset",), {}, told.append)
    return [offset for one in found for offset in one.column(0).to_pylist()], told


@pytest.mark.long
def test_a_log_that_ends_in_front_of_what_is_read_was_truncated() -> None:
    with Listening({"Fetch": Broker(reply(part(0, batch(0)))), "ListOffsets": falling(6, 2)}, t=[1]) as server:
        reader = rayft.read(server.address, "t", config={"default.api.timeout.ms": 700, "fetch.max.wait.ms": 50})
        with pytest.raises(ClientError, match="t/0: the log ends at 2 and offset 5 was to be read: it was truncated"):
            reader.read_all()
    with Listening({"Fetch": Broker(reply(part(0, batch(0)))), "ListOffsets": falling(2)}, t=[1]) as server:
        offsets_, told = read_on(server, 0, 6)
    assert offsets_ == [0, 1] and len(told) == 1


def test_a_reader_may_go_on_behind_deleted_records_and_is_not_given_them() -> None:
    """Offset 1 is deleted, and stands in the batch that is left."""
    gone = part(0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    broker = Broker(reply(gone), reply(part(0, batch(0))), reply(part(0, batch(2))))
    with Listening({"Fetch": broker, "ListOffsets": falling(4, low=1)}, t=[1]) as server:
        offsets_, told = read_on(server, 0, 4)
    assert offsets_ == [1, 2, 3]
    assert told == ["partition t/0 has no offset 0 any more: its records up to 0 were deleted while it was read"]
    with Listening({"Fetch": Broker(reply(gone)), "ListOffsets": falling(9, low=7)}, t=[1]) as server:
        assert read_on(server, 0, 4)[0] == [], "nothing is left of the range"
    with Listening({"Fetch": Broker(reply(gone)), "ListOffsets": falling(2)}, t=[1]) as server:
        offsets_, told = read_on(server, 3, 6)
    assert offsets_ == [] and told == ["partition t/0 has no offset 3 any more: its log was truncated"]


def test_a_reader_that_goes_on_still_fails_at_what_is_no_loss() -> None:
    denied = part(0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with (
        Listening({"Fetch": Broker(reply(denied)), "ListOffsets": falling(4)}, t=[1]) as server,
        pytest.raises(ClientError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        read_on(server, 0, 4)


def test_a_topic_that_is_made_anew_before_the_first_batch_is_another() -> None:
    config = {"metadata.max.age.ms": 100, "fetch.max.wait.ms": 0}
    with Listening({"Fetch": Broker(reply(part(0, batch(0)))), "ListOffsets": offsets(2)}, t=[1]) as server:
        reader = rayft.read(server.address, "t", config=config)
        time.sleep(0.3)
        told = server._answer("Metadata", 12, None)
        told.topics[0].topic_id = b"other".ljust(16, b"\2")
        server.server.answers["Metadata"] = told
        with pytest.raises(ClientError, match="deleted and made anew"):
            reader.read_all()


@pytest.mark.parametrize("count", [0, 1])
def test_a_reader_that_is_given_up_closes_its_sockets(count: int) -> None:
    broker = Broker(*(reply(part(0, batch(n))) for n in range(0, 8, 2)))
    with Listening({"Fetch": broker, "ListOffsets": offsets(100)}, t=[1]) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = rayft.read(server.address, "t")
        for _ in itertools.islice(reader, count):
            pass
        assert server.open > 0
        del reader
        gc.collect()
        server.until_open(0)


def at_times(*answers: int) -> tuple[list[int], Any]:
    """Answers ListOffsets for a partition of offsets 0 to 4, and a time with each of `answers`. Returns the times too."""
    left, times = list(answers), []

    def answer(server: Any, version: int, request: Any) -> Any:
        time = request.topics[0].partitions[0].timestamp
        known = {-2: 0, -1: 4}
        if time not in known:
            times.append(time)
        offset = known[time] if time in known else left.pop(0)
        row = OFFSETS.ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=-1)
        return OFFSETS(topics=[OFFSETS.ListOffsetsTopicResponse(name="t", partitions=[row])])

    return times, answer


@pytest.mark.parametrize("start", ["1969-12-31T23:59:59.999", "1969-12-31T23:59:59.998", "1960-01-01"])
def test_a_time_before_1970_is_no_other_place(start: str) -> None:
    """-1 is the end to ListOffsets, and -2 the beginning."""
    times, answer = at_times(0)
    with Listening({"Fetch": Broker(reply(part(0, batch(0, 4)))), "ListOffsets": answer}, t=[1]) as server:
        assert rayft.read(server.address, "t", start).read_all().num_rows == 4
    assert times == [0]


def test_a_record_that_is_written_while_the_offsets_are_asked_is_no_error() -> None:
    times, answer = at_times(6)
    with Listening({"Fetch": Broker(), "ListOffsets": answer}, t=[1]) as server:
        assert rayft.read(server.address, "t", "2026-11-01").read_all().num_rows == 0
    assert times == [1_793_491_200_000]


def test_a_place_may_be_a_number_of_any_kind_and_nothing_else() -> None:
    with Listening({"Fetch": Broker(reply(part(0, batch(0, 4)))), "ListOffsets": offsets(4)}, t=[1]) as server:
        assert rayft.read(server.address, "t", np.int64(3), np.int32(4)).read_all().num_rows == 1
        for strange in (datetime.date(2026, 11, 1), 1.5, None, "yesterday"):
            with pytest.raises(ClientError, match="is no place in a log"):
                rayft.read(server.address, "t", strange)  # type: ignore[arg-type]
