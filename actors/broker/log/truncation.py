"""Truncation: a log gives up everything from an offset on, or begins anew elsewhere.

A truncation removes batches that the producers' state includes. If memory cannot go back that far, the state is read
again from the newest producer snapshot at or below the new end, and from the batches between. This is at most a
segment, because every roll writes a snapshot. A log of an older version may have no snapshot. Then it is read from its
start, once, and the state at the beginning of the last remaining segment is kept as a snapshot.

This file alone decides how a log becomes shorter at its end, and how much a truncation may read inside the loop:
`INSIDE_BYTES_MAX`. What needs more is prepared by a job for a thread. While that runs the log stays as it is. It is
truncated when the result is there: `truncate_to`.

A truncation is made whole, or not begun, where room or descriptors are short: all that has to be read is read first; then
the names of the segments behind change, and the file that is cut with them, together or not at all; memory follows, and for
that nothing may be short. Where there are segments behind their names are durable before the file is cut: that waits for the
disk, once. What could not be written or removed then is done by the next flush, and nothing is appended before: index files
that are too long, snapshots of offsets that are gone. What an earlier change is owed is done first (`names.py`).

Where a batch in front of the cut has rotted the log is cut there, unless it is known what it was: what is written next has
to follow what memory says of the log.
"""

from contextlib import suppress
from functools import partial
from typing import NamedTuple

from actors.broker.log.aborted_indexes import Known
from actors.broker.log.cleaning.replacing import withdraw
from actors.broker.log.history import Indexed, learn, learn_producers, pieces
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers.producers import CorruptSnapshot, Producers
from actors.broker.log.producers.transaction_index import CorruptTransactionIndex, check
from actors.broker.log.rotted_offsets import OFFSETS, mend
from actors.broker.log.segment import CUT, CutPoint, Job, Segment
from actors.ports import Disk, DiskFailed, DiskFull
from fastpath.records.batch import CorruptBatch
from fastpath.records.indexes import SegmentIndex

INSIDE_BYTES_MAX = 256 << 10
"""A truncation that must read more than this is prepared by a job."""


class Prepared(NamedTuple):
    """What the files contain below the new end."""

    producers: Producers
    snapshot: tuple[int, bytes] | None
    """(offset, content) of a producer snapshot for the beginning of the last remaining segment, if there was none."""
    segment_index: SegmentIndex | None
    """The index of the segment that is cut, where it was not in memory."""
    aborted: bytes | None
    """The segment's index of aborted transactions, where it was not in memory and is sound."""
    damaged: str | None
    """Why the batches could not be read to the end; None: they could. If it is set, `producers` lacks what follows."""


class Preparation(NamedTuple):
    """The job that reads what a truncation needs. Its result is a Prepared. Raises DiskFailed, CorruptSnapshot;
    FileNotFoundError if a file was removed meanwhile."""

    offset: int
    """The new end of the log."""
    segments: tuple[Segment, ...]
    """The segments from the one that holds `start` to the one that holds `offset`."""
    start: int
    """Offset of the snapshot, or the log's start."""
    position: int
    """The position of a batch in the first segment, at or before `start`."""
    content: bytes | None
    """The content of the snapshot, if it is not on the disk yet."""
    disk: Disk
    path: str | None
    """The path of the snapshot on the disk. None, without `content`: there is no snapshot."""
    generation: int
    end_offset: int
    layout: int
    """The generation, the end offset and the layout of the log when the job was made."""

    def __call__(self) -> Prepared:
        producers = self._snapshot()
        last = self.segments[-1]
        kept, damaged = None, None
        try:
            for place, segment in enumerate(self.segments):
                if segment is last and place:
                    kept = segment.base_offset, producers.snapshot()
                for data, found in pieces(segment, 0 if place else self.position):
                    if found["base_offset"][0] >= self.offset:
                        break
                    if found["producer_id"].max() >= 0:
                        learn_producers(producers, data, self.start, -1, self.offset)
        except CorruptBatch as error:
            kept, damaged = None, error.reason
        index = last.load_index(cold=True) if last.index is None else None
        return Prepared(producers, kept, index, self._aborted(last), damaged)

    def _aborted(self, segment: Segment) -> bytes | None:
        index = segment.aborted
        if index.in_memory:
            return None
        try:
            data = index.read(cold=True)
            assert data is not None
            check(data, segment.base_offset, self.end_offset)
        except CorruptTransactionIndex:
            return None
        return bytes(data)

    def _snapshot(self) -> Producers:
        content = self.content
        if content is None and self.path is not None:
            try:
                file = self.disk.open(self.path)
            except FileNotFoundError:  # the next try begins with an older one
                raise CorruptSnapshot("the file is gone") from None
            try:
                content = bytes(file.read_cold(0, file.size))
            finally:
                file.close()
        return Producers() if content is None else Producers.parse(content)


