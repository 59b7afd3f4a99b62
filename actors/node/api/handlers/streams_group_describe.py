"""StreamsGroupDescribe (89), version 0: streams groups with their members and their topology (KIP-1071).

Behaviour: a group is shown once, however often it is named. Internal topics have the number of partitions that was decided
for them, as soon as all topics are as they have to be. A group with a topic that the principal may not describe is refused
as a whole.
Errors, each group its own: UNSUPPORTED_VERSION (the cluster's streams.version is 0), GROUP_AUTHORIZATION_FAILED,
TOPIC_AUTHORIZATION_FAILED, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND.
"""

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from actors.broker.groups.streams.answers import Tasks
from actors.broker.groups.streams.state import Member, StreamsGroup
from actors.broker.groups.streams.topology import Subtopology, Topic
from actors.node.api import groups_shown
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener, Subject
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse


@rpc(89, "StreamsGroupDescribe", range(0, 1), listeners=(Listener.CLIENT,), reads=Subject.GROUPS)
@in_slices
def streams_group_describe(context: BrokerContext, request: "StreamsGroupDescribeRequest", call: Call) -> Steps:
    """Show groups with their members."""
    kind = message("StreamsGroupDescribeResponse")

    def find(id: str) -> StreamsGroup | groups_shown.NotShown:
        return groups_shown.group_to_show(context, call, id, context.groups.serves_streams(), StreamsGroup)

    def show(group: StreamsGroup, operations: int, pace: SliceCount) -> Generator[None, None, Any]:
        return _describe(context, call, kind, group, operations, pace)

    return (yield from groups_shown.describe(context, call, kind, request, find, show))


def _describe(
    context: BrokerContext,
    call: Call,
    kind: "type[StreamsGroupDescribeResponse]",
    group: StreamsGroup,
    operations: int,
    pace: SliceCount,
) -> Generator[None, None, Any]:
    shown = kind.DescribedGroup(
        group_id=group.id,
        group_state=group.state(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(kind, group),
        members=[],
        authorized_operations=operations,
    )
    for member in list(group.members.values()):
        shown.members.append(_member(kind, member, group.targets.get(member.id, Tasks())))
        if pace.over(1 + sum(len(numbers) for numbers in member.current.assigned.active.values())):
            yield
    asked = group.topology is not None and context.authorizer.enabled
    topics = sorted(group.topology.named()) if group.topology is not None and asked else ()
    return (yield from groups_shown.unless_denied(context, call, kind, shown, topics, pace))


def _topology(kind: "type[StreamsGroupDescribeResponse]", group: StreamsGroup) -> Any:
    """The topology of a group; None: it has none, which happens only where the log was torn."""
    if group.topology is None:
        return None
    found = group.way.partitioned
    sizes = found.sizes if found is not None and found.ready else {}
    return kind.Topology(
        epoch=group.topology.epoch,
        subtopologies=[_subtopology(kind, one, sizes) for one in group.topology.subtopologies],
    )


def _subtopology(
    kind: "type[StreamsGroupDescribeResponse]", one: Subtopology, sizes: Mapping[str, int]
) -> "StreamsGroupDescribeResponse.Subtopology":
    def topics(of: tuple[Topic, ...]) -> list[Any]:
        return [
            kind.TopicInfo(
                name=topic.name,
                partitions=sizes.get(topic.name, topic.partitions),
                replication_factor=topic.replicas,
                topic_configs=[kind.KeyValue(key=key, value=value) for key, value in topic.settings],
            )
            for topic in sorted(of)
        ]

    return kind.Subtopology(
        subtopology_id=one.id,
        source_topics=sorted(one.sources),
        repartition_sink_topics=sorted(one.sinks),
        state_changelog_topics=topics(one.changelogs),
        repartition_source_topics=topics(one.repartitions),
    )


def _member(
    kind: "type[StreamsGroupDescribeResponse]", member: Member, target: Tasks
) -> "StreamsGroupDescribeResponse.Member":
    told, current = member.told, member.current
    return kind.Member(
        member_id=member.id,
        member_epoch=current.epoch,
        instance_id=told.instance_id,
        rack_id=told.rack_id,
        client_id=told.client_id,
        client_host=told.client_host,
        topology_epoch=told.topology_epoch,
        process_id=told.process_id,
        user_endpoint=None
        if told.endpoint is None
        else kind.Endpoint(host=told.endpoint.host, port=told.endpoint.port),
        client_tags=[kind.KeyValue(key=key, value=value) for key, value in told.tags],
        assignment=_assignment(kind, current.assigned.tasks()),
        target_assignment=_assignment(kind, target),
    )


def _assignment(kind: "type[StreamsGroupDescribeResponse]", tasks: Tasks) -> "StreamsGroupDescribeResponse.Assignment":
    return kind.Assignment(
        **{f"{role}_tasks": groups_shown.tasks(kind, sets) for role, sets in zip(Tasks._fields, tasks, strict=True)}
    )
