"""The rules of the raft world. It is checked after every event, only where something changed.

The names are those of Kafka's RaftEventSimulationTest where that has the same: SingleLeader, MonotonicEpoch,
MonotonicHighWatermark, CommittedNeverChanges (ConsistentCommittedData), LeaderIsComplete, MajorityReachedHighWatermark,
SnapshotAtLogStart. ToldEpochIsDurable is of this project, whose disks are not waited for.
Where voters change, `raft_change_checkers.py` has more.
"""

from bisect import bisect_left
from typing import TYPE_CHECKING

from actors.ports import Batch
from actors.raft import Role, SnapshotId
from actors.raft.messages import Message
from tests.simulator.raft_change_checkers import ChangeCheckers
from tests.simulator.raft_violation import Violation

if TYPE_CHECKING:
    from tests.simulator.raft_world import Replica, World


class Seen:
    """The values that a process showed last."""

    __slots__ = ("epoch", "high_watermark", "leads", "start")

    def __init__(self, epoch: int, high_watermark: int) -> None:
        self.epoch = epoch
        self.high_watermark = high_watermark
        self.leads = False
        self.start = SnapshotId(-1, -1)


class Checkers:
    """All checkers of the raft world, over one record of what is committed."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.leaders: dict[int, int] = {}
        """Epoch -> the one replica that led it."""
        self.committed: list[Batch] = []
        """Every batch that any replica has shown below its high watermark."""
        self.committed_end = 0
        self.commit_epochs: list[int] = []
        """For each of them the epoch in which it was committed, which may be later than its own. Never falls."""
        self.places: dict[int, int] = {}
        """Base offset -> index in `committed`."""
        self.seen: dict[int, Seen] = {}
        self.durable_epoch = 0
        """The highest epoch that was in a quorum-state on a disk when something was told."""
        self.changes = ChangeCheckers(world) if world.changing else None

    def started(self, replica: "Replica") -> None:
        raft = replica.raft
        assert raft is not None
        durable = replica.disk.durable
        if raft.epoch < durable.hard.epoch:
            raise Violation("MonotonicEpoch", f"{replica.key.id} came back in {raft.epoch}, had {durable.hard}")
        self.seen[replica.key.id] = Seen(raft.epoch, raft.high_watermark)
        if self.changes is not None:
            self.changes.started(replica)

    def tells(self, source: int, message: Message) -> None:
        """An epoch that is told will be known to somebody again, whoever ends now: an observer keeps what it was told, and
        would refuse each leader of an earlier one."""
        epoch = getattr(message, "epoch", 0)
        if epoch > self.durable_epoch:
            on_disk = (replica.disk.durable.hard.epoch for replica in self.world.replicas.values())
            self.durable_epoch = max(self.durable_epoch, *on_disk)
            if epoch > self.durable_epoch:
                raise Violation("ToldEpochIsDurable", f"{source} tells {message}, {self.durable_epoch} is on a disk")

    def crashed(self, replica: "Replica") -> None:
        """A majority of the original voters still holds what is committed."""
        self._majority_holds("after a crash")

    def truncates(self, replica: "Replica", end_offset: int) -> None:
        assert replica.raft is not None
        if end_offset < self.seen[replica.key.id].high_watermark:
            raise Violation("NoDivergenceBelowHighWatermark", f"{replica.key.id} cuts to {end_offset}")

    def look(self, replica: "Replica") -> None:
        """The replica has just performed a Ready."""
        raft = replica.raft
        assert raft is not None
        seen = self.seen[replica.key.id]
        if raft.epoch < seen.epoch:
            raise Violation("MonotonicEpoch", f"{replica.key.id} went from {seen.epoch} to {raft.epoch}")
        seen.epoch = raft.epoch
        if raft.role is Role.LEADER:
            self._leads(replica, seen)
        else:
            seen.leads = False
        if raft.high_watermark != seen.high_watermark:
            self._high_watermark(replica, seen)
        if self.changes is not None:
            self.changes.look(replica, self.committed_end)
        start = replica.disk.page.start
        if start != seen.start:
            seen.start = start
            if start.end_offset > 0 and start not in replica.disk.page.snapshots:
                raise Violation("SnapshotAtLogStart", f"{replica.key.id} starts at {start}")
            if raft.log_start_offset != start.end_offset:
                raise Violation("SnapshotAtLogStart", f"{raft.log_start_offset} is not {start.end_offset}")

    def _leads(self, replica: "Replica", seen: Seen) -> None:
        raft = replica.raft
        assert raft is not None
        first = self.leaders.setdefault(raft.epoch, replica.key.id)
        if first != replica.key.id:
            raise Violation("SingleLeader", f"{first} and {replica.key.id} lead epoch {raft.epoch}")
        if self.changes is None and replica.key not in self.world.voters:
            raise Violation("SingleLeader", f"{replica.key.id} leads and is no voter")
        if not seen.leads:
            seen.leads = True
            self._complete(replica)

    def _complete(self, replica: "Replica") -> None:
        """A new leader has everything that was committed in earlier epochs (it may have slept through later ones)."""
        page = replica.disk.page
        assert replica.raft is not None
        earlier = bisect_left(self.commit_epochs, replica.raft.epoch)
        end = self.committed[earlier - 1].last_offset + 1 if earlier else 0
        if page.end_offset < end:
            raise Violation("LeaderIsComplete", f"{replica.key.id} ends at {page.end_offset} < {end}")
        for batch in page.batches:
            if batch.base_offset >= end:
                break
            self._same(replica, batch)

    def _same(self, replica: "Replica", batch: Batch) -> None:
        place = self.places.get(batch.base_offset)
        if place is None or self.committed[place] != batch:
            known = None if place is None else self.committed[place]
            raise Violation("CommittedNeverChanges", f"{replica.key.id} has {batch}, committed is {known}")

    def _high_watermark(self, replica: "Replica", seen: Seen) -> None:
        raft = replica.raft
        assert raft is not None
        old, new = seen.high_watermark, raft.high_watermark
        if new < old:
            raise Violation("MonotonicHighWatermark", f"{replica.key.id} went from {old} to {new}")
        seen.high_watermark = new
        page = replica.disk.page
        if new > page.end_offset:
            raise Violation("MonotonicHighWatermark", f"{replica.key.id} has {new}, log ends at {page.end_offset}")
        grown = False
        for place in range(page.find(old), len(page.batches)):
            batch = page.batches[place]
            if batch.last_offset >= new:
                break
            if batch.base_offset < self.committed_end:
                self._same(replica, batch)
            elif batch.base_offset != self.committed_end:
                raise Violation("CommittedNeverChanges", f"{replica.key.id}: nothing is committed below {batch}")
            else:
                self.places[batch.base_offset] = len(self.committed)
                self.committed.append(batch)
                self.commit_epochs.append(max([raft.epoch, *self.commit_epochs[-1:]]))
                self.committed_end = batch.last_offset + 1
                grown = True
        if grown and self.changes is not None:
            self.changes.committed(replica, self.committed[-1])
        elif grown:
            self._majority_holds(f"when {replica.key.id} committed {new}")

    def _majority_holds(self, when: str) -> None:
        if not self.committed or self.changes is not None:
            return
        last = self.committed[-1]
        world = self.world
        holding = 0
        for key in world.voters.keys:
            replica = world.replicas[key.id]
            holding += replica.key == key and replica.disk.durable.has(last)
        if holding < world.voters.majority - world.disks_lost:
            raise Violation("MajorityReachedHighWatermark", f"{holding} voters hold {last} durably {when}")
