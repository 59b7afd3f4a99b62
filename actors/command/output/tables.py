"""`rayft replay` and `rayft compact`: tables on the screen, or in files. `command/replay.py` and `command/compact.py` define
the options.

This file alone decides what these commands print. Rows go to standard output (a readable table, or a JSON object a line),
progress and damage to standard error. Nothing is written into directories of nodes.
"""

import argparse
import base64
import datetime
import decimal
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from actors.printable import printable, unguarded
from actors.replay import checkpoint, source, sql
from actors.replay.columns import history, tables
from actors.replay.columns.as_of import AsOf, Replay, opened, time_of
from actors.replay.logs import files
from actors.replay.logs.chunks import ChunkReading, batches
from actors.replay.logs.copies import CopiesDiffer, metadata_log
from actors.replay.logs.files import Damage
from actors.replay.topic_logs import OtherTopic, tell_deleted, topic_logs
from actors.replay.where import Where, as_of_is_clock, bound

LONG = ("records", "changes", "log")
"""The tables that are read as a stream."""
EVERY = (*tables.TABLES, *LONG)
INTERRUPTED = 130
SCREEN_ROWS = 50
WIDTH = 200
"""The width in columns if the output is not a screen."""
PART_ROWS = 2_000_000
"""The number of rows in one Parquet file of a directory."""


# ---- replay -------------------------------------------------------------------------------------------------------


def replay(given: argparse.Namespace) -> int:
    """Run `rayft replay`. Returns the exit code."""
    try:
        with _Progress() as progress:
            _give(_rows(given, progress), given, progress)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _rows(given: argparse.Namespace, progress: "_Progress") -> Iterator[pa.RecordBatch]:
    refuse(given)
    scan = _Scan(given, progress)
    if given.sql:
        return sql.query(given.sql, {name: scan.maker(name) for name in EVERY})
    return scan.rows(given.table) if given.table else scan.summary()


def refuse(given: argparse.Namespace) -> None:
    """Check that no option makes another one useless, and that the table exists. Raises ValueError with a sentence."""
    if given.table is not None and given.table not in EVERY:
        raise ValueError(f"there is no table {given.table!r}, only {', '.join(EVERY)}")
    if given.limit is not None and given.limit < 0:
        raise ValueError(f"--limit {given.limit} is no number of rows: write 1 or more, or 0 for all.")
    if given.sql:
        for option, value in (("--table", given.table), ("--where", given.where), ("--columns", given.columns)):
            if value:
                raise ValueError(f"{option} does nothing beside --sql: leave it out, and say it in the query.")
    elif given.topic and given.table not in (None, "log"):
        raise ValueError(
            f"--topic does nothing for the table {given.table}: leave it out, or ask for log; see --where."
        )
    elif given.since is not None and given.table not in LONG:
        what = f"the table {given.table}" if given.table else "the list of tables"
        raise ValueError(
            f"--since does nothing for {what}, which is as of one moment: leave it out, or ask for {', '.join(LONG)}."
        )


