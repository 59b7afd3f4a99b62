"""Answers that are under way when the page ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.page.routes.streams import BrokenOff, Places, Streamed


async def body() -> AsyncIterator[bytes]:
    yield b'{"offset": 0}\n'
    await asyncio.Event().wait()


@pytest.mark.parametrize("is_file", [False, True])
def test_a_file_is_broken_off_and_events_end(is_file: bool) -> None:
    """A part of a file that ends as the whole would be taken for it."""
    sent: list[dict[str, Any]] = []

    async def run() -> None:
        places = Places(4)
        answer = Streamed(places, body(), "application/x-ndjson", {}, is_file)
        begun = asyncio.Event()

        async def send(message: Any) -> None:
            sent.append(message)
            if message.get("body"):
                begun.set()

        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        sending = asyncio.create_task(answer(scope, lambda: asyncio.Event().wait(), send))  # type: ignore[arg-type,return-value]
        await begun.wait()
        places.end()
        if is_file:
            with pytest.raises(BrokenOff):
                await sending
        else:
            await sending
        assert not places.open

    asyncio.run(asyncio.wait_for(run(), 30))
    assert (not sent[-1].get("more_body", False)) is not is_file, "what says that this was all"
