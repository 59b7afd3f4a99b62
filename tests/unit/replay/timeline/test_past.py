"""What a history says of the time before a moment: brokers, settings and partitions, however far apart its pins are."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import replay
from actors.replay.columns.moment import Moment
from actors.replay.columns.tables import uuid
from actors.replay.timeline import past
from actors.replay.timeline.past import HistoryPast
from actors.why.facts import TroubledPartition
from tests.unit.replay import metadata_logs
from tests.unit.replay.metadata_logs import Record
from tests.unit.replay.timeline.test_history import PHASES, written
from tests.unit.replay.timeline.test_why import BEGUN, TOPIC, broker, change, history, partition, registered


def asked(found: replay.History, moment: int | None = None) -> HistoryPast:
    return HistoryPast(found, found.at(moment))


def test_a_broker_counts_as_fenced_once_for_each_time_that_it_was_active(tmp_path: Path) -> None:
    steps = [
        (5_000, [broker(2, fenced=1)]), (6_000, [broker(2, fenced=-1)]), (7_000, [broker(2, fenced=1)]),
        (8_000, [registered(2, epoch=20)]), (9_000, [registered(2, epoch=21)]), (9_500, [broker(3, fenced=1)]),
    ]  # fmt: skip
    with history(tmp_path, *steps) as found:
        past_ = asked(found)
        assert [past_.fencings(2, since) for since in (0, 5_000, 5_001, 7_001)] == [2, 2, 1, 0]
        assert past_.fencings(3, 0) == 1 and past_.fencings(1, 0) == past_.fencings(9, 0) == 0
        assert asked(found, len(BEGUN) + 1).fencings(2, 0) == 1, "what comes later is not known"


def test_what_took_a_broker_away_is_looked_for_around_a_time(tmp_path: Path) -> None:
    far = 10 * past.NEAR_MS
    steps = [
        (far, [broker(2, in_controlled_shutdown=1)]),
        (far + 100, [broker(2, fenced=1)]),
        (2 * far, [registered(2, epoch=20)]),
    ]
    with history(tmp_path, *steps) as found:
        past_ = asked(found)
        near = [past_.near(2, at) for at in (far - past.NEAR_MS - 1, far - past.NEAR_MS, far, far + 90, 2 * far)]
        assert [one and (one.time_ms, one.how) for one in near] == [
            None, (far, "shut down"), (far, "shut down"), (far + 100, "shut down"), None,
        ]  # fmt: skip
        assert past_.near(3, far) is None


def test_the_last_change_of_a_setting_before_the_moment_counts(tmp_path: Path) -> None:
    given = {"resource_type": 4, "value": "1"}
    steps: list[tuple[int, list[Record]]] = [
        (5_000, [(4, 0, "ConfigRecord", {**given, "resource_name": "2", "name": "x"})]),
        (6_000, [(4, 0, "ConfigRecord", {**given, "resource_name": "2", "name": "x", "value": "2"})]),
        (7_000, [(4, 0, "ConfigRecord", {**given, "resource_name": "2", "name": "y"})]),
        (8_000, [(4, 0, "ConfigRecord", {**given, "resource_name": "22", "name": "x"})]),
    ]
    with history(tmp_path, *steps) as found:
        now, then = asked(found), asked(found, len(BEGUN) + 1)
        for past_, wanted in ((now, 6_000), (then, 5_000)):
            event = past_.set(2, "x")
            assert event is not None and (event.time_ms, event.how) == (wanted, "set")
        assert now.set(1, "x") is None


def test_a_partition_lost_its_leader_and_another_one_took_over(tmp_path: Path) -> None:
    part = TroubledPartition("orders", 0, (), (), -1)
    steps = [(5_000, [change(0, leader=-1)]), (6_000, [change(0, isr=[1, 2])]), (7_000, [change(0, leader=2)])]
    with history(tmp_path, *steps) as found:
        lost, moved = asked(found, len(BEGUN) + 2).lost(part), asked(found).moved(part)
        assert lost is not None and (lost.time_ms, lost.how) == (5_000, "lost")
        assert moved is not None and (moved.time_ms, moved.how, moved.offset) == (7_000, "moved", len(BEGUN) + 2)
        other = asked(found).moved(part._replace(number=1))
        assert other is not None and other.how == "made"
        assert asked(found).lost(part._replace(number=99)) is None


def test_a_topic_in_the_row_of_one_that_was_deleted_has_its_own_past(tmp_path: Path) -> None:
    """No moment is kept between the two, and their partitions have the same epoch."""
    again, end = bytes(reversed(TOPIC)), len(BEGUN)
    made: list[Record] = [
        (2, 0, "TopicRecord", {"name": "bills", "topic_id": again}),
        partition(1, [1, 2], [1], again),
    ]
    with history(tmp_path, step=end) as found:
        gone = metadata_logs.released([(9, 0, "RemoveTopicRecord", {"topic_id": TOPIC})], end, 6_500)
        found.append(bytes(gone.data))
        found.append(bytes(metadata_logs.released(made, end + 1, 7_000).data))
        assert [one.offset for one in found.pins] == [0, end, end + 3]
        (one,) = replay.why(found)
        assert one.sentence == "bills-1: replica 2 has not been in the ISR since the partition was made at 00:00:07"


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_the_past_is_the_same_however_far_apart_pins_are(tmp_path: Path, step: int) -> None:
    """Replica 2 flaps, with other changes between; each time is found at its own offset."""
    steps = []
    for round_ in range(12):
        steps.append((10_000 + 1_000 * round_, [change(0, isr=[1, 3]), change(1, isr=[1, 2])]))
        steps.append((10_500 + 1_000 * round_, [change(0, isr=[1, 2, 3]), change(1, isr=[1])]))
    steps.append((30_000, [change(0, isr=[1, 3])]))
    with history(tmp_path, *steps, step=step) as found:
        lives = replay.why_partition(found, "orders", 0)
        assert [one.since_ms for one in lives] == [30_000, *(10_000 + 1_000 * n for n in reversed(range(12)))]
        assert [one.until_ms for one in lives] == [-1, *(10_500 + 1_000 * n for n in reversed(range(12)))]
        end = HistoryPast(found, found.now).left(TroubledPartition("orders", 1, (), (), -1), 2)
        assert end is not None and (end.time_ms, end.how) == (10_500 + 11_000, "left")


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(st.integers(0, 1 << 20), st.sampled_from(["drafts", "released"]), st.sampled_from([1, 9, 10_000]))
def test_the_life_of_a_partition_is_what_the_changes_say(
    tmp_path_factory: pytest.TempPathFactory, seed: int, family: str, step: int
) -> None:
    """Of each partition that is left in a random log: its changes of leader and ISR since its topic was made, by offset."""
    path, _ = written(tmp_path_factory.mktemp("log"), family, seed)
    rows = [row for batch in replay.changes(path, kinds=["leader", "isr", "topic"]) for row in batch.to_pylist()]
    made: dict[str, int] = {}
    for row in rows:
        if row["kind"] == "topic" and row["new"] is not None:
            made[row["topic"]] = row["offset"]
    with replay.History(path, step=step) as found:
        asked = HistoryPast(found, found.now)
        for row in found.table("partitions").to_pylist():
            wanted = [
                (one["offset"], one["kind"], tuple(one["old_ids"]), tuple(one["new_ids"]))
                for one in rows
                if (one["topic"], one["partition"]) == (row["topic"], row["partition"])
                and one["offset"] > made[row["topic"]]
            ]
            *life, begun = asked.life(row["topic"], row["partition"])
            told = [(one.offset, one.kind, one.old, one.new) for one in reversed(life)]
            assert begun.kind == "made" and begun.offset > made[row["topic"]]
            assert not _there(found.at(begun.offset), row)
            assert sorted(told) == sorted(wanted) and [one.offset for one in life] == sorted(
                (one.offset for one in life), reverse=True
            )


def _there(moment: Moment, wanted: dict[str, Any]) -> bool:
    """Whether a moment has a partition, of that very topic."""
    row = moment.partition(wanted["topic"], wanted["partition"])
    return row >= 0 and uuid(moment.columns.topic_id(moment.columns.topic_of(row)) or b"") == wanted["topic_id"]
