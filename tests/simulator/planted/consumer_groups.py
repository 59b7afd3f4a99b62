"""Mistakes of consumer groups in which the coordinator assigns (KIP-848)."""

from collections.abc import Sequence
from typing import Any

from actors.broker.groups.consumer import groups, mixed_groups, reconciliation, records
from actors.broker.groups.consumer.resting import Rest
from actors.broker.groups.consumer.state import ConsumerGroup, Member
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("consumers")
def partitions_given_before_they_are_let_go() -> Sequence[Patch]:
    """Two members read a partition."""
    return [instead(ConsumerGroup, "holder", lambda self, topic_id, partition: None)]


@mistake("consumers")
def held_partitions_forgotten_by_a_new_coordinator() -> Sequence[Patch]:
    """A new coordinator gives away what members still use."""
    replay = records.replay

    def forgetful(group: ConsumerGroup, key: Any, data: Any) -> None:
        if key.kind == records.CURRENT and data is not None:
            data.assigned_partitions = []
        replay(group, key, data)

    return [instead(records, "replay", forgetful)]


@mistake("consumers")
def members_that_are_asked_to_let_go_hold_nothing() -> Sequence[Patch]:
    """A partition that is to be given up counts as given up."""

    def _hold(self: ConsumerGroup, member: Member) -> None:
        for topic_id, partitions in member.current.assigned.items():
            self.holders.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.id))

    return [instead(ConsumerGroup, "_hold", _hold)]


@mistake("consumers")
def silent_members_of_consumer_groups_stay() -> Sequence[Patch]:
    """A partition is read by nobody, since its member does not come back."""
    return [instead(Member, "due_ms", lambda self: groups.FAR_MS)]


@mistake("consumers")
def members_let_go_without_saying_so() -> Sequence[Patch]:
    """A member that says nothing of what it has counts as one that has nothing."""
    return [instead(reconciliation, "_owns", lambda question, held: False)]


@mistake("consumers")
def heartbeats_of_groups_at_rest_prolong_no_session() -> Sequence[Patch]:
    """Members that are there are taken out."""
    return [instead(Rest, "heard", lambda self, id, said, due_ms: id in self.places)]


@mistake("consumers")
def silent_members_of_groups_at_rest_stay() -> Sequence[Patch]:
    """The coordinator does not look at the sessions of members of groups at rest."""
    return [instead(Rest, "first_due_ms", lambda self: groups.FAR_MS)]


@mistake("consumers")
def woken_members_hold_nothing() -> Sequence[Patch]:
    """What they have is given away."""
    opened = Rest.opened

    def forgetful(self: Rest) -> Any:
        return [(told, current._replace(assigned={}), target) for told, current, target in opened(self)]

    return [instead(Rest, "opened", forgetful)]


@mistake("migrating")
def members_of_a_classic_group_come_without_what_they_hold() -> Sequence[Patch]:
    """A group that becomes a consumer group gives away what its members still read."""
    upgrade = groups.from_classic

    def empty(*given: Any) -> ConsumerGroup:
        found = upgrade(*given)
        for member in found.members.values():
            found.move(member, member.current._replace(assigned={}))
        return found

    return [instead(groups, "from_classic", empty)]


@mistake("migrating")
def classic_members_get_their_target_at_once() -> Sequence[Patch]:
    """A classic member reads a partition that another has not let go of."""

    def synced(self: Any, group: ConsumerGroup, member: Member, error: Any, now: Any) -> bytes:
        assert member.subscription.classic is not None
        metadata = member.subscription.classic.protocols[0][1]
        return mixed_groups.assignment_bytes(metadata, group.targets.get(member.id, {}), self.topics)

    return [instead(mixed_groups.MixedGroups, "_synced", synced)]
