"""Splits of a path, which any process can read by itself, so that each record is read once.

This file alone decides where files are cut and what is wanted of each piece. Rules:

1. Splits cover the sound part of each file without overlap: a batch belongs to the split in which it begins, and so do
   damaged bytes. A torn batch or zeros at the end of a file that is being written belong to no split until the batch is
   whole. A torn batch in front of another segment is damage.
2. A split is a plain value: it can be pickled, kept in a checkpoint of a stream, and read on another machine that sees
   the same path. Its `end` stays valid when the file grows. If a log cleaner has put another file in its place, the split
   is the batches of that topic id with its offsets (`replaced.py`).
3. Requested offsets may lie inside batches. Records outside them are not decoded.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from actors.replay.columns import metadata, record_columns
from actors.replay.logs import files, replaced
from actors.replay.logs.chunks import CHUNK_BYTES, ChunkReading, chunks
from actors.replay.logs.copies import metadata_log
from actors.replay.logs.files import (
    Damage,
    FileTruncated,
    NothingToRead,
    Partition,
    Segment,
    mapped,
    repeated,
    still_there,
)
from actors.replay.topic_logs import topic_logs
from fastpath.records.scan import resync, scan

SPLIT_BYTES = 64 << 20
Key = tuple[str, int]
"""The name of a log: (topic, partition)."""


class Split(NamedTuple):
    """`[begin, end)` of a file, on batch boundaries, and the offsets in it that are wanted."""

    path: str
    begin: int
    end: int
    topic: str
    partition: int
    table: str
    """The table that the split is of: `records` or `log`."""
    family: str
    """family of a metadata log: `drafts` or `released`; else empty"""
    base_offset: int
    """base offset of the first batch in it"""
    next_offset: int
    """offset after the last batch in it"""
    records: int
    """number of records in its batches, according to their headers"""
    first_offset: int = 0
    """first offset that is wanted"""
    end_offset: int = -1
    """end of the wanted offsets, exclusive; -1: to the end"""
    fingerprint: int = -1
    """The fingerprint of its batches (`replaced.mark`); -1: not known."""
    topic_id: bytes = b""
    """The id of the topic; empty: not known."""


class Source(NamedTuple):
    """The logs under a path, for one table. Nothing is read before it is needed."""

    table: str
    logs: tuple[Partition, ...]
    family: str = ""

    @property
    def keys(self) -> list[Key]:
        """(topic, partition) of every log."""
        return [(log.topic, log.number) for log in self.logs]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `read` returns by default."""
        return record_columns.COLUMNS if self.table == "log" else tuple(metadata.records_schema(self.family).names)

    def schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The schema of what `read` returns for these columns. Raises ValueError for a column that does not exist."""
        return schema(self.table, self.family, columns)

    def refuse_missing(self, partitions: Iterable[int]) -> None:
        """Raise NothingToRead if no log here is of one of these partitions."""
        missing = sorted(set(partitions) - {log.number for log in self.logs})
        if missing:
            there = sorted({log.number for log in self.logs})
            shown = f"0 to {there[-1]}" if there == list(range(len(there))) else ", ".join(map(str, there[:5])) + " ..."
            raise NothingToRead(f"there is no partition {' or '.join(map(str, missing[:5]))}, only {shown}.")

    def splits(
        self,
        bytes_max: int = SPLIT_BYTES,
        first: Mapping[Key, int] | None = None,
        end: Mapping[Key, int] | None = None,
    ) -> list[Split]:
        """Splits of about `bytes_max` file bytes, by log and offset. `first` and `end` (exclusive): offsets by log."""
        found: list[Split] = []
        for log in self.logs:
            key = (log.topic, log.number)
            found += self._splits(log, bytes_max, (first or {}).get(key, 0), (end or {}).get(key, -1))
        return found

    def _splits(self, log: Partition, bytes_max: int, low: int, high: int) -> list[Split]:
        """The splits of one log. If a node has deleted or replaced a file since the log was listed, its directory is listed
        once more."""
        listed = [log]

        def look() -> list[Split]:
            now = listed[-1]
            whole = Split("", 0, 0, log.topic, log.number, self.table, self.family, 0, 0, 0, low, high)
            if self.table == "log":
                whole = whole._replace(topic_id=_still(log) or log.topic_id)
            found: list[Split] = []
            try:
                for file in now.segments or [Segment(one.path, -1) for one in now.checkpoints]:
                    if 0 <= file.next_offset <= low or 0 <= high <= file.base_offset:
                        continue
                    found += _cut(file.path, bytes_max, whole, file.next_offset)
            except FileNotFoundError:
                if len(now.files) > 1:  # one file may be all that was asked for
                    listed.append(files.partitions(log.directory)[0])
                raise
            if self.table == "log":
                _still(log._replace(topic_id=whole.topic_id))
            return found

        return repeated(look)

    def ends(self) -> dict[Key, int]:
        """The offset after the last whole batch of every log, now; for an empty log its base offset."""
        found: dict[Key, int] = {}
        for log in self.logs:
            for segment in reversed(log.segments):
                end = files.behind(segment.path)
                found[log.topic, log.number] = end if end >= 0 else max(segment.base_offset, 0)
                if end >= 0:
                    break
        return found

    def beginnings(self) -> dict[Key, int]:
        """The first offset that each log's files may hold."""
        return {(log.topic, log.number): max(log.segments[0].base_offset, 0) for log in self.logs if log.segments}


