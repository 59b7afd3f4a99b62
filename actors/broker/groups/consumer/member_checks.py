"""Which member a consumer group's heartbeat comes from, whether it may speak, and what it says of itself (KIP-848).

This file alone decides who is refused for what the group knows of it: unknown and fenced members, epochs of the past and
the future, instance ids that another one has. What is wrong whatever the group looks like is in `requests.py`. Nothing is
changed here.
"""

from actors.broker.groups.consumer.reconciliation import Owned
from actors.broker.groups.consumer.requests import ConsumerHeartbeat
from actors.broker.groups.consumer.state import AWAY, ConsumerGroup, Current, Member, Subscription
from actors.broker.groups.patterns import Pattern, PatternRefused
from actors.broker.groups.refusals import RequestRefused, unknown_member
from actors.wire.errors import ErrorCode


def speaker(group: ConsumerGroup, request: ConsumerHeartbeat, id: str) -> tuple[Member, Member | None]:
    """The member that sends a heartbeat, perhaps a new one; and the static member whose place it takes. Raises
    RequestRefused."""
    if request.epoch != 0:
        member = known_member(group, request)
        _check_epoch(member, request)
        return member, None
    known = group.static.get(request.instance_id) if request.instance_id is not None else None
    if known is not None and known != id:
        old = group.members[known]
        both_new = request.join is None and old.subscription.classic is None
        if both_new and old.current.epoch != AWAY:
            raise RequestRefused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {id} with instance id {request.instance_id} cannot join the group because the instance id "
                f"is owned by {known} member.",
            )
        return Member(id, old.subscription, old.current._replace(epoch=0, previous_epoch=0)), old
    return group.members.get(id) or Member(id), None


def known_member(group: ConsumerGroup, request: ConsumerHeartbeat) -> Member:
    """The member that sends a heartbeat, which must be there. Raises RequestRefused if it is not, or is fenced."""
    if request.instance_id is not None:
        id = group.static.get(request.instance_id)
        if id is None:
            raise RequestRefused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
        if id != request.member_id:
            raise RequestRefused(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {id}.",
            )
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(group.id, request.member_id)
    return member


def _check_epoch(member: Member, request: ConsumerHeartbeat) -> None:
    """Check the epoch of a member's heartbeat. A member may be one epoch behind, since the answer may have been lost,
    if it has nothing that it was not given. Raises RequestRefused."""
    current = member.current
    if request.epoch == current.epoch:
        return
    size = "greater" if request.epoch > current.epoch else "smaller"
    repeats = size == "smaller" and request.epoch == current.previous_epoch and _within(request.owned, current)
    if not repeats:
        raise RequestRefused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {size} member epoch ({request.epoch}) than the one known by the group "
            f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
        )


def _within(owned: Owned | None, current: Current) -> bool:
    if owned is None:
        return False
    return all(partitions <= current.assigned.get(topic, {}).keys() for topic, partitions in owned.items())


def told_now(request: ConsumerHeartbeat, known: Subscription) -> Subscription:
    """The subscription of a member, with what it says now."""
    return Subscription(
        request.instance_id if request.instance_id is not None else known.instance_id,
        request.rack_id if request.rack_id is not None else known.rack_id,
        request.client_id,
        request.client_host,
        tuple(sorted(set(request.topics))) if request.topics is not None else known.topics,
        request.regex if request.regex is not None else known.regex,
        request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else known.rebalance_timeout_ms,
        request.assignor if request.assignor is not None else known.assignor,
        request.classic,
    )


def check_regex(regex: str, known: str) -> None:
    """Check a regular expression. Raises RequestRefused if it is none, or explodes. `known`: the one that the member
    had."""
    if regex and regex != known:
        try:
            Pattern(regex)
        except PatternRefused as refused:
            raise RequestRefused(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {refused}.",
            ) from None
