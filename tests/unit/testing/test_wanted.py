"""Which cluster a test wants."""

from typing import Any

import pytest

from actors.testing.wanted import Mistake, Wanted, of_ini, wanted


def named(**given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), given


def test_the_nearest_marker_counts_and_settings_add_up() -> None:
    base = of_ini("3", "", ["log.retention.ms = 5", "a=b=c"], False)
    assert base == Wanted(3, 1, (("a", "b=c"), ("log.retention.ms", "5")))
    module, test = named(brokers=2, config={"a": 1}), named(config={"a": False, "z": 0}, own=True)
    found = wanted(base, [module, test])
    assert found == Wanted(2, 1, (("a", "false"), ("log.retention.ms", "5"), ("z", "0")), own=True)
    assert wanted(base, []) == base
    assert found.settings["a"] == "false" and found.settings["group.initial.rebalance.delay.ms"] == "0"
    assert (
        wanted(base, [named(config={"group.initial.rebalance.delay.ms": 3})]).settings[
            "group.initial.rebalance.delay.ms"
        ]
        == "3"
    ), "a test's own settings count first"


def test_the_same_wish_is_the_same_cluster() -> None:
    one = wanted(Wanted(), [named(config={"a": 1, "b": 2})])
    assert one == wanted(Wanted(), [named(config={"b": "2", "a": "1"})]) and hash(one) == hash(one)
    assert one != wanted(Wanted(), [named(config={"a": 1})])
    assert Wanted().is_small and not Wanted(2).is_small and not Wanted(1, 3).is_small


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        (((3,), {}), "takes names: write brokers=3"),
        (named(brokers=0), "brokers=0 of rayft: write a number from 1 to 64"),
        (named(brokers=True), "brokers=True"),
        (named(controllers="3"), "controllers='3' of rayft: write a number from 1 to 16"),
        (named(own=1), "own=1 of rayft: write True or False"),
        (named(config=["a=b"]), "write a dict of Kafka's settings"),
        (named(broker=1), "does not know 'broker': there are brokers, controllers, secure, own, config"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said(marker: Any, sentence: str) -> None:
    with pytest.raises(Mistake) as raised:
        wanted(Wanted(), [marker])
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("brokers", "config", "sentence"),
    [("x", [], "rayft_brokers = x"), ("²", [], "write a number"), ("0", [], "from 1 to 64"), ("", ["a"], "write NAME=VALUE"),
     ("", ["=1"], "write NAME=VALUE")],
)  # fmt: skip
def test_what_makes_no_sense_in_the_ini_file_is_said(brokers: str, config: list[str], sentence: str) -> None:
    with pytest.raises(Mistake) as raised:
        of_ini(brokers, "", config, False)
    assert sentence in str(raised.value)
