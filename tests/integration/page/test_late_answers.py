"""Answers that come late, or not at all, and words that mean two things: what the page makes of them, in a browser."""

import contextlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.page.metadata.recorded import Recorded
from fastpath.bytes.crc32c import crc32c
from fastpath.records.scan import scan
from tests.integration.page import walking
from tests.integration.page.opened import Page, page
from tests.integration.page.walking import Walker, chromium, entered

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WAIT_MS", 10_000)


@pytest.fixture(scope="module")
def files() -> Iterator[Page]:
    with page(str(LOG)) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def walker(browser: Any, files: Page) -> Iterator[Walker]:
    with entered(browser, files) as found:
        yield found


class Held:
    """Requests that are kept from being answered."""

    def __init__(self, walker: Walker, pattern: str, most: int) -> None:
        self.routes: list[Any] = []
        self._most = most
        self._page = walker.page
        walker.page.route(pattern, self._take)

    def _take(self, route: Any) -> None:
        if len(self.routes) < self._most:
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self) -> None:
        """Wait until all of them were asked."""
        for _ in range(600):
            if len(self.routes) == self._most:
                return
            self._page.wait_for_timeout(50)
        raise AssertionError("it was not asked")

    def let_go(self) -> None:
        """Let them be answered, and the page take the answers."""
        for one in self.routes:
            one.continue_()
        self._page.wait_for_timeout(500)


def test_a_late_answer_about_one_moment_does_not_take_the_place_of_another(walker: Walker) -> None:
    walker.go("partitions", "Partitions")
    held = Held(walker, "**/api/v1/tables/features?*", 1)
    walker.page.focus("input[type=range]")
    walker.page.keyboard.press("Home")
    held.wait()
    walker.page.keyboard.press("End")
    held.let_go()
    assert walker.page.evaluate("location.hash") == "#/partitions"
    assert walker.text(".when .at").startswith("Now") and not walker.wrong
    assert not walker.page.evaluate("document.querySelector('.frame').classList.contains('in-past')")


def test_a_comparison_that_comes_late_is_not_shown_in_the_next_view(walker: Walker) -> None:
    walker.go("time", "Time")
    held = Held(walker, "**/api/v1/tables/features?at=*", 1)
    walker.page.click("text=Compare from this moment")
    held.wait()
    walker.go("partitions", "Partitions")
    asked: list[str] = []
    walker.page.on("request", lambda one: asked.append(one.url))
    held.let_go()
    assert [one for one in asked if "/tables/changes" in one] == [] and not walker.wrong


def test_play_waits_for_the_moment_that_it_asked_for(walker: Walker) -> None:
    walker.go("partitions", "Partitions")
    held = Held(walker, "**/api/v1/tables/features?*", 1)
    walker.page.click(".when >> text=Play")
    held.wait()
    walker.page.wait_for_timeout(2_000)
    assert "at=" in walker.page.evaluate("location.hash"), "it has gone back to now"
    held.let_go()
    walker.page.click(".when >> text=Stop")


def test_what_was_typed_in_a_view_is_no_filter_of_the_next_one(walker: Walker) -> None:
    walker.go("partitions", "Partitions")
    walker.page.evaluate("""() => {
      const search = document.querySelector("input[type=search]");
      search.value = "zzz";
      search.dispatchEvent(new Event("input"));
      [...document.querySelectorAll("nav a")].find((one) => one.textContent === "Topics").click();
    }""")
    walker.until("document.querySelector('main h1')?.textContent === 'Topics'")
    walker.page.wait_for_timeout(600)
    assert walker.page.evaluate("location.hash") == "#/topics" and not walker.wrong


def test_a_time_that_could_not_be_had_at_first_is_had_later(browser: Any, files: Page) -> None:
    with browser.new_context() as context:
        walker, failing = Walker(context, files), [True]
        walker.page.route(
            "**/api/v1/timeline?*",
            lambda route: route.fulfill(status=500, json={"error": "it is tired"}) if failing else route.continue_(),
        )
        walker.enter()
        walker.until("document.querySelector('main h1')")
        for name in ("◀", "▶", "Play"):
            button = walker.page.locator(f".when >> text={name}")
            assert button.is_disabled() or button.click() is None
        walker.page.focus("body")
        failing.clear()
        walker.until("document.querySelector('.when .at').textContent.startsWith('Now')")
        assert [one for one in walker.wrong if "500" not in one] == []


