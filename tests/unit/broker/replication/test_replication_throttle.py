"""Replication throttles (KIP-73): the rate as a value, and what leaders and followers make of it."""

from typing import Any

import pytest

from actors.broker.replication.replication_throttle import NO_LIMIT, RECHECK_MS, ReplicationThrottle, lists
from actors.metadata import ops
from actors.settings.keys import ConfigError
from actors.settings.topics import TOPIC_CONFIGS
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab, code
from tests.unit.node.roles.broker.replication.test_replication import content, isr_of

RECORD = b"x" * 10_000


def throttle(bytes_per_s: int, windows: int = 11) -> ReplicationThrottle:
    made = ReplicationThrottle(windows)
    made.limit(bytes_per_s)
    return made


def test_what_was_counted_goes_over_the_time_since_its_window_began() -> None:
    one = throttle(1_000)
    one.count(3_000, 10_000)
    assert one.rate(10_000) == 3_000 and one.over(10_000), "one window at least"
    assert one.rate(12_000) == 1_500
    assert one.due_ms(12_000) == 13_000
    assert not one.over(13_000)
    assert one.over(12_999)


def test_what_is_older_than_all_windows_is_forgotten() -> None:
    one = throttle(1_000, windows=2)
    one.count(100_000, 0)
    one.count(1_000, 1_500)
    assert one.over(1_999)
    assert one.rate(2_000) == 1_000 and not one.over(2_000)


def test_without_a_rate_nothing_is_over_it_and_at_0_everything_is() -> None:
    one = throttle(NO_LIMIT)
    one.count(1 << 50, 0)
    assert not one.over(0) and not one.limited
    one.limit(0)
    assert one.over(10_000) and one.due_ms(10_000) == 10_000 + RECHECK_MS


@pytest.mark.parametrize(
    ("text", "named"),
    [("", []), ("*", [(0, 1), (7, 2)]), ("0:1", [(0, 1)]), ("0:1,7:2,00:3", [(0, 1), (7, 2), (0, 3)])],
)
def test_a_list_names_replicas_as_in_apache_kafka(text: str, named: list[tuple[int, int]]) -> None:
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        value = TOPIC_CONFIGS[name].parse(text)
        pairs = [(partition, broker) for partition in (0, 7) for broker in (1, 2, 3)]
        found = [(partition, broker) for partition, broker in pairs if lists(value, partition, broker)]
        assert set(named) <= set(found) and (text == "*" or len(found) == len(named))


@pytest.mark.parametrize("text", ["0", "0:", ":1", "0:1:2", "a:1", "*,0:1", "-1:2", "\u00b2:1"])
def test_a_list_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="partition:broker pairs"):
        TOPIC_CONFIGS["leader.replication.throttled.replicas"].parse(text)


def moved(sides: dict[str, str], *, batches: int = 20, settings: dict[str, str] | None = None) -> Lab:
    """A topic of broker 1 with 200 KB, of which broker 2 becomes a second replica. `sides`: settings of the topic."""
    lab = Lab(2, {"replica.fetch.max.bytes": "20000", **(settings or {})})
    lab.topic([1], configs=sides)
    for _ in range(batches):
        assert code(lab.produce(1, RECORD)) is ErrorCode.NONE
    return lab


def grow(lab: Lab) -> None:
    lab.commit(ops.PartitionsSet.one(TOPIC_ID, 0, [1, 2], [1], 1, 2, 2))


def rate(lab: Lab, name: str, bytes_per_s: int, broker: str = "") -> None:
    lab.commit(ops.ConfigSet(4, broker, f"{name}.replication.throttled.rate", str(bytes_per_s)))


def copied(lab: Lab) -> int:
    end: int = lab.partition(2).log.log_end_offset
    return end


