"""Logs as a Dataset of Ray Data, from files or from batches that were decoded before.

    from actors.replay import ray as door, ray_cache
    door.read(path="/var/rayft/broker-1", topics="orders")                  # the options of read_options.py
    handle = ray_cache.share(path="/var/rayft/broker-1", topics="orders")
    door.dataset(handle)                                                    # over those same buffers

This file alone imports ray.data. Ray Data says which columns a pipeline uses, and only those are built.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import Dataset, Datasource, ReadTask
from ray.data.block import BlockMetadata

from actors.replay import source
from actors.replay.logs.files import repeated
from actors.replay.read_options import ReadOptions, read_options, scan
from actors.replay.shared import attach
from actors.replay.source import Split

COUNTED = ("offset",)
"""The column that is built for a pipeline that uses none and only counts rows: a table without columns has no rows."""


class LogDatasource(Datasource):
    """Splits of a log as read tasks. Only columns that a pipeline uses are built."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__()
        self._projection_map: dict[str, str] | None = None
        found = options.open()
        self._options = options._replace(table=found.table, family=found.family or None)
        self._schema = found.schema(options.columns)

    def get_name(self) -> str:
        """The name in Ray's progress bars."""
        return "rayft"

    def supports_projection_pushdown(self) -> bool:
        """True, so that Ray Data says which columns a pipeline uses."""
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """About the size of the files in bytes."""
        return repeated(lambda: sum(file.stat().st_size for log in self._options.open().logs for file in log.files))

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """One task for each split."""
        chosen = self._schema.names if self._projection_map is None else list(self._projection_map)
        schema = source.schema(str(self._options.table), str(self._options.family), chosen or COUNTED)
        splits = self._options.planned(max(parallelism // 3, 1))
        return [
            read_task(
                _Decode(self._options, split, tuple(chosen)),
                split.end - split.begin,
                split.path,
                schema,
                per_task_row_limit,
            )
            for split in splits
        ]


def read_task(
    run: Callable[[], Iterator[pa.Table]], size_bytes: int | None, told: str, schema: pa.Schema, rows_max: int | None
) -> ReadTask:
    """A task of Ray Data that reads. `told`: what is read, for Ray's messages. Older Rays, such as 2.40, take the schema
    with the metadata, and no limit of rows."""
    takes = inspect.signature(ReadTask.__init__).parameters
    more = {"schema": schema, "per_task_row_limit": rows_max}
    metadata: dict[str, Any] = {"num_rows": None, "size_bytes": size_bytes, "exec_stats": None, "input_files": (told,)}
    metadata |= {"schema": schema} if "schema" not in takes else {}
    return ReadTask(run, BlockMetadata(**metadata), **{name: one for name, one in more.items() if name in takes})


class _Decode:
    """The function that a task runs on its split."""

    def __init__(self, options: ReadOptions, split: Split, columns: tuple[str, ...]) -> None:
        self.options, self.split, self.columns = options, split, columns

    def __call__(self) -> Iterator[pa.Table]:
        for batch in scan(self.options, self.split, self.columns or COUNTED):
            yield pa.Table.from_batches([batch])


def read(**options: str) -> Dataset:
    """A Dataset of a log; the options of read_options.py."""
    return ray.data.read_datasource(LogDatasource(read_options(options)))


def dataset(handle: str) -> Dataset:
    """A Dataset over batches in Ray's object store. Its blocks are the holder's own buffers."""
    return ray.data.from_arrow_refs(attach(handle).references)  # type: ignore[attr-defined]
