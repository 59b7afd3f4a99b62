"""Requests of members of KIP-848 through a broker, as bytes: heartbeats, describing, listing, offsets, settings."""

from typing import Any

import pytest

from actors.broker.groups.consumer.next_heartbeat import AFTER_MS
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

OFFSETS, OFFSETS_ID = "__consumer_offsets", b"\5" * 16
OTHER_ID = b"\6" * 16


def cluster(level: int = 1, **settings: str) -> Lab:
    """One broker, a topic t of 2 partitions."""
    lab = Lab(1, {"offsets.topic.num.partitions": "1", **settings})
    lab.topic([1], partitions=2)
    lab.topic([1], OFFSETS, OFFSETS_ID)
    if level:
        lab.commit(ops.FeatureSet("group.version", level))
    lab.settle()
    return lab


def ask(lab: Lab, name: str, version: int, **fields: Any) -> Any:
    pending = lab.call(1, name, version, message(f"{name}Request")(**fields))
    lab.settle()
    assert pending.done and pending.reply is not None, f"{name} is not answered"
    return pending.reply


def beat(lab: Lab, member: str, epoch: int, owned: dict[bytes, list[int]] | None = None, **fields: Any) -> Any:
    kind = message("ConsumerGroupHeartbeatRequest")
    parts = None
    if owned is not None:
        parts = [kind.TopicPartitions(topic_id=id, partitions=numbers) for id, numbers in owned.items()]
    given = {"group_id": "g", "member_id": member, "member_epoch": epoch, "topic_partitions": parts, **fields}
    return ask(lab, "ConsumerGroupHeartbeat", fields.pop("version", 1), **given)


def join(lab: Lab, member: str, *topics: str, **fields: Any) -> Any:
    return beat(lab, member, 0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=list(topics), **fields)


def given(reply: Any) -> dict[bytes, list[int]] | None:
    assert reply.error_code == 0, reply.error_message
    if reply.assignment is None:
        return None
    return {one.topic_id: list(one.partitions) for one in reply.assignment.topic_partitions}


def commit(lab: Lab, member: str, epoch: int, partition: int = 0, version: int = 9) -> ErrorCode:
    kind = message("OffsetCommitRequest")
    one = kind.OffsetCommitRequestPartition(partition_index=partition, committed_offset=3)
    topic = kind.OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[one])
    reply = ask(
        lab,
        "OffsetCommit",
        version,
        group_id="g",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[topic],
    )
    return ErrorCode(reply.topics[0].partitions[0].error_code)


def fetch(lab: Lab, member: str | None, epoch: int) -> ErrorCode | int:
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = kind.OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=[topic])
    reply = ask(lab, "OffsetFetch", 9, groups=[group]).groups[0]
    return ErrorCode(reply.error_code) if reply.error_code else int(reply.topics[0].partitions[0].committed_offset)


def listed(lab: Lab, **fields: Any) -> list[tuple[str, str, str, str]]:
    reply = ask(lab, "ListGroups", 5, **fields)
    return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in reply.groups]


def described(lab: Lab, *ids: str) -> list[Any]:
    return list(ask(lab, "ConsumerGroupDescribe", 1, group_ids=list(ids)).groups)


def test_members_join_get_partitions_and_are_described() -> None:
    lab = cluster()
    first = join(lab, "a", "t", instance_id="one", rack_id="r")
    assert (first.member_id, first.member_epoch, first.heartbeat_interval_ms) == ("a", 2, 1000 + AFTER_MS)
    assert given(first) == {TOPIC_ID: [0, 1]}
    assert given(join(lab, "b", "t")) == {}
    lab.pass_ms(1100)
    assert given(beat(lab, "a", 2, {TOPIC_ID: [0, 1]}, instance_id="one")) == {TOPIC_ID: [0]}
    newer, older = described(lab, "g")[0].members
    assert [part.partitions for part in older.assignment.topic_partitions] == [[0, 1]], "it holds both until it says so"
    assert not newer.assignment.topic_partitions
    assert given(beat(lab, "a", 2, {TOPIC_ID: [0]}, instance_id="one")) is None
    assert given(beat(lab, "b", 2, {})) == {TOPIC_ID: [1]}
    group, missing = described(lab, "g", "x")
    assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 3, 3)
    assert group.assignor_name == "uniform"
    member = next(one for one in group.members if one.member_id == "a")
    assert (member.instance_id, member.rack_id, member.client_id, member.client_host) == (
        "one",
        "r",
        "client",
        "/127.0.0.1",
    )
    assert (member.member_epoch, member.member_type, list(member.subscribed_topic_names)) == (3, 1, ["t"])
    for shown in (member.assignment, member.target_assignment):
        assert [(one.topic_name, list(one.partitions)) for one in shown.topic_partitions] == [("t", [0])]
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")


