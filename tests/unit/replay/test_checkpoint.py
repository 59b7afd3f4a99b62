"""The offline snapshot: the same bytes from any older checkpoint and any cutting of the log, and from a live image."""

from pathlib import Path

import pytest

from actors.metadata import snapshot
from actors.metadata.batches import KRaftVersion, SnapshotFooter, SnapshotHeader, Voter, Voters, control_batch
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, EndPoint, FeatureSet, ProducerIdsSet, TopicGone
from actors.replay.checkpoint import compact
from fastpath.records import batch as batches
from tests.unit.replay import metadata_logs

VOTERS = Voters((Voter(1001, bytes([7]) * 16, (("CONTROLLER", "localhost", 9100),)),))


def history(level: int) -> list[object]:
    back = BrokerSet(1, 50, bytes([9]) * 16, (EndPoint("PLAINTEXT", "host", 9001),), "rack")
    return [
        *metadata_logs.ops(level),
        BrokerGone(1, 11),
        ProducerIdsSet(2, 12, 1000),
        TopicGone(metadata_logs.OTHER, "payments"),
        back,
    ]


def live(found: list[object], level: int, end: int) -> bytes:
    """What a controller that replayed its own batches writes."""
    image = Image()
    for one in found:
        if one.base_offset >= end:  # type: ignore[attr-defined]
            break
        header = batches.header(one.data)  # type: ignore[attr-defined]
        if not header.attributes & 0x20:
            for offset, op in dialect(level).decode(one):  # type: ignore[arg-type]
                image.replay(offset, op)
        image.advance(header.last_offset + 1)
        epoch, time = header.epoch, header.max_timestamp
    assert image.next_offset == end
    return b"".join(bytes(part) for part in snapshot.encode(image.pin(), epoch, level, time, VOTERS))


def formatted(folder: Path) -> None:
    """The checkpoint that formatting leaves: the voters."""
    head = control_batch(0, 0, 0, [SnapshotHeader(0), KRaftVersion(1), VOTERS])
    parts = [head, control_batch(3, 0, 0, [SnapshotFooter()])]
    (folder / f"{0:020}-{0:010}.checkpoint").write_bytes(b"".join(bytes(part.data) for part in parts))


@pytest.mark.parametrize("level", [1, 2])
def test_the_bytes_are_those_of_the_controller_at_that_offset(tmp_path: Path, level: int) -> None:
    found = metadata_logs.batches(history(level), 3, level)  # type: ignore[arg-type]
    folder = metadata_logs.write(tmp_path, found)
    formatted(folder)
    ends = [one.last_offset + 1 for one in found]
    for end in ends:
        made = compact(folder, end)
        assert b"".join(bytes(part) for part in made.parts) == live(list(found), level, end)
        assert made.name == f"{end:020}-{3:010}.checkpoint"
    latest = compact(folder)
    for end in ends[:-1]:
        path = compact(folder, end).write(folder)
        assert path.name == f"{end:020}-{3:010}.checkpoint"
        again = compact(folder)
        assert (again.name, list(map(bytes, again.parts))) == (latest.name, list(map(bytes, latest.parts)))
        path.unlink()
    assert not list(folder.glob("*.part"))


def test_a_snapshot_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has credentials. Nor does anybody write through a link that has its name."""
    made = compact(metadata_logs.write(tmp_path / "log", metadata_logs.batches(metadata_logs.ops(), 4)))
    out, other = tmp_path / "out", tmp_path / "other"
    out.mkdir()
    other.write_bytes(b"precious")
    (out / f"{made.name}.part").symlink_to(other)
    path = made.write(out)
    assert other.read_bytes() == b"precious" and path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    broken = made._replace(parts=[*made.parts, None])
    with pytest.raises(TypeError):
        broken.write(out)
    assert [one.name for one in out.iterdir()] == [f"{made.name}.part"], "the link, which is not ours"


def test_the_level_stands_in_meta_properties_until_the_log_says_it(tmp_path: Path) -> None:
    found = metadata_logs.batches(metadata_logs.ops(1)[1:5], 2, 1)
    folder = metadata_logs.write(tmp_path, found)
    formatted(folder)
    (tmp_path / "meta.properties").write_text("rayft.metadata.family=drafts\nrayft.metadata.format=1\n")
    assert b"".join(map(bytes, compact(folder).parts)) == live(list(found), 1, found[-1].last_offset + 1)


def test_released_logs_are_refused_with_a_sentence(tmp_path: Path) -> None:
    feature = (12, 0, "FeatureLevelRecord", {"name": "metadata.version", "feature_level": 7})
    folder = metadata_logs.write(tmp_path, [metadata_logs.released([feature])], metadata_logs.RELEASED)
    with pytest.raises(ValueError, match="released Apache Kafka"):
        compact(folder)


def test_levels_may_follow_each_other(tmp_path: Path) -> None:
    first = metadata_logs.batches(metadata_logs.ops(1), 4, 1)
    second = metadata_logs.batches(
        [FeatureSet("metadata.format", 2), BrokerGone(3, 13)], 1, 1, first[-1].last_offset + 1
    )[:1]
    third = metadata_logs.batches([BrokerGone(3, 13)], 1, 2, second[-1].last_offset + 1)
    folder = metadata_logs.write(tmp_path, [*first, *second, *third])
    image = Image()
    snapshot.load(b"".join(map(bytes, compact(folder).parts)), image, 100)
    assert image.feature("metadata.format") == 2 and [one.id for one in image.brokers()] == [1, 2]
