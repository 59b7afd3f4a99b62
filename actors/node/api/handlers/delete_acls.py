"""DeleteAcls 1-3 (KIP-140): the access rules that filters find are no more.

Brokers pass it on; the active controller does it (`controller/principals/acls.py`).
Errors, of each filter: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, SECURITY_DISABLED; NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.principals.acls import RULES_GONE, delete_acls
from actors.controller.refusals import refusal
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.net.long_refusals import answered_in_pieces
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import DeleteAclsRequest


@controllers_own(31, "DeleteAcls", range(1, 4), listeners=[Listener.CLIENT], writes=Subject.METADATA)
def decide(context: ControllerContext, request: "DeleteAclsRequest", call: Call) -> Answer:
    """The active controller removes the rules that are found, if there is an authorizer."""
    if not context.authorizer.enabled:
        return answered_in_pieces(request, lambda piece: refusal(piece, ErrorCode.SECURITY_DISABLED, -1))
    return context.role.submit(delete_acls, request, call, RULES_GONE)
