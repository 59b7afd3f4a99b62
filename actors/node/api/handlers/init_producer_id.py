"""InitProducerId (22), versions 0 to 6: a producer id, or the next epoch of a transactional id.

Behaviour: without a transactional id any broker gives an id, out of blocks that the controller gives to it; until the first
block is here a request waits a moment, then COORDINATOR_LOAD_IN_PROGRESS (clients try again). With one its coordinator
answers when the raised epoch is committed. An open transaction is aborted first: CONCURRENT_TRANSACTIONS until that is
done. It is kept instead where the client asks for it (KIP-939); the answer names the pair with which it goes on.

Version notes: 3 and 4 carry the producer's old id and epoch (KIP-360), which stand together; without a transactional id
they mean nothing. 4 PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH. 6 is two-phase commit: Enable2Pc (its timeout is
not looked at) and KeepPreparedTxn. Apache Kafka 4.3.1 calls it unstable and tells clients of it only with
`unstable.api.versions.enable`. Here it is always served, and clients are told where
`transaction.two.phase.commit.enable` is on: an administrator who asks for two-phase commit has decided, and everybody
else's producers keep to a version whose layout is settled. Apache Kafka 4.3.1 refuses KeepPreparedTxn.

Errors: TRANSACTIONAL_ID_AUTHORIZATION_FAILED (also: two-phase commit without that right, or where it is off),
CLUSTER_AUTHORIZATION_FAILED (without a transactional id: a client that may write to no topic at all, KIP-679),
INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, CONCURRENT_TRANSACTIONS,
INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, INVALID_PRODUCER_EPOCH, POLICY_VIOLATION (no more memory for transactional
ids), UNSUPPORTED_VERSION (later software wrote the id's record; a transaction is to be kept, and `transaction.version` is
below 2).
"""

from typing import TYPE_CHECKING

from actors.authorization.resources import Operation, Resource
from actors.broker.transactions.coordinator import Producer
from actors.broker.transactions.rules import Init
from actors.controller.producer_ids import give_producer_id
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.security.authorizer import Authorizer
from actors.node.api.shown_cluster import NOT_DRIVING, shown_by_controller
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Close, Done, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import InitProducerIdRequest, InitProducerIdResponse

WAIT_MS = 1000
RECOVERS_FROM = 3
FENCED_FROM = 4
TWO_PHASE_FROM = 6
TOLD = range(0, TWO_PHASE_FROM)
"""The versions that clients are told of where `transaction.two.phase.commit.enable` is off."""


@rpc(22, "InitProducerId", range(0, TWO_PHASE_FROM + 1), listeners=(Listener.CLIENT,), lane=Lane.DATA, advertised=TOLD)
def init_producer_id(context: BrokerContext, request: "InitProducerIdRequest", call: Call) -> Answer:
    """Give the next id, or the next epoch."""
    refused = _refused(context.authorizer, request, call)
    if refused is not ErrorCode.NONE:
        return Done(_reply(refused))
    if request.transactional_id is not None:
        return _transactional(context, request.transactional_id, request, call)
    return _give(context, context.runtime.now.mono_ms + WAIT_MS, False)


@rpc(22, "InitProducerId", TOLD, listeners=[Listener.BRIDGE], lane=Lane.DATA)
def on_a_controller(context: ControllerContext, request: "InitProducerIdRequest", call: Call) -> Answer:
    """Give the next id to a client of brokers in ZooKeeper mode. A controller coordinates no transactional id."""
    refused = _refused(context.authorizer, request, call)
    if refused is ErrorCode.NONE and request.transactional_id is not None:
        refused = ErrorCode.NOT_COORDINATOR
    if refused is not ErrorCode.NONE:
        return Done(_reply(refused))
    if shown_by_controller(context) is None:
        return NOT_DRIVING
    return context.role.submit(give_producer_id, request, call)


def _refused(may: Authorizer, request: "InitProducerIdRequest", call: Call) -> ErrorCode:
    if request.transactional_id is not None:
        id = request.transactional_id
        allowed = may.allowed(call, Operation.WRITE, Resource.TRANSACTIONAL_ID, id)
        if allowed and _two_phase(request, call):
            allowed = may.allowed(call, Operation.TWO_PHASE_COMMIT, Resource.TRANSACTIONAL_ID, id)
        return ErrorCode.NONE if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not (
        may.allowed_some(call, Operation.WRITE, Resource.TOPIC)
        or may.allowed(call, Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    alone = (request.producer_id >= 0) is not (request.producer_epoch >= 0)
    return ErrorCode.INVALID_REQUEST if alone else ErrorCode.NONE


def _two_phase(request: "InitProducerIdRequest", call: Call) -> bool:
    return call.api_version >= TWO_PHASE_FROM and request.enable2_pc


def _transactional(context: BrokerContext, id: str, request: "InitProducerIdRequest", call: Call) -> Answer:
    transactions, version = context.transactions, call.api_version
    recovers = version >= RECOVERS_FROM
    init = Init(
        request.transaction_timeout_ms,
        request.producer_id if recovers else -1,
        request.producer_epoch if recovers else -1,
        two_phase=_two_phase(request, call),
        keep=version >= TWO_PHASE_FROM and request.keep_prepared_txn,
    )

    def reply(verdict: Producer) -> "InitProducerIdResponse":
        error = verdict.error
        if error is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        reply = _reply(error, verdict.id, verdict.epoch)
        if version >= TWO_PHASE_FROM:
            reply.ongoing_txn_producer_id = verdict.ongoing_id
            reply.ongoing_txn_producer_epoch = verdict.ongoing_epoch
        return reply

    return transactions.ask(
        call.connection,
        lambda ticket: transactions.machine.init(id, ticket, init, context.runtime.now),
        reply,
    )


def _give(context: BrokerContext, deadline_ms: int, expired: bool) -> Answer:
    if not context.availability.serving:
        return Close("this broker is fenced")
    producer_id = context.producer_ids.take()
    if producer_id is not None:
        return Done(_reply(ErrorCode.NONE, producer_id, 0))
    if expired:
        return Done(_reply(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    return Parked([context.producer_ids.key], deadline_ms, lambda late: _give(context, deadline_ms, late))


def _reply(error: ErrorCode, producer_id: int = -1, producer_epoch: int = -1) -> "InitProducerIdResponse":
    return message("InitProducerIdResponse")(error_code=error, producer_id=producer_id, producer_epoch=producer_epoch)