def test_a_leader_sends_no_faster_than_its_rate_to_who_is_not_in_sync() -> None:
    lab = moved({"leader.replication.throttled.replicas": "0:1"})
    rate(lab, "leader", 10_500, "1")
    grow(lab)
    lab.settle()
    assert 0 < copied(lab) <= 2, "the first answer is sent before anything was counted"
    lab.pass_ms(5_000)
    assert 4 <= copied(lab) <= 9, "one batch a second, a bit more than 10 KB"
    assert isr_of(lab) == (1,)
    rate(lab, "leader", 10_000_000, "1")
    lab.pass_ms(2_000)
    assert copied(lab) == 20 and isr_of(lab) == (1, 2) and content(lab, 2) == content(lab, 1)


def test_a_follower_does_not_ask_while_it_is_over_its_rate() -> None:
    lab = moved({"follower.replication.throttled.replicas": "*"})
    rate(lab, "follower", 10_500)
    grow(lab)
    lab.settle()
    assert 0 < copied(lab) <= 2
    before = lab.fetches
    lab.pass_ms(5_000)
    assert 4 <= copied(lab) <= 9 and isr_of(lab) == (1,)
    assert lab.fetches - before < 40, "it asks when it may, and not in between"
    rate(lab, "follower", NO_LIMIT)
    lab.pass_ms(2_000)
    assert copied(lab) == 20 and isr_of(lab) == (1, 2)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_who_is_in_sync_is_not_held_back_and_counts(side: str) -> None:
    lab = Lab(2)
    lab.topic([1, 2], configs={f"{side}.replication.throttled.replicas": "*"})
    rate(lab, side, 100)
    for _ in range(10):
        sent = lab.produce(1, RECORD)
        lab.settle()
        assert code(sent) is ErrorCode.NONE
    lab.pass_ms(1_000)
    assert copied(lab) == 10 and isr_of(lab) == (1, 2)
    cluster: Any = lab.broker(1 if side == "leader" else 2).cluster
    assert getattr(cluster, f"{side}_throttle").over(lab.now.mono_ms)


def test_a_replica_that_is_not_listed_is_not_held_back_and_does_not_count() -> None:
    lab = moved({"leader.replication.throttled.replicas": "1:1,0:2", "follower.replication.throttled.replicas": "0:1"})
    rate(lab, "leader", 1)
    rate(lab, "follower", 1)
    grow(lab)
    lab.pass_ms(1_000)
    assert copied(lab) == 20
    assert lab.broker(1).cluster.leader_throttle.rate(lab.now.mono_ms) == 0


def test_a_throttled_partition_does_not_delay_another_one() -> None:
    lab = moved({"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"})
    other = bytes(reversed(TOPIC_ID))
    lab.topic([1, 2], "u", other)
    rate(lab, "leader", 1_000)
    rate(lab, "follower", 1_000)
    grow(lab)
    lab.settle()
    for _ in range(5):
        sent = lab.produce(1, b"now", topic="u")
        lab.settle()
        assert code(sent) is ErrorCode.NONE, "without any time"
    assert copied(lab) < 20


def test_windows_of_the_rate_are_those_of_the_settings() -> None:
    lab = Lab(1, {"replication.quota.window.num": "2", "replication.quota.window.size.seconds": "3"})
    throttle = lab.broker(1).cluster.leader_throttle
    throttle.count(6_000, 0)
    assert throttle.rate(1_000) == 2_000 and throttle.rate(5_999) > 1_000 and throttle.rate(6_000) == 0


def test_a_rate_is_shown_where_it_is_set() -> None:
    """kafka-reassign-partitions.sh takes any value that it is shown for a throttle that is still there."""
    lab = Lab(1)
    kind: Any = message("DescribeConfigsRequest")
    resource = kind.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)

    def shown() -> dict[str, str | None]:
        reply = lab.call(1, "DescribeConfigs", 4, kind(resources=[resource])).reply
        return {one.name: one.value for one in reply.results[0].configs if one.name in rates}

    moves = "replica.alter.log.dirs.io.max.bytes.per.second"
    rates = {"leader.replication.throttled.rate": "10", "follower.replication.throttled.rate": "20", moves: "30"}
    assert shown() == {}
    rate(lab, "leader", 10, "1")
    rate(lab, "follower", 20)
    lab.commit(ops.ConfigSet(4, "1", moves, "30"))
    assert shown() == rates
