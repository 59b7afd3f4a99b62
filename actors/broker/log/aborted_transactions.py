"""The aborted transactions of a log, for its readers and for its cleaner.

This file alone decides how many entries of the indexes are looked at inside the loop. More, and what is not in memory, is a
job for a thread: `aborted_search.py`.
"""

from bisect import bisect_left

from actors.broker.log.aborted_search import AbortedFound, AbortedSearch, AllAborted, Content, IndexedSegment
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers.transaction_index import CorruptTransactionIndex, overlapping

ABORTED_BYTES_MAX = 256 << 10
"""The most bytes of entries of aborted transactions that a read looks at inside the loop: about 8,000 entries, and a
third of a millisecond."""


def aborted_transactions(log: PartitionLog, offset: int, upper_offset: int) -> list[tuple[int, int]] | AbortedSearch:
    """(producer id, first offset) of the aborted transactions with a record in `[offset, upper_offset)`; a job that
    finds them where they are not in memory, or many, or an index has to be built again."""
    if not log.aborted.segments:
        return []
    begin = log.segments[log.segment_of(offset)].base_offset
    place = bisect_left(log.aborted.segments, begin, key=lambda segment: segment.base_offset)
    found: list[tuple[int, int]] = []
    looked = 0
    for segment in log.aborted.segments[place:]:
        try:
            part = segment.aborted.candidates(offset, upper_offset, log.end_of(segment), cold=False)
        except CorruptTransactionIndex:
            part = None
        if part is not None:
            looked += len(part.rows)
        if part is None or looked > ABORTED_BYTES_MAX:
            return _aborted_search(log, place, offset, upper_offset)
        found += overlapping(part.rows, offset, upper_offset)
        if part.complete:
            break
    return found


def _aborted_search(log: PartitionLog, place: int, offset: int, upper_offset: int) -> AbortedSearch:
    parts = []
    for one in log.aborted.segments[place:]:
        index, end = one.aborted, log.end_of(one)
        known = index.candidates(offset, upper_offset, end, cold=False) if index.in_memory else None
        parts.append(IndexedSegment(one, end, known))
    segments, snapshots = tuple(log.segments), log.snapshots.paths()
    return AbortedSearch(tuple(parts), segments, snapshots, log.disk, log.generation, log.layout, offset, upper_offset)


def all_aborted(log: PartitionLog) -> AllAborted:
    """The job that reads every entry of the log."""
    contents = []
    for one in log.aborted.segments:
        known = one.aborted.read(cold=False) if one.aborted.in_memory else None
        contents.append(Content(one, log.end_of(one), None if known is None else bytes(known)))
    return AllAborted(tuple(contents), tuple(log.segments), log.snapshots.paths(), log.disk)


def take_rebuilt(log: PartitionLog, search: AbortedFound) -> bool:
    """Keep the indexes that a search has built again. Returns whether the log is still what it was when the search
    began."""
    if (search.generation, search.layout) != (log.generation, log.layout):
        return False
    for segment, entries, _ in search.rebuilt:
        log.aborted.mend(segment, entries)
    return True
