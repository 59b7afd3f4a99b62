"""Long requests in slices: the same answers, others in between, and nothing that is lost because it came in between."""

from collections.abc import Callable
from typing import Any

import pytest

from actors.node.api import topics_shown
from actors.node.api.handlers import fetch, metadata
from actors.node.roles.broker.replication import delayed_fetch
from actors.node.runtime import slices
from actors.wire.messages import message
from tests.unit.node.roles.broker.lab import Lab

PARTITIONS = 7


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on a slice has one entry."""

    def begin() -> None:
        for module in (slices, fetch, delayed_fetch, metadata):
            monkeypatch.setattr(module, "ENTRIES_A_SLICE", 1)
        monkeypatch.setattr(topics_shown, "WRITTEN_A_SLICE", 1)

    return begin


def numbers(kind: Any, **values: Any) -> list[Any]:
    return [kind(**{name: number if value is None else value for name, value in values.items()}) for number in range(9)]


def requests() -> dict[str, tuple[int, Any]]:
    offsets, ends = message("ListOffsetsRequest"), message("OffsetForLeaderEpochRequest")
    wanted, deleted = message("MetadataRequest"), message("DeleteRecordsRequest")
    fetched, described = message("FetchRequest"), message("DescribeLogDirsRequest")
    names = [wanted.MetadataRequestTopic(name=name) for name in ("t", "absent", "no/topic")]
    return {
        "ListOffsets": (7, offsets(topics=[offsets.ListOffsetsTopic(
            name="t", partitions=numbers(offsets.ListOffsetsPartition, partition_index=None, timestamp=-1))])),
        "OffsetForLeaderEpoch": (4, ends(topics=[ends.OffsetForLeaderTopic(
            topic="t", partitions=numbers(ends.OffsetForLeaderPartition, partition=None, leader_epoch=0))])),
        "Metadata": (12, wanted(topics=names, allow_auto_topic_creation=False)),
        "Metadata of everything": (12, wanted(topics=None)),
        "DeleteRecords": (2, deleted(topics=[deleted.DeleteRecordsTopic(
            name="t", partitions=numbers(deleted.DeleteRecordsPartition, partition_index=None, offset=0))])),
        "Fetch": (12, fetched(session_epoch=-1, topics=[fetched.FetchTopic(
            topic="t", partitions=numbers(fetched.FetchPartition, partition=None, partition_max_bytes=1000))])),
        "DescribeLogDirs": (2, described(topics=None)),
    }  # fmt: skip


@pytest.mark.parametrize("name", requests())
def test_an_answer_in_slices_is_the_answer_in_one_go(name: str, short: Callable[[], None]) -> None:
    lab = Lab(1)
    lab.topic([1], partitions=PARTITIONS)
    lab.produce(1, b"a")
    lab.settle()
    version, request = requests()[name]
    api = name.partition(" ")[0]
    whole = lab.call(1, api, version, request).reply
    assert lab.slices == 0
    lab.pass_ms(3_000)  # a list of all topics is shared for two seconds
    short()
    assert lab.call(1, api, version, request).reply == whole
    assert lab.slices >= 3


def test_what_comes_behind_a_slice_is_fetched_by_the_next_request(short: Callable[[], None]) -> None:
    lab = Lab(1)
    lab.topic([1], partitions=3)
    lab.settle()
    kind = message("FetchRequest")

    def ask(session: int, epoch: int, partitions: int) -> Any:
        topics = [
            kind.FetchTopic(
                topic="t",
                partitions=[kind.FetchPartition(partition=n, partition_max_bytes=1000) for n in range(partitions)],
            )
        ]
        request = kind(session_id=session, session_epoch=epoch, max_wait_ms=0, min_bytes=1, topics=topics)
        return lab.call(1, "Fetch", 12, request).reply

    short()
    counted = []

    def append_once() -> None:
        counted.append(lab.slices)
        if len(counted) == 5:  # three to take the partitions in; the first of them has been looked at
            lab.produce(1, b"late")

    lab.between_slices = append_once
    opened = ask(0, 0, 3)
    assert len(counted) >= 5
    assert all(not bytes(one.records or b"") for topic in opened.responses for one in topic.partitions)
    lab.between_slices = lambda: None
    (topic,) = ask(opened.session_id, 1, 0).responses
    assert [one.partition_index for one in topic.partitions] == [0]
    assert b"late" in bytes(topic.partitions[0].records)
