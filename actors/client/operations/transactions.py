"""Transactions that are open in partitions, as the partitions' leaders know them (KIP-664).

A partition whose last stable offset is below its end has an open transaction, so only the producers of such partitions are
asked for.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part, by_topic, of_leaders
from actors.client.operations.offsets import Found, list_offsets
from actors.client.properties import READ_COMMITTED
from actors.wire.messages import message


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    """The offset of its first record."""
    last_timestamp_ms: int
    """The timestamp of its producer's last batch there, ms."""


def open_transactions(parts: Iterable[Part]) -> Steps[list[OpenTransaction]]:
    """The transactions that are open in some partitions (Kafka 2.8 and newer). Partitions that cannot be asked now are left
    out. Raises ClientError."""
    wanted = list(parts)
    ends = yield from list_offsets(wanted)
    stable = yield from list_offsets(wanted, isolation=READ_COMMITTED)
    held = [part for part in wanted if _offset(stable.get(part)) < _offset(ends.get(part))]
    if not held:
        return []
    told = yield from _producers(held)
    return [one for found in told.values() if not isinstance(found, ClientError) for one in found]


def _offset(found: Any) -> int:
    return found.offset if isinstance(found, Found) else -1


def _producers(parts: list[Part]) -> Steps[dict[Part, Any]]:
    """The open transactions of each partition, or its ClientError."""
    kind = message("DescribeProducersRequest")

    def build(version: int, some: list[Part], metadata: Metadata) -> Any:
        return kind(
            topics=[kind.TopicRequest(name=topic, partition_indexes=those) for topic, those in by_topic(some).items()]
        )

    def outcomes(reply: Any) -> Any:
        for topic in reply.message.topics:
            for part in topic.partitions:
                found = [
                    OpenTransaction(
                        topic.name, part.partition_index, one.producer_id, one.producer_epoch, one.current_txn_start_offset,
                        one.last_timestamp,
                    )
                    for one in part.active_producers if one.current_txn_start_offset >= 0
                ]  # fmt: skip
                yield (topic.name, part.partition_index), part.error_code, found

    return (yield from of_leaders("DescribeProducers", parts, build, outcomes))
