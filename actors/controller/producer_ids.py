"""AllocateProducerIds (67): a block of 1,000 producer ids for one broker, never given twice (A08; KIP-730). And single ids
out of a block of the controller's own, for clients of brokers in ZooKeeper mode that take it for one of those.
"""

from typing import TYPE_CHECKING

from actors.controller.state import Result, State, broker_epoch_holds
from actors.metadata.ops import ProducerIdsSet
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import Message, message

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AllocateProducerIdsRequest

BLOCK = 1000


def allocate_producer_ids(state: State, request: "AllocateProducerIdsRequest", now: Now, random: Random) -> Result:
    """Carry out an AllocateProducerIdsRequest. Errors: 77 STALE_BROKER_EPOCH; 41 and 31 come from the controller role."""
    reply = message("AllocateProducerIdsResponse")
    if not broker_epoch_holds(state, request.broker_id, request.broker_epoch):
        return Result((), reply(error_code=int(ErrorCode.STALE_BROKER_EPOCH)))
    start = state.image.next_producer_id
    op = ProducerIdsSet(request.broker_id, request.broker_epoch, start + BLOCK)
    return Result([op], reply(producer_id_start=start, producer_id_len=BLOCK))


def give_producer_id(state: State, request: Message, now: Now, random: Random) -> Result:
    """Answer an InitProducerIdRequest without a transactional id."""
    soft, start = state.soft, state.image.next_producer_id
    ops = []
    if not soft.producer_ids:
        ops.append(ProducerIdsSet(state.me, -1, start + BLOCK))
        soft.producer_ids, soft.producer_ids_offset = range(start, start + BLOCK), state.next_offset
    producer_id, soft.producer_ids = soft.producer_ids[0], soft.producer_ids[1:]
    reply = message("InitProducerIdResponse")(producer_id=producer_id, producer_epoch=0)
    return Result(ops, reply, seen=soft.producer_ids_offset + 1)
