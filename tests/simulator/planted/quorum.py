"""Mistakes in the quorum: raft, its log and files, and what the roles are told."""

from collections.abc import Callable, Sequence
from typing import Any

from actors.metadata.image import Image
from actors.node.quorum import snapshots as snapshotting
from actors.node.quorum.durable_mark import DurableMark
from actors.node.quorum.log import MetadataLog
from actors.node.quorum.replay import Replay
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.answers import Done, Held
from actors.node.runtime.runtime import Runtime
from actors.raft import Role, election, leading
from actors.raft.messages import FetchRequest, VoteResponse
from actors.raft.state import Core, Leading
from fastpath.records import batch as batches
from tests.simulator.planted.registry import Patch, instead, mistake


def _at_once(kind: type) -> Patch:
    """Messages of that kind do not wait for the disk."""
    claim = Core.claim

    def say(core: Core, target: int, message: Any) -> None:
        core.out.send.append((target, message)) if isinstance(message, kind) else claim(core, target, message)

    return instead(Core, "claim", say)


@mistake("voters")
def vote_before_fsync() -> Sequence[Patch]:
    """A vote leaves before it is durable: after a power cut the voter votes again in the same epoch."""
    return [_at_once(VoteResponse)]


@mistake("voters")
def metadata_claimed_before_fsync() -> Sequence[Patch]:
    """A voter's fetch claims records that a power cut removes."""
    return [_at_once(FetchRequest)]


@mistake("outpaced")
def leader_counts_unsynced_metadata() -> Sequence[Patch]:
    """The leader counts itself with everything that it has appended."""
    advance = leading.advance

    def eager(core: Core) -> None:
        kept = core.log.durable_offset
        core.log.durable_offset = core.log.end_offset
        advance(core)
        core.log.durable_offset = kept

    return [instead(leading, "advance", eager)]


@mistake("voters")
def epoch_resumed_after_a_restart() -> Sequence[Patch]:
    """A restarted leader goes on in its epoch, with the rest of its log."""
    begin = election.begin

    def resume(core: Core) -> None:
        if core.hard.leader_id == core.me.id and core.is_voter:
            core.role = Role.LEADER
            end = core.log.end_offset
            core.leading = Leading(end, end, core.voters.others(core.me), core.now_ms)
            leading.watch_quorum(core)
        else:
            begin(core)

    return [instead(election, "begin", resume)]


@mistake("deposed")
def metadata_truncation_skipped() -> Sequence[Patch]:
    """A replica whose log has diverged from the leader's is not told."""
    return [instead(leading, "_diverging", lambda core, request: None)]


@mistake("voters")
def stale_candidate_elected() -> Sequence[Patch]:
    """A vote is granted although the candidate's log is behind."""
    may_grant = election._may_grant

    def lenient(core: Core, request: Any) -> bool:
        return may_grant(core, request._replace(last_epoch=1 << 30))

    return [instead(election, "_may_grant", lenient)]


@mistake()
def fsync_failure_ignored() -> Sequence[Patch]:
    """A failed sync counts as done, and what it should have made durable is claimed."""
    sync = Runtime.sync

    def trusting(
        runtime: Runtime, files: Any, replacements: Any, then: Callable[[Any], None], *kind: Any, **runs: Any
    ) -> None:
        sync(runtime, files, replacements, lambda result: then(None), *kind, **runs)

    return [instead(Runtime, "sync", trusting)]


@mistake()
def metadata_served_before_commit() -> Sequence[Patch]:
    """The roles replay what the log holds, committed or not."""
    advance, run = QuorumReplica.advance, Replay.run

    def advanced(quorum: QuorumReplica) -> None:
        def eager(replay: Replay, high_watermark: int) -> None:
            core = quorum.raft._core
            kept, core.high_watermark = core.high_watermark, core.log.durable_offset
            try:
                run(replay, core.high_watermark)
            finally:
                core.high_watermark = kept

        with instead(Replay, "run", eager):
            advance(quorum)

    return [instead(QuorumReplica, "advance", advanced)]


@mistake("deposed")
def undo_skipped() -> Sequence[Patch]:
    """A deposed controller keeps what was never committed in its image."""
    lost = ControllerRole.lost

    def kept(role: ControllerRole) -> None:
        with instead(Image, "undo", lambda image, offset: None):
            lost(role)

    return [instead(ControllerRole, "lost", kept)]


@mistake()
def snapshot_without_the_last_batch() -> Sequence[Patch]:
    """The last batch of a snapshot's records is not written."""
    encode = snapshotting.snapshots.encode

    def short(*args: Any) -> list[Any]:
        first, *parts, footer = encode(*args)
        body = b"".join(parts)
        whole = batches.headers(body)
        return [first, body[: whole[-1].position] if whole else body, footer]

    return [instead(snapshotting.snapshots, "encode", short)]


@mistake()
def controller_answers_before_commit() -> Sequence[Patch]:
    """A reply leaves as soon as its operation has run."""
    submit = ControllerRole.submit

    def at_once(role: ControllerRole, operation: Any, request: Any, call: Any, cut: Any = None) -> Any:
        answer = submit(role, operation, request, call, cut)
        return Done(answer.reply) if type(answer) is Held else answer

    return [instead(ControllerRole, "submit", at_once)]


@mistake()
def metadata_recovery_forgets_the_end() -> Sequence[Patch]:
    """The last batch of the metadata log is treated as torn at every start."""
    recover = MetadataLog.recover

    def forgetful(log: MetadataLog, now_ms: int, seen: Callable[[Any, int], None], durable: int = 0) -> list[str]:
        found: list[tuple[Any, int]] = []
        cut = recover(log, now_ms, lambda batch, attributes: found.append((batch, attributes)))
        if found and found[-1][0].base_offset > log.start_offset:
            log.truncate(found.pop()[0].base_offset)
        for batch, attributes in found:
            seen(batch, attributes)
        return cut

    return [instead(MetadataLog, "recover", forgetful)]


@mistake("voters")
def durable_mark_runs_ahead() -> Sequence[Patch]:
    """The mark says where the log ends, not how far it is durable and committed."""
    write = DurableMark.write

    def eager(mark: DurableMark, safe_offset: int, now_ms: int) -> Any:
        return write(mark, safe_offset + 3, now_ms)

    return [instead(DurableMark, "write", eager)]


@mistake("deposed")
def held_replies_released_when_leadership_is_lost() -> Sequence[Patch]:
    """When a leader is deposed, requests that wait for a commit are told that it happened."""
    lost = Replay.lost

    def released(replay: Replay, epoch: int) -> None:
        waiting = replay._runtime.waiting
        held, waiting._held = sorted(waiting._held, key=lambda entry: entry[:2]), []
        for _, _, release in held:
            release(True)
        lost(replay, epoch)

    return [instead(Replay, "lost", released)]
