"""DeleteTopics 1-6: topics go, with partitions and settings.

Brokers pass it on; the active controller does it (`controller/topics.py`). v6 takes topic ids.
Errors: 3, 42, 73, 100 by topic; 41 NOT_CONTROLLER on a standby.
"""

from typing import TYPE_CHECKING, Any

from actors.controller.portions import TOPICS_GONE
from actors.controller.topics import delete_topics
from actors.node.registry import Answer, Call, Forward, Listener, Subject, rpc

if TYPE_CHECKING:
    from actors.node.node import Node


@rpc(20, "DeleteTopics", range(1, 7), listeners=[Listener.CONTROLLER])
def decide(node: "Node", request: Any, call: Call) -> Answer:
    """On a controller."""
    assert node.controller is not None
    return node.controller.submit(delete_topics, request, call, TOPICS_GONE)


@rpc(
    20,
    "DeleteTopics",
    range(1, 7),
    listeners=[Listener.CLIENT, Listener.INTER_BROKER],
    writes=Subject.METADATA,
    pipelined=True,
)
def forward(node: "Node", request: Any, call: Call) -> Answer:
    """On a broker."""
    return Forward()
