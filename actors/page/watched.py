"""What one page shows: a directory, or a running cluster by its address; and the word to its readers that something is new.

This file alone decides what runs beside the page, and what its readers hear.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from actors.arrow.copy_rooms import remove_left
from actors.client.errors import ClientError
from actors.client.operations.leaders import Part
from actors.client.properties import ClientConfig
from actors.host.client.asynchronous import Kafka
from actors.host.client.schema_registry import Registry
from actors.page.beside import Failures, again_and_again, beside
from actors.page.changes.nodes import Nodes
from actors.page.lately import Lately
from actors.page.live.lags import Lags
from actors.page.live.polls import Polls
from actors.page.live.quorums import Quorums
from actors.page.live.tail import Tailed
from actors.page.live.troubles import Told, Troubles
from actors.page.metadata.moments import Knows, Moment
from actors.page.metadata.recorded import Recorded
from actors.page.metadata.slices import Wanted
from actors.page.news import QUIET_S, News, Reader
from actors.page.quorum import quorum_shown
from actors.page.verdict import Asked, Verdict, verdict

AGAIN_S = 10.0
"""How often it is tried whether a log can be read that could not be read, s."""
JUDGED_S = QUIET_S
"""For how long the health of now is the same for all who ask, if no word comes that something is new, s."""
LOOK_S = 1.0
"""How often a directory is looked at."""


class Watched:
    """The thing that the page shows."""

    def __init__(
        self,
        name: str,
        known: Knows,
        live: "Live | None" = None,
        nodes: Nodes | None = None,
        failures: Failures | None = None,
    ) -> None:
        self.name = name
        """The address or the path, as it was given."""
        self.known = known
        self.live = live
        self.nodes = nodes
        """The nodes' processes, where this page may do something to them."""
        self.failures = failures or Failures()
        """What has failed beside the page."""
        self._news = News(self._event, lambda: self.live is not None)
        self.failures.on_change = self._news.tell
        self._touched: Any = None
        self._judged = Lately()
        """The last verdict on now."""

    @property
    def asked(self) -> Asked | None:
        """What the cluster answered last; None: nobody is asked."""
        if self.live is None:
            return None
        told = self.live.troubles.told if self.live.troubles is not None else Told()
        return self.live.quorums.asked._replace(
            log_dirs=told.log_dirs, transactions=told.transactions, groups=self.live.lags.standing
        )

    def led(self, most: int) -> list[Part] | None:
        """The partitions that have a leader now; None: there are more than so many partitions."""
        now = self.known.moment("")
        found = self.known.slice("partitions", now, Wanted(), 0, 0)
        if found is not None and found[1] > most:
            return None
        table = self.known.columns("partitions", now, ("topic", "partition", "leader"))
        if len(table) > most:
            return None
        return [(row["topic"], row["partition"]) for row in table.to_pylist() if row["leader"] is not None]

    def verdict(self, moment: Moment) -> Verdict:
        """The health at a moment. That of now is judged once for all who ask within JUDGED_S, unless something is new."""
        if not moment.is_now:
            return verdict(self.known, moment, None)
        known, extent = self.known, self.known.extent()
        if moment.offset < extent.touched:  # the log has grown since the moment was looked up: this is not that of now
            return verdict(known, moment, self.asked)
        of = known, extent.touched, extent.reading, self._news.version, time.monotonic() // JUDGED_S
        found: Verdict = self._judged.found(of, lambda: verdict(known, moment, self.asked))
        return found

    async def tell(self) -> None:
        """Let every reader know that something is new."""
        self._news.tell()

    async def tell_if_touched(self) -> None:
        """Let every reader know, if more is new than how far the log reaches: a controller writes records that change
        nothing twice a second."""
        extent = self.known.extent()
        touched = extent.touched, extent.reading, self.notes()
        if touched != self._touched:
            self._touched = touched
            await self.tell()

    def pulses(self, reader: Reader) -> AsyncIterator[bytes]:
        """What is new, as events for one reader, until it has ended."""
        return self._news.pulses(reader)

    def _event(self) -> bytes:
        return b"data: " + json.dumps(self.pulse(), separators=(",", ":")).encode() + b"\n\n"

    def pulse(self) -> dict[str, Any]:
        """What changes by itself: how far the log reaches, the health, the quorum."""
        moment = self.known.moment("")
        found = self.verdict(moment)
        return {
            "moment": moment._asdict(),
            "extent": self.known.extent()._asdict(),
            "well": found.is_well,
            "sentence": found.sentence,
            "faults": len(found.faults),
            "findings": len(found.findings),
            "notes": self.notes(),
            "quorum": quorum_shown(self.known, self.asked, moment) if self.live is not None else None,
            "told_ms": int(time.time() * 1000),
        }

    def notes(self) -> list[str]:
        """Sentences that a reader has to know."""
        live = self.live.notes() if self.live is not None else ()
        return [*self.known.notes(), *live, *self.failures.notes()]


