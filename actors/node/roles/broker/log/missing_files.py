"""Whether the files of replicas are still there.

Their removal from a running broker is not noticed by appends, which go to files without a name. This file alone decides
which replicas are looked at when, and what a missing file means: its directory fails if that is gone as a whole, else the
replica goes offline by itself. A log whose names have changed in part only is not looked at: what is missing there nobody
has removed.
"""

from actors.broker.replication.replicas import Offline, Replicas
from actors.node.roles.broker.log.directory_failures import DirectoryFailures
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.offset_checkpoints import OffsetCheckpoints
from actors.node.runtime.runtime import Runtime

LOOKS = 256
"""The number of replicas whose files are looked for at each checkpoint, in turn."""


class MissingFiles:
    """A look at the files of some replicas, the next ones each time."""

    def __init__(
        self,
        runtime: Runtime,
        directories: LogDirectories,
        failures: DirectoryFailures,
        checkpoints: OffsetCheckpoints,
    ) -> None:
        self._runtime = runtime
        self._directories = directories
        self._failures = failures
        self._checkpoints = checkpoints
        self._looked = 0
        """The number of replicas that have been looked for, over and over."""

    def look(self, replicas: Replicas) -> None:
        """Look for the first and the last segment of the next LOOKS replicas."""
        every = replicas.written()
        begin = self._looked % len(every) if every else 0
        some = (every[begin:] + every[:begin])[:LOOKS]
        self._looked = begin + len(some)
        directories = self._directories
        for partition in some:
            log = partition.log
            names = [segment.log.path for segment in log.segments[:1] + log.segments[1:][-1:] if log.torn is None]
            missing = next((name for name in names if not directories.exists(log.disk, name)), None)
            if missing is None or partition.removed:
                continue
            gone = directories.gone(log.disk)
            if gone is None:
                self._checkpoints.note_lost(partition.topic, partition.topic_id, partition.number)
                self._failures.take_offline(replicas, partition, Offline.REMOVED)
                self._runtime.log.error(
                    f"{partition!r} is offline: {missing} was removed from {directories.path(log.disk)} under the running "
                    f"broker. What was in it is gone, unless another replica has it"
                )
            elif not self._failures.fail(replicas, log.disk, gone):
                self._runtime.stop(1, f"log directory {directories.path(log.disk)} cannot be used: {gone}")
                return
