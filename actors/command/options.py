"""Options that several commands have, and what they mean.

This file alone decides them. Like the files of the commands it imports what it needs when a command runs.
"""

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path

DIRECTORY = "rayft-data"


def directory(parser: argparse.ArgumentParser) -> None:
    """Add `--dir`, of a cluster on this machine."""
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"where the cluster lives ({DIRECTORY})")


def feature(parser: argparse.ArgumentParser) -> None:
    """Add `--feature`, which `level` reads."""
    parser.add_argument("--feature", metavar="NAME=LEVEL", help="metadata.format of a new cluster, 1 or 2 (2)")


def level(options: argparse.Namespace) -> int:
    """The level of metadata.format for new storage. Raises ConfigError."""
    from actors.settings.keys import ConfigError

    if options.feature is None:
        return 2
    name, _, level = options.feature.partition("=")
    if name != "metadata.format" or level not in ("1", "2"):
        raise ConfigError(f"--feature {options.feature} does not exist: write metadata.format=1 or metadata.format=2.")
    return int(level)


def address(
    parser: argparse.ArgumentParser,
    directory: str = "a cluster on this machine: its addresses, TLS and login",
    several: bool = False,
) -> None:
    """Add the options that name a cluster, of rayft's or Apache Kafka's; `by_address.connection` reads them. `directory`:
    the sentence of `--dir`; `several`: each option may be repeated, and is a list."""
    action = "append" if several else "store"
    parser.add_argument(
        "-b",
        "--bootstrap",
        action=action,
        metavar="HOST:PORT[,...]",
        help="brokers of the cluster (the variable RAYFT_BOOTSTRAP)",
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="a client's properties by Kafka's names: TLS, login"
    )
    parser.add_argument("--dir", type=Path, action=action, help=directory)
    parser.add_argument(
        "--profile",
        action=action,
        metavar="NAME",
        help="a cluster in ~/.config/rayft/profiles.toml (the variable RAYFT_PROFILE)",
    )


def listing(parser: argparse.ArgumentParser) -> None:
    """Add `-o`, which `output.listing` reads."""
    parser.add_argument(
        "-o",
        "--output",
        type=printed,
        choices=("table", "json", "jsonl", "arrow"),
        default="table",
        help="how it is printed (table); arrow is an IPC stream",
    )


def printed(how: str) -> str:
    """The form of a listing. Refused are Arrow's bytes where nobody could read them."""
    if how == "arrow" and sys.stdout.isatty():
        raise argparse.ArgumentTypeError("a terminal shows no Arrow: write > FILE or | COMMAND behind it")
    if how == "arrow" and importlib.util.find_spec("pyarrow") is None:
        raise argparse.ArgumentTypeError("it needs pyarrow: pip install 'rayft[replay]'")
    return how


def as_of(parser: argparse.ArgumentParser) -> None:
    """Add `--as-of`, which `by_address.metadata_log.moment` reads."""
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        help="as it was then: 14:02, 2026-11-21T14:02 (UTC), or an offset of the metadata log (now)",
    )


def ray(parser: argparse.ArgumentParser, help: str) -> None:
    """Add `--ray`, with or without the address of a Ray cluster."""
    parser.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS", help=help)


def every_node(parser: argparse.ArgumentParser) -> None:
    """Add `--config` and `--set`, for all nodes of a cluster; `properties` reads them."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="properties of every node")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one more property of every node"
    )


def one_node(parser: argparse.ArgumentParser) -> None:
    """Add `--config` and `--set`, for one node; `properties` reads them."""
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="properties file of the node")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more property")


def properties(options: argparse.Namespace) -> dict[str, str]:
    """The settings of the file, overridden by the options. Raises ConfigError."""
    from actors.settings.keys import ConfigError
    from actors.settings.properties import properties

    try:
        found = properties(options.config.read_text("latin-1")) if options.config else {}
    except OSError as error:
        raise ConfigError(
            f"--config {options.config} cannot be read ({error.strerror}): name a properties file."
        ) from None
    for pair in options.set:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"--set {pair} has no value: write --set {pair}=VALUE.")
        found[name.strip()] = value
    if getattr(options, "log_format", None):
        found["rayft.logging.format"] = options.log_format
    return found


def log_format(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format`; `properties` reads it."""
    parser.add_argument(
        "--log-format", choices=("text", "json"), help="lines of nodes' logs: text (the default), or JSON"
    )


def log_files(parser: argparse.ArgumentParser, or_address: bool = False) -> None:
    """Add the options that say which logs are read, and how strictly. `or_address`: the path may be left out."""
    parser.add_argument(
        "path",
        type=Path,
        nargs="?" if or_address else None,
        help="a log file or checkpoint, or a partition's, node's or cluster's directory",
    )
    parser.add_argument(
        "--family", choices=("drafts", "released"), help="family of the records, if not found by itself"
    )
    parser.add_argument("--no-verify", action="store_true", help="do not check CRCs")
    parser.add_argument("--skip-damage", action="store_true", help="report damaged batches and skip them")


def require_pyarrow() -> None:
    """Check that the libraries of tables are installed. Raises ValueError if they are not."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("this command needs pyarrow: pip install 'rayft[replay]'.") from None


def only_prints(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Make a command that only prints: if the reader of its output closes the pipe, that is no error."""

    @wraps(run)
    def told(options: argparse.Namespace) -> int:
        try:
            code = run(options)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    return told
