"""UpdateFeatures 0-2: finalized feature levels.

Brokers pass it on; the active controller does it (`controller/features.py`).
Errors: 42, 95; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.features import update_features
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import UpdateFeaturesRequest


@rpc(57, "UpdateFeatures", range(3), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "UpdateFeaturesRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(update_features, request, call)


@rpc(57, "UpdateFeatures", range(3), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(context: BrokerContext, request: "UpdateFeaturesRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
