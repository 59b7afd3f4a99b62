"""A controller is added to, replaced in or removed from a running cluster of this machine.

This file alone decides how its directory and its process come and go. The supervisor of the cluster reads the files anew
when it gets SIGHUP: it starts what is new, ends what is gone, and starts a node again whose directory is another one or
gone. One command at a time changes a cluster.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

from actors.host import storage
from actors.host.cluster import controllers
from actors.host.cluster import plan as plans
from actors.host.cluster.quorum_changes import MetadataReplica
from actors.host.cluster_error import ClusterError
from actors.host.net.server import PortTaken
from actors.host.work import kernel, locks

POLL_S = 0.02
PORTS_TRIED = 50


def add(directory: Path, id: int | None = None, timeout_s: float = controllers.TIMEOUT_S) -> int:
    """Add a controller; with an `id`, give a new directory to the controller that lost its own. Returns its id once it
    votes. Raises ClusterError, ConfigError, StorageError."""
    with locks.alone(directory):
        plan, supervisor = _running(directory)
        if id is None:
            id = controllers.next_id(plan)
            reserved = _free_port(plan)
            address = reserved.getsockname()[:2]
        else:
            member, reserved = controllers.known(plan, id), None
            address = member.address("controller")
            controllers.refuse_whole(plan, member, _key(member), timeout_s)
            if _key(member) is None:
                _end(plan, id, supervisor, timeout_s)
        cluster_id = _cluster_id(plan, id)
        try:
            plan = controllers.write(plan, id, address, timeout_s)
            key = _key(plan.member(id)) or _formatted(plan.member(id), cluster_id)
            _wake(directory)
            controllers.vote(plan, key, timeout_s)
        finally:
            if reserved is not None:
                reserved.close()
    return id


def remove(directory: Path, id: int, timeout_s: float = controllers.TIMEOUT_S) -> None:
    """Take a controller's vote, end it, and remove its directory. Raises ClusterError, ConfigError."""
    with locks.alone(directory):
        plan, _ = _running(directory)
        member = controllers.leaving(plan, id)
        cluster_id = _cluster_id(plan, id)
        controllers.take_vote(plan, id, timeout_s)
        controllers.shut_out(plan, member, timeout_s)
        plan = controllers.forget(plan, member)
        _wake(directory)
        path, until_s = member.config.metadata_log_dir, time.monotonic() + timeout_s
        while locks.holder(path) is not None:
            if time.monotonic() > until_s:
                raise ClusterError(f"controller {id} has no vote any more, but does not end: its log is {path}.log.")
            time.sleep(POLL_S)
        controllers.discard_keys(plan, member)
        ids = storage.ids_of(member.config)
        kept = [one for one in storage.directories(member.config) if not storage.discard(one, cluster_id, ids)]
        if kept:
            raise ClusterError(f"controller {id} is removed, but {kept[0]} is not its directory any more and stays.")


def _running(directory: Path) -> tuple[plans.Plan, int]:
    """The plan of a cluster that runs, and the process id of its supervisor. Raises ClusterError."""
    if (directory / plans.RAY_JSON).exists():
        raise ClusterError(f"{directory} holds a cluster on Ray: write --ray, or take another --dir.")
    plan, found = plans.load(directory), locks.holder(str(directory))
    if plan is None:
        raise ClusterError(f"{directory} holds no cluster: name another with --dir.")
    if found is None:
        raise ClusterError(
            f"no cluster is running in {directory}, and its quorum changes while it runs: start it with "
            f"rayft up --dir {directory}."
        )
    if found.pid is None:
        raise ClusterError(
            f"the cluster of {directory} is run by a process that cannot be seen from here (in a container, on another "
            f"machine, or of another user): write this command where it runs."
        )
    if not kernel.catches(found.pid, signal.SIGHUP):  # the signal would end one without a handler
        raise ClusterError(
            f"the cluster of {directory} was started by an earlier release, which cannot be changed while it runs: restart "
            f"it with rayft down and rayft up."
        )
    return plan, found.pid


def _free_port(plan: plans.Plan) -> socket.socket:
    """A socket on a port for a new controller: the next ones behind the last controller's, else any. It keeps the port
    for our own nodes until it is closed."""
    host, last = max(member.address("controller") for member in plan.controllers)
    for port in range(last + 1, min(last + 1 + PORTS_TRIED, plans.LAST_PORT + 1)):
        with contextlib.suppress(PortTaken):
            return plans.reserve(host, port)
    return plans.reserve(host, 0)


def _key(member: plans.Member) -> MetadataReplica | None:
    """The disk that a controller has; None: it has none that is formatted."""
    found = storage.read(member.config.metadata_log_dir)
    return None if found is None else MetadataReplica(member.config.controller_id, found.directory_id)


def _end(plan: plans.Plan, id: int, supervisor: int, timeout_s: float) -> None:
    """End a process whose directory was taken away while it ran: it would go on writing into the new one by name."""
    described = json.loads((plan.directory / plans.CLUSTER_JSON).read_text())
    pid = next((row["pid"] for row in described["controllers"] if row["id"] == id), None)
    if pid is None or not locks.is_child(pid, supervisor):
        return
    _wake(plan.directory)
    until_s = time.monotonic() + timeout_s
    while locks.is_child(pid, supervisor):
        if time.monotonic() > until_s:
            raise ClusterError(f"controller {id} does not end, as process {pid}, whose directory is gone: kill it.")
        time.sleep(POLL_S)


def _wake(directory: Path) -> None:
    """Have the supervisor read the files anew. Raises ClusterError if it is gone."""
    try:
        woken = locks.send(str(directory), signal.SIGHUP)
    except locks.Unseen as error:
        raise ClusterError(str(error)) from None
    if not woken:
        raise ClusterError(
            f"the supervisor of {directory} has ended: start the cluster with rayft up --dir {directory}."
        )


def _formatted(member: plans.Member, cluster_id: str) -> MetadataReplica:
    """Format a new disk: its controller learns from others which controllers vote. A process whose directory was
    removed may have begun the metadata log again there before it ended, and nothing of it counts. Raises
    StorageError."""
    shutil.rmtree(os.path.join(member.config.metadata_log_dir, storage.METADATA_DIRECTORY), ignore_errors=True)
    found = storage.format_node(member.config, cluster_id, voters=None, ignore_formatted=True)
    return MetadataReplica(member.config.controller_id, found[0].directory_id)


def _cluster_id(plan: plans.Plan, id: int) -> str:
    """The cluster id, from the directory of any other node. Raises StorageError."""
    for member in plan.members:
        if id not in member.ids:
            return storage.check(member.config)[0].cluster_id
    raise ClusterError(f"controller {id} is the only node of {plan.directory}: its quorum is lost with its disk.")
