"""ConsumerGroupDescribe (69), versions 0 and 1: consumer groups of KIP-848 with their members.

Version notes: 1 how a member speaks (classic or consumer).
Behaviour: a group is shown once, however often it is named. Topics that do not exist any more are left out. A group with a
topic that the principal may not describe is refused as a whole.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's group.version is 0), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from actors.broker.groups.consumer.state import ConsumerGroup
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

CLASSIC, CONSUMER = 0, 1


@rpc(69, "ConsumerGroupDescribe", range(0, 2), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def consumer_group_describe(context: BrokerContext, request: "ConsumerGroupDescribeRequest", call: Call) -> Steps:
    """Show groups with their members."""
    kind = message("ConsumerGroupDescribeResponse")

    def find(id: str) -> ConsumerGroup | groups_shown.NotShown:
        return groups_shown.group_to_show(context, call, id, context.groups.serves_consumers(), ConsumerGroup)

    def show(group: ConsumerGroup, operations: int, pace: SliceCount) -> Generator[None, None, Any]:
        return _describe(context, call, kind, group, operations, pace)

    return (yield from groups_shown.describe(context, call, kind, request, find, show))


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[ConsumerGroupDescribeResponse]",
    group: ConsumerGroup,
    operations: int,
    pace: SliceCount,
) -> Generator[None, None, Any]:
    default = context.groups.machine.settings.consumer.assignors[0]
    shown = kind.DescribedGroup(
        group_id=group.id,
        group_state=group.state(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor(default),
        members=[],
        authorized_operations=operations,
    )
    named: dict[str, None] = {}
    for member in reversed(list(group.members.values())):  # newest first, as Kafka's tests expect them
        told, current = member.subscription, member.current
        shown.members.append(
            kind.Member(
                member_id=member.id,
                instance_id=told.instance_id,
                rack_id=told.rack_id,
                member_epoch=current.epoch,
                client_id=told.client_id,
                client_host=told.client_host,
                subscribed_topic_names=list(told.topics),
                subscribed_topic_regex=told.regex,
                assignment=groups_shown.assignment(context, kind, current.held, named),
                target_assignment=groups_shown.assignment(context, kind, group.targets.get(member.id, {}), named),
                member_type=CONSUMER if told.classic is None else CLASSIC,
            )
        )
        if pace.over(1 + len(told.topics)):
            yield
    return (yield from groups_shown.unless_denied(context, call, kind, shown, named, pace))