def test_groups_are_listed_by_type_and_state() -> None:
    lab = cluster()
    join(lab, "a", "t")
    kind = message("OffsetCommitRequest")
    one = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[one])
    ask(lab, "OffsetCommit", 8, group_id="c", generation_id_or_member_epoch=-1, topics=[topic])
    new, old = ("g", "consumer", "Stable", "consumer"), ("c", "", "Empty", "classic")
    assert sorted(listed(lab)) == sorted((old, new))
    assert listed(lab, types_filter=["Consumer"]) == [new]
    assert listed(lab, types_filter=["classic"]) == [old]
    assert listed(lab, states_filter=["stable"]) == [new]
    assert listed(lab, types_filter=["share"]) == []


def test_a_consumer_group_is_described_as_one_only() -> None:
    lab = cluster()
    join(lab, "a", "t")
    found = ask(lab, "DescribeGroups", 6, groups=["g"]).groups[0]
    assert (found.error_code, found.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
    assert ask(lab, "DescribeGroups", 5, groups=["g"]).groups[0].group_state == "Dead"


def test_nothing_of_it_is_there_before_group_version_1() -> None:
    lab = cluster(level=0)
    assert join(lab, "a", "t").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(lab, "g")[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    fields = {"client_software_name": "c", "client_software_version": "1"}
    keys = {one.api_key for one in ask(lab, "ApiVersions", 4, **fields).api_keys}
    assert not keys & {68, 69}
    lab.commit(ops.FeatureSet("group.version", 1))
    lab.settle()
    keys = {one.api_key for one in ask(lab, "ApiVersions", 4, **fields).api_keys}
    assert keys >= {68, 69}
    assert join(lab, "a", "t").error_code == 0


def test_a_broker_may_leave_the_protocol_out() -> None:
    lab = cluster(**{"group.coordinator.rebalance.protocols": "classic"})
    assert join(lab, "a", "t").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_members_commit_and_fetch_offsets_in_their_epoch() -> None:
    lab = cluster()
    join(lab, "a", "t")
    assert commit(lab, "a", 2) is ErrorCode.NONE
    assert commit(lab, "a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(lab, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab, "a", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert fetch(lab, "a", 2) == 3
    assert fetch(lab, None, -1) == 3
    assert fetch(lab, "a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch(lab, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_earlier_epoch_commits_only_what_was_held_since() -> None:
    lab = cluster()
    join(lab, "a", "t")
    join(lab, "b", "t")
    lab.pass_ms(1100)
    beat(lab, "a", 2, {TOPIC_ID: [0]})
    assert commit(lab, "a", 2, 0) is ErrorCode.NONE
    assert commit(lab, "a", 2, 1) is ErrorCode.STALE_MEMBER_EPOCH


def test_offsets_of_a_topic_that_a_member_subscribes_to_stay_and_the_group_is_not_deleted() -> None:
    lab = cluster()
    join(lab, "a", "t")
    commit(lab, "a", 2)
    kind = message("OffsetDeleteRequest")
    part = kind.OffsetDeleteRequestPartition(partition_index=0)
    topic = kind.OffsetDeleteRequestTopic(name="t", partitions=[part])
    reply = ask(lab, "OffsetDelete", 0, group_id="g", topics=[topic])
    assert reply.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert ask(lab, "DeleteGroups", 2, groups_names=["g"]).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert beat(lab, "a", -1).member_epoch == -1
    assert ask(lab, "DeleteGroups", 2, groups_names=["g"]).results[0].error_code == 0
    assert listed(lab) == []
    assert fetch(lab, None, -1) == -1


def test_a_topic_that_grows_or_comes_is_in_the_next_heartbeats() -> None:
    lab = cluster()
    join(lab, "a", "t", "u")
    lab.pass_ms(1100)
    lab.topic([1], "u", OTHER_ID)
    reply = beat(lab, "a", 2, {TOPIC_ID: [0, 1]})
    assert given(reply) == {TOPIC_ID: [0, 1], OTHER_ID: [0]}


def test_a_member_that_is_silent_is_removed_after_the_groups_own_session() -> None:
    lab = cluster(**{"group.consumer.max.session.timeout.ms": "90000"})
    lab.commit(ops.ConfigSet(32, "g", "consumer.session.timeout.ms", "80000"))
    join(lab, "a", "t")
    lab.pass_ms(79_000, 1_000)
    assert len(described(lab, "g")[0].members) == 1
    lab.pass_ms(2_000, 1_000)
    assert described(lab, "g")[0].members == []


def test_settings_of_a_group_are_told_and_listed() -> None:
    lab = cluster()
    lab.commit(ops.ConfigSet(32, "g", "consumer.heartbeat.interval.ms", "7000"))
    kind = message("DescribeConfigsRequest")
    resource = kind.DescribeConfigsResource(resource_type=32, resource_name="g", configuration_keys=None)
    shown = ask(lab, "DescribeConfigs", 4, resources=[resource]).results[0]
    values = {one.name: (one.value, one.config_source) for one in shown.configs}
    assert values["consumer.heartbeat.interval.ms"] == ("7000", 8)
    assert values["consumer.session.timeout.ms"] == ("45000", 5)
    names = ask(lab, "ListConfigResources", 1, resource_types=[32]).config_resources
    assert [(one.resource_name, one.resource_type) for one in names] == [("g", 32)]
    join(lab, "a", "t")
    lab.pass_ms(1_000, 1_000)
    assert beat(lab, "a", 2).heartbeat_interval_ms == 7000


@pytest.mark.parametrize("regex", ["t.*", "(t|u)"])
def test_a_regular_expression_brings_topics(regex: str) -> None:
    lab = cluster()
    beat(lab, "a", 0, {}, rebalance_timeout_ms=1, subscribed_topic_regex=regex)
    assert given(beat(lab, "a", 1, {})) == {TOPIC_ID: [0, 1]}


def test_another_broker_goes_on_with_the_group() -> None:
    lab = Lab(2, {"offsets.topic.num.partitions": "1"})
    lab.topic([1, 2], partitions=2)
    lab.topic([1, 2], OFFSETS, OFFSETS_ID)
    lab.commit(ops.FeatureSet("group.version", 1))
    lab.settle()
    assert given(join(lab, "a", "t")) == {TOPIC_ID: [0, 1]}
    lab.change([1, 2], 2, topic_id=OFFSETS_ID)
    lab.settle()
    assert beat(lab, "a", 2).error_code == ErrorCode.NOT_COORDINATOR
    pending = lab.call(
        2, "ConsumerGroupHeartbeat", 1,
        message("ConsumerGroupHeartbeatRequest")(group_id="g", member_id="a", member_epoch=2),
    )  # fmt: skip
    lab.settle()
    assert pending.reply is not None and (pending.reply.error_code, pending.reply.member_epoch) == (0, 2)


def test_the_interval_of_assignments_may_be_changed_while_a_broker_runs_and_is_kept_within_its_bounds() -> None:
    lab = cluster(**{"group.consumer.max.assignment.interval.ms": "2000"})
    name = "group.consumer.assignment.interval.ms"
    groups = lab.broker(1).groups

    def counts(group: str = "g") -> int:
        return groups.machine.settings.consumer.config(group).assignment_interval_ms

    assert counts() == 1000
    for resource, text, ms in (
        ("", "1500", 1500),
        ("1", "0", 0),
        ("1", "3000", 2000),
        ("1", None, 1500),
        ("", None, 1000),
    ):
        lab.commit(ops.ConfigSet(4, resource, name, text))
        assert counts() == ms
    lab.commit(ops.ConfigSet(4, "", name, "1500"))
    lab.commit(ops.ConfigSet(32, "g", "consumer.assignment.interval.ms", "700"))
    assert (counts(), counts("other")) == (700, 1500)
    lab.commit(ops.ConfigSet(32, "g", "consumer.assignment.interval.ms", None))
    assert counts() == 1500
