"""A heartbeat names no more partitions than a controller takes of a request, however many a broker has lost."""

from types import SimpleNamespace

import pytest

from actors.broker.lifecycle.lifecycle import BrokerState, Heartbeat
from actors.broker.replication.replicas import Offline
from actors.node.roles.broker.lifecycle import heartbeats
from actors.wire.limits import entries_max
from actors.wire.messages import decode_exact, encode, message
from tests.unit.node.roles.broker.lab import TOPIC_ID, Lab

MANY = 210_000
"""More than a request may have, in a topic each or in one."""
FULL = 60_000


class Lost(SimpleNamespace):
    """A partition that the broker leads and cannot use; a key as it is, as partitions are."""

    __hash__ = object.__hash__


def lost(number: int, per_topic: int) -> Lost:
    return Lost(
        topic_id=(number // per_topic).to_bytes(16, "big"), number=number % per_topic, leads=True, leader_epoch=0,
        isr=SimpleNamespace(isr=(1, 2)),
    )  # fmt: skip


@pytest.mark.parametrize("per_topic", [1, MANY])
def test_a_heartbeat_is_never_too_long_for_a_controller(per_topic: int) -> None:
    """It would be refused, and with it the lease of what the broker can read."""
    lab = Lab()
    broker = lab.broker(1)
    for number in range(MANY):
        broker.replicas.offline[(number // per_topic).to_bytes(16, "big"), number % per_topic] = Offline.FAILED
    for number in range(FULL):
        broker.replicas.full[lost(number, per_topic)] = 0  # type: ignore[index]
    request = broker.heartbeats._request(Heartbeat(BrokerState.ACTIVE, 7, 0, 0))
    kind = message("v28:BrokerHeartbeatRequest")
    taken = decode_exact(kind, 0, encode(request, 0), 0, entries_max("BrokerHeartbeat"))
    assert sum(len(topic.partitions) for topic in taken.unreadable) > 40_000
    assert sum(len(topic.partitions) for topic in taken.without_room) > 15_000


@pytest.mark.parametrize("begins", ["fails", "cannot open"])
def test_each_partition_that_others_wait_for_is_told_in_its_turn(begins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that is offline stays so, and once it is out of the ISR nobody waits to hear of it. Those that are told only
    now were led by a broker that cannot read them, for as long as it lived."""
    monkeypatch.setattr(heartbeats, "UNREADABLE_ENTRIES", 4)
    lab, everything = Lab(), set(range(12))
    broker = lab.broker(1)
    if begins == "cannot open":
        monkeypatch.setattr(broker.replicas, "open_log", lambda *_: None)
    lab.topic((1, 2), partitions=12)
    for number in (0, 1, 2, 7):
        lab.change((2,), 2, number)
    if begins == "fails":
        for number in sorted(everything, reverse=True):
            broker.replicas.take_offline(lab.partition(1, number), Offline.FAILED)
    assert {number for _, number in broker.replicas.offline} == everything
    told: set[int] = set()
    for _ in range(4):
        request = broker.heartbeats._request(Heartbeat(BrokerState.ACTIVE, 7, 0, 0))
        (topic,) = request.unreadable
        assert topic.topic_id == TOPIC_ID and len(topic.partitions) == 2 and not told & set(topic.partitions)
        told |= set(topic.partitions)
        for number in topic.partitions:
            lab.change((2,), 2, number)
    assert told == everything - {0, 1, 2, 7}
    assert {number for _, number in broker.replicas.offline} == everything


def test_partitions_without_room_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller may have nobody for those that come first."""
    monkeypatch.setattr(heartbeats, "FULL_ENTRIES", 4)
    broker = Lab().broker(1)
    for number in range(6):
        broker.replicas.full[lost(number, 6)] = 0  # type: ignore[index]
    told: list[int] = []
    for _ in range(3):
        (topic,) = broker.heartbeats._request(Heartbeat(BrokerState.ACTIVE, 7, 0, 0)).without_room
        told += topic.partitions
    assert sorted(told) == list(range(6))
