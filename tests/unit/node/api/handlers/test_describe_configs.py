"""What DescribeConfigs shows: settings of a single listener, and where a value comes from."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.metadata.image import Image
from actors.metadata.ops import ConfigSet
from actors.node.api.handlers.describe_configs import BROKER, Node, _broker_key, _config, _rows
from actors.settings.keys import ConfigType
from actors.settings.node_config import node_config
from actors.settings.nodes import BROKER_CONFIGS
from actors.wire.messages import message

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka-4.3.1" / "dynamic_settings.json"
OTHERWISE = {"max.connections.per.ip.overrides", "sasl.enabled.mechanisms", "sasl.mechanism.inter.broker.protocol"}
TOPIC = 2


@pytest.mark.parametrize("name", ["ssl.truststore.type", "ssl.keystore.location", "sasl.enabled.mechanisms"])
def test_a_setting_of_one_listener_is_what_it_is_of_all(name: str) -> None:
    key = _broker_key(f"listener.name.internal.{name}")
    assert (key.name, key.type) == (f"listener.name.internal.{name}", BROKER_CONFIGS[name].type)
    assert not key.sensitive and key.type is not ConfigType.PASSWORD
    assert key.default is None and key.dynamic, "it is not set unless somebody sets it, and that was at run time"


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.internal.ssl.keystore.password",
        "listener.name.internal.sasl.jaas.config",
        "listener.name.internal.plain.sasl.jaas.config",
        "listener.name.internal.my.secret",
        "listener.name.internal",
        "my.secret",
    ],
)
def test_what_is_or_may_be_a_secret_stays_one(name: str) -> None:
    key = _broker_key(name)
    assert key.name == name and (key.sensitive or key.type is ConfigType.PASSWORD)


def node(*sets: ConfigSet, **given: str) -> Node:
    """Broker 1 of a cluster with the topic t and these settings."""
    image = Image()
    for offset, op in enumerate(sets):
        image.replay(offset, op)
    own = {"process.roles": "broker", "broker.id": "1", "controller.connect": "1001@h:1", "log.dirs": "/x"}
    config = node_config(own | {name.replace("_", "."): value for name, value in given.items()})
    shown = SimpleNamespace(config=image.config, topic=lambda name: 0)
    return Node(1, config, shown, None)  # type: ignore[arg-type]


def described(node: Node, kind: int, name: str, key: str) -> list[Any]:
    """As the golden file has it."""
    resource = SimpleNamespace(resource_type=kind, resource_name=name)
    error, rows = _rows(node, resource, {key})
    assert error is None
    [(found, shown)] = [row for row in rows if row is not None]
    request = SimpleNamespace(include_synonyms=True, include_documentation=False)
    one = _config(message("DescribeConfigsResponse"), found, shown, request, kind)
    synonyms = [[same.name, same.value, same.source] for same in one.synonyms]
    return [one.value, one.read_only, one.config_source, one.is_sensitive, one.config_type, synonyms]


def test_what_is_set_is_described_as_by_apache_kafka() -> None:
    """Every setting that a broker takes, with the places where it has a value, and what of a topic changes with it."""
    seen = 0
    for name, theirs in json.loads(GOLDEN.read_text()).items():
        if name == "names" or ": " in name or name in OTHERWISE:
            continue
        for title, broker in (("broker", "1"), ("all brokers", "")):
            if "described" not in theirs[title]:
                continue
            asked = node(ConfigSet(BROKER, broker, name, theirs["value"]))
            assert described(asked, BROKER, "1", name) == theirs[title]["described"], (name, title)
            for key, entry in theirs[title].get("topic", {}).items():
                assert described(asked, TOPIC, "t", key) == entry, (name, title, key)
                seen += 1
    assert seen > 40


def test_a_value_stands_in_the_unit_of_its_own_setting() -> None:
    """log.retention.hours was shown with 604800000."""
    assert described(node(), TOPIC, "t", "retention.ms") == ["604800000", False, 5, False, 5, []]
    hours = node(log_retention_hours="2")
    assert described(hours, TOPIC, "t", "retention.ms") == ["7200000", False, 5, False, 5, []]
    assert described(hours, BROKER, "1", "log.retention.hours")[5][0] == ["log.retention.hours", "2", 4]
    both = node(ConfigSet(BROKER, "", "log.retention.ms", "5"), log_retention_hours="2")
    assert described(both, TOPIC, "t", "retention.ms") == [
        "5", False, 3, False, 5,
        [["log.retention.ms", "5", 3], ["log.retention.hours", "2", 4], ["log.retention.hours", "168", 5]],
    ]  # fmt: skip
    own = node(ConfigSet(TOPIC, "t", "retention.ms", "0"), ConfigSet(BROKER, "1", "log.retention.ms", "5"))
    assert described(own, TOPIC, "t", "retention.ms")[:3] == ["0", False, 1]
    assert [one[1] for one in described(own, TOPIC, "t", "retention.ms")[5]] == ["0", "5", "168"]
