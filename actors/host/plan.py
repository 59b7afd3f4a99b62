"""The content of a local cluster: a properties file for each node, in one directory.

This file alone decides the layout of a cluster's directory:

    cluster.json               the running cluster, for people and programs (schema: DESIGN section 11)
    broker-1.properties        a node's configuration, as `rayft node --config` takes it
    broker-1.log               the node's log
    broker-1/                  its data
    ray.json                   for a cluster on Ray: which machine has which node

Brokers are numbered 1, 2, ... and controllers 1001, 1002, ...; with `combined` the first of each share a process. The
files are written once: a later start of the directory runs the same nodes on the same ports.
"""

import contextlib
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.config import ConfigError, NodeConfig, node_config, properties
from actors.host import durable, storage
from actors.host.server import PortTaken
from actors.host.system_random import SystemRandom, uuid_text

FIRST_CONTROLLER = 1001
FIRST_PORT, LAST_PORT = 9092, 65535
CONTROLLERS_BEHIND = 100
"""The first controller's port is the first broker's plus this."""
CLUSTER_JSON = "cluster.json"
RAY_JSON = "ray.json"
OWN = (
    "process.roles", "broker.id", "controller.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir",
    "metadata.log.dir", "controller.connect", "controller.listeners", "controller.listener.names",
    "controller.quorum.voters", "controller.quorum.bootstrap.servers",
)  # fmt: skip
"""Settings that differ from node to node, so that a common file cannot give them."""


METRICS = "rayft.metrics.listen"


class Member(NamedTuple):
    """One node of the plan."""

    name: str
    config: NodeConfig

    @property
    def ids(self) -> tuple[int, ...]:
        """Its broker id and its controller id, as far as it has them."""
        return tuple(id for id in (self.config.broker_id, self.config.controller_id) if id >= 0)

    def address(self, kind: str) -> tuple[str, int]:
        """(host, port) of its first listener of a kind, as other processes reach it."""
        found = next(listener for listener in self.config.listeners if listener.kind == kind)
        return found.host or "127.0.0.1", found.port


