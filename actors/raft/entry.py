"""This replica's own entry among the voters (KIP-853, KIP-1186).

This file alone decides when a controller asks its leader to add it, to remove what it was before its disk was replaced, or
to note where it is reached now. Rules:

1. It asks as a follower that has heard its leader, first a fetch timeout after it began to follow, then again and again
   until the log says what it should. The answer is not looked at: the log counts.
2. Only a replica that joins by itself (`auto_join`) asks to be added. If a voter has its id and another disk, that disk is
   gone, for two disks cannot belong to one id: it asks for the removal of that voter first. It does both once a disk: a
   replica that a committed record has named, and that is no voter any more, was removed or replaced on purpose (`joined`).
3. A leader corrects its own entry by itself.
"""

from actors.raft import change
from actors.raft.messages import AddVoterRequest, RemoveVoterRequest, UpdateVoterRequest, VoterRequest
from actors.raft.state import NEVER_MS, Core, Role


def due_ms(core: Core) -> int:
    """When `tell` has something to do next (monotonic ms; NEVER_MS: never)."""
    if not core.entry_wrong:
        return NEVER_MS
    if core.role is Role.LEADER:
        return core.now_ms if change.may_correct_own(core) else NEVER_MS
    fetching = core.fetching
    if core.role is not Role.FOLLOWER or fetching is None or not fetching.heard:
        return NEVER_MS
    return fetching.entry_ms


def tell(core: Core) -> None:
    """Put this replica's entry among the voters right, if it is time: a follower asks its leader, a leader begins a
    change."""
    if due_ms(core) > core.now_ms:
        return
    if core.role is Role.LEADER:
        change.correct_own(core)
        return
    assert core.fetching is not None
    core.fetching.entry_ms = core.now_ms + core.limits.fetch_timeout_ms
    core.say(core.leader_id, _request(core))


def _request(core: Core) -> VoterRequest:
    own = core.own
    assert own is not None
    if core.is_voter:
        return UpdateVoterRequest(core.next_serial(), core.epoch, own)
    before = core.voters.key(core.me.id)
    if before is not None:
        return RemoveVoterRequest(core.next_serial(), before)
    return AddVoterRequest(core.next_serial(), own, wait=False)
