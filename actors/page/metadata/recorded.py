"""The metadata at any moment, from the files of a metadata log: a controller's directory, or the copy of a running quorum's.

This file alone decides what the page keeps of a history (`replay.History`) beside its pins. Rules:

1. Tables that were made lately are kept, and changes: the newest CHANGES_MAX of the newest CHANGED_RECORDS_MAX records, so
   that a log of any length is told in seconds and in bounded memory. Of a long log the changes are made when somebody asks
   for them, so that the page opens before.
2. A damaged batch is skipped and told in a note, once it was found that there is one.
3. What was read stays when the directory is gone; a log that was cut off or replaced is read anew.
4. Nobody waits until a log was read anew, read on, or its changes were made: meanwhile it is as it was. The lock is held
   only while what was read takes the place of what was there before.
"""

import datetime
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from actors.page.metadata.batch_times import BatchTimes
from actors.page.metadata.kept_tables import KeptTables
from actors.page.metadata.marks import said
from actors.page.metadata.moments import Extent, Flow, Mark, Moment
from actors.page.metadata.slices import Wanted, needed, places
from actors.replay.columns import tables
from actors.replay.columns.as_of import milliseconds, time_of
from actors.replay.columns.history import SCHEMA
from actors.replay.columns.moment import Moment as MetadataMoment
from actors.replay.logs import files
from actors.replay.logs.copies import CopiesDiffer, metadata_log
from actors.replay.logs.files import CorruptLog, Damage, FamilyUnknown, FileTruncated, NothingToRead
from actors.replay.timeline.history import History
from actors.replay.timeline.why import why
from actors.replay.where import bound
from actors.why.explanations import Explanation
from actors.why.facts import ClusterFacts

CHANGES_MAX = 1_000_000
"""The most changes that are kept: about 200 bytes each."""
JOINED_ROWS = 50_000
"""From how many changes on a table of them stays as it is when others come."""
MADE_BYTES_MAX = 32 << 20
"""What the tables take that were made lately: eight filters of a million partitions."""
CHANGED_RECORDS_MAX = 4_000_000
"""In how many records changes are looked for: two million a second."""
LONG = 200_000
"""How many records make a log so long that its changes are made later."""
DAMAGE_TOLD_MAX = 3
OF_A_READING = (
    "_damage", "_history_", "_changes", "_changed", "_changes_since", "_touched", "_followed", "_times", "_made",
)  # fmt: skip
"""What one reading of a log gives. The kept tables come last: else one of the history before could be among them."""


