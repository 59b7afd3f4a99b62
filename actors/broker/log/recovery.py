"""Opens a log that may have files, after a clean stop or any other.

This file alone decides what is believed. Rules:

1. After a clean stop everything is; the last segment is only walked from its last index entry to find the log's end.
2. Otherwise every batch from the recovery point on is checked, CRC included. The first that is not sound ends the log: it
   and what follows are cut, and reported, unless only its first offset has rotted (`rotted_offsets.py`): that is put back.
   Nothing before it is touched: a batch that cannot be passed below the recovery
   point stays as it is where a later segment follows, and the log is damaged. In the last segment the log ends there.
3. Where offsets below the recovery point are missing between segments, what is left of others says why: a power cut may keep
   some names and lose others. Where the log was being cut the ones behind go, where its start was moving those in front;
   where nothing is left the log is damaged. Where something is left of both, the higher number is of the last (`names.py`).
   From the recovery point on a lost tail looks the same, and a name may be of a history that was cut: there the start was
   moving only where the files in front fill the hole, from where the segment before it ends to where the next one begins,
   in epochs that do not fall. A log that begins anew is cut at its end: what had left in front before says nothing of it.
   Where the start was moving, the first segment that is gone begins where the one before it ends. Apache Kafka and earlier
   versions do not say which way, but take the oldest first: so what is left in the middle was being cut. Where one has a
   lower epoch than the one before the log is damaged: either it is of a history that was cut, or a bit of it has rotted.
4. A segment that ends before the next begins, behind the recovery point, has lost its tail: what follows is cut, or the
   log would have a hole. The cleaner leaves the last batch of each segment, so this holds for a compacted log too; only
   below its `cleaned_offset` such a gap may be the work of another cleaner. Gaps between batches of a segment are no damage.
   One that reaches beyond where the next begins is cut there: it is of an older history. A file without a batch that does
   not fit among the others goes: the log was to begin anew there, and has what it had.
5. An index that is missing, damaged or does not agree with its log is built again. On a full disk it stays in memory until
   the next flush: no log needs room to be opened.
6. A segment whose log file is named `.swap` is whole, and takes the place of all that begin inside it; its indexes may be
   named `.cleaned` still. One whose log file is named `.cleaned` is not, and goes. A `.txnindex.swap` whose log has its name
   already is that log's. What goes is gone for good before a name is given: see `cleaner.py`.
7. The index of aborted transactions of a segment behind the recovery point, and of the last one, is built again. Of the
   others a file that is not sound is, and one that may have been lost.
8. Where a log that is not compacted has gaps above the recovery point it is sparse from then on.
9. Epochs and producers come from their files as far as these reach, and from the batches after that. State that claims
   offsets beyond the end is dropped. Without any snapshot there was no producer, unless one has left: then all batches are
   read. Where these batches are damaged, the log is opened and says so.
10. A log for which room or a descriptor is short is opened by another try. What one in vain has cut is told by that, and
   durable before anything is appended: the files say nothing of it any more.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from re import escape, fullmatch
from typing import NamedTuple

from actors.broker.log.directories.checkpoints import LEADER_EPOCHS, CorruptCheckpoint
from actors.broker.log.directories.directory import LEAVING
from actors.broker.log.history import Indexed, learn
from actors.broker.log.index_cache import IndexCache
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.log import PartitionLog
from actors.broker.log.producer_snapshots import SNAPSHOT
from actors.broker.log.producers.transaction_index import TRANSACTION_INDEX, CorruptTransactionIndex
from actors.broker.log.rotted_offsets import OFFSETS, mend
from actors.broker.log.segment import CLEANED, CUT, DELETED, FRONT, INDEX, LOG, NO_LIMIT, SWAP, TIME_INDEX, Job, Segment
from actors.broker.log.truncation import note_cut, rebuild_producers, truncate_fully
from actors.ports import Disk, DiskFailed, DiskFull
from actors.settings.topics import TopicSettings
from fastpath.records.batch import CorruptBatch
from fastpath.records.indexes import SegmentIndex

LEFTOVERS = (DELETED, CLEANED, ".tmp")
LEFT_SNAPSHOT = rf"[0-9]{{20}}{escape(SNAPSHOT)}(?:\.[0-9]+)?{escape(DELETED)}"
"""The name of a snapshot of producers that has left its log."""
LEFT_INDEX = rf"([0-9]{{20}}){escape(TRANSACTION_INDEX)}\..*{escape(DELETED)}"
"""The name of an index of aborted transactions that has left its log."""

NOTHING = 0, ""
"""What is known of a file that has not left."""

Lasts = dict[Segment, tuple[int, int]]
"""The result of `find_last` for each segment, before anything was cut."""


class RemovedBytes(NamedTuple):
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


Gone = dict[int, tuple[int, str]]
"""What names say of files that have left a log: base offset -> (the highest number, what follows `.log` in that name)."""


class Left(NamedTuple):
    """Log files that have left a log and are still there."""

    cut: Gone
    """Files that were cut off at the log's end."""
    front: Gone
    """Files that were in front of the log's start."""
    unsaid: Gone
    """Files that do not say which, as those of Apache Kafka and of earlier versions."""


