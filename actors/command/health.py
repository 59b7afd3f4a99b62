"""`rayft health`: whether a cluster is well, in its exit code and in sentences."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft health`."""
    parser.add_argument("--watch", action="store_true", help="print what changes, until Ctrl-C")
    parser.add_argument(
        "--why", action="store_true", help="since when and why, out of the metadata log (right CLUSTER_ACTION; pyarrow)"
    )
    common.listing(parser)
    common.address(parser)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 0 it is well, 1 no answer, 2 it is not well."""
    from actors.command.by_address import health

    return health.run(options)
