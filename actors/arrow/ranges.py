"""From which offset to which each partition is read: what `start` and `end` of a read mean.

This file alone decides that. Both are told in the same words:

    earliest | latest       where the log begins and ends now; with read_committed `latest` is the last stable offset
    an int                  an offset, the same in every partition
    a datetime or ISO text  the first record at or behind that time; without a zone it is UTC
    {(topic, n): one of these}   each partition by itself; one that is missing is not read

The ends are asked once, before anything is read, so a read ends where the log ended then, whatever is written meanwhile. An
offset that does not exist, in front of the log or behind it, is taken for the nearest one that does, at the end; at the
start it is an error, since records that were asked for are not there.
"""

import operator
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple, SupportsIndex

from actors.client.asks import Steps
from actors.client.errors import ClientError
from actors.client.metadata import Topic
from actors.client.operations.leaders import Part
from actors.client.operations.offsets import EARLIEST, LATEST, Found, list_offsets
from actors.client.operations.topics import describe

Moment = SupportsIndex | str | datetime
Place = Moment | Mapping[Part, Moment]
OFFSETS = {"earliest": EARLIEST, "latest": LATEST}


class Range(NamedTuple):
    """The offsets of one partition that are read: from `first` to in front of `end`."""

    first: int
    end: int


def ranges(topics: Iterable[str], start: Place, end: Place, isolation: int) -> Steps[dict[Part, Range]]:
    """Partition -> its range. Raises ClientError for a topic that does not exist, a partition that is none, a start that
    the log does not have."""
    known: dict[str, Topic] = yield from describe(topics, patiently=True)
    parts = [(name, number) for name, topic in sorted(known.items()) for number in sorted(topic.partitions)]
    for place in (start, end):
        if isinstance(place, Mapping) and (strangers := sorted(set(place) - set(parts))):
            raise ClientError(f"{strangers[0][0]}/{strangers[0][1]} is no partition of what is read")
    parts = [part for part in parts if all(not isinstance(place, Mapping) or part in place for place in (start, end))]
    lows = yield from _offsets(dict.fromkeys(parts, EARLIEST), isolation)
    highs = yield from _offsets(dict.fromkeys(parts, LATEST), isolation)
    firsts = yield from _resolved(parts, start, lows, highs, isolation)
    ends = yield from _resolved(parts, end, lows, highs, isolation)
    for part in parts:
        if not lows[part] <= firsts[part] <= max(highs[part], lows[part]):
            raise ClientError(
                f"partition {part[0]}/{part[1]} has offsets {lows[part]} to {highs[part]}, and is to be read from "
                f"{firsts[part]}: begin at earliest, or where there are records"
            )
    return {part: Range(firsts[part], min(max(ends[part], firsts[part]), highs[part])) for part in parts}


def _resolved(
    parts: list[Part], place: Place, lows: dict[Part, int], highs: dict[Part, int], isolation: int
) -> Steps[dict[Part, int]]:
    """Partition -> the offset that a place means there. A time behind the last record means the end, and so does one of
    which the record was written since the end was asked for."""
    found: dict[Part, int] = {}
    times: dict[Part, int] = {}
    for part in parts:
        moment = place[part] if isinstance(place, Mapping) else place
        if isinstance(moment, str) and moment in OFFSETS:
            found[part] = (lows if moment == "earliest" else highs)[part]
        elif isinstance(moment, SupportsIndex):
            found[part] = operator.index(moment)
        else:
            times[part] = milliseconds(moment)
    if times:
        told = yield from _offsets(times, isolation)
        found |= {part: min(offset, highs[part]) if offset >= 0 else highs[part] for part, offset in told.items()}
    return found


def _offsets(times: dict[Part, int], isolation: int) -> Steps[dict[Part, int]]:
    """What ListOffsets answers. Raises ClientError for the first partition that has none."""
    told: dict[Part, Found | ClientError] = yield from list_offsets(times, isolation=isolation)
    for part, one in told.items():
        if isinstance(one, ClientError):
            raise ClientError(f"partition {part[0]}/{part[1]}: {one}")
    return {part: one.offset for part, one in told.items() if isinstance(one, Found)}


def milliseconds(moment: str | datetime) -> int:
    """A time as Kafka counts it; one before 1970 is 1970, as less than 0 stands for other things. Raises ClientError for
    what is none."""
    try:
        found = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return max(0, round(found.timestamp() * 1000))
    except (ValueError, AttributeError):
        raise ClientError(
            f"{moment!r} is no place in a log: write earliest, latest, an offset, or a time as in 2026-11-01T14:02"
        ) from None
