"""Several copies of a log below one directory, as crashes leave them: the one is read that a quorum would choose."""

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.command import cli
from actors.metadata import snapshot
from actors.metadata.ops import ConfigSet, PartitionsChanged
from actors.replay.columns.as_of import replay as replayed
from actors.replay.logs.copies import CopiesDiffer, CopyEnd, end_of, metadata_log
from actors.replay.logs.files import NothingToRead, partitions
from actors.replay.read_options import read_options, scan
from actors.replay.topic_logs import OtherTopic
from fastpath.records.batch import Builder
from tests.unit.replay import metadata_logs

FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture(autouse=True)
def _no_warning() -> Iterator[None]:
    """A warning that a test does not expect is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def batch(base: int, values: list[str], epoch: int = 1) -> bytes:
    builder = Builder(base, epoch, timestamp_ms=1_700_000_000_000)
    for value in values:
        builder.append(None, value.encode(), 1_700_000_000_000)
    return bytes(builder.build())


def named(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def put(node: Path, data: bytes, base: int = 0, topic_id: str = "", name: str = "orders-0") -> Path:
    folder = node / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020}.log").write_bytes(data)
    if topic_id:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    return folder


def values(path: Path) -> list[str]:
    options = read_options({"path": str(path), "topics": "orders"})
    parts = [part for split in options.planned() for part in scan(options, split, ("value",))]
    return [value.decode() for part in parts for value in part.column(0).to_pylist()]


COMMON = batch(0, named("common", 5))


def test_of_a_dead_leader_and_its_successor_the_successor_is_read(tmp_path: Path) -> None:
    """Broker 1 led epoch 1 and died with five records that nobody acknowledged. Broker 2 leads epoch 2 and has four."""
    put(tmp_path / "broker-1", COMMON + batch(5, named("lost", 5), epoch=1))
    put(tmp_path / "broker-2", COMMON + batch(5, named("kept", 4), epoch=2))
    with pytest.warns(CopiesDiffer, match="broker-1/orders-0 ends at offset 10 in leader epoch 1"):
        found = values(tmp_path)
    assert found == named("common", 5) + named("kept", 4)


def test_a_shorter_dead_leader_is_told_too(tmp_path: Path) -> None:
    put(tmp_path / "broker-1", COMMON + batch(5, named("lost", 2), epoch=1))
    put(tmp_path / "broker-2", COMMON + batch(5, named("kept", 4), epoch=2))
    with pytest.warns(CopiesDiffer, match="broker-1/orders-0 ends at offset 7"):
        assert values(tmp_path)[5:] == named("kept", 4)


def test_a_copy_that_is_behind_is_no_difference(tmp_path: Path) -> None:
    whole = COMMON + batch(5, named("more", 4), epoch=3)
    put(tmp_path / "broker-1", COMMON)
    put(tmp_path / "broker-2", whole)
    put(tmp_path / "broker-3", whole + batch(9, named("last", 1), epoch=3))
    assert values(tmp_path)[-1] == "last0"


def test_bytes_say_nothing(tmp_path: Path) -> None:
    """A copy whose segment was enlarged beforehand, and one whose last batch has longer records."""
    put(tmp_path / "broker-1", COMMON + bytes(1 << 20))
    put(tmp_path / "broker-2", COMMON + batch(5, named("more", 4)))
    assert values(tmp_path)[5:] == named("more", 4)
    put(tmp_path / "broker-1", COMMON + batch(5, ["x" * 9000]))
    assert len(values(tmp_path)) == 9, "of the same epoch: what is the next offset is longer"


def test_the_segments_of_copies_begin_elsewhere(tmp_path: Path) -> None:
    """Each node rolls by itself; retention has taken the beginning of one."""
    put(tmp_path / "broker-1", batch(0, named("old", 5)))
    put(tmp_path / "broker-1", batch(5, named("new", 5), epoch=4), base=5)
    put(tmp_path / "broker-2", batch(3, ["old3", "old4"]) + batch(5, named("new", 4), epoch=4), base=3)
    assert values(tmp_path) == named("old", 5) + named("new", 5)


def test_a_last_batch_that_is_torn_or_damaged_does_not_count(tmp_path: Path) -> None:
    last = bytearray(batch(5, named("x", 3), epoch=9))
    last[-1] ^= 1
    folder = put(tmp_path / "broker-1", COMMON + bytes(last))
    (log,) = partitions(folder)
    assert end_of(log) == CopyEnd(1, 5)
    put(tmp_path / "broker-1", COMMON + batch(5, named("x", 3), epoch=9)[:-1])
    assert end_of(log) == CopyEnd(1, 5)
    put(tmp_path / "broker-1", b"")
    assert end_of(log) == CopyEnd(-1, 0)


@pytest.mark.parametrize("size", [61, 512, 4096])
def test_a_copy_with_a_hole_ends_there(size: int, tmp_path: Path) -> None:
    """Broker 1 lost power: of its last segment a later page is there, and an earlier one is not."""
    lost = put(tmp_path / "broker-1", COMMON + bytes(size) + batch(9, named("far", 5)))
    put(tmp_path / "broker-2", COMMON + batch(5, named("kept", 6)))
    assert values(tmp_path) == named("common", 5) + named("kept", 6)
    (log,) = partitions(lost)
    assert end_of(log) == CopyEnd(1, 5)
    put(tmp_path / "broker-1", COMMON + bytes(size))
    assert end_of(log) == CopyEnd(1, 5)


@pytest.mark.parametrize("position", [0, len(COMMON), 3, 1 << 20])
def test_an_index_only_says_where_to_begin(position: int, tmp_path: Path) -> None:
    folder = put(tmp_path / "broker-1", COMMON + batch(5, named("x", 3), epoch=9))
    (folder / f"{0:020}.index").write_bytes((5).to_bytes(4, "big") + position.to_bytes(4, "big") + bytes(16))
    (log,) = partitions(folder)
    assert end_of(log) == CopyEnd(9, 8)


def test_a_deleted_topic_of_the_same_name_is_another_log(tmp_path: Path) -> None:
    """Broker 1 was down when the topic was deleted and made again."""
    put(tmp_path / "broker-1", batch(0, named("deleted", 6), epoch=7), topic_id=FIRST)
    folder = put(tmp_path / "broker-2", batch(0, named("new", 3), epoch=0), topic_id=SECOND)
    os.utime(folder / "partition.metadata", (2e9, 2e9))
    with pytest.warns(OtherTopic, match=r"broker-1/orders-0 is left out.*judged by the time"):
        assert values(tmp_path) == named("new", 3)
    os.utime(folder / "partition.metadata", (1e9, 1e9))
    with pytest.warns(OtherTopic, match="broker-2/orders-0 is left out"):
        assert values(tmp_path) == named("deleted", 6)


def test_the_metadata_log_says_which_topic_has_the_name(tmp_path: Path) -> None:
    metadata_logs.write(tmp_path / "controller-1001", metadata_logs.batches(metadata_logs.ops(), 4))
    raw = replay.state(tmp_path, tables=["topics"])["topics"].to_pylist()
    (current,) = [row["topic_id"] for row in raw if row["topic"] == "orders"]
    folder = put(tmp_path / "broker-1", batch(0, named("current", 3)), topic_id=current)
    os.utime(folder / "partition.metadata", (1e9, 1e9))
    put(tmp_path / "broker-2", batch(0, named("other", 6)), topic_id=FIRST)
    with pytest.warns(
        OtherTopic, match=r"broker-2/orders-0 is left out: it is of another topic of that name, which was deleted\."
    ):
        assert values(tmp_path) == named("current", 3)


def test_records_of_a_topic_that_the_metadata_do_not_have_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker was down when its topic was deleted, or made again without a replica here."""
    metadata_logs.write(tmp_path / "controller-1001", metadata_logs.batches(metadata_logs.ops(), 4))
    for partition in range(2):
        put(tmp_path / "broker-1", batch(0, named("deleted", 6)), topic_id=FIRST, name=f"orders-{partition}")
    options = read_options({"path": str(tmp_path), "topics": "orders"})
    with pytest.warns(OtherTopic, match=r"orders-0 \(and 1 more of its partitions\) is of a topic that the metadata"):
        assert len(options.planned()) == 2
    for words in (["--table", "log"], []):
        assert cli.main(["replay", str(tmp_path), "--topic", "orders", *words]) == 0
        said = capsys.readouterr()
        assert "orders-0" in said.err and "it was deleted" in said.err and "orders" in said.out
    shutil.rmtree(tmp_path / "controller-1001")  # nobody knows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(options.planned()) == 2


