"""Requests that name one thing tens of thousands of times: the long part of the answer is sent once.

Before, a key named 90,000 times gave 90,000 coordinators, and a Metadata answer was encoded in one go at its end.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from actors.wire import framing
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.integration.answers.dialogue import request
from tests.integration.hostile.scene import Peer, Scene, encoded

TIMES = 90_000
PARTITIONS = 1000
TOPIC = "wide"
GROUP = "often"
ANSWER_BYTES_MAX = 300_000
"""More than the size of the longest single answer, which is the topic's in Metadata."""


@pytest.fixture(scope="module")
def filled(small: Scene) -> Iterator[Scene]:
    """A topic with many partitions, and a group that has committed an offset for each."""
    made = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
    assert asked(small, "CreateTopics", 5, topics=[made], timeout_ms=30_000).topics[0].error_code == 0
    partitions = [{"partition_index": number, "committed_offset": number} for number in range(PARTITIONS)]
    for _ in range(300):
        reply = asked(
            small,
            "OffsetCommit",
            8,
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[{"name": TOPIC, "partitions": partitions}],
        )
        codes = {one.error_code for topic in reply.topics for one in topic.partitions}
        if codes == {0}:
            break
        coordinator(small)
        assert codes <= {
            0,
            ErrorCode.NOT_COORDINATOR,
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    else:
        pytest.fail("the group's offsets were not committed")
    yield small


def coordinator(scene: Scene) -> Any:
    """Make the broker create the topic of the groups."""
    return asked(scene, "FindCoordinator", 3, key=GROUP, key_type=0)


def asked(scene: Scene, name: str, version: int, **values: Any) -> Any:
    """Send a request to the first broker. Returns its answer."""
    frame = sent(scene, encoded(name, version, request(name, **values)))
    return framing.decode_response(name, version, memoryview(frame))


def sent(scene: Scene, frame: bytes) -> bytes:
    """Send a frame. Returns the answer as it came."""
    with Peer(scene.brokers()[0]) as peer:
        peer.send(frame)
        return peer.read()


def again(name: str, field: str, struct: str, /, **values: Any) -> Any:
    """A request whose list has one entry `TIMES` times."""
    kind = message(f"{name}Request")
    return kind(**{field: [getattr(kind, struct)(**values)] * TIMES})


REQUESTS = {
    "DescribeConfigs": (4, lambda: again(
        "DescribeConfigs", "resources", "DescribeConfigsResource", resource_type=2, resource_name=TOPIC,
        configuration_keys=None,
    )),
    "Metadata": (9, lambda: again("Metadata", "topics", "MetadataRequestTopic", name=TOPIC)),
    "DescribeTopicPartitions": (0, lambda: again("DescribeTopicPartitions", "topics", "TopicRequest", name=TOPIC)),
    "DescribeGroups": (5, lambda: message("DescribeGroupsRequest")(groups=[GROUP] * TIMES)),
    "DeleteGroups": (2, lambda: message("DeleteGroupsRequest")(groups_names=["absent"] * TIMES)),
    "FindCoordinator": (4, lambda: message("FindCoordinatorRequest")(coordinator_keys=[GROUP] * TIMES)),
    "OffsetFetch": (8, lambda: again("OffsetFetch", "groups", "OffsetFetchRequestGroup", group_id=GROUP, topics=None)),
    "DescribeLogDirs": (2, lambda: again(
        "DescribeLogDirs", "topics", "DescribableLogDirTopic", topic=TOPIC, partitions=[0]
    )),
    "DescribeProducers": (0, lambda: again(
        "DescribeProducers", "topics", "TopicRequest", name=TOPIC, partition_indexes=[0]
    )),
    "Fetch": (12, lambda: again(
        "Fetch", "topics", "FetchTopic", topic=TOPIC,
        partitions=[message("FetchRequest").FetchPartition(partition=0, partition_max_bytes=1 << 20)],
    )),
    "CreateTopics": (7, lambda: again(
        "CreateTopics", "topics", "CreatableTopic", name="new", num_partitions=1, replication_factor=1
    )),
    "DeleteTopics": (5, lambda: message("DeleteTopicsRequest")(topic_names=["absent"] * TIMES)),
    "CreatePartitions": (2, lambda: again(
        "CreatePartitions", "topics", "CreatePartitionsTopic", name=TOPIC, count=2, assignments=None
    )),
    "IncrementalAlterConfigs": (1, lambda: again(
        "IncrementalAlterConfigs", "resources", "AlterConfigsResource", resource_type=2, resource_name=TOPIC
    )),
    "ElectLeaders": (2, lambda: message("ElectLeadersRequest")(topic_partitions=[
        message("ElectLeadersRequest").TopicPartitions(topic=TOPIC, partitions=[0] * TIMES)
    ])),
    "AlterPartitionReassignments": (0, lambda: message("AlterPartitionReassignmentsRequest")(topics=[
        message("AlterPartitionReassignmentsRequest").ReassignableTopic(name=TOPIC, partitions=[
            message("AlterPartitionReassignmentsRequest").ReassignablePartition(partition_index=0, replicas=None)
        ] * TIMES)
    ])),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_named_many_times_is_answered_once(filled: Scene, name: str) -> None:
    version, body = REQUESTS[name]
    frame = encoded(name, version, body())
    answers: list[bytes] = []
    cost = filled.measured(lambda: answers.append(sent(filled, frame)))
    print(f"{name}: {len(frame)} bytes asked, {len(answers[0])} answered: {cost}")
    assert not cost.lost and not cost.broken, cost
    assert len(answers[0]) <= ANSWER_BYTES_MAX
