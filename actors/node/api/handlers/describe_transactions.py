"""DescribeTransactions (65), version 0: transactional ids that this broker coordinates (KIP-664).

Behaviour: an id is shown once, however often it is named; of its topics those that the principal may describe.
Errors, of each id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST (empty), NOT_COORDINATOR,
COORDINATOR_LOAD_IN_PROGRESS, TRANSACTIONAL_ID_NOT_FOUND, UNSUPPORTED_VERSION (later software wrote the id's record).
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.node.api.contexts import BrokerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices, put_in_order
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DescribeTransactionsRequest


@rpc(65, "DescribeTransactions", range(0, 1), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def describe_transactions(context: BrokerContext, request: "DescribeTransactionsRequest", call: Call) -> Steps:
    """Show the transactions of the ids that the request names."""
    kind = message("DescribeTransactionsResponse")
    reply = kind()
    pace = SliceCount()
    for id in dict.fromkeys(request.transactional_ids):
        if context.authorizer.allowed(call, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, id):
            found = context.transactions.machine.describe(id)
        else:
            found = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if isinstance(found, ErrorCode):
            reply.transaction_states.append(kind.TransactionState(transactional_id=id, error_code=found))
        else:
            topics: dict[str, list[int]] = {}
            within = list(found.partitions)
            names = (topic for topic, _ in within)
            seen = yield from context.authorizer.shown_names(call, Operation.DESCRIBE, Resource.TOPIC, names)
            for topic, number in (yield from put_in_order(within, pace)):
                if topic in seen:
                    topics.setdefault(topic, []).append(number)
                if pace.over():
                    yield
            reply.transaction_states.append(
                kind.TransactionState(
                    transactional_id=id,
                    transaction_state=found.state.shown,
                    transaction_timeout_ms=found.timeout_ms,
                    transaction_start_time_ms=found.started_ms,
                    producer_id=found.producer_id,
                    producer_epoch=found.producer_epoch,
                    topics=[kind.TopicData(topic=name, partitions=numbers) for name, numbers in topics.items()],
                )
            )
        if pace.over():
            yield
    return Done(reply)
