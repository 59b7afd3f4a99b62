"""`rayft scrub`: log directories are read and what is damaged is told (`output/scrubbed.py`)."""

import argparse
import sys
from pathlib import Path

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft scrub`."""
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(common.DIRECTORY),
        help=f"a log directory, or the directory of a cluster ({common.DIRECTORY})",
    )


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 1 if something is damaged."""
    from actors.command.output.scrubbed import directories, scrub

    found = [scrub(path, sys.stdout) for path in directories(options.dir)]
    return 1 if any(one.faults for one in found) else 0
