"""What the start found in the log directories, until metadata claims it or says that nobody does.

This file alone decides whose the files are. Rules:

1. A replica that metadata assigns claims the directory with its name and topic id. One of another topic id of the same name
   goes. So does one that nobody has claimed once this broker knows all that was ever assigned to it.
2. A directory that does not say its topic id is set aside.
3. A partition is in one directory. Of two that say the same topic id and the same move the one counts that has arrived. Of
   two others the one counts that began last, as its instance says: the directory of the other could not be used then, or a
   power cut has brought its name back. It is set aside. Without that nobody can tell: the node stops, as Apache Kafka does,
   and removes neither.
4. A future log that the start finds beside its replica is filled on. Where the replica has no files any more, and would
   begin empty, it begins with the future log.
5. Where a crash has left a log that nobody has claimed, no stop is marked as clean: the next start has to look again.
6. A replica whose log found no room or no descriptor to be opened has claimed it. It keeps its files and its name until it
   is opened, or has no replica here any more.
"""

import itertools
from collections.abc import Container, Iterable

from actors.broker.log.directories.checkpoints import LIFE_BITS
from actors.broker.log.directories.directory import (
    ARRIVED,
    FUTURE,
    LEAVING,
    STRAY,
    LogDirectory,
    PartitionDirectory,
    partition_name,
    read_moves,
)
from actors.node.roles.broker.log.log_directories import LogDirectories
from actors.node.roles.broker.log.retired_files import RetiredFiles
from actors.node.roles.broker.metadata_cache import MetadataCache
from actors.node.runtime.runtime import Runtime
from actors.ports import Disk
from actors.settings.topics import TopicSettings

Found = tuple[LogDirectory, PartitionDirectory]
"""A partition's directory, and the log directory that it is in."""


