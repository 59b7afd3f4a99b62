"""What a member of a streams group is answered: an error, or where it is, what it has, and what it must know
(KIP-1071).

The numbers of `Status` are Kafka's. A member that is told SHUTDOWN_APPLICATION ends with all others; what else there is
tells a user why the application has nothing to do.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.wire.errors import ErrorCode

TaskSets = Mapping[str, frozenset[int]]
"""The partitions of tasks, by subtopology. Invariant: none is empty."""
NOTHING: dict[str, frozenset[int]] = {}


class Status(enum.IntEnum):
    """What a member is told beside its tasks, by Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Tasks(NamedTuple):
    """The tasks of a member by their role. Warm-up tasks become active ones elsewhere once they have caught up; Kafka
    4.3 makes none."""

    active: TaskSets = NOTHING
    standby: TaskSets = NOTHING
    warmup: TaskSets = NOTHING

    def any(self) -> bool:
        """Whether there is a task in any role."""
        return any(self)


class NewTopic(NamedTuple):
    """An internal topic that is missing. `replicas`: -1: as many as the cluster gives a topic."""

    name: str
    partitions: int
    replicas: int
    settings: tuple[tuple[str, str], ...]


class Endpoint(NamedTuple):
    """The address at which an instance of the application answers queries (`application.server`)."""

    host: str
    port: int


class Served(NamedTuple):
    """The partitions that an instance has, by topic: for its tasks that are active, and for its standby tasks."""

    endpoint: Endpoint
    active: Sequence[tuple[str, Sequence[int]]]
    standby: Sequence[tuple[str, Sequence[int]]]


class StreamsBeat(NamedTuple):
    """The answer to a heartbeat.

    `tasks`, `endpoints`: None: nothing new. `create`: topics that the broker is to have made, if the member may."""

    error: ErrorCode
    message: str | None = None
    member_id: str = ""
    epoch: int = 0
    interval_ms: int = 0
    status: Sequence[tuple[Status, str]] = ()
    tasks: Tasks | None = None
    endpoint_epoch: int = 0
    endpoints: Sequence[Served] | None = None
    create: Sequence[NewTopic] = ()
