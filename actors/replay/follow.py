"""Follows a directory that nodes write into: positions, the end of each turn, and the splits between two positions.

This file alone decides what a position is: `{"topic-0@<topic id>": next offset, ...}`, a form that any checkpoint can hold.
Rules:

1. A position never goes back, and splits between two positions are the same whenever they are asked for: a query that
   restarts sees each record once, in order within its partition. In a compacted log it sees each record that is left
   then, even if segments are replaced between planning and reading (`replaced.py`).
2. A log that appears later is read from its beginning. Its entry is `[first offset, next offset]`, so that the checkpoint
   knows where it began before anything of it is planned. It becomes a number with the next records.
3. The topic id in a name tells a topic from another one of that name, whichever is longer. A log whose partition has an
   entry of another id only was deleted and made again: it is new, and the entry of the old one stays as it is. Names without
   an id are those of earlier versions, and of logs without one (Apache Kafka before 2.8). They fit any id.
4. If retention deleted records, a new leader truncated them, or their topic was deleted and made again, before they were
   read, that is an error (DataLoss). With `failOnDataLoss=false` the query goes on with what there is, and a warning,
   RecordsLost, says which offsets are left out.
5. `until=highWatermark` stops at the high watermark that the node last wrote beside its logs (every few seconds), so
   that no record is read that a failover may still remove. The default, `files`, reads up to the last whole batch.

Options beside those of read_options.py: startingOffsets (earliest, latest, or the offset of each partition as JSON),
maxRecordsPerTrigger, maxBytesPerTrigger, until, failOnDataLoss.
"""

import base64
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from actors.replay.logs.files import CorruptLog, FileTruncated, NothingToRead, Partition, repeated, topic_id
from actors.replay.read_options import ReadOptions, read_options, scan, split_bytes
from actors.replay.source import Key, Source, Split
from actors.replay.where import OFFSET_MAX

T = TypeVar("T")
K = TypeVar("K", str, Key)
"""A log by its name in a position, or by topic and partition."""
Entry = int | list[int]
"""The next offset of a log; of a log that is new since the position before, `[first offset, next offset]`."""
Position = dict[str, Entry]
"""`topic-0@<topic id>`, or `topic-0` if there is no id -> entry."""
Names = Mapping[Key, str]
"""The name of each log in a position."""
OPTIONS = {name.lower(): name for name in
           ("startingOffsets", "maxRecordsPerTrigger", "maxBytesPerTrigger", "until", "failOnDataLoss")}  # fmt: skip
UNTIL = ("files", "highWatermark")
HIGH_WATERMARKS = "replication-offset-checkpoint"
SHOWN = 5
"""How many names an error lists."""


