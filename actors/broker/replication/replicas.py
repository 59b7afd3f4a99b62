"""All partitions of this broker, and what the node must do after each change of one.

This file alone keeps the partitions, by (topic id, number), with their fetchers and their ISR proposals. Rules:

1. Rows of the image become invalid with a snapshot load. So a partition is named by topic id and number here, and a
   topic name is resolved through the topic id that it has now.
2. Nothing is signalled or sent from here. `signals`, `flushes`, `moved` and `reports` collect what the node must do in
   this turn, in the order in which it came up.
3. All proposals that come up in one turn leave in one AlterIsr (R497-26).
4. Whoever asks for a partition that is still arriving gets it, made in this moment. So nobody can tell when it was made.
5. A partition that is leaving is found by nobody any more, neither by id nor by name, and no walk over the partitions
   comes to it. It is removed later, and before another one of its name and number begins.
"""

import enum
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from actors.broker.log.index_cache import IndexCache
from actors.broker.replication.alter_isr_requests import IsrProposals, Moved
from actors.broker.replication.census import Census
from actors.broker.replication.fetch_sessions import FINAL_EPOCH, Session, SessionPartition
from actors.broker.replication.fetchers import Fetcher, FetcherLimits, FetchOutcome
from actors.broker.replication.isr_transitions import Effect, Stage
from actors.broker.replication.partition import Assignment, Became, Cluster, Partition
from actors.ports import Disk, DiskFailed
from fastpath.meters.traffic import Traffic

OpenLog = Callable[[str, bytes, int], Any]
"""A function that opens a log: (topic, topic id, number) -> (log, settings, checkpointed high watermark); None: the
files cannot be used."""


SLICE = 500
"""How many partitions are looked at in a turn: for followers that lag, or since a broker's registration changed."""
END = object()


class Offline(enum.Enum):
    """Why the files of a replica cannot be used."""

    FAILED = "its log directory failed, or its files cannot be read, or its name is not free"
    """Lasts until the process is restarted, or the name is free, or there is room and a descriptor to open its files."""
    AGAIN = "it is to begin, and may fail again as it did"
    """Lasts until its turn comes: a heartbeat before that does not say that it can be used."""
    REMOVED = "its files were removed under the running broker"
    """Lasts until a new process begins: the replica's leader still knows how far its log went, so only a new process
    may fetch it anew."""
    LOST = "its files are not there, and this broker had them"
    """Lasts until the replica is out of the ISR. Then it begins empty, as a follower."""


class Flush(NamedTuple):
    """Make a partition's log durable. Its queued proposal may leave afterwards."""

    partition: Partition
    asks: bool


