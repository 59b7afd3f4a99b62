"""Records of a share group in `__consumer_offsets`: Apache Kafka's bytes, both ways, and what cannot be read."""

from pathlib import Path

import pytest

from actors.broker.groups.share.records import NAMES, RecordKey, keys, read, record, replay
from actors.broker.groups.share.state import Begun, ShareGroup, Subscription
from actors.wire.errors import WireError

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka-4.3.1" / "share_group_state" / "groups.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
TOPIC, OTHER = bytes(range(1, 17)), b"\x11" + bytes(range(2, 17))


def replayed(*names: str) -> ShareGroup:
    """A group made of the golden records of these names."""
    group = ShareGroup("g")
    for name, key, value in ROWS:
        if name in names:
            raw = bytes.fromhex(key)
            line = read(int.from_bytes(raw[:2], "big"), raw, None if value == "-" else bytes.fromhex(value))
            group.id = line.group
            replay(group, line.key, line.data)
    return group


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_apache_kafkas_records_are_read_and_written(row: list[str]) -> None:
    name, key, value = row
    raw = bytes.fromhex(key)
    line = read(int.from_bytes(raw[:2], "big"), raw, None if value == "-" else bytes.fromhex(value))
    group = replayed(name)
    if name in ("group-gone", "target-epoch-gone"):
        group.gone = True
    assert record(group, line.key) == (raw, None if value == "-" else bytes.fromhex(value))


def test_every_kind_of_record_is_among_them() -> None:
    assert {int(key[:4], 16) for _, key, _ in ROWS} == set(NAMES)


def test_what_they_say() -> None:
    group = replayed("group", "member", "target-epoch", "target", "current", "state")
    group.index()
    group.check()
    assert (group.epoch, group.metadata_hash) == (7, 0x1122334455667788)
    assert (group.target_epoch, group.target_wall_ms) == (7, 1700000000000)
    assert group.targets == {"m": {TOPIC: frozenset((0, 3))}}
    member = group.members["m"]
    assert member.subscription == Subscription("r", "c", "/127.0.0.1", ("t", "u"))
    assert (member.epoch, member.previous_epoch, member.assigned) == (7, 6, {TOPIC: frozenset((0, 3))})
    assert group.initializing == {TOPIC: Begun("t", frozenset((2,)))}
    assert group.initialized == {TOPIC: Begun("t", frozenset((0, 1)))}
    assert group.deleting == {OTHER: "u"}


def test_a_removal_leaves_nothing() -> None:
    names = [row[0] for row in ROWS if row[0] != "member-plain"]
    group = replayed(*(name for name in names if not name.endswith("-gone")))
    removed = [record(group, key)[0] for key in keys(group)]
    assert sorted(removed) == sorted({bytes.fromhex(key) for name, key, _ in ROWS if name != "member-plain"})
    for key in keys(group):
        replay(group, key, None)
    assert not (group.members or group.targets or group.initializing or group.initialized or group.deleting)


@pytest.mark.parametrize("row", [row for row in ROWS if row[2] != "-"], ids=lambda row: str(row[0]))
def test_what_is_cut_or_of_later_software_cannot_be_read(row: list[str]) -> None:
    key, value = bytes.fromhex(row[1]), bytes.fromhex(row[2])
    kind = int.from_bytes(key[:2], "big")
    for bad in (value[:-1], b"\0\1" + value[2:]):
        with pytest.raises(WireError):
            read(kind, key, bad)
    with pytest.raises(WireError):
        read(kind, key + b"x", value)


def test_no_epoch_is_behind_one_that_was_given_out() -> None:
    group = replayed("member", "current")
    group.index()
    group.check()
    assert group.epoch == 7, "the log stopped before the group's own record"


def test_a_target_without_its_member_is_left_out() -> None:
    group = replayed("target", "target-epoch")
    group.index()
    assert group.targets == {} and RecordKey(13, "m") not in keys(group)
