"""ControllerHeartbeat (51): which controller takes a snapshot, and when (KIP-631, Snapshot Implementation; A43 to A48).

This file alone decides which controller is told to start a snapshot. Rules:

1. There is one snapshot at a time in the quorum: one slot, in memory. It is free again when its controller reports a
   larger offset, when that controller has not been heard for a lease period, or after a time limit.
2. After a takeover no controller is told to start until every live controller of the quorum has reported once, or a
   lease period has passed.
3. The controller whose snapshot is oldest goes first, the active controller last.
4. None of this is ever written to the log (R631-111, R631-125).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controller.options import POLICIES
from actors.controller.soft_state import Report, SnapshotSlot
from actors.controller.state import Result, State
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v28 import ControllerHeartbeatRequest

LIMIT_MS = 600_000
"""The time in ms after which a snapshot that has not ended counts as failed (A43)."""


class SnapshotInputs(NamedTuple):
    """What the active controller knows of the log and of the quorum's health."""

    bytes_since: Any
    """The bytes committed after an offset: (offset) -> bytes."""
    degraded: bool
    """Whether the voters that keep up are no more than a bare majority (A45)."""


def controller_heartbeat(state: State, request: "ControllerHeartbeatRequest", now: Now, random: Random) -> Result:
    """Carry out a ControllerHeartbeatRequest: note the report, and answer whether to start. Errors: 42 if the id is not
    a controller's."""
    kind = message("v28:ControllerHeartbeatResponse")
    if request.controller_id not in state.controllers:
        return Result((), kind(error_code=int(ErrorCode.INVALID_REQUEST)), seen=0)
    features = tuple(
        sorted(
            (feature.name, feature.min_supported_version, feature.max_supported_version) for feature in request.features
        )
    )
    report(state, request.controller_id, request.last_snapshot_offset, features, now)
    slot = state.soft.snapshot
    start = slot is not None and slot.controller_id == request.controller_id
    return Result((), kind(start_snapshot=start), seen=0)


def report(state: State, controller: int, offset: int, features: tuple[tuple[str, int, int], ...], now: Now) -> None:
    """Note that a controller has a snapshot up to `offset` (its end offset; -1: none). The active controller reports
    its own too."""
    soft = state.soft
    soft.controllers[controller] = Report(offset, now.mono_ms, features)
    slot = soft.snapshot
    if slot is not None and slot.controller_id == controller and offset > slot.offset_before:
        soft.snapshot = None


def next_snapshot(state: State, progress: SnapshotInputs, now: Now) -> int | None:
    """Free a slot whose snapshot is over, and give it to the controller that needs it most. Returns its holder, or
    None."""
    soft, options, level = state.soft, state.options, state.level
    lease_ms = options.lease_ms(level)
    alive = {id: known for id, known in soft.controllers.items() if now.mono_ms - known.heard_ms < lease_ms}
    slot = soft.snapshot
    if slot is not None and (slot.controller_id not in alive or now.mono_ms - slot.since_ms >= LIMIT_MS):
        soft.snapshot = slot = None
    if slot is not None:
        return slot.controller_id
    if set(alive) != state.controllers and now.mono_ms - soft.commits.since_ms < lease_ms:
        return None
    which = int(progress.degraded and POLICIES[level].spare_degraded)
    behind = []
    for controller, known in alive.items():
        covered = max(0, known.snapshot_offset)
        grown = progress.bytes_since(covered)
        old = now.mono_ms - soft.commits.since_ms >= options.snapshot_interval_ms[which] and (
            now.mono_ms - soft.snapshot_times.get(controller, soft.commits.since_ms)
            >= options.snapshot_interval_ms[which]
        )
        if state.high_watermark > covered and (grown >= options.snapshot_bytes[which] or (old and grown > 0)):
            behind.append((controller == state.me, known.snapshot_offset, controller))
    if not behind:
        return None
    _, offset, controller = min(behind)
    soft.snapshot = SnapshotSlot(controller, now.mono_ms, offset)
    soft.snapshot_times[controller] = now.mono_ms
    return controller
