"""Reading a topic's records for a page: from where, how many, which of them, and how far it has come.

This file alone decides that. Rules:

1. What is read, and up to where, is known before the first record is: so an empty topic answers at once, and progress has an
   end. A tail has none.
2. `latest` shows the last records of each partition, or of all that hold a text; any other place is read forward until
   enough are found.
3. A search looks for bytes in keys, values or headers as they are, in capital and small letters as they are typed.
4. Each reading has connections of its own, which end with it; there are READERS_MAX at once.
5. An answer is decoded piece by piece: a few KB of it may be GB of records.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.arrow.ranges import Range, ranges
from actors.arrow.reading import Partition
from actors.client.errors import ClientError
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange, Result
from actors.client.operations.leaders import Part
from actors.client.properties import READ_COMMITTED, READ_UNCOMMITTED, ClientConfig
from actors.host.client.asynchronous import Kafka

READERS_MAX = 16
COLUMNS = ("key", "value", "partition", "offset", "timestamp", "headers")
FIELDS = ("any", "key", "value", "headers")
LAST_LEAST = 5
"""The fewest records of each partition that are looked at for the last ones of a topic."""
SILENCE_S = 20.0
"""How long nothing may come while there is something to read, s."""
FETCH_BYTES, PARTITION_BYTES = 8 << 20, 1 << 20
PIECE_BYTES = 16 << 20
"""From how many bytes on records are passed on. Not more than 100 MiB is decompressed at once, be it one batch or more."""


class Wish(NamedTuple):
    """What somebody wants to read."""

    topic: str
    partitions: frozenset[int] = frozenset()
    """The partitions that are read; empty: all of them."""
    place: int | str = "latest"
    """latest, earliest, an offset, or a time as ISO text."""
    number: int = 50
    """How many records are wanted."""
    text: bytes = b""
    """What a record has to hold; empty: all records."""
    field: str = "any"
    is_committed: bool = False
    """Whether records of aborted and open transactions are left out."""
    is_tail: bool = False
    """Whether the reading goes on with what is written, without an end."""
    is_even: bool = False
    """Whether no more is read of the last records than are wanted, a share of each partition: too many to be compared."""


class Progress(NamedTuple):
    """How far a reading has come."""

    scanned: int
    of: int
    """How many offsets there are to look at; -1: there is no end."""
    found: int


class Found(NamedTuple):
    """Records that were wanted."""

    table: pa.Table


async def read(config: ClientConfig, wish: Wish) -> AsyncGenerator[Progress | Found, None]:
    """The records that are wanted, as they come, and the progress in between. Raises ClientError."""
    isolation = READ_COMMITTED if wish.is_committed else READ_UNCOMMITTED
    own = replace(config, isolation=isolation, fetch_max_bytes=FETCH_BYTES, partition_fetch_bytes=PARTITION_BYTES)
    async with Kafka(own) as kafka:
        plan = await _plan(kafka, wish, isolation)
        total = -1 if wish.is_tail else sum(max(0, one.end - one.first) for one in plan.values())
        yield Progress(0, total, 0)
        async for one in _read(kafka, wish, plan, total):
            yield one


async def _plan(kafka: Kafka, wish: Wish, isolation: int) -> dict[Part, Range]:
    """Partition -> the offsets that are looked at."""
    latest = wish.place == "latest"
    plan = await kafka.run(ranges([wish.topic], "earliest" if latest else wish.place, "latest", isolation))
    if wish.partitions:
        plan = {part: one for part, one in plan.items() if part[1] in wish.partitions}
        if not plan:
            raise ClientError(f"topic {wish.topic} has no partition {min(wish.partitions)}")
    if wish.is_tail:
        return {part: Range(one.end if latest else one.first, 1 << 62) for part, one in plan.items()}
    if latest and not wish.text and wish.is_even:
        return _shares(plan, wish.number)
    if latest and not wish.text:
        each = max(LAST_LEAST, -(-4 * wish.number // max(len(plan), 1))) if len(plan) > 1 else wish.number
        each = min(each, wish.number)
        plan = {part: Range(max(one.first, one.end - each), one.end) for part, one in plan.items()}
    return plan


def _shares(plan: dict[Part, Range], number: int) -> dict[Part, Range]:
    """The last records of each partition; what one does not have is left to the longer ones."""
    found: dict[Part, Range] = {}
    sizes = sorted((max(0, one.end - one.first), part) for part, one in plan.items())
    for at, (size, part) in enumerate(sizes):
        share = min(size, number // (len(sizes) - at))
        number -= share
        found[part] = Range(plan[part].end - share, plan[part].end)
    return found


async def _read(kafka: Kafka, wish: Wish, plan: dict[Part, Range], total: int) -> AsyncIterator[Progress | Found]:
    left = {part: one for part, one in plan.items() if one.first < one.end}
    ids = {name: topic.id for name, topic in kafka.metadata.topics.items()}
    fetcher = Fetcher(kafka.config, {part: one.first for part, one in left.items()}, ids)
    decoders = {part: Partition(part, one, COLUMNS, kafka.config) for part, one in left.items()}
    scanned = found = 0
    since = time.monotonic()
    while left and (found < wish.number or wish.is_tail or wish.place == "latest"):
        told = await kafka.run(fetcher.fetch())
        fetched = [one for one in told if isinstance(one, Fetched)]
        _check(told)
        for one in fetched:
            part = one.topic, one.partition
            scanned += min(one.next_offset, left[part].end) - max(one.offset, left[part].first) if part in left else 0
        pieces = _decoded(fetched, decoders)
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            table = await asyncio.to_thread(matching, piece, wish.text, wish.field)
            if len(table):
                found += len(table)
                yield Found(table)
            if found >= wish.number and not (wish.is_tail or wish.place == "latest"):
                break
        for one in fetched:
            if (one.topic, one.partition) in left and one.next_offset >= left[one.topic, one.partition].end:
                del left[one.topic, one.partition]
                fetcher.leave(one.topic, one.partition)
        if fetched or wish.is_tail:
            since = time.monotonic()
        elif time.monotonic() - since > SILENCE_S:
            raise ClientError(
                f"nothing came of {_few(left)} for {SILENCE_S:.0f} s: a leader is away or does not answer"
            )
        yield Progress(scanned, total, found)


def _check(told: Iterable[Result]) -> None:
    for one in told:
        if isinstance(one, Failed):
            raise one.error
        if isinstance(one, OutOfRange):
            raise ClientError(f"partition {one.topic}-{one.partition} has no offset {one.offset} any more: read anew")
        if isinstance(one, Diverged):
            raise ClientError(f"partition {one.topic}-{one.partition} lost records at a change of leader: read anew")


def _decoded(fetched: list[Fetched], decoders: dict[Part, Partition]) -> Iterator[pa.Table]:
    """The records of answers, in tables that are passed on from PIECE_BYTES on."""
    batches: list[pa.RecordBatch] = []
    for one in fetched:
        for batch in decoders[one.topic, one.partition].batches(one):
            batches.append(batch)
            if sum(each.nbytes for each in batches) >= PIECE_BYTES:
                yield pa.Table.from_batches(batches)
                batches = []
    if batches:
        yield pa.Table.from_batches(batches)


def matching(table: pa.Table, text: bytes, field: str) -> pa.Table:
    """The records that hold some bytes in a field."""
    if not text or not len(table):
        return table
    held: Any = pa.repeat(False, len(table))
    for name in ("key", "value"):
        if field in ("any", name):
            held = pc.or_(held, _binary(table[name], text))
    if field in ("any", "headers"):
        held = pc.or_(held, _headers(table["headers"].combine_chunks(), text))
    return table.filter(held)


def _binary(column: Any, text: bytes) -> Any:
    return pc.match_substring(column.cast(pa.binary()), text).fill_null(False)


def _headers(lists: Any, text: bytes) -> Any:
    """Which lists of headers hold some bytes in a name or a value."""
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    flat = lists.flatten()
    owner = pc.list_parent_indices(lists)
    names = flat.field("key").cast(pa.binary())
    held = pc.or_(_binary(names, text), _binary(flat.field("value"), text))
    rows = pc.unique(pc.filter(owner, held)).cast(pa.int64())
    return pc.is_in(pa.array(range(len(lists)), pa.int64()), value_set=rows)


def last(tables: list[pa.Table], count: int) -> pa.Table:
    """The last records of some tables, by time, the newest first."""
    whole = pa.concat_tables(tables)
    keys = [("timestamp", "descending"), ("offset", "descending")]
    return whole.take(pc.sort_indices(whole, sort_keys=keys)[:count])


def _few(left: Iterable[Part]) -> str:
    names = [f"{topic}-{number}" for topic, number in left]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
