"""`rayft user`: users that log in with a password, by SCRAM."""

import argparse
from pathlib import Path

from actors.command import options as common

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="list|set|delete", dest="verb")
    one = verbs.add_parser("list", help="who has a password, and for which mechanism")
    one.add_argument("users", nargs="*", metavar="USER", help="those only (all)")
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser(
        "set", help="a new user, or another password; asked for, or the first line of standard input"
    )
    one.add_argument("user", metavar="USER")
    one.add_argument(
        "--mechanism", type=str.upper, choices=MECHANISMS, default=MECHANISMS[1], help=f"({MECHANISMS[1]})"
    )
    one.add_argument("--iterations", type=int, default=4096, metavar="N", help="4096 to 16384 (4096)")
    one.add_argument("--password-file", type=Path, metavar="FILE", help="its first line is the password")
    common.address(one)
    one = verbs.add_parser("delete", help="passwords, so that they log in no more")
    one.add_argument("users", nargs="+", metavar="USER")
    one.add_argument("--mechanism", type=str.upper, choices=MECHANISMS, help="only that for this one (all)")
    common.address(one)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where one of several things was refused."""
    from actors.command.by_address import users

    return users.VERBS[options.verb](options)
