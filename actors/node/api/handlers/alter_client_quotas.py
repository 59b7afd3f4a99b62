"""AlterClientQuotas 0-1 (KIP-546): quotas of users, client ids and addresses.

Brokers pass it on; the active controller does it (`controller/principals/quotas.py`).
Errors: INVALID_REQUEST, POLICY_VIOLATION by entity; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.portions import QUOTAS
from actors.controller.principals.quotas import alter_client_quotas
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Subject

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import AlterClientQuotasRequest


@controllers_own(49, "AlterClientQuotas", range(2), writes=Subject.METADATA)
def decide(context: ControllerContext, request: "AlterClientQuotasRequest", call: Call) -> Answer:
    """The active controller sets or removes quotas."""
    return context.role.submit(alter_client_quotas, request, call, QUOTAS)
