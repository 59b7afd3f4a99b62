"""Where a coordinator lives: an internal topic, and a state machine for each of its partitions that this broker leads.

The machine decides; this file alone carries out, the same for every coordinator. A coordinator brings its machine, and
what it does besides in `loaded` and `carry_out`.

1. **Which partitions.** The topic itself says where a name is found; the configuration, only until the topic exists.
2. **Load.** A new leader reads its partition into the machine before it answers (`coordinator_loading.py`).
3. **Write.** What the machine wants remembered is appended to the partition as acks=all, and the machine hears how that
   ended. All that a turn has written to a partition shares batches of at most max.message.bytes, where one write alone does
   not need more; none is cut. What belongs to a producer's transaction is a batch of its own, appended at once: it was
   found to belong to an open transaction just now.
4. **Order.** The log has the writes to a partition in the order in which the machine began them.
5. **Answer when committed.** A request stands under a ticket until the machine has its verdict; with its connection it goes.
6. **Unload.** A partition that is led no more takes its state with it, and what was not appended yet.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from actors.broker.coordinators.coordination import Write, size_of
from actors.broker.replication.partition import Partition
from actors.broker.replication.replicas import Replicas
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.coordinators.coordinator_loading import Loadable, Loadings
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.roles.broker.replication.appends import Appends
from actors.node.runtime.answers import Answer, Done, Parked
from actors.node.runtime.meters import Histogram
from actors.node.runtime.runtime import Runtime
from actors.ports import Now
from actors.wire.errors import ErrorCode
from fastpath.records import batch

NEVER_MS = 1 << 62
TRANSACTIONAL = 0x10
CODES = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""The error that a client of the coordinator gets for an error of the partition's log."""


class Machine(Loadable, Protocol):
    """The state of all partitions that are led here. It sends nothing: `answers` and `writes` gather."""

    answers: list[tuple[int, Any]]
    """The verdicts that are not handed over yet: (ticket, verdict)."""
    writes: list[Write]

    def resized(self, partitions: int | None) -> list[tuple[int, int]]: ...
    def gained(self, partition: int, epoch: int) -> None: ...
    def lost(self, partition: int) -> None: ...
    def appending(self, token: int, offset: int) -> None: ...
    def written(self, token: int, error: ErrorCode, now: Now) -> None: ...


M = TypeVar("M", bound=Machine)


