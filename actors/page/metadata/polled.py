"""The metadata of a cluster whose log may not be read: what its brokers told, kept since the page was started.

This file alone decides that. Rules:

1. What brokers tell every few seconds is compared with what they told before. A difference makes a state of its own, with
   the time at which it was seen. States are numbered, and their numbers stand for offsets.
2. The last STATES_MAX states are kept, of not more than BYTES_MAX together but two, and CHANGES_MAX changes.
3. Brokers tell topics, partitions and those brokers that are active. One that is told no more, and has replicas, counts as
   fenced. The other tables are empty, which `notes` says.
"""

import datetime
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.client.metadata import Broker, Metadata, Topic
from actors.page.metadata.marks import marks_of
from actors.page.metadata.moments import Extent, Flow, Mark, Moment
from actors.page.metadata.slices import Wanted
from actors.replay.columns.as_of import milliseconds, time_of
from actors.replay.columns.history import SCHEMA as CHANGES
from actors.replay.columns.tables import SCHEMAS, uuid
from actors.replay.where import bound
from actors.why.explanations import Explanation, explain
from actors.why.facts import EXAMPLES_MAX, ClusterFacts, Trouble, TroubledPartition

STATES_MAX = 1_000
BYTES_MAX = 128 << 20
CHANGES_MAX = 100_000
MARKS_MAX = 2_000
POLLED = -1
"""The reading that these states are of: a log that can be read at last is another one."""


class Seen(NamedTuple):
    """A state as brokers told it."""

    number: int
    time_ms: int
    tables: dict[str, pa.Table]

    @property
    def bytes(self) -> int:
        """What its tables take, bytes."""
        return sum(one.nbytes for one in self.tables.values())


class _Told(NamedTuple):
    """What brokers told last, to be compared with."""

    brokers: dict[int, Broker]
    topics: dict[str, bytes]
    partitions: dict[tuple[str, int], tuple[int, tuple[int, ...], tuple[int, ...]]]
    """(topic, partition) -> (leader, ISR, replicas)"""


