"""The times of requests: their parts add up, and answers are counted by what they say."""

from types import SimpleNamespace

import pytest

from actors.wire.messages import message
from fastpath.meters.request_times import Door, RequestTimes, Timing, note_all
from fastpath.meters.spread import WINDOW_NS

HALF = (0.5,)


def timing(meter: RequestTimes, door: Door, **times: int) -> Timing:
    one = Timing()
    one.arrived(1_000, 9, 100, meter, door)
    for name, value in times.items():
        setattr(one, name, value)
    return one


def test_the_parts_of_a_request_add_up_to_its_total() -> None:
    meter, door = RequestTimes(), Door()
    one = timing(
        meter, door, began_ns=11_000, local_ns=30_000, answered_ns=101_000, left_ns=151_000, parts=[b"abc", b"d" * 7]
    )
    left = [one]
    note_all(left, 351_000)
    assert left == []
    parts = (meter.queue, meter.local, meter.remote, meter.response_queue, meter.send)
    assert [part.total for part in parts] == [10_000, 30_000, 60_000, 50_000, 200_000]
    assert meter.total.total == 350_000 == sum(part.total for part in parts)
    assert meter.size.total == 100 and meter.by_version() == [(9, 1)]
    assert (door.requests, door.responses, door.bytes_in, door.bytes_out) == (1, 1, 104, 10)


def test_work_behind_the_answer_is_not_local_time() -> None:
    meter = RequestTimes()
    note_all([timing(meter, Door(), began_ns=2_000, local_ns=90_000, answered_ns=5_000, left_ns=5_000)], 6_000)
    assert (meter.local.total, meter.remote.total, meter.total.total) == (3_000, 0, 5_000)


def test_a_request_that_is_answered_while_it_is_handled_is_known_then() -> None:
    meter = RequestTimes()
    one = timing(meter, Door())
    one.handled(3_000, 1_000)
    one.parts = [b"x"]
    one.handled(6_000, 2_000)
    note_all([one], 10_000)
    assert (meter.queue.total, meter.local.total, meter.remote.total) == (2_000, 3_000, 2_000)
    assert (meter.response_queue.total, meter.send.total, meter.total.total) == (0, 2_000, 9_000)


def test_an_answer_that_nobody_timed_became_known_when_it_left_or_was_sent() -> None:
    meter = RequestTimes()
    for left_ns in (0, 8_000):
        one = timing(meter, Door(), left_ns=left_ns)
        one.handled(3_000, 1_000)
        one.parts = [b"x"]
        note_all([one], 10_000)
    assert meter.remote.total == 6_000 + 4_000 and meter.send.total == 2_000


def test_a_request_without_an_answer_counts_and_has_no_response() -> None:
    meter, door = RequestTimes(), Door()
    note_all([timing(meter, door, began_ns=1_000, answered_ns=2_000, left_ns=2_000, parts=[])], 2_000)
    assert meter.total.count == 1 and door.responses == 0


def test_fetches_of_consumers_and_followers_are_counted_apart_and_together() -> None:
    meter = RequestTimes(fetches=True)
    for replica in (True, False, False):
        one = timing(meter, Door(), answered_ns=2_000, left_ns=2_000)
        one.connection = SimpleNamespace(replica=replica)
        note_all([one], 3_000)
    assert meter.consumer is not None and meter.follower is not None
    meter.answered(message("HeartbeatResponse")(error_code=25))
    whole = meter.whole(3_000)
    assert [one.total.count for one in (whole, meter.consumer, meter.follower)] == [3, 2, 1]
    assert whole.by_version() == [(9, 3)] and whole.by_code() == [(25, 1)]
    assert whole.total.total == 6_000 and whole.total.quantiles(HALF, 3_000) == meter.consumer.total.quantiles(
        HALF, 3_000
    )
    assert meter.whole(3_000).total.count == 3, "asking changes nothing"


@pytest.mark.parametrize("version", [-1, 64, 32_767])
def test_a_version_that_nobody_serves_takes_no_place(version: int) -> None:
    meter = RequestTimes()
    one = Timing()
    one.arrived(0, version, 10, meter, Door())
    note_all([one], 5)
    assert meter.total.count == 1 and meter.by_version() == []


def test_error_codes_are_counted_at_any_depth() -> None:
    meter, kind = RequestTimes(), message("ProduceResponse")
    part = kind.PartitionProduceResponse
    topic = kind.TopicProduceResponse(
        name="t",
        partition_responses=[part(index=0, error_code=0), part(index=1, error_code=6), part(index=2, error_code=6)],
    )
    meter.answered(kind(responses=[topic, kind.TopicProduceResponse(name="u", partition_responses=[])]))
    meter.answered(message("HeartbeatResponse")(error_code=-1))
    meter.answered(message("HeartbeatResponse")(error_code=25))
    meter.answered(message("HeartbeatResponse")(error_code=30_000))
    fetched = message("FetchResponse")
    data = fetched.PartitionData(partition_index=0, error_code=1, high_watermark=0, records=b"")
    meter.answered(fetched(error_code=0, responses=[fetched.FetchableTopicResponse(topic="t", partitions=[data])]))
    meter.answered(message("SaslHandshakeResponse")(error_code=0))
    assert dict(meter.by_code()) == {-1: 1, 0: 3, 1: 1, 6: 2, 25: 1}


def test_what_is_old_of_one_part_is_not_new_for_the_whole() -> None:
    meter, late_ns = RequestTimes(fetches=True), 3 * WINDOW_NS
    for replica, at_ns in ((True, 1_000_000), (False, late_ns)):
        one = timing(meter, Door(), answered_ns=at_ns, left_ns=at_ns)
        one.connection = SimpleNamespace(replica=replica)
        note_all([one], at_ns)
    both = meter.whole(late_ns).total
    assert both.count == 2 and [share for share, _ in both.quantiles((0.01, 0.99), late_ns)] == [0.01, 0.99]
    assert len({value for _, value in both.quantiles((0.01, 0.99), late_ns)}) == 1, "only the consumer has come lately"
    assert meter.whole(late_ns + 2 * WINDOW_NS).total.quantiles(HALF, late_ns + 2 * WINDOW_NS) == []
