"""The answers about groups: what there are, one of them with its members, and its lag over time.

This file alone decides how an address names a group, whose name may be anything: in its path, where a slash of the name is
`%2F` and one before `lag` is not, or as `name=`, since nobody sends `.` and `..` in a path.
"""

import asyncio
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from actors.client.operations import groups as operations
from actors.client.operations.groups import STREAMS, Group
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import TRIES_SAMPLED, Found, list_offsets
from actors.page.live.lags import ANSWER_S, Lags, positions
from actors.page.live.samples import Line
from actors.page.routes.asking import number, text, told
from actors.page.routes.records import live

COLUMNS = ["group", "type", "state", "lag", "per_s", "caught_up_s", "partitions", "coordinator"]
LINES_MAX = 200
MEMBERS_MAX = 2_000


async def groups(request: Request) -> Response:
    """The groups, with what they are behind."""
    lags = live(request).lags
    await lags.ready()
    q = text(request, "q").lower()
    rows = [_row(lags, name) for name in sorted(lags.groups) if q in name.lower()]
    first, n = number(request, "first", 0), number(request, "n", 1000, 1000)
    _sort(rows, text(request, "sort"))
    return told({
        "asked_ms": lags.asked_ms, "problem": lags.problem, "left_out": lags.left_out,
        "series_left_out": lags.samples.left_out, "total": len(rows), "first": first, "columns": COLUMNS,
        "rows": rows[first : first + n],
    })  # fmt: skip


def _row(lags: Lags, name: str) -> list[Any]:
    one, trend = lags.groups[name], lags.trend(name)
    per_s, left_s = (trend.per_s, trend.caught_up_s) if trend is not None else (None, None)
    listed = one.listed
    return [name, listed.type or None, listed.state or None, one.lag, per_s, left_s, one.partitions, listed.coordinator]


def _sort(rows: list[list[Any]], sort: str) -> None:
    name = sort.removeprefix("-")
    if not name:
        return
    if name not in COLUMNS:
        raise ValueError(f"there is no column {name!r} to sort by, only {', '.join(COLUMNS)}")
    at = COLUMNS.index(name)
    known = sorted((row for row in rows if row[at] is not None), key=lambda row: row[at], reverse=sort.startswith("-"))
    rows[:] = known + [row for row in rows if row[at] is None]


async def in_path(request: Request) -> Response:
    """One group that the path names, or its lag over time."""
    name: str = request.path_params["group"]
    if name.endswith("/lag") and bytes(request.scope["raw_path"]).endswith(b"/lag"):
        return await _lag(request, name.removesuffix("/lag"))
    return await _group(request, name)


async def group(request: Request) -> Response:
    """One group that `name` names."""
    return await _group(request, request.query_params.get("name", ""))


async def lag(request: Request) -> Response:
    """The lag over time of a group that `name` names."""
    return await _lag(request, request.query_params.get("name", ""))


async def _group(request: Request, name: str) -> Response:
    """One group: its members, what each is assigned, and how far each partition is behind."""
    kafka = live(request).kafka
    found: Group = await kafka.run(operations.describe(name), ANSWER_S)
    held = await positions(kafka, name, found.type)
    owners: dict[Part, str] = {}
    for member in found.members if found.type != STREAMS else ():
        owners |= {(topic, one): member.id for topic, numbers in member.assignment.items() for one in numbers}
    parts = sorted({*held, *owners})
    ends = await kafka.run(list_offsets(parts, tries=TRIES_SAMPLED), ANSWER_S) if parts else {}
    rows = []
    for part in parts:
        position = held.get(part)
        end = ends[part].offset if isinstance(ends.get(part), Found) else None
        offset, lag = (position.offset, position.behind(end)) if position is not None else (None, None)
        rows.append([*part, offset, end, lag, owners.get(part)])
    members = [
        {
            "id": one.id,
            "client": one.client_id,
            "host": one.host,
            "instance": one.instance,
            "assignment": one.assignment,
        }
        for one in found.members[:MEMBERS_MAX]
    ]
    return told({
        "group": name, "type": found.type, "state": found.state, "protocol": found.protocol, "epoch": found.epoch,
        "coordinator": found.coordinator, "members": members, "member_count": len(found.members),
        "columns": ["topic", "partition", "committed", "end", "lag", "member"], "rows": rows,
    })  # fmt: skip


async def _lag(request: Request, name: str) -> Response:
    """The lag of a group over time, as the page has seen it: all of it, and by partition."""
    is_day, lines = text(request, "span", "hour") == "day", number(request, "lines", LINES_MAX, LINES_MAX)
    return told(await asyncio.to_thread(lag_over_time, live(request).lags, name, is_day, lines))


def lag_over_time(lags: Lags, name: str, is_day: bool, most: int = LINES_MAX) -> dict[str, Any]:
    """The times, the sum at each, and so many partitions with the most lag. A value that is not known is None."""
    keys = lags.keys(name)
    times = lags.samples.line(keys, is_day).times.tolist()
    worst = np.argsort(-np.nan_to_num(lags.samples.newest(keys)), kind="stable")[:most]
    lines = {f"{keys[at][1]}-{keys[at][2]}": _at(times, lags.samples.line([keys[at]], is_day)) for at in worst}
    trend = lags.trend(name)
    return {
        "times": times,
        "total": _at(times, lags.sums.line([name], is_day)),
        "partitions": lines,
        "left_out": max(0, len(keys) - most),
        "per_s": trend.per_s if trend else None,
        "caught_up_s": trend.caught_up_s if trend else None,
    }


def _at(times: list[int], line: Line) -> list[float | None]:
    known = dict(zip(line.times.tolist(), line.values.tolist(), strict=True))
    return [known.get(time) for time in times]
