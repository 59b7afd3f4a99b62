"""What of a compacted log is to be cleaned, and when (KIP-58, KIP-354, KIP-534).

This file alone decides that for one log; which of them is cleaned next, `node/roles/broker/log/log_cleaner.py` decides.
Words: below `cleaned_offset` a log is clean, one record of each key is left there; from it on it is dirty. Rules:

1. The segment that takes appends is never cleaned, nor one that reaches above the high watermark, above an open transaction
   or above the recovery point that is checkpointed, or that has a record younger than min.compaction.lag.ms. Nothing behind
   such a segment is. What is above that recovery point is read after a crash to learn where leader epochs began.
2. A log is due when the dirty part of what could be clean is more than min.cleanable.dirty.ratio, or when the oldest dirty
   segment began more than max.compaction.lag.ms ago. Which of several comes first, the broker's cleaner decides.
3. A cleaning writes all segments anew, from the log's start to the end of what was read into the offset map. Neighbours
   become one segment as long as it stays within segment.bytes, its indexes within segment.index.bytes and its offsets
   within the 32 bits that an index has.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from actors.broker.log.log import SPAN_MAX, PartitionLog
from actors.broker.log.segment import Job, Segment
from actors.settings.topics import TopicSettings
from fastpath.records.indexes import TIME_ENTRY_SIZE

WARM_MAX = 64
"""The number of segments of which the last time is read between two looks at a log."""


class Cleanable(NamedTuple):
    """The result of a look at one log: what of it can be cleaned."""

    first_dirty: int
    first_uncleanable: int
    """The offset up to which the log may be cleaned: where a segment begins, or the log ends."""
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    """How long ago max.compaction.lag.ms was over, ms; 0: it is not over."""
    warm: tuple[Job, ...] = ()
    """Jobs that read what was not in memory; run them, and look again."""

    @property
    def ratio(self) -> float:
        """The share that the dirty part has in all that would be clean, from 0 to 1."""
        whole = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / whole if whole else 0.0


def cleanable(log: PartitionLog, upper_offset: int, now_ms: int) -> Cleanable:
    """What of a log can be cleaned now. `upper_offset`: high watermark, or the first offset of an open transaction
    below it. `now_ms`: wall clock."""
    first_dirty = max(log.cleaned_offset, log.log_start_offset)
    if first_dirty > log.log_end_offset:
        first_dirty = log.log_start_offset
    settings, warm = log.settings, list[Job]()
    clean = dirty = 0
    began_ms = now_ms
    uncleanable = log.log_end_offset
    for place, (segment, end) in enumerate(zip(log.segments, ends(log), strict=True)):
        uncleanable = segment.base_offset
        if segment is log.active or end > min(upper_offset, log.checkpointed_offset):
            break
        if end <= first_dirty:
            clean += segment.size
            continue
        if settings.min_compaction_lag_ms > 0:
            if segment.max_timestamp() is None:
                warm.append(partial(_learn_times, log.segments[place : place + WARM_MAX], now_ms, settings))
                break
            if _young(segment, now_ms, settings):
                break
        first = segment.first_timestamp
        if first is None and segment.size and settings.max_compaction_lag_ms < 1 << 62:
            warm.append(segment.learn_first_timestamp)
        elif first is not None and first >= 0:
            began_ms = min(began_ms, first)
        dirty += segment.size
    delay_ms = max(0, now_ms - settings.max_compaction_lag_ms - began_ms)
    return Cleanable(first_dirty, uncleanable, clean, dirty, delay_ms, tuple(warm))


def _young(segment: Segment, now_ms: int, settings: TopicSettings) -> bool:
    newest = segment.max_timestamp()
    return newest is None or now_ms - (newest if newest >= 0 else segment.appended_ms) < settings.min_compaction_lag_ms


def _learn_times(segments: Sequence[Segment], now_ms: int, settings: TopicSettings) -> None:
    """Read the last times of segments, up to the first that stays as it is. Blocking."""
    for segment in segments:
        segment.max_timestamp(cold=True)
        if _young(segment, now_ms, settings):
            break


def due(log: PartitionLog, found: Cleanable) -> bool:
    """Whether the log is to be cleaned now."""
    if found.warm or not found.cleanable_bytes:
        return False
    return found.delay_ms > 0 or found.ratio > log.settings.min_cleanable_dirty_ratio


def ends(log: PartitionLog) -> list[int]:
    """The offset behind each segment."""
    return [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset] * bool(log.segments)


class Group(NamedTuple):
    """Neighbouring segments that become one segment."""

    segments: tuple[Segment, ...]
    last_offset: int
    """The last offset of the group: where the next segment begins, less one."""


def groups(log: PartitionLog, upper_offset: int) -> list[Group]:
    """The segments that begin below `upper_offset`, as groups, in the order of the log."""
    found: list[Group] = []
    wanted: list[Segment] = []
    for segment, end in zip(log.segments, ends(log), strict=True):
        if segment.base_offset >= upper_offset:
            break
        if wanted and not _fits([*wanted, segment], end, log.settings):
            wanted = []
        if wanted:
            found.pop()
        wanted.append(segment)
        found.append(Group(tuple(wanted), end - 1))
    return found


def _fits(segments: Sequence[Segment], end: int, settings: TopicSettings) -> bool:
    size = sum(segment.size for segment in segments)
    entries = size // max(settings.index_interval_bytes, 1) + 1
    return (
        size <= settings.segment_bytes
        and entries * TIME_ENTRY_SIZE <= settings.segment_index_bytes
        and end - 1 - segments[0].base_offset <= SPAN_MAX
    )
