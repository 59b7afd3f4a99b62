"""ShareGroupDescribe (77), version 1: share groups with their members (KIP-932).

Behaviour: a group is shown once, however often it is named. Topics that do not exist any more are left out. A group with a
topic that the principal may not describe is refused as a whole.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.share.state import ShareGroup, Target
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import NOT_ASKED
from actors.node.api.share.share_groups import SIMPLE, share_group
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareGroupDescribeRequest, ShareGroupDescribeResponse


@rpc(77, "ShareGroupDescribe", range(1, 2), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def share_group_describe(context: BrokerContext, request: "ShareGroupDescribeRequest", call: Call) -> Steps:
    """Show groups with their members."""
    kind = message("ShareGroupDescribeResponse")
    groups = []
    pace = Pace()
    for id in dict.fromkeys(request.group_ids):
        found = share_group(context, call, Operation.DESCRIBE, id)
        if pace.over():
            yield
        if not isinstance(found, ShareGroup):
            code, text = found
            groups.append(kind.DescribedGroup(group_id=id, error_code=code, error_message=text))
            continue
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = context.authorizer.operations(call, Resource.GROUP, id)
        groups.append((yield from _describe(context, call, kind, found, operations, pace)))
    return Done(kind(groups=groups))


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[ShareGroupDescribeResponse]",
    group: ShareGroup,
    operations: int,
    pace: Pace,
) -> Generator[None, None, Any]:
    shown = kind.DescribedGroup(
        group_id=group.id,
        group_state=group.state(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SIMPLE,
        members=[],
        authorized_operations=operations,
    )
    may_see: dict[str, bool] = {}
    for member in list(group.members.values()):
        told = member.subscription
        shown.members.append(
            kind.Member(
                member_id=member.id,
                rack_id=told.rack_id,
                member_epoch=member.epoch,
                client_id=told.client_id,
                client_host=told.client_host,
                subscribed_topic_names=list(told.topics),
                assignment=_assignment(context, kind, member.assigned, may_see),
            )
        )
        if pace.over(1 + len(told.topics)):
            yield
    for topic in may_see:
        if pace.over():
            yield
        if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TOPIC, topic):
            return kind.DescribedGroup(
                group_id=group.id,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message="The group has described topic(s) that the client is not authorized to describe.",
            )
    return shown


def _assignment(
    context: BrokerContext, kind: "type[ShareGroupDescribeResponse]", assigned: Target, named: dict[str, bool]
) -> "ShareGroupDescribeResponse.Assignment":
    """Partitions by topic. `named` gathers the topics."""
    topics = []
    for topic_id, partitions in sorted(assigned.items()):
        name = context.cache.topic_name(topic_id)
        if name is not None:
            named[name] = True
            topics.append(kind.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions)))
    return kind.Assignment(topic_partitions=topics)
