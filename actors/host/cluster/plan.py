"""The content of a local cluster: a properties file for each node, in one directory.

This file alone decides the layout of a cluster's directory:

    cluster.json               the running cluster, for people and programs (schema: DESIGN section 11)
    broker-1.properties        a node's configuration, as `rayft node --config` takes it
    broker-1.log               the node's log
    broker-1/                  its data
    security/                  of a secure cluster: certificates, and how clients log in (`secure_cluster.py`)
    ray.json                   for a cluster on Ray: which machine has which node

Brokers are numbered 1, 2, ... and controllers 1001, 1002, ...; with `combined` the first of each share a process. The
files are written once: a later start of the directory runs the same nodes on the same ports. Values that stand elsewhere
(`config_providers.py`) stay references in them.
"""

import contextlib
import json
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from actors.host import storage
from actors.host.cluster import secure_cluster
from actors.host.net.server import PortTaken
from actors.host.security.config_providers import resolved
from actors.host.work import durable, locks
from actors.host.work.system_random import SystemRandom, uuid_text
from actors.metadata.ops import EntitySet
from actors.settings.keys import ConfigError
from actors.settings.node_config import NodeConfig, node_config
from actors.settings.properties import properties

FIRST_CONTROLLER = 1001
FIRST_PORT, LAST_PORT = 9092, 65535
CONTROLLERS_BEHIND = 100
"""The first controller's port is the first broker's plus this."""
NODES_BEHIND = 200
"""In a secure cluster, the port at which the first broker is reached by other nodes is its first one plus this."""
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
    written: Mapping[str, str]
    """The node's settings as they are in its file."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The node's broker id and its controller id, as far as it has them."""
        return tuple(id for id in (self.config.broker_id, self.config.controller_id) if id >= 0)

    def address(self, kind: str) -> tuple[str, int]:
        """(host, port) of the node's first listener of a kind, as other processes reach it."""
        found = next(listener for listener in self.config.listeners if listener.kind == kind)
        return found.host or "127.0.0.1", found.port


CREATION_S = 15.0
"""How long a command waits for another one that makes a cluster in the same directory."""


class AlreadyThere(ConfigError):
    """A directory that was free has a cluster now, which another command has made."""


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
    def served(self) -> str:
        """The addresses that clients connect to, as a sentence goes on."""
        if not self.brokers:
            return "there are no brokers, so there is nothing that clients connect to"
        return f"clients connect to {self.bootstrap_servers}"

    @property
    def bootstrap_servers(self) -> str:
        """The addresses that clients connect to; empty where there are no brokers."""
        return ",".join(joined(*member.address("client")) for member in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """The addresses for tools that connect to controllers."""
        return ",".join(joined(*member.address("controller")) for member in self.controllers)

    @property
    def secure(self) -> bool:
        """Whether rayft up has made it secure."""
        return secure_cluster.is_secure(self.directory)

    def hosts(self) -> dict[tuple[int, ...], list[str]]:
        """The hosts at which a process is reached, by the ids of the process."""
        found = {}
        for member in self.members:
            hosts = dict.fromkeys(listener.host for listener in member.config.listeners)
            local = ["localhost"] if any(secure_cluster.is_loopback(host) for host in hosts) else []
            found[member.ids] = [*hosts, *(name for name in local if name not in hosts)]
        return found

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
    """The plan in a directory; None: there is none."""
    members = []
    for path in directory.glob("*.properties"):
        if re.fullmatch(r"(broker|controller|node)-\d+", path.stem):
            members.append(member_of(path.stem, properties(path.read_text("latin-1"))))
    members.sort(key=lambda member: ("controller" not in member.config.roles, member.ids))
    return Plan(directory, tuple(members)) if members else None


def member_of(name: str, written: Mapping[str, str]) -> Member:
    """A node of the plan, from its settings as they are written. Raises ConfigError."""
    return Member(name, node_config(resolved(written)), written)


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
    secure: bool | None = None,
    first_broker: int = 1,
) -> Plan:
    """Create a cluster: ids, ports, files, formatted directories. Brokers have ids from `first_broker` on. Ports are
    `port`, `port`+1, ... for brokers, and from `port`+100 on for controllers; of a secure cluster from `port`+200 on for
    brokers among themselves; 0: any free ones. `secure`: see `secure_cluster.wanted`. Raises ConfigError, PortTaken,
    StorageError; after an error nothing is left that would make a second try fail. Raises AlreadyThere if another command
    has made a cluster there meanwhile: one command at a time makes one, from the first look to the last file."""
    from actors.authorization.addresses import is_every_interface

    protected = secure_cluster.wanted([host], secure)
    refuse_shape(controllers, brokers, port, secure=protected)
    if is_every_interface(host):
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
    with locks.alone(directory, CREATION_S):
        if load(directory) is not None or (directory / RAY_JSON).exists():
            raise AlreadyThere(f"{directory} holds a cluster already: start it as it is, or take another --dir.")
        return _create(
            directory,
            controllers,
            brokers,
            common,
            host,
            port,
            level,
            first_broker,
            combined=combined,
            protected=protected,
        )


