"""Mistakes of streams groups (KIP-1071)."""

from collections.abc import Sequence
from typing import Any

from actors.broker.groups.streams import records
from actors.broker.groups.streams.state import FAR_MS, Member, StreamsGroup
from tests.simulator.planted.registry import Patch, instead, mistake

real_has, real_replay = StreamsGroup.has, records.replay


@mistake("streams")
def tasks_given_before_they_are_let_go() -> Sequence[Patch]:
    """A task is active at two members."""

    def has(self: StreamsGroup, role: str, one: str, number: int, process: str | None = None) -> bool:
        return process is not None and real_has(self, role, one, number, process)

    return [instead(StreamsGroup, "has", has)]


@mistake("streams")
def copies_beside_the_task_itself() -> Sequence[Patch]:
    """A process has a task in two roles."""

    def has(self: StreamsGroup, role: str, one: str, number: int, process: str | None = None) -> bool:
        return process is None and real_has(self, role, one, number)

    return [instead(StreamsGroup, "has", has)]


@mistake("streams")
def tasks_forgotten_by_a_new_coordinator() -> Sequence[Patch]:
    """A new coordinator gives away tasks that members still run."""

    def forgetful(group: StreamsGroup, key: Any, data: Any) -> None:
        if key.kind == records.CURRENT and data is not None:
            data.active_tasks = []
        real_replay(group, key, data)

    return [instead(records, "replay", forgetful)]


@mistake("streams")
def silent_members_of_streams_groups_stay() -> Sequence[Patch]:
    """A task is run by nobody, since its member does not come back."""
    return [instead(Member, "due_ms", lambda self: FAR_MS)]


@mistake("streams")
def copies_are_forgotten_by_a_new_coordinator() -> Sequence[Patch]:
    """A new coordinator makes a task active in a process that still has a copy open."""

    def forgetful(group: StreamsGroup, key: Any, data: Any) -> None:
        if key.kind == records.CURRENT and data is not None:
            data.standby_tasks, data.standby_tasks_pending_revocation = [], []
        real_replay(group, key, data)

    return [instead(records, "replay", forgetful)]