class Recorded:
    """A log that was replayed, and is read on as it grows. Its methods may be called from any thread."""

    def __init__(
        self, path: str | Path, family: str | None = None, on_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Read everything that is there. `on_progress`: called with the bytes read since the last call; what it raises ends
        the reading. Raises NothingToRead, FamilyUnknown, OSError."""
        self.path = Path(path)
        self._on_progress = on_progress
        self._family = family
        self._lock = threading.RLock()
        self._changing = threading.Lock()
        """Held by the thread that makes changes."""
        self._problem = ""
        self._begins_later = False
        """Whether the log begins later than what was read of it, so that it is still to be read anew."""
        self._reading = 0
        self._open()

    def _open(self) -> None:
        self._damage: list[Damage] = []
        try:
            history = self._history()
        except CorruptLog:
            history = self._history(skips=True)
        self._history_ = history
        self._made = KeptTables(MADE_BYTES_MAX)
        self._changes: list[pa.Table] = []
        self._changed = max(history.first.offset, history.now.offset - CHANGED_RECORDS_MAX)
        """Up to which offset changes were made."""
        self._changes_since = self._changed
        self._touched = history.now.offset
        """The offset behind the last records of which it is known that they changed something."""
        self._followed = history.now.offset
        """Up to which offset what came was looked at: behind it, if that has failed once."""
        self._times = BatchTimes(history.first.offset)
        self._times.look(self._listed())
        if self.extent().end - self.extent().begin < LONG:
            self.changes()

    def _history(self, skips: bool = False) -> History:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopiesDiffer)
            on_damage = self._damage.append if skips else None
            return History(self.path, self._family, on_damage=on_damage, on_progress=self._on_progress)

    def _listed(self) -> files.Partition:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CopiesDiffer)
            return metadata_log(self.path)

    # ---- growth

    def refresh(self, begins_later: bool = False) -> bool:
        """Read what was written since; or, if the log begins later now, all of it anew. Returns whether there was something.
        A directory that is gone, or that cannot be read, is told in `notes`."""
        self._begins_later = self._begins_later or begins_later
        try:
            grown = self._anew() if self._begins_later else self._grown()
        except (OSError, CorruptLog, NothingToRead, FamilyUnknown) as error:
            changed = self._problem != str(error)
            self._problem = str(error)
            return changed
        changed, self._problem = bool(self._problem), ""
        return grown or changed

    def _grown(self) -> bool:
        """Read on, or anew. Raises OSError, CorruptLog, NothingToRead, FamilyUnknown if neither is possible now."""
        try:
            return self._caught_up()
        except (FileTruncated, CorruptLog):
            return self._anew()
        except NothingToRead:
            if self._is_there():
                return self._anew()
            raise

    def _caught_up(self) -> bool:
        history, before = self._history_, self._followed
        if not history.catch_up() and history.now.offset == before:
            return False
        end = history.now.offset
        new = [pa.Table.from_batches([one], SCHEMA) for one in history.changes(before, end)]
        with self._lock:
            self._times.look(self._listed())
            if self._changed == before:
                self._changes += new
                self._changed = end
                _join(self._changes)
                _forget(self._changes)
            if new or any(one.offset >= before for one in history.marks()[-1:]):
                self._touched = end
            self._followed = end
        return True

    def _is_there(self) -> bool:
        try:
            self._listed()
        except (OSError, NothingToRead):
            return False
        return True

    def _anew(self) -> bool:
        """Read the log from its beginning, as files were replaced or cut. Raises as `__init__`: then all is as it was."""
        read, before = Recorded(self.path, self._family, self._on_progress), self._history_
        with self._lock:
            for name in OF_A_READING:
                setattr(self, name, getattr(read, name))
            self._reading += 1
        self._begins_later = False
        before.close()
        return True

    # ---- what is known

    def extent(self) -> Extent:
        """The moments that there are."""
        with self._lock:
            history = self._history_
            first, now = history.first, history.now
            found = self._times.begun_ms
            begun = first.time_ms if found is None else found
            ended = max(now.time_ms, begun)
            return Extent(first.offset, now.offset, begun, ended, self._touched, self._reading)

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
        extent = self.extent()
        with self._lock:
            bases, times, _ = self._times.columns
        at = int(np.searchsorted(np.maximum.accumulate(times), milliseconds(time), side="right"))
        if at >= len(bases):
            return extent.end
        return max(int(bases[at]), extent.begin) if at else extent.begin

    def _time(self, offset: int) -> int:
        """The time of the last record before an offset, ms."""
        with self._lock:
            bases, times, _ = self._times.columns
        at = int(np.searchsorted(bases, offset, side="left")) - 1
        return int(times[max(at, 0)]) if len(times) else self.extent().begun_ms

    def table(self, name: str, moment: Moment) -> pa.Table:
        """A table of a moment. Raises ValueError for a name that does not exist, CorruptLog, OSError."""
        return self._made.table((moment.offset, name), lambda: self._history_.table(name, moment.offset))

    def columns(self, name: str, moment: Moment, names: Sequence[str]) -> pa.Table:
        """Some columns of a table of a moment; those of partitions are made alone. Raises as `table`."""
        if name != "partitions":
            return self.table(name, moment).select(list(names))
        return tables.partitions(self._history_.at(moment.offset), None, names).select(list(names))

    def slice(self, name: str, moment: Moment, wanted: Wanted, first: int, n: int) -> tuple[pa.Table, int] | None:
        """(some of the wanted rows of partitions, how many of them there are): the columns that say which rows those are are
        made alone, and of the others the rows that are looked at. None: another table. Raises as `table`."""
        if name != "partitions":
            return None
        with self._lock:
            history, made = self._history_, self._made
        at = history.at(moment.offset)
        if wanted == Wanted():
            return tables.partitions(at, at.page(first, n)), at.partition_total
        found = made.table((moment.offset, wanted), lambda: _places(at, wanted))["place"]
        rows = at.rows[found.slice(first, n).to_numpy()]
        return tables.partitions(at, rows), len(found)

    def changes(self) -> pa.Table:
        """The changes that are kept, by offset."""
        with self._changing:
            while not self._has_changes():
                self._make_changes()
        with self._lock:
            if len(self._changes) > 16:
                self._changes[:] = [pa.concat_tables(self._changes).combine_chunks()]
            return pa.concat_tables(self._changes) if self._changes else SCHEMA.empty_table()

    def _has_changes(self) -> bool:
        with self._lock:
            return self._changed >= self._history_.now.offset

    def _make_changes(self) -> None:
        with self._lock:
            history, since = self._history_, self._changed
            end = history.now.offset
        made: list[pa.Table] = []  # all of them or none: it may fail in the middle
        for batch in history.changes(since, end):
            made.append(pa.Table.from_batches([batch], SCHEMA))
            _forget(made)
        with self._lock:
            if self._history_ is history and self._changed == since:  # else the log was read anew meanwhile
                self._changes += made
                _forget(self._changes)
                self._changed = end

    def explain(self, moment: Moment, live: ClusterFacts | None) -> list[Explanation]:
        """What is wrong at a moment, since when and why. `live`: what the cluster answers now."""
        return why(self._history_, None if moment.is_now else moment.offset, live)

    def marks(self) -> list[Mark]:
        """The marks of the log, by offset."""
        return [said(one) for one in self._history_.marks()]

    def flow(self, count: int) -> Flow:
        """The whole time in so many stretches. Changes are counted once they were made."""
        extent = self.extent()
        with self._lock:
            bases, times, counts = self._times.columns
            changed = [one["timestamp"].cast(pa.int64()).to_numpy() // 1000 for one in self._changes]
        edges = np.linspace(extent.begun_ms, max(extent.ended_ms, extent.begun_ms + 1), count + 1)
        records, _ = np.histogram(times, edges, weights=counts)
        changes, _ = np.histogram(np.concatenate(changed) if changed else np.zeros(0), edges)
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
        begin = self._history_.first.offset
        if self._changes_since > begin:
            since = self._changes_since
            yield f"This log is long: changes are told from offset {since} on. Any moment can be looked at."
        if begin > 1:
            yield f"The log begins at offset {begin}: what was before it is not known."


def _places(at: MetadataMoment, wanted: Wanted) -> pa.Table:
    """The places of the wanted partitions among all, by topic and number."""
    names = sorted(needed(tables.SCHEMAS["partitions"], wanted))
    return pa.table({"place": places(tables.partitions(at, None, names).select(names), wanted)})


def _join(changes: list[pa.Table]) -> None:
    """Make one table of the last ones while they are small: one takes 15 kB by itself, though it has a single row."""
    while len(changes) > 1 and len(changes[-2]) <= len(changes[-1]) < JOINED_ROWS:
        changes[-2:] = [pa.concat_tables(changes[-2:]).combine_chunks()]


def _forget(changes: list[pa.Table]) -> None:
    """Keep the newest changes only."""
    rows = sum(map(len, changes))
    while len(changes) > 1 and rows - len(changes[0]) >= CHANGES_MAX:
        rows -= len(changes.pop(0))
