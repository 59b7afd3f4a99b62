"""The word to the readers of a page that something is new.

This file alone decides how often they hear: not more than once in PULSE_S, and at least every QUIET_S. What they hear is
made once, before they are woken, and all timers are of all of them together: a reader more costs the sending and no more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

PULSE_S = 0.1
QUIET_S = 5.0
"""How often readers hear something when nothing is new, so that both sides know that the other is there."""


class Reader:
    """Somebody who listens."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.has_ended = False

    def wake(self) -> None:
        """Let it look whether there is something."""
        self._woken.set()

    def end(self) -> None:
        """Let it hear no more."""
        self.has_ended = True
        self._woken.set()

    async def woken(self) -> None:
        """Wait until there may be something."""
        await self._woken.wait()
        self._woken.clear()


class News:
    """What is new, for any number of readers."""

    def __init__(self, make: Callable[[], bytes], changes_unsaid: Callable[[], bool]) -> None:
        """`make`: makes an event, in a thread. `changes_unsaid`: whether some of it changes without a word, as groups that
        come to stand still: then it is made anew every QUIET_S."""
        self._make, self._changes_unsaid = make, changes_unsaid
        self.version = 0
        """Grows with each word."""
        self._told = 0
        """The version that the readers were woken for last."""
        self._beats = 0
        """How often the readers were woken."""
        self._readers: set[Reader] = set()
        self._pulse = -1, b""
        self._making = asyncio.Lock()
        self._spreading: asyncio.Task[None] | None = None
        self._spread_s = 0.0
        self._quiet: asyncio.TimerHandle | None = None

    def tell(self) -> None:
        """Let every reader know that something is new."""
        self.version += 1
        if self._readers and self._spreading is None:
            self._spreading = asyncio.get_running_loop().create_task(self._spread())

    async def _spread(self) -> None:
        """Tell what is new until all of it was told: words that come while an event is made are one more event."""
        while self._told < self.version and self._readers:
            await asyncio.sleep(max(0.0, self._spread_s + PULSE_S - time.monotonic()))
            self._spread_s, self._told = time.monotonic(), self.version
            with suppress(Exception):  # each reader who tries it again is told why it fails
                await self._made(self._told)
            self._wake()
        self._spreading = None

    def _wake(self) -> None:
        self._beats += 1
        for one in self._readers:
            one.wake()
        self._expect()

    def _expect(self) -> None:
        """Look again in a while, if nothing comes before, and somebody listens."""
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(QUIET_S, self._look_again) if self._readers else None

    def _look_again(self) -> None:
        self._quiet = None
        if self._readers and self._changes_unsaid():
            self.tell()
        elif self._readers:
            self._wake()

    async def pulses(self, reader: Reader) -> AsyncIterator[bytes]:
        """What is new, as events that come until the reader has ended: the first at once, then one at each change and at
        least every QUIET_S. Raises what making it raises."""
        if not self._readers and self._changes_unsaid():
            self.version += 1  # what was made last is of when somebody listened
        self._readers.add(reader)
        if self._quiet is None:
            self._expect()
        try:
            beat, wanted = -1, self.version
            while not reader.has_ended:
                if beat == self._beats:
                    await reader.woken()
                    wanted = self._told
                    continue
                beat = self._beats
                yield self._pulse[1] if self._pulse[0] >= wanted else await self._made(wanted)
        finally:
            self._readers.discard(reader)

    async def _made(self, version: int) -> bytes:
        async with self._making:
            if self._pulse[0] < version:
                self._pulse = version, await asyncio.to_thread(self._make)
            return self._pulse[1]
