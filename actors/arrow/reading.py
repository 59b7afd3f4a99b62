"""`rayft.read`: records of topics as Arrow, from a start to an end, without a group and without a trace in the cluster.

    reader = rayft.read("localhost:9092", "orders", start="2026-11-01", end="latest")   -> pyarrow.RecordBatchReader
    duckdb.sql("select count(*) from reader"), polars.from_arrow(reader), reader.read_all()

This file alone decides what is asked of which broker when. Rules:

1. The ends are known before the first record is read (`ranges.py`). A partition is done when a position has come to its end.
   Positions come from the headers of batches, so control batches, gaps of compaction and the last marker of a
   transaction end a read as records do.
2. Each leader has one request under way. The next one leaves before the batches of the last are decoded, so that the broker
   reads while this process decodes. Nothing waits for the slowest broker.
3. The bytes of an answer become columns at once (`actors/replay/columns/topics.py`): no Python object is made for a record,
   and not more is kept than the answers of the brokers and one chunk.
4. A user may take any time between two batches. While nothing comes of any broker for default.api.timeout.ms, the read
   fails: what is read is there, so somebody has to be told.
5. Records that were asked for and are gone are an error that names the partition and the offsets: nothing is left out in
   silence. So is a topic that was deleted and made anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.arrow.ranges import Place, Range, ranges
from actors.client.committed import Committed
from actors.client.errors import ClientError, NotInTime
from actors.client.operations.fetching import Diverged, Failed, Fetched, Fetcher, OutOfRange, Result
from actors.client.operations.leaders import Part
from actors.client.properties import READ_COMMITTED, ClientConfig
from actors.client.tasks import Task
from actors.host.client.blocking import Kafka, now_us, settings
from actors.replay.columns.topics import COLUMNS, Decoder, keep, schema
from actors.replay.logs.chunks import Reading, Run, decodable
from actors.replay.logs.files import CorruptLog, Headers
from fastpath.records.scan import scan

CUT = "the bytes end inside the batch"
"""The fault of a batch that an answer's end cuts off: it comes again with the next one."""
DAY_S = 86_400
"""The time of one Fetch, the user's pauses included. That of its requests is request.timeout.ms."""
LARGE = {"max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 16 << 20}
"""What is asked for at once, unless the config says otherwise: larger answers cost memory and are no quicker."""


def read(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    *,
    columns: Sequence[str] = COLUMNS,
    config: Mapping[str, Any] | str | None = None,
) -> pa.RecordBatchReader:
    """Records of topics as a reader of Arrow batches, which may be read once. Within a partition they come in order.

    `start`, `end`: `ranges.py` has the words. `columns`: some of key, value, topic, partition, offset, timestamp,
    timestampType, headers; those that are left out are not built. `config`: a client's properties by Kafka's names, or the
    path of a file with them; isolation.level=read_committed leaves aborted transactions out. Raises ClientError, ConfigError
    and ValueError; ClientError also while the reader is read.
    """
    found = schema(columns)
    kafka = Kafka(settings(bootstrap, config, LARGE))
    try:
        names = [topics] if isinstance(topics, str) else list(topics)
        plan = kafka.run(ranges(names, start, end, kafka.config.isolation))
    except BaseException:
        kafka.close()
        raise
    return pa.RecordBatchReader.from_batches(found, batches(kafka, plan, columns))


def batches(kafka: Kafka, plan: Mapping[Part, Range], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The Arrow batches of some ranges, as they come. It closes the client when it is over, or given up."""
    with kafka:
        left = {part: one for part, one in plan.items() if one.first < one.end}
        ids = {name: topic.id for name, topic in kafka.metadata.topics.items()}
        fetcher = Fetcher(kafka.config, {part: one.first for part, one in left.items()}, ids)
        decoders = {part: Partition(part, one, columns, kafka.config) for part, one in left.items()}
        under_way: dict[int, Task[list[Result]]] = {}
        since_us = now_us()
        while left:
            if now_us() - since_us > kafka.config.api_timeout_ms * 1000:
                raise _silent(kafka, left)
            if not under_way:
                nodes, told = kafka.run(fetcher.prepare())
                yield from _columns(told, decoders)
                under_way = {node: kafka.start(fetcher.fetch_from(node), DAY_S) for node in nodes}
                if not under_way:
                    told = kafka.run(fetcher.fetch())
                    _leave_ended(told, left, fetcher)
                    yield from _columns(told, decoders)
                    if any(isinstance(one, Fetched) for one in told):
                        since_us = now_us()
                continue
            kafka.wait(*under_way.values())
            for node in [node for node, task in under_way.items() if task.done]:
                told = under_way.pop(node).result()
                _leave_ended(told, left, fetcher)
                fetched = any(isinstance(one, Fetched) for one in told)
                if fetched and left:
                    under_way[node] = kafka.start(fetcher.fetch_from(node), DAY_S)
                yield from _columns(told, decoders)
                if fetched:
                    since_us = now_us()


def _silent(kafka: Kafka, left: Mapping[Part, Range]) -> NotInTime:
    """The error of a read that gets no records any more: it names the partition, and why, as far as it is known."""
    without = [part for part in left if kafka.metadata.leader(*part) < 0]
    topic, number = (without or list(left))[0]
    why = "it has no leader now" if without else "its leader gives nothing"
    return NotInTime(
        f"nothing was read within default.api.timeout.ms={kafka.config.api_timeout_ms}: partition {topic}/{number} is "
        f"not read to its end, and {why}"
    )


def _leave_ended(told: list[Result], left: dict[Part, Range], fetcher: Fetcher) -> None:
    """Read partitions no longer whose position has come to their end."""
    for one in told:
        if isinstance(one, Fetched) and one.next_offset >= left[one.topic, one.partition].end:
            del left[one.topic, one.partition]
            fetcher.leave(one.topic, one.partition)


def _columns(told: list[Result], decoders: Mapping[Part, "Partition"]) -> Iterator[pa.RecordBatch]:
    """The batches of what was fetched. Raises ClientError for all else."""
    for one in told:
        part = one.topic, one.partition
        if isinstance(one, Failed):
            raise one.error
        if isinstance(one, OutOfRange):
            raise ClientError(
                f"partition {part[0]}/{part[1]} has no offset {one.offset} any more: its records were deleted while it "
                f"was read"
            )
        if isinstance(one, Diverged):
            raise ClientError(
                f"partition {part[0]}/{part[1]} has lost records that were read already: its log ends at "
                f"{one.end_offset} now, and {one.offset} was reached"
            )
        yield from decoders[part].batches(one)


class Partition:
    """The columns of one partition, answer by answer."""

    def __init__(self, part: Part, range: Range, columns: Sequence[str], config: ClientConfig) -> None:
        self._part = part
        self._range = range
        self._path = Path(f"{part[0]}/{part[1]}")
        self._reading = Reading(crc=config.check_crcs)
        self._committed = config.isolation == READ_COMMITTED
        self._decoder = Decoder(*part, columns, self._reading, range.first, range.end)
        self._keep = keep(range.first, range.end)

    def batches(self, found: Fetched) -> Iterator[pa.RecordBatch]:
        """The records of an answer. Raises ClientError for bytes that are no sound batches."""
        data = found.records
        headers, after, fault = scan(data, 0, len(data), self._reading.crc)
        if fault is not None and fault != CUT:
            raise ClientError(f"partition {self._path} behind offset {found.offset}: {fault}")
        committed = Committed(found.aborted) if self._committed and found.aborted else None

        def kept(headers: Headers) -> NDArray[np.bool_]:
            chosen: NDArray[np.bool_] = self._keep(headers)
            return chosen if committed is None else chosen & committed.of(headers)

        try:
            for chunk in decodable(self._path, Run(data, 0, headers, after), self._reading, kept):
                yield from self._decoder.batches(chunk)
        except CorruptLog as error:
            raise ClientError(f"partition {self._path} behind offset {found.offset}: {error.reason}") from None