class Polled:
    """The states that were seen. Its methods may be called from any thread."""

    def __init__(self, why: str) -> None:
        """`why`: the sentence of the cluster that does not let its log be read."""
        self._why = why
        self._lock = threading.RLock()
        self._states: deque[Seen] = deque(maxlen=STATES_MAX)
        self._told = _Told({}, {}, {})
        self._changes: list[pa.Table] = []
        self._marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self._ended_ms = 0

    def take(self, metadata: Metadata, time_ms: int) -> bool:
        """Note what brokers tell now. Returns whether it is something else than before."""
        told = _told(metadata)
        with self._lock:
            self._ended_ms = max(time_ms, self._ended_ms)
            if self._states and told == self._told:
                return False
            number = self._states[-1].number + 1 if self._states else 1
            if self._states:
                self._note(told, number, self._ended_ms)
            self._told = told
            self._states.append(Seen(number, self._ended_ms, _tables(metadata, told)))
            while len(self._states) > 2 and sum(one.bytes for one in self._states) > BYTES_MAX:
                self._states.popleft()
            return True

    def _note(self, told: _Told, number: int, time_ms: int) -> None:
        time = time_of(time_ms)
        rows = [{"offset": number - 1, "timestamp": time, **one} for one in _differences(self._told, told)]
        table = pa.Table.from_pylist(rows, CHANGES)
        self._changes.append(table)
        self._marks.extend(marks_of(table, MARKS_MAX))
        count = sum(map(len, self._changes))
        while len(self._changes) > 1 and count - len(self._changes[0]) >= CHANGES_MAX:
            count -= len(self._changes.pop(0))

    # ---- what is known

    def extent(self) -> Extent:
        """The moments that there are."""
        with self._lock:
            first, last = self._states[0], self._states[-1]
            return Extent(first.number, last.number, first.time_ms, self._ended_ms, last.number, POLLED)

    def moment(self, at: str) -> Moment:
        """The moment that a text names; empty: now. Raises ValueError for one that was not seen."""
        extent = self.extent()
        if not at:
            return Moment(extent.end, extent.ended_ms, True)
        wanted = bound(at, time_of(extent.ended_ms))
        seen = self._until(wanted)
        if seen is None:
            begun = time_of(extent.begun_ms)
            raise ValueError(f"this page was started at {begun:%Y-%m-%d %H:%M:%S} UTC and knows nothing of before.")
        return Moment(seen.number, seen.time_ms, False)

    def _until(self, wanted: int | datetime.datetime) -> Seen | None:
        with self._lock:
            states = list(self._states)
        if isinstance(wanted, int):
            return next((one for one in reversed(states) if one.number <= wanted), None)
        return next((one for one in reversed(states) if one.time_ms <= milliseconds(wanted)), None)

    def table(self, name: str, moment: Moment) -> pa.Table:
        """A table of a moment; empty where brokers do not tell it. Raises ValueError for a name that does not exist."""
        if name not in SCHEMAS:
            raise ValueError(f"there is no table {name!r} of a moment, only {', '.join(SCHEMAS)}")
        seen = self._until(moment.offset)
        found = seen.tables.get(name) if seen is not None else None
        return found if found is not None else SCHEMAS[name].empty_table()

    def columns(self, name: str, moment: Moment, names: Sequence[str]) -> pa.Table:
        """Some columns of a table of a moment."""
        return self.table(name, moment).select(list(names))

    def slice(self, name: str, moment: Moment, wanted: Wanted, first: int, n: int) -> tuple[pa.Table, int] | None:
        """No cheaper way: tables are at hand as a whole."""
        return None

    def explain(self, moment: Moment, live: ClusterFacts | None) -> list[Explanation]:
        """What is wrong at a moment. `live`: what the cluster answers now."""
        facts = facts_of(self.table("partitions", moment), self.table("brokers", moment), moment.time_ms)
        if live is not None:
            facts = facts._replace(
                now_ms=max(facts.now_ms, live.now_ms), quorum=live.quorum, log_dirs=live.log_dirs,
                transactions=live.transactions, groups=live.groups,
            )  # fmt: skip
        return explain(facts)

    def changes(self) -> pa.Table:
        """The changes that were seen, by number of the state."""
        with self._lock:
            return pa.concat_tables(self._changes) if self._changes else CHANGES.empty_table()

    def marks(self) -> list[Mark]:
        """The newest marks."""
        with self._lock:
            return sorted(self._marks)

    def flow(self, count: int) -> Flow:
        """The time since the page was started in so many stretches."""
        extent = self.extent()
        with self._lock:
            times = np.array([one.time_ms for one in self._states], dtype=np.int64)
            numbers = np.array([one.number for one in self._states], dtype=np.int64)
        edges = np.linspace(extent.begun_ms, max(extent.ended_ms, extent.begun_ms + 1), count + 1)
        changed = self.changes()["timestamp"].cast(pa.int64()).to_numpy() // 1000
        records, _ = np.histogram(times, edges)
        changes, _ = np.histogram(changed, edges)
        at = np.maximum(np.searchsorted(times, edges[1:], side="right") - 1, 0)
        return Flow(extent.begun_ms, extent.ended_ms, records.tolist(), changes.tolist(), numbers[at].tolist())

    def notes(self) -> list[str]:
        """The sentence that says what this history is."""
        began = time_of(self.extent().begun_ms)
        return [
            f"The metadata log cannot be read here ({self._why}), so the history is what brokers have told since this page "
            f"was started, {began:%Y-%m-%d %H:%M:%S} UTC. Rules, users, quotas and settings are not in it. Grant "
            f"CLUSTER_ACTION on the cluster, or give a controller's address and login, to see all of it."
        ]


def _told(metadata: Metadata) -> _Told:
    return _Told(
        dict(metadata.brokers),
        {name: topic.id for name, topic in metadata.topics.items()},
        {
            (topic.name, one.number): (one.leader, tuple(one.isr), tuple(one.replicas))
            for topic in metadata.topics.values()
            for one in topic.partitions.values()
        },
    )


def _differences(old: _Told, new: _Told) -> Iterator[dict[str, Any]]:
    """The rows of `changes` that lead from one state to another, without offset and time."""
    for broker in sorted(old.brokers.keys() | new.brokers.keys()):
        before, after = broker in old.brokers, broker in new.brokers
        if before != after:
            words = {True: "active", False: "fenced"}
            yield {"kind": "fencing", "broker": broker, "old": words[before], "new": words[after]}
    for topic in sorted(old.topics.keys() | new.topics.keys()):
        one, other = old.topics.get(topic), new.topics.get(topic)
        if one != other:
            ids = [uuid(raw) if raw is not None else None for raw in (one, other)]
            yield {"kind": "topic", "topic": topic, "old": ids[0], "new": ids[1]}
    for part in sorted(old.partitions.keys() & new.partitions.keys()):
        if old.partitions[part] != new.partitions[part]:
            yield from _of_partition(part, old.partitions[part], new.partitions[part])


