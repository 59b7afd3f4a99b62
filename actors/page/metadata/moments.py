"""The words for moments, and the interface of what knows the metadata at each of them.

This file alone decides how a moment is named in an address: nothing for now, an offset (exclusive), or a time as
`rayft replay` takes it. What is shown is always said with the offset that it was resolved to.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from actors.page.metadata.slices import Wanted
from actors.why.explanations import Explanation
from actors.why.facts import ClusterFacts


class Moment(NamedTuple):
    """A place in the log: the state behind all records before `offset`."""

    offset: int
    time_ms: int
    """The time of the last record before it, ms."""
    is_now: bool


class Extent(NamedTuple):
    """How far back and forward the moments reach."""

    begin: int
    """The first offset of which the state is known."""
    end: int
    begun_ms: int
    ended_ms: int
    touched: int
    """An offset that grows when something changes, and not with records that say nothing."""
    reading: int = 0
    """How often the log was read from its beginning again: another log may reach as far as the one before it."""


class Mark(NamedTuple):
    """Something that happened at a moment and is worth a place on the slider."""

    offset: int
    time_ms: int
    kind: str
    sentence: str
    is_bad: bool = False
    """Whether something does not work from then on."""


class Flow(NamedTuple):
    """How much happened in each of some equal stretches of time."""

    begun_ms: int
    ended_ms: int
    records: list[int]
    changes: list[int]
    ends: list[int]
    """The offset at the end of each stretch."""


class Knows(Protocol):
    """Metadata at any moment. Its methods may be called from any thread."""

    def extent(self) -> Extent:
        """The moments that there are."""

    def moment(self, at: str) -> Moment:
        """The moment that a text names; empty: now. Raises ValueError."""

    def table(self, name: str, moment: Moment) -> pa.Table:
        """A table of a moment, with the columns of `rayft replay`. Raises ValueError, CorruptLog, OSError."""

    def columns(self, name: str, moment: Moment, names: Sequence[str]) -> pa.Table:
        """Some columns of a table of a moment. Raises as `table`."""

    def slice(self, name: str, moment: Moment, wanted: Wanted, first: int, n: int) -> tuple[pa.Table, int] | None:
        """(some of the wanted rows of a table, how many of them there are), where that is cheaper than the whole; None: it
        is not. Raises as `table`."""

    def explain(self, moment: Moment, live: ClusterFacts | None) -> list[Explanation]:
        """What is wrong at a moment, since when and why, the gravest first. `live`: what the cluster answers now."""

    def changes(self) -> pa.Table:
        """The changes that are known, by offset, with the columns of `rayft replay --table changes`."""

    def marks(self) -> list[Mark]:
        """The newest marks, by offset."""

    def flow(self, count: int) -> Flow:
        """The whole time in so many stretches."""

    def notes(self) -> list[str]:
        """Sentences that somebody who reads the tables has to know: damage, what is missing."""
