"""Requests of members of KIP-1071 through a broker, as bytes: heartbeats, internal topics, rights, describing, offsets."""

from typing import Any

import pytest

from actors.authorization.resources import Operation, Pattern, Permission, Resource
from actors.metadata import ops
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.node.roles.broker.groups.test_consumer_requests import OFFSETS, OFFSETS_ID, ask, listed
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

LOG_ID = b"\7" * 16
KIND = message("StreamsGroupHeartbeatRequest")


def cluster(level: int = 1, **settings: str) -> Lab:
    """One broker, a topic t of one partition."""
    usual = {"offsets.topic.num.partitions": "1", "group.streams.initial.rebalance.delay.ms": "0"}
    lab = Lab(1, usual | settings)
    lab.topic([1])
    lab.topic([1], OFFSETS, OFFSETS_ID)
    if level:
        lab.commit(ops.FeatureSet("streams.version", level))
    lab.settle()
    return lab


def guarded() -> Lab:
    """One whose clients may read the group g, and the topic t, and may describe the topics of the application."""
    lab = cluster(**{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"})
    allow(lab, Resource.GROUP, "g", Operation.READ)
    allow(lab, Resource.TOPIC, "t", Operation.READ)
    return lab


def rule(resource: Resource, name: str, operation: Operation) -> dict[str, object]:
    return {
        "resource_type": int(resource), "resource_name": name, "pattern_type": int(Pattern.LITERAL),
        "principal": "User:ANONYMOUS", "host": "*", "operation": int(operation), "permission_type": int(Permission.ALLOW),
    }  # fmt: skip


def allow(lab: Lab, resource: Resource, name: str, operation: Operation) -> None:
    fields = rule(resource, name, operation)
    lab.commit(ops.EntitySet("acl", tuple(fields.values()), tuple(fields.items())))
    lab.settle()


def forbid(lab: Lab, resource: Resource, name: str, operation: Operation) -> None:
    lab.commit(ops.EntityGone("acl", tuple(rule(resource, name, operation).values())))
    lab.settle()


def counts(*sources: str, log: str = "log") -> Any:
    """A topology that reads topics and keeps state."""
    one = KIND.TopicInfo(name=log, topic_configs=[KIND.KeyValue(key="cleanup.policy", value="compact")])
    return KIND.Topology(
        epoch=0,
        subtopologies=[
            KIND.Subtopology(subtopology_id="0", source_topics=list(sources) or ["t"], state_changelog_topics=[one])
        ],
    )


def beat(lab: Lab, member: str, epoch: int, owned: list[int] | None = None, **fields: Any) -> Any:
    tasks = None if owned is None else [KIND.TaskIds(subtopology_id="0", partitions=owned)] if owned else []
    empty = None if owned is None else []
    given = {"active_tasks": tasks, "standby_tasks": empty, "warmup_tasks": empty, **fields}
    return ask(lab, "StreamsGroupHeartbeat", 0, group_id="g", member_id=member, member_epoch=epoch, **given)


def join(lab: Lab, member: str, **fields: Any) -> Any:
    usual = {"rebalance_timeout_ms": 60_000, "process_id": f"process-{member}", "topology": counts()}
    return beat(lab, member, 0, [], **{**usual, **fields})


def tasks(told: Any) -> list[tuple[str, list[int]]]:
    return [(one.subtopology_id, list(one.partitions)) for one in told]


def test_a_member_joins_has_its_internal_topics_made_and_is_described() -> None:
    lab = cluster()
    first = join(
        lab, "a", user_endpoint=KIND.Endpoint(host="h", port=80), client_tags=[KIND.KeyValue(key="k", value="v")]
    )
    assert (first.error_code, first.member_id, first.member_epoch, first.heartbeat_interval_ms) == (0, "a", 2, 5000)
    assert tasks(first.active_tasks) == []
    assert [(one.status_code, one.status_detail) for one in first.status] == [(3, "Internal topics are missing: log")]
    made = [request for _, name, request in lab.asked if name == "CreateTopics"]
    assert [(one.name, one.num_partitions, one.replication_factor) for one in made[0].topics] == [("log", 1, -1)]
    assert [(one.name, one.value) for one in made[0].topics[0].configs] == [("cleanup.policy", "compact")]
    lab.pass_ms(1100)
    second = beat(lab, "a", 2, [], endpoint_information_epoch=1)
    assert (tasks(second.active_tasks), second.status, second.member_epoch) == ([("0", [0])], [], 3)
    served = second.partitions_by_user_endpoint[0]
    assert (served.user_endpoint.host, served.user_endpoint.port) == ("h", 80)
    assert [(one.topic, list(one.partitions)) for one in served.active_partitions] == [("t", [0])]
    third = beat(lab, "a", 3, [0], endpoint_information_epoch=second.endpoint_information_epoch)
    assert (third.active_tasks, third.partitions_by_user_endpoint) == (None, None)
    shown, missing = ask(lab, "StreamsGroupDescribe", 0, group_ids=["g", "x"]).groups
    assert (shown.error_code, shown.group_state, shown.group_epoch, shown.assignment_epoch) == (0, "Stable", 3, 3)
    part = shown.topology.subtopologies[0]
    assert (part.subtopology_id, list(part.source_topics)) == ("0", ["t"])
    assert [(one.name, one.partitions) for one in part.state_changelog_topics] == [("log", 1)]
    member = shown.members[0]
    assert (member.member_id, member.member_epoch, member.process_id, member.client_id) == (
        "a",
        3,
        "process-a",
        "client",
    )
    assert [(one.key, one.value) for one in member.client_tags] == [("k", "v")]
    assert tasks(member.assignment.active_tasks) == tasks(member.target_assignment.active_tasks) == [("0", [0])]
    assert (missing.error_code, missing.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
    assert listed(lab) == [("g", "streams", "Stable", "streams")]


def test_a_topic_that_cannot_be_made_is_asked_for_again_after_a_pause_and_members_are_told_why() -> None:
    lab = cluster()
    lab.controller_up = False
    join(lab, "a")
    told = beat(lab, "a", 2, [])
    assert "Creation failed: log (" in told.status[0].status_detail
    lab.controller_up = True
    beat(lab, "a", 2, [])
    assert not [name for _, name, _ in lab.asked if name == "CreateTopics"], "the reason counts for two heartbeats"
    lab.pass_ms(10_100, 500)
    beat(lab, "a", 2, [])
    assert [name for _, name, _ in lab.asked if name == "CreateTopics"]


def test_who_may_not_create_topics_gets_none_and_is_told_so() -> None:
    lab = guarded()
    assert join(lab, "a").error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "it may not describe the changelog"
    allow(lab, Resource.TOPIC, "log", Operation.DESCRIBE)
    told = join(lab, "a")
    assert (told.error_code, told.status[0].status_detail) == (
        0,
        "Internal topics are missing: log; Unauthorized to CREATE on topics log.",
    )
    assert not [name for _, name, _ in lab.asked if name == "CreateTopics"]
    allow(lab, Resource.TOPIC, "log", Operation.CREATE)
    join(lab, "a")
    assert [name for _, name, _ in lab.asked if name == "CreateTopics"]


def test_a_group_and_its_description_need_rights() -> None:
    lab = guarded()
    allow(lab, Resource.TOPIC, "log", Operation.DESCRIBE)
    join(lab, "a")
    other = ask(lab, "StreamsGroupHeartbeat", 0, group_id="x", member_id="a", member_epoch=0)
    assert other.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    first, second = ask(lab, "StreamsGroupDescribe", 0, group_ids=["g", "x"]).groups
    assert (first.error_code, second.error_code) == (0, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    forbid(lab, Resource.TOPIC, "log", Operation.DESCRIBE)
    denied = ask(lab, "StreamsGroupDescribe", 0, group_ids=["g"]).groups[0]
    assert (denied.error_code, denied.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


def test_nothing_of_it_is_there_before_streams_version_1() -> None:
    lab = cluster(level=0)
    assert join(lab, "a").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ask(lab, "StreamsGroupDescribe", 0, group_ids=["g"]).groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    fields = {"client_software_name": "c", "client_software_version": "1"}
    assert not {one.api_key for one in ask(lab, "ApiVersions", 4, **fields).api_keys} & {88, 89}
    lab.commit(ops.FeatureSet("streams.version", 1))
    lab.settle()
    assert {one.api_key for one in ask(lab, "ApiVersions", 4, **fields).api_keys} >= {88, 89}
    assert join(lab, "a").error_code == 0


def test_a_broker_may_leave_the_protocol_out() -> None:
    lab = cluster(**{"group.coordinator.rebalance.protocols": "classic,consumer"})
    assert join(lab, "a").error_code == ErrorCode.UNSUPPORTED_VERSION


def commit(lab: Lab, member: str, epoch: int, version: int = 9) -> ErrorCode:
    kind = message("OffsetCommitRequest")
    one = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = kind.OffsetCommitRequestTopic(name="t", topic_id=TOPIC_ID, partitions=[one])
    given = {"group_id": "g", "member_id": member, "generation_id_or_member_epoch": epoch, "topics": [topic]}
    return ErrorCode(ask(lab, "OffsetCommit", version, **given).topics[0].partitions[0].error_code)


def fetch(lab: Lab, member: str | None, epoch: int) -> ErrorCode | int:
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = kind.OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=[topic])
    reply = ask(lab, "OffsetFetch", 9, groups=[group]).groups[0]
    return ErrorCode(reply.error_code) if reply.error_code else int(reply.topics[0].partitions[0].committed_offset)


def test_members_commit_and_fetch_offsets_in_their_epoch_and_the_group_is_deleted_when_it_is_empty() -> None:
    lab = cluster()
    lab.topic([1], "log", LOG_ID)
    join(lab, "a")
    assert commit(lab, "a", 2) is ErrorCode.NONE
    assert commit(lab, "a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(lab, "x", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(lab, "a", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert (fetch(lab, "a", 2), fetch(lab, None, -1)) == (3, 3)
    assert fetch(lab, "a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    kind = message("OffsetDeleteRequest")
    topic = kind.OffsetDeleteRequestTopic(name="t", partitions=[kind.OffsetDeleteRequestPartition(partition_index=0)])
    reply = ask(lab, "OffsetDelete", 0, group_id="g", topics=[topic])
    assert reply.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert ask(lab, "DeleteGroups", 2, groups_names=["g"]).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    assert beat(lab, "a", -1).member_epoch == -1
    assert ask(lab, "DeleteGroups", 2, groups_names=["g"]).results[0].error_code == 0
    assert listed(lab) == []


def test_a_groups_own_settings_hold() -> None:
    lab = cluster()
    lab.topic([1], "log", LOG_ID)
    lab.commit(ops.ConfigSet(32, "g", "streams.heartbeat.interval.ms", "7000"))
    lab.commit(ops.ConfigSet(32, "g", "streams.num.standby.replicas", "1"))
    assert join(lab, "a").heartbeat_interval_ms == 7000
    lab.pass_ms(1100)
    assert tasks(join(lab, "b").standby_tasks) == [("0", [0])]


@pytest.mark.parametrize("name", ["__consumer_offsets", "no/name", ""])
def test_a_topology_names_topics_that_may_exist(name: str) -> None:
    assert join(cluster(), "a", topology=counts(name)).error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
