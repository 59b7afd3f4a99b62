"""Requests that make little sense get an answer of their own and leave the broker as it was."""

import pytest

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder, patch
from tests.unit.node.roles.broker.lab import Lab, Pending, code, outcome

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize("version, code", [(10, ErrorCode.INVALID_REQUEST), (12, ErrorCode.UNKNOWN_TOPIC_ID)])
def test_metadata_by_an_id_that_nobody_knows(version: int, code: ErrorCode) -> None:
    kind = message("MetadataRequest")
    reply = (
        Lab(1)
        .call(1, "Metadata", version, kind(topics=[kind.MetadataRequestTopic(topic_id=b"\7" * 16, name=None)]))
        .reply
    )
    assert reply is not None
    (topic,) = reply.topics
    assert topic.error_code == code and (topic.name is None) == (version >= 12), "null is no name before version 12"


def timed(lab: Lab, base_ms: int, **config: str) -> Pending:
    lab.topic([1], configs={key.replace("_", "."): value for key, value in config.items()})
    return lab.produce(1, b"a", timestamp_ms=lab.now.wall_ms + base_ms)


@pytest.mark.parametrize(
    "base_ms, config, refused",
    [
        (-10 * DAY_MS, {}, False),
        (HOUR_MS // 2, {}, False),
        (2 * HOUR_MS, {}, True),
        (2 * HOUR_MS, {"message_timestamp_after_max_ms": str(DAY_MS)}, False),
        (-10 * DAY_MS, {"message_timestamp_before_max_ms": str(DAY_MS)}, True),
        (2 * HOUR_MS, {"message_timestamp_type": "LogAppendTime"}, False),
    ],
)
def test_timestamps_too_far_off_are_refused(base_ms: int, config: dict[str, str], refused: bool) -> None:
    lab = Lab(1)
    sent = timed(lab, base_ms, **config)
    assert code(sent) is (ErrorCode.INVALID_TIMESTAMP if refused else ErrorCode.NONE)
    assert lab.partition(1).log.log_end_offset == (0 if refused else 1)
    assert outcome(sent).log_start_offset == 0, "the log refused it, so the answer says where the log starts"


def test_a_produced_batch_counts_from_zero_and_has_its_sequence() -> None:
    lab = Lab(1)
    lab.topic([1])
    kind = message("ProduceRequest")
    sent = lab.produce(1, b"a", producer_id=9, producer_epoch=0, base_sequence=-1)
    assert code(sent) is ErrorCode.INVALID_RECORD
    builder = Builder(timestamp_ms=lab.now.wall_ms)
    builder.append(None, b"a")
    data = builder.build()
    patch(data, 0, 5, -1)
    one = kind.PartitionProduceData(index=0, records=data)
    topics = [kind.TopicProduceData(name="t", partition_data=[one])]
    assert (
        code(lab.call(1, "Produce", 9, kind(acks=-1, timeout_ms=1000, topic_data=topics))) is ErrorCode.INVALID_RECORD
    )
    assert lab.partition(1).log.log_end_offset == 0


@pytest.mark.parametrize("version", [2, 4, 6])
def test_who_looks_for_a_coordinator_of_transactions_gets_its_topic_made(version: int) -> None:
    lab = Lab(2, {"transaction.state.log.num.partitions": "3"})
    request = message("FindCoordinatorRequest")(key="tx", key_type=1, coordinator_keys=["tx"] if version >= 4 else [])
    reply = lab.call(1, "FindCoordinator", version, request).reply
    (found,) = reply.coordinators if version >= 4 else (reply,)
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    lab.settle()
    (wish,) = [request for _, name, request in lab.asked if name == "CreateTopics"]
    (topic,) = wish.topics
    settings = {one.name: one.value for one in topic.configs}
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__transaction_state", 3, 2)
    assert settings["cleanup.policy"] == "compact" and settings["min.insync.replicas"] == "2"
    reply = lab.call(1, "FindCoordinator", version, request).reply
    (found,) = reply.coordinators if version >= 4 else (reply,)
    assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("key, key_type", [("", 1), ("s", 2), ("x", 9)])
def test_who_looks_for_a_coordinator_that_cannot_be_is_told_not_to_try_again(key: str, key_type: int) -> None:
    request = message("FindCoordinatorRequest")(key_type=key_type, coordinator_keys=[key])
    (found,) = Lab(1).call(1, "FindCoordinator", 6, request).reply.coordinators
    assert found.error_code == ErrorCode.INVALID_REQUEST and not ErrorCode.INVALID_REQUEST.retriable


def test_a_missing_topic_that_is_named_twice_is_made_once() -> None:
    lab = Lab(1)
    kind = message("MetadataRequest")
    asked = lab.call(1, "Metadata", 9, kind(topics=[kind.MetadataRequestTopic(name="n")] * 2))
    lab.settle()
    requests = [request for _, name, request in lab.asked if name == "CreateTopics"]
    assert [[topic.name for topic in one.topics] for one in requests] == [["n"]]
    assert [(topic.name, topic.error_code) for topic in asked.reply.topics] == [("n", ErrorCode.NONE)]


def committed() -> Lab:
    """A group g that has an offset of the topic t."""
    lab = Lab(2, {"offsets.topic.num.partitions": "1"})
    lab.topic([1, 2])
    lab.topic([1, 2], "__consumer_offsets", b"\5" * 16)
    kind = message("OffsetCommitRequest")
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    topic = kind.OffsetCommitRequestTopic(name="t", partitions=[partition])
    lab.call(1, "OffsetCommit", 8, kind(group_id="g", generation_id_or_member_epoch=-1, topics=[topic]))
    lab.settle()
    return lab


@pytest.mark.parametrize("all_topics", [False, True])
@pytest.mark.parametrize("version", [7, 8, 10])
def test_what_a_group_committed_is_told_once(version: int, all_topics: bool) -> None:
    """Ten bytes of a request would be the longest of metadata in its answer, and a request may have a hundred million."""
    lab = committed()
    kind = message("OffsetFetchRequest")
    topic = kind.OffsetFetchRequestTopics if version >= 8 else kind.OffsetFetchRequestTopic
    names = {"topic_id": lab.partition(1).topic_id} if version >= 10 else {"name": "t"}
    topics = [topic(**names, partition_indexes=[number]) for number in (0, 1)] * 1000
    if version < 8:
        request = kind(group_id="g", topics=None if all_topics else topics)
    else:
        requests = [topics, None] if all_topics else [topics]
        request = kind(groups=[kind.OffsetFetchRequestGroup(group_id="g", topics=one) for one in requests] * 2)
    reply = lab.call(1, "OffsetFetch", version, request).reply
    (group,) = reply.groups if version >= 8 else (reply,)
    (found,) = group.topics
    offsets = [(one.partition_index, one.committed_offset) for one in found.partitions]
    assert offsets == ([(0, 3)] if all_topics else [(0, 3), (1, -1)])


def test_a_group_that_is_named_many_times_is_shown_once() -> None:
    reply = committed().call(1, "DescribeGroups", 5, message("DescribeGroupsRequest")(groups=["g", "h"] * 1000)).reply
    assert [(group.group_id, group.group_state) for group in reply.groups] == [("g", "Empty"), ("h", "Dead")]


def test_a_group_that_is_named_twice_is_deleted_once() -> None:
    lab = committed()
    asked = lab.call(1, "DeleteGroups", 2, message("DeleteGroupsRequest")(groups_names=["g", "g"]))
    lab.settle()
    assert [(one.group_id, one.error_code) for one in asked.reply.results] == [("g", ErrorCode.NONE)]


def test_a_page_that_goes_on_at_a_topic_that_is_gone_shows_the_next_one_whole() -> None:
    lab = Lab(1)
    lab.topic([1], "u", partitions=3)
    kind = message("DescribeTopicPartitionsRequest")
    topics = [kind.TopicRequest(name=name) for name in ("t", "u")]
    cursor = kind.Cursor(topic_name="t", partition_index=2)
    reply = lab.call(1, "DescribeTopicPartitions", 0, kind(topics=topics, cursor=cursor)).reply
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in reply.topics] == [
        ("t", []),
        ("u", [0, 1, 2]),
    ]


