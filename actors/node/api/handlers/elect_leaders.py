"""ElectLeaders 0-2: preferred and unclean elections.

Brokers pass it on; the active controller does it (`controller/partitions/elections.py`). v0 knows preferred ones only.
Errors: 3, 80, 83, 84 by partition; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.partitions.elections import elect_leaders
from actors.controller.portions import ELECTED
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import ElectLeadersRequest


@rpc(43, "ElectLeaders", range(3), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "ElectLeadersRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(elect_leaders, request, call, ELECTED)


@rpc(43, "ElectLeaders", range(3), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(context: BrokerContext, request: "ElectLeadersRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
