"""OffsetCommit (8), versions 2 to 10.

Version notes: 2 to 4 carry a retention that nobody uses; 6 leader epoch; 7 static members; 9 a member of an unknown group
hears so, and members of KIP-848 commit; 10 topic ids.
Behaviour: all that is accepted is one write (`api/offset_commits.py`), and the answer comes when it is committed. A member
of KIP-848 may commit in an earlier epoch for partitions that it has held since (KIP-1251); if one partition is not, nothing
is committed.

Errors: GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH,
UNSUPPORTED_VERSION (a member of KIP-848 before version 9), REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID,
OFFSET_METADATA_TOO_LARGE, INVALID_COMMIT_OFFSET_SIZE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID; each partition has its
own.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.streams.state import StreamsGroup
from actors.node.api.contexts import BrokerContext
from actors.node.api.offset_commits import ResponseClasses, Terms, committed
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import go_on
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import OffsetCommitRequest

TOPIC_IDS = 10
NOT_FOUND_FROM = 9
_RESPONSE = message("OffsetCommitResponse")
_SHAPE = ResponseClasses(_RESPONSE, _RESPONSE.OffsetCommitResponseTopic, _RESPONSE.OffsetCommitResponsePartition)


@rpc(8, "OffsetCommit", range(2, 11), listeners=(Listener.CLIENT,), writes=Subject.GROUPS, pipelined=True)
def offset_commit(context: BrokerContext, request: "OffsetCommitRequest", call: Call) -> Answer:
    """Write the offsets; answer once they are committed."""
    machine = context.groups.machine
    id, member, epoch = request.group_id, request.member_id, request.generation_id_or_member_epoch
    terms = Terms(
        group_id=id,
        by_id=call.api_version >= TOPIC_IDS,
        error=lambda: _error(context, request, call),
        held=lambda topic, number: machine.held_since(id, member, epoch, topic, number),
        not_held=lambda: machine.stale_error(id, member),
        admit=lambda: ErrorCode.NONE,
        write=lambda offsets, records, then: machine.commit(id, offsets, then, records),
    )
    return go_on(committed(context, request, call, terms, _SHAPE))


def _error(context: BrokerContext, request: "OffsetCommitRequest", call: Call) -> ErrorCode:
    """What is wrong with the member that commits."""
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    version = call.api_version
    machine = context.groups.machine
    error = machine.commit_error(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        context.runtime.now,
    )
    if version < NOT_FOUND_FROM and isinstance(machine.find(request.group_id), StreamsGroup) and request.member_id:
        return ErrorCode.UNSUPPORTED_VERSION
    if version < NOT_FOUND_FROM and error in (ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH) and request.member_id:
        group = machine.consumer_group(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is not None and member.subscription.classic is None:
            return ErrorCode.UNSUPPORTED_VERSION
    if error is ErrorCode.ILLEGAL_GENERATION and version >= NOT_FOUND_FROM and machine.find(request.group_id) is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return error
