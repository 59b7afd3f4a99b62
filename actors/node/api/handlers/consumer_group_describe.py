"""ConsumerGroupDescribe (69), versions 0 and 1: consumer groups of KIP-848 with their members.

Version notes: 1 how a member speaks (classic or consumer).
Behaviour: a group is shown once, however often it is named. Topics that do not exist any more are left out. A group with a
topic that the principal may not describe is refused as a whole.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's group.version is 0), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Collection, Generator, Mapping
from typing import TYPE_CHECKING, Any

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.consumer.state import ConsumerGroup
from actors.node.api.contexts import BrokerContext
from actors.node.api.security.authorizer import NOT_ASKED
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

CLASSIC, CONSUMER = 0, 1


@rpc(69, "ConsumerGroupDescribe", range(0, 2), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def consumer_group_describe(context: BrokerContext, request: "ConsumerGroupDescribeRequest", call: Call) -> Steps:
    """Show groups with their members."""
    kind = message("ConsumerGroupDescribeResponse")
    groups = []
    pace = Pace()
    for id in dict.fromkeys(request.group_ids):
        found = _group(context, call, id)
        if pace.over():
            yield
        if not isinstance(found, ConsumerGroup):
            code, text = found
            groups.append(kind.DescribedGroup(group_id=id, error_code=code, error_message=text))
            continue
        operations = NOT_ASKED
        if request.include_authorized_operations:
            operations = context.authorizer.operations(call, Resource.GROUP, id)
        groups.append((yield from _describe(context, call, kind, found, operations, pace)))
    return Done(kind(groups=groups))


def _group(context: BrokerContext, call: Call, id: str) -> ConsumerGroup | tuple[ErrorCode, str | None]:
    """The group, or why it is not shown."""
    if not context.groups.serves_consumers():
        return ErrorCode.UNSUPPORTED_VERSION, None
    if not context.authorizer.allowed(call, Operation.DESCRIBE, Resource.GROUP, id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, None
    if not id:
        return ErrorCode.INVALID_GROUP_ID, None
    machine = context.groups.machine
    group = machine.find(id)
    if isinstance(group, ErrorCode):
        return group, None
    if not isinstance(group, ConsumerGroup) or group.gone:
        there = group is not None and not isinstance(group, ConsumerGroup)
        text = f"Group {id} is not a consumer group." if there else f"Group {id} not found."
        return ErrorCode.GROUP_ID_NOT_FOUND, text
    return group


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[ConsumerGroupDescribeResponse]",
    group: ConsumerGroup,
    operations: int,
    pace: Pace,
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
    may_see: dict[str, bool] = {}
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
                assignment=_assignment(context, kind, current.held, may_see),
                target_assignment=_assignment(context, kind, group.targets.get(member.id, {}), may_see),
                member_type=CONSUMER if told.classic is None else CLASSIC,
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
    context: BrokerContext,
    kind: "type[ConsumerGroupDescribeResponse]",
    assigned: Mapping[bytes, Collection[int]],
    named: dict[str, bool],
) -> "ConsumerGroupDescribeResponse.Assignment":
    """Partitions by topic. `named` gathers the topics."""
    topics = []
    for topic_id, partitions in sorted(assigned.items()):
        name = context.cache.topic_name(topic_id)
        if name is not None:
            named[name] = True
            topics.append(kind.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions)))
    return kind.Assignment(topic_partitions=topics)
