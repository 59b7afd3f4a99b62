"""An idempotent producer with several batches in flight to a partition, as Kafka's own clients have by default.

This file alone decides what is sent next. Rules:

1. Up to five batches are in flight, counted from the oldest that is not acknowledged, because a broker remembers the
   last five. They leave in the order of their sequence numbers, on one connection while the leader stays.
2. A batch that is refused or not answered is repeated, and nothing new leaves before. The repetition goes one by one,
   the oldest first, with others still in flight (the Java client), or all together when none is in flight any more
   (librdkafka).
3. OUT_OF_ORDER_SEQUENCE_NUMBER is expected for a batch that left while an older one was not acknowledged. For the
   oldest batch it means that the partition has forgotten records.
4. The first batch of a partition goes alone, because a leader that does not know a producer accepts any sequence as its
   first.
"""

from enum import Enum, auto
from random import Random

from actors.wire.errors import ErrorCode
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Resume, Wait
from tests.simulator.clients.producer import AGAIN, LOST_STATE, MOVED, Producer

IN_FLIGHT_MAX = 5


class Stage(Enum):
    """How far a batch has come."""

    NEW = auto()
    OUT = auto()
    FAILED = auto()
    DONE = auto()
    """Acknowledged, while an older one is not."""


class Batch:
    """A batch that is not acknowledged yet, or that follows one that is not."""

    def __init__(self, values: list[bytes], sequence: int) -> None:
        self.values = values
        self.sequence = sequence
        self.stage = Stage.NEW
        self.oldest = False
        """Whether all batches before it were acknowledged when it left the last time."""


class Line:
    """The batches of a partition, from the oldest that is not acknowledged on, in the order of their sequence
    numbers."""

    def __init__(self, random: Random) -> None:
        self.batches: list[Batch] = []
        self.one_by_one = bool(random.randrange(2))
        self.failures = 0
        """The number of events since the last acknowledgement."""
        self._waiting: list[Resume] = []

    def next(self) -> Batch | None:
        """The batch to send now; None: wait until something changes."""
        stages = [batch.stage for batch in self.batches]
        if Stage.FAILED in stages:
            if self.one_by_one:
                return self.batches[0] if stages[0] is Stage.FAILED else None
            if Stage.OUT in stages:
                return None
            for batch in self.batches:
                if batch.stage is Stage.FAILED:
                    batch.stage = Stage.NEW
        return next((batch for batch in self.batches if batch.stage is Stage.NEW), None)

    def acknowledged(self, batch: Batch) -> None:
        """Note that a batch is acknowledged."""
        self.failures, batch.stage = 0, Stage.DONE
        while self.batches and self.batches[0].stage is Stage.DONE:
            del self.batches[0]

    def changed(self) -> Wait:
        """Wait for the next change."""
        return Wait(self._waiting.append)

    def change(self) -> None:
        """Wake the coroutines that wait for a change."""
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume(None)


class Pipeline(Producer):
    """One producing client, acks=all."""

    async def _partition(self, topic: str, partition: int) -> None:
        client, random = self.client, self.client.random
        values = self._values(topic, partition, 1)
        if not await self._send(topic, partition, values, 0):
            return
        sequence, line = len(values), Line(random)
        client.spawn(self._drive(topic, partition, line))
        while not client.stopping:
            await client.sleep(random.randint(1, 4 * self.pause_ms))
            for _ in range(random.randint(1, 2 * IN_FLIGHT_MAX)):
                while len(line.batches) >= IN_FLIGHT_MAX:
                    await line.changed()
                if client.stopping:
                    break
                values = self._values(topic, partition, 1 + random.randrange(2))
                line.batches.append(Batch(values, sequence))
                line.change()
                sequence += len(values)
        line.change()

    async def _drive(self, topic: str, partition: int, line: Line) -> None:
        """Send what is due until the client stops and everything is acknowledged."""
        client = self.client
        while line.batches or not client.stopping:
            batch = line.next()
            if batch is None:
                await line.changed()
                continue
            if line.failures:
                await client.sleep(20 if line.failures < 5 else 200)
            leader = client.leaders.get((topic, partition))
            if leader is None:
                if not await client.learn(topic) or (topic, partition) not in client.leaders:
                    await client.sleep(100)
                continue
            batch.stage, batch.oldest = Stage.OUT, batch is line.batches[0]
            client.spawn(self._deliver(leader, topic, partition, line, batch))

    async def _deliver(self, leader: str, topic: str, partition: int, line: Line, batch: Batch) -> None:
        client, topic_id = self.client, self.client.topic_ids[topic]
        error, offset = await self._try(leader, topic, topic_id, partition, batch.values, batch.sequence)
        if error == ErrorCode.NONE:
            line.acknowledged(batch)
            client.history.acknowledged(topic, topic_id, partition, offset, batch.values, self.acks)
        else:
            line.failures += 1
            batch.stage = Stage.FAILED
            self._judge(leader, topic, partition, error, batch)
        line.change()

    def _judge(self, leader: str, topic: str, partition: int, error: ErrorCode | None, batch: Batch) -> None:
        """Decide what an error means. Raises Violation if a repetition cannot help."""
        if error is None or error in MOVED:
            self.client.leaders.pop((topic, partition), None)
        elif error in LOST_STATE:
            if not self.client.history.leads(leader, topic, partition):
                self.client.leaders.pop((topic, partition), None)  # it does not know that it leads no more
            elif batch.oldest:
                sent = f"{batch.values[0].decode()} with sequence {batch.sequence}"
                raise Violation("no_acknowledged_record_lost", f"{leader} forgot what came before {sent}: {error.name}")
        elif error not in AGAIN and not self.client.refused(error):
            raise Violation("produce_errors", f"{leader} answered {batch.values[0]!r} with {error.name}")
