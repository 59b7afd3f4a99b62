"""The replica's place in the quorum: role, epoch, vote, leader, patience.

This file alone decides which role may follow which, and what is written to quorum-state. All state that affects
leadership is in `Core` or in the record of the current role. `roles.py`, `election.py`, `following.py`, `leading.py`
and `download.py` hold the rules, one subject each, and no state.

Rules:

1. The epoch never falls; the vote of an epoch never changes; an epoch never gets a second leader (KIP-595).
2. A role is entered only along `TRANSITIONS`.
3. A replica that was leader when it stopped comes back RESIGNED. Its unsynced tail may be gone, so it must never append
   in that epoch again.
4. If the log holds a newer epoch than quorum-state, the log's counts: its record proves that the epoch had a leader.

Roles (an observer is never more than UNATTACHED or FOLLOWER):

UNATTACHED   knows the epoch, but no leader. A voter stands when its patience ends; an observer asks other replicas.
FOLLOWER     fetches from the leader of the epoch.
PROSPECTIVE  asks for pre-votes in its present epoch (KIP-996).
CANDIDATE    has voted for itself in a new epoch and asks for votes.
LEADER       appends, answers fetches, counts replicas.
RESIGNED     led this epoch and will not again; grants votes of higher epochs.
"""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.ports import Batch, Now, Random
from actors.raft.limits import RaftLimits
from actors.raft.log import Log
from actors.raft.messages import (
    NO_LEADER,
    ChangeResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterRequest,
)
from actors.raft.ready import HardState, Outbox
from actors.raft.voters import VoterHistory, Voters

NEVER_MS = (1 << 63) - 1
EPOCH_MAX = (1 << 31) - 1
"""The last epoch: quorum-state, the log and the wire hold an int32."""


class Role(enum.Enum):
    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


TRANSITIONS: dict[Role, frozenset[Role]] = {
    # a higher epoch, or the leader of the present one, may be learned in any role
    Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
    Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.CANDIDATE}),
    Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE, Role.LEADER}),
    Role.LEADER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED}),
    Role.RESIGNED: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE}),
}


OBSERVERS = frozenset({Role.UNATTACHED, Role.FOLLOWER})
"""The roles that an observer may have. A leader whose removal is committed is RESIGNED before it is an observer."""


class LeaderChange(NamedTuple):
    """The control batch that opens an epoch. `record`: the log is empty, so that these voters are written too (KIP-853)."""

    leader_id: int
    voters: Sequence[ReplicaKey]
    granting: Sequence[ReplicaKey]
    record: Voters | None


class VotersChange(NamedTuple):
    """The control batch that names the voters from now on."""

    voters: Voters


Control = LeaderChange | VotersChange
ControlBatch = Callable[[Control, int, int, Now], Batch]
"""Makes a control batch from (what it says, base offset, epoch, now)."""
VotersIn = Callable[[Batch], tuple[int, Voters] | None]
"""Finds the record that names the voters in a batch: its offset and the voters; None if the batch has none."""


class Ballot:
    """One round of pre-votes or votes."""

    __slots__ = ("awaited", "granted")

    def __init__(self, own: Sequence[ReplicaKey]) -> None:
        """`own` holds this replica if it is a voter. One that is being removed asks for votes, and has none itself."""
        self.granted: set[ReplicaKey] = set(own)
        self.awaited: dict[int, ReplicaKey] = {}
        """Serial -> the voter whose answer is awaited."""


class Fetching:
    """The fetches of a follower, or of an observer in search of a leader."""

    __slots__ = (
        "asked_by_leader",
        "due_ms",
        "entry_ms",
        "expires_ms",
        "fruitful",
        "heard",
        "led_on",
        "serial",
        "target",
    )

    def __init__(self, due_ms: int) -> None:
        self.asked_by_leader = 0
        """This replica's serial when a process with the key of its leader asked for its vote; 0: none has (`twins`)."""
        self.led_on = False
        """Whether the leader has answered a fetch that was sent after that."""
        self.entry_ms = 0
        """When this replica asks its leader next to put its entry among the voters right."""
        self.due_ms = due_ms
        """When the next request may leave; has no meaning while one is in flight."""
        self.serial = 0
        """The serial of the request in flight; 0: none is in flight."""
        self.target = NO_LEADER
        self.expires_ms = NEVER_MS
        """When the request in flight is given up, in case the node never reports that it failed."""
        self.heard = False
        """Whether the leader of this epoch has answered a fetch."""
        self.fruitful = False
        """Whether the leader of this epoch has answered a fetch on the present connection. A connection that breaks
        before that is not replaced at once."""


