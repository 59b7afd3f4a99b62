"""Records of a consumer group in `__consumer_offsets`: Apache Kafka's bytes, both ways, and what cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.consumer.records import CURRENT, KEYS, VALUES, RecordKey, keys, read, record, replay
from actors.broker.groups.consumer.state import ConsumerGroup, Current, Member, MemberState, Resolved, Subscription
from actors.wire.errors import WireError

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka-4.3.1" / "consumer_groups" / "records.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
OLD = ("group-without-hash", "current-without-epochs", "partition-metadata")
"""Written by Kafka before 4.3: read, and written in the present form."""
TOPIC = bytes(range(1, 17))


def replayed(*names: str) -> ConsumerGroup:
    """A group made of the golden records of these names."""
    group = ConsumerGroup("g")
    for name, key, value in ROWS:
        if name in names:
            raw = bytes.fromhex(key)
            line = read(int.from_bytes(raw[:2], "big"), raw, None if value == "-" else bytes.fromhex(value))
            group.id = line.group
            replay(group, line.key, line.data)
    return group


@pytest.mark.parametrize("row", [row for row in ROWS if row[0] not in OLD], ids=lambda row: str(row[0]))
def test_apache_kafkas_records_are_read_and_written(row: list[str]) -> None:
    name, key, value = row
    raw = bytes.fromhex(key)
    line = read(int.from_bytes(raw[:2], "big"), raw, None if value == "-" else bytes.fromhex(value))
    group = replayed(name, "member" if line.key.kind in (7, 8) and value != "-" else name)
    if name == "group-gone" or name == "target-epoch-gone":
        group.gone = True
    assert record(group, line.key) == (raw, None if value == "-" else bytes.fromhex(value))


def test_what_they_say() -> None:
    group = replayed("group", "member", "target-epoch", "target", "current", "regex")
    assert (group.epoch, group.metadata_hash) == (7, 0x1122334455667788)
    assert (group.target_epoch, group.target_wall_ms) == (7, 1700000000000)
    assert group.targets == {"m": {TOPIC: frozenset((0, 3))}}
    assert group.resolved == {"t.*": Resolved(frozenset(("t", "t2")), 42, 1700000000000)}
    member = group.members["m"]
    assert member.subscription == Subscription("i", "r", "c", "/127.0.0.1", ("t", "u"), "t.*", 300000, "range")
    unrevoked = MemberState.UNREVOKED_PARTITIONS
    assert member.current == Current(7, 6, unrevoked, {TOPIC: {0: 5, 3: 7}}, {TOPIC: {1: 6}})


def test_what_earlier_versions_wrote() -> None:
    group = replayed("group-without-hash", "partition-metadata", "current-without-epochs")
    assert (group.epoch, group.metadata_hash, group.has_partition_metadata) == (1, 0, True)
    assert group.members["m"].current.assigned == {TOPIC: {0: 7, 3: 7}}, "the member's own epoch stands for all"


def test_a_state_of_a_later_version_is_told_as_unknown() -> None:
    raw = next(bytes.fromhex(row[1]) for row in ROWS if row[0] == "current-without-epochs")
    value = bytearray(next(bytes.fromhex(row[2]) for row in ROWS if row[0] == "current-without-epochs"))
    value[10] = 5
    line = read(CURRENT, raw, bytes(value))
    group = ConsumerGroup("g")
    replay(group, line.key, line.data)
    assert group.members["m"].current.state is MemberState.UNKNOWN


@pytest.mark.parametrize("row", [row for row in ROWS if row[2] != "-"], ids=lambda row: str(row[0]))
def test_values_of_later_versions_and_torn_ones_are_refused(row: list[str]) -> None:
    raw, value = bytes.fromhex(row[1]), bytes.fromhex(row[2])
    kind = int.from_bytes(raw[:2], "big")
    with pytest.raises(WireError):
        read(kind, raw, b"\0\1" + value[2:])
    with pytest.raises(WireError):
        read(kind, raw, value[:3])
    with pytest.raises(WireError):
        read(kind, raw[:-1], value)


def test_every_key_of_a_group_is_removed_with_it_and_its_own_last() -> None:
    group = replayed("group", "partition-metadata", "member", "target-epoch", "target", "current", "regex")
    group.gone = True
    removed = [record(group, key) for key in keys(group)]
    assert {int.from_bytes(key[:2], "big") for key, _ in removed} == set(VALUES)
    assert all(value is None for _, value in removed)
    assert removed[-1][0] == bytes.fromhex("0003000167")


@given(st.sampled_from(sorted(VALUES)), st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_no_bytes_break_it(kind: int, key: bytes, value: bytes | None) -> None:
    try:
        line = read(kind, kind.to_bytes(2, "big") + key, value)
    except WireError:
        return
    group = ConsumerGroup("g")
    replay(group, line.key, line.data)
    group.index()
    group.check()


def test_members_that_are_left_of_a_torn_write_hold_each_partition_once() -> None:
    group = ConsumerGroup("g")
    group.epoch = 3
    stable = MemberState.STABLE
    group.members["a"] = Member("a", current=Current(3, 2, stable, {TOPIC: {0: 1, 1: 1}}, {}))
    group.members["b"] = Member("b", current=Current(5, 4, stable, {TOPIC: {1: 5}}, {}))
    assert group.index() == ["a"]
    assert group.members["a"].current.assigned == {TOPIC: {0: 1}}
    assert group.holder(TOPIC, 1) == "b"
    assert group.epoch == 5, "no epoch is given out twice"
    group.check()


def test_all_kinds_have_a_key() -> None:
    assert set(VALUES) < set(KEYS)
    assert RecordKey(5, "m") == (5, "m")
