"""Small files of a log that are found damaged while it is open: each is made again from what the log and memory say.

`scrubbing.py` finds the damage. The file is written by the next flush, which the log wants soon.
"""

from actors.broker.log.aborted_search import built_again
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers.transaction_index import encode
from actors.broker.log.segment import Job, Segment


def aborted_again(log: PartitionLog, segment: Segment) -> Job:
    """The job that builds the index of aborted transactions of a segment from the log: the bytes of its file. Raises
    DiskFailed, CorruptBatch, FileNotFoundError."""
    disk, paths, segments = log.disk, log.snapshots.paths(), tuple(log.segments)
    return lambda: b"".join(map(encode, built_again(disk, paths, segments, segment)))


def tells_aborted(log: PartitionLog, segment: Segment) -> bool:
    """Whether the log has all that the index of aborted transactions of a segment is made from."""
    return not log.sparse and (segment.base_offset in log.snapshots.offsets or segment.base_offset == 0)


def replace_aborted(log: PartitionLog, segment: Segment, content: bytes) -> None:
    """Take `content` as the index of aborted transactions of a segment, whose own is damaged: the next flush, which the
    log wants soon, replaces the file."""
    if log.aborted.mend(segment, content):
        log.names.flush_wanted = True


def give_up_snapshot(log: PartitionLog, offset: int) -> None:
    """Remove a producer snapshot that is damaged. If it was the newest, the next flush writes one of what is in memory;
    the log wants one soon. Raises DiskFull, DiskFailed, Torn."""
    newest = offset == log.snapshots.offsets[-1]
    log.snapshots.retire([offset])
    if newest and not log.snapshots.pending:
        log.keep_producers(log.log_end_offset)
    log.names.flush_wanted = True


def write_epochs_again(log: PartitionLog) -> None:
    """Let the next flush, which the log wants soon, write the file of epochs, because it is damaged."""
    log.epochs.dirty = log.names.flush_wanted = True
