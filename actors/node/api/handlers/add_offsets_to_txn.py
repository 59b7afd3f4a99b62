"""AddOffsetsToTxn (25), versions 0 to 4: a transaction is about to commit offsets of a group (KIP-98).

Behaviour: the partition of `__consumer_offsets` that holds the group is added to the transaction.

Version notes: 2 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; 3 flexible; 4 knows TRANSACTION_ABORTABLE. From
transaction version 2 on clients leave it out (TxnOffsetCommit 5 adds the partition).

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST, INVALID_GROUP_ID,
INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS, NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, POLICY_VIOLATION, UNSUPPORTED_VERSION.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.metadata.topic_names import OFFSETS_TOPIC
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

FENCED_FROM = 2
CLASSIC = 0


@rpc(25, "AddOffsetsToTxn", range(0, 5), listeners=(Listener.CLIENT,), lane=Lane.DATA)
def add_offsets_to_txn(context: BrokerContext, request: "AddOffsetsToTxnRequest", call: Call) -> Answer:
    """Add the partition of the group's offsets to the transaction."""
    if not context.authorizer.allowed(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return Done(_reply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, call))
    if not context.authorizer.allowed(call, Operation.READ, Resource.GROUP, request.group_id):
        return Done(_reply(ErrorCode.GROUP_AUTHORIZATION_FAILED, call))
    if not request.group_id:
        return Done(_reply(ErrorCode.INVALID_GROUP_ID, call))
    if context.cache.image.topic(OFFSETS_TOPIC) < 0:
        context.topics.create([OFFSETS_TOPIC])
        return Done(_reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, call))
    partitions = frozenset(((OFFSETS_TOPIC, context.groups.machine.partition_of(request.group_id)),))
    transactions = context.transactions
    return transactions.ask(
        call.connection,
        lambda ticket: transactions.machine.add(
            request.transactional_id,
            ticket,
            request.producer_id,
            request.producer_epoch,
            partitions,
            CLASSIC,
            context.runtime.now,
            patient=True,
        ),
        lambda verdict: _reply(verdict.error, call),
    )


def _reply(error: ErrorCode, call: Call) -> "AddOffsetsToTxnResponse":
    if error is ErrorCode.PRODUCER_FENCED and call.api_version < FENCED_FROM:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    return message("AddOffsetsToTxnResponse")(error_code=error)
