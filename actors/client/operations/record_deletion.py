"""Deleting the oldest records of partitions: their logs begin later from then on. KIP-107, KIP-204."""

from collections.abc import Mapping
from typing import Any

from actors.client.asks import Reply, Steps
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic, of_leaders
from actors.wire.messages import message

ALL = -1
"""The offset that stands for the high watermark: everything that is there."""
WAIT_MS = 30_000


def delete_records(before: Mapping[Part, int]) -> Steps[dict[Part, Any]]:
    """Delete the records before an offset, or ALL, in each partition. Returns the offset at which each begins then, or its
    ClientError."""
    kind = message("DeleteRecordsRequest")

    def build(version: int, some: list[Part], metadata: Metadata) -> Any:
        return kind(
            topics=[
                kind.DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        kind.DeleteRecordsPartition(partition_index=one, offset=before[topic, one]) for one in numbers
                    ],
                )
                for topic, numbers in by_topic(some).items()
            ],
            timeout_ms=WAIT_MS,
        )

    def outcomes(reply: Reply) -> Any:
        for topic in reply.message.topics:
            for one in topic.partitions:
                yield (topic.name, one.partition_index), one.error_code, one.low_watermark

    return (yield from of_leaders("DeleteRecords", before, build, outcomes))
