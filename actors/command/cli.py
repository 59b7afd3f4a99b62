"""The `rayft` command.

This file alone decides the commands and their options. Every command imports what it needs when it runs, so `rayft
--help` is quick and `rayft node` does not load the library for screens. Exit codes: 0 done; 1 failed; 2 wrong usage
(argparse); 3 a node refused to start (configuration, directory, port); 78 another process holds the node's id.
"""

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import NoReturn

DIRECTORY = "rayft-data"
NEW = -1
"""The id of a controller that has none yet."""


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
    from actors.settings.node_config import ConfigError

    try:
        return int(options.run(options))
    except (ConfigError, StorageError, PortTaken, ClusterError, OSError, ValueError) as error:
        print(f"rayft: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _version() -> str:
    import rayft

    return rayft.__version__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rayft", description="A Kafka in Python: controllers and brokers on this machine."
    )
    parser.add_argument("--version", action="version", version=f"rayft {_version()}")
    commands = parser.add_subparsers(required=True, metavar="command")

    up = commands.add_parser("up", help="start a cluster and run it until Ctrl-C")
    up.add_argument("--controllers", type=int, metavar="N", help="how many controllers (3)")
    up.add_argument("--brokers", type=int, metavar="N", help="how many brokers (3)")
    up.add_argument("--combined", action="store_true", help="the first controllers and brokers share processes")
    up.add_argument("--host", help="address to bind and to tell clients (127.0.0.1)")
    up.add_argument("--port", type=int, help="first broker's port (9092); controllers from there +100; 0: any free")
    safety = up.add_mutually_exclusive_group()
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
    up.add_argument("--config", type=Path, metavar="FILE", help="properties of every node")
    up.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more property of every node")
    up.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS", help="on a Ray cluster instead of processes")
    up.add_argument(
        "--add-controller",
        type=int,
        nargs="?",
        const=NEW,
        metavar="ID",
        help="one more controller for the cluster that runs; ID: a new disk for the one that lost its own",
    )
    up.add_argument("--detach", action="store_true", help="return when the cluster is ready and leave it running")
    _feature(up)
    _directory(up)
    up.set_defaults(run=_up)

    status = commands.add_parser("status", help="nodes, leader, lag, partitions in trouble")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument("--watch", action="store_true", help="again every second until Ctrl-C")
    _directory(status)
    status.set_defaults(run=partial(_told, _status))

    down = commands.add_parser("down", help="controlled shutdown of a cluster")
    down.add_argument("--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="then kill (30)")
    down.add_argument("--node", type=int, metavar="ID", help="only this controller, with --remove")
    down.add_argument("--remove", action="store_true", help="it votes no more, and its directory is removed")
    down.add_argument("--ray", nargs="?", const="auto", metavar="ADDRESS", help="a cluster on Ray")
    _directory(down)
    down.set_defaults(run=_down)

    node = commands.add_parser("node", help="one node in the foreground, for containers and systemd")
    _config(node)
    node.set_defaults(run=_node)

    bridge = commands.add_parser("bridge", help="take over a Kafka cluster that lives with ZooKeeper, or hand it back")
    bridge.add_argument(
        "--zookeeper", required=True, metavar="HOST:PORT/CHROOT", help="what its brokers have in zookeeper.connect"
    )
    what = bridge.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="say what would happen, and change nothing")
    what.add_argument("--back", action="store_true", help="hand it back to its own brokers")
    what.add_argument("--finish", action="store_true", help="its last own broker has stopped: go on without ZooKeeper")
    bridge.add_argument("--controllers", type=int, default=3, metavar="N", help="how many controllers (3)")
    bridge.add_argument("--brokers", type=int, default=0, metavar="N", help="new brokers that join at once (0)")
    bridge.add_argument(
        "--host", default="127.0.0.1", help="address to bind, which the old brokers can reach (127.0.0.1)"
    )
    bridge.add_argument(
        "--port", type=int, default=0, help="first new broker's port; controllers behind it; 0: any free"
    )
    bridge.add_argument(
        "--listener", metavar="NAME", help="the old brokers' inter.broker.listener.name, if they have several"
    )
    bridge.add_argument("--config", type=Path, metavar="FILE", help="properties of every node")
    bridge.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one more property of every node"
    )
    _directory(bridge)
    bridge.set_defaults(run=_bridge)

    form = commands.add_parser("format", help="prepare the directories of one node")
    _config(form)
    form.add_argument("--cluster-id", required=True, metavar="ID", help="22 characters; the same for every node")
    who = form.add_mutually_exclusive_group()
    who.add_argument("--standalone", action="store_true", help="this controller is the whole quorum")
    who.add_argument("--initial-controllers", metavar="ID@HOST:PORT:DIRID,...", help="the quorum, this one among it")
    who.add_argument("--no-initial-controllers", action="store_true", help="learn the quorum from controller.connect")
    form.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="a user of a new cluster: 'SCRAM-SHA-256=[name=alice,password=alice-secret]'; may be repeated",
    )
    _feature(form)
    form.add_argument("--ignore-formatted", action="store_true", help="skip directories formatted for this cluster")
    form.set_defaults(run=_format)

    identity = commands.add_parser("random-id", help="print a new id, for format")
    identity.set_defaults(run=_random_id)

    _certificates(commands.add_parser("certificate", help="an authority, and certificates for nodes and clients"))

    dump = commands.add_parser("dump", help="print the batches and records of a log file or a checkpoint")
    dump.add_argument("files", nargs="+", type=Path, metavar="FILE")
    dump.add_argument("--batches", action="store_true", help="headers of batches only")
    dump.set_defaults(run=partial(_told, _dump))

    scrub = commands.add_parser("scrub", help="read what is at rest in log directories, and say what is damaged")
    scrub.add_argument(
        "--dir",
        type=Path,
        default=Path(DIRECTORY),
        help=f"a log directory, or the directory of a cluster ({DIRECTORY})",
    )
    scrub.set_defaults(run=partial(_told, _scrub))

    replay = commands.add_parser("replay", help="tables from logs and checkpoints: the state at a time, and changes")
    _files(replay)
    replay.add_argument(
        "--table",
        metavar="NAME",
        help="topics, partitions, brokers, configs, ... changes, records or log; left out: a list",
    )
    replay.add_argument(
        "--as-of", metavar="WHEN", help="offset (exclusive), 14:02, or 2026-11-21T14:02 (UTC); left out: now"
    )
    replay.add_argument("--since", metavar="WHEN", help="where changes, records and log begin")
    replay.add_argument("--where", default="", metavar="EXPR", help="for example: leader = 5 and isr contains 3")
    replay.add_argument("--columns", metavar="A,B,...", help="only these")
    replay.add_argument("--topic", action="append", default=[], metavar="NAME", help="only this topic; may be repeated")
    replay.add_argument("--sql", metavar="QUERY", help="a query over the tables (needs duckdb)")
    replay.add_argument(
        "--out", type=Path, metavar="FILE", help="DIR.parquet, FILE.arrow or FILE.jsonl, not the screen"
    )
    replay.add_argument("--limit", type=int, metavar="N", help="only so many rows (50 on the screen); 0: all")
    replay.add_argument("--json", action="store_true", help="one JSON object a row")
    replay.set_defaults(run=partial(_told, partial(_replayed, "run")))

    compact = commands.add_parser("compact", help="make a snapshot from a metadata log, without a controller")
    _files(compact)
    compact.add_argument("--as-of", metavar="WHEN", help="where it ends: an offset that was committed, or a time")
    compact.add_argument(
        "--out", type=Path, default=Path("."), metavar="FILE", help="file, or directory to put it in (.)"
    )
    compact.set_defaults(run=partial(_replayed, "compact"))
    return parser


