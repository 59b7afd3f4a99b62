"""The names that published dashboards, alert rules and Apache Kafka's documentation use, against those that nodes show."""

from tests.metrics_page import NAMES, PAGE, made, series


def test_strimzis_dashboards_and_rules_find_their_names() -> None:
    """All but jvm_*. The share must not fall."""
    missing = [name for name in NAMES["strimzi"] if name not in series()]
    assert not missing and len(NAMES["strimzi"]) == 38


def test_the_documented_mbeans_are_there_or_have_a_reason() -> None:
    documented = NAMES["documented"]
    shown = [found.removeprefix("=") for found in documented.values() if found.startswith("=")]
    assert not [name for name in shown if name not in series()]
    assert all(len(found) > 20 for found in documented.values() if not found.startswith("="))
    without_tiers = [mbean for mbean, found in documented.items() if "tiered storage" not in found]
    assert len(without_tiers) == 121 and len(shown) >= 100


def test_the_page_lists_what_nodes_show() -> None:
    assert made(PAGE.read_text()) == PAGE.read_text(), "python -m tests.metrics_page writes it anew"
