"""The follower's side of replication: fetch, append, truncate (KIP-595 "Fetch").

This file alone decides which replica is fetched from, when, and what happens with the answer.

Rules:

1. At most one fetch is in flight. A voter's fetch leaves only when all that it claims to hold is durable, and so does
   that of a controller that may be a voter without knowing it yet. Another observer's fetch does not count towards commit,
   so it does not wait for the disk.
2. Nothing below the high watermark is ever truncated: if a leader asks for that, the leader or this disk is broken. The
   leader's high watermark is taken over only from an answer that found the two logs to agree up to the requested
   offset.
3. A leader whose answer says that it no longer leads has resigned; this is treated like its EndQuorumEpoch.
4. An observer without a leader asks one replica after the other.
"""

from actors.raft import belief, download, roles, twins
from actors.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Error,
    FetchRequest,
    FetchResponse,
    FetchSnapshotResponse,
    OffsetAndEpoch,
)
from actors.raft.state import Core, Role


class LogDiverged(Exception):
    """The leader's log lacks records that this replica knows to be committed. The node must stop: going on would lose
    them."""


def begin_quorum_epoch(core: Core, source: int, request: BeginQuorumEpochRequest) -> None:
    """Take the announcement of a leader, and follow it."""
    error = Error.INVALID_VOTER_KEY
    if request.voter == core.me:
        error = belief.announced(core, request.leader_id, request.epoch, request.named)
    if error is Error.NONE:
        if core.role is Role.PROSPECTIVE and core.epoch == request.epoch and core.leader_id == request.leader_id:
            roles.follow(core, request.leader_id, request.epoch)
        roles.learn(core, request.epoch, request.leader_id)
        alive(core, request.leader_id)
    core.claim(source, BeginQuorumEpochResponse(request.serial, error, core.told_leader, core.epoch))


def alive(core: Core, leader_id: int) -> None:
    """Note that the leader has shown itself, so that the hint that it is dead no longer holds."""
    if core.role is Role.FOLLOWER and core.leader_id == leader_id and core.hurry:
        core.hurry = False
        core.patience_ms = core.now_ms + core.fetch_wait_ms()


# -- asking


def send_due(core: Core) -> None:
    """Send the next fetch, or the next request for a snapshot slice, if one is due."""
    fetching = core.fetching
    if fetching is None or fetching.serial or fetching.due_ms > core.now_ms or fetching.target == NO_LEADER:
        return
    if core.download is not None:
        if core.download.checking:
            return
        core.say(fetching.target, download.next_request(core, serial := core.next_serial()))
    else:
        limits, log = core.limits, core.log
        request = FetchRequest(
            serial := core.next_serial(),
            core.me,
            core.epoch,
            log.end_offset,
            log.last_epoch,
            core.high_watermark,
            limits.fetch_max_wait_ms,
            limits.fetch_bytes_max,
        )
        (core.claim if core.claims else core.say)(fetching.target, request)
    fetching.serial = serial
    fetching.expires_ms = core.now_ms + core.limits.request_timeout_ms


def fetch_answered(core: Core, source: int, response: FetchResponse) -> None:
    fetching = core.fetching
    if fetching is None or not fetching.serial or response.serial != fetching.serial:
        return
    fetching.serial = 0
    if response.error is not Error.NONE or core.role is not Role.FOLLOWER or response.epoch != core.epoch:
        _rejected(core, response.error)
        return
    _heard(core, response.serial)
    core.told_high_watermark = max(core.told_high_watermark, response.high_watermark)
    fetching.due_ms = core.now_ms
    if response.diverging is not None and min(response.diverging) < 0:
        fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
    elif response.diverging is not None:
        _truncate(core, response.diverging)
    elif response.snapshot is not None:
        download.begin(core, response.snapshot)
    else:
        for batch in response.batches:
            if batch.base_offset != core.log.end_offset or not core.log.last_epoch <= batch.epoch <= core.epoch:
                fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
                break
            core.append(batch)
        core.raise_high_watermark(response.high_watermark)


def snapshot_answered(core: Core, source: int, response: FetchSnapshotResponse) -> None:
    """Take the leader's answer to FetchSnapshot: a slice of its snapshot, or an error."""
    fetching = core.fetching
    if fetching is None or core.download is None or not fetching.serial or response.serial != fetching.serial:
        return
    fetching.serial = 0
    if response.error is not Error.NONE or core.role is not Role.FOLLOWER or response.epoch != core.epoch:
        core.download = None
        _rejected(core, response.error)
        return
    _heard(core, response.serial)
    fetching.due_ms = core.now_ms
    download.take(core, response)


def _heard(core: Core, serial: int) -> None:
    """Note that the answer to the request of that serial shows that the leader still leads."""
    assert core.fetching is not None
    twins.leader_answers(core.fetching, serial)
    core.fetching.heard = core.fetching.fruitful = True
    core.heard_ms = core.now_ms
    core.hurry = False
    core.patience_ms = core.now_ms + core.fetch_wait_ms()


def _rejected(core: Core, error: Error) -> None:
    """Go on after an answer with an error: ask again after a pause, or ask another replica."""
    assert core.fetching is not None
    if error is Error.DUPLICATE_BROKER_REGISTRATION:
        raise twins.RunsTwice(core.me)
    core.fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
    if error is Error.NOT_LEADER_OR_FOLLOWER and core.role is Role.FOLLOWER:
        if core.stands:
            roles.hint(core)
        else:
            _search_later(core)
    elif core.role is Role.UNATTACHED:
        roles.next_target(core)


def _search_later(core: Core) -> None:
    roles.search(core)
    assert core.fetching is not None
    core.fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms


def fetch_failed(core: Core, serial: int) -> None:
    """Repeat a lost request after a pause."""
    fetching = core.fetching
    if fetching is None or not serial or fetching.serial != serial:
        return
    fetching.serial = 0
    twins.forget(fetching)
    fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
    if core.role is Role.UNATTACHED:
        roles.next_target(core)


def link_lost(core: Core, peer: int, refused: bool) -> None:
    """Go on when the connection to the fetched replica broke (`refused` false), or a new connection to it was refused
    (true)."""
    fetching = core.fetching
    if fetching is None or fetching.target != peer:
        return
    fetching.serial = 0
    twins.forget(fetching)
    fetching.due_ms = core.now_ms + (0 if fetching.fruitful and not refused else core.limits.retry_backoff_ms)
    fetching.fruitful = False
    if core.role is Role.UNATTACHED:
        roles.next_target(core)
    elif refused and core.stands:
        roles.hint(core)
    elif refused:
        _search_later(core)


def _truncate(core: Core, diverging: OffsetAndEpoch) -> None:
    """Truncate the log to where it and the leader's may still agree."""
    mine = core.log.table.end_of(diverging.epoch)
    end_offset = min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset
    if end_offset < core.high_watermark:
        raise LogDiverged(
            f"leader {core.leader_id} of epoch {core.epoch} has nothing beyond offset {end_offset} of this log, but "
            f"everything below {core.high_watermark} is committed"
        )
    if end_offset < core.log.end_offset:
        core.truncate(end_offset)
        core.out.truncate_to = end_offset
    else:
        assert core.fetching is not None
        core.fetching.due_ms = core.now_ms + core.limits.retry_backoff_ms
