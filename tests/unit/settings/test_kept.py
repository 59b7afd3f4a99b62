"""Settings that are kept for tools: none is a node's own, and each default is one that could be written."""

from actors.settings import kept
from actors.settings.kept import AT_START, KEPT, ONE_BROKER
from actors.settings.keys import CLUSTER, PASSWORD
from actors.settings.nodes import BROKER_CONFIGS


def test_no_setting_of_a_node_is_only_kept() -> None:
    """It would be shown, and have no effect."""
    assert not KEPT.keys() & BROKER_CONFIGS.keys()
    assert BROKER_CONFIGS.keys() >= kept.OF_ONE_BROKER


def test_each_default_is_a_value_of_its_type() -> None:
    for name, row in KEPT.items():
        assert name == row.name and not row.effect and row.dynamic in (CLUSTER, ONE_BROKER, AT_START)
        assert row.sensitive == (row.type is PASSWORD)
        assert row.default is None or row.parse(str(row.text(row.default))) == row.default, name


def test_what_a_node_has_may_be_changed_for_one_broker_only() -> None:
    assert kept.scope("ssl.client.auth", AT_START) == ONE_BROKER
    assert kept.scope("log.retention.ms", CLUSTER) == CLUSTER and kept.scope("broker.id", AT_START) == AT_START
