"""What is new, for many readers: made once, sent soon, and nobody is left waiting."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from actors.page import news as module
from actors.page.news import News, Reader


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(module, "PULSE_S", 0.02)
    monkeypatch.setattr(module, "QUIET_S", 30.0)
    yield


class Made:
    """Events that are numbered, and may fail."""

    def __init__(self) -> None:
        self.count = 0
        self.fails = False

    def __call__(self) -> bytes:
        self.count += 1
        if self.fails:
            raise OSError(5, "it has rotted")
        return b"%d" % self.count


def test_many_words_in_a_short_time_are_one_event_and_the_last_word_is_in_it() -> None:
    async def run() -> None:
        made = Made()
        news = News(made, lambda: False)
        readers = [news.pulses(Reader()) for _ in range(5)]
        assert [await anext(one) for one in readers] == [b"1"] * 5
        waiting = [asyncio.ensure_future(anext(one)) for one in readers]
        await asyncio.sleep(0.05)
        for _ in range(50):
            news.tell()
        assert await asyncio.gather(*waiting) == [b"2"] * 5
        news.tell()
        assert [await anext(one) for one in readers] == [b"3"] * 5 and made.count == 3

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_word_while_an_event_is_made_makes_another_one() -> None:
    async def run() -> None:
        made = Made()
        news = News(made, lambda: False)
        reader = news.pulses(Reader())
        await anext(reader)
        make = news._make

        def told_meanwhile() -> bytes:
            if made.count == 1:
                loop.call_soon_threadsafe(news.tell)
            return make()

        loop = asyncio.get_running_loop()
        news._make = told_meanwhile
        news.tell()
        assert await anext(reader) == b"2" and await anext(reader) == b"3"

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_reader_who_has_ended_or_left_is_forgotten_and_no_timer_stays() -> None:
    async def run() -> None:
        news = News(Made(), lambda: False)
        stays, leaves = Reader(), Reader()
        one, other = news.pulses(stays), news.pulses(leaves)
        await anext(one), await anext(other)
        await other.aclose()  # type: ignore[attr-defined]
        waiting = asyncio.ensure_future(anext(one, None))
        await asyncio.sleep(0)
        stays.end()
        assert await waiting is None and not news._readers
        news.tell()
        assert news._spreading is None, "nobody is left for whom it would be made"
        later = news.pulses(Reader())
        assert await anext(later) == b"2", "and who comes later hears of it"

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("unsaid", [False, True])
def test_in_quiet_all_hear_something(monkeypatch: pytest.MonkeyPatch, unsaid: bool) -> None:
    monkeypatch.setattr(module, "QUIET_S", 0.05)

    async def run() -> None:
        made = Made()
        news = News(made, lambda: unsaid)
        readers = [news.pulses(Reader()) for _ in range(4)]
        for round_ in range(3):
            found = await asyncio.gather(*(anext(one) for one in readers))
            assert found == [b"%d" % (round_ + 1 if unsaid else 1)] * 4

    asyncio.run(asyncio.wait_for(run(), 20))


def test_an_event_that_cannot_be_made_ends_the_readers_with_the_reason_and_no_later_one() -> None:
    async def run() -> None:
        made = Made()
        news = News(made, lambda: False)
        reader = news.pulses(Reader())
        await anext(reader)
        made.fails = True
        news.tell()
        with pytest.raises(OSError, match="it has rotted"):
            await anext(reader)
        made.fails = False
        later = news.pulses(Reader())
        assert await anext(later) == b"4"
        news.tell()
        assert await anext(later) == b"5"

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize(("is_unsaid", "heard"), [(True, b"2"), (False, b"1")])
def test_who_comes_after_nobody_has_listened_hears_what_is_so_now(is_unsaid: bool, heard: bytes) -> None:
    """The first event was the last one of those who had left: a group that has stood still for an hour was well."""

    async def run() -> None:
        news = News(Made(), lambda: is_unsaid)
        before = news.pulses(Reader())
        assert await anext(before) == b"1"
        await before.aclose()  # type: ignore[attr-defined]
        after = [news.pulses(Reader()) for _ in range(3)]
        assert [await anext(one) for one in after] == [heard] * 3

    asyncio.run(asyncio.wait_for(run(), 20))


def test_words_that_come_faster_than_an_event_is_made_are_not_made_one_by_one_when_they_have_ended() -> None:
    async def run() -> None:
        made = Made()

        def slow() -> bytes:
            time.sleep(0.2)
            return made()

        news = News(slow, lambda: False)
        reader = news.pulses(Reader())
        await anext(reader)
        for _ in range(30):
            news.tell()
            await asyncio.sleep(0.03)
        before = made.count
        await asyncio.sleep(1.0)
        assert made.count <= before + 2 and await anext(reader) == b"%d" % made.count

    asyncio.run(asyncio.wait_for(run(), 20))
