"""A controller with a million partitions: what a takeover, a restart and a partition cost (R500-04, R500-16)."""

import hashlib
import time
from collections.abc import Iterator

import pytest

from actors.controller.partitions.topics import create_topics
from actors.metadata import snapshot
from actors.metadata.image import Image
from actors.metadata.ops import BrokerSet, EndPoint, FeatureSet, Op, PartitionsSet, TopicSet
from tests.unit.node.roles.controller.test_role import Host, call, topic

pytestmark = pytest.mark.long

PARTITIONS = 1000
BROKERS = 40
TAKEOVER_SECONDS_MAX = 0.1
"""Room for a slow machine: it takes a few milliseconds. To read a million partitions from anywhere takes a second."""


def operations(topics: int) -> Iterator[Op]:
    """Topics of a thousand partitions with three replicas each, on forty brokers."""
    yield FeatureSet("metadata.format", 2)
    for id in range(1, BROKERS + 1):
        yield BrokerSet(id, id, id.to_bytes(16, "big"), (EndPoint("PLAINTEXT", "h", 9092),))
    for number in range(topics):
        topic_id = hashlib.md5(b"%d" % number).digest()
        replicas = [[(number + place * 7 + n) % BROKERS + 1 for n in range(3)] for place in range(PARTITIONS)]
        yield TopicSet(f"topic-{number}", topic_id)
        yield PartitionsSet(topic_id, range(PARTITIONS), replicas, replicas)


def filled(image: Image, topics: int) -> None:
    for op in operations(topics):
        image.replay(image.next_offset, op)
    image.commit(image.next_offset)


def takeover_s(topics: int) -> float:
    """From the first committed record of the new active controller to the next: a topic."""
    host = Host()
    filled(host.controller.image, topics)
    host.quorum.raft.high_watermark = host.controller.image.next_offset
    began = time.perf_counter()
    host.lead(epoch=2)
    host.controller.submit(create_topics, topic("next"), call(19, version=7))
    host.turn()
    took = time.perf_counter() - began
    image = host.controller.image
    assert image.row_end == topics * PARTITIONS + 1 and image.topic("next") >= 0
    return took


@pytest.mark.timeout(120)
def test_r500_16_a_takeover_takes_as_long_with_a_million_partitions_as_with_a_thousand() -> None:
    few, many = min(takeover_s(1) for _ in range(3)), min(takeover_s(1000) for _ in range(2))
    print(f"a takeover with a thousand partitions: {few * 1000:.1f} ms; with a million: {many * 1000:.1f} ms")
    assert many < few + TAKEOVER_SECONDS_MAX


@pytest.mark.timeout(120)
def test_r500_04_a_million_partitions_come_back_from_a_snapshot_as_they_were() -> None:
    image, again = Image(), Image()
    filled(image, 1000)
    pin = image.pin()
    data = b"".join(snapshot.encode(pin, 1, 2, 0, None))
    pin.release()
    snapshot.load(data, again, image.next_offset)
    assert again.row_end == image.row_end == 1000 * PARTITIONS and again.topic_count == 1000
    for broker in range(1, BROKERS + 1):
        assert again.counts(broker) == image.counts(broker)
    assert sum(again.counts(broker)[0] for broker in range(1, BROKERS + 1)) >= 1000 * PARTITIONS
    for row in range(0, image.row_end, 997):
        other = again.partition(again.topic(image.topic_name(image.topic_of(row))), image.number(row))
        assert tuple(again.replicas(other)) == tuple(image.replicas(row)) == tuple(again.isr(other))
