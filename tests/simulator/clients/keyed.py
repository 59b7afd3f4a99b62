"""Clients of a compacted topic: one that overwrites and deletes keys, and one that reads everything again and again.

The reader keeps what a table of the topic keeps: the last value of each key, and none of a key whose last record is a
tombstone. It tells the checker of every pass.
"""

from typing import Any

from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.simulator.checkers.compacted_records import CompactedRecords, Keyed
from tests.simulator.clients.consumer import earliest
from tests.simulator.clients.process import Client
from tests.simulator.clients.producer import BY_NAME, Producer
from tests.simulator.clients.transactions.committed_reader import fetch_committed

KEYS = (8, 60, 400)
"""A record has one of so many keys: some are written all the time, others rarely."""
PAUSE_MS = 4_000
"""The longest pause between two passes of a reader."""
TOMBSTONES = 4
"""One record in so many has no value."""


class KeyedProducer(Producer):
    """A producer that writes a few keys over and over, compressed sometimes."""

    def _values(self, topic: str, partition: int, count: int) -> list[Any]:
        client, random = self.client, self.client.random
        found = []
        for _ in range(count):
            number = self._numbers[topic, partition] = self._numbers.get((topic, partition), 0) + 1
            value = None if not random.randrange(TOMBSTONES) else f"{client.name}:{number}".encode() + bytes(20)
            found.append(Keyed(b"k%d" % random.randrange(random.choice(KEYS)), value))
        client.history.counts["keyed records sent"] += count
        return found

    async def _try(self, leader: str, topic: str, topic_id: bytes, partition: int, values: list[Any],
                   sequence: int) -> tuple[ErrorCode | None, int]:  # fmt: skip
        client = self.client
        now_ms = client.timestamp_ms(sequence)
        builder = Builder(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            timestamp_ms=now_ms,
            attributes=(0, 0, 3)[sequence % 3],
        )
        for key, value in values:
            builder.append(key, value)
        kind = message("ProduceRequest")
        data = kind.PartitionProduceData(index=partition, records=builder.build())
        named: dict[str, Any] = {"name": topic} if self.version == BY_NAME else {"topic_id": topic_id}
        sent = [kind.TopicProduceData(partition_data=[data], **named)]
        reply = await client.ask(leader, "Produce", self.version, kind(acks=-1, timeout_ms=3_000, topic_data=sent))
        if reply is None:
            return None, -1
        answer = reply.responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.base_offset


async def read_again(client: Client, checker: CompactedRecords, topic: str, partition: int) -> None:
    """Pass after pass, from the partition's beginning to where it ends for consumers."""
    while not client.stopping:
        await _read_once(client, checker, topic, partition)
        await client.sleep(client.random.randint(50, PAUSE_MS))


async def _read_once(client: Client, checker: CompactedRecords, topic: str, partition: int) -> None:
    begun_us, offset = client.world.time_us, 0
    table: dict[bytes, tuple[int, bytes]] = {}
    asked = set[Any]()
    while not client.stopping:
        if (topic, partition) not in client.leaders:
            if not await client.learn(topic) or (topic, partition) not in client.leaders:
                await client.sleep(100)
            continue
        asked.add(client.leaders[topic, partition])
        page = await fetch_committed(client, topic, partition, offset, wait_ms=1)
        error = page.error
        for record in page.records:
            checker.read(client.topic_ids[topic], partition, record)
            assert record.key is not None
            table.pop(record.key, None)
            if record.value is not None:
                table[record.key] = record.offset, record.value
        passed = page.next_offset > offset
        offset = page.next_offset
        if error == ErrorCode.OFFSET_OUT_OF_RANGE:
            if offset > 0:
                return
            offset = await earliest(client, topic, partition)
            if offset < 0:  # it was told so by a broker that does not lead
                offset = 0
                client.leaders.pop((topic, partition), None)
                await client.sleep(100)
        elif error is None or error != ErrorCode.NONE:
            client.leaders.pop((topic, partition), None)
            await client.sleep(20)
        elif not passed:
            took_ms = (client.world.time_us - begun_us) // 1000
            checker.table(client.name, client.topic_ids[topic], partition, table, offset, took_ms, len(asked))
            return
