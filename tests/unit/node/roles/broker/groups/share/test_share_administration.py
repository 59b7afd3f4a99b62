"""Share groups over the wire: members, what is shown of them, and what administrators do (KIP-932)."""

from typing import Any

import pytest

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.initialization import LOOK_MS
from actors.metadata import ops
from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.groups.share.cluster import (
    IDS,
    SESSION_MS,
    Member,
    all_of,
    call,
    described,
    made,
    offsets,
)
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab


def test_a_member_gets_all_partitions_once_they_have_begun() -> None:
    lab = made()
    member = Member(lab, "a")
    first = member.beat()
    assert (first.error_code, first.member_epoch, first.member_id) == (0, 2, "a")
    assert member.interval_ms == 100, "it is told to come back soon"
    assert member.settle() == all_of(0, 1)
    assert member.epoch == 3 and member.interval_ms == 5_000
    quiet = member.beat()
    assert quiet.assignment is None, "nothing is new"
    assert set(lab.broker(2).share_state.machine.shards[0].entries) == {("g", TOPIC_ID, 0), ("g", TOPIC_ID, 1)}


class Untouchable(dict):  # type: ignore[type-arg]
    """Nobody may go through it."""

    def values(self) -> Any:
        raise AssertionError("an ordinary heartbeat goes through all targets")

    def items(self) -> Any:
        raise AssertionError("an ordinary heartbeat goes through all of them")


def test_an_ordinary_heartbeat_looks_at_no_other_member_and_at_no_topic() -> None:
    lab = made()
    members = [Member(lab, id) for id in "abc"]
    for member in (*members, *members):
        member.settle()
    groups = lab.broker(1).groups
    group = groups.machine.find("g")
    group.targets, group.initialized = Untouchable(group.targets), Untouchable(group.initialized)
    groups.topics.named = lambda name: 1 / 0
    for member in members:
        assert member.beat().error_code == 0


def test_members_share_partitions_where_there_are_more_members() -> None:
    lab = made()
    members = [Member(lab, id) for id in "abc"]
    for member in members:
        member.settle()
    for member in members:
        member.settle()
    assert sorted(number for member in members for number in member.assigned[TOPIC_ID]) in ([0, 0, 1, 1], [0, 1, 1])
    assert all(member.assigned for member in members)
    assert {member.epoch for member in members} == {members[0].epoch}


