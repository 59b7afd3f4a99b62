"""BrokerHeartbeat (50): which process gets a broker id, for how long, and when it may stop (KIP-631, Broker Heartbeats
to Broker ID Conflicts).

This file alone decides the answer to a heartbeat. `DECISIONS` is a table read from the top; the first row whose
condition holds decides (reading A19). The rows are named after the readings and rules that they carry out.

Errors (A14): 42 INVALID_REQUEST, 104 INCONSISTENT_CLUSTER_ID, 101 DUPLICATE_BROKER_REGISTRATION, 35 UNSUPPORTED_VERSION,
77 STALE_BROKER_EPOCH; 41 and 31 come from the controller role.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.controller.brokers import heartbeat_leases
from actors.controller.brokers.fencing_passes import unreadable, without_room
from actors.controller.brokers.zookeeper_brokers import owns
from actors.controller.options import POLICIES
from actors.controller.soft_state import Departure, Lease, Legacy, Shutdown
from actors.controller.state import METADATA_FORMAT, Result, State
from actors.metadata.ops import BrokerSet, EndPoint
from actors.ports import Now, Random
from actors.wire.errors import ErrorCode
from actors.wire.messages import message

if TYPE_CHECKING:
    from actors.wire.schemas.kip631.v28 import BrokerHeartbeatRequest, BrokerHeartbeatResponse

UNKNOWN, INITIAL, FENCED, ACTIVE, SHUTDOWN = range(5)
"""BrokerState on the wire (R631-182)."""
SECURITY_PROTOCOLS = range(4)
FEATURES_UNSAID = ((METADATA_FORMAT, 1, 2),)
"""The features and levels that a broker supports if it names none (A15)."""
LEASE_START_MS_MAX = 1 << 62
"""The highest time, in ms, that a broker's clock may show: the end of the lease must fit into an int64."""
NO_ID = bytes(16)


class HeartbeatClaim(NamedTuple):
    """One heartbeat, with what the controller knows of its broker id."""

    request: "BrokerHeartbeatRequest"
    lease: Lease | None
    """The live lease of the id."""
    broker: Any
    """The registration in the image, fenced or not; None: the id is not registered. `lease` shows whether it is fenced.
    """
    departure: Departure | None
    """The fencing of the id that is under way."""
    first: bool
    """Whether the request has no epoch yet: the process is in its first phase (R631-175)."""
    holder: bool
    """Whether the live lease belongs to this process."""
    returning: bool
    """Whether the live lease belonged to this process until it gave it up, and it has not been fenced since."""


def broker_heartbeat(state: State, request: "BrokerHeartbeatRequest", now: Now, random: Random) -> Result:
    """Decide on one heartbeat. The reply has level 2's layout; `node/api/handlers/broker_heartbeat.py` writes level
    1's."""
    lease = state.soft.leases.get(request.broker_id)
    first = request.broker_epoch == -1
    own = lease is not None and request.broker_epoch == lease.epoch and _same_process(request, lease)
    given_up = lease is not None and lease.given_up
    claim = HeartbeatClaim(
        request,
        lease,
        state.image.broker(request.broker_id),
        state.soft.leaving.get(request.broker_id),
        first,
        own and not given_up,
        own and given_up,
    )
    for _, holds, decide in DECISIONS:
        if holds(state, claim, now):
            if state.options.pushes:
                _note_legacy(state, claim, decide, now)
            return decide(state, claim, now)
    raise AssertionError("the last row always holds")


def registration_key(broker: int) -> tuple[str, int]:
    """The waiting key that is signalled when the fencing of a broker has ended."""
    return ("registration", broker)


# ---- brokers that do not pull (push mode)


def _note_legacy(state: State, claim: HeartbeatClaim, decide: "Decision", now: Now) -> None:
    """Note whether the newest process of a broker id wants to be told of metadata, and where. A request that is refused for
    what it is says nothing of the broker; nor does a process that has neither the lease nor a claim to it."""
    request, legacy = claim.request, state.soft.legacy
    free = claim.lease is None and not (claim.departure is not None and claim.departure.newcomer)
    if decide in _SAYS_NOTHING or not (claim.first or claim.holder or claim.returning or free):
        return
    if not request.legacy:
        legacy.pop(request.broker_id, None)
        return
    known = legacy.get(request.broker_id)
    if known is None or known.incarnation_id != request.incarnation_id:
        known = legacy[request.broker_id] = Legacy(request.incarnation_id)
    known.heard_ms = now.mono_ms
    known.listeners = _endpoints(request)


