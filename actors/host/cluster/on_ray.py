"""A cluster on Ray: one detached named actor for each node, running the same loop as a local process does.

This file alone uses Ray. Ray places and supervises a node and answers questions about it; no message of the protocol
travels as an actor call. A node is pinned to its machine, because its data is there: by the custom resource
`rayft-<node>` if a machine offers one, else by `node:<ip>`. `up` spreads the nodes over the machines and writes its
choice to a file. With that file it uses the same directories again after a head has been replaced. Off loopback the cluster
is secure (`secure_cluster.py`): a node gets its certificate as an argument and writes it into the directory of its machine.

Ray restarts an actor after any exit code. An actor that must not come back (78: another process holds its id; 0: as
asked) therefore leaves through `ray.actor.exit_actor()`. Only a call of the actor may do that, so the actor calls
itself. Ray does not restart an actor whose constructor fails. So everything that can fail, above all taking the
directory that the process before may still hold, happens in the node's thread.

An actor that was killed keeps its name for a while. `down` waits until the names of its nodes are free, and `up` makes a
new actor where it finds one that has ended. Ray may start one process at a time, so `up` gives up only after a time
without progress of any node, and then says for each node what it waited for and where its log is.
"""

import argparse
import contextlib
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from actors.host import storage
from actors.host.cluster import existing_directory, secure_cluster
from actors.host.cluster import plan as plans
from actors.host.cluster_error import ClusterError
from actors.host.security.config_providers import resolved
from actors.host.work import durable, locks
from actors.host.work.system_random import SystemRandom, uuid_bytes, uuid_text
from actors.import_path import joining_ray
from actors.metadata.ops import EntitySet
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config

NAMESPACE = "rayft"
SLIVER = 0.001
"""The amount of the pinning resource that a node takes. Any amount pins it; a whole one would allow one node for each
machine only."""
READY_TIMEOUT_S = 60.0
"""How long no node may make progress until a start has failed."""
ASK_TIMEOUT_S = 3.0
NAME_PAUSE_S = 0.05
WHY_MAX = 300
"""The most characters of what Ray says about an actor that has ended."""
REFUSED_PAUSE_S = 5.0


class Secrets(NamedTuple):
    """The secrets of a node of a secure cluster. They are never printed."""

    files: Mapping[str, bytes]
    """Key, certificate and authority, by the names of their files."""
    operator: EntitySet
    """The operator's credential."""

    def __repr__(self) -> str:
        return "Secrets(...)"


class RayNode:
    """The content of the actor: a node in a thread. It uses Ray only to leave."""

    def __init__(self, name: str, own: Mapping[str, str], cluster_id: str, directory_id: bytes,
                 voters: Sequence[tuple[int, str, int, bytes]] | None, secrets: "Secrets | None" = None, *,
                 new: bool = True) -> None:  # fmt: skip
        """`voters`: the first quorum; None: this controller joins a quorum that is there. `new`: its directory is
        formatted by the first process of this actor. Later ones, and those of nodes that have run, never take an empty
        directory for their own: a disk that is lost took a vote with it, and records."""
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._name = name
        self._config = node_config(resolved(own))
        self._secrets = secrets
        self._listening: set[str] = set()
        self._loop: Any = None
        self._unwanted = False
        """Whether the end was asked for, perhaps before there was a loop."""
        self._ended: tuple[int, str] | None = None
        self._directory_id = directory_id
        self._new = new and not _started_again()
        self._format = partial(
            storage.format_node, self._config, cluster_id,
            voters=None if voters is None else [storage.Voter(*voter) for voter in voters],
            directory_id=directory_id, ignore_formatted=True,
            credentials=[secrets.operator] if secrets is not None and voters is not None else [],
        )  # fmt: skip
        self._thread = threading.Thread(target=self._serve, name=f"rayft-{name}", daemon=True)
        self._thread.start()

    def state(self) -> dict[str, Any]:
        """Process id, listeners that accept, and the exit code and reason if the node has ended."""
        return {"pid": os.getpid(), "listening": sorted(self._listening), "ended": self._ended}

    def shutdown(self, timeout_s: float) -> bool:
        """Shut the node down in a controlled way. Returns whether it has ended within the time."""
        self._unwanted = True
        if self._loop is not None:
            self._loop.shutdown()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def leave(self) -> None:
        """End the actor for good."""
        import ray

        ray.actor.exit_actor()  # type: ignore[no-untyped-call]

    def _serve(self) -> None:
        from actors.host.serve import REFUSED
        from actors.host.work.journal import shut_down

        try:
            self._ended = self._run()
        except (ConfigError, storage.StorageError, OSError) as error:
            self._ended = REFUSED, str(error)
        except BaseException as error:
            traceback.print_exc()
            self._ended = 1, repr(error)
        if self._ended[0] in (0, 78):
            import ray

            if self._ended[0]:
                time.sleep(REFUSED_PAUSE_S)  # so that `up` can ask for the reason

            ray.get_runtime_context().current_actor.leave.remote()
        else:
            if self._ended[0] == REFUSED:
                time.sleep(REFUSED_PAUSE_S)  # so that `up` can ask for the reason
            shut_down()
            os._exit(self._ended[0])

    def _run(self) -> tuple[int, str]:
        from actors.host.serve import serve
        from actors.host.work.journal import Journal

        if self._secrets is not None:
            secure_cluster.place_node_files(Path(self._config.metadata_log_dir).parent, self._secrets.files)
        if self._new and self._format()[0].directory_id != self._directory_id:
            raise storage.StorageError(
                f"{self._config.metadata_log_dir} was formatted before, and this node is to have a new disk: remove it "
                f"there."
            )
        path = Path(self._config.metadata_log_dir).parent / f"{self._name}.log"
        journal = Journal(os.fdopen(durable.private(path, durable.APPEND), "a"))

        def event(what: str, listener: str) -> None:
            (self._listening.add if what == "listening" else self._listening.discard)(listener)

        def looping(loop: Any) -> None:
            self._loop = loop
            if self._unwanted:
                loop.shutdown()

        return serve(self._config, journal, event, main_thread=False, looping=looping)