class Replicas:
    """The partitions of one broker."""

    def __init__(self, cluster: Cluster, proposals: IsrProposals, limits: FetcherLimits, open_log: OpenLog) -> None:
        self.cluster = cluster
        self.proposals = proposals
        self.limits = limits
        self.open_log = open_log
        self.by_id: dict[bytes, dict[int, Partition]] = {}
        self.by_name: dict[str, dict[int, Partition]] = {}
        self.fetchers: dict[int, Fetcher] = {}
        self.signals: dict[Hashable, int | None] = {}
        """Waiting keys in order, with the offset that each has reached; None: something else changed."""
        self.flushes: list[Flush] = []
        self.moved: list[tuple[Partition, Became]] = []
        """Partitions that became leader or follower. Partitions that are gone are noted as FOLLOWER."""
        self.opened: list[Partition] = []
        """Partitions that are here now and were not before."""
        self.reports: list[str] = []
        self.unreadable: dict[Partition, None] = {}
        """Partitions with a damaged segment, until this broker has no replica of them."""
        self.failed_reads: dict[Disk, DiskFailed] = {}
        """Devices that have failed a read with an I/O error in this turn. Damaged data is not such an error."""
        self.offline: OrderedDict[tuple[bytes, int], Offline] = OrderedDict()
        """(topic id, number) of replicas assigned to this broker whose files cannot be used, and why. First those that
        others wait for (`put_in_line`). Invariant: none of them is among the partitions, so a request for one is answered
        KAFKA_STORAGE_ERROR."""
        self.waiting_for_room: set[Partition] = set()
        """Followed partitions that are to be durable before their leader is asked for more, and find no room for it."""
        self.full: dict[Partition, int] = {}
        """The leader epoch of the last append to a partition led here that found no room.
        Another member of the ISR must lead them."""
        self.handed_over_ms: dict[Partition, int] = {}
        """When the controller was last asked for another leader, by partition."""
        self.arriving: dict[bytes, dict[int, None]] = {}
        """Numbers of partitions, by topic id, that are assigned to this broker and whose turn has not come yet: they begin
        without records, or begin to be led here. Whoever takes one out has it follow the metadata as that is now."""
        self.arrive: Callable[[bytes | str, int], None] = _nobody_arrives
        """Has one follow the metadata at once, if it is arriving: (topic id or name, number)."""
        self.leaving: dict[str, dict[bytes, dict[int, Partition]]] = {}
        """Partitions of which this broker has no replica any more and whose turn to be removed has not come yet, by name and
        id of their topic and by number: a topic may be deleted, made again and deleted once more meanwhile. Invariant:
        nothing in it is empty."""
        self._written: tuple[Partition, ...] | None = None
        """The partitions whose log was not blank when `_begun` logs had ceased to be; None: they are to be looked for."""
        self._begun = 0
        self._indexes: IndexCache | None = None
        """What the logs of this broker share, and what counts those that have ceased to be blank."""
        self._changed: dict[int, None] = {}
        """Brokers whose registration has changed since the present `look_again` began."""
        self.look_again: Iterator[None] | None = None
        """The look at all partitions that are led here after registrations have changed, while it is under way."""
        self._now_ms = 0
        self.census = Census()
        """How many partitions are here, and how they are."""
        self.traffic = Traffic()
        """What comes into the topics of this broker and leaves them, since the start."""
        self.isr_expands = self.isr_shrinks = self.isr_failures = 0
        """ISR changes that were committed and proposals that were refused, since the start (R497-49)."""

    def __iter__(self) -> Iterator[Partition]:
        for partitions in self.by_id.values():
            yield from partitions.values()

    def written(self) -> tuple[Partition, ...]:
        """The partitions whose log is not blank: the others have nothing on the disk. They are looked for anew only where a
        log has ceased to be blank, or a partition has come or gone with one that was not."""
        begun = self._indexes.begun if self._indexes is not None else 0
        if self._written is None or begun != self._begun:
            self._begun, self._written = begun, tuple(one for one in self if not one.log.blank)
        return self._written

    def log_replaced(self) -> None:
        """Note that a partition has another log than before."""
        self._written = None

    def get(self, topic: bytes | str, number: int) -> Partition | None:
        """A partition by topic id or name; None: this broker does not have it. One that is arriving has arrived then."""
        if self.arriving:
            self.arrive(topic, number)
        return self.here(topic, number)

    def here(self, topic: bytes | str, number: int) -> Partition | None:
        """A partition that has arrived; None: it has not, or this broker does not have it."""
        partitions = self.by_id.get(topic) if isinstance(topic, bytes) else self.by_name.get(topic)
        return partitions.get(number) if partitions is not None else None

    def known(self, topic_id: bytes, number: int) -> bool:
        """Whether a replica of that partition is here, or is offline."""
        partitions = self.by_id.get(topic_id)
        return (partitions is not None and number in partitions) or (topic_id, number) in self.offline

    # ---- metadata

    def may_begin(self, topic_id: bytes, number: int) -> None:
        """Let a replica arrive that was offline as its log could not begin, and can now."""
        if self.offline.get((topic_id, number)) is Offline.FAILED:
            self.offline[topic_id, number] = Offline.AGAIN
            self.arriving.setdefault(topic_id, {})[number] = None

    def assign(self, topic: str, topic_id: bytes, number: int, assignment: Assignment, mono_ms: int) -> None:
        """Take over the committed assignment of a partition with a replica here. If its log cannot be opened, it is
        offline."""
        partition = self.here(topic_id, number)
        if partition is None:
            opened = self.open_log(topic, topic_id, number)
            if opened is None:
                self.offline[topic_id, number] = Offline.FAILED
                self.put_in_line(topic_id, number, assignment.leader, assignment.isr)
                return
            log, settings, high_watermark = opened
            partition = Partition(topic, topic_id, number, log, self.cluster, settings, high_watermark)
            self.by_id.setdefault(topic_id, {})[number] = partition
            self.by_name[topic] = self.by_id[topic_id]
            other = next(iter(self.by_id[topic_id].values()))
            partition.traffic = Traffic(self.traffic) if other is partition else other.traffic
            self._indexes = log.indexes
            if not log.blank:
                self._written = None
            self.opened.append(partition)
            if partition.unreadable:
                self.unreadable[partition] = None
        source, epoch, members = partition.leader, partition.leader_epoch, partition.isr.isr
        part, row = partition.apply(assignment, mono_ms)
        self.census.note(partition)
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

    def leave(self, topic_id: bytes, numbers: Iterable[int] | None = None) -> None:
        """Have partitions of a topic that are here leave, all of it by default (rule 5)."""
        partitions = self.by_id[topic_id]
        going = partitions if numbers is None else {number: partitions.pop(number) for number in numbers}
        topic = next(iter(going.values())).topic
        if numbers is None or not partitions:
            del self.by_id[topic_id]
            if self.by_name.get(topic) is partitions:
                del self.by_name[topic]
        self.leaving.setdefault(topic, {}).setdefault(topic_id, {}).update(going)
        self._written = None

    def left(self, topic: str, number: int) -> Iterator[Partition]:
        """Take out those of a name and number that are leaving, for the caller to remove them."""
        for topic_id, going in list(self.leaving.get(topic, {}).items()):
            if number in going:
                partition = going.pop(number)
                if not going:
                    del self.leaving[topic][topic_id]
                    if not self.leaving[topic]:
                        del self.leaving[topic]
                yield partition

    def next_left(self) -> Partition | None:
        """Take out one that is leaving, for the caller to remove it; None: there are no more."""
        if not self.leaving:
            return None
        # The last: to find the first costs all places that have been left before it.
        topic, ids = self.leaving.popitem()
        topic_id, going = ids.popitem()
        _, partition = going.popitem()
        if going:
            ids[topic_id] = going
        if ids:
            self.leaving[topic] = ids
        return partition

    def still_leaving(self) -> Iterator[Partition]:
        """The partitions that are leaving: no walk over the others comes to them, and their files are there."""
        for ids in self.leaving.values():
            for going in ids.values():
                yield from going.values()

    def remove(self, partition: Partition) -> None:
        """Remove a partition of which this broker has no replica any more; one that was leaving is out of `leaving`."""
        partitions = self.by_id.get(partition.topic_id, {})
        if partitions.get(partition.number) is partition:
            del partitions[partition.number]
            if not partitions:
                del self.by_id[partition.topic_id]
                if self.by_name.get(partition.topic) is partitions:
                    del self.by_name[partition.topic]
        source = partition.leader
        if not partition.log.blank:
            self._written = None
        self.proposals.forget(partition)
        self.unreadable.pop(partition, None)
        self.full.pop(partition, None)
        self.handed_over_ms.pop(partition, None)
        partition.remove()
        self.census.note(partition)
        fetcher = self.fetchers.get(source)
        if fetcher is not None:
            fetcher.leave(partition)
        self._stir(partition)
        self.signals[partition.grown] = self.signals[partition.committed] = None
        self.moved.append((partition, Became.FOLLOWER))

    def note_unreadable(self, partition: Partition) -> None:
        """Note that the log of a partition cannot be read here; the next heartbeat reports it."""
        partition.unreadable = True
        self.unreadable[partition] = None

    def take_offline(self, partition: Partition, why: Offline) -> None:
        """Remove a partition whose files cannot be used any more. Requests that wait for it are answered."""
        topic_id, number = partition.topic_id, partition.number
        self.offline[topic_id, number] = why
        self.put_in_line(topic_id, number, partition.leader, partition.isr.isr)
        self.remove(partition)

    def put_in_line(self, topic_id: bytes, number: int, leader: int, isr: Collection[int]) -> None:
        """Put an offline replica before the others if the controller has to act upon it, else behind them: a heartbeat may
        have no room for all."""
        me = self.cluster.me
        is_waited_for = leader == me or (me in isr and len(isr) > 1)
        self.offline.move_to_end((topic_id, number), last=not is_waited_for)

    def broker_changed(self, broker: int, epoch: int | None, mono_ms: int) -> None:
        """Note that a broker's registration changed. `epoch`: its broker epoch; None: it is fenced or absent, which
        here is the same, since only a broker that is alive may join an ISR or is waited for. Hold-offs that concern it
        end. A proposal that has not left yet is looked at again: fencing writes the ISR first and the broker's end
        after it. So is a follower outside the ISR: its fetches may have come before its registration did. And nobody
        waits any more for one that is fenced."""
        if epoch is None:
            self.cluster.unfenced.pop(broker, None)
        else:
            self.cluster.unfenced[broker] = epoch
        self._changed[broker] = None
        if self.look_again is None:
            self.go_on(mono_ms)

    def go_on(self, mono_ms: int) -> None:
        """Look at the next led partitions on account of brokers whose registration changed. To be called in each turn while
        there is a `look_again`: a broker that leads thousands does not look at all of them in one turn."""
        self._now_ms = mono_ms
        if self.look_again is None:
            self.look_again = self._next_look()
        if self.look_again is not None and next(self.look_again, END) is END:
            self.look_again = self._next_look()

    def _next_look(self) -> Iterator[None] | None:
        changed, self._changed = tuple(self._changed), {}
        return self._look_again(changed) if changed else None

    def _look_again(self, changed: tuple[int, ...]) -> Iterator[None]:
        for partition in self._in_slices():
            if partition is None:
                yield
                continue
            isr = partition.isr
            if not partition.leads or not (partition.incomplete or isr.held_off):
                continue
            outside = [one for one in changed if one in partition.followers and one not in isr.isr]
            for one in changed if isr.held_off else ():
                isr.broker_changed(one)
            if isr.stage is Stage.QUEUED or outside:
                self.decide(partition, self._now_ms)
            fenced = any(one not in self.cluster.unfenced for one in outside)
            if fenced and partition.high_watermark < partition.log.log_end_offset:
                self.advance(partition, self._now_ms)

    def _in_slices(self) -> Iterator[Partition | None]:
        """The partitions, whatever comes or goes meanwhile; None where a turn ends."""
        looked = 0
        for partitions in list(self.by_id.values()):
            for partition in list(partitions.values()):
                looked += 1
                if not looked % SLICE:
                    yield None
                yield partition

    # ---- leader

    def appended(self, partition: Partition, mono_ms: int) -> None:
        """Note that the log of a led partition has grown."""
        self.signals[partition.grown] = None
        for entry in partition.watchers:
            session = entry.stir()
            if session.replica >= 0:
                self.signals[session.key] = None
        self.advance(partition, mono_ms)

    def started(self, partition: Partition) -> None:
        """Note that the log of a led partition begins at a later offset. Followers must learn it at once, and so must
        requests that wait for the last stable offset, which may have moved with it."""
        self.signals[partition.grown] = None
        self.signals[partition.committed] = None
        self._stir(partition)

    def advance(self, partition: Partition, mono_ms: int) -> None:
        """Raise the high watermark if that is allowed."""
        if partition.advance(mono_ms):
            self._advanced(partition)

    def durable(self, partition: Partition, mono_ms: int) -> None:
        """Note that more of the partition's log is durable. If this broker leads it, the high watermark or a producer
        may have waited for that."""
        self.signals[partition.committed] = None
        self.advance(partition, mono_ms)

    def fetched(self, partition: Partition, mono_ms: int) -> None:
        """Note that a follower's fetch has stated its position."""
        self.advance(partition, mono_ms)
        if partition.incomplete:
            self.decide(partition, mono_ms)

    def decide(self, partition: Partition, mono_ms: int) -> None:
        """Decide on the ISR anew. A new proposal leaves in this turn or, if it would leave too few members, after a
        flush. A proposal that is decided again with the same ISR stays as it is: its flush is not begun a second
        time."""
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
        """Let a proposal leave, since the log is durable up to where it ended when the proposal came up. Later records
        count when they are durable too."""
        if partition.isr.stage is Stage.QUEUED:
            self.proposals.queue(partition)
        self.advance(partition, mono_ms)

    def check_lag(self, mono_ms: Callable[[], int]) -> Iterator[None]:
        """Decide on the ISR of every led partition again, because a follower may lag (R497-44): to go on with in each
        turn, to the end, and to begin again half of replica.lag.time.max.ms later. `mono_ms`: the time as it is then."""
        for partition in self._in_slices():
            if partition is None:
                yield
            elif partition.leads and not partition.alone and not partition.at_rest:
                self.decide(partition, mono_ms())
                self.advance(partition, mono_ms())

    def answered(self, moved: list[Moved], mono_ms: int) -> None:
        """Carry out what an AlterIsr answer has done to proposals."""
        for led, row in moved:
            partition = self.here(led.topic_id, led.number)
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
            fetcher = self.fetchers[source] = Fetcher(
                source, self.cluster.me, self.limits, self.cluster.follower_throttle, self.waiting_for_room
            )
        return fetcher

    def made_durable(self, partition: Partition) -> None:
        """Note that a followed partition is durable as far as its leader has to wait for."""
        if partition in self.waiting_for_room:
            self.waiting_for_room.discard(partition)
            fetcher = self.fetchers.get(partition.leader)
            if fetcher is not None:
                fetcher.go_on(partition)

    def replicated(self, outcome: FetchOutcome) -> None:
        """Carry out what follows from a fetch answer that has been appended."""
        for partition in outcome.grown:
            self.signals[partition.grown] = None
        for partition in outcome.advanced:
            self._advanced(partition)
        self.reports.extend(outcome.reports)

    # ---- fetch sessions

    def attach(self, entry: SessionPartition) -> None:
        """Find the partition of an entry. If the session is kept, the entry is marked dirty from now on whenever the
        partition changes."""
        partition = self.get(entry.topic, entry.number)
        if entry.partition is not partition:
            self.detach(entry)
            entry.partition = partition
        if partition is not None and entry.session.id:
            partition.watch(entry)

    def detach(self, entry: SessionPartition) -> None:
        """Undo `attach`: changes of the partition no longer mark the entry."""
        partition, entry.partition, entry.warm = entry.partition, None, None
        if partition is None:
            return
        partition.unwatch(entry)
        follower = partition.followers.get(entry.session.replica)
        if follower is not None:
            follower.attached = False

    def end_sessions(self, ended: Iterable[Session]) -> None:
        """Detach the entries of sessions that are over. A request that still waits in one gets an empty answer."""
        for session in ended:
            session.epoch = FINAL_EPOCH
            for entry in session.entries.values():
                self.detach(entry)
            session.end()

    # ---- inside

    def _advanced(self, partition: Partition) -> None:
        # A follower learns the high watermark with its next answer. A new one alone is no reason to answer a long poll, save
        # where consumers read from followers.
        key = partition.committed
        if key not in self.signals or self.signals[key] is not None:
            self.signals[key] = partition.high_watermark
        for entry in partition.watchers:
            session = entry.stir()
            if session.replica < 0 or self.cluster.rack_aware:
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


def _nobody_arrives(topic: bytes | str, number: int) -> None:
    """Have nothing follow the metadata: no partition of these replicas is ever arriving."""
