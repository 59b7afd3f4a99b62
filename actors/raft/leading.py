"""The leader's side of replication: serve fetches, count replicas, commit, resign (KIP-595).

This file alone decides when a record is committed and when a leader resigns.

Rules:

1. A voter counts with the offset of its last fetch, which it sends only when everything below is durable. The leader
   counts itself with the offset that its finished syncs cover. It also serves records that are not yet durable. A leader
   that is being removed counts the others alone, and resigns when its removal is committed (`change`).
2. The high watermark moves only to an offset beyond the LeaderChange of this leader's epoch: records of older epochs
   are committed by lying below a committed record of this one. Until then the leader tells no replica a high watermark.
3. A leader that no majority has fetched from for 1.5 fetch timeouts resigns (check-quorum), because another leader may
   have been elected. A fetch that comes later does not change that.
4. A fetch with nothing to answer is parked until the log grows, until the high watermark passes the one that the fetch
   names (KIP-1166), or until its time is over.
"""

from collections.abc import Sequence

from actors.raft import download, twins
from actors.raft.messages import (
    BeginQuorumEpochRequest,
    ChangeResponse,
    EndQuorumEpochRequest,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    ReplicaKey,
    SnapshotId,
)
from actors.raft.ready import Leadership
from actors.raft.state import Core, LeaderChange, Leading, ReplicaProgress, Role

OBSERVERS_MAX = 10_000
OBSERVER_FORGOTTEN_MS = 300_000


def begin(core: Core, granting: Sequence[ReplicaKey]) -> None:
    """Start as the elected leader: append the LeaderChange and announce the epoch."""
    start = core.log.end_offset
    record = core.voters if start == 0 and core.history.recorded else None
    batch = core.control_batch(
        LeaderChange(core.me.id, core.voters.keys, granting, record), start, core.epoch, core.now
    )
    core.become(Role.LEADER, core.hard._replace(leader_id=core.me.id))
    core.hurry = False
    core.append(batch)
    core.leading = Leading(start, core.log.end_offset, core.voters.others(core.me), core.now_ms)
    watch_quorum(core)
    announce(core)


# -- serving


def refusal(core: Core, epoch: int) -> Error:
    """The error for a request that only the leader of `epoch` can serve; NONE when this replica is that leader."""
    if epoch < core.epoch:
        return Error.FENCED_LEADER_EPOCH
    if epoch > core.epoch:
        return Error.UNKNOWN_LEADER_EPOCH
    return Error.NONE if core.role is Role.LEADER else Error.NOT_LEADER_OR_FOLLOWER


def fetch(core: Core, source: int, request: FetchRequest) -> None:
    """Answer a fetch, or park it. INVALID_REQUEST: an offset or epoch that no log can have; other errors: see
    `refusal`; DUPLICATE_BROKER_REGISTRATION: see `twins`."""
    error = refusal(core, request.epoch)
    if min(request.epoch, request.offset, request.last_epoch) < 0:
        error = Error.INVALID_REQUEST
    if error is not Error.NONE:
        core.say(source, FetchResponse(request.serial, error, core.told_leader, core.epoch))
        return
    leading = core.leading
    assert leading is not None
    progress = contact(core, request.replica)
    if progress is not None and request.replica in leading.voters and twins.fetched(progress, request.connection):
        error = Error.DUPLICATE_BROKER_REGISTRATION
        core.say(source, FetchResponse(request.serial, error, core.told_leader, core.epoch))
        return
    answer = _answer(core, request)
    snapshot = _snapshot_instead(core, request)
    if snapshot is not None:
        core.say(source, answer._replace(snapshot=snapshot))
        return
    diverging = _diverging(core, request)
    if diverging is not None:
        core.say(source, answer._replace(diverging=diverging))
        return
    if progress is not None:
        _note(core, progress, request.offset)
    leading.park(source, request, core.now_ms + min(request.max_wait_ms, core.limits.fetch_timeout_ms), cold=False)
    if request.replica in leading.voters:
        advance(core)


