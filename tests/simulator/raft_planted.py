"""Mistakes that the raft simulation must catch: each one is planted for the length of a run.

    python -m tests.simulator.raft_planted            search a seed for every mistake and record it
    python -m tests.simulator.raft_planted NAME       the same for one mistake

`raft_planted.json` keeps the first seed that caught each mistake, and the checker. `make test` replays those: a mistake
that goes unnoticed means that a checker or a fault has been lost.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from actors.raft import LogDiverged, Role, election, following, leading
from actors.raft.messages import FetchRequest, VoteResponse
from actors.raft.ready import Leadership
from actors.raft.state import Core, Leading
from tests.simulator import raft_quorums
from tests.simulator.raft_change_planted import CHANGES
from tests.simulator.raft_seeds import run
from tests.simulator.raft_violation import Violation

RECORDED = Path(__file__).with_suffix(".json")
SEEDS_MAX = 2000


def _at_once(kind: type) -> Any:
    """Messages of that kind do not wait for the disk."""
    claim = Core.claim

    def say(core: Core, target: int, message: Any) -> None:
        (_say if isinstance(message, kind) else claim)(core, target, message)

    return patch.object(Core, "claim", say)


def _say(core: Core, target: int, message: Any) -> None:
    core.out.send.append((target, message))


def _vote_without_sync() -> Any:
    return _at_once(VoteResponse)


def _epoch_without_sync() -> Any:
    """An epoch that a candidate has begun is in its answers before it is on its disk."""
    return patch.object(Core, "say", _say)


def _fetch_without_sync() -> Any:
    return _at_once(FetchRequest)


def _high_watermark_of_old_epoch() -> Any:
    """Records count as committed by number of copies alone, whatever their epoch (Raft paper, figure 8)."""

    def advance(core: Core) -> None:
        if core.leading is not None:
            held = [core.log.durable_offset, *(progress.end_offset for progress in core.leading.voters.values())]
            core.raise_high_watermark(core.voters.agreed(held))
            if not core.leading.committed and core.high_watermark >= core.leading.next_offset:
                core.leading.committed = True
                core.out.gained = Leadership(core.epoch, core.leading.next_offset)

    return patch.object(leading, "advance", advance)


def _leader_counts_unsynced() -> Any:
    """The leader counts itself with everything that it has appended."""
    advance = leading.advance

    def eager(core: Core) -> None:
        kept = core.log.durable_offset
        core.log.durable_offset = core.log.end_offset
        advance(core)
        core.log.durable_offset = kept

    return patch.object(leading, "advance", eager)


def _resumed_epoch() -> Any:
    """A restarted leader goes on in its epoch."""
    begin = election.begin

    def resume(core: Core) -> None:
        if core.hard.leader_id == core.me.id and core.is_voter:
            core.role = Role.LEADER
            end = core.log.end_offset
            core.leading = Leading(end, end, core.voters.others(core.me), core.now_ms)
            core.leading.committed = True
            core.out.gained = Leadership(core.epoch, end)
            leading.watch_quorum(core)
        else:
            begin(core)

    return patch.object(election, "begin", resume)


def _truncation_skipped() -> Any:
    """A log that has diverged from the leader's is not truncated."""
    return patch.object(leading, "_diverging", lambda core, request: None)


def _hint_without_pre_vote() -> Any:
    """A voter whose leader refuses stands for a new epoch without asking first."""
    stand = election.stand

    def rush(core: Core) -> None:
        if core.hurry and core.role is Role.FOLLOWER:
            core.become(Role.PROSPECTIVE)
            election._run(core)
        else:
            stand(core)

    return patch.object(election, "stand", rush)


def _high_watermark_of_another_log() -> Any:
    """The leader's high watermark is taken over although the logs are not known to agree."""
    truncate, begin = following._truncate, following.download.begin

    def diverged(core: Core, diverging: Any) -> None:
        core.raise_high_watermark(max(core.high_watermark, diverging.offset + 1))
        truncate(core, diverging)

    del begin
    return patch.object(following, "_truncate", diverged)


def _stale_candidate_wins() -> Any:
    """A vote is granted although the candidate's log is behind."""
    may_grant = election._may_grant

    def lenient(core: Core, request: Any) -> bool:
        return may_grant(core, request._replace(last_epoch=1 << 30))

    return patch.object(election, "_may_grant", lenient)


PLANTED: dict[str, Callable[[], Any]] = {
    "vote without sync": _vote_without_sync,
    "epoch without sync": _epoch_without_sync,
    "fetch without sync": _fetch_without_sync,
    "high watermark of an old epoch": _high_watermark_of_old_epoch,
    "leader counts what is not synced": _leader_counts_unsynced,
    "epoch resumed after a restart": _resumed_epoch,
    "truncation skipped": _truncation_skipped,
    "hint without pre-vote": _hint_without_pre_vote,
    "high watermark of another log": _high_watermark_of_another_log,
    "stale candidate wins": _stale_candidate_wins,
} | CHANGES


def clean(name: str, seed: int) -> None:
    """Run the seed, in the kind of world in which the mistake is searched. Raises Violation."""
    if name in CHANGES:
        raft_quorums.run(seed)
    else:
        run(seed)


def caught(name: str, seed: int) -> str | None:
    """The checker that catches the planted mistake with that seed; `assertion` for one of the machine's own."""
    with PLANTED[name]():
        try:
            clean(name, seed)
        except Violation as violation:
            return violation.checker
        except LogDiverged:
            return "LogDiverged"
        except AssertionError:
            return "assertion"
    return None


def search(name: str) -> dict[str, Any]:
    """The first seed that catches it."""
    for seed in range(SEEDS_MAX):
        checker = caught(name, seed)
        if checker is not None:
            return {"seed": seed, "checker": checker}
    raise SystemExit(f"{name}: not caught within {SEEDS_MAX} seeds")


def recorded() -> dict[str, dict[str, Any]]:
    """Name -> seed and checker."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    return found


@contextmanager
def planted(name: str) -> Iterator[None]:
    """For a look at one mistake by hand."""
    with PLANTED[name]():
        yield


def main(names: list[str]) -> None:
    found = recorded() if RECORDED.exists() else {}
    for name in names or PLANTED:
        found[name] = search(name)
        print(f"{name}: seed {found[name]['seed']}, {found[name]['checker']}", flush=True)
        RECORDED.write_text(json.dumps({key: found[key] for key in PLANTED if key in found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
