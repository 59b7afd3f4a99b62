"""Frames that begin and never end: their memory is bounded over all connections, and other connections are still read.

Before, 20 beginnings of 90 MB held 1,282 MB.
"""

import contextlib
import struct
import time

import pytest

from actors.wire.messages import message
from tests.integration.hostile.scene import Address, Cost, Peer, Scene, attackers, encoded

MIB = 1 << 20
HOLD_S = 4.0
HELD_BYTES_MAX = 320 * MIB
"""Half of 256 MiB for large frames, half for ordinary ones, 64 KiB for each connection, and the allocator's
overhead."""


def begin(address: Address, claimed: int, sent: int, seconds: float) -> None:
    """Send the beginning of a frame, as fast as the node reads it, and hold the connection until the time is over."""
    end = time.monotonic() + seconds
    with Peer(address) as peer, contextlib.suppress(TimeoutError):
        peer.send(struct.pack(">i", claimed))
        part = bytes(min(sent, MIB))
        for _ in range(sent // len(part)):
            peer.socket.settimeout(max(0.001, end - time.monotonic()))
            peer.send(part)
        time.sleep(max(0.0, end - time.monotonic()))


def attacked(scene: Scene, address: Address, connections: int, claimed: int, sent: int) -> Cost:
    def attack() -> None:
        with attackers(begin, [(address, claimed, sent, HOLD_S)] * connections):
            pass

    cost = scene.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
    return cost


@pytest.mark.timeout(120)
def test_twenty_beginnings_of_large_frames_hold_no_more_than_is_allowed(small: Scene) -> None:
    cost = attacked(small, small.brokers()[0], 20, 95 * MIB, 90 * MIB)
    assert max(cost.resident_bytes.values()) < HELD_BYTES_MAX
    assert cost.ping_p99_ms < 5000


@pytest.mark.timeout(120)
def test_a_controller_closes_what_claims_to_be_larger_than_any_request_of_it(small: Scene) -> None:
    cost = attacked(small, small.controllers()[0], 10, 50 * MIB, 40 * MIB)
    assert max(cost.resident_bytes.values()) < 40 * MIB
    with Peer(small.controllers()[0], 5) as peer:
        peer.send(struct.pack(">i", 9 * MIB))
        assert peer.closed()


@pytest.mark.timeout(120)
def test_a_whole_request_is_read_while_beginnings_hold_the_room(small: Scene) -> None:
    """First a small frame, which always passes; then a large one, which waits until the connections that stall are
    closed."""
    address = small.brokers()[0]
    held = [Peer(address) for _ in range(4)]
    for one in held:
        one.send(struct.pack(">i", 60 * MIB) + bytes(MIB))
    try:
        with Peer(address, 20) as peer:
            peer.send(encoded("Metadata", 9, message("MetadataRequest")(topics=[])))
            assert peer.read()
            kind = message("MetadataRequest")
            names = [kind.MetadataRequestTopic(name="x" * 200 + str(n)) for n in range(12_000)]
            began = time.monotonic()
            peer.send(encoded("Metadata", 9, kind(topics=names, allow_auto_topic_creation=False)))
            assert peer.read()
            assert time.monotonic() - began < 15
    finally:
        for one in held:
            one.socket.close()
