"""The metadata state at a million partitions in a thousand topics (replication factor 3, five brokers).

    python -m pytest -s bench/test_metadata.py --benchmark-columns=min,median

Rates are printed at the end: records or rows a second, in the best round. Aims: 500,000 partitions a
second from request to commit, a restart on a million in 1.5 s, fencing 504,000 in 0.6 s.
"""

import hashlib
from collections.abc import Callable, Iterator

import pytest

from actors.metadata import snapshot
from actors.metadata.batches import BatchWriter, Voter, Voters
from actors.metadata.dialects import dialect
from actors.metadata.image import Image
from actors.metadata.ops import BrokerGone, BrokerSet, EndPoint, FeatureSet, PartitionsChanged, PartitionsSet, TopicSet
from fastpath.image.isr_removal import departures

pytest.importorskip("pytest_benchmark")

TOPICS, PARTITIONS = 1000, 1000
ROWS = TOPICS * PARTITIONS
V28 = dialect(2)
VOTERS = Voters((Voter(1001, bytes(range(16))),))

_rates: dict[str, float] = {}


@pytest.fixture(scope="module", autouse=True)
def rates() -> Iterator[None]:
    yield
    print()
    for what, rate in _rates.items():
        print(f"  {what:<44} {rate:14,.0f} /s")


def measure(benchmark, what: str, count: int, function: Callable[..., object], setup=None) -> None:
    benchmark.pedantic(function, setup=setup, rounds=3)
    _rates[what] = count / benchmark.stats.stats.min


def operations():
    for i in range(TOPICS):
        topic_id = hashlib.md5(b"%d" % i).digest()
        replicas = [[(i + p + j) % 5 + 1 for j in range(3)] for p in range(PARTITIONS)]
        yield TopicSet(f"topic-{i}", topic_id)
        yield PartitionsSet(topic_id, range(PARTITIONS), replicas, replicas)


def empty() -> Image:
    image = Image()
    image.replay(0, FeatureSet("metadata.format", 2))
    for broker in range(1, 6):
        image.replay(broker, BrokerSet(broker, broker, bytes(16), (EndPoint("PLAINTEXT", "h", 9092),)))
    return image


@pytest.fixture(scope="module")
def ops():
    return list(operations())


@pytest.fixture(scope="module")
def image(ops):
    return replayed(ops)


def replayed(ops) -> Image:
    image = empty()
    for op in ops:
        image.replay(image.next_offset, op)
    image.commit(image.next_offset)
    return image


def test_replay_in_bulk(benchmark, ops):
    measure(benchmark, "replay, partitions in bulk", ROWS, lambda: replayed(ops))


def test_encode_in_bulk(benchmark, ops):
    def encode():
        out = BatchWriter(6, 1, 0)
        for op in ops:
            V28.encode([op], out)
        return out.finish()

    measure(benchmark, "encode, partitions in bulk", ROWS, encode)


def test_decode_in_bulk(benchmark, ops):
    out = BatchWriter(6, 1, 0)
    V28.encode(ops, out, atomic=False)
    batches = out.finish()
    measure(benchmark, "decode, partitions in bulk", ROWS, lambda: [list(V28.decode(batch)) for batch in batches])


def test_one_topic_at_a_time(benchmark):
    """A CreateTopics with one partition: encode, replay, commit."""
    image = empty()
    ids = iter(range(1 << 40))

    def create():
        for _ in range(1000):
            i = next(ids)
            topic_id = hashlib.md5(b"%d" % i).digest()
            pair = [TopicSet(f"single-{i}", topic_id), PartitionsSet(topic_id, [0], [[1, 2, 3]], [[1, 2, 3]])]
            out = BatchWriter(image.next_offset, 1, 0)
            V28.encode(pair, out)
            for op in pair:
                image.replay(image.next_offset, op)
            image.commit(image.next_offset)

    measure(benchmark, "a topic with one partition, with its batch", 1000, create)


def test_one_isr_change_at_a_time(benchmark, image):
    topic_id = image.topic_id(0)
    changes = [
        PartitionsChanged.one(topic_id, p, image.replicas(p)[:2], image.replicas(p)[0], 1, 1) for p in range(PARTITIONS)
    ]
    here = image.next_offset

    def change():
        for op in changes:
            image.replay(image.next_offset, op)

    measure(benchmark, "replay, one ISR change", PARTITIONS, change, setup=lambda: image.undo(here))
    image.undo(here)


@pytest.mark.parametrize("scan", ["rows_led_by", "rows_in_isr", "rows_of"])
def test_scans(benchmark, image, scan):
    measure(benchmark, f"{scan}, rows looked at", ROWS, lambda: getattr(image, scan)(3))


def test_fencing(benchmark, image):
    """A broker in 600,000 ISRs leaves: proposals, records and replay in slices, then BrokerGone; undone between rounds."""
    here = image.next_offset

    def fence():
        out = BatchWriter(image.next_offset, 1, 0)
        row = 0
        while row >= 0:
            block, _, row = departures(image, 3, {1, 2, 4, 5}, row, 20_000, True)
            op = PartitionsChanged(block)
            V28.encode([op], out, atomic=False)
            image.replay(image.next_offset, op)
        image.replay(image.next_offset, BrokerGone(3))
        return out.finish()

    measure(benchmark, "fencing, partitions", image.counts(3)[2], fence, setup=lambda: image.undo(here))
    image.undo(here)


def test_snapshot(benchmark, image):
    pin = image.pin()
    measure(benchmark, "snapshot encode, partitions", ROWS, lambda: snapshot.encode(pin, 1, 2, 0, VOTERS))
    pin.release()


def test_load(benchmark, image):
    pin = image.pin()
    data = b"".join(snapshot.encode(pin, 1, 2, 0, VOTERS))
    pin.release()
    measure(benchmark, "snapshot load, partitions", ROWS, lambda: snapshot.load(data, Image(), 1))


def test_pin(benchmark, image):
    def pin():
        image.pin().release()

    measure(benchmark, "pin and release", 1, pin)
