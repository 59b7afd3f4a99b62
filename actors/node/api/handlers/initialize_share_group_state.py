"""InitializeShareGroupState (83), version 0: the group coordinator has a share partition begin, or begin again (KIP-932).

Errors, by partition: INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
UNKNOWN_TOPIC_OR_PARTITION, FENCED_STATE_EPOCH, UNSUPPORTED_VERSION (what the log has of it cannot be read here).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_state import answered
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import Steps, in_slices

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import InitializeShareGroupStateRequest

NAME = "InitializeShareGroupState"


@rpc(83, NAME, range(0, 1), listeners=(Listener.CLIENT, Listener.INTER_BROKER))
@in_slices
def initialize_share_group_state(
    context: BrokerContext, request: "InitializeShareGroupStateRequest", call: Call
) -> Steps:
    """Remember where each share partition begins."""
    machine = context.share_state.machine
    return (
        yield from answered(
            context,
            request,
            NAME,
            "InitializeStateResult",
            lambda key, one, then: machine.initialize(
                key, one.state_epoch, one.start_offset, then, context.runtime.now
            ),
        )
    )
