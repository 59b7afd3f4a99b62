"""Loading a partition of an internal topic into its coordinator, after this broker has become its leader.

What this file alone decides: which failure ends a loading, and which is tried again. Rules:

1. A slice of a few hundred kilobytes a turn, so that the loop never stalls.
2. Nothing is taken in that was not verified. A damaged partition is given up: the heartbeat reports it, another member of
   its ISR leads it and loads it; until then nobody coordinates what is in it.
3. A record that is sound but means nothing here is passed over: every replica has the same. The first `TOLD_MAX` are told.
4. Nothing is told before all that was there is committed: the next leader might not have it.
5. Any other failure of a read is tried again, as long as this leadership lasts.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from actors.broker.log import markers
from actors.broker.partition import Partition
from actors.broker.reading import read_internal
from actors.broker.replicas import Replicas
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.waiting import FAR_MS
from actors.ports import Buffer, DiskFailed
from fastpath.records import batch

SLICE_BYTES = 1 << 18
RETRY_MS = 1000
TOLD_MAX = 20
TRANSACTIONAL, CONTROL = markers.TRANSACTIONAL, markers.CONTROL


class Loadable(Protocol):
    """A machine that takes in what its partitions say."""

    @property
    def shards(self) -> Mapping[int, Any]:
        """By partition; a shard has the leader `epoch` that it was loaded in."""
        ...

    def loading_from(self, partition: int, epoch: int, offset: int) -> None:
        """What is taken in next stands at this offset, or behind it."""
        ...

    def load(self, partition: int, epoch: int, records: Any, producer_id: int) -> list[str]:
        """Take in records of the log; what cannot be understood in them. `producer_id`: whose transaction they belong to;
        -1: they belong to none."""
        ...

    def load_end(self, partition: int, epoch: int, producer_id: int, commit: bool) -> None:
        """Take in that the producer's transaction ends here."""
        ...


class Loading:
    """One loading: of one partition, in one of its leaderships."""

    def __init__(
        self,
        runtime: Runtime,
        replicas: Replicas,
        machine: Loadable,
        partition: Partition,
        loaded: Callable[[Partition, int], None],
        given_up: Callable[[int], None],
    ) -> None:
        """`loaded`: with the leader epoch, when all is taken in. `given_up`: by number, when it is damaged."""
        self._runtime = runtime
        self._replicas = replicas
        self._machine = machine
        self._partition = partition
        self._loaded = loaded
        self._given_up = given_up
        self._shard = machine.shards[partition.number]
        self._epoch: int = self._shard.epoch
        self._strange = 0
        """Sentences about what could not be understood."""

    def go_on(self, offset: int, warm: Any = None) -> None:
        """Take in the slice at `offset`. `warm`: it, or the exception, as a job outside the loop has brought it."""
        runtime, partition = self._runtime, self._partition
        if self._machine.shards.get(partition.number) is not self._shard or partition.removed:
            return
        try:
            found = read_internal(self._replicas, partition, offset, SLICE_BYTES, warm)
        except DiskFailed as error:
            runtime.log.warning(f"{partition!r} cannot be loaded, what is in it needs another coordinator: {error}")
            self._given_up(partition.number)
            return
        except Exception as error:
            runtime.log.warning(f"{partition!r} is not loaded from offset {offset} yet: {error!r}")
            runtime.waiting.timers.at(runtime.now.mono_ms + RETRY_MS, lambda: self.go_on(offset))
            return
        if found.cold is not None:
            runtime.work(found.cold, lambda result: self.go_on(found.offset, result))
        elif not found.records and partition.high_watermark < found.offset:
            runtime.waiting.park([partition.committed], FAR_MS, lambda expired: self.go_on(found.offset))
        elif not found.records:
            if self._strange > TOLD_MAX:
                left = self._strange - TOLD_MAX
                runtime.log.warning(f"passed over what cannot be understood in {partition!r} {left} times more")
            self._loaded(partition, self._epoch)
        else:
            following = self._take(found.records)
            runtime.waiting.timers.at(runtime.now.mono_ms, lambda: self.go_on(following))

    def _take(self, data: Buffer) -> int:
        """Hand whole batches to the machine; the offset behind them."""
        headers = batch.headers(data)
        for header in headers:
            if header.attributes & CONTROL:
                marker = markers.read(data, header.position)
                if marker is not None:
                    self._machine.load_end(self._partition.number, self._epoch, header.producer_id, marker.commit)
                continue
            producer_id = header.producer_id if header.attributes & TRANSACTIONAL else -1
            records = ((record.key, record.value) for record in batch.records(data, header.position))
            self._machine.loading_from(self._partition.number, self._epoch, header.base_offset)
            try:
                strange = self._machine.load(self._partition.number, self._epoch, records, producer_id)
            except batch.CorruptBatch as error:
                strange = [error.reason]
            for reason in strange[: max(0, TOLD_MAX - self._strange)]:
                where = f"the batch at {header.base_offset} of {self._partition!r}"
                self._runtime.log.warning(f"passed over what cannot be understood in {where}: {reason}")
            self._strange += len(strange)
        return headers[-1].last_offset + 1
