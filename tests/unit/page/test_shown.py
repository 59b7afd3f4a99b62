"""What one page shows: one thing that has to open, or several of which each may be away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from actors.client.errors import ClientError
from actors.page import shown as module
from actors.page.metadata.recorded import Recorded
from actors.page.shown import shown
from actors.page.watched import Watched

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"


class Things:
    """Things that may be away, and how often each was opened and closed."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.opened: list[str] = []
        self.closed: list[str] = []

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Watched]:
        self.opened.append(name)
        if name in self.away:
            raise ClientError(f"nobody answers at {name}")
        try:
            yield Watched(name, Recorded(LOG))
        finally:
            self.closed.append(name)

    def of(self, *names: str) -> dict[str, Callable[[], AbstractAsyncContextManager[Watched]]]:
        return {name: partial(self.open, name) for name in names}


def test_one_alone_has_to_open() -> None:
    async def run() -> None:
        things = Things()
        async with shown(things.of("a")) as slots:
            assert slots["a"].watched.name == "a" and things.closed == []
        assert things.closed == ["a"]
        things.away.add("a")
        with pytest.raises(ClientError, match="nobody answers at a"):
            async with shown(things.of("a")):
                pass

    asyncio.run(run())


def test_of_several_one_that_is_away_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.02)

    async def run() -> None:
        things = Things()
        things.away.add("b")
        async with shown(things.of("a", "b")) as slots:
            assert list(slots) == ["a", "b"] and slots["a"].watched.name == "a"
            with pytest.raises(ClientError, match="b cannot be shown: nobody answers at b"):
                _ = slots["b"].watched
            things.away.clear()
            while slots["b"].found is None:
                await asyncio.sleep(0.01)
            assert slots["b"].watched.name == "b" and things.opened.count("a") == 1
            assert things.closed == []
        assert sorted(things.closed) == ["a", "b"]
        assert slots["a"].found is None, "nobody reads what is closed"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_one_that_does_not_come_keeps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_S", 0.05)

    @asynccontextmanager
    async def never() -> AsyncIterator[Watched]:
        await asyncio.Event().wait()
        yield Watched("never", Recorded(LOG))

    async def run() -> None:
        async with shown({**Things().of("a"), "never": never}) as slots:
            assert slots["a"].watched.name == "a"
            assert slots["never"].why == "it is being opened"

    asyncio.run(asyncio.wait_for(run(), 60))


def test_of_several_one_that_fails_in_an_unexpected_way_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.02)
    tries: list[int] = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[Watched]:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("nobody has thought of this")
        yield Watched("a", Recorded(LOG))

    async def run() -> None:
        things = Things()
        async with shown({"a": opening, **things.of("b")}) as slots:
            assert slots["b"].watched.name == "b" and "nobody has thought of this" in slots["a"].why
            async with asyncio.timeout(5):
                while slots["a"].found is None:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