class Claims:
    """Directories of partitions that the start found and no metadata has claimed yet."""

    def __init__(
        self, runtime: Runtime, cache: MetadataCache, directories: LogDirectories, retired: RetiredFiles
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._directories = directories
        self._retired = retired
        self.unclaimed: dict[tuple[str, int], list[Found]] = {}
        """The directories of partitions that no metadata has claimed, by topic and number. Invariant: no list is empty,
        none has one topic id twice."""
        self.futures: dict[tuple[str, int], list[Found]] = {}
        """Future logs, by topic and number."""
        self.unopened: dict[tuple[str, int], Found] = {}
        """The directories that replicas have claimed and could not open yet, by topic and number (rule 6)."""
        self.settled = False
        """Whether what no metadata claims has been retired."""

    # ---- the start

    def look(self, directory: LogDirectory) -> None:
        """Find the partitions of one log directory. Raises DiskFailed."""
        for found in directory.partitions():
            if found.suffix == STRAY:
                self._runtime.log.warning(
                    f"{found.name} is not used: it does not say whose it was. Remove it if nobody needs it"
                )
            elif found.suffix == FUTURE and found.topic_id is not None:
                self.futures.setdefault((found.topic, found.number), []).append((directory, found))
            elif found.suffix:
                self._retired.remove(directory.disk, found.name)
            else:
                self._find(directory, found)

    def _find(self, directory: LogDirectory, found: PartitionDirectory) -> None:
        others = self.unclaimed.setdefault((found.topic, found.number), [])
        for place, (other, same) in enumerate(others):
            if found.topic_id is None or found.topic_id != same.topic_id:
                continue
            if _took_over(directory.disk, other.disk, found.name):
                others[place] = directory, found
                self._superseded(other, same, directory)
            elif _took_over(other.disk, directory.disk, found.name):
                self._superseded(directory, found, other)
            elif _began_later(found, same):
                others[place] = directory, found
                self._set_aside(other, same, directory)
            elif _began_later(same, found):
                self._set_aside(directory, found, other)
            else:
                path = self._directories.path
                self._runtime.stop(
                    1,
                    f"{found.name} is in {path(other.disk)} and in {path(directory.disk)}: take the copy away "
                    f"that is out of date",
                )
            return
        others.append((directory, found))

    def _set_aside(self, directory: LogDirectory, found: PartitionDirectory, by: LogDirectory) -> None:
        here, there = self._directories.path(directory.disk), self._directories.path(by.disk)

        def told(stray: str) -> None:
            self._runtime.log.warning(
                f"{found.name} in {here} is not used: the replica began in {there} later. "
                f"Its files are set aside as {stray}. Remove them if nobody needs them"
            )

        self._retired.stray(directory.disk, found.name, found.topic, found.number, told)

    def _superseded(self, directory: LogDirectory, found: PartitionDirectory, by: LogDirectory) -> None:
        path = self._directories.path
        self._runtime.log.info(
            f"{found.name} was moved from {path(directory.disk)} to {path(by.disk)}: the old files are removed"
        )
        self._retire(directory, found)

    # ---- what metadata says

    def claim(
        self, topic: str, topic_id: bytes, number: int, settings: TopicSettings
    ) -> tuple[Found | None, list[Found]]:
        """The files from which a replica that metadata assigns is opened, and its future log (rules 1 and 4).
        None: nothing was found, it begins without records."""
        claimed = None
        found = self._of(topic, number)
        self.unclaimed.pop((topic, number), None)
        self.unopened.pop((topic, number), None)
        for place, one in found:
            if one.topic_id == topic_id:
                claimed = place, one
            elif self._directories.failed(place.disk):
                continue
            elif one.topic_id is None:
                self._retired.keep_unknown(place.disk, one)
            else:
                self._retired.retire(place.disk, one.name, topic, number, settings)
        return self._claim_futures(topic, topic_id, number, claimed)

    def _claim_futures(
        self, topic: str, topic_id: bytes, number: int, claimed: Found | None
    ) -> tuple[Found | None, list[Found]]:
        found = self.futures.pop((topic, number), [])
        mine = [one for one in found if one[1].topic_id == topic_id and not self._directories.failed(one[0].disk)]
        if claimed is not None:
            mine = [one for one in mine if one[0] is not claimed[0]]
        self.retire_futures(one for one in found if one not in mine[:1])
        if claimed is not None or not mine:
            return claimed, mine
        directory, future = mine[0]
        name = partition_name(topic, number)
        exists, rename = self._directories.exists, self._directories.rename
        if exists(directory.disk, name) or not rename(directory.disk, future.name, name):
            return None, []
        self._runtime.log.warning(f"{name} has no files left and begins with what was copied to {future.name}")
        return (directory, future._replace(name=name, suffix="")), []

    def give_back(self, claimed: Found, futures: list[Found]) -> None:
        """Note that a log that was claimed could not be opened yet (rule 6)."""
        key = claimed[1].topic, claimed[1].number
        self.unopened[key] = claimed
        if futures:
            self.futures[key] = futures

    def give_up(self, topic: str, topic_id: bytes, number: int) -> None:
        """Retire what a replica has claimed and could not open yet: it is none of this broker's any more."""
        found = self.unopened.get((topic, number))
        if found is None or found[1].topic_id != topic_id:
            return
        del self.unopened[topic, number]
        if not self._directories.failed(found[0].disk):
            self._retire(*found)
        futures = self.futures.pop((topic, number), [])
        self.retire_futures(one for one in futures if one[1].topic_id == topic_id)
        if others := [one for one in futures if one[1].topic_id != topic_id]:
            self.futures[topic, number] = others

    def unclaim(self, topic: str, topic_id: bytes, number: int) -> None:
        """Note that nobody claims any more what a replica could not open yet: it is what the start has found."""
        found = self.unopened.get((topic, number))
        if found is not None and found[1].topic_id == topic_id:
            del self.unopened[topic, number]
            self.unclaimed.setdefault((topic, number), []).append(found)

    def has(self, topic: str, topic_id: bytes, number: int) -> bool:
        """Whether a replica has files that it can claim."""
        return any(one.topic_id == topic_id for _, one in self._of(topic, number))

    def names(self, topic: str, number: int) -> bool:
        """Whether anything was found under that name that no open log is made of."""
        return bool(self._of(topic, number)) or (topic, number) in self.futures

    def _of(self, topic: str, number: int) -> list[Found]:
        again = self.unopened.get((topic, number))
        return [*self.unclaimed.get((topic, number), ()), *([again] if again is not None else ())]

    def retire_unclaimed(self, offline: Container[tuple[bytes, int]], *, aside: bool = False) -> None:
        """Retire what the start found and no metadata has claimed: it is of topics that went while this broker was
        away. Not before the partitions follow the image, and it has this process's registration, which lies behind all
        that was ever assigned. `offline`: topic id and number of replicas that are here and cannot be used. They may
        begin with their future log. `aside`: the files stay, under another name: a controller that says what there is
        does not say what was deleted (R291-76)."""
        self.settled = True
        for key, futures in list(self.futures.items()):
            gone = [one for one in futures if (one[1].topic_id, one[1].number) not in offline]
            self.retire_futures(gone)
            if len(gone) == len(futures):
                del self.futures[key]
        for directory, found in itertools.chain.from_iterable(self.unclaimed.values()):
            if self._directories.failed(directory.disk):
                continue
            if found.topic_id is None:
                self._retired.keep_unknown(directory.disk, found)
            elif aside:
                self._retired.keep_stray(directory.disk, found.name, found.topic, found.number)
            else:
                self._runtime.log.info(f"{found.name} has no replica here any more: its files are removed")
                self._retire(directory, found)
        self.unclaimed.clear()

    def remove_unclaimed(self, topic: str, number: int) -> None:
        """Retire files that the start found and no metadata has claimed: they are of a partition that is deleted."""
        for directory, found in self.unclaimed.pop((topic, number), ()):
            if not self._directories.failed(directory.disk):
                self._retire(directory, found)

    def retire_futures(self, futures: Iterable[Found]) -> None:
        """Retire future logs that are not filled any more."""
        for directory, one in futures:
            if not self._directories.failed(directory.disk):
                self._retire(directory, one)

    def unsure(self) -> set[Disk]:
        """The log directories with unclaimed logs that no stop marks as clean (rule 5)."""
        unclaimed = itertools.chain(self.unopened.values(), *self.unclaimed.values(), *self.futures.values())
        return {directory.disk for directory, _ in unclaimed if not directory.clean}

    def _retire(self, directory: LogDirectory, found: PartitionDirectory) -> None:
        settings = self._cache.settings(found.topic)
        self._retired.retire(directory.disk, found.name, found.topic, found.number, settings)


def _began_later(found: PartitionDirectory, other: PartitionDirectory) -> bool:
    """Whether a log began when the other one was no log of this broker any more. Nobody can tell where one has no instance,
    or one that an earlier version counted in its directory alone."""
    return found.instance >> LIFE_BITS > 0 and 0 < other.instance < found.instance


def _took_over(disk: Disk, other: Disk, name: str) -> bool:
    """Whether the log of a name on one disk has taken the place of the log on the other disk. Start-up only."""
    left = read_moves(other, name, LEAVING)
    return bool(left) and left[0] in read_moves(disk, name, ARRIVED)
