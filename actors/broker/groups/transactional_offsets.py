"""Offsets that producers have committed in transactions which are still open (KIP-98, KIP-447).

One partition of `__consumer_offsets` in the memory of its coordinator. This file alone decides what becomes of them. Rules:

1. They are no committed offsets until the marker of the producer's transaction says commit; an abort forgets them.
2. A key is unstable from when an offset of a transaction is written for it until that transaction ends, also where the write
   failed: the log may hold it.
3. The log's order decides: what was written for a key before its visible value is older than that, and never replaces it. A
   marker ends what was written before it, however late its end is told.
4. The end of a long transaction is taken in by portions (`take_in`). Its keys stay unstable until theirs. What stands behind
   its marker belongs to the next transaction of its producer, which may have ended meanwhile too.
"""

from collections import deque
from collections.abc import Collection, Iterator
from itertools import chain, islice
from typing import NamedTuple

from actors.broker.groups.records import CommittedOffset

Key = tuple[str, int]
"""The name of a partition: (topic, partition)."""


class _Entry(NamedTuple):
    """What was written for a key. `committed` None: nothing that may become visible."""

    order: int
    committed: CommittedOffset | None


class _Ending(NamedTuple):
    """A transaction that has ended, and of which `entries` are not taken in yet. `order`: of its marker."""

    producer_id: int
    entries: dict[tuple[str, Key], _Entry]
    commit: bool
    order: int


class TransactionalOffsets:
    """The offsets of open transactions in one partition. `order` counts all offsets that are written to it, as they
    come in the log."""

    def __init__(self) -> None:
        self.order = 0
        self._open: dict[int, dict[tuple[str, Key], _Entry]] = {}
        """Producer id -> (group, key) -> entry. Invariant: no producer is without an entry."""
        self._endings: deque[_Ending] = deque()
        """In the order of their markers. One without an entry may get some from the one before it of its producer."""
        self._unstable: dict[str, dict[Key, int]] = {}
        """Group -> key -> how many transactions have written for it that are open, or end."""

    def next(self) -> int:
        """The place in the log of what is written now."""
        self.order += 1
        return self.order

    def wrote(self, producer_id: int, group: str, key: Key, order: int, committed: CommittedOffset | None) -> None:
        """A producer writes an offset in its transaction. `committed` None: a removal, which nobody writes so."""
        entries = self._open.setdefault(producer_id, {})
        present = entries.get((group, key))
        if present is None:
            keys = self._unstable.setdefault(group, {})
            keys[key] = keys.get(key, 0) + 1
        entries[group, key] = _Entry(order, committed)

    def failed(self, producer_id: int, group: str, key: Key, order: int) -> None:
        """Note that a write has failed. The log may hold it, so the key stays unstable."""
        of_producer = [one.entries for one in self._endings if one.producer_id == producer_id]
        for entries in (self._open.get(producer_id, {}), *of_producer):
            entry = entries.get((group, key))
            if entry is not None and entry.order == order:
                entries[group, key] = _Entry(order, None)

    def set(self, group: str, key: Key, order: int) -> None:
        """A value, or a removal, that was written at `order` is visible now: what is older never is."""
        if key not in self._unstable.get(group, ()):
            return
        for entries in self._all():
            entry = entries.get((group, key))
            if entry is not None and entry.order < order:
                entries[group, key] = _Entry(entry.order, None)

    def ended(self, producer_id: int, commit: bool, order: int) -> None:
        """The producer's transaction has ended with a marker that was written behind `order`. What it has written since
        belongs to its next transaction."""
        entries = self._open.pop(producer_id, None)
        if entries is not None or any(one.producer_id == producer_id for one in self._endings):
            self._endings.append(_Ending(producer_id, entries or {}, commit, order))

    @property
    def ending(self) -> bool:
        """Whether there is something to take in."""
        return bool(self._endings)

    def take_in(self, keys_max: int) -> tuple[int, list[tuple[str, Key, int, CommittedOffset]]]:
        """Go on with the transaction that has ended first: how many keys were looked at, `keys_max` at most, and what
        is visible from now on, as (group, key, order, value). That is `set` before the next one is taken in."""
        one, looked_at, visible = self._endings[0], 0, []
        while one.entries and looked_at < keys_max:
            place, entry = one.entries.popitem()
            looked_at += 1
            if entry.order > one.order and place not in (later := self._behind(one)):
                later[place] = entry
                continue
            group, key = place
            keys = self._unstable[group]
            keys[key] -= 1
            if not keys[key]:
                del keys[key]
                if not keys:
                    del self._unstable[group]
            if one.commit and entry.committed is not None and entry.order <= one.order:
                visible.append((group, key, entry.order, entry.committed))
        if not one.entries:
            self._endings.popleft()
        return max(1, looked_at), visible

    def _behind(self, first: _Ending) -> dict[tuple[str, Key], _Entry]:
        """What the producer of the transaction that has ended first has written in its next one."""
        for one in islice(self._endings, 1, None):
            if one.producer_id == first.producer_id:
                return one.entries
        return self._open.setdefault(first.producer_id, {})

    def unstable(self, group: str) -> dict[Key, int]:
        """Keys of a group for which open transactions have written. Not to be changed."""
        return self._unstable.get(group, {})

    def groups(self) -> Collection[str]:
        """Groups with unstable keys."""
        return self._unstable

    def forget_group(self, group: str) -> None:
        """A group was deleted, with all that was written for it."""
        for key in self._unstable.get(group, ()):
            self.set(group, key, self.order + 1)

    def _all(self) -> Iterator[dict[tuple[str, Key], _Entry]]:
        """What was written in each transaction that is open, or ends."""
        return chain(self._open.values(), [one.entries for one in self._endings])

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        counts: dict[str, dict[Key, int]] = {}
        assert all(self._open.values())
        for entries in self._all():
            for group, key in entries:
                keys = counts.setdefault(group, {})
                keys[key] = keys.get(key, 0) + 1
        assert counts == self._unstable
