"""The metadata log of a running cluster, copied as it is committed and replayed for the page.

This file alone decides how far back the copy reaches: to the beginning of what the leader has, or, where that is more than
COPY_BYTES_MAX, to its newest snapshot. A copy that has grown beyond half of that keeps the leader's newest snapshot beside
the log, and begins with it once as much as this half has come behind it: so it takes half as much again at most, and of what
came last half of it is always there. A leader that has no snapshot has the whole log itself, and so has the copy.

While there is no room for what has come nothing more is asked for, and a newer snapshot that is not whole gives its room
back. That, and why a leader gives nothing more, as to a login whose right was taken away, `problem` says: else the page
would show an old state as that of now.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.arrow.metadata_copy import Copy
from actors.client.errors import ClientError, NotInTime
from actors.client.operations.tail import NEWEST, Event, Slice, Tail
from actors.host.client.asynchronous import Kafka
from actors.page.metadata.recorded import Recorded

COPY_BYTES_MAX = 2 << 30
SEGMENT_BYTES = 64 << 20
FIRST_S = 5.0
"""How long the first answer may take, s."""
AGAIN_S = 0.5
REFUSED_S = 5.0
"""How often a leader is asked that has refused more than once, s: it writes a line about each."""


class Tailed:
    """A copy that grows, and what was replayed of it."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._copied = 0
        self._copy = Copy(self._count, SEGMENT_BYTES)
        self._tail = Tail(kafka.config, 0)
        self._marking: Tail | None = None
        """Reads the newer snapshot that is kept beside the log."""
        self._marked = 0
        """How many bytes had come when that was whole."""
        self._looked = 0
        """How many bytes had come when it was looked last how large the copy is."""
        self.is_cut = False
        """Whether the log was longer than what is copied."""
        self.recorded: Recorded | None = None
        self.problem = ""
        """Why the copy does not grow, as a sentence; empty: it does."""
        self._left: deque[Event] = deque()
        """What has come and is not written: there was no room."""
        self._is_closed = False

    def _count(self, size: int) -> None:
        self._copied += size

    @property
    def has_heard(self) -> bool:
        """Whether the leader has answered."""
        return self._tail.first_high_watermark >= 0

    def close(self) -> None:
        """Remove the copy. What is being read of it is read no further: the page would not end before."""
        self._is_closed = True
        self._copy.close()

    def _go_on(self, _: int) -> None:
        if self._is_closed:
            raise InterruptedError("the page has ended")

    async def begin(self) -> Recorded:
        """Copy what is committed now, and replay it. Raises ClientError where that is not possible or not allowed."""
        while not self._tail.is_caught_up:
            await self._fetch(None if self.has_heard else 0, FIRST_S)
            if self._copied > COPY_BYTES_MAX and not self.is_cut:
                self._copy.close()
                self.is_cut, self._copied = True, 0
                self._copy, self._tail = Copy(self._count, SEGMENT_BYTES), Tail(self._kafka.config, NEWEST)
        self.recorded = await asyncio.to_thread(Recorded, self._copy.path, on_progress=self._go_on)
        return self.recorded

    async def _fetch(self, wait_ms: int | None, timeout_s: float | None = None) -> bool:
        """Ask the leader once, unless something is left to be written. Returns whether something came that can be replayed.
        Raises ClientError, OSError."""
        if not self._left:
            self._left.extend(await self._kafka.run(self._tail.fetch(wait_ms), timeout_s))
        came = any(not isinstance(one, Slice) or one.is_last for one in self._left)
        while self._left:
            await asyncio.to_thread(self._copy.take, self._left[0])
            self._left.popleft()
        return came

    async def _bound(self) -> bool:
        """Do what keeps the copy within its bound, a step at a time. Returns whether the log begins later now: then it is to
        be read anew. Raises OSError."""
        if self._marking is not None:
            await self._mark(self._marking)
            return False
        if self._copied - self._looked < SEGMENT_BYTES:
            return False
        self._looked, size = self._copied, await asyncio.to_thread(lambda: self._copy.bytes)
        if self._copy.marked is not None:
            if self._copied - self._marked < COPY_BYTES_MAX // 2:
                return False
            await asyncio.to_thread(self._copy.cut)
            return True
        if size > COPY_BYTES_MAX // 2:
            self._marking = Tail(self._kafka.config, NEWEST)
        return False

    async def _mark(self, marking: Tail) -> None:
        try:
            for one in await self._kafka.run(marking.fetch(0)):
                if isinstance(one, Slice):
                    await asyncio.to_thread(self._copy.mark, one)
                if not isinstance(one, Slice) or one.is_last:  # a leader without a snapshot gives its log
                    self._marking, self._marked = None, self._copied
                    return
        except (ClientError, OSError):
            self._forget_mark()

    def _forget_mark(self) -> None:
        """Delete a newer snapshot that is not whole: it is begun anew when the next segment has come."""
        self._marking = None
        with suppress(OSError):
            self._copy.forget_mark()

    async def follow(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Follow the log until the task is cancelled. `on_change`: called when it has grown, or grows no more."""
        assert self.recorded is not None
        refused = 0
        while True:
            before, came, begins_later = self.problem, False, False
            try:
                came = await self._fetch(0 if self._marking is not None else None)
                self.problem, refused = "", 0
                begins_later = await self._bound()
            except ClientError as error:
                refused += 1
                if refused > 1 or isinstance(error, NotInTime):  # a change of leaders may refuse once
                    self.problem = (
                        f"The metadata log is read no further, so what is shown is what was read before: {error}. It is "
                        f"tried again"
                    )
            except OSError as error:
                self._forget_mark()
                self.problem = (
                    f"The metadata log is copied no further, so what is shown is what was read before: {error}. Make room "
                    f"there: it is tried again"
                )
            grown = (came or begins_later or before != self.problem) and await asyncio.to_thread(
                self.recorded.refresh, begins_later
            )
            if grown or before != self.problem:
                await on_change()
            if self.problem or refused:
                await asyncio.sleep(REFUSED_S if refused > 1 else AGAIN_S)
