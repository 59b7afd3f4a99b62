"""InitProducerId (22), versions 0 to 5: an id for an idempotent producer.

Behaviour: ids come from blocks that the controller gives to this broker; until the first block is here a request waits a
moment, then COORDINATOR_LOAD_IN_PROGRESS (clients try again). A transactional id is refused for good:
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, after which no client asks again (librdkafka does after nearly all others).

Version notes: 3 and 4 carry the producer's old id and epoch, which mean nothing without transactions, but have to stand
together.

Errors: INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, COORDINATOR_LOAD_IN_PROGRESS.

Skipped: transactions.
"""

from typing import Any

from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

WAIT_MS = 1000


@rpc(22, "InitProducerId", range(0, 6), listeners=(Listener.CLIENT,), lane=Lane.DATA)
def init_producer_id(context: BrokerContext, request: Any, call: Call) -> Answer:
    """Give the next id."""
    if request.transactional_id is not None:
        named = bool(request.transactional_id)
        return Done(_reply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if named else ErrorCode.INVALID_REQUEST))
    if (request.producer_id >= 0) is not (request.producer_epoch >= 0):
        return Done(_reply(ErrorCode.INVALID_REQUEST))
    return _give(context, context.runtime.now.mono_ms + WAIT_MS, False)


def _give(context: BrokerContext, deadline_ms: int, expired: bool) -> Answer:
    if not context.lookups.serving:
        return Close("this broker is fenced")
    producer_id = context.producer_ids.take()
    if producer_id is not None:
        return Done(_reply(ErrorCode.NONE, producer_id))
    if expired:
        return Done(_reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    return Parked([context.producer_ids.key], deadline_ms, lambda late: _give(context, deadline_ms, late))


def _reply(error: ErrorCode, producer_id: int = -1) -> Any:
    return message("InitProducerIdResponse")(
        error_code=error, producer_id=producer_id, producer_epoch=0 if producer_id >= 0 else -1
    )
