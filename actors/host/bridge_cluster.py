"""The directory of a cluster that takes another one over: controllers with a listener for the old brokers, and new
brokers.

This file alone decides what `rayft bridge` writes into the properties of nodes beyond what `rayft up` does:

1. Each controller has, beside its own listener, one of each name that all old brokers have. They dial it for ISRs and
   before they stop, and their clients reach a controller there.
2. New brokers have ids behind those of the old ones, and listeners of the same names.
3. The cluster keeps its id.
"""

from collections.abc import Mapping
from pathlib import Path

from actors.bridge.brokers import PROTOCOLS
from actors.bridge.checks import Findings
from actors.config import ConfigError
from actors.host import durable, storage
from actors.host import plan as plans

LEVEL = 2
BRIDGE_BEHIND = 150
"""The first controller's port for old brokers is the first broker's plus this."""


def create(
    directory: Path,
    found: Findings,
    zookeeper: str,
    *,
    controllers: int,
    brokers: int,
    host: str,
    port: int,
    listener: str,
    common: Mapping[str, str],
) -> plans.Plan:
    """Write the plan and format its directories. `listener`: the old brokers' inter-broker listener. Raises
    ConfigError, PortTaken, StorageError."""
    plans.refuse_shape(controllers, brokers, port)
    protocol = next(PROTOCOLS[one.security_protocol] for one in found.brokers[0].endpoints if one.name == listener)
    if protocol != "PLAINTEXT" and not any(name.startswith(("ssl.", "sasl.", "listener.name.")) for name in common):
        raise ConfigError(
            f"the brokers' listener {listener} speaks {protocol}: give the controllers its settings with --config FILE."
        )
    directory.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    offsets = [plans.CONTROLLERS_BEHIND + i for i in range(controllers)] + list(range(brokers))
    offsets += [BRIDGE_BEHIND + i for i in range(controllers)]
    reserved = [plans.reserve(host, port + offset if port else 0) for offset in offsets]
    try:
        ports = [int(sock.getsockname()[1]) for sock in reserved]
        addresses = [(host, one) for one in ports[: controllers + brokers]]
        first = max(broker.id for broker in found.brokers) + 1
        files = plans.describe(directory, addresses[:controllers], addresses[controllers:], common, first_broker=first)
        for own in files.values():
            _bridged(
                own, ports[controllers + brokers :], host, zookeeper, listener, protocol, len(found.brokers) + brokers
            )
        made = plans.Plan(directory, tuple(plans.member_of(name, own) for name, own in files.items()))
        plans.format_all(made, LEVEL, [], found.cluster_id)
        plans.write(directory, files)
        return made
    finally:
        for sock in reserved:
            sock.close()


def _bridged(
    own: dict[str, str], ports: list[int], host: str, zookeeper: str, listener: str, protocol: str, brokers: int
) -> None:
    """The settings of one node, for its part in the bridge."""
    bracketed = f"[{host}]" if ":" in host else host
    own["inter.broker.listener.name"] = listener
    own["listener.security.protocol.map"] = f"CONTROLLER:PLAINTEXT,{listener}:{protocol}"
    for setting in ("default", "offsets.topic"):
        own[f"{setting}.replication.factor"] = str(min(3, brokers))
    if "controller" in own["process.roles"]:
        own["listeners"] += f",{listener}://{bracketed}:{ports[int(own['controller.id']) - plans.FIRST_CONTROLLER]}"
        own["rayft.bridge.listener.names"] = listener
        own["rayft.bridge.zookeeper.connect"] = zookeeper
        own["rayft.metadata.push.enable"] = "true"
    else:
        own["listeners"] = own["listeners"].replace("PLAINTEXT://", f"{listener}://")


def existing(directory: Path, found: Findings) -> plans.Plan | None:
    """The plan that is there, if it is of this cluster. Raises ConfigError if it is another's."""
    made = plans.load(directory)
    if made is None:
        return None
    cluster_id = storage.check(made.members[0].config)[0].cluster_id
    if cluster_id != found.cluster_id:
        raise ConfigError(f"{directory} holds the cluster {cluster_id}, not {found.cluster_id}: take another --dir.")
    return made
