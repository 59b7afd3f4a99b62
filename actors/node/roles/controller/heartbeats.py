"""The traffic among controllers: heartbeats of standbys, and the snapshot that the active one coordinates (KIP-631).

A standby reports its newest snapshot and starts one when told. The active controller enters its own report without an
RPC; when it is its own turn, level 1 makes it hand over first, once (A46), level 2 does not.
"""

from typing import Any, Protocol

from actors.controller import snapshots
from actors.controller.features import OURS
from actors.controller.options import POLICIES, Options
from actors.controller.state import State
from actors.metadata.image import Image
from actors.node.net.channels import ChannelError, Channels
from actors.node.quorum.replica import QuorumReplica
from actors.node.quorum.snapshots import Snapshotting
from actors.ports import Now
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

FEATURES = tuple((name, low, high) for name, (low, high) in sorted(OURS.items()))


class Controller(Protocol):
    """The controller whose heartbeats these are."""

    active: bool
    image: Image
    options: Options
    snapshotting: Snapshotting

    @property
    def me(self) -> int: ...
    @property
    def committed_level(self) -> int: ...
    def state(self) -> State: ...
    def snapshot(self) -> None: ...


class ControllerHeartbeats:
    """The heartbeats of one controller. Every controller runs them; what they do depends on whether it is active."""

    def __init__(self, channels: Channels, quorum: QuorumReplica, role: Controller) -> None:
        self._channels = channels
        self._quorum = quorum
        self._role = role
        self._due_ms = 0
        self._in_flight = False
        self._resigned_for: int | None = None
        """Snapshot offset for which this controller has handed over already: one attempt (A46)."""

    def deadline_ms(self) -> int:
        """The monotonic time of the next heartbeat, or of the next look at the quorum."""
        return self._due_ms

    def tick(self, now: Now) -> None:
        """At the interval, report as a standby, or judge the reports as the active controller."""
        if now.mono_ms < self._due_ms:
            return
        self._due_ms = now.mono_ms + self._role.options.heartbeat_ms(self._role.committed_level)
        if self._role.active:
            self._coordinate(now)
        elif not self._in_flight:
            self._report()

    def _report(self) -> None:
        kind = message("v28:ControllerHeartbeatRequest")
        request = kind(
            controller_id=self._role.me,
            last_snapshot_offset=self._role.snapshotting.offset,
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, low, high in FEATURES
            ],
        )
        self._in_flight = True
        self._channels.controller("ControllerHeartbeat", request, self._answered, purpose="controller-heartbeat")

    def _answered(self, reply: Any) -> None:
        self._in_flight = False
        if isinstance(reply, ChannelError) or reply.error_code != ErrorCode.NONE:
            return
        if reply.start_snapshot and not self._role.active:
            self._role.snapshotting.take(self._role.image)

    def _coordinate(self, now: Now) -> None:
        role, taker = self._role, self._role.snapshotting
        state = role.state()
        snapshots.report(state, role.me, taker.offset, FEATURES, now)
        progress = snapshots.SnapshotInputs(taker.bytes_since, self._quorum.raft.degraded)
        if snapshots.next_snapshot(state, progress, now) != role.me or taker.busy:
            return
        others = len(state.controllers) > 1
        if POLICIES[state.level].resign_to_snapshot and others and self._resigned_for != taker.offset:
            self._resigned_for = taker.offset
            self._quorum.resign()
            return
        role.snapshot()
