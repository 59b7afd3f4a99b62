"""Groups that change their protocol while they have members: from classic to that of KIP-848 and back.

This file alone decides when a group changes, and what of it is in the other form. Rules:

1. The first member of KIP-848 that comes to a classic group of consumers makes it a consumer group. Its members stay: each
   has what the leader has last assigned to it, in an epoch that is the group's generation.
2. When the last member of KIP-848 goes, the group is classic again, in a generation that is the group's epoch. All its
   members have what the target assignment gives them, and join anew; where a static member takes its own place with the
   classic protocol and nothing else changes, none has to.
3. `group.consumer.migration.policy` allows either direction. A group without members changes whatever it says.
4. A group whose members' bytes cannot be read, or have something in them that only their assignor knows, stays as it is.
"""

import enum
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from actors.broker.groups import embedded
from actors.broker.groups.classic.state import Group as ClassicGroup
from actors.broker.groups.classic.state import GroupState
from actors.broker.groups.classic.state import Member as ClassicGroupMember
from actors.broker.groups.consumer.state import (
    FIRST_EPOCH,
    NOTHING,
    ClassicMember,
    ConsumerGroup,
    Current,
    Held,
    Member,
    MemberState,
    Subscription,
)
from actors.broker.groups.refusals import RequestRefused
from actors.broker.groups.topics import Topics
from actors.wire.errors import ErrorCode, TooManyEntries, WireError

CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before "
    "re-attempting the upgrade"
)
"""The sentence for a group with an assignor of its own, to the letter as Apache Kafka's: its tests ask for it."""


class MigrationPolicy(enum.Enum):
    """The values of `group.consumer.migration.policy`: (from classic, to classic)."""

    DISABLED = (False, False)
    UPGRADE = (True, False)
    DOWNGRADE = (False, True)
    BIDIRECTIONAL = (True, True)


