"""Topics of any Kafka by address as a Dataset of Ray Data, and decoded once for Spark and Ray together.

    import rayft
    rayft.ray.read("kafka:9092", "orders", start="2026-11-01")                    # a Dataset
    handle = rayft.ray.share("kafka:9092", "orders")                              # decoded once, in Ray's object store
    rayft.ray.dataset(handle)                                                     # Ray Data over those buffers
    session.read.format("rayft").option("shared", handle).load()                  # and Spark
    rayft.ray.close(handle)
    dataset.write_datasink(rayft.ray.Sink("kafka:9092", "orders", sink="load-orders"))   # each row once (ray_sink.py)

This file alone decides how a plan becomes Ray's tasks. Rules:

1. Offsets are pinned where a Dataset is made, with the words of `rayft.read` (`actors/arrow/ranges.py`), so it has the same
   rows however often it is read.
2. A task reads SLICE_OFFSETS offsets or more of one partition, so a large partition is read by many. Smaller ones would ask
   for more than they give.
3. Only columns that a pipeline uses are built.
4. Records that are gone when a task comes to read them are an error: a Dataset has all rows or none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import ray.data
from ray.data import Dataset, Datasource, ReadTask

from actors.arrow.ranges import Place, ranges
from actors.arrow.reading import LARGE
from actors.arrow.values.asked import BYTES, Asked, needed, reading
from actors.client.properties import client_config
from actors.host.client.blocking import Kafka, given
from actors.pipeline.planning import Slice, cut
from actors.pipeline.ray_sink import Sink as Sink
from actors.pipeline.slices import read as rows
from actors.replay import ray_cache
from actors.replay.columns.record_columns import COLUMNS, SCHEMA, schema
from actors.replay.ray import COUNTED, read_task
from actors.replay.ray import dataset as dataset

SLICE_OFFSETS = 200_000
"""The fewest offsets of a task, unless a partition has no more."""
close = ray_cache.close


class Topics(NamedTuple):
    """A read of topics whose offsets are pinned: `Work` of ray_cache.py."""

    settings: dict[str, Any]
    """The client's settings by Kafka's names. They may hold secrets."""
    slices: tuple[Slice, ...]
    """What is read of each partition."""
    columns: tuple[str, ...]
    asked: Asked = BYTES
    """How keys and values are read, by schemas whose ids are known."""
    types: pa.Schema | None = None
    """The Arrow schema of all columns; None: keys and values are bytes."""

    def __repr__(self) -> str:
        return f"Topics({len(self.slices)} partitions)"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        if self.types is None:
            return schema(self.columns)
        known = {one.name: one for one in (*SCHEMA, *self.types)}
        return pa.schema([known[name] for name in self.columns])

    @property
    def offsets(self) -> int:
        """The number of offsets, which is that of rows or more."""
        return sum(one.end - one.first for one in self.slices)

    def pieces(self, cores: int) -> list[Any]:
        """The slices of tasks, for so many cores or more. Each partition is cut for itself: however many small ones there
        are beside it, a large one has its share of the cores."""
        total, found = self.offsets, []
        for one in self.slices:
            size = one.end - one.first
            found += cut([one], min(-(-size * cores // total), size // SLICE_OFFSETS), None)
        return found

    def batches(self, piece: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a slice. Raises ClientError, DataLoss."""
        if self.types is None:
            yield from rows(self.settings, piece, self.columns)
            return
        records = needed(self.columns)
        values = reading(records, [piece.topic], self.asked.of(records), self.settings)
        for batch in values.batches(rows(self.settings, piece, values.decoded)):
            yield batch.select(self.columns)


def planned(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    columns: Sequence[str] = COLUMNS,
    config: Mapping[str, Any] | str | None = None,
    asked: Asked = BYTES,
) -> Topics:
    """The plan of a read, whose arguments are those of `rayft.read`. Raises ClientError, ConfigError, ValueError,
    OSError."""
    schema(columns)
    own = given(bootstrap, config, LARGE)
    names = [topics] if isinstance(topics, str) else list(topics)
    values = reading(columns, names, asked, own)
    with Kafka(client_config(own)) as kafka:
        plan = kafka.run(ranges(names, start, end, kafka.config.isolation))
        ids = {name: topic.id for name, topic in kafka.metadata.topics.items()}
    slices = (Slice(*part, one.first, one.end, ids[part[0]]) for part, one in plan.items() if one.first < one.end)
    if not values.is_typed:
        return Topics(own, tuple(slices), tuple(columns))
    types = values.schema(schema(columns))
    return Topics(own, tuple(slices), tuple(types.names), values.pinned(asked), types)


class TopicsDatasource(Datasource):
    """Slices of topics as read tasks."""

    def __init__(self, topics: Topics) -> None:
        super().__init__()
        self._projection_map: dict[str, str] | None = None
        self._topics = topics

    def get_name(self) -> str:
        """The name in Ray's progress bars."""
        return "rayft"

    def supports_projection_pushdown(self) -> bool:
        """True, so that Ray Data says which columns a pipeline uses."""
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """No estimate: the size of records is not known before they are read."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """One task for each slice."""
        chosen = self._topics.columns if self._projection_map is None else tuple(self._projection_map)
        topics = self._topics._replace(columns=chosen or COUNTED)
        return [
            read_task(_Task(topics._replace(slices=()), piece), None, _told(piece), topics.schema, per_task_row_limit)
            for piece in self._topics.pieces(parallelism)
        ]


class _Task:
    """The function that a task runs on its slice."""

    def __init__(self, topics: Topics, piece: Slice) -> None:
        self.topics, self.piece = topics, piece

    def __call__(self) -> Iterator[pa.Table]:
        for batch in self.topics.batches(self.piece):
            yield pa.Table.from_batches([batch])


def _told(piece: Slice) -> str:
    return f"{piece.topic}/{piece.partition}[{piece.first}:{piece.end}]"


def read(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    *,
    columns: Sequence[str] = COLUMNS,
    value_format: str | None = None,
    key_format: str | None = None,
    schema_registry: str | None = None,
    value_schema: int | str | None = None,
    key_schema: int | str | None = None,
    on_error: str = "fail",
    config: Mapping[str, Any] | str | None = None,
) -> Dataset:
    """A Dataset of topics; arguments and errors as those of `rayft.read`. Its offsets, and the schema of its columns, are
    those of now; each task asks the schema registry for itself."""
    asked = Asked(value_format, key_format, schema_registry, value_schema, key_schema, on_error)
    return ray.data.read_datasource(TopicsDatasource(planned(bootstrap, topics, start, end, columns, config, asked)))


def share(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    *,
    columns: Sequence[str] = COLUMNS,
    config: Mapping[str, Any] | str | None = None,
) -> str:
    """Decode topics once, in Ray tasks; arguments as those of `planned`. Returns the handle of the batches, which stay until
    `close`. Ray must be running. Raises what decoding raises."""
    return ray_cache.share(planned(bootstrap, topics, start, end, columns, config))
