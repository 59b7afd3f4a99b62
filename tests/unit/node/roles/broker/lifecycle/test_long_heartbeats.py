"""A heartbeat names no more partitions than a controller takes of a request, however many a broker has lost."""

from types import SimpleNamespace

import pytest

from actors.broker.lifecycle.lifecycle import BrokerState, Heartbeat
from actors.broker.replication.replicas import Offline
from actors.wire.limits import entries_max
from actors.wire.messages import decode_exact, encode, message
from tests.unit.node.roles.broker.lab import Lab

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