class Download:
    """A snapshot in transfer from the leader. The first `position` bytes of it are written."""

    __slots__ = ("checking", "position", "snapshot")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.position = 0
        self.checking = False
        """All bytes are there and the node verifies them."""


class ReplicaProgress:
    """What a leader knows of another replica that fetches from it."""

    __slots__ = (
        "announced_ms", "caught_up_ms", "caught_up_wall_ms", "connection", "connections", "end_offset", "fetch_ms",
        "fetch_wall_ms", "leader_end_offset", "returns",
    )  # fmt: skip

    def __init__(self, fetch_ms: int) -> None:
        self.end_offset = -1
        """The log end that its last fetch named; durable there if it is a voter. -1: it has not fetched in this
        epoch."""
        self.fetch_ms = fetch_ms
        """Monotonic time of its last fetch; before the first, the time of the leader's election."""
        self.fetch_wall_ms = -1
        self.caught_up_wall_ms = -1
        """Last time of day when it was known to have all that the leader had (KIP-836)."""
        self.caught_up_ms: int | None = None
        """Last monotonic time when it was known to have all that the leader had."""
        self.leader_end_offset = -1
        """The leader's log end at its last fetch."""
        self.announced_ms = 0
        """When the next BeginQuorumEpoch to it is due."""
        self.connection = -1
        """The connection on which it has fetched last (`twins`)."""
        self.connections = (-1, -1)
        """The two newest connections on which it has fetched, the one that came first before the other."""
        self.returns = 0
        """How often it has fetched on the older connection after it had fetched on the newer one."""


class ParkedFetch(NamedTuple):
    request: FetchRequest | FetchSnapshotRequest
    deadline_ms: int
    cold: bool
    """The fetch waits until the node has read the disk."""


class PendingVotersChange:
    """A change of the voters that a leader was asked for and has not answered yet."""

    __slots__ = ("deadline_ms", "offset", "request", "source", "wanted")

    def __init__(self, source: int | None, request: VoterRequest, deadline_ms: int) -> None:
        self.source = source
        """Where the answer goes; None: the leader asked itself."""
        self.request = request
        self.deadline_ms = deadline_ms
        self.wanted: Voters | None = None
        """What the record will say; it is written when the node has appended what it has written itself."""
        self.offset = -1
        """The offset of the record; -1 before it is written."""


class Leading:
    """The record of a leader. Invariant: `epoch_start_offset` is the base offset of its LeaderChange."""

    __slots__ = (
        "asked", "change", "committed", "epoch_start_offset", "leaving", "next_offset", "observers", "parked", "voters",
    )  # fmt: skip

    def __init__(self, epoch_start_offset: int, next_offset: int, others: Sequence[ReplicaKey], now_ms: int) -> None:
        self.epoch_start_offset = epoch_start_offset
        self.next_offset = next_offset
        """The offset after its LeaderChange."""
        self.committed = False
        """Whether the high watermark has passed its LeaderChange. Until then the leader tells no replica a high
        watermark."""
        self.leaving = False
        """Whether the leader's removal from the voters is committed, so that it resigns in a moment."""
        self.voters = {key: ReplicaProgress(now_ms) for key in others}
        self.observers: dict[ReplicaKey, ReplicaProgress] = {}
        """The observers by key; the one that has been silent for longest comes first."""
        self.parked: dict[int, ParkedFetch] = {}
        """The fetches that wait for an answer, by the source to which the answer goes."""
        self.change: PendingVotersChange | None = None
        """The change of the voters that is to be written, or is written and not committed."""
        self.asked: dict[int, PendingVotersChange] = {}
        """The changes for which an endpoint is asked first, by the serial of the question. They do not keep another
        change out."""

    def park(self, source: int, request: FetchRequest | FetchSnapshotRequest, deadline_ms: int, *, cold: bool) -> None:
        """Keep a request without an answer. `leading.answer_parked` looks at it before the next Ready."""
        self.parked[source] = ParkedFetch(request, deadline_ms, cold)


