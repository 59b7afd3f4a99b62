"""Following a directory that nodes write into: positions, the end of each turn, and the splits between two positions.

This file alone decides what a position is: `{"topic-0": next offset, ...}`, a form that any checkpoint can hold. Rules:

1. A position never goes back, and splits between two positions are the same whenever they are asked for: a query that
   restarts sees each record once, in order within its partition. Of a compacted log it sees each record that is left then,
   also if segments are replaced between planning and reading (`replaced.py`).
2. A log that appears later is read from its beginning.
3. If retention deleted records, or a new leader truncated them, before they were read, that is an error (DataLoss).
   With `failOnDataLoss=false` they are left out.
4. `until=highWatermark` stops at the high watermark that the node last wrote beside its logs (every few seconds), so
   that no record is read that a failover may still remove. The default, `files`, reads up to the last whole batch.

Options beside those of read_options.py: startingOffsets (earliest, latest, or a position as JSON), maxRecordsPerTrigger,
maxBytesPerTrigger, until, failOnDataLoss.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from actors.replay.files import CorruptLog, FileTruncated, NothingToRead
from actors.replay.read_options import read_options, scan, split_bytes
from actors.replay.source import Key, Source, Split, repeated

T = TypeVar("T")
Position = dict[str, int]
OPTIONS = {name.lower(): name for name in
           ("startingOffsets", "maxRecordsPerTrigger", "maxBytesPerTrigger", "until", "failOnDataLoss")}  # fmt: skip
UNTIL = ("files", "highWatermark")
HIGH_WATERMARKS = "replication-offset-checkpoint"


def parted(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The options of a stream, and the others."""
    own = {OPTIONS[name.lower()]: text for name, text in options.items() if name.lower() in OPTIONS}
    return own, {name: text for name, text in options.items() if name.lower() not in OPTIONS}


class DataLoss(RuntimeError):
    """Records are gone that were not read yet."""


