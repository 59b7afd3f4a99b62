"""Asking brokers for all topics again and again, where the metadata log may not be read."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from actors.client.asks import Know, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata
from actors.host.client.asynchronous import Kafka
from actors.page.metadata.polled import Polled

EVERY_S = 3.0
ANSWER_S = 10.0


def _all() -> Steps[Metadata]:
    metadata: Metadata = yield Know(None, fresh=True)
    return metadata


class Polls:
    """The task that asks, and what it has seen."""

    def __init__(self, kafka: Kafka, why: str) -> None:
        self._kafka = kafka
        self.polled = Polled(why)

    async def begin(self) -> Polled:
        """Ask for the first time. Raises ClientError."""
        await self._ask()
        return self.polled

    async def _ask(self) -> bool:
        metadata = await self._kafka.run(_all(), ANSWER_S)
        return await asyncio.to_thread(self.polled.take, metadata, int(time.time() * 1000))

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Ask until the task is cancelled. `on_change`: called when something is new."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                if await self._ask():
                    await on_change()
            except ClientError:
                continue  # the quorum's silence is told; what was seen is still shown
