"""The audit: periods of partitions, time under-replicated, brokers that flap."""

import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.replay import audit
from tests.unit.replay import metadata_logs

pytestmark = pytest.mark.long

A, B = bytes([1] * 16), bytes([2] * 16)


def broker(number: int, epoch: int) -> BrokerSet:
    return BrokerSet(number, epoch, bytes([number, epoch] * 8), (EndPoint("P", "h", number),))


def history() -> list[Op]:
    """One op a second, from second 1 on."""
    return [
        FeatureSet("metadata.format", 2),
        broker(1, 2),
        broker(2, 3),
        broker(3, 4),
        TopicSet("a", A),
        PartitionsSet(A, range(2), [[1, 2, 3]] * 2, [[1, 2, 3]] * 2),  # 6
        PartitionsChanged.one(A, 0, [1, 3], 1, 1, 1),  # 7
        BrokerGone(2, 3),  # 8: leaves the ISR of a-1
        broker(2, 9),  # 9
        PartitionsChanged.one(A, 0, [3], 3, 2, 2),  # 10
        PartitionsChanged.one(A, 0, [1, 2, 3], 3, 3, 3),  # 11
        BrokerGone(2, 9),  # 12
        broker(2, 13),
        TopicSet("b", B),  # 14
        PartitionsSet(B, range(1), [[1]], [[1]]),
        BrokerGone(2, 13),  # 16
        TopicGone(B, "b"),  # 17
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return metadata_logs.write(tmp_path, metadata_logs.batches(history(), 1))


def test_the_audit_of_a_log(session: Any, path: Path) -> None:
    found = audit.audit(session, path)
    assert "<td>brokers</td><td>broker, " in found._repr_html_()
    rows = [row.asDict() for row in found.partitions.orderBy("topic", "partition").collect()]
    first, second = rows[0], rows[1]
    assert (first["topic"], first["partition"], first["leader"]) == ("a", 0, 3)
    assert first["leader_changes"] == 1
    # short from 7 to 11, and again from 12, when broker 2 is gone, to 17
    assert first["under_replicated_s"] == pytest.approx(4 + 5) and first["under_replicated"]
    assert second["under_replicated_s"] == pytest.approx(17 - 8) and second["leader_changes"] == 0
    brokers = {row["broker"]: row.asDict() for row in found.brokers.collect()}
    assert (brokers[2]["times_gone"], brokers[2]["flapping"]) == (3, True)
    assert not brokers[1]["flapping"] and brokers[1]["isrs_left"] == 1
    assert {row["flapping"] for row in audit.audit(session, path, window_s=2).brokers.collect()} == {False}
    periods = found.history.where("topic = 'a' and partition = 0").orderBy("offset").collect()
    assert [sorted(row["isr"]) for row in periods] == [[1, 2, 3], [1, 3], [3], [1, 2, 3], [1, 3]]
    assert all(one["until"] == next_["since"] for one, next_ in pairwise(periods))


def test_the_audit_up_to_an_offset(session: Any, path: Path) -> None:
    rows = audit.audit(session, path, until=10).partitions.orderBy("partition").collect()
    assert [(row["topic"], row["isr"], row["under_replicated"]) for row in rows] == [("a", [1, 3], True)] * 2


def test_the_audit_of_topics_that_went(session: Any, tmp_path: Path) -> None:
    ops = [
        FeatureSet("metadata.format", 2),
        *(broker(number, 1 + number) for number in (1, 2, 3)),
        TopicSet("a", A),
        PartitionsSet(A, range(2), [[1, 2, 3]] * 2, [[1, 2, 3]] * 2),  # 6
        PartitionsChanged.many([A], [0], [[1, 3]], [1], [1], [1]),  # 7: the ISR only
        PartitionsChanged.many([A], [1], [[1, 2, 3]], [2], [1], [1]),  # 8: the leader only
        TopicGone(A, "a"),  # 9
        FeatureSet("other", 1),  # 10
    ]
    found = audit.audit(session, metadata_logs.write(tmp_path, metadata_logs.batches(ops, 1)))
    rows = [row.asDict() for row in found.partitions.orderBy("partition").collect()]
    assert [(row["leaderless_s"], row["leader_changes"], row["isr_changes"]) for row in rows] == [(0, 0, 1), (0, 1, 0)]
    assert [row["under_replicated_s"] for row in rows] == [pytest.approx(9 - 7), 0]


def event(offset: int, kind: str, old: Any, new: Any, partition: int | None = 0) -> dict[str, Any]:
    lists = isinstance(old, list) or isinstance(new, list)
    time = datetime.datetime.fromtimestamp(min(offset, 100), datetime.UTC)
    texts, ids = ((None, None), (old, new)) if lists else ((old, new), (None, None))
    return dict(
        offset=offset, timestamp=time, kind=kind, topic="t", partition=partition,
        old=texts[0], new=texts[1], old_ids=ids[0], new_ids=ids[1],
    )  # fmt: skip


def periods(*events: dict[str, Any]) -> list[tuple[Any, ...]]:
    times = tuple(datetime.datetime.fromtimestamp(second, datetime.UTC) for second in (0, 100))
    found = audit.periods(pa.Table.from_pylist(list(events)), times).to_pylist()  # type: ignore[arg-type]
    names = ("leader", "isr", "replicas")
    return sorted(
        (r["partition"], r["since"].timestamp(), r["until"].timestamp(), *(r[n] for n in names)) for r in found
    )


def test_what_was_before_the_first_change_is_what_it_says() -> None:
    last = {**event(audit.END, "end", None, None), "new": "2", "new_ids": [2], "old_ids": [1, 2], "timestamp": None}
    assert periods(
        event(5, "topic", None, "id", None), event(20, "isr", [1, 2], [2]), event(20, "leader", "1", "2"), last
    ) == [(0, 5.0, 20.0, 1, [1, 2], [1, 2]), (0, 20.0, 100.0, 2, [2], [1, 2])]
    assert periods(last) == [(0, 0.0, 100.0, 2, [2], [1, 2])]


def test_a_topic_that_went_and_came_again_under_its_name() -> None:
    last = {**event(audit.END, "end", None, None), "new": "7", "new_ids": [7], "old_ids": [7], "timestamp": None}
    assert periods(
        event(30, "topic", "id", None, None), event(10, "isr", [1, 2], [1]), event(50, "topic", None, "id", None), last
    ) == [
        (0, 0.0, 10.0, None, [1, 2], [1, 2]),
        (0, 10.0, 30.0, None, [1], [1, 2]),
        (0, 50.0, 100.0, 7, [7], [7]),
    ]
