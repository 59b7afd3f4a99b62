"""The changes of the metadata, each with its time, and the old and the new value.

    offset int64, timestamp timestamp[us, UTC], kind string, topic string, partition int32, broker int32,
    resource string, name string, old string, new string, old_ids list<int32>, new_ids list<int32>

This file alone decides what counts as a change, and how it is shown:

| kind | is about | old, new |
|---|---|---|
| leader | topic, partition | broker id, null: none. Leader epochs do not count: a leader elected again is no change |
| isr, replicas | topic, partition | ids in replica order: as text and as lists |
| topic | topic | topic id; null: does not exist |
| registration | broker | JSON of what the broker registered; null: not registered |
| fencing | broker | fenced, active; null: not registered |
| shutdown | broker | leaving, staying |
| config | resource (`topic:orders`), name | value, null: not set |
| feature | name | level, null: none |

The first state of a new partition is not shown as a change, nor is the removal of a deleted topic's partitions and
configurations. Changes of a metadata transaction appear at their own offsets once it has ended. Changes of an aborted
one never appear.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.metadata.image import Image
from actors.metadata.ops import (
    BrokerChanged,
    BrokerGone,
    BrokerSet,
    BrokerUnregistered,
    ConfigSet,
    FeatureSet,
    Op,
    TopicGone,
    TopicSet,
    Transaction,
)
from actors.replay.columns.arrow import plain, texts
from actors.replay.columns.as_of import AsOf, Met, Replay, milliseconds, opened
from actors.replay.columns.tables import CONFIG_RESOURCES, IDS, ids_of, uuid
from actors.replay.logs.chunks import ChunkReading
from actors.replay.logs.copies import metadata_log
from actors.replay.logs.files import Partition
from actors.settings.secret import shown
from fastpath.arrow import partition_columns

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("broker", pa.int32()),
        ("resource", pa.string()),
        ("name", pa.string()),
        ("old", pa.string()),
        ("new", pa.string()),
        ("old_ids", IDS),
        ("new_ids", IDS),
    ]
)
KINDS = ("leader", "isr", "replicas", "topic", "registration", "fencing", "shutdown", "config", "feature")
RECORDS_MAX = 200_000
"""About how many records' changes go into one Arrow batch."""


class Change(NamedTuple):
    """A change that is not of a partition. There are few of these."""

    offset: int
    kind: str
    old: str | None
    new: str | None
    topic: str | None = None
    broker: int | None = None
    resource: str | None = None
    name: str | None = None


def changes(
    path: str | Path,
    since: AsOf = None,
    until: AsOf = None,
    kinds: Sequence[str] = KINDS,
    family: str | None = None,
    reading: ChunkReading | None = None,
) -> Iterator[pa.RecordBatch]:
    """Changes of these kinds from `since` on (offset or time, inclusive) to `until` (as `as_of`), by offset."""
    known(kinds)

    def listed() -> Partition:
        log = metadata_log(path)
        if log.segments and (since is None or log.checkpoints):
            return log._replace(checkpoints=_needed(log.checkpoints, log.segments[0].base_offset))
        return log

    found = opened(listed, family, reading or ChunkReading(), until)
    return gathered(found, found.batches(), since, kinds)


def known(kinds: Sequence[str]) -> None:
    """Raise ValueError for a kind of change that does not exist."""
    unknown = set(kinds) - set(KINDS)
    if unknown:
        raise ValueError(f"there is no kind of change {min(unknown)!r}, only {', '.join(KINDS)}")


def _needed(checkpoints: Sequence[Any], base_offset: int) -> tuple[Any, ...]:
    """If the beginning of the log is gone, the oldest checkpoint that reaches it, so that no change in the files is
    missed."""
    reaching = [one for one in checkpoints if one.end_offset >= base_offset > 0]
    return tuple(sorted(reaching, key=lambda one: one.end_offset)[:1])


