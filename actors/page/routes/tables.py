"""The answers that are tables: of a moment, the changes, and how partitions are spread over brokers."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from actors.page.metadata.moments import Knows, Moment
from actors.page.metadata.slices import Wanted, rows
from actors.page.metadata.slices import chosen as rows_chosen
from actors.page.metadata.spread import left_out, spread
from actors.page.routes.asking import cut, moment, number, place, text, told, wanted
from actors.replay.columns.history import SCHEMA as CHANGES
from actors.replay.columns.tables import SCHEMAS

ARROW = "application/vnd.apache.arrow.stream"
LIFE_MAX = 1_000


async def names(request: Request) -> Response:
    """The tables that there are, with their columns."""
    every = {**SCHEMAS, "changes": CHANGES}
    return told({name: {one.name: str(one.type) for one in schema} for name, schema in every.items()})


async def table(request: Request) -> Response:
    """The rows of a table at a moment, in JSON or Arrow."""
    name, at, wish = request.path_params["name"], await moment(request), wanted(request)
    here, (first, n) = place(request), cut(request)
    if name not in SCHEMAS and name != "changes":
        raise KeyError(f"There is no table {name}: /api/v1/tables names those that there are.")
    since, is_whole = number(request, "since", 0), text(request, "format", "json") == "arrow"
    columns = [one for one in text(request, "columns").split(",") if one]
    known = here.watched.known
    make = maker(known, name, at, since)

    def chosen() -> tuple[pa.Table, int]:
        if is_whole:
            found = rows_chosen(make(), wish)
            return _columns(found, columns), len(found)
        some = known.slice(name, at, wish, first, n)
        if some is not None:
            return _columns(some[0], columns), some[1]
        found = here.slices.table((*_reading(known), name, at.offset, at.time_ms, since), wish, make)
        return _columns(found.slice(first, n), columns), len(found)

    def work() -> Any:
        found, total = chosen()
        if is_whole:
            return as_stream(found)
        columns = found.column_names
        return {"moment": at._asdict(), "total": total, "first": first, "columns": columns, "rows": rows(found)}

    made = await here.worked(work)
    return Response(made, media_type=ARROW) if is_whole else told(made)


def _reading(known: Knows) -> tuple[int, int]:
    """Which log a table is of: at one offset and time another one may say something else."""
    return id(known), known.extent().reading


def maker(known: Knows, name: str, at: Moment, since: int) -> Callable[[], pa.Table]:
    """A function that makes a table of a moment; of changes those from the offset `since` on."""
    if name != "changes":
        return lambda: known.table(name, at)

    def changes() -> pa.Table:
        found = known.changes()
        found = found.filter(pc.greater_equal(found["offset"], since)) if since else found
        goes_beyond = len(found) > 0 and found["offset"][-1].as_py() >= at.offset  # the log may have grown meanwhile
        return found.filter(pc.less(found["offset"], at.offset)) if goes_beyond else found

    return changes


def _columns(table: pa.Table, columns: list[str]) -> pa.Table:
    for one in columns:
        if one not in table.column_names:
            raise ValueError(f"there is no column {one!r}, only {', '.join(table.column_names)}")
    return table.select(columns) if columns else table


def as_stream(table: pa.Table) -> bytes:
    """A table as a stream of Arrow."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


async def heat(request: Request) -> Response:
    """How the partitions of each topic are spread over the brokers."""
    at, here, (first, n), wish = await moment(request), place(request), cut(request), wanted(request)
    known = here.watched.known

    def work() -> dict[str, Any]:

        def make() -> pa.Table:
            return spread(known.columns("partitions", at, ("topic", "leader", "replicas", "isr")))[1]

        found = here.slices.table((*_reading(known), "heat", at.offset, at.time_ms), wish, make)
        brokers = [int(name[1:]) for name in found.column_names if name[0] == "b" and name[1:].isdigit()]
        return {
            "total": len(found), "first": first, "brokers": brokers, "left_out": left_out(found),
            "columns": found.column_names, "rows": rows(found.slice(first, n)),
        }  # fmt: skip

    return told({"moment": at._asdict(), **await here.worked(work)})


def _one(known: Knows, at: Moment, topic: str, partition: int) -> pa.Table:
    """The row of one partition. Raises KeyError if there is none."""
    names = known.columns("partitions", at, ("topic", "partition"))
    same = pc.and_(pc.equal(names["topic"], topic), pc.equal(names["partition"], partition))
    place = pc.index(same, True).as_py()
    if place < 0:
        raise KeyError(f"There is no partition {topic}-{partition} at that moment.")
    some = known.slice("partitions", at, Wanted(), place, 1)
    return some[0] if some is not None else known.table("partitions", at).slice(place, 1)


async def life(request: Request) -> Response:
    """The life of one partition: its state at a moment, and how it came to be."""
    topic, partition, at = request.path_params["topic"], request.path_params["partition"], await moment(request)
    here = place(request)
    if partition >= 1 << 31:
        raise KeyError(f"There is no partition {topic}-{partition}: a number has 31 bits.")

    def work() -> dict[str, Any]:
        chosen = _one(here.watched.known, at, topic, partition)
        found = maker(here.watched.known, "changes", at, 0)()
        same = pc.and_(pc.equal(found["topic"], topic), pc.equal(found["partition"], partition).fill_null(False))
        mine = found.filter(same)
        made = rows(mine.slice(max(0, len(mine) - LIFE_MAX)))
        state = dict(zip(chosen.column_names, rows(chosen)[0], strict=True))
        return {"state": state, "total": len(mine), "columns": mine.column_names, "rows": made}

    return told({"moment": at._asdict(), **await here.worked(work)})
