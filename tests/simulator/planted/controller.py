"""Mistakes of the controller: registration, leases, fencing, AlterIsr, elections."""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.controller import producer_ids
from actors.controller.brokers import fencing_passes, heartbeat_leases, registration
from actors.controller.partitions import alter_isr, leader_election
from actors.controller.partitions.leader_election import PartitionChange, choose_leader
from actors.controller.state import Result, State
from actors.metadata.ops import PartitionsChanged
from actors.node.api.handlers import delete_topics
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake()
def crash_rule_skipped() -> Sequence[Patch]:
    """A new process of a registered broker keeps its place in every ISR, whatever it lost."""

    def known(state: State, claim: Any, now: Any) -> bool:
        return bool(claim.first and claim.broker is not None)

    def welcome(state: State, claim: Any, now: Any) -> Result:
        state.soft.leaving.pop(claim.request.broker_id, None)
        return registration._register(state, claim, now)

    place = next(place for place, row in enumerate(registration.DECISIONS) if row[1] is registration._departing)
    rows = (*registration.DECISIONS[:place], ("nobody crashes", known, welcome), *registration.DECISIONS[place:])
    return [instead(registration, "DECISIONS", rows)]


def _checks_without(*dropped: Any) -> Patch:
    return instead(alter_isr, "CHECKS", tuple(row for row in alter_isr.CHECKS if row[1] not in dropped))


@mistake("moving")
def stale_alter_isr_accepted() -> Sequence[Patch]:
    """AlterIsr is applied though the partition has changed since it was proposed."""
    return [_checks_without(alter_isr._version_is_current)]


@mistake("recreated")
def alter_isr_of_a_deleted_topic_accepted() -> Sequence[Patch]:
    """AlterIsr finds the topic by its name alone: a recreated one gets the ISR that was proposed for the old one."""
    proposals = alter_isr._proposals

    def by_name(state: State, sender: int, topic: Any, seen: set[int]) -> Any:
        topic.topic_id = alter_isr.NO_ID
        return proposals(state, sender, topic, seen)

    return [instead(alter_isr, "_proposals", by_name)]


@mistake("moving")
def alter_isr_of_a_deposed_leader_accepted() -> Sequence[Patch]:
    """A broker that once led the partition may change its ISR."""
    return [_checks_without(alter_isr._sender_leads, alter_isr._version_is_current)]


@mistake("quiet")
def wrong_broker_epoch_accepted() -> Sequence[Patch]:
    """AlterIsr and its members are accepted under any broker epoch: a process that is gone speaks for the new one."""
    from actors.broker.replication import isr_transitions as leader_side

    eligible = alter_isr._eligible

    def any_epoch(state: State, proposal: Any) -> bool:
        epochs, proposal.entry.isr_broker_epochs = proposal.entry.isr_broker_epochs, []
        try:
            return eligible(state, proposal)
        finally:
            proposal.entry.isr_broker_epochs = epochs

    checks = tuple((name, any_epoch if check is eligible else check, code) for name, check, code in alter_isr.CHECKS)
    return [
        instead(alter_isr, "CHECKS", checks),
        instead(alter_isr, "broker_epoch_holds", lambda state, broker, epoch: broker in state.soft.leases),
        instead(leader_side, "eligible", lambda view, follower: follower.id in view.unfenced),
    ]


@mistake("silence")
def fenced_broker_accepted_into_the_isr() -> Sequence[Patch]:
    """The controller does not check whether the members that a leader proposes are registered."""
    from actors.broker.replication import isr_transitions as leader_side

    return [
        _checks_without(alter_isr._eligible),
        instead(leader_side, "eligible", lambda view, follower: True),
    ]


@mistake()
def lease_kept_by_a_deposed_leaders_word() -> Sequence[Patch]:
    """A new active controller ignores leases that another controller may have renewed: it fences brokers that still
    serve."""

    def take_over(soft: Any, image: Any, now: Any, lease_ms: int, grace_ms: int) -> None:
        for broker in image.brokers():
            soft.leases[broker.id] = heartbeat_leases.Lease(
                broker.epoch, broker.incarnation_id, now.mono_ms + lease_ms // 8, broker.epoch, -1
            )
        soft.changed()

    return [instead(heartbeat_leases, "take_over", take_over)]


@mistake()
def isr_change_without_a_new_version() -> Sequence[Patch]:
    """A granted AlterIsr leaves the partition's epochs as they were."""

    def changed(state: State, wanted: Sequence[PartitionChange]) -> list[PartitionsChanged]:
        image = state.image
        return [
            PartitionsChanged.one(
                image.topic_id(image.topic_of(row)) or b"",
                image.number(row),
                isr,
                leader,
                image.leader_epoch(row),
                image.partition_epoch(row),
            )
            for row, isr, leader in wanted
        ]

    return [instead(alter_isr, "changed", changed)]


@mistake("moving")
def unclean_leader_elected() -> Sequence[Patch]:
    """A partition gets a leader from outside its ISR, although its topic does not allow that."""
    elect = fencing_passes.elect
    return [
        instead(fencing_passes, "elect", lambda state, row, unclean: elect(state, row, True)),
        instead(leader_election, "unclean_allowed", lambda state, topic: True),
        instead(fencing_passes, "unclean_allowed", lambda state, topic: True),
    ]


@mistake("moving")
def last_member_leaves_the_isr() -> Sequence[Patch]:
    """The sole member of an ISR leaves it like any other, and the next best replica leads."""

    departures = fencing_passes.departures

    def leave(state: State, row: int, brokers: Mapping[int, bool]) -> PartitionChange | None:
        image = state.image
        members = image.isr(row)
        rest = tuple(member for member in members if member not in brokers)
        if rest == members:
            return None
        usable = state.soft.usable(image).ids - set(brokers)
        heir = choose_leader(image.replicas(row), rest or image.replicas(row), usable)
        return PartitionChange(row, rest or ((heir,) if heir >= 0 else members), heir)

    def listed(*given: Any) -> Any:
        """All partitions whose last members leave are judged by `leave`."""
        return departures(*given[:-1], None)

    return [instead(fencing_passes, "leave", leave), instead(fencing_passes, "departures", listed)]


@mistake()
def producer_ids_given_twice() -> Sequence[Patch]:
    """The next block of producer ids begins inside the last one."""
    allocate = producer_ids.allocate_producer_ids

    def overlapping(state: State, request: Any, now: Any, random: Any) -> Result:
        result = allocate(state, request, now, random)
        if result.ops:
            result.reply.producer_id_start = 0
        return result

    from actors.node.api.handlers import allocate_producer_ids as handler

    return [instead(handler, "allocate_producer_ids", overlapping)]


@mistake()
def deletion_of_a_topic_answered_and_not_done() -> Sequence[Patch]:
    """A client that deletes a topic is told that it is gone, but it stays."""
    decide = delete_topics.delete_topics

    def nothing(state: State, request: Any, now: Any, random: Any) -> Result:
        return decide(state, request, now, random)._replace(ops=[])

    return [instead(delete_topics, "delete_topics", nothing)]
