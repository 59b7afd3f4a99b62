"""What is due is done within a bounded time: what retention gives up goes, and what can be cleaned is cleaned.

Times are those of the world, not those that a node believes: a segment is as old as the time for which it was seen sealed,
over all lives of its broker.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tests.simulator.checkers.hooks import Violation
from tests.simulator.world import World

FIT_MS = 2_500
"""For so long a broker has to be there, with disks that work, before something is expected of it."""
SILENT_MS = 1_000
"""A broker that has had no turn for so long was frozen."""
MARGIN_MS = 2_500
EVERY_MS = 100
Sealed = tuple[str, bytes, int, int, int, int | None]
"""(process, topic id, partition, base offset, bytes, when the disk was written). Between two looks a segment may be cut and
grow again to what it was."""


class Retention:
    """Compares the segments of brokers with retention.ms."""

    name = "what_is_too_old_goes"

    def __init__(self, world: World, topics: Mapping[str, int]) -> None:
        """retention.ms of each topic."""
        self._world, self._topics = world, topics
        self._sealed: dict[str, dict[Sealed, int]] = {}
        self._fit: dict[str, int] = {}
        self._looked: dict[str, int] = {}

    def ended(self, process: Any) -> None:
        """Nothing is expected of a broker that is not there."""
        self._fit.pop(process.name, None)

    def turned(self, process: Any) -> None:
        """Look at a broker after its turn."""
        broker, now_ms = process.node.broker if process.node is not None else None, self._world.time_us // 1000
        if broker is None or not self._topics or now_ms < self._looked.get(process.name, 0) + EVERY_MS:
            return
        before_ms, self._looked[process.name] = self._looked.get(process.name, 0), now_ms
        works = broker.availability.serving and not broker.logs.directories.full.lacks and self._world.clocks_agreed
        if not works or any(disk.fault is not None for disk in process.disks) or now_ms > before_ms + SILENT_MS:
            self._fit.pop(process.name, None)
        fit_ms = now_ms - self._fit.setdefault(process.name, now_ms)
        known, found = self._sealed.get(process.name, {}), dict[Sealed, int]()
        for partition in broker.replicas:
            limit_ms = self._topics.get(partition.topic)
            log = partition.log
            if limit_ms is None or log.blank or log.torn is not None:
                continue
            for segment in log.segments[:-1]:
                written_ms = segment.log.modified_ms
                key = process.name, partition.topic_id, partition.number, segment.base_offset, segment.size, written_ms
                found[key] = known.get(key, now_ms)
                over_ms = now_ms - found[key] - limit_ms
                # Retention goes from the front: what is behind one that stays does too.
                first = segment is log.segments[0] and log.end_of(segment) <= partition.high_watermark
                if first and over_ms > MARGIN_MS and fit_ms > FIT_MS and not partition.unreadable:
                    raise Violation(self.name, f"{process.name} has {segment.path('.log')}, too old for {over_ms} ms")
        self._sealed[process.name] = found


class Cleaning:
    """Whether all compacted logs have been cleaned as far as they were dirty at the first look since the faults have
    ended. One that is set aside need not be, if its device has failed in this life of its broker, or bits have rotted."""

    name = "what_is_dirty_is_cleaned"

    def __init__(self, topics: Collection[str], was_rotten: Callable[[str], bool]) -> None:
        self._topics, self._was_rotten = topics, was_rotten
        self._ends: dict[tuple[str, bytes, int], int] = {}
        """Up to where a log was dirty at the first look: what is sealed later need not be clean, since a busy producer seals
        without end."""
        self._clean = set[tuple[str, bytes, int]]()

    def dirty(self, processes: Collection[Any]) -> str:
        """A log that has not been cleaned as far as it was dirty at the first look; empty: there is none."""
        left = ""
        for process in processes:
            broker = process.node.broker if process.node is not None else None
            if broker is None:
                return f"{process.name} does not run"
            for partition in broker.replicas:
                log, key = partition.log, (process.name, partition.topic_id, partition.number)
                if partition in broker.cleaner.uncleanable and (log.disk.refused or self._was_rotten(process.name)):
                    continue
                if partition.topic not in self._topics or not log.settings.compact or key in self._clean:
                    continue
                sealed = [] if log.blank else [one for one in log.segments[:-1] if one.size]
                upper = min(partition.high_watermark, log.recovery_point)
                ends = [log.end_of(one) for one in sealed]
                dirty = [end for end in ends if log.cleaned_offset < end <= upper]
                until = self._ends.setdefault(key, max(dirty, default=0))
                dirty = [end for end in dirty if end <= until]
                if dirty:
                    left = f"{partition!r} of {process.name} is dirty from {log.cleaned_offset} to {dirty[-1]}"
                else:
                    self._clean.add(key)
        return left
