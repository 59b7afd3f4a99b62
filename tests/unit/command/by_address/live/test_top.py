"""How a look at a cluster is laid out, and what is left out of it."""

import argparse
import io
import sys
from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.metadata import Broker, Partition, Topic
from actors.client.operations.cluster import Cluster
from actors.client.operations.group_offsets.positions import Position
from actors.client.operations.groups import Listed
from actors.client.operations.offsets import Found
from actors.command import top as options
from actors.command.by_address import health
from actors.command.by_address.health import SeenCluster
from actors.command.by_address.live import top
from actors.command.by_address.live.rates import GroupRate, TopicRate
from actors.command.output import full_screen
from actors.why.explanations import Explanation

FAULT = Explanation("broker", "broker 2 is away\x1b[31m", -1, "", "start broker 2")


def look(topics: int, groups: int, *faults: Explanation) -> top.Look:
    one = top.Look()
    one.health = SeenCluster(list(faults), "well: 2 brokers")
    one.topics = [TopicRate(f"t{n:03}", 1, n, (None, float(n))) for n in range(topics)]
    one.groups = [GroupRate(f"g{n:03}", n if n % 2 else None, (None,), (n,)) for n in range(groups)]
    return one


def lines(one: top.Look, height: int, sort: str = "rate") -> list[str]:
    return top._lines(one, *top._sorted(one, sort), height)


@pytest.mark.parametrize("height", [0, 4, 5, 8, 10, 24, 50, 200])
def test_a_look_fits_the_screen_and_says_what_does_not(height: int) -> None:
    for topics, groups in ((0, 0), (3, 0), (0, 3), (1, 1), (100, 1), (1, 100), (100, 100)):
        for faults in ((), (FAULT,), (FAULT,) * 9):
            one = look(topics, groups, *faults)
            shown = lines(one, height)
            room = (height if height else 1000) + (0 if height > 14 or not height else 20)
            assert len(shown) <= room
            assert sum(line.startswith("and ") for line in shown) <= 2
            if height in (0, 200):
                expected = {min(topics, (height and 1000) or 20), topics}
                found = sum(line.startswith("t") for line in shown) - 1
                assert found <= max(expected) and (found > 0) == (topics > 0)


def test_what_moves_most_comes_first_or_what_is_first_by_name() -> None:
    shown = lines(look(3, 4), 24)
    assert [line.split()[0] for line in shown[2:6]] == ["topic", "t002", "t001", "t000"]
    assert [line.split()[:2] for line in shown if line.startswith("g0")] == [
        ["g003", "3"], ["g001", "1"], ["g000", "-"], ["g002", "-"]
    ]  # fmt: skip
    shown = lines(look(3, 0), 24, "name")
    assert [line.split()[0] for line in shown if line.startswith("t0")] == ["t000", "t001", "t002"]


def test_faults_are_told_with_what_helps_and_nothing_that_a_terminal_obeys() -> None:
    shown = lines(look(1, 0, FAULT), 24)
    assert shown[0].endswith("not well: 1 fault") and shown[1] == "  broker 2 is away\\x1b[31m: start broker 2"
    assert lines(look(1, 0), 24)[0].endswith("well: 2 brokers")


def test_topics_that_are_too_many_are_left_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "PARTITIONS_MAX", 5)
    part = Partition(0, 1, 0, (1,), (1,), ())
    topics = {name: Topic(name, bytes(16), False, dict.fromkeys(range(n), part), 0) for name, n in
              {"c": 3, "a": 2, "b": 4, "d": 1}.items()}  # fmt: skip
    assert top._chosen(topics) == ({"a": 2, "c": 3}, 2)
    assert top._chosen({}) == ({}, 0)


def test_the_lag_of_a_group_is_the_sum_of_all_partitions_or_not_known() -> None:
    """A sum of those that answer would fall where the lag grows: when a leader is away."""
    ends: dict[Any, Any] = {("t", 0): Found(10, -1, -1), ("t", 1): ValueError()}
    held = {("t", 0): Position(4, None), ("t", 1): Position(4, None), ("t", 2): Position(4, 5)}
    assert top._lag(held, ends) is None
    assert top._lag(held, {**ends, ("t", 1): Found(7, -1, -1)}) == 14
    assert top._lag({("t", 1): Position(4, None)}, ends) is None and top._lag({}, ends) is None
    assert top._lag({("t", 0): Position(10, None)}, ends) == 0


class Silent:
    """A cluster of which the groups do not tell where they read on, in place of a connection."""

    def run(self, steps: Any, timeout_s: float) -> Any:
        kind = steps.__name__
        steps.close()
        return ({"g": Listed("g", "consumer", "Stable", "consumer", 1)}, {}) if kind == "list_groups" else ENDS

    def start(self, steps: Any, timeout_s: float) -> None:
        steps.close()

    def wait(self, task: None) -> Any:
        raise ClientError("the coordinator is away")


PART = Partition(0, 1, 0, (1,), (1,), ())
ENDS = {("t", 0): Found(10, -1, -1)}


def test_what_does_not_answer_is_told_and_shown_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {"t": Topic("t", bytes(16), False, {0: PART}, 0)}
    seen = [SeenCluster([], "well: 1 broker", (), topics), SeenCluster([FAULT], "")]
    monkeypatch.setattr(health, "look_again", lambda kafka, most: seen.pop(0))
    one, kafka = top.Look(), Silent()
    chosen = argparse.Namespace(topic=None, group=None)
    one.again(kafka, chosen)  # type: ignore[arg-type]
    assert one.unseen == ["1 of 1 groups did not tell where they read on"]
    assert [(group.name, group.lag) for group in one.groups] == [("g", None)]
    one.again(kafka, chosen)  # type: ignore[arg-type]
    assert one.unseen == ["topics and groups are those of the look before"]
    assert [topic.name for topic in one.topics] == ["t"] and [group.name for group in one.groups] == ["g"]


def test_partitions_that_are_too_many_are_not_asked_for_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be asked for two offsets each, again and again."""
    topics = {"t": Topic("t", bytes(16), False, dict.fromkeys(range(5), PART), 0)}
    answers = {"describe_cluster": Cluster("id", 1, {1: Broker(1, "h", 1)}), "describe": topics}
    asked = []

    class Answering:
        def run(self, steps: Any, timeout_s: float) -> Any:
            asked.append(steps.__name__)
            steps.close()
            return answers.get(steps.__name__)

    for most, count in ((4, 0), (5, 1)):
        asked.clear()
        seen = health.look_again(Answering(), most)  # type: ignore[arg-type]
        assert asked.count("open_transactions") == count
        told = "transactions are not looked at: 5 partitions are more than 4"
        assert seen.unseen == (() if count else (told,))


def test_wrong_words() -> None:
    for text in ("0", "-1", "nan", "inf", "x", "", "3601"):
        with pytest.raises(argparse.ArgumentTypeError, match="write seconds"):
            options.seconds(text)
    for text in ("0", "-1", "x", "", "1.5", "²", "2147483648"):
        with pytest.raises(argparse.ArgumentTypeError, match="write how many"):
            options.looks(text)
    assert options.seconds("0.2") == 0.2 and options.looks("1") == 1


def test_a_terminal_is_given_back_whatever_the_end_is(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(full_screen, "height", lambda: 2)
    with pytest.raises(KeyboardInterrupt), full_screen.full_screen():
        full_screen.draw(["a", "b", "c"])
        raise KeyboardInterrupt
    assert out.getvalue() == (full_screen.ENTER + "\x1b[Ha\x1b[K\nb\x1b[K\x1b[J" + full_screen.LEAVE), (
        "a third line would move the screen"
    )
