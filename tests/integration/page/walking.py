"""A browser that walks through every view of a page, whatever the page shows.

This file alone decides what is looked at in each view (`walk`): nothing fails in the console, the page's policy is kept,
nothing is asked of another origin, nothing is wider than the window, no text is faint, what can be used has a name, and is
reached and seen with the keyboard alone.

It needs Chromium (Debian's package `chromium`) and Playwright's Python API (`pip install playwright`; its own browsers are
not needed). Without them the tests that import it are skipped.
"""

import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.page.opened import Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
if CHROMIUM is None:
    pytest.skip("Chromium is not installed: apt-get install chromium", allow_module_level=True)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT_MS = 60_000
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
TITLES = ("Now", "Time", "Partitions", "Topics", "Groups", "Changes", "Ask", "Security", "Settings")
TABS_MAX = 150
"""How often the tabulator is pressed before it is said that it leads nowhere."""


def views(topic: str) -> dict[str, str]:
    """Each view as its address has it, and what its heading holds. `topic`: one that there is."""
    return {
        "now": "ell", "time": "Time", "partitions": "Partitions", "partitions?as=heat": "Partitions", "topics": "Topics",
        f"topics/{topic}": topic, f"topics/{topic}?tab=offsets": topic, f"topics/{topic}?tab=settings": topic,
        "groups": "Groups", "changes": "Changes", "ask": "Ask", "security": "Security", "security?kind=scram": "Security",
        "security?kind=quotas": "Security", "security?kind=tokens": "Security", "settings": "Settings",
    }  # fmt: skip


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`the policy ${event.effectiveDirective} forbids ${event.blockedURI}`));"""


class Walker:
    """A browser's page, and what went wrong in it."""

    def __init__(self, context: Any, opened: Page) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.opened = opened
        self.base = f"http://{opened.host}:{opened.port}/"
        self.wrong: list[str] = []
        self.page.add_init_script(VIOLATIONS)
        self.page.on("console", lambda one: self.wrong.append(one.text) if one.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda one: self._asked(one.url))
        self.page.on(
            "response", lambda one: self.wrong.append(f"{one.status} {one.url}") if one.status >= 400 else None
        )

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "blob:" + self.base)):
            self.wrong.append(f"a request to another origin: {url}")

    def enter(self) -> None:
        """Open the printed address."""
        self.page.goto(self.opened.address)
        self.page.wait_for_selector("h1")

    def go(self, view: str, heading: str) -> None:
        """Show a view, and wait until it is there."""
        self.page.goto(f"{self.base}#/{view}")
        self.until(
            f"decodeURIComponent(location.hash).startsWith('#/{view.partition('?')[0]}')"
            f" && document.querySelector('main h1')?.textContent.includes('{heading}') && !document.querySelector('.waits')"
        )

    def until(self, condition: str) -> None:
        """Wait until an expression is true. The page's policy lets nothing evaluate texts in it, so it is asked again and
        again from outside."""
        end = time.monotonic() + WAIT_MS / 1000
        while not self._holds(condition):
            assert time.monotonic() < end, f"{condition} was not true; the page says: {self.text('body')}"
            self.page.wait_for_timeout(50)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.page.evaluate(condition))
        except sync_api.Error as error:
            if "because of a navigation" not in str(error):
                raise
            return False

    def text(self, selector: str = "main") -> str:
        """The text of an element."""
        return str(self.page.inner_text(selector))


