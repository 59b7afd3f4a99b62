"""Peers that ask for large answers and read none: each holds a bounded number of unsent bytes, and its requests wait.

Before, the queued requests of a full connection were still handled: the p99 of other clients was 3,096 ms.
"""

import contextlib
import socket
import time

import pytest

from actors.wire.messages import message
from tests.integration.hostile.scene import Address, Peer, Scene, attackers, encoded

CONNECTIONS = 20
NAMES = 4000
UNSENT_BYTES_MAX = 200 << 20
"""A mebibyte and one answer for each connection, the requests themselves, and the allocator's overhead."""


def ask_and_read_nothing(address: Address, frame: bytes, times: int, seconds: float) -> None:
    """Send as much as the node reads in this many seconds, and hold the connection until they are over."""
    end = time.monotonic() + seconds
    with Peer(address, seconds) as peer:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(TimeoutError):
            for _ in range(times):
                peer.socket.settimeout(max(0.001, end - time.monotonic()))
                peer.send(frame)
        time.sleep(max(0.0, end - time.monotonic()))


@pytest.mark.timeout(180)
def test_unsent_answers_are_bounded_for_each_connection(small: Scene) -> None:
    """20 connections, 60 requests of 100 KB each."""
    kind = message("MetadataRequest")
    names = [kind.MetadataRequestTopic(name=f"{'n' * 20}{number:05}") for number in range(NAMES)]
    frame = encoded("Metadata", 9, kind(topics=names, allow_auto_topic_creation=False))

    def attack() -> None:
        arguments = [(small.brokers()[0], frame, 60, 4.0)] * CONNECTIONS
        with attackers(ask_and_read_nothing, arguments):
            pass

    cost = small.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
    assert max(cost.resident_bytes.values()) < UNSENT_BYTES_MAX
    assert cost.ping_p99_ms < 5000
