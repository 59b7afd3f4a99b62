"""A damaged batch is put back as another replica has it.

This file alone decides who is asked for the good copy of a batch, and what makes it the same batch. Rules:

1. It is put back byte for byte where it was, and nothing is removed before or after: no sound byte changes.
2. It comes from the leader, or else from another replica; a leader's own from another replica. Only what is below the high
   watermark is asked for.
3. That it is the same batch follows from its offset and leader epoch, which nobody but one leader has given once. In a log
   with gaps replicas have cleaned differently: there the damaged batch itself has to say that it is the same.
4. Before anything is written, others must have batches that fill the damage exactly: a shorter one would make the sound
   batch behind it pass for damage.
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial as bound
from typing import Any, NamedTuple

import numpy as np

from actors.broker.log.log import PartitionLog
from actors.broker.log.scrubbing import Fault
from actors.broker.log.segment import Segment
from actors.broker.replication.partition import Partition
from actors.broker.replication.reading import RESTORER
from actors.node.net.channels import ChannelError, Channels
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.calls import Lane
from actors.ports import Buffer
from actors.wire.batch_header import CHECKED, CHECKSUM
from actors.wire.messages import message
from fastpath.records.batch import CorruptBatch, Header, verify

FETCH_BYTES_MAX = 1 << 20
FETCH_VERSION = 13
"""The version of Fetch with which other replicas are asked: old enough for every broker that knows topic ids."""
TIMEOUT_MS = 10_000

Array = np.ndarray[Any, Any]
Result = Any
Effect = Callable[[Callable[[Result], None]], None]
"""A function that begins something; its result, or its exception, comes back."""
Steps = Generator[Effect, Result, Any]


class GoodCopy(NamedTuple):
    """A batch that another replica has given."""

    source: int
    last_offset: int
    data: memoryview


class BatchRestoration:
    """The way back of damaged batches in one broker's logs; one segment at a time.

    `job(job, bytes)` and `sync(log, files)` make effects out of what is to be read and to be durable.
    `is_here(partition, log)`: whether the log is still the partition's, and may be used."""

    def __init__(
        self,
        channels: Channels,
        cache: MetadataCache,
        listener: str,
        job: Callable[[Callable[[], Any], int], Effect],
        sync: Callable[[PartitionLog, list[Any]], Effect],
        is_here: Callable[[Partition, PartitionLog], bool],
    ) -> None:
        self._channels = channels
        self._cache = cache
        self._listener = listener
        self._job = job
        self._sync = sync
        self._is_here = is_here
        self.unfit: int | None = None
        """The replica that has the damaged offsets sound, but not in the same batch; None: none is known."""

    def restore(self, partition: Partition, log: PartitionLog, segment: Segment, faults: list[Fault]) -> Steps:
        """Put back what others have, the first damage first. Returns how many batches. What lies behind damage that is
        not filled exactly is not where it is thought to be, so the segment is to be read again first. A batch that
        would change sound bytes is another one: a replica may have been cleaned of which this one does not know."""
        restored, generation = 0, log.generation
        for fault in faults:
            if not log.sparse and not (yield from self._fills(partition, log, fault)):
                return restored
            position, offset = fault.position, fault.first_offset
            while position < fault.position + fault.size:
                given = yield from self._ask(partition, log, offset)
                end = end_of(log, segment)
                if given is None or position + len(given.data) > segment.size or given.last_offset >= end:
                    return restored
                data = given.data
                stored = yield self._job(bound(segment.log.read_at_rest, position, len(data)), len(data))
                if not self._is_here(partition, log) or segment not in log.segments[:-1] or end_of(log, segment) != end:
                    return restored
                if log.generation != generation:  # it was cut, and has grown again
                    return restored
                differs = _differs(stored, data)
                if (log.sparse and not _same(stored, data)) or _harms(differs, position, faults):
                    self.unfit = given.source
                    return restored
                yield from self._put_back(log, segment, position, differs, data)
                restored += 1
                position, offset = position + len(data), given.last_offset + 1
            exact = position == fault.position + fault.size
            if not exact or (offset != fault.next_offset and not log.sparse):
                break
        return restored

    def _fills(self, partition: Partition, log: PartitionLog, fault: Fault) -> Steps:
        """Whether the batches that others have are as long as the damage. Asked before anything is written: a shorter
        batch would make the sound one behind it pass for damage."""
        position, offset = fault.position, fault.first_offset
        while position < fault.position + fault.size:
            given = yield from self._ask(partition, log, offset)
            if given is None:
                return False
            position, offset = position + len(given.data), given.last_offset + 1
            if offset >= fault.next_offset and position < fault.position + fault.size:
                self.unfit = given.source
                return False
        return True

    def _put_back(self, log: PartitionLog, segment: Segment, position: int, differs: Array, data: memoryview) -> Steps:
        """Write the bytes that differ. Raises DiskFull, DiskFailed."""
        if differs.any():
            first, behind = int(differs.argmax()), len(differs) - int(differs[::-1].argmax())
            segment.log.overwrite(position + first, data[first:behind])
        yield self._sync(log, [segment.log])

    def _ask(self, partition: Partition, log: PartitionLog, offset: int) -> Steps:
        """The batch that begins at an offset, as another replica has it; in a log with gaps the first one from there
        on."""
        for source in self._sources(partition):
            wanted = max(offset, log.log_start_offset)
            if wanted >= partition.high_watermark:
                break
            reply = yield bound(self._fetch, partition, source, wanted)
            if not self._is_here(partition, log):
                break
            if (found := _first(log, reply, offset)) is not None:
                header, data = found
                return GoodCopy(source, header.last_offset, data)
        return None

    def _sources(self, partition: Partition) -> Iterator[int]:
        """The brokers to ask: the leader, then the ISR, then the rest. Each is yielded when its turn comes."""
        me, isr = self._cache.me, partition.isr.isr
        order = [partition.leader, *(one for one in partition.replicas if one in isr), *partition.replicas]
        for one in dict.fromkeys(order):
            if one >= 0 and one != me and self._cache.endpoint(one, self._listener) is not None:
                yield one

    def _fetch(self, partition: Partition, source: int, offset: int, then: Callable[[Result], None]) -> None:
        endpoint = self._cache.endpoint(source, self._listener)
        assert endpoint is not None
        kind = message("FetchRequest")
        wanted = kind.FetchPartition(
            partition=partition.number, fetch_offset=offset, partition_max_bytes=FETCH_BYTES_MAX
        )
        request = kind(
            replica_id=RESTORER,
            max_wait_ms=0,
            max_bytes=FETCH_BYTES_MAX,
            session_epoch=-1,
            topics=[kind.FetchTopic(topic_id=partition.topic_id, partitions=[wanted])],
        )
        address = (endpoint.host, endpoint.port)
        purpose = ("scrub", source)
        self._channels.peer(
            purpose,
            address,
            "Fetch",
            request,
            lambda reply: then(None if isinstance(reply, ChannelError) else reply),
            TIMEOUT_MS,
            version=FETCH_VERSION,
            lane=Lane.DATA,
        )


