"""A consumer with a fetch session (KIP-227) that reads several topics at once, as the Java consumer does: it names its
partitions once, and what a broker may tell it is decided anew with each fetch.
"""

from collections.abc import Mapping
from typing import Any

from actors.broker.replication import fetch_sessions
from actors.wire.errors import ErrorCode
from actors.wire.messages import message
from fastpath.records import batch as batches
from tests.simulator.clients.consumer import FETCH_VERSION, earliest
from tests.simulator.clients.process import Client

WAIT_MS = 600
REFUSED_MS = 60
Part = tuple[str, int]


class SessionConsumer:
    """Reads whatever one broker leads, from the beginning on."""

    def __init__(self, client: Client, topics: Mapping[str, int], broker: str) -> None:
        self.client = client
        self.topics = topics
        self.broker = broker
        self._id, self._epoch = 0, 0
        self._sent: dict[Part, int] = {}
        """Partition of the session -> the position that the broker knows."""
        self._positions: dict[Part, int] = {}

    async def run(self) -> None:
        """Fetch until the client stops."""
        client = self.client
        while not client.stopping:
            if not self._epoch:
                self._sent = {}
                await client.learn(*self.topics)
            if not await self._fetch():
                self._id, self._epoch = 0, 0
                await client.sleep(client.random.randint(50, 400))

    def _wanted(self) -> dict[Part, int]:
        """Partitions of which the session is to learn the position."""
        client = self.client
        if self._epoch:
            return {
                part: self._positions[part] for part, offset in self._sent.items() if self._positions[part] != offset
            }
        parts = [(topic, number) for topic, count in self.topics.items() for number in range(count)]
        return {
            part: self._positions.setdefault(part, 0)
            for part in parts
            if part[0] in client.topic_ids and client.leaders.get(part) == self.broker
        }

    async def _fetch(self) -> bool:
        """Fetch once in the session. False: a new session is to begin."""
        client, kind = self.client, message("FetchRequest")
        wanted = self._wanted()
        if not wanted and not self._epoch:
            return False
        asked: dict[bytes, list[Any]] = {}
        for (topic, number), offset in wanted.items():
            part = kind.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 14)
            asked.setdefault(client.topic_ids[topic], []).append(part)
        request = kind(
            max_wait_ms=WAIT_MS, min_bytes=1, max_bytes=1 << 20, session_id=self._id, session_epoch=self._epoch,
            topics=[kind.FetchTopic(topic_id=id, partitions=parts) for id, parts in asked.items()],
        )  # fmt: skip
        self._sent |= wanted
        asked_us = client.world.time_us
        reply = await client.ask(self.broker, "Fetch", FETCH_VERSION, request)
        if reply is None or reply.error_code or not reply.session_id:
            return False
        following = 1 if self._epoch == fetch_sessions.EPOCH_MAX else self._epoch + 1
        self._id, self._epoch = reply.session_id, following if self._epoch else fetch_sessions.FIRST_EPOCH
        names = {id: topic for topic, id in client.topic_ids.items()}
        sound = True
        for one in reply.responses:
            topic = names.get(bytes(one.topic_id))
            for data in one.partitions:
                if topic is None:
                    return False
                sound = await self._take(topic, one.topic_id, data, asked_us) and sound
        return sound

    async def _take(self, topic: str, topic_id: Any, data: Any, asked_us: int) -> bool:
        """What the broker, asked then, tells of one partition; False: something is wrong with it."""
        client, part = self.client, (topic, data.partition_index)
        if data.error_code:
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                client.history.unserved(bytes(topic_id), part[1], self._positions[part], self.broker, asked_us)
                self._positions[part] = max(self._positions[part], await earliest(client, *part))
                return False
            await client.sleep(REFUSED_MS)
            return client.refused(data.error_code)  # it may have the right again at the next fetch of this session
        records = data.records or b""
        for header in batches.headers(records):
            batches.verify(records, header.position)
            for record in batches.records(records, header.position):
                offset = self._positions[part]
                if record.offset >= offset:
                    assert record.value is not None
                    client.history.consumed(client.name, bytes(topic_id), part[1], record.offset, record.value, offset)
                    self._positions[part] = record.offset + 1
        return True
