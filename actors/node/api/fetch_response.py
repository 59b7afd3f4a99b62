"""The answer to a Fetch, made in slices out of what the attempt to read has found (`handlers/fetch.py`).

This file alone decides which field of the response says what: where a partition's leader is for a client that asks another
broker, where an offset diverges (KIP-595), which replica is closer (KIP-392), and which transactions were aborted (KIP-98).
Nothing is told of a fetch session that has gone on meanwhile.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from actors.broker.replication.closest_replica import LEADER
from actors.broker.replication.reading import PartitionRead
from actors.node.api.contexts import BrokerContext
from actors.node.roles.broker.replication.delayed_fetch import DelayedFetch
from actors.node.runtime.slices import ENTRIES_A_SLICE, portions
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FetchResponse

MOVED = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
Response = Generator[None, None, "FetchResponse"]
"""A response that is made in slices."""
_RESPONSE = message("FetchResponse")


def response(
    context: BrokerContext,
    listener: str,
    committed: bool,
    delayed: DelayedFetch,
    looks: Sequence[PartitionRead],
    throttle_ms: int,
) -> Response:
    """The response to what was found; `committed`: to a reader of committed records, who is told what was aborted."""
    topics: dict[bytes | str, FetchResponse.FetchableTopicResponse] = {}
    leaders: dict[int, None] = {}
    long: list[tuple[list[FetchResponse.AbortedTransaction], Sequence[tuple[int, int]]]] = []
    """Aborted transactions of a partition that are more than a slice: their first slice, and all of them."""
    for portion in [looks] if len(looks) < ENTRIES_A_SLICE else portions(looks):
        for found in delayed.told(portion):
            name = found.entry.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = _topic(name)
            aborted = _aborted(found.aborted[:ENTRIES_A_SLICE]) if committed else None
            data = _partition_data(found, aborted)
            topic.partitions.append(data)
            if aborted is not None and len(found.aborted) > ENTRIES_A_SLICE:
                long.append((aborted, found.aborted))
            if found.error and found.error in MOVED:
                leaders[found.leader] = None
                data.current_leader = _RESPONSE.LeaderIdAndEpoch(
                    leader_id=found.leader, leader_epoch=found.leader_epoch
                )
        if len(portion) == ENTRIES_A_SLICE:
            yield
            if delayed.overtaken:
                return _RESPONSE(session_id=delayed.session.id)
    for told, of_all in long:
        for some in portions(of_all, ENTRIES_A_SLICE):
            yield
            if delayed.overtaken:
                return _RESPONSE(session_id=delayed.session.id)
            told += _aborted(some)
    delayed.leaves()
    answer = _RESPONSE(throttle_time_ms=throttle_ms, session_id=delayed.session.id, responses=list(topics.values()))
    if leaders:
        answer.node_endpoints = context.cache.node_endpoints(leaders, _RESPONSE.NodeEndpoint, listener)
    return answer


def _topic(name: bytes | str) -> "FetchResponse.FetchableTopicResponse":
    if isinstance(name, bytes):  # by id, from version 13 on
        return _RESPONSE.FetchableTopicResponse(topic_id=name, partitions=[])
    return _RESPONSE.FetchableTopicResponse(topic=name, partitions=[])


def _partition_data(
    found: PartitionRead, aborted: "list[FetchResponse.AbortedTransaction] | None"
) -> "FetchResponse.PartitionData":
    data = _RESPONSE.PartitionData(
        partition_index=found.entry.number,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable,
        log_start_offset=found.log_start,
        records=found.records or b"",
        aborted_transactions=aborted,
    )
    if found.diverging is not None:
        data.diverging_epoch = _RESPONSE.EpochEndOffset(epoch=found.diverging[0], end_offset=found.diverging[1])
    if found.preferred != LEADER:
        data.preferred_read_replica = found.preferred
    return data


def _aborted(some: Sequence[tuple[int, int]]) -> list["FetchResponse.AbortedTransaction"]:
    return [
        _RESPONSE.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in some
    ]
