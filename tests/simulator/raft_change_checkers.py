"""The rules of a raft world whose voters change (KIP-853). It is checked after every event.

VotersFollowLog       the voters of a replica are those of the newest record in its log, or of its snapshot
OneChangeAtATime      in a leader's log at most one record of voters is not committed, and it moves one voter
OwnEpochFirst         a leader writes such a record only when a record of its own epoch is committed
NewVoterCaughtUp      a new voter holds durably what was committed a while before
RestIsAlive           a removal leaves a set of which a majority was running just before
RemovedLeaderLeaves   a leader whose removal it knows to be committed leads no longer
MajorityReachedHighWatermark  what a leader commits is durable on a majority of the voters by its log

They compare with the disks and not with what the machine believes.
"""

from typing import TYPE_CHECKING

from actors.ports import Batch
from actors.raft import Role, Voters
from tests.simulator.raft_violation import Violation

if TYPE_CHECKING:
    from tests.simulator.raft_world import Replica, World

CAUGHT_UP_MS = 4500
"""A new voter had everything within a fetch timeout before its record was written, and what it had then was known to be
committed a fetch before. The rest is room for slow disks."""
ALIVE_MS = 4500
LEAVES_MS = 6000
"""A removed leader may be frozen for five seconds before it resigns."""


class ChangeCheckers:
    """The checkers of one world, over what is committed and when."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.written: dict[int, tuple[int, int]] = {}
        """Replica -> (epoch, offset) of the newest record of voters that was seen in its log while it led."""
        self.removed: dict[int, int] = {}
        """Replica that leads -> since when it has known that its removal is committed."""
        self.grown: list[tuple[int, int]] = [(0, 0)]
        """(time, end of what is committed), both rising."""
        self.sizes: set[int] = set()
        """How many voters a quorum had when it committed a record of voters."""

    def started(self, replica: "Replica") -> None:
        self.written.pop(replica.key.id, None)

    def look(self, replica: "Replica", committed_end: int) -> None:
        """The replica has just performed a Ready."""
        if committed_end > self.grown[-1][1]:
            self.grown.append((self.world.now.mono_ms, committed_end))
        raft = replica.raft
        assert raft is not None
        history = replica.history()
        if raft.voters != history.newest:
            raise Violation("VotersFollowLog", f"{replica.key.id} counts {raft.voters}, its log says {history.newest}")
        if raft.role is not Role.LEADER:
            self.removed.pop(replica.key.id, None)
            self.written.pop(replica.key.id, None)
            return
        removed = replica.key not in raft.voters and raft.voters_offset < raft.high_watermark
        since_ms = self.removed.setdefault(replica.key.id, self.world.now.mono_ms) if removed else None
        if since_ms is None:
            self.removed.pop(replica.key.id, None)
        elif self.world.now.mono_ms - since_ms > LEAVES_MS:
            raise Violation("RemovedLeaderLeaves", f"{replica.key.id} leads {raft.epoch} and votes no more")
        now = (raft.epoch, raft.voters_offset)
        before = self.written.get(replica.key.id)
        self.written[replica.key.id] = now
        if before is not None and before[0] == now[0] and before[1] < now[1]:
            self._changed(replica, before[1])

    def _changed(self, replica: "Replica", before_offset: int) -> None:
        """A leader has written a record of voters; the one before it is at `before_offset`."""
        raft = replica.raft
        assert raft is not None
        old, new = replica.history().before, raft.voters
        name = f"{replica.key.id} in epoch {raft.epoch}: {old} to {new}"
        if before_offset >= raft.high_watermark or len(set(old.keys) ^ set(new.keys)) != 1:
            raise Violation("OneChangeAtATime", f"{name}, {before_offset} below {raft.high_watermark}")
        began = next(offset for epoch, offset in raft.epochs.entries() if epoch == raft.epoch)
        first = replica.disk.page.at(began)
        # Else a snapshot has cut the log behind it.
        opens = first is not None and bytes(first.data).startswith(b"leader")
        if opens and raft.high_watermark <= began:
            raise Violation("OwnEpochFirst", f"{name}, the epoch begins at {began}, committed {raft.high_watermark}")
        for key in set(new.keys) - set(old.keys):
            self._caught_up(key.id, name)
        if len(new) < len(old):
            self._rest_alive(replica, new, name)

    def _caught_up(self, id: int, name: str) -> None:
        since_ms = self.world.now.mono_ms - CAUGHT_UP_MS
        needed = max(end for at_ms, end in self.grown if at_ms <= max(since_ms, 0))
        has = self.world.replicas[id].disk.durable.end_offset
        if has < needed:
            raise Violation("NewVoterCaughtUp", f"{name}: {id} has {has} of {needed}")

    def _rest_alive(self, leader: "Replica", new: Voters, name: str) -> None:
        world = self.world
        since_ms = world.now.mono_ms - ALIVE_MS
        alive = [
            key
            for key in new.keys
            if (one := world.replicas[key.id]).key == key and (one.raft is not None or one.stopped_ms >= since_ms)
        ]
        if len(alive) < new.majority:
            raise Violation("RestIsAlive", f"{name}: only {alive} are running")

    def committed(self, replica: "Replica", last: Batch) -> None:
        """The replica is the first to know that `last` is committed."""
        raft, world = replica.raft, self.world
        assert raft is not None
        if raft.role is not Role.LEADER:
            return
        voters = raft.voters
        self.sizes.add(len(voters))
        holding = 0
        for key in voters.keys:
            one = world.replicas[key.id]
            holding += one.key == key and one.disk.durable.has(last)
        lost = sum(world.replicas[key.id].key != key for key in voters.keys)
        if holding < voters.majority - lost:
            raise Violation(
                "MajorityReachedHighWatermark", f"{holding} of {voters} hold {last}, {replica.key.id} says committed"
            )
