"""FindCoordinator (10), versions 0 to 6.

Version notes: 1 key type (0 group, 1 transaction); 4 several keys at once; 6 key type 2, a share partition: group, topic id
and partition, separated by colons, for which its share coordinator is named to the nodes of the cluster (KIP-932).
Behaviour: the topic that a coordinator stands on is created on the first request that needs it, as Kafka does; until a
leader of the key's partition is known the answer is COORDINATOR_NOT_AVAILABLE. A key type that is unknown, an empty
transactional id, or a share partition that is none: INVALID_REQUEST.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.coordinators.coordination import partition_of
from actors.metadata.topic_names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.shown_cluster import NOT_DRIVING, ClusterView, shown_by_controller
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import FindCoordinatorRequest

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED = 4
SHARE_FROM = 6
SHARE_PARTITION = re.compile(r".*\S.*:[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.DOTALL)
"""Group, topic id and partition; a group may have colons too."""
DENIED = {
    GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""Key type -> the resource that has to be allowed, and the error otherwise."""
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_STATE_TOPIC}
"""Key type -> the topic whose partitions' leaders coordinate."""


@rpc(10, "FindCoordinator", range(0, 7), listeners=(Listener.CLIENT,))
@in_slices
def find_coordinator(context: BrokerContext, request: "FindCoordinatorRequest", call: Call) -> Steps:
    """Name the broker that coordinates each key; a key once, however often it is named."""
    return _found(context, partial(_partition_here, context), request, call)


@rpc(10, "FindCoordinator", range(0, 7), listeners=[Listener.BRIDGE])
@in_slices
def on_a_controller(context: ControllerContext, request: "FindCoordinatorRequest", call: Call) -> Steps:
    """Name the coordinators to clients of brokers in ZooKeeper mode. Those brokers make the coordinators' topics when they
    are asked."""
    shown = shown_by_controller(context)
    if shown is None:
        return NOT_DRIVING
    return (yield from _found(shown, partial(_partition_there, shown), request, call))


def _partition_here(context: BrokerContext, key_type: int, topic: str, key: str) -> int:
    """The number of a key's partition."""
    if context.cache.image.topic(topic) < 0:
        context.topics.create([topic])
    if key_type == GROUP:
        return context.groups.machine.partition_of(key)
    if key_type == TRANSACTION:
        return context.transactions.machine.partition_of(key)
    return context.share_state.machine.partition_of(key)


def _partition_there(shown: ClusterView, key_type: int, topic: str, key: str) -> int:
    row = shown.cache.image.topic(topic)
    return partition_of(key, shown.cache.image.partition_count(row)) if row >= 0 else -1


def _found(
    context: ClusterView, number_of: Callable[[int, str, str], int], request: "FindCoordinatorRequest", call: Call
) -> Steps:
    Response = message("FindCoordinatorResponse")
    if call.api_version < BATCHED:
        error, id, host, port = _find(context, number_of, request.key_type, request.key, call)
        return Done(Response(error_code=error, error_message=_text(error), node_id=id, host=host, port=port))
    coordinators = []
    pace = SliceCount()
    for key in dict.fromkeys(request.coordinator_keys):
        if pace.over():
            yield
        error, id, host, port = _find(context, number_of, request.key_type, key, call)
        coordinators.append(
            Response.Coordinator(
                key=key,
                error_code=error,
                error_message=_text(error),
                node_id=id,
                host=host,
                port=port,
            )
        )
    return Done(Response(coordinators=coordinators))


def _find(
    context: ClusterView, number_of: Callable[[int, str, str], int], key_type: int, key: str, call: Call
) -> tuple[ErrorCode, int, str, int]:
    image = context.cache.image
    refused = _refused(context, key_type, key, call)
    if refused is not ErrorCode.NONE:
        return refused, -1, "", -1
    name = TOPICS[key_type]
    number, topic = number_of(key_type, name, key), image.topic(name)
    row = image.partition(topic, number) if topic >= 0 else -1
    leader = image.leader(row) if row >= 0 else -1
    endpoint = context.cache.endpoint(leader, call.listener_name)
    if endpoint is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
    return ErrorCode.NONE, leader, endpoint.host, endpoint.port


def _refused(context: ClusterView, key_type: int, key: str, call: Call) -> ErrorCode:
    resource, denied = DENIED.get(key_type, (None, ErrorCode.NONE))
    if resource is not None and not context.authorizer.allowed(call, Operation.DESCRIBE, resource, key):
        return denied
    if key_type == SHARE and call.api_version >= SHARE_FROM:
        if not context.authorizer.allowed(call, Operation.CLUSTER_ACTION, Resource.CLUSTER):
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ErrorCode.NONE if SHARE_PARTITION.fullmatch(key) else ErrorCode.INVALID_REQUEST
    known = key_type == GROUP or (key_type == TRANSACTION and key)
    return ErrorCode.NONE if known else ErrorCode.INVALID_REQUEST


def _text(error: ErrorCode) -> str | None:
    return None if error is ErrorCode.NONE else text(error)
