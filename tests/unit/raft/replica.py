"""One replica of a quorum whose peers are played by the test: what it says, what it waits for the disk with, its time.

`tests/transcripts/raft` tells whole stories of several replicas; here one decision at a time is asked of one.
"""

from collections.abc import Sequence
from typing import Any

from actors.ports import Batch, Now
from actors.raft import (
    NO_LEADER,
    Control,
    EpochTable,
    HardState,
    LeaderChange,
    Raft,
    RaftLimits,
    ReplicaKey,
    Role,
    SnapshotId,
    VoterHistory,
    Voters,
)  # fmt: skip
from actors.raft.messages import Error, FetchRequest, Message, Voter, VoteRequest, VoteResponse
from actors.raft.ready import Ready

LIMITS = RaftLimits()
NEW = HardState()
"""What a replica has on its disk that never ran."""
KEYS = {id: ReplicaKey(id, b"%016d" % id) for id in range(10)}


def voter(id: int, port: int = 0) -> Voter:
    """A voter, at a port of its own if one is given."""
    return Voter(KEYS[id], (("CONTROLLER", "host", port),) if port else ())


class Lowest:
    """The lowest of all random numbers, always."""

    def below(self, n: int) -> int:
        return 0

    def uuid(self) -> bytes:
        return bytes(16)


class Nothing:
    """A log of which nothing is read."""

    def read(self, offset: int, bytes_max: int) -> Sequence[Batch]:
        return []

    def read_snapshot(self, snapshot: SnapshotId, position: int, bytes_max: int) -> None:
        return None


class Replica:
    """A replica with its id, the voters, and the log and vote that it begins with."""

    def __init__(
        self,
        id: int = 1,
        voters: Sequence[int] = (1, 2, 3),
        *,
        hard: HardState = NEW,
        log: Sequence[tuple[int, int]] = (),
        end_offset: int = 0,
        changing: bool = False,
        **more: Any,
    ) -> None:
        """`log` are (epoch, first offset) up to `end_offset`. `changing`: a snapshot before the log names the voters."""
        self.now_ms = 0
        self.named: dict[int, Voters] = {}
        """The voters that a record names, by its offset."""
        members = Voters(KEYS[one] for one in voters)
        self.raft = Raft(
            KEYS[id],
            VoterHistory(Voters(), [(-1, members)]) if changing else members,
            hard,
            EpochTable(log, end_offset=end_offset),
            Nothing(),
            Lowest(),
            LIMITS,
            self._control,
            self.now,
            voters_in=self._voters_in,
            **more,
        )
        self.held: list[int] = []
        self.taken: list[Ready] = []
        self.said = self.drain()

    def _control(self, change: Control, offset: int, epoch: int, now: Now) -> Batch:
        voters = change.record if isinstance(change, LeaderChange) else change.voters
        if voters is not None:
            self.named[offset] = voters
        return Batch(offset, offset, epoch, b"")

    def _voters_in(self, batch: Batch) -> tuple[int, Voters] | None:
        found = self.named.get(batch.base_offset)
        return None if found is None else (batch.base_offset, found)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def drain(self, *, synced: bool = True) -> list[tuple[int, Message]]:
        """All that the replica says until it rests; with `synced` the disk is done at once, else `disk_done` says so."""
        said: list[tuple[int, Message]] = []
        while True:
            if self.raft.change_due:
                self.raft.write_change()
            ready = self.raft.ready()
            if ready == Ready(high_watermark=ready.high_watermark):
                return said
            self.taken.append(ready)
            said += ready.send
            if ready.sync is not None and synced:
                self.raft.synced(ready.sync)
                said += ready.after_sync
            elif ready.sync is not None:
                self.held.append(ready.sync)

    def step(self, message: Message, source: int = 2, *, synced: bool = True) -> list[tuple[int, Message]]:
        """Give it a message. Returns what it says then."""
        self.raft.step(source, message, self.now)
        return self.drain(synced=synced)

    def asked(self, message: Message, source: int = 2) -> Any:
        """The one answer to a message."""
        (answer,) = [one for target, one in self.step(message, source) if target == source]
        return answer

    def run(self, ms: int, *, synced: bool = True) -> list[tuple[int, Message]]:
        """Let time pass in steps of the replica's own deadlines. Returns what it says."""
        end, said = self.now_ms + ms, []
        while True:
            self.now_ms = max(self.now_ms, min(self.raft.deadline_ms(), end))
            self.raft.tick(self.now)
            said += self.drain(synced=synced)
            if self.now_ms == end:
                return said

    def elect(self) -> None:
        """Make it the leader, with the votes of all others."""
        said = self.said
        while self.raft.role is not Role.LEADER:
            votes = [(target, one) for target, one in said if isinstance(one, VoteRequest)]
            said = []
            for target, one in votes:
                said += self.step(VoteResponse(one.serial, Error.NONE, NO_LEADER, self.raft.epoch, True), target)
            if not votes:
                said = self.run(self.raft.deadline_ms() - self.now_ms)

    def fetched(self, id: int, offset: int, high_watermark: int = -1) -> list[tuple[int, Message]]:
        """A peer has everything below an offset, and knows that high watermark."""
        epoch = self.raft.epoch
        return self.step(FetchRequest(0, KEYS[id], epoch, offset, epoch, high_watermark, 500, 1 << 20), id)
