"""Markers of ended transactions on their way to the leaders of their partitions (WriteTxnMarkers, KIP-98).

What an end is, and when it is complete, the coordinator decides (`broker/transactions/`). This file alone decides which
broker is asked, and what an answer means. Rules:

1. One request at a time to a broker, with `PARTITIONS_A_REQUEST` partitions at most; what comes up meanwhile follows.
   This broker asks itself in the same way, without a connection.
2. A partition that is gone needs no marker. One without a known leader, one whose leader has moved, and one whose leader
   cannot write now are tried again: soon, and then twice as late each time, up to `RETRY_MS_MAX`, until a marker is written.
   `PARTS_A_TURN` of them are looked at in a turn, and of those of a new end too.
3. TRANSACTION_COORDINATOR_FENCED says that another coordinator has taken over: this one sends no more markers of that end.
   INVALID_PRODUCER_EPOCH says that a later epoch of the producer has written there, or has got its marker. That comes only
   after the end of this transaction, so the partition needs no marker; it is told to the log.
4. An end that is this coordinator's no more is dropped where it is met.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from actors.broker.transactions.coordinator import Coordinator, Ending
from actors.broker.transactions.state import TopicPartition
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Lane
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_MS, RETRY_MS_MAX = 20, 500
PARTS_A_TURN = 2000
TIMEOUT_MS = 30_000
PARTITIONS_A_REQUEST = 1000
VERSION = 2
VERSIONS = range(1, VERSION + 1)
WRITTEN = frozenset((ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))


class _Sending:
    """One ended transaction whose markers are being sent. `left`: partitions that have no marker yet."""

    __slots__ = ("ending", "given_up", "left")

    def __init__(self, ending: Ending) -> None:
        self.ending = ending
        self.left: set[TopicPartition] = set(ending.transaction.partitions)
        self.given_up = False


_Part = tuple[_Sending, TopicPartition]


class TransactionMarkers:
    """The markers of one broker's coordinator."""

    def __init__(
        self,
        runtime: Runtime,
        channels: Channels,
        cache: MetadataCache,
        machine: Coordinator,
        drain: Callable[[], None],
    ) -> None:
        """Markers of a broker that has sent none. `drain`: carry out what the machine has decided."""
        self._runtime = runtime
        self._channels = channels
        self._cache = cache
        self._machine = machine
        self._drain = drain
        self._listener = runtime.config.inter_broker_listener
        self._queues: dict[int, deque[_Part]] = {}
        """The parts that a broker is to be asked for next, by broker. Invariant: no queue is empty."""
        self._asked: set[int] = set()
        """Brokers with a request under way."""
        self._again: list[_Part] = []
        """The parts that are tried again; a timer runs while there is one."""
        self._due: deque[_Part] = deque()
        """The parts that are tried now, a slice a turn."""
        self._retry_ms = RETRY_MS

    def begin(self, ending: Ending) -> None:
        """Begin to write a marker to each partition of a prepared end."""
        sending = _Sending(ending)
        parts = [(sending, one) for one in sorted(sending.left)]
        self._place(parts[:PARTS_A_TURN])
        self._try(parts[PARTS_A_TURN:])
        self._look(sending)

    def send(self) -> None:
        """Ask the brokers that are not being asked."""
        for broker in [one for one in self._queues if one not in self._asked]:
            self._ask(broker)

    # ---- inside

    def _place(self, parts: Iterable[_Part]) -> None:
        image = self._cache.image
        for part in parts:
            sending, (topic, number) = part
            if self._dropped(sending):
                continue
            row = image.topic(topic)
            place = image.partition(row, number) if row >= 0 else -1
            if place < 0:
                sending.left.discard(part[1])
                continue
            leader = image.leader(place)
            if leader < 0 or self._cache.endpoint(leader, self._listener) is None:
                self._retry(part)
            else:
                self._queues.setdefault(leader, deque()).append(part)

    def _ask(self, broker: int) -> None:
        queue = self._queues[broker]
        taken = [queue.popleft() for _ in range(min(PARTITIONS_A_REQUEST, len(queue)))]
        if not queue:
            del self._queues[broker]
        asked: dict[int, tuple[_Sending, set[TopicPartition]]] = {}
        for sending, one in taken:
            if not self._dropped(sending):
                asked.setdefault(sending.ending.transaction.producer_id, (sending, set()))[1].add(one)
        if not asked:
            if queue:
                self._ask(broker)
            return
        endpoint = self._cache.endpoint(broker, self._listener)
        if endpoint is None:
            self._lost(asked)
            return

        def answered(reply: "WriteTxnMarkersResponse | ChannelError") -> None:
            self._asked.discard(broker)
            if isinstance(reply, ChannelError):
                self._lost(asked)
            else:
                self._answered(asked, reply)
            self.send()
            self._drain()

        self._asked.add(broker)
        if broker == self._runtime.config.broker_id:
            self._channels.itself("WriteTxnMarkers", _request(asked), answered, TIMEOUT_MS)
            return
        self._channels.peer(
            ("markers", broker),
            (endpoint.host, endpoint.port),
            "WriteTxnMarkers",
            _request(asked),
            answered,
            TIMEOUT_MS,
            VERSION,
            lane=Lane.DATA,
            versions=self._cache.spoken(broker, VERSIONS),
        )

    def _answered(
        self, asked: dict[int, tuple[_Sending, set[TopicPartition]]], reply: "WriteTxnMarkersResponse"
    ) -> None:
        for marker in reply.markers:
            found = asked.get(marker.producer_id)
            if found is None:
                continue
            sending, parts = found
            for topic in marker.topics:
                for one in topic.partitions:
                    part = topic.name, one.partition_index
                    if part in parts:
                        parts.discard(part)
                        self._settle(sending, part, one.error_code)
        self._lost(asked)  # what the answer leaves out
        for sending, _ in asked.values():
            self._look(sending)

    def _settle(self, sending: _Sending, part: TopicPartition, code: int) -> None:
        if code in WRITTEN:
            self._retry_ms = RETRY_MS
            sending.left.discard(part)
        elif code == ErrorCode.INVALID_PRODUCER_EPOCH:
            self._report(sending, part, "knows a later epoch of the producer, so it needs no marker")
            sending.left.discard(part)
        elif code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            if not sending.given_up:
                self._report(sending, part, "knows a later coordinator, so this one sends no more markers of that end")
            sending.given_up = True
        else:
            self._retry((sending, part))

    def _report(self, sending: _Sending, part: TopicPartition, what: str) -> None:
        ending = sending.ending
        transaction = ending.transaction
        self._runtime.log.warning(
            f"{part[0]}-{part[1]} refuses the marker of transactional id {ending.entry.id!r} (producer "
            f"{transaction.producer_id}, epoch {transaction.producer_epoch}, coordinator epoch {ending.shard.epoch}): it "
            f"{what}"
        )

    def _lost(self, asked: dict[int, tuple[_Sending, set[TopicPartition]]]) -> None:
        for sending, parts in asked.values():
            for part in sorted(parts):
                self._retry((sending, part))

    def _look(self, sending: _Sending) -> None:
        if not sending.left and not sending.given_up:
            sending.given_up = True  # told once
            self._machine.marked(sending.ending, self._runtime.now)

    def _dropped(self, sending: _Sending) -> bool:
        return sending.given_up or not self._machine.stands(sending.ending)

    def _retry(self, part: _Part) -> None:
        if not self._again:
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + self._retry_ms, self._retry_now)
            self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)
        self._again.append(part)

    def _retry_now(self) -> None:
        parts, self._again = self._again, []
        self._try(parts)

    def _try(self, parts: Sequence[_Part]) -> None:
        begun = bool(self._due)
        self._due.extend(parts)
        if self._due and not begun:
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms, self._try_due)

    def _try_due(self) -> None:
        again = [self._due.popleft() for _ in range(min(PARTS_A_TURN, len(self._due)))]
        if self._due:
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms, self._try_due)
        self._place(again)
        for sending in dict.fromkeys(sending for sending, _ in again):
            self._look(sending)
        self.send()
        self._drain()


def _request(asked: dict[int, tuple[_Sending, set[TopicPartition]]]) -> "WriteTxnMarkersRequest":
    kind = message("WriteTxnMarkersRequest")
    markers = []
    for producer_id, (sending, parts) in asked.items():
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(parts):
            topics.setdefault(topic, []).append(number)
        ending = sending.ending
        markers.append(
            kind.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=ending.transaction.producer_epoch,
                transaction_result=ending.commit,
                topics=[
                    kind.WritableTxnMarkerTopic(name=topic, partition_indexes=numbers)
                    for topic, numbers in topics.items()
                ],
                coordinator_epoch=ending.shard.epoch,
                transaction_version=ending.transaction.client_version,
            )
        )
    return kind(markers=markers)
