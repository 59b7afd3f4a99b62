"""Reads logs and snapshots as Arrow, for Python, Spark, Ray Data and the command line: the reader's API.

    from actors import replay                                     # or: import rayft; rayft.replay
    source = replay.open(path, table=None, topics=(), family=None)          -> Source
    source.table, .family, .keys, .columns, .schema(columns)                what it contains
    source.splits(bytes_max, first={(topic, n): offset}, end={...})         -> list[Split], on batch boundaries, picklable
    source.beginnings(), source.ends()                                      -> {(topic, n): offset}, as the files are now
    replay.read(split, columns=None, verify=True, on_damage=None)           -> Iterator[pyarrow.RecordBatch]
    replay.schema(table, family, columns)                                   -> pyarrow.Schema of what read gives
    replay.state(path, as_of=None, tables=None)                             -> {name: pyarrow.Table}
    replay.changes(path, since=None, until=None, kinds=...)                 -> Iterator[pyarrow.RecordBatch]
    replay.History(path)                                                    a metadata log over time: any moment, at once
    replay.why(history, at=None)                                            -> [Explanation]: what is wrong, since when, why

`table` is `records` for a metadata log (common columns, and a struct for each record type) and `log` for topics (the
columns of Spark's own kafka source). A path is a file, or the directory of a partition, a node or a cluster. `as_of`,
`since` and `until` are an offset (exclusive end) or a datetime. Damaged bytes raise CorruptLog with file and position.
With `on_damage` they are skipped instead, and `on_damage` is called with a Damage. A file that a node truncates meanwhile
ends there, or raises FileTruncated where what was read cannot be told from what was cut off. Only the requested columns are
built.

The reader reads what nodes wrote, rayft's or Apache Kafka's, and never writes there. A name's module is imported on
first use: importing this package loads neither pyarrow nor Ray nor Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors.replay.columns.history import changes
    from actors.replay.columns.tables import TABLES, state
    from actors.replay.logs.files import CorruptLog, Damage, FamilyUnknown, FileTruncated, NothingToRead
    from actors.replay.source import Source, Split, open, read, schema
    from actors.replay.timeline.history import History
    from actors.replay.timeline.why import why, why_partition

_WHERE = {
    "CorruptLog": "logs.files",
    "Damage": "logs.files",
    "FamilyUnknown": "logs.files",
    "FileTruncated": "logs.files",
    "History": "timeline.history",
    "NothingToRead": "logs.files",
    "Source": "source",
    "Split": "source",
    "TABLES": "columns.tables",
    "changes": "columns.history",
    "open": "source",
    "read": "source",
    "schema": "source",
    "state": "columns.tables",
    "why": "timeline.why",
    "why_partition": "timeline.why",
}
__all__ = [
    "TABLES",
    "CorruptLog",
    "Damage",
    "FamilyUnknown",
    "FileTruncated",
    "History",
    "NothingToRead",
    "Source",
    "Split",
    "changes",
    "open",
    "read",
    "schema",
    "state",
    "why",
    "why_partition",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
