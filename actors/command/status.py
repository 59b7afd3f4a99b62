"""`rayft status`: the nodes of a cluster and what is wrong with it, once or every second."""

import argparse
import time

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft status`."""
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--watch", action="store_true", help="again every second until Ctrl-C")
    common.directory(parser)


@common.only_prints
def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code: 1 for a cluster that is not as it should be."""
    from actors.command.output import screen

    console = screen.Screen()
    found = screen.state(options.dir)
    if options.watch and not options.json:
        from rich.live import Live

        try:
            with Live(screen.table(found), console=console, auto_refresh=False) as live:
                while True:
                    time.sleep(1.0)
                    found = screen.state(options.dir)
                    live.update(screen.table(found), refresh=True)
        except KeyboardInterrupt:
            return 0
    screen.show(found, options.json, console)
    try:
        while options.watch:
            time.sleep(1.0)
            screen.show(screen.state(options.dir), options.json, console)
    except KeyboardInterrupt:
        return 0
    return 0 if screen.healthy(found) else 1
