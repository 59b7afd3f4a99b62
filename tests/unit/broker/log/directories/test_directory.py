"""Names and small files of a log directory."""

from pathlib import Path

import pytest

from actors.broker.log.directories.checkpoints import encode_ids, identity
from actors.broker.log.directories.directory import (
    LogDirectory,
    parse_name,
    partition_name,
    read_identity,
    read_topic_id,
    retired_name,
    write_identity,
)
from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk
from actors.ports import Sync
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import build, flush, put, settings

ID = bytes(range(240, 256))


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("topic-0", ("topic", 0, "")),
        ("a.b_c-d-17", ("a.b_c-d", 17, "")),
        (f"t-3.{'0a' * 16}-delete", ("t", 3, "delete")),
        (f"t.u-3.{'0a' * 16}-stray", ("t.u", 3, "stray")),
        (f"t-3.{'0a' * 16}-future", ("t", 3, "future")),
        (f"t-3.{'0a' * 16}-other", None),
        ("__cluster_metadata-0", ("__cluster_metadata", 0, "")),
        ("meta.properties", None),
        ("-1", None),
        ("topic-", None),
        ("topic-x", None),
        ("topic-¹", None),
    ],
)
def test_names_are_read(name: str, parsed: tuple[str, int, str] | None) -> None:
    assert parse_name(name) == parsed


def test_names_of_retired_directories_fit() -> None:
    name = retired_name("t" * 249, 12, "delete", ID)
    assert len(name) == 255
    assert parse_name(name) is not None and parse_name(name)[1:] == (12, "delete")  # type: ignore[index]
    assert parse_name(retired_name("a.b", 1, "stray", ID)) == ("a.b", 1, "stray")
    assert partition_name("a.b", 1) == "a.b-1"


def test_partition_metadata_is_kafkas() -> None:
    disk = VirtualDisk()
    write_identity(disk, "t-0", ID)
    write_identity(disk, "t-0", bytes(16))
    assert bytes(disk.files["t-0/partition.metadata"].data) == b"version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert read_topic_id(disk, "t-0") == ID
    assert read_topic_id(disk, "none-0") is None


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 0", b"version: 1\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w", b"version: 0\ntopic_id: short", b"\xff"],
)
def test_unreadable_partition_metadata_is_none(content: bytes) -> None:
    disk = VirtualDisk()
    disk.replace("t-0/partition.metadata", content)
    assert read_topic_id(disk, "t-0") is None


def test_a_directory_tells_its_partitions() -> None:
    disk = VirtualDisk()
    write_identity(disk, "t-1", ID)
    disk.open("u-0/00000000000000000000.log", create=True)
    disk.open("__cluster_metadata-0/00000000000000000000.log", create=True)
    disk.open("__kafka_metadata-0/00000000000000000000.log", create=True)
    disk.open("meta.properties", create=True)
    retired = retired_name("v", 2, "delete", ID)
    write_identity(disk, retired, ID)
    found = LogDirectory(disk).partitions()
    assert found == [("t-1", "t", 1, "", ID, 0), ("u-0", "u", 0, "", None, 0), (retired, "v", 2, "delete", ID, 0)]


def test_a_file_with_a_name_like_a_partitions_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes-1").write_text("somebody's")
    disk = LocalDisk(str(tmp_path))
    write_identity(disk, "t-1", ID)
    assert LogDirectory(disk).partitions() == [("t-1", "t", 1, "", ID, 0)]
    assert (tmp_path / "notes-1").read_text() == "somebody's"


def test_checkpoints_come_back() -> None:
    disk = VirtualDisk()
    disk.sync(Sync(0, (), LogDirectory(disk).checkpoints({("t", 0): 5}, {("t", 0): 4}, {}, {("t", 0): ID})))
    again = LogDirectory(disk)
    assert (again.recovery_points, again.high_watermarks, again.log_starts) == ({("t", 0): 5}, {("t", 0): 4}, {})
    assert again.faults == []
    disk.corrupt("recovery-point-offset-checkpoint", 0)
    again = LogDirectory(disk)
    assert again.recovery_points == {} and again.high_watermarks == {("t", 0): 4}
    assert len(again.faults) == 1 and "recovery-point-offset-checkpoint" in again.faults[0]