class Core:
    """All of the machine's state. The rule files read every field. Role and hard state are changed by `become`
    alone."""

    def __init__(
        self,
        me: ReplicaKey,
        history: VoterHistory,
        hard: HardState,
        log: Log,
        random: Random,
        limits: RaftLimits,
        control_batch: ControlBatch,
        voters_in: VotersIn,
        elects: bool,
        own: Voter | None,
        auto_join: bool,
        joined: bool,
        bootstrap: Sequence[int],
        now: Now,
        other_use: Callable[[int], str | None],
    ) -> None:
        self.me = me
        self.history = history
        self.elects = elects
        """Whether this replica may be a voter: it is a controller."""
        self.own = own
        """What the log should say of this replica if it is a voter; None: whatever it says is right."""
        self.auto_join = auto_join
        self.joined = joined
        """Whether this replica joins by itself, and a committed record has named it a voter on this disk. Never false
        again: a voter that is removed afterwards comes back only if an administrator adds it."""
        self.heard_ms = now.mono_ms
        """When this process heard last from a leader, or began."""
        self.bootstrap = bootstrap
        """The replicas that an observer without a leader asks, beside the voters. An id below zero stands for a bare
        address."""
        self.random = random
        self.limits = limits
        self.control_batch = control_batch
        self.voters_in = voters_in
        self.log = log
        self.out = Outbox()
        self.out.hard_changed = True
        self.now = now
        self.high_watermark = max(log.start_offset, min(log.latest.end_offset, log.end_offset))
        """Everything below is committed. Never falls; at most the log's end."""
        self.count_voters()
        self._look_whether_joined()
        self.told_high_watermark = -1
        """The newest high watermark that a leader has told this process, or that this replica has reached as leader. It
        may lie beyond the log's end. -1: none yet: what a restart finds on its disk does not show what was committed
        since."""
        self.other_use = other_use
        """Tells what else an id stands for, as far as the leader's own state says; it returns None if the id stands for
        nothing else."""
        self.role = Role.UNATTACHED
        self.hard = hard
        self.exhausted = False
        """Whether this voter would have to stand for election, but is in the last epoch."""
        self.patience_ms = NEVER_MS
        """When the role's wait ends: for votes, for the leader, for a quorum."""
        self.hurry = False
        """Whether an election would disturb no live leader: then pre-votes are granted, and asked for at short
        notice."""
        self.hurry_until_ms = NEVER_MS
        self.lost_votes = 0
        """How many rounds of votes were lost in a row. Each lengthens the back-off."""
        self.ballot: Ballot | None = None
        self.fetching: Fetching | None = None
        self.download: Download | None = None
        self.leading: Leading | None = None
        self._serial = 0

    # -- what all rules need

    @property
    def now_ms(self) -> int:
        return self.now.mono_ms

    @property
    def epoch(self) -> int:
        return self.hard.epoch

    @property
    def leader_id(self) -> int:
        return self.hard.leader_id

    @property
    def told_leader(self) -> int:
        """The leader to name in answers. A leader that has resigned names none: the asker would come back to it."""
        leader_id = self.hard.leader_id
        return NO_LEADER if leader_id == self.me.id and self.role is not Role.LEADER else leader_id

    @property
    def voters(self) -> Voters:
        """The voters that count now."""
        return self.history.newest

    @property
    def stands(self) -> bool:
        """Whether this replica stands for election: a voter does, and so does one whose removal may not be committed.
        It may be the only one that has the record of its removal, and then no other replica can be elected."""
        if self.is_voter:
            return True
        history = self.history
        return self.elects and history.newest_offset >= self.high_watermark and self.me in history.before

    @property
    def claims(self) -> bool:
        """Whether a fetch of this replica says what is durable here. That of a controller does so before it knows that
        it votes, for the leader may know already."""
        return self.is_voter or (self.elects and self.history.recorded)

    def count_voters(self) -> None:
        """Work out anew whether this replica votes, and whether its entry among the voters is right."""
        self.is_voter = self.elects and self.me in self.voters
        self.entry_wrong = False
        """Whether this replica wants its entry among the voters to be another one (`entry`)."""
        if self.own is not None and self.history.recorded:
            entry = self.voters.member(self.me)
            joins = self.auto_join and not self.joined
            self.entry_wrong = joins if entry is None else entry != self.own

    def _look_whether_joined(self) -> None:
        """Note that a replica which joins by itself is named a voter in a committed record."""
        if self.auto_join and not self.joined and self.history.ever(self.me, self.high_watermark):
            self.joined = True
            self.count_voters()

    def append(self, batch: Batch) -> None:
        """Append a batch that may name voters. They count from now on."""
        self.log.append(batch)
        found = self.voters_in(batch)
        if found is not None:
            self.history.append(*found)
            self.count_voters()

    def truncate(self, end_offset: int) -> None:
        """Cut the log, and undo the changes of the voters in what is cut."""
        self.log.truncate(end_offset)
        self.history.truncate(end_offset)
        self.count_voters()

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def say(self, target: int, message: Message) -> None:
        """Send a message at once, since it claims nothing durable. But an epoch that this voter has begun, with a vote for
        itself, is told by none before it is durable: an observer that knew it would refuse the leader of the one before."""
        begun = self.hard.voted == self.me and self.log.durable_epoch < self.epoch
        (self.out.claims if begun else self.out.send).append((target, message))

    def claim(self, target: int, message: Message) -> None:
        """Send a message once all that is written so far is durable."""
        self.out.claims.append((target, message))

    def election_wait_ms(self) -> int:
        """A new random wait before a voter stands for election."""
        base = self.limits.election_timeout_ms
        return base + self.random.below(max(base, 1))

    def hint_wait_ms(self) -> int:
        """A wait that differs by rank, so that the survivors of a dead leader do not stand at the same time."""
        return self.voters.rank(self.me.id, self.leader_id) * self.limits.hint_stagger_ms

    def fetch_wait_ms(self) -> int:
        """How long a follower waits for word from its leader. Followers of a silent leader heard from it last at the
        same time, so the stagger is needed here too."""
        return self.limits.fetch_timeout_ms + self.hint_wait_ms()

    def raise_high_watermark(self, offset: int) -> None:
        offset = min(offset, self.log.end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._look_whether_joined()

    # -- roles

    def become(self, role: Role, hard: HardState | None = None) -> None:
        """Enter a role, drop the records of the old role, and note a changed hard state."""
        assert role in TRANSITIONS[self.role], (self.role, role)
        assert self.stands or role in OBSERVERS or self.role is Role.LEADER, role
        if hard is not None and hard != self.hard:
            assert hard.epoch > self.hard.epoch or self._same_epoch(hard), (self.hard, hard)
            assert hard.epoch <= EPOCH_MAX, hard
            if hard.epoch > self.hard.epoch and self.leader_id != NO_LEADER:
                self.hurry = False
            self.hard = hard
            self.out.hard_changed = True
        self.role = role
        if self.leading is not None:
            self._refuse_parked(self.leading)
            self._refuse_changes(self.leading)
            self.out.lost = True
            self.out.gained = None
        self.ballot = self.fetching = self.download = self.leading = None

    def _refuse_parked(self, leading: Leading) -> None:
        error = Error.NOT_LEADER_OR_FOLLOWER
        for source, parked in leading.parked.items():
            request = parked.request
            if isinstance(request, FetchSnapshotRequest):
                self.say(source, FetchSnapshotResponse(request.serial, error, NO_LEADER, self.epoch, request.snapshot))
            else:
                self.say(source, FetchResponse(request.serial, error, NO_LEADER, self.epoch))

    def _refuse_changes(self, leading: Leading) -> None:
        error = Error.NOT_LEADER_OR_FOLLOWER
        for change in (leading.change, *leading.asked.values()):
            if change is not None and change.source is not None:
                self.say(change.source, ChangeResponse(change.request.serial, error, NO_LEADER, self.epoch))

    def _same_epoch(self, hard: HardState) -> bool:
        old = self.hard
        return (
            hard.epoch == old.epoch
            and (old.voted is None or hard.voted == old.voted)
            and (old.leader_id == NO_LEADER or hard.leader_id == old.leader_id)
        )
