"""`rayft quota`: how much users, client ids and addresses may use."""

import argparse

from actors.command import options as common

ENTITIES = {
    "user": ("NAME", "of this user", "of users without a quota of their own"),
    "client-id": ("NAME", "of this client id", "of client ids without a quota of their own"),
    "ip": ("ADDRESS", "of connections from there", "of addresses without a quota of their own"),
}
"""The kinds of entities that have quotas: what stands for the name, and the sentences of the two options of each."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="list|set|remove", dest="verb")
    one = verbs.add_parser("list", help="all quotas, or those with the user, client id or address that options name")
    _entity(one)
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("set", help="give values")
    one.add_argument("values", nargs="+", metavar="NAME=VALUE",
                     help="producer_byte_rate, consumer_byte_rate (bytes/s), request_percentage, controller_mutation_rate "
                     "(/s), connection_creation_rate (/s)")  # fmt: skip
    _entity(one)
    common.address(one)
    one = verbs.add_parser("remove", help="quotas that were set")
    one.add_argument("names", nargs="*", metavar="NAME", help="those only (all of the user, client id or address)")
    _entity(one)
    common.address(one)


def _entity(parser: argparse.ArgumentParser) -> None:
    for kind, (metavar, own, default) in ENTITIES.items():
        which = parser.add_mutually_exclusive_group()
        which.add_argument(f"--{kind}", metavar=metavar, help=own)
        which.add_argument(f"--default-{kind}", action="store_true", help=default)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where something was refused."""
    from actors.command.by_address import quotas

    return quotas.VERBS[options.verb](options)
