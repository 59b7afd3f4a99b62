"""Replicas compared: every way in which they can be wrong is told, with place; what is right is not."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.replay.follow import HIGH_WATERMARKS
from actors.replay.replicas import ReplicaComparison, check
from fastpath.records import batch
from tests.unit.replay.frames import Session
from tests.unit.replay.written import append, node

Nodes = dict[str, Path]


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    found = {name: node(tmp_path / name, {"orders": 2, "clicks": 1}, 100) for name in "abc"}
    for path in found.values():
        (path / HIGH_WATERMARKS).write_text("0\n3\norders 0 100\norders 1 100\nclicks 0 100\n")
    return found


def segment(nodes: Nodes, name: str, log: str = "orders-1") -> Path:
    return nodes[name] / log / f"{0:020}.log"


def told(verdict: ReplicaComparison) -> list[tuple[str, int, str, str, int]]:
    return [tuple(one[:5]) for one in verdict.problems]  # type: ignore[misc]


def test_sound_replicas(nodes: Nodes) -> None:
    append(nodes["b"], "orders", 0, 100, 120)  # above the high watermark: the leader's tail
    verdict = check(Session(), nodes)
    assert verdict.sound and verdict.problems == ()
    assert str(verdict) == "sound: 9 replicas of 3 partitions, nothing wrong"


@pytest.mark.long
def test_on_spark_itself(session: Any, nodes: Nodes) -> None:
    file = segment(nodes, "c")
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    assert told(check(session, nodes)) == told(check(Session(), nodes)) != []


def test_a_flipped_bit_is_found_with_its_place(nodes: Nodes) -> None:
    file = segment(nodes, "b")
    data = bytearray(file.read_bytes())
    place = batch.headers(data)[4].position
    data[place + 70] ^= 1
    file.write_bytes(data)
    verdict = check(Session(), nodes)
    assert ("orders", 1, "b", "damaged") in [one[:4] for one in told(verdict)]
    assert ("orders", 1, "b", "differ", 40) in told(verdict)
    assert f"{file}, byte {place}" in str(verdict) and str(verdict).startswith("NOT SOUND: 9 replicas of 3 partitions")


def test_another_batch_at_the_same_offset(nodes: Nodes, tmp_path: Path) -> None:
    other = append(tmp_path / "other", "orders", 7, 0, 100)
    data = bytearray(segment(nodes, "c").read_bytes())
    foreign = other.read_bytes()
    fourth, fifth = (batch.headers(data)[at] for at in (3, 4))
    mine = batch.headers(foreign)[3]
    if mine.size == fourth.size:
        data[fourth.position : fifth.position] = foreign[mine.position : mine.position + mine.size]
    segment(nodes, "c").write_bytes(data)
    assert told(check(Session(), nodes)) == [("orders", 1, "c", "differ", 30)]


def test_another_epoch_is_another_batch_and_epochs_do_not_fall(nodes: Nodes) -> None:
    data = bytearray(segment(nodes, "a").read_bytes())
    batch.patch(data, batch.headers(data)[2].position, 20, 9)
    segment(nodes, "a").write_bytes(data)
    assert told(check(Session(), nodes)) == [("orders", 1, "a", "differ", 20), ("orders", 1, "a", "epochs", 30)]


def test_offsets_that_come_twice(nodes: Nodes) -> None:
    data = segment(nodes, "a").read_bytes()
    headers = batch.headers(data)
    segment(nodes, "a").write_bytes(data[: headers[3].position] + data[headers[2].position :])
    assert ("orders", 1, "a", "disordered", 20) in told(check(Session(), nodes))


def test_a_replica_that_is_behind_is_told_and_sound(nodes: Nodes) -> None:
    data = segment(nodes, "b").read_bytes()
    segment(nodes, "b").write_bytes(data[: batch.headers(data)[6].position])
    verdict = check(Session(), nodes)
    assert told(verdict) == [("orders", 1, "b", "behind", 60)] and verdict.sound
    shutil.rmtree(segment(nodes, "c").parent)
    assert check(Session(), nodes).replicas == 8


def test_beginnings_and_topics(nodes: Nodes) -> None:
    data = segment(nodes, "b").read_bytes()
    at = batch.headers(data)[5].position
    segment(nodes, "b").unlink()
    (nodes["b"] / "orders-1" / f"{50:020}.log").write_bytes(data[at:])
    assert check(Session(), nodes).problems == ()
    assert check(Session(), nodes, ["clicks"]).partitions == 1


def test_without_a_high_watermark_the_shortest_replica_says_how_far(nodes: Nodes) -> None:
    for path in nodes.values():
        (path / HIGH_WATERMARKS).unlink()
    append(nodes["a"], "orders", 0, 100, 120)
    assert check(Session(), nodes).problems == ()


def emptied(nodes: Nodes, name: str, offset: int) -> None:
    segment(nodes, name).unlink()
    (nodes[name] / "orders-1" / f"{offset:020}.log").write_bytes(b"")


def test_a_log_that_retention_has_emptied_ends_where_its_empty_segment_begins(nodes: Nodes) -> None:
    emptied(nodes, "b", 100)
    assert check(Session(), nodes).problems == ()
    for name in "ac":
        emptied(nodes, name, 100)
    assert check(Session(), nodes).problems == (), "of all of them, too"
    segment(nodes, "b").parent.joinpath(f"{100:020}.log").unlink()
    emptied_earlier = nodes["b"] / "orders-1" / f"{40:020}.log"
    emptied_earlier.write_bytes(b"")
    assert told(check(Session(), nodes)) == [("orders", 1, "b", "behind", 40)]
