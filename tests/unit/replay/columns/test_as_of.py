"""The metadata as of an offset or a time, and what changed on the way there."""

import datetime
import os
import random
from pathlib import Path
from typing import Any

import cramjam
import pytest

from actors import replay
from actors.metadata import snapshot
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    TopicGone,
    TopicSet,
)
from actors.replay.checkpoint import compact
from actors.replay.columns import tables
from actors.replay.columns.as_of import replay as replayed
from tests.unit.replay import metadata_logs
from tests.unit.replay.columns.test_record_columns import sealed

ROOT = Path(__file__).parents[4]
MILLION = (
    Path(os.environ.get("RAYFT_KAFKA_DATA", ROOT.parent / "shared" / "data" / "apache-kafka-4.3.1"))
    / "one-million-partitions"
)


def partitions(path: Path, as_of: Any = None) -> dict[tuple[str, int], tuple[Any, ...]]:
    rows = replay.state(path, as_of, ["partitions"])["partitions"].to_pylist()
    return {
        (row["topic"], row["partition"]): (row["leader"], row["isr"], row["leader_epoch"], row["under_replicated"])
        for row in rows
    }


@pytest.mark.parametrize("level", [1, 2])
def test_every_offset_inside_batches_is_the_state_between_single_records(tmp_path: Path, level: int) -> None:
    single = metadata_logs.write(tmp_path / "single", metadata_logs.batches(metadata_logs.ops(level), 1, level))
    bundled = metadata_logs.write(tmp_path / "bundled", metadata_logs.batches(metadata_logs.ops(level), 5, level))
    states = [replay.state(single, end) for end in range(21)]
    assert len({repr(one["partitions"].to_pylist()) for one in states}) > 8
    for end, expected in enumerate(states):
        assert replay.state(bundled, end) == expected, end


def test_as_of_is_an_offset_or_a_time(tmp_path: Path) -> None:
    path = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1))
    assert partitions(path, 10)["orders", 0] == (1, [1, 2, 3], 0, False)
    assert partitions(path)["orders", 0] == (2, [2, 3], 1, True)
    eight = datetime.datetime.fromtimestamp(8, datetime.UTC)
    assert partitions(path, eight) == partitions(path, 14)
    assert partitions(path, eight - datetime.timedelta(milliseconds=1))["orders", 0] == (1, [1, 2, 3], 0, False)
    assert replay.state(path, 0, ["brokers", "topics"])["brokers"].num_rows == 0


def test_the_newest_checkpoint_before_as_of_is_taken_and_the_log_goes_on(tmp_path: Path) -> None:
    found = metadata_logs.batches(metadata_logs.ops(), 1)
    whole = metadata_logs.write(tmp_path / "whole", found)
    expected = {end: replay.state(whole, end) for end in (10, 12, 15, 20)}
    folder = metadata_logs.write(tmp_path / "cut", [one for one in found if one.base_offset >= 10])
    with pytest.raises(replay.NothingToRead, match="begins at offset 10"):
        replay.state(folder)
    for end in (10, 15):
        at = replayed(whole, end)
        parts = snapshot.encode(at.image.pin(), 3, 2, at.quorum.timestamp_ms, None)
        (folder / f"{end:020}-{3:010}.checkpoint").write_bytes(b"".join(bytes(part) for part in parts))
    for end, state in expected.items():
        assert {name: replay.state(folder, end)[name] for name in state if name != "controllers"} == {
            name: table for name, table in state.items() if name != "controllers"
        }, end
    time = datetime.datetime.fromtimestamp(8, datetime.UTC)  # before the second checkpoint's last record
    assert partitions(folder, time) == partitions(whole, time)
    with pytest.raises(replay.NothingToRead):
        replay.state(folder, 8)


def test_a_damaged_checkpoint_is_fatal_or_passed_over(tmp_path: Path) -> None:
    folder = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1))
    expected = partitions(folder)
    bad = folder / f"{15:020}-{3:010}.checkpoint"
    bad.write_bytes(b"\0" * 100)
    with pytest.raises(replay.CorruptLog, match=str(bad)):
        partitions(folder)
    told: list[replay.Damage] = []
    assert replay.state(folder, None, ["partitions"], on_damage=told.append)["partitions"].num_rows == len(expected)
    assert [one.path for one in told] == [str(bad)]


def test_before_the_only_checkpoint_nothing_is_guessed(tmp_path: Path) -> None:
    folder = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1))
    made = compact(folder, 15).write(tmp_path)
    assert partitions(made) == partitions(folder, 15) == partitions(made, 15)
    early = datetime.datetime.fromtimestamp(1, datetime.UTC)
    for when in (14, early):
        with pytest.raises(replay.NothingToRead, match="no checkpoint"):
            partitions(made, when)


