"""Mistakes of moves between the log directories of a broker."""

from collections.abc import Sequence
from typing import Any

from actors.broker.log import moving
from actors.broker.log.moving import Move
from actors.node.roles.broker.log import claims
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_dir_moves import LogDirMoves
from tests.simulator.planted.registry import Patch, instead, mistake


@mistake("relocated")
def future_log_takes_over_before_it_is_durable() -> Sequence[Patch]:
    """A power cut finds the old files gone, and of the new ones what the system had written by chance."""
    flush = LogDirMoves._flush

    def unsafe(self: LogDirMoves, running: Any, *, settle: bool) -> None:
        if settle:
            running.move.settled()
            self._go_on(running)
        else:
            flush(self, running, settle=False)

    return [instead(LogDirMoves, "_flush", unsafe), instead(Move, "_may_take_over", lambda move: True)]


@mistake("relocated")
def old_files_are_kept_after_a_move() -> Sequence[Patch]:
    """Old files come back when their directory is all that is left."""
    return [instead(FutureLogs, "retire_superseded", lambda self, partition, current: self.superseded.pop(current))]


@mistake("relocated")
def copies_are_not_told_apart() -> Sequence[Patch]:
    """A broker that dies right after a move finds two copies, and looks neither at the marks of the move nor which one began
    later."""
    return [
        instead(claims, "_took_over", lambda disk, other, name: False),
        instead(claims, "_began_later", lambda found, other: False),
    ]


@mistake("relocated")
def last_batches_left_behind() -> Sequence[Patch]:
    """Records that are written while the future log is made durable are not in it when it takes the place."""
    look = Move.look

    def content(move: Move, now_ms: int, bytes_max: int = moving.SLICE_BYTES) -> Any:
        if move.stage is moving.Stage.SETTLED:
            return moving.Next.TAKE_OVER
        return look(move, now_ms, bytes_max)

    return [instead(Move, "look", content)]


@mistake("relocated")
def future_log_stays_when_its_replica_goes() -> Sequence[Patch]:
    """What was copied of a partition that was reassigned away is never removed."""

    def left(self: FutureLogs, partition: Any, *, keep: bool = False) -> None:
        self.by_partition.pop(partition, None)

    return [instead(FutureLogs, "drop", left)]
