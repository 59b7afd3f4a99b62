"""The plan of a read by address: which offsets of which partitions, cut into slices that tasks read.

This file alone decides that. Planning asks for offsets and reads no record. Rules:

1. Beginnings and ends are pinned when a read is planned, so each record below the ends is read once, whatever is written
   meanwhile. With read_committed the end is the last stable offset (KIP-98).
2. A map of offsets or times names each partition that is read, and no other one: a partition that is left out, or that does
   not exist, would otherwise be missed without a word.
3. Offsets that a log has no more are a loss, and not a choice: `lost` decides whether to raise or to go on. A gap inside a
   log, as compaction and markers leave it, is none.
4. A slice has the topic id for which it was planned, so that a topic that is made again is not read for the old one
   (KIP-516).
5. Conditions on topic, partition, offset and timestamp make a plan smaller. All but that on the timestamp are exact.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from actors.client.asks import Know, Pause, Steps
from actors.client.errors import ClientError
from actors.client.metadata import Metadata, Topic
from actors.client.operations import offsets
from actors.client.operations.leaders import Part, existing
from actors.client.operations.topics import ABSENCES_MAX, missing
from actors.pipeline.offset_maps import EARLIEST, LATEST
from actors.pipeline.query import Place, Query, Topics
from actors.wire.errors import ErrorCode
from actors.wire.messages import ZERO_UUID

Lost = Callable[[str], None]
"""Called with a sentence about records that are gone. It raises, or returns to go on without them."""
SHOWN = 5
"""How many names an error lists."""


class Slice(NamedTuple):
    """The work of one task: offsets of a partition, from `first` to in front of `end`."""

    topic: str
    partition: int
    first: int
    end: int
    topic_id: bytes
    """The topic id; zeros: the cluster has none."""


class Conditions(NamedTuple):
    """Conditions on the rows of a read. None: there is none."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    end: int | None = None
    since_ms: int | None = None
    """The earliest timestamp. Rows in front of it are left out as far as they lie in front of the first that is not."""

    def leave(self, part: Part) -> bool:
        """Whether rows of a partition may fit."""
        return (self.topics is None or part[0] in self.topics) and (
            self.partitions is None or part[1] in self.partitions
        )


class Bounds(NamedTuple):
    """Where the log of a partition begins and ends now."""

    low: int
    high: int
    epoch: int
    """The leader epoch in which the end was seen; -1: the cluster does not tell it."""


def chosen(
    topics: Topics, seen: Mapping[Part, bytes] = {}, believed: Collection[Part] = ()
) -> Steps[dict[Part, bytes]]:
    """The partitions that are read now, each with its topic id. `seen`: partition -> its topic id, zeros where it is not
    known. Raises ClientError for a topic or partition that does not exist, unless the topic was `seen` before: then it is
    left out, and brokers are asked again first, unless its absence is `believed`."""
    named_ = {*topics.names, *(topic for topic, _ in topics.parts)}
    wanted = None if topics.pattern is not None else tuple(named_)
    old = {topic for topic, _ in seen}
    sought = {part: id for part, id in seen.items() if (wanted is None or part[0] in named_) and part not in believed}
    metadata: Metadata = yield Know(wanted, fresh=True)
    for attempt in range(ABSENCES_MAX):
        if named_ - old <= set(metadata.topics) and all(_told(metadata, *one) for one in sought.items()):
            break
        yield Pause(attempt=attempt)  # a broker that has just begun does not know all topics and partitions
        metadata = yield Know(wanted, fresh=True)
    for name in named_ | old:
        if name not in old or metadata.refused.get(name) == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            missing(metadata, name)
    for part in topics.parts:
        if part[0] not in old:
            existing(metadata, part)
    known = {name: one for name, one in metadata.topics.items() if _fits(topics, named_, one)}
    parts = [(name, number) for name, topic in sorted(known.items()) for number in sorted(topic.partitions)]
    return {part: known[part[0]].id for part in parts if not topics.parts or part in topics.parts}


def _told(metadata: Metadata, part: Part, id: bytes) -> bool:
    """Whether the brokers tell of a partition, or of another topic in the place of its own."""
    topic = metadata.topics.get(part[0])
    return topic is not None and (part[1] in topic.partitions or (ZERO_UUID not in (id, topic.id) and id != topic.id))


def _fits(topics: Topics, names: Collection[str], one: Topic) -> bool:
    if topics.pattern is None:
        return one.name in names
    return not one.internal and topics.pattern.fullmatch(one.name) is not None


def bounds(parts: Iterable[Part], isolation: int) -> Steps[dict[Part, Bounds]]:
    """Where partitions begin and end now. Raises ClientError for the first that does not tell."""
    wanted = list(parts)
    lows = yield from looked_up(dict.fromkeys(wanted, offsets.EARLIEST), isolation)
    highs = yield from looked_up(dict.fromkeys(wanted, offsets.LATEST), isolation)
    return {part: Bounds(lows[part].offset, highs[part].offset, highs[part].leader_epoch) for part in wanted}