class Mended:
    """What a start has changed of one log so far, if it has to be tried again."""

    __slots__ = ("cuts", "doubtful", "offsets")

    def __init__(self) -> None:
        """A start that has changed nothing yet."""
        self.doubtful: set[int] = set()
        """The base offsets of segments that may have lost an index of aborted transactions."""
        self.cuts: list[RemovedBytes] = []
        self.offsets: list[str] = []
        """Sentences about first offsets that were put back."""

    def __bool__(self) -> bool:
        return bool(self.cuts or self.offsets or self.doubtful)


class Recovered(NamedTuple):
    """A log, open for appends, and what happened to it."""

    log: PartitionLog
    cuts: tuple[RemovedBytes, ...]
    scanned_bytes: int
    rebuilt: tuple[str, ...] = ()
    """Sentences about first offsets of batches that were put back, and about indexes of aborted transactions that were
    damaged."""


def recover(
    disk: Disk,
    directory: str,
    settings: TopicSettings,
    *,
    clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_offset: int = -1,
    topic_id: bytes | None = None,
    now_ms: int = 0,
    indexes: IndexCache | None = None,
    instance: int = 0,
    mended: Mended | None = None,
) -> Recovered:
    """Open a log. `recovery_point`, `log_start_offset` and `cleaned_offset` (-1: none) are those of the checkpoints.
    `mended`: what earlier tries have changed, to which this one adds. Start-up only: it blocks.

    Raises DiskFailed, naming file and position, where the disk cannot be read; DiskFull: to be called again when there is
    room and a descriptor for it. Then no file is open.
    """
    log = PartitionLog(disk, directory, settings, topic_id, log_start_offset, indexes, instance)
    log.cleaned_offset = max(log.cleaned_offset, cleaned_offset)
    try:
        return _recovered(log, clean, recovery_point, now_ms, Mended() if mended is None else mended)
    except (DiskFull, DiskFailed):
        log.forget_indexes()
        log.release()
        raise


def _recovered(log: PartitionLog, clean: bool, recovery_point: int, now_ms: int, mended: Mended) -> Recovered:
    disk, directory, settings = log.disk, log.directory, log.settings
    log_start_offset = log.log_start_offset
    mended.doubtful |= _finish_swaps(log)
    bases, aborting, leftovers = _tidy(log)
    # A power cut may keep that an index has left, and not that its segment has.
    mended.doubtful |= {int(one[1]) for name in leftovers if (one := fullmatch(LEFT_INDEX, name))} - aborting
    if not bases:
        _remove(log, leftovers)
        if log_start_offset > 0:
            truncate_fully(log, log_start_offset, now_ms)
        else:  # a later start would take a snapshot of what is lost for one of what has come in its place
            log.snapshots.drop_above(-1, segments=0)
            log.refuse()
        if recovery_point > log.log_end_offset:
            log.generation += 1
            log.reach = recovery_point  # the checkpoints would have a start believe what is appended below it
        return Recovered(log, tuple(mended.cuts), 0, tuple(mended.offsets))
    for base in bases:
        log.segments.append(Segment(disk, directory, base, settings.index_interval_bytes, now_ms))
        log.segments[-1].is_new = not clean and base >= recovery_point
        if base in aborting:
            log.segments[-1].aborted.claim()
    lasts: Lasts = {}
    if len(bases) > 1 and not log.snapshots.offsets and not clean:
        # It says that there were producers until there is a snapshot again.
        log.snapshots.left = [name for name in leftovers if fullmatch(LEFT_SNAPSHOT, name)][:1]
        leftovers = [name for name in leftovers if name not in log.snapshots.left]
    left = Left(*(_numbers(leftovers, ending) for ending in (CUT, FRONT, DELETED)))
    log.names.go_on_from(max((number for number, _ in (*left.cut.values(), *left.front.values())), default=0))
    if not clean:
        _close_holes(log, recovery_point, left, lasts, mended.cuts)
        log.names.changes += 1  # as a process that was killed has left them: they go with the first flush
    scanned = _scan(log, NO_LIMIT if clean else recovery_point, mended, lasts)
    cuts = mended.cuts
    _remove(log, leftovers)
    log.active = log.segments[-1]
    log.active.learn_first_timestamp()
    log.log_start_offset = max(log_start_offset, log.segments[0].base_offset)
    if log.log_start_offset > log.log_end_offset:
        _unlink_all(truncate_fully(log, log.log_start_offset, now_ms))
        return Recovered(log, tuple(cuts), scanned, tuple(mended.offsets))
    log.cleaned_offset = min(log.cleaned_offset, log.log_end_offset)
    log.recovery_point = log.log_end_offset if clean and not cuts else min(recovery_point, log.log_end_offset)
    log.asked_offset = log.recovery_point
    log.checkpointed_offset = min(recovery_point, log.recovery_point)
    indexed: Indexed = {}
    learnt = NO_LIMIT
    try:
        learnt = _learn(log, clean, recovery_point, now_ms, indexed, lasts)
    except CorruptBatch as error:
        log.damaged = log.damaged or error.reason
    log.refuse()
    if log.shortened:
        log.generation += 1  # the checkpoints go with the flush: the log may reach their recovery point again
    unsure = NO_LIMIT if clean and not cuts else min(recovery_point, log.segments[-1].base_offset)
    damaged = _index_aborted(log, unsure, learnt, indexed, mended.doubtful)
    return Recovered(log, tuple(cuts), scanned, (*mended.offsets, *damaged))


