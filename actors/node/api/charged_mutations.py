"""Changes of topics, charged to the client that asks for them (KIP-599), and the throttle time in its answer."""

from functools import partial
from typing import Any

from actors.controller.portions import Cut
from actors.controller.state import Operation
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.answers import Answer, mapped
from actors.node.runtime.calls import Call
from actors.wire.messages import Message


def charged(role: ControllerRole, operation: Any, request: Message, call: Call, cut: Cut, strict_from: int) -> Answer:
    """Run an operation that takes a `charge`. `strict_from`: see `ControllerRole.mutation_quota`."""
    quota = role.mutation_quota(call, strict_from)
    if quota is None:
        return role.submit(operation, request, call, cut)
    charging: Operation = partial(operation, charge=quota.charge)

    def told(reply: Any) -> Any:
        reply.throttle_time_ms = quota.throttle_ms
        return reply

    return mapped(role.submit(charging, request, call, cut), told)
