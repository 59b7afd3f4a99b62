"""ListTransactions (66), versions 0 to 2: the transactional ids that this broker coordinates and that the principal
may describe (KIP-664, KIP-994, KIP-1152).

Version notes: 0 filters by state and producer id; a state that does not exist is named in the answer, and matches nothing.
1 filters by how long the transaction runs (ms). 2 filters by a regular expression over the whole id
(`api/patterns.py` says which are taken).
Errors: COORDINATOR_LOAD_IN_PROGRESS while a partition is loading, INVALID_REGULAR_EXPRESSION.
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.groups.patterns import Pattern, PatternRefused
from actors.broker.transactions.state import BY_NAME
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Done
from actors.node.runtime.calls import Call, Lane, Listener
from actors.node.runtime.slices import SliceCount, Steps, in_slices
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ListTransactionsRequest

DURATION_FROM, PATTERN_FROM = 1, 2


@rpc(66, "ListTransactions", range(0, 3), listeners=[Listener.BRIDGE], lane=Lane.DATA)
def on_a_controller(context: ControllerContext, request: "ListTransactionsRequest", call: Call) -> Answer:
    """A controller names no transaction: clients of brokers in ZooKeeper mode ask every broker, and take it for one."""
    return Done(message("ListTransactionsResponse")())


@rpc(66, "ListTransactions", range(0, 3), listeners=(Listener.CLIENT,), lane=Lane.DATA)
@in_slices
def list_transactions(context: BrokerContext, request: "ListTransactionsRequest", call: Call) -> Steps:
    """List the transactions that this broker coordinates."""
    kind = message("ListTransactionsResponse")
    machine = context.transactions.machine
    reply = kind()
    if machine.loading():
        return Done(kind(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    pattern: Pattern | None = None
    if call.api_version >= PATTERN_FROM and request.transactional_id_pattern:
        try:
            pattern = Pattern(request.transactional_id_pattern)
        except PatternRefused:
            return Done(kind(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
    states = {BY_NAME[name] for name in request.state_filters if name in BY_NAME}
    reply.unknown_state_filters = [name for name in dict.fromkeys(request.state_filters) if name not in BY_NAME]
    producers = set(request.producer_id_filters)
    longer_than_ms = request.duration_filter if call.api_version >= DURATION_FROM else -1
    pace = SliceCount()
    for id, transaction in machine.listed():
        if (
            (not request.state_filters or transaction.state in states)
            and (not producers or transaction.producer_id in producers)
            and (longer_than_ms < 0 or context.runtime.now.wall_ms - transaction.started_ms > longer_than_ms)
            and (pattern is None or pattern.fullmatch(id))
            and context.authorizer.shown(call, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, id)
        ):
            reply.transaction_states.append(
                kind.TransactionState(
                    transactional_id=id, producer_id=transaction.producer_id, transaction_state=transaction.state.shown
                )
            )
        if pace.over():
            yield
    return Done(reply)
