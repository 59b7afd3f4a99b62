"""`rayft acl`: who may do what, and who may not."""

import argparse

from actors.command import options as common

OPERATIONS = (
    "all", "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs", "alter_configs",
    "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit",
)  # fmt: skip
RESOURCES = ("topic", "group", "transactional-id", "delegation-token", "user")
"""The kinds of resources that have names; a user's is `User:alice`. The cluster is the one that has none."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="list|add|remove", dest="verb")
    one = verbs.add_parser("list", help="the rules, or those that options name")
    _filter(one, ("literal", "prefixed", "match"))
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("add", help="rules for each principal, host, operation and resource")
    one.add_argument("--principal", action="append", required=True, metavar="TYPE:NAME",
                     help="who, as User:alice or User:*; may be repeated")  # fmt: skip
    one.add_argument("--host", action="append", metavar="ADDRESS", help="from where; may be repeated (anywhere, *)")
    one.add_argument("--operation", action="append", required=True, type=_word, choices=OPERATIONS, metavar="WORD",
                     help=f"{', '.join(OPERATIONS)}; may be repeated")  # fmt: skip
    one.add_argument("--deny", action="store_true", help="the rules deny (they allow)")
    one.add_argument("--prefixed", action="store_true", help="names are beginnings of names")
    for kind in RESOURCES:
        one.add_argument(f"--{kind}", action="append", default=[], metavar="NAME", help="may be repeated; * is each")
    one.add_argument("--cluster", action="store_true", help="the cluster itself")
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("remove", help="the rules that options name; they are shown")
    _filter(one, ("literal", "prefixed"))
    one.add_argument("--all", action="store_true", help="also where these are all rules of the cluster")
    one.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    common.listing(one)
    common.address(one)


def _filter(parser: argparse.ArgumentParser, patterns: tuple[str, ...]) -> None:
    parser.add_argument("--principal", metavar="TYPE:NAME", help="of this one, as User:alice")
    parser.add_argument("--host", metavar="ADDRESS", help="with exactly this host")
    parser.add_argument("--operation", type=_word, choices=OPERATIONS, metavar="WORD", help=", ".join(OPERATIONS))
    parser.add_argument("--permission", choices=("allow", "deny"), help="only such")
    parser.add_argument("--pattern", choices=patterns,
                        help="only such; match: those of any kind that apply to the name" if "match" in patterns else
                        "only such")  # fmt: skip
    which = parser.add_mutually_exclusive_group()
    for kind in RESOURCES:
        which.add_argument(
            f"--{kind}", nargs="?", const=True, metavar="NAME", help="all of the kind, or with this name"
        )
    which.add_argument("--cluster", action="store_true", help="the cluster itself")


def _word(text: str) -> str:
    return text.lower().replace("-", "_")


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where something was refused or nothing was found to remove."""
    from actors.command.by_address import acls

    return acls.VERBS[options.verb](options)
