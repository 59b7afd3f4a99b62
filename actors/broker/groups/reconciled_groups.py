"""What consumer and streams groups have in common: a member lets go of what others are to get, and commits offsets in
its epoch (KIP-848, KIP-1071).

What a member holds is a partition in a consumer group, and an active task in a streams group. This file alone decides, for
both, how long a member has to let go, and what the member epoch means for committed offsets. Rules:

1. A member that is asked to let go has its rebalance timeout for that.
2. Offsets are committed and read in the member's epoch. In an earlier one a member may still commit for what it has held
   since (KIP-1251).
3. An offset expires that is older than the retention, if no member reads its topic. With the last one an empty group goes.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from actors.broker.groups.kind import FAR_MS, Committer, Expiry
from actors.broker.groups.member_groups import MemberGroup, MemberGroups
from actors.broker.groups.reconciliation import Fenced
from actors.broker.groups.shard import Shard
from actors.ports import Now
from actors.wire.errors import ErrorCode


class ReconciledGroup(MemberGroup, Protocol):
    """One group whose members let go of what others are to get."""

    def epoch_of(self, id: str) -> int | None: ...
    def subscribes(self, topic: str) -> bool: ...
    def move(self, member: Any, current: Any) -> None: ...


G = TypeVar("G", bound=ReconciledGroup)


class ReconciledGroups(MemberGroups[G]):
    """The groups of one kind on one broker."""

    gives_way = True

    @abstractmethod
    def _held_as(self, group: G, topic: str) -> Any | None:
        """The name of what a member holds where it reads a topic: the topic's id, or a subtopology; None: there is no
        such topic."""

    def _past_error(self, group: G, committer: Committer, present: int) -> ErrorCode:
        """The error for a commit in another epoch than the `present` one of its member."""
        return ErrorCode.STALE_MEMBER_EPOCH

    # ---- who may commit and read offsets

    def commit_error(self, group: G, committer: Committer, now: Now) -> ErrorCode:
        """NONE if a member may commit in its epoch, else the error; STALE_MEMBER_EPOCH for an older one, see
        `held_since`."""
        member_id, instance_id, epoch, transactional = committer
        if group.gone:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if epoch < 0 and not self.size(group):
            return ErrorCode.NONE
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        present = group.epoch_of(member_id)
        if present is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if epoch == present else self._past_error(group, committer, present)

    def held_since(self, group: G, member_id: str, epoch: int, topic: str, partition: int) -> bool:
        """Whether a member that commits in an earlier epoch has held the partition, or its task, since (KIP-1251)."""
        member, held_as = group.members.get(member_id), self._held_as(group, topic)
        if member is None or held_as is None or epoch > member.current.epoch:
            return False
        since = member.current.since(held_as, partition)
        return since is not None and since <= epoch

    def fetch_error(self, group: G, member_id: str, epoch: int) -> ErrorCode:
        """NONE if a member may read offsets, else the error: it may only in its epoch."""
        present = group.epoch_of(member_id)
        if present is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if present == epoch else self.stale_error(group, member_id)

    def subscribes(self, group: G) -> Callable[[str], bool]:
        """Whether some member reads a topic."""
        return group.subscribes

    def offset_delete_error(self, group: G) -> ErrorCode:
        """The error for a deletion of offsets; NONE while the group is there: offsets of topics that no member reads
        can be deleted at any time."""
        return ErrorCode.GROUP_ID_NOT_FOUND if group.gone else ErrorCode.NONE

    def expiry(self, shard: Shard, group: G, now: Now, retention_ms: int, *, busy: bool) -> Expiry | None:
        """The committed offsets whose time is over."""
        if busy or group.gone or shard.transactional.unstable(group.id):
            return None
        oldest_ms, unsettled, subscribes = now.wall_ms - retention_ms, shard.unsettled_of(group.id), group.subscribes
        return Expiry(
            lambda key, committed: committed.wall_ms <= oldest_ms and key not in unsettled and not subscribes(key[0]),
            not self.size(group) and not unsettled,
        )

    # ---- on the way to the target

    def _reconciled(
        self,
        shard: Shard,
        group: G,
        member: Any,
        one: Any,
        step: Callable[[], Any],
        touched: dict[Any, None],
        now: Now,
    ) -> bool:
        """Bring a member one step nearer to its target, by `step`. Returns False if it is fenced, and was answered."""
        try:
            current = step()
        except Fenced as fenced:
            self._commit(shard, group, touched)
            self._refuse_all([one], ErrorCode.FENCED_MEMBER_EPOCH, str(fenced))
            return False
        if current != member.current:
            group.move(member, current)
            touched[self.records.RecordKey(self.records.CURRENT, member.id)] = None
            self._time_revocation(group, member, now)
        return True

    def _time_revocation(self, group: G, member: Any, now: Now) -> None:
        """Begin the time for a member that has to let go of something."""
        member.rebalance_due_ms = FAR_MS
        if member.revokes:
            member.rebalance_due_ms = now.mono_ms + max(0, member.rebalance_timeout_ms)
            self._watch(group, member)
