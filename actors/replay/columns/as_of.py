"""The metadata as of an offset or a time: an image, from the newest checkpoint before that and the log behind it.

This file alone decides what `as of` means. Rules:

1. As of an offset: all records below it. As of a time: all batches up to the first that was appended later.
2. The changes of a metadata transaction that is still open are not included (KIP-868).
3. A log whose beginning is gone needs a checkpoint that reaches into it, else NothingToRead is raised. Nothing is
   guessed. A log that begins at offset 1 lacks nothing: record 0 is the first leader's announcement of itself.
4. Offsets that are missing between two batches are damage, reported at the second batch.
5. The leader is the controller that announced itself last. Where a checkpoint stands for that announcement, it is whom
   quorum-state names for the epoch of the last batch, if it does.
6. With `damage="skip"` a batch that cannot be read or replayed is reported and skipped, from the first record on that
   was not replayed.
"""

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from actors.metadata.batches import KRaftVersion, LeaderChange, SnapshotHeader, Voters, controls, is_control
from actors.metadata.dialects import FORMAT, Dialect, dialect
from actors.metadata.image import Image
from actors.metadata.ops import NOTHING, Block, CorruptMetadata, Extra, Op, PartitionsChanged, PartitionsSet
from actors.metadata.snapshot import load
from actors.ports import Batch, Buffer
from actors.replay.columns.moment import Moment, QuorumRecords
from actors.replay.logs import files
from actors.replay.logs.chunks import CODEC, CONTROL, BatchRun, ChunkReading, batches
from actors.replay.logs.copies import metadata_log
from actors.replay.logs.files import Checkpoint, CorruptLog, Headers, NothingToRead, Partition, mapped, repeated
from actors.wire.batch_header import COUNT, LAST_OFFSET_DELTA, LENGTH, SIZE_BYTES
from fastpath.bytes.varint import VarintError, decode_varint
from fastpath.records.batch import HEADER_SIZE, CorruptBatch

RUN_RECORDS = 50_000

LogPiece = tuple[Path, memoryview, int]
"""A file of a log, its bytes, and the position of the first batch in it that is wanted."""

AsOf = int | datetime.datetime | None
"""An offset (exclusive), a time (inclusive), None: the end of the log."""


class Met(NamedTuple):
    """Adjacent batches of a file. Their ops are not replayed yet."""

    path: Path
    headers: Headers
    batch: Batch
    """All of the batches, as one batch."""
    ops: list[tuple[int, Op]]

    def position(self, offset: int) -> int:
        """The position in the file of the batch that holds an offset."""
        at = int(np.searchsorted(self.headers["base_offset"], offset, side="right")) - 1
        return int(self.headers[max(at, 0)]["position"])


