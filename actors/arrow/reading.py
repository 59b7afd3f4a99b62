"""`rayft.read`: records of topics as Arrow, from a start to an end, without a group and without a trace in the cluster.

    reader = rayft.read("localhost:9092", "orders", start="2026-11-01", end="latest")   -> pyarrow.RecordBatchReader
    duckdb.sql("select count(*) from reader"), polars.from_arrow(reader), reader.read_all()

This file alone decides what is asked of which broker when. Rules:

1. The ends are known before the first record is read (`ranges.py`). A partition is done when a position has come to its end.
   Positions come from the headers of batches, so control batches, gaps of compaction and the last marker of a
   transaction end a read as records do.
2. Each leader has one request under way. The next one leaves before the batches of the last are decoded, so that the broker
   reads while this process decodes. Nothing waits for the slowest broker, and one that has failed is asked again beside the
   others.
3. The bytes of an answer become columns at once (`replay/columns/record_columns.py`): no Python object is made for a record,
   and not more is kept than the answers of the brokers and one chunk.
4. A user may take any time between two batches. While nothing comes of any broker for default.api.timeout.ms, the read
   fails: what is read is there, so somebody has to be told.
5. Records that were asked for and are gone are an error that names the partition and the offsets: nothing is left out in
   silence. So is a topic that was deleted and made anew. A caller may take such a sentence and go on with what there is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.arrow.ranges import Place, Range, ranges
from actors.arrow.values.asked import Asked, reading
from actors.client.committed import Committed
from actors.client.connection import NEVER
from actors.client.errors import ClientError, NotInTime
from actors.client.operations import offsets
from actors.client.operations.fetching import Diverged, Fetched, Fetcher, OutOfRange, Result
from actors.client.operations.leaders import Part
from actors.client.properties import READ_COMMITTED, ClientConfig, client_config
from actors.client.tasks import Task
from actors.host.client.blocking import Kafka, given, now_us
from actors.replay.columns.record_columns import COLUMNS, Decoder, keep, schema
from actors.replay.logs.chunks import BatchRun, ChunkReading, decodable
from actors.replay.logs.files import CorruptLog, Headers
from actors.wire.errors import ErrorCode
from fastpath.records.scan import scan

CUT = "the bytes end inside the batch"
"""The fault of a batch that an answer's end cuts off: it comes again with the next one."""
DAY_S = 86_400
"""The time of one Fetch, the user's pauses included. That of its requests is request.timeout.ms."""
LOOK_US = 1_000_000
"""How often it is looked for a broker that has a partition, while there is none and others are read, µs."""
LARGE = {"max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 16 << 20}
"""What is asked for at once, unless the config says otherwise: larger answers cost memory and are no quicker."""


def read(
    bootstrap: str | None,
    topics: str | Sequence[str],
    start: Place = "earliest",
    end: Place = "latest",
    *,
    columns: Sequence[str] = COLUMNS,
    value_format: str | None = None,
    key_format: str | None = None,
    schema_registry: str | None = None,
    value_schema: int | str | None = None,
    key_schema: int | str | None = None,
    on_error: str = "fail",
    config: Mapping[str, Any] | str | None = None,
) -> pa.RecordBatchReader:
    """Records of topics as a reader of Arrow batches, which may be read once. Within a partition they come in order.

    `start`, `end`: `ranges.py` has the words. `columns`: some of key, value, topic, partition, offset, timestamp,
    timestampType, headers; those that are left out are not built. `config`: a client's properties by Kafka's names, or the
    path of a file with them; isolation.level=read_committed leaves aborted transactions out.

    `value_format`, `key_format`: avro, protobuf and json give typed columns by the ids of `schema_registry`, a URL (or
    schema.registry.url in the config); None: as bytes. `value_schema`, `key_schema`: the schema that they have, an id, a
    subject or subject:version; None: the latest of topic-value and topic-key. `on_error`: for what cannot be read, fail
    raises, null gives null, raw also gives the columns value_raw and value_error.

    Raises ClientError, ConfigError and ValueError; ClientError also while the reader is read.
    """
    found = schema(columns)
    names = [topics] if isinstance(topics, str) else list(topics)
    client = given(bootstrap, config, LARGE)
    asked = Asked(value_format, key_format, schema_registry, value_schema, key_schema, on_error)
    values = reading(columns, names, asked, client)
    kafka = Kafka(client_config(client))
    try:
        plan = kafka.run(ranges(names, start, end, kafka.config.isolation))
    except BaseException:
        kafka.close()
        raise
    return pa.RecordBatchReader.from_batches(values.schema(found), values.batches(batches(kafka, plan, values.decoded)))


Lost = Callable[[str], None]
"""Called with a sentence about records that are gone. It raises, or returns to go on without them."""
GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
"""The codes of a topic that is not there any more, or that is another one."""


def raised(sentence: str) -> None:
    """Raise ClientError: the answer of a reader that wants all records or none."""
    raise ClientError(sentence)


def batches(
    kafka: Kafka,
    plan: Mapping[Part, Range],
    columns: Sequence[str],
    ids: Mapping[str, bytes] | None = None,
    lost: Lost = raised,
) -> Iterator[pa.RecordBatch]:
    """The Arrow batches of some ranges, as they come. It closes the client when it is over, or given up.

    `ids`: topic -> the topic id for which the ranges were planned; None: that which is known now. `lost`: called for
    records that are gone. Raises ClientError, and what `lost` raises.
    """
    with kafka:
        if ids is None:
            ids = {name: topic.id for name, topic in kafka.metadata.topics.items()}
        yield from _Read(kafka, plan, columns, ids, lost).batches()


class _Read:
    """A read of some ranges that is under way."""

    def __init__(
        self, kafka: Kafka, plan: Mapping[Part, Range], columns: Sequence[str], ids: Mapping[str, bytes], lost: Lost
    ) -> None:
        self._kafka = kafka
        self._left = {part: one for part, one in plan.items() if one.first < one.end}
        """The ranges that are not read to their end."""
        self._fetcher = Fetcher(kafka.config, {part: one.first for part, one in self._left.items()}, ids)
        self._columns = columns
        self._decoders = {part: Partition(part, one, columns, kafka.config) for part, one in self._left.items()}
        self._lost = lost

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they come."""
        kafka, fetcher = self._kafka, self._fetcher
        under_way: dict[int, Task[list[Result]]] = {}
        preparing: Task[tuple[list[int], list[Result]]] | None = None
        look_us = 0  # when it is looked for brokers that have partitions and are not asked
        since_us = now_us()
        while self._left:
            until_us = since_us + kafka.config.api_timeout_ms * 1000
            if now_us() > until_us:
                self._cut_off()
                since_us = now_us()
                continue
            if preparing is None and (not under_way or now_us() >= look_us):
                preparing, look_us = kafka.start(fetcher.prepare()), NEVER
            tasks: list[Task[Any]] = [*under_way.values(), *([preparing] if preparing is not None else [])]
            kafka.wait_until(tasks, min(until_us, look_us))
            if preparing is not None and preparing.done:
                nodes, told = self._prepared(preparing, bool(under_way))
                preparing = None
                if any(kafka.metadata.leader(*part) not in nodes for part in self._left):
                    look_us = now_us() + LOOK_US
                yield from self._decoded(self._fetched(told))
                for node in nodes:
                    if node not in under_way:
                        under_way[node] = kafka.start(fetcher.fetch_from(node), DAY_S)
                if not under_way and self._left:
                    fetched = self._fetched(kafka.run(fetcher.fetch()))
                    yield from self._decoded(fetched)
                    if fetched:
                        since_us = now_us()
            for node in [node for node, task in under_way.items() if task.done]:
                fetched = self._fetched(under_way.pop(node).result())
                look_us = look_us if fetched else 0
                if fetched and self._left:
                    under_way[node] = kafka.start(fetcher.fetch_from(node), DAY_S)
                yield from self._decoded(fetched)
                if fetched:
                    since_us = now_us()

    def _prepared(self, task: Task[tuple[list[int], list[Result]]], others: bool) -> tuple[list[int], list[Result]]:
        """Which brokers are to be asked, and what is to be told before. `others`: whether some are under way: it is looked
        for again then, where there was no answer in time. Raises ClientError."""
        try:
            return task.result()
        except NotInTime:
            if not others:
                raise
            return [], []

    def _decoded(self, fetched: list[Fetched]) -> Iterator[pa.RecordBatch]:
        """The Arrow batches of what was fetched. Raises ClientError."""
        for one in fetched:
            yield from self._decoders[one.topic, one.partition].batches(one)

    def _fetched(self, told: list[Result]) -> list[Fetched]:
        """What was fetched. Partitions whose position has come to their end are read no longer. Raises ClientError, and
        what `lost` raises."""
        found = []
        for one in told:
            part = one.topic, one.partition
            if part not in self._left:  # it came while it was found that there is no more to read
                continue
            if isinstance(one, Fetched):
                found.append(one)
                if one.next_offset >= self._left[part].end:
                    self._leave(part)
            elif isinstance(one, OutOfRange):
                self._out_of_range(part, one.offset)
            elif isinstance(one, Diverged):
                self._lost(
                    f"partition {part[0]}/{part[1]} has lost records that were read already: its log ends at "
                    f"{one.end_offset} now, and {one.offset} was reached"
                )
                self._fetcher.seek(*part, one.offset)
            elif one.error.code in GONE:
                self._lost(str(one.error))
                self._leave(part)
            else:
                raise one.error
        return found

    def _leave(self, part: Part) -> None:
        """Read a partition no longer."""
        del self._left[part]
        self._fetcher.leave(*part)

    def _out_of_range(self, part: Part, offset: int) -> None:
        """Tell what a log does not have, and read what there is behind it."""
        found = self._kafka.run(offsets.list_offsets([part], offsets.EARLIEST))[part]
        if isinstance(found, ClientError):
            raise found
        if offset >= found.offset:
            self._lost(f"partition {part[0]}/{part[1]} has no offset {offset} any more: its log was truncated")
            self._leave(part)
            return
        self._lost(
            f"partition {part[0]}/{part[1]} has no offset {offset} any more: its records up to {found.offset - 1} were "
            f"deleted while it was read"
        )
        rest = Range(found.offset, self._left[part].end)
        if rest.first >= rest.end:
            self._leave(part)
            return
        # Deleted records may stand in the first batch that is left: they are not given.
        self._decoders[part] = Partition(part, rest, self._columns, self._kafka.config)
        self._fetcher.seek(*part, rest.first)

    def _cut_off(self) -> None:
        """Deal with a read that gets no records any more: partitions whose log ends in front of what is to be read are
        left. Raises NotInTime if that is not the cause: it names the partition, and why, as far as it is known."""
        without = [part for part in self._left if self._kafka.metadata.leader(*part) < 0]
        if not without and self._truncated():
            return
        topic, number = (without or list(self._left))[0]
        why = "it has no leader now" if without else "its leader gives nothing"
        raise NotInTime(
            f"nothing was read within default.api.timeout.ms={self._kafka.config.api_timeout_ms}: partition "
            f"{topic}/{number} is not read to its end, and {why}"
        )

    def _truncated(self) -> bool:
        """Leave the partitions whose log ends in front of what is to be read. Returns whether there are any."""
        found = self._kafka.run(offsets.list_offsets(list(self._left), offsets.LATEST))
        short = {
            part: one.offset
            for part, one in found.items()
            if isinstance(one, offsets.Found) and one.offset < self._left[part].end
        }
        for part, end in short.items():
            self._lost(
                f"partition {part[0]}/{part[1]}: the log ends at {end} and offset {self._left[part].end - 1} was to be "
                f"read: it was truncated"
            )
            self._leave(part)
        return bool(short)


class Partition:
    """The columns of one partition, answer by answer."""

    def __init__(self, part: Part, range: Range, columns: Sequence[str], config: ClientConfig) -> None:
        self._part = part
        self._range = range
        self._path = Path(f"{part[0]}/{part[1]}")
        self._reading = ChunkReading(crc=config.check_crcs)
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
            for chunk in decodable(self._path, BatchRun(data, 0, headers, after), self._reading, kept):
                yield from self._decoder.batches(chunk)
        except CorruptLog as error:
            raise ClientError(f"partition {self._path} behind offset {found.offset}: {error.reason}") from None
