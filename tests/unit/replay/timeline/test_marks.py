"""What is marked in a log, and how many marks there may be."""

from pathlib import Path

import pytest

from actors import replay
from actors.metadata.batches import BatchWriter, LeaderChange, control_batch
from actors.metadata.dialects import dialect
from actors.metadata.ops import BrokerGone, ConfigSet, FeatureSet, PartitionsChanged, TopicGone
from actors.replay.timeline import marks
from tests.unit.replay import metadata_logs

RULE = {
    "id": bytes([9]) * 16, "resource_type": 2, "resource_name": "a", "pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip

SETTING = {"resource_type": 2, "resource_name": "a", "name": "x", "value": "1"}


def told(history: replay.History) -> list[tuple[int, int, str, str, int]]:
    return [tuple(one) for one in history.marks()]  # type: ignore[misc]


def test_each_kind_of_mark(tmp_path: Path) -> None:
    ops = [*metadata_logs.ops(), BrokerGone(1), TopicGone(metadata_logs.TOPIC)]
    history = replay.History(metadata_logs.write(tmp_path, metadata_logs.batches(ops, 1)))
    assert told(history) == [
        (0, 500, "election", "controller 1001 leads, epoch 3", 1),
        (1, 1000, "setting", "feature metadata.format", 1),
        *((offset, offset * 1000, "broker", f"broker {offset - 1} {word}", 1)
          for offset in (2, 3, 4) for word in ("registered", "active")),
        (5, 5000, "topic", "topic orders made", 1),
        (10, 7000, "setting", "topic:orders retention.ms", 1),
        (11, 8000, "leader", "", 1),
        (11, 8000, "isr", "smaller", 3),
        (14, 9000, "topic", "topic payments made", 1),
        (17, 11_000, "setting", "topic:orders retention.ms", 1),
        (18, 12_000, "setting", "broker:1 ssl.keystore.password", 1),
        (19, 13_000, "broker", "broker 1 gone", 1),
        (19, 13_000, "leader", "", 3),
        (19, 13_000, "isr", "smaller", 4),
        (20, 14_000, "topic", "topic orders deleted", 1),
    ]  # fmt: skip
    assert [one.kind for one in history.marks(["isr", "election"])] == ["election", "isr", "isr"]
    with pytest.raises(ValueError, match="'fencing'"):
        history.marks(["fencing"])
    history.append(bytes(control_batch(21, 7, 20_000, [LeaderChange(1002, (1001,), (1002,))]).data))
    assert history.marks(["election"])[-1] == (21, 20_000, "election", "controller 1002 leads, epoch 7", 1)
    history.close()


@pytest.mark.parametrize("step", [1, 10_000])
def test_an_aborted_transaction_leaves_no_mark_and_one_that_ends_all(tmp_path: Path, step: int) -> None:
    """Whether the log is read batch by batch or at once."""
    begin: metadata_logs.Record = (23, 0, "BeginTransactionRecord", {})
    rule: metadata_logs.Record = (18, 0, "AccessControlEntryRecord", RULE)
    found = [
        metadata_logs.released([begin, rule], 0, 1000),
        metadata_logs.released([(25, 0, "AbortTransactionRecord", {}), begin, rule], 2, 2000),
        metadata_logs.released([(4, 0, "ConfigRecord", SETTING)], 5, 3000),
        metadata_logs.released([(24, 0, "EndTransactionRecord", {})], 6, 4000),
        metadata_logs.released([(19, 0, "RemoveAccessControlEntryRecord", {"id": bytes([9]) * 16})], 7, 5000),
    ]  # fmt: skip
    history = replay.History(metadata_logs.write(tmp_path, found, metadata_logs.RELEASED), step=step)
    assert told(history) == [
        (4, 2000, "security", "acl set", 1),
        (5, 3000, "setting", "topic:a x", 1),
        (7, 5000, "security", "acl removed", 1),
    ]
    assert not any("User:a" in str(one) for one in history.marks())
    history.close()


def test_marks_of_partitions_are_one_a_second(tmp_path: Path) -> None:
    """Batches at 1.0, 1.6, 2.1 s: two marks, whatever is read at once."""
    made = metadata_logs.batches(metadata_logs.ops()[:7], 20)
    folder = metadata_logs.write(tmp_path, made)
    for step in (1, 10_000):
        history = replay.History(folder, step=step)
        for number, (time_ms, isr) in enumerate([(5_000, [1, 2]), (5_600, [1]), (6_100, [1, 3])]):
            history.append(_change(history.now.offset, time_ms, number, isr))
        assert [(one.time_ms, one.about, one.number) for one in history.marks(["isr"])] == [
            (5_000, "smaller", 2),
            (6_100, "smaller", 1),
        ]
        history.close()


def _change(offset: int, time_ms: int, number: int, isr: list[int]) -> bytes:
    out = BatchWriter(offset, 3, time_ms)
    dialect(2).encode([PartitionsChanged.one(metadata_logs.TOPIC, number, isr, 1, 1, 1)], out)
    (batch,) = out.finish()
    return bytes(batch.data)


def test_there_are_never_more_than_a_bound(tmp_path: Path) -> None:
    many = marks.MARKS_MAX * 3 + 5
    ops = [FeatureSet("metadata.format", 2), *(ConfigSet(2, f"t{n}", "x", "1") for n in range(many))]
    history = replay.History(metadata_logs.write(tmp_path, metadata_logs.batches(ops, 100)))
    found = history.marks(["setting"])
    assert len(found) <= marks.MARKS_MAX and sum(one.number for one in found) == many + 1
    assert [one.offset for one in found] == sorted(one.offset for one in found) and found[0].offset == 1
    history.close()
