"""One partition of `__consumer_offsets` in its coordinator's memory: groups, committed offsets, and unfinished writes.

This file alone decides which value of a key is visible, and which was written last. Rules:

1. The visible value is the committed one.
2. A key is unsettled from when a value, or its removal, is written until that is committed. If the write fails, it
   stays unsettled until a later write is committed, since the failed one may still be committed.
"""

from typing import NamedTuple

from actors.broker.groups.records import CommittedOffset
from actors.broker.groups.state import Group
from actors.broker.groups.transactional_offsets import TransactionalOffsets
from actors.wire.errors import ErrorCode

Key = tuple[str, int]
"""(topic, partition)"""
NO_WRITE = 0


class Unsettled(NamedTuple):
    """The last write to a key. `token`: that of the write, NO_WRITE once it has failed. `committed` None: a removal."""

    token: int
    committed: CommittedOffset | None


class Shard:
    """One partition that this broker leads. Invariant: `offsets` has committed values only, and `unsettled` has none until
    the shard is `loaded`: before that it only reads.

    `forgotten`: topics that were deleted before it was `loaded`."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.loaded = False
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, dict[Key, CommittedOffset]] = {}
        self.unsettled: dict[str, dict[Key, Unsettled]] = {}
        self.forgotten: set[str] = set()
        self.transactional = TransactionalOffsets()

    def keys(self, group: str) -> dict[Key, None]:
        """Every key of which the log may hold a value of this group."""
        return dict.fromkeys(self.offsets.get(group, ())) | dict.fromkeys(self.unsettled.get(group, ()))

    def set(self, group: str, key: Key, committed: CommittedOffset | None) -> None:
        """A value is committed, or its removal (None)."""
        offsets = self.offsets.setdefault(group, {})
        if committed is None:
            offsets.pop(key, None)
            if not offsets:
                del self.offsets[group]
        else:
            offsets[key] = committed

    def wrote(self, group: str, key: Key, token: int, committed: CommittedOffset | None) -> None:
        """A value, or its removal, has been written and is not committed yet."""
        self.unsettled.setdefault(group, {})[key] = Unsettled(token, committed)

    def settled(self, group: str, key: Key, token: int, error: ErrorCode) -> None:
        """The write `token` has ended. Later writes to the key have not."""
        unsettled = self.unsettled.get(group, {})
        if key not in unsettled or unsettled[key].token != token:
            return
        if error is not ErrorCode.NONE:
            unsettled[key] = Unsettled(NO_WRITE, None)
            return
        del unsettled[key]
        if not unsettled:
            del self.unsettled[group]

    def last(self, group: str, key: Key) -> CommittedOffset | None:
        """The value of a key that was written last: the unfinished one, or else the visible one."""
        entry = self.unsettled.get(group, {}).get(key)
        if entry is not None and entry.token != NO_WRITE:
            return entry.committed
        return self.offsets.get(group, {}).get(key)

    def drop(self, group: str) -> None:
        """The group is deleted, with all its committed offsets."""
        del self.groups[group]
        self.offsets.pop(group, None)
        self.unsettled.pop(group, None)
        self.transactional.forget_group(group)
