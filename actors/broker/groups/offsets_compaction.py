"""Keeping a partition of `__consumer_offsets` short: what still counts is written once more, so that what is before can go.

Apache Kafka compacts this topic. Here its coordinator, who knows what counts, writes every group and every offset again at
the end of the log; when the last of it is committed, the log may begin where the first of it is. Rules:

1. Of each key is written what the log says last of it in that moment, be it on its way or visible: nothing older ever
   follows something newer. What comes later follows by itself.
2. A group that is being deleted waits for how that ends.
3. A piece at a time, the next when the last is committed, so that neither a turn nor the followers are held up.
"""

from collections import deque
from collections.abc import Iterator

from actors.broker.groups.records import Record, group_key, offset_record
from actors.broker.groups.shard import Shard
from actors.broker.groups.state import GroupState

PIECE_BYTES = 1 << 16


class Compaction:
    """What is still to be written of one shard. `writing`: a piece is on its way."""

    def __init__(self, shard: Shard) -> None:
        self.writing = False
        self._shard = shard
        self._groups = deque(dict.fromkeys((*shard.groups, *shard.unsettled)))
        self._records: Iterator[Record] = iter(())

    def piece(self) -> list[Record] | None:
        """The next records, as they are now; none: a group is being deleted, ask again. None: all are written."""
        found: list[Record] = []
        size = 0
        for record in self._rest():
            found.append(record)
            size += len(record[0]) + len(record[1] or b"")
            if size >= PIECE_BYTES:
                return found
        return found or ([] if self._groups else None)

    def _rest(self) -> Iterator[Record]:
        for _ in range(len(self._groups) + 1):
            for record in self._records:  # noqa: UP028 - where a piece ends, these go on in the next
                yield record
            if self._groups:
                self._records = self._of(self._groups.popleft())

    def _of(self, id: str) -> Iterator[Record]:
        shard = self._shard
        for key in (None, *shard.keys(id)):
            group = shard.groups.get(id)  # none: its first offsets are on their way, or it went pieces ago
            if group is not None and group.state is GroupState.DEAD:
                self._groups.append(id)
                return
            committed = None if key is None else shard.last(id, key)
            if key is None and group is not None and group.value is not None:
                yield group_key(id), group.value
            elif key is not None and committed is not None:
                yield offset_record(id, *key, committed)