@contextmanager
def entered(browser: Any, opened: Page) -> Iterator[Walker]:
    """Who has opened the printed address in a wide window."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        found = Walker(context, opened)
        found.enter()
        yield found


CONTRAST = """() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number), scale = text.startsWith("color(") ? 255 : 1;
    return [r * scale, g * scale, b * scale, a];
  };
  const part = (one) => ((one /= 255) <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const ground = (one) => {
    const found = [];
    for (let at = one; at; at = at.parentElement) found.push(parse(getComputedStyle(at).backgroundColor));
    return found.reduceRight((below, top) => over(top, below), [255, 255, 255]);
  };
  const wrong = new Set();
  for (const one of document.querySelectorAll("body *")) {
    const text = [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data.trim()).join("");
    if (!text || !one.checkVisibility() || one.closest(":disabled, option, noscript")) continue;
    const below = ground(one), above = over(parse(getComputedStyle(one).color), below);
    const [high, low] = [light(above), light(below)].sort((a, b) => b - a);
    if ((high + 0.05) / (low + 0.05) < 4.5) wrong.add(`${one.tagName} ${text.slice(0, 40)}`);
  }
  return [...wrong];
}"""
"""The texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3)."""

SQUEEZED = """() => [...document.querySelectorAll("table.plain")].filter((one) => one.checkVisibility())
  .filter((one) => {
    const around = one.parentElement, edge = parseFloat(getComputedStyle(around).paddingRight);
    const right = around.getBoundingClientRect().right - edge;
    const line = parseFloat(getComputedStyle(one).lineHeight) || 20;
    return one.getBoundingClientRect().right > right + 1
      || [...one.querySelectorAll("th")].some((th) => !th.innerText.includes(" ") && th.clientHeight > 12 + 1.8 * line);
  }).map((one) => one.innerText.slice(0, 80))"""
"""Tables that are wider than what they are in, or whose headings are broken into letters."""
UNNAMED = """() => [...document.querySelectorAll("button, a, input, select, textarea, summary")]
  .filter((one) => one.checkVisibility())
  .filter((one) => !(one.innerText || one.ariaLabel || one.labels?.length || one.title))
  .map((one) => one.outerHTML.slice(0, 200))"""
"""What can be used and has no name that could be read aloud."""
USABLE = """() => [...document.querySelector("main")
    .querySelectorAll("button, a[href], input, select, textarea, summary, [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !one.disabled && one.getClientRects().length)
  .map((one) => one.ariaLabel || one.innerText.trim().slice(0, 60) || one.placeholder || one.tagName)"""
"""What can be used in the view, by its name."""
FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const ring = one.type === "range" ? one.nextElementSibling : one;
  return {
    name: one.ariaLabel || one.innerText?.trim().slice(0, 60) || one.placeholder || one.tagName,
    link: one.tagName === "A" && Boolean(one.closest("nav")), main: Boolean(one.closest("main")),
    seen: getComputedStyle(ring).outlineStyle !== "none",
  };
}"""
"""What has the focus, and whether that can be seen."""


def walk(
    browser: Any,
    opened: Page,
    topic: str,
    *,
    between: Callable[[int], None] = lambda looked: None,
    tolerated: Collection[int] = (),
) -> None:
    """Look at every view in both widths and both schemes, then go through all of them with the keyboard alone. `between`: is
    called before each view with how many were looked at. `tolerated`: the statuses that an answer may have beside 200,
    where brokers really go away meanwhile."""
    looked = 0
    for width in WIDTHS:
        for scheme in SCHEMES:
            with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme) as context:
                walker = Walker(context, opened)
                walker.enter()
                assert "token" not in walker.page.url
                for view, heading in views(topic).items():
                    between(looked)
                    looked += 1
                    walker.go(view, heading)
                    look(walker, f"{view}, {width} px, {scheme}", width)
                if scheme == SCHEMES[-1]:
                    by_keyboard(walker)
                assert wrong(walker, tolerated) == []


def wrong(walker: Walker, tolerated: Collection[int]) -> list[str]:
    """What went wrong in a browser's page, without the answers that are tolerated and the console's note of each."""
    notes = [f"the server responded with a status of {status} " for status in tolerated]
    answers = [f"{status} http" for status in tolerated]
    return [
        one for one in walker.wrong if not one.startswith(tuple(answers)) and not any(note in one for note in notes)
    ]


def look(walker: Walker, where: str, width: int) -> None:
    """One view as it is now."""
    assert walker.page.evaluate("document.documentElement.scrollWidth") <= width, f"{where} is wider than its window"
    squeezed = walker.page.evaluate(SQUEEZED)
    assert squeezed == [], f"{where}: {squeezed}"
    text = walker.text()
    assert not [one for one in ("undefined", "NaN", "[object") if one in text], f"{where}: {text}"
    unnamed = walker.page.evaluate(UNNAMED)
    assert unnamed == [], f"{where}: {unnamed}"
    faint = walker.page.evaluate(CONTRAST)
    assert faint == [], f"{where}: {faint}"


def by_keyboard(walker: Walker) -> None:
    """Go to every view with tabulator and Enter alone, and reach everything that can be used there."""
    narrow = walker.page.viewport_size["width"] < 860
    for title in TITLES:
        if narrow:
            _tab_to(walker, lambda one: one["name"] == "Menu")
            walker.page.keyboard.press("Enter")
        _tab_to(walker, lambda one, title=title: one["link"] and one["name"] == title)
        walker.page.keyboard.press("Enter")
        walker.until(f"document.title.startsWith('{title} ')")
        walker.until("document.querySelector('main h1') && !document.querySelector('.waits')")
        wanted = set(walker.page.evaluate(USABLE))
        reached: set[str] = set()
        for _ in range(TABS_MAX):
            walker.page.keyboard.press("Tab")
            one = walker.page.evaluate(FOCUSED)
            if one is None or (one["main"] is False and reached):
                break
            assert one["seen"], f"{title}: nobody sees that {one['name']} has the focus"
            if one["main"]:
                reached.add(one["name"])
        missing = (wanted & set(walker.page.evaluate(USABLE))) - reached
        assert not missing, f"{title}: the keyboard reaches {sorted(reached)}, and not {sorted(missing)}"


def _tab_to(walker: Walker, wanted: Callable[[dict[str, Any]], bool]) -> None:
    for _ in range(TABS_MAX):
        walker.page.keyboard.press("Tab")
        one = walker.page.evaluate(FOCUSED)
        if one is not None and wanted(one):
            return
    raise AssertionError(f"the tabulator does not lead there: {walker.page.evaluate(FOCUSED)}")
