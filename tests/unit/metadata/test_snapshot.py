"""Snapshots: canonical bytes, load equals replay, and what is no snapshot."""

import hashlib
import weakref

import pytest

from actors.metadata import image as images
from actors.metadata import snapshot
from actors.metadata.batches import (
    BatchWriter,
    KRaftVersion,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    Voters,
    controls,
    is_control,
)
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.metadata.ops import (
    BrokerGone,
    BrokerSet,
    ConfigSet,
    CorruptMetadata,
    EndPoint,
    EntitySet,
    FeatureSet,
    PartitionsChanged,
    PartitionsSet,
    ProducerIdsSet,
    TopicSet,
)
from actors.ports import Batch
from fastpath.records import batch as batches

VOTERS = Voters((Voter(1001, bytes(range(16)), (("CONTROLLER", "localhost", 9093),)),))


def topic_id(i):
    return hashlib.md5(b"%d" % i).digest()


def ops():
    yield FeatureSet("group.version", 1)
    yield FeatureSet("metadata.format", 2)
    for broker in (3, 1, 2):
        yield BrokerSet(broker, broker, bytes(16), (EndPoint("PLAINTEXT", "h", 9092),), log_dirs=(topic_id(broker),))
    for i in range(5):
        replicas = [[(p + j) % 3 + 1 for j in range(3)] for p in range(1100 * i + 1)]
        homes = [[topic_id(broker) for broker in one] for one in replicas] if i % 2 else ()
        yield TopicSet(f"t{i}", topic_id(i))
        yield PartitionsSet(topic_id(i), range(len(replicas)), replicas, replicas, directories=homes)
    yield PartitionsChanged.one(topic_id(1), 7, [2], 2, 1, 1)
    yield PartitionsSet.one(topic_id(0), 0, [1, 2, 3], [1, 2], 1, 4, 4, removing=[1], adding=[3], recovery=1, elr=[3])
    yield PartitionsSet.one(topic_id(0), 1, range(40), range(1, 40, 3), 4, 4, 4)
    yield TopicSet("hidden", topic_id(9), deleting=True)
    yield ConfigSet(2, "t1", "retention.ms", "5")
    yield ConfigSet(2, "t1", "cleanup.policy", "compact")
    yield ConfigSet(4, "", "x", "")
    yield ProducerIdsSet(1, 1, 1000)
    fields = (("name", "u"), ("mechanism", 1), ("salt", b"s"), ("stored_key", b"k"), ("server_key", b"v"))
    yield EntitySet("scram", ("u", 1), (*fields, ("iterations", 4096)))


def image_of(all_ops):
    image = Image()
    for op in all_ops:
        image.replay(image.next_offset, op)
    return image


def written(image, level=2):
    pin = image.pin()
    data = b"".join(snapshot.encode(pin, 4, level, 777, VOTERS))
    pin.release()
    return data


def test_load_gives_the_image_and_the_image_gives_the_bytes_again():
    image = image_of(ops())
    data = written(image)
    again = Image()
    loaded = snapshot.load(data, again, image.next_offset)
    assert loaded == (VOTERS, 1, 777)
    assert again.next_offset == image.next_offset and again.counters.all() == image.counters.all()
    assert again.brokers() == image.brokers() and again.features() == image.features()
    assert again.next_producer_id == 1000 and again.entities_of("scram") == image.entities_of("scram")
    assert again.name_taken("hidden") and again.topic("hidden") == -1
    again.check()
    assert [again.topic_name(row) for row in again.topics()] == [image.topic_name(row) for row in image.topics()] != []
    for topic in image.topics():
        name = image.topic_name(topic)
        assert [state(image, row) for row in image.topic_partitions(topic)] == [
            state(again, row) for row in again.topic_partitions(again.topic(name))
        ]
        assert again.config(2, name) == image.config(2, name)
    assert written(again) == data


def state(image, row):
    return (
        image.number(row), image.replicas(row), image.isr(row), image.leader(row), image.leader_epoch(row),
        image.directories(row), image.extra(row),
    )  # fmt: skip


def test_the_order_in_which_things_happened_leaves_no_trace():
    late = list(ops())
    assert written(image_of(late[:2][::-1] + late[2:5][::-1] + late[5:])) == written(image_of(late))


