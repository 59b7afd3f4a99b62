"""The faults of one seed in the raft world: chaos, then peace, then two further tests of the quorum.

This file alone decides how likely each fault is, and what a quorum must do once the faults stop:

chaos    ten virtual seconds of faults and clients.
peace    all faults end; the quorum must elect, commit, and bring every replica to the same end.
cut off  one voter that does not lead is cut off (silently, or as if the leader's port refused it) and comes back: the
leader and the epoch must stay.
kill     the leader dies: another one must lead within a second, one epoch later (in 99 of 100 seeds).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.raft import Role
from tests.simulator.raft_violation import Violation
from tests.simulator.raft_world import Replica, World

Act = Callable[[World], None]
CHAOS_MS = 10_000
PEACE_MS = 20_000


class Outcome(NamedTuple):
    seed: int
    events: int
    committed: int
    kill_epochs: int
    """Epochs that the kill of the leader used up; 0 when there was none (a single voter)."""
    kill_ms: int


def run(seed: int, trace: bool = False) -> Outcome:
    """Run the world of a seed. Raises Violation."""
    world = World(seed, trace)
    try:
        return story(world)
    except Violation as violation:
        violation.world = world  # type: ignore[attr-defined]
        violation.add_note(f"seed {seed}")
        raise


def story(world: World) -> Outcome:
    chaos(world, (), FAULTS)
    end_faults(world)
    settle(world, "after the chaos")
    world.propose(_leader(world))
    settle(world, "after a last record")
    _cut_off(world)
    kill_epochs, kill_ms = _kill(world)
    return Outcome(world.seed, world.events, world.checkers.committed_end, kill_epochs, kill_ms)


# -- chaos


def chaos(world: World, clients: Sequence[Act], faults: Sequence[Act]) -> None:
    """Begin faults and clients. `clients`: others than those that propose records; `faults`: one of them is drawn each
    time."""
    random = world.random
    world.chaos = True
    world.loss = random.choice((0.0, 0.0, 0.01, 0.05, 0.15))
    world.sniper = random.choice((0.0, 0.01, 0.03, 0.06))
    world.ambush = random.choice((0.0, 0.02, 0.1, 0.4))
    world.slow_sync = random.choice((0.0, 0.1, 0.4))
    for replica in world.replicas.values():
        world.after(random.randint(0, 300), replica.start)

    def fault(world: World) -> None:
        faults[world.random.randrange(len(faults))](world)

    for act, mean_ms in ((_client, 120), (fault, random.choice((400, 1000, 3000))), (_checkpoint, 1500)):
        _repeat(world, act, mean_ms)
    for act in clients:
        _repeat(world, act, 120)
    world.run_until(CHAOS_MS)
    world.chaos = False


def _repeat(world: World, act: Act, mean_ms: int) -> None:
    def again() -> None:
        if world.chaos:
            act(world)
            world.after(1 + world.random.randint(0, 2 * mean_ms), again)

    world.after(world.random.randint(0, 2 * mean_ms), again)


def _client(world: World) -> None:
    """Every replica that believes that it leads gets a batch, also a deposed one."""
    for replica in world.replicas.values():
        if replica.gained is not None:
            world.propose(replica)


def _checkpoint(world: World) -> None:
    world.snapshot(_any(world))


def _any(world: World) -> Replica:
    """A replica, more likely one that leads."""
    leader = world.leader()
    if leader is not None and world.random.random() < 0.4:
        return leader
    return world.random.choice(list(world.replicas.values()))


def _crash(world: World) -> None:
    replica = _any(world)
    if replica.raft is not None:
        world.crash(replica, world.random.choice((1, 20, 300, 2000)))


def _crash_all(world: World) -> None:
    if world.random.random() < 0.3:
        for replica in world.replicas.values():
            if replica.raft is not None:
                world.crash(replica, world.random.randint(1, 500))


def _freeze(world: World) -> None:
    world.freeze(_any(world), world.random.choice((50, 700, 2500, 5000)))


def _partition(world: World) -> None:
    """Cut links of one replica, one way or both."""
    one = _any(world).key.id
    links = set()
    for other in world.replicas:
        if other != one and world.random.random() < 0.8:
            way = world.random.randrange(3)
            links |= {(one, other)} if way != 1 else set()
            links |= {(other, one)} if way != 0 else set()
    world.note(f"cut {sorted(links)}")
    world.cut |= links
    world.after(world.random.choice((300, 2000, 4000)), world.cut.difference_update, links)


def _refuse(world: World) -> None:
    """A live replica looks dead to another one."""
    one, other = _any(world).key.id, _any(world).key.id
    if one != other:
        world.note(f"{one} refuses {other}")
        world.refusing.add((other, one))
        world.after(world.random.choice((30, 300, 1500)), world.refusing.discard, (other, one))


def _resign(world: World) -> None:
    leader = world.leader()
    if leader is not None and leader.raft is not None:
        world.note(f"resign {leader.key.id}")
        leader.input(leader.raft.resign)


def _lose_disk(world: World) -> None:
    """At most a minority of the voters loses its disk, and seldom: what only they held is gone."""
    replica = _any(world)
    if replica.key not in world.voters:
        world.lose_disk(replica)
        world.disks_lost -= 1
    elif world.disks_lost < len(world.voters) - world.voters.majority and world.random.random() < 0.1:
        world.lose_disk(replica)


COMMON_FAULTS = (_crash, _crash, _crash, _crash_all, _freeze, _partition, _partition, _refuse, _resign)
FAULTS = (*COMMON_FAULTS, _lose_disk)


# -- peace


def end_faults(world: World) -> None:
    """End the faults that are under way."""
    world.note("peace")
    world.cut.clear()
    world.refusing.clear()
    world.loss = world.slow_sync = 0.0
    for replica in world.replicas.values():
        if replica.frozen is not None:
            world.thaw(replica, replica.incarnation)
        world.restart(replica, replica.incarnation)


def _leader(world: World) -> Replica:
    leader = world.leader()
    assert leader is not None
    return leader


def _settled(world: World) -> bool:
    leader = world.leader()
    if leader is None or leader.raft is None:
        return False
    end = leader.raft.log_end_offset
    return all(
        replica.raft is not None
        and replica.raft.epoch == leader.raft.epoch
        and replica.raft.leader_id == leader.key.id
        and replica.raft.log_end_offset == end
        and replica.raft.high_watermark == end
        for replica in world.replicas.values()
        if replica.raft is not None
    )


def settle(world: World, when: str) -> None:
    """The quorum must reach one state. Raises Violation."""
    if not world.run_until(world.now.mono_ms + PEACE_MS, lambda: _settled(world)):
        states = [
            (r.key.id, r.raft.role.value, r.raft.epoch, r.raft.leader_id, r.raft.high_watermark, r.raft.log_end_offset)
            for r in world.replicas.values()
            if r.raft is not None
        ]
        raise Violation("Liveness", f"not settled {when}: {states}")


# -- further tests


def _cut_off(world: World) -> None:
    """One voter is cut off for a while and returns. No other replica may notice."""
    leader = _leader(world)
    assert leader.raft is not None
    epoch = leader.raft.epoch
    live = [world.replicas[key.id] for key in world.voters.keys if world.replicas[key.id].key == key]
    others = [replica for replica in live if replica is not leader]
    if len(live) <= world.voters.majority or not others:
        return
    lost = world.random.choice(others).key.id
    if world.random.random() < 0.5:
        world.note(f"cut off {lost}")
        links = {pair for other in world.replicas for pair in ((lost, other), (other, lost)) if other != lost}
        world.cut |= links
    else:
        world.note(f"{lost} is refused by the leader")
        world.refusing.add((lost, leader.key.id))
        world.after(5, world._broken, lost, world.replicas[lost].incarnation, leader.key.id)
    for _ in range(3):
        world.run_until(world.now.mono_ms + 1500)
        world.propose(leader)
    world.cut.clear()
    world.refusing.clear()
    world.run_until(world.now.mono_ms + 3000)
    if leader.raft is None or leader.raft.role is not Role.LEADER or leader.raft.epoch != epoch:
        raise Violation("StableLeadership", f"{lost} was cut off and {leader.key.id} no longer leads {epoch}")
    settle(world, "after a voter was cut off")


def _kill(world: World) -> tuple[int, int]:
    """The leader dies while everything else is well."""
    live = [key for key in world.voters.keys if world.replicas[key.id].key == key]
    if len(live) <= world.voters.majority:
        return 0, 0
    leader = _leader(world)
    assert leader.raft is not None
    epoch, began_ms = leader.raft.epoch, world.now.mono_ms
    world.crash(leader, None)
    if not world.run_until(began_ms + PEACE_MS, lambda: world.leader() is not None):
        raise Violation("Liveness", f"nobody followed {leader.key.id}")
    successor = _leader(world)
    assert successor.raft is not None
    took_ms = world.now.mono_ms - began_ms
    world.propose(successor)
    settle(world, "after the leader was killed")
    assert successor.raft is not None
    return successor.raft.epoch - epoch, took_ms
