"""What every coordinator has: partitions of an internal topic that this broker leads, and writes to them on their way.

The rules of groups are in `groups/`, those of transactions in `transactions/`. This file alone decides, for all of them:

1. A name has its partition as in Apache Kafka: by Java's hash of it, modulo the number of partitions.
2. A partition is loaded from its log after leadership is gained, in slices. Until then the answer is
   COORDINATOR_LOAD_IN_PROGRESS.
3. After leadership is lost nothing of the partition is kept, and each write on its way ends with NOT_COORDINATOR.
4. A write ends once: whoever began it is told of one verdict.

`writes` is taken by the caller, who reports the end of each with `written`. Writes to a partition stand in its log in the
order in which they were begun.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from actors.broker.coordinators.java_hash import java_hash
from actors.ports import Now
from actors.wire.errors import ErrorCode, WireError

Record = tuple[bytes, bytes | None]
"""A record to write: key and value; None removes the key."""
RECORD_BYTES = 24
"""The most bytes that a record takes in a batch besides key and value."""
Then = Callable[[ErrorCode, Now], None]
"""A function that is told how a write has ended: NONE once it is committed."""


class Write(NamedTuple):
    """Records to be written to one partition. Its end is reported with `written(token, error, now)`."""

    token: int
    partition: int
    records: Sequence[Record]
    producer: tuple[int, int] | None = None
    """The id and the epoch of the producer to whose transaction the records belong, if they belong to one."""


class LedShard(Protocol):
    """One partition that this broker leads, in one leader epoch."""

    partition: int
    epoch: int
    loaded: bool


S = TypeVar("S", bound=LedShard)


class _Pending(NamedTuple):
    """A write that has not ended. `about`: what it changes, by name."""

    shard: LedShard
    about: str
    then: Then


class Coordination(Generic[S]):
    """All partitions of one coordinator. `S`: what it keeps of one partition."""

    def __init__(self, partitions: int, shard: Callable[[int, int], S]) -> None:
        """A coordination of no partition yet. `partitions`: how many the topic will have; see `resized`. `shard`: makes
        a new shard, by partition and epoch."""
        self.partitions = partitions
        """The number of partitions of the topic, which decides where each name is."""
        self.shards: dict[int, S] = {}
        self.writes: list[Write] = []
        self._configured = partitions
        self._shard = shard
        self._pending: dict[int, _Pending] = {}
        self._under_way: dict[tuple[int, str], int] = {}
        """The number of writes under way about a name, by (partition, name). Invariant: no value is 0."""
        self._next_token = 0

    # ---- which partition

    def partition_of(self, name: str) -> int:
        """The partition in which a name is found."""
        return partition_of(name, self.partitions)

    def shard_of(self, name: str) -> S | ErrorCode:
        """The loaded shard of a name, or the error if there is none."""
        shard = self.shards.get(self.partition_of(name))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def loading(self) -> bool:
        """Whether some shard cannot answer yet."""
        return any(not shard.loaded for shard in self.shards.values())

    def resized(self, partitions: int | None) -> list[tuple[int, int]]:
        """Take over how many partitions the topic has. None: it does not exist, and the settings say how many it will
        have. If that changes, names are in other partitions: the partitions led here are lost and must be gained again.
        Returns (partition, epoch) of each."""
        partitions = self._configured if partitions is None else partitions
        if partitions == self.partitions:
            return []
        led = [(shard.partition, shard.epoch) for shard in self.shards.values()]
        for partition, _ in led:
            self.lost(partition)
        self.partitions = partitions
        return led

    # ---- leadership and loading

    def gained(self, partition: int, epoch: int) -> None:
        """Begin a shard of a partition that this broker leads now. Its log must be loaded."""
        self.lost(partition)
        self.shards[partition] = self._shard(partition, epoch)

    def lost(self, partition: int) -> None:
        """Drop the shard of a partition that this broker leads no longer."""
        shard = self.shards.pop(partition, None)
        if shard is None:
            return
        self._unload(shard)
        for token, pending in sorted(self._pending.items()):
            if pending.shard is shard:
                del self._pending[token]
                self._ended(pending)
                pending.then(ErrorCode.NOT_COORDINATOR, Now(0, 0))

    def shard_loading(self, partition: int, epoch: int) -> S | None:
        """The shard into which a log is being read; None once the leadership of that epoch is over, or all was read."""
        shard = self.shards.get(partition)
        return None if shard is None or shard.epoch != epoch or shard.loaded else shard

    def load(
        self, partition: int, epoch: int, records: Iterable[tuple[bytes | None, bytes | None]], producer_id: int = -1
    ) -> list[str]:
        """Replay a slice of the partition's log, oldest first. Ignored if leadership changed meanwhile. `producer_id`:
        whose transaction the records belong to; -1: they belong to none.

        Returns a sentence about each damaged key, which is passed over, and about each value that cannot be read."""
        shard = self.shard_loading(partition, epoch)
        strange: list[str] = []
        if shard is None:
            return strange
        for key, value in records:
            try:
                line = self._read(key, value)
            except WireError as error:
                strange.append(str(error))
                continue
            if key is not None and line is not None:
                why = self._take(shard, key, line, producer_id)
                if why:
                    strange.append(why)
        return strange

    def load_end(self, partition: int, epoch: int, producer_id: int, commit: bool) -> None:
        """Replay a marker. It means nothing in a topic to which no transaction writes."""

    def _serve(self, partition: int, epoch: int) -> S | None:
        """Let a shard serve, since the whole log has been replayed. Returns it; None: leadership changed meanwhile."""
        shard = self.shard_loading(partition, epoch)
        if shard is not None:
            shard.loaded = True
        return shard

    @abstractmethod
    def _read(self, key: bytes | None, value: bytes | None) -> Any | None:
        """The content of a record; None: it is of another kind. Raises WireError if the key is damaged."""

    @abstractmethod
    def _take(self, shard: S, key: bytes, line: Any, producer_id: int) -> str:
        """Take in a record. Returns a sentence about what cannot be read of it, or ""."""

    def _unload(self, shard: S) -> None:
        """Answer every request that waits in a shard that is gone. Its writes end afterwards."""

    def loading_from(self, partition: int, epoch: int, offset: int) -> None:
        """Note that what is loaded next stands at this offset of the log, or behind it."""

    # ---- writes

    def appending(self, token: int, offset: int) -> None:
        """Note that the records of a write will stand in the log at this offset or behind it, if they are appended at
        all."""

    def written(self, token: int, error: ErrorCode, now: Now) -> None:
        """Note that a write is committed, or failed."""
        pending = self._pending.pop(token, None)
        if pending is not None:
            self._ended(pending)
            pending.then(error, now)

    def _ended(self, pending: _Pending) -> None:
        key = pending.shard.partition, pending.about
        left = self._under_way[key] - 1
        if left:
            self._under_way[key] = left
        else:
            del self._under_way[key]

    def _write(
        self, shard: S, about: str, records: Sequence[Record], then: Then, producer: tuple[int, int] | None = None
    ) -> int:
        """Begin a write. Returns its token."""
        self._next_token += 1
        self._pending[self._next_token] = _Pending(shard, about, then)
        self._under_way[shard.partition, about] = self._under_way.get((shard.partition, about), 0) + 1
        self.writes.append(Write(self._next_token, shard.partition, records, producer))
        return self._next_token

    def is_written(self, shard: S, about: str) -> bool:
        """Whether something of that name is being written."""
        return (shard.partition, about) in self._under_way


def partition_of(name: str, partitions: int) -> int:
    """The partition of a name, as in Apache Kafka: the absolute value of Java's string hash, 0 for the hash that has
    none, modulo the number of partitions."""
    value = java_hash(name)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


def size_of(record: Record) -> int:
    """How many bytes a record takes in a batch, at most."""
    key, value = record
    return RECORD_BYTES + len(key) + (0 if value is None else len(value))
