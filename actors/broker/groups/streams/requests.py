"""StreamsGroupHeartbeat as a value, and what is wrong with one whatever the group looks like (KIP-1071).

This file alone decides which request is malformed: INVALID_REQUEST, or STREAMS_INVALID_TOPOLOGY (`topology.py`), with a
sentence for the user. What Kafka 4.3 does not support yet is refused as there: static members, task offsets, warm-up tasks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from actors.broker.groups.refusals import invalid
from actors.broker.groups.streams import topology as topologies
from actors.broker.groups.streams.answers import Endpoint, Tasks
from actors.broker.groups.streams.state import AWAY, LEFT
from actors.broker.groups.streams.topology import Topology

TEXT_CHARACTERS_MAX = 1024
"""The most characters of an id, a rack, a name or a host: each is written to the log and kept in memory for each
member."""
TAGS_CHARACTERS_MAX = 1 << 14
"""The most characters of all tags of a member."""


class StreamsHeartbeat(NamedTuple):
    """One heartbeat of a member. None: the same as before. `rebalance_timeout_ms`: -1: the same. `active`, `standby`,
    `warmup`: what the member has, by subtopology, as it came: a subtopology may be there twice. `has_offsets`: it says
    how far its tasks are."""

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: Topology | None
    active: Sequence[tuple[str, Sequence[int]]] | None
    standby: Sequence[tuple[str, Sequence[int]]] | None
    warmup: Sequence[tuple[str, Sequence[int]]] | None
    process_id: str | None
    endpoint: Endpoint | None
    tags: Sequence[tuple[str, str]] | None
    has_offsets: bool
    shutdown: bool
    client_id: str
    client_host: str

    @property
    def leaves(self) -> bool:
        """Whether the member sends its last heartbeat."""
        return self.epoch in (LEFT, AWAY)

    def owned(self) -> Tasks | None:
        """The tasks that the member has; None: it does not say."""
        if self.active is None or self.standby is None or self.warmup is None:
            return None
        return Tasks(
            *({one: frozenset(numbers) for one, numbers in of} for of in (self.active, self.standby, self.warmup))
        )


def check(request: StreamsHeartbeat) -> None:
    """Check what is wrong with a heartbeat whatever the group looks like. Raises RequestRefused."""
    _check_unsupported(request)
    for text, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if text == "":
            raise invalid(f"{name} can't be empty.")
    if request.epoch == 0:
        _check_first(request)
    elif request.epoch == AWAY:
        raise invalid("InstanceId can't be null.")
    elif request.epoch < AWAY:
        raise invalid(f"MemberEpoch is {request.epoch}, but must be greater than or equal to -2.")
    roles = (request.active, request.standby, request.warmup)
    if any(role is not None for role in roles) and any(role is None for role in roles):
        raise invalid("If one task-type is non-null, all must be non-null.")
    if request.epoch != 0 and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")
    _check_texts(request)


def _check_unsupported(request: StreamsHeartbeat) -> None:
    if request.instance_id is not None:
        raise invalid("Static membership is not yet supported.")
    if request.has_offsets:
        raise invalid("TaskOffsets are not supported yet.")
    if request.warmup:
        raise invalid("WarmupTasks are not supported yet.")


def _check_first(request: StreamsHeartbeat) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active, "ActiveTasks"),
        (request.standby, "StandbyTasks"),
        (request.warmup, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid("Topology must be non-null when (re-)joining.")
    else:
        topologies.check(request.topology)


def _check_texts(request: StreamsHeartbeat) -> None:
    for text, name in (
        (request.member_id, "MemberId"),
        (request.rack_id, "RackId"),
        (request.process_id, "ProcessId"),
        (request.client_id, "The client id"),
        (request.endpoint.host if request.endpoint is not None else None, "The host of UserEndpoint"),
    ):
        if text is not None and len(text) > TEXT_CHARACTERS_MAX:
            raise invalid(f"{name} has more than {TEXT_CHARACTERS_MAX} characters.")
    if sum(len(key) + len(value) + 1 for key, value in request.tags or ()) > TAGS_CHARACTERS_MAX:
        raise invalid(f"ClientTags have more than {TAGS_CHARACTERS_MAX} characters together.")
