"""`rayft ui`: a page in the browser about a cluster and its history."""

import argparse
from pathlib import Path

from actors.command import options as common

PORT = 8421


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft ui`."""
    parser.add_argument(
        "path", type=Path, nargs="*", help="a controller's or cluster's directory, instead of an address or beside it"
    )
    common.address(parser, several=True)
    parser.add_argument("--listen", metavar="HOST", default="127.0.0.1", help="where the page is served (127.0.0.1)")
    parser.add_argument("--port", type=int, default=PORT, help=f"its port; 0: any free one ({PORT})")
    parser.add_argument(
        "--name", action="append", default=[], help="one more name of this machine that browsers may use"
    )
    parser.add_argument("--certificate", type=Path, metavar="FILE", help="PEM, for an address that others reach")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the key of the certificate, PEM")
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="topics, records, groups and settings may be changed there (it only reads)",
    )
    parser.add_argument(
        "--schema-registry",
        metavar="URL",
        help="where the schemas of Avro and Protobuf values are (schema.registry.url of the client's settings)",
    )
    parser.add_argument("--faults-fd", type=int, help=argparse.SUPPRESS)  # from rayft up: the socket of its nodes
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="the password of the page, instead of a token"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code. Raises ClusterError, ValueError, OSError."""
    from actors.command.by_address import page

    return page.run(options)
