"""Mistakes of share coordinators: what they keep of share partitions, and until when (KIP-932)."""

from collections.abc import Sequence
from typing import Any

from actors.broker.groups.share.persistence import share_coordinator, share_state
from actors.broker.groups.share.persistence.share_coordinator import ShareStateCoordinator, ShareStateVerdict
from actors.broker.groups.share.persistence.share_shard import ShareStateShard
from actors.broker.groups.share.persistence.share_state import ShareState, Update
from actors.broker.groups.share.persistence.share_state_records import StateLine
from actors.ports import Now
from actors.wire.errors import ErrorCode
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("shared")
def share_coordinators_answer_before_the_write_is_committed() -> Sequence[Patch]:
    """The next one does not have it, and what was acknowledged is given out again."""
    commit = ShareStateCoordinator._commit

    def hasty(self: ShareStateCoordinator, shard: Any, entry: Any, content: Any, then: Any) -> None:
        commit(self, shard, entry, content, lambda verdict: None)
        then(ShareStateVerdict(ErrorCode.NONE))

    return [instead(ShareStateCoordinator, "_commit", hasty)]


@mistake("shared")
def snapshots_of_share_partitions_have_the_newest_batches_alone() -> Sequence[Patch]:
    """What was acknowledged before is given out again by the next leader."""
    whole = share_state.snapshot

    def short(known: ShareState, update: Update, now: Now) -> ShareState:
        return whole(known._replace(batches=()), update, now)

    return [instead(share_coordinator, "snapshot", short)]


@mistake("shared")
def updates_of_share_partitions_are_not_loaded() -> Sequence[Patch]:
    """The next share coordinator knows what the last snapshot says."""
    take = ShareStateShard.take

    def forgetful(self: ShareStateShard, line: StateLine) -> None:
        if not isinstance(line.record, Update):
            take(self, line)

    return [instead(ShareStateShard, "take", forgetful)]
