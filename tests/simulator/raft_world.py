"""A world of raft replicas: virtual clock, network and disks, all decided by one seed.

This file alone decides what can happen to a replica: messages are delayed, reordered and lost, links are cut one way,
processes freeze, crash (losing unsynced bytes) and restart, disks are lost. Rules:

1. Nothing but the seed decides. Events of equal time run in the order in which they were planned.
2. A crashed process is noticed as on a real network: its connections break (`link_lost`), and new ones are refused. A
   frozen process, or one that is cut off, is only silent.
3. After every event the checkers look at the replica that it touched.

A run is `World(seed).run()`. With `trace` the events of a seed are in `World.history`.
"""

import heapq
from collections.abc import Callable
from random import Random

from actors.ports import Batch, Now
from actors.raft import (
    Failed,
    Leadership,
    Raft,
    RaftLimits,
    Ready,
    ReplicaKey,
    Role,
    SnapshotId,
    VoterHistory,
    Voters,
    VotersChange,
)
from actors.raft.messages import REQUESTS, Message, ProbeRequest, ProbeResponse
from actors.raft.state import Control
from tests.simulator.raft_checkers import Checkers
from tests.simulator.raft_disk import Disk

WALL_MS = 1_700_000_000_000
SNAPSHOT_BYTES_MAX = 1000
FETCH_BYTES_MAX = (10, 40)
"""Batches in an answer: one, or a few. With one, the LeaderChange does not travel together with the records before
it."""


class Chance:
    """actors.ports.Random over the seed."""

    def __init__(self, random: Random) -> None:
        self.below = random._randbelow
        self._random = random

    def uuid(self) -> bytes:
        return self._random.randbytes(16)


CLIENT = 0
"""The id of the client that asks for changes of the voters: the answers go there."""
VOTERS = b" voters "


def control_batch(change: Control, offset: int, epoch: int, now: Now) -> Batch:
    """A batch with one record that names the leader, or the voters, or both."""
    if isinstance(change, VotersChange):
        return Batch(offset, offset, epoch, b"change" + _voters_text(change.voters))
    named = b"leader %d of %d" % (change.leader_id, epoch)
    return Batch(offset, offset, epoch, named + (b"" if change.record is None else _voters_text(change.record)))


def _voters_text(voters: Voters) -> bytes:
    return VOTERS + b",".join(b"%d=%s" % (key.id, key.directory_id.hex().encode()) for key in voters.keys)


def voters_in(batch: Batch) -> tuple[int, Voters] | None:
    """The voters that a batch names, with the offset of the record."""
    _, found, text = bytes(batch.data).partition(VOTERS)
    if not found:
        return None
    pairs = (one.decode().split("=") for one in text.split(b","))
    return batch.base_offset, Voters(ReplicaKey(int(id), bytes.fromhex(directory)) for id, directory in pairs)


