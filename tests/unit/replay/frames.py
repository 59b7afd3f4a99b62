"""What jobs use of a Spark session, in this process: one task after the other, out of order."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class Frame:
    """Record batches, one a task."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self.batches = batches

    def mapInArrow(self, function: Callable[..., Iterator[pa.RecordBatch]], schema: str) -> "Frame":
        parts = [list(function(iter([batch]))) for batch in reversed(self.batches)]
        return Frame([batch for part in parts for batch in part])

    def groupBy(self, *names: str) -> "Groups":
        return Groups(pa.Table.from_batches(self.batches) if self.batches else None, names)

    def collect(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches for row in batch.to_pylist()]


class Groups:
    """A frame by key."""

    def __init__(self, table: Any, names: tuple[str, ...]) -> None:
        self.table, self.names = table, names

    def applyInArrow(self, function: Callable[[pa.Table], pa.Table], schema: str) -> Frame:
        parts = []
        for key in (
            self.table.select(list(self.names)).group_by(list(self.names)).aggregate([]).to_pylist()
            if self.table
            else []
        ):
            mask = pa.scalar(True)
            for name in self.names:
                mask = pc.and_(mask, pc.equal(self.table.column(name), key[name]))
            parts += function(self.table.filter(mask)).to_batches()
        return Frame(parts)


class Session:
    """Makes frames of numbers."""

    def range(self, start: int, end: int, step: int, parts: int) -> Frame:
        return Frame([pa.record_batch({"id": [index]}) for index in range(start, end, step)])