def test_of_a_dead_controller_and_its_successor_the_successor_is_read(tmp_path: Path) -> None:
    common = metadata_logs.batches(metadata_logs.ops(), 3)
    end = common[-1].last_offset + 1
    lost: list[Any] = [PartitionsChanged.many([metadata_logs.TOPIC], [2], [[1]], [1], [9], [9])]
    lost += [ConfigSet(2, "orders", f"x{number}", "never") for number in range(4)]
    kept = [ConfigSet(2, "orders", "retention.ms", "777")]
    metadata_logs.write(tmp_path / "controller-1001", common + metadata_logs.batches(lost, 9, start=end, epoch=3))
    metadata_logs.write(tmp_path / "controller-1002", common + metadata_logs.batches(kept, 9, start=end, epoch=4))
    with pytest.warns(CopiesDiffer, match="controller-1001"):
        found = replay.state(tmp_path, tables=["configs"])["configs"].to_pylist()
    assert [row["value"] for row in found if row["resource"] == "orders"] == ["777"]


@pytest.mark.parametrize("log", ["none", "empty", "zeros", "torn"])
def test_a_controller_that_has_only_a_checkpoint_so_far_is_newer_than_the_log_below_it(
    log: str, tmp_path: Path
) -> None:
    """Controller 1001 stopped long ago. Controller 1002 has fetched a snapshot, and no batch behind it that is whole."""
    found = metadata_logs.batches(metadata_logs.ops(), 1, epoch=3)
    metadata_logs.write(tmp_path / "controller-1001", [one for one in found if one.base_offset < 10])
    at = replayed(metadata_logs.write(tmp_path / "aside" / "whole", found), 15)
    folder = tmp_path / "controller-1002" / metadata_logs.DRAFTS
    folder.mkdir(parents=True)
    parts = snapshot.encode(at.image.pin(), 5, 2, at.quorum.timestamp_ms, None)
    (folder / f"{15:020}-{5:010}.checkpoint").write_bytes(b"".join(bytes(part) for part in parts))
    torn = bytes(metadata_logs.batches(metadata_logs.ops(), 9, start=15, epoch=5)[0].data)[:-1]
    if log != "none":
        (folder / f"{15:020}.log").write_bytes({"empty": b"", "zeros": bytes(9000), "torn": torn}[log])
    shutil.rmtree(tmp_path / "aside")
    (one,) = partitions(folder)
    assert end_of(one) == CopyEnd(5, 15)
    assert replay.state(tmp_path, tables=["topics"])["topics"].equals(replay.state(folder, tables=["topics"])["topics"])
    assert metadata_log(tmp_path).files[0].parent == folder


def test_logs_of_two_clusters_are_no_copies(tmp_path: Path) -> None:
    for number, cluster in ((1001, "one"), (1002, "other")):
        metadata_logs.write(tmp_path / f"controller-{number}", metadata_logs.batches(metadata_logs.ops(), 3))
        (tmp_path / f"controller-{number}" / "meta.properties").write_text(f"cluster.id={cluster}\n")
    with pytest.raises(NothingToRead, match="holds 2 metadata logs"):
        replay.state(tmp_path)


def test_the_command_says_what_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / "broker-[1]", COMMON + batch(5, named("lost", 5), epoch=1))
    put(tmp_path / "broker-2", COMMON + batch(5, named("kept", 4), epoch=2))
    assert cli.main(["replay", str(tmp_path), "--topic", "orders", "--table", "log", "--columns", "value"]) == 0
    shown = capsys.readouterr()
    assert "kept3" in shown.out and "lost" not in shown.out
    assert re.search(r"broker-\[1\]/orders-0 ends at offset 10 .* give that node's directory\.\n", shown.err)
