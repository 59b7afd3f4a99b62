"""Loading partitions of internal topics into their coordinators, after this broker has become their leader.

What this file alone decides: what is loaded when, which failure ends a loading, and which is tried again. Rules:

1. All loadings of a broker stand in one line, whichever coordinators they are for, and share `COST_A_TURN` in a turn. So a
   turn is as long for a thousand partitions as for one, and for one batch of a megabyte as for many small ones.
2. A loading has its turn for one slice of its log, `SLICE_BYTES` or one batch; then it goes behind the others.
3. Nothing is taken in that was not verified. A damaged partition is given up: the heartbeat reports it, another member of
   its ISR leads it and loads it; until then nobody coordinates what is in it.
4. A record that is sound but means nothing here is passed over: every replica has the same. The first `TOLD_MAX` are told.
5. Nothing is told before all that was there is committed: the next leader might not have it.
6. Any other failure of a read is tried again, as long as this leadership lasts.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from actors.broker.log.producers import markers
from actors.broker.replication.partition import Partition
from actors.broker.replication.reading import read_internal
from actors.broker.replication.replicas import Replicas
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.waiting import FAR_MS
from actors.ports import Buffer, DiskFailed
from fastpath.records import batch

SLICE_BYTES = 1 << 16
COST_A_TURN = 400
"""The cost of the records that are taken in during a turn: 3 to 5 milliseconds."""
COST_BYTES = 64
"""The number of bytes of a record that cost one."""
BATCHES_AT_COST = 4
"""The number of batches that cost one to read and verify."""
READ_COST = 10
LOADED_SHARE = 10
"""The end of a loading costs one part in so many of what the loading cost: it looks at all groups or ids of the
partition."""
RETRY_MS = 1000
TOLD_MAX = 20
TRANSACTIONAL, CONTROL = markers.TRANSACTIONAL, markers.CONTROL


class Loadable(Protocol):
    """A machine that takes in what its partitions say."""

    @property
    def shards(self) -> Mapping[int, Any]:
        """The shards of the machine, by partition; a shard has the leader `epoch` that it was loaded in."""
        ...

    def loading_from(self, partition: int, epoch: int, offset: int) -> None:
        """Note that what is taken in next stands at this offset, or behind it."""
        ...

    def load(self, partition: int, epoch: int, records: Any, producer_id: int) -> list[str]:
        """Take in records of the log. Returns what cannot be understood in them. `producer_id`: the producer of the
        transaction to which they belong; -1: they belong to none."""
        ...

    def load_end(self, partition: int, epoch: int, producer_id: int, commit: bool) -> None:
        """Take in that a producer's transaction ends here."""
        ...


class Loadings:
    """All loadings of a broker that have something to do. Invariant: while there are any, a turn of theirs is planned."""

    def __init__(self, runtime: Runtime, replicas: Replicas) -> None:
        self.runtime = runtime
        self.replicas = replicas
        self._line: deque[Loading] = deque()
        self._planned = False

    def begin(
        self,
        machine: Loadable,
        partition: Partition,
        loaded: Callable[[Partition, int], None],
        given_up: Callable[[int], None],
    ) -> None:
        """Load a partition of which the machine has a shard. `loaded`: with the leader epoch, when all is taken in.
        `given_up`: by number, when it is damaged."""
        self.enter(Loading(self, machine, partition, loaded, given_up))

    def enter(self, loading: "Loading", *, first: bool = False) -> None:
        """Put a loading that has something to do at the end of the line, or at its head."""
        if first:
            self._line.appendleft(loading)
        else:
            self._line.append(loading)
        if not self._planned:
            self._planned = True
            self.runtime.waiting.timers.at(self.runtime.now.mono_ms, self._turn)

    def _turn(self) -> None:
        left = COST_A_TURN
        while self._line and left > 0:
            left -= self._line.popleft().go_on(left)
        self._planned = False
        if self._line:
            self.enter(self._line.popleft(), first=True)


