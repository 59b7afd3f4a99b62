"""The machine of the quorum takes inputs and returns one `Ready`: dispatch and timers, nothing else.

This file alone decides which rule gets which input. The loop of a node (KIP-595; order of effects: `ready`):

    raft.step(source, message, now)       # for each message that came
    raft.link_lost(peer, refused, now)    # for each connection that broke
    raft.tick(now)                        # once a turn, at the latest at deadline_ms()
    raft.append(batch)                    # the leader's own, at log_end_offset
    ready = raft.ready()                  # perform it before the next input; repeat while it brings something
    raft.synced(token)                    # when the sync it asked for is done
"""

from collections.abc import Callable, Sequence
from typing import Any

from actors.ports import Batch, Now, Random
from actors.raft import belief, change, download, election, entry, following, leading, roles
from actors.raft.describe import Description, describe
from actors.raft.limits import RaftLimits
from actors.raft.log import EpochTable, Log, LogReader
from actors.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Failed,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    ProbeResponse,
    RemoveVoterRequest,
    ReplicaKey,
    SnapshotId,
    UpdateVoterRequest,
    Voter,
    VoteRequest,
    VoteResponse,
)
from actors.raft.ready import HardState, Ready
from actors.raft.state import NEVER_MS, ControlBatch, Core, Role, VotersIn
from actors.raft.voters import VoterHistory, Voters


class NotLeader(Exception):
    """`Raft.append` was called on a replica that is not the leader."""


def _nothing_more(core: Core, source: int, response: Message) -> None:
    """Do nothing more with an answer that carries only an epoch and a leader, which have been learned already."""


HANDLERS: dict[type, Callable[[Core, int, Any], None]] = {
    VoteRequest: election.vote,
    VoteResponse: election.vote_answered,
    BeginQuorumEpochRequest: following.begin_quorum_epoch,
    BeginQuorumEpochResponse: _nothing_more,
    EndQuorumEpochRequest: election.end_quorum_epoch,
    EndQuorumEpochResponse: _nothing_more,
    FetchRequest: leading.fetch,
    FetchResponse: following.fetch_answered,
    FetchSnapshotRequest: leading.fetch_snapshot,
    FetchSnapshotResponse: following.snapshot_answered,
    AddVoterRequest: change.add,
    ProbeResponse: change.probed,
    RemoveVoterRequest: change.remove,
    UpdateVoterRequest: change.update,
    ChangeResponse: _nothing_more,
}

TEACHES = frozenset(
    {VoteResponse, BeginQuorumEpochResponse, EndQuorumEpochResponse, FetchResponse, FetchSnapshotResponse}
)
"""The answers from which a replica learns an epoch and its leader, beside what they answer."""

PATIENCE_ENDED: dict[Role, Callable[[Core], None]] = {
    Role.UNATTACHED: election.patience_ended,
    Role.FOLLOWER: election.patience_ended,
    Role.PROSPECTIVE: election.patience_ended,
    Role.CANDIDATE: election.patience_ended,
    Role.RESIGNED: election.patience_ended,
    Role.LEADER: leading.resign,
}


