"""AlterPartition 0 to 3: a leader in ZooKeeper mode asks for another ISR (`controller/alter_partition.py`). Controllers, on
the listeners for such brokers only.

Version notes: 0 is what Apache Kafka 2.7 to 3.1 call AlterIsr, and not the AlterIsr of KIP-497 that brokers of rayft send on
the controllers' own listener: the listener decides, never the version. 2 topic ids, 3 epochs of the members.

Errors: top level 41, 77; by partition 3, 42, 74, 95, 100, 107.
"""

from functools import cache
from typing import Any

from actors.controller.alter_partition import IDS_FROM, AlterPartition
from actors.node.api.contexts import ControllerContext
from actors.node.api.handlers.alter_isr import in_order
from actors.node.api.table import rpc
from actors.node.runtime.answers import Answer, Held, Parked
from actors.node.runtime.calls import Call, Lane, Listener
from actors.wire.errors import ErrorCode

AGAIN_MS = 200
operation = cache(AlterPartition)


@rpc(56, "AlterPartition", range(4), listeners=[Listener.BRIDGE], lane=Lane.CONTROL)
def decide(context: ControllerContext, request: Any, call: Call) -> Answer:
    """On a controller. Before version 2 a leader asks again at once after an error that it does not know, such as that of a
    member which may not join yet: the answer waits a moment."""
    answer = in_order(context, request, call) or context.role.submit(operation(call.api_version), request, call)
    if call.api_version < IDS_FROM and isinstance(answer, Held) and _refuses_a_member(answer.reply):
        return Parked((), context.runtime.now.mono_ms + AGAIN_MS, lambda expired: answer)
    return answer


def _refuses_a_member(reply: Any) -> bool:
    return any(one.error_code == ErrorCode.INVALID_REQUEST for topic in reply.topics for one in topic.partitions)
