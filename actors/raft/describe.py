"""What DescribeQuorum shows of the quorum (KIP-595, KIP-836): values only, read out of `Core`."""

from collections.abc import Sequence
from typing import NamedTuple

from actors.raft.messages import ReplicaKey
from actors.raft.state import Core, ReplicaProgress


class ReplicaState(NamedTuple):
    """One replica as the leader sees it; times are of day in ms, -1 when unknown."""

    key: ReplicaKey
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class Description(NamedTuple):
    """What this replica knows of the quorum. Only a leader knows the replicas: `voters` and `observers` are empty
    elsewhere."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: Sequence[ReplicaState]
    observers: Sequence[ReplicaState]


def describe(core: Core) -> Description:
    """The quorum as of the last input."""
    leading = core.leading
    if leading is None:
        return Description(core.leader_id, core.epoch, core.high_watermark, (), ())
    now_ms = core.now.wall_ms
    own = ReplicaState(core.me, core.log.end_offset, now_ms, now_ms)
    voters = [_state(key, progress) for key, progress in leading.voters.items()]
    observers = [_state(key, progress) for key, progress in sorted(leading.observers.items())]
    (voters if core.is_voter else observers).append(own)
    told = core.high_watermark if leading.committed else -1
    return Description(core.me.id, core.epoch, told, tuple(sorted(voters)), tuple(sorted(observers)))


def _state(key: ReplicaKey, progress: ReplicaProgress) -> ReplicaState:
    return ReplicaState(key, progress.end_offset, progress.fetch_wall_ms, progress.caught_up_wall_ms)
