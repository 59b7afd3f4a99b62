"""The metadata at any moment, from the files of a metadata log: a controller's directory, or the copy of a running quorum's.

This file alone decides what is kept of a log in memory. Rules:

1. The log is replayed once. The image at its end is kept and grows with the log (`refresh`): now is read from it. A past
   moment is replayed when it is asked for, and the images of the last few are kept.
2. Changes are kept as `rayft replay --table changes` has them, the newest CHANGES_MAX; marks, the newest MARKS_MAX; of each
   batch its first offset, its time and how many records it has.
3. A damaged batch is skipped and told in a note, once it was found that there is one: a log without damage is read quicker.
4. A metadata transaction that is open does not count: now is the moment at which it began.
"""

import datetime
import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.page.metadata.marks import marks_of
from actors.page.metadata.moments import Extent, Flow, Mark, Moment
from actors.replay.columns import as_of as replaying
from actors.replay.columns import tables
from actors.replay.columns.as_of import Met, Replay, milliseconds, time_of
from actors.replay.columns.history import SCHEMA, Gathering
from actors.replay.logs import files
from actors.replay.logs.chunks import ChunkReading, batches
from actors.replay.logs.copies import CopiesDiffer, metadata_log
from actors.replay.logs.files import CorruptLog, Damage, FileTruncated, Headers, Partition, mapped, still_there
from actors.replay.where import bound
from fastpath.records.scan import scan

CHANGES_MAX = 1_000_000
"""The most changes that are kept: about 200 bytes each."""
MARKS_MAX = 2_000
MOMENTS_KEPT = 6
"""How many past moments' images are kept."""
TABLES_KEPT = 24
DAMAGE_TOLD_MAX = 3
BATCHES_AT_ONCE = 50_000
"""About how many records are replayed between two looks at the changes."""


