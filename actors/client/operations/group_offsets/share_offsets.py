"""Moving a share group: where it reads on (KIP-932)."""

from collections.abc import Mapping

from actors.client.asks import Ask, Coordinator, KeyType, Reply, Steps
from actors.client.errors import ClientError, refused
from actors.client.operations.each import Outcome, each
from actors.client.operations.leaders import Part, by_topic
from actors.wire.messages import message


def alter(group: str, offsets: Mapping[Part, int]) -> Steps[dict[Part, ClientError | None]]:
    """Set the start offsets of a share group without members. Returns each one's error or None."""
    kind = message("AlterShareGroupOffsetsRequest")

    def ask(some: list[Part]) -> Ask:
        topics = [
            kind.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    kind.AlterShareGroupOffsetsRequestPartition(partition_index=one, start_offset=offsets[topic, one])
                    for one in numbers
                ],
            )
            for topic, numbers in by_topic(some).items()
        ]
        request = kind(group_id=group, topics=topics)
        return Ask(Coordinator(KeyType.GROUP, group), "AlterShareGroupOffsets", lambda version: request)

    def outcomes(reply: Reply) -> list[Outcome]:
        told = reply.message
        if told.error_code:
            raise refused(f"group {group}", told.error_code, told.error_message)
        return [
            ((topic.topic_name, one.partition_index), one.error_code, one.error_message)
            for topic in told.responses
            for one in topic.partitions
        ]

    return (yield from each(f"group {group}, partition", offsets, ask, outcomes))
