"""A quorum that changes (KIP-853): one seed of a raft world in which clients add and remove voters, and disks are lost.

A quorum of one to three voters begins among five or six controllers. Parts of a run:

chaos    ten virtual seconds of the faults of `raft_seeds`, and clients that ask any replica which believes that
         it leads for changes, also for wrong ones.
peace    all faults end; the quorum must settle. Voters that lost their disk are removed, and their successors added.
grow     one after the other all controllers are added.
shrink   one after the other they are removed, also the leader, until one is left; each change must be made.
"""

from typing import NamedTuple

from actors.raft import ReplicaKey, Role, Voter, Voters
from actors.raft.messages import AddVoterRequest, ChangeResponse, Error, RemoveVoterRequest
from tests.simulator import raft_seeds
from tests.simulator.raft_violation import Violation
from tests.simulator.raft_world import CLIENT, Replica, World

CHANGE_MS = 20_000
CHAOS_CHANGE_MS = 500


class Outcome(NamedTuple):
    seed: int
    events: int
    committed: int
    changes: int
    """Records of voters that were committed."""
    sizes: tuple[int, ...]
    """How many voters the quorum had at times."""


def run(seed: int, trace: bool = False) -> Outcome:
    """Run the world of a seed. Raises Violation."""
    world = quorum(seed, trace)
    try:
        return story(world)
    except Violation as violation:
        violation.world = world  # type: ignore[attr-defined]
        violation.add_note(f"seed {seed}")
        raise


def quorum(seed: int, trace: bool = False) -> World:
    """A world whose voters change: one to three of them among five or six controllers."""
    voters = (1, 1, 2, 3, 3)[seed % 5]
    return World(seed, trace, voters=voters, observers=5 + seed % 2 - voters, changing=True)


def story(world: World) -> Outcome:
    raft_seeds.chaos(world, (_client,), (*raft_seeds.COMMON_FAULTS, _lose_disk))
    raft_seeds.end_faults(world)
    _settle(world, "after the chaos")
    _replace(world)
    _grow(world)
    _shrink(world)
    checkers = world.checkers
    assert checkers.changes is not None
    changes = sum(b" voters " in bytes(batch.data) for batch in checkers.committed)
    sizes = tuple(sorted(checkers.changes.sizes))
    return Outcome(world.seed, world.events, checkers.committed_end, changes, sizes)


# -- chaos


def _client(world: World) -> None:
    """Ask each replica that believes that it leads for a change, at times for two, or for a wrong one."""
    if world.random.random() > 120 / CHAOS_CHANGE_MS:
        return
    for replica in world.replicas.values():
        if replica.raft is not None and replica.raft.role is Role.LEADER and replica.frozen is None:
            for _ in range(world.random.choice((1, 1, 2))):
                if replica.raft is not None:
                    _ask(world, replica, _wish(world, replica.raft.voters))


def _wish(world: World, voters: Voters) -> AddVoterRequest | RemoveVoterRequest:
    random = world.random
    key = random.choice(list(world.replicas.values())).key
    if random.random() < 0.05:
        key = ReplicaKey(key.id, random.randbytes(16))
    lost = [one for one in voters.keys if world.replicas[one.id].key != one]
    if lost and random.random() < 0.5:
        return RemoveVoterRequest(0, random.choice(lost))
    if (key in voters and random.random() < 0.9) or random.random() < 0.05:
        return RemoveVoterRequest(0, lost[0] if _just_lost(world, voters, key) else key)
    return AddVoterRequest(0, Voter(key), random.random() < 0.8)


def _just_lost(world: World, voters: Voters, removed: ReplicaKey) -> bool:
    """Whether a removal leaves no majority of disks, and no leader can know it, as one was lost a moment ago."""
    left = [world.replicas[key.id] for key in voters.keys if key != removed]
    lost = [one for one in left if one.key not in voters]
    since_ms = world.now.mono_ms - world.limits.fetch_timeout_ms
    return 2 * len(lost) >= len(left) and any(one.stopped_ms >= since_ms for one in lost)


def _ask(world: World, replica: Replica, request: AddVoterRequest | RemoveVoterRequest) -> None:
    if replica.raft is None:
        return
    world.note(f"client asks {replica.key.id} {request}")
    replica.input(replica.raft.step, CLIENT, request, world.now)


def _lose_disk(world: World) -> None:
    """A disk is lost if every set of voters that a replica counts keeps a majority of disks."""
    replica = world.random.choice(list(world.replicas.values()))
    sets = [one.raft.voters if one.raft is not None else one.history().newest for one in world.replicas.values()]
    sets += [one.history().before for one in world.replicas.values()]
    for voters in sets:
        if replica.key in voters:
            lost = 1 + sum(world.replicas[key.id].key != key for key in voters.keys)
            if lost > len(voters) - voters.majority:
                return
    if world.random.random() < 0.5:
        world.lose_disk(replica)


# -- peace


def _settle(world: World, when: str) -> None:
    raft_seeds.settle(world, when)


def _leader(world: World) -> Replica:
    if not world.run_until(world.now.mono_ms + CHANGE_MS, lambda: world.leader() is not None):
        raise Violation("Liveness", "nobody leads")
    leader = world.leader()
    assert leader is not None
    return leader


def _change(world: World, request: AddVoterRequest | RemoveVoterRequest) -> None:
    """Ask until the change is made. A leader that has just begun, or lost its followers, asks for patience."""
    until_ms = world.now.mono_ms + CHANGE_MS
    refused = []
    while world.now.mono_ms < until_ms:
        leader = _leader(world)
        assert leader.raft is not None
        if _made(leader.raft.voters, request):
            break
        world.answers.clear()
        _ask(world, leader, request)
        world.run_until(until_ms, lambda: bool(world.answers))
        answer = world.answers[-1] if world.answers else None
        if isinstance(answer, ChangeResponse) and answer.error is not Error.NONE:
            refused.append(answer)
            world.run_until(world.now.mono_ms + 300)
    else:
        raise Violation("ChangeIsMade", f"{request} was refused: {refused[-3:]}")
    world.propose(_leader(world))
    _settle(world, f"after {request}")


def _made(voters: Voters, request: AddVoterRequest | RemoveVoterRequest) -> bool:
    if isinstance(request, RemoveVoterRequest):
        return request.voter not in voters
    return request.voter.key in voters


def _voters(world: World) -> Voters:
    leader = _leader(world)
    assert leader.raft is not None
    return leader.raft.voters


def _replace(world: World) -> None:
    """Remove each voter without its disk, and add a replica that came back with another disk."""
    for key in _voters(world).keys:
        now = world.replicas[key.id].key
        if now != key:
            _change(world, RemoveVoterRequest(0, key))
            _change(world, AddVoterRequest(0, Voter(now), True))


def _grow(world: World) -> None:
    for replica in world.replicas.values():
        if replica.key not in _voters(world):
            _change(world, AddVoterRequest(0, Voter(replica.key), True))


def _shrink(world: World) -> None:
    keys = [replica.key for replica in world.replicas.values()]
    world.random.shuffle(keys)
    for key in keys[1:]:
        if world.random.random() < 0.3:
            world.crash(world.random.choice(list(world.replicas.values())), world.random.choice((1, 50)))
            world.run_until(world.now.mono_ms + 100)
            _settle(world, "after a crash")
        _change(world, RemoveVoterRequest(0, key))
    if _voters(world).keys != (keys[0],):
        raise Violation("ChangeIsMade", f"{_voters(world)} is left, not {keys[0]}")
