"""`rayft status`: the nodes of a cluster and what is wrong with it, once or every second, by directory or by address."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.command import options as common

State = dict[str, Any]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft status`."""
    parser.add_argument("--json", action="store_true", help="for programs; -o json")
    parser.add_argument("--watch", action="store_true", help="again every second until Ctrl-C")
    common.listing(parser)
    common.address(parser, f"where the cluster lives, if it is on this machine ({common.DIRECTORY})")


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 1 for a cluster that is not as it should be."""
    from actors.command.output import screen

    options.output = "json" if options.json else options.output
    if options.watch and options.output == "arrow":
        from actors.command.by_address.connection import wrong

        wrong("--watch has no end, and one stream of Arrow has one: write -o jsonl, or leave --watch out")
    with _looking(options) as look:
        found = look(None)
        try:
            _print(found, options.output, screen.Screen(), look if options.watch else None)
        except KeyboardInterrupt:
            return 0
    return 0 if screen.healthy(found) else 1


@contextmanager
def _looking(options: argparse.Namespace) -> Iterator[Callable[[State | None], State]]:
    """A function that gives the state now; it is told the one before, or None."""
    from actors.command.by_address import connection
    from actors.command.output import screen

    directory = options.dir or Path(common.DIRECTORY)
    typed = options.bootstrap or options.config or options.profile
    if not typed and (options.dir or not connection.is_named(options) or screen.is_cluster(directory)):
        yield lambda before: screen.state(directory)
        return
    from actors.command.by_address import nodes

    with connection.connected(options) as kafka:
        yield lambda before: nodes.state(kafka) if before is None else nodes.again(kafka, before)


def _print(found: State, how: str, console: Any, look: Callable[[State | None], State] | None) -> None:
    """Print the state, and every second what `look` gives."""
    from actors.command.output import screen

    if look is not None and how == "table":
        from rich.live import Live

        with Live(screen.view(found), console=console, auto_refresh=False) as live:
            while True:
                time.sleep(1.0)
                found = look(found)
                live.update(screen.view(found), refresh=True)
    screen.show(found, how, console)
    while look is not None:
        time.sleep(1.0)
        found = look(found)
        screen.show(found, how, console)
