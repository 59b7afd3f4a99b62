"""The answers about the whole: what is shown, whether it is well, how the time is laid out, what is new."""

import asyncio
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from actors.page.metadata.moments import Knows, Moment
from actors.page.metadata.slices import rows
from actors.page.news import Reader
from actors.page.quorum import quorum_shown
from actors.page.routes.asking import JSON, Place, encoded, number, place, text, told
from actors.page.routes.streams import Heard, Places
from actors.page.shown import FAILURES

STREAMS_MAX = 64
"""How many pages may listen at once."""
STRETCHES_MAX = 2_000
MARKS_TOLD = 500
TIMELINE_S = 10.0
"""For how long the time is laid out alike for all who ask, if nothing but what changes nothing was written, s."""
NAMED_BROKERS_MAX = 500


async def clusters(request: Request) -> Response:
    """The things that this page shows, and how each is."""
    places: dict[str, Place] = request.app.state.places
    return told({"clusters": [await asyncio.to_thread(_cluster, one) for one in places.values()]})


def _cluster(here: Place) -> dict[str, Any]:
    found = here.slot.found
    if found is None:
        return {"name": here.slot.name, "open": False, "well": False, "sentence": here.slot.why}
    try:
        verdict = found.verdict(found.known.moment(""))
    except FAILURES as error:  # it keeps no other from being shown
        return {"name": here.slot.name, "open": True, "well": False, "sentence": str(error)}
    return {"name": here.slot.name, "open": True, "well": verdict.is_well, "sentence": verdict.sentence}


async def overview(request: Request) -> Response:
    """What the page shows, and how it came to know."""
    watched = place(request).watched
    found = await asyncio.to_thread(watched.pulse)
    live = watched.live is not None
    may_change = live and bool(request.app.state.may_change)
    return told({
        "name": place(request).slot.name, "kind": "cluster" if live else "directory", "live": live, "may_change": may_change,
        "has_registry": watched.live is not None and watched.live.registry is not None,
        "has_nodes": may_change and watched.nodes is not None, **found,
    })  # fmt: skip


async def now(request: Request) -> Response:
    """The health at a moment, the quorum and the brokers."""
    here, at = place(request), text(request, "at")
    return Response(await here.worked(lambda: encoded(_now(here, here.watched.known.moment(at)))), media_type=JSON)


def _now(here: Place, at: Moment) -> dict[str, Any]:
    watched = here.watched
    found = watched.verdict(at)
    known, extent = watched.known, watched.known.extent()
    of = known, extent.touched, extent.reading
    # If the log has grown since the moment was looked up, these are not the numbers of now.
    is_newest = at.is_now and at.offset >= extent.touched
    numbers = here.lately.found(of, lambda: _numbers(known, at)) if is_newest else _numbers(known, at)
    return {
        "moment": at._asdict(),
        "well": found.is_well,
        "sentence": found.sentence,
        "findings": [one._asdict() for one in found.findings],
        "quorum": quorum_shown(watched.known, watched.asked, at),
        **numbers,
    }


def _numbers(known: Knows, at: Moment) -> dict[str, Any]:
    """The brokers, and how many there are of what: whatever changes these is a change of the log, see `Extent.touched`."""
    brokers = known.table("brokers", at)
    partitions = known.columns("partitions", at, ("leader", "replicas", "under_replicated"))
    away = _away(partitions, brokers)
    kept = ["broker", "fenced", "leaving", "rack", "endpoints", "replicas", "led", "in_isr", "epoch"]
    return {
        "brokers": {
            "columns": kept,
            "rows": away + rows(brokers.select(kept).slice(0, NAMED_BROKERS_MAX)),
            "total": len(brokers) + len(away),
        },
        "counts": {
            "topics": len(known.table("topics", at)),
            "partitions": len(partitions),
            "under_replicated": int(partitions["under_replicated"].to_numpy().sum()),
            "leaderless": partitions["leader"].null_count,
        },
    }


def _away(partitions: pa.Table, brokers: pa.Table) -> list[list[Any]]:
    """Rows of brokers that have replicas and are not registered: their epoch is null."""
    replicas = partitions["replicas"].combine_chunks()
    counted = {one["values"]: one["counts"] for one in pc.value_counts(replicas.flatten()).to_pylist()}
    known = set(brokers["broker"].to_pylist())
    return [[one, False, False, None, [], counted[one], 0, 0, None] for one in sorted(counted.keys() - known)]


async def timeline(request: Request) -> Response:
    """The whole time: how much happened when, and the marks."""
    here, count = place(request), number(request, "n", 400, STRETCHES_MAX, 1)
    return Response(await here.worked(lambda: _timeline(here, count)), media_type=JSON)


def _timeline(here: Place, count: int) -> bytes:
    known = here.watched.known
    extent = known.extent()
    of = known, extent.touched, extent.reading, count, time.monotonic() // TIMELINE_S

    def made() -> bytes:
        flow, marks = known.flow(count), known.marks()[-MARKS_TOLD:]
        return encoded({"extent": extent._asdict(), **flow._asdict(), "marks": [one._asdict() for one in marks]})

    found: bytes = here.timeline.found(of, made)
    return found


async def events(request: Request) -> Response:
    """What is new, as server-sent events, without an end."""
    streams: Places = request.app.state.streams
    if streams.is_full:
        return told({"error": f"{STREAMS_MAX} pages listen already: close one, then load this one anew."}, 503)
    reader = Reader()
    return Heard(streams, reader, place(request).watched.pulses(reader), {"x-accel-buffering": "no"})