def fetch_snapshot(core: Core, source: int, request: FetchSnapshotRequest) -> None:
    """Serve a slice of a snapshot. SNAPSHOT_NOT_FOUND: the file is gone, the replica must fetch again.
    POSITION_OUT_OF_RANGE: the position is not in the file."""
    error = refusal(core, request.epoch)
    if error is Error.NONE and request.position < 0:
        error = Error.POSITION_OUT_OF_RANGE
    if error is Error.NONE:
        contact(core, request.replica)
        download.serve(core, source, request)
    else:
        core.say(source, FetchSnapshotResponse(request.serial, error, core.told_leader, core.epoch, request.snapshot))


def _answer(core: Core, request: FetchRequest) -> FetchResponse:
    assert core.leading is not None
    told = core.high_watermark if core.leading.committed else -1
    return FetchResponse(request.serial, Error.NONE, core.me.id, core.epoch, told, core.log.start_offset)


def _snapshot_instead(core: Core, request: FetchRequest) -> SnapshotId | None:
    """The snapshot to load, for a replica whose log ends below this log's start, or is empty although a snapshot
    exists."""
    start, latest = core.log.table.start, core.log.latest
    before = request.offset < start.end_offset or (start.end_offset > 0 and request.last_epoch < start.epoch)
    beside = request.offset == start.end_offset > 0 and request.last_epoch != start.epoch
    empty = request.offset == 0 and latest.end_offset > 0
    return latest if before or beside or empty else None


def _diverging(core: Core, request: FetchRequest) -> OffsetAndEpoch | None:
    """Where the fetching replica's log diverges from this one; None if it does not."""
    if request.offset == 0:
        return None
    mine = core.log.table.end_of(request.last_epoch)
    return mine if mine.epoch != request.last_epoch or mine.offset < request.offset else None


def contact(core: Core, replica: ReplicaKey) -> ReplicaProgress | None:
    """Note that a replica is alive. None: a replica without an id, for which nothing is stored."""
    leading = core.leading
    assert leading is not None
    progress = leading.voters.get(replica)
    if progress is None:
        if replica.id < 0:
            return None
        progress = leading.observers.pop(replica, None)
        if progress is None:
            forget_observers(core)
            progress = ReplicaProgress(core.now_ms)
        leading.observers[replica] = progress
    progress.fetch_ms = core.now_ms
    progress.fetch_wall_ms = core.now.wall_ms
    progress.announced_ms = core.now_ms + core.limits.announce_ms
    if core.patience_ms > core.now_ms:  # after a pause of this node, fetches that waited show no quorum of now
        watch_quorum(core)
    return progress


def forget_observers(core: Core) -> None:
    """Drop observers that have not fetched for five minutes and, above a bound, those that have been silent longest. So
    a peer that invents ids costs no more than the entries that it displaces."""
    leading = core.leading
    assert leading is not None
    while leading.observers:
        first = next(iter(leading.observers))
        silent_ms = core.now_ms - leading.observers[first].fetch_ms
        if silent_ms <= OBSERVER_FORGOTTEN_MS and len(leading.observers) < OBSERVERS_MAX:
            break
        del leading.observers[first]


def _note(core: Core, progress: ReplicaProgress, offset: int) -> None:
    """Note that the replica holds everything below `offset`. It is caught up if that is the end of this log, now or at
    its last fetch (KIP-836)."""
    if offset >= core.log.end_offset or 0 <= progress.leader_end_offset <= offset:
        progress.caught_up_wall_ms = core.now.wall_ms
        progress.caught_up_ms = core.now_ms
    progress.leader_end_offset = core.log.end_offset
    progress.end_offset = max(progress.end_offset, offset)


def answer_parked(core: Core) -> None:
    """Answer every parked fetch for which there is something new, or whose time is over."""
    leading = core.leading
    if leading is None or not leading.parked:
        return
    for source, parked in list(leading.parked.items()):
        expired = parked.deadline_ms <= core.now_ms
        if parked.cold and not expired:
            continue
        if isinstance(parked.request, FetchSnapshotRequest):
            del leading.parked[source]
            if not expired:
                download.serve(core, source, parked.request)
        elif _bring(core, source, parked.request, expired):
            del leading.parked[source]


