"""`rayft metrics`: groups, their lag, topics and partitions of any Kafka as metrics for Prometheus."""

import argparse

from actors.command import options as common

PORT = 9308
"""The port of kafka_exporter."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft metrics`."""
    parser.add_argument(
        "--listen", metavar="HOST:PORT",
        help=f"serve them there until Ctrl-C, for example 127.0.0.1:{PORT} (printed once, for a file that is collected)",
    )  # fmt: skip
    parser.add_argument("--topic", metavar="TEXT", help="only topics whose names hold this text")
    parser.add_argument("--group", metavar="TEXT", help="only groups whose names hold this text")
    common.address(parser)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 0, also after Ctrl-C; 1 if no broker answered at first."""
    from actors.command.by_address import exporter

    return exporter.run(options)
