"""A producer that sends batches to every partition of its topics, one in flight for each, and repeats each until it is
answered.

With `idempotent` it asks for a producer id and numbers its batches, as acks=all clients do by default. It gives a batch
up only if the outcome does not matter any more (its topic was deleted) or, with acks=1, after a few tries.
"""

from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.history import Attempt

BY_NAME, BY_ID = 12, 13
MOVED = frozenset((
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH,
))  # fmt: skip
AGAIN = frozenset((
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
))  # fmt: skip
LOST_STATE = frozenset((ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID))


FIRST_SEQUENCE = 0
"""A leader that does not know a producer accepts any."""
SEQUENCE_MAX = (1 << 31) - 1


class Producer:
    """A client that produces records."""

    def __init__(self, client: Client, *, acks: int, idempotent: bool, pause_ms: int) -> None:
        self.client = client
        self.acks = acks
        self.idempotent = idempotent
        self.pause_ms = pause_ms
        self.version = client.random.choice((BY_NAME, BY_ID))
        self.producer_id = -1
        self.producer_epoch = -1
        self._numbers: dict[tuple[str, int], int] = {}

    async def run(self, topics: dict[str, int]) -> None:
        """Produce to every partition until the client stops. `topics`: topic -> number of partitions."""
        if self.idempotent:
            await self._identify()
        for topic, partitions in topics.items():
            for partition in range(partitions):
                self.client.spawn(self._partition(topic, partition))

    async def _identify(self) -> None:
        client = self.client
        while not client.stopping:
            request = message("InitProducerIdRequest")(transactional_id=None, transaction_timeout_ms=60_000)
            reply = await client.ask(client.any_broker(), "InitProducerId", 4, request)
            if reply is not None and not reply.error_code:
                self.producer_id, self.producer_epoch = reply.producer_id, reply.producer_epoch
                client.history.identified(client.name, reply.producer_id)
                return
            await client.sleep(200)

    async def _partition(self, topic: str, partition: int) -> None:
        client, random = self.client, self.client.random
        sequence = FIRST_SEQUENCE
        while not client.stopping:
            await client.sleep(random.randint(1, 2 * self.pause_ms))
            values = self._values(topic, partition, 1 + random.randrange(4))
            if not await self._send(topic, partition, values, sequence):
                return
            sequence = (sequence + len(values)) & SEQUENCE_MAX

    def _values(self, topic: str, partition: int, count: int) -> list[bytes]:
        client = self.client
        values = []
        for _ in range(count):
            number = self._numbers[topic, partition] = self._numbers.get((topic, partition), 0) + 1
            value = f"{client.name}:{topic}:{partition}:{number}".encode()
            attempt = Attempt(topic, partition, client.name, number, self.acks, self.idempotent)
            client.history.attempt(value, attempt)
            values.append(value)
        return values

    async def _send(self, topic: str, partition: int, values: list[bytes], sequence: int) -> bool:
        """Send until the batch is acknowledged. False: it was given up."""
        client = self.client
        tries = 0
        while True:
            leader = client.leaders.get((topic, partition))
            if leader is None:
                if topic in client.history.deleted:
                    return False
                if not await client.learn(topic) or (topic, partition) not in client.leaders:
                    await client.sleep(100)
                tries += 1
                if client.stopping and tries > 600:
                    return False
                continue
            topic_id = client.topic_ids[topic]
            error, offset = await self._try(leader, topic, topic_id, partition, values, sequence)
            tries += 1
            if error == ErrorCode.NONE:
                client.history.acknowledged(topic, topic_id, partition, offset, values, self.acks)
                return True
            if topic in client.history.deleted:
                return False
            if self.acks == 1 and tries > 3:
                return True
            lost = error in LOST_STATE and self.acks == -1
            deposed = lost and not client.history.leads(leader, topic, partition)
            if lost and not deposed:
                raise Violation(
                    "no_acknowledged_record_lost",
                    f"{leader} forgot what {client.name} had sent to {topic}-{partition}: {error.name}",
                )
            # A broker that does not know yet that it leads no more may lack what has come since.
            if error is None or error in MOVED or deposed:
                client.leaders.pop((topic, partition), None)
            elif error not in AGAIN and not client.refused(error):
                raise Violation("produce_errors", f"{leader} answered {client.name}'s batch with {error.name}")
            await client.sleep(20 if tries < 5 else 200)

    async def _try(self, leader: str, topic: str, topic_id: bytes, partition: int, values: list[bytes],
                   sequence: int) -> tuple[ErrorCode | None, int]:  # fmt: skip
        client = self.client
        now_ms = client.timestamp_ms(sequence)
        builder = (
            Builder(timestamp_ms=now_ms)
            if not self.idempotent
            else Builder(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=sequence,
                timestamp_ms=now_ms,
            )
        )
        for value in values:
            builder.append(None, value)
        kind = message("ProduceRequest")
        data = kind.PartitionProduceData(index=partition, records=builder.build())
        named: dict[str, Any] = {"name": topic} if self.version == BY_NAME else {"topic_id": topic_id}
        request = kind(
            acks=self.acks, timeout_ms=3_000, topic_data=[kind.TopicProduceData(partition_data=[data], **named)]
        )
        reply = await client.ask(leader, "Produce", self.version, request)
        if reply is None:
            return None, -1
        answer = reply.responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset
