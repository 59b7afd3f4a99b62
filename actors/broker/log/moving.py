"""One replica on its way to another log directory of its broker: the future log, and when it takes the current one's place.

This file alone decides that (KIP-113). What is done outside the loop, and how fast, is the caller's: `look` says what is
next, and the caller tells how it ended. Rules:

1. The future log begins where the first file of the current log begins, with the producers that the current log has kept
   for that place: so it knows transactions that are open there.
2. It gets the same batches, each one checked, up to the end of the current log: also what is above the high watermark.
   Offsets are missing only where the current log was compacted: elsewhere a gap is damage, and the replica stays.
3. Where the current log was cut, the future log is cut to what the leader epochs show that both have. Where the current log
   has begun anew, or retention has outrun the copy, it begins anew too.
4. Its start follows the start of the current log, and segments below go. Nothing else is deleted from it or cleaned in it.
5. When it ends where the current log ends both get a mark of the move, and the future log is made durable, with leader
   epochs and producers as the current log has them, which may know of more than the batches say. Then, if meanwhile no more
   was asked to be durable of the current log, it takes the place in the same turn in which it has got the last batches.
6. What the future log says of itself is what was true of the bytes that were copied: it is clean as far as the current log
   was when it began to be filled, and that is not cleaned meanwhile. Before a restart it may have been, in part too, while
   the future log was away: records may be here whose tombstone is not there any more, and data whose abort marker is not.
   So what a start has found of a compacted log begins anew.
7. Whatever a crash leaves, the next start finds one of three: the current log and a future log, which is filled on; both
   under the plain name with marks of the same move, of which the one that has arrived has all that the other has; or the new
   one alone. A log that is opened again is not leaving any more: so the marks never speak of an older state. A log that has
   arrived names the moves before as well: a power cut may bring back the name of what it was moved from two moves ago.
"""

import enum
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from actors.broker.log.directories.directory import ARRIVED, LEAVING, MOVES_MAX, Replacement, move_mark, move_of
from actors.broker.log.leader_epochs import UNDEFINED_EPOCH, EpochCache
from actors.broker.log.log import OffsetsOutOfOrder, PartitionLog, Unmarked
from actors.broker.log.producers.producers import CorruptSnapshot, Producers
from actors.broker.log.reads import ColdRead
from actors.broker.log.retention import A_CHECK, drop_segments
from actors.broker.log.segment import Job
from actors.broker.log.truncation import Preparation, Prepared, fits, prepare_cut, truncate_fully, truncate_to
from actors.ports import Disk, DiskFailed
from fastpath.records.batch import CorruptBatch, Header, verify

SLICE_BYTES = 1 << 20
"""How many bytes are read outside the loop at a time."""
NEAR_BYTES = 256 << 10
"""How many bytes are copied inside the loop at a time, after a slice that was shorter."""


class MissingBatch(ValueError):
    """The current log has no whole batch where it should have one: it cannot be moved."""


class Stage(enum.Enum):
    """How far a move is."""

    FILLING = "the future log lacks batches"
    SETTLING = "it had all of them, and is being made durable"
    SETTLED = "it is durable as it was then"
    TAKEN = "it has taken the place"


class Copied(NamedTuple):
    """Checked batches of the current log."""

    offset: int
    """The offset at which the batches were to begin."""
    data: memoryview
    headers: Sequence[Header]
    generation: int
    seed: bytes | None
    """The producers' state at the beginning of the future log."""


class Copy(NamedTuple):
    """A job that reads and checks the next slice; its result is a Copied. Raises as `ColdRead` does."""

    read: ColdRead
    epochs: EpochCache
    """The epochs of the current log."""
    generation: int
    disk: Disk
    seed: bytes | str | None
    """The producers' state where the future log is to begin: its bytes, or the path of their snapshot."""

    def __call__(self) -> Copied:
        read = self.read
        data = read().data
        return Copied(
            read.offset, data, _checked(data, read.offset, read.sparse, self.epochs), self.generation, self._seed()
        )

    def _seed(self) -> bytes | None:
        if not isinstance(self.seed, str):
            return self.seed
        try:
            file = self.disk.open(self.seed)
        except FileNotFoundError:
            return None  # retention has come here: so will the next look
        try:
            return bytes(file.read_cold(0, file.size))
        finally:
            file.close()