def gathered(found: Replay, batches: Iterable[Met], since: AsOf, kinds: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The changes of these kinds from `since` on that batches make which are replayed here."""
    gathering = Gathering(found, since, kinds)
    for met in batches:
        gathering.take(met)
        if gathering.records >= RECORDS_MAX:
            yield from gathering.told()
    gathering.end()
    yield from gathering.told()


class Gathering:
    """The changes that batches make to an image while they are replayed into it."""

    def __init__(
        self,
        found: Replay,
        since: AsOf = None,
        kinds: Sequence[str] | frozenset[str] = KINDS,
        look: "Mapping[type, Look] | None" = None,
    ) -> None:
        """`found`: whose batches are given to `take`. `since`, `kinds`: which changes are told. `look`: in the
        place of LOOK."""
        self._look = LOOK if look is None else look
        self.records = 0
        """How many records were taken since changes were told."""
        self._found = found
        self._since = since
        self._kinds = frozenset(kinds)
        self._few: list[Change] = []
        """The changes that are not of partitions."""
        self._gone: dict[int, tuple[int, str]] = {}
        """The topics that were deleted, by their rows: where, and their names."""
        self._starts: list[Any] = []
        self._times: list[Any] = []

    def take(self, met: Met) -> None:
        """Replay a batch."""
        self._starts.append(met.headers["base_offset"])
        self._times.append(met.headers["max_timestamp"])
        self.records += met.batch.last_offset - met.batch.base_offset + 1
        self._replay(met)

    def told(self) -> Iterator[pa.RecordBatch]:
        """The changes since the last call, as one Arrow batch; none if nothing changed, or if a metadata transaction is
        open: its changes count when it has ended."""
        if self.records and self._found.image.open_transaction < 0:
            gone = {row: name for row, (_, name) in self._gone.items()}
            yield from _told(self._found.image, self._few, gone, self._starts, self._times, self._since, self._kinds)
            self._forget()

    def drained(self) -> tuple[list[Change], Any, Any]:
        """The changes since the last call that are not of partitions, and the first offset and the time in ms (int64) of
        each batch since then. No metadata transaction may be open."""
        found = self._few, np.concatenate(self._starts), np.concatenate(self._times)
        self._forget()
        return found

    def skip(self) -> None:
        """Leave out the changes since the last call, but those of a metadata transaction that is open."""
        began = self._found.image.open_transaction
        self._found.image.commit(self._found.image.next_offset)
        if began < 0:
            self._forget()
        else:
            self._few = [one for one in self._few if one.offset >= began]

    def _forget(self) -> None:
        self._few, self._gone, self._starts, self._times, self.records = [], {}, [], [], 0

    def end(self) -> None:
        """Leave out the changes of a transaction that is still open where the log ends."""
        began = self._found.image.open_transaction
        if began >= 0:
            self._take_back(began)
            self._found.close()

    def _take_back(self, began: int) -> None:
        """Forget what a metadata transaction would have changed that began at an offset and came to nothing."""
        self._few = [one for one in self._few if one.offset < began]
        self._gone = {row: one for row, one in self._gone.items() if one[0] < began}

    def _replay(self, met: Met) -> None:
        self._replay_ops(met)
        self._found.replay(met._replace(ops=[]))

    def _replay_ops(self, met: Met) -> None:
        found, image = self._found, self._found.image
        plain: list[tuple[int, Op]] = []
        for offset, op in met.ops:
            if type(op) not in self._look:
                plain.append((offset, op))
                continue
            if not found.replay_ops(met, plain):
                return
            plain = []
            before = self._look[type(op)](image, op)
            if isinstance(op, TopicGone):
                row = image.topic_row(op.id)
                if row >= 0:
                    self._gone[row] = offset, image.topic_name(row)
            began = image.open_transaction
            if not found.replay_ops(met, [(offset, op)]):
                return
            if isinstance(op, Transaction) and op.edge == "abort":
                self._take_back(began)
            after = self._look[type(op)](image, op)
            self._few += [
                change._replace(offset=offset, new=then.new)
                for change, then in zip(before, after, strict=True)
                if change.old != then.new
            ]
        found.replay_ops(met, plain)


# ---- what there are few of: before and after an op ----------------------------------------------------------------


def _both(kind: str, value: str | None, **of: Any) -> Change:
    return Change(-1, kind, value, value, **of)


def _broker(image: Image, op: Any) -> list[Change]:
    one = image.broker(op.id)
    registered = fenced = leaving = None
    if one is not None:
        fields = {
            "epoch": one.epoch,
            "incarnation_id": uuid(one.incarnation_id),
            "endpoints": [f"{end.name}://{end.host}:{end.port}" for end in one.endpoints],
            "rack": one.rack,
            "log_dirs": [uuid(directory) for directory in one.log_dirs],
        }
        registered = json.dumps(fields, separators=(",", ":"))
        fenced = "fenced" if one.fenced else "active"
        leaving = "leaving" if one.in_controlled_shutdown else None
    return [
        _both("registration", registered, broker=op.id),
        _both("fencing", fenced, broker=op.id),
        _both("shutdown", leaving, broker=op.id),
    ]


def _config(image: Image, op: Any) -> list[Change]:
    value = image.config(op.resource_type, op.resource_name).get(op.name)
    resource = f"{CONFIG_RESOURCES.get(op.resource_type, op.resource_type)}:{op.resource_name}"
    return [_both("config", value, resource=resource, name=op.name)]


def _topic(image: Image, op: Any) -> list[Change]:
    row = image.topic_row(op.id)
    name = image.topic_name(row) if row >= 0 else op.name or None
    return [_both("topic", uuid(op.id) if row >= 0 else None, topic=name)]


def _feature(image: Image, op: Any) -> list[Change]:
    level = image.feature(op.name)
    return [_both("feature", str(level) if level else None, name=op.name)]


Look = Callable[[Image, Any], list[Change]]

LOOK: dict[type, Look] = {
    BrokerSet: _broker,
    BrokerChanged: _broker,
    BrokerGone: _broker,
    BrokerUnregistered: _broker,
    ConfigSet: _config,
    TopicSet: _topic,
    TopicGone: _topic,
    FeatureSet: _feature,
    Transaction: lambda image, op: [],
}
"""Op -> the function that lists what it may change, as it is in an image; the list is the same before and after."""


# ---- into Arrow ---------------------------------------------------------------------------------------------------


def _told(
    image: Image,
    few: list[Change],
    gone: dict[int, str],
    starts: list[Any],
    times: list[Any],
    since: AsOf,
    kinds: frozenset[str],
) -> Iterator[pa.RecordBatch]:
    """All changes since the last commit, as one Arrow batch; none if nothing changed. This commits them."""
    parts = _partitions(image, gone, kinds)
    image.commit(image.next_offset)
    rows = [_open(one) for one in few if one.kind in kinds]
    if rows:
        columns = {name: [getattr(one, name) for one in rows] for name in Change._fields}
        parts.append(pa.table({name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}))
    if not parts:
        return
    made = pa.concat_tables([_whole(part) for part in parts])
    offsets = made["offset"].to_numpy()
    at = np.searchsorted(np.concatenate(starts), offsets, side="right") - 1
    stamped = np.concatenate(times)[at] * 1000
    made = made.set_column(1, SCHEMA.field(1), plain(stamped, SCHEMA.field(1).type))
    order = plain(np.argsort(offsets, kind="stable"))
    made = made.take(order)
    if since is not None:
        by, least = ("offset", since) if isinstance(since, int) else ("timestamp", milliseconds(since) * 1000)
        made = made.filter(pc.greater_equal(made[by].cast(pa.int64()), least))
    yield from made.combine_chunks().to_batches()


def _open(one: Change) -> Change:
    """The change with its secrets hidden."""
    if one.kind != "config" or one.name is None:
        return one
    return one._replace(old=shown(one.name, one.old), new=shown(one.name, one.new))


def _whole(part: pa.Table) -> pa.Table:
    """The table with all columns: those that it lacks are null."""
    return pa.table(
        {one.name: part[one.name] if one.name in part.column_names else pa.nulls(len(part), one.type) for one in SCHEMA}
    )


def _partitions(image: Image, gone: dict[int, str], kinds: frozenset[str]) -> list[pa.Table]:
    found = partition_columns.journal(image)
    rows, old, new = found["row"], found["old"], found["new"]
    if not len(rows) or not kinds & {"leader", "isr", "replicas"}:
        return []
    both = (old["flags"] != 0) & (new["flags"] != 0)
    cells = partition_columns.partitions(image, rows)
    touched, places = np.unique(cells["topic"], return_inverse=True)
    names = [gone.get(row) or image.names.get(row) for row in touched.tolist()]
    topics = texts(names).take(plain(places))
    parts = []
    for kind in ("leader", "isr", "replicas"):
        if kind not in kinds:
            continue
        if kind == "leader":
            different = old["leader"] != new["leader"]
            values = {side: _leaders(cell["leader"]) for side, cell in (("old", old), ("new", new))}
        else:
            different = _differ(old[kind], new[kind])
            values = {side: ids_of(*cell[kind]) for side, cell in (("old", old), ("new", new))}
        chosen = plain(np.flatnonzero(different & both))
        if not len(chosen):
            continue
        part: dict[str, Any] = {
            "offset": plain(found["offset"]).take(chosen),
            "kind": pa.nulls(len(chosen), pa.string()).fill_null(kind),
            "topic": topics.take(chosen),
            "partition": plain(cells["number"]).take(chosen),
        }
        for side in ("old", "new"):
            ids = values[side].take(chosen)
            part[f"{side}_ids"] = ids
            text = pc.binary_join(ids.cast(pa.list_(pa.string())), ",")
            part[side] = text if kind != "leader" else pc.if_else(pc.equal(text, ""), None, text)
        parts.append(pa.table(part))
    return parts


def _leaders(leaders: Any) -> pa.Array:
    """Lists of one leader, or of none."""
    some = leaders >= 0
    offsets = np.concatenate([[0], np.cumsum(some)]).astype(np.int32)
    return ids_of(offsets, leaders[some])


def _differ(old: tuple[Any, Any], new: tuple[Any, Any]) -> Any:
    """Which rows of two columns of lists differ."""
    sizes, others = np.diff(old[0]), np.diff(new[0])
    different = sizes != others
    longest = int(sizes.max(initial=0))
    for at in range(longest):
        there = ~different & (sizes > at)
        different[there] = old[1][old[0][:-1][there] + at] != new[1][new[0][:-1][there] + at]
    return different
