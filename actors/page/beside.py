"""What runs beside a page and has no end.

This file alone decides that what fails is begun anew, and for how long that is told: in the terminal at once, and on the
page until it has gone on for STEADY_S. Else the page would show what it knew then as that of now, for days.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from actors.printable import printable

LOG = logging.getLogger(__name__)
BEGUN_ANEW_S = 5.0
"""After what time something begins anew that has failed, s."""
STEADY_S = 30.0
"""How long something that has failed has to go on until it counts as mended, s."""
REASON_MAX = 300

Work = Callable[[], Awaitable[None]]


class Failures:
    """What has failed beside a page, and has not gone on for long since."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called when there is something else to be told."""
        self._found: dict[Work, str] = {}

    def note(self, work: Work, error: Exception) -> None:
        """Note why a work has failed."""
        reason = f"{type(error).__name__} {error}".strip()[:REASON_MAX]
        if self._found.get(work) != reason:
            self._found[work] = reason
            self.on_change()

    def forget(self, work: Work) -> None:
        """Note that a work goes on."""
        if self._found.pop(work, None) is not None:
            self.on_change()

    def end(self, work: Work) -> None:
        """Forget a work that is over."""
        self._found.pop(work, None)

    def notes(self) -> list[str]:
        """A sentence for each reason."""
        return [
            f"Something beside this page fails, so what is shown may be older than it seems: {printable(one)}. It is tried "
            f"again, and the terminal of rayft ui says more"
            for one in dict.fromkeys(self._found.copy().values())
        ]


@asynccontextmanager
async def beside(failures: Failures, *works: Work) -> AsyncIterator[None]:
    """Run some works, which have no end, as tasks until the body is over."""
    tasks = [asyncio.create_task(again_and_again(failures, one)) for one in works]
    try:
        yield
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def again_and_again(failures: Failures, work: Work) -> None:
    """Run a work, which has no end, and begin it anew when it has failed."""
    try:
        while True:
            goes_on = asyncio.get_running_loop().call_later(STEADY_S, partial(failures.forget, work))
            try:
                await work()
            except Exception as error:
                LOG.exception("something that runs beside the page has failed, and begins anew")
                failures.note(work, error)
            finally:
                goes_on.cancel()
            await asyncio.sleep(BEGUN_ANEW_S)
    finally:
        failures.end(work)