class Replay:
    """An image that is being built from a metadata log."""

    def __init__(self, log: Partition, family: str, reading: ChunkReading, until: AsOf = None) -> None:
        self.log = log
        self.family = family
        self.reading = reading
        self.until = until
        self.image = Image()
        self.quorum = QuorumRecords()
        self.run_records = RUN_RECORDS
        """About how many records of batches are read as one."""
        self._data: dict[Path, memoryview] = {}

    def open(self) -> "Replay":
        """Map all files, so that they can be read though a node removes them. Raises FileNotFoundError for one that is gone
        already: list the log again then."""
        self._data = {path: mapped(path) for path in self.log.files}
        return self

    def run(self) -> "Replay":
        """Replay everything up to `until`. Raises FileNotFoundError only as `open`, before anything is replayed."""
        for met in self.batches():
            self.replay(met)
            self.image.commit(self.image.next_offset)
        self.close()
        if self.quorum.leader_id < 0:
            self.quorum = self.quorum._replace(leader_id=files.leader_of(self.log, self.quorum.epoch))
        return self

    def moment(self) -> Moment:
        """What was replayed."""
        return Moment.of(self.image, self.quorum)

    def close(self) -> None:
        """Undo the changes of a transaction that is still open."""
        if self.image.open_transaction >= 0:
            end = self.image.next_offset
            self.image.undo(self.image.open_transaction)
            self.image.advance(end)

    def replay(self, met: Met) -> None:
        """Replay batches into the image. Nothing is committed."""
        self.replay_ops(met, met.ops)
        self.image.advance(max(self.image.next_offset, met.batch.last_offset + 1))

    def replay_ops(self, met: Met, ops: Sequence[tuple[int, Op]]) -> bool:
        """Replay some ops of a batch into the image. Returns whether all were replayed: if not, what is left of the batch is
        skipped."""
        try:
            for offset, op in ops:
                self.image.replay(offset, op)
        except CorruptMetadata as error:
            self._damaged(met, error.offset, str(error))
            return False
        return True

    def batches(self) -> Iterator[Met]:
        """Load the checkpoint, then yield every batch behind it. The caller must replay each before it asks for the
        next."""
        start = self.begin()
        yield from self.read(self.pieces(start), start)

    def begin(self) -> int:
        """Load the checkpoint, if there is one. Returns the offset from which on the log is needed. Raises NothingToRead if
        the log does not reach back that far."""
        if not self._data:
            self.open()
        loaded = self._load()
        if loaded is None and not self.log.segments:
            raise NothingToRead(
                f"{self.log.files[0].parent} holds no log, and no checkpoint up to that moment that can be read: "
                f"ask for a later moment."
            )
        start = loaded or 0
        if loaded is None and self.log.segments[0].base_offset == 1:
            start = 1
        if self.log.segments and self.log.segments[0].base_offset > start:
            raise NothingToRead(
                f"{self.log.segments[0].path.parent} begins at offset {self.log.segments[0].base_offset} and no "
                f"checkpoint there says what was before: ask for a later moment, or give a directory that has one."
            )
        return start

    def pieces(self, start: int) -> list[LogPiece]:
        """The files that have records from an offset on."""
        segments = [one for one in self.log.segments if not 0 <= one.next_offset <= start]
        return [(one.path, self._data[one.path], 0) for one in segments]

    def read(self, pieces: Iterable[LogPiece], start: int) -> Iterator[Met]:
        """Yield every batch of these files from offset `start` on, up to `until`. The caller must replay each before it asks
        for the next."""
        for path, data, position in pieces:
            for found in batches(path, self.reading, position, data=data):
                within = self._until(found.headers)
                yield from self.more(path, found._replace(headers=found.headers[within]), start)
                if not within.all():
                    return

    def more(self, path: Path, found: BatchRun, start: int) -> Iterator[Met]:
        """Yield batches that lie in memory, from offset `start` on. The caller must replay each before it asks for the
        next."""
        headers = found.headers
        for run in self._runs(headers[headers["last_offset"] >= start], start):
            yield self._met(path, found, run, start)

    def _runs(self, headers: Headers, start: int) -> list[Headers]:
        """Join batches that can be read as one. A batch that must be cut, or may be skipped, stays alone."""
        if not len(headers):
            return []
        alone = (headers["attributes"] & (CONTROL | CODEC) != 0) | (headers["base_offset"] < start)
        if isinstance(self.until, int):
            alone |= headers["last_offset"] >= self.until
        if self.reading.damage == "skip":
            alone[:] = True
        ends = headers["position"] + headers["size"]
        sizes = np.cumsum(headers["count"], dtype=np.int64) // self.run_records
        apart = (
            alone[:-1]
            | alone[1:]
            | (ends[:-1] != headers["position"][1:])
            | (headers["last_offset"][:-1] + 1 != headers["base_offset"][1:])
            | (sizes[:-1] != sizes[1:])
        )
        return np.split(headers, np.flatnonzero(apart) + 1)

    def _until(self, headers: Headers) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Which batches lie before `until`. After the first that does not, no batch does."""
        if self.until is None:
            return np.ones(len(headers), dtype=bool)
        if isinstance(self.until, int):
            within = headers["base_offset"] < self.until
        else:
            within = headers["max_timestamp"] <= milliseconds(self.until)
        return np.logical_and.accumulate(within)

    def _met(self, path: Path, found: BatchRun, headers: Headers, start: int) -> Met:
        position, end = int(headers[0]["position"]), int(headers[-1]["position"] + headers[-1]["size"])
        base, last = int(headers[0]["base_offset"]), int(headers[-1]["last_offset"])
        whole = found.data[position - found.origin : end - found.origin]
        piece: Buffer = whole
        if isinstance(self.until, int) and last >= self.until:
            with suppress(VarintError):  # decoding the whole batch gives a better error
                piece = shortened(whole, self.until - base)
            last = self.until - 1
        met = Met(path, headers, Batch(base, last, int(headers[-1]["epoch"]), piece), [])
        if base > max(self.image.next_offset, start):
            missing = f"the records from offset {self.image.next_offset} to {base - 1} are missing"
            self.reading.damaged(path, position, position, missing)
        time = int(headers[-1]["max_timestamp"])
        self.quorum = self.quorum._replace(epoch=met.batch.epoch, timestamp_ms=time)
        try:
            if headers[0]["attributes"] & CONTROL:
                self._control(met.batch)
                return met
            ops = list(self.dialect.decode(met.batch))
        except CorruptBatch as error:
            self._damaged(met, base, str(error))
            return met
        except CorruptMetadata as error:
            self._damaged(met, error.offset, str(error))
            return met
        return met._replace(ops=ops if base >= start else list(behind(ops, start)))

    @property
    def dialect(self) -> Dialect:
        """The dialect of the next batch."""
        level = self.image.feature(FORMAT) if self.family == "drafts" else 0
        return _dialect(level or self.family)

    def _control(self, batch: Batch) -> None:
        for _, control in controls(batch.data):
            if isinstance(control, LeaderChange):
                self.quorum = self.quorum._replace(leader_id=control.leader_id)
            elif isinstance(control, KRaftVersion):
                self.quorum = self.quorum._replace(kraft_version=control.version)
            elif isinstance(control, Voters):
                self.quorum = self.quorum._replace(voters=control)

    def _load(self) -> int | None:
        """Load the newest checkpoint that is not past `until`. Returns the offset from which the log is needed; None:
        there is no checkpoint."""
        for one in sorted(self.log.checkpoints, key=lambda one: one.end_offset, reverse=True):
            data = self._data[one.path]
            image = Image()
            try:
                if not self._before(one, data):
                    continue
                loaded = load(data, image, one.end_offset, self.family)
            except CorruptLog as error:
                self.reading.damaged(one.path, 0, len(data), error.reason)
                continue
            except CorruptMetadata as error:
                self.reading.damaged(one.path, 0, len(data), str(error))
                continue
            self.reading.on_progress(len(data))
            self.image = image
            self.quorum = QuorumRecords(-1, one.epoch, loaded.last_timestamp_ms, loaded.voters, loaded.kraft_version)
            return one.end_offset
        return None

    def _before(self, checkpoint: Checkpoint, data: memoryview) -> bool:
        """Whether a checkpoint is not past `until`, and the log continues where it ends."""
        if self.log.segments and checkpoint.end_offset < self.log.segments[0].base_offset:
            return False
        if self.until is None or isinstance(self.until, int):
            return self.until is None or checkpoint.end_offset <= self.until
        return last_contained_ms(checkpoint.path, data) <= milliseconds(self.until)

    def _damaged(self, met: Met, offset: int, reason: str) -> None:
        position = met.position(offset)
        self.reading.damaged(met.path, position, position + len(met.batch.data), reason)


def replay(
    path: str | Path, as_of: AsOf = None, family: str | None = None, reading: ChunkReading | None = None
) -> Replay:
    """The metadata under a path as of an offset or a time."""
    return opened(lambda: metadata_log(path), family, reading or ChunkReading(), as_of).run()


def opened(listed: Callable[[], Partition], family: str | None, reading: ChunkReading, until: AsOf = None) -> Replay:
    """A log that is listed by `listed`, with all of its files mapped. It is listed again if one has vanished in between, as
    a node removes old checkpoints and segments."""

    def look() -> Replay:
        log = listed()
        return Replay(log, files.family(log, family), reading, until).open()

    return repeated(look)


def milliseconds(time: datetime.datetime) -> int:
    """A time as milliseconds since 1970. A time without a zone is UTC."""
    aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    return (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(milliseconds=1)


def time_of(milliseconds_: int) -> datetime.datetime:
    """The time so many ms after 1970. Times beyond the calendar become its last or first one: any client may write them."""
    first, last = milliseconds(datetime.datetime.min), milliseconds(datetime.datetime.max)
    since = datetime.timedelta(milliseconds=min(max(milliseconds_, first), last))
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + since


def last_contained_ms(path: Path, data: memoryview) -> int:
    """The time, in ms, of the last record that a checkpoint covers. `data`: its bytes. Raises CorruptLog."""
    try:
        if len(data) and is_control(data):
            for _, control in controls(data):
                if isinstance(control, SnapshotHeader):
                    return control.last_contained_timestamp_ms
    except (CorruptBatch, CorruptMetadata) as error:
        raise CorruptLog(str(path), 0, str(error)) from error
    raise CorruptLog(str(path), 0, "a checkpoint begins with its header")


def behind(ops: Iterable[tuple[int, Op]], start: int) -> Iterator[tuple[int, Op]]:
    """The ops from offset `start` on."""
    for offset, op in ops:
        if offset >= start:
            yield offset, op
        elif isinstance(op, PartitionsSet | PartitionsChanged) and offset + len(op) > start:
            block = Block()
            for state in list(op)[start - offset :]:
                extra = Extra(*state[8:])
                block.append(*state[:8], extra=None if extra == NOTHING else extra)
            yield start, PartitionsSet.of(block) if isinstance(op, PartitionsSet) else PartitionsChanged(block)


def shortened(piece: memoryview, count: int) -> bytes:
    """An uncompressed batch as if it ended behind its first `count` records. Its CRC does not match any more."""
    at = HEADER_SIZE
    for _ in range(count):
        size, at = decode_varint(piece, at)
        at += size
    cut = bytearray(piece[:at])
    cut[LENGTH] = (at - SIZE_BYTES).to_bytes(4, "big")
    cut[LAST_OFFSET_DELTA] = (count - 1).to_bytes(4, "big")
    cut[COUNT] = count.to_bytes(4, "big")
    return bytes(cut)


@cache
def _dialect(which: int | str) -> Dialect:
    return dialect(which)
