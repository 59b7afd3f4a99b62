"""ShareGroupDescribe (77), version 1: share groups with their members (KIP-932).

Behaviour: a group is shown once, however often it is named. Topics that do not exist any more are left out. A group with a
topic that the principal may not describe is refused as a whole.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's share.version is 0), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.broker.groups.share.state import ShareGroup
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_groups import SIMPLE
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ShareGroupDescribeRequest, ShareGroupDescribeResponse


@rpc(77, "ShareGroupDescribe", range(1, 2), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def share_group_describe(context: BrokerContext, request: "ShareGroupDescribeRequest", call: Call) -> Steps:
    """Show groups with their members."""
    kind = message("ShareGroupDescribeResponse")

    def find(id: str) -> ShareGroup | groups_shown.NotShown:
        return groups_shown.group_to_show(context, call, id, context.groups.serves_share_groups(), ShareGroup)

    def show(group: ShareGroup, operations: int, pace: SliceCount) -> Generator[None, None, Any]:
        return _describe(context, call, kind, group, operations, pace)

    return (yield from groups_shown.describe(context, call, kind, request, find, show))


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[ShareGroupDescribeResponse]",
    group: ShareGroup,
    operations: int,
    pace: SliceCount,
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
    named: dict[str, None] = {}
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
                assignment=groups_shown.assignment(context, kind, member.assigned, named),
            )
        )
        if pace.over(1 + len(told.topics)):
            yield
    return (yield from groups_shown.unless_denied(context, call, kind, shown, named, pace))
