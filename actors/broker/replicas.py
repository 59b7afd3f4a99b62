"""All partitions of this broker, and what has to be told to whom after each thing that happened to one.

This file alone keeps the partitions, by (topic id, number), with their fetchers and their proposals for other ISRs. Rules:

1. Rows of the image die with a snapshot load; here a partition is named by topic id and number, and found by name only
   through the topic id that the name has now.
2. Nothing is signalled or sent from here: `signals`, `flushes`, `moved` and `reports` gather what the node does in this
   turn, in the order in which it came up.
3. All proposals that come up in one turn leave in one AlterIsr (R497-26).
"""

import enum
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from actors.broker.fetchers import Fetcher, Limits, Outcome
from actors.broker.isr import Effect, Stage
from actors.broker.isr_proposals import IsrProposals, Moved
from actors.broker.partition import Assignment, Became, Cluster, Partition
from actors.broker.sessions import FINAL_EPOCH, Entry, Session
from actors.ports import Disk, DiskFailed

OpenLog = Callable[[str, bytes, int], Any]
"""(topic, topic id, number) -> (log, settings, checkpointed high watermark); None: its files cannot be used"""


class Offline(enum.Enum):
    """Why the files of a replica cannot be used."""

    FAILED = "its log directory failed, or its files cannot be read"
    """Until the process is started again."""
    REMOVED = "its files were removed under the running broker"
    """Its leader still knows how far it was, so only a new process may fetch it anew."""
    LOST = "its files are not there, and this broker had them"
    """Until it is out of the ISR: then it begins empty, as a follower."""


class Flush(NamedTuple):
    """Make a partition's log durable; then its queued proposal may leave."""

    partition: Partition
    asks: bool


