"""`rayft replay`: tables out of logs and checkpoints (`output/tables.py`), or out of a running cluster's metadata log
(`by_address/metadata_log/replaying.py`)."""

import argparse
from pathlib import Path

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft replay`."""
    common.log_files(parser, or_address=True)
    common.address(parser)
    parser.add_argument("--follow", action="store_true", help="print changes as they are committed, until Ctrl-C")
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="topics, partitions, brokers, configs, ... changes, records or log; left out: a list",
    )
    parser.add_argument(
        "--as-of", metavar="WHEN", help="offset (exclusive), 14:02, or 2026-11-21T14:02 (UTC); left out: now"
    )
    parser.add_argument("--since", metavar="WHEN", help="where changes, records and log begin")
    parser.add_argument("--where", default="", metavar="EXPR", help="for example: leader = 5 and isr contains 3")
    parser.add_argument("--columns", metavar="A,B,...", help="only these")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; may be repeated")
    parser.add_argument("--sql", metavar="QUERY", help="a query over the tables (needs duckdb)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="DIR.parquet, FILE.arrow or FILE.jsonl, not the screen"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only so many rows (50 on the screen); 0: all")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object a row")
    how.add_argument(
        "-o", "--output", type=common.printed, choices=("table", "jsonl", "arrow"), default="table",
        help="jsonl is --json, arrow an IPC stream (table)",
    )  # fmt: skip


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    common.require_pyarrow()
    options.json = options.json or options.output == "jsonl"
    if options.path is None or options.bootstrap or options.config or options.dir or options.profile or options.follow:
        from actors.command.by_address.metadata_log import replaying

        return replaying.run(options)
    from actors.command.output import tables

    return tables.replay(options)
