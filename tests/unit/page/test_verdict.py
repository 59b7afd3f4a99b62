"""Health in a sentence, and faults with their cause: over logs in which something happened."""

from typing import Any

import pyarrow as pa
import pytest

from actors.client.operations.cluster import Quorum, Replica
from actors.page.metadata.moments import Moment
from actors.page.verdict import Asked, verdict
from actors.replay.columns.history import SCHEMA as CHANGES
from actors.replay.columns.tables import SCHEMAS

NOW = Moment(100, 60_000, True)


class Known:
    """Tables as they are given."""

    def __init__(self, partitions: list[Any], brokers: list[Any], changes: list[Any] = []) -> None:  # noqa: B006
        self._tables = {"partitions": partitions, "brokers": brokers}
        self._changes = changes

    def table(self, name: str, moment: Moment) -> pa.Table:
        return pa.Table.from_pylist(self._tables[name], SCHEMAS[name])

    def changes(self) -> pa.Table:
        return pa.Table.from_pylist(self._changes, CHANGES)


def part(number: int, leader: int | None, isr: list[int], topic: str = "orders") -> dict[str, Any]:
    return {
        "topic": topic, "partition": number, "leader": leader, "replicas": [1, 2, 3], "isr": isr,
        "under_replicated": len(isr) < 3,
    }  # fmt: skip


def broker(number: int, fenced: bool = False, leaving: bool = False) -> dict[str, Any]:
    return {"broker": number, "fenced": fenced, "leaving": leaving, "replicas": 2}


def change(offset: int, time_ms: int, kind: str, **of: Any) -> dict[str, Any]:
    import datetime

    return {
        "offset": offset,
        "timestamp": datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC),
        "kind": kind,
        **of,
    }


WHOLE = [part(0, 1, [1, 2, 3]), part(1, 2, [1, 2, 3])]
BROKERS = [broker(1), broker(2), broker(3)]


def quorum(leader: int, *behind_ms: int) -> Quorum:
    voters = [Replica(at, b"", 100, 50_000, 50_000 - one) for at, one in enumerate((0, *behind_ms), 1)]
    return Quorum(leader, 3, 100, voters, [], {})


def judged(known: Known, asked: Asked | None = None) -> Any:
    return verdict(known, NOW, asked)  # type: ignore[arg-type]


def test_a_cluster_without_faults_is_well() -> None:
    found = judged(Known(WHOLE, BROKERS), Asked(quorum(1, 500, 900), ""))
    assert found.is_well and not found.faults
    assert found.sentence == "Well: controller 1 leads, 3 brokers active, 2 partitions with all replicas in sync."
    assert judged(Known([], [])).sentence == "Well, and empty: no broker has registered yet."


def test_a_missing_replica_is_told_once_with_since_and_cause() -> None:
    known = Known(
        [part(0, 1, [1, 3]), part(1, 1, [1, 3])],
        [broker(1), broker(3)],
        [
            change(
                10, 1_000, "isr", topic="orders", partition=0, old="1,2,3", new="1,3", old_ids=[1, 2, 3], new_ids=[1, 3]
            ),
            change(
                12, 2_000, "isr", topic="orders", partition=0, old="1,3", new="1,2,3", old_ids=[1, 3], new_ids=[1, 2, 3]
            ),
            change(20, 40_000, "fencing", broker=2, old="active", new="fenced"),
            change(
                21,
                40_500,
                "isr",
                topic="orders",
                partition=0,
                old="1,2,3",
                new="1,3",
                old_ids=[1, 2, 3],
                new_ids=[1, 3],
            ),
        ],
    )
    (fault,) = judged(known).faults
    assert fault.sentence == "2 partitions do not have replica 2 in the ISR"
    assert fault.since_ms == 40_500 and fault.cause == "broker 2 was fenced 0.5 s before"
    assert fault.command == "start broker 2" and fault.where == "under_replicated and replicas contains 2"


def test_a_change_after_the_moment_is_no_cause() -> None:
    rows = [change(200, 59_000, "isr", topic="orders", partition=0, old_ids=[1, 2, 3], new_ids=[1, 3], old="", new="")]
    known = Known([part(0, 1, [1, 3])], [broker(1), broker(3)], rows)
    (fault,) = verdict(known, Moment(150, 50_000, False)).faults  # type: ignore[arg-type]
    assert fault.since_ms is None


def test_a_replica_that_is_behind_at_an_active_broker_has_other_help() -> None:
    (fault,) = judged(Known([part(0, 1, [1, 3])], BROKERS)).faults
    assert "read the log of broker 2" in fault.command


def test_partitions_without_a_leader_are_named() -> None:
    faults = judged(Known([part(number, None, [1]) for number in range(5)], BROKERS)).faults
    assert faults[0].sentence == "5 partitions without a leader (orders-0, orders-1, orders-2 and 2 more)"
    assert faults[0].where == "leader is null"


def test_brokers_that_are_fenced_or_leave() -> None:
    found = judged(
        Known(WHOLE, [broker(1), broker(2, fenced=True), broker(3, leaving=True)], [
            change(5, 7_000, "fencing", broker=2, old="active", new="fenced"),
            change(6, 9_000, "shutdown", broker=3, old=None, new="leaving"),
        ])
    )  # fmt: skip
    assert [(one.sentence, one.since_ms) for one in found.faults] == [
        ("broker 2 is fenced and had 2 partitions", 7_000), ("broker 3 is shutting down and had 2 partitions", 9_000),
    ]  # fmt: skip
    assert found.sentence == "Not well: broker 2 is fenced and had 2 partitions. 1 more."


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Asked(quorum(-1, 0, 0), ""), "no controller leads the quorum"),
        (Asked(None, "the quorum does not answer"), "the quorum does not answer"),
        (Asked(quorum(1, 0, 20_000), ""), "controller 3 does not follow the leader"),
    ],
)
def test_a_quorum_that_is_not_whole(asked: Asked, sentence: str) -> None:
    (fault,) = judged(Known(WHOLE, BROKERS), asked).faults
    assert fault.sentence == sentence


def test_names_of_topics_obey_no_terminal() -> None:
    (fault,) = judged(Known([part(0, None, [1, 2, 3], "a\x1b[31m")], BROKERS)).faults
    assert "\x1b" not in fault.sentence