def _started_again() -> bool:
    """Whether Ray has started this process in place of one that ended."""
    import ray

    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)


def up(options: argparse.Namespace, common: Mapping[str, str]) -> int:
    """Run `rayft up --ray`: place the nodes, start them, wait. The cluster outlives this command."""
    ray = connect(options.ray)
    directory = Path(options.dir).absolute()
    directory.mkdir(durable.DIRECTORY_MODE, parents=True, exist_ok=True)
    with locks.alone(directory, plans.CREATION_S):
        plan = _up(ray, directory, options, common)
    print(f"ready on Ray: {plan.served}")
    if plan.secure:
        print(secure_cluster.told(options.dir, plan.bootstrap_servers))
    print(f"stop it with: rayft down --ray {options.ray} --dir {options.dir}")
    return 0


def _up(ray: Any, directory: Path, options: argparse.Namespace, common: Mapping[str, str]) -> plans.Plan:
    alive = machines(ray.nodes())
    choice = _chosen(directory)
    if choice is None:
        if plans.load(directory) is not None:
            raise ClusterError(f"{directory} holds a cluster of processes: leave --ray out, or take another --dir.")
        choice = _choose(directory, options, common, alive)
    plan = planned(directory, choice)
    existing_directory.agree(plan, common, controllers=options.controllers, brokers=options.brokers, port=options.port,
                 secure=options.secure)  # fmt: skip
    start(ray, plan, choice, list(choice["nodes"]))
    return plan


def start(ray: Any, plan: plans.Plan, choice: dict[str, Any], names: Sequence[str]) -> None:
    """Start the nodes that do not run, wait until they serve, and record that they have been formatted. Raises
    ClusterError."""
    pids = _wait(ray, names, lambda name: _actor(ray, name, choice, _secrets(plan, name)), plan)
    for name in names:
        choice["nodes"][name]["new"] = False
    record(plan.directory, choice)
    describe(plan, choice, pids)


def describe(plan: plans.Plan, choice: dict[str, Any], pids: Mapping[str, int]) -> None:
    """Write the file cluster.json. `pids`: the process ids of processes that are new, by name."""
    known = _pids(plan) | dict(pids)
    plans.write_json(plan.directory / plans.CLUSTER_JSON, plan.describe(choice["cluster_id"], known))


