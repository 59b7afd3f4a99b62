"""`rayft down`: a cluster is shut down, brokers first; or one controller leaves it."""

import argparse
import math

from actors.command import options as common


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft down`."""
    parser.add_argument("--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="then kill (30)")
    parser.add_argument("--node", type=int, metavar="ID", help="only this controller, with --remove")
    parser.add_argument("--remove", action="store_true", help="it votes no more, and its directory is removed")
    common.ray(parser, "a cluster on Ray")
    common.directory(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    if options.node is not None or options.remove:
        return _remove(options)
    if options.ray is not None:
        from actors.host.cluster import on_ray

        return on_ray.down(options)
    from actors.host.cluster.on_processes import down

    ran = down(options.dir, options.timeout)
    print("stopped" if ran else f"no cluster is running in {options.dir}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    """Run `rayft down --node ID --remove`."""
    from actors.settings.keys import ConfigError

    if options.node is None or not options.remove:
        raise ConfigError("--node and --remove go together: write rayft down --node ID --remove.")
    if options.ray is not None:
        from actors.host.cluster import ray_controllers

        ray_controllers.remove(options.dir, options.ray, options.node)
    else:
        from actors.host.cluster import local_controllers

        local_controllers.remove(options.dir, options.node)
    print(f"controller {options.node} votes no more, and is gone")
    return 0


def _seconds(text: str) -> float:
    """A time to wait in seconds. Raises argparse's error for the user."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds
