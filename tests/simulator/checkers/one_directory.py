"""A replica is in one log directory of its broker, and what has been moved is whole.

Beside it there may be the future log of a move that is under way, and for as long as the name of a future log that has taken
the place is not on the disk the log that it has replaced. A future log that does not say whose it is, as a power cut may
leave it, is removed by a job that the start has begun. A log that goes has its name until there is room for another one,
or, where the device fails in a directory without which the broker cannot go on, until the next start. Until then nothing
begins under that name, and the marks of a move say which of two counts. When a log has taken the place of another, all
in it that is committed is compared.
"""

from typing import Any

from actors.broker.log.directories.directory import PARTITION_METADATA, parse_name, partition_name
from actors.broker.log.log import PartitionLog
from actors.broker.replication.partition import Partition
from tests.simulator.checkers.committed_data import CommittedData
from tests.simulator.checkers.hooks import Violation

EVERY = 16
"""In one of so many turns of a process all names are looked at."""


class OneDirectory:
    name = "replica_in_one_directory"

    def __init__(self, data: CommittedData) -> None:
        self._data = data
        self._logs: dict[str, dict[Partition, PartitionLog]] = {}
        self._turns: dict[str, int] = {}

    def ended(self, process: Any) -> None:
        """The next process opens its logs anew."""
        self._logs.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Check a broker after its turn; only one with a second directory moves replicas."""
        if not process.more or process.node is None or process.node.broker is None:
            return
        role = process.node.broker
        known, replicas = self._logs.setdefault(process.name, {}), role.replicas
        for partition in replicas:
            before = known.get(partition)
            if before is not partition.log:
                known[partition] = partition.log
                if before is not None:
                    self._data.replaced(process, partition)
        turns = self._turns[process.name] = self._turns.get(process.name, 0) + 1
        if turns % EVERY == 0 and role.logs.claims.settled and not process.node._stopping:
            self._look(process)

    def _look(self, process: Any) -> None:
        logs, replicas = process.node.broker.logs, process.node.broker.replicas
        left = {(id(log.disk), log.directory) for log in logs.futures.superseded}
        left |= {(id(disk), name) for disk, name in logs.retired.left()}
        filled = [*logs.futures.by_partition.values(), *logs.futures.resumed.values()]
        futures = {(id(log.disk), log.directory) for log in filled}
        futures |= {(id(place.disk), one.name) for found in logs.claims.futures.values() for place, one in found}
        for disk in process.disks:
            if logs.directories.failed(disk):
                continue
            for directory in disk.listed(""):
                parsed = parse_name(directory)
                if parsed is None or parsed[2] not in ("", "future"):
                    continue
                topic, number, suffix = parsed
                partition, place = replicas.get(topic, number), (id(disk), directory)
                kept = partition is None and (logs.directories.offline_count or replicas.offline)
                going = suffix and not _is_known(disk, directory)
                if suffix and place not in futures and place not in left and not kept and not going:
                    raise Violation(self.name, f"{process.name} has left {directory} behind")
                if partition is not None and not suffix and partition.log.disk is not disk and place not in left:
                    raise Violation(self.name, f"{process.name} has {partition_name(topic, number)} twice")


def _is_known(disk: Any, directory: str) -> bool:
    """Whether a directory says whose log it has."""
    named = disk.files.get(f"{directory}/{PARTITION_METADATA}")
    return named is not None and b"topic_id" in named.data