def test_who_leaves_and_who_is_silent_is_gone() -> None:
    lab = made()
    members = [Member(lab, id) for id in "ab"]
    for member in (*members, *members):
        member.settle()
    assert members[0].leave() is ErrorCode.NONE
    assert members[1].settle() == all_of(0, 1)
    assert described(lab).group_state == "Stable"
    lab.pass_ms(SESSION_MS + 100)
    shown = described(lab)
    assert shown.group_state == "Empty" and not shown.members
    assert members[1].beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert members[1].beat(epoch=0).error_code == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"epoch": 99}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "x" * 37}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "b"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "h"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "", "epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": "", "epoch": 0}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "topics": ()}, ErrorCode.INVALID_REQUEST),
        ({"topics": ("x" * 250,)}, ErrorCode.INVALID_REQUEST),
        ({"topics": ("x" * 249,) * 1_053}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": "r" * 1025}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_with_a_heartbeat_is_said(fields: dict, code: ErrorCode) -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    reply = member.beat(**fields)
    assert reply.error_code == code and reply.error_message


def test_the_epoch_before_is_taken_since_the_answer_may_have_been_lost() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    assert member.epoch == 3
    assert member.beat(epoch=2).error_code == 0


def test_nothing_of_it_is_there_before_share_version_1() -> None:
    lab = made(version=0)
    assert Member(lab, "a").beat().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(lab).error_code == ErrorCode.UNSUPPORTED_VERSION
    served = call(
        lab, "ApiVersions", 4, message("ApiVersionsRequest")(client_software_name="c", client_software_version="1")
    )
    assert 76 not in {one.api_key for one in served.api_keys}


def test_a_group_is_full_at_its_size() -> None:
    lab = made(group_share_max_size="2")
    for id in "ab":
        assert Member(lab, id).beat().error_code == 0
    assert Member(lab, "c").beat().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_topics_that_come_grow_and_go_change_the_assignment() -> None:
    lab = made()
    other = b"\7" * 16
    member = Member(lab, "a", ("t", "u"))
    assert member.settle() == all_of(0, 1)
    lab.topic([2, 1], "u", other)
    assert member.settle() == all_of(0, 1) | {other: [0]}
    lab.commit(ops.PartitionsSet(TOPIC_ID, [2], [[2, 1]], [[2, 1]]))
    lab.settle()
    assert member.settle() == all_of(0, 1, 2) | {other: [0]}
    lab.commit(ops.TopicGone(TOPIC_ID))
    lab.settle()
    assert member.settle() == {other: [0]}
    group = lab.broker(1).groups.machine.find("g")
    assert set(group.initialized) == {other}, "of a topic that is gone nothing is remembered"


def test_the_next_coordinator_goes_on() -> None:
    lab = made(brokers=3)
    member = Member(lab, "a")
    member.settle()
    lab.crash(1)
    lab.change([2, 3], 2, topic_id=IDS[OFFSETS_TOPIC])
    lab.settle()
    request = message("ShareGroupHeartbeatRequest")(group_id="g", member_id="a", member_epoch=member.epoch)
    reply = call(lab, "ShareGroupHeartbeat", 1, request, broker=2)
    assert reply.error_code == 0 and reply.member_epoch == member.epoch and reply.assignment is None
    lab.broker(2).groups.machine.find("g").check()


def test_what_share_coordinators_do_not_answer_is_not_asked_twice_at_a_time() -> None:
    lab = made(group_share_initialize_retry_interval_ms="500")
    lab.lost.add("InitializeShareGroupState")
    member = Member(lab, "a")
    for _ in range(5):
        member.beat()
        lab.pass_ms(1_000)
    waiting = lab.broker(1).share_persister._waiting
    assert [len(line) for line in waiting.values()] == [1, 1], "an answer may still come"
    lab.lost.clear()
    lab.pass_ms(2_000)
    assert member.settle() == all_of(0, 1)


def test_what_share_coordinators_have_refused_begins_again() -> None:
    lab = made()
    lab.lost.add("InitializeShareGroupState")
    member = Member(lab, "a")
    member.beat()
    lab.pass_ms(35_000)
    group = lab.broker(1).groups.machine.find("g")
    assert not group.initializing and not group.initialized and not group.way.asked
    lab.lost.clear()
    assert member.settle() == all_of(0, 1)


def test_the_group_is_listed_and_described() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    listed = call(lab, "ListGroups", 5, message("ListGroupsRequest")(types_filter=["share"])).groups
    assert [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed] == [
        ("g", "share", "Stable", "share")
    ]
    shown = described(lab)
    assert (shown.group_state, shown.group_epoch, shown.assignment_epoch, shown.assignor_name) == (
        "Stable",
        3,
        3,
        "simple",
    )
    (one,) = shown.members
    assert (one.member_id, one.member_epoch, one.subscribed_topic_names) == ("a", 3, ["t"])
    assert one.assignment.topic_partitions[0].topic_name == "t"
    assert described(lab, "h").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described(lab, "").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_share_group_is_no_other_kind_of_group() -> None:
    lab = made()
    Member(lab, "a").settle()
    machine = lab.broker(1).groups.machine
    assert machine.commit_error("g", "", None, -1, lab.now) is ErrorCode.GROUP_ID_NOT_FOUND
    lab.commit(ops.FeatureSet("group.version", 1))
    request = message("ConsumerGroupHeartbeatRequest")(
        group_id="g", member_id="x", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    assert call(lab, "ConsumerGroupHeartbeat", 1, request).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    request = request.__class__(
        group_id="c", member_id="x", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"],
        topic_partitions=[],
    )  # fmt: skip
    assert call(lab, "ConsumerGroupHeartbeat", 1, request).error_code == 0
    assert Member(lab, "a", group="c").beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def delete(lab, *groups: str):  # type: ignore[no-untyped-def]
    reply = call(lab, "DeleteGroups", 2, message("DeleteGroupsRequest")(groups_names=list(groups)))
    return {one.group_id: ErrorCode(one.error_code) for one in reply.results}


def test_an_empty_group_is_deleted_with_all_that_is_remembered_of_it() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    assert delete(lab, "g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    member.leave()
    assert delete(lab, "g") == {"g": ErrorCode.NONE}
    assert lab.broker(1).groups.machine.find("g") is None
    assert not lab.broker(2).share_state.machine.shards[0].entries
    lab.broker(1).groups.machine.lost(0)
    lab.broker(1).groups.became_leader(OFFSETS_TOPIC, 0, 1)
    lab.pass_ms(500)
    assert lab.broker(1).groups.machine.find("g") is None, "nothing of it is left in the log"


def test_a_group_whose_state_cannot_be_removed_stays_and_can_be_deleted_later() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    member.leave()
    lab.lost.add("DeleteShareGroupState")
    pending = lab.call(1, "DeleteGroups", 2, message("DeleteGroupsRequest")(groups_names=["g"]))
    lab.pass_ms(1_000)
    assert not pending.done
    assert Member(lab, "b").beat().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE, "it is being deleted"
    lab.pass_ms(35_000)
    assert pending.done and pending.reply.results[0].error_code != 0
    lab.lost.clear()
    assert delete(lab, "g") == {"g": ErrorCode.NONE}
    assert not lab.broker(2).share_state.machine.shards[0].entries


def alter(lab, *parts: tuple[str, int, int], group: str = "g"):  # type: ignore[no-untyped-def]
    kind = message("AlterShareGroupOffsetsRequest")
    topics: dict[str, list] = {}
    for topic, number, offset in parts:
        part = kind.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        topics.setdefault(topic, []).append(part)
    request = kind(
        group_id=group,
        topics=[kind.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=p) for name, p in topics.items()],
    )
    reply = call(lab, "AlterShareGroupOffsets", 0, request)
    if reply.error_code:
        return ErrorCode(reply.error_code)
    return {
        (topic.topic_name, one.partition_index): ErrorCode(one.error_code)
        for topic in reply.responses
        for one in topic.partitions
    }


def test_offsets_of_an_empty_group_are_moved_and_shown() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    assert offsets(lab) == {("t", 0): (-1, -1), ("t", 1): (-1, -1)}, "nothing was read yet"
    assert alter(lab, ("t", 0, 0)) is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert alter(lab, ("t", 0, 0), ("t", 9, 0), ("u", 0, 0), ("t", 1, -5)) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("t", 1): ErrorCode.INVALID_REQUEST,
    }
    assert offsets(lab) == {("t", 0): (0, 0), ("t", 1): (-1, -1)}
    assert offsets(lab, version=0) == {("t", 0): (0, -1), ("t", 1): (-1, -1)}
    kind = message("DescribeShareGroupOffsetsRequest")
    named = [kind.DescribeShareGroupOffsetsRequestTopic(topic_name="u", partitions=[0])]
    assert offsets(lab, topics=named) == {("u", 0): (-1, -1)}
    assert offsets(lab, topics=[]) == {}


def test_the_lag_is_what_is_not_complete() -> None:
    lab = made()
    Member(lab, "a").settle()
    kind = message("WriteShareGroupStateRequest")
    part = kind.PartitionData(
        partition=0, state_epoch=-1, leader_epoch=-1, start_offset=0, delivery_complete_count=2, state_batches=[]
    )
    asked = kind(group_id="g", topics=[kind.WriteStateData(topic_id=TOPIC_ID, partitions=[part])])
    call(lab, "WriteShareGroupState", 1, asked, broker=2)
    assert offsets(lab)["t", 0] == (0, -2), "nothing is in the partition, and two are complete"


def test_a_group_begins_with_its_offsets() -> None:
    lab = made()
    assert alter(lab, ("t", 1, 3), group="new") == {("t", 1): ErrorCode.NONE}
    assert described(lab, "new").group_state == "Empty"
    assert offsets(lab, "new") == {("t", 1): (3, -3)}
    member = Member(lab, "a", group="new")
    assert member.settle() == all_of(0, 1)
    assert offsets(lab, "new")["t", 1][0] == 3, "who joins begins where the group is"


def forget(lab, *topics: str, group: str = "g"):  # type: ignore[no-untyped-def]
    kind = message("DeleteShareGroupOffsetsRequest")
    named = [kind.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    reply = call(lab, "DeleteShareGroupOffsets", 0, kind(group_id=group, topics=named), ms=40_000)
    if reply.error_code:
        return ErrorCode(reply.error_code)
    return {one.topic_name: ErrorCode(one.error_code) for one in reply.responses}


def test_offsets_of_an_empty_group_are_forgotten() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    assert forget(lab, "t") is ErrorCode.NON_EMPTY_GROUP
    member.leave()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert forget(lab, "t", "u") == {"t": ErrorCode.NONE, "u": unknown}
    assert offsets(lab) == {} and not lab.broker(2).share_state.machine.shards[0].entries
    assert forget(lab, "t") == {"t": unknown}, "there is nothing to forget any more"
    assert forget(lab, "t", group="h") is ErrorCode.GROUP_ID_NOT_FOUND
    assert member.beat(epoch=0).error_code == 0
    assert member.settle() == all_of(0, 1), "it begins anew"


def test_what_was_not_forgotten_can_be_named_again() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    member.leave()
    lab.lost.add("DeleteShareGroupState")
    assert forget(lab, "t")["t"] is not ErrorCode.NONE
    assert set(lab.broker(1).groups.machine.find("g").deleting) == {TOPIC_ID}
    lab.lost.clear()
    assert forget(lab, "t") == {"t": ErrorCode.NONE}
    assert not lab.broker(1).groups.machine.find("g").deleting


def test_the_topic_of_share_coordinators_is_made_for_the_first_group() -> None:
    lab = made()
    lab.commit(ops.TopicGone(b"\x08" * 16))
    lab.settle()
    member = Member(lab, "a")
    assert member.settle(20) == all_of(0, 1)
    assert lab.broker(1).cache.image.topic(SHARE_STATE_TOPIC) >= 0


def known(lab: Lab, broker: int = 2) -> list[int]:
    """The partitions that share coordinators remember something of."""
    shards = lab.broker(broker).share_state.machine.shards.values()
    return sorted(key.number for shard in shards for key, entry in shard.entries.items() if entry.state is not None)


def remove_state(lab: Lab, number: int, broker: int = 2) -> None:
    """A removal that comes late, from a coordinator of the group that is one no more."""
    kind = message("DeleteShareGroupStateRequest")
    data = kind.DeleteStateData(topic_id=TOPIC_ID, partitions=[kind.PartitionData(partition=number)])
    reply = call(lab, "DeleteShareGroupState", 0, kind(group_id="g", topics=[data]), broker)
    assert reply.results[0].partitions[0].error_code == 0


def ask_to_forget(lab: Lab, *topics: str) -> Any:
    kind = message("DeleteShareGroupOffsetsRequest")
    named = [kind.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
    return lab.call(1, "DeleteShareGroupOffsets", 0, kind(group_id="g", topics=named))


@pytest.mark.parametrize("cut_ms", [300, 5_000, 40_000])
def test_who_joins_while_a_removal_is_tried_again_begins_behind_it(cut_ms: int) -> None:
    lab = made()
    first = Member(lab, "a")
    first.settle()
    first.leave()
    lab.lost.add("DeleteShareGroupState")
    pending = ask_to_forget(lab, "t")
    lab.pass_ms(200)
    second = Member(lab, "b")
    for _ in range(cut_ms // 100):
        second.beat()
        lab.pass_ms(100)
    assert known(lab) == [0, 1] and not second.assigned
    lab.lost.clear()
    lab.pass_ms(31_000)
    assert pending.done
    assert second.settle(30) == all_of(0, 1) and known(lab) == [0, 1]
    group = lab.broker(1).groups.machine.find("g")
    assert not group.deleting and not group.way.ending and not group.way.asked


def test_an_alteration_behind_a_removal_is_what_holds() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    member.leave()
    lab.lost.add("DeleteShareGroupState")
    removal = ask_to_forget(lab, "t")
    lab.pass_ms(200)
    kind = message("AlterShareGroupOffsetsRequest")
    part = kind.AlterShareGroupOffsetsRequestPartition(partition_index=1, start_offset=7)
    topic = kind.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[part])
    change = lab.call(1, "AlterShareGroupOffsets", 0, kind(group_id="g", topics=[topic]))
    lab.pass_ms(1_000)
    lab.lost.clear()
    lab.pass_ms(3_000)
    assert removal.done and change.done and known(lab) == [1]
    assert offsets(lab) == {("t", 1): (7, -7)}


def test_a_removal_of_what_is_still_to_begin_leaves_nothing_that_has_begun() -> None:
    lab = made(partitions=1)
    member = Member(lab, "a")
    member.settle()
    lab.lost.add("InitializeShareGroupState")
    lab.commit(ops.PartitionsSet(TOPIC_ID, [1], [[2, 1]], [[2, 1]]))
    lab.settle()
    member.beat()
    member.leave()
    removal = ask_to_forget(lab, "t")
    lab.pass_ms(200)
    lab.lost.clear()
    lab.pass_ms(3_000)
    assert removal.done and removal.reply.responses[0].error_code == 0
    group = lab.broker(1).groups.machine.find("g")
    assert not group.initialized and not group.initializing and not group.deleting
    assert Member(lab, "b").settle() == all_of(0, 1) and known(lab) == [0, 1]


def test_what_a_coordinator_that_is_one_no_more_has_asked_is_not_asked_again() -> None:
    lab = made(brokers=3)
    member = Member(lab, "a")
    member.settle()
    member.leave()
    lab.lost.add("DeleteShareGroupState")
    ask_to_forget(lab, "t")
    lab.pass_ms(300)
    lab.change([1, 2, 3], 2, topic_id=IDS[OFFSETS_TOPIC])
    lab.settle()
    lab.pass_ms(1_200)
    assert not lab.broker(1).share_persister._waiting
    request = message("ShareGroupHeartbeatRequest")(
        group_id="g", member_id="b", member_epoch=0, subscribed_topic_names=["t"]
    )
    call(lab, "ShareGroupHeartbeat", 1, request, broker=2)
    group = lab.broker(2).groups.machine.find("g")
    assert TOPIC_ID in group.deleting and group.way.ending, "what is left of the removal comes first"
    lab.lost.clear()
    lab.pass_ms(2_000)
    for _ in range(3):
        request.member_epoch = 0
        call(lab, "ShareGroupHeartbeat", 1, request, broker=2)
        lab.pass_ms(500)
    assert group.assignable(TOPIC_ID) == {0, 1} and not group.deleting and known(lab, 3) == [0, 1]


def test_what_share_coordinators_have_lost_begins_anew() -> None:
    lab = made()
    member = Member(lab, "a")
    member.settle()
    remove_state(lab, 1)
    assert known(lab) == [0]
    lab.pass_ms(LOOK_MS // 2)
    member.beat()
    lab.pass_ms(LOOK_MS // 2)
    for _ in range(4):
        member.beat()
        lab.pass_ms(500)
    assert known(lab) == [0, 1] and member.settle() == all_of(0, 1)


def test_a_new_coordinator_looks_at_what_has_begun_with_the_first_heartbeat() -> None:
    lab = made(brokers=3)
    member = Member(lab, "a")
    member.settle()
    lab.change([1, 2, 3], 2, topic_id=IDS[OFFSETS_TOPIC])
    lab.settle()
    remove_state(lab, 0, 3)
    request = message("ShareGroupHeartbeatRequest")(group_id="g", member_id="a", member_epoch=member.epoch)
    for _ in range(3):
        call(lab, "ShareGroupHeartbeat", 1, request, broker=2)
        lab.pass_ms(500)
    assert known(lab, 3) == [0, 1]
    assert lab.broker(2).groups.machine.find("g").assignable(TOPIC_ID) == {0, 1}


def fetch(lab: Lab, group: str, partitions: int, epoch: int) -> Any:
    kind = message("ShareFetchRequest")
    parts = [kind.FetchPartition(partition_index=number) for number in range(partitions)]
    topics = [] if epoch else [kind.FetchTopic(topic_id=TOPIC_ID, partitions=parts)]
    request = kind(
        group_id=group, member_id="m", share_session_epoch=epoch, max_wait_ms=0, min_bytes=1, max_bytes=1000,
        max_records=10, batch_size=10, topics=topics,
    )  # fmt: skip
    pending = lab.call(2, "ShareFetch", 1, request, connection=9)
    lab.pass_ms(300)
    return pending


def test_who_fetches_for_a_group_that_has_not_begun_writes_nothing_into_the_log() -> None:
    lab = made(partitions=50)
    lab.settle()
    before = len(lab.nodes[2].log.lines)
    for epoch in range(3):
        pending = fetch(lab, "nobody", 50, epoch)
        assert pending.done, epoch
    said = [line for line in lab.nodes[2].log.lines[before:] if "nobody" in line]
    assert not said


def test_what_fails_for_many_share_partitions_at_once_is_one_line() -> None:
    lab = made(partitions=50)
    Member(lab, "m").settle()
    lab.broker(2).share_state.machine.shards[0].strange.update(
        {SharePartitionKey("g", TOPIC_ID, number): "a value of version 9" for number in range(50)}
    )
    fetch(lab, "g", 50, 0)
    (said,) = [line for line in lab.nodes[2].log.lines if "its state cannot be read" in line]
    assert "share group 'g'" in said and "and 49 other partitions" in said and "version 9" in said


@pytest.mark.parametrize("numbers", [[[0], [0]], [[0, 1], [1, 0, 1]], [[7]], [[0, 7, -1], [7]], [[2**31 - 1], [1]]])
def test_however_partitions_are_named_each_is_answered_once_and_at_once(numbers: list[list[int]]) -> None:
    lab = made()
    Member(lab, "a").settle()
    kind = message("DescribeShareGroupOffsetsRequest")
    topics = [kind.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=one) for one in numbers]
    asked = kind.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics)
    pending = lab.call(1, "DescribeShareGroupOffsets", 1, kind(groups=[asked]))
    lab.settle()
    lab.pass_ms(50)
    (group,) = pending.reply.groups
    shown = [(one.partition_index, one.start_offset, one.error_code) for one in group.topics[0].partitions]
    assert len(group.topics) == 1
    assert shown == [(number, -1, 0) for number in dict.fromkeys(number for one in numbers for number in one)]
