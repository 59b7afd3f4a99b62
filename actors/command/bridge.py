"""`rayft bridge`: the options with which a cluster that lives with ZooKeeper is taken over or handed back
(`bridge_steps.py`)."""

import argparse

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft bridge`."""
    parser.add_argument(
        "--zookeeper", required=True, metavar="HOST:PORT/CHROOT", help="what its brokers have in zookeeper.connect"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="say what would happen, and change nothing")
    what.add_argument("--back", action="store_true", help="hand it back to its own brokers")
    what.add_argument("--finish", action="store_true", help="its last own broker has stopped: go on without ZooKeeper")
    parser.add_argument("--controllers", type=int, default=3, metavar="N", help="how many controllers (3)")
    parser.add_argument("--brokers", type=int, default=0, metavar="N", help="new brokers that join at once (0)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to bind, which the old brokers can reach (127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="first new broker's port; controllers behind it; 0: any free"
    )
    parser.add_argument(
        "--listener", metavar="NAME", help="the old brokers' inter.broker.listener.name, if they have several"
    )
    common.every_node(parser)
    common.directory(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.command import bridge_steps

    return bridge_steps.run(options, common.properties(options))
