"""The options of a read: path, table, columns and rows, given as text or as comparisons.

This file alone decides the options' names and how a comparison on a column narrows a read. Spark and Ray Data share it,
and it imports neither. Options (upper and lower case are the same):

    path table columns topics partitions family        what is read; lists with commas
    asOf kinds                                         the offset or time of a table of state; which changes
    startOffset endOffset startTime endTime types      which rows: end exclusive, times in ISO 8601 (UTC unless they say)
    verify damage splitBytes chunkBytes                how: true|false, fatal|skip, file bytes of a split and of a batch

A comparison narrows a read as the corresponding option would. It is exact for topic, partition and type by equality or
a list, and for offset and timestamp by order.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.replay import source
from actors.replay.columns import history, tables
from actors.replay.columns.as_of import AsOf
from actors.replay.columns.history import KINDS
from actors.replay.logs.chunks import ChunkReading
from actors.replay.logs.files import Damage, NothingToRead, repeated
from actors.replay.source import Source, Split
from actors.replay.topic_logs import tell_deleted
from actors.replay.where import OFFSET_MAX

SPLIT_BYTES_MIN, SPLIT_BYTES_MAX = 4 << 20, 128 << 20
SPLITS_A_CORE = 3
MATERIALIZED = (*tables.TABLES, "changes")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHUNK_BYTES = 4 << 20
"""File bytes of an Arrow batch: fewer than in a single process, so that a worker builds one while its reader uses
another."""


class ReadOptions(NamedTuple):
    """What a read covers. None, empty and -1: not restricted."""

    path: str
    table: str | None = None
    columns: tuple[str, ...] | None = None
    topics: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    """Topics that a comparison left. It is no error if one of them does not exist."""
    partitions: frozenset[int] | None = None
    only_partitions: frozenset[int] | None = None
    """Partitions that a comparison left. It is no error if one of them does not exist."""
    family: str | None = None
    first_offset: int = 0
    end_offset: int = -1
    first_us: int | None = None
    end_us: int | None = None
    types: frozenset[str] | None = None
    verify: bool = True
    skip_damage: bool = False
    as_of: int | datetime | None = None
    kinds: tuple[str, ...] = KINDS
    split_bytes: int = 0
    chunk_bytes: int = CHUNK_BYTES

    @property
    def materialized(self) -> bool:
        """Whether the table is not read in splits but built as a whole: the state as of an offset or a time, or
        changes."""
        return self.table in MATERIALIZED

    def schema(self) -> pa.Schema:
        """The schema of the rows. Raises ValueError for a column that does not exist, and as `open`."""
        if not self.materialized:
            try:
                return self.open().schema(self.columns)
            except NothingToRead:
                if not self.topics:
                    raise
                return source.schema("log", "", self.columns)  # for a stream: the topics may be created later
        whole = history.SCHEMA if self.table == "changes" else tables.SCHEMAS[str(self.table)]
        unknown = [name for name in self.columns or () if name not in whole.names]
        if unknown:
            raise ValueError(f"{self.table} has no column {unknown[0]!r}, only {', '.join(whole.names)}")
        return whole if self.columns is None else pa.schema([whole.field(name) for name in self.columns])

    def open(self) -> Source:
        """The logs to read. Raises NothingToRead, also for a partition that no topic has, FileNotFoundError,
        FamilyUnknown."""
        found = source.open(self.path, self.table, self.topics, self.family)
        if found.table != "log":
            return found
        if self.partitions is not None:
            found.refuse_missing(self.partitions)
        numbers = [one for one in (self.partitions, self.only_partitions) if one is not None]
        logs = [log for log in found.logs if all(log.number in one for one in numbers)]
        return found._replace(logs=tuple(log for log in logs if self.only is None or log.topic in self.only))

    def splits(self, found: Source, cores: int = 0) -> list[Split]:
        """The splits of the logs, enough for every core."""
        keys = found.keys
        first = {key: self.first_offset for key in keys}
        end = {key: self.end_offset for key in keys} if self.end_offset >= 0 else None
        return found.splits(self.split_bytes or split_bytes(found, cores), first, end)

    def planned(self, cores: int = 0) -> list[Split]:
        """The splits of the logs that exist now, while nodes write and clean. Errors as `open`."""
        found = repeated(lambda: self._opened_and_cut(cores))
        if found[0].table == "log":
            repeated(lambda: tell_deleted(self.path, found[0].logs))
        return found[1]

    def _opened_and_cut(self, cores: int) -> tuple[Source, list[Split]]:
        found = self.open()
        return found, self.splits(found, cores)


def split_bytes(found: Source, cores: int = 0) -> int:
    """The file bytes of a split, chosen so that every core gets a few splits."""
    total = sum(file.stat().st_size for log in found.logs for file in log.files)
    share = total // (SPLITS_A_CORE * (cores or os.cpu_count() or 1))
    return max(SPLIT_BYTES_MIN, min(SPLIT_BYTES_MAX, share))


# ---- options ------------------------------------------------------------------------------------------------------


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """The read that options in text describe. Raises ValueError with a sentence for an option that does not exist or is
    not valid."""
    values: dict[str, Any] = {}
    for name, text in options.items():
        found = _OPTIONS.get(name.lower())
        if found is None:
            raise ValueError(f"rayft has no option {name!r}, only {', '.join(sorted(NAMES))}")
        try:
            values[found[0]] = found[1](text)
        except ValueError as error:
            raise ValueError(f"option {name}={text!r}: {error}") from error
    _refuse(options, values.get("table"))
    if not values.get("path"):
        raise ValueError("give the path of a log: a file, or the directory of a partition, a node or a cluster")
    return ReadOptions(**values)


def _refuse(options: Mapping[str, str], table: str | None) -> None:
    """Raises ValueError for options that would be ignored."""
    meant = ("log", "records") if table is None else (table,)
    for name in options:
        about = ABOUT.get(_OPTIONS[name.lower()][0])
        if about is not None and not set(about) & set(meant):
            raise ValueError(f"option {name} does nothing for {table or 'a log'}: it is about {', '.join(about)}")


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _damage(text: str) -> bool:
    if text.lower() not in ("fatal", "skip"):
        raise ValueError("write fatal or skip")
    return text.lower() == "skip"


def _bytes(text: str) -> int:
    size = int(text)
    if size < 1:
        raise ValueError("write a number of bytes above 0")
    return size


def _as_of(text: str) -> int | datetime:
    return _offset(text) if text.lstrip("-").isdigit() else _utc(datetime.fromisoformat(text))


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _offset(text: str) -> int:
    offset = int(text)
    if not 0 <= offset <= OFFSET_MAX:
        raise ValueError(f"offsets are 0 to {OFFSET_MAX}")
    return offset


def microseconds(when: str | datetime) -> int:
    """A time as microseconds since 1970, UTC. A time without a zone is UTC."""
    past = _utc(datetime.fromisoformat(when) if isinstance(when, str) else when) - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


NAMES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "path": ("path", str),
    "table": ("table", str),
    "columns": ("columns", _list),
    "topics": ("topics", _list),
    "partitions": ("partitions", lambda text: frozenset(int(part) for part in _list(text))),
    "family": ("family", str),
    "asOf": ("as_of", _as_of),
    "kinds": ("kinds", _list),
    "startOffset": ("first_offset", _offset),
    "endOffset": ("end_offset", _offset),
    "startTime": ("first_us", microseconds),
    "endTime": ("end_us", microseconds),
    "types": ("types", lambda text: frozenset(_list(text))),
    "verify": ("verify", _flag),
    "damage": ("skip_damage", _damage),
    "splitBytes": ("split_bytes", _bytes),
    "chunkBytes": ("chunk_bytes", _bytes),
}
_OPTIONS = {name.lower(): found for name, found in NAMES.items()}
_ROWS = ("log", "records", "changes")
ABOUT: dict[str, tuple[str, ...]] = {
    "topics": ("log",),
    "partitions": ("log",),
    "as_of": tables.TABLES,
    "kinds": ("changes",),
    "types": ("records",),
    **dict.fromkeys(("first_offset", "end_offset", "first_us", "end_us"), _ROWS),
}
"""Option -> the tables to which it applies. Options that are not listed apply to every table."""


# ---- comparisons --------------------------------------------------------------------------------------------------


def narrowed(options: ReadOptions, column: str, sign: str, value: Any) -> ReadOptions | None:
    """The read that `column sign value` leaves (sign: = in < <= > >=), or None if the options cannot express it
    exactly."""
    if column in ("topic", "partition", "type") and sign in ("=", "in"):
        name = {"topic": "only", "partition": "only_partitions", "type": "types"}[column]
        given = frozenset(value if sign == "in" else (value,)) - {None}
        before: frozenset[Any] | None = getattr(options, name)
        change: dict[str, Any] = {name: given if before is None else before & given}
        return options._replace(**change)
    if value is None:
        return None
    if column == "offset" and sign in _RANGES:
        low, high = _RANGES[sign](int(value))
        end = options.end_offset if high is None else max(high, 0)
        end = end if options.end_offset < 0 else min(end, options.end_offset)
        return options._replace(first_offset=max(options.first_offset, low or 0), end_offset=end)
    if column == "timestamp" and sign in _RANGES:
        low, high = _RANGES[sign](microseconds(value))
        lows = [one for one in (options.first_us, low) if one is not None]
        highs = [one for one in (options.end_us, high) if one is not None]
        return options._replace(first_us=max(lows, default=None), end_us=min(highs, default=None))
    return None


_RANGES: dict[str, Callable[[int], tuple[int | None, int | None]]] = {
    "=": lambda value: (value, value + 1),
    "<": lambda value: (None, value),
    "<=": lambda value: (None, value + 1),
    ">": lambda value: (value + 1, None),
    ">=": lambda value: (value, None),
}
"""Comparison -> (first, exclusive end) of whole numbers."""


# ---- rows ---------------------------------------------------------------------------------------------------------


def scan(options: ReadOptions, split: Split, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a split that the options leave, with only these columns. Columns that are needed for the decision
    alone are dropped again."""
    deciding = [] if options.first_us is None and options.end_us is None else ["timestamp"]
    deciding += ["type"] if options.types is not None and split.table == "records" else []
    wanted = (*columns, *(name for name in deciding if name not in columns))
    on_damage = _skipped if options.skip_damage else None
    for batch in source.read(split, wanted, options.verify, on_damage, options.chunk_bytes):
        if deciding:
            batch = batch.filter(_mask(options, batch, split.table)).select(list(columns))
        if batch.num_rows:
            yield batch


