"""Records of a streams group in `__consumer_offsets`: Apache Kafka's bytes, both ways, and what cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.broker.groups.streams.answers import Endpoint, Tasks
from actors.broker.groups.streams.records import CURRENT, KEYS, VALUES, keys, read, record, replay
from actors.broker.groups.streams.state import Current, Description, Member, MemberState, OwnedTasks, StreamsGroup
from actors.broker.groups.streams.topology import Copartition, Subtopology, Topic, Topology
from actors.wire.errors import WireError

GOLDEN = Path(__file__).parents[4] / "golden" / "kafka-4.3.1" / "streams_groups" / "records.txt"
ROWS = [line.split() for line in GOLDEN.read_text().splitlines()]
OLD = ("current-without-epochs", "target-epoch-without-time")
"""Written by Kafka before 4.3: read, and written in the present form."""


def replayed(*names: str) -> StreamsGroup:
    """A group made of the golden records of these names."""
    group = StreamsGroup("g")
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
    group = replayed("member", name) if name in ("current", "target") else replayed(name)
    if name in ("group-gone", "target-epoch-gone"):
        group.gone = True
    assert record(group, line.key) == (raw, None if value == "-" else bytes.fromhex(value))


def test_what_they_say() -> None:
    group = replayed("group", "member", "target-epoch", "target", "current", "topology")
    assert (group.epoch, group.metadata_hash, group.valid_epoch) == (7, 0x1122334455667788, 3)
    assert group.settings == (("num.standby.replicas", "1"),)
    assert (group.target_epoch, group.target_wall_ms) == (7, 1700000000000)
    member = group.members["m"]
    assert member.told == Description(
        "i", "r", "c", "/127.0.0.1", 300000, 3, "p", Endpoint("h", 50000), (("zone", "a"),)
    )
    assert group.targets == {
        "m": Tasks({"0": frozenset((0, 2)), "1": frozenset((1,))}, {"1": frozenset((0,))}, {"2": frozenset((5,))})
    }
    assert member.current == Current(
        7,
        6,
        MemberState.UNREVOKED_TASKS,
        OwnedTasks({"0": {0: 5, 2: 7}}, {"1": frozenset((0,))}, {"2": frozenset((5,))}),
        OwnedTasks({"1": {1: 6}}, {"1": frozenset((2,))}, {"2": frozenset((6,))}),
    )
    repartition = Topic("app-words-repartition", 4, 0, (("retention.ms", "-1"),))
    changelog = Topic("app-counts-changelog", 0, 3, (("cleanup.policy", "compact"),))
    together = Copartition((0, 1), (0,), (0,))
    assert group.topology == Topology(
        3,
        (
            Subtopology("0", ("lines",), (), (), ("app-words-repartition",), (), ()),
            Subtopology("1", ("left", "right"), ("more.*",), (changelog,), (), (repartition,), (together,)),
        ),
    )


def test_what_earlier_versions_wrote() -> None:
    group = replayed("current-without-epochs", "target-epoch-without-time")
    assert group.members["m"].current.assigned.active == {"0": {0: 7, 2: 7}}, "the member's own epoch stands for all"
    assert (group.target_epoch, group.target_wall_ms) == (7, 0)


def test_a_state_of_a_later_version_is_told_as_unknown() -> None:
    raw, value = next((bytes.fromhex(row[1]), bytearray.fromhex(row[2])) for row in ROWS if row[0] == "current")
    value[10] = 5
    line = read(CURRENT, raw, bytes(value))
    group = StreamsGroup("g")
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
    group = replayed("group", "member", "target-epoch", "target", "current", "topology")
    group.gone = True
    removed = [record(group, key) for key in keys(group)]
    assert {int.from_bytes(key[:2], "big") for key, _ in removed} == set(VALUES)
    assert all(value is None for _, value in removed)
    assert removed[-1][0] == bytes.fromhex("0011000167")


@given(st.sampled_from(sorted(VALUES)), st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_no_bytes_break_it(kind: int, key: bytes, value: bytes | None) -> None:
    try:
        line = read(kind, kind.to_bytes(2, "big") + key, value)
    except WireError:
        return
    group = StreamsGroup("g")
    replay(group, line.key, line.data)
    group.index()


def test_members_that_are_left_of_a_torn_write_have_each_active_task_once() -> None:
    group = StreamsGroup("g")
    group.epoch = 3
    stable = MemberState.STABLE
    group.members["a"] = Member("a", current=Current(3, 2, stable, OwnedTasks({"0": {0: 1, 1: 1}}), OwnedTasks()))
    group.members["b"] = Member("b", current=Current(5, 4, stable, OwnedTasks({"0": {1: 5}}), OwnedTasks()))
    for id, member in group.members.items():
        member.told = member.told._replace(process_id=id)
    assert group.index() == ["a"]
    assert group.members["a"].current.assigned == OwnedTasks({"0": {0: 1}})
    assert group.has("active", "0", 1, "b") and not group.has("active", "0", 1, "a")
    assert group.epoch == 5, "no epoch is given out twice"
    group.check()


def test_all_kinds_have_a_key() -> None:
    assert set(VALUES) < set(KEYS)
