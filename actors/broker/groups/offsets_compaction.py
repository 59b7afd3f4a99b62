"""Compaction of a partition of `__consumer_offsets`: current values are written again, so that the log before can go.

Apache Kafka's log cleaner compacts this topic. Here the group coordinator does, because it knows the current values. It
writes every group and every offset again at the end of the log. When the last of them is committed, the log may begin
at the first of them. Rules:

1. For each key the last written value is written again, whether it is visible or not committed yet, so an older value
   never follows a newer one. Later writes follow by themselves.
2. A group that is being deleted waits until that has ended.
3. One piece is written at a time, and the next when its last record is committed, so that neither a turn nor the
   followers are delayed.
"""

from collections import deque
from collections.abc import Iterator

from actors.broker.groups.records import Record, group_key, offset_record
from actors.broker.groups.shard import Shard
from actors.broker.groups.state import GroupState

PIECE_BYTES = 1 << 16


class Compaction:
    """What is still to be written of one shard. `writing`: whether a piece is being written."""

    def __init__(self, shard: Shard) -> None:
        self.writing = False
        self._shard = shard
        self._groups = deque(dict.fromkeys((*shard.groups, *shard.unsettled)))
        self._records: Iterator[Record] = iter(())

    def piece(self) -> list[Record] | None:
        """The next records, with their present values. Empty: a group is being deleted, so ask again. None: all are
        written."""
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
            for record in self._records:  # noqa: UP028 - the next piece goes on where this one ends
                yield record
            if self._groups:
                self._records = self._of(self._groups.popleft())

    def _of(self, id: str) -> Iterator[Record]:
        shard = self._shard
        for key in (None, *shard.keys(id)):
            group = shard.groups.get(id)  # None: only offsets so far, uncommitted, or removed meanwhile
            if group is not None and group.state is GroupState.DEAD:
                self._groups.append(id)
                return
            committed = None if key is None else shard.last(id, key)
            if key is None and group is not None and group.value is not None:
                yield group_key(id), group.value
            elif key is not None and committed is not None:
                yield offset_record(id, *key, committed)