def _still(log: Partition) -> bytes | None:
    """The topic id in the directory of a log. Raises FileNotFoundError if it is another one than when the log was
    listed."""
    now = files.topic_id(log.directory)
    if log.topic_id and now is not None and now != log.topic_id:
        raise _made_again(log)
    return now


def _made_again(log: Partition) -> FileNotFoundError:
    return FileNotFoundError(f"{log.directory} is gone: its topic was deleted and made again")


def open(path: str | Path, table: str | None = None, topics: Sequence[str] = (), family: str | None = None) -> Source:
    """Open a path: a file, or the directory of a partition, a node or a cluster.

    `table`: `records` (of the one metadata log) or `log` (of topics; only of `topics` if given). By default `records`
    if there is one metadata log and no topic is named, else `log`. `family`: of the metadata log, if its directory does
    not say.
    Raises NothingToRead, FileNotFoundError, FamilyUnknown.
    """
    return repeated(lambda: _opened(path, table, topics, family))


def _opened(path: str | Path, table: str | None, topics: Sequence[str], family: str | None) -> Source:
    if table is None:
        table = "log"
        if not topics:
            try:
                return _opened(path, "records", (), family)
            except NothingToRead:
                pass
    if table == "log":
        return Source(table, tuple(topic_logs(path, tuple(topics))))
    if table != "records":
        raise ValueError(f"a path has no table {table!r} to open: write records or log.")
    log = metadata_log(path)
    return Source(table, (log,), files.family(log, family))


def schema(table: str, family: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a table's columns; None: the usual ones. Raises ValueError for a column that does not exist."""
    if table == "log":
        return record_columns.schema(record_columns.COLUMNS if columns is None else columns)
    return metadata.records_schema(family, columns)


def read(
    split: Split,
    columns: Sequence[str] | None = None,
    verify: bool = True,
    on_damage: Callable[[Damage], None] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of a split in Arrow batches, in order. Only these columns are built.

    `verify`: check the CRC of every batch. `on_damage`: called with damaged bytes, which are then skipped; None: they
    raise CorruptLog, which names file and position. `on_progress`: called with the number of bytes of the file read
    since the last call. Raises FileNotFoundError when the records were deleted, FileTruncated when the log ends before the
    split does: what is left of it was given then.
    """
    reading = ChunkReading.of(verify, on_damage, chunk_bytes)
    if on_progress is not None:
        reading = reading._replace(on_progress=on_progress)
    low, high = split.first_offset, split.end_offset
    pieces, whole = replaced.pieces(split)
    if split.table == "records":
        for path, data, begin, end in pieces:
            yield from metadata.records_of(path, split.family, reading, columns, begin, end, low, high, data)
    else:
        wanted = record_columns.COLUMNS if columns is None else columns
        decoder = record_columns.Decoder(split.topic, split.partition, wanted, reading, low, high)
        for path, data, begin, end in pieces:
            for chunk in chunks(path, reading, begin, end, record_columns.keep(low, high), data):
                yield from decoder.batches(chunk)
    if not whole:
        raise FileTruncated(Path(split.path))


def _cut(path: Path, bytes_max: int, whole: Split, following: int = -1) -> Iterator[Split]:
    """The splits of one file, of about equal size. Headers are read, CRCs are not checked. `following`: where the next
    segment begins, if the file is written no longer. What lies behind that is the next segment's: while a cleaner puts one
    file in the place of several, there may be both."""
    data = mapped(path)
    position, stop, rolled = 0, len(data), following >= 0
    bytes_max = -(-stop // max(-(-stop // bytes_max), 1))
    while position < (stop := min(stop, still_there(data))):
        begin, base, after, records, fingerprint = position, -1, 0, 0, 0
        end = position
        while position < (stop := min(stop, still_there(data))) and position - begin < bytes_max:
            headers, position, fault = scan(data, position, stop, False, bytes_max=bytes_max - (position - begin))
            if rolled:
                headers = headers[headers["base_offset"] < following]
            if len(headers):
                base = int(headers[0]["base_offset"]) if base < 0 else base
                after = int(headers[-1]["last_offset"]) + 1
                end = int(headers[-1]["position"] + headers[-1]["size"])
                records += int(headers["count"].sum())
                fingerprint = replaced.mark(fingerprint, headers)
            if fault is not None:
                cut = fault == "the bytes end inside the batch" and not rolled
                position = resync(data, position + 1, stop)
                end = end if cut and position == stop else position
        if base >= 0 or end > begin:
            first, behind = whole.first_offset, whole.end_offset
            if (after > first or base < 0) and (behind < 0 or base < behind):
                yield whole._replace(
                    path=str(path),
                    begin=begin,
                    end=end,
                    base_offset=base,
                    next_offset=after,
                    records=records,
                    fingerprint=fingerprint,
                )
