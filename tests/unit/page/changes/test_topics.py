"""Changes of topics: what is said where a part of one is not done, or nobody knows whether it was."""

import asyncio
import base64
import json
from typing import Any

import pytest

from actors.client.errors import ClientError, NotInTime
from actors.page.changes import topics
from actors.page.changes.given import Given
from actors.page.routes.changes import _decided
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from tests.unit.client.servers import Server, World

ID = b"t".ljust(16, b"\1")


class Run:
    """A client of a world of servers, with the one call that changes make."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def run(self, steps: Any, timeout_s: float) -> Any:
        """What an operation returns."""
        return self.world.run(steps, int(timeout_s * 1000))


def emptied(server: Server, version: int, request: Any) -> Any:
    kind = message("DeleteRecordsResponse")
    rows = [
        kind.DeleteRecordsTopicResult(
            name=one.name,
            partitions=[
                kind.DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=7)
                for part in one.partitions
            ],
        )
        for one in request.topics
    ]
    return kind(topics=rows)


def cluster(leaders: list[int], **answers: Any) -> tuple[Any, Server]:
    server = Server("a", 1, answers)
    world = World(server)
    server.answers["Metadata"] = lambda *_: world.metadata(t=leaders)
    return Run(world), server


def given(**fields: Any) -> Given:
    return Given(json.dumps({"topic": "t", "confirm": "t", **fields}).encode())


def test_a_partition_without_a_leader_keeps_its_records_and_no_others() -> None:
    kafka, server = cluster([1, -1, 1], DeleteRecords=emptied)
    with pytest.raises(ClientError, match=r"^1 of 3 partitions kept their records: there is no leader$") as error:
        asyncio.run(topics.empty(kafka, given()))
    assert error.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    (asked,) = [request for name, _, request in server.asked if name == "DeleteRecords"]
    assert [one.partition_index for one in asked.topics[0].partitions] == [0, 2]
    kafka, _ = cluster([1, 1], DeleteRecords=emptied)
    assert asyncio.run(topics.empty(kafka, given())) == "Topic t is empty: 2 partitions begin where they ended."


def test_a_topic_that_was_made_anew_is_not_the_one_that_was_looked_at() -> None:
    def delete(server: Server, version: int, request: Any) -> Any:
        (one,) = request.topics
        assert (one.name, bytes(one.topic_id)) == (None, ID)
        kind = message("DeleteTopicsResponse")
        return kind(responses=[kind.DeletableTopicResult(name=None, topic_id=ID, error_code=answers.pop())])

    answers = [int(ErrorCode.UNKNOWN_TOPIC_ID), 0]
    kafka, server = cluster([1], DeleteRecords=emptied, DeleteTopics=delete)
    other = base64.urlsafe_b64encode(b"o" * 16).decode().rstrip("=")
    for change in (topics.delete, topics.empty):
        with pytest.raises(ClientError, match="made anew") as error:
            asyncio.run(change(kafka, given(id=other)))
        assert error.value.code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert not {name for name, *_ in server.asked} & {"DeleteRecords", "DeleteTopics"}
    own = base64.urlsafe_b64encode(ID).decode().rstrip("=")
    assert asyncio.run(topics.delete(kafka, given(id=own))) == "Topic t was deleted."
    with pytest.raises(ClientError, match="topic t: "):
        asyncio.run(topics.delete(kafka, given(id=own)))


def test_a_setting_is_not_set_and_unset_at_once() -> None:
    kafka, server = cluster([1])
    both = Given(b'{"topic": "t", "set": {"a": "1", "b": "2"}, "unset": ["c", "b"]}')
    with pytest.raises(ValueError, match=r"^b is both set and unset: send it once\.$"):
        asyncio.run(topics.settings(kafka, both))
    assert not server.asked


def test_nobody_knows_whether_a_change_was_done_that_was_not_answered_in_time() -> None:
    async def late() -> str:
        raise NotInTime("there was no result in time")

    with pytest.raises(NotInTime, match=r"^there was no result in time\. It may have been done all the same: look"):
        asyncio.run(_decided(late()))