def test_a_damaged_checkpoint_is_passed_over_at_a_time_too(tmp_path: Path) -> None:
    folder = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1))
    bad = folder / f"{15:020}-{3:010}.checkpoint"
    bad.write_bytes(b"\0" * 100)
    told: list[replay.Damage] = []
    eight = datetime.datetime.fromtimestamp(8, datetime.UTC)
    state = replay.state(folder, eight, ["partitions"], on_damage=told.append)
    assert state["partitions"] == replay.state(folder, 14, ["partitions"], on_damage=told.append)["partitions"]
    assert [one.path for one in told] == [str(bad)]
    with pytest.raises(replay.CorruptLog, match=str(bad)):
        partitions(folder, eight)


def transactions(tmp_path: Path, edge: tuple[int, int, str, dict[str, object]] | None) -> Path:
    topic = (2, 0, "TopicRecord", {"name": "a", "topic_id": metadata_logs.TOPIC})
    feature = (12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 1})
    found = [
        metadata_logs.released([feature], 0),
        metadata_logs.released([(23, 0, "BeginTransactionRecord", {}), topic], 1, 2000),
        metadata_logs.released([(12, 0, "FeatureLevelRecord", {"name": "f", "feature_level": 2})], 3, 3000),
    ]
    if edge:
        found.append(metadata_logs.released([edge], 4, 4000))
    return metadata_logs.write(tmp_path, found, metadata_logs.RELEASED)


@pytest.mark.parametrize(
    ("edge", "topics", "level"),
    [
        (None, 0, 1),
        ((25, 0, "AbortTransactionRecord", {}), 0, 1),
        ((24, 0, "EndTransactionRecord", {}), 1, 2),
    ],
)
def test_only_what_a_transaction_has_ended_with_is_there(tmp_path: Path, edge: Any, topics: int, level: int) -> None:
    path = transactions(tmp_path, edge)
    state = replay.state(path, None, ["topics", "features"])
    assert state["topics"].num_rows == topics
    assert state["features"].to_pylist() == [{"feature": "f", "level": level}]
    told = [(row["offset"], row["kind"]) for batch in replay.changes(path) for row in batch.to_pylist()]
    assert told == [(0, "feature"), *([(2, "topic"), (3, "feature")] if topics else [])]


def test_a_topic_that_an_aborted_transaction_deleted_gives_its_name_to_no_other(tmp_path: Path) -> None:
    """A topic that was made and deleted in it leaves a free row, which the next topic takes."""
    records: list[metadata_logs.Record] = [
        (23, 0, "BeginTransactionRecord", {}),
        (2, 0, "TopicRecord", {"name": "a", "topic_id": metadata_logs.OTHER}),
        (9, 0, "RemoveTopicRecord", {"topic_id": metadata_logs.OTHER}),
        (25, 0, "AbortTransactionRecord", {}),
        (2, 0, "TopicRecord", {"name": "b", "topic_id": metadata_logs.TOPIC}),
        (3, 1, "PartitionRecord", {
            "partition_id": 0, "topic_id": metadata_logs.TOPIC, "replicas": [1, 2], "isr": [1, 2], "leader": 1,
            "leader_epoch": 0, "partition_epoch": 0,
        }),
        (5, 1, "PartitionChangeRecord", {"partition_id": 0, "topic_id": metadata_logs.TOPIC, "isr": [1]}),
    ]  # fmt: skip
    path = metadata_logs.write(tmp_path, [metadata_logs.released(records)], metadata_logs.RELEASED)
    rows = [row for batch in replay.changes(path, kinds=["isr", "topic"]) for row in batch.to_pylist()]
    assert [(row["kind"], row["topic"]) for row in rows] == [("topic", "b"), ("isr", "b")]


def told(path: Path, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            row["kind"],
            row["topic"] or row["resource"] or row["broker"],
            row["partition"],
            row["old"],
            row["new"],
        )
        for batch in replay.changes(path, *args, **options)
        for row in batch.to_pylist()
        if row["kind"] != "registration"
    ]


