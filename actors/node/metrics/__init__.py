"""The metrics of a node: a table of rows for each subject, and the order in which they are read.

This file alone decides which tables a node of a role has. Reading costs nothing before somebody asks, and is done part by
part: between two parts the node may go on.
"""

from collections.abc import Iterator

from actors.node.metrics.broker import BROKERS, OfBroker
from actors.node.metrics.clients import PUSHES, QUOTAS, pushed_parts
from actors.node.metrics.controller import CONTROLLERS, OfController
from actors.node.metrics.coordinators import COORDINATORS, COUNTED, SHARE_GROUPS, group_parts
from actors.node.metrics.family import Family, Sample
from actors.node.metrics.partitions import EVERY, Columns, partition_parts
from actors.node.metrics.quorum_replica import QUORUM
from actors.node.metrics.requests import REQUESTS, AnyNode
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.runtime import Runtime

Part = list[Sample | Columns]


def families() -> Iterator[Family]:
    """Every family that a node may show, what clients push aside."""
    for rows in (REQUESTS, QUORUM, CONTROLLERS, BROKERS, COORDINATORS, SHARE_GROUPS, QUOTAS, PUSHES):
        for row in rows:
            yield row.family
    yield from COUNTED
    yield from EVERY


def parts(
    runtime: Runtime,
    requests: RequestChannel,
    quorum: QuorumReplica,
    controller: ControllerRole | None,
    broker: BrokerRole | None,
) -> Iterator[Part]:
    """Everything that a node knows, part by part."""
    node = AnyNode(runtime, requests, quorum)
    for row in (*REQUESTS, *QUORUM):
        yield [*row.samples(node)]
    if controller is not None:
        of_controller = OfController(controller, runtime, quorum, requests)
        for one in CONTROLLERS:
            yield [*one.samples(of_controller)]
    if broker is not None:
        yield from broker_parts(OfBroker(broker, runtime, quorum, requests))


def broker_parts(of: OfBroker) -> Iterator[Part]:
    """Everything that the broker role of a node knows, part by part."""
    telemetry = of.role.telemetry
    shares = SHARE_GROUPS if of.role.groups.serves_share_groups() else ()
    for row in (*BROKERS, *COORDINATORS, *shares, *QUOTAS, *(PUSHES if telemetry.on else ())):
        yield [*row.samples(of)]
    for counted in group_parts(of):
        yield [*counted]
    yield from partition_parts(of.role.replicas)
    if telemetry.on:
        for pushed in pushed_parts(telemetry.clients):
            yield [*pushed]


def samples(
    runtime: Runtime,
    requests: RequestChannel,
    quorum: QuorumReplica,
    controller: ControllerRole | None,
    broker: BrokerRole | None,
) -> list[Sample]:
    """All of it at once, without the numbers of single partitions."""
    found = [one for part in parts(runtime, requests, quorum, controller, broker) for one in part]
    return [one for one in found if isinstance(one, Sample)]