class Replicas:
    """The partitions of one broker."""

    def __init__(self, cluster: Cluster, proposals: IsrProposals, limits: Limits, open_log: OpenLog) -> None:
        self.cluster = cluster
        self.proposals = proposals
        self.limits = limits
        self.open_log = open_log
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self.signals: dict[Hashable, int | None] = {}
        """Waiting keys, in order, and what offset each has reached; None: something else changed."""
        self.flushes: list[Flush] = []
        self.moved: list[tuple[Partition, Became]] = []
        """Partitions that changed their part; FOLLOWER also for those that are gone."""
        self.opened: list[Partition] = []
        """Those that are here now and were not."""
        self.reports: list[str] = []
        self.unreadable: dict[Partition, None] = {}
        """Partitions with a damaged segment, until they are gone from here."""
        self.failed_reads: dict[Disk, DiskFailed] = {}
        """Devices that have answered a read with an error in this turn. Damaged data is no such error."""
        self.offline: dict[tuple[bytes, int], Offline] = {}
        """(topic id, number) of replicas assigned here whose files cannot be used, and why. Invariant: none is kept
        here, so whoever asks for one is told KAFKA_STORAGE_ERROR."""
        self.full: dict[Partition, int] = {}
        """Partitions led here whose last append found no room -> the leader epoch of that append. Another member of the ISR
        is to lead them."""
        self.handed_over_ms: dict[Partition, int] = {}
        """When that was last asked for."""
        self.isr_expands = self.isr_shrinks = self.isr_failures = 0
        """Settled changes and refused proposals since the start (R497-49)."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_id.values():
            yield from partitions.values()

    def get(self, topic: bytes | str, number: int) -> Partition | None:
        """A partition by topic id or name; None: not here."""
        partitions = self.by_id.get(topic) if isinstance(topic, bytes) else self.by_name.get(topic)
        return partitions.get(number) if partitions is not None else None

    def known(self, topic_id: bytes, number: int) -> bool:
        """Whether a replica of that partition is here, or is offline."""
        partitions = self.by_id.get(topic_id)
        return (partitions is not None and number in partitions) or (topic_id, number) in self.offline

    # ---- metadata

    def assign(self, topic: str, topic_id: bytes, number: int, assignment: Assignment, mono_ms: int) -> None:
        """Committed metadata says so of a partition that has a replica here. One whose log cannot be opened is offline."""
        partition = self.get(topic_id, number)
        if partition is None:
            opened = self.open_log(topic, topic_id, number)
            if opened is None:
                self.offline[topic_id, number] = Offline.FAILED
                return
            log, settings, high_watermark = opened
            partition = Partition(topic, topic_id, number, log, self.cluster, settings, high_watermark)
            self.by_id.setdefault(topic_id, {})[number] = partition
            self.by_name[topic] = self.by_id[topic_id]
            self.opened.append(partition)
            if partition.unreadable:
                self.unreadable[partition] = None
        source, epoch, members = partition.leader, partition.leader_epoch, partition.isr.isr
        part, row = partition.apply(assignment, mono_ms)
        self._follow(partition, source, epoch)
        if partition.leads and part is Became.SAME:
            self.isr_expands += bool(partition.isr.isr - members)
            self.isr_shrinks += bool(members - partition.isr.isr)
        if part is not Became.SAME:
            self.moved.append((partition, part))
        if partition.leader != source or partition.leader_epoch != epoch:
            self._stir(partition)
            self.signals[partition.grown] = self.signals[partition.committed] = None
        if partition.leads:
            if partition.isr.isr == {self.cluster.me} and members - partition.isr.isr:
                self.flushes.append(Flush(partition, False))
            self.advance(partition, mono_ms)
            if part is Became.SAME and row is not None and Effect.EVALUATE in row.effects:
                self.signals[partition.committed] = None
                self.decide(partition, mono_ms)
        elif part is Became.FOLLOWER:
            self.proposals.forget(partition)

    def remove(self, partition: Partition) -> None:
        """The partition has no replica here any more."""
        partitions = self.by_id[partition.topic_id]
        del partitions[partition.number]
        if not partitions:
            del self.by_id[partition.topic_id]
            if self.by_name.get(partition.topic) is partitions:
                del self.by_name[partition.topic]
        source = partition.leader
        self.proposals.forget(partition)
        self.unreadable.pop(partition, None)
        self.full.pop(partition, None)
        self.handed_over_ms.pop(partition, None)
        partition.remove()
        fetcher = self.fetchers.get(source)
        if fetcher is not None:
            fetcher.leave(partition)
        self._stir(partition)
        self.signals[partition.grown] = self.signals[partition.committed] = None
        self.moved.append((partition, Became.FOLLOWER))

    def take_offline(self, partition: Partition, why: Offline) -> None:
        """Its files cannot be used any more: it is no longer here, and whoever waits for it hears so."""
        self.offline[partition.topic_id, partition.number] = why
        self.remove(partition)

    def broker_changed(self, broker: int, epoch: int | None, mono_ms: int) -> None:
        """A broker's registration changed. `epoch`: its broker epoch; None: it is fenced or absent, which here is the same,
        since only who is alive may join an ISR or is waited for. Hold-offs that concern it end. A proposal that
        has not left yet is looked at again: fencing writes the ISR first and the broker's end after it. So is a
        follower outside the ISR: its fetches may have come before its registration did. And nobody waits any more for
        one that is fenced."""
        if epoch is None:
            self.cluster.unfenced.pop(broker, None)
        else:
            self.cluster.unfenced[broker] = epoch
        for partition in self:
            if partition.isr.held_off:
                partition.isr.broker_changed(broker)
            outside = broker in partition.followers and broker not in partition.isr.isr
            if partition.isr.stage is Stage.QUEUED or outside:
                self.decide(partition, mono_ms)
            if epoch is None and outside and partition.high_watermark < partition.log.log_end_offset:
                self.advance(partition, mono_ms)

    # ---- leader

    def appended(self, partition: Partition, mono_ms: int) -> None:
        """The log of a led partition has grown."""
        self.signals[partition.grown] = None
        for entry in partition.watchers:
            session = entry.stir()
            if session.replica >= 0:
                self.signals[session.key] = None
        self.advance(partition, mono_ms)

    def started(self, partition: Partition) -> None:
        """The log of a led partition begins at a later offset: followers are to hear of it at once."""
        self.signals[partition.grown] = None
        self._stir(partition)

    def advance(self, partition: Partition, mono_ms: int) -> None:
        """Move the high watermark if it may."""
        if partition.advance(mono_ms):
            self._advanced(partition)

    def durable(self, partition: Partition, mono_ms: int) -> None:
        """More of its log is on the disk: of a leader that may be what the high watermark or a producer waits for."""
        self.signals[partition.committed] = None
        self.advance(partition, mono_ms)

    def fetched(self, partition: Partition, mono_ms: int) -> None:
        """A follower has said where it is."""
        self.advance(partition, mono_ms)
        if partition.incomplete:
            self.decide(partition, mono_ms)

    def decide(self, partition: Partition, mono_ms: int) -> None:
        """Look at every replica; a new proposal leaves in this turn, or after a flush if it would leave too few members. One
        that is looked at again and wants the same is on its way: what it waits for is not begun anew."""
        before = partition.isr.proposal
        new = partition.decide(mono_ms)
        proposal = partition.isr.proposal
        if proposal is None or partition.isr.stage is not Stage.QUEUED:
            return
        if not new and before is not None and before.want == proposal.want:
            return
        if partition.flush_before_asking:
            self.proposals.forget(partition)
            self.flushes.append(Flush(partition, True))
        elif partition.isr.stage is Stage.QUEUED:
            self.proposals.queue(partition)

    def flushed(self, partition: Partition, mono_ms: int) -> None:
        """What was there when a proposal came up is durable: it may leave. What has come since counts when it is
        durable too."""
        if partition.isr.stage is Stage.QUEUED:
            self.proposals.queue(partition)
        self.advance(partition, mono_ms)

    def check_lag(self, mono_ms: int) -> None:
        """R497-44, for every led partition; every half of replica.lag.time.max.ms."""
        for partition in self:
            if partition.leads and not partition.alone:
                self.decide(partition, mono_ms)
                self.advance(partition, mono_ms)

    def answered(self, moved: list[Moved], mono_ms: int) -> None:
        """Proposals that an AlterIsr answer has moved."""
        for led, row in moved:
            partition = self.get(led.topic_id, led.number)
            if partition is None or partition is not led:
                continue
            self.isr_failures += Effect.FAILED in row.effects
            if row.stage is Stage.SETTLED:
                self.advance(partition, mono_ms)
            elif row.name == "T12":
                self.signals[partition.committed] = None

    # ---- follower

    def fetcher(self, source: int) -> Fetcher:
        """The fetcher of a source broker, made on first use."""
        fetcher = self.fetchers.get(source)
        if fetcher is None:
            fetcher = self.fetchers[source] = Fetcher(source, self.cluster.me, self.limits)
        return fetcher

    def replicated(self, outcome: Outcome) -> None:
        """A fetch answer was taken in."""
        for partition in outcome.grown:
            self.signals[partition.grown] = None
        for partition in outcome.advanced:
            self._advanced(partition)
        self.reports.extend(outcome.reports)

    # ---- fetch sessions

    def attach(self, entry: Entry) -> None:
        """Find an entry's partition; one of a kept session hears of it from now on."""
        partition = self.get(entry.topic, entry.number)
        if entry.partition is not partition:
            self.detach(entry)
            entry.partition = partition
        if partition is not None and entry.session.id:
            partition.watchers[entry] = None

    def detach(self, entry: Entry) -> None:
        """It does no longer."""
        partition, entry.partition, entry.warm = entry.partition, None, None
        if partition is None:
            return
        partition.watchers.pop(entry, None)
        follower = partition.followers.get(entry.session.replica)
        if follower is not None:
            follower.attached = False

    def end_session(self, session: Session) -> None:
        """The session is over: nothing watches for it any more, and a request that still waits in it finds nothing."""
        session.epoch = FINAL_EPOCH
        for entry in session.entries.values():
            self.detach(entry)

    # ---- inside

    def _advanced(self, partition: Partition) -> None:
        # A follower hears of it with its next answer; that alone is no reason to answer.
        key = partition.committed
        if key not in self.signals or self.signals[key] is not None:
            self.signals[key] = partition.high_watermark
        for entry in partition.watchers:
            session = entry.stir()
            if session.replica < 0:
                self.signals[session.key] = None

    def _stir(self, partition: Partition) -> None:
        for entry in partition.watchers:
            self.signals[entry.stir().key] = None

    def _follow(self, partition: Partition, source: int, epoch: int) -> None:
        me = self.cluster.me
        if partition.leader != source and source not in (me, -1) and source in self.fetchers:
            self.fetchers[source].leave(partition)
        if partition.leader not in (me, -1) and (partition.leader != source or partition.leader_epoch != epoch):
            self.fetcher(partition.leader).follow(partition)