def _checked(data: memoryview, offset: int, sparse: bool, epochs: EpochCache) -> list[Header]:
    """Batches that follow each other from `offset` on. The first may begin before it; only a `sparse` log may have gaps.

    No checksum covers a batch's first offset, length and epoch: damage of them shows beside the other batches and in the
    table of epochs, which says nothing of batches below the log's start. Raises CorruptBatch."""
    found, position, expected = list[Header](), 0, offset
    while position < len(data):
        header = verify(data, position)
        follows = header.base_offset >= expected or not found
        if not follows or (header.base_offset > expected and not sparse):
            raise CorruptBatch(position, f"a batch begins at {header.base_offset} where {expected} should be")
        epoch = epochs.epoch_at(header.base_offset)
        if epoch not in (UNDEFINED_EPOCH, header.epoch):
            raise CorruptBatch(position, f"a batch at {header.base_offset} is of epoch {header.epoch}")
        found.append(header)
        expected = header.last_offset + 1
        position += header.size
    return found


class Next(enum.Enum):
    """What is to be done besides jobs."""

    FLUSH = "make the future log durable: it was cut, and takes nothing before"
    MARK = "write `mark`, then `marked`"
    SETTLE = "make the future log durable as it is, then `settled`"
    TAKE_OVER = "`take_over`, in this turn"