def _finish_swaps(log: PartitionLog) -> set[int]:
    """Bring to its end what a crash has interrupted while a cleaned segment took the place of others. Returns the base
    offsets of segments that may have lost an index of aborted transactions."""
    names = log.disk.names(log.directory)
    cleaned = [int(one[:20]) for one in names if one[:20].isdecimal() and one.endswith(LOG + CLEANED)]
    whole = {int(one[:20]) for one in names if one[:20].isdecimal() and one[20:] == LOG + SWAP}
    # Apache Kafka may split one segment into several: then all of them count, or none. One that has taken its place already,
    # and is being cleaned again, is the only copy.
    alone = {base for base in whole & set(cleaned) if f"{base:020d}{LOG}" not in names}
    whole = alone | {base for base in whole if not cleaned or base < min(cleaned)}
    # The index of aborted transactions gets its name behind the log file: with that done, it alone is left to be renamed.
    named = {int(one[:20]) for one in names if one[:20].isdecimal() and one[20:] == LOG}
    named = {base for base in named - whole if not cleaned or base < min(cleaned)}
    doubtful = set[int]()
    for name in names:
        if not name.endswith(SWAP) or (name[:20].isdecimal() and int(name[:20]) in whole):
            continue
        path = f"{log.directory}/{name}"
        if name[20:] == TRANSACTION_INDEX + SWAP and name[:20].isdecimal() and int(name[:20]) in named:
            log.disk.rename(path, path.removesuffix(SWAP))
        else:
            log.disk.remove(path)
    for base in sorted(whole):
        for one in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
            path = f"{log.directory}/{base:020d}{one}"
            if f"{base:020d}{one}{CLEANED}" in names and f"{base:020d}{one}{SWAP}" not in names:
                log.disk.rename(path + CLEANED, path + SWAP)
        index = f"{base:020d}{TRANSACTION_INDEX}"
        if index in names and not {index + SWAP, index + CLEANED, f"{base:020d}{LOG}"} & set(names):
            doubtful.add(base)  # of the segment that has gone, or the new one's, which has its name already
        swap = Segment(log.disk, log.directory, base, log.settings.index_interval_bytes, 0, SWAP)
        try:
            end = swap.scan(SegmentIndex(base), 0, base, check_from=NO_LIMIT).next_offset
        finally:
            swap.close()
        for name in names:
            if (
                name[:20].isdecimal()
                and name[20:] in (LOG, INDEX, TIME_INDEX, TRANSACTION_INDEX)
                and base <= int(name[:20]) < max(end, base + 1)
            ):
                log.disk.remove(f"{log.directory}/{name}")
        log.disk.settle(log.directory)
        swap.rename("")
    if whole:
        log.disk.settle(log.directory)
    return doubtful


def _tidy(log: PartitionLog) -> tuple[list[int], set[int], list[str]]:
    """List a log's files: base offsets of the segments, rising, and of the segments with an index of aborted
    transactions; the names of what a crash left half done, to be removed. Notes the producer snapshots."""
    bases, others, aborting, leftovers = [], [], set(), []
    for name in log.disk.names(log.directory):
        stem, dot, ending = name.partition(".")
        if name.endswith(LEFTOVERS):
            leftovers.append(name)
        elif stem.isdecimal() and dot + ending == LOG:
            bases.append(int(stem))
        elif name == LEAVING:  # it is used on: if it leaves, then by another move
            log.disk.remove(f"{log.directory}/{name}")
        elif stem.isdecimal() and dot + ending == SNAPSHOT:
            log.snapshots.offsets.append(int(stem))
        elif stem.isdecimal() and dot + ending in (INDEX, TIME_INDEX, TRANSACTION_INDEX):
            others.append((int(stem), name))
            if ending == TRANSACTION_INDEX[1:]:
                aborting.add(int(stem))
    for base, name in others:
        if base not in bases:
            log.disk.remove(f"{log.directory}/{name}")
    log.snapshots.offsets.sort()
    return sorted(bases), aborting, leftovers


def _remove(log: PartitionLog, leftovers: list[str]) -> None:
    """Remove what has left the log, once these names are durable: the process that gave them may have been killed before
    they were. A power cut may bring records back else that were cut, or some of those in front, and nothing says which.
    Where only the start was moving a job does both (`PartitionLog.left_over`): retention may have been in thousands of logs,
    and syncs of all would hold up the start. Else it is done before anything is appended."""
    paths = [f"{log.directory}/{name}" for name in leftovers]
    if paths and log.segments and not log.sparse and all(_in_front(log, name) for name in leftovers):
        log.names.unlink_later(paths)
        return
    if paths:
        log.disk.settle(log.directory)
    for path in paths:
        log.disk.remove(path)


def _in_front(log: PartitionLog, name: str) -> bool:
    """Whether a file has left that was in front of the log's start, or a snapshot of there."""
    return name.endswith(FRONT) or (
        fullmatch(LEFT_SNAPSHOT, name) is not None and int(name[:20]) <= log.segments[0].base_offset
    )