def prepare_cut(log: PartitionLog, offset: int) -> Preparation | None:
    """The job that reads what `truncate_to(offset)` needs from the disk; None: there is little to read, so truncate at
    once."""
    if not log.log_start_offset <= offset < log.log_end_offset:
        return None
    place = log.segment_of(offset)
    segment = log.segments[place]
    known = segment is log.active or (log.have_index(segment) and segment.aborted.in_memory)
    if known and log.producers.can_truncate(offset):
        return None
    job = _preparation(log, offset)
    end = segment.near(offset, segment.index, cold=False) if known and segment.index is not None else None
    if end is None:
        return job
    size = sum(one.size for one in job.segments[:-1]) + end - job.position
    return None if size <= INSIDE_BYTES_MAX else job


def _preparation(log: PartitionLog, offset: int) -> Preparation:
    start = log.snapshots.before(offset)
    found = start >= 0
    start = start if found else log.log_start_offset
    content = log.snapshots.pending.get(start) if found else None
    path = log.snapshots.path(start) if found and content is None else None
    segments = tuple(log.segments[log.segment_of(start) : log.segment_of(offset) + 1])
    index = segments[0].index
    begin = (segments[0].near(start, index, cold=False) or 0) if index is not None else 0
    return Preparation(
        offset, segments, start, begin, content, log.disk, path, log.generation, log.log_end_offset, log.layout
    )


def fits(log: PartitionLog, job: Preparation) -> bool:
    """Whether the log is still what it was when the job was made."""
    now = log.generation, log.log_end_offset, log.layout
    return (job.generation, job.end_offset, job.layout) == now


def truncate_to(log: PartitionLog, offset: int, prepared: Prepared | None = None) -> list[Job]:
    """Remove everything from `offset` on, with the whole batch that holds it. Returns jobs that unlink files. It
    blocks only a little, if `prepare_cut` had nothing to prepare or `prepared` is its result.

    The caller flushes the log then: nothing is appended before. If nothing is left, the log is empty and begins at its
    start, or at `offset` if that is lower. Raises DiskFull or DiskFailed: nothing is removed; Torn.
    """
    if offset >= log.log_end_offset:
        # An epoch that began at the end, when this replica led, may have no batch. The leader does not have that
        # epoch.
        log.epochs.truncate_end(log.log_end_offset)
        return []
    if offset < log.log_start_offset:
        return truncate_fully(log, offset)
    had = bool(log.snapshots)
    log.settle()  # a file that is to be removed still says how far the log went
    withdraw(log)
    place = log.segment_of(offset)
    segment, behind = log.segments[place], log.segments[place + 1 :]
    try:
        cut, aborted = _look(log, segment, offset, prepared)
        if cut.end_offset < log.log_start_offset:
            # The next segment would begin at the log start, after a hole: recovery would treat that as a lost tail.
            return truncate_fully(log, log.log_start_offset)
        if cut.fault is not None:
            prepared = None  # it knows what is cut as well
        if prepared is None and not log.producers.can_truncate(cut.end_offset):
            prepared = _prepared(log, cut.end_offset)
    except FileNotFoundError as error:
        raise log.tear(error) from error
    log.retire(behind[::-1], CUT, partial(_cut_file, log, segment, cut, bool(behind)))
    log.active = segment
    log.indexes.forget(segment)
    try:
        segment.was_cut(cut)
        note_cut(log, segment)
        if segment.aborted.exists:
            log.aborted.truncate(segment, cut.end_offset, aborted)
        _ends_at(log, cut.end_offset, place + 1)
    except DiskFailed as error:
        raise log.tear(error) from error
    log.damaged = log.damaged or aborted.damage
    log.epochs.truncate_end(cut.end_offset)
    if prepared is not None:
        _take_prepared(log, prepared)
    else:
        log.producers.truncate(cut.end_offset)
    if had and not log.snapshots:
        log.keep_producers(cut.end_offset)
    log.refuse()
    return log.names.take_unlinks()


def _look(log: PartitionLog, segment: Segment, offset: int, prepared: Prepared | None) -> tuple[CutPoint, Known]:
    """Read what the cut of a segment needs. Returns where it is cut, and its index of aborted transactions where that is not
    in memory then. Raises DiskFull, DiskFailed, FileNotFoundError."""
    if prepared is not None and prepared.segment_index is not None and segment.index is None:
        segment.keep_index(prepared.segment_index)
    if prepared is not None and prepared.aborted is not None:
        segment.aborted.keep(prepared.aborted)
    cut, end_offset = segment.find_cut(offset), log.end_of(segment)
    while cut.fault in OFFSETS and mend(segment, cut.position, end_offset, cut.left) is not None:
        cut = segment.find_cut(offset)
    if segment is not log.active:
        log.indexes.touch(segment)  # should it not be cut
    return cut, log.aborted.know(segment, end_offset)


