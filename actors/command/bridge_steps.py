"""`rayft bridge`: a cluster with ZooKeeper is looked at, taken over, handed back, or let go of ZooKeeper.

This file alone decides what the command says and in which order it does things, and gives up after a minute without
progress. The bridge itself runs in the active controller.
"""

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping

from actors.bridge.checks import Findings, findings
from actors.bridge.subjects.brokers import PROTOCOLS
from actors.bridge.znodes import BRIDGE, REFUSED, WANTED, BadZnode
from actors.host.bridge import bridge_cluster, bridge_settings
from actors.host.bridge.bridge_cluster import WantedCluster
from actors.host.bridge.bridge_state import noted
from actors.host.bridge.zookeeper_session import Session
from actors.host.cluster import plan as plans
from actors.host.cluster import probe
from actors.host.cluster.access import node_access
from actors.host.cluster.on_processes import Cluster
from actors.host.cluster_error import ClusterError
from actors.ports.zookeeper import Change, Check, Create, Delete, Get, Rejected
from actors.settings.keys import ConfigError

WAIT_S = 60.0
"""How long no progress may be made, s, until the command gives up."""
AGAIN_S = 0.2
DONE = {"back": "handed back", "finish": "let go"}


def run(options: Namespace, common: Mapping[str, str]) -> int:
    """Run `rayft bridge`. Returns its exit code. Raises what `cli.main` reports."""
    try:
        with Session(options.zookeeper) as session:
            if options.back or options.finish:
                return _end(session, "back" if options.back else "finish")
            return _forward(session, options, common)
    except (BadZnode, Rejected) as error:
        raise ClusterError(str(error)) from None


def _forward(session: Session, options: Namespace, common: Mapping[str, str]) -> int:
    made = plans.load(options.dir)
    ids = [member.config.controller_id for member in made.controllers] if made is not None else []
    found = findings(session.everything(), ids)
    driven = found.controller in ids
    shape = None
    if made is None and found.listeners:
        shape, reasons = _shape(options, common, found)
        found = found._replace(refusals=[*found.refusals, *reasons])
    for line in told(found, driven):
        print(line)
    if found.refusals and not driven:
        return 1
    if options.check:
        return 0
    made = bridge_cluster.existing(options.dir, found)
    if made is None:
        assert shape is not None, "without a listener in common it is refused"
        made = bridge_cluster.create(shape, found)
    _wish(session, None)
    cluster = Cluster(dir=options.dir, detached=True)
    cluster.start()
    state = _await(
        session, lambda state, holder: state.get("state") == "driving" and holder in cluster.controller_ids, made
    )
    print(f"controller {state['controller']} has taken over, in controller epoch {state['controller_epoch']}")
    if cluster.broker_ids:
        print(f"brokers {', '.join(map(str, cluster.broker_ids))} of rayft have joined at {cluster.bootstrap_servers}")
        print("next: move partitions to them with kafka-reassign-partitions.sh, then stop the old brokers one by one")
    print(f"the way back: rayft bridge --zookeeper {options.zookeeper} --back; stop: rayft down --dir {options.dir}")
    return 0


def told(found: Findings, driven: bool = False) -> Iterator[str]:
    """The sentences that the command says about a cluster."""
    yield f"cluster {found.cluster_id}: {len(found.brokers)} brokers, {found.topics} topics, {found.partitions} partitions"
    for broker in found.brokers:
        at = ", ".join(
            f"{one.name}://{one.host}:{one.port} ({PROTOCOLS[one.security_protocol]})" for one in broker.endpoints
        )
        yield f"  broker {broker.id} at {at}, epoch {broker.epoch}"
    yield f"  {found.users} users with settings, {found.rules} access rules, {found.tokens} delegation tokens"
    now = f"controller {found.controller}" if found.controller >= 0 else "no controller"
    yield f"  {now} in controller epoch {found.controller_epoch}"
    for notice in found.notices:
        yield f"note: {notice}"
    if driven:
        yield "a controller of rayft drives this cluster"
        return
    for reason in found.refusals:
        yield f"refused: {reason}"
    if not found.refusals:
        yield f"a takeover would claim controller epoch {found.controller_epoch + 1} and begin with these topics"


