"""ListOffsets (2), versions 1 to 11: offsets by time, and the ends of a log.

Behaviour: the end is the high watermark for consumers, with isolation_level=1 the last stable offset (KIP-98), and the log
end for replicas and for the debugging consumer (-2), who may ask followers too. Nothing at or above it is found by time.
After a change of leader the end and offsets by time wait until the high watermark has reached where the new one began
(KIP-207). Searches that read batches run in a thread.

Version notes: 2 isolation level, 4 leader epoch, 5 OFFSET_NOT_AVAILABLE, 7 largest timestamp (-3), 8 and 9 tiers (-4, -5),
10 timeout, 11 earliest pending upload.

Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
OFFSET_NOT_AVAILABLE (below version 5 LEADER_NOT_AVAILABLE), KAFKA_STORAGE_ERROR, UNSUPPORTED_VERSION
(a place that the version does not know), INVALID_REQUEST (a partition named twice).
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.log.offsets_by_time import LATEST, MAX_TIMESTAMP, TimeOffset, TimeSearch
from actors.broker.log.slices import Sliced
from actors.broker.log.slices import Steps as JobSteps
from actors.broker.replication.admission import RequestRefused
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Later
from actors.node.runtime.calls import Call, Lane, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.ports import WorkKind
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListOffsetsRequest, ListOffsetsResponse

CONSUMER, DEBUGGER = -1, -2
NOT_AVAILABLE_FROM = 5
READ_COMMITTED = 1
SPECIAL_FROM = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
"""First version of each place that has a negative number instead of a time."""


@rpc(
    2,
    "ListOffsets",
    range(1, 12),
    listeners=(Listener.CLIENT, Listener.INTER_BROKER),
    lane=Lane.DATA,
    reads=Subject.RECORDS,
)
@in_slices
def list_offsets(context: BrokerContext, request: "ListOffsetsRequest", call: Call) -> Steps:
    """Find every offset asked for; at once where no batch has to be read."""
    if request.replica_id < 0 and not context.availability.serving:
        return Close("this broker is fenced")
    kind = message("ListOffsetsResponse")
    response = kind()
    searches: list[tuple[Any, TimeSearch]] = []
    named: Counter[tuple[str, int]] = Counter()
    pace = SliceCount()
    for topic in request.topics:
        for one in topic.partitions:
            named[topic.name, one.partition_index] += 1
            if pace.over():
                yield
    for topic in request.topics:
        answer = kind.ListOffsetsTopicResponse(name=topic.name, partitions=[])
        response.topics.append(answer)
        allowed = context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic.name)
        for one in {one.partition_index: one for one in topic.partitions}.values():
            data = kind.ListOffsetsPartitionResponse(partition_index=one.partition_index)
            answer.partitions.append(data)
            if pace.over():
                yield
            if named[topic.name, one.partition_index] > 1:
                data.error_code = ErrorCode.INVALID_REQUEST
                continue
            if not allowed:
                data.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            try:
                found = _find(context, topic.name, one, request, call.api_version)
            except RequestRefused as refused:
                data.error_code = refused.code
                continue
            if isinstance(found, TimeSearch):
                searches.append((data, found))
            else:
                _fill(data, found)
    if not searches:
        return Done(response)
    job = Sliced(_all([search for _, search in searches]))
    return Later(job, lambda results: _searched(response, searches, results), WorkKind.RECORDS)


def _find(
    context: BrokerContext,
    topic: str,
    one: "ListOffsetsRequest.ListOffsetsPartition",
    request: "ListOffsetsRequest",
    version: int,
) -> Any:
    replica = request.replica_id
    partition = context.replicas.get(topic, one.partition_index)
    if partition is None:
        raise RequestRefused(context.availability.absent(topic, one.partition_index))
    if one.timestamp < 0 and version < SPECIAL_FROM.get(one.timestamp, version + 1):
        raise RequestRefused(ErrorCode.UNSUPPORTED_VERSION)
    partition.check_epoch(one.current_leader_epoch, leader_only=replica != DEBUGGER)
    upper = partition.high_watermark if replica == CONSUMER else partition.log.log_end_offset
    if replica == CONSUMER and request.isolation_level == READ_COMMITTED:
        upper = partition.last_stable_offset
    if (
        replica == CONSUMER
        and partition.leads
        and partition.high_watermark < partition.led_from
        and (one.timestamp in (LATEST, MAX_TIMESTAMP) or one.timestamp >= 0)
    ):
        raise RequestRefused(
            ErrorCode.OFFSET_NOT_AVAILABLE if version >= NOT_AVAILABLE_FROM else ErrorCode.LEADER_NOT_AVAILABLE
        )
    return partition.log.offset_for_time(one.timestamp, upper)


def _all(searches: Sequence[TimeSearch]) -> JobSteps[list[TimeOffset | ErrorCode | None]]:
    """What each search finds. No exception is kept: its traceback holds buffers."""
    results: list[TimeOffset | ErrorCode | None] = []
    for search in searches:
        try:
            results.append((yield from search.steps()))
        except (OSError, ValueError):
            results.append(ErrorCode.KAFKA_STORAGE_ERROR)
    return results


def _searched(response: "ListOffsetsResponse", searches: list[tuple[Any, TimeSearch]], results: Any) -> Answer:
    if isinstance(results, Exception):
        results = [ErrorCode.KAFKA_STORAGE_ERROR] * len(searches)
    for (data, _), found in zip(searches, results, strict=True):
        if isinstance(found, ErrorCode):
            data.error_code = found
        else:
            _fill(data, found)
    return Done(response)


def _fill(data: "ListOffsetsResponse.ListOffsetsPartitionResponse", found: TimeOffset | None) -> None:
    if found is not None:
        data.offset, data.timestamp, data.leader_epoch = found.offset, found.timestamp, found.epoch
