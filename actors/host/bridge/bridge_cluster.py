"""The directory of a cluster that takes another one over: controllers with listeners for the old brokers, and new
brokers.

This file alone decides what `rayft bridge` writes into the properties of nodes beyond what `rayft up` does:

1. Each controller has, beside its own listener, one of each name that all old brokers have. They dial it for ISRs and
   before they stop, and their clients reach a controller there.
2. New brokers have ids behind those of the old ones, and listeners of the same names.
3. A listener speaks what the old brokers' listener of that name speaks. What the controllers speak among themselves is
   theirs: PLAINTEXT, unless `listener.security.protocol.map` has CONTROLLER.
4. The cluster keeps its id. Controllers that log in to each other with SCRAM have the users of ZooKeeper from the start.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.bridge.checks import Findings
from actors.bridge.subjects.brokers import PROTOCOLS
from actors.host import storage
from actors.host.cluster import plan as plans
from actors.host.work import durable
from actors.settings.keys import ConfigError

LEVEL = 2
BRIDGE_BEHIND = 150
"""The first controller's port for old brokers is the first broker's plus this; further listeners follow on the next."""
CONTROLLER = "CONTROLLER"
PROTOCOL_MAP = "listener.security.protocol.map"


class WantedCluster(NamedTuple):
    """The shape of the cluster that the operator wants."""

    directory: Path
    zookeeper: str
    controllers: int
    brokers: int
    host: str
    port: int
    """The port of the first new broker; 0: any free ports."""
    listener: str
    """The name of the old brokers' inter-broker listener."""
    common: Mapping[str, str]
    """The settings that every node gets."""


def protocols(found: Findings) -> dict[str, str]:
    """The security protocol of each listener that all old brokers have. Raises ConfigError if they differ."""
    result: dict[str, str] = {}
    for broker in found.brokers:
        for one in broker.endpoints:
            if one.name not in found.listeners:
                continue
            spoken = PROTOCOLS[one.security_protocol]
            if result.setdefault(one.name, spoken) != spoken:
                raise ConfigError(
                    f"listener {one.name} speaks {result[one.name]} at one broker and {spoken} at broker {broker.id}: give "
                    f"it one security protocol on every broker."
                )
    return result


def mapped(common: Mapping[str, str]) -> dict[str, str]:
    """The security protocols of listeners in the settings of every node, by listener name."""
    pairs = (pair.upper().partition(":") for pair in common.get(PROTOCOL_MAP, "").split(",") if pair.strip())
    return {name.strip(): protocol.strip() for name, _, protocol in pairs}


def described(shape: WantedCluster, found: Findings, ports: Sequence[int]) -> dict[str, dict[str, str]]:
    """The properties of every node, by its name. `ports`: `ports_behind` of them. Raises ConfigError."""
    spoken = protocols(found)
    given = mapped(shape.common)
    for name, protocol in spoken.items():
        if given.get(name, protocol) != protocol:
            raise ConfigError(
                f"{PROTOCOL_MAP} gives {given[name]} to {name}, and the brokers' listener {name} speaks {protocol}: write "
                f"{name}:{protocol}, or leave it out."
            )
    nodes = shape.controllers + shape.brokers
    own_ports, more = ports[:nodes], iter(ports[nodes:])
    addresses = [(shape.host, port) for port in own_ports]
    first = max(broker.id for broker in found.brokers) + 1
    files = plans.describe(
        shape.directory,
        addresses[: shape.controllers],
        addresses[shape.controllers :],
        shape.common,
        first_broker=first,
    )
    names = [shape.listener, *(name for name in spoken if name != shape.listener)]
    for own in files.values():
        own["inter.broker.listener.name"] = shape.listener
        own[PROTOCOL_MAP] = ",".join(
            f"{name}:{protocol}"
            for name, protocol in ({CONTROLLER: given.get(CONTROLLER, "PLAINTEXT")} | spoken).items()
        )
        for setting in ("default", "offsets.topic"):
            name = f"{setting}.replication.factor"
            own[name] = shape.common.get(name, str(min(3, len(found.brokers) + shape.brokers)))
        if "controller" in own["process.roles"]:
            own["listeners"] += "".join(f",{_url(name, shape.host, next(more))}" for name in names)
            own["rayft.bridge.listener.names"] = ",".join(names)
            own["rayft.bridge.zookeeper.connect"] = shape.zookeeper
            own["rayft.metadata.push.enable"] = "true"
        else:
            _, _, port = own["listeners"].rpartition(":")
            urls = [_url(names[0], shape.host, int(port))]
            own["listeners"] = ",".join(urls + [_url(name, shape.host, next(more)) for name in names[1:]])
    return files


def ports_behind(shape: WantedCluster, listeners: int) -> list[int]:
    """How far the ports of all nodes are behind the first new broker's: of the controllers, of the brokers, of all
    further listeners. `listeners`: how many listeners the old brokers have."""
    more = shape.controllers * listeners + shape.brokers * (listeners - 1)
    return [
        *(plans.CONTROLLERS_BEHIND + i for i in range(shape.controllers)),
        *range(shape.brokers),
        *(BRIDGE_BEHIND + i for i in range(more)),
    ]


def create(shape: WantedCluster, found: Findings) -> plans.Plan:
    """Write the plan and format its directories. Raises ConfigError, PortTaken, StorageError."""
    plans.refuse_shape(shape.controllers, shape.brokers, shape.port)
    shape.directory.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    with _reserved(shape, len(found.listeners)) as ports:
        files = described(shape, found, ports)
        made = plans.Plan(shape.directory, tuple(plans.member_of(name, own) for name, own in files.items()))
        logs_in = mapped(shape.common).get(CONTROLLER, "").startswith("SASL_")
        plans.format_all(made, LEVEL, found.credentials if logs_in else (), found.cluster_id)
        plans.write(shape.directory, files)
        return made


@contextlib.contextmanager
def _reserved(shape: WantedCluster, listeners: int) -> Iterator[list[int]]:
    """Ports that no other process gets while the block runs."""
    with contextlib.ExitStack() as kept:
        yield [
            int(
                kept.enter_context(plans.reserve(shape.host, shape.port + offset if shape.port else 0)).getsockname()[1]
            )
            for offset in ports_behind(shape, listeners)
        ]


def _url(name: str, host: str, port: int) -> str:
    return f"{name}://[{host}]:{port}" if ":" in host else f"{name}://{host}:{port}"


def existing(directory: Path, found: Findings) -> plans.Plan | None:
    """The plan in a directory, if it is of this cluster; None: there is none. Raises ConfigError if it is another
    cluster's."""
    made = plans.load(directory)
    if made is None:
        return None
    cluster_id = storage.check(made.members[0].config)[0].cluster_id
    if cluster_id != found.cluster_id:
        raise ConfigError(f"{directory} holds the cluster {cluster_id}, not {found.cluster_id}: take another --dir.")
    return made