class Live:
    """The connections to a running cluster."""

    def __init__(self, config: ClientConfig, kafka: Kafka, quorums: Quorums, registry: Registry | None = None) -> None:
        self.config = config
        self.kafka = kafka
        self.quorums = quorums
        self.lags = Lags(kafka)
        self.registry = registry
        """The schemas of values; None: nobody has named a registry."""
        self.troubles: Troubles | None = None
        """What else is asked for what is wrong; None: not yet."""
        self.tailed: Tailed | None = None
        """The copy of the metadata log; None: it may not be read."""

    def notes(self) -> list[str]:
        """Sentences about what cannot be had of the cluster."""
        return list(self._notes())

    def _notes(self) -> Iterator[str]:
        cluster, first, unseen = self.quorums.cluster, self.quorums.cluster_id, self.quorums.asked.unseen
        if unseen:
            yield f"The quorum of controllers is not looked at: {unseen}"
        if cluster is not None and cluster.id is not None and cluster.id != first:
            yield (
                f"Another cluster answers at this address now, {cluster.id} instead of {first}: the metadata is that of the "
                f"one before. Start rayft ui anew."
            )
        if self.tailed is not None and self.tailed.is_cut:
            yield "The metadata log is too long to be copied: the history begins at its newest snapshot."
        if self.tailed is not None and self.tailed.problem:
            yield self.tailed.problem


@asynccontextmanager
async def directory(path: Path) -> AsyncIterator[Watched]:
    """The files below a path, which may grow. Raises NothingToRead, FamilyUnknown, OSError."""
    is_shown = True

    def go_on(_: int) -> None:
        if not is_shown:
            raise InterruptedError("the page has ended")

    try:
        async with _looked_at(path, await asyncio.to_thread(Recorded, path, on_progress=go_on)) as watched:
            yield watched
    finally:  # a long log takes a while, and the thread that reads it ends with the page
        is_shown = False


@asynccontextmanager
async def _looked_at(path: Path, recorded: Recorded) -> AsyncIterator[Watched]:
    watched = Watched(str(path), recorded)

    async def look() -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if await asyncio.to_thread(recorded.refresh):
                await watched.tell()

    async with beside(watched.failures, look):
        yield watched


@asynccontextmanager
async def cluster(
    config: ClientConfig, name: str, nodes: Nodes | None = None, registry: Registry | None = None
) -> AsyncIterator[Watched]:
    """A running cluster by its address. Where its metadata log may not be read, brokers are asked instead. Raises
    ClientError."""
    await asyncio.to_thread(remove_left)
    # While no controller leads a broker keeps the question about the quorum, and answers nothing behind it.
    async with Kafka(config) as kafka, Kafka(config) as following, Kafka(config) as quorum:
        tailed = Tailed(following)
        told: deque[asyncio.Task[None]] = deque(maxlen=8)

        watched: Watched | None = None

        def tell() -> None:
            if watched is not None:
                told.append(asyncio.get_running_loop().create_task(watched.tell()))

        live, failures = Live(config, kafka, Quorums(quorum, tell), registry), Failures()
        try:
            async with beside(failures, live.quorums.watch):
                known, why = await _known(kafka, tailed, live)
                watched = Watched(name, known, live, nodes, failures)
                live.troubles = Troubles(kafka, watched.led, tell)
                follow = (
                    partial(tailed.follow, watched.tell_if_touched)
                    if why is None
                    else partial(_polled, watched, live, following, why)
                )
                async with beside(failures, live.lags.watch, live.troubles.watch, follow):
                    yield watched
        finally:
            tailed.close()


async def _known(kafka: Kafka, tailed: Tailed, live: Live) -> tuple[Knows, Polls | None]:
    """What knows the cluster's metadata; and what asks brokers, if the log cannot be read, or not yet as no controller
    leads. Raises ClientError if they do not answer either."""
    beginning = asyncio.create_task(tailed.begin())
    silent = asyncio.create_task(live.quorums.silent.wait())
    try:
        await asyncio.wait((beginning, silent), return_when=asyncio.FIRST_COMPLETED)
        if not beginning.done() and not tailed.has_heard:
            polls = Polls(kafka, live.quorums.asked.problem)
            with suppress(ClientError):  # what the log's reader has to say of an address at which nobody is says more
                return await polls.begin(), polls
        try:
            live.tailed, recorded = tailed, await beginning
        except ClientError as error:
            live.tailed, polls = None, Polls(kafka, str(error))
            try:
                return await polls.begin(), polls
            except ClientError:
                raise error from None
        return recorded, None
    finally:
        for one in (beginning, silent):
            one.cancel()
        await asyncio.gather(beginning, silent, return_exceptions=True)


async def _polled(watched: Watched, live: Live, following: Kafka, polls: Polls) -> None:
    """Ask brokers, and try again and again whether the log can be read: then go on with that."""
    asking = asyncio.create_task(again_and_again(watched.failures, partial(polls.watch, watched.tell)))
    tailed = Tailed(following)
    try:
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                watched.known = await tailed.begin()
                break
            except (ClientError, OSError, ValueError):  # ValueError: what came is no log
                tailed.close()
                tailed = Tailed(following)
        asking.cancel()
        live.tailed = tailed
        await watched.tell()
        await again_and_again(
            watched.failures, partial(tailed.follow, watched.tell_if_touched)
        )  # it is shown: it stays
    finally:
        asking.cancel()
        tailed.close()
