"""The metadata at one moment, for reading.

A moment is a pinned generation of an image, so any thread may read it, whatever is replayed into that image later. This
file alone decides what the makers of tables may ask of the metadata: it is the same for the present, for a moment of the
past, and for a log that is being followed.

Names are those of `actors.metadata.image`. Rows (of a topic or a partition) are places in this moment's columns, and have
no meaning in another moment.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.metadata.batches import Voters
from actors.metadata.image import Broker, HiddenName, Image, Pin
from actors.metadata.ops import EntitySet
from fastpath.arrow import partition_columns
from fastpath.image.broker_counts import Counts
from fastpath.image.copy_on_write import PagedMap
from fastpath.image.views import View


class QuorumRecords(NamedTuple):
    """What the control records say about the quorum."""

    leader_id: int = -1
    epoch: int = 0
    """The leader epoch of the last batch."""
    timestamp_ms: int = 0
    """The time of the last batch, in ms."""
    voters: Voters | None = None
    kraft_version: int = 0


class Moment:
    """All metadata below an offset."""

    def __init__(self, pin: Pin, counts: Counts, quorum: QuorumRecords) -> None:
        """`counts`: a copy of the image's counters, made with the pin."""
        self.pin = pin
        self.counters = counts
        self.quorum = quorum
        self.offset = pin.next_offset
        """Exclusive: the records below it."""
        self.time_ms = quorum.timestamp_ms
        """The time of the last batch, in ms since 1970."""

    @classmethod
    def of(cls, image: Image, quorum: QuorumRecords) -> "Moment":
        """An image as it is now. The image must not be written by another thread meanwhile."""
        return cls(image.pin(), image.counters.copy(), quorum)

    def __repr__(self) -> str:
        return f"<metadata below offset {self.offset}, {self.partition_total} partitions>"

    # ---- partitions

    @property
    def columns(self) -> View:
        """The partitions, by row."""
        return self.pin.columns

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of all partitions, by topic and number, made anew each time. Topics that are being deleted are left
        out."""
        return partition_columns.rows_of(self.columns, self.topics)

    def page(self, first: int, count: int) -> NDArray[np.int64]:
        """`rows[first:first + count]`, without making the others."""
        begin = int(np.searchsorted(self._ends, first, side="right"))
        end = int(np.searchsorted(self._ends, first + count, side="left")) + 1
        before = int(self._ends[begin - 1]) if begin else 0
        rows = partition_columns.rows_of(self.columns, self.topics[begin:end])
        return rows[max(first - before, 0) : max(first + count - before, 0)]

    @property
    def partition_total(self) -> int:
        """How many partitions there are."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """How many partitions the topics have together, up to each of them by name."""
        counts = [self.columns.partition_count(topic) for topic in self.topics]
        return np.cumsum(np.array(counts, dtype=np.int64))

    def copy(self) -> "Moment":
        """This moment again, without what it remembers of questions that it was asked."""
        return Moment(self.pin, self.counters, self.quorum)

    def partition(self, topic: str, number: int) -> int:
        """The row of a partition; -1: there is none."""
        row = self._rows_by_name.get(topic, -1)
        return -1 if row < 0 else self.columns.partition(row, number)

    # ---- topics

    @cached_property
    def topics(self) -> list[int]:
        """Rows of all topics that are not being deleted, by name."""
        return [row for _, row in sorted(self._rows_by_name.items())]

    @cached_property
    def topic_rows(self) -> list[tuple[bytes, int]]:
        """(topic id, row) of all topics, those that are being deleted too, by topic id."""
        return self.pin.topics()

    @property
    def topic_rows_end(self) -> int:
        """All rows of topics are below it."""
        return len(self.pin.names)

    def topic_name(self, row: int) -> str:
        """The name of a topic, by its row in use."""
        name = self.pin.names.get(row)
        assert name is not None, f"topic row {row} is not in use"
        return str(name)

    def is_deleted(self, row: int) -> bool:
        """Whether a topic is being deleted, by its row in use."""
        return type(self.pin.names.get(row)) is HiddenName

    @cached_property
    def _rows_by_name(self) -> dict[str, int]:
        """Without topics that are being deleted."""
        return {self.topic_name(row): row for _, row in self.topic_rows if not self.is_deleted(row)}

    # ---- everything else

    def brokers(self) -> list[Broker]:
        """All registrations, by id; those of fenced brokers too."""
        return [self.pin.brokers[broker] for broker in sorted(self.pin.brokers)]

    def broker(self, broker: int) -> Broker | None:
        """The registration of a broker, fenced or not; None: it is not registered."""
        return self.pin.brokers.get(broker)

    def counts(self, broker: int) -> tuple[int, int, int]:
        """(replicas, led, in ISR) of a broker, O(1)."""
        return self.counters.get(broker)

    @property
    def configs(self) -> PagedMap:
        """(resource type, resource name) -> {name: value}"""
        return self.pin.configs

    @property
    def features(self) -> dict[str, int]:
        """The finalized levels of all features, by name."""
        return self.pin.features

    def entities_of(self, kind: str) -> list[EntitySet]:
        """All entities of a kind (`acl`, `quota`, ...), ordered by key."""
        return sorted((op for (of, _), op in self.pin.entities.items() if of == kind), key=lambda op: repr(op.key))
