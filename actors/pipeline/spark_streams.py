"""Topics by address as a stream of Spark: what PySpark asks of a stream, in each of its versions.

This file alone decides how `streams.py` answers that. Admission control and Trigger.AvailableNow exist since PySpark 4.2;
before that a turn reads everything there is, and options that limit it are refused.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as api
from pyspark.sql.types import StructType

from actors.pipeline.query import Query
from actors.pipeline.spark_readers import read, typed
from actors.pipeline.streams import Stored, Stream
from actors.replay import spark as files

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # before 4.2
    limits = None  # type: ignore[assignment]

_Now: Any = limits.SupportsTriggerAvailableNow if limits else object


class _TopicsStream(api.DataSourceStreamReader):
    """The methods that every version of PySpark calls."""

    def __init__(self, query: Query, schema: StructType) -> None:
        fixed, known = typed(query)
        self.stream = Stream(fixed)
        self.columns = files.columns_of(schema, known)
        self.fits = files.spark_schema(schema)

    def initialOffset(self) -> Stored:
        """The position at which a new query begins."""
        return self.stream.beginning()

    def partitions(self, start: Stored, end: Stored) -> Sequence[api.InputPartition]:
        """The slices between two positions."""
        return [files.Piece(one) for one in self.stream.slices(start, end)]

    def read(self, partition: api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches from the leader of a partition."""
        yield from read(self.stream.query, partition.value, self.columns, self.fits)

    def commit(self, end: Stored) -> None:
        """Commit a position to the query's group."""
        self.stream.commit(end)

    def stop(self) -> None:
        """End the connections of the driver."""
        self.stream.close()


class _Unlimited(_TopicsStream):
    """The stream before PySpark 4.2, which does not pass the start of a turn. It is remembered."""

    def __init__(self, query: Query, schema: StructType) -> None:
        super().__init__(query, schema)
        for name, limit in (("maxOffsetsPerTrigger", query.trigger_max), ("minOffsetsPerTrigger", query.trigger_min)):
            if limit is not None:
                raise ValueError(f"option {name} needs PySpark 4.2 or newer: leave it out")
        self.reached: Stored = {}
        self._is_compared = False
        """Whether losses behind the position with which this run begins were told."""

    def initialOffset(self) -> Stored:
        """The position at which a new query begins."""
        self.reached = super().initialOffset()
        self._is_compared = True
        return self.reached

    def latestOffset(self) -> Stored:  # type: ignore[override]
        """The position behind everything there is."""
        self.reached = self.stream.latest(self.reached, limited=False)
        return self.reached

    def partitions(self, start: Stored, end: Stored) -> Sequence[api.InputPartition]:
        """The slices between two positions. A query that goes on is asked for its end before it is told where it begins:
        what was lost meanwhile is told here then, once."""
        self.reached = self.reached or end
        if not self._is_compared:
            self.stream.latest(start, limited=False)
            self._is_compared = True
        return super().partitions(start, end)


class _Limited(_TopicsStream, _Now):
    """Admission control, and Trigger.AvailableNow."""

    def getDefaultReadLimit(self) -> Any:
        """The limit that the options say."""
        query = self.stream.query
        if query.trigger_max is not None:
            return limits.ReadMaxRows(query.trigger_max)
        if query.trigger_min is not None:
            return limits.ReadMinRows(query.trigger_min)
        return limits.ReadAllAvailable()

    def latestOffset(self, start: Stored, limit: Any) -> Stored:
        """The furthest position of a turn. Everything in front of its start has been read: Spark commits that one turn
        later, and of a query that ends, never."""
        self.stream.commit(start)
        return self.stream.latest(start, not isinstance(limit, limits.ReadAllAvailable))

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end behind the records that exist now."""
        self.stream.freeze()

    def reportLatestOffset(self) -> Stored:
        """The newest position, for the progress of the query."""
        return self.stream.now()


TopicsStream = _Limited if limits else _Unlimited