class Move:
    """One move of a replica between log directories. Its caller opens and closes the future log."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        self.stage = Stage.FILLING
        self.jobs: list[Job] = []
        """Jobs that unlink files of the future log that are not needed any more; the caller takes them."""
        self.copied_bytes = 0
        self._generation = -1
        """The generation of the current log when the two logs were last compared."""
        self._near = False
        """Whether only little is missing, which was written a moment ago."""
        self._marked = False
        """Whether the current log's directory has the mark, durable."""
        self._filled = not future.size
        """Whether all that the future log has was copied by this process."""

    @property
    def lag(self) -> int:
        """How many offsets the future log is behind."""
        return self.current.log_end_offset - self.future.log_end_offset

    # ---- what is next

    def begin(self, now_ms: int) -> None:
        """Make the first file, by which the next start knows of the move. Raises DiskFull, DiskFailed."""
        self._compare(now_ms)
        self.future.begin_file(now_ms)

    def look(self, now_ms: int, bytes_max: int = SLICE_BYTES) -> Copy | Preparation | Next:
        """What is to be done next. `now_ms`: wall clock. `bytes_max`: the most bytes of a slice to read. Raises
        DiskFull, DiskFailed, which says whose disk it is where that is not the future log's."""
        current, future = self.current, self.future
        cut = self._compare(now_ms)
        if cut is not None:
            self.stage = Stage.FILLING
            return cut
        if future.shortened or future.reach:
            self.stage = Stage.FILLING
            return Next.FLUSH
        if self._near:
            self._copy_inside(now_ms, bytes_max)
        self._follow_start()
        if future.log_end_offset < current.log_end_offset:
            self.stage = Stage.FILLING
            return self._copy(bytes_max)
        if self.stage is Stage.SETTLED and self._may_take_over():
            return Next.TAKE_OVER
        if not self._marked:
            return Next.MARK
        self.stage = Stage.SETTLING
        future.begin_file(now_ms)
        _learn_from(future, current)
        return Next.SETTLE

    def mark(self) -> Replacement:
        """The small file that marks the current log's directory, to be written and synced."""
        current = self.current
        return current.disk, f"{current.directory}/{LEAVING}", move_mark(move_of(self.future.directory))

    def marked(self) -> None:
        """Note that the mark of the current log's directory is on the disk."""
        self._marked = True

    def settlement(self) -> Replacement:
        """The small file to be written with the flush with which the future log settles."""
        future = self.future
        return future.disk, f"{future.directory}/{ARRIVED}", move_mark(move_of(future.directory), self.current.moves)

    def settled(self) -> None:
        """Note that the flush with which the future log settles is done. What has come meanwhile was written a moment
        ago."""
        self.stage, self._near = Stage.SETTLED, True

    def again(self) -> None:
        """Go on after a job or a flush that has failed in a way that passes."""
        self.stage, self._near = Stage.FILLING, False

    # ---- what a job has found

    def take(self, copied: Copied, now_ms: int, high_watermark: int) -> None:
        """Append a slice to the future log; a slice is left out if the current log has been cut under it. Raises
        DiskFull, DiskFailed, MissingBatch."""
        current, future = self.current, self.future
        if copied.generation != current.generation or copied.offset != future.log_end_offset:
            return
        if not copied.headers:
            raise MissingBatch(
                f"{current.directory} ends at {current.log_end_offset} and has no batch at {copied.offset}"
            )
        first = copied.headers[0]
        if first.base_offset < future.log_end_offset:
            # The current log has begun anew in the middle of a batch, as a follower may.
            self._begin_anew(first.base_offset, now_ms)
            return
        if copied.seed is not None and not future.size:
            with suppress(CorruptSnapshot):  # then the batches say what there is
                _seed_producers(future, copied.seed)
        self._may_have_gaps()
        try:
            future.append_copied(copied.data, copied.headers, now_ms)
        except Unmarked:
            self._begin_anew(self._begin, now_ms)
            return
        self.copied_bytes += len(copied.data)
        future.producers.transactions.replicated(high_watermark)
        self._near = len(copied.data) < NEAR_BYTES

    def cut(self, job: Preparation, prepared: Prepared) -> None:
        """Cut the future log, after the job of that; if it has changed meanwhile, the next look cuts it."""
        if fits(self.future, job):
            self.jobs += truncate_to(self.future, job.offset, prepared)

    # ---- the end

    def take_over(self, high_watermark: int) -> None:
        """Give the future log the current one's name and place. Raises DiskFailed: it has neither."""
        _succeed(self.future, self.current)
        self.future.producers.transactions.replicated(high_watermark)
        self.stage = Stage.TAKEN

    def _may_take_over(self) -> bool:
        current, future = self.current, self.future
        return (
            future.recovery_point >= current.asked_offset
            and future.generation == future.durable_generation  # what was cut cannot come back
            and future.log_start_offset == current.log_start_offset
            and not future.aborted.rebuilt
        )

    # ---- inside

    def _compare(self, now_ms: int) -> Preparation | None:
        """Compare the two logs as rule 3 says; returns a cut that has to read first."""
        current, future, begin = self.current, self.future, self._begin
        if not self._filled and (current.sparse or future.sparse):
            self._begin_anew(begin, now_ms)
        self._filled = True
        if future.log_end_offset < begin or (not future.segments and future.log_end_offset != begin):
            self._begin_anew(begin, now_ms)
        if future.log_start_offset > current.log_start_offset:
            # The checkpoint of the current log's start was older than that of the future log's.
            if future.segments and future.segments[0].base_offset <= current.log_start_offset:
                future.log_start_offset = current.log_start_offset
            else:
                self._begin_anew(begin, now_ms)
        if current.generation == self._generation and future.log_end_offset <= current.log_end_offset:
            return None
        target = common_end(current, future)
        if target < future.log_end_offset:
            if target <= begin:
                self._begin_anew(begin, now_ms)
            else:
                job = prepare_cut(future, target)
                if job is not None:
                    return job
                self.jobs += truncate_to(future, target)
        self._generation = current.generation
        return None

    @property
    def _begin(self) -> int:
        """Begin the future log where its first segment is to begin: with the segment that holds the start. A power cut
        may have brought others back in front of it, and a hole behind them."""
        current = self.current
        if not current.segments:
            return current.log_start_offset
        return current.segments_from(current.log_start_offset)[0].base_offset

    def _begin_anew(self, offset: int, now_ms: int) -> None:
        self.jobs += truncate_fully(self.future, offset, now_ms)
        self.future.cleaned_offset = self.current.cleaned_offset
        self._near = False

    def _follow_start(self) -> None:
        current, future = self.current, self.future
        start = min(current.log_start_offset, future.log_end_offset)
        if start > future.log_start_offset:
            future.delete_records(start)
        ends = [segment.base_offset for segment in future.segments[1:]]
        below = sum(end <= future.log_start_offset for end in ends)
        if below:
            # Retention takes the rest, or the next look: thousands would hold up the loop.
            self.jobs += drop_segments(future, min(below, A_CHECK))

    def _may_have_gaps(self) -> None:
        current, future = self.current, self.future
        if not future.size or (current.sparse and not future.sparse):
            future.cleaned_offset = current.cleaned_offset if not future.size else future.log_start_offset

    def _copy_inside(self, now_ms: int, bytes_max: int) -> None:
        current, future, left = self.current, self.future, min(NEAR_BYTES, bytes_max)
        self._may_have_gaps()
        while left > 0 and current.log_start_offset <= future.log_end_offset < current.log_end_offset:
            # What is wrong with the current log the job finds too, and then it is known whose fault it is. That its device
            # has failed is said at once.
            try:
                read = current.read(future.log_end_offset, left)
            except DiskFailed as error:
                error.disk = error.disk or current.disk
                raise
            except (CorruptBatch, FileNotFoundError):
                break
            if read is None:
                break
            try:
                headers = _checked(read.data, future.log_end_offset, current.sparse, current.epochs)
                if not headers:
                    break
                future.append_copied(read.data, headers, now_ms)
            except (CorruptBatch, OffsetsOutOfOrder, Unmarked):
                break
            self.copied_bytes += len(read.data)
            left -= len(read.data)

    def _copy(self, bytes_max: int) -> Copy:
        current, offset = self.current, self.future.log_end_offset
        seed = None if self.future.size else current.snapshots.kept(offset)
        # What comes behind the present end may be of an epoch that the table does not know yet.
        read = current.cold_read(offset, min(bytes_max, SLICE_BYTES), current.log_end_offset)
        return Copy(read, current.epochs.copy(), current.generation, current.disk, seed)