def materialized(options: ReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a table that is built as a whole, in this process. `changes` uses the bounds of offsets and times."""
    on_damage = _skipped if options.skip_damage else None
    if options.table == "changes":
        since: AsOf = options.first_offset or _time(options.first_us)  # and what the other bound leaves of them: _mask
        until: AsOf = options.end_offset if options.end_offset >= 0 else _time(options.end_us)
        reading = ChunkReading.of(options.verify, on_damage)
        batches = history.changes(options.path, since, until, options.kinds, options.family, reading)
    else:
        name = str(options.table)
        found = tables.state(options.path, options.as_of, [name], options.family, options.verify, on_damage)
        batches = iter(found[name].to_batches())
    for batch in batches:
        if options.table == "changes" and (options.first_us, options.end_us) != (None, None):
            batch = batch.filter(_mask(options, batch, "changes"))
        yield batch.select(list(columns))


def _time(microseconds_: int | None) -> datetime | None:
    return None if microseconds_ is None else EPOCH + timedelta(microseconds=microseconds_)


def _skipped(damage: Damage) -> None:
    print(f"rayft: skipped {damage.path}, bytes {damage.position} to {damage.end}: {damage.reason}", flush=True)


def _mask(options: ReadOptions, batch: pa.RecordBatch, table: str) -> Any:
    mask = pa.scalar(True)
    if options.first_us is not None or options.end_us is not None:
        time = batch.column("timestamp").cast(pa.int64())
        if options.first_us is not None:
            mask = pc.and_(mask, pc.greater_equal(time, options.first_us))
        if options.end_us is not None:
            mask = pc.and_(mask, pc.less(time, options.end_us))
    if options.types is not None and table == "records":
        mask = pc.and_(mask, pc.is_in(batch.column("type"), pa.array(sorted(options.types), pa.string())))
    return mask
