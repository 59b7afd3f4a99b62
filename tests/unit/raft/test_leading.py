"""What a leader answers to a replica that fetches, decision by decision; transcripts/raft tells whole stories."""

from types import SimpleNamespace
from typing import Any

import pytest

from actors.raft import SnapshotId, leading
from actors.raft.log import NO_SNAPSHOT, EpochTable
from actors.raft.messages import FetchRequest, ReplicaKey


@pytest.mark.parametrize(
    ("before", "offset", "caught_up"), [(8, 8, True), (8, 7, False), (-1, 9, False), (-1, 10, True)]
)
def test_a_replica_that_reached_what_was_there_at_its_last_fetch_is_caught_up(
    before: int, offset: int, caught_up: bool
) -> None:
    """While records come, none ever reaches the end."""
    progress = leading.ReplicaProgress(0)
    progress.leader_end_offset, progress.caught_up_wall_ms = before, -1
    core: Any = SimpleNamespace(log=SimpleNamespace(end_offset=10), now=SimpleNamespace(wall_ms=77), now_ms=7)
    leading._note(core, progress, offset)
    assert (progress.caught_up_wall_ms == 77) is caught_up and progress.leader_end_offset == 10


def fetching(offset: int, last_epoch: int) -> FetchRequest:
    return FetchRequest(1, ReplicaKey(2), 5, offset, last_epoch, -1, 0, 1000)


def core(start: SnapshotId, latest: SnapshotId) -> Any:
    return SimpleNamespace(log=SimpleNamespace(table=EpochTable([(5, start.end_offset)], start, 100), latest=latest))


ONE, START, LATEST = SnapshotId(1, 1), SnapshotId(10, 3), SnapshotId(40, 4)


@pytest.mark.parametrize(
    ("start", "latest", "offset", "last_epoch", "snapshot"),
    [
        (NO_SNAPSHOT, NO_SNAPSHOT, 0, -1, None),
        (NO_SNAPSHOT, NO_SNAPSHOT, 7, 5, None),
        (NO_SNAPSHOT, ONE, 0, -1, ONE),
        (NO_SNAPSHOT, LATEST, 0, -1, LATEST),
        (NO_SNAPSHOT, LATEST, 1, 5, None),
        (START, LATEST, 9, 3, LATEST),
        (START, LATEST, 10, 3, None),
        (START, LATEST, 10, 4, LATEST),
        (START, LATEST, 10, 2, LATEST),
        (START, LATEST, 11, 2, LATEST),
        (START, LATEST, 11, 3, None),
    ],
)
def test_a_replica_that_needs_what_the_log_does_not_have_any_more_is_given_a_snapshot(
    start: SnapshotId, latest: SnapshotId, offset: int, last_epoch: int, snapshot: SnapshotId | None
) -> None:
    assert leading._snapshot_instead(core(start, latest), fetching(offset, last_epoch)) == snapshot
