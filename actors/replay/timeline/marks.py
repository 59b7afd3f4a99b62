"""Marks: what happened in a metadata log, with offset and time, for a slider or a list.

This file alone decides what is worth a mark. Kinds:

| kind | a mark is | about |
|---|---|---|
| `election` | a controller was elected | `controller 1002 leads, epoch 7` |
| `broker` | a broker registered, was fenced, is active, leaving or gone, lost a log directory | `broker 2 fenced` |
| `leader` | partitions have another leader, or none | |
| `isr` | ISRs became smaller, or larger | `smaller`, `larger` |
| `reassignment` | replicas, or a running reassignment, changed | |
| `topic` | a topic was made or deleted | `topic orders made` |
| `setting` | a configuration, a feature level or a quota changed | `topic:orders retention.ms` |
| `security` | an access rule, a user's password or a token was set or removed | `acl set` |

Marks of partitions count those of one kind and one second. Of each kind there are MARKS_MAX at most: when there are more,
each two neighbours become one, which has the offset and time of the first, and counts both. The log does not say who made a
change.

The newest NEWEST_MAX marks of a kind that is not of partitions are also kept as they were made: a mark that stands for
several proves nothing of a single broker or setting.
"""

import json
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.metadata.image import Image
from actors.metadata.ops import EntityGone, EntitySet
from actors.replay.columns.as_of import Met, Replay
from actors.replay.columns.history import LOOK, Change, Gathering
from fastpath.arrow.partition_moves import LARGER, LEADER, REPLICAS, SMALLER, Moves

KINDS = ("election", "broker", "leader", "isr", "reassignment", "topic", "setting", "security")
MARKS_MAX = NEWEST_MAX = 4_096
OF_PARTITIONS = (
    (LEADER, "leader", ""),
    (SMALLER, "isr", "smaller"),
    (LARGER, "isr", "larger"),
    (REPLICAS, "reassignment", ""),
)


class Mark(NamedTuple):
    """Something that happened."""

    offset: int
    """The offset of its first record."""
    time_ms: int
    """The time of that record's batch, in ms since 1970."""
    kind: str
    about: str
    """Words; empty where the kind says it all, or where different marks became one."""
    number: int = 1
    """How many partitions, or how many marks that became one."""


def _entity(image: Image, op: Any) -> list[Change]:
    there = image.entity(op.kind, op.key)
    fields = None if there is None else repr(there.fields)
    return [Change(-1, op.kind, fields, fields)]


LOOKED = {**LOOK, EntitySet: _entity, EntityGone: _entity}