class Plan(NamedTuple):
    """All nodes of a directory: controllers, then brokers, each by id."""

    directory: Path
    members: tuple[Member, ...]

    @property
    def controllers(self) -> list[Member]:
        """Members with the controller role."""
        return [member for member in self.members if "controller" in member.config.roles]

    @property
    def brokers(self) -> list[Member]:
        """Members with the broker role."""
        return [member for member in self.members if "broker" in member.config.roles]

    def member(self, id: int) -> Member:
        """The node with that broker id or controller id. Raises KeyError."""
        for member in self.members:
            if id in member.ids:
                return member
        raise KeyError(f"no node has the id {id}; there are {sorted(id for m in self.members for id in m.ids)}")

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that clients connect to."""
        return ",".join(_joined(*member.address("client")) for member in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """The addresses for tools that connect to controllers."""
        return ",".join(_joined(*member.address("controller")) for member in self.controllers)

    def describe(self, cluster_id: str, pids: Mapping[str, int]) -> dict[str, object]:
        """The content of cluster.json; `pids` by member name."""

        def row(id: int, member: Member, kind: str) -> dict[str, object]:
            host, port = member.address(kind)
            return {"id": id, "host": host, "port": port, "pid": pids.get(member.name)}

        return {
            "cluster_id": cluster_id,
            "bootstrap_servers": self.bootstrap_servers,
            "bootstrap_controllers": self.bootstrap_controllers,
            "controllers": [row(m.config.controller_id, m, "controller") for m in self.controllers],
            "brokers": [row(m.config.broker_id, m, "client") for m in self.brokers],
        }


def load(directory: Path) -> Plan | None:
    """The plan in a directory; None if there is none."""
    members = []
    for path in directory.glob("*.properties"):
        if re.fullmatch(r"(broker|controller|node)-\d+", path.stem):
            members.append(Member(path.stem, node_config(properties(path.read_text("latin-1")))))
    members.sort(key=lambda member: ("controller" not in member.config.roles, member.ids))
    return Plan(directory, tuple(members)) if members else None


def create(
    directory: Path,
    controllers: int,
    brokers: int,
    *,
    common: Mapping[str, str],
    host: str = "127.0.0.1",
    port: int = 0,
    combined: bool = False,
    level: int = 2,
) -> Plan:
    """Create a cluster: ids, ports, files, formatted directories. Ports are `port`, `port`+1, ... for brokers, and from
    `port`+100 on for controllers; 0: any free ones. Raises ConfigError, PortTaken, StorageError; after an error nothing
    is left that would make a second try fail."""
    from actors.node.quorum.addresses import EVERY_INTERFACE

    refuse_shape(controllers, brokers, port)
    if host in EVERY_INTERFACE:
        raise ConfigError(
            f"--host {host} listens on every interface, which is no address for others: write one of this machine's, or "
            f"start nodes with rayft node, whose files may have advertised.listeners."
        )
    try:
        directory.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{directory} cannot be a directory ({error.strerror}): name another one with --dir."
        ) from None
    reserved = [reserve(host, port + CONTROLLERS_BEHIND + i if port else 0) for i in range(controllers)]
    reserved += [reserve(host, port + i if port else 0) for i in range(brokers)]
    addresses = [(host, int(sock.getsockname()[1])) for sock in reserved]
    files = describe(directory, addresses[:controllers], addresses[controllers:], common, combined)
    made = Plan(directory, tuple(Member(name, node_config(own)) for name, own in files.items()))
    paths = [Path(path) for member in made.members for path in storage.directories(member.config)]
    new = [path for path in paths if not path.exists()]
    blank = [path for path in paths if path not in new and not (path / storage.META).exists()]
    try:
        _format(made, level)
        write(directory, files)
    except BaseException:
        _undo([directory / f"{name}.properties" for name in files], new, blank)
        raise
    finally:
        for sock in reserved:
            sock.close()
    return made


def _undo(files: Sequence[Path], new: Sequence[Path], blank: Sequence[Path]) -> None:
    """Remove what a failed `create` has made, and nothing else. Half of a cluster would otherwise be started as a whole
    one."""
    for file in (*files, *(path / storage.META for path in blank)):
        with contextlib.suppress(OSError):
            file.unlink()
    for path in new:
        shutil.rmtree(path, ignore_errors=True)


def refuse_shape(controllers: int, brokers: int, port: int) -> None:
    """Raises ConfigError for impossible numbers of nodes, and for a first port from which the others would not fit."""
    if controllers < 1:
        raise ConfigError(f"a cluster of {controllers} controllers cannot be: write --controllers 1 or more.")
    if brokers < 0:
        raise ConfigError(f"a cluster of {brokers} brokers cannot be: write --brokers 0 or more.")
    last = LAST_PORT - max(brokers - 1, CONTROLLERS_BEHIND + controllers - 1)
    if not 0 <= port <= last:
        raise ConfigError(
            f"--port {port} is not possible: write a number from 1 to {last}, which leaves room for every node's, or 0 for "
            f"any free ports."
        )


def write(directory: Path, files: Mapping[str, Mapping[str, str]]) -> None:
    """Write the properties files, which are the plan from now on."""
    texts = {
        name: "".join(f"{setting}={_escaped(value)}\n" for setting, value in own.items()) for name, own in files.items()
    }
    storage.write(str(directory), {f"{name}.properties": text.encode("latin-1") for name, text in texts.items()})


def _escaped(value: str) -> str:
    """A value as Java writes it into a properties file."""

    def units(text: str) -> str:
        data = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{data[i]:02x}{data[i + 1]:02x}" for i in range(0, len(data), 2))

    value = re.sub(r"^ |\\", r"\\\g<0>", value)
    return re.sub(r"[\x00-\x1f\u0100-\U0010ffff]", lambda match: units(match[0]), value)


def describe(
    directory: Path,
    controllers: Sequence[tuple[str, int]],
    brokers: Sequence[tuple[str, int]],
    common: Mapping[str, str],
    combined: bool = False,
) -> dict[str, dict[str, str]]:
    """The properties of every node, by its name, made from the addresses of all. Raises ConfigError."""
    refuse_own(common)
    if "," in str(directory.absolute()):
        raise ConfigError(f"{directory} has a comma, which separates the directories in log.dirs: take another --dir.")
    files: dict[str, dict[str, str]] = {}
    for id, (host, port) in enumerate(controllers, FIRST_CONTROLLER):
        files[f"controller-{id}"] = {
            "process.roles": "controller",
            "controller.id": str(id),
            "listeners": f"CONTROLLER://{_bracket(host)}:{port}",
        }
    for id, (host, port) in enumerate(brokers, 1):
        own = {
            "process.roles": "broker",
            "broker.id": str(id),
            "listeners": f"PLAINTEXT://{_bracket(host)}:{port}",
        }
        shared = files.pop(f"controller-{FIRST_CONTROLLER + id - 1}", None) if combined else None
        if shared is not None:
            own["process.roles"] = "broker,controller"
            own["controller.id"] = shared["controller.id"]
            own["listeners"] += "," + shared["listeners"]
        files[f"node-{id}" if shared is not None else f"broker-{id}"] = own
    connect = ",".join(f"{id}@{_bracket(host)}:{port}" for id, (host, port) in enumerate(controllers, FIRST_CONTROLLER))
    replicas = max(1, min(3, len(brokers)))
    for name, own in files.items():
        own["controller.listeners"] = "CONTROLLER"
        own["controller.connect"] = connect
        own["log.dirs"] = str(directory.absolute() / name)
        for setting in ("default", "offsets.topic"):
            own[f"{setting}.replication.factor"] = str(replicas)
        own.update(common)
    if METRICS in common:
        _number_metrics(files, common[METRICS])
    return files


def refuse_own(common: Mapping[str, str]) -> None:
    """Raises ConfigError for a setting of OWN."""
    for name in OWN:
        if name in common:
            raise ConfigError(f"{name} differs from node to node: leave it to rayft up, or write files for rayft node.")


def _number_metrics(files: Mapping[str, dict[str, str]], first: str) -> None:
    """Number the metrics addresses: the first node's is given, and the others follow on the next ports."""
    host, _, port = first.rpartition(":")
    for place, own in enumerate(files.values()):
        own[METRICS] = f"{host}:{int(port) + place}" if port.isdigit() and int(port) else first