def test_a_moment_that_is_none_is_told_until_the_view_is_left(walker: Walker) -> None:
    walker.page.goto(f"{walker.base}#/partitions?at=yesterday")
    walker.until("document.querySelector('main')?.innerText.includes('is no moment')")
    walker.page.wait_for_timeout(6_000)  # longer than it takes until the page hears something
    assert "is no moment" in walker.text() and walker.page.evaluate("location.hash") == "#/partitions"


def asked(walker: Walker, sql: str) -> str:
    """What the view Ask shows of a question."""
    walker.page.fill("textarea", sql)
    walker.page.click("button.main >> text=Ask")
    walker.until("/^1 row/.test(document.querySelector('.tools [role=status]').textContent)")
    walker.until("document.querySelector('.rows-row') && !document.querySelector('.waits')")
    return str(walker.page.inner_text(".rows-row"))


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        (
            "select 9007199254740993::bigint as n, -9007199254740993::bigint as m",
            ["9007199254740993", "-9007199254740993"],
        ),
        ("select 0.0004::double as x, 1234.56789::double as y, 12345678 as z", ["0.0004", "1,234.56789", "12,345,678"]),
        ('select 1 as "a 1", 2 as a, 3 as a', ["1", "2", "3"]),
        ("select 7 as constructor, 8 as __proto__", ["7", "8"]),
    ],
)
def test_an_answer_is_shown_as_it_is(walker: Walker, sql: str, shown: list[str]) -> None:
    walker.go("ask", "Ask")
    walker.until("document.querySelector('.rows-row')")
    assert asked(walker, sql).split() == shown and not walker.wrong


def test_an_answer_that_cannot_be_saved_is_told(walker: Walker) -> None:
    walker.go("ask", "Ask")
    walker.until("document.querySelector('.rows-row')")
    answers = [{"status": 503, "content_type": "text/plain", "body": "busy"}]
    walker.page.route("**/api/v1/ask", lambda route: route.fulfill(**answers.pop()) if answers else route.abort())
    for words in ("answered with 503", "does not answer"):
        walker.page.click("text=Save as Arrow")
        walker.until(f"document.querySelector('main .failed')?.innerText.includes({json.dumps(words)})")
        assert walker.page.locator(".rows-row").count(), "the answer that was there is still right"
    assert [one for one in walker.wrong if "Failed to load" not in one and "503" not in one] == []


@pytest.mark.parametrize(("rows", "name"), [(10_001, "answer-first-10000-rows.parquet"), (9, "answer.parquet")])
def test_a_saved_answer_says_whether_it_is_all_of_it(walker: Walker, rows: int, name: str) -> None:
    walker.go("ask", "Ask")
    walker.page.fill("textarea", f"select unnest(range({rows})) as n")
    with walker.page.expect_download() as saved:
        walker.page.click("text=Save as Parquet")
    assert saved.value.suggested_filename == name
    assert ("has the first 10,000 rows of more" in walker.text()) == (rows > 10_000) and not walker.wrong


def to_place(walker: Walker, place: int) -> None:
    """Move the slider to one of its 400 places."""
    walker.page.evaluate(
        """(place) => {
      const range = document.querySelector("input[type=range]");
      range.value = place;
      range.dispatchEvent(new Event("input"));
    }""",
        place,
    )


def test_a_view_that_is_opened_while_the_slider_moves_shows_the_moment_of_the_slider(walker: Walker) -> None:
    held = Held(walker, "**/api/v1/tables/partitions?*", 1)
    walker.page.evaluate("location.hash = '#/partitions'")
    held.wait()
    to_place(walker, 0)
    walker.until("document.querySelector('.when .at').textContent.startsWith('As of')")
    held.let_go()
    walker.until("document.querySelector('main h1')?.textContent === 'Partitions'")
    walker.until("document.querySelector('main').innerText.includes('There was no partition at this moment')")
    assert not walker.wrong