class _Progress:
    """A progress bar on standard error, if that is a screen."""

    def __init__(self) -> None:
        self.console = Console(file=unguarded(sys.stderr))
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn(),
            console=self.console, transient=True, disable=not self.console.is_terminal,
            redirect_stdout=False, redirect_stderr=False,  # rows go to standard output, and nowhere else
        )  # fmt: skip
        self.task = self.bar.add_task("reading", total=None)

    def __enter__(self) -> "_Progress":
        self.bar.start()
        warnings.showwarning = self._warning
        warnings.simplefilter("once")
        return self

    def _warning(self, message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        """A warning of the reader, as a sentence above the bar; others are for developers."""
        if issubclass(category, CopiesDiffer | OtherTopic):
            self.say(str(message))

    def say(self, sentence: str) -> None:
        """Print a sentence above the bar, as it is: names of topics and files in it are no markup."""
        self.console.print(printable(sentence), markup=False, emoji=False, highlight=False, soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def expect(self, paths: Sequence[Path]) -> None:
        """Add the sizes of the files that will be read."""
        total = 0
        for path in paths:
            with suppress(FileNotFoundError):  # it will not be read then
                total += path.stat().st_size
        self.bar.update(self.task, total=total)

    def read(self, size: int) -> None:
        """Note that `size` more bytes have been read."""
        self.bar.advance(self.task, size)

    def damage(self, found: Damage) -> None:
        """Report damage above the bar."""
        size = found.end - found.position
        self.say(f"skipped {size} bytes: {found.path}, byte {found.position}: {found.reason}")


class _Scan:
    """The tables that one command reads."""

    def __init__(self, given: argparse.Namespace, progress: _Progress) -> None:
        self.given = given
        self.progress = progress
        self.reading = reading(given, progress)
        self.where = Where(given.where, lambda: self._last)
        self.columns = given.columns.split(",") if given.columns else None
        self._replayed: Replay | None = None

    def maker(self, name: str) -> Callable[[], pa.Table | pa.RecordBatchReader]:
        """The function that makes a table for SQL."""
        return lambda: self.reader(name) if name in LONG else tables.table(name, self.replayed())

    def rows(self, name: str) -> Iterator[pa.RecordBatch]:
        """The requested rows and columns."""
        found = self.reader(name) if name in LONG else tables.table(name, self.replayed()).to_reader()
        nothing = pa.RecordBatch.from_pylist([], schema=found.schema)  # a log without records has columns too
        for one in chain([next(found, nothing)], found):
            chosen = self.where(pa.Table.from_batches([one]))
            if self.columns is not None:
                unknown = [column for column in self.columns if column not in chosen.column_names]
                if unknown:
                    raise ValueError(f"{name} has no column {unknown[0]!r}, only {', '.join(chosen.column_names)}")
                chosen = chosen.select(self.columns)
            yield from chosen.to_batches() or [pa.RecordBatch.from_pylist([], schema=chosen.schema)]

    def summary(self) -> Iterator[pa.RecordBatch]:
        """The number of rows of each table, and as of when; or the logs of topics, if these are requested or nothing
        else is there."""
        if self.given.topic:
            yield self._logs()
            return
        try:
            found = self.replayed()
        except files.NothingToRead as error:
            try:
                yield self._logs()
            except files.NothingToRead:
                raise error from None
            return
        counts = [(name, tables.table(name, found).num_rows) for name in tables.TABLES]
        time = time_of(found.quorum.timestamp_ms)
        where = f"as of offset {found.image.next_offset}, {time:%Y-%m-%d %H:%M:%S %Z}"
        yield pa.RecordBatch.from_pydict({"table": [name for name, _ in counts], where: [rows for _, rows in counts]})

    def _logs(self) -> pa.RecordBatch:
        def look() -> tuple[source.Source, dict[source.Key, int], dict[source.Key, int]]:
            found = source.open(self.given.path, "log", self.given.topic)
            tell_deleted(self.given.path, found.logs)
            return found, found.beginnings(), found.ends()

        found, begin, end = files.repeated(look)
        rows = [
            {
                "topic": topic,
                "partition": number,
                "first_offset": begin[topic, number],
                "end_offset": end[topic, number],
            }
            for topic, number in found.keys
        ]
        return pa.RecordBatch.from_pylist(rows)

    def replayed(self) -> Replay:
        """The metadata as of --as-of, replayed once."""
        if self._replayed is None:
            found = opened(self._metadata, self.given.family, self.reading, self._when(self.given.as_of))
            self._replayed = found.run()
        return self._replayed

    def _metadata(self) -> files.Partition:
        log = metadata_log(self.given.path)
        self.progress.expect(log.files)
        return log

    @cached_property
    def _last(self) -> datetime.datetime | None:
        """The time of the last batch in any of the logs that are read."""
        path, topics = self.given.path, tuple(self.given.topic)

        def look() -> datetime.datetime | None:
            logs = topic_logs(path, topics) if self.given.table == "log" else [metadata_log(path)]
            return max((time for log in logs if (time := last_time(log)) is not None), default=None)

        return files.repeated(look)

    def _when(self, text: str | None) -> AsOf:
        """The moment that an option names, the same for all logs of a command: a time of day is the last one before the
        newest of their ends."""
        return None if text is None else bound(text, self._last if as_of_is_clock(text) else None)

    def reader(self, name: str) -> pa.RecordBatchReader:
        """One of the long tables, as a stream."""
        if name == "changes":
            self._metadata()
            since, until = self._when(self.given.since), self._when(self.given.as_of)
            changed = history.changes(self.given.path, since, until, family=self.given.family, reading=self.reading)
            return pa.RecordBatchReader.from_batches(history.SCHEMA, changed)
        found = source.open(self.given.path, name, self.given.topic, self.given.family)
        if found.table == "log":
            files.repeated(lambda: tell_deleted(self.given.path, found.logs))
        columns = self._built(found)
        made = found.schema(columns)
        self.progress.expect([path for log in found.logs for path in log.files])
        return pa.RecordBatchReader.from_batches(made, self._read(found, columns))

    def _built(self, opened: source.Source) -> list[str] | None:
        """The columns that must be decoded: the requested ones and those of the condition; None: the usual ones."""
        if self.columns is None or self.given.sql:
            return [*opened.columns] + (["headers"] if opened.table == "log" and self.given.sql else [])
        return list(dict.fromkeys([*self.columns, *self.where.columns]))

    def _read(self, opened: source.Source, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        since, until = self._when(self.given.since), self._when(self.given.as_of)
        for log in opened.logs:
            only = opened._replace(logs=(log,))
            key = (log.topic, log.number)
            first = {key: since} if isinstance(since, int) else None
            end = {key: until} if isinstance(until, int) else None
            timed = isinstance(since, datetime.datetime) or isinstance(until, datetime.datetime)
            built = [*columns, "timestamp"] if columns and timed and "timestamp" not in columns else columns
            on_damage = self.reading.on_damage if self.reading.damage == "skip" else None
            for split in only.splits(first=first, end=end):
                for one in source.read(split, built, self.reading.crc, on_damage, on_progress=self.reading.on_progress):
                    cut = _between(one, since, until)
                    yield cut.select(columns) if columns else cut


def _between(rows: pa.RecordBatch, since: AsOf, until: AsOf) -> pa.RecordBatch:
    """The rows that are not before `since` and not after `until`."""
    if isinstance(since, datetime.datetime):
        rows = rows.filter(pc.greater_equal(rows.column("timestamp"), pa.scalar(since, pa.timestamp("us", "UTC"))))
    if isinstance(until, datetime.datetime):
        rows = rows.filter(pc.less_equal(rows.column("timestamp"), pa.scalar(until, pa.timestamp("us", "UTC"))))
    return rows


def reading(given: argparse.Namespace, progress: _Progress) -> ChunkReading:
    """The options that say how files are read."""
    found = ChunkReading.of(not given.no_verify, progress.damage if given.skip_damage else None)
    return found._replace(on_progress=progress.read)


def last_time(log: files.Partition) -> datetime.datetime | None:
    """The time of the last batch of a log; None if it has none."""
    for path in reversed([one.path for one in log.segments]):
        times = [int(headers[-1]["max_timestamp"]) for _, _, headers, _ in batches(path, ChunkReading(False, "skip"))]
        if times:
            return time_of(times[-1])
    return None


# ---- rows, given --------------------------------------------------------------------------------------------------


def _give(rows: Iterator[pa.RecordBatch], given: argparse.Namespace, progress: _Progress) -> None:
    if given.limit and (given.json or given.out or given.output == "arrow"):
        rows = _first(rows, given.limit)
    if given.out is not None:
        count = write(rows, given.out)
        progress.say(f"{count} rows in {given.out}")
    elif given.output == "arrow":
        _stream(rows)
    elif given.json:
        if sys.stdout.isatty():
            progress.bar.stop()
        for one in rows:
            for row in listed(one):
                print(as_json(row))
    else:
        _show(rows, SCREEN_ROWS if given.limit is None else given.limit, progress)


def _stream(rows: Iterator[pa.RecordBatch]) -> None:
    """Write rows to standard output as one IPC stream, batch by batch."""
    first = next(rows, None)
    if first is None:
        raise ValueError("there are no rows, not even columns: nothing was written.")
    with pa.ipc.new_stream(unguarded(sys.stdout).buffer, first.schema) as out:
        for one in chain([first], rows):
            out.write_batch(one)


def write(rows: Iterator[pa.RecordBatch], path: Path) -> int:
    """Write rows into a new file, or into a new directory of Parquet files, by the name's ending. Returns their number.
    The file or directory appears whole or not at all."""
    count = 0

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        nonlocal count
        for one in batches:
            count += one.num_rows
            yield one

    if path.suffix not in (".parquet", ".arrow", ".jsonl"):
        raise ValueError(f"{path} has an unknown ending: write DIR.parquet, FILE.arrow or FILE.jsonl.")
    if path.exists():
        raise FileExistsError(f"{path} is there already: take another name, or remove it.")
    first = next(rows, None)
    if first is None:
        raise ValueError("there are no rows, not even columns: nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as room:
        made = Path(room) / path.name
        _write(counted(chain([first], rows)), first.schema, made)
        made.rename(path)
    return count


def _write(found: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> None:
    if path.suffix == ".parquet":
        import pyarrow.dataset
        import pyarrow.parquet

        reader = pa.RecordBatchReader.from_batches(schema, found)
        pyarrow.dataset.write_dataset(
            reader, path, format="parquet", basename_template="part-{i}.parquet", max_rows_per_file=PART_ROWS,
            max_rows_per_group=PART_ROWS // 4, existing_data_behavior="error", use_threads=False,
        )  # fmt: skip
        if not path.exists():  # no rows: the columns are there nevertheless
            path.mkdir()
            pyarrow.parquet.write_table(schema.empty_table(), path / "part-0.parquet")
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as out:
            for one in found:
                out.write_batch(one)
    else:
        with path.open("w") as lines:
            for one in found:
                lines.writelines(as_json(row) + "\n" for row in listed(one))


def listed(some: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as Python values. A time beyond Python's calendar, as producers with another unit write it, becomes text."""
    rows: list[dict[str, Any]]
    try:
        rows = some.to_pylist()
    except OverflowError:
        kinds = {one.name: one.type for one in some.schema if pa.types.is_timestamp(one.type)}
        numbers = pa.schema([pa.field(one.name, pa.int64() if one.name in kinds else one.type) for one in some.schema])
        rows = some.cast(numbers).to_pylist()
        for row in rows:
            row.update({name: _calendar(row[name], kind.unit) for name, kind in kinds.items()})
    return rows


def _calendar(since_1970: int | None, unit: str) -> datetime.datetime | str | None:
    if since_1970 is None:
        return None
    count: Any = np.datetime64
    found = count(since_1970, unit)
    time = found.item()
    return time.replace(tzinfo=datetime.UTC) if isinstance(time, datetime.datetime) else f"{found}+00:00"


def as_json(row: dict[str, Any]) -> str:
    """A row as JSON that any parser takes and no terminal obeys. JSON has no infinity and no NaN: they become text."""
    try:
        text = json.dumps(row, default=plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(row), default=plain, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> str | int | float | dict[str, str]:
    """A value that JSON cannot express, as text, a number or an object. Bytes that are UTF-8 become text; others an object,
    which cannot be mistaken for text."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    return str(value)


def _first(rows: Iterator[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    for one in rows:
        yield one.slice(0, limit)
        limit -= one.num_rows
        if limit <= 0:
            return


def _show(rows: Iterator[pa.RecordBatch], limit: int, progress: _Progress) -> None:
    """Show the first rows as a table."""
    shown: list[dict[str, Any]] = []
    names: list[str] = []
    more = False
    for one in rows:
        names = names or one.schema.names
        wanted = one.num_rows if limit == 0 else limit - len(shown)
        more = one.num_rows > wanted
        shown += listed(one.slice(0, wanted))
        if more:
            break
    progress.bar.stop()
    console = Console(file=unguarded(sys.stdout))
    if not console.is_terminal:
        console = Console(file=unguarded(sys.stdout), width=WIDTH)
    table = Table(box=None, pad_edge=False, header_style="bold")
    empty = {name for name in names if len(names) > 6 and all(row[name] in (None, [], "") for row in shown)}
    empty |= {"old_ids", "new_ids"} if "old" in names and "new" in names else set()
    for name in names:
        if name not in empty:
            numbers = shown and all(isinstance(row[name], int | float | None) for row in shown)
            table.add_column(Text(printable(name)), justify="right" if numbers else "left", overflow="fold")
    for row in shown:
        table.add_row(*[Text(printable(cell(row[name]))) for name in names if name not in empty])
    console.print(table)
    if more:
        console.print(f"... more rows than {limit}: --limit 0 shows all, --out writes them", style="dim")
    elif not shown:
        console.print("no rows", style="dim")


def cell(value: Any) -> str:
    """A value as text for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime.datetime):
        return f"{value.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S}.{value.microsecond // 1000:03}"
    if isinstance(value, pa.MonthDayNano):
        return duration(value)
    if isinstance(value, list):
        return " ".join(cell(one) for one in value)
    if isinstance(value, dict):
        return ":".join(cell(one) for one in value.values() if one is not None)
    found = plain(value)
    return f"base64:{found['base64']}" if isinstance(found, dict) else str(found)


def duration(value: Any) -> str:
    """A length of time in SQL: `44.915 s`, `3 d 1 h 2 min 0.000 s`."""
    seconds, nanoseconds = divmod(value.nanoseconds, 1_000_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    large = [(value.months, "months"), (value.days, "d"), (hours, "h"), (minutes, "min")]
    words = [f"{count} {unit}" for count, unit in large if count]
    return " ".join([*words, f"{seconds}.{nanoseconds // 1_000_000:03} s"])


# ---- compact ------------------------------------------------------------------------------------------------------


def compact(given: argparse.Namespace) -> int:
    """Run `rayft compact`. Returns the exit code."""
    with _Progress() as progress:

        def look() -> tuple[files.Partition, datetime.datetime | None]:
            log = metadata_log(given.path)
            return log, last_time(log) if given.as_of is not None and as_of_is_clock(given.as_of) else None

        log, last = files.repeated(look)
        progress.expect(log.files)
        when = None if given.as_of is None else bound(given.as_of, last)
        made = checkpoint.compact(given.path, when, given.family, reading(given, progress))
        folder = given.out if given.out.is_dir() else given.out.parent
        if folder.resolve() == log.files[0].parent.resolve():
            raise ValueError(f"{folder} is the log's own directory: a node would load what is put there; write --out.")
        path = made.write(given.out)
    print(f"{path}: {made.size} bytes, the state below offset {made.end_offset}, epoch {made.epoch}")
    return 0
