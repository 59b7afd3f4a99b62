"""ReadShareGroupStateSummary (87), versions 0 and 1: how far a share group is, for those who describe it (KIP-932).

Version notes: 1 how many deliveries are complete (KIP-1226).
Behaviour: what was never initialized has start offset -1; nobody is fenced.
Errors, by partition: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_VERSION (what the log has of it cannot be read here).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_state import answered
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import Steps, in_slices

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ReadShareGroupStateSummaryRequest

NAME = "ReadShareGroupStateSummary"


@rpc(87, NAME, range(0, 2), listeners=(Listener.CLIENT, Listener.INTER_BROKER))
@in_slices
def read_share_group_state_summary(
    context: BrokerContext, request: "ReadShareGroupStateSummaryRequest", call: Call
) -> Steps:
    """Tell epochs, start offset and completed deliveries of each share partition, once they are committed."""
    machine = context.share_state.machine
    return (
        yield from answered(
            context, request, NAME, "ReadStateSummaryResult", lambda key, one, then: machine.summary(key, then)
        )
    )
