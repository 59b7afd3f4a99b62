"""AlterUserScramCredentials 0 (KIP-554): SCRAM credentials of users.

Brokers pass it on; the active controller does it (`controller/principals/scram_credentials.py`).
Errors, of each user: 31 CLUSTER_AUTHORIZATION_FAILED, 33, 44, 91, 92, 93; 41 NOT_CONTROLLER on a standby.
"""

from actors.controller.principals.scram_credentials import alter_scram_credentials
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject
from actors.wire.messages import Message

KEY, NAME = 51, "AlterUserScramCredentials"
"""On a controller's own listener the drafts have given this number to ControllerHeartbeat."""


@rpc(KEY, NAME, range(1), listeners=[], enveloped=True)
def decide(context: ControllerContext, request: Message, call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(alter_scram_credentials, request, call)


@rpc(KEY, NAME, range(1), listeners=[Listener.CLIENT], writes=Subject.METADATA)
def forward(context: BrokerContext, request: Message, call: Call) -> Answer:
    """On a broker."""
    return Forward()
