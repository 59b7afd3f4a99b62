"""Topics that brokers do not tell of yet, topics that are made and deleted, and what older releases are asked for."""

from typing import Any

import pytest

from actors.client.errors import ClientError
from actors.client.operations import leaders, topics
from actors.client.operations.topics import ABSENCES_MAX, NewTopic
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

MADE, DELETED = message("CreateTopicsResponse"), message("DeleteTopicsResponse")


def world(versions: dict[str, tuple[int, int]] | None = None, **answers: Any) -> World:
    return World(Server("a", 1, answers, versions))


def telling(told: World, *answers: dict[str, Any]) -> list[int]:
    """Let the server answer Metadata with these topics, one answer after the other, the last one for ever. Returns the times
    of its answers, in us, as they come."""
    times: list[int] = []

    def metadata(*_: Any) -> Any:
        times.append(told.now_us)
        return told.metadata(**answers[min(len(times), len(answers)) - 1])

    next(iter(told.servers.values())).answers["Metadata"] = metadata
    return times


UNKNOWN = {"t": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


def test_a_topic_that_was_made_a_moment_ago_is_asked_for_again_where_that_is_wanted() -> None:
    told = world()
    telling(told, UNKNOWN, {}, {"t": [1, 1]})
    assert sorted(told.run(topics.describe(["t"], patiently=True))["t"].partitions) == [0, 1]
    told = world()
    asked = telling(told, UNKNOWN, {"t": [1, 1]})
    with pytest.raises(ClientError, match=r"^topic t does not exist$"):
        told.run(topics.describe(["t"]))
    assert len(asked) == 1


def test_that_a_topic_does_not_exist_is_believed_after_a_while() -> None:
    told = world()
    asked = telling(told, UNKNOWN)
    with pytest.raises(ClientError, match=r"^topic t does not exist$") as error:
        told.run(topics.describe(["t"], patiently=True))
    assert len(asked) == 1 + ABSENCES_MAX and error.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asked[-1] - asked[0] > 1_000_000, "a broker may need a second to hear of it"


def test_a_topic_that_may_not_be_seen_is_not_asked_for_again() -> None:
    told = world()
    asked = telling(told, {"t": int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    with pytest.raises(ClientError, match="topic t: ") as error:
        told.run(topics.describe(["t"], patiently=True))
    assert len(asked) == 1 and error.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_no_partition_of_a_topic_is_told_with_how_many_there_are() -> None:
    told = world()
    telling(told, {"t": [1], "u": [1, 1]})
    told.run(topics.describe())
    for part, words in ((("t", 1), "topic t has 1 partition and no"), (("u", 2), "topic u has 2 partitions and no")):
        with pytest.raises(ClientError, match=words):
            leaders.existing(told.client.metadata, part)


def created(server: Server, version: int, request: Any) -> Any:
    return MADE(topics=[MADE.CreatableTopicResult(name=one.name) for one in request.topics])


def test_a_topic_that_was_made_is_waited_for_until_it_has_leaders() -> None:
    told = world(CreateTopics=created)
    asked = telling(told, {}, {"t": [-1, 1]}, {"t": [1, 1]})
    assert told.run(topics.create([NewTopic("t", 2, 1)])) == {"t": None}
    assert len(asked) == 3
    told = world(CreateTopics=created)
    asked = telling(told, {})
    assert told.run(topics.create([NewTopic("t", 2, 1)], wait=False)) == {"t": None} and len(asked) == 1


def test_before_kafka_2_4_there_are_no_defaults() -> None:
    told = world({"CreateTopics": (0, 3)}, CreateTopics=created)
    for new in (NewTopic("t"), NewTopic("t", 3), NewTopic("t", -1, 2)):
        with pytest.raises(ClientError, match=r"topic t: this Kafka is older than 2\.4 and has no defaults"):
            told.run(topics.create([new], wait=False))
    assert told.run(topics.create([NewTopic("t", assignment={0: [1]})], wait=False)) == {"t": None}
    (request,) = [row[2] for row in next(iter(told.servers.values())).asked if row[0] == "CreateTopics"]
    (asked,) = request.topics
    assert (asked.num_partitions, asked.replication_factor) == (-1, -1) and asked.assignments[0].broker_ids == [1]


@pytest.mark.parametrize("last", [5, 6])
def test_topics_are_deleted_by_name_in_each_version(last: int) -> None:
    def deleted(server: Server, version: int, request: Any) -> Any:
        names = request.topic_names if version < 6 else [one.name for one in request.topics]
        codes = {"gone": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        rows = [DELETED.DeletableTopicResult(name=name, error_code=codes.get(name, 0)) for name in names]
        return DELETED(responses=rows)

    told = world({"DeleteTopics": (1, last)}, DeleteTopics=deleted)
    found = told.run(topics.delete(["t", "gone"]))
    assert found["t"] is None and found["gone"] is not None
    assert found["gone"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
