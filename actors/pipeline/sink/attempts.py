"""A task attempt of a sink: its rows go to topics in a transaction of its own, which it leaves open.

This file alone decides how rows are divided among topics. Rules:

1. An attempt that is done looks whether its batch was decided without it, and aborts its transaction then: the driver, who
   looks for what is open behind the decision, may have looked before. It reads the ledger only if the driver's own
   transactional id has moved on, which comes before any decision.
2. The columns are those of `rayft.write`, and `topic` where no option says it. The column `timestamp` is left out unless an
   option says otherwise, as with Spark's own sink: rows that were read from a topic would have the time of then.
3. A failure aborts the transaction, if brokers can be reached. If not, the driver fences what is left.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as compute

from actors.arrow import written_columns
from actors.arrow.writing import ABORT_S, Writing
from actors.arrow.written import BatchRefused
from actors.client.errors import ClientError, Unspoken
from actors.client.operations import transactions
from actors.client.operations.producing import Producer
from actors.client.properties import client_config
from actors.host.client.blocking import Kafka
from actors.pipeline.sink import ledger
from actors.pipeline.sink.names import Ids, driver_id
from actors.pipeline.sink.options import Target
from actors.pipeline.sink.values import Attempt, Grant, SinkFailed

TOPICS_MAX = 200
"""The most topics of a task: each has batches of its own in memory."""


class _Own:
    """The transactional ids of this process."""

    def __init__(self) -> None:
        self._process, self._ids = -1, Ids("")

    def take(self, grant: Grant, run: str) -> str:
        """The next id for an opening of a sink. Raises SinkFailed."""
        if self._process != os.getpid():  # Spark's workers are forks of one process
            self._process, self._ids = os.getpid(), Ids(uuid.uuid4().hex[:12])
        return self._ids.take(grant, run)


_own = _Own()


def write(
    target: Target, batches: Iterable[pa.RecordBatch], grant: Grant | None, run: str = "", batch: int | None = None
) -> Attempt | None:
    """Write the rows of a task, and wait until brokers have them. With a `grant` they are in a transaction that stays open:
    returns it, or None if there was no row. `batch`: the number of its batch; None: the next one. Raises ClientError,
    ValueError."""
    own = {} if grant is None else {"transactional.id": _own.take(grant, run), "isolation.level": "read_committed"}
    task = _Task(target, Kafka(client_config({**target.settings, **own})))
    try:
        try:
            for rows in batches:
                task.add(rows)
            task.finish()
            if grant is not None:
                task.check_in_time(grant, batch if batch is not None else grant.decided + 1)
        except BaseException:
            task.give_up()
            raise
        return task.attempt()
    finally:
        task.kafka.close()


class _Task:
    """The writing of one task, to any number of topics."""

    def __init__(self, target: Target, kafka: Kafka) -> None:
        self.kafka = kafka
        self._target = target
        self._producer = Producer(kafka.config)
        self._writings: dict[str, Writing] = {}
        self._rows = 0
        self._checked: pa.Schema | None = None
        """The schema that was checked last."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
        columns = self._columns(batch)
        if self._target.topic is not None:
            self._writing(self._target.topic).add(columns)
        else:
            for topic, part in self._divided(batch, columns):
                self._writing(topic).add(part)
        self._rows += batch.num_rows
        held = [one for one in self._writings.values() if one.held_bytes]
        if len(held) > 1 and sum(one.held_bytes for one in held) > self.kafka.config.buffer_bytes:
            for one in held:
                one.finish()

    def _columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        left_out = {"topic"} | ({"timestamp"} if not self._target.timestamp else set())
        left_out |= {"headers"} if not self._target.headers else set()
        chosen = batch.select([name for name in batch.schema.names if name not in left_out])
        if self._checked is None or not self._checked.equals(chosen.schema):
            written_columns.check(chosen.schema)
            self._checked = chosen.schema
        return chosen

    def _divided(self, batch: pa.RecordBatch, columns: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each topic."""
        if "topic" not in batch.schema.names:
            raise ValueError("there is neither a column 'topic' nor the option topic: write one of them")
        names = batch.column("topic")
        if names.null_count:
            row = self._rows + names.is_null().index(True).as_py()
            raise BatchRefused(f"row {row}: column 'topic' is null: fill it in, or write the option topic", 0, row)
        found = compute.unique(names)
        for name in found:
            one = len(found) == 1
            yield str(name.as_py()), columns if one else columns.filter(compute.equal(names, name))

    def _writing(self, topic: str) -> Writing:
        found = self._writings.get(topic)
        if found is None:
            if len(self._writings) >= TOPICS_MAX:
                raise ValueError(f"a task has rows for more than {TOPICS_MAX} topics: repartition them by topic")
            found = self._writings[topic] = Writing(self.kafka, self._producer, topic)
            found.begin()
        return found

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        for one in self._writings.values():
            one.finish()

    def check_in_time(self, grant: Grant, batch: int) -> None:
        """Check that the batch was not decided without this attempt, whose transaction nobody might end then. Raises
        SinkFailed, ClientError."""
        if grant.claim is None or not self._rows:
            return
        id = driver_id(grant.sink, grant.ledger)
        try:
            told = self.kafka.run(transactions.described([id])).get(id)
        except Unspoken:  # before Kafka 3.0: nobody tells
            return
        if told is None or (told.producer_id, told.producer_epoch) == grant.claim:
            return
        record = self.kafka.run(ledger.newest(grant.ledger, grant.sink, self.kafka.config))
        if record is None or record.opening != grant.opening or record.batch >= batch:
            raise SinkFailed(
                f"sink {grant.sink}: this task attempt comes too late: its batch was decided without it, or another query "
                f"or job has begun to write with this sinkId"
            )

    def give_up(self) -> None:
        """Send nothing more, and abort what is open: one transaction, whatever topics it has rows for."""
        for one in self._writings.values():
            one.cancel()
        if self._producer.in_transaction:
            with suppress(ClientError):
                self.kafka.run(self._producer.abort(), ABORT_S)

    def attempt(self) -> Attempt | None:
        """The transaction that is open; None: none is."""
        counts = tuple(
            (topic, number, span.count, span.last)
            for topic, one in self._writings.items()
            for number, span in sorted(one.written.partitions.items())
        )
        id = self.kafka.config.transactional_id
        if id is None or not counts:
            return None
        return Attempt(id, self._producer.producer_id, self._producer.epoch, counts)


def drained(batches: Iterable[Any]) -> None:
    """Take rows that were written before: what computes them has to come to its end."""
    for _ in batches:
        pass