def test_shape():
    data = written(image_of(ops()))
    headers = batches.headers(data)
    assert sum(header.size for header in headers) == len(data)
    assert all(batches.verify(data, header.position) for header in headers)
    assert [header.base_offset for header in headers] == [0] + [header.last_offset + 1 for header in headers[:-1]]
    for header in headers:
        assert (header.epoch, header.base_timestamp, header.max_timestamp) == (4, 777, 777)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
        assert header.attributes == (0x20 if is_control(data, header.position) else 0) and header.count <= 4096
    assert [control for _, control in controls(data)] == [SnapshotHeader(777), KRaftVersion(1), VOTERS]
    assert [control for _, control in controls(data, headers[-1].position)] == [SnapshotFooter()]
    ids = [
        {op.id[0] if isinstance(op, TopicSet) else op.topic_id[0]}
        for header in headers[1:-1]
        for _, op in dialect(2).decode(plain(data, header))
        if isinstance(op, TopicSet | PartitionsSet)
    ]
    assert ids == sorted(ids, key=min)
    first = [op for _, op in dialect(2).decode(plain(data, headers[1]))]
    assert first[:2] == [FeatureSet("metadata.format", 2), FeatureSet("group.version", 1)]
    assert [op.id for op in first[2:]] == [1, 2, 3]
    last = [op for _, op in dialect(2).decode(plain(data, headers[-2]))]
    assert [op for op in last if isinstance(op, ConfigSet)] == [
        ConfigSet(2, "t1", "cleanup.policy", "compact"), ConfigSet(2, "t1", "retention.ms", "5"), ConfigSet(4, "", "x", "")
    ]  # fmt: skip
    assert [type(op) for op in last[3:]] == [EntitySet, ProducerIdsSet]


def test_r631_056_a_record_is_the_same_in_the_log_and_in_a_snapshot():
    image = image_of(ops())
    data = written(image)
    found = {
        record.value for header in batches.headers(data)[1:-1] for record in batches.records(data, header.position)
    }
    for op in ops():
        out = BatchWriter(0, 4, 777)
        dialect(2).encode([op], out)
        (batch,) = out.finish()
        in_log = [record.value for record in batches.records(batch.data)]
        if not isinstance(op, PartitionsChanged | PartitionsSet):
            assert in_log[0] in found, op
        elif isinstance(op, PartitionsSet) and len(op) == 1101:
            assert sum(value in found for value in in_log) == 1100, "one was changed afterwards"


def plain(data, header):
    return Batch(
        header.base_offset, header.last_offset, header.epoch, data[header.position : header.position + header.size]
    )


LATER = (
    BrokerSet(9, 9, bytes(16), (EndPoint("PLAINTEXT", "h", 9092),)),
    BrokerSet(1, 10, bytes(16), (EndPoint("PLAINTEXT", "moved", 9092),)),
    BrokerGone(2, 2),
    FeatureSet("group.version", 0),
    FeatureSet("share.version", 1),
    EntitySet("scram", ("v", 1), (("name", "v"), ("mechanism", 1), ("salt", b"s"), ("stored_key", b"k"),
                                  ("server_key", b"v"), ("iterations", 4096))),
    ProducerIdsSet(1, 1, 2000),
)  # fmt: skip
"""What comes after a snapshot was begun: of each kind that it shows beside topics and settings."""


def test_a_snapshot_shows_one_point_in_time():
    image = image_of(ops())
    before = written(image)
    pin = image.pin()
    image.replay(image.next_offset, PartitionsChanged.one(topic_id(1), 8, [1], 1, 9, 9))
    image.replay(image.next_offset, ConfigSet(2, "t1", "retention.ms", "6"))
    image.replay(image.next_offset, TopicSet("late", topic_id(77)))
    for op in LATER:
        image.replay(image.next_offset, op)
    assert b"".join(snapshot.encode(pin, 4, 2, 777, VOTERS)) == before
    pin.release()
    for op in LATER:  # each of them is something that a snapshot shows
        image = image_of(ops())
        image.replay(image.next_offset, op)
        assert written(image) != before, op
    image = image_of((*ops(), TopicSet("late", topic_id(77))))
    assert written(image) != before


class Pieces:
    """A snapshot in a file; `most`: how many bytes a read gives at most."""

    def __init__(self, data, most=1 << 30):
        self.data, self.most, self.reads = data, most, []
        self.size = len(data)

    def read_cold(self, position, size):
        self.reads.append(size)
        return memoryview(self.data)[position : position + min(size, self.most)]


@pytest.mark.parametrize("piece", [12, 61, 100, 1000, 5000, 1 << 20])
def test_a_snapshot_that_is_read_piece_by_piece_is_the_same(monkeypatch, piece):
    monkeypatch.setattr(snapshot, "PIECE_BYTES", piece)
    image = image_of(ops())
    data = written(image)
    pieces, again = Pieces(data), Image()
    assert snapshot.load(pieces, again, image.next_offset) == (VOTERS, 1, 777)
    assert written(again) == data
    longest = max(header.size for header in batches.headers(data))
    assert max(pieces.reads) <= max(piece, longest), "no more than a piece or a batch is in memory"
    assert len(pieces.reads) <= 2 * len(batches.headers(data)) + len(data) // piece


@pytest.mark.parametrize("piece", [12, 200, 1 << 20])
@pytest.mark.parametrize("place", [0, 8, 70, 300, -20, -1])
def test_a_snapshot_in_pieces_that_is_damaged_or_shorter_than_its_file_said(monkeypatch, piece, place):
    monkeypatch.setattr(snapshot, "PIECE_BYTES", piece)
    data = written(image_of(ops()))
    for damaged in (data[:place], data[:place] + bytes([data[place] ^ 0x41]) + data[place:][1:]):
        pieces = Pieces(damaged)
        pieces.size = len(data)
        with pytest.raises(CorruptMetadata):
            snapshot.load(pieces, Image(), 5)