def parted(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a stream, and the others."""
    own = {OPTIONS[name.lower()]: text for name, text in options.items() if name.lower() in OPTIONS}
    return own, {name: text for name, text in options.items() if name.lower() not in OPTIONS}


class DataLoss(RuntimeError):
    """Records are gone that were not read yet."""


class RecordsLost(UserWarning):
    """Records are gone that were not read yet, and the query goes on without them."""


class Followed:
    """A directory and how it is followed. Made from a reader's options. Raises ValueError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        own, others = parted(options)
        read = read_options(others)
        self.partitions = read.partitions
        """The partitions that the query names."""
        if read.topics:  # they may be created later
            read = read._replace(table=read.table or "log", topics=(), only=frozenset(read.topics))
        self.options = read._replace(partitions=None, only_partitions=read.partitions)
        if self.options.first_offset or self.options.end_offset >= 0:
            raise ValueError("a stream has no startOffset and endOffset: write startingOffsets")
        self.starting = _starting(own.get("startingOffsets", "earliest"))
        self.until = own.get("until", UNTIL[0])
        if self.until not in UNTIL:
            raise ValueError(f"until={self.until!r}: write {' or '.join(UNTIL)}")
        fail = own.get("failOnDataLoss", "true").lower()
        if fail not in ("true", "false"):
            raise ValueError(f"failOnDataLoss={fail!r}: write true or false")
        self.fail_on_data_loss = fail == "true"
        self.records_max = _limit(own, "maxRecordsPerTrigger")
        self.bytes_max = _limit(own, "maxBytesPerTrigger")
        self.frozen: Position | None = None
        found = self.opened()
        self.options = self.options._replace(table=found.table, family=found.family or None)
        if found.table != "log" and self.until != UNTIL[0]:
            raise ValueError(f"until={self.until}: files do not say how far a metadata log is committed, write files")

    def opened(self) -> Source:
        """The logs that exist now. If a topic does not exist yet, it has no log here."""
        return self._opened(self.options)

    def _opened(self, options: ReadOptions) -> Source:
        try:
            return options.open()
        except NothingToRead:
            if self.options.table == "log":
                return Source("log", ())
            raise

    def beginning(self) -> Position:
        """The position at which a new query begins. Raises ValueError if the options name partitions that do not exist, or
        startingOffsets does not name each that does."""
        return self._looked(self._beginning)

    def _beginning(self, found: Source, names: Names) -> Position:
        every = self._opened(self.options._replace(only_partitions=None)) if self.partitions else found
        if self.partitions and every.logs:
            every.refuse_missing(self.partitions)
        if self.starting == "latest":
            return _position(names, self._ends(found, found.ends()))
        if isinstance(self.starting, str):
            return _position(names, found.beginnings())
        return _position(names, _each(self.starting, names))

    def now(self) -> Position:
        """The position after the last record that may be read now."""
        return self._looked(lambda found, names: _position(names, self._ends(found, found.ends())))

    def _ends(self, found: Source, ends: Mapping[Key, int]) -> Mapping[Key, int]:
        return _held_back(found, ends) if self.until == UNTIL[1] else ends

    def _looked(self, look: Callable[[Source, Names], T]) -> T:
        def once() -> T:
            found = self.opened()
            names = _names(found)
            result = look(found, names)
            if _names(found) != names:  # so what was looked at may have been of the one topic or of the other
                raise FileNotFoundError("a topic was deleted and made again while its log was looked at")
            return result

        return repeated(once)

    def freeze(self) -> None:
        """From now on, ignore everything newer than what exists now."""
        self.frozen = self.now()

    def latest(self, start: Position, records_max: int | None, bytes_max: int | None) -> Position:
        """The end of a turn from `start`, with at most `records_max` records or about `bytes_max` bytes. Raises
        DataLoss."""
        return self._looked(lambda found, names: self._latest(found, names, start, records_max, bytes_max))

    def _latest(
        self, found: Source, names: Names, start: Position, records_max: int | None, bytes_max: int | None
    ) -> Position:
        known, begun, reached = Known(start), found.beginnings(), found.ends()
        names = {key: known.name(name) for key, name in names.items()}
        low: dict[str, int] = {}
        for key, behind in reached.items():
            name, entry = names[key], known.entry(names[key])
            if entry is None:
                self._made_again(name, known)
            low[name] = begun.get(key, 0) if entry is None else after(entry)
            self._reached(name, 0 if entry is None else low[name], behind)
        ends = {names[key]: end for key, end in self._ends(found, reached).items()}
        if self.frozen is not None:
            frozen = Known(self.frozen)
            stops = {name: frozen.entry(name) for name in ends}
            ends = {name: min(ends[name], after(stop)) for name, stop in stops.items() if stop is not None}
        ahead = {name: end for name, end in ends.items() if end > low[name]}
        if records_max is not None:
            ahead = share(low, ahead, records_max)
        elif bytes_max is not None:
            ahead = _bytes(found, names, low, ahead, bytes_max)
        return {
            **{name: entry for name, entry in start.items() if name not in known.renamed(names.values())},
            **{name: _entry(known.entry(name), low[name], max(low[name], ahead.get(name, 0))) for name in ends},
        }

    def splits(self, start: Position, end: Position) -> list[Split]:
        """The records between two positions. Raises DataLoss."""
        return self._looked(lambda found, names: self._splits(found, names, start, end))

    def _splits(self, found: Source, names: Names, start: Position, end: Position) -> list[Split]:
        begun, ends = found.beginnings(), found.ends()
        before, planned = Known(start), Known(end)
        first: dict[Key, int] = {}
        stop: dict[Key, int] = {}
        there: set[str] = set()
        for key, own in names.items():
            name = planned.name(own)
            there |= {name, planned.holder(name)}
            entry, wanted = before.entry(name), planned.entry(name)
            stop[key] = 0 if wanted is None else after(wanted)
            first[key] = _first(entry, wanted, begun.get(key, 0))
            if stop[key] > first[key]:
                if entry is None:
                    self._made_again(name, before)
                self._complete(name, first[key], stop[key], begun.get(key, 0), ends.get(key, 0))
            else:
                self._reached(name, 0 if entry is None else after(entry), ends.get(key, 0))
        for name, wanted in end.items():
            low = _first(before.entry(name), wanted, 0)
            if after(wanted) > low and name not in there:
                self._lost(f"{_told(name)}: the log is gone, and offsets {low} to {after(wanted) - 1} were not read")
        ahead = tuple(log for log in found.logs if stop[log.topic, log.number] > first[log.topic, log.number])
        found = found._replace(logs=ahead)
        return found.splits(self.options.split_bytes or split_bytes(found), first, stop)

    def read(self, split: Split, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a split. Raises DataLoss for records that were removed after the split was made."""
        name = f"{split.topic}-{split.partition}"
        try:
            yield from scan(self.options, split, columns)
        except FileNotFoundError:
            self._lost(f"{name}: offsets up to {split.next_offset - 1} were deleted before they were read")
        except FileTruncated:
            self._lost(f"{name}: the log was truncated before offset {split.next_offset - 1} was read")

    def _complete(self, name: str, first: int, end: int, begun: int, behind: int) -> None:
        if first < begun:
            self._lost(
                f"{_told(name)}: offsets {first} to {begun - 1} were deleted before they were read ({begun - first} of them)"
            )
        if behind < end:
            self._lost(
                f"{_told(name)}: the log ends at {behind} and offset {end - 1} was seen: it was truncated "
                f"({end - behind} offsets)"
            )

    def _reached(self, name: str, seen: int, behind: int) -> None:
        if behind < seen:
            why = "it was truncated" if "@" in name else "it was truncated, or is another of that name"
            self._lost(f"{_told(name)}: the log ends at {behind}, below {seen}, up to where it was seen: {why}")

    def _made_again(self, name: str, known: "Known") -> None:
        """Warn or raise DataLoss if a log that no entry fits belongs to a topic that was deleted and made again."""
        other = known.other(name)
        if other is not None:
            old, new = other.partition("@")[2], name.partition("@")[2]
            self._lost(
                f"{_told(name)}: the topic was deleted and made again (its id was {old} and is {new}); what the old one had "
                f"from offset {after(known.position[other])} on was not read, and the new one is read from its first record"
            )

    def _lost(self, sentence: str) -> None:
        if self.fail_on_data_loss:
            raise DataLoss(f"{sentence}. Write failOnDataLoss=false to go on without them.")
        warnings.warn(f"{sentence}.", RecordsLost, stacklevel=2)


class Known:
    """A position, asked by the names that logs have now."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._newest = {_told(name): name for name in position}
        """`topic-0` -> its name in the position; of several, the one that was added last."""

    def name(self, name: str) -> str:
        """The name of a log in the position that follows: its own, but for a log without an id the one that it had."""
        return name if "@" in name else self._newest.get(name, name)

    def holder(self, name: str) -> str:
        """The name under which the entry of a log stands, if there is one."""
        return name if name in self.position else _told(name)

    def entry(self, name: str) -> Entry | None:
        """The entry of a log, of its topic id or without one; None if the log is new."""
        return self.position.get(self.holder(name))

    def other(self, name: str) -> str | None:
        """The name of an entry of another topic that has the same name and partition."""
        found = self._newest.get(_told(name))
        return None if found == name else found

    def renamed(self, names: Iterable[str]) -> set[str]:
        """The names in the position that stand for logs which have one of these names now."""
        return {self.holder(name) for name in names} - set(names)


def after(entry: Entry) -> int:
    """The offset after what an entry covers."""
    return entry if isinstance(entry, int) else entry[1]


def further(one: Position, other: Position) -> Position:
    """The entry of each log that reaches further, out of two positions."""
    both = {**one, **other}
    return {name: max(entry, one.get(name, entry), key=after) for name, entry in both.items()}


def _entry(before: Entry | None, first: int, end: int) -> Entry:
    """The entry of a log at the end of a turn. What does not advance stays as it is, so that no turn begins for it."""
    if before is None:
        return [first, end]
    return before if after(before) == end else end


def _first(before: Entry | None, planned: Entry | None, begun: int) -> int:
    """The first offset of a log in a turn. `begun`: for a turn that was planned by an earlier version."""
    if before is not None:
        return after(before)
    return planned[0] if isinstance(planned, list) else begun


def _each(given: Mapping[str, int], names: Names) -> dict[Key, int]:
    """The offset of each log in startingOffsets, with or without its id. Raises ValueError unless it names each once."""
    keys: dict[str, Key] = {}
    for key, name in names.items():
        keys[name] = keys[_told(name)] = key
    unknown = sorted(name for name in given if name not in keys)
    found = {keys[name]: offset for name, offset in given.items() if name in keys}
    missing = sorted(_told(name) for key, name in names.items() if key not in found)
    faults = []
    if unknown:
        faults.append(f"{_some(unknown)} fits no partition that is followed")
    if missing:
        faults.append(f"{_some(missing)} has no offset")
    if len(found) + len(unknown) < len(given):
        faults.append("a partition has two offsets")
    if faults:
        there = _some(sorted(map(_told, names.values()))) if names else "none yet"
        raise ValueError(f"startingOffsets: {', and '.join(faults)}: write one for each partition there is ({there})")
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _starting(text: str) -> str | dict[str, int]:
    if text in ("earliest", "latest"):
        return text
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(type(one) is int and 0 <= one <= OFFSET_MAX for one in given.values()):
        raise ValueError(f'startingOffsets={text!r}: write earliest, latest or JSON like {{"orders-0": 17}}')
    return given


def _limit(own: Mapping[str, str], name: str) -> int | None:
    if name not in own:
        return None
    if not own[name].isdigit() or int(own[name]) < 1:
        raise ValueError(f"{name}={own[name]!r}: write a number above 0")
    return int(own[name])


def _names(found: Source) -> Names:
    """The name of each log in a position."""
    return {(log.topic, log.number): _name(log, found.table) for log in found.logs}


def _name(log: Partition, table: str) -> str:
    written = topic_id(log.directory) if table == "log" else None
    name = f"{log.topic}-{log.number}"
    return name if written is None else f"{name}@{base64.urlsafe_b64encode(written).decode().rstrip('=')}"


def _told(name: str) -> str:
    """Topic and partition of a name."""
    return name.partition("@")[0]


def _position(names: Names, offsets: Mapping[Key, int]) -> Position:
    return {names[key]: offset for key, offset in sorted(offsets.items())}


def share(low: Mapping[K, int], ahead: dict[K, int], records_max: int) -> dict[K, int]:
    """Ends with at most `records_max` offsets before them, shared in proportion to what each log has. What is left over goes
    to logs whose share is less than an offset, so that a large log that grows does not keep others waiting."""
    total = sum(end - low[name] for name, end in ahead.items())
    if total <= records_max:
        return ahead
    shares = {name: (end - low[name]) * records_max // total for name, end in ahead.items()}
    order = sorted(ahead, key=lambda name: (shares[name] > 0, low[name] - ahead[name]))
    for name in order[: records_max - sum(shares.values())]:
        shares[name] += 1
    return {name: low[name] + share for name, share in shares.items()}


def _bytes(found: Source, names: Names, low: dict[str, int], ahead: dict[str, int], bytes_max: int) -> dict[str, int]:
    """For each log with new data, the first split of its share that holds a batch and not only damage."""
    names = {key: name for key, name in names.items() if name in ahead}
    found = found._replace(logs=tuple(log for log in found.logs if (log.topic, log.number) in names))
    first, end = ({key: place[name] for key, name in names.items()} for place in (low, ahead))
    reached: dict[str, int] = {}
    for split in found.splits(max(bytes_max // max(len(names), 1), 1), first, end):
        if split.base_offset >= 0:
            reached.setdefault(names[split.topic, split.partition], split.next_offset)
    return {name: min(reached.get(name, end), end) for name, end in ahead.items()}


def _held_back(found: Source, ends: Mapping[Key, int]) -> dict[Key, int]:
    """The ends, but no further than the high watermarks in the nodes' own checkpoints; 0 for a log that a checkpoint
    lacks."""
    known: dict[Path, dict[Key, int]] = {}
    held = dict(ends)
    for log in found.logs:
        path = log.files[0].parent.parent / HIGH_WATERMARKS
        if path not in known:
            known[path] = high_watermarks(path)
        key = (log.topic, log.number)
        held[key] = min(ends.get(key, 0), known[path].get(key, 0))
    return held


def high_watermarks(path: Path) -> dict[Key, int]:
    """(topic, partition) -> offset, from a node's checkpoint; empty if there is none. Raises CorruptLog."""
    try:
        bytes_ = path.read_bytes()
    except FileNotFoundError:
        return {}
    try:
        lines = bytes_.decode().split("\n")
        rows = [line.rsplit(" ", 2) for line in lines[2:] if line]
        return {(topic, int(number)): int(offset) for topic, number, offset in rows}
    except ValueError as error:
        raise CorruptLog(str(path), 0, "a line is not `topic partition offset`") from error
