"""A Dataset of Ray Data as rows of topics by address, each row once a job, or not at all.

    dataset.write_datasink(rayft.ray.Sink("kafka:9092", "orders", sink="load-orders"))                  the next batch
    dataset.write_datasink(rayft.ray.Sink("kafka:9092", "orders", sink="load-orders", batch=20261129))  this one, once
    dataset.write_datasink(rayft.ray.Sink("kafka:9092", "orders", delivery="at-least-once"))

This file alone decides how Ray's tasks and its driver take part in the protocol of `sink/`. A task that Ray runs again
writes in a transaction of its own, as Spark's attempts do, and only what the last one returns is committed. The options are
those of Spark's sink (`sink/options.py`), and the columns those of `rayft.write`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import ray
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink
from ray.data.datasource.datasink import WriteResult

from actors.client.operations.topics import describe
from actors.client.properties import client_config
from actors.host.client.blocking import Kafka, given
from actors.pipeline.sink import steps
from actors.pipeline.sink.attempts import drained, write
from actors.pipeline.sink.driver import Driver
from actors.pipeline.sink.options import AT_LEAST_ONCE, KAFKA, ONCE, target
from actors.pipeline.sink.values import Attempt, Grant, SinkFailed


class Wrote(NamedTuple):
    """What a task has written; None: it had no rows, or they were there before, or nobody counts."""

    attempt: Attempt | None


class Sink(Datasink):  # type: ignore[misc]
    """A sink for `Dataset.write_datasink`."""

    def __init__(
        self,
        bootstrap: str | None,
        topic: str | None = None,
        *,
        sink: str | None = None,
        batch: int | None = None,
        delivery: str = ONCE,
        timestamp: bool = False,
        ledger: str | None = None,
        accept_lost_batch: int | None = None,
        config: Mapping[str, Any] | str | None = None,
    ) -> None:
        """`topic`: None: the column topic says it. `sink`: the sink's id, under which its ledger knows it. `batch`: the
        number of this job; None: the next one. `timestamp`: whether the column is written. `config`: a client's properties
        by Kafka's names, or the path of a file with them. Raises ValueError, OSError."""
        more = {
            "topic": topic, "sinkId": sink, "batchId": batch, "ledger": ledger, "acceptLostBatch": accept_lost_batch,
            "delivery": delivery, "includeTimestamp": timestamp,
        }  # fmt: skip
        own = {f"{KAFKA}{name}": value for name, value in given(bootstrap, config).items()}
        self.target = target({name: _text(value) for name, value in {**own, **more}.items() if value is not None})
        self.grant: Grant | None = None
        self.batch = -1

    def get_name(self) -> str:
        """The name in Ray's progress bars."""
        return "rayft"

    def on_write_start(self, schema: Any = None) -> None:
        """Open the sink, on the driver. Raises ClientError."""
        found = self.target
        if found.sink and "write_returns" not in {one.name for one in fields(WriteResult)}:
            raise RuntimeError(
                f"Ray {ray.__version__} does not tell the driver what its tasks have written: take a newer one, or write "
                f"delivery={AT_LEAST_ONCE}"
            )
        if not found.sink:
            with Kafka(client_config(found.settings)) as kafka:
                kafka.run(describe([found.topic] if found.topic is not None else []))
            return
        with Driver(found.settings, found.sink, found.ledger) as driver:
            if found.topic is not None:
                driver.kafka.run(describe([found.topic]))
            grant: Grant = driver.run(steps.opening(found.sink, found.accepted, found.ledger))
        steps.check_query(grant.sink, grant.decided, grant.query, "")
        batch = found.batch if found.batch is not None else grant.decided + 1
        steps.check_batch(grant.sink, grant.decided, batch)
        self.grant, self.batch = grant, batch

    def write(self, blocks: Iterable[Any], ctx: Any) -> Wrote:
        """Write the rows of a task, unless their batch was decided before. Raises ClientError, ValueError."""
        batches = (one for block in blocks for one in BlockAccessor.for_block(block).to_arrow().to_batches())
        if self.target.sink and self.grant is None:
            raise RuntimeError("this Ray did not open the sink: use a newer one")
        if self.grant is not None and self.batch <= self.grant.decided:
            drained(batches)
            return Wrote(None)
        return Wrote(write(self.target, batches, self.grant, batch=self.batch))

    def on_write_complete(self, write_result: Any) -> None:
        """Decide the job by what its tasks returned. Raises SinkFailed, ClientError."""
        if self.grant is None:
            return
        told = list(getattr(write_result, "write_returns", write_result))
        if not all(isinstance(one, Wrote) for one in told):
            raise SinkFailed(f"sink {self.grant.sink}: some tasks have not said what they wrote: nothing is written")
        attempts = tuple(one.attempt for one in told if one.attempt is not None)
        work = steps.deciding(self.grant, self.batch, attempts, accepted=self.target.accepted)
        with Driver(self.target.settings, self.target.sink, self.target.ledger) as driver:
            driver.run(work)

    def on_write_failed(self, error: Exception) -> None:
        """Abort what the job has written, unless it was decided. Raises SinkFailed, ClientError."""
        if self.grant is not None:
            with Driver(self.target.settings, self.target.sink, self.target.ledger) as driver:
                driver.run(steps.giving_up(self.grant, self.batch))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
