"""`rayft group`: groups of every kind, how far behind they are, and where they read on."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="list|describe|seek|delete", dest="verb")
    one = verbs.add_parser("list", help="all groups, with kind and state")
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("describe", help="members, committed offsets and lag of each partition")
    one.add_argument("group", metavar="GROUP")
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("seek", help="commit other offsets for a group without members")
    one.add_argument("group", metavar="GROUP")
    one.add_argument(
        "--to", required=True, metavar="WHERE",
        help="beginning, end, an offset, -N for N before the end, a time (2026-11-28T14:02, in UTC) or so long ago (15m)",
    )  # fmt: skip
    one.add_argument(
        "--topic",
        action="append",
        metavar="TOPIC[:PARTITION]",
        help="may be repeated (all that have committed offsets)",
    )
    one.add_argument("--dry-run", action="store_true", help="only print what would be committed")
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("delete", help="groups without members, with their offsets")
    one.add_argument("groups", nargs="+", metavar="GROUP")
    common.address(one)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where one of several things was refused."""
    from actors.command.by_address import groups

    return groups.VERBS[options.verb](options)
