"""metadata.format 1: KIP-631 as of version 19 of its page.

This file alone decides how this draft, which has no deletion records, says that something is gone. A broker: its
BrokerRecord is written once more, with the same epoch and without endpoints (A31). A topic: its TopicRecord is written
with Deleting, which ends it at once (A34).
"""

from typing import Any

from actors.metadata.dialects.levels import EXTENSIONS, Level
from actors.metadata.ops import BrokerGone, TopicGone
from actors.wire.messages import message

TYPES = {
    0: "v19:BrokerRecord",
    1: "v19:TopicRecord",
    2: "v19:PartitionRecord",
    3: "v19:ConfigRecord",
    4: "v19:IsrChangeRecord",
    5: "v19:AccessControlRecord",
    **EXTENSIONS,
}


def _broker_gone(op: BrokerGone) -> tuple[int, Any]:
    return 0, message(TYPES[0])(broker_id=op.id, broker_epoch=op.epoch)


def _topic_gone(op: TopicGone) -> tuple[int, Any]:
    if not op.name:
        raise ValueError("metadata.format 1 deletes a topic by name and id; the name is missing")
    return 1, message(TYPES[1])(name=op.name, topic_id=op.id, deleting=True)


LEVEL = Level(
    number=1,
    types=TYPES,
    broker_gone=_broker_gone,
    topic_gone=_topic_gone,
    empty_broker_is_gone=True,
    deleting_is_gone=True,
)
