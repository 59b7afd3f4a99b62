"""Mistakes of share groups in what the group coordinator knows of their members (KIP-932)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.broker.groups.share import groups, records
from actors.broker.groups.share.assignor import ShareGroupSpec, simple
from actors.broker.groups.share.groups import ShareGroups
from actors.broker.groups.share.requests import ShareHeartbeat
from actors.broker.groups.share.state import Member, ShareGroup, Target
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("sharing")
def share_members_are_answered_before_they_are_written() -> Sequence[Patch]:
    """The next coordinator does not know them, or not in their epoch."""
    commit = ShareGroups._commit

    def hasty(
        self: ShareGroups, shard: Any, group: ShareGroup, touched: Mapping[Any, None],
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:  # fmt: skip
        commit(self, shard, group, touched)
        if then is not None:
            then(ErrorCode.NONE)

    return [instead(ShareGroups, "_commit", hasty)]


@mistake("sharing")
def silent_members_of_share_groups_stay() -> Sequence[Patch]:
    """What they were given is read by nobody."""
    return [instead(ShareGroups, "_look_at_member", lambda *given: None)]


@mistake("sharing")
def epochs_of_share_members_forgotten_by_a_new_coordinator() -> Sequence[Patch]:
    """All of them have to join anew."""
    replay = records.replay

    def forgetful(group: ShareGroup, key: Any, data: Any) -> None:
        if key.kind != records.CURRENT:
            replay(group, key, data)

    return [instead(records, "replay", forgetful)]


@mistake("sharing")
def sessions_of_share_members_end_with_their_coordinator() -> Sequence[Patch]:
    """Members that are well are removed."""
    loaded = ShareGroups.loaded

    def hasty(self: ShareGroups, shard: Any, now: Now) -> None:
        loaded(self, shard, now._replace(mono_ms=now.mono_ms - self.settings.config("").session_ms))

    return [instead(ShareGroups, "loaded", hasty)]


@mistake("sharing")
def share_members_may_speak_in_any_epoch() -> Sequence[Patch]:
    """A member that was thought dead goes on with what it had."""
    known = groups._member

    def lenient(group: ShareGroup, request: ShareHeartbeat) -> Member:
        member = group.members.get(request.member_id)
        return member or known(group, request)

    return [instead(groups, "_member", lenient)]


@mistake("sharing")
def a_share_partition_is_given_to_nobody() -> Sequence[Patch]:
    """The records of a share partition wait until a member joins or leaves, and longer."""

    def forgetful(order: ShareGroupSpec) -> dict[str, Target]:
        last = max(((id, number) for id, numbers in order.partitions.items() for number in numbers), default=None)
        return {
            member: {
                id: left for id, numbers in target.items() if (left := frozenset(n for n in numbers if (id, n) != last))
            }
            for member, target in simple(order).items()
        }

    return [instead(groups, "simple", forgetful)]
