"""Carrying out what the steps of a sink ask for, with a client of the cluster.

This file alone decides which requests an effect of `values.py` is. A driver has two lives in Spark, one that opens a sink
and one that decides a batch, in programs of their own: nothing is kept here between two pieces of work.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from actors.client.errors import NAMES, ClientError, Unspoken
from actors.client.operations import transactions
from actors.client.operations.producing import Producer
from actors.client.properties import TWO_PHASE, client_config
from actors.host.client.blocking import Kafka, clock_ms
from actors.pipeline.sink import ledger, names, values
from actors.pipeline.sink.fates import fates
from actors.pipeline.sink.steps import Work
from actors.pipeline.sink.values import LEDGER, Attempt, Fate, Grant, Seen, SinkFailed, State

PINNED = {
    "isolation.level": "read_committed",
    "transaction.timeout.ms": "20000",
    "max.request.size": str(8 << 20),
    "allow.auto.create.topics": "false",
}
"""Settings of a driver's client: a transaction has one record."""


class Driver:
    """The driver of a sink: `with Driver(settings, "orders-v1") as driver: driver.run(opening("orders-v1"))`."""

    def __init__(self, settings: Mapping[str, Any], sink: str, topic: str = LEDGER) -> None:
        """`settings`: the client's, by Kafka's names. `topic`: the ledger's. Raises ConfigError."""
        own = {name: value for name, value in settings.items() if name != TWO_PHASE}  # tasks' transactions alone wait
        self.kafka = Kafka(client_config({**own, **PINNED, "transactional.id": names.driver_id(sink, topic)}))
        self._sink, self._topic = sink, topic
        self._producer = Producer(self.kafka.config)
        self._found = False
        self._ahead_ms = 0
        """How far the brokers' clock is ahead of this one, as the last opening found it."""

    def __enter__(self) -> "Driver":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kafka.close()

    def run(self, work: Work) -> Any:
        """Go through the steps of a piece of work. Returns its result. Raises SinkFailed, ClientError."""
        if not self._found:
            self.kafka.run(ledger.found(self._topic))
            self._found = True
        while work.result is None:
            effect = work.effect
            try:
                answer = EFFECTS[type(effect)](self, effect)
            except ClientError:
                if work.refused():
                    break
                raise
            work.take(answer)
        if isinstance(work.result, Grant):
            return work.result._replace(
                cluster=self.kafka.metadata.cluster_id or "", claim=(self._producer.producer_id, self._producer.epoch),
                ahead_ms=self._ahead_ms,
            )  # fmt: skip
        return work.result

    # ---- effects

    def _claim(self, effect: values.Claim) -> None:
        self._producer = Producer(self.kafka.config)
        self.kafka.run(self._producer.begin())

    def _read(self, effect: values.Read) -> values.Record | None:
        found: values.Record | None = self.kafka.run(ledger.newest(self._topic, self._sink, self.kafka.config))
        return found

    def _write(self, effect: values.Write) -> SinkFailed | None:
        before_ms = clock_ms()
        batch = ledger.batch_of(self._sink, effect.record, before_ms)
        producer = self._producer
        try:
            if not producer.in_transaction:
                self.kafka.run(producer.begin())
            (placed,) = self.kafka.run(producer.send([((self._topic, ledger.PARTITION), batch)]))
            if isinstance(placed, ClientError):
                raise placed
            if effect.record.state is State.OPEN:
                self._compare_clocks(before_ms)
            self.kafka.run(producer.commit())
        except ClientError as error:
            return SinkFailed(f"the ledger, topic {self._topic}, cannot be written: {error}", error.code)
        return None

    def _compare_clocks(self, before_ms: int) -> None:
        """Learn how far the brokers' clock is ahead, by the driver's own transaction, which has begun since `before_ms`. It
        is no less than that, so a transaction whose time is over never seems to have some left."""
        id = self.kafka.config.transactional_id
        assert id is not None
        with suppress(ClientError):
            told = self.kafka.run(transactions.described([id])).get(id)
            if told is not None and told.started_ms >= 0:
                self._ahead_ms = told.started_ms - before_ms

    def _inspect(self, effect: values.Inspect) -> dict[str, Seen]:
        try:
            told = self.kafka.run(transactions.described([one.id for one in effect.attempts]))
        except Unspoken:  # before Kafka 3.0: nobody tells
            return {one.id: Seen(one.producer_id, one.epoch, True, None) for one in effect.attempts}
        now_ms = clock_ms() + effect.ahead_ms
        return {id: _seen(one, now_ms) for id, one in told.items()}

    def _commit(self, effect: values.Commit) -> tuple[tuple[Attempt, str], ...]:
        told = self.kafka.run(transactions.committed([one[:3] for one in effect.attempts]))
        return tuple((one, NAMES[told[one.id]]) for one in effect.attempts if told[one.id])

    def _list(self, effect: values.List) -> tuple[str, ...]:
        try:
            told = self.kafka.run(transactions.listed(None if effect.all else transactions.ONGOING))
        except Unspoken:
            return ()
        return tuple(sorted(id for id in told if names.base_of(id, self._sink, self._topic) is not None))

    def _trace(self, effect: values.Trace) -> dict[str, Fate]:
        found: dict[str, Fate] = self.kafka.run(fates(effect.attempts, self.kafka.config))
        return found

    def _fence(self, effect: values.Fence) -> None:
        self.kafka.run(transactions.fenced(effect.ids))


EFFECTS: dict[type, Callable[[Driver, Any], Any]] = {
    values.Claim: Driver._claim,
    values.Read: Driver._read,
    values.Write: Driver._write,
    values.Inspect: Driver._inspect,
    values.Commit: Driver._commit,
    values.Trace: Driver._trace,
    values.List: Driver._list,
    values.Fence: Driver._fence,
}


def _seen(one: transactions.Described, now_ms: int) -> Seen:
    ends = one.started_ms >= 0 and one.timeout_ms != transactions.NO_TIMEOUT_MS
    left_ms = one.started_ms + one.timeout_ms - now_ms if ends else None
    return Seen(one.producer_id, one.producer_epoch, one.state == transactions.ONGOING, left_ms, one.timeout_ms)
