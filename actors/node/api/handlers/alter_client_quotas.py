"""AlterClientQuotas 0-1 (KIP-546): quotas of users, client ids and addresses.

Brokers pass it on; the active controller does it (`controller/principals/quotas.py`).
Errors: 42, 44 by entity; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.portions import QUOTAS
from actors.controller.principals.quotas import alter_client_quotas
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterClientQuotasRequest


@rpc(49, "AlterClientQuotas", range(2), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: "AlterClientQuotasRequest", call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(alter_client_quotas, request, call, QUOTAS)


@rpc(49, "AlterClientQuotas", range(2), listeners=[Listener.CLIENT, Listener.INTER_BROKER], writes=Subject.METADATA)
def forward(context: BrokerContext, request: "AlterClientQuotasRequest", call: Call) -> Answer:
    """On a broker."""
    return Forward()
