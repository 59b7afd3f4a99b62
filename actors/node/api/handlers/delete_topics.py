"""DeleteTopics 1-6: topics go, with partitions and settings.

Brokers pass it on; the active controller does it (`controller/topics.py`). v6 takes topic ids.
Errors: 3, 42, 73, 100 by topic; 41 NOT_CONTROLLER on a standby.
"""

from typing import Any

from actors.controller.portions import TOPICS_GONE
from actors.controller.topics import delete_topics
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject


@rpc(20, "DeleteTopics", range(1, 7), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: Any, call: Call) -> Answer:
    """On a controller."""
    return context.role.submit(delete_topics, request, call, TOPICS_GONE)


@rpc(
    20,
    "DeleteTopics",
    range(1, 7),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
    pipelined=True,
)
def forward(context: BrokerContext, request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
