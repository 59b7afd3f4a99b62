"""AlterIsr: from proposals to one request in flight, and from its answer back to the proposals (KIP-497).

This file alone decides what a request holds, when the next one leaves, and what an error means for a proposal. Rules:

1. A broker has one request in flight (R497-46). Proposals that come up meanwhile leave together with the next one, as
   far as it has room.
2. A resend repeats the partition entry. Only broker epochs are read anew when a request is built (R497-36, section
   2.5).
3. A proposal is never given up because of time. It is sent again 50 ms after an error, and after 100 ms while no
   controller is known (R497-47).
4. Entries are sorted by topic and partition, with one entry for each topic. The tags TopicId and IsrBrokerEpochs are
   always sent (G-06).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.broker.replication.isr_transitions import Effect, Event, Isr, IsrTransition, Proposal, Stage
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631 import AlterIsrRequest, AlterIsrResponse

ENTRIES_MAX = 20_000
"""The bound on array elements and tagged fields of a request, which is made and decoded in one go, and far below what a
controller takes (`wire/limits.py`). A thousand partitions and more fit. The other proposals leave with the next request."""
BACKOFF_MS = 50
BACKOFF_UNKNOWN_MS = 100

MEANING: dict[int, Event] = {
    ErrorCode.NONE: Event.APPLIED,
    ErrorCode.FENCED_LEADER_EPOCH: Event.STALE,
    ErrorCode.INVALID_UPDATE_VERSION: Event.STALE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Event.STALE,
    ErrorCode.UNKNOWN_TOPIC_ID: Event.STALE,
    ErrorCode.INVALID_REQUEST: Event.FINAL,
}
"""What the error of one partition means in KIP-497's layout (section 2.3). Any other error says nothing about the
proposal."""


class LedPartition(Protocol):
    """A partition that this broker leads, as far as proposals need it."""

    topic: str
    topic_id: bytes
    number: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: Isr


class AlterIsrEntry(NamedTuple):
    """One proposal in a request."""

    partition: LedPartition
    proposal: Proposal
    leader_epoch: int
    """The leader epoch when the proposal was handed over. The partition epoch that it rests on is the proposal's
    own."""


class Moved(NamedTuple):
    """A partition whose proposal an answer has moved, and the row of the table that was applied."""

    partition: LedPartition
    row: IsrTransition


class IsrProposals:
    """All proposals of this broker that wait or are in flight."""

    def __init__(self, me: int, hold_off_ms: int) -> None:
        self.me = me
        self.hold_off_ms = hold_off_ms
        self.not_before_ms = 0
        self._queued: dict[LedPartition, None] = {}
        """Partitions whose proposal is in stage Q, in the order in which they were queued."""
        self._again: list[AlterIsrEntry] = []
        """Proposals that were sent and whose outcome is unknown: they go unchanged into the next request (T7)."""
        self._in_flight: list[AlterIsrEntry] | None = None

    def queue(self, partition: LedPartition) -> None:
        """Queue a partition that has a new proposal (T1, T2)."""
        self._queued[partition] = None

    def forget(self, partition: LedPartition) -> None:
        """Forget a partition that this broker leads no longer, or that is gone. An entry in flight stays: T20 handles
        its answer."""
        self._queued.pop(partition, None)

    def counts(self) -> list[tuple[str, int]]:
        """How many proposals wait to be sent, are sent, and are to be sent again as their outcome is unknown."""
        return [("queued", len(self._queued)), ("sent", len(self._in_flight or ())), ("again", len(self._again))]

    @property
    def idle(self) -> bool:
        """Whether nothing is to be sent and nothing is in flight."""
        return not self._queued and not self._again and self._in_flight is None

    def deadline_ms(self) -> int:
        """When a request may leave that cannot leave now."""
        return self.not_before_ms if (self._queued or self._again) and self._in_flight is None else 1 << 62

    def flush(self, broker_epoch: int, mono_ms: int) -> Any | None:
        """The request to send now; None: there is nothing to send (T5). Call it only while this broker's lease is live
        (T21)."""
        if self._in_flight is not None or mono_ms < self.not_before_ms:
            return None
        entries = [entry for entry in self._again if entry.partition.isr.proposal is entry.proposal]
        held = {entry.partition for entry in entries}
        room = ENTRIES_MAX - sum(_size(entry.partition) for entry in entries)
        self._again, looked = [], []
        for partition in self._queued:
            # From the front, so that a request costs by what it has and not by all that wait.
            if partition.isr.stage is Stage.QUEUED and partition not in held:
                room -= _size(partition)
                if room < 0:
                    break
                entries.append(AlterIsrEntry(partition, partition.isr.flushed(), partition.leader_epoch))
            looked.append(partition)
        for partition in looked:
            del self._queued[partition]
        if not entries:
            return None
        entries.sort(key=lambda entry: (entry.partition.topic, entry.partition.topic_id, entry.partition.number))
        self._in_flight = entries
        return self._request(entries, broker_epoch)

    def answered(self, reply: "AlterIsrResponse", mono_ms: int) -> list[Moved]:
        """Take the answer to the request in flight. Returns the partitions whose proposals it has moved."""
        entries, self._in_flight = self._in_flight or [], None
        if reply.error_code != ErrorCode.NONE:
            self.not_before_ms = mono_ms + BACKOFF_MS
            return self._all(entries, lambda entry: Event.TRANSIENT, mono_ms)
        errors = {
            (topic.topic, partition.partition_id): partition.error_code
            for topic in reply.topics
            for partition in topic.partitions
        }
        moved = self._all(
            entries,
            lambda entry: MEANING.get(errors.get((entry.partition.topic, entry.partition.number), -1), Event.TRANSIENT),
            mono_ms,
        )
        if self._again:
            self.not_before_ms = mono_ms + BACKOFF_MS
        return moved

    def lost(self, known: bool, mono_ms: int) -> list[Moved]:
        """Note that no answer to the request in flight will come (T7). `known`: whether an active controller was
        known."""
        entries, self._in_flight = self._in_flight or [], None
        self.not_before_ms = mono_ms + (BACKOFF_MS if known else BACKOFF_UNKNOWN_MS)
        return self._all(entries, lambda entry: Event.TRANSIENT, mono_ms)

    def _all(self, entries: list[AlterIsrEntry], event: Callable[[AlterIsrEntry], Event], mono_ms: int) -> list[Moved]:
        moved = []
        for entry in entries:
            isr = entry.partition.isr
            row = isr.answered(entry.proposal, event(entry), until_ms=mono_ms + self.hold_off_ms)
            if Effect.RESEND in row.effects:
                self._again.append(entry)
            moved.append(Moved(entry.partition, row))
        return moved

    def _request(self, entries: list[AlterIsrEntry], broker_epoch: int) -> "AlterIsrRequest":
        kind = message("AlterIsrRequest")
        topics: dict[tuple[str, bytes], Any] = {}
        for partition, proposal, leader_epoch in entries:
            topic = topics.get((partition.topic, partition.topic_id))
            if topic is None:
                topic = kind.TopicData(topic=partition.topic, topic_id=partition.topic_id, partitions=[])
                topics[partition.topic, partition.topic_id] = topic
            members = [replica for replica in partition.replicas if replica in proposal.want]
            epochs = [broker_epoch if replica == self.me else proposal.epochs.get(replica, -1) for replica in members]
            topic.partitions.append(
                kind.PartitionData(
                    partition_id=partition.number,
                    leader=self.me,
                    leader_epoch=leader_epoch,
                    isr=members,
                    current_zk_version=proposal.base,
                    isr_broker_epochs=epochs,
                )
            )
        return kind(broker_id=self.me, broker_epoch=broker_epoch, topics=list(topics.values()))


def _size(partition: LedPartition) -> int:
    """The array elements and tagged fields of a partition in a request, at most: its topic and itself with a tag each, each
    replica and each replica's epoch."""
    return 4 + 2 * len(partition.replicas)