def _end(session: Session, wish: str) -> int:
    if noted(session).note.get("state") != "driving":
        raise ClusterError("no controller of rayft drives this cluster.")
    _wish(session, wish)
    end, before = time.monotonic() + WAIT_S, 0
    while time.monotonic() < end:
        note, _, refusal = noted(session)
        if (given_back := note.get("given_back", 0)) != before:
            end, before = time.monotonic() + WAIT_S, given_back
        if refusal:
            raise ClusterError(f"{refusal}.")
        if note.get("state") == DONE[wish]:
            break
        time.sleep(AGAIN_S)
    else:
        if _withdrawn(session, wish):
            raise ClusterError(
                "the active controller has not done it, with no progress for a minute, and it is not wanted any more: "
                "its log says why."
            )
    print("the cluster is handed back" if wish == "back" else "ZooKeeper is not needed any more: stop it")
    return 0


def _withdrawn(session: Session, wish: str) -> bool:
    """Take a wish back that was not fulfilled in time, so that it is not fulfilled later, when it is not expected.
    Returns False if it was fulfilled after all."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        (bridge,) = session.read([Get(BRIDGE)])
        if noted(session).note.get("state") == DONE[wish]:
            return False
        try:
            session.change([Check(BRIDGE, bridge.version), Delete(WANTED)])
            return True
        except Rejected:  # a controller is about to fulfil it
            time.sleep(AGAIN_S)
    return True


def _wish(session: Session, wish: str | None) -> None:
    """Write a wish where the active controller watches, for as long as this session lasts; None: that it drives. An
    answer to an earlier wish goes."""
    bridge, before, refused = session.read([Get(BRIDGE), Get(WANTED), Get(REFUSED)])
    changes: list[Change] = [Delete(REFUSED)] if refused is not None else []
    changes += [Delete(WANTED)] if before is not None else []
    if wish is not None:
        changes += [Create(BRIDGE)] if bridge is None else []
        changes.append(Create(WANTED, wish.encode(), ephemeral=True))
    if changes:
        session.change(changes)


def _await(session: Session, holds, made: plans.Plan) -> dict[str, object]:  # type: ignore[no-untyped-def]
    end, before = time.monotonic() + WAIT_S, _written(made)
    while True:
        note, holder, _ = noted(session)
        if holds(note, holder):
            return note
        if time.monotonic() >= end:
            if (now := _written(made)) <= before:
                break
            print(f"the controllers have written {now} records and go on")
            end, before = time.monotonic() + WAIT_S, now
        time.sleep(AGAIN_S)
    logs = ", ".join(str(made.directory / f"{member.name}.log") for member in made.controllers)
    raise ClusterError(f"no controller has taken over, with no progress for a minute: see {logs}.")


def _written(made: plans.Plan) -> int:
    """The number of records of the metadata log that are committed; -1: not known. An idle quorum writes none."""
    try:
        return probe.quorum([node_access(member.config, controller=True) for member in made.controllers]).high_watermark
    except probe.NoAnswer:
        return -1


def _shape(options: Namespace, common: Mapping[str, str], found: Findings) -> tuple[WantedCluster | None, list[str]]:
    """The shape of the cluster that is to be made, and what forbids it."""
    try:
        listener = bridge_settings.listener(found, options.listener)
        plans.refuse_shape(options.controllers, options.brokers, options.port)
    except ConfigError as error:
        return None, [str(error)]
    shape = WantedCluster(
        options.dir,
        options.zookeeper,
        options.controllers,
        options.brokers,
        options.host,
        options.port,
        listener,
        common,
    )
    return shape, list(bridge_settings.objections(shape, found))