def reserve(host: str, port: int) -> socket.socket:
    """A bound socket that keeps a port from all processes but our own nodes, which bind it too. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise PortTaken(
            f"port {port} on {host or '*'} cannot be used ({why}): stop the process that uses it, or "
            f"choose others with --port."
        ) from None
    return sock


def _format(plan: Plan, level: int) -> None:
    random = SystemRandom()
    cluster_id = uuid_text(random.uuid())
    ids = {member.name: random.uuid() for member in plan.members}
    voters = [
        storage.Voter(member.config.controller_id, *member.address("controller"), ids[member.name])
        for member in plan.controllers
    ]
    for member in plan.members:
        storage.format_node(member.config, cluster_id, voters=voters, directory_id=ids[member.name], level=level)


def json_text(content: object) -> str:
    """JSON for a small file that people may read."""
    return json.dumps(content, indent=2) + "\n"


def write_json(path: Path, content: object) -> None:
    """Write a small file for other programs. It is never half written."""
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w", opener=durable.private) as file:
        file.write(json_text(content))
    os.replace(temporary, path)


def _joined(host: str, port: int) -> str:
    return f"{_bracket(host)}:{port}"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def ids(members: Sequence[Member]) -> str:
    """The ids of some members, as text for a sentence."""
    return ", ".join(str(id) for member in members for id in member.ids)