class Marks:
    """The marks of a log, which grow with it. One thread adds; any thread asks `of`."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[Mark]] = {kind: [] for kind in KINDS}
        self._newest: dict[str, deque[Mark]] = {kind: deque(maxlen=NEWEST_MAX) for kind in KINDS if kind not in COUNTED}
        self._moves = Moves()
        self._gathering: Gathering | None = None
        self._leader = (-1, -1)
        """(controller, epoch) that was elected last."""

    def of(self, kinds: Sequence[str] | None = None) -> list[Mark]:
        """All marks of some kinds, by offset. Raises ValueError for a kind that does not exist."""
        unknown = set(kinds or ()) - set(KINDS)
        if unknown:
            raise ValueError(f"there is no kind of mark {min(unknown)!r}, only {', '.join(KINDS)}")
        found = [one for kind in (KINDS if kinds is None else kinds) for one in list(self._by_kind[kind])]
        return sorted(found, key=lambda one: one.offset)

    def newest(self, kind: str) -> list[Mark]:
        """The newest marks of a kind that is not of partitions, each as it was made, by offset."""
        return list(self._newest[kind])

    def begin(self, found: Replay) -> None:
        """Note from whose image marks are made."""
        self._gathering = Gathering(found, look=LOOKED)
        self._leader = (found.quorum.leader_id, found.quorum.epoch)

    def take(self, found: Replay, met: Met) -> None:
        """Replay a batch into the image, and commit what is no part of an open transaction."""
        assert self._gathering is not None, "begin comes first"
        self._gathering.take(met)
        self._elected(found, met)
        if found.image.open_transaction >= 0:
            return
        few, starts, times = self._gathering.drained()
        offsets, kinds = self._moves.of(found.image)
        found.image.commit(found.image.next_offset)
        for change in few:
            if change.kind == "registration" and change.new is None:
                continue  # its fencing says that it is gone
            self._add(_named(change, _time(change.offset, starts, times)))
        if len(offsets):
            self._count(offsets, kinds, times[np.searchsorted(starts, offsets, side="right") - 1])

    def _elected(self, found: Replay, met: Met) -> None:
        leader = (found.quorum.leader_id, found.quorum.epoch)
        if leader[0] >= 0 and leader != self._leader and not met.ops:
            self._leader = leader
            about = f"controller {leader[0]} leads, epoch {leader[1]}"
            self._add(Mark(met.batch.base_offset, found.quorum.timestamp_ms, "election", about))

    def _count(self, offsets: NDArray[np.int64], kinds: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        """Add marks of partitions: those of a kind that lie in one second become one."""
        for bit, kind, about in OF_PARTITIONS:
            chosen = np.flatnonzero(kinds & bit)
            if not len(chosen):
                continue
            seconds = times[chosen] // 1000
            firsts = np.concatenate([[0], np.flatnonzero(np.diff(seconds)) + 1])
            counts = np.diff(np.append(firsts, len(chosen)))
            for first, count in zip(chosen[firsts].tolist(), counts.tolist(), strict=True):
                self._add(Mark(int(offsets[first]), int(times[first]), kind, about, count))

    def _add(self, mark: Mark) -> None:
        marks = self._by_kind[mark.kind]
        last = marks[-1] if marks else None
        if last and mark.kind in COUNTED and last.about == mark.about and last.time_ms // 1000 == mark.time_ms // 1000:
            marks[-1] = last._replace(number=last.number + mark.number)
            return
        marks.append(mark)
        if mark.kind in self._newest:
            self._newest[mark.kind].append(mark)
        if len(marks) > MARKS_MAX:
            self._by_kind[mark.kind] = _halved(marks)


COUNTED = frozenset(kind for _, kind, _ in OF_PARTITIONS)


def _halved(marks: list[Mark]) -> list[Mark]:
    """Each two neighbours as one."""
    found = []
    for at in range(0, len(marks), 2):
        one, other = marks[at], marks[at + 1] if at + 1 < len(marks) else None
        if other is not None:
            about = one.about if one.about == other.about else ""
            one = one._replace(number=one.number + other.number, about=about)
        found.append(one)
    return found


def _time(offset: int, starts: NDArray[np.int64], times: NDArray[np.int64]) -> int:
    return int(times[int(np.searchsorted(starts, offset, side="right")) - 1])


def _named(change: Change, time_ms: int) -> Mark:
    kind, about = NAMED.get(change.kind, _of_entity)(change)
    return Mark(change.offset, time_ms, kind, about)


def _of_broker(change: Change) -> tuple[str, str]:
    if change.kind == "registration" and change.old and change.new:
        old, new = json.loads(change.old), json.loads(change.new)
        if old["epoch"] == new["epoch"]:
            lost = set(new["log_dirs"]) < set(old["log_dirs"])
            return "broker", f"broker {change.broker} {'lost a log directory' if lost else 'changed'}"
    return "broker", f"broker {change.broker} {BROKER_WORDS[change.kind, change.new is not None].format(change.new)}"


BROKER_WORDS = {
    ("fencing", True): "{}",
    ("fencing", False): "gone",
    ("registration", True): "registered",
    ("shutdown", True): "leaving",
    ("shutdown", False): "stays",
}


def _of_entity(change: Change) -> tuple[str, str]:
    words = f"{'acl' if change.kind == 'acl_id' else change.kind} {'removed' if change.new is None else 'set'}"
    return ("setting" if change.kind in ("quota", "controller") else "security"), words


NAMED: dict[str, Any] = {
    "fencing": _of_broker,
    "registration": _of_broker,
    "shutdown": _of_broker,
    "config": lambda change: ("setting", f"{change.resource} {change.name}"),
    "feature": lambda change: ("setting", f"feature {change.name}"),
    "topic": lambda change: ("topic", f"topic {change.topic} {'deleted' if change.new is None else 'made'}"),
}
