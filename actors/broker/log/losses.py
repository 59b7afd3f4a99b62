"""Replicas that a broker had and whose files are gone: how a start tells them from those that have never had any.

A partition without records has no directory, so that there is none says nothing. What says that there was one:

- `topic-id-checkpoint` lists every replica with files. One that it lists, with an offset that counts or with no offset at
  all, and that has no directory now, is lost. A replica that is known to be lost is listed without an offset until it
  is given up, so that the next start knows of it too.
- `directory-ids-checkpoint`, a list of the ids of the log directories that this broker has had, lies in each of them. If
  one of these is missing, or none of the directories has ever been used, then any replica that is not found may have been
  there.

This file alone decides it. Apache Kafka has neither file.
"""

from collections.abc import Iterable, Sequence

from actors.broker.log.checkpoints import CorruptCheckpoint, lines, text
from actors.broker.log.directory import LogDirectory, Replacement
from actors.ports import Disk

DIRECTORY_IDS = "directory-ids-checkpoint"


class Losses:
    """What the log directories say at the start of what should be in them."""

    def __init__(self, directories: Sequence[LogDirectory], ids: Sequence[bytes]) -> None:
        """Start-up only; raises DiskFailed. `ids`: of the directories, in their order."""
        self._directories = directories
        self._content = text(sorted(id.hex() for id in ids))
        known = {disk: _read(disk) for disk in (directory.disk for directory in directories)}
        self._written = {disk for disk, content in known.items() if content == self._content}
        """Directories whose file is as it should be."""
        had = {id for content in known.values() for id in _parse(content)}
        fresh = all(known[one.disk] is None and not one.used for one in directories)
        self.anything = fresh or bool(had - set(ids))
        """A directory is not there any more: whatever is not found may be lost."""

    def listed(self, topic: str, number: int, topic_id: bytes) -> bool:
        """Whether a directory knows that the replica had files."""
        return any(directory.had((topic, number), topic_id) for directory in self._directories)

    def replacements(self, disks: Iterable[Disk]) -> list[Replacement]:
        """The files that are to be written in these directories, behind the ids of the replicas that are lost."""
        missing = [disk for disk in disks if disk not in self._written]
        self._written.update(missing)
        return [(disk, DIRECTORY_IDS, self._content) for disk in missing]

    def forget_written(self) -> None:
        """What `replacements` gave may not have been written."""
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
