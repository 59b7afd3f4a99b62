"""ReadShareGroupState (84), version 0: the leader of a partition asks for all that a share group remembers of it (KIP-932).

Behaviour: a read in a higher leader epoch fences the leaders before it.
Errors, by partition: INVALID_REQUEST (also: it was never initialized), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
COORDINATOR_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, UNSUPPORTED_VERSION (what the log has of it
cannot be read here).
"""

from typing import TYPE_CHECKING

from actors.node.api.contexts import BrokerContext
from actors.node.api.share.share_state import answered
from actors.node.api.table import rpc
from actors.node.runtime.calls import Call, Listener
from actors.node.runtime.slices import Steps, in_slices

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ReadShareGroupStateRequest

NAME = "ReadShareGroupState"


@rpc(84, NAME, range(0, 1), listeners=(Listener.CLIENT, Listener.INTER_BROKER))
@in_slices
def read_share_group_state(context: BrokerContext, request: "ReadShareGroupStateRequest", call: Call) -> Steps:
    """Tell what is remembered of each share partition, once that is committed."""
    machine = context.share_state.machine
    return (
        yield from answered(
            context,
            request,
            NAME,
            "ReadStateResult",
            lambda key, one, then: machine.read(key, one.leader_epoch, then, context.runtime.now),
        )
    )