def _of_partition(part: tuple[str, int], old: Any, new: Any) -> Iterator[dict[str, Any]]:
    of = {"topic": part[0], "partition": part[1]}
    if old[0] != new[0]:
        ids = [[one] if one >= 0 else [] for one in (old[0], new[0])]
        text = [str(one[0]) if one else None for one in ids]
        yield {"kind": "leader", **of, "old": text[0], "new": text[1], "old_ids": ids[0], "new_ids": ids[1]}
    for kind, at in (("isr", 1), ("replicas", 2)):
        if set(old[at]) != set(new[at]):
            text = [",".join(map(str, one[at])) for one in (old, new)]
            yield {
                "kind": kind,
                **of,
                "old": text[0],
                "new": text[1],
                "old_ids": list(old[at]),
                "new_ids": list(new[at]),
            }


def _tables(metadata: Metadata, told: _Told) -> dict[str, pa.Table]:
    topics = [metadata.topics[name] for name in sorted(metadata.topics)]
    return {
        "topics": pa.Table.from_pylist([_topic(one) for one in topics], SCHEMAS["topics"]),
        "partitions": pa.Table.from_pylist([row for one in topics for row in _partitions(one)], SCHEMAS["partitions"]),
        "brokers": pa.Table.from_pylist(list(_brokers(told)), SCHEMAS["brokers"]),
    }


def _topic(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "topic_id": uuid(topic.id), "partitions": len(topic.partitions), "deleting": False}


def _partitions(topic: Topic) -> Iterator[Mapping[str, Any]]:
    empty: dict[str, Any] = {name: [] for name in ("adding", "removing", "elr", "last_known_elr", "directories")}
    for number in sorted(topic.partitions):
        one = topic.partitions[number]
        yield {
            "topic": topic.name, "partition": number, "leader": one.leader if one.leader >= 0 else None,
            "leader_epoch": one.leader_epoch, "replicas": list(one.replicas), "isr": list(one.isr),
            "under_replicated": len(one.isr) < len(one.replicas), "topic_id": uuid(topic.id), "recovering": False, **empty,
        }  # fmt: skip


def _brokers(told: _Told) -> Iterator[Mapping[str, Any]]:
    counted: dict[int, list[int]] = {}
    for leader, isr, replicas in told.partitions.values():
        for place, ids in enumerate((replicas, (leader,), isr)):
            for one in ids:
                counted.setdefault(one, [0, 0, 0])[place] += 1
    counted.pop(-1, None)
    for number in sorted(told.brokers.keys() | counted.keys()):
        at = told.brokers.get(number)
        copies, led, in_isr = counted.get(number, (0, 0, 0))
        listed = [{"name": "", "host": at.host, "port": at.port, "protocol": None}] if at is not None else []
        yield {
            "broker": number, "fenced": at is None, "leaving": False, "rack": at.rack if at is not None else None,
            "endpoints": listed, "features": [], "replicas": copies, "led": led, "in_isr": in_isr, "log_dirs": [],
            "cordoned_log_dirs": [],
        }  # fmt: skip


def facts_of(partitions: pa.Table, brokers: pa.Table, now_ms: int) -> ClusterFacts:
    """The facts of tables that brokers told: who is away, and which partitions are in trouble."""
    away = {row["broker"]: row["replicas"] for row in brokers.to_pylist() if row["fenced"]}
    troubled = pc.or_(partitions["under_replicated"], pc.is_null(partitions["leader"]))
    rows = [_troubled(row) for row in partitions.filter(troubled).to_pylist()]
    lacking: dict[int, list[TroubledPartition]] = {}
    for one in rows:
        for broker in set(one.replicas) - set(one.isr):
            lacking.setdefault(broker, []).append(one)
    states = {row["broker"]: "away" if row["fenced"] else "active" for row in brokers.to_pylist()}
    return ClusterFacts(
        now_ms, states, away, _trouble([one for one in rows if one.leader < 0]),
        {broker: _trouble(some) for broker, some in lacking.items()},
    )  # fmt: skip


def _troubled(row: dict[str, Any]) -> TroubledPartition:
    leader = -1 if row["leader"] is None else row["leader"]
    return TroubledPartition(row["topic"], row["partition"], tuple(row["replicas"]), tuple(row["isr"]), leader)


def _trouble(some: list[TroubledPartition]) -> Trouble:
    return Trouble(len(some), tuple(some[:EXAMPLES_MAX]))
