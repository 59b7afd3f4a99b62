"""From what the target assignment of a consumer group is made, what it changes, and what a member is to come to
(KIP-848).

Which member gets which partition is decided in `assignors.py`, and how it comes to that in `reconciliation.py`. This file
alone decides what of the group they are told. Rules:

1. An assignment is made for the members that are there when it is begun. It holds for those that are still there, and for a
   static member that has come back under another id meanwhile.
2. A topic that does not exist is assigned to nobody.
"""

from actors.broker.groups.consumer.assignors import ConsumerGroupSpec, Targets, Wish
from actors.broker.groups.consumer.reconciliation import MemberToReconcile, Owned
from actors.broker.groups.consumer.records import TARGET, TARGET_EPOCH, RecordKey
from actors.broker.groups.consumer.state import ConsumerGroup, Member
from actors.broker.groups.topics import Topics
from actors.ports import Now


def spec(group: ConsumerGroup, topics: Topics) -> ConsumerGroupSpec:
    """The spec for an assignor: what is to be assigned to whom. Members with equal subscriptions share what is looked
    up for them."""
    sizes: dict[bytes, int] = {}
    wishes: dict[tuple[tuple[str, ...], str], frozenset[bytes]] = {}
    members: dict[str, Wish] = {}
    for member in group.members.values():
        told = member.subscription
        wished = wishes.get((told.topics, told.regex))
        if wished is None:
            found = [topic for name in group.subscribed(told) if (topic := topics.named(name)) is not None]
            sizes.update(found)
            wished = wishes[told.topics, told.regex] = frozenset(topic_id for topic_id, _ in found)
        members[member.id] = Wish(told.instance_id, wished)
    return ConsumerGroupSpec(members, sizes, dict(group.targets))


def take(
    group: ConsumerGroup, epoch: int, order: ConsumerGroupSpec, targets: Targets, now: Now
) -> dict[RecordKey, None]:
    """Make an assignment hold. Returns the keys that it touches."""
    touched: dict[RecordKey, None] = {}
    for id, target in targets.items():
        if id not in group.members:
            instance = order.members[id].instance_id
            id = group.static.get(instance, "") if instance is not None else ""
        if id and group.targets.get(id) != target:
            group.targets[id] = target
            touched[RecordKey(TARGET, id)] = None
    group.target_epoch, group.target_wall_ms = epoch, now.wall_ms
    touched[RecordKey(TARGET_EPOCH)] = None
    return touched


def member_to_reconcile(
    group: ConsumerGroup, member: Member, owned: Owned | None, changed: bool, topics: Topics
) -> MemberToReconcile:
    """A member with its part of the assignment, and what it has. `owned`: what it says that it has.
    `changed`: whether its subscription has changed."""
    subscribed = group.subscribed(member.subscription)
    return MemberToReconcile(
        member.current,
        group.target_epoch,
        group.targets.get(member.id, {}),
        owned,
        lambda topic_id, partition: group.holder(topic_id, partition) in (None, member.id),
        lambda topic_id: topics.name(topic_id) in subscribed,
        changed,
    )
