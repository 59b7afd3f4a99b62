"""Where a coordinator lives: an internal topic, and a state machine for each of its partitions that this broker leads.

The machine decides; this file alone carries out, the same for every coordinator:

1. **Load.** A new leader reads its partition into the machine before it answers (`coordinator_loading.py`).
2. **Write.** What the machine wants remembered is appended to the partition as acks=all, and the machine hears how that
   ended.
3. **Answer when committed.** A request stands under a ticket until the machine has its verdict; with its connection it goes.
4. **Unload.** A partition that is led no more takes its state with it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actors.broker.partition import Partition
from actors.broker.replicas import Replicas
from actors.node.net.request_channel import RequestChannel
from actors.node.roles.broker.appends import Appends
from actors.node.roles.broker.coordinator_loading import Loadable, Loading
from actors.node.runtime.answers import Answer, Done, Parked
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
"""What an error of the partition's log is to whoever asked the coordinator."""


class Write(Protocol):
    """Records that a machine wants in its partition."""

    @property
    def partition(self) -> int: ...
    @property
    def token(self) -> int: ...
    @property
    def records(self) -> Sequence[tuple[bytes, bytes | None]]: ...
    @property
    def producer(self) -> tuple[int, int] | None:
        """Producer id and epoch of the transaction that they belong to, if they belong to one."""
        ...


class Machine(Loadable, Protocol):
    """The state of all partitions that are led here. It sends nothing: `answers` and `writes` gather."""

    answers: list[tuple[int, Any]]
    """(ticket, verdict)."""
    writes: Any
    """List of Write."""

    def gained(self, partition: int, epoch: int) -> None: ...
    def lost(self, partition: int) -> None: ...
    def written(self, token: int, error: ErrorCode, now: Now) -> None: ...


class Coordinated(Protocol):
    """What one kind of coordinator does besides."""

    def loaded(self, partition: Partition, epoch: int) -> None:
        """All that the log says is in the machine."""
        ...

    def unloaded(self, number: int) -> None: ...
    def committed(self, number: int, size: int) -> None:
        """So many bytes of a partition are committed; told before the machine is."""
        ...

    def pending(self) -> bool:
        """Whether the machine has decided something of which only this coordinator knows."""
        ...

    def carry_out(self) -> None: ...


class CoordinatorHost:
    """One coordinator of this broker."""

    def __init__(
        self,
        runtime: Runtime,
        requests: RequestChannel,
        replicas: Replicas,
        appends: Appends,
        topic: str,
        machine: Machine,
        coordinated: Coordinated,
    ) -> None:
        """`topic`: the internal topic that holds its state."""
        self._runtime = runtime
        self._requests = requests
        self._replicas = replicas
        self._appends = appends
        self.topic = topic
        self._machine = machine
        self._coordinated = coordinated
        self._next_ticket = 0
        self._verdicts: dict[int, Any] = {}
        self._waiting: set[int] = set()
        self._asked: dict[int, set[int]] = {}
        """Connection -> tickets of its requests that are not answered yet, while it is there."""

    # ---- leaderships

    def gain(self, partition: int, epoch: int) -> None:
        """This broker leads a partition in a new epoch."""
        self._machine.gained(partition, epoch)
        self._coordinated.unloaded(partition)
        found = self._replicas.get(self.topic, partition)
        if found is not None:
            Loading(self._runtime, self._replicas, self._machine, found, self._loaded, self.lost).go_on(0)

    def lost(self, partition: int) -> None:
        """Another broker coordinates what is in that partition, or none does."""
        self._machine.lost(partition)
        self._coordinated.unloaded(partition)
        self.drain()

    def _loaded(self, partition: Partition, epoch: int) -> None:
        self._coordinated.loaded(partition, epoch)
        self.drain()

    # ---- requests

    def ask(self, connection: int, begin: Callable[[int], None], reply: Callable[[Any], Any]) -> Answer:
        """Hand a request to the machine under a fresh ticket; answer now, or when its verdict comes, if the connection
        still is there then."""
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

    def commit(self, start: Callable[[Callable[[ErrorCode], None]], None], reply: Callable[[ErrorCode], Any]) -> Answer:
        """Start a write; answer when it is committed."""
        box: list[ErrorCode] = []
        self._next_ticket += 1
        key = (self.topic, "write", self._next_ticket)

        def then(error: ErrorCode) -> None:
            box.append(error)
            self._runtime.waiting.signal(key)

        start(then)
        self.drain()

        def again(expired: bool) -> Answer:
            if box:
                return Done(reply(box[0]))
            return Parked([key], NEVER_MS, again)

        return again(False)

    def _hung_up(self, connection: int) -> None:
        for ticket in sorted(self._asked.pop(connection, ())):
            self._waiting.discard(ticket)
            self._verdicts.pop(ticket, None)
            self._runtime.waiting.signal((self.topic, ticket))

    def _answer(self, connection: int, ticket: int, reply: Callable[[Any], Any]) -> Answer:
        def again(expired: bool) -> Answer:
            verdict = self._verdicts.pop(ticket, None)
            if verdict is None:
                return Parked([(self.topic, ticket)], NEVER_MS, again)
            self._waiting.discard(ticket)
            self._asked[connection].discard(ticket)
            return Done(reply(verdict))

        return again(False)

    # ---- what the machine has decided

    def drain(self) -> None:
        """Carry it out."""
        machine = self._machine
        while machine.writes or machine.answers or self._coordinated.pending():
            answers, machine.answers = machine.answers, []
            for ticket, verdict in answers:
                if ticket in self._waiting:
                    self._verdicts[ticket] = verdict
                    self._runtime.waiting.signal((self.topic, ticket))
            writes, machine.writes = machine.writes, []
            for write in writes:
                self._append(write)
            self._coordinated.carry_out()

    def _append(self, write: Write) -> None:
        wall_ms = self._runtime.now.wall_ms
        if write.producer is None:
            builder = batch.Builder(timestamp_ms=wall_ms)
        else:
            id, epoch = write.producer
            builder = batch.Builder(
                attributes=TRANSACTIONAL, producer_id=id, producer_epoch=epoch, timestamp_ms=wall_ms
            )
        for key, value in write.records:
            builder.append(key, value)
        data = builder.build()

        def then(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._coordinated.committed(write.partition, size)
            self._machine.written(write.token, CODES.get(error, error), self._runtime.now)
            self.drain()

        size = len(data)
        self._appends.append_internal(self.topic, write.partition, data, then)
