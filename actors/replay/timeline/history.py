"""`replay.History`: a metadata log over time. Any moment of it, what changed, and when.

    history = replay.History(path)                 one pass over a log; marks and pins are made on the way
    history.at(1998182), history.at(time)          -> Moment: exactly as `state(as_of=...)` is there
    history.now, history.at(None)                  -> the last moment, by the same way
    history.table("partitions", at=time)           -> pyarrow.Table
    history.changes(since, until, kinds)           -> Iterator[pyarrow.RecordBatch], as `replay.changes`
    history.pins, history.marks()                  -> the moments that are at hand, what happened
    history.append(records), history.catch_up()    -> the log has grown: bytes of batches, or in the directory

This file alone decides how a moment is reached. Rules:

1. A pin (`pins.py`) costs nothing. Any other moment begins as a copy of the last pin before it, which shares its memory
   until it is written, and what the log holds between the pin and the moment is replayed into the copy.
2. The history begins where the log does; if the beginning is gone, at the oldest checkpoint that the log goes on from.
   Moments before that raise NothingToRead.
3. While a metadata transaction is open there is no pin, and a moment in it is as before it (KIP-868).
4. One thread at a time opens, appends and closes. Any number of threads read meanwhile: what they are given is never
   changed.
"""

import datetime
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.metadata.image import Image
from actors.ports import Buffer
from actors.replay.columns import history as changes
from actors.replay.columns import tables
from actors.replay.columns.as_of import AsOf, Met, Replay, milliseconds, opened
from actors.replay.columns.history import KINDS
from actors.replay.columns.moment import Moment, QuorumRecords
from actors.replay.logs import files
from actors.replay.logs.chunks import BatchRun, ChunkReading
from actors.replay.logs.copies import metadata_log
from actors.replay.logs.files import Damage, NothingToRead, Partition
from actors.replay.timeline.marks import Mark, Marks
from actors.replay.timeline.pieces import APPENDED, LogPieces, LogPlace
from actors.replay.timeline.pins import BYTES_MAX, STEP, PinnedMoment, Pins, before, until
from fastpath.records.scan import scan

AT_HAND = 4
"""How many moments between pins are remembered, since several tables of one are asked for."""


class PinInfo(NamedTuple):
    """A moment that costs nothing."""

    offset: int
    time_ms: int
    """The time of the last batch before it, in ms since 1970."""


class LogPieceImage(NamedTuple):
    """An image into which a piece of a log was replayed, and nothing of it was committed."""

    image: Image
    starts: NDArray[np.int64]
    """The first offset of each of its batches."""
    times: NDArray[np.int64]
    """The time of each of them, in ms since 1970."""

    def time_ms(self, offset: int) -> int:
        """The time of the batch with an offset, in ms since 1970."""
        return int(self.times[int(np.searchsorted(self.starts, offset, side="right")) - 1])


