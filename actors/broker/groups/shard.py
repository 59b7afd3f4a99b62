"""One partition of `__consumer_offsets` in its coordinator's memory: groups, committed offsets, and unfinished writes.

This file alone decides which value of a key is visible, and of which keys the log may have one. Rules:

1. The visible value is the committed one.
2. A key is unsettled from when a value, or its removal, is written until that is committed. If the write fails, it
   stays unsettled until a later write is committed, since the failed one may still be committed.
3. A group with a record that this version cannot read is foreign while the log has that record. Nothing of it is written,
   so that the version that knows the record finds it as it was. Its offsets may be read, save where one of them is what
   cannot be read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from actors.broker.groups.records import CommittedOffset, ForeignLine
from actors.broker.groups.transactional_offsets import TransactionalOffsets
from actors.wire.errors import ErrorCode

OffsetKey = tuple[str, int]
"""The name of a partition: (topic, partition)."""
NO_WRITE = 0
PORTION_KEYS = 500
"""The most keys of a group that are looked at in one go for whether their topic is gone, and removed by one write."""


class AnyGroup(Protocol):
    """A group of whatever kind. `type`: the name of its kind (`kind.py`)."""

    id: str

    @property
    def type(self) -> str: ...

    @property
    def members(self) -> Mapping[str, Any]: ...


class Missing:
    """The topics that do not exist: asked for by name, once each."""

    __slots__ = ("_exists", "_known")

    def __init__(self, exists: Callable[[str], bool]) -> None:
        self._exists = exists
        self._known: dict[str, bool] = {}

    def __contains__(self, topic: str) -> bool:
        known = self._known.get(topic)
        if known is None:
            known = self._known[topic] = not self._exists(topic)
        return known


class Walk:
    """A look through the keys of a shard for offsets of some topics that are gone, a portion at a time.

    A key that is committed again is looked at before that, and not afterwards: the topic that it is committed for exists."""

    __slots__ = ("_portions", "_seen", "_shard", "topics")

    def __init__(self, shard: "Shard", topics: "set[str] | Missing") -> None:
        self.topics = topics
        self._shard = shard
        self._portions: Iterator[tuple[str, list[OffsetKey]]] | None = None
        """The keys that are still to come; None: none was looked at."""
        self._seen: dict[str, set[OffsetKey]] = {}
        """The keys that were removed, or committed since, by group."""

    @property
    def begun(self) -> bool:
        """Whether a key was looked at."""
        return self._portions is not None or bool(self._seen)

    def next(self) -> tuple[str, list[OffsetKey]] | None:
        """The next keys of a group to look at, none twice and `PORTION_KEYS` at most; None: there are no more."""
        if self._portions is None:
            self._portions = self._in_portions()
        return next(self._portions, None)

    def gone(self, group: str, keys: Iterable[OffsetKey]) -> list[OffsetKey]:
        """The keys of a group that are to be removed now, out of `keys`. Each is returned once."""
        seen = self._seen.get(group, set())
        found = []
        for key in keys:
            if key[0] in self.topics and key not in seen:
                seen.add(key)
                found.append(key)
        if found:
            self._seen[group] = seen
        return found

    def _in_portions(self) -> Iterator[tuple[str, list[OffsetKey]]]:
        for group in list(self._shard.with_offsets()):
            for keys in self._shard.portions(group):
                yield group, keys


class Shard:
    """One partition that this broker leads. Invariant: `offsets` has committed values only, and `unsettled` has none
    until the shard is `loaded`: before that it only reads.

    `forgotten`: topics that were deleted before it was `loaded`."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.loaded = False
        self._groups: dict[str, dict[str, Any]] = {}
        """The groups by kind and id. Invariant: once `loaded`, an id is in one kind."""
        self.offsets: dict[str, dict[OffsetKey, CommittedOffset]] = {}
        self.unsettled: dict[str, dict[OffsetKey, int]] = {}
        """The token of the last write to a key, by group and key; NO_WRITE once that has failed."""
        self.foreign: dict[str, set[bytes]] = {}
        """The keys of a group's records that cannot be read here, by group. Invariant: no set is empty; once `loaded`,
        none of these is a group of any kind."""
        self.unreadable: dict[str, set[bytes]] = {}
        """The keys in `foreign` that are offsets, by group."""
        self.forgotten: set[str] = set()
        self.walks: list[Walk] = []
        """Looks for offsets of topics that are gone, the present one first."""
        self.transactional = TransactionalOffsets()

    def of(self, type: str) -> dict[str, Any]:
        """The groups of a kind, by id."""
        found = self._groups.get(type)
        if found is None:
            found = self._groups[type] = {}
        return found

    def find(self, id: str) -> Any:
        """The group of an id, of whatever kind (an `AnyGroup`); None: there is none."""
        for groups in self._groups.values():
            if id in groups:
                return groups[id]
        return None

    def forget(self, id: str) -> None:
        """Forget the group of an id; what it has committed stays."""
        for groups in self._groups.values():
            groups.pop(id, None)

    def keys(self, group: str) -> dict[OffsetKey, None]:
        """Every key of which the log may hold a value of this group."""
        found = dict.fromkeys(self.offsets.get(group, ())) | dict.fromkeys(self.unsettled.get(group, ()))
        return found | dict.fromkeys(self.transactional.unstable(group))

    def keys_at_most(self, group: str) -> int:
        """The number of `keys`, or more where one is in several places."""
        return len(self.offsets_of(group)) + len(self.unsettled_of(group)) + len(self.transactional.unstable(group))

    def portions(self, group: str) -> Iterator[list[OffsetKey]]:
        """Every key of which the log may hold a value of this group, `PORTION_KEYS` at most in one go. A key may come
        again, and none is missed whose write ends meanwhile: such a key goes from one of the first two places to the
        third."""
        for keys in (self.transactional.unstable, self.unsettled_of, self.offsets_of):
            found = list(keys(group))
            for start in range(0, len(found), PORTION_KEYS):
                yield found[start : start + PORTION_KEYS]

    def unsettled_of(self, group: str) -> Mapping[OffsetKey, int]:
        """The keys of a group of which a write has not ended, or has failed. Not to be changed."""
        return self.unsettled.get(group, {})

    def offsets_of(self, group: str) -> Mapping[OffsetKey, CommittedOffset]:
        """The committed offsets of a group. Not to be changed."""
        return self.offsets.get(group, {})

    def holds_key(self, group: str, key: OffsetKey) -> bool:
        """Whether the log may hold a value of that key."""
        return (
            key in self.offsets_of(group)
            or key in self.unsettled_of(group)
            or key in self.transactional.unstable(group)
        )

    def holds(self, group: str) -> bool:
        """Whether `keys` has any: a look that costs the same however many there are."""
        return group in self.offsets or group in self.unsettled or bool(self.transactional.unstable(group))

    def with_offsets(self) -> Iterator[str]:
        """The groups of which the log may hold an offset, each once."""
        yield from dict.fromkeys((*self.offsets, *self.unsettled, *self.transactional.groups()))

    def set(self, group: str, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """Take a value that is committed, or its removal (None)."""
        offsets = self.offsets.setdefault(group, {})
        if committed is None:
            offsets.pop(key, None)
            if not offsets:
                del self.offsets[group]
        else:
            offsets[key] = committed

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Look for what was committed for topics that are gone."""
        last = self.walks[-1].topics if self.walks and not self.walks[-1].begun else None
        if isinstance(last, set):
            last.update(topics)
        else:
            self.walks.append(Walk(self, set(topics)))

    def look_for(self, missing: Missing) -> None:
        """Look for what was committed for topics that do not exist, unless that is done already."""
        if not any(isinstance(walk.topics, Missing) for walk in self.walks):
            self.walks.append(Walk(self, missing))

    def wrote(self, group: str, key: OffsetKey, token: int) -> None:
        """Note that a value, or its removal, has been written and is not committed yet."""
        self.unsettled.setdefault(group, {})[key] = token

    def settled(self, group: str, key: OffsetKey, token: int, error: ErrorCode) -> None:
        """Note that the write `token` has ended. Later writes to the key have not."""
        unsettled = self.unsettled.get(group, {})
        if unsettled.get(key) != token:
            return
        if error is not ErrorCode.NONE:
            unsettled[key] = NO_WRITE
            return
        del unsettled[key]
        if not unsettled:
            del self.unsettled[group]

    def take_foreign(self, line: ForeignLine) -> bool:
        """Take a record of the log that cannot be read, or its removal. Returns whether it is the first of its
        group."""
        if line.removed:
            self.known(line.group, line.key)
            return False
        first = line.group not in self.foreign
        self.foreign.setdefault(line.group, set()).add(line.key)
        if line.offset is not None:
            self.unreadable.setdefault(line.group, set()).add(line.key)
        return first

    def known(self, group: str, key: bytes) -> None:
        """Note that what the log has of a key now can be read, or is its removal."""
        for keys in (self.foreign, self.unreadable):
            if group in keys:
                keys[group].discard(key)
                if not keys[group]:
                    del keys[group]

    def drop(self, group: str, *, in_portions: bool = False) -> None:
        """Drop a group that is deleted, with all its committed offsets. `in_portions`: these have been removed
        before."""
        self.forget(group)
        self.offsets.pop(group, None)
        self.unsettled.pop(group, None)
        if not in_portions:
            self.transactional.forget_group(group)
