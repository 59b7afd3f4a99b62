"""The clean stop of a broker's logs: the last flush, the checkpoints, and the mark that the next start trusts.

Rules:

1. A clean stop is marked only after the last flush of every log, and the mark is taken away at the next start. A replica
   that is leaving counts too: it may be assigned again before its files are gone.
2. A directory with a log that the start found damaged, that a crash has left and nobody has claimed since, or that was left
   half moved, gets none: the next start has to look again. So does one in which a log that goes has kept its name: it was
   not flushed, and the next start finds it as if it had been.
3. Logs that this process has never used are as the stop before left them. Only where that was clean they are marked so
   again.
"""

from collections.abc import Callable
from typing import Any

from actors.broker.replication.replicas import Replicas
from actors.node.roles.broker.log.claims import Claims
from actors.node.roles.broker.log.future_logs import FutureLogs
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.offset_checkpoints import OffsetCheckpoints
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed, DiskFull, Run


class CleanStop:
    """The end of a broker's work on its logs."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        claims: Claims,
        futures: FutureLogs,
        checkpoints: OffsetCheckpoints,
        retired: RetiredFiles,
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._claims = claims
        self._futures = futures
        self._checkpoints = checkpoints
        self._retired = retired

    def unused(self, then: Callable[[Any], None]) -> None:
        """Stop without having used a log; `then` as for `used` (rule 3)."""
        marks = [directory.clean_shutdown(directory.broker_epoch) for directory in self._directories if directory.clean]
        if marks:
            self._runtime.sync([], marks, then)
        else:
            then(None)

    def used(self, replicas: Replicas, broker_epoch: int, then: Callable[[Any], None]) -> None:
        """Flush every log, then write the checkpoints and the marks. `then(None)` or `then(DiskFailed)` is called at
        the end."""
        leaving = (one.log for one in replicas.still_leaving())
        going = [log for log in leaving if not log.blank and not self._directories.failed(log.disk)]
        every = [*(one.log for one in replicas.written()), *going]
        futures = self._futures
        logs = [log for log in (*every, *futures.by_partition.values(), *futures.resumed.values()) if log.segments]
        try:
            flushes = [(log, log.close()) for log in logs]
        except (DiskFull, DiskFailed) as error:
            self._runtime.log.error(f"no clean stop, the next start will scan the logs: {error}")
            then(None)
            return

        def flushed(result: object) -> None:
            if isinstance(result, Exception):
                then(result)
                return
            try:
                for log, flush in flushes:
                    log.flushed(flush)
            except DiskFailed as error:  # a file that the flush wrote is to go again
                then(error)
                return
            unsure = {log.disk for log, _ in flushes if log.damaged is not None}
            unsure |= self._claims.unsure() | self._directories.unsure() | {disk for disk, _ in self._retired.left()}
            marks = [one.clean_shutdown(broker_epoch) for one in self._directories if one.disk not in unsure]
            self._runtime.sync([], [*self._checkpoints.replacements(replicas), *marks], marked)

        def marked(result: object) -> None:
            for log in logs:
                log.release()
            then(result)

        self._runtime.sync([], [], flushed, runs=[Run(flush.files, flush.replacements) for _, flush in flushes])
