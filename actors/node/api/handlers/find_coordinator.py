"""FindCoordinator (10), versions 0 to 6.

Version notes: 1 key type (0 group, 1 transaction, 2 share group); 4 several keys at once.
`__consumer_offsets` is created on the first request, as Kafka does; until a leader of the group's partition is known the
answer is COORDINATOR_NOT_AVAILABLE. Transactions and share groups do not exist here: INVALID_REQUEST with a sentence, as for
key types that are unknown, because who is told that no coordinator is available asks again until its patience ends. Of a
transaction's coordinator up to version 3: TRANSACTIONAL_ID_AUTHORIZATION_FAILED with the same sentence, because librdkafka,
which asks in version 2, asks again after every other error; Java's producer would not show the sentence with that one.
"""

from typing import Any

from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import Pace, Steps, in_slices
from actors.wire.errors import ErrorCode, text
from actors.wire.messages import message

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHED = 4
NOT_HERE = {
    TRANSACTION: "transactions are not supported: leave transactional.id out",
    SHARE: "share groups are not supported: use a consumer group",
}
"""Key types of Kafka's that nothing coordinates here."""


@rpc(10, "FindCoordinator", range(0, 7), listeners=(Listener.CLIENT,))
@in_slices
def find_coordinator(context: BrokerContext, request: Any, call: Call) -> Steps:
    """Name the broker that coordinates each key; a key once, however often it is named."""
    Response = message("FindCoordinatorResponse")
    if call.api_version < BATCHED:
        error, id, host, port = _find(context, request.key_type, request.key, call.listener_name)
        if request.key_type == TRANSACTION:
            error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Done(
            Response(error_code=error, error_message=_text(error, request.key_type), node_id=id, host=host, port=port)
        )
    coordinators = []
    pace = Pace()
    for key in dict.fromkeys(request.coordinator_keys):
        if pace.over():
            yield
        error, id, host, port = _find(context, request.key_type, key, call.listener_name)
        coordinators.append(
            Response.Coordinator(
                key=key,
                error_code=error,
                error_message=_text(error, request.key_type),
                node_id=id,
                host=host,
                port=port,
            )
        )
    return Done(Response(coordinators=coordinators))


def _find(context: BrokerContext, key_type: int, key: str, listener: str) -> tuple[ErrorCode, int, str, int]:
    image = context.cache.image
    if key_type != GROUP:
        return ErrorCode.INVALID_REQUEST, -1, "", -1
    topic = image.topic(OFFSETS_TOPIC)
    if topic < 0:
        context.topics.create([OFFSETS_TOPIC])
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
    row = image.partition(topic, context.groups.machine.partition_of(key))
    leader = image.leader(row) if row >= 0 else -1
    endpoint = context.cache.endpoint(leader, listener)
    if endpoint is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1
    return ErrorCode.NONE, leader, endpoint.host, endpoint.port


def _text(error: ErrorCode, key_type: int) -> str | None:
    return None if error is ErrorCode.NONE else NOT_HERE.get(key_type) or text(error)