class Migration(NamedTuple):
    """The settings of the change of protocols. `classic_size_max`: the most members of a classic group."""

    policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    classic_size_max: int = (1 << 31) - 1

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> "Migration":
        """The settings, taken out of the broker's settings by name."""
        return cls(MigrationPolicy[value("group.consumer.migration.policy").upper()], value("group.max.size"))

    @property
    def upgrades(self) -> bool:
        """Whether a classic group with members becomes a consumer group."""
        return self.policy.value[0]

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group with members becomes a classic group."""
        return self.policy.value[1]


def from_classic(group: ClassicGroup, migration: Migration, size_max: int, topics: Topics) -> ConsumerGroup:
    """The consumer group that a classic group with members becomes; the classic group is not changed. Raises
    RequestRefused."""
    why = None
    if not migration.upgrades:
        why = "online upgrade is disabled (group.consumer.migration.policy)"
    elif group.protocol_type != embedded.CONSUMER:
        why = "the group does not use the consumer embedded protocol"
    elif len(group.members) > size_max:
        why = f"it has more members than group.consumer.max.size ({size_max}) allows"
    if why is None:
        try:
            return _from_classic(group, topics)
        except TooManyEntries:
            most = embedded.GROUP_ENTRIES_MAX
            why = f"its members subscribe to, and have, more than {most} topics and partitions together"
        except WireError as error:
            why = f"the embedded consumer protocol is malformed: {error}"
        except embedded.CustomAssignor:
            why = CUSTOM_ASSIGNOR
    text = f"Cannot upgrade classic group {group.id} to consumer group because {why}."
    raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _from_classic(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    epoch = max(FIRST_EPOCH, group.generation)
    found = ConsumerGroup(group.id)
    found.epoch = found.target_epoch = epoch
    said = embedded.Embedded(embedded.GROUP_ENTRIES_MAX)
    for member in group.members.values():
        protocol = group.protocol if group.protocol is not None else member.protocols[0][0]
        told = said.subscription(member.metadata(protocol))
        target = _by_id(said.assignment(member.assignment), topics)
        held = {topic_id: dict.fromkeys(sorted(numbers), epoch) for topic_id, numbers in target.items()}
        subscription = Subscription(
            member.instance_id,
            told.rack_id,
            member.client_id,
            member.client_host,
            told.topics,
            "",
            member.rebalance_timeout_ms,
            None,
            ClassicMember(member.session_timeout_ms, tuple(member.protocols)),
        )
        current = Current(epoch, epoch, MemberState.STABLE, held or NOTHING, NOTHING)
        found.members[member.id] = Member(member.id, subscription, current)
        found.targets[member.id] = target
    found.index()
    return found


def stays_classic(group: ConsumerGroup, without: Collection[str], migration: Migration) -> bool:
    """Whether a consumer group becomes classic when these members are gone: some stay, and all of them are classic."""
    left = len(group.members) - len(without)
    classic = group.classic_members - sum(group.members[id].subscription.classic is not None for id in without)
    return 0 < left <= migration.classic_size_max and classic == left and migration.downgrades


def is_replaced_by_classic(group: ConsumerGroup, member: Member | None, migration: Migration) -> bool:
    """Whether a consumer group becomes classic when this member comes back with the classic protocol: it is a static
    member, and the last one that does not speak it."""
    return (
        member is not None
        and member.subscription.classic is None
        and group.classic_members == len(group.members) - 1
        and len(group.members) <= migration.classic_size_max
        and migration.downgrades
    )


def to_classic(group: ConsumerGroup, topics: Topics, wall_ms: int) -> ClassicGroup:
    """The classic group that a consumer group becomes, all members of which are classic. It is stable. Raises
    WireError."""
    found = ClassicGroup(group.id)
    for member in group.members.values():
        told = member.subscription
        assert told.classic is not None
        one = ClassicGroupMember(
            member.id,
            told.instance_id,
            told.client_id,
            told.client_host,
            told.rebalance_timeout_ms,
            told.classic.session_timeout_ms,
            embedded.CONSUMER,
            told.classic.protocols,
        )
        found.add(one)
    found.generation = group.epoch
    found.protocol = found.choose_protocol()
    if found.protocol is None:
        raise WireError("protocols", "of the members have none in common", 0)
    found.state, found.state_wall_ms = GroupState.STABLE, wall_ms
    for one in found.members.values():
        one.assignment = assignment_bytes(one.metadata(found.protocol), _has(group, one.id), topics)
    return found


def _has(group: ConsumerGroup, member: str) -> dict[bytes, set[int]]:
    """The partitions that a member has in the classic group: all that it holds, also what it was asked to let go of,
    and what of its target no member holds. Until all have joined anew, they may not be given to another member."""
    found = group.members[member].current.held
    for topic_id, numbers in group.targets.get(member, {}).items():
        if free := {number for number in numbers if group.holder(topic_id, number) is None}:
            found.setdefault(topic_id, set()).update(free)
    return found


def assignment_bytes(metadata: bytes, given: Held | Mapping[bytes, Collection[int]], topics: Topics) -> bytes:
    """The bytes by which a classic member reads its partitions. Topics that are gone are left out."""
    named = {topics.name(topic_id): frozenset(numbers) for topic_id, numbers in given.items()}
    return embedded.assignment_bytes(metadata, {name: numbers for name, numbers in named.items() if name is not None})


def _by_id(partitions: embedded.Partitions, topics: Topics) -> dict[bytes, frozenset[int]]:
    """The partitions by topic id; topics that do not exist are left out."""
    found = {}
    for name, numbers in partitions.items():
        topic = topics.named(name)
        here = frozenset(n for n in numbers if topic is not None and 0 <= n < topic[1])
        if topic is not None and here:
            found[topic[0]] = here
    return found


def owned_by_id(partitions: embedded.Partitions, topics: Topics) -> dict[bytes, frozenset[int]]:
    """The partitions that a member says that it has, by topic id."""
    return _by_id(partitions, topics)
