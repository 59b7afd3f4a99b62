"""CreateAcls 1-3 (KIP-140): new access rules.

Brokers pass it on; the active controller does it (`controller/principals/acls.py`).
Errors, of each rule: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, POLICY_VIOLATION, SECURITY_DISABLED; NOT_CONTROLLER
on a standby.
"""

from typing import TYPE_CHECKING

from actors.controller.portions import RULES_MADE
from actors.controller.principals.acls import create_acls
from actors.controller.refusals import refusal
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.net.long_refusals import answered_in_pieces
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.errors import ErrorCode

if TYPE_CHECKING:
    from actors.wire.schemas.rpc import CreateAclsRequest


@controllers_own(30, "CreateAcls", range(1, 4), listeners=[Listener.CLIENT], writes=Subject.METADATA)
def decide(context: ControllerContext, request: "CreateAclsRequest", call: Call) -> Answer:
    """The active controller adds the rules, if there is an authorizer."""
    if not context.authorizer.enabled:
        return answered_in_pieces(request, lambda piece: refusal(piece, ErrorCode.SECURITY_DISABLED, -1))
    return context.role.submit(create_acls, request, call, RULES_MADE)
