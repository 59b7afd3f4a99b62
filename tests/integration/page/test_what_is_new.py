"""What comes while a page is open, and a process that says nothing more: what a browser shows of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastpath.records.scan import scan
from tests.integration.page import walking
from tests.integration.page.opened import page
from tests.integration.page.walking import Walker, chromium, entered

LOG = Path(__file__).parents[2] / "golden" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WAIT_MS", 25_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


def test_a_process_that_says_nothing_more_is_not_taken_for_one_at_which_nothing_happens(browser: Any) -> None:
    """Its connection stays open, as through a tunnel whose other end has gone: the page said well for as long."""
    with page(str(LOG)) as opened, entered(browser, opened) as walker:
        walker.go("partitions", "Partitions")
        os.kill(opened.process.pid, signal.SIGSTOP)
        try:
            walker.until("document.querySelector('.state.pill').textContent.includes('not connected')")
            assert "does not answer" in walker.text()
        finally:
            os.kill(opened.process.pid, signal.SIGCONT)
        walker.until("document.querySelector('.state.pill').textContent.includes('well')")
        assert "does not answer" not in walker.text() and not walker.wrong
        walker.page.wait_for_timeout(16_000)
        assert walker.text(".state.pill") == "●well", "a process at which nothing happens is heard all the same"


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Path, bytes]]:
    """The first half of a log, and what comes behind it."""
    data = LOG.read_bytes()
    headers, _, _ = scan(data, 0, len(data), False)
    cut = int(headers[len(headers) // 2]["position"])
    file = tmp_path / LOG.parent.name / LOG.name
    file.parent.mkdir()
    file.write_bytes(data[:cut])
    yield file, data[cut:]


def marks(walker: Walker) -> str:
    """The last thing that the view Time says has happened."""
    return str(walker.page.inner_text(".panel:has-text('What happened up to this moment') table tr:nth-child(2)"))


def test_what_has_just_happened_is_among_what_happened(browser: Any, growing: tuple[Path, bytes]) -> None:
    """The list of a view that was open was made before the time was laid out anew: the newest fault was not in it."""
    file, more = growing
    with page(str(file.parent)) as opened, entered(browser, opened) as walker:
        walker.go("time", "Time")
        before = marks(walker)
        with file.open("ab") as log:
            log.write(more)
        walker.until("document.querySelector('.panel table')?.innerText.includes('controller 1002 leads, epoch 2')")
        after = marks(walker)
        walker.page.reload()
        walker.until("document.querySelector('.panel table')")
        assert before != after == marks(walker) and not walker.wrong