class Recorded:
    """A log that was replayed, and is read on as it grows."""

    def __init__(self, path: str | Path, family: str | None = None) -> None:
        """Read everything that is there. Raises NothingToRead, FamilyUnknown, OSError."""
        self.path = Path(path)
        self._family = family
        self._lock = threading.RLock()
        self._damage: list[Damage] = []
        self._problem = ""
        self._past: OrderedDict[int, Replay] = OrderedDict()
        self._made: OrderedDict[tuple[int, str], pa.Table] = OrderedDict()
        try:
            self._open(ChunkReading())
        except CorruptLog:
            self._open(ChunkReading(damage="skip", on_damage=self._damaged))

    def _damaged(self, damage: Damage) -> None:
        self._damage.append(damage)

    def _open(self, reading: ChunkReading) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopiesDiffer)
            log = _all_of(metadata_log(self.path))
        self._reading = reading
        self._damage.clear()
        self._changes: list[pa.Table] = []
        self._marks: deque[Mark] = deque(maxlen=MARKS_MAX)
        self._bases: list[NDArray[np.int64]] = []
        self._times: list[NDArray[np.int64]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._found = Replay(log, files.family(log, self._family), reading).open()
        self._gathering = Gathering(self._found)
        self._read: dict[Path, Headers] = {}
        """The header of the last batch that was read of each file."""
        self._begin = -1
        for met in self._found.batches():
            if self._begin < 0:
                self._begin = self._found.image.next_offset
                self._gathering.skip()
            self._take(met)
        if self._begin < 0:
            self._begin = self._found.image.next_offset
        self._tell()
        if self._found.quorum.leader_id < 0:
            leader = files.leader_of(log, self._found.quorum.epoch)
            self._found.quorum = self._found.quorum._replace(leader_id=leader)

    def _take(self, met: Met) -> None:
        """Replay a batch, and note when it was."""
        before = self._found.quorum.leader_id, self._found.quorum.epoch
        headers = met.headers
        self._bases.append(headers["base_offset"].astype(np.int64))
        self._times.append(headers["max_timestamp"].astype(np.int64))
        self._counts.append(headers["count"].astype(np.int64))
        self._read[met.path] = headers[-1:].copy()
        self._gathering.take(met)
        quorum = self._found.quorum
        if quorum.leader_id >= 0 and (quorum.leader_id, quorum.epoch) != before and headers[0]["attributes"] & 0x20:
            sentence = f"controller {quorum.leader_id} was elected, epoch {quorum.epoch}"
            self._marks.append(Mark(met.batch.base_offset, quorum.timestamp_ms, "election", sentence))
        if self._gathering.records >= BATCHES_AT_ONCE:
            self._tell()

    def _tell(self) -> None:
        """Keep the changes of what was replayed since the last call."""
        for batch in self._gathering.told():
            table = pa.Table.from_batches([batch], SCHEMA)
            self._changes.append(table)
            self._marks.extend(marks_of(table, MARKS_MAX))
        rows = sum(len(one) for one in self._changes)
        while len(self._changes) > 1 and rows - len(self._changes[0]) >= CHANGES_MAX:
            rows -= len(self._changes.pop(0))

    # ---- growth

    def refresh(self) -> bool:
        """Read what was written since. Returns whether there was something. A directory that is gone, or that cannot be
        read, is told in `notes`."""
        try:
            grown = self._refresh()
        except FileTruncated:
            return self._anew()
        except (OSError, CorruptLog, files.NothingToRead) as error:
            changed = self._problem != str(error)
            self._problem = str(error)
            return changed
        changed, self._problem = bool(self._problem), ""
        return grown or changed

    def _anew(self) -> bool:
        """Replay the log from its beginning, as files were replaced or cut."""
        with self._lock:
            self._past.clear()
            self._made.clear()
            self._open(ChunkReading(damage="skip", on_damage=self._damaged))
        return True

    def _refresh(self) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopiesDiffer)
            log = metadata_log(self.path)
        with self._lock:
            image = self._found.image
            before = image.next_offset
            first = log.segments[0].base_offset if log.segments else 0
            if first > before or (not log.segments and any(one.end_offset > before for one in log.checkpoints)):
                return self._anew()
            for segment in log.segments:
                if 0 <= segment.next_offset <= image.next_offset:
                    continue
                data = mapped(segment.path)
                for run in batches(segment.path, self._reading, self._behind(segment.path, data), data=data):
                    for met in self._found.more(segment.path, run, image.next_offset):
                        self._take(met)
            self._tell()
            return image.next_offset > before

    def _behind(self, path: Path, data: memoryview) -> int:
        """The position behind what was read of a file. Raises FileTruncated if what was read is not there any more."""
        last = self._read.get(path)
        if last is None:
            return 0
        position, size = int(last["position"][0]), int(last["size"][0])
        there = still_there(data)
        now = scan(data, position, there, False, records_max=1)[0] if position < there else last[:0]
        if not len(now) or any(now[name][0] != last[name][0] for name in ("base_offset", "size", "crc")):
            raise FileTruncated(path)
        return position + size

    # ---- what is known

    def extent(self) -> Extent:
        """The moments that there are."""
        with self._lock:
            times = self._all(self._times)
            begun = int(times[0]) if len(times) else self._found.quorum.timestamp_ms
            return Extent(self._begin, self._end(), begun, int(times[-1]) if len(times) else begun)

    def _end(self) -> int:
        began = self._found.image.open_transaction
        return began if began >= 0 else self._found.image.next_offset

    def moment(self, at: str) -> Moment:
        """The moment that a text names; empty: now. Raises ValueError for one that is not in the log."""
        extent = self.extent()
        if not at:
            return Moment(extent.end, extent.ended_ms, True)
        wanted = bound(at, time_of(extent.ended_ms))
        offset = wanted if isinstance(wanted, int) else self._offset(wanted)
        if offset < extent.begin:
            raise ValueError(
                f"the history begins at offset {extent.begin}, {time_of(extent.begun_ms):%Y-%m-%d %H:%M:%S} UTC: choose a "
                f"later moment than {at}."
            )
        offset = min(offset, extent.end)
        return Moment(offset, self._time(offset), False)

    def _offset(self, time: datetime.datetime) -> int:
        """The offset behind the last batch that is not later than a time."""
        with self._lock:
            bases, times = self._all(self._bases), self._all(self._times)
            at = int(np.searchsorted(np.maximum.accumulate(times), milliseconds(time), side="right"))
            if at >= len(bases):
                return self._end()
            return max(int(bases[at]), self._begin) if at else self._begin

    def _time(self, offset: int) -> int:
        """The time of the last record before an offset, ms."""
        with self._lock:
            bases, times = self._all(self._bases), self._all(self._times)
            at = int(np.searchsorted(bases, offset, side="left")) - 1
            return int(times[max(at, 0)]) if len(times) else self._found.quorum.timestamp_ms

    def _all(self, parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """The parts as one array, which they become."""
        if len(parts) != 1:
            parts[:] = [np.concatenate(parts)] if parts else [np.zeros(0, dtype=np.int64)]
        return parts[0]

    def table(self, name: str, moment: Moment) -> pa.Table:
        """A table of a moment. Raises ValueError for a name that does not exist, CorruptLog, OSError."""
        key = (moment.offset, name)
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
            if moment.offset == self._found.image.next_offset:
                return self._keep(key, tables.table(name, self._found))
        return self._keep(key, tables.table(name, self._at(moment.offset)))

    def _keep(self, key: tuple[int, str], table: pa.Table) -> pa.Table:
        with self._lock:
            self._made[key] = table
            while len(self._made) > TABLES_KEPT:
                self._made.popitem(last=False)
        return table

    def _at(self, offset: int) -> Replay:
        """The image of a past moment."""
        with self._lock:
            found = self._past.get(offset)
            if found is not None:
                self._past.move_to_end(offset)
                return found
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopiesDiffer)
            found = replaying.replay(self.path, offset, self._family, ChunkReading(damage="skip"))
        with self._lock:
            self._past[offset] = found
            while len(self._past) > MOMENTS_KEPT:
                self._past.popitem(last=False)
        return found

    def changes(self) -> pa.Table:
        """The changes that are kept, by offset."""
        with self._lock:
            if len(self._changes) > 16:
                self._changes[:] = [pa.concat_tables(self._changes).combine_chunks()]
            return pa.concat_tables(self._changes) if self._changes else SCHEMA.empty_table()

    def marks(self) -> list[Mark]:
        """The newest marks, by offset."""
        with self._lock:
            return sorted(self._marks)

    def flow(self, count: int) -> Flow:
        """The whole time in so many stretches."""
        with self._lock:
            bases, times, counts = self._all(self._bases), self._all(self._times), self._all(self._counts)
            extent = self.extent()
        changed = self.changes()["timestamp"].cast(pa.int64()).to_numpy() // 1000
        edges = np.linspace(extent.begun_ms, max(extent.ended_ms, extent.begun_ms + 1), count + 1)
        records, _ = np.histogram(times, edges, weights=counts)
        changes, _ = np.histogram(changed, edges)
        at = np.searchsorted(np.maximum.accumulate(times), edges[1:], side="right").tolist()
        ends = [int(bases[one]) if one < len(bases) else extent.end for one in at]
        return Flow(extent.begun_ms, extent.ended_ms, [int(one) for one in records], changes.tolist(), ends)

    def notes(self) -> list[str]:
        """Sentences about what cannot be read."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        if self._problem:
            yield f"The log cannot be read any more, so what is shown is what was read before: {self._problem}"
        for one in self._damage[:DAMAGE_TOLD_MAX]:
            yield f"Damaged bytes were skipped: {one.path}, position {one.position}: {one.reason}"
        more = len(self._damage) - DAMAGE_TOLD_MAX
        if more > 0:
            yield f"{more} more damaged places were skipped; rayft scrub lists them."
        if self._begin > 0:
            yield f"The log begins at offset {self._begin}: what was before it is not known."


def _all_of(log: Partition) -> Partition:
    """The log with the one checkpoint that it cannot do without: none, if it begins where everything began."""
    if not log.segments:
        return log
    first = log.segments[0].base_offset
    reaching = sorted((one for one in log.checkpoints if one.end_offset >= first > 1), key=lambda one: one.end_offset)
    return log._replace(checkpoints=tuple(reaching[:1]))
