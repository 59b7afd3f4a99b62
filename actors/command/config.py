"""`rayft config`: settings of brokers, of all brokers, of groups, topics and client metrics."""

import argparse

from actors.command import options as common

WHAT = "broker:ID, brokers (all of them), group:NAME, client-metrics:NAME or topic:NAME"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="get|set|unset", dest="verb")
    one = verbs.add_parser("get", help="settings with their values and where these come from")
    one.add_argument("resource", metavar="WHAT", help=WHAT)
    one.add_argument("names", nargs="*", metavar="NAME", help="those only (all)")
    one.add_argument(
        "--synonyms", action="store_true", help="also what else could give the value, the first that counts"
    )
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("set", help="give values")
    one.add_argument("resource", metavar="WHAT", help=WHAT)
    one.add_argument("values", nargs="+", metavar="NAME=VALUE")
    common.address(one)
    one = verbs.add_parser("unset", help="back to what counts without them")
    one.add_argument("resource", metavar="WHAT", help=WHAT)
    one.add_argument("names", nargs="+", metavar="NAME")
    common.address(one)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where it was refused."""
    from actors.command.by_address import configs

    return configs.VERBS[options.verb](options)