def test_a_snapshot_is_made_piece_by_piece_and_shows_what_was_pinned():
    """However large it is: no piece has more than the topics of one first byte, and none is made before it is asked for."""
    image = Image()
    image.replay(0, FeatureSet("metadata.format", 2))
    for number in range(2000):
        image.replay(image.next_offset, TopicSet(f"t{number}", topic_id(number)))
        image.replay(image.next_offset, PartitionsSet(topic_id(number), range(4), [[1, 2, 3]] * 4, [[1, 2, 3]] * 4))
    image.commit(image.next_offset)
    pin = image.pin()
    whole = b"".join(snapshot.encode(pin, 7, 2, 5, VOTERS))
    assert whole == b"".join(snapshot.joined(snapshot.pieces(pin, 7, 2, 5, VOTERS), 7))
    lazily, seen = snapshot.encode(pin, 7, 2, 5, VOTERS), b""
    sizes = []
    for piece in lazily:
        seen += bytes(piece)
        sizes.append(len(piece))
        image.replay(image.next_offset, PartitionsChanged.one(topic_id(len(sizes)), 0, [2], 2, 1, 1))
    pin.release()
    assert seen == whole and max(sizes) < len(whole) / 60 and len(sizes) > 200


def test_without_voters_in_the_log_the_header_is_alone():
    pin = image_of([]).pin()
    data = b"".join(snapshot.encode(pin, 0, 2, 0, None))
    assert [header.count for header in batches.headers(data)] == [1, 1]
    assert snapshot.load(data, Image(), 0) == (None, 0, 0)


@pytest.mark.parametrize("damage", ["cut footer", "cut byte", "flipped", "twice", "headless"])
def test_what_is_no_snapshot(damage):
    data = bytearray(written(image_of(ops())))
    headers = batches.headers(data)
    if damage == "cut footer":
        data = data[: headers[-1].position]
    elif damage == "cut byte":
        data = data[:-1]
    elif damage == "flipped":
        data[headers[2].position + 100] ^= 1
    elif damage == "twice":
        data = data * 2
    else:
        data = data[headers[1].position :]
    with pytest.raises(CorruptMetadata):
        snapshot.load(bytes(data), Image(), 5)


@pytest.mark.parametrize("size", [0, 1, 17, 300])
def test_a_snapshot_that_is_loaded_in_slices_is_the_same(monkeypatch, size):
    """Topics come by id and are put in order in slices; no slice puts many more in order than another."""
    monkeypatch.setattr(snapshot, "SLICE_BYTES", 1)
    monkeypatch.setattr(images, "NAMES_SORTED", 16)
    monkeypatch.setattr(images, "NAMES_SAMPLED", 64)
    image = Image()
    image.replay(0, FeatureSet("metadata.format", 2))
    for number in range(size):
        name = f"t{number * 7919 % 1000}"
        image.replay(image.next_offset, TopicSet(name, topic_id(number), deleting=number % 5 == 3))
        image.replay(image.next_offset, PartitionsSet(topic_id(number), range(2), [[1, 2, 3]] * 2, [[1, 2, 3]] * 2))
    image.commit(image.next_offset)
    data, again, put = written(image), Image(), []
    slices = snapshot.loading(data, again, image.next_offset)
    with pytest.raises(StopIteration) as end:
        while True:
            before = len(again.order)
            next(slices)
            put.append(len(again.order) - before)
    assert end.value.value == (VOTERS, 1, 777)
    assert written(again) == data and again.next_offset == image.next_offset
    assert [again.topic_name(row) for row in again.topics()] == [image.topic_name(row) for row in image.topics()]
    again.check()
    if size == 300:
        assert len(put) > 200 and max(put) <= 64


def test_an_image_that_is_freed_in_slices_disturbs_nobody_who_reads_it_still(monkeypatch):
    monkeypatch.setattr(images, "FEW_TOPICS", 8)
    image = Image()
    for number in range(9000):
        image.replay(image.next_offset, TopicSet(f"t{number}", number.to_bytes(16)))
        image.replay(image.next_offset, PartitionsSet(number.to_bytes(16), range(2), [[1, 2]] * 2, [[1, 2]] * 2))
        image.commit(image.next_offset)
    image.replay(image.next_offset, ConfigSet(2, "t7", "retention.ms", "5"))
    reader, pin = image, image.pin()
    before = written(image)
    gone = weakref.ref(image)
    slices = images.let_go(image)
    del image
    assert sum(1 for _ in slices) >= 4
    assert written(reader) == before and reader.topic("t7") >= 0 and reader.topic_by_id((7).to_bytes(16)) >= 0
    reader.check()
    del reader
    assert gone() is None, "whoever reads it last frees it"
    assert pin.names.get(7) == "t7" and len(pin.topics()) == 9000
    with pytest.raises(AssertionError):
        Image().names.let_go(1)
