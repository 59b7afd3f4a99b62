"""DeleteShareGroupState (86), version 0: the group coordinator has share partitions forgotten (KIP-932).

Behaviour: of what is not remembered, nothing is written, and that is no error.
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
    from actors.wire.schemas.rpc import DeleteShareGroupStateRequest

NAME = "DeleteShareGroupState"


@rpc(86, NAME, range(0, 1), listeners=(Listener.CLIENT, Listener.INTER_BROKER))
@in_slices
def delete_share_group_state(context: BrokerContext, request: "DeleteShareGroupStateRequest", call: Call) -> Steps:
    """Forget each share partition; answer once that is committed."""
    machine = context.share_state.machine
    return (
        yield from answered(
            context, request, NAME, "DeleteStateResult", lambda key, one, then: machine.delete(key, then)
        )
    )
