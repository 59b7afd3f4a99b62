"""StreamsGroupHeartbeat (88), version 0: a member of a streams group joins, goes on, or leaves (KIP-1071).

Behaviour: an answer waits for all that it depends on, and for the target assignment that the member has caused. Internal
topics that are missing are made, if the member may CREATE the cluster's topics or each of these.
Errors: UNSUPPORTED_VERSION (the cluster's streams.version is 0), GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED,
INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.streams.answers import Endpoint, NewTopic, Served, Status, StreamsBeat
from actors.broker.groups.streams.requests import StreamsHeartbeat
from actors.broker.groups.streams.topology import Topology, topology
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse

NAMED_MAX = 3
"""Topics that could not be made of which a member is told."""


@rpc(88, "StreamsGroupHeartbeat", range(0, 1), listeners=(Listener.CLIENT,))
@in_slices
def streams_group_heartbeat(context: BrokerContext, request: "StreamsGroupHeartbeatRequest", call: Call) -> Steps:
    """Hand it to the coordinator, and wait for its verdict."""
    kind = message("StreamsGroupHeartbeatResponse")
    groups, may = context.groups, context.authorizer
    error = groups_shown.heartbeat_error(context, call, request.group_id, groups.serves_streams())
    if error is not ErrorCode.NONE:
        return Done(kind(error_code=error))
    given = topology(request.topology) if request.topology is not None else None
    if given is not None and may.enabled:
        pace = SliceCount()
        for topic in sorted(given.named()):
            if not may.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic):
                return Done(kind(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            if pace.over():
                yield
    return groups.ask(
        call.connection,
        lambda ticket: groups.machine.kinds.streams.heartbeat(
            ticket, _heartbeat(request, call, given), context.runtime.now
        ),
        lambda beat: _reply(beat, _made(context, call, beat)),
    )


def _heartbeat(request: "StreamsGroupHeartbeatRequest", call: Call, given: Topology | None) -> StreamsHeartbeat:
    return StreamsHeartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        epoch=request.member_epoch,
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=given,
        active=_owned(request.active_tasks),
        standby=_owned(request.standby_tasks),
        warmup=_owned(request.warmup_tasks),
        process_id=request.process_id,
        endpoint=None
        if request.user_endpoint is None
        else Endpoint(request.user_endpoint.host, request.user_endpoint.port),
        tags=None if request.client_tags is None else [(tag.key, tag.value) for tag in request.client_tags],
        has_offsets=request.task_offsets is not None or request.task_end_offsets is not None,
        shutdown=request.shutdown_application,
        client_id=call.client_id or "",
        client_host=f"/{call.client_host}",
    )


def _owned(tasks: Any) -> list[tuple[str, Sequence[int]]] | None:
    return None if tasks is None else [(one.subtopology_id, one.partitions) for one in tasks]


def _made(context: BrokerContext, call: Call, beat: StreamsBeat) -> str:
    """Have the topics made that are missing. What there is to say about them besides that."""
    if not beat.create:
        return ""
    may = context.authorizer
    if not may.shown(call, Operation.CREATE, Resource.CLUSTER):
        denied = [one.name for one in beat.create if not may.allowed(call, Operation.CREATE, Resource.TOPIC, one.name)]
        if denied:
            return f"; Unauthorized to CREATE on topics {', '.join(denied)}."
    failed = context.streams_topics.create(beat.create, 2 * beat.interval_ms, call)
    return _failures(beat.create, failed)


def _failures(wanted: Sequence[NewTopic], failed: Mapping[str, str]) -> str:
    named = [f"{one.name} ({failed[one.name]})" for one in wanted if one.name in failed]
    if not named:
        return ""
    more = len(named) - NAMED_MAX
    listed = ", ".join(named[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"; Creation failed: {listed}."


def _reply(beat: StreamsBeat, about_topics: str) -> "StreamsGroupHeartbeatResponse":
    kind = message("StreamsGroupHeartbeatResponse")
    if beat.error is not ErrorCode.NONE:
        return kind(error_code=beat.error, error_message=beat.message)
    status = [
        kind.Status(
            status_code=int(code),
            status_detail=text + (about_topics if code is Status.MISSING_INTERNAL_TOPICS else ""),
        )
        for code, text in beat.status
    ]
    reply = kind(
        member_id=beat.member_id,
        member_epoch=beat.epoch,
        heartbeat_interval_ms=beat.interval_ms,
        status=status,
        endpoint_information_epoch=beat.endpoint_epoch,
    )
    if beat.tasks is not None:
        reply.active_tasks, reply.standby_tasks, reply.warmup_tasks = (
            groups_shown.tasks(kind, sets) for sets in beat.tasks
        )
    if beat.endpoints is not None:
        reply.partitions_by_user_endpoint = [_endpoint(kind, one) for one in beat.endpoints]
    return reply


def _endpoint(
    kind: "type[StreamsGroupHeartbeatResponse]", served: Served
) -> "StreamsGroupHeartbeatResponse.EndpointToPartitions":
    def partitions(of: Sequence[tuple[str, Sequence[int]]]) -> list[Any]:
        return [kind.TopicPartition(topic=topic, partitions=list(numbers)) for topic, numbers in of]

    return kind.EndpointToPartitions(
        user_endpoint=kind.Endpoint(host=served.endpoint.host, port=served.endpoint.port),
        active_partitions=partitions(served.active),
        standby_partitions=partitions(served.standby),
    )
