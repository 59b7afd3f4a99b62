"""`rayft dump`: log files and checkpoints of any node, as text (`output/batches.py`)."""

import argparse
import sys
from pathlib import Path

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft dump`."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--batches", action="store_true", help="headers of batches only")


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.command.output.batches import dump

    for path in options.files:
        dump(path, sys.stdout, batches_only=options.batches)
    return 0