def end_of(log: PartitionLog, segment: Segment) -> int:
    """The offset at which the segment behind one begins; -1: it is not a sealed one of this log any more."""
    place = log.segments.index(segment) + 1 if segment in log.segments else len(log.segments)
    return log.segments[place].base_offset if place < len(log.segments) else -1


def _first(log: PartitionLog, reply: Any, offset: int) -> tuple[Header, memoryview] | None:
    """The batch at an offset in an answer, which is checked as any peer's is; None: the answer has none, or another
    one."""
    records = b""
    for topic in reply.responses if reply is not None else ():
        for one in topic.partitions:
            records = one.records or b"" if one.error_code == 0 else b""
    try:
        header = verify(records)
    except CorruptBatch:
        return None
    begins = header.base_offset >= offset if log.sparse else header.base_offset == offset
    epoch = log.epochs.epoch_at(max(header.base_offset, log.log_start_offset))
    if not begins or header.epoch != epoch:
        return None
    return header, memoryview(records)[: header.size]


def _same(stored: Buffer, data: Buffer) -> bool:
    """Whether the damaged bytes were a given batch: they have its checksum, or all that the checksum is of."""
    old, new = bytes(stored), bytes(data)
    return len(old) == len(new) and (old[CHECKSUM] == new[CHECKSUM] or old[CHECKED] == new[CHECKED])


def _differs(stored: Buffer, data: Buffer) -> Array:
    """Whether each byte of `data` differs from the stored one; bytes that are not stored do."""
    old, new = np.frombuffer(stored, np.uint8), np.frombuffer(data, np.uint8)
    differs = np.ones(len(new), bool)
    np.not_equal(old, new[: len(old)], out=differs[: len(old)])
    return differs


def _harms(differs: Array, position: int, faults: list[Fault]) -> bool:
    """Whether one of the bytes that would change, the first of which is at `position`, is not damaged."""
    sound = differs.copy()
    for fault in faults:
        sound[max(0, fault.position - position) : max(0, fault.position + fault.size - position)] = False
    return bool(sound.any())
