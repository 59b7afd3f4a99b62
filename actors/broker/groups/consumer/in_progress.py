"""What is under way for a consumer group, and forgotten with the leadership: writes, heartbeats that wait, and
matching."""

from typing import NamedTuple

from actors.broker.groups import member_groups
from actors.broker.groups.consumer.requests import ConsumerHeartbeat
from actors.broker.groups.consumer.state import FAR_MS, Held


class WaitingHeartbeat(NamedTuple):
    """A heartbeat that waits for a target assignment. `before`: what the member had. `changed`: its subscription
    has."""

    ticket: int
    member_id: str
    request: ConsumerHeartbeat
    before: Held
    changed: bool


class InProgress(member_groups.InProgress):
    """The work in progress of one consumer group. `resolving`: regular expressions are being matched.
    `resolved_version`, `resolved_ms`: of the metadata in which that was done last, and when."""

    __slots__ = ("resolved_ms", "resolved_version", "resolving", "rest_due_ms")

    def __init__(self) -> None:
        super().__init__()
        self.rest_due_ms = FAR_MS
        self.resolving = False
        self.resolved_version = -1
        self.resolved_ms = -FAR_MS

    def idle(self) -> bool:
        """Whether nothing is in progress."""
        return self.writes.idle() and not (self.waiting or self.assigning or self.resolving)
