"""Controllers that come to a running cluster, get a new disk, or go (KIP-853).

This file alone decides the steps of such a change and what is refused. What is different for local processes and on Ray, the
directory and the process, is in `local_controllers.py` and `ray_controllers.py`. Rules:

1. A controller joins as an observer: its directory is formatted without voters, and it is given a vote when it has the log.
2. A controller whose disk is gone keeps its old vote until the new disk follows the quorum: whatever fails before, a missing
   certificate or a machine that does not start it, costs no vote. Then the old vote goes before the new one comes, since one
   id has one vote, and the old disk may have said what nobody knows any more.
3. A controller that goes loses its vote, then its rights, before its files, its process and its directory: a command that is
   interrupted behind that leaves nobody with a right, and cannot be given again once the files are gone. All that is in its
   directory is in those of the others too.
4. Each step may find itself done: a command that was interrupted can be given again.
"""

from actors.host.cluster import plan as plans
from actors.host.cluster import plan_changes, quorum_changes, secure_cluster
from actors.host.cluster.access import Access, node_access, operator_access
from actors.host.cluster.quorum_changes import MetadataReplica
from actors.host.cluster_error import ClusterError
from actors.host.security import security_directory
from actors.settings.keys import ConfigError

TIMEOUT_S = 30.0
"""How long a change waits for the quorum."""


def next_id(plan: plans.Plan) -> int:
    """The id of a new controller."""
    return max(member.config.controller_id for member in plan.controllers) + 1


def known(plan: plans.Plan, id: int) -> plans.Member:
    """The controller with an id. Raises ConfigError if there is none."""
    for member in plan.controllers:
        if member.config.controller_id == id:
            return member
    raise ConfigError(
        f"--add-controller {id} is none of the controllers of {plan.directory}, {plans.ids(plan.controllers)}: leave the id "
        f"out for a new controller."
    )


def leaving(plan: plans.Plan, id: int) -> plans.Member:
    """The controller that is to go. Raises ConfigError if it cannot."""
    try:
        member = plan.member(id)
    except KeyError as error:
        raise ConfigError(f"--node {id} is not there to be removed: {error.args[0]}.") from None
    if id != member.config.controller_id:
        raise ConfigError(
            f"--node {id} is a broker, and --remove is for controllers: move its partitions away, stop it, and forget it "
            f"with kafka-cluster.sh unregister."
        )
    if len(member.config.roles) > 1:
        raise ConfigError(
            f"--node {id} shares its process with broker {member.config.broker_id}: only a controller with a process of its "
            f"own can be removed."
        )
    return member


def asked(plan: plans.Plan, last: int = -1) -> dict[int, Access]:
    """The plan's controllers, by id, as they are asked; as the operator where the cluster is secure. `last`: the one
    that is probably dead. Raises ConfigError."""
    pem = ""
    if plan.secure:
        pem = security_directory.issue_client(plan.directory / secure_cluster.DIRECTORY, secure_cluster.OPERATOR)
    found = {}
    for member in sorted(plan.controllers, key=lambda member: member.config.controller_id == last):
        config = member.config
        found[config.controller_id] = operator_access(config, pem) if pem else node_access(config, controller=True)
    return found


def refuse_whole(plan: plans.Plan, member: plans.Member, key: MetadataReplica | None, timeout_s: float) -> None:
    """Check that a controller does not vote with the disk that it has. `key`: its disk now, if it has one. Raises
    ClusterError if it does."""
    id = member.config.controller_id
    voter = quorum_changes.members(asked(plan, id), timeout_s).voters.get(id)
    if voter is not None and voter == key:
        raise ClusterError(
            f"controller {id} votes with the disk that it has, {member.config.metadata_log_dir}: to replace it, remove that "
            f"directory first."
        )


def write(plan: plans.Plan, id: int, address: tuple[str, int], timeout_s: float) -> plans.Plan:
    """Add or move a controller to an address, and write its files. Where the cluster is secure, it is let in. Returns
    the plan with it."""
    files = plan_changes.with_controller(plan, id, address)
    if plan.secure:
        (ids,) = {plans.ids_of(own) for own in files.values() if own.get("controller.id") == str(id)}
        secure_cluster.certify(plan.directory, ids, address[0])
        quorum_changes.let_in(asked(plan, id), f"User:{security_directory.node_name(ids)}", timeout_s)
    return plan_changes.write(plan, files)


def vote(plan: plans.Plan, key: MetadataReplica, timeout_s: float) -> None:
    """Wait until a controller follows, and give it a vote instead of the one that its id may have with another disk. Raises
    ClusterError."""
    member, ask = plan.member(key.id), asked(plan, key.id)
    quorum_changes.wait_for_observer(ask, key, timeout_s)
    voter = quorum_changes.members(ask, timeout_s).voters.get(key.id)
    if voter is not None and voter != key:
        quorum_changes.remove(ask, voter, timeout_s)
    listener = member.config.controller_endpoints[0].name
    quorum_changes.add(ask, key, (listener, *member.address("controller")), timeout_s)


def take_vote(plan: plans.Plan, id: int, timeout_s: float) -> None:
    """Take the vote of a controller that goes, if it has one. Raises ClusterError."""
    ask = asked(plan, id)
    voter = quorum_changes.members(ask, timeout_s).voters.get(id)
    if voter is not None:
        quorum_changes.remove(ask, voter, timeout_s)


def forget(plan: plans.Plan, member: plans.Member) -> plans.Plan:
    """Remove a controller that has no vote, and whose files are gone. Returns the plan without it."""
    return plan_changes.write(plan, plan_changes.without_controller(plan, member.config.controller_id))


def shut_out(plan: plans.Plan, member: plans.Member, timeout_s: float) -> None:
    """Take the rights of a controller that has no vote any more, where the cluster is secure. Raises ClusterError."""
    if plan.secure:
        others = {id: access for id, access in asked(plan).items() if id not in member.ids}
        quorum_changes.shut_out(others, f"User:{security_directory.node_name(member.ids)}", timeout_s)


def discard_keys(plan: plans.Plan, member: plans.Member) -> None:
    """Remove the certificate of a controller that is gone, where the cluster is secure."""
    if plan.secure:
        secure_cluster.discard(plan.directory, member.ids)
