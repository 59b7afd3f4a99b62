"""The answer to a question in SQL over the tables of a moment."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from actors.page.metadata.slices import rows
from actors.page.query.question import Questions
from actors.page.routes.asking import NUMBER_MAX, place, told
from actors.page.routes.tables import ARROW, as_stream, maker
from actors.replay.columns.tables import TABLES

TEXT_MAX = 20_000
PARQUET = "application/vnd.apache.parquet"
CUT_AT = "rayft-cut-at"
"""The header of a file that does not have all of an answer: how many rows it has."""


async def asked(request: Request) -> Response:
    """The rows that a question gives: {"sql": text, "at": moment, "format": json, arrow or parquet}."""
    given = json.loads(await request.body())
    sql, at = (str(given.get(name, "")) if isinstance(given, dict) else "" for name in ("sql", "at"))
    if not sql.strip():
        raise ValueError("There is no question: send sql.")
    if len(sql) > TEXT_MAX:
        raise ValueError(f"The question is longer than {TEXT_MAX} characters: ask a shorter one.")
    here, questions = place(request), request.app.state.questions
    assert isinstance(questions, Questions)
    moment = await here.worked(lambda: here.watched.known.moment(at[:100]))

    def table(name: str) -> pa.Table:
        return maker(here.watched.known, name, moment, 0)()

    found, is_cut = await _while_here(request, questions.ask(sql, (*TABLES, "changes"), table))
    headers = {CUT_AT: str(len(found))} if is_cut else None
    if given.get("format") == "arrow":
        return Response(await asyncio.to_thread(as_stream, found), headers=headers, media_type=ARROW)
    if given.get("format") == "parquet":
        return Response(await asyncio.to_thread(_as_parquet, found), headers=headers, media_type=PARQUET)
    kinds = [str(one) for one in found.schema.types]
    return told({
        "moment": moment._asdict(), "columns": found.column_names, "types": kinds, "is_cut": is_cut,
        "rows": [[_sayable(one) for one in row] for row in rows(found)],
    })  # fmt: skip


def _sayable(value: Any) -> Any:
    """A number that a browser would round is a text."""
    return str(value) if isinstance(value, int) and abs(value) > NUMBER_MAX else value


def _as_parquet(table: pa.Table) -> bytes:
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


async def _while_here(request: Request, work: Coroutine[Any, Any, tuple[pa.Table, bool]]) -> tuple[pa.Table, bool]:
    """What a work returns; it ends when the one who asked has left. Raises ValueError then."""
    working, leaving = asyncio.create_task(work), asyncio.ensure_future(request.receive())  # the body was read
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ValueError("Nobody waits for the answer any more.")
        return await working
    finally:
        for one in (working, leaving):
            one.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
