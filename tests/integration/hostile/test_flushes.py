"""A combined node that flushes records by the megabyte, while its metadata log is synced and topics are created."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rayft
from actors.wire.messages import message
from fastpath.records.batch import Builder
from tests.integration.files import size_of_all
from tests.integration.hostile.produced import MEBIBYTE, PRODUCE, asked, create, produce_request
from tests.integration.hostile.scene import Address, Peer, Scene, attackers

BATCHES, PARTITIONS, SENDERS = 96, 4, 2
LATENCY_MAX_S = 5.0


@pytest.fixture
def combined(tmp_path: Path) -> Iterator[Scene]:
    """One process that is controller and broker."""
    with rayft.Cluster(controllers=1, brokers=1, dir=tmp_path / "c", combined=True) as running:
        yield Scene(running)


def fill(address: Address, first: int) -> None:
    """Produce batches of 900 KB, to the partitions in turn."""
    builder = Builder(timestamp_ms=time.time_ns() // 1_000_000)
    builder.append(None, os.urandom(900_000))
    batch = bytes(builder.build())
    with Peer(address, 60) as peer:
        for number in range(first, first + BATCHES):
            answer = asked(peer, "Produce", PRODUCE, produce_request("filled", [(number % PARTITIONS, batch)]))
            assert answer.responses[0].partition_responses[0].error_code == 0, answer


@pytest.mark.timeout(180)
def test_topics_are_created_while_records_are_flushed(combined: Scene) -> None:
    address = combined.brokers()[0]
    create(address, "filled", PARTITIONS, **{"flush.ms": "200", "segment.bytes": str(16 * MEBIBYTE)})
    kind, took_s = message("CreateTopicsRequest"), []

    def attack() -> None:
        with Peer(address, 60) as peer, attackers(fill, [(address, first) for first in range(SENDERS)]):
            for number in range(30):
                topic = kind.CreatableTopic(name=f"new-{number}", num_partitions=1, replication_factor=1)
                began = time.monotonic()
                answer = asked(peer, "CreateTopics", 5, kind(topics=[topic], timeout_ms=30_000))
                took_s.append(time.monotonic() - began)
                assert answer.topics[0].error_code == 0, answer
                time.sleep(0.02)

    cost = combined.measured(attack)
    print(cost, f"\nCreateTopics: median {sorted(took_s)[15] * 1000:.0f} ms, longest {max(took_s) * 1000:.0f} ms")
    assert not cost.lost and not cost.broken, cost
    written = size_of_all(Path(combined.cluster.dir).glob("node-1/filled-*/*.log"))
    assert written > SENDERS * BATCHES * 900_000, "the attack did not happen"
    assert max(took_s) < LATENCY_MAX_S
