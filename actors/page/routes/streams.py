"""Answers that have no end, or a far one: how many there may be at once, and how they end with the page.

This file alone decides that. An answer has its place from the moment in which it is promised until it is over, also if it
never began to be sent. When the page ends, an answer of events ends as if there were no more to send: its reader asks again.
A file is broken off, so that nobody takes a part of it for the whole.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from actors.page.news import Reader


class BrokenOff(Exception):
    """A file cannot be ended as it should, so its connection ends before it does."""


class Places:
    """The answers of one kind that are under way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open: set[Streamed] = set()

    @property
    def is_full(self) -> bool:
        """Whether another one has to be refused."""
        return len(self.open) >= self._most

    def end(self) -> None:
        """End all of them."""
        for one in self.open:
            one.end()


class Streamed(StreamingResponse):
    """An answer that is made while it is sent."""

    def __init__(
        self, places: Places, body: AsyncIterator[bytes], kind: str, headers: dict[str, str], is_file: bool = False
    ) -> None:
        """The place is taken now. `is_file`: it is kept by its reader, and has an end. Raises ValueError for headers that no
        answer can have."""
        self._is_file = is_file
        self._ended = asyncio.Event()
        super().__init__(self._until_ended(body), media_type=kind, headers=headers)
        self._places = places
        places.open.add(self)

    def end(self) -> None:
        """End it before its time."""
        self._ended.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and give the place back."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.open.discard(self)

    async def _until_ended(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        ended = asyncio.create_task(self._ended.wait())
        coming: asyncio.Future[Any] = asyncio.ensure_future(anext(body))
        try:
            while True:
                await asyncio.wait((coming, ended), return_when=asyncio.FIRST_COMPLETED)
                if ended.done():
                    if self._is_file:
                        raise BrokenOff("the page has ended")
                    return
                try:
                    yield coming.result()
                except StopAsyncIteration:
                    return
                coming = asyncio.ensure_future(anext(body))
        finally:
            for one in (coming, ended):
                one.cancel()
            await asyncio.gather(coming, ended, return_exceptions=True)
            await body.aclose()  # type: ignore[attr-defined]


class Heard(Streamed):
    """Events that one reader hears: they end with it, so nothing has to watch over each of them."""

    def __init__(self, places: Places, reader: Reader, body: AsyncIterator[bytes], headers: dict[str, str]) -> None:
        """`body` ends when `reader` has ended. The place is taken now."""
        self._reader, self._body = reader, body
        super().__init__(places, body, "text/event-stream", headers)

    def end(self) -> None:
        """End it before its time."""
        self._reader.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, and give the place back."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._body.aclose()  # type: ignore[attr-defined]

    def _until_ended(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        return body