class CoordinatorHost(Generic[M]):
    """One coordinator of this broker."""

    timeout_setting = "offsets.commit.timeout.ms"
    """The setting that says how long a write may take until all replicas have it."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        cache: MetadataCache,
        replicas: Replicas,
        appends: Appends,
        loadings: Loadings,
        topic: str,
        machine: M,
    ) -> None:
        """A coordinator without shards. `topic`: the internal topic that holds its state."""
        self.machine = machine
        self.topic = topic
        self._runtime = runtime
        self._requests = requests
        self._cache = cache
        self._replicas = replicas
        self._appends = appends
        self._loadings = loadings
        self._next_ticket = 0
        self._verdicts: dict[int, Any] = {}
        self._waiting: set[int] = set()
        self._asked: dict[int, set[int]] = {}
        """The tickets of a connection's requests that are not answered yet, by connection, while it is there."""
        self._own: dict[int, Callable[[Any], None]] = {}
        """The function that is told the verdict, by the ticket of a request of this broker itself."""
        self.load_ms = Histogram()
        """How long partitions took to load."""
        self._began_ms: dict[int, int] = {}
        """When the loading of a partition began."""
        self._queued: dict[int, deque[Write]] = {}
        """The writes that are to be appended when the turn ends, by partition, in order."""

    # ---- what one kind of coordinator does besides

    def loaded(self, partition: Partition, epoch: int) -> None:
        """Let a partition serve: all that the log says is in the machine."""
        raise NotImplementedError

    def carry_out(self) -> bool:
        """Do what the machine has decided besides answers and writes. Returns whether there was anything."""
        return False

    # ---- leaderships

    def became_leader(self, topic: str, partition: int, epoch: int) -> None:
        """Begin to coordinate a partition that this broker leads in a new epoch."""
        if topic == self.topic:
            self.count_partitions()
            self._gain(partition, epoch)

    def resigned(self, topic: str, partition: int) -> None:
        """Stop coordinating a partition that this broker leads no more."""
        if topic == self.topic:
            self._lost(partition)

    def count_partitions(self) -> None:
        """Take over the number of partitions from the image, which has moved."""
        image = self._cache.image
        topic = image.topic(self.topic)
        for partition, epoch in self.machine.resized(len(image.topic_partitions(topic)) if topic >= 0 else None):
            self._gain(partition, epoch)
        self.drain()

    def _gain(self, partition: int, epoch: int) -> None:
        self.machine.gained(partition, epoch)
        self._queued.pop(partition, None)
        found = self._replicas.get(self.topic, partition)
        if found is not None:
            self._began_ms[partition] = self._runtime.now.mono_ms
            self._loadings.begin(self.machine, found, self._loaded, self._lost)

    def _lost(self, partition: int) -> None:
        """Drop a partition: another broker coordinates what is in it, or none does."""
        self.machine.lost(partition)
        self._began_ms.pop(partition, None)
        self._queued.pop(partition, None)
        self.drain()

    def _loaded(self, partition: Partition, epoch: int) -> None:
        began_ms = self._began_ms.pop(partition.number, None)
        if began_ms is not None:
            self.load_ms.add(self._runtime.now.mono_ms - began_ms)
        self.loaded(partition, epoch)
        self.drain()

    # ---- requests

    def ask(self, connection: int, begin: Callable[[int], None], reply: Callable[[Any], Any]) -> Answer:
        """Hand a request to the machine under a fresh ticket. The answer comes now, or with its verdict, if the
        connection still is there then."""
        self._next_ticket += 1
        ticket = self._next_ticket
        self._waiting.add(ticket)
        if connection not in self._asked:
            self._asked[connection] = set()
            self._requests.when_closed(connection, self.topic, lambda: self._hung_up(connection))
        self._asked[connection].add(ticket)
        begin(ticket)
        self.drain()
        return self._answer(connection, ticket, reply)

    def tell(self, begin: Callable[[int], None], then: Callable[[Any], None]) -> None:
        """Hand a request of this broker itself to the machine; `then` is told its verdict, now or in a later turn."""
        self._next_ticket += 1
        self._own[self._next_ticket] = then
        begin(self._next_ticket)
        self.drain()

    def commit(self, start: Callable[[Callable[[ErrorCode], None]], None], reply: Callable[[ErrorCode], Any]) -> Answer:
        """Start a write, and answer when it is committed."""
        box: list[ErrorCode] = []
        self._next_ticket += 1
        key = (self.topic, "write", self._next_ticket)

        def then(error: ErrorCode) -> None:
            box.append(error)
            self._runtime.waiting.signal(key)

        start(then)
        self.drain()

        return self._written(key, box, reply, False)

    def _written(
        self, key: tuple[str, str, int], box: list[ErrorCode], reply: Callable[[ErrorCode], Any], expired: bool
    ) -> Answer:
        if box:
            return Done(reply(box[0]))
        return Parked([key], NEVER_MS, partial(self._written, key, box, reply))

    def _hung_up(self, connection: int) -> None:
        for ticket in sorted(self._asked.pop(connection, ())):
            self._waiting.discard(ticket)
            self._verdicts.pop(ticket, None)
            self._runtime.waiting.signal((self.topic, ticket))

    def _answer(self, connection: int, ticket: int, reply: Callable[[Any], Any], expired: bool = False) -> Answer:
        verdict = self._verdicts.pop(ticket, None)
        if verdict is None:
            again = partial(self._answer, connection, ticket, reply)
            return Parked([(self.topic, ticket)], NEVER_MS, again)
        self._waiting.discard(ticket)
        self._asked[connection].discard(ticket)
        return Done(reply(verdict))

    # ---- what the machine has decided

    def drain(self) -> None:
        """Carry out what the machine has decided; writes without a producer wait until the turn ends."""
        machine = self.machine
        while machine.writes or machine.answers or self.carry_out():
            answers, machine.answers = machine.answers, []
            for ticket, verdict in answers:
                if (then := self._own.pop(ticket, None)) is not None:
                    then(verdict)
                elif ticket in self._waiting:
                    self._verdicts[ticket] = verdict
                    self._runtime.waiting.signal((self.topic, ticket))
            writes, machine.writes = machine.writes, []
            for write in writes:
                self._queued.setdefault(write.partition, deque()).append(write)
            for partition in dict.fromkeys(write.partition for write in writes if write.producer is not None):
                self._append(partition)

    @property
    def gathers(self) -> bool:
        """Whether something is to be appended."""
        return bool(self._queued)

    def append(self) -> None:
        """Append what has gathered. It may lead to more, which is appended next time."""
        if self._queued:
            for partition in list(self._queued):
                self._append(partition)

    def _append(self, number: int) -> None:
        """Append what has gathered for one partition, in as few batches as may be."""
        partition = self._replicas.get(self.topic, number)
        bytes_max = partition.log.settings.max_message_bytes if partition is not None else 0
        queued = self._queued.pop(number)
        while queued:
            shared = [queued.popleft()]
            size = batch.HEADER_SIZE + _size(shared[0])
            while queued and shared[0].producer is None and queued[0].producer is None:
                size += _size(queued[0])
                if size > bytes_max:
                    break
                shared.append(queued.popleft())
            self._append_batch(shared)

    def _append_batch(self, writes: list[Write]) -> None:
        """Append one batch with the records of several writes."""
        wall_ms, producer = self._runtime.now.wall_ms, writes[0].producer
        if producer is None:
            builder = batch.Builder(timestamp_ms=wall_ms)
        else:
            builder = batch.Builder(
                attributes=TRANSACTIONAL, producer_id=producer[0], producer_epoch=producer[1], timestamp_ms=wall_ms
            )
        partition = self._replicas.get(self.topic, writes[0].partition)
        for write in writes:
            if partition is not None:
                self.machine.appending(write.token, partition.log.log_end_offset)
            for key, value in write.records:
                builder.append(key, value)

        def then(error: ErrorCode) -> None:
            for write in writes:
                self.machine.written(write.token, CODES.get(error, error), self._runtime.now)
            self.drain()

        self._appends.append_internal(self.topic, writes[0].partition, builder.build(), then, self.timeout_setting)


def _size(write: Write) -> int:
    return sum(map(size_of, write.records))