def _close_holes(log: PartitionLog, trusted: int, left: Left, lasts: Lasts, cuts: list[RemovedBytes]) -> None:
    """Cut the log where offsets below `trusted` are missing between segments: the log was becoming shorter when the power
    was cut. Where an epoch falls the log is damaged: what was cut is back, or a bit has rotted, and nothing tells which.
    Adds to `lasts` what it has read of each segment, and to `cuts`."""
    _forget_empty(log, trusted, left)
    segments, front = log.segments, 0
    for segment in segments:
        lasts[segment] = segment.find_last()
    found = list(lasts.values())
    for place in range(len(segments) - 1):
        begin, end = segments[place + 1].base_offset, found[place][0]
        if end < trusted <= begin:
            end = _walked(segments[place], trusted, begin)
        if end >= begin or begin <= max(log.cleaned_offset, log.log_start_offset):
            continue
        was_cut, was_front = _way(left, segments[place], end)
        if end >= trusted:
            if was_front and _fill(log, left.front, found[place], (begin, found[place + 1][1])):
                front = place + 1
        elif was_front:
            front = place + 1
        elif was_cut or any(end <= base < begin for base in left.unsaid):
            _drop(log, place + 1, cuts)
            break
        else:
            log.damaged = f"offsets {end} to {begin - 1} are not there"
    for before, segment in pairwise(segments[front:]):
        if 0 <= lasts[segment][1] < lasts[before][1]:  # no CRC covers an epoch, so a bit that rotted looks the same
            name, epoch = segment.path(LOG), lasts[segment][1]
            said = f"{name} ends in leader epoch {epoch} and the segment before it in {lasts[before][1]}"
            log.damaged = log.damaged or said
    if front:
        ending = _ending(log, segments[:front], FRONT)
        _unlink_all([segment.delete(ending) for segment in segments[:front]])
        del segments[:front]


def _way(left: Left, segment: Segment, end: int) -> tuple[int, bool]:
    """What the names say of a hole behind a segment that ends at `end`: the number of the last cut there, 0 if there was
    none, and whether the start was moving."""
    was_cut = max((number for base, (number, _) in left.cut.items() if base >= end), default=0)
    return was_cut, end > segment.base_offset and left.front.get(end, NOTHING)[0] > was_cut


