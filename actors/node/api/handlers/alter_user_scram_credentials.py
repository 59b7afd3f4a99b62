"""AlterUserScramCredentials 0 (KIP-554): SCRAM credentials of users.

Brokers pass it on; the active controller does it (`controller/principals/scram_credentials.py`).
Errors, of each user: CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_SASL_MECHANISM, POLICY_VIOLATION, RESOURCE_NOT_FOUND,
DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL; NOT_CONTROLLER on a standby.
"""

from actors.controller.principals.scram_credentials import alter_scram_credentials
from actors.node.api.contexts import ControllerContext
from actors.node.api.table import controllers_own
from actors.node.runtime.answers import Answer
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.messages import Message

KEY, NAME = 51, "AlterUserScramCredentials"
"""On a controller's own listener the drafts have given this number to ControllerHeartbeat."""


@controllers_own(KEY, NAME, range(1), listeners=[Listener.CLIENT], controllers=[], writes=Subject.METADATA)
def decide(context: ControllerContext, request: Message, call: Call) -> Answer:
    """The active controller stores credentials, or removes them."""
    return context.role.submit(alter_scram_credentials, request, call)
