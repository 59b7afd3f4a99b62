"""`rayft topic`: what topics there are, where their replicas are, and making, changing and deleting them."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the verbs, each with its options."""
    verbs = parser.add_subparsers(required=True, metavar="list|describe|create|delete|config|partitions", dest="verb")
    one = verbs.add_parser("list", help="all topics")
    one.add_argument("--internal", action="store_true", help="those that Kafka keeps for itself too")
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("describe", help="partitions with leader, replicas, ISR and offsets")
    one.add_argument("topics", nargs="+", metavar="TOPIC")
    common.as_of(one)
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("create", help="new topics")
    one.add_argument("topics", nargs="+", metavar="TOPIC")
    one.add_argument("-p", "--partitions", type=int, default=-1, metavar="N", help="how many (the cluster's default)")
    one.add_argument(
        "-r", "--replicas", type=int, default=-1, metavar="N", help="of each partition (the cluster's default)"
    )
    one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    common.address(one)
    one = verbs.add_parser("delete", help="topics with all that is in them")
    one.add_argument("topics", nargs="+", metavar="TOPIC")
    common.address(one)
    settings = verbs.add_parser("config", help="settings of a topic").add_subparsers(
        required=True, metavar="get|set|unset", dest="action"
    )
    one = settings.add_parser("get", help="print them as NAME=VALUE")
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("names", nargs="*", metavar="NAME", help="those only (all)")
    common.listing(one)
    common.address(one)
    one = settings.add_parser("set", help="give values")
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("values", nargs="+", metavar="NAME=VALUE")
    common.address(one)
    one = settings.add_parser("unset", help="back to the cluster's values")
    one.add_argument("topic", metavar="TOPIC")
    one.add_argument("names", nargs="+", metavar="NAME")
    common.address(one)
    _partitions(verbs.add_parser("partitions", help="more of them, other leaders, other brokers"))


def _partitions(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of `rayft topic partitions`."""
    verbs = parser.add_subparsers(required=True, metavar="grow|elect|move|moves|cancel", dest="action")
    one = verbs.add_parser("grow", help="more partitions; keys go to others of them from then on")
    one.add_argument("topics", nargs="+", metavar="TOPIC")
    one.add_argument("--to", type=int, required=True, metavar="N", help="how many there are then")
    common.address(one)
    one = verbs.add_parser("elect", help="preferred leaders again, which are the first replicas")
    one.add_argument("topics", nargs="*", metavar="TOPIC[:PARTITION]", help="those only (all)")
    one.add_argument("--unclean", action="store_true",
                     help="any replica that lives, for partitions without a leader: records may be lost")  # fmt: skip
    common.address(one)
    one = verbs.add_parser("move", help="to other brokers; records are copied first")
    one.add_argument("topics", nargs="+", metavar="TOPIC[:PARTITION]")
    one.add_argument("--to", required=True, metavar="ID,ID,...",
                     help="brokers, the preferred leader first; in a whole topic they take turns")  # fmt: skip
    common.address(one)
    one = verbs.add_parser("moves", help="what is moving now")
    common.listing(one)
    common.address(one)
    one = verbs.add_parser("cancel", help="stop moving, and stay where they were")
    one.add_argument("topics", nargs="+", metavar="TOPIC[:PARTITION]")
    common.address(one)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the verb. Returns its exit code: 1 where one of several things was refused."""
    from actors.command.by_address import partitions, topics

    if options.verb == "partitions":
        return partitions.VERBS[options.action](options)
    verb = options.verb if options.verb != "config" else options.action
    return topics.VERBS[verb](options)
