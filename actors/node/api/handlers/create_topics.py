"""CreateTopics 2-7: topics with their partitions and settings.

Brokers pass it on; the active controller does it (`controller/topics.py`). v5 answers partitions and settings, v7 topic ids.
Errors: 17, 36, 37, 38, 39, 40, 42, 44 by topic; 41 NOT_CONTROLLER on a standby.
"""

from functools import partial
from typing import Any

from actors.controller.portions import TOPICS_MADE
from actors.controller.topics import PARTITIONS_MAX, create_topics, partitions_asked, refuse_topics
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Forward
from actors.node.runtime.calls import Call, Listener, Subject


@rpc(19, "CreateTopics", range(2, 8), listeners=[Listener.CONTROLLER], enveloped=True)
def decide(context: ControllerContext, request: Any, call: Call) -> Answer:
    """On a controller."""
    role = context.role
    fits = partitions_asked(request, role.options.partitions_default) <= PARTITIONS_MAX
    operation = partial(create_topics, accepted={}) if fits else refuse_topics
    return role.submit(operation, request, call, TOPICS_MADE)


@rpc(
    19,
    "CreateTopics",
    range(2, 8),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
    pipelined=True,
)
def forward(context: BrokerContext, request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
