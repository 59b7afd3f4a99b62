"""What the coming and going of members changes of a consumer group, and which of its records that touches (KIP-848)."""

from actors.broker.groups.consumer.records import CURRENT, GROUP, MEMBER, PARTITIONS, REGEX, TARGET, RecordKey
from actors.broker.groups.consumer.state import ConsumerGroup, Member
from actors.broker.groups.epochs import next_epoch


def raise_epoch(group: ConsumerGroup, hash: int, touched: dict[RecordKey, None]) -> None:
    """Raise the epoch of a group that is to get another assignment. `hash`: of its topics, as they are now. `touched`
    takes the keys."""
    group.epoch = next_epoch(group.epoch)
    group.metadata_hash = hash
    if group.has_partition_metadata:
        group.has_partition_metadata = False
        touched[RecordKey(PARTITIONS)] = None
    touched[RecordKey(GROUP)] = None


def remove(group: ConsumerGroup, member: Member) -> dict[RecordKey, None]:
    """Remove a member, and the regular expressions that it alone has named."""
    touched = {RecordKey(kind, member.id): None for kind in (CURRENT, TARGET, MEMBER)}
    regexes = list(group.resolved)
    group.remove(member.id)
    return touched | {RecordKey(REGEX, regex): None for regex in regexes if regex not in group.resolved}


def replace(group: ConsumerGroup, old: Member, new: Member) -> dict[RecordKey, None]:
    """Put a static member that came back under another id in the place of the old one."""
    touched = {RecordKey(kind, old.id): None for kind in (CURRENT, TARGET, MEMBER)}
    target = group.targets.get(old.id)
    resolved = dict(group.resolved)
    group.remove(old.id)
    group.resolved = resolved
    group.subscribe(new, new.subscription)
    group.move(new, new.current)
    if target is not None:
        group.targets[new.id] = target
    return touched | {RecordKey(kind, new.id): None for kind in (MEMBER, TARGET, CURRENT)}