class History:
    """A metadata log over time, from files or as it comes."""

    def __init__(
        self,
        path: str | Path,
        family: str | None = None,
        *,
        verify: bool = True,
        on_damage: Callable[[Damage], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
        pins_bytes_max: int = BYTES_MAX,
        step: int = STEP,
    ) -> None:
        """Read the log under a path to its end. `on_progress`: called with the number of bytes read since the last call.
        `pins_bytes_max`: what the pins may hold besides what the present does, in bytes. `step`: records between two pins,
        while the bound allows. Raises NothingToRead, CorruptLog, FamilyUnknown, FileNotFoundError."""
        reading = ChunkReading.of(verify, on_damage)
        self._reading = reading._replace(on_damage=lambda _: None)
        """How bytes are read that were read before: what is damaged in them was told."""
        if on_progress is not None:
            reading = reading._replace(on_progress=on_progress)
        found = opened(lambda: metadata_log(path), family, reading)
        path = Path(path)
        self._where = path if path.is_file() else found.log.directory
        self._log = found.log
        self._family = found.family
        self._pins = Pins(pins_bytes_max, step)
        self._marks = Marks()
        self._leaders: dict[int, int] = {}
        """epoch of the quorum -> its leader, where only quorum-state names it; -1: it does not"""
        self._at_hand: OrderedDict[AsOf, Moment] = OrderedDict()
        self._lock = threading.Lock()
        """Held by the thread that opens, appends or closes."""
        self._time_max_ms = 0
        self._found = found
        """The image that goes with the log, and how it is read."""
        self._is_broken = False
        """Whether bytes were appended that could not be replayed to their end."""
        self._now_before = -1
        """The open transaction before which `now` is; -1: it is the last pin."""
        with self._lock:
            self._open()

    # ---- moments

    @property
    def family(self) -> str:
        """The family of the log's records: `drafts` or `released`."""
        return self._family

    @property
    def now(self) -> Moment:
        """The last moment."""
        return self._now

    @property
    def first(self) -> Moment:
        """The earliest moment: nothing, or a checkpoint."""
        return self._pins.all[0].moment

    @property
    def pins(self) -> list[PinInfo]:
        """The moments that cost nothing, by offset; the last is now."""
        return [PinInfo(one.offset, one.moment.time_ms) for one in self._pins.all]

    @property
    def kept(self) -> list[Moment]:
        """The moments that are kept, by offset. Topics have the same rows in all of them. Ask them only for what they need
        not remember (`Moment.copy`)."""
        return [one.moment for one in self._pins.all]

    @property
    def pins_bytes(self) -> int:
        """What the pins hold besides what the present does, in bytes: about."""
        return self._pins.bytes

    def at(self, when: AsOf = None) -> Moment:
        """The metadata as of an offset (exclusive), a time (inclusive; without a zone it is UTC), or now. Raises
        NothingToRead for a moment before the beginning of the history, FileTruncated and CorruptLog if the files cannot be
        read again."""
        if when is None:
            return self._now
        kept, is_last = self._kept(when)
        if is_last and self._now.offset == kept.offset:
            return self._now
        moment = self._at_hand.get(when)
        if moment is None:
            moment = kept.moment.copy() if kept.offset == when else self._replayed(kept, when)
            if not is_last:  # what lies between two pins stays as it is
                self._remember(when, moment)
        return moment

    def table(self, name: str, at: AsOf = None) -> pa.Table:
        """One table (`replay.TABLES`) of a moment. Raises ValueError for a name that does not exist, else as `at`."""
        return tables.table(name, self.at(at))

    def state(self, as_of: AsOf = None, names: Sequence[str] | None = None) -> dict[str, pa.Table]:
        """One Arrow table for each name, all of them or the given ones, as `replay.state`. Raises as `table`."""
        moment = self.at(as_of)
        return tables.Tables({name: tables.table(name, moment) for name in (tables.TABLES if names is None else names)})

    def _kept(self, when: int | datetime.datetime) -> tuple[PinnedMoment, bool]:
        """The last pin before a moment, and whether there is none behind it."""
        pins = self._pins.all
        found = before(pins, when) if isinstance(when, int) else until(pins, milliseconds(when))
        if found is None:
            found = pins[0]
            if found.offset:
                raise NothingToRead(
                    f"{self._where} says nothing of what was before offset {found.offset}: its beginning was deleted. "
                    f"Ask for a later moment."
                )
        return found, found is pins[-1]

    def _remember(self, when: AsOf, moment: Moment) -> None:
        with self._lock:
            self._at_hand[when] = moment
            while len(self._at_hand) > AT_HAND:
                self._at_hand.popitem(last=False)

    def _replayed(self, kept: PinnedMoment, until: AsOf) -> Moment:
        found = self._copy(kept, until)
        for met in self._behind(kept, found):
            found.replay(met)
        found.close()
        return self._moment(found.image, found.quorum)

    def _copy(self, kept: PinnedMoment, until: AsOf) -> Replay:
        """A pin as an image of its own, and how the log is read on from there."""
        found = Replay(self._log, self._family, self._reading, until)
        found.image = Image.thawed(kept.moment.pin, kept.moment.counters)
        found.quorum = kept.moment.quorum
        return found

    def _behind(self, kept: PinnedMoment, found: Replay) -> Iterator[Met]:
        """The batches behind a pin. `found`: its copy, which replays them. Behind the pin at 0 a log that begins at offset 1
        lacks nothing."""
        return found.read(self._pieces.since(kept.place), max(kept.offset, self._start))

    # ---- what changed

    def marks(self, kinds: Sequence[str] | None = None) -> list[Mark]:
        """What happened (`marks.py`), by offset: of all kinds, or of these. Raises ValueError for a kind that does not
        exist."""
        return self._marks.of(kinds)

    def newest_marks(self, kind: str, moment: Moment) -> list[Mark]:
        """The marks of a kind that is not of partitions up to a moment, by offset, as far back as each is known as it was
        made."""
        return [one for one in self._marks.newest(kind) if one.offset < moment.offset]

    def changes(self, since: AsOf = None, until: AsOf = None, kinds: Sequence[str] = KINDS) -> Iterator[pa.RecordBatch]:
        """Changes of these kinds from `since` on (offset or time, inclusive) to `until` (as in `at`), as
        `replay.changes`, read from the last pin before `since`. Raises FileTruncated, CorruptLog, and ValueError."""
        changes.known(kinds)
        try:
            kept = self._pins.all[0] if since is None else self._kept(_just_before(since))[0]
        except NothingToRead:
            kept = self._pins.all[0]
        found = self._copy(kept, until)
        yield from changes.gathered(found, self._behind(kept, found), since, kinds)

    def piece(self, since: int, until: int) -> "LogPieceImage":
        """The state at `until`, with all that a piece of the log has changed and could undo. `since`: the offset of a pin,
        now or before. Raises FileTruncated, CorruptLog."""
        kept = self._kept(since)[0]  # an earlier one, if that pin was let go meanwhile
        found = self._copy(kept, until)
        starts, times = [], []
        for met in self._behind(kept, found):
            found.replay(met)
            starts.append(met.headers["base_offset"])
            times.append(met.headers["max_timestamp"])
        found.close()
        found.image.commit(since)
        return LogPieceImage(found.image, _joined(starts), _joined(times))

    # ---- the log grows

    def append(self, records: Buffer) -> int:
        """Take whole batches that follow the last one. Returns how many records came. Raises ValueError for bytes that are
        no sound batches or do not follow, and OSError; nothing was taken then. Raises CorruptLog for a record that cannot
        be replayed; what came before it was taken then, and nothing is any more."""
        with self._lock:
            if self._is_broken:
                raise ValueError("a record was appended that cannot be replayed: open the history anew")
            view = memoryview(records)
            headers, after, fault = scan(view, 0, len(view), True)
            if fault is not None or after != len(view):
                raise ValueError(f"byte {after} of {len(view)} begins no whole batch: {fault}")
            if not len(headers):
                return 0
            end = self._end
            if headers[0]["base_offset"] != end:
                raise ValueError(f"batches from offset {headers[0]['base_offset']} do not follow offset {end - 1}")
            if (headers["base_offset"][1:] != headers["last_offset"][:-1] + 1).any():
                raise ValueError(f"the batches from offset {end} do not follow one another without a gap")
            at = self._pieces.append(view)
            headers = headers.copy()
            headers["position"] += at
            run = BatchRun(view, at, headers, at + len(view))
            self._is_broken = True
            came = self._take(self._found.more(APPENDED, run, end))
            self._is_broken = False
            return came

    def catch_up(self) -> int:
        """Take what nodes have written into the directory since. Returns how many records came. Raises FileNotFoundError if
        it is gone, FileTruncated if a node has cut off what was read, NothingToRead if records were deleted before they
        were read: open the history anew then; and CorruptLog."""
        with self._lock:
            log = files.repeated(self._listed)
            self._pieces.look(log, self._end)
            return self._take(self._found.read(self._pieces.since(self._pieces.last), self._end))

    def close(self) -> None:
        """Free what the history holds. Moments that were given out stay readable."""
        with self._lock:
            self._pieces.close()

    def __enter__(self) -> "History":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _end(self) -> int:
        """The offset behind all that was read."""
        return max(self._found.image.next_offset, self._start)

    def _listed(self) -> Partition:
        return files.partitions(self._where)[0]

    def _open(self) -> None:
        found = self._found
        found.run_records = min(self._pins.step, found.run_records)
        found.log = found.log._replace(checkpoints=_beginning(found.log))
        self._start = found.begin()
        self._pieces = LogPieces(found.pieces(self._start))
        self._time_max_ms = found.quorum.timestamp_ms
        self._marks.begin(found)
        self._pin(self._pieces.last)
        self._take(found.read(self._pieces.since(self._pieces.last), self._start))

    def _take(self, met: Iterator[Met]) -> int:
        found, before = self._found, self._end
        place: LogPlace | None = None
        for one in met:
            self._marks.take(found, one)
            self._time_max_ms = max(self._time_max_ms, int(one.headers["max_timestamp"].max()))
            place = self._pieces.behind(one.path, one.headers)
            if self._began < 0 and self._pins.is_due(found.image.next_offset):
                self._pin(place)
        if self._began < 0:
            if place is not None and place != self._pins.all[-1].place:
                self._pin(place)
            self._now = self._pins.all[-1].moment.copy()
        elif self._began != self._now_before:  # the same is there until the transaction ends
            self._now = self._replayed(self._pins.all[-1], None)
        self._now_before = self._began
        return self._end - before

    @property
    def _began(self) -> int:
        """Where a metadata transaction began that is open; -1: none is."""
        return self._found.image.open_transaction

    def _pin(self, place: LogPlace) -> None:
        earlier = self._pins.all[-1:]
        moment = self._moment(self._found.image, self._found.quorum)
        self._pins.put(PinnedMoment(moment, place, self._time_max_ms))
        for one in earlier:  # the newest pin alone keeps all that it shares with older ones from being written
            one.moment.pin.release()

    def _moment(self, image: Image, quorum: QuorumRecords) -> Moment:
        """The moment of an image. Where no record says who leads, quorum-state may."""
        if quorum.leader_id < 0:
            if quorum.epoch not in self._leaders:
                self._leaders[quorum.epoch] = files.leader_of(self._log, quorum.epoch)
            quorum = quorum._replace(leader_id=self._leaders[quorum.epoch])
        return Moment.of(image, quorum)


def _beginning(log: Partition) -> tuple[Any, ...]:
    """The checkpoints with which a history may begin: none if the log is whole, else the oldest that the log goes on from;
    without a log the newest."""
    if not log.segments:
        return log.checkpoints
    base = log.segments[0].base_offset
    reaching = [one for one in log.checkpoints if one.end_offset >= base > 1]
    return tuple(sorted(reaching, key=lambda one: one.end_offset)[:1])


def _joined(some: list[Any]) -> NDArray[np.int64]:
    return np.concatenate(some) if some else np.empty(0, dtype=np.int64)


def _just_before(since: int | datetime.datetime) -> int | datetime.datetime:
    """The last moment that has nothing of what comes at `since` or later."""
    if isinstance(since, int):
        return since
    with suppress(OverflowError):  # nothing is earlier than the first day
        return since - datetime.timedelta(milliseconds=1)
    return since
