"""Compaction as a job: the bytes of one process, whatever the history and however it is cut into tasks."""

import random
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.metadata.batches import KRaftVersion, SnapshotFooter, SnapshotHeader, Voter, Voters, control_batch
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    EndPoint,
    FeatureSet,
    Op,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicGone,
    TopicSet,
)
from actors.replay import source, spread
from actors.replay.checkpoint import compact
from actors.replay.logs.copies import metadata_log
from tests.unit.replay import metadata_logs
from tests.unit.replay.frames import Session

VOTERS = Voters((Voter(1001, bytes([7]) * 16, (("CONTROLLER", "localhost", 9100),)),))


def history(seed: int, level: int) -> list[Op]:
    """Topics come, change and go; brokers too."""
    draw = random.Random(seed)
    found: list[Op] = [FeatureSet("metadata.format", level)]
    found += [BrokerSet(n, n, bytes([n]) * 16, (EndPoint("P", "h", n),)) for n in range(1, 6)]
    living: dict[bytes, tuple[str, list[list[int]]]] = {}
    for at in range(150):
        kind = draw.random()
        if kind < 0.4 or not living:
            name = f"t{at}-" + "n" * draw.choice([0, 1, 60, 124, 125, 200])
            id_ = bytes([draw.randrange(16)]) + draw.randbytes(15)
            replicas = [draw.sample(range(1, 6), 3) for _ in range(draw.randrange(4))]
            found += [TopicSet(name, id_)]
            found += [PartitionsSet(id_, range(len(replicas)), replicas, replicas)] if replicas else []
            living[id_] = (name, replicas)
        elif kind < 0.75 and (ids := [id_ for id_, (_, replicas) in living.items() if replicas]):
            chosen = [draw.choice(ids) for _ in range(4)]
            numbers = [draw.randrange(len(living[id_][1])) for id_ in chosen]
            pairs = zip(chosen, numbers, strict=True)
            isr = [draw.sample(living[id_][1][number], draw.randrange(1, 4)) for id_, number in pairs]
            found.append(PartitionsChanged.many(chosen, numbers, isr, [one[0] for one in isr], [at] * 4, [at] * 4))
        elif kind < 0.85:
            id_ = draw.choice(list(living))
            found.append(TopicGone(id_, living.pop(id_)[0]))
        elif kind < 0.95:
            name = draw.choice(list(living.values()))[0]
            found.append(ConfigSet(2, name, draw.choice("ab"), draw.choice([None, "1", "2"])))
        else:
            found += [BrokerGone(2, 2), BrokerSet(2, at, bytes([2]) * 16, (EndPoint("P", "h", at),))]
    return [*found, ProducerIdsSet(1, 1, 5000)]


def log(folder: Path, seed: int, level: int) -> Path:
    path = metadata_logs.write(folder, metadata_logs.batches(history(seed, level), 7, level))
    head = control_batch(0, 0, 0, [SnapshotHeader(0), KRaftVersion(1), VOTERS])
    parts = [head, control_batch(3, 0, 0, [SnapshotFooter()])]
    (path / f"{0:020}-{0:010}.checkpoint").write_bytes(b"".join(bytes(part.data) for part in parts))
    return path


def whole(made: Any) -> tuple[str, bytes]:
    return made.name, b"".join(bytes(part) for part in made.parts)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_the_bytes_are_those_of_one_process(
    tmp_path: Path, seed: int, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "split_bytes", lambda found: 3000)
    path = log(tmp_path, seed, level)
    end = compact(path).end_offset
    for as_of in (None, end // 2, end // 2 + 1):
        assert whole(spread.compact(Session(), path, as_of)) == whole(compact(path, as_of))
    expected = whole(compact(path))
    compact(path, end // 3).write(path)
    assert whole(spread.compact(Session(), path)) == expected, "from an older checkpoint"
    assert len(spread._plan(source.open(path).logs[0], None).splits) > 3


@pytest.mark.long
def test_on_spark_itself(session: Any, tmp_path: Path) -> None:
    path = log(tmp_path, 99, 2)
    assert whole(spread.compact(session, path)) == whole(compact(path))


def test_what_cannot_be_compacted_is_refused(tmp_path: Path) -> None:
    feature = (12, 0, "FeatureLevelRecord", {"name": "metadata.version", "feature_level": 7})
    with pytest.raises(ValueError, match="released Apache Kafka"):
        spread.compact(
            Session(),
            metadata_logs.write(tmp_path / "released", [metadata_logs.released([feature])], metadata_logs.RELEASED),
        )
    found = metadata_logs.batches(metadata_logs.ops(), 1)
    with pytest.raises(source.NothingToRead, match="begins at offset 10"):
        spread.compact(
            Session(), metadata_logs.write(tmp_path / "cut", [one for one in found if one.base_offset >= 10])
        )


def test_before_the_only_checkpoint_there_is_nothing_to_plan(tmp_path: Path) -> None:
    made = compact(metadata_logs.write(tmp_path, metadata_logs.batches(metadata_logs.ops(), 1)), 15).write(tmp_path)
    assert spread._plan(metadata_log(made), 15).end_offset == 15
    with pytest.raises(replay.NothingToRead, match="no checkpoint"):
        spread._plan(metadata_log(made), 14)
