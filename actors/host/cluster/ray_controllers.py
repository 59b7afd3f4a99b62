"""A controller is added to, replaced in or removed from a cluster on Ray.

This file alone decides on which machine a controller comes that is new, or has lost its machine or its disk. Rules:

1. A controller that serves is not replaced. One that does not serve, or whose machine is lost, comes to the machine that
   offers `rayft-<node>`, else to the one with the fewest controllers, and among those to its own.
2. `ray.json` says where a node is before it is started, so that the command can be given again.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from actors.host.cluster import controllers, on_ray
from actors.host.cluster.plan_changes import name_of
from actors.host.cluster.quorum_changes import MetadataReplica
from actors.host.cluster_error import ClusterError
from actors.host.work import locks
from actors.host.work.system_random import SystemRandom, uuid_bytes, uuid_text

END_TIMEOUT_S = 10.0


def add(directory: Path, ray_address: str, id: int | None = None, timeout_s: float = controllers.TIMEOUT_S) -> int:
    """Add a controller; with an `id`, give a new disk to the controller that lost its own. Returns its id once it
    votes. Raises ClusterError, ConfigError."""
    ray = on_ray.connect(ray_address)
    with locks.alone(directory):
        return _add(ray, directory.absolute(), id, timeout_s)


def _add(ray: Any, directory: Path, id: int | None, timeout_s: float) -> int:
    choice, plan = on_ray.recorded(directory)
    if id is None:
        id = controllers.next_id(plan)
        port = max(member.address("controller")[1] for member in plan.controllers) + 1
        name, key = name_of(id), None
    else:
        member = controllers.known(plan, id)
        name, port = member.name, member.address("controller")[1]
        key = _key(choice, name, id) if on_ray.runs(ray, name) else None
        controllers.refuse_whole(plan, member, key, timeout_s)
    if key is None:
        on_ray.kill(ray, name)
        choice["nodes"][name] = _place(ray, choice, name)
    plan = controllers.write(plan, id, (choice["nodes"][name]["ip"], port), timeout_s)
    choice["nodes"][name]["properties"] = dict(plan.member(id).written)
    on_ray.record(plan.directory, choice)
    on_ray.start(ray, plan, choice, [name])
    controllers.vote(plan, _key(choice, name, id), timeout_s)
    return id


def remove(directory: Path, ray_address: str, id: int, timeout_s: float = controllers.TIMEOUT_S) -> None:
    """Take a controller's vote and end it. Its directory stays on its machine. Raises ClusterError, ConfigError."""
    ray = on_ray.connect(ray_address)
    with locks.alone(directory):
        _remove(ray, directory.absolute(), id, timeout_s)


def _remove(ray: Any, directory: Path, id: int, timeout_s: float) -> None:
    choice, plan = on_ray.recorded(directory)
    member = controllers.leaving(plan, id)
    controllers.take_vote(plan, id, timeout_s)
    controllers.shut_out(plan, member, timeout_s)
    on_ray.end(ray, [member.name], END_TIMEOUT_S)
    plan = controllers.forget(plan, member)
    del choice["nodes"][member.name]
    on_ray.record(plan.directory, choice)
    on_ray.describe(plan, choice, {})
    controllers.discard_keys(plan, member)


def _key(choice: dict[str, Any], name: str, id: int) -> MetadataReplica:
    """The disk with which a node was started last."""
    return MetadataReplica(id, uuid_bytes(choice["nodes"][name]["directory_id"]))


def _place(ray: Any, choice: dict[str, Any], name: str) -> dict[str, Any]:
    """The entry of `ray.json` for a controller with a new disk. Raises ClusterError if no machine answers."""
    own = choice["nodes"].get(name, {}).get("ip")
    others = [node for other, node in choice["nodes"].items() if other.startswith("controller-") and other != name]
    load = Counter(node["ip"] for node in others)
    machines = sorted(on_ray.machines(ray.nodes()), key=lambda machine: (load[machine[0]], machine[0] != own))
    offering = [machine for machine in machines if f"rayft-{name}" in machine[1]]
    ip = on_ray.answering(ray, [machine[0] for machine in offering or machines])
    if ip is None:
        raise ClusterError(f"no machine of this Ray answers, and {name} needs one: start one with `ray start`.")
    resource = f"rayft-{name}" if offering else f"node:{ip}"
    directory_id = uuid_text(SystemRandom().uuid())
    return {"ip": ip, "resource": resource, "directory_id": directory_id, "new": True, "joins": True}
