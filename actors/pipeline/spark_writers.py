"""Topics by address as a sink of Spark: what PySpark asks of a batch's and a stream's writer.

This file alone decides how `sink/` answers that. What is true of PySpark 4.0 to 4.3 shapes it:

1. A stream's writer is made anew for each batch, in a program that sends it to the tasks, and once more in a program that
   commits or aborts: the former makes its source, the latter is sent one. Only the former opens the sink.
2. Tasks alone know the batch's number, its query and the query's run, by their local properties. Those, and the opening,
   come to the program that commits in the tasks' messages.
3. A message of a failed task is None. If `commit` raises, `abort` is called, whatever was decided.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import datasource as api
from pyspark.sql.types import StructType

from actors.client.operations.topics import describe
from actors.client.properties import client_config
from actors.host.client.blocking import Kafka
from actors.pipeline.sink import steps
from actors.pipeline.sink.attempts import drained, write
from actors.pipeline.sink.driver import Driver
from actors.pipeline.sink.options import Target
from actors.pipeline.sink.values import Attempt, Grant, SinkFailed
from actors.replay import spark as files

ROWS_MAX = 10_000
"""How many rows become one batch, where they come one by one."""
QUERY, BATCH, RUN = "sql.streaming.queryId", "streaming.sql.batchId", "spark.jobGroup.id"


@dataclass
class Wrote(api.WriterCommitMessage):
    """What a task has written, and for which batch."""

    grant: Grant | None
    query: str
    run: str
    batch: int
    attempt: Attempt | None


def opened(target: Target) -> Grant | None:
    """Open a sink on the driver, and look for its topic; None: rows may be written more than once. Raises ClientError."""
    if not target.sink:
        if target.topic is not None:
            with Kafka(client_config(target.settings)) as kafka:
                kafka.run(describe([target.topic]))
        return None
    with Driver(target.settings, target.sink, target.ledger) as driver:
        if target.topic is not None:
            driver.kafka.run(describe([target.topic]))
        grant: Grant = driver.run(steps.opening(target.sink, target.accepted, target.ledger))
        return grant


class _Writer:
    """What both writers do in a task, and behind it."""

    def __init__(self, target: Target, grant: Grant | None, schema: StructType) -> None:
        self.target, self.grant = target, grant
        self.schema = files.spark_schema(schema)

    def write(self, iterator: Iterator[Any]) -> Wrote:
        """Write the rows of a task attempt, unless their batch was decided before. Raises ClientError, ValueError."""
        files.settle()
        grant, task = self.grant, TaskContext.get()
        query = _property(task, QUERY)
        run = _run(task) if query else ""
        if grant is None:
            write(self.target, iterator, None)
            return Wrote(None, query, run, -1, None)
        batch = self.batch(task, grant)
        steps.check_query(grant.sink, grant.decided, grant.query, query)
        steps.check_batch(grant.sink, grant.decided, batch, self.follows(batch))
        if batch <= grant.decided:
            drained(iterator)
            return Wrote(grant, query, run, batch, None)
        return Wrote(grant, query, run, batch, write(self.target, iterator, grant, run, batch))

    def batch(self, task: Any, grant: Grant) -> int:
        """The number of the batch that a task belongs to."""
        raise NotImplementedError

    def follows(self, batch: int) -> bool:
        """Whether a batch has to be the one behind the last."""
        return False

    def decide(self, messages: list[Any], batch: int | None = None) -> None:
        """Decide a batch by the messages of its tasks. Raises SinkFailed, ClientError."""
        if not self.target.sink:
            return
        told = [one for one in messages if isinstance(one, Wrote) and one.grant is not None]
        if not told or len(told) < len(messages):
            raise SinkFailed(
                f"sink {self.target.sink}: {len(messages) - len(told)} of {len(messages)} tasks have not said what they "
                f"wrote: nothing of the batch is written"
            )
        first = told[0]
        assert first.grant is not None
        number = first.batch if batch is None else batch
        if any(
            (one.grant, one.query, one.run, one.batch) != (first.grant, first.query, first.run, number) for one in told
        ):
            raise SinkFailed(f"sink {first.grant.sink}: the tasks of batch {number} belong to different batches")
        attempts = tuple(one.attempt for one in told if one.attempt is not None)
        work = steps.deciding(
            first.grant, number, attempts, first.query, first.run, self.target.accepted, self.follows(number)
        )
        with Driver(self.target.settings, self.target.sink, self.target.ledger) as driver:
            driver.run(work)

    def give_up(self, grant: Grant | None, query: str, batch: int) -> None:
        """Abort what a batch has written, unless it was decided. Raises SinkFailed, ClientError."""
        if grant is not None:
            with Driver(self.target.settings, self.target.sink, self.target.ledger) as driver:
                driver.run(steps.giving_up(grant, batch, query))


class TopicsWriter(_Writer, api.DataSourceArrowWriter):
    """Writes the rows of a job."""

    def batch(self, task: Any, grant: Grant) -> int:
        """The number that the options say, or the next one."""
        return self.target.batch if self.target.batch is not None else grant.decided + 1

    def commit(self, messages: list[Any]) -> None:
        """Decide the job."""
        self.decide(messages)

    def abort(self, messages: list[Any]) -> None:
        """Abort the job."""
        told = next((one for one in messages if isinstance(one, Wrote)), None)
        self.give_up(self.grant, told.query if told is not None else "", told.batch if told is not None else -1)


_Arrow: Any = getattr(api, "DataSourceStreamArrowWriter", None)


class TopicsStreamWriter(_Writer, _Arrow or api.DataSourceStreamWriter):  # type: ignore[misc]
    """Writes the batches of a query."""

    def write(self, iterator: Iterator[Any]) -> Wrote:
        """Write the rows of a task attempt; before PySpark 4.1 they come one by one."""
        return super().write(iterator if _Arrow else _batches(iterator, self.schema))

    def batch(self, task: Any, grant: Grant) -> int:
        """The number of the batch in the query."""
        return int(_property(task, BATCH))

    def follows(self, batch: int) -> bool:
        """Whether a batch has to be the one behind the last: all but the first one of the query here."""
        return batch != self.target.first

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Decide a batch."""
        self.decide(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Abort a batch."""
        told = next((one for one in messages if isinstance(one, Wrote)), None)
        if told is not None:
            self.give_up(told.grant, told.query, batchId)


def _batches(rows: Iterator[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Arrow batches of Spark's rows."""
    while some := list(islice(rows, ROWS_MAX)):
        yield pa.RecordBatch.from_pylist([row.asDict(recursive=True) for row in some], schema)


def _property(task: Any, name: str) -> str:
    text = task.getLocalProperty(name) if task is not None else None
    return str(text) if text else ""


def _run(task: Any) -> str:
    """The run of a query, which is the group of its jobs; empty: it is none that can be told from others."""
    text = _property(task, RUN)
    try:
        return str(UUID(text))
    except ValueError:
        return ""
