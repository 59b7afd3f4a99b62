"""WriteShareGroupState (85), versions 0 and 1: the leader of a partition reports what has become of its records
(KIP-932).

Version notes: 1 how many deliveries are complete (KIP-1226).
Errors, by partition: INVALID_REQUEST (also: it was never initialized), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, UNSUPPORTED_VERSION (what
the log has of it cannot be read here).
"""

from typing import TYPE_CHECKING

from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.persistence.share_coordinator import Told
from actors.broker.groups.share.persistence.share_state import Batch
from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_state import answered
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import Steps, in_slices

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import WriteShareGroupStateRequest

NAME = "WriteShareGroupState"


@rpc(85, NAME, range(0, 2), listeners=(Listener.CLIENT, Listener.INTER_BROKER))
@in_slices
def write_share_group_state(context: BrokerContext, request: "WriteShareGroupStateRequest", call: Call) -> Steps:
    """Add to what is remembered of each share partition; answer once that is committed."""

    def write(key: SharePartitionKey, one: "WriteShareGroupStateRequest.PartitionData", then: Told) -> None:
        context.share_state.machine.write(
            key,
            one.state_epoch,
            one.leader_epoch,
            one.start_offset,
            one.delivery_complete_count,
            [
                Batch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in one.state_batches
            ],
            then,
            context.runtime.now,
        )

    return (yield from answered(context, request, NAME, "WriteStateResult", write))
