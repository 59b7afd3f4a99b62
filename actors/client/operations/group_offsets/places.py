"""Where in a topic: from the words of a user to offsets.

`beginning`, `end`, an offset, `-N` (the last N of each partition), a time (`2026-11-28T14:02`, UTC unless it names a zone)
or so long ago (`30s`, `15m`, `2h`, `7d`).
"""

import datetime
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, list_offsets
from actors.client.properties import READ_UNCOMMITTED

BEGINNING, END, OFFSET, LAST, TIME = "beginning", "end", "offset", "last", "time"
AGO = re.compile(r"(\d{1,19})([smhd])", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
INT64_MAX = (1 << 63) - 1


class PlaceInPartitions(NamedTuple):
    """A place, in every partition."""

    kind: str
    number: int = 0
    """The offset, the number of last records, or the time in ms."""


class Span(NamedTuple):
    """The offsets between which a partition has records."""

    earliest: int
    latest: int


def place(text: str, now_ms: int) -> PlaceInPartitions:
    """The place that the words mean. Raises ValueError, with a sentence, if they mean nothing."""
    if text in (BEGINNING, END):
        return PlaceInPartitions(text)
    if re.fullmatch(r"-?\d{1,19}", text, re.ASCII) and abs(int(text)) <= INT64_MAX:
        return PlaceInPartitions(LAST, -int(text)) if text.startswith("-") else PlaceInPartitions(OFFSET, int(text))
    ago = AGO.fullmatch(text)
    if ago is not None and int(ago[1]) * SECONDS[ago[2]] * 1000 <= now_ms:
        return PlaceInPartitions(TIME, now_ms - int(ago[1]) * SECONDS[ago[2]] * 1000)
    try:
        moment = datetime.datetime.fromisoformat(text)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
        return PlaceInPartitions(TIME, max(0, int(moment.timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no place in a topic: write beginning, end, an offset, -N for the last N, a time as "
            f"2026-11-28T14:02, or 15m for so long ago"
        ) from None


def spans(parts: Iterable[Part], isolation: int = READ_UNCOMMITTED) -> Steps[dict[Part, Span]]:
    """The span of each partition; with READ_COMMITTED up to its last stable offset. Raises ClientError."""
    wanted = list(parts)
    earliest = whole((yield from list_offsets(wanted, EARLIEST)))
    latest = whole((yield from list_offsets(wanted, LATEST, isolation)))
    return {part: Span(earliest[part].offset, latest[part].offset) for part in wanted}


def offsets(place: PlaceInPartitions, known: dict[Part, Span]) -> Steps[dict[Part, int]]:
    """The offset of a place in each partition, within what it has. Raises ClientError."""
    if place.kind == TIME:
        found = whole((yield from list_offsets(list(known), place.number)))
        return {part: found[part].offset if found[part].offset >= 0 else span.latest for part, span in known.items()}
    if place.kind == BEGINNING:
        return {part: span.earliest for part, span in known.items()}
    if place.kind == END:
        return {part: span.latest for part, span in known.items()}
    if place.kind == LAST:
        return {part: max(span.earliest, span.latest - place.number) for part, span in known.items()}
    return {part: min(max(place.number, span.earliest), span.latest) for part, span in known.items()}


def whole(found: dict[Part, Any]) -> dict[Part, Any]:
    """All values, if there is no error among them. Raises the first ClientError."""
    for one in found.values():
        if isinstance(one, ClientError):
            raise one
    return found
