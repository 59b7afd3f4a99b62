"""The `rayft` command: one file here for each word behind it.

This file alone decides which commands there are and what becomes of an error. The file of a command has its options (`add`)
and runs it (`run`, which returns the exit code); options of several commands are in `options.py`. The file is imported when
its command was typed, and imports what it needs when it runs: so `rayft --help` is quick and `rayft node` does not load the
library for screens. Exit codes: 0 done; 1 failed; 2 wrong usage (argparse); 3 a node refused to start (configuration,
directory, port); 78 another process holds the node's id.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Any, NoReturn

COMMANDS = {
    "up": "start a cluster and run it until Ctrl-C",
    "status": "nodes, leader, lag, partitions in trouble",
    "down": "controlled shutdown of a cluster",
    "topic": "list, describe, create and delete topics, read and change their settings",
    "produce": "write the lines of standard input into a topic",
    "consume": "print the records of a topic",
    "group": "list groups, describe them with their lag, move their offsets, delete them",
    "acl": "access rules: who may do what, and who may not",
    "user": "users that log in with a password",
    "quota": "limits of users, client ids and addresses",
    "config": "settings of brokers, groups, topics and client metrics",
    "health": "whether a cluster is well, and what is wrong with it",
    "top": "topics, groups and their rates in the terminal, again and again",
    "metrics": "groups with their lag, topics and partitions as metrics for Prometheus, under kafka_exporter's names",
    "ui": "a page in the browser: a cluster, its history, and why",
    "node": "one node in the foreground, for containers and systemd",
    "bridge": "take over a Kafka cluster that lives with ZooKeeper, or hand it back",
    "format": "prepare the directories of one node",
    "random-id": "print a new id, for format",
    "certificate": "an authority, and certificates for nodes and clients",
    "dump": "print the batches and records of a log file or a checkpoint",
    "scrub": "read what is at rest in log directories, and say what is damaged",
    "replay": "tables from logs and checkpoints: the state at a time, and changes",
    "compact": "make a snapshot from a metadata log, without a controller",
    "completion": "completion of these words for bash, zsh and fish",
}
"""The sentence for each command, as `rayft --help` lists them. The file of `random-id` is `random_id.py`."""


class Command(argparse.ArgumentParser):
    """The options of one command. They are made when it was typed: with all of them `rayft --help` would take a fifth
    longer."""

    file = ""

    def complete(self) -> None:
        """Import the command's file, and take its options from there."""
        if self.file:
            command = import_module(f"{__package__}.{self.file}")
            command.add(self)
            self.set_defaults(run=command.run)
            self.file = ""

    def error(self, message: str) -> NoReturn:
        """End the command with one line about wrong words, which says where the right ones are."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def parse_known_args(self, *arguments: Any, **named: Any) -> Any:
        self.complete()
        return super().parse_known_args(*arguments, **named)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code. A terminal obeys nothing of what it prints (`printable.py`). Where there is no
    standard output or error, as in a process that was started without, what is written there goes nowhere."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from actors.printable import Guarded

    out, error = (open(os.devnull, "w") if stream is None else stream for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    with redirect_stdout(Guarded(out)), redirect_stderr(Guarded(error)):  # type: ignore[type-var]
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    from actors.host.cluster_error import ClusterError
    from actors.host.net.server import PortTaken
    from actors.host.storage import StorageError
    from actors.settings.keys import ConfigError

    try:
        return int(options.run(options))
    except (ConfigError, StorageError, PortTaken, ClusterError, OSError, ValueError) as error:
        print(f"rayft: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _parser() -> argparse.ArgumentParser:
    import rayft

    parser = Command(prog="rayft", description="A Kafka in Python: controllers and brokers on this machine.")
    parser.add_argument("--version", action="version", version=f"rayft {rayft.__version__}")
    commands = parser.add_subparsers(required=True, metavar="command", parser_class=Command)
    for name, help in COMMANDS.items():
        commands.add_parser(name, help=help).file = name.replace("-", "_")
    return parser


if __name__ == "__main__":
    sys.exit(main())
