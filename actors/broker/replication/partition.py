"""One partition on this broker: its log, its part in the replication, its high watermark.

This file alone decides what an update of the metadata makes of a partition, how far its high watermark is, what a
follower's fetch means, and what a produced batch must wait for. Rules:

1. Leader, epochs, ISR and replicas come from committed metadata only (`apply`). Of two assignments the one with the higher
   partition epoch is newer, and what is older changes nothing. What this broker leads it leads under exactly one leader
   epoch, whose start offset is noted before the first append (KIP-101). An ISR may change under the same leader epoch;
   a leader epoch never moves without the partition epoch.
2. The high watermark never falls, save with the log itself when it is cut below.
3. The last stable offset is the high watermark, or the first offset of the oldest transaction that is open or whose marker
   is not below the high watermark, and never below the log's start (KIP-98). It moves only when the high watermark or the
   log's start does, so whoever waits for those waits for it.
4. acks=all is satisfied by the high watermark over the maximal ISR (R497-24). The committed ISR admits an append, the
   maximal one judges it when it is done (R497-25).
5. Nothing here signals, sends or syncs: functions return what has changed.
"""

import enum
from collections.abc import Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple, Protocol

from actors.broker.log.log import Appended, PartitionLog, Unsettled
from actors.broker.log.producers import markers
from actors.broker.log.producers.producers import OutOfOrderSequence, ProducerFault
from actors.broker.log.segment import Job
from actors.broker.log.truncation import Preparation, Prepared, prepare_cut, truncate_fully, truncate_to
from actors.broker.replication import isr_transitions as isr_rules
from actors.broker.replication.admission import RequestRefused, accept
from actors.broker.replication.census import NOWHERE
from actors.broker.replication.followers import Follower, Position
from actors.broker.replication.isr_transitions import Event, Isr, IsrTransition, View
from actors.broker.replication.replication_throttle import ReplicationThrottle, lists
from actors.ports import Buffer, Disk, DiskFull
from actors.settings.tables.log import AS_PRODUCED
from actors.settings.topics import TopicSettings
from actors.wire.errors import ErrorCode
from fastpath.meters.traffic import Traffic

CODES = {int(code): code for code in ErrorCode}
UNWRITTEN_MAX = 1000
NO_LEADER = -1
NEVER_MS = -(1 << 62)
NO_FOLLOWERS: Mapping[int, "Follower"] = MappingProxyType({})
WATCHERS_FEW = 4
"""How many watchers are a tuple: an idle partition has those of its followers. More are a dict."""


class Assignment(NamedTuple):
    """What committed metadata says of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    """The number that counts leaderships: clients and followers fence with it, and batches and leader-epoch-checkpoint
    hold it."""
    partition_epoch: int
    """The number that counts changes of any kind: it tells the newer of two assignments, and an AlterIsr rests on
    it."""
    moving: bool = False
    """Whether replicas are being added or removed."""
    adding: int = 0
    """How many of the replicas are being added."""


class Became(enum.Enum):
    """The change that an assignment makes to this broker's part."""

    LEADER = "leader"
    FOLLOWER = "follower"
    SAME = "same part as before"


class NoRoom(RequestRefused):
    """The disk of the log is full: another member of the ISR may have room."""


class Cluster:
    """The state of the broker and the cluster that all its partitions look at. Written by the broker's role."""

    __slots__ = (
        "follower_throttle",
        "heard_ms",
        "lag_ms_max",
        "leader_throttle",
        "me",
        "rack_aware",
        "recompresses",
        "unfenced",
        "without_room",
    )

    def __init__(self, me: int, lag_ms_max: int, throttle_windows: int = 11, throttle_window_ms: int = 1_000) -> None:
        self.me = me
        self.unfenced: dict[int, int] = {}
        """The broker epoch of each broker that is registered and not fenced. A broker that is not in it is fenced or
        absent."""
        self.heard_ms: dict[int, int] = {}
        """Monotonic time of the last fetch of each replica."""
        self.lag_ms_max = lag_ms_max
        self.without_room: dict[Disk, DiskFull] = {}
        """Why appends of this turn were refused, by directory."""
        self.leader_throttle = ReplicationThrottle(throttle_windows, throttle_window_ms)
        """The throttle of what this broker sends to followers."""
        self.follower_throttle = ReplicationThrottle(throttle_windows, throttle_window_ms)
        """The throttle of what this broker takes in from leaders."""
        self.recompresses = False
        """Whether a topic here asks for a codec of its own, or has since the start."""
        self.rack_aware = False
        """Whether consumers are sent to the closest replica (KIP-392), so followers should soon know what is committed."""