def _known_offset(state: State, request: "BrokerHeartbeatRequest") -> int:
    """The last metadata offset that a broker knows: the one that it names, or the one that this controller has told it.
    -1: none."""
    if not request.legacy:
        return int(request.cur_metadata_offset)
    known = state.soft.legacy.get(request.broker_id)
    told = known is not None and known.incarnation_id == request.incarnation_id and known.told >= 0
    return known.told - 1 if known is not None and told else -1


# ---- conditions


def _same_process(request: "BrokerHeartbeatRequest", lease: Lease) -> bool:
    """Whether the request's incarnation is the lease's, if both are known."""
    return NO_ID in (request.incarnation_id, lease.incarnation_id) or request.incarnation_id == lease.incarnation_id


def _malformed(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    request = claim.request
    names = [listener.name for listener in request.listeners]
    return (
        request.target_state not in (FENCED, ACTIVE, SHUTDOWN)
        or request.broker_id < 0
        or request.broker_epoch < -1
        or not 0 <= request.lease_start_time_ms <= LEASE_START_MS_MAX
        or request.cur_metadata_offset < -1
        or len(set(names)) != len(names)
        or (request.target_state == ACTIVE and not names)
        or any(not listener.name or not 0 <= listener.port <= 65535 for listener in request.listeners)
        or any(listener.security_protocol not in SECURITY_PROTOCOLS for listener in request.listeners)
    )


def _other_cluster(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.request.cluster_id not in ("", state.options.cluster_id)


def _controllers_id(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.request.broker_id in state.controllers


def _znodes_id(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.departure is None and owns(state.soft, claim.broker, claim.request.broker_id)


def _wants_no_lease(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return not claim.holder and claim.request.target_state != ACTIVE


def _gives_up(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.holder and claim.request.target_state == FENCED


def _wants_to_stop(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.holder and claim.request.target_state == SHUTDOWN


def _cannot_be_told(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return bool(claim.request.legacy) and not state.options.pushes


def _lacks_features(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    """Whether some finalized level lies outside the range that the broker supports (A16)."""
    supported = {name: range(low, high + 1) for name, low, high in _features(claim.request)}
    return any(level not in supported.get(name, ()) for name, level in state.image.features().items())


def _stale(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    """Whether the broker's metadata is too old (A17): an active broker may lag by a lease period, a newcomer by a
    heartbeat interval. A heartbeat that arrives after a newer one, from another connection, does not lower the offset
    that the newer one named."""
    commits, known = state.soft.commits, _known_offset(state, claim.request)
    options, level = state.options, state.level
    if claim.holder:
        assert claim.lease is not None
        known = max(known, claim.lease.offset)
        wanted = commits.before(now.mono_ms - options.lease_ms(level))
        if wanted is None:
            return False
    else:
        wanted = commits.before(now.mono_ms - options.heartbeat_ms(level))
        if wanted is None:
            wanted = commits.at_takeover
    return bool(known + 1 < wanted)


def _stale_successor(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    """Whether a new process has stale metadata and is not known to have everything that the holder of the lease had."""
    lease = claim.lease
    return (
        claim.first
        and lease is not None
        and not _same_process(claim.request, lease)
        and not _stopped_cleanly(state, claim, now)
        and _stale(state, claim, now)
    )


def _retry_of_newest(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    """Whether the process asks again because the answer to its registration was lost, perhaps with the controller that
    sent it (A15). It asks without an epoch or under the epoch that it had before."""
    lease, request = claim.lease, claim.request
    return (
        lease is not None
        and request.broker_epoch < lease.epoch
        and request.incarnation_id == lease.incarnation_id != NO_ID
    )


def _holder(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.holder


def _returning(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.returning


def _beaten_by_newcomer(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.departure is not None and claim.departure.newcomer and not claim.first


def _departing(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.departure is not None


def _first_and_free(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.first and claim.lease is None


def _stopped_cleanly(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    """Whether a new process proves that the registered one flushed everything and ended (DESIGN section 6, tag 6). It
    must also have all of that process's directories, since it lacks the data in any other."""
    request, broker = claim.request, claim.broker
    return (
        claim.first
        and broker is not None
        and request.previous_broker_epoch == broker.epoch
        and set(broker.log_dirs) <= set(request.log_dirs)
    )


def _first(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.first


def _taken(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return claim.lease is not None


def _known_epoch(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return bool(claim.request.broker_epoch < state.next_offset)


def _always(state: State, claim: HeartbeatClaim, now: Now) -> bool:
    return True


# ---- decisions


def _reply(
    state: State, next_state: int, *, code: ErrorCode = ErrorCode.NONE, epoch: int = -1, end_ms: int = 0
) -> "BrokerHeartbeatResponse":
    return message("v28:BrokerHeartbeatResponse")(
        error_code=int(code),
        active_controller_id=state.me,
        next_state=next_state,
        broker_epoch=epoch,
        lease_end_time_ms=end_ms,
    )


def _granted(state: State, claim: HeartbeatClaim, epoch: int, next_state: int = ACTIVE) -> "BrokerHeartbeatResponse":
    """The answer that grants a lease, as the broker reads it: the broker's own start + the lease period. The
    controller's clock is not used (R631-143)."""
    end_ms = claim.request.lease_start_time_ms + state.options.lease_ms(state.level)
    return _reply(state, next_state, epoch=epoch, end_ms=end_ms)


def _refuse(code: ErrorCode, *, obeyed: bool = True) -> Callable[[State, HeartbeatClaim, Now], Result]:
    """A decision that refuses with this error. A holder that is refused loses its lease. A process in its first phase
    gets what the level's policy says (A18)."""

    def decide(state: State, claim: HeartbeatClaim, now: Now) -> Result:
        if not obeyed:
            return Result((), _reply(state, UNKNOWN, code=code))
        if claim.holder:
            heartbeat_leases.revoke(state.soft, claim.request.broker_id, f"refused: {code.name}")
        if claim.first and claim.request.legacy and not code:
            # It cannot know anything before it is told, at any level: its first phase goes on.
            return Result((), _reply(state, INITIAL))
        if claim.first:
            policy = POLICIES[state.level]
            return Result((), _reply(state, policy.refused_state, code=code, epoch=policy.refused_epoch))
        return Result((), _reply(state, FENCED, code=code))

    return decide


def _refuse_for_znode(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Refuse a process whose id has the lease of another kind of broker, whatever epoch the request names; the lease
    stays."""
    return _refuse(ErrorCode.DUPLICATE_BROKER_REGISTRATION)(state, claim._replace(holder=False), now)


def _refuse_renewal(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Refuse to renew a lease because the broker's metadata is stale. A holder that does not receive this answer serves
    until its lease ends, so it is not fenced before. One that receives it reports FENCED at once (`_release`)."""
    if claim.holder:
        assert claim.lease is not None
        claim.lease.refused = True
        return Result((), _reply(state, FENCED))
    return _refuse(ErrorCode.NONE)(state, claim, now)


def _as_wanted(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    return Result((), _reply(state, claim.request.target_state))


def _release(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Take back the lease that the holder gives up. A process whose incarnation is known has its logs as they were, so
    it stays in its ISRs until it is back under a new epoch or its lease has ended. Otherwise, after a time without a
    quorum, all brokers would leave one after the other, and the last one left in an ISR might have lost its data
    meanwhile. A process that was told to fence itself leaves its ISRs now."""
    lease = claim.lease
    assert lease is not None
    if lease.refused:
        heartbeat_leases.revoke(state.soft, claim.request.broker_id, "stale metadata")
    elif claim.request.incarnation_id == lease.incarnation_id != NO_ID:
        lease.given_up = True
        state.soft.changed()
    else:
        heartbeat_leases.revoke(state.soft, claim.request.broker_id, "given up")
    return Result((), _reply(state, FENCED))


def _renew(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    request, lease, broker = claim.request, claim.lease, claim.broker
    assert lease is not None and broker is not None
    lease_ms = state.options.lease_ms(state.level)
    heartbeat_leases.renew(lease, _known_offset(state, request), now, lease_ms)
    if state.soft.stopping.pop(request.broker_id, None) is not None:
        state.soft.changed()
        state.soft.electing[request.broker_id] = None
    ops: list[Any] = []
    announced = _broker_set(request, lease.epoch, heartbeat_leases.recorded_ms(lease, broker.lease_ms, now, lease_ms))
    if request.incarnation_id == NO_ID:
        announced = announced._replace(incarnation_id=broker.incarnation_id)
    if announced != broker:
        ops.append(announced)
        lease.record_offset = state.next_offset
    ops += unreadable(state, request.broker_id, request.unreadable)
    if request.without_room:
        ops += without_room(state, request.broker_id, request.without_room)
    return Result(ops, _granted(state, claim, lease.epoch), seen=None if ops else lease.record_offset + 1)


def _register(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    request, epoch, soft = claim.request, state.next_offset, state.soft
    lease_ms = state.options.lease_ms(state.level)
    heartbeat_leases.grant(
        soft, request.broker_id, epoch, request.incarnation_id, _known_offset(state, request), now, lease_ms
    )
    # It is not elected for partitions that it cannot read. It leaves those ISRs when it renews its lease.
    unreadable(state, request.broker_id, request.unreadable)
    soft.electing[request.broker_id] = None
    return Result([_broker_set(request, epoch, lease_ms)], _granted(state, claim, epoch))


def _stopping(state: State, claim: HeartbeatClaim, now: Now) -> Shutdown:
    """The shutdown of a broker, begun if it is new: from now on other brokers replace this one as leader and in ISRs."""
    soft, broker = state.soft, claim.request.broker_id
    if broker not in soft.stopping:
        soft.stopping[broker] = Shutdown(now.mono_ms)
        soft.changed()
    return soft.stopping[broker]


def _rely_on_neither(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Let the holder keep its lease (A19), without relying on either process. If the holder has ended, the newcomer may
    have lost its data. So other brokers lead and form the ISRs, as if this one were stopping, until the holder sends a
    heartbeat or the id has a new holder."""
    _stopping(state, claim, now)
    return _refuse(ErrorCode.NONE)(state, claim, now)


def _take_over(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Give the id to the newcomer: first an operation of its own removes the old registration, then this operation runs
    again."""
    heartbeat_leases.revoke(state.soft, claim.request.broker_id, "a new process has taken the id", newcomer=True)
    return _wait(state, claim, now)


def _wait(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    if claim.first and claim.departure is not None and not claim.departure.newcomer:
        heartbeat_leases.revoke(state.soft, claim.request.broker_id, claim.departure.why, newcomer=True)
    late = _refuse(ErrorCode.NONE)(state, claim._replace(holder=False), now)
    return late._replace(wait=registration_key(claim.request.broker_id))


def _shut_down(state: State, claim: HeartbeatClaim, now: Now) -> Result:
    """Take a step of a controlled shutdown (A50). The shutdown is granted when the moves are committed and the active
    brokers have replayed them."""
    request, lease, soft, registered = claim.request, claim.lease, state.soft, claim.broker
    assert lease is not None and registered is not None
    broker, lease_ms = request.broker_id, state.options.lease_ms(state.level)
    heartbeat_leases.renew(lease, _known_offset(state, request), now, lease_ms)
    stopping = _stopping(state, claim, now)
    _, led, in_isr = state.image.counts(broker)
    nothing_to_move = in_isr == 0 and stopping.moved_offset < 0
    if nothing_to_move or (led == 0 and _moves_are_known(state, broker, stopping, now)):
        del soft.leases[broker]
        del soft.stopping[broker]
        soft.legacy.pop(broker, None)
        soft.changed()
        return Result([state.family.fenced(broker, lease.epoch)], _reply(state, SHUTDOWN, epoch=lease.epoch))
    ops: list[Any] = []
    if registered.lease_ms < lease_ms:
        ops.append(registered._replace(lease_ms=lease_ms))
        lease.record_offset = state.next_offset
    return Result(ops, _granted(state, claim, lease.epoch), seen=lease.record_offset + 1)


def _moves_are_known(state: State, broker: int, stopping: Shutdown, now: Now) -> bool:
    moved = stopping.moved_offset
    if moved < 0 or state.high_watermark < moved:
        return False
    if now.mono_ms - stopping.moved_ms >= state.options.lease_ms(state.level):
        return True
    others = (lease for id, lease in state.soft.leases.items() if id != broker and id not in state.soft.stopping)
    return all(lease.offset + 1 >= moved for lease in others)


def _features(request: "BrokerHeartbeatRequest") -> tuple[tuple[str, int, int], ...]:
    if not request.features:
        return FEATURES_UNSAID
    return tuple(sorted((f.name, f.min_supported_version, f.max_supported_version) for f in request.features))


def _endpoints(request: "BrokerHeartbeatRequest") -> tuple[EndPoint, ...]:
    return tuple(
        EndPoint(listener.name, listener.host, listener.port, listener.security_protocol)
        for listener in request.listeners
    )


def _broker_set(request: "BrokerHeartbeatRequest", epoch: int, lease_ms: int) -> BrokerSet:
    return BrokerSet(
        request.broker_id,
        epoch,
        request.incarnation_id,
        _endpoints(request),
        request.rack,
        _features(request),
        tuple(request.log_dirs),
        lease_ms=lease_ms,
    )


Condition = Callable[[State, HeartbeatClaim, Now], bool]
Decision = Callable[[State, HeartbeatClaim, Now], Result]

DECISIONS: tuple[tuple[str, Condition, Decision], ...] = (
    ("A14, A27: malformed", _malformed, _refuse(ErrorCode.INVALID_REQUEST, obeyed=False)),
    ("A14: another cluster", _other_cluster, _refuse(ErrorCode.INCONSISTENT_CLUSTER_ID)),
    ("R631-028: a controller's id", _controllers_id, _refuse(ErrorCode.DUPLICATE_BROKER_REGISTRATION)),
    ("the id of a broker in ZooKeeper mode", _znodes_id, _refuse_for_znode),
    ("R291-62: it wants to be told, and nobody tells", _cannot_be_told, _refuse(ErrorCode.BROKER_ID_NOT_REGISTERED)),
    ("A19: FENCED or SHUTDOWN registers nobody", _wants_no_lease, _as_wanted),
    ("A27: the holder gives its lease up", _gives_up, _release),
    ("R631-165: the holder wants to stop", _wants_to_stop, _shut_down),
    ("A16: features", _lacks_features, _refuse(ErrorCode.UNSUPPORTED_VERSION)),
    ("A17, A20: a stale newcomer to an id that is taken", _stale_successor, _rely_on_neither),
    ("A17: stale metadata", _stale, _refuse_renewal),
    ("A15: a retry of the newest registration", _retry_of_newest, _renew),
    ("A19 (3): the holder renews", _holder, _renew),
    ("A23: back under a new epoch, the same process", _returning, _register),
    ("R631-175: a newcomer waits for the id", _beaten_by_newcomer, _refuse(ErrorCode.STALE_BROKER_EPOCH)),
    ("A20: the fencing has to end first", _departing, _wait),
    ("A19 (1): no live lease", _first_and_free, _register),
    ("A20: after a proven clean stop everything stays", _stopped_cleanly, _register),
    ("A19 (2): the newcomer wins", _first, _take_over),
    ("A19 (4): another holds the lease", _taken, _refuse(ErrorCode.STALE_BROKER_EPOCH)),
    ("A19 (5): restored under a new epoch", _known_epoch, _register),
    ("A19 (6): an epoch from the future", _always, _refuse(ErrorCode.STALE_BROKER_EPOCH)),
)
_SAYS_NOTHING = frozenset(decide for _, _, decide in DECISIONS[:5])
"""The decisions that refuse a request for what it is."""