def _pids(plan: plans.Plan) -> dict[str, int]:
    """Process ids by name, as cluster.json has them."""
    try:
        told = json.loads((plan.directory / plans.CLUSTER_JSON).read_text())
    except (OSError, ValueError):
        return {}
    by_id = {row["id"]: row["pid"] for row in told["controllers"] + told["brokers"] if row["pid"] is not None}
    return {member.name: by_id[id] for member in plan.members for id in member.ids if id in by_id}


def record(directory: Path, choice: dict[str, Any]) -> None:
    """Write down which machine has which node."""
    storage.write(str(directory), {plans.RAY_JSON: plans.json_text(choice).encode()})


def recorded(directory: Path) -> tuple[dict[str, Any], plans.Plan]:
    """The choice and the plan of a cluster on Ray. Raises ClusterError."""
    choice, plan = _chosen(directory), plans.load(directory)
    if choice is None or plan is None:
        raise ClusterError(f"{directory} holds no cluster on Ray: name its directory with --dir.")
    return choice, plan


def down(options: argparse.Namespace) -> int:
    """Run `rayft down --ray`: brokers first, then controllers."""
    ray = connect(options.ray)
    directory = Path(options.dir).absolute()
    with locks.alone(directory, plans.CREATION_S):
        _, plan = recorded(directory)
        for members in ([m for m in plan.members if m not in plan.controllers], plan.controllers):
            end(ray, [m.name for m in members], options.timeout)
        (directory / plans.CLUSTER_JSON).unlink(missing_ok=True)
    print("stopped")
    return 0


def end(ray: Any, names: Sequence[str], timeout_s: float) -> None:
    """Shut nodes down in a controlled way, kill what is left of their actors, and wait until their names are free.
    Raises ClusterError."""
    found = [actor for actor in (existing(ray, name) for name in names) if actor is not None]
    calls = [actor.shutdown.remote(timeout_s) for actor in found]
    ray.wait(calls, num_returns=len(calls), timeout=timeout_s + 5) if calls else None
    for actor in found:
        ray.kill(actor, no_restart=True)
    for name in names:
        kill(ray, name)


def kill(ray: Any, name: str) -> None:
    """Kill a node's actor, whose machine may be lost, and wait until another one may have its name. Raises
    ClusterError."""
    until = time.monotonic() + READY_TIMEOUT_S
    while (actor := existing(ray, name)) is not None:
        ray.kill(actor, no_restart=True)
        if time.monotonic() > until:
            raise ClusterError(
                f"the actor of {name} does not end after {READY_TIMEOUT_S:.0f} s: see `ray list actors`."
            )
        time.sleep(NAME_PAUSE_S)


def connect(address: str) -> Any:
    """Ray, connected to a running cluster. `local` starts one on this machine that lives as long as this process."""
    try:
        import ray
    except ImportError:
        raise ClusterError("this command needs ray: pip install 'rayft[ray]'.") from None
    if not ray.is_initialized():
        arguments: dict[str, Any] = {} if address == "local" else {"address": address}
        with joining_ray():
            ray.init(namespace=NAMESPACE, log_to_driver=False, configure_logging=False, **arguments)
    return ray


def machines(nodes: Sequence[Mapping[str, Any]]) -> list[tuple[str, frozenset[str]]]:
    """(ip, names of rayft's custom resources) of every live machine, in a stable order."""
    found = {
        str(node["NodeManagerAddress"]): frozenset(r for r in node["Resources"] if r.startswith("rayft-"))
        for node in nodes
        if node["Alive"]
    }
    if not found:
        raise ClusterError("Ray has no machine that is alive: start one with `ray start`.")
    return sorted(found.items())


def place(names: Sequence[str], machines: Sequence[tuple[str, frozenset[str]]]) -> dict[str, tuple[str, str]]:
    """(ip, resource that pins it) for each node: the machine that offers `rayft-<node>`, else all machines in turn."""
    placed: dict[str, tuple[str, str]] = {}
    turn = 0
    for name in names:
        own = f"rayft-{name}"
        offering = [ip for ip, resources in machines if own in resources]
        if offering:
            placed[name] = (offering[0], own)
        else:
            ip = machines[turn % len(machines)][0]
            placed[name] = (ip, f"node:{ip}")
            turn += 1
    return placed


