"""The real producer in a simulated cluster: idempotent, batches of several partitions under way, several of one partition,
and some too large for their topic.

A batch that was not written, or of which that is not known, may yet arrive. So what is written behind it has another name.
"""

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.client.operations.leaders import Part
from actors.client.operations.producing import Placed, Producer
from fastpath.records.builder import Builder
from tests.simulator.clients.by_address.driven import Driven
from tests.simulator.history import Attempt, History
from tests.simulator.world import EPOCH_WALL_MS

DELIVERY_MS = 40_000
CODECS = (0, 0, 1, 3, 4)


def batch(driven: Driven, values: list[bytes]) -> bytearray:
    """Some records as a batch, in one codec or another."""
    builder = Builder(
        attributes=driven.random.choice(CODECS), timestamp_ms=EPOCH_WALL_MS + driven.world.time_us // 1000
    )
    for one in values:
        builder.append(None, one)
    return builder.build()


def known(topics: list[str]) -> Steps[Metadata]:
    """What is known of some topics."""
    found: Metadata = yield Know(tuple(topics))
    return found


class Writer:
    """Writes to partitions until its process stops, in lanes that have partitions of their own."""

    def __init__(self, driven: Driven, history: History, acknowledged: dict[bytes, Part], pause_ms: int) -> None:
        """`acknowledged`: gets the values of all records that were."""
        self._driven = driven
        self._history = history
        self._acknowledged = acknowledged
        self._pause_ms = pause_ms
        self._name = ""
        self._numbers: dict[Part, int] = {}
        self._lanes = 0
        """How many lanes are under way."""
        self._whole = True
        """Whether all that was given was written."""

    async def run(self, parts: list[Part]) -> None:
        """Write to these partitions."""
        driven, number = self._driven, 0
        while not driven.stopping:
            number += 1
            self._name, self._numbers, self._whole = f"{driven.name}.{number}", {}, True
            producer = Producer(driven.config)
            try:
                await driven.do(producer.introduce())
            except ClientError:
                continue
            self._lanes = 2 if len(parts) > 1 else 1
            for lane in range(self._lanes):
                driven.spawn(self._lane(producer, parts[lane :: self._lanes]))
            while self._lanes:
                await driven.sleep(50)

    async def _lane(self, producer: Producer, parts: list[Part]) -> None:
        driven, random = self._driven, self._driven.random
        while self._whole and not driven.stopping:
            await self._send(producer, random.sample(parts, random.randint(1, len(parts))))
            await driven.sleep(random.randint(1, 2 * self._pause_ms))
            if not random.randrange(120):
                driven.die()
        self._lanes -= 1

    async def _send(self, producer: Producer, parts: list[Part]) -> None:
        """Write some batches to each partition."""
        driven, random = self._driven, self._driven.random
        rows = [[part] * random.choice((1, 1, 1, 2, 7)) for part in parts]
        given = [(part, self._values(part, random.choice((1, 1, 2, 4, 8)))) for row in rows for part in row]
        try:
            found = await driven.do(
                producer.send([(part, batch(driven, values)) for part, values in given]), DELIVERY_MS
            )
            metadata = await driven.do(known(sorted({topic for topic, _ in parts})))
        except ClientError as error:
            driven.world.say(driven.name, f"not written: {error}")
            self._history.counts["by address: sends that failed"] += 1
            self._whole = False
            return
        for (part, values), one in zip(given, found, strict=True):
            if isinstance(one, Placed):
                self._written(metadata, part, values, one)
            else:
                driven.world.say(driven.name, f"not written to {part}: {one}")
                self._history.counts["by address: batches that failed"] += 1
                self._whole = False
        driven.done += 1

    def _values(self, part: Part, count: int) -> list[bytes]:
        found = []
        for _ in range(count):
            number = self._numbers[part] = self._numbers.get(part, 0) + 1
            value = f"{self._name}:{part[0]}:{part[1]}:{number}".encode()
            self._history.attempt(value, Attempt(*part, self._name, number, -1, True))
            found.append(value)
        return found

    def _written(self, metadata: Metadata, part: Part, values: list[bytes], placed: Placed) -> None:
        self._acknowledged |= dict.fromkeys(values, part)
        self._history.counts["by address: records acknowledged"] += len(values)
        if placed.last >= 0:
            self._history.counts["by address: batches divided"] += 1
        elif placed.offset < 0:
            self._history.counts["by address: batches written by an earlier try"] += 1
        elif part[0] in metadata.topics:
            id = metadata.topics[part[0]].id
            self._history.acknowledged(part[0], id, part[1], placed.offset, values, -1)