def _bring(core: Core, source: int, request: FetchRequest, expired: bool) -> bool:
    """Answer a parked fetch with what there is. False: there is nothing yet, and the fetch stays parked."""
    answer = _answer(core, request)
    snapshot = _snapshot_instead(core, request)  # the start of the log may have moved while the request waited
    if snapshot is not None:
        core.say(source, answer._replace(snapshot=snapshot))
        return True
    if request.offset < core.log.end_offset:
        found = core.log.read(request.offset, min(request.bytes_max, core.limits.fetch_bytes_max))
        if found is None and not expired:
            assert core.leading is not None
            core.leading.parked[source] = core.leading.parked[source]._replace(cold=True)
            return False
        answer = answer._replace(batches=found or ())
    elif not expired and request.high_watermark >= answer.high_watermark:
        return False
    core.say(source, answer)
    return True


def warmed(core: Core) -> None:
    """Look at the parked requests again, since the node has read from disk what was not in memory."""
    if core.leading is not None:
        for source, parked in core.leading.parked.items():
            if parked.cold:
                core.leading.parked[source] = parked._replace(cold=False)


# -- committing


def advance(core: Core) -> None:
    """Raise the high watermark to the offset below which a majority holds everything durably."""
    leading = core.leading
    if leading is None:
        return
    held = [progress.end_offset for progress in leading.voters.values()]
    if core.is_voter:
        held.append(core.log.durable_offset)
    agreed = core.voters.agreed(held)
    if agreed >= leading.next_offset:
        core.raise_high_watermark(agreed)
        core.told_high_watermark = max(core.told_high_watermark, agreed)
        if not leading.committed:
            leading.committed = True
            core.out.gained = Leadership(core.epoch, leading.next_offset)
        if leading.change is not None or not core.is_voter:
            _change_committed(core, leading)


def _change_committed(core: Core, leading: Leading) -> None:
    """Answer the change of the voters if its record is now below the high watermark. A leader that the committed voters
    do not include gives up its epoch."""
    change = leading.change
    if change is not None and 0 <= change.offset < core.high_watermark:
        leading.change = None
        if change.source is not None:
            core.say(change.source, ChangeResponse(change.request.serial, Error.NONE, core.me.id, core.epoch))
    if not core.is_voter and core.history.newest_offset < core.high_watermark and not leading.leaving:
        leading.leaving = True
        core.patience_ms = core.now_ms + 1  # the answer leaves while this replica still leads


def recount(core: Core) -> None:
    """Count anew after the set of voters has changed: what is known of a replica stays known, and counts or no longer
    counts."""
    leading = core.leading
    assert leading is not None
    known = leading.voters | leading.observers
    others = core.voters.others(core.me)
    leading.voters = {key: known.get(key) or ReplicaProgress(core.now_ms) for key in others}
    leading.observers = {key: progress for key, progress in known.items() if key not in leading.voters}
    watch_quorum(core)
    advance(core)


# -- keeping and giving up leadership


def watch_quorum(core: Core) -> None:
    """Set the leader's patience to end when a majority (itself included) has been silent for the check-quorum time."""
    leading = core.leading
    assert leading is not None
    if leading.leaving:
        return
    if leading.voters and core.limits.check_quorum_ms:
        seen = [progress.fetch_ms for progress in leading.voters.values()]
        if core.is_voter:
            seen.append(core.now_ms)
        core.patience_ms = core.voters.agreed(seen) + core.limits.check_quorum_ms
    else:
        core.patience_ms = core.now_ms + (1 << 40)  # the only voter, or check-quorum is switched off: never resign


def announce(core: Core) -> None:
    """Send BeginQuorumEpoch to voters that have not fetched lately."""
    leading = core.leading
    assert leading is not None
    for key, progress in leading.voters.items():
        if progress.announced_ms <= core.now_ms:
            progress.announced_ms = core.now_ms + core.limits.announce_ms
            core.claim(key.id, BeginQuorumEpochRequest(core.next_serial(), key, core.me.id, core.epoch))


def resign(core: Core, preferred: Sequence[ReplicaKey] | None = None) -> None:
    """Give up the epoch and name the voters that should stand for election: by default all, the most caught up first."""
    leading = core.leading
    assert leading is not None
    if preferred is None:
        preferred = sorted(leading.voters, key=lambda key: (-leading.voters[key].end_offset, key.id))
    others = core.voters.others(core.me)
    core.become(Role.RESIGNED)
    core.patience_ms = core.now_ms + core.election_wait_ms()
    for key in others:
        core.say(key.id, EndQuorumEpochRequest(core.next_serial(), core.me.id, core.epoch, tuple(preferred)))
