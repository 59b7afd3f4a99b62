"""Opens a log that may have files, after a clean stop or any other.

This file alone decides what is believed. Rules:

1. After a clean stop everything is trusted. The last segment is only walked from its last index entry to find the log's
   end.
2. Otherwise every batch from the recovery point on is checked, CRC included. The first that is not sound ends the log:
   it and what follows are removed, and reported. Nothing before it is touched.
3. A segment after the recovery point that ends before the next one begins has lost its tail. What follows is removed,
   since the log would have a hole. (Compaction must sync its result and move the recovery point first.)
4. An index that is missing, damaged or contradicts its log is built again. On a full disk it stays in memory until the
   next flush: no log needs room to be opened.
5. Epochs and producers come from their files as far as these reach, and from the batches after that. State for offsets
   beyond the end is dropped. If these batches are damaged, the log is opened and reports it.
"""

from contextlib import suppress
from typing import NamedTuple

from actors.broker.log.checkpoints import LEADER_EPOCHS, CorruptCheckpoint
from actors.broker.log.epochs import EpochCache
from actors.broker.log.history import learn
from actors.broker.log.indexes import IndexCache
from actors.broker.log.log import SNAPSHOT, PartitionLog
from actors.broker.log.segment import DELETED, INDEX, LOG, NO_LIMIT, TIME_INDEX, Segment
from actors.config import TopicSettings
from actors.ports import Disk, DiskFull
from fastpath.records.batch import CorruptBatch

LEFTOVERS = (DELETED, ".cleaned", ".tmp")


class Cut(NamedTuple):
    """Bytes that were removed because they are not trusted."""

    path: str
    position: int
    """Where the log now ends in the file; 0 and the whole size for a segment after that."""
    size: int
    """The number of removed bytes."""
    reason: str
    """torn, crc, length, magic, offset: not sound.

    behind: sound perhaps, but after such a place or a hole. stale: an older history that was truncated before the next
    segment began; the disk had lost the truncation.
    """


class Recovered(NamedTuple):
    """A log, open for appends, and what happened to it."""

    log: PartitionLog
    cuts: tuple[Cut, ...]
    scanned_bytes: int


def recover(
    disk: Disk,
    directory: str,
    settings: TopicSettings,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    topic_id: bytes | None = None,
    now_ms: int = 0,
    indexes: IndexCache | None = None,
) -> Recovered:
    """Open a log. `recovery_point` and `log_start_offset` are those of the checkpoints. Start-up only: it blocks.

    Raises DiskFailed, naming file and position, where the disk cannot be read.
    """
    log = PartitionLog(disk, directory, settings, topic_id, log_start_offset, indexes)
    bases = _tidy(log)
    if not bases:
        if log_start_offset > 0:
            log.truncate_fully(log_start_offset, now_ms)
        return Recovered(log, (), 0)
    for base in bases:
        log.segments.append(Segment(disk, directory, base, settings.index_interval_bytes, now_ms))
    cuts, scanned = _scan(log, NO_LIMIT if clean else recovery_point)
    log.active = log.segments[-1]
    log.active.learn_first_timestamp()
    log.log_start_offset = max(log_start_offset, log.segments[0].base_offset)
    if log.log_start_offset > log.log_end_offset:
        log.truncate_fully(log.log_start_offset, now_ms)
        return Recovered(log, tuple(cuts), scanned)
    log.recovery_point = log.log_end_offset if clean and not cuts else min(recovery_point, log.log_end_offset)
    log.mark_flushed_to(log.recovery_point)
    try:
        _learn(log, clean, recovery_point, now_ms)
    except CorruptBatch as error:
        log.damaged = error.reason
    return Recovered(log, tuple(cuts), scanned)


def _tidy(log: PartitionLog) -> list[int]:
    """Remove what a crash left unfinished, and note the producer snapshots. Returns the base offsets of the segments,
    rising."""
    bases, others = [], []
    for name in log.disk.names(log.directory):
        stem, dot, ending = name.partition(".")
        if name.endswith(LEFTOVERS):
            log.disk.remove(f"{log.directory}/{name}")
        elif stem.isdecimal() and dot + ending == LOG:
            bases.append(int(stem))
        elif stem.isdecimal() and dot + ending == SNAPSHOT:
            log.snapshots.append(int(stem))
        elif stem.isdecimal() and dot + ending in (INDEX, TIME_INDEX):
            others.append((int(stem), name))
    for base, name in others:
        if base not in bases:
            log.disk.remove(f"{log.directory}/{name}")
    log.snapshots.sort()
    return sorted(bases)


def _scan(log: PartitionLog, trusted: int) -> tuple[list[Cut], int]:
    """Find the log's end. Check every batch from offset `trusted` on, and remove what is not sound."""
    segments, cuts, scanned = log.segments, list[Cut](), 0
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        end = NO_LIMIT if last else segments[place + 1].base_offset
        if end < trusted:
            continue
        index, position = segment.resume_index(trusted)
        found = segment.scan(index, position, segment.base_offset, check_from=trusted, upper_offset=end)
        scanned += found.position - position
        segment.index = index
        log.log_end_offset = found.next_offset
        if found.fault is not None:
            cuts.append(Cut(segment.path(LOG), found.position, segment.size - found.position, found.fault))
            segment.log.truncate(found.position)
            log.shortened.append(segment)
        if not last and found.next_offset < end and found.next_offset >= trusted:
            return cuts + _drop(log, place + 1), scanned
        if not last:
            segment.seal()
            with suppress(DiskFull):
                segment.write_index()
            log.indexes.touch(segment)
    return cuts, scanned


def _drop(log: PartitionLog, place: int) -> list[Cut]:
    cuts = [Cut(segment.path(LOG), 0, segment.size, "behind") for segment in log.segments[place:]]
    for segment in log.segments[place:]:
        segment.delete()()
    del log.segments[place:]
    return cuts


def _learn(log: PartitionLog, clean: bool, recovery_point: int, now_ms: int) -> None:
    """Read leader epochs and producers from files and batches."""
    path = f"{log.directory}/{LEADER_EPOCHS}"
    unsure = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    try:
        file = log.disk.open(path)
        try:
            log.epochs = EpochCache.parse(file.read_cold(0, file.size))
        finally:
            file.close()
        # Behind the recovery point the batches say it, and an entry of the file may be in their way.
        log.epochs.truncate_end(unsure)
        log.epochs.truncate_start(log.log_start_offset)
        # The table may know of deleted records that the checkpoint has not heard of: they are there again.
        whole = log.epochs.epoch_at(log.log_start_offset) >= 0
    except (FileNotFoundError, CorruptCheckpoint):
        whole = False
    if not whole:
        log.epochs = EpochCache()
    epochs_from = unsure if whole else log.log_start_offset
    if epochs_from < log.log_end_offset:
        learn(log.segments_from(epochs_from), epochs_from, epochs=log.epochs)
        log.epochs.truncate_start(log.log_start_offset)  # the log may begin inside a batch
    # Without any snapshot there was no producer when the segment of the recovery point began: a roll writes one.
    log.drop_snapshots_above(log.log_end_offset)
    if clean and not log.snapshots:
        return
    log.rebuild_producers(now_ms, log.segments_from(unsure)[0].base_offset)