class Replica:
    """A process with its disk."""

    def __init__(self, world: "World", key: ReplicaKey) -> None:
        self.world = world
        self.key = key
        self.disk = Disk()
        self.raft: Raft | None = None
        self.incarnation = 0
        self.blank = False
        """Whether its disk was lost: then it was formatted without voters."""
        self.stopped_ms = -1
        self.frozen: list[tuple[Callable[..., None], tuple[object, ...]]] | None = None
        self.gained: Leadership | None = None
        self.wakeup_ms = -1
        self.sync_done_ms = 0
        """When the last sync that was begun will be done. Syncs finish in order."""
        self.told = 0
        """The high watermark when it last acted."""
        self.parts = 0
        """Bytes of the snapshot in transfer."""

    def history(self) -> VoterHistory:
        """The voters according to a replica's disk: the newest snapshot, and the log behind it."""
        world, page = self.world, self.disk.page
        if not world.changing:
            return VoterHistory(world.voters)
        newest = max(page.snapshots, default=page.start)
        formatted = newest.end_offset > 0 or not self.blank
        entries = [(newest.end_offset - 1, world.snapshot_voters[newest])] if formatted else []
        found = (voters_in(batch) for batch in page.batches if batch.base_offset >= newest.end_offset)
        return VoterHistory(Voters(), entries + [one for one in found if one is not None])

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        page = self.disk.page
        self.raft = Raft(
            self.key,
            self.history(),
            page.hard,
            page.table(),
            self.disk,
            world.chance,
            world.limits,
            control_batch,
            world.now,
            latest=max(page.snapshots, default=page.start),
            voters_in=voters_in,
            bootstrap=tuple(world.replicas) if world.changing else (),
        )
        self.gained = None
        world.checkers.started(self)
        self.perform()

    def stop(self) -> None:
        self.raft = None
        self.stopped_ms = self.world.now.mono_ms
        self.incarnation += 1
        self.frozen = None

    def perform(self) -> None:
        """Perform what the machine returns, in its order, until it returns nothing more."""
        raft, world, disk = self.raft, self.world, self.disk
        assert raft is not None
        if raft.change_due:
            raft.write_change()
        ready = raft.ready()
        if ready.lost:
            self.gained = None
        for part in ready.snapshot_parts:
            self.parts = part.position + len(part.data)
        if ready.load_snapshot is not None:
            disk.restart_at(ready.load_snapshot)
        if ready.truncate_to is not None:
            world.checkers.truncates(self, ready.truncate_to)
            disk.truncate(ready.truncate_to)
        if ready.append:
            disk.append(list(ready.append))
        if ready.hard_state is not None:
            disk.set_hard(ready.hard_state)
        for target, message in ready.send:
            world.send(self.key.id, target, message)
        if ready.sync is not None:
            disk.begin_sync(ready.sync)
            self.sync_done_ms = max(self.sync_done_ms, world.now.mono_ms + world.sync_ms())
            world.at(self.sync_done_ms, self.synced, self.incarnation, ready.sync, ready.after_sync)
        else:
            assert not ready.after_sync
        if ready.gained is not None:
            self.gained = ready.gained
        world.checkers.look(self)
        for part in ready.snapshot_parts:
            if part.last:
                raft.snapshot_received(part.snapshot, True, world.now, world.snapshot_voters.get(part.snapshot))
                self.perform()
                return
        if world.chaos and self.doomed(ready):
            world.crash(self, world.random.choice((1, 3, 10, 100)))
            return
        self.plan_wakeup()

    def doomed(self, ready: Ready) -> bool:
        """Whether a crash comes at one of the worst moments."""
        raft, world = self.raft, self.world
        assert raft is not None
        if ready.sync is not None:
            # Something was told to others that is not on the disk yet. Votes and epochs are hit more often than
            # records.
            likely = world.sniper * (6 if ready.hard_state is not None else 1)
        elif raft.role is Role.LEADER and (self.gained is None or raft.high_watermark != self.told):
            # A new leader has written records that no other replica has, or has just learned that records are
            # committed.
            likely = world.ambush
        else:
            likely = 0.0
        self.told = raft.high_watermark
        return world.random.random() < likely

    def plan_wakeup(self) -> None:
        assert self.raft is not None
        deadline = max(self.raft.deadline_ms(), self.world.now.mono_ms + 1)
        if deadline != self.wakeup_ms and deadline < 1 << 50:
            self.wakeup_ms = deadline
            self.world.at(deadline, self.tick, self.incarnation, deadline)

    # -- inputs

    def input(self, act: Callable[..., None], *arguments: object) -> None:
        """Give an input to the machine, now or when it thaws."""
        if self.frozen is not None:
            self.frozen.append((act, arguments))
        elif self.raft is not None:
            act(*arguments)
            if self.raft is not None:
                self.perform()

    def tick(self, incarnation: int, deadline_ms: int) -> None:
        if incarnation == self.incarnation and deadline_ms == self.wakeup_ms and self.raft is not None:
            self.wakeup_ms = -1
            self.input(lambda: self.raft and self.raft.tick(self.world.now))

    def synced(self, incarnation: int, token: int, after_sync: list[tuple[int, Message]]) -> None:
        if incarnation != self.incarnation or self.raft is None:
            return
        self.disk.end_sync(token)
        self.input(self._synced, incarnation, token, after_sync)

    def _synced(self, incarnation: int, token: int, after_sync: list[tuple[int, Message]]) -> None:
        if incarnation == self.incarnation and self.raft is not None:
            for target, message in after_sync:
                self.world.send(self.key.id, target, message)
            self.raft.synced(token)

    def receive(self, source: int, message: Message) -> None:
        if isinstance(message, ProbeRequest):
            self.world.send(self.key.id, source, ProbeResponse(message.serial, (0, 1)))
        elif self.raft is not None:
            self.raft.step(source, message, self.world.now)

    def link_lost(self, peer: int, refused: bool) -> None:
        if self.raft is not None:
            self.raft.link_lost(peer, refused, self.world.now)


