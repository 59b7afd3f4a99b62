"""`rayft produce`: the lines of standard input become records of a topic."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft produce`."""
    parser.add_argument("topic", metavar="TOPIC", help="where to; it must exist")
    parser.add_argument("-k", "--key-separator", metavar="TEXT", help="a line is key, this text, value (values only)")
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME=VALUE", help="of every record; may be repeated"
    )
    parser.add_argument(
        "--partition", type=int, metavar="N", help="all to this one (by the key, as in Java; without keys by turns)"
    )
    parser.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="codec (compression.type, or none)",
    )
    common.address(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.command.by_address import producing

    return producing.run(options)
