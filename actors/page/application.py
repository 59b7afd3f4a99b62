"""The application: which address is answered by what, and the files of the page."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from actors.page.guard import Access, Guard
from actors.page.live.reading import READERS_MAX
from actors.page.query.question import Questions
from actors.page.routes import asked, changes, exports, groups, overview, records, settings, tables
from actors.page.routes.asking import Place, answer, told
from actors.page.routes.streams import Places
from actors.page.shown import Slot

KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
API = {
    "": overview.overview,
    "/clusters": overview.clusters,
    "/now": overview.now,
    "/timeline": overview.timeline,
    "/events": overview.events,
    "/tables": tables.names,
    "/tables/{name}": tables.table,
    "/heat": tables.heat,
    "/partitions/{topic}/{partition:int}": tables.life,
    "/topics/{topic}": records.topic,
    "/topics/{topic}/records": records.records,
    "/topics/{topic}/export": exports.export,
    "/groups": groups.groups,
    "/groups/{group:name}": groups.in_path,
    "/group": groups.group,
    "/group/lag": groups.lag,
    "/settings/brokers": settings.differing,
}
"""What is answered below /api/v1. Questions in SQL are posted to /api/v1/ask, and changes where `changes` says."""


class _Name(Convertor[str]):
    """A name in an address that may hold anything, as that of a group: team/app."""

    regex = r"(?s:.+)"

    def convert(self, value: str) -> str:
        """The name itself."""
        return value

    def to_string(self, value: str) -> str:
        """The name itself."""
        return value


register_url_convertor("name", _Name())


def application(shown: Mapping[str, Slot], access: Access) -> Guard:
    """The page of what is shown, by name, behind its guard."""
    served = _Files()
    routes = [Route(f"/api/v1{path}", answer(ask), methods=["GET"]) for path, ask in API.items()]
    if access.may_change:
        found = changes.ANSWERS.items()
        routes = [Route(f"/api/v1{path}", ask, methods=[method]) for path, (ask, method) in found] + routes
    routes += [
        Route("/api/v1/ask", answer(asked.asked), methods=["POST"]),
        Route("/{name:path}", served.answer, methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.state.places = {name: Place(slot) for name, slot in shown.items()}
    app.state.may_change = access.may_change
    app.state.streams, app.state.readers = Places(overview.STREAMS_MAX), Places(READERS_MAX)
    app.state.questions = Questions()
    return Guard(app, access, (app.state.streams.end, app.state.readers.end))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = "There is nothing at this address." if error.status_code == 404 else str(error.detail)
    return told({"error": sentence}, error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    return told({"error": f"The page failed at this question ({type(error).__name__}): its terminal says more."}, 500)


class _Files:
    """The files of the page, which are read once: no address leads to any other file."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[bytes, str, str]] = {}
        for one in (files(__package__) / "static").iterdir():
            data = one.read_bytes()
            kind = KINDS[one.name.rpartition(".")[2]]
            self._found[one.name] = data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"'

    async def answer(self, request: Request) -> Response:
        """The file of that name."""
        found = self._found.get(request.path_params["name"] or "index.html")
        if found is None:
            return told({"error": "There is nothing at this address."}, 404)
        data, kind, tag = found
        headers: dict[str, Any] = {"etag": tag, "content-type": kind}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers)
