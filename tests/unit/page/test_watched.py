"""When readers hear that something is new, and that it is made once for all of them. What runs beside goes on."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.page import beside, news
from actors.page import watched as module
from actors.page.live.quorums import Quorums
from actors.page.metadata.moments import Extent, Moment
from actors.page.news import Reader
from actors.page.verdict import Verdict
from actors.page.watched import Live, Watched, directory


class Known:
    """A log that grows by records that change nothing, and sometimes by one that does."""

    def __init__(self) -> None:
        self.end = self.touched = 1
        self.reading = 0

    def moment(self, at: str) -> Moment:
        return Moment(self.end, 0, True)

    def extent(self) -> Extent:
        return Extent(0, self.end, 0, 0, self.touched, self.reading)

    def notes(self) -> list[str]:
        return []

    def table(self, name: str, moment: Moment) -> pa.Table:
        return pa.table({})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The offsets of which a verdict was made."""
    found: list[int] = []

    def verdict(known: Known, moment: Moment, asked: object) -> Verdict:
        found.append(moment.offset)
        return Verdict(True, "Well.", [])

    monkeypatch.setattr(module, "verdict", verdict)
    monkeypatch.setattr(news, "QUIET_S", 0.3)
    monkeypatch.setattr(news, "PULSE_S", 0.0)
    yield found


def test_an_event_is_made_once_however_many_hear_it(made: list[int]) -> None:
    async def run() -> list[bytes]:
        watched = Watched("x", Known())  # type: ignore[arg-type]
        readers = [watched.pulses(Reader()) for _ in range(10)]
        first = await asyncio.gather(*(anext(one) for one in readers))
        watched.known.end = watched.known.touched = 2  # type: ignore[attr-defined]
        await watched.tell()
        return [*first, *await asyncio.gather(*(anext(one) for one in readers))]

    events = asyncio.run(run())
    assert made == [1, 2] and len(set(events)) == 2
    assert json.loads(events[0].removeprefix(b"data: "))["sentence"] == "Well."


def test_records_that_change_nothing_wake_nobody(made: list[int]) -> None:
    async def run() -> None:
        known = Known()
        watched = Watched("x", known)  # type: ignore[arg-type]
        reader = watched.pulses(Reader())
        await anext(reader)
        await watched.tell_if_touched()
        await anext(reader)
        for known.end in range(2, 50):
            await watched.tell_if_touched()
        assert watched._news.version == 1
        known.touched = known.end
        await watched.tell_if_touched()
        assert b'"end":49' in await anext(reader) and watched._news.version == 2
        known.reading += 1
        await watched.tell_if_touched()
        assert b'"reading":1' in await anext(reader), "another log may end where the one before it did"

    asyncio.run(run())


def test_what_a_cluster_tells_without_a_word_is_heard_all_the_same(made: list[int]) -> None:
    """Groups that stand still, where the quorum is not told: nothing else changes then."""

    async def run() -> list[bytes]:
        live = Live(None, None, Quorums(None, lambda: None))  # type: ignore[arg-type]
        watched = Watched("x", Known(), live)  # type: ignore[arg-type]
        readers = [watched.pulses(Reader()) for _ in range(10)]
        await asyncio.gather(*(anext(one) for one in readers))
        watched.known.end = 7  # type: ignore[attr-defined]
        return await asyncio.gather(*(anext(one) for one in readers))

    events = asyncio.run(run())
    assert made == [1, 7] and len(set(events)) == 1, "it is made once for all of them"


def test_what_fails_beside_the_page_is_told_and_begins_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(beside, "BEGUN_ANEW_S", 0.001)
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise ValueError(f"no {begun}")
        await asyncio.Event().wait()

    async def run() -> None:
        async with beside.beside(beside.Failures(), work):
            async with asyncio.timeout(10):
                while begun < 3:
                    await asyncio.sleep(0.001)

    asyncio.run(run())
    assert begun == 3 and [str(one.exc_info[1]) for one in caplog.records if one.exc_info] == ["no 1", "no 2"]


