"""`rayft certificate`: the authority of a cluster, and the certificates that it signs."""

import argparse
from pathlib import Path


def add(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of certificates, each with its options."""
    kinds = parser.add_subparsers(required=True, metavar="what", dest="what")

    def kind(name: str, help: str) -> argparse.ArgumentParser:
        one = kinds.add_parser(name, help=help)
        if name != "renew":
            one.add_argument("--dir", type=Path, default=Path("security"), help="where the authority is (security)")
        if name != "authority":
            one.add_argument("--days", type=int, metavar="N", help="how long it is good (825)")
        return one

    kind("authority", "a new authority of a cluster").add_argument("--name", default="rayft", help="its name (rayft)")
    node = kind("node", "a certificate for a node")
    node.add_argument(
        "--id", type=int, action="append", default=[], required=True, help="its id; twice for a process with two roles"
    )
    node.add_argument(
        "--host", action="append", default=[], help="where others reach it; once for each name and address"
    )
    kind("client", "a certificate for a client").add_argument("--name", required=True, help="its user's name")
    kind("renew", "a new certificate with the same name").add_argument("files", nargs="+", type=Path, metavar="FILE")


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.host.security import security_directory as files

    made = []
    if options.what == "authority":
        made = [files.make_authority(options.dir, options.name)]
    elif options.what == "node":
        made = [files.make_node(options.dir, options.id, options.host, options.days)]
    elif options.what == "client":
        made = [files.make_client(options.dir, options.name, options.days)]
    else:
        for path in options.files:
            files.renew(path, options.days)
            made.append(path.with_name(files.CA) if path.name == files.CA_KEY else path)
    for path in made:
        print(files.told(path))
    return 0
