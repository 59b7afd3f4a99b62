"""Replicas that a broker had and whose files are gone: how a start tells them from replicas that never had any.

A partition without records has no directory, so a missing directory alone says nothing. Two files show that there was
one:

- `topic-id-checkpoint` lists every replica with files. A replica in this list that has no directory now is lost, if its
  checkpointed high watermark or recovery point is above 0 or missing. A replica that is known to be lost is listed
  without these offsets until it is given up, so that the next start knows of it too.
- `directory-ids-checkpoint` is in each log directory and lists the ids of all log directories that this broker has had.
  If one of these is missing, or none of the directories has ever been used, any replica that is not found may have been
  there.

This file alone decides which replicas are lost. Apache Kafka has neither file.
"""

from collections.abc import Iterable, Sequence

from actors.broker.log.directories.checkpoints import CorruptCheckpoint, lines, text
from actors.broker.log.directories.directory import LogDirectory, Replacement
from actors.ports import Disk

DIRECTORY_IDS = "directory-ids-checkpoint"


class Losses:
    """What the log directories should contain, according to their files at the start."""

    def __init__(self, directories: Sequence[LogDirectory], ids: Sequence[bytes]) -> None:
        """Reads the files of all directories. Start-up only. `ids`: the ids of the directories, in their order. Raises
        DiskFailed."""
        self._directories = directories
        self._content = text(sorted(id.hex() for id in ids))
        known = {disk: _read(disk) for disk in (directory.disk for directory in directories)}
        self._written = {disk for disk, content in known.items() if content == self._content}
        """Directories whose file is up to date."""
        had = {id for content in known.values() for id in _parse(content)}
        fresh = all(known[one.disk] is None and not one.used for one in directories)
        self.anything = fresh or bool(had - set(ids))
        """Whether a directory is missing. Then any replica that is not found may be lost."""

    def listed(self, topic: str, number: int, topic_id: bytes) -> bool:
        """Whether a directory knows that the replica had files."""
        return any(directory.had((topic, number), topic_id) for directory in self._directories)

    def replacements(self, disks: Iterable[Disk]) -> list[Replacement]:
        """The files to write in these directories, after the ids of the replicas that are lost."""
        missing = [disk for disk in disks if disk not in self._written]
        self._written.update(missing)
        return [(disk, DIRECTORY_IDS, self._content) for disk in missing]

    def forget_written(self) -> None:
        """The files that `replacements` returned may not have been written."""
        self._written.clear()


def _read(disk: Disk) -> bytes | None:
    if not disk.exists(DIRECTORY_IDS):
        return None
    file = disk.open(DIRECTORY_IDS)
    try:
        return bytes(file.read_cold(0, file.size))
    finally:
        file.close()


def _parse(content: bytes | None) -> list[bytes]:
    try:
        return [bytes.fromhex(line) for line in lines(content)] if content is not None else []
    except (CorruptCheckpoint, ValueError):
        return []
