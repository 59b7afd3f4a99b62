"""Offsets of partitions: where they begin and end, and which record a time stands for. KIP-32, KIP-734, KIP-207."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from actors.client.asks import Steps
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic, of_leaders
from actors.client.properties import READ_UNCOMMITTED
from actors.wire.messages import message

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
LOWEST = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first version of ListOffsets that knows each kind."""


TRIES_SAMPLED = 5
"""How often leaders are asked by whoever looks again soon: one that is away keeps nothing of the others from being told. It
takes some 1.5 s, so that a leader that has just been elected is waited for."""


class Found(NamedTuple):
    """An offset that was looked up."""

    offset: int
    """The offset; -1: there is no record at or behind that time."""
    timestamp: int
    """The timestamp of the record, ms; -1 where no time was asked for."""
    leader_epoch: int
    """The leader epoch of the record; -1: the cluster does not tell it."""


def list_offsets(
    parts: Mapping[Part, int] | Iterable[Part],
    at: int = LATEST,
    isolation: int = READ_UNCOMMITTED,
    tries: int = 0,
) -> Steps[dict[Part, Any]]:
    """The offset of each partition, as `Found`, or its ClientError. `parts`: part -> a time in ms or one of the kinds
    above, or parts that are all asked for `at`. With READ_COMMITTED, LATEST is the last stable offset (KIP-98). `tries`: see
    `of_leaders`."""
    times = dict(parts) if isinstance(parts, Mapping) else dict.fromkeys(parts, at)
    kind = message("ListOffsetsRequest")

    def build(version: int, some: list[Part], metadata: Metadata) -> Any:
        topics = [
            kind.ListOffsetsTopic(
                name=topic,
                partitions=[
                    kind.ListOffsetsPartition(
                        partition_index=one,
                        current_leader_epoch=metadata.leader_epoch(topic, one),
                        timestamp=times[topic, one],
                    )
                    for one in numbers
                ],
            )
            for topic, numbers in by_topic(some).items()
        ]
        return kind(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=30_000)

    def outcomes(reply: Any) -> Any:
        for topic in reply.message.topics:
            for one in topic.partitions:
                value = Found(one.offset, one.timestamp, one.leader_epoch)
                yield (topic.name, one.partition_index), one.error_code, value

    lowest = max((LOWEST.get(one, 0) for one in times.values()), default=0)
    if isolation != READ_UNCOMMITTED:
        lowest = max(lowest, 2)
    return (yield from of_leaders("ListOffsets", times, build, outcomes, (lowest, 1 << 15), tries))


class EpochEnd(NamedTuple):
    """The end of a leader epoch in the log of the present leader (KIP-320)."""

    epoch: int
    """The largest epoch at or below the one that was asked for; -1: there is none."""
    end_offset: int


def epoch_ends(epochs: Mapping[Part, int]) -> Steps[dict[Part, Any]]:
    """The end of a leader epoch for each partition, as `EpochEnd`, or its ClientError. A reader whose position is
    behind the end of its epoch has read what a new leader does not have."""
    kind = message("OffsetForLeaderEpochRequest")

    def build(version: int, some: list[Part], metadata: Metadata) -> Any:
        topics = [
            kind.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    kind.OffsetForLeaderPartition(
                        partition=one,
                        current_leader_epoch=metadata.leader_epoch(topic, one),
                        leader_epoch=epochs[topic, one],
                    )
                    for one in numbers
                ],
            )
            for topic, numbers in by_topic(some).items()
        ]
        return kind(replica_id=-1, topics=topics)

    def outcomes(reply: Any) -> Any:
        for topic in reply.message.topics:
            for one in topic.partitions:
                yield (topic.topic, one.partition), one.error_code, EpochEnd(one.leader_epoch, one.end_offset)

    return (yield from of_leaders("OffsetForLeaderEpoch", epochs, build, outcomes))
