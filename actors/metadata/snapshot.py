"""Snapshots of the metadata: a pinned image as records, and back.

This file alone decides the order and the batches of a snapshot, so that equal state gives equal bytes on every node
(KIP-630; KIP-631, "Controller snapshots"; R631-106 to R631-119, A39):

1. one control batch: SnapshotHeader, KRaftVersion, Voters (a quorum whose voters are not in the log: the header alone)
2. feature levels (metadata.format first, then by name), brokers by id
3. topics by unsigned topic id, each followed by its partitions by number
4. configurations by (type, name, key), then extensions by (record type, bytes of the record)
5. a control batch with SnapshotFooter

A batch ends behind 2 and 3, where the first byte of the topic id changes, and at 4,096 records. Offsets count from 0.
The leader epoch is that of the file name. Every timestamp is that of the last record that the snapshot covers.

It also decides how much of a snapshot is loaded at once: an image of a million partitions takes 0.2 s and more, in which a
node would answer nobody.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

from actors.metadata.batches import (
    BatchWriter,
    Control,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    Voters,
    control_batch,
    controls,
    is_control,
)
from actors.metadata.dialects import FORMAT, dialect
from actors.metadata.dialects.drafts import Drafts
from actors.metadata.image import HiddenName, Image, Pin
from actors.metadata.ops import ConfigSet, CorruptMetadata, FeatureSet, TopicSet
from actors.ports import Batch, Buffer
from fastpath.records import batch as batches

RECORDS_MAX = 4096
"""Records in a batch of a snapshot."""

PIECE_BYTES = 1 << 20
"""How much of a snapshot is read at once, unless a batch is larger."""
SLICE_BYTES = 1 << 20
"""About how much of a snapshot is loaded in a slice: two to five milliseconds. A record costs less than in the log, where
topics do not come together."""
LENGTH_AT, SIZE_BYTES = 8, 12
"""Where a batch has its length, an int32, and how many bytes are before what that counts."""
NO_LIMIT = 1 << 40
"""A size of batch in bytes that is never reached: only the rules above cut batches."""


class Loaded(NamedTuple):
    """What a snapshot holds beside the state."""

    voters: Voters | None
    kraft_version: int
    last_timestamp_ms: int


def encode(pin: Pin, epoch: int, level: int, last_timestamp_ms: int, voters: Voters | None) -> Iterator[Buffer]:
    """The snapshot of a pinned image, as buffers to write one after the other. Each is made when it is asked for, and has
    about 1/256 of the topics at most: so a snapshot of any size takes little memory. Any thread may call it.

    `epoch`: leader epoch in the file's name. `level`: metadata.format to write (R631-119). Does not release the pin.
    """
    drafts = _drafts(level)
    first = _first(epoch, last_timestamp_ms, voters)
    yield first.data
    offset = first.last_offset + 1

    def writer() -> BatchWriter:
        return BatchWriter(offset, epoch, last_timestamp_ms, NO_LIMIT, RECORDS_MAX)

    out = writer()
    _head(pin, drafts, out)
    out.cut()
    yield memoryview(out)
    offset = out.next_offset
    for topics in pin.topics_by_first_byte():
        out = writer()
        _add_topics(pin, drafts, out, topics)
        out.cut()
        yield memoryview(out)
        offset = out.next_offset
    out = writer()
    _tail(pin, drafts, out)
    yield memoryview(out)
    yield control_batch(out.next_offset, epoch, last_timestamp_ms, [SnapshotFooter()]).data


def pieces(pin: Pin, epoch: int, level: int, last_timestamp_ms: int, voters: Voters | None) -> list[bytearray]:
    """A snapshot as `encode` makes it, in three pieces for `joined`: what comes before the topics, the topics, and what
    comes behind them. Each piece counts offsets from 0. The topics may come from several images, each with its own
    range of first bytes of the topic id."""
    drafts = _drafts(level)
    first = _first(epoch, last_timestamp_ms, voters)
    made = []
    for fill in (_head, _topics, _tail):
        out = BatchWriter(0, epoch, last_timestamp_ms, NO_LIMIT, RECORDS_MAX)
        fill(pin, drafts, out)
        made.append(bytearray(out))
    footer = control_batch(0, epoch, last_timestamp_ms, [SnapshotFooter()])
    return [bytearray(first.data) + made[0], made[1], made[2] + bytearray(footer.data)]


def joined(parts: Sequence[bytearray], epoch: int) -> list[Buffer]:
    """One snapshot out of its pieces, in order. It numbers the base offsets, which no CRC covers, in the pieces
    themselves."""
    offset = 0
    for part in parts:
        for header in batches.headers(part):
            batches.patch(part, header.position, offset, epoch)
            offset += header.count
    return list(parts)


def _drafts(level: int) -> Drafts:
    drafts = dialect(level)
    assert isinstance(drafts, Drafts), "snapshots are written at a level of the drafts' family"
    return drafts


def _first(epoch: int, last_timestamp_ms: int, voters: Voters | None) -> Batch:
    head: list[Control] = [SnapshotHeader(last_timestamp_ms)]
    if voters is not None:
        head += [KRaftVersion(1), voters]
    return control_batch(0, epoch, last_timestamp_ms, head)


def _head(pin: Pin, drafts: Drafts, out: BatchWriter) -> None:
    for name in sorted(pin.features, key=lambda name: (name != FORMAT, name)):
        out.add(drafts.record(FeatureSet(name, pin.features[name])))
    for broker_id in sorted(pin.brokers):
        out.add(drafts.record(pin.brokers[broker_id]))


def _tail(pin: Pin, drafts: Drafts, out: BatchWriter) -> None:
    for (type_, resource), values in sorted(pin.configs.items()):
        for key in sorted(values):
            out.add(drafts.record(ConfigSet(type_, resource, key, values[key])))
    extensions = [drafts.record(op) for _, op in pin.entities.items()]
    if pin.producer_ids is not None:
        extensions.append(drafts.record(pin.producer_ids))
    for value in sorted(extensions):
        out.add(value)


def _topics(pin: Pin, drafts: Drafts, out: BatchWriter) -> None:
    out.cut()
    for topics in pin.topics_by_first_byte():
        _add_topics(pin, drafts, out, topics)
        out.cut()


def _add_topics(pin: Pin, drafts: Drafts, out: BatchWriter, topics: Sequence[tuple[bytes, int]]) -> None:
    for topic_id, row in topics:
        named = pin.names.get(row)
        out.add_topic(pin.columns, drafts.record(TopicSet(str(named), topic_id, type(named) is HiddenName)), row)


class InPieces(Protocol):
    """A snapshot that is read piece by piece: one of a million partitions has 70 MB."""

    @property
    def size(self) -> int: ...
    def read_cold(self, position: int, size: int) -> memoryview:
        """Up to so many bytes from a position."""
        ...


def load(data: "Buffer | InPieces", image: Image, end_offset: int, family: str = "drafts") -> Loaded:
    """Fill a new image from a snapshot whose name says `end_offset`, at once. Raises CorruptMetadata, and what reading
    raises; the image must then be dropped."""
    slices = loading(data, image, end_offset, family)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def loading(
    data: "Buffer | InPieces", image: Image, end_offset: int, family: str = "drafts"
) -> Generator[None, None, Loaded]:
    """Fill a new image as `load` does, a slice at a time. Nobody may look at the image before the last one; where loading is
    given up, the image is dropped."""
    assert image.next_offset == 0, "a snapshot fills a new image"
    voters: Voters | None = None
    kraft_version, last_timestamp_ms = 0, -1
    complete = False
    room, topics = SLICE_BYTES, 0
    image.begin_load()
    for batch in verified_batches(data):
        if room <= 0:
            yield
            more, topics = image.topic_count - topics, image.topic_count
            yield from image.make_room(more + more // 4)
            room = SLICE_BYTES
        room -= len(batch.data)
        if complete or (last_timestamp_ms < 0 and not is_control(batch.data)):
            raise CorruptMetadata(batch.base_offset, "records outside the snapshot's header and footer")
        if not is_control(batch.data):
            level = image.feature(FORMAT)
            which = level if family == "drafts" and level else family
            for offset, op in dialect(which).decode(batch, together=True):
                image.replay(offset, op)
            image.advance(batch.last_offset + 1)
            image.commit(image.next_offset)
            continue
        for _, control in controls(batch.data):
            if isinstance(control, SnapshotHeader):
                last_timestamp_ms = control.last_contained_timestamp_ms
            elif isinstance(control, KRaftVersion):
                kraft_version = control.version
            elif isinstance(control, Voters):
                voters = control
            complete = complete or isinstance(control, SnapshotFooter)
        image.advance(batch.last_offset + 1)
    if not complete:
        raise CorruptMetadata(image.next_offset, "the snapshot ends without its footer")
    yield from image.end_load()
    image.next_offset = end_offset
    return Loaded(voters, kraft_version, last_timestamp_ms)


def verified_batches(data: "Buffer | InPieces") -> Iterator[Batch]:
    """All batches of a snapshot, each verified. Raises CorruptMetadata, and what reading raises."""
    if isinstance(data, bytes | bytearray | memoryview):
        data = _Whole(memoryview(data))
    end, at, position = data.size, _Window(data).at, 0
    while position < end:
        here = at(position)
        try:
            found = batches.verify(here)
        except batches.CorruptBatch as error:
            raise CorruptMetadata(-1, f"at byte {position} of the snapshot: {error}") from error
        yield Batch(found.base_offset, found.last_offset, found.epoch, here[: found.size])
        position += found.size


class _Whole(NamedTuple):
    """A snapshot that is in memory, as one in pieces."""

    view: memoryview

    @property
    def size(self) -> int:
        return len(self.view)

    def read_cold(self, position: int, size: int) -> memoryview:
        return self.view[position:]


class _Window:
    """A piece of a snapshot, which moves."""

    def __init__(self, data: InPieces) -> None:
        self._data = data
        self._start = 0
        self._view = memoryview(b"")

    def at(self, position: int) -> memoryview:
        """The bytes from a position on: a whole batch at least, unless the snapshot ends in it."""
        view = self._view[position - self._start :]
        if len(view) < SIZE_BYTES:
            view = self._read(position, PIECE_BYTES)
        if len(view) >= SIZE_BYTES:
            wanted = SIZE_BYTES + int.from_bytes(view[LENGTH_AT:SIZE_BYTES], "big", signed=True)
            if len(view) < wanted:
                view = self._read(position, max(wanted, PIECE_BYTES))
        return view

    def _read(self, position: int, size: int) -> memoryview:
        self._view, self._start = self._data.read_cold(position, size), position
        return self._view