class Followed:
    """A directory and how it is followed. Made from a reader's options. Raises ValueError."""

    def __init__(self, options: Mapping[str, str]) -> None:
        own, others = parted(options)
        read = read_options(others)
        if read.topics:  # they may be created later
            read = read._replace(table=read.table or "log", topics=(), only=frozenset(read.topics))
        self.options = read
        if self.options.first_offset or self.options.end_offset >= 0:
            raise ValueError("a stream has no startOffset and endOffset: write startingOffsets")
        self.starting = _starting(own.get("startingOffsets", "earliest"))
        self.until = own.get("until", UNTIL[0])
        if self.until not in UNTIL:
            raise ValueError(f"until={self.until!r}: write {' or '.join(UNTIL)}")
        self.fail_on_data_loss = own.get("failOnDataLoss", "true").lower() != "false"
        self.records_max = _limit(own, "maxRecordsPerTrigger")
        self.bytes_max = _limit(own, "maxBytesPerTrigger")
        self.frozen: Position | None = None
        found = self.opened()
        self.options = self.options._replace(table=found.table, family=found.family or None)
        if found.table != "log" and self.until != UNTIL[0]:
            raise ValueError(f"until={self.until}: files do not say how far a metadata log is committed, write files")

    def opened(self) -> Source:
        """The logs that exist now. A topic that does not exist yet has none."""
        try:
            return self.options.open()
        except NothingToRead:
            if self.options.table == "log":
                return Source("log", ())
            raise

    def beginning(self) -> Position:
        """The position at which a new query begins."""
        if self.starting == "latest":
            return self.now()
        earliest = self._looked(lambda found: _position(found.beginnings()))
        return earliest if isinstance(self.starting, str) else earliest | self.starting

    def now(self) -> Position:
        """The position after the last record that may be read now."""
        return self._looked(lambda found: self._ends(found, found.ends()))

    def _ends(self, found: Source, ends: Mapping[Key, int]) -> Position:
        return _position(_held_back(found, ends) if self.until == UNTIL[1] else ends)

    def _looked(self, look: Callable[[Source], T]) -> T:
        return repeated(lambda: look(self.opened()))

    def freeze(self) -> None:
        """From now on, ignore everything newer than what exists now."""
        self.frozen = self.now()

    def latest(self, start: Position, records_max: int | None, bytes_max: int | None) -> Position:
        """The end of a turn from `start`, with at most `records_max` records or about `bytes_max` bytes. Raises
        DataLoss."""
        return self._looked(lambda found: self._latest(found, start, records_max, bytes_max))

    def _latest(self, found: Source, start: Position, records_max: int | None, bytes_max: int | None) -> Position:
        reached = found.ends()
        for key, end in reached.items():
            self._reached(_name(key), start.get(_name(key), 0), end)
        ends = self._ends(found, reached)
        if self.frozen is not None:
            ends = {name: min(ends.get(name, end), end) for name, end in self.frozen.items()}
        begun = _position(found.beginnings())
        low = {name: start.get(name, begun.get(name, 0)) for name in ends}
        ahead = {name: end for name, end in ends.items() if end > low[name]}
        if records_max is not None:
            ahead = _share(low, ahead, records_max)
        elif bytes_max is not None:
            ahead = _bytes(found, low, ahead, bytes_max)
        return {**start, **{name: max(low[name], ahead.get(name, 0)) for name in ends}}

    def splits(self, start: Position, end: Position) -> list[Split]:
        """The records between two positions. Raises DataLoss."""
        return self._looked(lambda found: self._splits(found, start, end))

    def _splits(self, found: Source, start: Position, end: Position) -> list[Split]:
        begun, ends = found.beginnings(), found.ends()
        first: dict[Key, int] = {}
        for key in found.keys:
            name = _name(key)
            first[key] = start.get(name, begun.get(key, 0))
            if end.get(name, 0) > first[key]:
                self._complete(name, first[key], end[name], begun.get(key, 0), ends.get(key, 0))
            else:
                self._reached(name, start.get(name, 0), ends.get(key, 0))
        there = set(map(_name, found.keys))
        if lost := sorted(name for name in end if end[name] > start.get(name, 0) and name not in there):
            self._lost(f"the logs of {', '.join(lost)} are gone")
        stop = {key: end.get(_name(key), 0) for key in found.keys}
        ahead = tuple(log for log in found.logs if stop[log.topic, log.number] > first[log.topic, log.number])
        found = found._replace(logs=ahead)
        return found.splits(self.options.split_bytes or split_bytes(found), first, stop)

    def read(self, split: Split, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a split. Raises DataLoss for records that were removed after the split was made."""
        name = _name((split.topic, split.partition))
        try:
            yield from scan(self.options, split, columns)
        except FileNotFoundError:
            self._lost(f"{name}: offsets up to {split.next_offset - 1} were deleted before they were read")
        except FileTruncated:
            self._lost(f"{name}: the log was truncated before offset {split.next_offset - 1} was read")

    def _complete(self, name: str, first: int, end: int, begun: int, behind: int) -> None:
        if first < begun:
            self._lost(f"{name}: offsets {first} to {begun - 1} were deleted before they were read")
        if behind < end:
            self._lost(f"{name}: the log ends at {behind} and offset {end - 1} was seen: it was truncated")

    def _reached(self, name: str, seen: int, behind: int) -> None:
        if behind < seen:
            self._lost(
                f"{name}: the log ends at {behind}, below {seen}, up to where it was seen: "
                f"it was truncated, or is another of that name"
            )

    def _lost(self, sentence: str) -> None:
        if self.fail_on_data_loss:
            raise DataLoss(f"{sentence}. Write failOnDataLoss=false to go on without them.")


def _starting(text: str) -> str | Position:
    if text in ("earliest", "latest"):
        return text
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(type(offset) is int and offset >= 0 for offset in given.values()):
        raise ValueError(f'startingOffsets={text!r}: write earliest, latest or JSON like {{"orders-0": 17}}')
    return given


def _limit(own: Mapping[str, str], name: str) -> int | None:
    if name not in own:
        return None
    if not own[name].isdigit() or int(own[name]) < 1:
        raise ValueError(f"{name}={own[name]!r}: write a number above 0")
    return int(own[name])


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _position(offsets: Mapping[Key, int]) -> Position:
    return {_name(key): offset for key, offset in sorted(offsets.items())}


def _share(low: Position, ahead: Position, records_max: int) -> Position:
    """Ends with at most `records_max` offsets before them, shared in proportion to what each log has. At least one log
    advances."""
    total = sum(end - low[name] for name, end in ahead.items())
    if total <= records_max:
        return ahead
    shares = {name: (end - low[name]) * records_max // total for name, end in ahead.items()}
    for name in sorted(ahead, key=lambda name: low[name] - ahead[name])[: records_max - sum(shares.values())]:
        shares[name] += 1
    return {name: low[name] + share for name, share in shares.items()}


def _bytes(found: Source, low: Position, ahead: Position, bytes_max: int) -> Position:
    """For each log with new data, the first split of its share that holds a batch and not only damage."""
    names = {key: _name(key) for key in found.keys if _name(key) in ahead}
    found = found._replace(logs=tuple(log for log in found.logs if (log.topic, log.number) in names))
    first, end = ({key: place[name] for key, name in names.items()} for place in (low, ahead))
    reached: Position = {}
    for split in found.splits(max(bytes_max // max(len(names), 1), 1), first, end):
        if split.base_offset >= 0:
            reached.setdefault(_name((split.topic, split.partition)), split.next_offset)
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
        lines = path.read_text().split("\n")
    except FileNotFoundError:
        return {}
    try:
        rows = [line.rsplit(" ", 2) for line in lines[2:] if line]
        return {(topic, int(number)): int(offset) for topic, number, offset in rows}
    except ValueError as error:
        raise CorruptLog(str(path), 0, "a line is not `topic partition offset`") from error
