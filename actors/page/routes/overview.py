"""The answers about the whole: what is shown, whether it is well, how the time is laid out, what is new."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from actors.page.metadata.moments import Moment
from actors.page.metadata.slices import rows
from actors.page.routes.asking import Place, moment, number, place, told
from actors.page.routes.streams import Places, Streamed
from actors.page.shown import FAILURES
from actors.page.watched import Watched
from actors.replay.columns.tables import uuid

STREAMS_MAX = 64
"""How many pages may listen at once."""
STRETCHES_MAX = 2_000
MARKS_TOLD = 500
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
    at = await moment(request)
    return told(await place(request).worked(lambda: _now(place(request).watched, at)))


def _now(watched: Watched, at: Moment) -> dict[str, Any]:
    found = watched.verdict(at)
    brokers = watched.known.table("brokers", at)
    partitions = watched.known.columns("partitions", at, ("leader", "replicas", "under_replicated"))
    topics = watched.known.table("topics", at)
    away = _away(partitions, brokers)
    kept = ["broker", "fenced", "leaving", "rack", "endpoints", "replicas", "led", "in_isr", "epoch"]
    return {
        "moment": at._asdict(),
        "well": found.is_well,
        "sentence": found.sentence,
        "findings": [one._asdict() for one in found.findings],
        "quorum": _quorum(watched, at),
        "brokers": {
            "columns": kept,
            "rows": away + rows(brokers.select(kept).slice(0, NAMED_BROKERS_MAX)),
            "total": len(brokers) + len(away),
        },
        "counts": {
            "topics": len(topics),
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


def _quorum(watched: Watched, at: Moment) -> dict[str, Any]:
    """The quorum: what it answers now, or what the log says of a past moment."""
    listed = watched.known.table("controllers", at).to_pylist()
    names = {one["controller"]: f"{e['host']}:{e['port']}" for one in listed for e in (one["endpoints"] or [])[:1]}
    asked = watched.asked if at.is_now else None
    if asked is not None and asked.quorum is not None:
        told_ = asked.quorum
        lead = next((one for one in told_.voters if one.id == told_.leader), None)
        end = lead.log_end_offset if lead is not None else told_.high_watermark
        return {
            "source": "quorum",
            "leader": told_.leader,
            "epoch": told_.leader_epoch,
            "high_watermark": told_.high_watermark,
            "voters": [
                {
                    "id": one.id,
                    "address": _address(told_.nodes.get(one.id)) or names.get(one.id),
                    "directory_id": uuid(one.directory_id),
                    "end": one.log_end_offset,
                    "lag": max(0, end - one.log_end_offset) if one.log_end_offset >= 0 else None,
                    "fetched_ms": one.last_fetch_ms,
                    "caught_up_ms": one.last_caught_up_ms,
                }
                for one in told_.voters
            ],
            "observers": len(told_.observers),
        }
    leader = next((one["controller"] for one in listed if one["leader"]), -1)
    return {
        "source": "log",
        "problem": asked.problem if asked is not None else "",
        "leader": leader if asked is None else -1,
        "epoch": None,
        "high_watermark": None,
        "voters": [{"id": one["controller"], "address": names.get(one["controller"]), "lag": None} for one in listed],
        "observers": 0,
    }


def _address(listeners: list[tuple[str, str, int]] | None) -> str | None:
    return f"{listeners[0][1]}:{listeners[0][2]}" if listeners else None


async def timeline(request: Request) -> Response:
    """The whole time: how much happened when, and the marks."""
    count = number(request, "n", 400, STRETCHES_MAX, 1)
    known = place(request).watched.known
    extent, flow, marks = await place(request).worked(lambda: (known.extent(), known.flow(count), known.marks()))
    return told({"extent": extent._asdict(), **flow._asdict(), "marks": [one._asdict() for one in marks[-MARKS_TOLD:]]})


async def events(request: Request) -> Response:
    """What is new, as server-sent events, without an end."""
    streams: Places = request.app.state.streams
    if streams.is_full:
        return told({"error": f"{STREAMS_MAX} pages listen already: close one, then load this one anew."}, 503)
    return Streamed(streams, _pulses(place(request)), "text/event-stream", {"x-accel-buffering": "no"})


async def _pulses(here: Place) -> AsyncIterator[bytes]:
    async for pulse in here.watched.pulses():
        yield b"data: " + json.dumps(pulse, separators=(",", ":")).encode() + b"\n\n"
