"""The canonical snapshot of a metadata log as a Spark job, spread by the first byte of the topic id.

    spread.compact(session, "/var/rayft/controller-1001").write(Path("."))

This file alone decides what each task needs, so that the bytes are the same as from one process
(actors/metadata/snapshot.py):

1. Records that do not belong to one topic (brokers, features, configurations, extensions), and the TopicRecords, are
   few. They go to the driver, whose image writes what comes before and behind the topics.
2. Records of topics and partitions go to the task for the first byte of their topic id, in the order of the log,
   together with the records of brokers and features. The task's image holds these topics only, and writes their part of
   the snapshot.
3. A batch of a snapshot ends where that byte changes, and base offsets are outside the CRC. So the parts are joined and
   their offsets renumbered; nothing is encoded again.

This file uses Spark only through the given session, and does not import it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.metadata import snapshot
from actors.metadata.batches import KRaftVersion, SnapshotHeader, Voters, controls
from actors.metadata.dialects import FORMAT, LATEST, dialect
from actors.metadata.image import Image
from actors.ports import Batch
from actors.replay.checkpoint import LEVEL, Compacted
from actors.replay.columns.arrow import varied
from actors.replay.columns.moment import QuorumRecords
from actors.replay.logs import files
from actors.replay.logs.chunks import CONTROL, ChunkReading, batches, chunks
from actors.replay.logs.copies import metadata_log
from actors.replay.logs.files import Checkpoint, NothingToRead, Partition
from actors.replay.read_options import split_bytes
from actors.replay.source import Source, Split
from fastpath.arrow import batches_to_columns
from fastpath.image.write_records import Writer

BROKER, TOPIC, PARTITION, ISR_CHANGE, BROKER_GONE, TOPIC_GONE, FEATURE = 0, 1, 2, 4, 6, 7, 12
"""Record types, which are the first byte of a record."""
BULK = (PARTITION, ISR_CHANGE)
EVERYWHERE = (BROKER, BROKER_GONE, FEATURE)
"""The record types that every task needs to replay its topics."""
RECORDS = "`order` long, bucket int, value binary"
PARTS = "bucket int, piece binary"
BATCH_RECORDS = 4096


class Plan(NamedTuple):
    """The input of a compaction."""

    splits: tuple[Split, ...]
    """splits of the checkpoint, then of the log"""
    end_offset: int
    quorum: QuorumRecords
    level: int
    """the level for reading a log before it names its own"""


def compact(session: Any, path: str | Path, as_of: int | None = None, family: str | None = None) -> Compacted:
    """The snapshot of everything below an offset (None: the end). Raises ValueError for a log of released Apache Kafka,
    NothingToRead, CorruptLog."""
    log = metadata_log(path)
    if files.family(log, family) != "drafts":
        raise ValueError(f"{path} holds released Apache Kafka's records: snapshots are written in the drafts' only.")
    plan = _plan(log, as_of)
    rows = _records(session, plan, _common).collect()
    common = [(row["order"], bytes(row["value"])) for row in rows]
    common.sort(key=lambda one: one[0])
    image = _image([value for _, value in common], plan.level)
    level = image.feature(FORMAT) or plan.level
    before, _, behind = _pieces(image, plan.quorum, level)
    task = _Task([one for one in common if one[1][0] in EVERYWHERE], plan, level)
    groups = _records(session, plan, _of_topics).groupBy("bucket")
    found = groups.applyInArrow(
        lambda table: task(table), PARTS
    ).collect()  # a lambda, because Spark reads annotations and it has none
    middle = [bytearray(row["piece"]) for row in sorted(found, key=lambda row: row["bucket"])]
    epoch = plan.quorum.epoch
    return Compacted(plan.end_offset, epoch, snapshot.joined([before, *middle, behind], epoch))


# ---- the driver's part --------------------------------------------------------------------------------------------


def _plan(log: Partition, as_of: int | None) -> Plan:
    base = log.segments[0].base_offset if log.segments else -1
    fitting = [one for one in log.checkpoints if (as_of is None or one.end_offset <= as_of) and one.end_offset >= base]
    checkpoint = max(fitting, key=lambda one: one.end_offset, default=None)
    start = checkpoint.end_offset if checkpoint else 0
    if base > start:
        raise NothingToRead(f"{log.segments[0].path.parent} begins at offset {base} and no checkpoint reaches it.")
    if checkpoint is None and not log.segments:
        raise NothingToRead(f"{log.files[0].parent} holds no log, and no checkpoint that ends at {as_of} or before.")
    end, quorum = _quorum(log, checkpoint, start, as_of)
    key = (log.topic, log.number)
    source = Source("records", (log._replace(checkpoints=()),), "drafts")
    splits = source.splits(split_bytes(source), {key: start}, {key: end}) if log.segments else []
    if checkpoint:
        older = Source("records", (log._replace(segments=(), checkpoints=(checkpoint,)),), "drafts")
        splits = older.splits(split_bytes(older)) + splits
    return Plan(tuple(splits), end, quorum, int(files.property_of(log, LEVEL) or LATEST))


def _quorum(log: Partition, checkpoint: Checkpoint | None, start: int, as_of: int | None) -> tuple[int, QuorumRecords]:
    """(end offset, what control records say), read from headers and control batches alone."""
    found = QuorumRecords(epoch=checkpoint.epoch if checkpoint else 0)
    reading = ChunkReading(crc=False)
    end = start
    for path in [*([checkpoint.path] if checkpoint else []), *(one.path for one in log.segments)]:
        older = checkpoint is not None and path == checkpoint.path
        for data, origin, headers, _ in batches(path, reading):
            if not older:
                headers = headers[headers["last_offset"] >= start]
                headers = headers[headers["base_offset"] < as_of] if as_of is not None else headers
            for header in headers[headers["attributes"] & CONTROL != 0]:
                for _, control in controls(data, int(header["position"]) - origin):
                    if isinstance(control, KRaftVersion):
                        found = found._replace(kraft_version=control.version)
                    elif isinstance(control, Voters):
                        found = found._replace(voters=control)
                    elif isinstance(control, SnapshotHeader):
                        found = found._replace(timestamp_ms=control.last_contained_timestamp_ms)
            if len(headers) and not older:
                last = headers[-1]
                end = int(last["last_offset"]) + 1
                found = found._replace(epoch=int(last["epoch"]), timestamp_ms=int(last["max_timestamp"]))
    return end if as_of is None else min(end, as_of), found


def _records(session: Any, plan: Plan, choose: "Choose") -> Any:
    """A frame of the record values that `choose` selects, with one task for each split."""
    count = len(plan.splits)
    return session.range(0, count, 1, max(count, 1)).mapInArrow(_Read(plan.splits, choose), RECORDS)


# ---- the tasks' parts ---------------------------------------------------------------------------------------------


class _Read:
    """Values of the records in splits, without a copy. `order`: by offset, with those of a checkpoint before all
    others."""

    def __init__(self, splits: Sequence[Split], choose: "Choose") -> None:
        self.splits = splits
        self.choose = choose

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from self._split(self.splits[index])

    def _split(self, split: Split) -> Iterator[pa.RecordBatch]:
        path = Path(split.path)
        shift = -(1 << 62) if path.name.endswith(".checkpoint") else 0
        for chunk in chunks(path, ChunkReading(), split.begin, split.end):
            chunk = chunk.part(chunk.headers["attributes"] & CONTROL == 0)
            if not len(chunk.headers):
                continue
            found = batches_to_columns.unpack(
                chunk.data,
                chunk.headers,
                chunk.starts,
                chunk.ends,
                batches_to_columns.OFFSET | batches_to_columns.VALUE,
            )
            offset, (at, data, bits, nulls) = found["offset"], found["value"]
            bucket, wanted = self.choose(data, at[:-1].astype(np.int64))
            wanted &= (offset >= split.first_offset) & ((offset < split.end_offset) | (split.end_offset < 0))
            values = varied(pa.binary(), len(offset), at, data, bits, nulls)
            arrays = [pa.array(offset + shift), pa.array(bucket.astype(np.int32)), values]
            made = pa.RecordBatch.from_arrays(arrays, names=["order", "bucket", "value"])
            yield made.filter(pa.array(wanted))


Choose = Callable[[NDArray[np.uint8], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.bool_]]]
"""(bytes, position of every value) -> (bucket, whether it is wanted)"""


def _common(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Select all records of which there are few."""
    return np.full(len(at), -1), ~np.isin(data[at], BULK)