class World:
    """Replicas, network, faults and clients of one seed."""

    def __init__(
        self,
        seed: int,
        trace: bool = False,
        voters: int | None = None,
        observers: int | None = None,
        changing: bool = False,
    ) -> None:
        """`changing`: the log names the voters (kraft.version 1), and they can be changed."""
        self.seed = seed
        self.random = Random(seed)
        self.chance = Chance(self.random)
        self.history: list[str] | None = [] if trace else None
        self.now = Now(0, WALL_MS)
        self.queue: list[tuple[int, int, Callable[..., None], tuple[object, ...]]] = []
        self.planned = 0
        self.events = 0
        voter_count = voters if voters is not None else self.random.choice((1, 3, 3, 3, 3, 5))
        observer_count = observers if observers is not None else self.random.choice((0, 1, 1, 2))
        self.limits = RaftLimits(
            fetch_bytes_max=self.random.choice(FETCH_BYTES_MAX), snapshot_bytes_max=SNAPSHOT_BYTES_MAX
        )
        keys = [ReplicaKey(1 + i, self.random.randbytes(16)) for i in range(voter_count + observer_count)]
        self.voters = Voters(keys[:voter_count])
        """The voters, in a world in which they never change."""
        self.changing = changing
        self.snapshot_voters = {SnapshotId(0, 0): self.voters} if changing else {}
        self.answers: list[Message] = []
        """To changes of the voters, the newest last."""
        self.replicas = {key.id: Replica(self, key) for key in keys}
        self.cut: set[tuple[int, int]] = set()
        self.refusing: set[tuple[int, int]] = set()
        """Pairs (from, to): the target looks dead from there, although it lives."""
        self.loss = 0.0
        self.sniper = 0.0
        self.ambush = 0.0
        self.slow_sync = 0.0
        self.chaos = False
        self.disks_lost = 0
        self.proposed = 0
        self.checkers = Checkers(self)

    # -- time

    def at(self, mono_ms: int, act: Callable[..., None], *arguments: object) -> None:
        self.planned += 1
        heapq.heappush(self.queue, (mono_ms, self.planned, act, arguments))

    def after(self, delay_ms: int, act: Callable[..., None], *arguments: object) -> None:
        self.at(self.now.mono_ms + delay_ms, act, *arguments)

    def run_until(self, mono_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Run the events up to a time. True once `done` holds, else False at the given time."""
        queue = self.queue
        while queue and queue[0][0] <= mono_ms:
            time_ms, _, act, arguments = heapq.heappop(queue)
            self.now = Now(time_ms, WALL_MS + time_ms)
            self.events += 1
            act(*arguments)
            if done is not None and done():
                return True
        self.now = Now(mono_ms, WALL_MS + mono_ms)
        return done is not None and done()

    def note(self, text: str) -> None:
        if self.history is not None:
            self.history.append(f"{self.now.mono_ms:6} {text}")

    # -- network

    def delay_ms(self) -> int:
        if self.random.random() < 0.05 and self.chaos:
            return self.random.randint(1, 60)
        return self.random.randint(0, 2)

    def sync_ms(self) -> int:
        if self.random.random() < self.slow_sync:
            return self.random.randint(1, 120)
        return self.random.randint(0, 1)

    def send(self, source: int, target: int, message: Message) -> None:
        self.checkers.tells(source, message)
        if self.history is not None:
            self.note(f"{source} -> {target} {message}")
        if target == CLIENT:
            self.answers.append(message)
            return
        asked = isinstance(message, REQUESTS)
        if asked and ((source, target) in self.refusing or self.replicas[target].raft is None):
            self.after(
                self.random.randint(0, 1), self._refuse, source, self.replicas[source].incarnation, target, message
            )
        elif (source, target) in self.cut or self.random.random() < self.loss:
            if asked and self.random.random() < 0.3:
                self.after(3, self._fail, source, self.replicas[source].incarnation, target, message)
        else:
            self.after(self.delay_ms(), self._deliver, source, target, self.replicas[target].incarnation, message)

    def _deliver(self, source: int, target: int, incarnation: int, message: Message) -> None:
        replica = self.replicas[target]
        if replica.incarnation == incarnation:
            replica.input(replica.receive, source, message)

    def _refuse(self, source: int, incarnation: int, target: int, message: Message) -> None:
        replica = self.replicas[source]
        if replica.incarnation == incarnation:
            replica.input(replica.receive, target, Failed(message.serial))
            replica.input(replica.link_lost, target, True)

    def _fail(self, source: int, incarnation: int, target: int, message: Message) -> None:
        replica = self.replicas[source]
        if replica.incarnation == incarnation:
            replica.input(replica.receive, target, Failed(message.serial))
            replica.input(replica.link_lost, target, False)

    # -- faults

    def crash(self, replica: Replica, restart_after_ms: int | None) -> None:
        self.note(f"crash {replica.key.id}")
        replica.stop()
        replica.disk.crash(self.random)
        for other in self.replicas.values():
            if other.raft is not None:
                self.after(self.random.randint(0, 2), self._broken, other.key.id, other.incarnation, replica.key.id)
        if restart_after_ms is not None:
            self.after(restart_after_ms, self.restart, replica, replica.incarnation)
        self.checkers.crashed(replica)

    def _broken(self, source: int, incarnation: int, dead: int) -> None:
        replica = self.replicas[source]
        if replica.incarnation == incarnation:
            replica.input(replica.link_lost, dead, False)

    def restart(self, replica: Replica, incarnation: int) -> None:
        if replica.raft is None and replica.incarnation == incarnation:
            self.note(f"restart {replica.key.id}")
            replica.start()

    def lose_disk(self, replica: Replica) -> None:
        """The process comes back with an empty disk and, therefore, another directory id."""
        self.note(f"lose disk of {replica.key.id}")
        self.disks_lost += 1
        replica.stop()
        replica.disk.wipe()
        replica.blank = True
        replica.key = ReplicaKey(replica.key.id, self.random.randbytes(16))
        self.checkers.crashed(replica)
        self.after(self.random.randint(1, 500), self.restart, replica, replica.incarnation)

    def freeze(self, replica: Replica, for_ms: int) -> None:
        if replica.frozen is None and replica.raft is not None:
            self.note(f"freeze {replica.key.id} for {for_ms} ms")
            replica.frozen = []
            self.after(for_ms, self.thaw, replica, replica.incarnation)

    def thaw(self, replica: Replica, incarnation: int) -> None:
        if replica.incarnation == incarnation and replica.frozen is not None:
            self.note(f"thaw {replica.key.id}")
            held, replica.frozen = replica.frozen, None
            for act, arguments in held:
                replica.input(act, *arguments)
            if replica.raft is not None and replica.incarnation == incarnation:
                replica.plan_wakeup()

    # -- clients

    def leader(self) -> Replica | None:
        """A replica that leads in the highest epoch, its LeaderChange committed."""
        best = None
        for replica in self.replicas.values():
            if replica.raft is not None and replica.gained is not None and replica.raft.role is Role.LEADER:
                assert best is None or best.raft is not None
                if best is None or best.raft is None or replica.raft.epoch > best.raft.epoch:
                    best = replica
        return best

    def propose(self, replica: Replica) -> None:
        """A client's batch, of one to three records."""
        if replica.raft is None or replica.gained is None or replica.frozen is not None:
            return
        self.proposed += 1
        raft = replica.raft
        offset = raft.log_end_offset
        batch = Batch(offset, offset + self.random.randint(0, 2), raft.epoch, b"#%d" % self.proposed)
        replica.input(raft.append, batch)

    def snapshot(self, replica: Replica) -> None:
        """The replica has written a snapshot of its own and cuts its log."""
        raft, disk = replica.raft, replica.disk
        if raft is None or replica.frozen is not None:
            return
        end_offset = min(raft.high_watermark, disk.durable.end_offset, disk.page.end_offset)
        newest = max(disk.page.snapshots, default=disk.page.start)
        if end_offset <= newest.end_offset or disk.durable.start != disk.page.start:
            return
        below = disk.page.at(end_offset - 1)
        kept = disk.durable.at(end_offset - 1)
        if below is None or below != kept or below.last_offset != end_offset - 1:
            return
        latest = SnapshotId(end_offset, below.epoch)
        start = newest if newest.end_offset and self.random.random() < 0.5 else latest
        self.note(f"snapshot {replica.key.id} {latest} start {start}")
        if self.changing:
            voters = raft.voters_at(end_offset)
            assert voters is not None
            self.snapshot_voters[latest] = voters
        disk.cut(latest, start)
        raft.snapshot_taken(latest, start)
        self.checkers.look(replica)
