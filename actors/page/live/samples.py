"""Numbers over time in a bounded memory: an hour as it was sampled, and a day by the minute.

This file alone decides how much is kept: SERIES_MAX series of RECENT samples and MINUTES minutes each, 4 bytes a number. A
series that comes when there are so many is not kept, and is counted in `left_out`. One that has not been seen for a day
gives its place to another.
"""

import threading
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SERIES_MAX = 10_000
RECENT = 360
MINUTES = 1_440
MINUTE_MS = 60_000
ROWS_FIRST = 16

Floats = NDArray[np.float32]


class Line(NamedTuple):
    """A series: its times, ms, and its values; a value that is not known is NaN."""

    times: NDArray[np.int64]
    values: Floats


class _Ring:
    """The last columns of a table that has a row for each series."""

    def __init__(self, columns: int) -> None:
        self.times = np.full(columns, -1, dtype=np.int64)
        self.values: Floats = np.full((ROWS_FIRST, columns), np.nan, dtype=np.float32)
        self.at = -1

    def begin(self, time_ms: int) -> None:
        """Begin a column: the oldest one goes, and those that a clock has made which was ahead and was set back."""
        self.times[self.times > time_ms] = -1
        self.at = (self.at + 1) % len(self.times)
        self.times[self.at] = time_ms
        self.values[:, self.at] = np.nan

    def grow(self, rows: int, most: int) -> None:
        """Have room for so many rows, and for `most` at most."""
        if len(self.values) < rows:
            more = min(max(2 * len(self.values), rows), max(most, rows)) - len(self.values)
            self.values = np.concatenate([self.values, np.full((more, len(self.times)), np.nan, dtype=np.float32)])

    def lines(self, rows: list[int]) -> tuple[NDArray[np.int64], Floats]:
        """(times, values of these rows), by time."""
        order = np.roll(np.arange(len(self.times)), -self.at - 1)
        order = order[self.times[order] >= 0]
        return self.times[order], self.values[np.ix_(np.array(rows, dtype=np.int64), order)]


class Samples:
    """The series that are kept. Its methods may be called from any thread."""

    def __init__(self, series_max: int = SERIES_MAX) -> None:
        self._series_max = series_max
        self._recent, self._minutes = _Ring(RECENT), _Ring(MINUTES)
        self._rows: dict[Hashable, int] = {}
        self._seen: dict[Hashable, int] = {}
        self._free: list[int] = []
        self._lock = threading.Lock()
        self.left_out = 0
        """How many series of the last sample were not kept."""

    def add(self, time_ms: int, values: Mapping[Hashable, float]) -> None:
        """Take one sample of each series."""
        with self._lock:
            self._recent.begin(time_ms)
            last = self._minutes.times[self._minutes.at] if self._minutes.at >= 0 else -1
            if last < 0 or time_ms // MINUTE_MS != last // MINUTE_MS:
                self._minutes.begin(time_ms)
                self._forget(time_ms - MINUTES * MINUTE_MS)
            self.left_out = 0
            for key, value in values.items():
                row = self._row(key)
                if row < 0:
                    self.left_out += 1
                    continue
                self._seen[key] = time_ms
                self._recent.values[row, self._recent.at] = value
                self._minutes.values[row, self._minutes.at] = value

    def _row(self, key: Hashable) -> int:
        row = self._rows.get(key, -1)
        if row < 0 and len(self._rows) < self._series_max:
            row = self._rows[key] = self._free.pop() if self._free else len(self._rows)
            for ring in (self._recent, self._minutes):
                ring.grow(row + 1, self._series_max)
                ring.values[row] = np.nan
        return row

    def _forget(self, before_ms: int) -> None:
        for key in [key for key, seen in self._seen.items() if seen < before_ms]:
            self._free.append(self._rows.pop(key))
            del self._seen[key]

    def keys(self) -> list[Hashable]:
        """The series that are kept."""
        with self._lock:
            return list(self._rows)

    def line(self, keys: list[Hashable], is_day: bool = False) -> Line:
        """The sum of some series over time; of the last hour as sampled, or of a day by the minute."""
        with self._lock:
            rows = [self._rows[key] for key in keys if key in self._rows]
            if not rows:
                return Line(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
            times, values = (self._minutes if is_day else self._recent).lines(rows)
        known = ~np.isnan(values).all(axis=0)
        return Line(times[known], np.nansum(values, axis=0)[known].astype(np.float32))

    def newest(self, keys: list[Hashable]) -> Floats:
        """The last sample of each of some series; NaN: it is not known."""
        with self._lock:
            found: Floats = np.full(len(keys), np.nan, dtype=np.float32)
            places = [(at, self._rows[key]) for at, key in enumerate(keys) if key in self._rows]
            if places:
                at, rows = np.array(places).T
                found[at] = self._recent.values[rows, self._recent.at]
            return found

    @property
    def bytes(self) -> int:
        """The memory of all values, bytes."""
        return int(self._recent.values.nbytes + self._minutes.values.nbytes)