def test_now_is_judged_once_for_all_who_ask_soon(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known()
    watched = Watched("x", known)  # type: ignore[arg-type]
    now, past = Moment(1, 0, True), Moment(0, 0, False)
    monkeypatch.setattr(module, "JUDGED_S", 600.0)
    for _ in range(3):
        watched.verdict(now)
    watched.verdict(past)
    watched.verdict(past)
    assert made == [1, 0, 0]
    known.touched = 2
    watched.verdict(now)
    asyncio.run(watched.tell())
    watched.verdict(now)
    watched.known = Known()  # type: ignore[assignment]
    watched.verdict(now)
    assert made == [1, 0, 0, 1, 1, 1], "and anew when something is new, or it is another log"
    watched.known.reading += 1  # type: ignore[attr-defined]
    watched.verdict(now)
    assert len(made) == 7
    monkeypatch.setattr(module, "JUDGED_S", 1e-9)
    watched.verdict(now)
    watched.verdict(now)
    assert len(made) == 9, "some of what is wrong comes without a word"


def test_a_verdict_of_before_a_change_is_not_kept_for_those_who_ask_behind_it(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has its moment, and the log grows before it is judged: all others had the old numbers then."""
    monkeypatch.setattr(module, "JUDGED_S", 600.0)
    known = Known()
    watched = Watched("x", known)  # type: ignore[arg-type]
    late = known.moment("")
    known.end = known.touched = 2
    for moment in (late, known.moment(""), known.moment("")):
        watched.verdict(moment)
    assert made == [1, 2]


def test_a_directory_is_read_no_further_when_the_page_has_ended() -> None:
    """It was left with a log that was being read anew, and ended only when all of it was read."""
    log = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"

    async def run() -> None:
        async with directory(log) as watched:
            known = watched.known
            assert known.refresh(True) and known.extent().reading == 1 and not known.notes()  # type: ignore[attr-defined]
        assert known.refresh(True) and known.extent().reading == 1 and "has ended" in known.notes()[0]  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_log_that_could_be_read_at_last_is_kept_though_following_it_fails_once(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its copy was deleted under the page, which went on to show it, and did so for good if it could not be read again."""
    monkeypatch.setattr(module, "AGAIN_S", 0.001)
    monkeypatch.setattr(beside, "BEGUN_ANEW_S", 0.001)
    every: list[Any] = []

    class Copied:
        follows, is_closed, problem, is_cut = 0, False, "", False

        def __init__(self, _: object) -> None:
            every.append(self)

        def close(self) -> None:
            self.is_closed = True

        async def begin(self) -> Known:
            return Known()

        async def follow(self, _: object) -> None:
            self.follows += 1
            if self.follows == 1:
                raise ValueError("no")
            await asyncio.Event().wait()

    class Asking:
        async def watch(self, _: object) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(module, "Tailed", Copied)

    async def run() -> None:
        live = Live(None, None, Quorums(None, lambda: None))  # type: ignore[arg-type]
        watched = Watched("x", Known(), live)  # type: ignore[arg-type]
        following = partial(module._polled, watched, live, None, Asking())  # type: ignore[arg-type]
        async with beside.beside(watched.failures, following):
            async with asyncio.timeout(10):
                while not any(one.follows == 2 for one in every):
                    await asyncio.sleep(0.001)
                    assert not any(one.is_closed for one in every), "it is shown"
        assert len(every) == 1 and live.tailed is every[0] and every[0].is_closed

    asyncio.run(run())


def test_what_fails_beside_the_page_for_good_is_told_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told in the terminal alone, and the page showed what it knew then as that of now."""
    monkeypatch.setattr(beside, "BEGUN_ANEW_S", 0.001)
    monkeypatch.setattr(beside, "STEADY_S", 0.5)
    monkeypatch.setattr(module, "LOOK_S", 0.001)
    monkeypatch.setattr(news, "PULSE_S", 0.0)
    log = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"

    async def run() -> None:
        async with directory(log) as watched, asyncio.timeout(20):
            reader = watched.pulses(Reader())

            async def notes() -> list[str]:
                return list(json.loads((await anext(reader)).removeprefix(b"data: "))["notes"])

            assert await notes() == []
            with monkeypatch.context() as patched:
                patched.setattr(watched.known, "refresh", lambda: 1 // 0)
                assert [one[:39] for one in await notes()] == ["Something beside this page fails, so wh"]
                assert "ZeroDivisionError" in watched.notes()[0]
            assert await notes() == [], "it goes on"

    asyncio.run(run())