def _certificates(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(required=True, metavar="what", dest="what")

    def kind(name: str, help: str) -> argparse.ArgumentParser:
        one = kinds.add_parser(name, help=help)
        one.set_defaults(run=_certificate)
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


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=Path, help="a log file or checkpoint, or a partition's, node's or cluster's directory"
    )
    parser.add_argument(
        "--family", choices=("drafts", "released"), help="family of the records, if not found by itself"
    )
    parser.add_argument("--no-verify", action="store_true", help="do not check CRCs")
    parser.add_argument("--skip-damage", action="store_true", help="report damaged batches and skip them")


def _directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"where the cluster lives ({DIRECTORY})")


def _feature(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--feature", metavar="NAME=LEVEL", help="metadata.format of a new cluster, 1 or 2 (2)")


def _seconds(text: str) -> float:
    """A time to wait in seconds. Raises argparse's error for the user."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return seconds


def _level(options: argparse.Namespace) -> int:
    """The level of metadata.format for new storage."""
    from actors.settings.node_config import ConfigError

    if options.feature is None:
        return 2
    name, _, level = options.feature.partition("=")
    if name != "metadata.format" or level not in ("1", "2"):
        raise ConfigError(f"--feature {options.feature} does not exist: write metadata.format=1 or metadata.format=2.")
    return int(level)


def _config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="properties file of the node")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="one more property")


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """The settings of the file, overridden by the options."""
    from actors.settings.node_config import ConfigError, properties

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
    return found


def _add_controller(options: argparse.Namespace) -> int:
    """`rayft up --add-controller`: the cluster runs already, so that nothing else of `up` has a meaning."""
    from actors.host.cluster import local_controllers
    from actors.settings.node_config import ConfigError

    shaping = ("controllers", "brokers", "combined", "host", "port", "secure", "config", "set", "detach", "feature")
    for name in shaping:
        if getattr(options, name) not in (None, False, []) or (name == "secure" and options.secure is False):
            option = "insecure" if name == "secure" and not options.secure else name
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


def _up(options: argparse.Namespace) -> int:
    if options.add_controller is not None:
        return _add_controller(options)
    level = _level(options)
    if options.ray is not None:
        from actors.host.cluster import on_ray
        from actors.settings.node_config import ConfigError

        if level != 2:
            raise ConfigError("a cluster on Ray begins at metadata.format 2: leave --feature out.")
        if options.host is not None or options.combined:
            raise ConfigError(
                "on Ray each node has a process of its own, at its machine's address: leave --host and --combined out."
            )
        return on_ray.up(options, _properties(options))
    from actors.command import screen
    from actors.host.cluster import plan, secure_cluster
    from actors.host.cluster.on_processes import Cluster

    port = options.port
    if port is None and plan.load(options.dir) is None:
        port = plan.FIRST_PORT
    console = screen.Screen()
    signal.signal(signal.SIGTERM, _interrupt)
    cluster = Cluster(
        options.controllers, options.brokers, options.dir, _properties(options),
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


def _stay(cluster: "Cluster", directory: Path, console: "Screen") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Show the cluster's state in one line, on a terminal, until Ctrl-C or until another command stops the cluster."""
    from actors.command import screen
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
                status.update(
                    screen.text(f"its state is not known: {error}")
                )  # the cluster must not end because of that
            time.sleep(1.0)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _told(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command that only prints. If the reader of its output closes the pipe, that is no error."""
    try:
        code = run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _status(options: argparse.Namespace) -> int:
    from actors.command import screen

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


def _remove(options: argparse.Namespace) -> int:
    """`rayft down --node ID --remove`."""
    from actors.settings.node_config import ConfigError

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


def _down(options: argparse.Namespace) -> int:
    if options.node is not None or options.remove:
        return _remove(options)
    if options.ray is not None:
        from actors.host.cluster import on_ray

        return on_ray.down(options)
    from actors.host.cluster.on_processes import down

    ran = down(options.dir, options.timeout)
    print("stopped" if ran else f"no cluster is running in {options.dir}")
    return 0


def _node(options: argparse.Namespace) -> int:
    from actors.host.security.config_providers import resolved
    from actors.host.serve import REFUSED, Journal, hostname, serve
    from actors.settings.node_config import ConfigError, node_config

    try:
        config = node_config(resolved(_properties(options)), hostname())
    except (ConfigError, OSError) as error:
        code, sentence = REFUSED, str(error)
    else:
        code, sentence = serve(config, Journal(sys.stdout), secret_files=_secret_files(options))
    if code == REFUSED:
        print(f"rayft: {sentence}", file=sys.stderr)
    return code


def _secret_files(options: argparse.Namespace) -> list[str]:
    """The file that the options name, if it holds secrets."""
    from actors.settings.node_config import has_secrets

    return [str(options.config)] if has_secrets(_properties(options)) else []


def _bridge(options: argparse.Namespace) -> int:
    from actors.command import bridge

    return bridge.run(options, _properties(options))


def _format(options: argparse.Namespace) -> int:
    from actors.host import storage
    from actors.host.security.config_providers import resolved
    from actors.host.security.scram_argument import credentials
    from actors.host.serve import hostname
    from actors.host.work.system_random import SystemRandom, uuid_text
    from actors.settings.node_config import ConfigError, node_config

    config = node_config(resolved(_properties(options)), hostname())
    users = credentials(options.add_scram)
    own = SystemRandom().uuid()
    voters: list[storage.Voter] | None = None
    if "controller" in config.roles:
        listener = config.controller_endpoints[0]
        if options.standalone:
            voters = [storage.Voter(config.controller_id, *_dialled(config), own, listener.name)]
        elif options.initial_controllers:
            voters = storage.voters(options.initial_controllers, listener.name)
            mine = [voter for voter in voters if voter.id == config.controller_id]
            if not mine:
                raise ConfigError(
                    f"--initial-controllers does not name controller.id={config.controller_id}: add it, or write "
                    f"--no-initial-controllers."
                )
            own = mine[0].directory_id
        elif not options.no_initial_controllers:
            raise ConfigError(
                "a controller must know its quorum: write --standalone, --initial-controllers ID@HOST:PORT:DIRID,... or "
                "--no-initial-controllers."
            )
    elif options.standalone or options.initial_controllers:
        raise ConfigError("a process without the controller role has no quorum of its own: leave that option out.")
    storage.agree(config, voters)
    for directory in storage.format_node(
        config,
        options.cluster_id,
        voters=voters,
        directory_id=own,
        level=_level(options),
        ignore_formatted=options.ignore_formatted,
        credentials=users,
    ):
        print(
            f"formatted {directory.path}: cluster {directory.cluster_id}, directory {uuid_text(directory.directory_id)}"
        )
    if users and "controller" not in config.roles:
        print("--add-scram has no effect here: controllers store users, and this process has no controller role")
    return 0


def _dialled(config: "NodeConfig") -> tuple[str, int]:  # type: ignore[name-defined]  # noqa: F821
    """The address at which others reach a lone controller: what advertised.listeners says; else its listener's or, if that
    listens on every interface, the one in controller.connect, or this machine's name where it names no host."""
    from actors.authorization.addresses import is_every_interface
    from actors.settings.node_config import ConfigError

    listener, told = config.controller_endpoints[0], config.controller_advertised[0]
    if config.advertises(told.name) or not is_every_interface(listener.host):
        return told.host, told.port
    named = [(host, port) for id, host, port in config.controller_connect if id in (None, config.controller_id)]
    if len(named) == 1:
        return named[0]
    if is_every_interface(told.host):
        raise ConfigError(
            f"{listener.name}://{listener.host}:{listener.port} listens on every interface, which is no address for "
            f"others: write advertised.listeners={listener.name}://host:{listener.port} with a name that they can reach."
        )
    return told.host, told.port


def _random_id(options: argparse.Namespace) -> int:
    from actors.host.work.system_random import SystemRandom, uuid_text

    print(uuid_text(SystemRandom().uuid()))
    return 0


def _certificate(options: argparse.Namespace) -> int:
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


def _dump(options: argparse.Namespace) -> int:
    from actors.command.dump import dump

    for path in options.files:
        dump(path, sys.stdout, batches_only=options.batches)
    return 0


def _scrub(options: argparse.Namespace) -> int:
    from actors.command.scrub import directories, scrub

    found = [scrub(path, sys.stdout) for path in directories(options.dir)]
    return 1 if any(one.faults for one in found) else 0


def _replayed(what: str, options: argparse.Namespace) -> int:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("this command needs pyarrow: pip install 'rayft[replay]'.") from None
    from actors.command import replay

    return int(getattr(replay, what)(options))


if __name__ == "__main__":
    sys.exit(main())