def test_a_member_whose_name_is_as_long_as_a_string_may_be_joins() -> None:
    lab = Lab(1, {"offsets.topic.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"})
    lab.topic([1], "__consumer_offsets", b"\5" * 16)
    kind = message("JoinGroupRequest")
    request = kind(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id="i" * 32_767,
        protocol_type="consumer",
        protocols=[kind.JoinGroupRequestProtocol(name="range")],
    )
    asked = lab.call(1, "JoinGroup", 7, request)
    lab.settle()
    member = asked.reply.member_id
    assert asked.reply.error_code == ErrorCode.NONE and asked.reply.leader == member
    kind = message("SyncGroupRequest")
    given = kind.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
    request = kind(group_id="g", generation_id=1, member_id=member, group_instance_id="i" * 32_767, assignments=[given])
    synced = lab.call(1, "SyncGroup", 4, request)
    lab.settle()
    assert synced.reply.assignment == b"all"


@pytest.mark.parametrize(
    "settings, numbers",
    [
        ({}, (-1, -1)),
        ({"num.partitions": "5"}, (5, -1)),
        ({"num.partitions": "5", "default.replication.factor": "2"}, (5, 2)),
    ],
)
def test_a_topic_made_on_demand_has_the_numbers_of_the_brokers_own_settings(
    settings: dict[str, str], numbers: tuple[int, int]
) -> None:
    lab = Lab(1, settings)
    kind = message("MetadataRequest")
    lab.call(1, "Metadata", 12, kind(topics=[kind.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True))
    ((topic,),) = [request.topics for _, name, request in lab.asked if name == "CreateTopics"]
    assert (topic.num_partitions, topic.replication_factor) == numbers


@pytest.mark.parametrize("given", [{}, {"protocol_type": "consumer"}, {"protocol_name": "range"}])
def test_a_sync_of_version_5_names_its_protocol(given: dict[str, str]) -> None:
    request = message("SyncGroupRequest")(group_id="g", generation_id=1, member_id="m", **given)
    reply = Lab(1).call(1, "SyncGroup", 5, request).reply
    assert reply is not None and reply.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_offsets_of_a_group_without_a_name_are_not_deleted() -> None:
    lab = Lab(1)
    lab.topic([1])
    kind = message("OffsetDeleteRequest")
    partitions = [kind.OffsetDeleteRequestPartition(partition_index=0)]
    topics = [kind.OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    reply = lab.call(1, "OffsetDelete", 0, kind(group_id="", topics=topics)).reply
    assert reply is not None and reply.error_code == ErrorCode.INVALID_GROUP_ID
