"""The sentences: what stands in them, and what is left out where nothing is known."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from actors.why.explanations import KINDS, NOTICES, explain
from actors.why.facts import (
    NO_TIMEOUT_MS,
    ClusterFacts,
    GroupFacts,
    LogDirFacts,
    QuorumFacts,
    TransactionFacts,
    Trouble,
    TroubledPartition,
    VoterFacts,
)
from actors.why.phrases import apart, clock, span

NOW = 1_795_251_600_000
"""2026-11-21, 09:00:00 UTC."""
WELL = ClusterFacts(NOW, {1: "active", 2: "active", 3: "active"}, {})


def sentences(**facts: Any) -> list[str]:
    return [one.sentence for one in explain(WELL._replace(**facts))]


def lacking(*names: int) -> Trouble:
    return Trouble(len(names), tuple(TroubledPartition("orders", n, (1, 2), (1,), 1) for n in names[:3]))


def test_a_cluster_without_faults_has_no_explanation() -> None:
    assert explain(WELL) == []
    quorum = QuorumFacts(1001, 3, (VoterFacts(1001, 0, 0), VoterFacts(1002, 5, 9_999), VoterFacts(1003, 0, -1)))
    assert explain(WELL._replace(quorum=quorum)) == []


def test_the_quorum() -> None:
    assert sentences(quorum=QuorumFacts(-1, 3)) == ["no controller leads"]
    voters = (VoterFacts(1001), VoterFacts(1002), VoterFacts(1003))
    (one,) = explain(WELL._replace(quorum=QuorumFacts(-1, 3, voters, (1002, 1003))))
    assert one.sentence == "no controller leads: controllers 1002, 1003 are not running"
    assert one.command == "start controllers until 2 of 3 run" and one.is_fault
    voters = (VoterFacts(1001, 0, 0), VoterFacts(1002, 1_234, 35_000), VoterFacts(1003, 7, -1), VoterFacts(1004))
    found = explain(WELL._replace(quorum=QuorumFacts(1001, 3, voters, (1004,))))
    assert [one.sentence for one in found] == [
        "controller 1002 does not follow the leader for 35 s, it is 1,234 records behind",
        "controller 1003 does not follow the leader",
        "controller 1004 is not running",
    ]
    assert [(one.kind, one.broker, one.since_ms) for one in found][:1] == [("voter", 1002, NOW - 35_000)]


def test_without_a_past_no_time_and_no_cause_is_told() -> None:
    found = explain(
        WELL._replace(brokers={1: "active", 2: "fenced", 4: "away"}, replicas={2: 1}, lacking={2: lacking(3)})
    )
    assert [(one.sentence, one.since_ms, one.cause) for one in found] == [
        ("broker 2 is fenced and has replicas of 1 partition", -1, ""),
    ], "a broker that is away and has nothing is nobody's; what the fenced one lacks is said with it"
    (one,) = explain(WELL._replace(lacking={2: lacking(3)}))
    assert (one.sentence, one.since_ms) == ("orders-3: replica 2 is not in the ISR", -1)


def test_many_partitions_get_one_sentence() -> None:
    assert len(sentences(lacking={2: lacking(1, 2, 3)})) == 3
    assert sentences(lacking={2: lacking(1, 2, 3, 4), 3: lacking(7)}) == [
        "4 partitions lack replica 2 in their ISR (orders-1, orders-2, orders-3 and 1 more): that of orders-1 is not in the "
        "ISR",
        "orders-7: replica 3 is not in the ISR",
    ]
    many = Trouble(1_204, lacking(1, 2, 3).examples)
    assert sentences(leaderless=many) == [
        "1,204 partitions have no leader (orders-1, orders-2, orders-3 and 1,201 more)"
    ]
    assert sentences(led_elsewhere={2: many}) == [
        "1,204 partitions are led by others (orders-1, orders-2, orders-3 and 1,201 more), though broker 2 is the preferred "
        "leader and in sync"
    ]


def test_what_only_a_cluster_can_answer() -> None:
    found = explain(
        WELL._replace(
            log_dirs=(LogDirFacts(2, "/d/one", "KAFKA_STORAGE_ERROR"),),
            transactions=(
                TransactionFacts("pay", 7, NOW - 3_600_000, 60_000, ("orders-1",)),
                TransactionFacts("", 9, NOW - 130_000, -1, ()),
                TransactionFacts("two", 11, NOW - 7_200_000, NO_TIMEOUT_MS, ("orders-2", "orders-3")),
            ),
            groups=(GroupFacts("g", 0, 1_203, ("orders-1",)), GroupFacts("h", 2, 5, (), 600_000)),
        )
    )
    assert [(one.kind, one.sentence, one.cause) for one in found] == [
        ("disk", "log directory /d/one of broker 2 is offline", "KAFKA_STORAGE_ERROR"),
        (
            "transaction",
            "the transaction of transactional id pay is open since 08:00:00, for 60 min, longer than its timeout of 60 s",
            "readers of committed records wait at it in orders-1",
        ),
        ("transaction", "the transaction of producer 9 is open since 08:57:50, for 2 min", ""),
        (
            "prepared",
            "the transaction of transactional id two takes part in a two-phase commit and is open since 07:00:00, for 2 h: "
            "it has no timeout, and waits for the decision",
            "readers of committed records wait at it in orders-2, orders-3",
        ),
        ("group", "group g is 1,203 records behind (orders-1)", "it has no members"),
        ("group", "group h is 5 records behind and has committed nothing for 10 min", "its 2 members commit nothing"),
    ]


def test_settings_that_differ_are_a_notice() -> None:
    values = {1: {"a": "1", "b": "x"}, 2: {"a": "1", "b": "y"}, 3: {"a": "1", "b": None}}
    (one,) = explain(WELL._replace(settings=values))
    assert one.sentence == "b differs between brokers: x on 1; y on 2; not set on 3" and not one.is_fault
    many = {n: {"a": str(n)} for n in range(1, 8)}
    assert sentences(settings=many)[0].endswith("1 on 1; 2 on 2; 3 on 3; 4 more values")


def test_the_gravest_comes_first() -> None:
    found = explain(
        WELL._replace(
            settings={1: {"a": "1"}, 2: {"a": "2"}}, quorum=QuorumFacts(-1, 1), leaderless=lacking(1),
            brokers={1: "leaving"}, groups=(GroupFacts("g", 0, 1, ()),),
        )
    )  # fmt: skip
    kinds = [one.kind for one in found]
    assert kinds == sorted(kinds, key=KINDS.index) == ["no quorum", "broker", "offline", "group", "settings"]
    assert [one.kind for one in found if not one.is_fault] == ["group", "settings"] and set(NOTICES) < set(KINDS)


@pytest.mark.parametrize(
    ("length_ms", "words"),
    [(500, "0.5 s"), (9_960, "10.0 s"), (35_000, "35 s"), (150_000, "2 min"), (7_200_000, "2 h"), (259_200_000, "3 days")],
)  # fmt: skip
def test_spans(length_ms: int, words: str) -> None:
    assert span(length_ms) == words


def test_times_have_a_date_on_another_day_only_and_never_fail() -> None:
    assert clock(NOW - 60_000, NOW) == "08:59:00" and clock(NOW - 86_400_000, NOW) == "2026-11-20 09:00:00"
    assert clock(1 << 62, NOW).startswith("9999-") and clock(-5, NOW) == "1970-01-01 00:00:00"
    assert (apart(1_000, 1_049), apart(1_500, 1_000), apart(1_000, 3_000)) == ("as", "0.5 s after", "2.0 s before")


def test_the_page_for_operators_lists_each_kind() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    table = page.partition("\n## What is wrong now\n")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)) == (
        "no quorum", "voter", "broker", "flapping", "disk", "offline", "under-replicated", "transaction", "prepared",
        "group", "preferred", "settings",
    ) == KINDS  # fmt: skip


def test_a_name_in_a_command_is_one_word_of_a_shell_whatever_it_is() -> None:
    name = "a b; touch /tmp/x $(id) 'c'"
    prepared = TransactionFacts(name, 7, 1_000, NO_TIMEOUT_MS, ("t-0",))
    for facts in (
        ClusterFacts(2_000, {}, {}, groups=(GroupFacts(name, 1, 5, ("t-0",), 600_000),)),
        ClusterFacts(2_000, {}, {}, transactions=(prepared,)),
    ):
        (found,) = explain(facts)
        words = shlex.split(found.command.replace("consumers' logs", "logs"))
        assert name in [one.removesuffix(";") for one in words], found.command