def test_checkpoints_are_not_those_of_a_namesake() -> None:
    disk, key, other = VirtualDisk(), ("t", 0), bytes(16)
    directory = LogDirectory(disk)
    disk.sync(Sync(0, (), directory.checkpoints({key: 5}, {key: 4}, {key: 3}, {key: ID})))
    assert LogDirectory(disk).checkpointed(key, ID) == (5, 4, 3, -1)
    assert LogDirectory(disk).checkpointed(key, other) == (0, 0, 0, -1)
    assert LogDirectory(disk).checkpointed(("t", 1), ID) == (0, 0, 0, -1)
    for done in range(1, 5):  # the namesake's, cut short after so many files
        disk.sync(Sync(0, (), directory.checkpoints({key: 8}, {key: 7}, {key: 6}, {key: other})[:done]))
        assert LogDirectory(disk).checkpointed(key, other) == ((8, 7, 6, -1) if done == 4 else (0, 0, 0, -1))
        directory.forget_written()
    disk.corrupt("topic-id-checkpoint", 0)
    assert LogDirectory(disk).checkpointed(key, other) == (0, 0, 0, -1)
    disk.remove("topic-id-checkpoint")  # as Apache Kafka leaves a directory
    assert LogDirectory(disk).checkpointed(key, other) == (8, 7, 6, -1)


def test_topic_ids_are_written_when_they_change_or_may_be_lost() -> None:
    directory = LogDirectory(VirtualDisk())
    ids = {("t", 0): ID}
    assert [len(directory.checkpoints({}, {}, {}, one)) for one in (ids, ids, {}, ids)] == [4, 3, 4, 4]
    directory.forget_written()
    assert len(directory.checkpoints({}, {}, {}, ids)) == 4


def test_a_clean_stop_is_believed_once() -> None:
    disk = VirtualDisk()
    assert not LogDirectory(disk).clean
    disk.sync(Sync(0, (), [LogDirectory(disk).clean_shutdown(77)]))
    assert bytes(disk.files[".kafka_cleanshutdown"].data) == b'{"version":0,"brokerEpoch":77}'
    first, second = LogDirectory(disk), LogDirectory(disk)
    assert (first.clean, first.broker_epoch) == (True, 77)
    assert (second.clean, second.broker_epoch) == (False, -1)


def test_an_empty_mark_of_a_clean_stop_has_no_epoch() -> None:
    disk = VirtualDisk()
    disk.replace(".kafka_cleanshutdown", b"")
    found = LogDirectory(disk)
    assert (found.clean, found.broker_epoch) == (True, -1)


def test_what_the_checkpoints_say_of_a_log_is_not_for_its_successor() -> None:
    """The same topic id: the replica was moved away and back, and a kill came before the next checkpoint."""
    disk, key = VirtualDisk(), ("t", 0)
    directory = LogDirectory(disk)
    first = PartitionLog(disk, "t-0", settings(), ID, instance=directory.next_instance())
    put(first, build())
    flush(first)
    offsets = {key: 1}
    ids = {key: identity(ID, first.instance)}
    disk.sync(Sync(0, (), directory.checkpoints(offsets, offsets, offsets, ids, offsets)))
    directory = LogDirectory(disk)
    assert directory.partitions()[0].instance == first.instance == 1
    assert directory.checkpointed(key, ID, 1) == (1, 1, 1, 1)
    disk.remove("t-0")
    second = PartitionLog(disk, "t-0", settings(), ID, instance=directory.next_instance())
    put(second, build())
    flush(second)
    directory = LogDirectory(disk)
    found = directory.partitions()[0]
    assert found.topic_id == ID and found.instance == second.instance == 2
    assert directory.checkpointed(key, ID, found.instance) == (0, 0, 0, -1)
    assert directory.had(key, ID), "that there was a replica of the topic it says still"
    assert directory.next_instance() == 3
    disk.remove("t-0")
    assert LogDirectory(disk).next_instance() == 2, "the checkpoints know of the first one"


@pytest.mark.parametrize("rotted", [5 | 1 << 63, (1 << 63) - 1, 1 << 70], ids=["high bit", "highest", "longer"])
def test_a_log_that_begins_is_found_again_whatever_the_checkpoints_say(rotted: int) -> None:
    """A bit that rots in the file may make an instance that no partition.metadata can have."""
    disk = VirtualDisk()
    disk.replace("topic-id-checkpoint", encode_ids({("t", 0): ID + rotted.to_bytes(9, "big").lstrip(b"\0")}))
    instance = LogDirectory(disk).next_instance()
    write_identity(disk, "t-1", ID, instance)
    assert read_identity(disk, "t-1") == (ID, instance)


@pytest.mark.parametrize("number", ["-1", "x", "", str(1 << 63)])
def test_an_instance_that_is_none_makes_the_file_unreadable(number: str) -> None:
    disk = VirtualDisk()
    write_identity(disk, "t-0", ID, 5)
    whole = bytes(disk.files["t-0/partition.metadata"].data)
    assert read_identity(disk, "t-0") == (ID, 5)
    disk.replace("t-0/partition.metadata", whole.replace(b"instance: 5", b"instance: " + number.encode()))
    assert read_identity(disk, "t-0") == (None, 0)
