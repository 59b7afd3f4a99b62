"""What the files of a cluster become when a controller comes, moves or goes.

This file alone decides which settings of which nodes change with the controllers of a plan. Rules:

1. A new controller is set up like one that is there: what users wrote into the files counts for it too.
2. `controller.connect` of every node names all controllers of the plan, for its next start. Nodes that run know who votes
   from the log and are not started again.
3. In a secure cluster a controller is a super user from the next start of each node on; until then an access rule does it
   (`controllers.py`).
"""

from collections.abc import Mapping

from actors.host.cluster import secure_cluster
from actors.host.cluster.plan import METRICS, OWN, Member, Plan, joined, load
from actors.host.cluster.plan import write as write_files
from actors.host.work import durable
from actors.settings.properties import ALIASES

CONNECT = "controller.connect"
BROKERS_OWN = ("inter.broker.listener.name", "control.plane.listener.name")
"""Settings that a process without the broker role may not have."""

Files = dict[str, dict[str, str]]
"""Settings by the name of the node."""


def name_of(id: int) -> str:
    """The name of a controller that has a process of its own."""
    return f"controller-{id}"


def with_controller(plan: Plan, id: int, address: tuple[str, int]) -> Files:
    """The files of all nodes when the controller `id` is at an address: a new one, or one that has moved."""
    files = {member.name: dict(member.written) for member in plan.members}
    known = next((member for member in plan.controllers if member.config.controller_id == id), None)
    if known is None:
        files[name_of(id)] = _like(plan, id, address)
    elif known.address("controller") != address:
        listener = known.config.controller_endpoints[0].name
        files[known.name]["listeners"] = f"{listener}://{joined(*address)}"
    places = _places(plan) | {id: address}
    if plan.secure:
        for own in files.values():
            secure_cluster.admit(own, (id,))
    return _connected(files, places)


def without_controller(plan: Plan, id: int) -> Files:
    """The files of the nodes that stay when a controller with a process of its own goes."""
    files = {member.name: dict(member.written) for member in plan.members if id not in member.ids}
    places = _places(plan)
    del places[id]
    if plan.secure:
        for own in files.values():
            secure_cluster.expel(own, (id,))
    return _connected(files, places)


def write(plan: Plan, files: Files) -> Plan:
    """Write the files that differ, remove those of nodes that are gone, and read the plan anew."""
    before = {member.name: dict(member.written) for member in plan.members}
    write_files(plan.directory, {name: own for name, own in files.items() if before.get(name) != own})
    for name in before.keys() - files.keys():
        (plan.directory / f"{name}.properties").unlink(missing_ok=True)
    durable.sync_directory(str(plan.directory))
    found = load(plan.directory)
    assert found is not None
    return found


def _places(plan: Plan) -> dict[int, tuple[str, int]]:
    return {member.config.controller_id: member.address("controller") for member in plan.controllers}


def _connected(files: Files, places: Mapping[int, tuple[str, int]]) -> Files:
    connect = ",".join(f"{id}@{joined(*place)}" for id, place in sorted(places.items()))
    for own in files.values():
        for name in [name for name in own if ALIASES.get(name, name) == CONNECT]:
            del own[name]
        own[CONNECT] = connect
    return files


def _like(plan: Plan, id: int, address: tuple[str, int]) -> dict[str, str]:
    """The settings of a new controller: those of one that is there, without what is its own or a broker's."""
    other = min(plan.controllers, key=lambda member: len(member.config.roles))
    listener = other.config.controller_endpoints[0].name
    own = {
        "process.roles": "controller",
        "controller.id": str(id),
        "listeners": f"{listener}://{joined(*address)}",
        "controller.listeners": listener,
        "log.dirs": str(plan.directory.absolute() / name_of(id)),
    }
    own |= {name: value for name, value in other.written.items() if name not in (*OWN, *BROKERS_OWN)}
    if plan.secure:
        own |= secure_cluster.keys_of(plan.directory, (id,))
    if METRICS in own:
        own[METRICS] = _next_metrics(plan.members, own[METRICS])
    return own


def _next_metrics(members: tuple[Member, ...], like: str) -> str:
    """The address of the next node's metrics: the port behind the last one."""
    ports = [int(member.written.get(METRICS, "").rpartition(":")[2] or 0) for member in members]
    return f"{like.rpartition(':')[0]}:{max(ports) + 1}" if any(ports) else like
