"""Mistakes in changing the voters (KIP-853), each planted for the length of a run. `raft_planted` searches them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from actors.raft import Leadership, Raft, VoterHistory, Voters, belief, change, election, leading
from actors.raft.messages import VoteRequest
from actors.raft.state import Core


def _without(*checks: Any) -> Any:
    """A leader does not object for these reasons."""
    left = {kind: tuple(one for one in found if one not in checks) for kind, found in change.OBJECTIONS.items()}
    return patch.object(change, "OBJECTIONS", left)


def _counted_from_the_commit() -> Any:
    """A set of voters counts once its record is committed."""

    def committed(core: Core) -> Any:
        return core.history.at(getattr(core, "high_watermark", 0)) or core.history.newest

    return patch.object(Core, "voters", property(committed))


def _two_at_once() -> Any:
    return _without(change._pending, change._uncommitted)


def _two_voters_apart() -> Any:
    """A removal is written together with another one."""
    without = Voters.without

    def more(voters: Any, key: Any) -> Any:
        rest = without(voters, key)
        return without(rest, rest.keys[-1]) if len(rest) > 2 else rest

    return patch.object(Voters, "without", more)


def _before_its_own_epoch() -> Any:
    return _without(change._not_established)


def _not_caught_up() -> Any:
    return patch.object(change, "_caught_up", lambda core, key: True)


def _rest_not_asked() -> Any:
    return _without(change._rest_silent)


def _removed_leader_counts_itself() -> Any:
    def advance(core: Core) -> None:
        found = core.leading
        if found is None:
            return
        held = [core.log.durable_offset, *(progress.end_offset for progress in found.voters.values())]
        agreed = sorted(held, reverse=True)[core.voters.majority - 1]
        if agreed >= found.next_offset:
            core.raise_high_watermark(agreed)
            if not found.committed:
                found.committed = True
                core.out.gained = Leadership(core.epoch, found.next_offset)
            if found.change is not None or not core.is_voter:
                leading._change_committed(core, found)

    return patch.object(leading, "advance", advance)


def _removed_leader_stays() -> Any:
    def settled(core: Core, found: Any) -> None:
        found.change = None

    return patch.object(leading, "_change_committed", settled)


def _change_not_undone() -> Any:
    """The log is truncated, and the set of voters in what was cut goes on counting."""
    return patch.object(VoterHistory, "truncate", lambda history, end_offset: None)


def _snapshot_voters_ignored() -> Any:
    """A replica that loads a snapshot keeps the voters that it knew."""
    return patch.object(VoterHistory, "restart_at", lambda history, end_offset, voters: None)


def _snapshot_with_the_newest() -> Any:
    """A snapshot names the voters of the end of the log, not those of its own end."""
    return patch.object(Raft, "voters_at", lambda raft, end_offset: raft.voters)


def _new_voter_without_sync() -> Any:
    """The fetches of a controller say what is durable only once it knows that it is a voter."""
    return patch.object(Core, "claims", property(lambda core: core.is_voter))


def _id_alone() -> Any:
    """A replica with the id of a voter counts as that voter, on whichever disk."""
    fetch = leading.fetch

    def lenient(core: Core, source: int, request: Any) -> None:
        known = core.voters.key(request.replica.id)
        fetch(core, source, request if known is None else request._replace(replica=known))

    return _patched_handler("FetchRequest", lenient)


def _unknowing_voter_refuses() -> Any:
    """A controller that does not know that it is a voter grants no vote."""
    vote = election.vote

    def strict(core: Core, source: int, request: VoteRequest) -> None:
        vote(core, source, request if core.is_voter else request._replace(end_offset=-1))

    return _patched_handler("VoteRequest", strict)


def _removed_replica_does_not_stand() -> Any:
    """A replica with the only record of its own removal leaves the election to the others."""
    return patch.object(Core, "stands", property(lambda core: core.is_voter))


def _strangers_are_never_believed() -> Any:
    """A voter whose log is old believes in nobody but the voters that it knows."""
    return patch.object(belief, "lost", lambda core: False)


@contextmanager
def _patched_handler(name: str, handler: Any) -> Iterator[None]:
    from actors.raft import raft

    kind = next(one for one in raft.HANDLERS if one.__name__ == name)
    with patch.dict(raft.HANDLERS, {kind: handler}):
        yield


CHANGES: dict[str, Callable[[], Any]] = {
    "voters counted from the commit": _counted_from_the_commit,
    "two changes at once": _two_at_once,
    "two voters in one change": _two_voters_apart,
    "change before the own epoch is committed": _before_its_own_epoch,
    "new voter not caught up": _not_caught_up,
    "removal leaves no live majority": _rest_not_asked,
    "removed leader counts itself": _removed_leader_counts_itself,
    "removed leader stays": _removed_leader_stays,
    "change not undone by a truncation": _change_not_undone,
    "voters of a snapshot ignored": _snapshot_voters_ignored,
    "snapshot names the newest voters": _snapshot_with_the_newest,
    "new voter without sync": _new_voter_without_sync,
    "id alone is the voter": _id_alone,
    "unknowing voter refuses its vote": _unknowing_voter_refuses,
    "removed replica does not stand": _removed_replica_does_not_stand,
    "strangers are never believed": _strangers_are_never_believed,
}
