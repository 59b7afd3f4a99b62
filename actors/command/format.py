"""`rayft format`: the directories of one node get their identity, the quorum and the first users."""

import argparse
from typing import TYPE_CHECKING

from actors.command import options as common

if TYPE_CHECKING:
    from actors.settings.node_config import NodeConfig


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of `rayft format`."""
    common.one_node(parser)
    parser.add_argument("--cluster-id", required=True, metavar="ID", help="22 characters; the same for every node")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--standalone", action="store_true", help="this controller is the whole quorum")
    who.add_argument("--initial-controllers", metavar="ID@HOST:PORT:DIRID,...", help="the quorum, this one among it")
    who.add_argument("--no-initial-controllers", action="store_true", help="learn the quorum from controller.connect")
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="CREDENTIAL",
        help="a user of a new cluster: 'SCRAM-SHA-256=[name=alice,password=alice-secret]'; may be repeated",
    )
    common.feature(parser)
    parser.add_argument("--ignore-formatted", action="store_true", help="skip directories formatted for this cluster")


def run(options: argparse.Namespace) -> int:
    """Run the command. Returns its exit code."""
    from actors.host import storage
    from actors.host.security.config_providers import resolved
    from actors.host.security.scram_argument import credentials
    from actors.host.serve import hostname
    from actors.host.work.system_random import SystemRandom, uuid_text
    from actors.settings.keys import ConfigError
    from actors.settings.node_config import node_config

    config = node_config(resolved(common.properties(options)), hostname())
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
        level=common.level(options),
        ignore_formatted=options.ignore_formatted,
        credentials=users,
    ):
        print(
            f"formatted {directory.path}: cluster {directory.cluster_id}, directory {uuid_text(directory.directory_id)}"
        )
    if users and "controller" not in config.roles:
        print("--add-scram has no effect here: controllers store users, and this process has no controller role")
    return 0


def _dialled(config: "NodeConfig") -> tuple[str, int]:
    """The address at which others reach a lone controller: what advertised.listeners says; else its listener's or, if that
    listens on every interface, the one in controller.connect, or this machine's name where it names no host."""
    from actors.authorization.addresses import is_every_interface
    from actors.settings.keys import ConfigError

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
