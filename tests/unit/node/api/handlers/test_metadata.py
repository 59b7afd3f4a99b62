"""What Metadata and DescribeTopicPartitions say of topics, at random images, against what the twin says of each topic.

The requests go through their bytes, and handlers are cut into the smallest slices.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.metadata import ops
from actors.metadata.ops import BrokerSet, EndPoint, PartitionsSet, TopicGone, TopicSet
from actors.node.api import topics_shown
from actors.node.api.handlers import describe_topic_partitions, metadata
from actors.node.runtime import slices
from actors.node.runtime.answers import Sliced
from actors.node.runtime.calls import Call, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import decode, encode, message
from tests.reference import topic_answers as twin
from tests.served import TABLE
from tests.unit.fastpath.image.test_topic_answers import OPS, images
from tests.unit.node.roles.broker.lab import Lab

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERY = 0b110111111000
"""All operations on a topic, a bit each."""
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
UNASKED = -(1 << 31)
RANDOM = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
PAGE_MAX = 2000


@pytest.fixture(scope="module")
def lab() -> Lab:
    return Lab(1, {"auto.create.topics.enable": "false"})


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (slices, metadata, describe_topic_partitions):
        monkeypatch.setattr(module, "ENTRIES_A_SLICE", 1)
    monkeypatch.setattr(topics_shown, "WRITTEN_A_SLICE", 3)


def begun(lab: Lab, given: list[Any], alive: set[int], reached: set[int]) -> Any:
    """The broker knows what these ops say; the twin's state. Brokers that are alive, and those that its listener reaches."""
    brokers = [BrokerSet(id, 1, endpoints=(EndPoint("PLAINTEXT", "h", 1),) if id in reached else ()) for id in alive]
    image, state = images([*given, *brokers])
    image.advance(image.next_offset + 1000)  # a broker serves once it has seen its registration
    role = lab.broker(1)
    role.cache.image = image
    unfenced = role.cluster.unfenced
    unfenced.clear()
    unfenced.update(dict.fromkeys(alive, 1))
    return state


def topic(state: Any, name: str, topic_id: bytes, version: int, alive: Any, reached: Any, operations: int) -> Any:
    """A topic of a Metadata answer as the twin has it."""
    code = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    found, _ = twin.partitions(state, topic_id)
    data = twin.metadata_topic(name, topic_id, found, operations, version, alive, alive & reached, code, INTERNAL)
    return decode(message("MetadataResponse").MetadataResponseTopic, version, data)[0]


BROKERS = st.sets(st.integers(0, 7))


@RANDOM
@given(st.lists(OPS, max_size=30), BROKERS, BROKERS, st.integers(0, 13), st.booleans())
def test_all_topics_by_name(
    lab: Lab, given: list[Any], alive: set[int], reached: set[int], version: int, asked: bool
) -> None:
    state = begun(lab, given, alive, reached)
    request = message("MetadataRequest")(
        topics=None if version else [],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=asked and version >= 8,
    )
    reply = lab.call(1, "Metadata", version, request).reply
    operations = EVERY if asked and version >= 8 else UNASKED
    assert reply.topics == [
        topic(state, name, topic_id, version, alive, reached, operations) for name, topic_id in twin.names(state)
    ]


@RANDOM
@given(st.lists(OPS, max_size=30), BROKERS, BROKERS, st.integers(1, 13), st.booleans())
def test_topics_by_name_and_by_id(
    lab: Lab, given: list[Any], alive: set[int], reached: set[int], version: int, by_id: bool
) -> None:
    state = begun(lab, given, alive, reached)
    kind, reply_kind = message("MetadataRequest"), message("MetadataResponse")
    known = {topic_id: name for name, topic_id in twin.names(state)}
    expected, asked = [], []
    if by_id and version >= 12:
        for topic_id in [bytes([number]) * 16 for number in (3, 1, 9, 2)]:
            asked.append(kind.MetadataRequestTopic(name=None, topic_id=topic_id))
            if topic_id in known:
                expected.append(topic(state, known[topic_id], topic_id, version, alive, reached, UNASKED))
            else:
                code = ErrorCode.UNKNOWN_TOPIC_ID
                expected.append(reply_kind.MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id))
    else:
        ids = {name: topic_id for topic_id, name in known.items()}
        for name in ("c", "a", "x", "no/name", "b"):
            asked.append(kind.MetadataRequestTopic(name=name))
            if name in ids:
                expected.append(topic(state, name, ids[name], version, alive, reached, UNASKED))
            else:
                code = ErrorCode.INVALID_TOPIC_EXCEPTION if "/" in name else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                expected.append(reply_kind.MetadataResponseTopic(error_code=code, name=name))
    reply = lab.call(1, "Metadata", version, kind(topics=asked, allow_auto_topic_creation=False)).reply
    assert reply.topics == expected


