"""Loading partitions of `__consumer_offsets` into the group coordinator, after this broker has become their leader.

What this file alone decides: which failure ends a loading, and which is tried again. Rules:

1. A slice of a few hundred kilobytes a turn, so that the loop never stalls.
2. Nothing is taken in that was not verified. A damaged partition is given up: the heartbeat reports it, another member of
   its ISR leads it and loads it; until then its groups have no coordinator.
3. A record that is sound but means nothing here is passed over: every replica has the same.
4. Nothing is told before all that was there is committed: the next leader might not have it.
5. Any other failure of a read is tried again, as long as this leadership lasts.
"""

from typing import TYPE_CHECKING, Any

from actors.broker.groups.coordinator import Coordinator
from actors.broker.groups.shard import Shard
from actors.broker.partition import Partition
from actors.broker.reading import read_internal
from actors.node.waiting import FAR_MS
from actors.ports import Buffer, DiskFailed
from fastpath import batch

if TYPE_CHECKING:
    from actors.node.groups_role import GroupsRole
    from actors.node.node import Node

SLICE_BYTES = 1 << 18
RETRY_MS = 1000
CONTROL = 0x20


class Loading:
    """One loading: of one partition, in one of its leaderships."""

    def __init__(self, node: "Node", groups: "GroupsRole", partition: Partition) -> None:
        self._node = node
        self._groups = groups
        self._machine: Coordinator = groups.machine
        self._partition = partition
        self._shard: Shard = self._machine.shards[partition.number]

    def go_on(self, offset: int, warm: Any = None) -> None:
        """Take in the slice at `offset`. `warm`: it, or the exception, as a job outside the loop has brought it."""
        node, partition = self._node, self._partition
        if self._machine.shards.get(partition.number) is not self._shard or partition.removed:
            return
        assert node.broker is not None
        try:
            found = read_internal(node.broker.replicas, partition, offset, SLICE_BYTES, warm)
        except DiskFailed as error:
            node.log.warning(f"{partition!r} cannot be loaded, its groups need another coordinator: {error}")
            self._groups.lost(partition.number)
            return
        except Exception as error:
            node.log.warning(f"{partition!r} is not loaded from offset {offset} yet: {error!r}")
            node.waiting.timers.at(node.now.mono_ms + RETRY_MS, lambda: self.go_on(offset))
            return
        if found.cold is not None:
            node.work(found.cold, lambda result: self.go_on(found.offset, result))
        elif not found.records and partition.high_watermark < found.offset:
            node.waiting.park([partition.committed], FAR_MS, lambda expired: self.go_on(found.offset))
        elif not found.records:
            image = node.broker.image
            # Whoever took a commit for a topic knew of it before this leadership began: the image is not behind that.
            self._machine.loaded(partition.number, self._shard.epoch, node.now, lambda topic: image.topic(topic) >= 0)
            node.log.info(f"loaded the groups of {partition!r}")
            self._groups.condensing.loaded(partition)
            self._groups.drain()
        else:
            following = self._take(found.records)
            node.waiting.timers.at(node.now.mono_ms, lambda: self.go_on(following))

    def _take(self, data: Buffer) -> int:
        """Hand whole batches to the machine; the offset behind them."""
        headers = batch.headers(data)
        for header in headers:
            if header.attributes & CONTROL:
                continue
            records = ((record.key, record.value) for record in batch.records(data, header.position))
            try:
                strange = self._machine.load(self._partition.number, self._shard.epoch, records)
            except batch.CorruptBatch as error:
                strange = [error.reason]
            for reason in strange:
                where = f"the batch at {header.base_offset} of {self._partition!r}"
                self._node.log.warning(f"passed over what cannot be understood in {where}: {reason}")
        return headers[-1].last_offset + 1