def _prepared(log: PartitionLog, offset: int) -> Prepared:
    """The producers below the new end, read inside the loop. Raises DiskFull, DiskFailed, FileNotFoundError."""
    while True:
        job = _preparation(log, offset)
        try:
            return job()
        except (CorruptSnapshot, FileNotFoundError):
            if job.content is None and job.path is None:
                raise
            log.snapshots.forget(job.start)
            log.snapshots.pending.pop(job.start, None)


def _cut_file(log: PartitionLog, segment: Segment, cut: CutPoint, renamed: bool) -> None:
    if renamed and cut.position < segment.size:
        # A power cut that kept the cut and none of the names would leave a hole of which nothing says why.
        log.disk.settle(log.directory)
    try:
        segment.cut(cut)
    except DiskFailed as error:
        raise log.tear(error) from error


def note_cut(log: PartitionLog, segment: Segment) -> None:
    """Note that a segment's file has become shorter. The caller sees to a flush; until it is done nothing is
    appended."""
    log.shortened.append(segment)
    log.refuse()


def _take_prepared(log: PartitionLog, prepared: Prepared) -> None:
    before, log.producers = log.producers, prepared.producers
    log.producers.heard(before, -1)
    log.damaged = prepared.damaged or log.damaged
    if prepared.snapshot is not None and log.damaged is None and prepared.snapshot[0] not in log.snapshots.offsets:
        offset, content = prepared.snapshot
        log.snapshots.pending.setdefault(offset, content)


def truncate_fully(log: PartitionLog, offset: int, now_ms: int = 0, *, inside: bool = False) -> list[Job]:
    """Remove everything and begin again at `offset`, because what the leader has does not overlap with this log. The caller
    flushes the log then. Nothing is appended before if there were records, or if the log begins below its end: checkpoints
    would have a start trust or drop what is appended there. `inside`: the batch that is appended next reaches that end,
    and a start checks it. Raises DiskFull or DiskFailed: nothing is removed; Torn."""
    log.settle()
    if not log.segments and offset < log.log_end_offset and not inside:
        # There was no room for one when the log began there, and something has to wait for the flush.
        log.begin_file(now_ms)
    had, gone = bool(log.snapshots), log.segments[::-1]
    withdraw(log)
    # All of it is behind an end that nothing is in front of. As files in front of the start they would say later that the
    # start was moving, where they are of a history that has gone.
    log.retire(gone, CUT)
    log.active = None
    if any(one.size for one in gone) or (offset < log.log_end_offset and not inside):
        log.shortened += gone[:1]  # a power cut may bring it back behind what comes next
    if offset < log.log_end_offset:
        log.reach = max(log.reach, log.log_end_offset)  # also if the append fails, and another leader sends less
    try:
        _ends_at(log, offset, len(gone))
        log.snapshots.drop_above(-1, segments=len(gone))  # an old state would lack what is not in the log any more
    except DiskFailed as error:
        raise log.tear(error) from error
    log.log_start_offset = offset
    log.recovery_point = log.asked_offset = offset
    log.epochs.clear()
    log.producers.clear()
    if had:
        log.keep_producers(offset)
    log.refuse()
    jobs = log.names.take_unlinks()
    if offset > 0:
        with suppress(DiskFull):  # the first append makes the file then, once these jobs have made room
            log.open_first(offset, now_ms)
    return jobs


def _ends_at(log: PartitionLog, offset: int, segments: int) -> None:
    log.log_end_offset = offset
    log.cleaned_offset = min(log.cleaned_offset, offset)
    log.checkpointed_offset = min(log.checkpointed_offset, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.asked_offset = min(log.asked_offset, offset)
    log.generation += 1
    log.hints.clear()
    log.snapshots.drop_above(offset, segments=segments)


def rebuild_producers(log: PartitionLog, now_ms: int = -1, otherwise: int = 0, indexed: Indexed | None = None) -> int:
    """Make the producers' state from the newest sound snapshot and the batches behind it; blocking. Returns the offset
    where these batches begin."""
    before = log.producers
    log.producers, start = log.snapshots.newest(max(otherwise, log.log_start_offset), log.log_start_offset)
    if start < log.log_end_offset:
        *before_last, last = log.segments_from(start)
        learn(before_last, start, producers=log.producers, now_ms=now_ms, indexed=indexed)
        if before_last and last.base_offset not in log.snapshots.offsets:
            # A kill has lost what the roll kept.
            log.snapshots.pending.setdefault(last.base_offset, log.producers.snapshot())
        learn([last], start, producers=log.producers, now_ms=now_ms, indexed=indexed)
    log.producers.heard(before, now_ms)
    return start