class Loading:
    """One loading: of one partition, in one of its leaderships."""

    def __init__(
        self,
        loadings: Loadings,
        machine: Loadable,
        partition: Partition,
        loaded: Callable[[Partition, int], None],
        given_up: Callable[[int], None],
    ) -> None:
        self._loadings = loadings
        self._runtime = loadings.runtime
        self._machine = machine
        self._partition = partition
        self._loaded = loaded
        self._given_up = given_up
        self._shard = machine.shards[partition.number]
        self._epoch: int = self._shard.epoch
        self._offset = 0
        """The offset of the next slice."""
        self._warm: Any = None
        """The next slice, or the exception, as a job outside the loop has brought it."""
        self._data: Buffer = b""
        self._batches: deque[batch.Header] = deque()
        """The batches of the present slice that were not begun."""
        self._records: Iterator[Any] | None = None
        """The records of the present batch that are left."""
        self._header: batch.Header | None = None
        self._cost = 0
        """The cost of all that was taken in."""
        self._strange = 0
        """The number of sentences about what could not be understood."""

    def go_on(self, left: int) -> int:
        """Take in what is next, for about the cost `left`. Returns what it has cost."""
        if self._machine.shards.get(self._partition.number) is not self._shard or self._partition.removed:
            return 1
        if self._records is None and not self._batches:
            return self._read()
        cost = 0
        while cost < left and (self._records is not None or self._batches):
            cost += self._take(left - cost)
        self._cost += cost
        self._loadings.enter(self, first=self._records is not None or bool(self._batches))
        return cost

    def _read(self) -> int:
        """Look for the next slice. Returns what that has cost."""
        runtime, partition, offset = self._runtime, self._partition, self._offset
        warm, self._warm = self._warm, None
        try:
            found = read_internal(self._loadings.replicas, partition, offset, SLICE_BYTES, warm)
        except DiskFailed as error:
            runtime.log.warning(f"{partition!r} cannot be loaded, what is in it needs another coordinator: {error}")
            self._given_up(partition.number)
            return READ_COST
        except Exception as error:
            runtime.log.warning(f"{partition!r} is not loaded from offset {offset} yet: {error!r}")
            runtime.waiting.timers.at(runtime.now.mono_ms + RETRY_MS, lambda: self._loadings.enter(self))
            return READ_COST
        self._offset = found.offset
        if found.cold is not None:
            runtime.work(found.cold, self._warmed)
        elif not found.records and partition.high_watermark < found.offset:
            runtime.waiting.park([partition.committed], FAR_MS, lambda expired: self._loadings.enter(self))
        elif not found.records:
            if self._strange > TOLD_MAX:
                left = self._strange - TOLD_MAX
                runtime.log.warning(f"passed over what cannot be understood in {partition!r} {left} times more")
            self._loaded(partition, self._epoch)
            return READ_COST + self._cost // LOADED_SHARE
        else:
            self._begin(found.records)
            self._loadings.enter(self, first=True)
        return READ_COST + len(self._batches) // BATCHES_AT_COST

    def _warmed(self, result: Any) -> None:
        self._warm = result
        self._loadings.enter(self)

    def _begin(self, data: Buffer) -> None:
        """Begin to take in whole batches."""
        self._data = data
        self._batches.extend(batch.headers(data))
        self._offset = self._batches[-1].last_offset + 1

    def _take(self, left: int) -> int:
        """Hand a marker, or some records of a batch, to the machine. Returns what that has cost."""
        number, epoch = self._partition.number, self._epoch
        if self._records is None:
            following = self._header = self._batches.popleft()
            if following.attributes & CONTROL:
                marker = markers.read(self._data, following.position)
                if marker is not None:
                    self._machine.load_end(number, epoch, following.producer_id, marker.commit)
                return 1
            self._records = iter(batch.records(self._data, following.position))
            self._machine.loading_from(number, epoch, following.base_offset)
        assert self._header is not None
        header, seen = self._header, _Seen(self._records, left)
        producer_id = header.producer_id if header.attributes & TRANSACTIONAL else -1
        try:
            strange = self._machine.load(number, epoch, seen, producer_id)
        except batch.CorruptBatch as error:
            strange, seen.more = [error.reason], False
        if not seen.more:
            self._records = None
        for reason in strange[: max(0, TOLD_MAX - self._strange)]:
            where = f"the batch at {header.base_offset} of {self._partition!r}"
            self._runtime.log.warning(f"passed over what cannot be understood in {where}: {reason}")
        self._strange += len(strange)
        return max(seen.cost, 1)


class _Seen:
    """Keys and values of the next records of a batch, up to a cost."""

    def __init__(self, records: Iterator[Any], cost_max: int) -> None:
        self._records = records
        self._cost_max = cost_max
        self.cost = 0
        self.more = False
        """Whether the cost has ended the batch early. What the machine does not want of a batch is passed over."""

    def __iter__(self) -> Iterator[tuple[bytes | None, bytes | None]]:
        for record in self._records:
            key, value = record.key, record.value
            self.cost += 1 + (len(key or b"") + len(value or b"")) // COST_BYTES
            yield key, value
            if self.cost >= self._cost_max:
                self.more = True
                return