def test_changes_say_what_was_and_what_is(tmp_path: Path) -> None:
    path = metadata_logs.write(
        tmp_path, metadata_logs.batches([*metadata_logs.ops(), BrokerGone(1), TopicGone(metadata_logs.TOPIC)], 4)
    )
    expected = [
        (1, "feature", None, None, None, "2"),
        (2, "fencing", 1, None, None, "active"),
        (3, "fencing", 2, None, None, "active"),
        (4, "fencing", 3, None, None, "active"),
        (5, "topic", "orders", None, None, "AAECAwQFBgcICQoLDA0ODw"),
        (10, "config", "topic:orders", None, None, "1000"),
        (11, "leader", "orders", 0, "1", "2"),
        (11, "isr", "orders", 0, "1,2,3", "2,3"),
        (12, "isr", "orders", 1, "1,2,3", "1,2"),
        (13, "isr", "orders", 3, "1,2,3", "1"),
        (14, "topic", "payments", None, None, "ZGVmZ2hpamtsbW5vcHFycw"),
        (17, "config", "topic:orders", None, "1000", "2000"),
        (18, "config", "broker:1", None, None, "(hidden)"),
        (19, "leader", "orders", 1, "1", None),
        (19, "isr", "orders", 1, "1,2", "2"),
        (19, "leader", "orders", 2, "1", None),
        (19, "isr", "orders", 2, "1,2,3", "2,3"),
        (19, "leader", "orders", 3, "1", None),
        (19, "isr", "payments", 0, "3,1", "3"),
        (19, "isr", "payments", 1, "3,1", "3"),
        (19, "fencing", 1, None, "active", None),
        (20, "topic", "orders", None, "AAECAwQFBgcICQoLDA0ODw", None),
    ]
    assert sorted(told(path), key=str) == sorted(expected, key=str)
    assert [one[0] for one in told(path)] == sorted(one[0] for one in expected)
    assert sorted(told(path, 12, 18), key=str) == sorted([one for one in expected if 12 <= one[0] < 18], key=str)
    assert [one[0] for one in told(path, kinds=["leader"])] == [11, 19, 19, 19]
    seconds = datetime.datetime.fromtimestamp(3, datetime.UTC)
    assert [one[0] for one in told(path, seconds, kinds=["config", "topic"])] == [14, 17, 18, 20]
    with pytest.raises(ValueError, match="'leaders'"):
        told(path, kinds=["leaders"])


def test_isr_changes_have_lists_too(tmp_path: Path) -> None:
    path = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 4))
    (batch,) = replay.changes(path, kinds=["isr", "leader"])
    rows = [(row["kind"], row["old_ids"], row["new_ids"], row["timestamp"].timestamp()) for row in batch.to_pylist()]
    assert sorted(rows) == sorted(
        [
            ("leader", [1], [2], 2.0),
            ("isr", [1, 2, 3], [2, 3], 2.0),
            ("isr", [1, 2, 3], [1, 2], 2.0),
            ("isr", [1, 2, 3], [1], 2.0),
        ]
    )


@pytest.mark.parametrize("seed", range(6))
def test_changes_of_more_than_32_replicas(seed: int, tmp_path: Path) -> None:
    """What `changes` says is what the state was before and after, also beyond the 32nd replica."""
    choose = random.Random(seed)
    brokers = list(range(1, 71))
    replicas = [choose.sample(brokers, size) for size in (40, 70, 3, 33)]
    isrs = [list(one) for one in replicas]
    found: list[Op] = [
        FeatureSet("metadata.format", 2),
        *(BrokerSet(n, 10 + n, bytes([n]) * 16, ()) for n in brokers),
        TopicSet("orders", metadata_logs.TOPIC),
        PartitionsSet(metadata_logs.TOPIC, range(4), replicas, isrs),
    ]
    for epoch in range(1, 40):
        number = choose.randrange(4)
        if choose.random() < 0.2:
            replicas[number] = choose.sample(brokers, choose.choice((3, 31, 32, 33, 50)))
            isrs[number] = list(replicas[number])
            found.append(PartitionsSet(metadata_logs.TOPIC, [number], [replicas[number]], [isrs[number]]))
            continue
        isrs[number] = [one for one in replicas[number] if choose.random() < 0.8] or replicas[number][:1]
        found.append(
            PartitionsChanged.many([metadata_logs.TOPIC], [number], [isrs[number]], [isrs[number][0]], [epoch], [epoch])
        )
    path = metadata_logs.write(tmp_path, metadata_logs.batches(found, choose.choice((1, 5))))
    wanted = {}
    before: dict[int, Any] = {}
    end = replayed(path).image.next_offset
    for offset in range(74, end + 1):
        now = {row["partition"]: row for row in state(path, offset)}
        for number, row in now.items():
            for kind in ("isr", "replicas"):
                if number in before and before[number][kind] != row[kind]:
                    wanted[offset - 1, kind, number] = before[number][kind], row[kind]
        before = now
    told = [row for part in replay.changes(path, kinds=["isr", "replicas"]) for row in part.to_pylist()]
    assert {(r["offset"], r["kind"], r["partition"]): (r["old_ids"], r["new_ids"]) for r in told} == wanted
    assert any(set(old[32:]) - set(new) for (_, kind, _), (old, new) in wanted.items() if kind == "isr")