@pytest.fixture
def growing(browser: Any, tmp_path: Path) -> Iterator[tuple[Walker, Path]]:
    """A page of a log that was copied up to its middle."""
    directory = tmp_path / LOG.name
    shutil.copytree(LOG, directory)
    file = directory / "00000000000000000000.log"
    data = file.read_bytes()
    headers, _, _ = scan(memoryview(data), 0, len(data), True)
    file.write_bytes(data[: int(headers[len(headers) // 2]["position"])])
    with page(str(directory)) as opened, entered(browser, opened) as walker:
        yield walker, file


def test_what_changes_while_a_view_is_opened_is_shown(growing: tuple[Walker, Path]) -> None:
    walker, file = growing
    held = Held(walker, "**/api/v1/tables/changes?*", 1)
    walker.page.evaluate("location.hash = '#/changes'")
    held.wait()
    answer = held.routes[0].fetch()
    with file.open("ab") as grown:
        grown.write((LOG / file.name).read_bytes()[file.stat().st_size :])
    until = len(Recorded(LOG).changes())
    for _ in range(100):
        if walker.opened.get("/tables/changes", n=0)["total"] == until:
            break
        walker.page.wait_for_timeout(100)
    walker.page.wait_for_timeout(1_000)  # the page hears it
    held.routes[0].fulfill(response=answer)
    walker.until(f"document.querySelector('.rows-foot')?.innerText.endsWith('of {until}')")
    assert not walker.wrong


def test_a_moment_of_another_log_is_shown_anew(growing: tuple[Walker, Path]) -> None:
    walker, file = growing
    walker.go("changes?at=100", "Changes")
    before = walker.text(".rows-row")
    headers, _, _ = scan(memoryview(file.read_bytes()), 0, file.stat().st_size, True)
    data = bytearray(file.read_bytes())
    for at, size in zip(headers["position"].tolist(), headers["size"].tolist(), strict=True):
        for place in (27, 35):
            time = int.from_bytes(data[at + place : at + place + 8]) + 3_600_000
            data[at + place : at + place + 8] = time.to_bytes(8)
        data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4)
    (file.parent / "other").write_bytes(data)
    (file.parent / "other").replace(file)
    walker.until(f"document.querySelector('.rows-row').innerText !== {json.dumps(before)}")
    assert not walker.wrong


def test_what_is_open_of_a_partition_goes_with_the_slider_and_says_its_moment(walker: Walker) -> None:
    walker.go("partitions", "Partitions")
    walker.page.click(".rows-row")
    walker.until("/As of\\s+now, offset/.test(document.querySelector('.drawer').innerText)")
    to_place(walker, 399)
    walker.until("document.querySelector('.when .at').textContent.startsWith('As of')")
    offset = walker.page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('at')")
    walker.until(f"document.querySelector('.drawer').innerText.includes('UTC, offset {int(offset):,}')")
    held = Held(walker, "**/api/v1/partitions/**", 1)
    to_place(walker, 398)
    held.wait()
    to_place(walker, 0)
    walker.until("document.querySelector('.drawer').innerText.includes('There is no partition')")
    held.let_go()
    assert "There is no partition" in walker.text(".drawer"), "an answer of another moment came late"


def test_brokers_without_a_column_are_told(walker: Walker) -> None:
    def answer(route: Any) -> None:
        told = route.fetch().json()
        assert told["left_out"] == 0
        route.fulfill(json={**told, "left_out": 7})

    walker.go("partitions?as=heat", "Partitions")
    assert "no column here" not in walker.text()
    walker.page.route("**/api/v1/heat?*", answer)
    walker.go("topics", "Topics")
    walker.go("partitions?as=heat", "Partitions")
    assert "7 brokers with a higher number have no column here" in walker.text() and not walker.wrong


DRAWERS = """(count) => import("/kit.js").then((kit) => {
  document.querySelector("nav a").focus();
  for (let at = 0; at < count; at++) kit.drawer(`number ${at}`);
})"""


def test_a_key_closes_what_is_open_and_does_nothing_afterwards(walker: Walker) -> None:
    """It moved the focus to where that was when something was opened that had been closed long ago."""
    focus = "document.querySelectorAll('nav a')[{}].{}"
    walker.page.evaluate(DRAWERS, 3)
    assert walker.page.locator(".drawer").count() == 1
    walker.page.keyboard.press("Escape")
    assert walker.page.locator(".drawer").count() == 0
    assert walker.page.evaluate(focus.format(0, "matches(':focus')")), "it is where it was before the first one"
    walker.page.evaluate(DRAWERS, 1)
    walker.page.evaluate("() => import('/kit.js').then((kit) => kit.shutDrawer())")
    walker.page.evaluate(focus.format(3, "focus()"))
    walker.page.keyboard.press("Escape")
    assert walker.page.evaluate(focus.format(3, "matches(':focus')")) and not walker.wrong


def test_a_key_closes_a_dialog_and_not_what_is_open_behind_it(walker: Walker) -> None:
    walker.page.evaluate(DRAWERS, 1)
    walker.page.evaluate(OPEN, "")
    walker.page.keyboard.press("Escape")
    walker.until("!document.querySelector('dialog')")
    assert walker.page.locator(".drawer").count() == 1


def test_a_kind_that_does_not_exist_is_the_first_one(walker: Walker) -> None:
    walker.go("security?kind=constructor", "Security")
    walker.until("document.querySelector('main').innerText.includes('There is no access rule')")
    assert not walker.wrong


def test_features_of_another_moment_that_come_late_are_not_shown(walker: Walker) -> None:
    walker.go("settings", "Settings")
    walker.until("document.querySelector('main').innerText.includes('metadata.version')")
    held = Held(walker, "**/api/v1/tables/features?*n=200*", 1)
    to_place(walker, 0)
    held.wait()
    to_place(walker, 400)
    walker.page.wait_for_timeout(500)
    with contextlib.suppress(Exception):  # the page may have given up the question
        held.let_go()
    walker.page.wait_for_timeout(500)
    assert "metadata.version" in walker.text() and not walker.wrong


# ---- topics: as if there were a cluster


@pytest.fixture
def live(walker: Walker) -> Walker:
    """A page that takes its files for a cluster."""
    walker.page.route(
        re.compile("/api/v1$"),
        lambda route: route.fulfill(json={**route.fetch().json(), "live": True, "kind": "cluster"}),
    )
    walker.page.reload()
    walker.page.wait_for_selector("h1")
    return walker


def test_why_a_reading_ended_is_not_told_of_the_next_one(live: Walker) -> None:
    record = {
        "timestamp": 0,
        "partition": 0,
        "offset": 5,
        "key": None,
        "value": {"size": 1, "text": "x"},
        "headers": [],
    }
    read = f"event: records\ndata: {json.dumps([record])}\n\nevent: end\ndata: {{}}\n\n"
    readings = [{"content_type": "text/event-stream", "body": read}]
    fails = [True]
    live.page.route(
        "**/api/v1/topics/t1/records?*",
        lambda route: route.abort() if fails and fails.pop() else route.fulfill(**readings[0]),
    )
    held: list[Any] = []
    live.page.route(re.compile("/api/v1/topics/t1$"), lambda route: held.append(route))
    live.page.evaluate("location.hash = '#/topics/t1'")
    live.until("document.querySelector('main span[role=status]')?.textContent.startsWith('failed')")
    live.page.click("button.main >> text=Read")
    live.until(
        "document.querySelector('.rows-row') && document.querySelector('main').innerText.includes('read: 1 record')"
    )
    held[0].fulfill(json={"rows": [], "settings": []})
    live.page.wait_for_timeout(500)
    assert not live.page.locator("main .failed").count()


def test_settings_that_come_late_do_not_take_the_place_of_newer_ones(live: Walker) -> None:
    held: list[Any] = []
    live.page.route(re.compile("/api/v1/topics/t1$"), lambda route: held.append(route))

    def answer(at: int, value: str) -> None:
        for _ in range(100):
            if len(held) > at:
                break
            live.page.wait_for_timeout(50)
        held[at].fulfill(json={"rows": [], "settings": [["retention.ms", value, "topic"]]})

    live.page.evaluate("location.hash = '#/topics/t1?tab=settings'")
    answer(0, "first")
    live.until("document.querySelector('main').innerText.includes('first')")
    to_place(live, 398)
    live.page.wait_for_timeout(500)
    to_place(live, 399)
    answer(2, "third")
    live.until("document.querySelector('main').innerText.includes('third')")
    with contextlib.suppress(Exception):  # the page may have given up the question
        answer(1, "second")
    live.page.wait_for_timeout(500)
    assert "third" in live.text() and "second" not in live.text()


# ---- dialogs: of a page that may change things, without a cluster

OPEN = """(words) => import("/changing.js").then((changing) => {
  window.said = [];
  const app = { say: (one) => window.said.push(String(one)), shown: {} };
  const act = () => new Promise((_, no) => { window.refuse = no; window.said.push("done"); });
  if (words === "reset") changing.resetGroup(app, "app");
  else if (words === "typed") changing.dialog(app, "A thing", { action: "Do it", typed: "it", act });
  else changing.dialog(app, "A thing", { action: "Do it", act: () => new Promise((_, no) => { window.refuse = no; }) });
})"""


def tried(rows: list[list[Any]]) -> dict[str, Any]:
    return {"json": {"rows": rows}}


def test_what_a_reset_would_do_is_what_the_fields_say(walker: Walker) -> None:
    held: list[Any] = []

    def answer(route: Any) -> None:
        to = json.loads(route.request.post_data)["to"]
        held.append(route) if to == "beginning" else route.fulfill(**tried([[f"of-{to}", 0, 5, 9]]))

    walker.page.route("**/api/v1/tried/groups/reset", answer)
    walker.page.evaluate(OPEN, "reset")
    walker.page.click("text=What would it do?")
    walker.page.select_option("dialog select", "end")
    walker.page.click("text=What would it do?")
    walker.until("document.querySelector('dialog').innerText.includes('of-end-0')")
    held[0].fulfill(**tried([["of-beginning", 0, 5, 0]]))
    walker.page.wait_for_timeout(500)
    assert "of-end-0" in walker.text("dialog") and "of-beginning" not in walker.text("dialog")
    walker.page.select_option("dialog select", "last")
    assert "of-end-0" not in walker.text("dialog"), "that is not what would be done now"


@pytest.mark.parametrize(
    ("place", "which"),
    [
        ("time", "2026"),
        ("time", "end"),
        ("ago", "1200"),
        ("offset", "-5"),
        ("offset", "15m"),
        ("last", "-5"),
        ("last", ""),
    ],
)
def test_a_place_is_not_taken_for_another_kind_of_place(walker: Walker, place: str, which: str) -> None:
    """The year 2026 was the offset 2026 of each partition."""
    sent: list[str] = []

    def answer(route: Any) -> None:
        sent.append(route.request.post_data)
        route.fulfill(**tried([]))

    walker.page.route("**/api/v1/tried/groups/reset", answer)
    walker.page.evaluate(OPEN, "reset")
    walker.page.select_option("dialog select", place)
    walker.page.fill("dialog input[name=which]", which)
    walker.page.click("text=What would it do?")
    walker.until("document.querySelector('dialog .failed')")
    assert not sent and "rite" in walker.text("dialog .failed")


@pytest.mark.parametrize(
    ("place", "which", "to"),
    [
        ("time", "2026-11-29T14:02", "2026-11-29T14:02"),
        ("ago", "15m", "15m"),
        ("offset", "12", "12"),
        ("last", "7", "-7"),
    ],
)
def test_a_place_of_its_kind_is_asked_for(walker: Walker, place: str, which: str, to: str) -> None:
    walker.page.evaluate(OPEN, "reset")
    walker.page.select_option("dialog select", place)
    walker.page.fill("dialog input[name=which]", which)
    with walker.page.expect_request("**/api/v1/tried/groups/reset") as asked:
        walker.page.click("text=What would it do?")
    assert json.loads(asked.value.post_data)["to"] == to


def test_what_is_refused_behind_a_dialog_that_was_closed_is_told(walker: Walker) -> None:
    walker.page.evaluate(OPEN, "")
    walker.page.click("dialog >> text=Do it")
    walker.page.keyboard.press("Escape")
    walker.until("!document.querySelector('dialog')")
    walker.page.evaluate("() => window.refuse(new Error('the cluster refuses'))")
    walker.until("window.said.length")
    assert walker.page.evaluate("window.said") == ["Error: the cluster refuses"]


def test_what_is_being_done_is_not_done_twice(walker: Walker) -> None:
    walker.page.evaluate(OPEN, "typed")
    walker.page.fill("dialog input", "it")
    walker.page.click("dialog >> text=Do it")
    walker.page.fill("dialog input", "i")
    walker.page.fill("dialog input", "it")
    walker.page.keyboard.press("Enter")
    assert walker.page.evaluate("window.said") == ["done"] and walker.page.is_disabled("dialog >> text=Do it")
    walker.page.evaluate("() => window.refuse(new Error('the cluster refuses'))")
    walker.until("document.querySelector('dialog').innerText.includes('the cluster refuses')")
    assert walker.page.is_enabled("dialog >> text=Do it")


def test_why_a_reset_was_refused_is_not_written_over_by_what_it_would_have_done(walker: Walker) -> None:
    held = Held(walker, "**/api/v1/tried/groups/reset", 1)
    walker.page.route(
        "**/api/v1/changes/groups/reset", lambda route: route.fulfill(status=409, json={"error": "it has members"})
    )
    walker.page.evaluate(OPEN, "reset")
    walker.page.click("text=What would it do?")
    held.wait()
    walker.page.click("dialog >> text=Reset")
    walker.until("document.querySelector('dialog').innerText.includes('it has members')")
    held.routes[0].fulfill(**tried([["orders", 0, 5, 9]]))
    walker.page.wait_for_timeout(500)
    assert "it has members" in walker.text("dialog") and "orders-0" not in walker.text("dialog")


def test_a_dialog_does_not_outlive_its_view(walker: Walker) -> None:
    walker.page.evaluate(OPEN, "")
    walker.page.evaluate("location.hash = '#/topics'")
    walker.until("document.querySelector('main h1')?.textContent === 'Topics'")
    assert walker.page.locator("dialog").count() == 0
