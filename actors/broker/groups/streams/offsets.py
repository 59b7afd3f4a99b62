"""Who may commit and read the offsets of a streams group, and which offsets have expired (KIP-1071, KIP-1251).

A partition of a source topic belongs to the task of its number in the subtopology that reads the topic. A member may still
commit in an earlier epoch for tasks that it has had since. This file alone decides that; it is functions of the group.
"""

from actors.broker.groups.kind import Committer, Expiry
from actors.broker.groups.shard import Shard
from actors.broker.groups.streams.state import StreamsGroup
from actors.ports import Now
from actors.wire.errors import ErrorCode


def commit_error(group: StreamsGroup, committer: Committer) -> ErrorCode:
    """Whether a member may commit in its epoch; STALE_MEMBER_EPOCH for an older one, see `held_since`."""
    member_id, instance_id, epoch, transactional = committer
    if group.gone:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if transactional and epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.current.epoch else ErrorCode.STALE_MEMBER_EPOCH


def held_since(group: StreamsGroup, member_id: str, epoch: int, topic: str, partition: int) -> bool:
    """Whether the partition's task has been active at a member since an earlier epoch."""
    member = group.members.get(member_id)
    subtopology = group.topology.readers.get(topic) if group.topology is not None else None
    if member is None or subtopology is None or epoch > member.current.epoch:
        return False
    for held in (member.current.assigned, member.current.revoking):
        since = held.active.get(subtopology, {}).get(partition)
        if since is not None:
            return since <= epoch
    return False


def fetch_error(group: StreamsGroup, member_id: str, epoch: int) -> ErrorCode:
    """A member reads offsets in its epoch alone."""
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.current.epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH


def expiry(shard: Shard, group: StreamsGroup, now: Now, retention_ms: int) -> Expiry | None:
    """Offsets that are older than the retention, of topics that no member reads. With the last one an empty group goes."""
    if group.gone or shard.transactional.unstable(group.id):
        return None
    oldest_ms, unsettled, subscribes = now.wall_ms - retention_ms, shard.unsettled_of(group.id), group.subscribes
    return Expiry(
        lambda key, committed: committed.wall_ms <= oldest_ms and key not in unsettled and not subscribes(key[0]),
        not group.members and not unsettled,
    )