def _chosen(directory: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((directory / plans.RAY_JSON).read_text())
    except FileNotFoundError:
        return None
    return found


def planned(directory: Path, choice: dict[str, Any]) -> plans.Plan:
    """The recorded choice as a plan. Where properties files exist, they are used: users change settings in them."""
    nodes = choice["nodes"]
    missing = [name for name in nodes if not (directory / f"{name}.properties").exists()]
    plans.write(directory, {name: nodes[name]["properties"] for name in missing})
    plan = plans.load(directory)
    assert plan is not None, "there are nodes, and each has a file"
    for member in plan.members:
        if member.name in nodes:
            nodes[member.name]["properties"] = dict(member.written)
    return plan


def _choose(directory: Path, options: argparse.Namespace, common: Mapping[str, str],
            machines: Sequence[tuple[str, frozenset[str]]]) -> dict[str, Any]:  # fmt: skip
    """Choose ids, addresses and machines, and record the choice before anything is started."""
    controllers = 3 if options.controllers is None else options.controllers
    brokers = 3 if options.brokers is None else options.brokers
    first = plans.FIRST_PORT if options.port is None else options.port
    if first == 0:
        raise ClusterError("on Ray ports are chosen beforehand: write --port 9092, or another first port.")
    secure = secure_cluster.wanted([ip for ip, _ in machines], options.secure)
    plans.refuse_shape(controllers, brokers, first, secure=secure)
    names = [f"controller-{plans.FIRST_CONTROLLER + i}" for i in range(controllers)]
    placed = place(names, machines) | place([f"broker-{1 + i}" for i in range(brokers)], machines)
    addresses = [(placed[name][0], first + (plans.CONTROLLERS_BEHIND + i if i < controllers else i - controllers))
                 for i, name in enumerate(placed)]  # fmt: skip
    among_nodes = [first + plans.NODES_BEHIND + i for i in range(brokers)] if secure else None
    files = plans.describe(directory, addresses[:controllers], addresses[controllers:], common, among_nodes=among_nodes)
    if secure:
        made = plans.Plan(directory, tuple(plans.member_of(name, own) for name, own in files.items()))
        secure_cluster.make(directory, made.hosts(), made.bootstrap_servers)
    random = SystemRandom()
    choice: dict[str, Any] = {
        "cluster_id": uuid_text(random.uuid()),
        "nodes": {name: {"ip": placed[name][0], "resource": placed[name][1], "directory_id": uuid_text(random.uuid()),
                         "new": True, "properties": files[name]} for name in files},
        "voters": [],
    }  # fmt: skip
    for id, (host, port) in enumerate(addresses[:controllers], plans.FIRST_CONTROLLER):
        choice["voters"].append([id, host, port, choice["nodes"][f"controller-{id}"]["directory_id"]])
    record(directory, choice)
    return choice


def existing(ray: Any, name: str) -> Any:
    try:
        return ray.get_actor(f"rayft-{name}", namespace=NAMESPACE)
    except ValueError:
        return None


def _secrets(plan: plans.Plan, name: str) -> Secrets | None:
    """The secrets that a node is given; None: the cluster is not secure."""
    ids = next(member.ids for member in plan.members if member.name == name)
    if not plan.secure:
        return None
    return Secrets(secure_cluster.node_files(plan.directory, ids), secure_cluster.operator(plan.directory))


class Made(NamedTuple):
    """An actor, and whether this command has made it."""

    actor: Any
    new: bool


def _actor(ray: Any, name: str, choice: Mapping[str, Any], secrets: Secrets | None) -> Made:
    """The node's actor: the existing one, or a new one over the same directory."""
    found = existing(ray, name)
    if found is not None:
        return Made(found, new=False)
    node = choice["nodes"][name]
    options = {
        "name": f"rayft-{name}",
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": -1,
        "max_concurrency": 4,
        "resources": {node["resource"]: SLIVER},
    }
    voters = [(id, host, port, uuid_bytes(directory)) for id, host, port, directory in choice["voters"]]
    made = ray.remote(RayNode).options(**options).remote(
        name, node["properties"], choice["cluster_id"], uuid_bytes(node["directory_id"]),
        None if node.get("joins") else voters, secrets, new=node.get("new", True),
    )  # fmt: skip
    return Made(made, new=True)


def _wait(ray: Any, names: Sequence[str], made: Callable[[str], Made], plan: plans.Plan) -> dict[str, int]:
    """Wait until every node serves; `made` gives the actor of one. Returns process ids by name. Raises ClusterError."""
    actors = {name: made(name) for name in names}
    wanted = {m.name: {x.name for x in m.config.listeners} for m in plan.members}
    seen: set[tuple[str, str]] = set()
    """The nodes, and what each has done once: a process that takes the place of one that has ended is no progress."""
    until = time.monotonic() + READY_TIMEOUT_S
    while True:
        states = _states(ray, {name: one.actor for name, one in actors.items()})
        for name, state in states.items():
            if state["ended"] is not None:
                raise ClusterError(f"{name}: {state['ended'][1]}")
            if not state["gone"]:
                continue
            if actors[name].new:
                raise ClusterError(f"{_late(plan, name, state)}.")
            actors[name] = made(name)  # it was being ended when this command found it
        missing = [name for name, state in states.items() if not wanted[name] <= set(state["listening"])]
        if not missing:
            return {name: state["pid"] for name, state in states.items()}
        found = {(name, one) for name, state in states.items() if state["pid"] for one in ("", *state["listening"])}
        if not found <= seen:
            seen, until = seen | found, time.monotonic() + READY_TIMEOUT_S
        if time.monotonic() > until:
            waited = "; ".join(_late(plan, name, states[name]) for name in missing)
            raise ClusterError(f"not ready with no progress for {READY_TIMEOUT_S:.0f} s: {waited}.")
        time.sleep(NAME_PAUSE_S)


def _late(plan: plans.Plan, name: str, state: Mapping[str, Any]) -> str:
    """The last state that a node was seen in, and where more about it stands."""
    member = next(one for one in plan.members if one.name == name)
    log = Path(member.config.metadata_log_dir).parent / f"{name}.log"
    return f"{name} ({state['seen']}; its log is {log} on its machine)"


def runs(ray: Any, name: str) -> bool:
    """Whether a node serves."""
    actor = existing(ray, name)
    state = None if actor is None else _state(ray, actor.state.remote(), ASK_TIMEOUT_S)
    return state is not None and state["ended"] is None and bool(state["listening"])


def answering(ray: Any, ips: Sequence[str]) -> str | None:
    """The first of these machines that runs what it is given, or, if it takes its time, the first that answers; None:
    none does. Ray itself notices a lost machine only after a while."""
    calls = {}
    for ip in ips:
        options = {"num_cpus": 0, "max_retries": 0, "resources": {f"node:{ip}": SLIVER}}
        calls[ray.remote(_here).options(**options).remote()] = ip
    until, wanted = time.monotonic() + READY_TIMEOUT_S, list(calls)[:1]
    try:
        while calls and time.monotonic() < until:
            found, _ = ray.wait(wanted, timeout=ASK_TIMEOUT_S)
            for call in found:
                ip = calls.pop(call)
                with contextlib.suppress(ray.exceptions.RayError):
                    ray.get(call)
                    return ip
            wanted = list(calls)
        return None
    finally:
        for call in calls:
            ray.cancel(call, force=True)


def _here() -> bool:
    return True


def _states(ray: Any, actors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The reports of nodes on themselves, asked at once."""
    calls = {name: actor.state.remote() for name, actor in actors.items()}
    until = time.monotonic() + ASK_TIMEOUT_S
    return {name: _state(ray, call, max(until - time.monotonic(), 0.0)) for name, call in calls.items()}


def _state(ray: Any, call: Any, timeout_s: float) -> dict[str, Any]:
    """The report of a node on itself, in words as `seen`, and as `gone` whether its actor has ended for good. It
    reports nothing between its process and the next one, or while its machine is lost."""
    silent: dict[str, Any] = {"pid": None, "listening": [], "ended": None, "gone": False}
    try:
        found: dict[str, Any] = ray.get(call, timeout=timeout_s)
    except ray.exceptions.ActorDiedError as error:
        why = " ".join(str(error).split())
        return silent | {"gone": True, "seen": f"its actor has ended: {why[-WHY_MAX:]}"}
    except ray.exceptions.RayActorError:
        return silent | {"seen": "its process has ended, and Ray has not started it again"}
    except ray.exceptions.GetTimeoutError:
        return silent | {"seen": f"its process has not answered for {timeout_s:.0f} s, or Ray has not started it"}
    heard = f"process {found['pid']} listens to {', '.join(found['listening']) or 'nobody yet'}"
    return found | {"gone": False, "seen": heard}
