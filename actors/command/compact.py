"""`rayft compact`: a snapshot out of a metadata log (`output/tables.py`, which reads it with the same progress bar)."""

import argparse
from pathlib import Path

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft compact`."""
    common.log_files(parser)
    parser.add_argument("--as-of", metavar="WHEN", help="where it ends: an offset that was committed, or a time")
    parser.add_argument(
        "--out", type=Path, default=Path("."), metavar="FILE", help="file, or directory to put it in (.)"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    common.require_pyarrow()
    from actors.command.output import tables

    return tables.compact(options)