def state(path: Path, offset: int) -> list[dict[str, Any]]:
    return replay.state(path, as_of=offset, tables=["partitions"])["partitions"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.skipif(not MILLION.is_dir(), reason=f"{MILLION} is not there; RAYFT_KAFKA_DATA names its parent")
def test_a_million_partitions_replayed_are_the_snapshot_that_kafka_took(tmp_path: Path) -> None:
    for packed in sorted(MILLION.glob("*.zst")):
        unpacked = tmp_path / "cluster" / packed.name.removesuffix(".zst")
        unpacked.parent.mkdir(exist_ok=True)
        unpacked.write_bytes(memoryview(cramjam.zstd.decompress(packed.read_bytes())))  # type: ignore[arg-type]
    (checkpoint,) = unpacked.parent.glob("*.checkpoint")
    (log,) = unpacked.parent.glob("*.log")
    loaded, found = replayed(checkpoint), replayed(log, 1998182)
    for name in tables.TABLES:
        if name != "controllers":  # the log says besides who leads
            assert tables.table(name, found).equals(tables.table(name, loaded)), name
    made = tables.table("partitions", found)
    assert made.num_rows == 1_008_000
    assert found.image.next_offset == loaded.image.next_offset == 1998182
    assert (found.quorum.epoch, found.quorum.timestamp_ms) == (loaded.quorum.epoch, loaded.quorum.timestamp_ms)


def test_records_that_are_missing_are_damage(tmp_path: Path) -> None:
    found = metadata_logs.batches(metadata_logs.ops(), 1)
    folder = metadata_logs.write(tmp_path, [one for one in found if one.base_offset != 10])
    with pytest.raises(replay.CorruptLog, match="from offset 10 to 10 are missing"):
        replay.state(folder)
    told: list[replay.Damage] = []
    assert replay.state(folder, on_damage=told.append)["configs"].num_rows == 2
    assert len(told) == 1 and told[0].position == told[0].end


@pytest.mark.parametrize("each", [1, 5])
def test_a_checkpoint_may_end_anywhere(tmp_path: Path, each: int) -> None:
    folder = metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), each))
    expected = replay.state(folder, None, ["topics", "partitions", "brokers", "configs"])
    for end in range(2, 19):
        path = compact(folder, end).write(folder)
        assert replay.state(folder, None, list(expected)) == expected, end
        path.unlink()


def test_a_record_that_does_not_fit_is_told_with_the_position_of_its_own_batch(tmp_path: Path) -> None:
    fine = metadata_logs.batches(metadata_logs.ops()[:6], 1)
    strange = metadata_logs.batches([PartitionsChanged.one(metadata_logs.TOPIC, 99, [1], 1, 1, 1)], 1, start=10)
    more = metadata_logs.batches(metadata_logs.ops()[6:7], 1, start=11)
    folder = metadata_logs.write(tmp_path, [*fine, *strange, *more])
    (file,) = folder.glob("*.log")
    position = sum(len(one.data) for one in fine)
    with pytest.raises(replay.CorruptLog, match=f"{file}, byte {position}: .*partition 99"):
        replay.state(folder)
    told: list[replay.Damage] = []
    state = replay.state(folder, None, ["configs", "partitions"], on_damage=told.append)
    assert [(one.position, one.end) for one in told] == [(position, position + len(strange[0].data))]
    assert state["configs"].num_rows == 1 and state["partitions"].num_rows == 4


def test_a_batch_that_cannot_be_cut_at_as_of_is_damage(tmp_path: Path) -> None:
    first, second = metadata_logs.batches(metadata_logs.ops(), 100)
    folder = metadata_logs.write(tmp_path, [first, second._replace(data=sealed(bytes(second.data), None, 1))])
    for as_of in (None, 6, 12):
        with pytest.raises(replay.CorruptLog, match="byte 91: offset 1: not a plain batch of metadata: compressed"):
            replay.state(folder, as_of)
        told: list[replay.Damage] = []
        assert replay.state(folder, as_of, ["topics"], on_damage=told.append)["topics"].num_rows == 0
        assert [one.position for one in told] == [91]
