"""metadata.format 2: KIP-631 as of version 28 of its page.

This file alone decides how level 2 says that something is gone. It has records of their own for that:
DeleteBrokerRecord (6), and DeleteTopicRecord (7), whose field Name is the topic id. Deleting in a TopicRecord hides a
topic (A34).
"""

from typing import Any

from actors.metadata.dialects.levels import EXTENSIONS, Level
from actors.metadata.ops import BrokerGone, TopicGone
from actors.wire.messages import message

TYPES = {
    0: "v28:BrokerRecord",
    1: "v28:TopicRecord",
    2: "v28:PartitionRecord",
    3: "v28:ConfigRecord",
    4: "v28:IsrChangeRecord",
    5: "v28:AccessControlRecord",
    6: "v28:DeleteBrokerRecord",
    7: "v28:DeleteTopicRecord",
    **EXTENSIONS,
}


def _broker_gone(op: BrokerGone) -> tuple[int, Any]:
    return 6, message(TYPES[6])(id=op.id)


def _topic_gone(op: TopicGone) -> tuple[int, Any]:
    return 7, message(TYPES[7])(name=op.id)


LEVEL = Level(
    number=2,
    types=TYPES,
    broker_gone=_broker_gone,
    topic_gone=_topic_gone,
    empty_broker_is_gone=False,
    deleting_is_gone=False,
)