class Raft:
    """One replica of one partition: a voter, or an observer."""

    def __init__(
        self,
        me: ReplicaKey,
        voters: Voters | VoterHistory,
        hard: HardState,
        epochs: EpochTable,
        log: LogReader,
        random: Random,
        limits: RaftLimits,
        control_batch: ControlBatch,
        now: Now,
        *,
        latest: SnapshotId | None = None,
        bootstrap: Sequence[int] = (),
        voters_in: VotersIn = lambda batch: None,
        elects: bool = True,
        own: Voter | None = None,
        auto_join: bool = False,
        joined: bool = False,
        other_use: Callable[[int], str | None] = lambda id: None,
    ) -> None:
        """`voters` are those that never change (kraft.version 0), or what the log says of them. `latest` is the newest
        snapshot on the disk (default: the one at which the log starts). `bootstrap` names the replicas that an observer
        may ask beside the voters. `voters_in` finds the voters in a batch. `elects`: this replica is a controller, and
        may become a voter. `own`: what the log should say of it then (None: whatever it says). `auto_join`: it asks to
        be a voter by itself, unless it was one before on this disk (`joined`). `other_use` says, where this replica
        leads, what else an id stands for, which becomes no voter's then; None: for nothing. `hard` and `epochs` need
        not be durable yet: the first Ready syncs them."""
        if epochs.last_epoch > hard.epoch:
            hard = HardState(epochs.last_epoch, None, NO_LEADER)
        core = Core(
            me,
            voters if isinstance(voters, VoterHistory) else VoterHistory(voters),
            hard,
            Log(epochs, log, latest or epochs.start),
            random,
            limits,
            control_batch,
            voters_in,
            elects,
            own,
            auto_join,
            joined,
            bootstrap,
            now,
            other_use,
        )
        self._core = core
        self._due_ms: int | None = None
        """Before this time nothing is due: the last `ready` was empty and no input came since, so `tick` does nothing.
        None: not settled."""
        election.begin(core)

    # -- in

    def step(self, source: int, message: Message, now: Now) -> None:
        """Take a message from another replica. Raises LogDiverged or RunsTwice; then the node must stop."""
        self._due_ms = None
        core = self._core
        core.now = now
        kind = type(message)
        if kind in TEACHES:
            leader_id, epoch = message.leader_id, message.epoch  # type: ignore[union-attr]
            if belief.answer(core, leader_id, epoch):
                roles.learn(core, epoch, leader_id)
            else:
                message, kind = Failed(message.serial), Failed  # type: ignore[union-attr]
        if kind is Failed:
            election.vote_failed(core, message.serial)  # type: ignore[union-attr]
            following.fetch_failed(core, message.serial)  # type: ignore[union-attr]
            change.probe_failed(core, message.serial)  # type: ignore[union-attr]
            return
        HANDLERS[kind](core, source, message)

    def link_lost(self, peer: int, refused: bool, now: Now) -> None:
        """A connection to `peer` broke or, with `refused`, could not be opened because nothing listens there."""
        self._due_ms = None
        self._core.now = now
        following.link_lost(self._core, peer, refused)

    def tick(self, now: Now) -> bool:
        """Let the timers run that are due by `now`. False: nothing has changed."""
        core = self._core
        core.now = now
        if self._due_ms is not None and now.mono_ms < self._due_ms:
            return False
        self._due_ms = None
        fetching = core.fetching
        if fetching is not None and fetching.serial and fetching.expires_ms <= now.mono_ms:
            following.fetch_failed(core, fetching.serial)
        if core.hurry and core.hurry_until_ms <= now.mono_ms:
            core.hurry = False
        if core.patience_ms <= now.mono_ms:
            PATIENCE_ENDED[core.role](core)
        if core.leading is not None:
            leading.announce(core)
            change.expire(core)
        entry.tell(core)
        return True

    def append(self, batch: Batch) -> None:
        """Append the leader's own batch, which continues the log. Raises NotLeader."""
        core = self._core
        if core.role is not Role.LEADER:
            raise NotLeader(f"replica {core.me.id} is {core.role.value} in epoch {core.epoch}")
        assert batch.epoch == core.epoch
        self._due_ms = None
        core.log.append(batch)

    @property
    def change_due(self) -> bool:
        """Whether this leader has a change of the voters to write (`write_change`)."""
        leading = self._core.leading
        return leading is not None and leading.change is not None and leading.change.wanted is not None

    def write_change(self) -> bool:
        """Append the record of the change that is due. Returns whether it was appended: what the leader has written
        meanwhile may forbid the change. The node calls this when everything that it has written is appended, so that
        the record belongs at the end of the log."""
        self._due_ms = None
        return change.write(self._core)

    def synced(self, token: int) -> None:
        """Note that the sync with that token is done."""
        self._due_ms = None
        core = self._core
        core.log.synced(token)
        election.count(core)
        leading.advance(core)

    def warmed(self) -> None:
        """Note that what `LogReader` could not read at once is in memory now."""
        self._due_ms = None
        leading.warmed(self._core)

    def snapshot_received(self, snapshot: SnapshotId, valid: bool, now: Now, voters: Voters | None = None) -> None:
        """Take the node's verdict on the file whose last part came with `SnapshotPart.last`. `voters`: those that the
        file names."""
        self._due_ms = None
        self._core.now = now
        download.received(self._core, snapshot, valid, voters)

    def snapshot_taken(self, latest: SnapshotId, start: SnapshotId) -> None:
        """Let the log begin at the snapshot `start`, since `latest`, a snapshot that this node took, is durable."""
        self._due_ms = None
        core = self._core
        assert start.end_offset <= latest.end_offset <= core.high_watermark
        core.log.latest = latest
        if start.end_offset > core.log.start_offset:
            core.log.table.cut_front(start)
            core.history.cut_front(start.end_offset)

    def resign(self, preferred: Sequence[ReplicaKey] | None = None) -> None:
        """Give up leadership, for a shutdown or a hand-over. Does nothing on a replica that does not lead."""
        if self._core.role is Role.LEADER:
            self._due_ms = None
            leading.resign(self._core, preferred)

    # -- out

    def ready(self) -> Ready:
        """What the node must do now."""
        core = self._core
        if self._due_ms is None:
            leading.answer_parked(core)
            following.send_due(core)
            if not core.out.empty or core.log.unwritten:
                return core.out.take(core.log, core.hard, core.high_watermark)
            self._due_ms = self._next_due_ms()
        return Ready(high_watermark=core.high_watermark)

    @property
    def settled(self) -> bool:
        """Whether `ready` stays empty until the next input or deadline."""
        return self._due_ms is not None

    def quiet(self, applied: int) -> bool:
        """Whether this replica has settled, and everything that is committed lies below `applied`."""
        return self._due_ms is not None and self._core.high_watermark <= applied

    def deadline_ms(self) -> int:
        """When `tick` must be called at the latest, on the monotonic clock."""
        return self._due_ms if self._due_ms is not None else self._next_due_ms()

    def describe(self) -> Description:
        """What DescribeQuorum shows of the quorum."""
        return describe(self._core)

    @property
    def role(self) -> Role:
        return self._core.role

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def leader_id(self) -> int:
        """The leader that this replica follows or is; -1: none is known."""
        return self._core.told_leader

    @property
    def high_watermark(self) -> int:
        return self._core.high_watermark

    @property
    def voted(self) -> int:
        """The replica that was voted for in this epoch; -1: none."""
        voted = self._core.hard.voted
        return -1 if voted is None else voted.id

    @property
    def observers(self) -> int:
        """How many observers fetch from this leader; 0 elsewhere."""
        leading = self._core.leading
        return 0 if leading is None else len(leading.observers)

    @property
    def changing(self) -> bool:
        """Whether this leader has a change of the voters that is not committed."""
        leading = self._core.leading
        return leading is not None and leading.change is not None

    @property
    def told_high_watermark(self) -> int:
        """The newest high watermark that a leader has told this process; -1: none yet. Replay may still have to go that
        far."""
        return self._core.told_high_watermark

    @property
    def committed_offset(self) -> int:
        """The offset below which all records are committed, as far as a leader has told: the log here may end before it,
        and `high_watermark` goes no further than the log."""
        core = self._core
        return max(core.high_watermark, core.told_high_watermark)

    @property
    def degraded(self) -> bool:
        """Whether this replica leads, voters have not fetched within the fetch timeout, and one more such voter would
        stop the quorum (R631-118)."""
        core = self._core
        if core.leading is None:
            return False
        since_ms = core.now_ms - core.limits.fetch_timeout_ms
        live = core.is_voter + sum(progress.fetch_ms >= since_ms for progress in core.leading.voters.values())
        return live < len(core.voters) and live <= core.voters.majority

    @property
    def voters_caught_up(self) -> int:
        """How many voters held all that this leader had at some time within the fetch timeout, itself among them; 0
        elsewhere."""
        core = self._core
        if core.leading is None:
            return 0
        since_ms = core.now_ms - core.limits.fetch_timeout_ms
        caught_up = [progress.caught_up_ms for progress in core.leading.voters.values()]
        return core.is_voter + sum(at_ms is not None and at_ms >= since_ms for at_ms in caught_up)

    @property
    def out_of_touch(self) -> bool:
        """Whether this replica does not lead, and no leader has answered it for two fetch timeouts. It may still name the
        last one that it knew."""
        core = self._core
        return core.leading is None and core.now_ms - core.heard_ms >= 2 * core.limits.fetch_timeout_ms

    @property
    def exhausted(self) -> bool:
        """Whether this voter would have to stand for election, but is in the last epoch. There will be no leader
        then."""
        return self._core.exhausted

    def follows(self, told: BeginQuorumEpochRequest) -> bool:
        """Whether an announcement names a leader that this replica has not heard from yet."""
        return belief.follows(self._core, told)

    def overdue(self, now: Now) -> bool:
        """Whether this replica leads, and no majority has fetched in time, so that the next `tick` resigns."""
        return self._core.role is Role.LEADER and self._core.patience_ms <= now.mono_ms

    @property
    def voters(self) -> Voters:
        """The voters that count now, by the newest record in the log, committed or not."""
        return self._core.voters

    @property
    def joined(self) -> bool:
        """Whether this replica joins by itself, and has been a voter on this disk: the node keeps that there."""
        return self._core.joined

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: with 1 the log names the voters, and they can be changed; with 0 it does not."""
        return int(self._core.history.recorded)

    @property
    def voters_offset(self) -> int:
        """The offset of the record that names the present voters; -1: there is none in the log."""
        return self._core.history.newest_offset

    def voters_at(self, end_offset: int) -> Voters | None:
        """The voters according to the records below `end_offset`; None: the records name no voters."""
        return self._core.history.at(end_offset)

    @property
    def epochs(self) -> EpochTable:
        """Where epochs begin, for reading."""
        return self._core.log.table

    @property
    def log_start_offset(self) -> int:
        return self._core.log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._core.log.end_offset

    @property
    def durable_offset(self) -> int:
        """Everything of the log below this offset is on this node's disk."""
        return self._core.log.durable_offset

    # -- inside

    def _next_due_ms(self) -> int:
        core = self._core
        deadline = core.patience_ms
        if core.hurry:
            deadline = min(deadline, core.hurry_until_ms)
        fetching = core.fetching
        checking = core.download is not None and core.download.checking
        if fetching is not None and fetching.target != NO_LEADER and not checking:
            deadline = min(deadline, fetching.expires_ms if fetching.serial else fetching.due_ms)
        if core.leading is not None:
            for progress in core.leading.voters.values():
                deadline = min(deadline, progress.announced_ms)
            for parked in core.leading.parked.values():
                deadline = min(deadline, parked.deadline_ms)
            for one in (core.leading.change, *core.leading.asked.values()):
                if one is not None:
                    deadline = min(deadline, one.deadline_ms)
        if core.entry_wrong:
            deadline = min(deadline, entry.due_ms(core))
        return min(deadline, NEVER_MS)
