"""What is under way for a streams group, and forgotten with the leadership: writes, heartbeats that wait, what the
topics look like now, and what members are told of each other.

Nothing of this is written. The next coordinator asks the metadata again, and tells every member where the tasks are.
"""

from collections.abc import Callable
from typing import NamedTuple

from actors.broker.groups import member_groups
from actors.broker.groups.epochs import next_generation
from actors.broker.groups.streams.answers import Served, Status
from actors.broker.groups.streams.endpoints import served
from actors.broker.groups.streams.partitioning import Partitioned
from actors.broker.groups.streams.requests import StreamsHeartbeat
from actors.broker.groups.streams.state import FAR_MS, Current, Member, StreamsGroup


class WaitingHeartbeat(NamedTuple):
    """A heartbeat that waits for a target assignment. `before`: where the member was. `status`: what it is told
    besides."""

    ticket: int
    member_id: str
    request: StreamsHeartbeat
    before: Current
    status: list[tuple[Status, str]]


class InProgress(member_groups.InProgress):
    """What is under way for one group."""

    __slots__ = (
        "_group", "_served", "delayed_until_ms", "endpoint_epoch", "partitioned", "shutdown", "told_ms",
    )  # fmt: skip

    def __init__(self, group: StreamsGroup) -> None:
        super().__init__()
        self._group = group
        self.delayed_until_ms = -FAR_MS
        """Until when more members are waited for before the first target assignment."""
        self.partitioned: Partitioned | None = None
        """The topology among the topics of `seen_version`; None: no member was heard of yet."""
        self.shutdown: str | None = None
        """The member that has asked for the end of the application. It is forgotten with the last member."""
        self.endpoint_epoch = 0
        """Raised when a member with an endpoint gets other tasks. Members say which they know."""
        self.told_ms: dict[str, int] = {}
        """Member -> when it was told its tasks last."""
        self._served: dict[str, Served] = {}

    def moved(self, member: Member) -> None:
        """Note that a member is told of other tasks."""
        self._served.pop(member.id, None)
        if member.told.endpoint is not None:
            self.endpoint_epoch = next_generation(self.endpoint_epoch)

    def told_before(self, member: Member, time_ms: int) -> bool:
        """Whether a member was told its tasks not later than that, or not by this coordinator."""
        return self.told_ms.get(member.id, time_ms) <= time_ms

    def untold(self, member_id: str) -> None:
        """Note that the answer that would have told a member its tasks is an error."""
        self.told_ms.pop(member_id, None)

    def forget(self, member_id: str) -> None:
        """Forget a member that is gone, or another one."""
        self._served.pop(member_id, None)
        self.told_ms.pop(member_id, None)

    def forget_all(self) -> None:
        """Forget what was derived from topics, since these are others."""
        self._served.clear()

    def endpoints(self, size: Callable[[str], int | None]) -> list[Served]:
        """The partitions that each instance has, for all members with an endpoint. `size`: how many partitions a topic
        has."""
        topology = self._group.topology
        if topology is None:
            return []
        for member in self._group.members.values():
            if member.told.endpoint is not None and member.id not in self._served:
                self._served[member.id] = served(member.told.endpoint, member.current.assigned.tasks(), topology, size)
        return list(self._served.values())