def common_end(current: PartitionLog, future: PartitionLog) -> int:
    """The offset up to which both logs have the same, as their leader epochs show (KIP-101, KIP-279)."""
    end = min(future.log_end_offset, current.log_end_offset)
    epochs = future.epochs
    for epoch, start in zip(reversed(epochs.epochs), reversed(epochs.starts), strict=True):
        if start >= end and start > future.log_start_offset:
            continue
        known = current.end_offset_for_epoch(epoch)
        if known.epoch == epoch:
            return min(end, known.end_offset)
        end = min(end, start)
    return end


def _seed_producers(future: PartitionLog, content: bytes) -> None:
    """Let a log, which is empty, begin with the state that a snapshot of this offset has. Raises CorruptSnapshot."""
    future.producers = Producers.parse(content)
    future.snapshots.pending[future.log_end_offset] = content


def _learn_from(future: PartitionLog, current: PartitionLog) -> None:
    """Take over epochs and producers of a log that ends where this one does, and write them with the next flush."""
    _take_epochs(future, current)
    before, future.producers = future.producers, Producers.parse(current.producers.snapshot())
    future.producers.heard(before, -1)
    future.producers.heard(current.producers, -1)
    if future.producers.by_id or future.snapshots:
        future.keep_producers(future.log_end_offset)


def _take_epochs(future: PartitionLog, current: PartitionLog) -> None:
    mine, others = future.epochs, current.epochs
    if (mine.epochs, mine.starts) != (others.epochs, others.starts):
        future.epochs = others.copy()
        future.epochs.dirty = True


def _succeed(future: PartitionLog, current: PartitionLog) -> None:
    """Take the place of a log that ends where the future one does, under its name. Until the next flush no more counts
    as durable than did there, since the future log's name may not be on the disk. Raises DiskFull, DiskFailed: nothing
    has changed."""
    move = move_of(future.directory)
    future.names.move(current.directory)
    future.moves = (move, *current.moves)[:MOVES_MAX]
    for segment in future.segments:
        segment.moved(future.directory)
    _take_epochs(future, current)
    future.producers = current.producers
    future.damaged = current.damaged
    future.recovery_point = min(future.recovery_point, current.recovery_point)
    future.asked_offset = min(future.asked_offset, future.recovery_point)
    # Whoever has read the other log must not go on as if it were this one; and a flush carries the checkpoints.
    future.generation = max(future.generation, current.generation) + 1
    future.layout = max(future.layout, current.layout) + 1
    future.names.flush_wanted = True
