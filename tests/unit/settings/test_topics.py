"""Settings of a topic: its own, else its node's under one of its names there, else the default."""

from typing import Any

import pytest

from actors.settings.keys import ConfigError
from actors.settings.nodes import BROKER_CONFIGS
from actors.settings.topics import TOPIC_CONFIGS, UNCLEAN, TopicSettings, inherited, topic_settings


def nothing(name: str) -> tuple[bool, Any]:
    return False, None


def of(node: dict[str, Any], **own: str) -> TopicSettings:
    """The settings of a topic on a node that has these."""
    overrides = {name.replace("_", "."): value for name, value in own.items()}
    return topic_settings(overrides, lambda name: (name in node, node.get(name)))


def test_every_synonym_is_a_setting_of_a_node() -> None:
    assert {name for setting in TOPIC_CONFIGS.values() for name in setting.synonyms} <= BROKER_CONFIGS.keys()
    assert all(setting.name == name for name, setting in TOPIC_CONFIGS.items())


def test_the_defaults_are_those_of_kafka() -> None:
    found = of({})
    assert (found.retention_ms, found.segment_ms, found.segment_bytes) == (604_800_000, 604_800_000, 1 << 30)
    assert (found.cleanup_policy, found.compression_type, found.min_insync_replicas) == (("delete",), "producer", 1)
    assert found.max_message_bytes == 1_048_588


def test_a_topics_own_setting_counts_before_its_nodes_and_that_before_the_default() -> None:
    node = {"log.retention.bytes": 77}
    assert of(node).retention_bytes == 77
    assert of(node, retention_bytes="5").retention_bytes == 5
    assert of({}).retention_bytes == -1


@pytest.mark.parametrize(
    ("node", "ms"),
    [
        ({"log.retention.hours": 2}, 7_200_000),
        ({"log.retention.minutes": 3, "log.retention.hours": 2}, 180_000),
        ({"log.retention.ms": 4, "log.retention.minutes": 3, "log.retention.hours": 2}, 4),
        ({"log.retention.hours": -1}, -1),
        ({"log.retention.ms": None, "log.retention.hours": 1}, 3_600_000),
    ],
)
def test_of_several_names_the_first_that_is_given_counts_in_its_own_unit(node: dict[str, Any], ms: int) -> None:
    assert of(node).retention_ms == ms
    assert inherited(TOPIC_CONFIGS["retention.ms"], lambda name: (name in node, node.get(name))) == ms


def test_small_segments_for_tests_take_the_place_of_the_size() -> None:
    assert of({}, internal_segment_bytes="100", segment_bytes="5000000").segment_bytes == 100


def test_a_log_that_is_compacted_is_rolled_in_time_to_be() -> None:
    both = of({}, cleanup_policy="compact,delete", segment_ms="1000", max_compaction_lag_ms="10")
    assert both.compact and both.delete and both.roll_ms == 10
    only = of({}, cleanup_policy="delete", segment_ms="1000", max_compaction_lag_ms="10")
    assert not only.compact and only.roll_ms == 1000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-2"),
        ("cleanup.policy", "shrink"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "1:2,x"),
        ("internal.segment.bytes", "13"),
        ("max.message.bytes", "1_000"),
        ("flush.ms", ""),
    ],
)
def test_what_no_topic_can_have_is_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        topic_settings({name: text}, nothing)


@pytest.mark.parametrize("text", ["*", "", "0:1", "0:1,10:2"])
def test_throttled_replicas_are_pairs_or_all(text: str) -> None:
    found = topic_settings({"leader.replication.throttled.replicas": text}, nothing)
    assert found.leader_replication_throttled_replicas == tuple(filter(None, text.split(",")))


def test_a_replica_reads_every_setting_that_has_an_effect_but_one() -> None:
    fields = {name.replace("_", ".") for name in TopicSettings.__slots__}
    effective = {name for name, setting in TOPIC_CONFIGS.items() if setting.effect}
    assert effective - fields == {UNCLEAN, "internal.segment.bytes"} and fields <= effective