def _fill(log: PartitionLog, front: Gone, after: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether files that were in front fill the log from an offset to another, given with the epochs beside them: the last
    one of the segment that ends there, and of the one that begins there, -1 if it is empty."""
    (offset, epoch), (begin, last) = after, before
    while offset < begin and offset in front:
        segment = Segment(log.disk, log.directory, offset, log.settings.index_interval_bytes, 0, front[offset][1])
        try:
            end, found = segment.find_last()
        finally:
            segment.close()
        if end == offset or found < epoch:
            return False
        offset, epoch = end, found
    return offset == begin and (last < 0 or epoch <= last)


def _forget_empty(log: PartitionLog, trusted: int, left: Left) -> None:
    """Remove files without a batch that do not fit among the others, as the log was to begin anew there and a power cut has
    brought back what it had: those in front of others, below what was durable or inside what comes before them, and a last
    one that does not begin where the one before it ends. That stays where what has left in front of it fills the log up to
    there: all was too old, and nothing else says up to where the log had come."""
    *others, last = log.segments
    gone, before = list[Segment](), None
    for one in others:
        if one.size:
            before = one
        elif one.base_offset < trusted or (before is not None and before.find_last()[0] > one.base_offset):
            gone.append(one)
    others = [one for one in others if one not in gone]
    if others and not last.size and last.base_offset > log.cleaned_offset:
        found, begin = others[-1].find_last(), last.base_offset
        fits = found[0] == begin or (_way(left, others[-1], found[0])[1] and _fill(log, left.front, found, (begin, -1)))
        gone += [] if fits else [last]
    for segment in gone:
        segment.close()
        for path in segment.paths:
            log.disk.remove(path)
        log.segments.remove(segment)


def _ending(log: PartitionLog, segments: Sequence[Segment], ending: str) -> str:
    """The ending with which segments leave now: a power cut may bring the names back, beside those of the next change."""
    return log.names.ending((path for segment in segments for path in segment.paths), ending)


def _walked(segment: Segment, trusted: int, upper_offset: int) -> int:
    """The offset behind the last batch of a segment that reaches the offset `trusted`, or that offset where a batch is not
    sound: then it is not known where the segment ended."""
    index, position = segment.resume_index(trusted)
    found = segment.scan(index, position, segment.base_offset, check_from=NO_LIMIT, upper_offset=upper_offset)
    return found.next_offset if found.fault is None else max(trusted, found.next_offset)


def _numbers(names: list[str], ending: str) -> Gone:
    """The log files that have left with such an ending. The number before it (`Names.ending`) is 1 where there is none. One
    may have left before it had another name than `.swap`."""
    form = rf"([0-9]{{20}}){escape(LOG)}((?:{escape(SWAP)})?(?:\.([0-9]{{1,9}}))?{escape(ending)})"
    found: Gone = {}
    for one in filter(None, (fullmatch(form, name) for name in names)):
        found[int(one[1])] = max(found.get(int(one[1]), NOTHING), (int(one[3] or 1), one[2]))
    return found


def _scan(log: PartitionLog, trusted: int, mended: Mended, lasts: Lasts) -> int:
    """Check every batch from offset `trusted` on, remove what is not sound, and find the log's end. Adds to `mended`.
    Returns how many bytes were looked at."""
    segments, cuts, scanned = log.segments, mended.cuts, 0
    cut_before = {one.path for one in cuts}
    for place, segment in enumerate(segments):
        last = place == len(segments) - 1
        end = NO_LIMIT if last else segments[place + 1].base_offset
        if end < trusted and (segment not in lasts or lasts[segment][0] <= end):
            continue
        while True:
            index, position = segment.resume_index(trusted)
            found = segment.scan(index, position, segment.base_offset, check_from=trusted, upper_offset=end)
            scanned += found.position - position
            said = mend(segment, found.position, end, index) if found.fault in OFFSETS else None
            if said is None:
                break
            mended.offsets.append(said)
        segment.index = index
        log.log_end_offset = found.next_offset
        if (
            found.fault is not None
            and log.log_start_offset < end
            and found.next_offset < min(trusted, end)
            and not last
        ):
            # All of it was durable once. Cut off it would leave a hole that nobody sees; as it is, readers find out.
            log.damaged = f"{found.fault} at byte {found.position} of {segment.path(LOG)}"
        elif found.fault is not None:
            cut = RemovedBytes(segment.path(LOG), found.position, segment.size - found.position, found.fault)
            segment.log.truncate(found.position)
            cuts.append(cut)
            note_cut(log, segment)
        elif segment.path(LOG) in cut_before or (last and found.next_offset < trusted < NO_LIMIT):
            note_cut(log, segment)  # by a process that may have been killed before it was durable
        if not last and found.next_offset < end and found.next_offset >= trusted and end > log.cleaned_offset:
            _drop(log, place + 1, cuts)
            break
        if not last:
            segment.seal()
            with suppress(DiskFull):
                segment.write_index()
            log.indexes.touch(segment)
    return scanned


def _drop(log: PartitionLog, place: int, cuts: list[RemovedBytes]) -> None:
    jobs, removed = list[Job](), list[RemovedBytes]()
    ending = _ending(log, log.segments[place:], CUT)
    try:
        for segment in reversed(log.segments[place:]):
            one = RemovedBytes(segment.path(LOG), 0, segment.size, "behind")
            jobs.append(segment.delete(ending))
            removed.append(one)
    finally:
        cuts += reversed(removed)
    _unlink_all(jobs)
    del log.segments[place:]


def _unlink_all(jobs: list[Job]) -> None:
    for job in jobs:
        job()


def _learn_below(log: PartitionLog) -> None:
    """Learn the epochs of a compacted log below the first entry of its table. The table alone knows where an epoch
    began whose first batches are gone: it stays, and what is before it comes from the batches."""
    table, log.epochs = log.epochs, EpochCache()
    learn(log.segments, log.log_start_offset, epochs=log.epochs)
    log.epochs.truncate_end(table.starts[0])
    for epoch, start in zip(table.epochs, table.starts, strict=True):
        log.epochs.assign(epoch, start)


def _agreed(log: PartitionLog, offset: int, lasts: Lasts) -> int:
    """The offset, at most `offset`, up to which the table of epochs says what the batches say: a process that was
    killed may have cut the log, and let it grow again, and have written neither the table nor the checkpoints since."""
    for segment in log.segments:
        if segment.base_offset >= offset:
            break
        end, epoch = segment.find_last() if segment in log.shortened else lasts[segment]
        if epoch >= 0 and log.epochs.epoch_at(end - 1) not in (epoch, -1):
            return segment.base_offset
    return offset


def _learn(log: PartitionLog, clean: bool, recovery_point: int, now_ms: int, indexed: Indexed, lasts: Lasts) -> int:
    """Learn leader epochs and producers, from files and batches. Returns the offset from which on `indexed` has all
    that the batches say of aborted transactions."""
    path = f"{log.directory}/{LEADER_EPOCHS}"
    unsure = log.log_end_offset if clean else min(recovery_point, log.log_end_offset)
    try:
        file = log.disk.open(path)
        try:
            log.epochs = EpochCache.parse(file.read_cold(0, file.size))
        finally:
            file.close()
        # Behind the recovery point the batches say it, and an entry of the file may be in their way.
        unsure = unsure if clean else _agreed(log, unsure, lasts)
        log.epochs.truncate_end(unsure)
        log.epochs.truncate_start(log.log_start_offset)
        # The table may know of deleted records that the checkpoint has not heard of: they are there again.
        whole = log.epochs.epoch_at(log.log_start_offset) >= 0
    except (FileNotFoundError, CorruptCheckpoint):
        whole = False
    if not whole and log.sparse and log.epochs.epochs:
        _learn_below(log)
        whole = True
    if not whole:
        log.epochs = EpochCache()
    epochs_from = unsure if whole else log.log_start_offset
    if epochs_from < log.log_end_offset:
        gaps = learn(log.segments_from(epochs_from), epochs_from, epochs=log.epochs)
        if gaps and not log.sparse:
            log.cleaned_offset = log.log_start_offset  # a leader's log was compacted, though the topic is not
        log.epochs.truncate_start(log.log_start_offset)  # the log may begin inside a batch
    # Without any snapshot there was no producer when the segment of the last flushed batch began: a roll writes one, with
    # the flush that comes after it.
    log.snapshots.drop_above(log.log_end_offset, segments=len(log.segments))
    if clean and not log.snapshots.offsets:
        return NO_LIMIT
    begin = log.log_start_offset if log.snapshots.left else log.segments_from(unsure - 1)[0].base_offset
    return rebuild_producers(log, now_ms, begin, indexed)


def _index_aborted(log: PartitionLog, unsure: int, learnt: int, indexed: Indexed, doubtful: set[int]) -> list[str]:
    """Find the aborted transactions of each segment: in its file or in the batches. The batches are read of segments
    that reach offset `unsure`, are `doubtful` or have no sound file. Of segments from `learnt` on `indexed` has what
    these say. Returns sentences about files that are not sound."""
    reports = []
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        index, sound = segment.aborted, segment.base_offset not in doubtful
        if index.exists:
            try:
                index.found(end_offset=end, active=segment is log.active)
            except CorruptTransactionIndex as error:
                sound = False
                reports.append(f"{index.path} is damaged, and is built again: {error}")
        if not sound or (end > unsure and (index.exists or segment in indexed)):
            try:
                known = segment.base_offset >= learnt
                entries = indexed.get(segment, []) if known else log.aborted.built_again(segment)
            except CorruptBatch as error:
                log.damaged = log.damaged or error.reason
                entries = []
            if index.rebuild(entries):
                log.aborted.rebuilt.append(segment)
        if index.exists:
            log.aborted.segments.append(segment)
    return reports
