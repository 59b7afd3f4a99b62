"""The work on the files of the metadata log beside appends: cold reads, the durable mark, and unlinking of old segments
and checkpoints.

This file alone decides when these are done. Each is outside the loop, and no request waits for it but those that asked for
what is not in memory.
"""

from functools import partial
from typing import Any

from actors.node.quorum import files
from actors.node.quorum.checkpoints import Missed
from actors.node.quorum.store import Store
from actors.node.quorum.syncs import FULL_RETRY_MS
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFull
from actors.raft import Raft

SWEEP_RETRY_MS = 10_000
"""The time in ms after which files that found no room to be unlinked are unlinked again."""


class Upkeep:
    """The upkeep of the directory of one replica."""

    def __init__(self, runtime: Runtime, store: Store, raft: Raft) -> None:
        self._runtime = runtime
        self._store = store
        self._raft = raft
        self._reading = False
        """Whether a cold read is under way."""
        self._mark_timed = False
        """Whether a timer runs for the durable mark."""

    def keep_mark(self) -> None:
        """Write down how far the log is durable and committed, now or when it is time."""
        runtime, raft, mark = self._runtime, self._raft, self._store.mark
        safe = min(raft.high_watermark, raft.durable_offset)
        if self._mark_timed or not mark.behind(safe):
            return

        def timed() -> None:
            self._mark_timed = False
            self.keep_mark()

        if runtime.now.mono_ms < mark.due_ms:
            self._mark_timed = True
            runtime.waiting.timers.at(mark.due_ms, timed)
            return

        def written(result: Exception | None) -> None:
            mark.written(result is None)
            if result is None or isinstance(result, DiskFull):
                self.keep_mark()
            else:
                runtime.stop(1, f"{files.DURABLE} cannot be written: {result}")

        runtime.sync((), [mark.write(safe, runtime.now.mono_ms)], written)

    def keep_joined(self, directory_id: bytes) -> None:
        """Write down that this disk has been that of a voter which joined by itself: it never joins by itself again."""
        runtime, store = self._runtime, self._store
        if store.joined or not self._raft.joined:
            return
        store.joined = True

        def written(result: Exception | None) -> None:
            if isinstance(result, DiskFull):
                runtime.waiting.timers.at(runtime.now.mono_ms + FULL_RETRY_MS, again)
            elif result is not None:
                runtime.stop(1, f"{files.JOINED} cannot be written: {result}")

        def again() -> None:
            content = files.joined(directory_id)
            runtime.sync((), [(store.disk, f"{store.directory}/{files.JOINED}", content)], written)

        again()

    def read_missed(self) -> None:
        """Read from the disk what was missed in memory; raft and the replay then look again. It is tried until there is a
        descriptor for it."""
        runtime, raft = self._runtime, self._raft
        log, checkpoints = self._store.log, self._store.checkpoints
        cold, missed = log.missed, checkpoints.missed
        if cold is not None:
            missed = Missed(cold.job, partial(log.warm, cold))
        if self._reading or missed is None:
            return
        self._reading = True
        log.missed = checkpoints.missed = None
        job, take = missed

        def read(result: Any) -> None:
            if isinstance(result, DiskFull):
                runtime.log.error(f"metadata is not read from the disk until there is a descriptor: {result}")
                runtime.waiting.timers.at(runtime.now.mono_ms + FULL_RETRY_MS, lambda: runtime.work(job, read))
                return
            self._reading = False
            if isinstance(result, FileNotFoundError):
                raft.warmed()  # deleted meanwhile, behind a newer snapshot: the reader is told so
                return
            if isinstance(result, Exception):
                runtime.stop(1, f"the metadata log cannot be read: {result}")
                return
            take(result)
            raft.warmed()

        runtime.work(job, read)

    def sweep(self) -> None:
        """Unlink what was given up. What finds no room or no descriptor for it is tried again."""
        runtime, store = self._runtime, self._store
        garbage = store.take_garbage()
        if not garbage:
            return

        def swept(left: Any) -> None:
            if not left:
                return
            if isinstance(left, Exception):
                runtime.log.warning(f"superfluous files of the metadata log cannot be removed: {left}")
                return
            path, why = left[0]
            runtime.log.warning(f"{len(left)} superfluous files of the metadata log stay for now, {path} first: {why}")
            again = [(one, None) for one, error in left if isinstance(error, DiskFull)]
            if again:
                due_ms = runtime.now.mono_ms + SWEEP_RETRY_MS
                runtime.waiting.timers.at(due_ms, lambda: store.checkpoints.garbage.extend(again))

        runtime.work(lambda: store.unlink(garbage), swept)
