"""Settings of one group: which may be set, what bounds them, and which value counts."""

import pytest

from actors.settings.groups import (
    GROUP_CONFIGS,
    OffsetReset,
    duration_ms,
    effective,
    error,
    limits,
    offset_reset,
)
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config
from actors.settings.nodes import BROKER_CONFIGS

NODE = limits(lambda name: BROKER_CONFIGS[name].default)


def test_every_synonym_and_bound_is_a_setting_of_the_node_with_the_same_default() -> None:
    for key in GROUP_CONFIGS.values():
        for synonym in key.synonyms:
            assert (BROKER_CONFIGS[synonym].default, BROKER_CONFIGS[synonym].type) == (key.default, key.type)
    assert all(one.low is None or one.low <= one.usual for one in NODE.values())
    assert all(one.high is None or one.usual <= one.high for one in NODE.values())


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("consumer.session.timeout.ms", "45000", None),
        (
            "consumer.session.timeout.ms",
            "44999",
            "greater than or equal to group.consumer.min.session.timeout.ms (45000)",
        ),
        ("consumer.session.timeout.ms", "60001", "less than or equal to group.consumer.max.session.timeout.ms (60000)"),
        ("share.record.lock.duration.ms", "14999", "group.share.min.record.lock.duration.ms"),
        ("share.delivery.count.limit", "11", "group.share.max.delivery.count.limit"),
        ("share.partition.max.record.locks", "99", "write a number of at least 100"),
        ("share.auto.offset.reset", "by_duration:PT1H", None),
        ("share.auto.offset.reset", "by_duration:-PT1H", "write latest, earliest"),
        ("share.isolation.level", "read_most", "write read_committed or read_uncommitted"),
        ("share.renew.acknowledge.enable", "false", None),
        ("streams.num.standby.replicas", "3", "group.streams.max.standby.replicas (2)"),
        ("streams.initial.rebalance.delay.ms", "0", None),
        ("retention.ms", "1", "Unknown group config name: retention.ms"),
    ],
)
def test_a_change_is_refused_with_what_bounds_it(name: str, text: str, wrong: str | None) -> None:
    found = error(NODE, {name: text}, {})
    assert found is None if wrong is None else wrong in str(found)


def test_a_session_is_longer_than_the_interval_of_heartbeats() -> None:
    node = dict(NODE)
    for name in ("share.session.timeout.ms", "share.heartbeat.interval.ms"):
        node[name] = NODE[name]._replace(low=1, high=100_000)
    assert error(node, {"share.session.timeout.ms": "5000"}, {}) is not None, "as long as the node's heartbeats"
    assert error(node, {"share.session.timeout.ms": "5000"}, {"share.heartbeat.interval.ms": "4999"}) is None
    assert error(node, {"share.heartbeat.interval.ms": None}, {"share.session.timeout.ms": "5000"}) is not None


def test_a_value_outside_bounds_that_were_moved_counts_as_the_nearest() -> None:
    given = {"consumer.session.timeout.ms": "70000", "share.delivery.count.limit": "nine"}
    given["streams.num.standby.replicas"] = "1"
    values = effective(NODE, given)
    assert values["consumer.session.timeout.ms"] == 60_000
    assert values["share.delivery.count.limit"] == 5, "a text that is no value counts as not set"
    assert values["streams.num.standby.replicas"] == 1 and values["share.auto.offset.reset"] == "latest"
    assert values.keys() == GROUP_CONFIGS.keys()


def test_a_pair_that_the_node_has_turned_round_counts_as_the_node_has_it() -> None:
    node = dict(NODE)
    node["consumer.session.timeout.ms"] = NODE["consumer.session.timeout.ms"]._replace(low=1, usual=6_000)
    values = effective(node, {"consumer.heartbeat.interval.ms": "15000"})
    assert (values["consumer.session.timeout.ms"], values["consumer.heartbeat.interval.ms"]) == (6_000, 5_000)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000), ("P1DT2H3M4.5S", 93_784_500), ("P2D", 172_800_000), ("PT0S", 0), ("pt1m", 60_000),
        ("PT", None), ("P", None), ("PT-1H", None), ("1H", None), ("PT1H2", None), ("P1DT", None), ("PT1.0000000001S", None),
    ],
)  # fmt: skip
def test_durations(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms
    assert offset_reset(f"by_duration:{text}") == (None if ms is None else OffsetReset("by_duration", ms))


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        (
            "group.consumer.session.timeout.ms",
            "1000",
            "than or equal to group.consumer.min.session.timeout.ms",
        ),
        ("group.share.max.heartbeat.interval.ms", "1", "must be greater than or equal to group.share.min.heartbeat"),
        ("group.streams.num.standby.replicas", "9", "must be less than or equal to group.streams.max.standby.replicas"),
        ("group.share.delivery.count.limit", "11", "a number from 2 to 10"),
    ],
)
def test_a_node_outside_its_own_bounds_does_not_start(name: str, text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        node_config({"process.roles": "broker", "node.id": "1", "controller.connect": "1@localhost:1", name: text})
