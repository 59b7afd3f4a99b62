"""EndTxn (26), versions 0 to 5: commit or abort (KIP-98, KIP-890).

Behaviour: answered when the prepared end is committed; the markers follow. Requests for the next transaction hear
CONCURRENT_TRANSACTIONS until each partition has its marker.

Version notes: 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; 3 flexible; 4 knows TRANSACTION_ABORTABLE; 5 is
transaction version 2: the end raises the epoch, and the answer has the producer id and epoch of the next transaction.

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, CONCURRENT_TRANSACTIONS, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, UNSUPPORTED_VERSION.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.transactions.coordinator import Producer
from actors.broker.transactions.rules import End
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import EndTxnRequest, EndTxnResponse

FENCED_FROM = 2
RAISES_FROM = 5


@rpc(26, "EndTxn", range(0, 6), listeners=(Listener.CLIENT,), lane=Lane.DATA)
def end_txn(context: BrokerContext, request: "EndTxnRequest", call: Call) -> Answer:
    """End the transaction."""
    if not context.authorizer.allowed(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Done(message("EndTxnResponse")(error_code=code))
    transactions, version = context.transactions, call.api_version
    end = End(request.producer_id, request.producer_epoch, request.committed, 2 if version >= RAISES_FROM else 0)

    def reply(verdict: Producer) -> "EndTxnResponse":
        kind = message("EndTxnResponse")
        error = verdict.error
        if error is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        if version < RAISES_FROM:
            return kind(error_code=error)
        return kind(error_code=error, producer_id=verdict.id, producer_epoch=verdict.epoch)

    return transactions.ask(
        call.connection,
        lambda ticket: transactions.machine.end(request.transactional_id, ticket, end, context.runtime.now),
        reply,
    )