@RANDOM
@given(st.lists(OPS, max_size=40), BROKERS, st.integers(1, 9), st.booleans())
def test_pages_follow_each_other_and_leave_nothing_out(
    lab: Lab, given: list[Any], alive: set[int], limit: int, named: bool
) -> None:
    state = begun(lab, given, alive, alive)
    kind, row_kind = message("DescribeTopicPartitionsRequest"), message("DescribeTopicPartitionsResponse")
    topics = [kind.TopicRequest(name=name) for name in ("c", "a", "b")] if named else []
    ids = dict(twin.names(state))
    left = [
        (name, number)
        for name in (sorted("abc") if named else ids)
        for number in ([n for n, _ in twin.partitions(state, ids[name])[0]] or [None] if name in ids else [None])
    ]
    cursor, seen = None, []
    while True:
        request = kind(topics=topics, response_partition_limit=limit, cursor=cursor)
        reply = lab.call(1, "DescribeTopicPartitions", 0, request).reply
        count = 0
        for one in reply.topics:
            if one.name not in ids:
                assert (one.error_code, one.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
                seen.append((one.name, None))
                continue
            numbers = [part.partition_index for part in one.partitions]
            every, _ = twin.partitions(state, ids[one.name])
            rows = [row for row in every if row[0] in numbers]
            data = twin.described_topic(one.name, ids[one.name], rows, EVERY, alive, INTERNAL)
            assert decode(row_kind.DescribeTopicPartitionsResponseTopic, 0, data)[0] == one
            seen.extend((one.name, number) for number in numbers or [None])
            count += len(numbers)
        assert count <= limit
        cursor = reply.next_cursor
        if cursor is None:
            break
        assert count == limit, "a page that is followed by another is full"
        cursor = kind.Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)
    assert seen == left


def allow(lab: Lab, name: str, pattern: int, operation: int = 8, permission: int = 3) -> tuple[object, ...]:
    fields = {
        "resource_type": 2, "resource_name": name, "pattern_type": pattern, "principal": "User:ANONYMOUS", "host": "*",
        "operation": operation, "permission_type": permission,
    }  # fmt: skip
    lab.commit(ops.EntitySet("acl", tuple(fields.values()), tuple(fields.items())))
    return tuple(fields.values())


def guarded() -> Lab:
    lab = Lab(1, {"authorizer.class.name": AUTHORIZER})
    for number, name in enumerate(("a", "b1", "b2", "c", "d")):
        lab.commit(
            TopicSet(name, bytes([number]) * 16), PartitionsSet(bytes([number]) * 16, range(3), [[1]] * 3, [[1]] * 3)
        )
    return lab


def shown(lab: Lab, api: str = "Metadata") -> list[str]:
    if api == "Metadata":
        request = message("MetadataRequest")(topics=None, include_topic_authorized_operations=True)
    else:
        request = message("DescribeTopicPartitionsRequest")(topics=[])
    reply = lab.call(1, api, 12 if api == "Metadata" else 0, request).reply
    return [f"{topic.name}:{topic.topic_authorized_operations}" for topic in reply.topics]


@pytest.mark.parametrize("api", ["Metadata", "DescribeTopicPartitions"])
def test_topics_that_may_not_be_described_are_left_out_and_the_others_have_their_operations(api: str) -> None:
    lab = guarded()
    assert shown(lab, api) == []
    allow(lab, "b", 4)
    allow(lab, "d", 3, operation=3)
    assert shown(lab, api) == [f"b1:{1 << 8}", f"b2:{1 << 8}", f"d:{1 << 3 | 1 << 8}"]
    key = allow(lab, "b2", 3, permission=2)
    assert shown(lab, api) == [f"b1:{1 << 8}", f"d:{1 << 3 | 1 << 8}"]
    lab.commit(ops.EntityGone("acl", key))
    allow(lab, "*", 3, operation=2)
    assert [one.partition(":")[0] for one in shown(lab, api)] == ["a", "b1", "b2", "c", "d"]


