"""`rayft replay` of a running cluster, once it runs.

The tables are made of a copy of the metadata log (`private_copy.py`), by what reads a directory (`output/tables.py`).
`--follow` prints changes as they are committed: a line for each, or a JSON object. What is copied is the least that the
question needs: the newest snapshot and the log behind it, or everything that the leader has.
"""

import argparse
import sys
import warnings
from typing import Any

import pyarrow as pa

from actors.arrow.metadata_replay import Watch, follow, needed
from actors.client.errors import NotInTime
from actors.client.operations.quorum_leader import KnownQuorum
from actors.command.by_address.connection import VARIABLE, connected, is_named, wrong
from actors.command.by_address.ended_by_signals import ended_by_signals
from actors.command.by_address.metadata_log.private_copy import private_copy
from actors.command.output import tables
from actors.command.output.changes import line, part
from actors.command.output.pipe import open_pipe
from actors.printable import printable
from actors.replay.columns.history import SCHEMA
from actors.replay.follow import RecordsLost
from actors.replay.where import Where, as_of_is_clock, bound


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError, ValueError."""
    if options.path is not None:
        wrong(
            f"{options.path} and an address are two places to read from: leave one out"
            if not options.follow or options.bootstrap or options.config or options.dir or options.profile
            else f"--follow reads a running cluster: write -b HOST:PORT instead of {options.path}"
        )
    if not is_named(options):
        wrong(
            f"which log? Write a PATH, or -b HOST:PORT, {VARIABLE}=HOST:PORT, --profile NAME, --config client.properties or "
            f"--dir DIR"
        )
    if options.table == "log" or options.topic:
        wrong("the metadata log has no records of topics: rayft consume prints these, rayft.read gives them as Arrow")
    return _follow(options) if options.follow else _replay(options)


def _replay(options: argparse.Namespace) -> int:
    tables.refuse(options)
    begin = _begin(options)
    with connected(options, first=lambda: KnownQuorum().find()) as kafka, private_copy(kafka, begin) as options.path:
        return tables.replay(options)


def _begin(options: argparse.Namespace) -> int:
    """The offset from which on the copy has to reach."""
    since, as_of = _moment(options.since), _moment(options.as_of)
    return needed(since, 0) if options.sql or options.table in tables.LONG else needed(as_of)


def _moment(text: str | None) -> Any:
    """The moment that an option names. For a time of day it is any time, as the end of the log is not known yet."""
    return None if text is None else bound(text)


# ---- --follow


class _Watch(Watch):
    """What is told while changes are awaited."""

    def answered(self) -> None:
        open_pipe()

    def silent(self, error: NotInTime) -> None:
        print(f"rayft: no controller leads now, it is tried again: {printable(str(error))}", file=sys.stderr)


def _follow(options: argparse.Namespace) -> int:
    for option, value in (("--as-of", options.as_of), ("--sql", options.sql), ("--out", options.out)):
        if value:
            wrong(f"{option} does nothing beside --follow, which has no end: leave one of them out")
    if options.output == "arrow":
        wrong("--follow prints a line a change, and no Arrow: write -o jsonl; rayft.Replay(...).follow() gives batches")
    if options.table not in (None, "changes"):
        wrong(f"--follow prints changes, and not the table {options.table}: leave --table out")
    if options.limit is not None and options.limit < 0:
        wrong(f"--limit {options.limit} is no number of rows: write 1 or more, or 0 for all")
    if options.since is not None and as_of_is_clock(options.since):
        wrong(f"--since {options.since} needs a day here: write 2026-11-21T{options.since}, or an offset")
    rows, since = _Rows(options), _moment(options.since)
    with ended_by_signals(), warnings.catch_warnings(), connected(options, first=lambda: KnownQuorum().find()) as kafka:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RecordsLost)
        warnings.showwarning = lambda message, *_, **__: print(f"rayft: {printable(str(message))}", file=sys.stderr)
        try:
            for some in follow(kafka, since, family=options.family, watch=_Watch()):
                if rows.print(some):
                    break
        except KeyboardInterrupt:  # the end that somebody gives to what has none
            pass
    return 0


class _Rows:
    """The rows and columns that are printed."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Raises ValueError for columns or conditions that do not exist."""
        self._json = options.json
        self._where = Where(options.where)
        self._columns = options.columns.split(",") if options.columns else None
        self._left = options.limit or sys.maxsize
        self._chosen(SCHEMA.empty_table())

    def print(self, rows: pa.RecordBatch) -> bool:
        """Print those that are wanted. Returns whether no more are."""
        for one in self._chosen(pa.Table.from_batches([rows])).slice(0, self._left).to_batches():
            for row in tables.listed(one):
                print(tables.as_json(row) if self._json else line(row) if self._columns is None else part(row))
            self._left -= one.num_rows
        sys.stdout.flush()
        return self._left <= 0

    def _chosen(self, rows: pa.Table) -> pa.Table:
        chosen = self._where(rows)
        for name in self._columns or ():
            if name not in SCHEMA.names:
                raise ValueError(f"changes has no column {name!r}, only {', '.join(SCHEMA.names)}")
        return chosen if self._columns is None else chosen.select(self._columns)
