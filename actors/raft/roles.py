"""Which role a replica enters when it learns of an epoch or of its leader, and how long it waits in it (KIP-595).

This file alone decides what a replica becomes when others tell it of an epoch or a leader, and when a voter starts to
hurry. `election.py` and `following.py` receive the messages and check them first (`belief.py`). Both enter roles
through this file, which imports neither.

Rules:

1. A replica follows the leader of the highest epoch that it knows of. If that leader is unknown, a voter waits and then
   stands for election, and an observer asks one replica after the other.
2. A follower of a leader that is certainly gone keeps its role, and stands for election after a short wait (`hint`).
"""

from actors.raft.messages import NO_LEADER
from actors.raft.ready import HardState
from actors.raft.state import NEVER_MS, Core, Fetching, Role


def learn(core: Core, epoch: int, leader_id: int) -> None:
    """Take over that another replica believes that `leader_id` (-1: unknown) leads `epoch`. Both have passed `belief`."""
    known = leader_id not in (NO_LEADER, core.me.id)
    if epoch > core.epoch:
        if known:
            follow(core, leader_id, epoch)
        else:
            unattach(core, epoch)
    elif epoch == core.epoch and known and core.role not in (Role.FOLLOWER, Role.LEADER, Role.RESIGNED):
        returning = core.leader_id == leader_id and not core.stands
        if core.leader_id == NO_LEADER or returning:
            follow(core, leader_id, epoch)


def unattach(core: Core, epoch: int) -> None:
    """Enter a higher epoch whose leader is not known."""
    core.become(Role.UNATTACHED, HardState(epoch, None, NO_LEADER))
    if core.stands:
        core.patience_ms = core.now_ms + (core.hint_wait_ms() if core.hurry else core.election_wait_ms())
    else:
        search(core)


def follow(core: Core, leader_id: int, epoch: int) -> None:
    """Become a follower of the leader of `epoch`."""
    voted = core.hard.voted if epoch == core.epoch else None
    core.become(Role.FOLLOWER, HardState(epoch, voted, leader_id))
    core.hurry = False
    core.lost_votes = 0
    resume(core)


def resume(core: Core) -> None:
    """Fetch from the leader, with a fresh timeout."""
    core.fetching = Fetching(core.now_ms)
    core.fetching.target = core.leader_id
    core.fetching.entry_ms = core.now_ms + core.limits.fetch_timeout_ms
    core.patience_ms = core.now_ms + core.fetch_wait_ms()


def search(core: Core) -> None:
    """Let an observer look for the leader: it asks all the replicas that it knows in turn."""
    core.become(Role.UNATTACHED)
    core.patience_ms = NEVER_MS
    core.fetching = Fetching(core.now_ms)
    next_target(core)


def next_target(core: Core) -> None:
    """Ask another replica next. It is chosen at random, so that many observers do not ask the same one."""
    fetching = core.fetching
    assert fetching is not None
    known = [key.id for key in core.voters.keys if key.id != core.me.id]
    known += [replica for replica in core.bootstrap if replica not in known and replica != core.me.id]
    others = [replica for replica in known if replica != fetching.target] or known
    if others:
        fetching.target = others[core.random.below(len(others))]


def hint(core: Core, wait_ms: int | None = None) -> None:
    """Note that the leader is certainly gone: grant pre-votes, and stand after a wait. Only the first hint counts,
    since each would start the wait anew."""
    if core.stands and core.role is Role.FOLLOWER and not core.hurry:
        core.hurry = True
        core.hurry_until_ms = core.now_ms + (1 << 40)  # no end: it is cleared when a leader is heard
        core.patience_ms = core.now_ms + (core.hint_wait_ms() if wait_ms is None else wait_ms)
