"""`rayft up`: a cluster is made or found in its directory, started, and watched until Ctrl-C; or a controller is added."""

import argparse
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from actors.command import options as common

if TYPE_CHECKING:
    from actors.command.output.screen import Screen
    from actors.host.cluster.on_processes import Cluster

PAGE_PORT = 8421
"""Where `rayft ui` serves, too."""
NEW = -1
"""The id of a controller that has none yet."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft up`."""
    parser.add_argument("--controllers", type=int, metavar="N", help="how many controllers (3)")
    parser.add_argument("--brokers", type=int, metavar="N", help="how many brokers (3)")
    parser.add_argument("--combined", action="store_true", help="the first controllers and brokers share processes")
    parser.add_argument("--host", help="address to bind and to tell clients (127.0.0.1)")
    parser.add_argument("--port", type=int, help="first broker's port (9092); controllers from there +100; 0: any free")
    safety = parser.add_mutually_exclusive_group()
    safety.add_argument(
        "--secure",
        action="store_true",
        default=None,
        help="TLS, logins and access rules on loopback too, as on any other address",
    )
    safety.add_argument(
        "--insecure",
        action="store_false",
        dest="secure",
        help="none of them: whoever reaches a port may read, write and delete everything",
    )
    common.every_node(parser)
    common.log_format(parser)
    common.ray(parser, "on a Ray cluster instead of processes")
    parser.add_argument(
        "--add-controller",
        type=int,
        nargs="?",
        const=NEW,
        metavar="ID",
        help="one more controller for the cluster that runs; ID: a new disk for the one that lost its own",
    )
    parser.add_argument("--detach", action="store_true", help="return when the cluster is ready and leave it running")
    parser.add_argument(
        "--ui", type=int, nargs="?", const=PAGE_PORT, metavar="PORT", help=f"also the page in the browser ({PAGE_PORT})"
    )
    parser.add_argument(
        "--allow-changes",
        action="store_true",
        help="with --ui: the page may change topics, groups and settings, and kill, freeze or cut off nodes to show it",
    )
    common.feature(parser)
    common.directory(parser)


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    if options.add_controller is not None:
        return _add_controller(options)
    level = common.level(options)
    _refuse_page(options)
    if options.ray is not None:
        from actors.host.cluster import on_ray
        from actors.settings.keys import ConfigError

        if level != 2:
            raise ConfigError("a cluster on Ray begins at metadata.format 2: leave --feature out.")
        if options.host is not None or options.combined:
            raise ConfigError(
                "on Ray each node has a process of its own, at its machine's address: leave --host and --combined out."
            )
        return on_ray.up(options, common.properties(options))
    from actors.command.output import screen
    from actors.host.cluster import plan, secure_cluster
    from actors.host.cluster.on_processes import Cluster

    port = options.port
    if port is None and plan.load(options.dir) is None:
        port = plan.FIRST_PORT
    console = screen.Screen()
    signal.signal(signal.SIGTERM, _interrupt)
    cluster = Cluster(
        options.controllers, options.brokers, options.dir, common.properties(options),
        host=options.host, port=port, combined=options.combined, format_level=level if options.feature else None,
        detached=options.detach, secure=options.secure,
    )  # fmt: skip
    began = time.monotonic()
    try:
        with console.status(screen.text(f"starting; the logs are in {options.dir}")):
            cluster.start()
        console.print(screen.table(screen.state(options.dir)))
        console.say(f"ready after {time.monotonic() - began:.1f} s; ", bold=cluster.served)
        if cluster.secure:
            console.say(secure_cluster.told(options.dir, cluster.bootstrap_servers))
        if options.detach:
            console.say(f"stop it with: rayft down --dir {options.dir}")
            return 0
        with _page(options, cluster, console):
            console.say("Ctrl-C stops it.")
            _stay(cluster, options.dir, console)
        cluster.refuse_crash()
    except KeyboardInterrupt:
        pass
    try:
        with console.status("stopping: brokers first, then controllers"):
            cluster.stop()
    except KeyboardInterrupt:
        cluster.stop(timeout_s=0.0)
    console.say("stopped")
    return 0


def _add_controller(options: argparse.Namespace) -> int:
    """Run `rayft up --add-controller`: the cluster runs already, so that nothing else of `up` has a meaning."""
    from actors.host.cluster import local_controllers
    from actors.settings.keys import ConfigError

    shaping = (
        "controllers",
        "brokers",
        "combined",
        "host",
        "port",
        "secure",
        "config",
        "set",
        "log_format",
        "detach",
        "feature",
        "ui",
        "allow_changes",
    )
    for name in shaping:
        if getattr(options, name) not in (None, False, []) or (name == "secure" and options.secure is False):
            option = "insecure" if name == "secure" and not options.secure else name.replace("_", "-")
            raise ConfigError(
                f"--{option} shapes a new cluster, and --add-controller changes one that runs: leave --{option} out."
            )
    began = time.monotonic()
    wanted = None if options.add_controller == NEW else options.add_controller
    if options.ray is not None:
        from actors.host.cluster import ray_controllers

        id = ray_controllers.add(options.dir, options.ray, wanted)
    else:
        id = local_controllers.add(options.dir, wanted)
    print(f"controller {id} votes, {time.monotonic() - began:.1f} s after the command")
    return 0


def _refuse_page(options: argparse.Namespace) -> None:
    """Refuse a page that nobody would end, or whose port is none. Raises ConfigError."""
    from actors.settings.keys import ConfigError

    if options.ui is None:
        if options.allow_changes:
            raise ConfigError("--allow-changes is for the page: write --ui, too.")
        return
    if options.detach or options.ray is not None:
        other = "--detach" if options.detach else "--ray"
        raise ConfigError(
            f"the page of --ui ends with this command, which {other} does not stay for: leave --ui out, and write "
            f"rayft ui {'-b HOST:PORT' if options.ray is not None else f'--dir {options.dir}'} when the cluster is ready."
        )
    if not 0 <= options.ui < 1 << 16:
        raise ConfigError(f"--ui {options.ui} is no port: write a number up to 65535.")


@contextmanager
def _page(options: argparse.Namespace, cluster: "Cluster", console: "Screen") -> Iterator[None]:
    """The page, if there is to be one, as long as the cluster."""
    if options.ui is None:
        yield
        return
    from actors.command.by_address.page_faults import PageFaults
    from actors.command.by_address.page_process import page_process

    faults = PageFaults(cluster) if options.allow_changes else None
    try:
        with page_process(options.dir, options.ui, faults) as (address, why):
            console.say("the page: " if address else f"there is no page: {why}", bold=address)
            yield
    finally:
        if faults is not None:
            faults.close()


def _stay(cluster: "Cluster", directory: Path, console: "Screen") -> None:
    """Show the cluster's state in one line, on a terminal, until Ctrl-C or until another command stops the cluster."""
    from actors.command.output import screen
    from actors.host.storage import StorageError

    if not console.is_terminal:
        while cluster.running:
            time.sleep(0.2)
        return
    with console.status("") as status:
        while cluster.running:
            try:
                status.update(screen.text(screen.line(screen.state(directory))))
            except (OSError, ValueError, KeyError, StorageError) as error:
                # The cluster must not end because of that.
                status.update(screen.text(f"its state is not known: {error}"))
            time.sleep(1.0)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt
