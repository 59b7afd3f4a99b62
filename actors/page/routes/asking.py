"""What a request asks, read out of its address, and what every answer of the API has in common.

This file alone decides the bounds of parameters and what an error becomes: `{"error": sentence}`, with 400 for a question
that makes no sense, 404 for what does not exist, 502 where the cluster does not answer, 503 where there is too much to do.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from actors.client.errors import ClientError
from actors.page.freed_memory import give_back
from actors.page.guard import CHANGES, TooLong
from actors.page.lately import Lately
from actors.page.metadata.moments import Moment
from actors.page.metadata.slices import ROWS_MAX, Slices, Wanted
from actors.page.shown import Slot
from actors.page.watched import Watched
from actors.replay.logs.files import CorruptLog, NothingToRead
from actors.wire.errors import ErrorCode

JSON = "application/json"
TEXT_MAX = 1_000
NUMBER_MAX = 1 << 53
"""The highest number that a browser can say."""
LONG_S = 0.05
"""A work that took longer leaves memory behind that is given back, s."""
WORKERS = 4
"""How many questions are answered at once; others wait."""
GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_ID})

Answers = Callable[[Request], Awaitable[Response]]


class Place:
    """What the answers about one of the things that a page shows need."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.slices = Slices()
        self.workers = asyncio.Semaphore(WORKERS)
        self.lately = Lately()
        self.timeline = Lately()

    @property
    def watched(self) -> Watched:
        """What is shown. Raises ClientError while it is not open."""
        return self.slot.watched

    async def worked(self, work: Callable[[], Any]) -> Any:
        """What a function returns that takes its time."""
        async with self.workers:
            begun = time.monotonic()
            found = await asyncio.to_thread(work)
            if time.monotonic() - begun > LONG_S:  # it was about many rows
                await asyncio.to_thread(give_back)
            return found


def place(request: Request) -> Place:
    """The place of what a request is about: `cluster` names it. Without that it is the first, but for a change, which has to
    say where it is made if there are several. Raises KeyError, ValueError."""
    places: dict[str, Place] = request.app.state.places
    name = request.query_params.get("cluster")
    if name is None:
        if len(places) > 1 and request.url.path.startswith(CHANGES):
            raise ValueError(
                "This page shows several clusters: say with cluster= in which one something is to be changed."
            )
        return next(iter(places.values()))
    if name not in places:
        raise KeyError("This page shows no cluster of this name.")
    return places[name]


def text(request: Request, name: str, otherwise: str = "") -> str:
    """A parameter that is a text. Raises ValueError for one that is too long."""
    found = request.query_params.get(name, otherwise)
    if len(found) > TEXT_MAX:
        raise ValueError(f"{name} is longer than {TEXT_MAX} characters: write less.")
    return found


def number(request: Request, name: str, otherwise: int, highest: int = NUMBER_MAX, lowest: int = 0) -> int:
    """A parameter that is a number. Raises ValueError for one that is none, or out of its bounds."""
    found = text(request, name)
    if not found:
        return otherwise
    digits = found.removeprefix("-")
    if not digits.isascii() or not digits.isdecimal() or len(found) > 17:
        raise ValueError(f"{name}={found} is no number: write one from {lowest} to {highest}.")
    if not lowest <= int(found) <= highest:
        raise ValueError(f"{name}={found} is out of bounds: write a number from {lowest} to {highest}.")
    return int(found)


def wanted(request: Request) -> Wanted:
    """The rows that a request wants. Raises ValueError."""
    return Wanted(text(request, "where"), text(request, "q"), text(request, "sort"))


def cut(request: Request) -> tuple[int, int]:
    """(first row, how many rows). Raises ValueError."""
    return number(request, "first", 0), number(request, "n", 100, ROWS_MAX)


async def moment(request: Request) -> Moment:
    """The moment that a request is about. Raises ValueError."""
    here, at = place(request), text(request, "at")
    found: Moment = await asyncio.to_thread(here.watched.known.moment, at)
    return found


def told(value: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(encoded(value), status, media_type=JSON)


def encoded(value: Any) -> bytes:
    """A value in JSON."""
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
    return made.encode("utf-8", "replace")


def answer(ask: Answers) -> Answers:
    """Answer with a sentence where that fails."""

    async def answered(request: Request) -> Response:
        try:
            return await ask(request)
        except HTTPException:
            raise
        except TooLong as error:
            return told({"error": str(error)}, 413)
        except ClientError as error:
            return told({"error": str(error)}, 404 if error.code in GONE else 502)
        except KeyError as error:
            return told({"error": str(error.args[0])}, 404)
        except (CorruptLog, NothingToRead, OSError) as error:
            return told({"error": f"The log cannot be read: {error}"}, 500)
        except (ValueError, OverflowError, RecursionError) as error:
            return told({"error": str(error)}, 400)

    return answered
