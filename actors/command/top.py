"""`rayft top`: a cluster's topics and groups with their rates, again and again."""

import argparse
import math

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft top`."""
    parser.add_argument("--every", type=seconds, default=2.0, metavar="SECONDS", help="the time between two looks (2)")
    parser.add_argument("--looks", type=looks, metavar="N", help="end after so many (Ctrl-C ends it)")
    parser.add_argument(
        "--sort", choices=("rate", "name"), default="rate", help="what comes first: what moves most, or by name (rate)"
    )
    parser.add_argument("--topic", metavar="TEXT", help="only topics whose names hold this text")
    parser.add_argument("--group", metavar="TEXT", help="only groups whose names hold this text")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "jsonl"),
        default="table",
        help="how it is printed (table); jsonl: a line a look",
    )
    common.address(parser)


def seconds(text: str) -> float:
    """A time between two looks, s. Refused is what would ask without a pause."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.2 <= value <= 3600:
        raise argparse.ArgumentTypeError("write seconds, from 0.2 to 3600")
    return value


def looks(text: str) -> int:
    """How many looks."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise argparse.ArgumentTypeError("write how many, from 1")
    return int(text)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 0, also after Ctrl-C; 1 if no broker answered the first look."""
    from actors.command.by_address.live import top

    return top.run(options)