def _of_topics(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Select the records that belong to one topic, by the first byte of its id; fastpath/image/write_records.pyx draws
    the layout."""
    type_ = data[at]
    place = at + np.where(np.isin(type_, BULK), 6, 2)
    named = type_ == TOPIC
    first, second = data[at + 2].astype(np.int64), data[np.minimum(at + 3, len(data) - 1)].astype(np.int64)
    long = first >= 0x80
    size = np.where(long, (first & 0x7F) | second << 7, first) - 1  # of the name, whose uvarint is its size + 1
    place = np.where(named, at + 3 + long + size, place)
    wanted = named | np.isin(type_, BULK) | (type_ == TOPIC_GONE)
    return np.where(wanted, data[np.where(wanted, place, at)].astype(np.int64), -1), wanted


class _Task:
    """From the records of one bucket's topics to their part of the snapshot."""

    def __init__(self, everywhere: Sequence[tuple[int, bytes]], plan: Plan, level: int) -> None:
        self.everywhere = everywhere
        self.quorum = plan.quorum
        self.read_level = plan.level
        self.level = level

    def __call__(self, table: pa.Table) -> pa.Table:
        own = zip(table.column("order").to_pylist(), table.column("value").to_pylist(), strict=True)
        ordered = sorted([*self.everywhere, *own], key=lambda one: one[0])
        image = _image([value for _, value in ordered], self.read_level)
        piece = _pieces(image, self.quorum, self.level)[1]
        bucket = table.column("bucket")[0].as_py()
        return pa.table({"bucket": pa.array([bucket], pa.int32()), "piece": pa.array([bytes(piece)], pa.binary())})


def _image(values: Sequence[bytes], level: int) -> Image:
    """The state after some records. Offsets are numbered anew, because no state depends on them."""
    image = Image()
    for first in range(0, len(values), BATCH_RECORDS):
        out = Writer(image.next_offset, 0, 0)
        for value in values[first : first + BATCH_RECORDS]:
            out.add(value)
        for base, last, data in out.batches():
            for offset, op in dialect(image.feature(FORMAT) or level).decode(Batch(base, last, 0, data)):
                image.replay(offset, op)
            image.advance(last + 1)
            image.commit(image.next_offset)
    return image


def _pieces(image: Image, quorum: QuorumRecords, level: int) -> list[bytearray]:
    return snapshot.pieces(image.pin(), quorum.epoch, level, quorum.timestamp_ms, quorum.voters)
