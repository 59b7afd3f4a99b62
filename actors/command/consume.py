"""`rayft consume`: the records of a topic, as they are or in a format of one's own."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft consume`."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from", dest="start", default=None, metavar="WHERE",
        help="beginning, end, an offset, -N for the last N of each partition, a time (2026-11-28T14:02, in UTC) or so long "
        "ago (15m) (beginning)",
    )  # fmt: skip
    parser.add_argument(
        "--partition", type=int, action="append", metavar="N", help="only this one; may be repeated (all)"
    )
    parser.add_argument("-n", "--count", type=int, metavar="N", help="stop after so many records")
    parser.add_argument("-e", "--exit", action="store_true", help="stop at the end (wait for more, until Ctrl-C)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "-f", "--format", metavar="TEXT", default=r"%v\n",
        help=r"%%k key, %%v value, %%t topic, %%p partition, %%o offset, %%T time in ms, %%h headers, %%K and %%V sizes; \n "
        r"\t \xNN (%%v\n)",
    )  # fmt: skip
    how.add_argument("--json", action="store_true", help="a JSON object a line")
    parser.add_argument(
        "--isolation-level", choices=("read_committed", "read_uncommitted"),
        help="read_uncommitted shows records of open and aborted transactions too (isolation.level, or read_committed)",
    )  # fmt: skip
    parser.add_argument(
        "-g",
        "--group",
        metavar="GROUP",
        help="begin where this group is, and commit what was printed; it may have no members",
    )
    common.address(parser)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.command.by_address import consuming

    return consuming.run(options)
