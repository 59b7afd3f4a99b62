"""Everything that one page shows: one cluster or directory, or several, each with its own history and bounds.

This file alone decides how they are opened. One alone has to open, or the page does not begin. Of several each is opened by
itself, and tried again every AGAIN_S: one that is away is told in a sentence and keeps no other from being shown.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from actors.client.errors import ClientError
from actors.page.watched import Watched
from actors.replay.logs.files import CorruptLog, NothingToRead

LOG = logging.getLogger(__name__)
CLUSTERS_MAX = 16
"""How many one page shows: each may keep a history of a million changes and partitions."""
AGAIN_S = 10.0
FIRST_S = 3.0
"""How long the page waits before its begin for those that are being opened, s."""
FAILURES = (ClientError, CorruptLog, NothingToRead, OSError, ValueError)

Opening = Callable[[], AbstractAsyncContextManager[Watched]]


class Slot:
    """One of the things that a page shows."""

    def __init__(self, name: str, watched: Watched | None = None) -> None:
        self.name = name
        self.found = watched
        """What is shown; None: it is not open."""
        self.why = "it is being opened"
        """Why it is not open."""
        self.tried = asyncio.Event()

    @property
    def watched(self) -> Watched:
        """What is shown. Raises ClientError while it is not open."""
        if self.found is None:
            raise ClientError(f"{self.name} cannot be shown: {self.why}")
        return self.found


@asynccontextmanager
async def shown(openings: Mapping[str, Opening]) -> AsyncIterator[dict[str, Slot]]:
    """What a page shows, by the names that its readers see, in their order. One alone raises what its opening raises."""
    if len(openings) == 1:
        for name, opening in openings.items():
            async with opening() as watched:
                yield {name: Slot(name, watched)}
        return
    slots = {name: Slot(name) for name in openings}
    tasks = [asyncio.create_task(_kept(slots[name], opening)) for name, opening in openings.items()]
    try:
        tried = [asyncio.create_task(slot.tried.wait()) for slot in slots.values()]
        await asyncio.wait(tried, timeout=FIRST_S)
        for waiting in tried:
            waiting.cancel()
        yield slots
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kept(slot: Slot, opening: Opening) -> None:
    """Open it, again and again, and keep it open until the task is cancelled."""
    while True:
        try:
            async with opening() as slot.found:
                slot.tried.set()
                await asyncio.Event().wait()
        except FAILURES as error:
            slot.why = str(error)
        except Exception as error:
            LOG.exception("%s cannot be opened", slot.name)
            slot.why = f"this is a fault of the page: {error!r}"
        finally:
            slot.found = None
        slot.tried.set()
        await asyncio.sleep(AGAIN_S)