@pytest.mark.parametrize("api", ["Metadata", "DescribeTopicPartitions"])
def test_a_right_that_is_taken_away_between_slices_counts_from_the_next_topic_on(api: str) -> None:
    lab = guarded()
    allow(lab, "*", 3)
    done = []

    def deny() -> None:
        done.append(1)
        if len(done) == 2:
            allow(lab, "", 4, permission=2)  # of all names
            allow(lab, "c", 3, permission=2)

    lab.between_slices = deny
    found = [one.partition(":")[0] for one in shown(lab, api)]
    assert 0 < len(found) < 5 and found == ["a", "b1", "b2", "c"][: len(found)] and len(done) > 2
    lab.between_slices = lambda: None
    assert shown(lab, api) == []


def test_a_page_goes_on_behind_a_topic_that_is_deleted_between_slices() -> None:
    lab = guarded()
    allow(lab, "*", 3)
    gone = []

    def delete() -> None:
        gone.append(1)
        if len(gone) == 3:
            lab.commit(TopicGone(bytes([3]) * 16))
            lab.commit(TopicSet("b3", bytes([9]) * 16))

    lab.between_slices = delete
    assert [one.partition(":")[0] for one in shown(lab, "DescribeTopicPartitions")] == ["a", "b1", "b2", "b3", "d"]


def test_a_name_that_was_looked_up_before_a_long_topic_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(1)
    for module in (slices, describe_topic_partitions):
        monkeypatch.setattr(module, "ENTRIES_A_SLICE", 5)
    monkeypatch.setattr(topics_shown, "WRITTEN_AN_ENTRY", 1)
    for number, (name, count) in enumerate((("a", 5), ("b", 1), ("c", 1))):
        lab.commit(
            TopicSet(name, bytes([number]) * 16),
            PartitionsSet(bytes([number]) * 16, range(count), [[1]] * count, [[1]] * count),
        )

    def delete() -> None:
        lab.between_slices = lambda: None
        lab.commit(TopicGone(bytes([1]) * 16))
        lab.commit(TopicSet("d", bytes([9]) * 16))

    lab.between_slices = delete
    assert [one.partition(":")[0] for one in shown(lab, "DescribeTopicPartitions")] == ["a", "c", "d"]


def test_a_page_of_the_largest_limit_and_a_cursor_at_the_largest_number() -> None:
    lab = guarded()
    allow(lab, "*", 3)
    kind = message("DescribeTopicPartitionsRequest")
    last = (1 << 31) - 1
    for limit in (last, PAGE_MAX + 1):
        cursor = kind.Cursor(topic_name="d", partition_index=last)
        reply = lab.call(
            1, "DescribeTopicPartitions", 0, kind(topics=[], response_partition_limit=limit, cursor=cursor)
        ).reply
        assert [(one.name, one.partitions) for one in reply.topics] == [("d", [])] and reply.next_cursor is None
    reply = lab.call(
        1, "DescribeTopicPartitions", 0, kind(topics=[], cursor=kind.Cursor(topic_name="zz", partition_index=0))
    ).reply
    assert reply.topics == [] and reply.next_cursor is None


def test_a_list_is_not_shared_with_clients_of_another_listener(lab: Lab) -> None:
    given = [TopicSet("a", b"a" * 16), PartitionsSet(b"a" * 16, [0], [[1]], [[1]])]
    begun(lab, given, {1}, {1})
    context: Any = lab.nodes[1].node.dispatch.broker
    leaders = []
    for listener in ("PLAINTEXT", "OTHER", "PLAINTEXT"):
        call = Call(7, Listener.CLIENT, listener, 3, 12, None, "127.0.0.1", "User:ANONYMOUS", memoryview(b""))
        answer = TABLE[Listener.CLIENT, 3].handler(context, message("MetadataRequest")(topics=None), call)
        while isinstance(answer, Sliced):
            answer = answer.again()
        reply = decode(type(answer.reply), 12, encode(answer.reply, 12))[0]
        leaders.append((reply.topics[0].partitions[0].leader_id, reply.topics[0].partitions[0].error_code))
    assert leaders == [(1, 0), (-1, ErrorCode.LISTENER_NOT_FOUND), (1, 0)]
