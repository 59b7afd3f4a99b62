"""The metadata log of a running cluster, copied as it is committed and replayed for the page.

This file alone decides how far back the copy reaches: to the beginning of what the leader has, or, where that is more than
COPY_BYTES_MAX, to its newest snapshot.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.arrow.metadata_copy import Copy
from actors.client.errors import ClientError, NotInTime
from actors.client.operations.tail import NEWEST, Slice, Tail
from actors.host.client.asynchronous import Kafka
from actors.page.metadata.recorded import Recorded

COPY_BYTES_MAX = 2 << 30
FIRST_S = 5.0
"""How long the first answer may take, s."""
AGAIN_S = 0.5


class Tailed:
    """A copy that grows, and what was replayed of it."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._copied = 0
        self._copy = Copy(self._count)
        self._tail = Tail(kafka.config, 0)
        self.is_cut = False
        """Whether the log was longer than what is copied."""
        self.recorded: Recorded | None = None

    def _count(self, size: int) -> None:
        self._copied += size

    @property
    def has_heard(self) -> bool:
        """Whether the leader has answered."""
        return self._tail.first_high_watermark >= 0

    def close(self) -> None:
        """Remove the copy."""
        self._copy.close()

    async def begin(self) -> Recorded:
        """Copy what is committed now, and replay it. Raises ClientError where that is not possible or not allowed."""
        while not self._tail.is_caught_up:
            await self._fetch(None if self.has_heard else 0, FIRST_S)
            if self._copied > COPY_BYTES_MAX and not self.is_cut:
                self._copy.close()
                self.is_cut, self._copied = True, 0
                self._copy, self._tail = Copy(self._count), Tail(self._kafka.config, NEWEST)
        self._copy.flush()
        self.recorded = await asyncio.to_thread(Recorded, self._copy.path)
        return self.recorded

    async def _fetch(self, wait_ms: int | None, timeout_s: float | None = None) -> bool:
        """Ask the leader once. Returns whether something came that can be replayed."""
        events = await self._kafka.run(self._tail.fetch(wait_ms), timeout_s)
        for event in events:
            await asyncio.to_thread(self._copy.take, event)
        return any(not isinstance(one, Slice) or one.is_last for one in events)

    async def follow(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Follow the log until the task is cancelled. `on_change`: called when it has grown."""
        assert self.recorded is not None
        while True:
            try:
                came = await self._fetch(None)
            except NotInTime:
                continue
            except ClientError:
                await asyncio.sleep(AGAIN_S)
                continue
            with suppress(OSError):
                if came:
                    self._copy.flush()
                    if await asyncio.to_thread(self.recorded.refresh):
                        await on_change()