class WaitingFetcher(Protocol):
    """A fetcher whose answer may be waiting for a partition to change."""

    replica: int
    """The broker id of a follower; below zero: a client."""
    key: object
    """The waiting key of its answer."""


class Watcher(Protocol):
    """What a partition keeps of a fetcher that is to hear of its changes."""

    def stir(self) -> WaitingFetcher:
        """Note that the partition changed: look at it with the fetcher's next answer."""


class Partition:
    """The state of one replica on this broker. Keyed by (topic id, number): rows of the image never reach this file."""

    __slots__ = (
        "_unwritten",
        "adding",
        "alone",
        "cluster",
        "epoch_start",
        "followers",
        "high_watermark",
        "isr",
        "leader",
        "leader_epoch",
        "led_from",
        "led_since",
        "log",
        "moving",
        "number",
        "proven_epoch",
        "removed",
        "replicas",
        "settings",
        "standing",
        "throttled_as_follower",
        "throttled_as_leader",
        "told_high_watermark",
        "topic",
        "topic_id",
        "traffic",
        "unreadable",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        number: int,
        log: PartitionLog,
        cluster: Cluster,
        settings: TopicSettings,
        high_watermark: int,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.number = number
        self.log = log
        self.cluster = cluster
        self.configure(settings)
        self.replicas: tuple[int, ...] = ()
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.isr = Isr((), -1)
        self.followers = NO_FOLLOWERS
        """The followers, by broker. Invariant: on the leader exactly the other replicas; elsewhere empty."""
        self.high_watermark = high_watermark
        """The high watermark of this replica. Invariant: at most the log end."""
        if not log.blank:
            log.producers.transactions.replicated(high_watermark)
        self.moving = False
        """Whether replicas are being added or removed."""
        self.adding = 0
        """How many of the replicas are being added."""
        self.told_high_watermark = -1
        """The high watermark that the leader has told a follower last; -1: none yet."""
        self.traffic = Traffic()
        """What comes into the topic here, and leaves it. Its partitions share it."""
        self.standing = NOWHERE
        """The last state of this partition that was counted."""
        self.epoch_start = 0
        """Log end when the leader epoch began here."""
        self.led_from = 0
        """The log end when the present unbroken leadership began: a leader before it may have shown all that is
        below."""
        self._unwritten: dict[int, tuple[type[RequestRefused], str]] | None = None
        """Producers whose last batch found no room, or came too early behind a cut, and the refusal that says so;
        `UNWRITTEN_MAX` at most. What they sent behind it is refused for the same reason and not as out of order:
        librdkafka answers OUT_OF_ORDER_SEQUENCE_NUMBER with a new producer epoch, and under that it repeats records
        which other partitions may hold already."""
        self.led_since = -1
        """Leader epoch with which the present unbroken leadership began."""
        self.proven_epoch = -1
        """The last leader epoch in which a leader has shown that this log is the beginning of its own."""
        self.removed = False
        self.unreadable = log.damaged is not None
        """Whether a segment here is damaged: this replica is to be given up, and fetched anew from another one."""
        self.watchers: Collection[Watcher] = ()
        """The entries of fetch sessions that are to hear when this partition changes, in the order in which they came."""
        self.alone = False
        """Whether this broker leads the partition and there is no other replica: the high watermark is the log end."""

    def __repr__(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def grown(self) -> tuple[str, bytes, int]:
        """Waiting key: the log end moved, or the partition has another leader."""
        return "grown", self.topic_id, self.number

    @property
    def committed(self) -> tuple[str, bytes, int]:
        """Waiting key: the high watermark moved, or what a produce waits for can no longer come."""
        return "committed", self.topic_id, self.number

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""
        return self.leader == self.cluster.me

    # ---- metadata

    def configure(self, settings: TopicSettings) -> None:
        """Take over the topic's settings."""
        self.settings = settings
        if settings.compression_type != AS_PRODUCED:
            self.cluster.recompresses = True
        me = self.cluster.me
        self.throttled_as_leader = lists(settings.leader_replication_throttled_replicas, self.number, me)
        """Whether what is sent to followers counts against this broker's rate, and may be held back (KIP-73)."""
        self.throttled_as_follower = lists(settings.follower_replication_throttled_replicas, self.number, me)
        """Whether what this replica takes in counts against this broker's rate, and may be held back (KIP-73)."""

    def apply(self, assignment: Assignment, mono_ms: int) -> tuple[Became, IsrTransition | None]:
        """Take over a committed assignment. Returns what became of this broker's part, and the row of the ISR table
        that moved."""
        led, leads = self.leads, assignment.leader == self.cluster.me
        known, told = self.isr.partition_epoch, assignment.partition_epoch
        if told < known:
            return Became.SAME, self.isr.updated(assignment.isr, told) if led else None
        again = assignment.leader_epoch > self.leader_epoch
        assert told > known or not again, "a leader epoch moves only with the partition epoch"
        if told > known + 1:
            # A snapshot has left changes out. A replica may have been moved away and back, and has begun anew.
            self.followers = NO_FOLLOWERS
        changed = again or assignment.leader != self.leader
        self.replicas, self.moving, self.adding = _shared(assignment.replicas), assignment.moving, assignment.adding
        self.leader, self.leader_epoch = assignment.leader, assignment.leader_epoch
        row: IsrTransition | None = None
        if not leads:
            if led:
                row = self.isr.happened(Event.OTHER_LEADER)
            self.isr = Isr(assignment.isr, told)
            self.followers, self.alone = NO_FOLLOWERS, False
            return (Became.FOLLOWER if led or changed else Became.SAME), row
        if led:
            row = self.isr.updated(assignment.isr, told, again=again)
        else:
            self.isr = Isr(assignment.isr, told)
            self.followers = NO_FOLLOWERS
            self.led_since = self.leader_epoch
            self.led_from = self.log.log_end_offset
        self._know_followers(mono_ms)
        if again or not led:
            self.epoch_start = self.log.log_end_offset
            if self.leader_epoch > self.log.epochs.latest:
                self.log.start_epoch(self.leader_epoch)
        self.alone = len(self.replicas) == 1
        return (Became.SAME if led else Became.LEADER), row

    def remove(self) -> None:
        """Give up a partition that is deleted or was moved away (T19)."""
        self.isr.happened(Event.REMOVED)
        self.removed = True
        self.leader = NO_LEADER
        self.followers = NO_FOLLOWERS

    def watch(self, watcher: Watcher) -> None:
        """Let a fetcher hear of changes from now on."""
        if isinstance(self.watchers, dict):
            self.watchers[watcher] = None
        elif watcher not in self.watchers:
            held = (*self.watchers, watcher)
            self.watchers = held if len(held) <= WATCHERS_FEW else dict.fromkeys(held)

    def unwatch(self, watcher: Watcher) -> None:
        """Let a fetcher hear of changes no more."""
        if isinstance(self.watchers, dict):
            self.watchers.pop(watcher, None)
        else:
            self.watchers = tuple(one for one in self.watchers if one is not watcher)

    # ---- leader: append

    def admit(self, acks: int) -> None:
        """Check a produce before anything is written. Raises RequestRefused if this broker is not the leader, or the
        committed ISR is too small (R497-25)."""
        if self.leader != self.cluster.me:
            raise RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and len(self.isr.isr) < self.min_insync:
            raise RequestRefused(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self!r} has {len(self.isr.isr)} in-sync replicas, fewer than min.insync.replicas",
            )

    @property
    def members(self) -> int:
        """How many replicas are in sync, as far as that is committed."""
        return len(self.isr.isr)

    @property
    def min_insync(self) -> int:
        """min.insync.replicas, at most the number of replicas."""
        return min(self.settings.min_insync_replicas, len(self.replicas) or 1)

    @property
    def own_end(self) -> int:
        """The offset up to which this replica itself has the data: the log end, or with flush.messages=1 what is on the
        disk."""
        log = self.log
        return int(log.recovery_point if self.durable_first else log.log_end_offset)

    def append(self, data: Buffer, wall_ms: int, *, client: bool) -> Appended:
        """Take produced batches in: check, give offsets, append; `data` must be writable and is changed in place.

        Raises RequestRefused: CORRUPT_MESSAGE, INVALID_RECORD, INVALID_TIMESTAMP, OUT_OF_ORDER_SEQUENCE_NUMBER,
        INVALID_PRODUCER_EPOCH, KAFKA_STORAGE_ERROR when the disk is full (NoRoom) or a cut is not durable yet. Raises
        DiskFailed: nothing more can be appended.
        """
        log = self.log
        end, heard = log.log_end_offset, self.cluster.heard_ms
        for follower in self.followers.values():
            # Whoever has everything until now is caught up as of its last fetch.
            follower.passed(end, heard.get(follower.id, NEVER_MS))
        headers = accept(data, self.settings, end, self.leader_epoch, wall_ms, client=client)
        try:  # what is accepted is sound: the log finds no corrupt batch in it
            if not client:
                for header in headers:
                    log.producers.check_epoch(header)
            appended: Appended = log.append(data, headers, wall_ms, client=client)
            if self._unwritten:
                self._unwritten.pop(headers[0].producer_id, None)
            return appended
        except ProducerFault as error:
            if isinstance(error, OutOfOrderSequence) and self._unwritten and headers[0].producer_id in self._unwritten:
                kind, sentence = self._unwritten[headers[0].producer_id]
                raise kind(ErrorCode.KAFKA_STORAGE_ERROR, sentence) from None
            raise RequestRefused(CODES[error.code], str(error)) from None
        except Unsettled:
            sentence = f"{self!r} was cut a moment ago, and nothing is appended before that is durable: send it again"
            raise self._not_written(headers[0].producer_id, RequestRefused, sentence) from None
        except DiskFull as error:
            self.cluster.without_room[log.disk] = error
            # What the system says names a file of this machine, which is for the log and not for a client.
            sentence = f"the leader of {self!r} has no room on its disk"
            raise self._not_written(headers[0].producer_id, NoRoom, sentence) from None

    def _not_written(self, producer_id: int, kind: type[RequestRefused], sentence: str) -> RequestRefused:
        if self._unwritten is None:
            self._unwritten = {}
        self._unwritten[producer_id] = kind, sentence
        if len(self._unwritten) > UNWRITTEN_MAX:
            del self._unwritten[next(iter(self._unwritten))]
        return kind(ErrorCode.KAFKA_STORAGE_ERROR, sentence)

    def end_transaction(
        self,
        producer_id: int,
        producer_epoch: int,
        commit: bool,
        coordinator_epoch: int,
        wall_ms: int,
        *,
        transaction_version: int = 0,
    ) -> Appended:
        """Append the marker that ends a producer's transaction here, as its coordinator asks for (KIP-98).

        `producer_epoch`: the marker's. In transaction version 2 it must be above the epoch that the producer has here, as it
        rises with each end (KIP-890, part 2); below that, the same is enough (`log/producers/producers.py`, rule 7).
        Without an open transaction the marker is written too.

        Raises RequestRefused: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, KAFKA_STORAGE_ERROR when the disk is
        full. Raises DiskFailed."""
        try:
            self.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, transaction_version)
        except ProducerFault as error:
            raise RequestRefused(CODES[error.code], str(error)) from None
        marker = markers.Marker(commit, coordinator_epoch)
        return self.append(markers.build(producer_id, producer_epoch, marker, wall_ms), wall_ms, client=False)

    def verdict(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Whether an acks=all append up to `required_offset` under `leader_epoch` is done; None: not yet.

        An ISR below the minimum ends no wait: the high watermark stands still, and moves on when a replica comes back.
        NONE, NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self.removed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.leader != self.cluster.me or self.led_since > leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.high_watermark >= required_offset:
            enough = len(self.isr.maximal) >= self.min_insync
            return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return None

    def flushed_verdict(self, required_offset: int, leader_epoch: int) -> ErrorCode | None:
        """Whether an append up to `required_offset` under `leader_epoch` is on this broker's disk; None: not yet.

        NONE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION.
        """
        if self.removed:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if self.leader != self.cluster.me or self.led_since > leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE if self.log.recovery_point >= required_offset else None

    # ---- leader: followers, high watermark, ISR

    def view(self, mono_ms: int) -> View:
        """The state of the partition that the ISR rules look at."""
        cluster, log = self.cluster, self.log
        return View(
            cluster.me,
            self.replicas,
            self.followers,
            cluster.unfenced,
            log.log_end_offset,
            self.own_end,
            self.high_watermark,
            self.epoch_start,
            cluster.lag_ms_max,
            mono_ms,
            not self.unreadable,
        )

    def note_fetch(
        self, replica: int, fetch_offset: int, log_start: int, broker_epoch: int, mono_ms: int, *, attached: bool
    ) -> None:
        """Note where a follower is. `attached`: the partition is in a session that is kept. Raises RequestRefused,
        UNKNOWN_LEADER_EPOCH, if the replica is not assigned as far as known here."""
        follower = self.followers.get(replica)
        if follower is None:
            raise RequestRefused(
                ErrorCode.UNKNOWN_LEADER_EPOCH, f"{replica} is no replica of {self!r} as far as known here"
            )
        follower.attached = attached
        follower.fetched(Position(fetch_offset, log_start, broker_epoch, self.log.log_end_offset, mono_ms))

    def advance(self, mono_ms: int) -> bool:
        """Move the high watermark as far as the present state allows (R497-23, -45, -53). Returns whether it moved."""
        if self.leader != self.cluster.me:
            return False
        if self.alone:
            reached = self.own_end
        else:
            reached = isr_rules.high_watermark(self.view(mono_ms), self.isr, self.min_insync)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        self._replicated()
        return True

    def _replicated(self) -> None:
        """Tell the transactions where the high watermark is, after it has moved or the log was cut."""
        if self.log.blank:
            return
        transactions = self.log.producers.transactions
        if transactions.ended:
            transactions.replicated(self.high_watermark)

    def decide(self, mono_ms: int) -> bool:
        """Compare the committed ISR with the one that should be. Returns True if a new proposal is to be queued (T1,
        T2)."""
        if self.leader != self.cluster.me:
            return False
        view = self.view(mono_ms)
        want = isr_rules.wanted(view, self.isr)
        return self.isr.decide(want, isr_rules.epochs_of(view, want))

    @property
    def incomplete(self) -> bool:
        """Whether a replica is outside the committed ISR, or a proposal may still be changed: a fetch is worth a
        decision."""
        return len(self.isr.isr) < len(self.replicas) or self.isr.stage is isr_rules.Stage.QUEUED

    @property
    def at_rest(self) -> bool:
        """Whether time alone changes nothing: all replicas are in sync and have everything, and it is committed."""
        end = self.log.log_end_offset
        if self.high_watermark != end or self.incomplete:
            return False
        return all(follower.log_end == end for follower in self.followers.values())

    @property
    def durable_first(self) -> bool:
        """Whether what is here counts only once it is on the disk: flush.messages=1, or a proposal is out that may make
        this replica the only one that has what is acknowledged now."""
        return self.settings.flush_messages == 1 or self.flush_before_asking

    @property
    def flush_before_asking(self) -> bool:
        """Whether the proposal would leave fewer members than min.insync.replicas, or this one alone: what is here must
        be durable first. Once the controller has the proposal it may commit it after this broker has lost what it had
        not synced."""
        proposal = self.isr.proposal
        return proposal is not None and len(proposal.want) < min(max(self.min_insync, 2), len(self.isr.isr))

    @property
    def low_watermark(self) -> int:
        """The lowest log start of the replicas that are alive (DeleteRecords). Replicas that are fenced or absent hold
        nothing up: they hear of the new log start when they fetch again."""
        alive = self.cluster.unfenced
        starts = [follower.log_start for follower in self.followers.values() if follower.id in alive]
        return min([self.log.log_start_offset, *starts])

    # ---- reads

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which readers of committed records read. At most the high watermark."""
        if self.log.blank:
            return self.high_watermark
        unstable = self.log.producers.transactions.first_unstable
        if unstable >= self.high_watermark:
            return self.high_watermark
        return min(max(unstable, self.log.log_start_offset), self.high_watermark)

    def check_epoch(self, epoch: int, *, leader_only: bool) -> None:
        """Check the leader epoch that a request names (KIP-320); -1 is not checked. Raises RequestRefused:
        FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER.

        An earlier epoch of the same unbroken leadership, as each change of an ISR leaves it where one number counts both
        (A33), is refused too. Clients trust that no answer has a batch of an epoch which they do not know. librdkafka may
        compare its position behind such a batch with the end of the epoch before, takes the log for truncated, and throws
        away what it has fetched."""
        if epoch >= 0 and epoch != self.leader_epoch:
            raise RequestRefused(
                ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if self.leader != self.cluster.me and (leader_only or self.leader == NO_LEADER):
            raise RequestRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def diverging(self, fetch_offset: int, last_fetched_epoch: int) -> tuple[int, int] | None:
        """(epoch, end offset) of the newest common epoch if the fetcher's log has diverged from this one; None: it has
        not (KIP-595's check in Fetch). Raises RequestRefused, OFFSET_OUT_OF_RANGE, if this log knows nothing of that
        epoch."""
        if last_fetched_epoch < 0:
            return None
        epoch, end = self.log.end_offset_for_epoch(last_fetched_epoch)
        if epoch < 0 or end < 0:
            raise RequestRefused(ErrorCode.OFFSET_OUT_OF_RANGE)
        return (epoch, end) if epoch < last_fetched_epoch or end < fetch_offset else None

    def check_offset(self, offset: int) -> None:
        """Check an offset. Raises RequestRefused, OFFSET_OUT_OF_RANGE, if it is outside [log start, log end]."""
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            raise RequestRefused(ErrorCode.OFFSET_OUT_OF_RANGE)

    # ---- follower

    def follow(self, leader_high_watermark: int, leader_log_start: int) -> bool:
        """Take over what a leader's fetch answer says beside its records. Returns whether the high watermark moved."""
        self.proven_epoch = self.leader_epoch
        if leader_log_start > self.log.log_start_offset:
            self.log.delete_records(min(leader_log_start, self.log.log_end_offset))
        reached = min(leader_high_watermark, self.log.log_end_offset)
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        self._replicated()
        return True

    def unproven(self, leader_log_start: int) -> bool:
        """Whether all that is here may be other data than the leader had: its log begins where this one ends, so it has
        forgotten the epochs of what was before, and nothing here beyond the high watermark was compared."""
        log = self.log
        return (
            self.proven_epoch < self.leader_epoch
            and log.log_start_offset < log.log_end_offset == leader_log_start
            and self.high_watermark < leader_log_start
        )

    def prepare_cut(self, epoch: int, end_offset: int) -> Preparation | None:
        """The job that must come before `truncate_for`; None: there is none, cut at once."""
        return prepare_cut(self.log, self._common(epoch, end_offset))

    def truncate_for(self, epoch: int, end_offset: int, prepared: Prepared | None = None) -> list[Job]:
        """Cut the log to the newest offset that the leader's answer (its epoch and end offset) proves common. Returns
        jobs that unlink.

        KIP-279: where this log does not have `epoch` it cuts to the end of its own next lower one and asks again.
        """
        try:
            return truncate_to(self.log, self._common(epoch, end_offset), prepared)
        finally:
            self._was_cut()

    def _common(self, epoch: int, end_offset: int) -> int:
        own_epoch, own_end = self.log.end_offset_for_epoch(epoch)
        if own_epoch < 0:
            target = end_offset
        elif own_epoch == epoch:
            target = min(own_end, end_offset)
        else:
            target = own_end
        return min(target, self.log.log_end_offset)

    def restart(self, offset: int, wall_ms: int, *, inside: bool = False) -> list[Job]:
        """Begin again at `offset`, since nothing here overlaps with the leader's log. `inside`: as for `truncate_fully`.
        Returns jobs that unlink."""
        try:
            jobs = truncate_fully(self.log, offset, wall_ms, inside=inside)
        finally:
            self._was_cut()
        self.high_watermark = offset
        return jobs

    def _was_cut(self) -> None:
        """Note that the log may end earlier now: a cut that fails half way may have cut a part."""
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        self._replicated()

    # ---- inside

    def _know_followers(self, mono_ms: int) -> None:
        kept = self.followers
        if len(self.replicas) == 1 and self.replicas[0] == self.cluster.me:
            self.followers = NO_FOLLOWERS
            return
        self.followers = {
            replica: kept.get(replica) or Follower(replica, mono_ms if replica in self.isr.isr else NEVER_MS)
            for replica in self.replicas
            if replica != self.cluster.me
        }


@lru_cache(maxsize=4096)
def _shared(replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The one tuple of these replicas: many partitions have the same."""
    return replicas