def looked_up(times: Mapping[Part, int], isolation: int) -> Steps[dict[Part, offsets.Found]]:
    """What ListOffsets answers, for times in ms or its own kinds. Raises ClientError for the first that has none."""
    told: dict[Part, Any] = yield from offsets.list_offsets(times, isolation=isolation)
    for part, one in told.items():
        if isinstance(one, ClientError):
            raise ClientError(f"partition {named(part)}: {one}", one.code)
    return told


def resolved(place: Place, known: Mapping[Part, Bounds], isolation: int) -> Steps[dict[Part, int]]:
    """Partition -> the offset that a place means there. Raises ValueError for a time behind the last record, unless the
    place allows it."""
    words = {EARLIEST: 0, LATEST: 1}
    found: dict[Part, int] = {}
    if place.word:
        found = {part: one.low if place.word == "earliest" else one.high for part, one in known.items()}
    elif place.offsets is not None:
        given = {part: place.offsets[part] for part in known}
        found = {part: known[part][words[one]] if one in words else one for part, one in given.items()}
    else:
        times = {part: place.time_ms if place.times_ms is None else place.times_ms[part] for part in known}
        told = yield from looked_up({part: time for part, time in times.items() if time is not None}, isolation)
        for part, one in told.items():
            if one.offset < 0 and not place.or_latest:
                raise ValueError(
                    f"{place.option}: partition {named(part)} has no record at or behind {times[part]}: write "
                    f"startingOffsetsByTimestampStrategy=latest to begin at its end"
                )
            found[part] = one.offset if one.offset >= 0 else known[part].high
    return found


def complete(place: Place, parts: Iterable[Part]) -> None:
    """Check that a map names each partition that is read and no other one. Raises ValueError."""
    given = place.offsets if place.offsets is not None else place.times_ms
    if given is None:
        return
    there = set(parts)
    missing, strange = sorted(there - set(given)), sorted(set(given) - there)
    faults = [f"{_some(missing)} is read and not named"] if missing else []
    faults += [f"{_some(strange)} is named and not read"] if strange else []
    if faults:
        raise ValueError(f"{place.option}: {', and '.join(faults)}: name each partition that is read")


def batch(query: Query, conditions: Conditions, lost: Lost) -> Steps[list[Slice]]:
    """The slices of a batch. Raises ClientError, ValueError, and what `lost` raises."""
    ids = yield from chosen(query.topics)
    for place in (query.starting, query.ending):
        complete(place, ids)
    isolation = query.config.isolation
    known = yield from bounds([part for part in ids if conditions.leave(part)], isolation)
    firsts = yield from resolved(query.starting, known, isolation)
    ends = yield from resolved(query.ending, known, isolation)
    since: dict[Part, offsets.Found] = {}
    if conditions.since_ms is not None:
        since = yield from looked_up(dict.fromkeys(known, max(conditions.since_ms, 0)), isolation)
    found = []
    for part, log in known.items():
        first, end = _within(query, part, firsts[part], ends[part], log, lost)
        first, end = max(first, conditions.first), min(end, end if conditions.end is None else conditions.end)
        if part in since:
            first = max(first, since[part].offset if since[part].offset >= 0 else end)
        if first < end:
            found.append(Slice(*part, first, end, ids[part]))
    return cut(found, query.partitions_min, query.records_max)


def _within(query: Query, part: Part, first: int, end: int, log: Bounds, lost: Lost) -> tuple[int, int]:
    """The offsets of a range that the log has. A range without an end is refused."""
    if query.starting.offsets is not None and query.ending.offsets is not None and end < first:
        raise ValueError(f"endingOffsets: partition {named(part)} ends at {end}, in front of {first}, where it begins")
    if first < log.low:
        lost(f"partition {named(part)}: offsets {first} to {log.low - 1} were deleted before they were read")
    if max(first, end) > log.high:
        lost(f"partition {named(part)}: the log ends at {log.high}, and is to be read to {max(first, end)}")
    return max(first, log.low), min(end, log.high)


def cut(ranges: Iterable[Slice], pieces_min: int | None, records_max: int | None) -> list[Slice]:
    """Slices of about equal size: none with more than `records_max` offsets, and `pieces_min` or more in all, in proportion
    to what each partition has."""
    whole = list(ranges)
    total = sum(one.end - one.first for one in whole)
    found: list[Slice] = []
    for one in whole:
        size = one.end - one.first
        pieces = -(-size // records_max) if records_max else 1
        if pieces_min is not None and pieces_min > len(whole):
            pieces = max(pieces, -(-size * pieces_min // total))
        pieces = min(pieces, size)
        steps = [one.first + size * index // pieces for index in range(pieces + 1)]
        found += [one._replace(first=low, end=high) for low, high in pairwise(steps)]
    return found


def named(part: Part) -> str:
    """A partition in the text of errors."""
    return f"{part[0]}/{part[1]}"


def _some(some: list[Part]) -> str:
    more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
    return ", ".join(map(named, some[:SHOWN])) + more
