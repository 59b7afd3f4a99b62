"""A damaged or truncated `__transaction_state`: a broker that would coordinate from it gives its replica up, and
another coordinator goes on with every transaction."""

from collections.abc import Callable

import pytest

from actors.metadata.topic_names import TRANSACTIONS_TOPIC
from tests.simulator.coordinated import Coordinated, Producer
from tests.simulator.world import Process

FILE = f"{TRANSACTIONS_TOPIC}-0/00000000000000000000.log"


def _written() -> tuple[Coordinated, Producer]:
    """A cluster with some sealed segments, in which a transaction is committed and one is open, and its producer."""
    c = Coordinated(**{"transaction.state.log.num.partitions": "1"})
    producer = Producer(c)
    c.small_segments(topic=TRANSACTIONS_TOPIC)
    for offset in range(8):
        producer.commit("g", offset)
        producer.end(True)
    producer.commit("g", 99)
    c.world.run_for(3_000)
    return c, producer


def _leader(c: Coordinated) -> Process:
    return next(
        one
        for one in c.cluster.brokers.values()
        if one.alive and (found := one.node.broker.replicas.get(TRANSACTIONS_TOPIC, 0)) is not None and found.leads
    )


def _goes_on(c: Coordinated, before: Producer) -> None:
    """The id is known with its producer, and the open transaction is aborted."""
    after = Producer(c)
    assert after.id == before.id and after.epoch > before.epoch
    c.world.run_for(1_000)
    assert c.committed("g") == 7
    after.commit("g", 100)
    after.end(True)
    assert c.committed("g") == 100


@pytest.mark.parametrize("position", [3, 14, 17, 22, 58, 61, 70, 90], ids=lambda position: f"byte {position}")
def test_a_new_coordinator_that_finds_rot_hands_over(position: int) -> None:
    c, producer = _written()
    heir = c.cluster.brokers[c.heir(TRANSACTIONS_TOPIC)]
    heir.disk.corrupt(FILE, position)
    first = _leader(c)
    first.crash()
    assert c.world.run_until(lambda: heir.stopped_with is not None, 30_000)
    first.start()
    assert heir.stopped_with is not None and "fetch it from its leader" in heir.stopped_with[1]
    _goes_on(c, producer)
    assert c.world.errors == []


@pytest.mark.parametrize(
    "left", [lambda size: 0, lambda size: size // 2, lambda size: size - 1], ids=["all", "half", "a byte"]
)
def test_a_broker_that_lost_a_part_of_a_sealed_segment_is_not_believed(left: Callable[[int], int]) -> None:
    """The broker stops at the start, or is given the rest by the leader; it never coordinates from what is left."""
    c, producer = _written()
    heir = c.cluster.brokers[c.heir(TRANSACTIONS_TOPIC)]
    heir.kill()
    inode = heir.disk.files[FILE]
    del inode.data[left(len(inode.data)) :]
    inode.durable = bytes(inode.data)
    heir.start()
    c.world.run_for(5_000)
    first = _leader(c)
    first.crash()
    c.world.run_for(10_000)
    first.start()
    _goes_on(c, producer)