def _create(
    directory: Path,
    controllers: int,
    brokers: int,
    common: Mapping[str, str],
    host: str,
    port: int,
    level: int,
    first_broker: int,
    *,
    combined: bool,
    protected: bool,
) -> Plan:
    reserved = [reserve(host, port + CONTROLLERS_BEHIND + i if port else 0) for i in range(controllers)]
    reserved += [reserve(host, port + i if port else 0) for i in range(brokers)]
    if protected:
        reserved += [reserve(host, port + NODES_BEHIND + i if port else 0) for i in range(brokers)]
    ports = [int(sock.getsockname()[1]) for sock in reserved]
    addresses = [(host, one) for one in ports[: controllers + brokers]]
    files = describe(
        directory,
        addresses[:controllers],
        addresses[controllers:],
        common,
        combined,
        ports[controllers + brokers :] if protected else None,
        first_broker,
    )
    made = Plan(directory, tuple(member_of(name, own) for name, own in files.items()))
    paths = [Path(path) for member in made.members for path in storage.directories(member.config)]
    new = [path for path in paths if not path.exists()]
    blank = [path for path in paths if path not in new and not (path / storage.META).exists()]
    open_before = (directory / secure_cluster.DIRECTORY).exists()
    secrets: list[Path] = []
    cluster_id = uuid_text(SystemRandom().uuid())
    try:
        if protected:
            secrets = secure_cluster.make(directory, made.hosts(), made.bootstrap_servers)
        format_all(made, level, [secure_cluster.operator(directory)] if protected else [], cluster_id)
        write(directory, files)
    except BaseException:
        secure_cluster.unmake(directory, secrets, new=not open_before)
        _undo([directory / f"{name}.properties" for name in files], new, blank, cluster_id)
        raise
    finally:
        for sock in reserved:
            sock.close()
    return made


def _undo(files: Sequence[Path], new: Sequence[Path], blank: Sequence[Path], cluster_id: str) -> None:
    """Remove what a failed `create` has made, and nothing else: what a directory has of another cluster stays. Half of a
    cluster would otherwise be started as a whole one."""
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()
    for path in (*new, *blank):
        storage.discard(str(path), cluster_id, None)


def refuse_shape(controllers: int, brokers: int, port: int, *, secure: bool = False) -> None:
    """Check the numbers of nodes, and the first port. Raises ConfigError if the numbers are impossible, or the others
    would not fit behind the port."""
    if controllers < 1:
        raise ConfigError(f"a cluster of {controllers} controllers cannot be: write --controllers 1 or more.")
    if brokers < 0:
        raise ConfigError(f"a cluster of {brokers} brokers cannot be: write --brokers 0 or more.")
    last = LAST_PORT - max(brokers - 1, CONTROLLERS_BEHIND + controllers - 1, secure and NODES_BEHIND + brokers - 1)
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
    among_nodes: Sequence[int] | None = None,
    first_broker: int = 1,
) -> dict[str, dict[str, str]]:
    """The properties of every node, by its name, made from the addresses of all. `among_nodes`: of a secure cluster, the
    port at which each broker is reached by other nodes; None: it is not secure. Raises ConfigError."""
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
    for id, (host, port) in enumerate(brokers, first_broker):
        own = {
            "process.roles": "broker",
            "broker.id": str(id),
            "listeners": f"PLAINTEXT://{_bracket(host)}:{port}",
        }
        if among_nodes is not None:
            own["listeners"] = (
                f"{secure_cluster.CLIENTS}://{_bracket(host)}:{port},"
                f"{secure_cluster.NODES}://{_bracket(host)}:{among_nodes[id - first_broker]}"
            )
        shared = files.pop(f"controller-{FIRST_CONTROLLER + id - first_broker}", None) if combined else None
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
        if "broker.id" in own:
            own["group.initial.rebalance.delay.ms"] = "0"  # as in Kafka's own file for a first try: nobody waits 3 s
        if among_nodes is None:
            own.update(common)
            continue
        own.update(secure_cluster.settings(directory, ids_of(own), [ids_of(other) for other in files.values()]))
        if "broker.id" not in own:
            del own["inter.broker.listener.name"]
        secure_cluster.with_common(own, common)
    if METRICS in common:
        _number_metrics(files, common[METRICS])
    return files


def ids_of(written: Mapping[str, str]) -> tuple[int, ...]:
    """The ids of a process in its settings, the broker's first."""
    return tuple(int(written[name]) for name in ("broker.id", "controller.id") if name in written)


def refuse_own(common: Mapping[str, str]) -> None:
    """Check that no setting is one of OWN. Raises ConfigError if one is."""
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
    sock = socket.socket(family, socket.SOCK_STREAM)
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


def format_all(plan: Plan, level: int, credentials: Sequence[EntitySet], cluster_id: str | None = None) -> None:
    """Format the directories of every node. `cluster_id`: None: a new one. Raises StorageError."""
    random = SystemRandom()
    cluster_id = cluster_id or uuid_text(random.uuid())
    ids = {member.name: random.uuid() for member in plan.members}
    voters = [
        storage.Voter(member.config.controller_id, *member.address("controller"), ids[member.name])
        for member in plan.controllers
    ]
    for member in plan.members:
        storage.format_node(
            member.config,
            cluster_id,
            voters=voters,
            directory_id=ids[member.name],
            level=level,
            credentials=credentials,
        )


def json_text(content: object) -> str:
    """JSON for a small file that people may read."""
    return json.dumps(content, indent=2) + "\n"


def write_json(path: Path, content: object) -> None:
    """Write a small file for other programs. It is never half written."""
    durable.replace_files(str(path.parent), {path.name: json_text(content).encode()})


def joined(host: str, port: int) -> str:
    """An address as settings have it."""
    return f"{_bracket(host)}:{port}"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def ids(members: Sequence[Member]) -> str:
    """The ids of some members, as text for a sentence."""
    return ", ".join(str(id) for member in members for id in member.ids)
