"""Megabytes of requests of ten bytes, each of which costs hundreds of times what its bytes would.

A turn ends after some milliseconds of work whatever the size of the requests, connections take turns, and requests that
were not handled stay in the sockets of their senders. Before, 2.6 MB to a broker cost 15 s in one turn.
"""

import contextlib
import os
import select
import time

import pytest

from actors.wire.messages import message
from tests.integration.hostile.scene import Address, Peer, Scene, attackers, encoded, framed

CONNECTIONS = 40
BYTES_EACH = 16 << 10
TINY = framed(b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
"""An ApiVersions request, version 0, of ten bytes, without a client id."""


def flood(address: Address, frame: bytes, connections: int, bytes_each: int, rounds: int = 1) -> None:
    """Send as fast as the node reads, and read the answers."""
    peers = [Peer(address) for _ in range(connections)]
    for one in peers:
        one.socket.setblocking(False)
    left = {one.socket.fileno(): memoryview(frame * (bytes_each // len(frame)) * rounds) for one in peers}
    sockets = {one.socket.fileno(): one.socket for one in peers}
    poll = select.epoll()
    for fileno in sockets:
        poll.register(fileno, select.EPOLLIN | select.EPOLLOUT)
    silent_at = time.monotonic() + 20
    while sockets and time.monotonic() < silent_at:
        events = poll.poll(1.0)
        if not events and not any(left.values()):
            return
        for fileno, event in events:
            try:
                if event & select.EPOLLOUT:
                    if left[fileno]:
                        left[fileno] = left[fileno][sockets[fileno].send(left[fileno]) :]
                    else:
                        poll.modify(fileno, select.EPOLLIN)
                if event & ~select.EPOLLOUT and not sockets[fileno].recv(1 << 16):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                poll.unregister(fileno)
                sockets.pop(fileno).close()


def knock(address: Address, data: bytes, times: int) -> None:
    """Connect, send something, be disconnected, again and again."""
    for _ in range(times):
        with contextlib.suppress(OSError), Peer(address) as peer:
            peer.send(data)
            peer.closed()


@pytest.mark.timeout(180)
def test_tiny_requests_to_a_broker_fence_nobody_and_delay_nobody(small: Scene) -> None:
    def attack() -> None:
        with attackers(flood, [(small.brokers()[0], TINY, CONNECTIONS, BYTES_EACH)]):
            pass

    cost = small.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
    assert cost.ping_p99_ms < 2000


@pytest.mark.timeout(180)
def test_one_connection_that_pipelines_delays_another_clients_ping_by_a_request(small: Scene) -> None:
    metadata = encoded("Metadata", 9, message("MetadataRequest")(topics=None))

    def attack() -> None:
        with attackers(flood, [(small.brokers()[0], metadata, 1, 1 << 20)]):
            pass

    cost = small.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
    assert cost.ping_p99_ms < 2000


VOTE = encoded("Vote", 1, message("VoteRequest")(cluster_id="stranger", voter_id=1, topics=[]))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("frame", [TINY, VOTE], ids=["ApiVersions", "Vote"])
def test_tiny_requests_to_the_controllers_depose_nobody(whole: Scene, frame: bytes) -> None:
    def attack() -> None:
        with attackers(flood, [(address, frame, CONNECTIONS, BYTES_EACH) for address in whole.controllers()]):
            pass

    cost = whole.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken


@pytest.mark.timeout(240)
def test_garbage_to_the_controllers_deposes_nobody(whole: Scene) -> None:
    def attack() -> None:
        garbage = framed(os.urandom(10)) * 100
        with attackers(knock, [(address, garbage, 300) for address in whole.controllers()]):
            pass

    cost = whole.measured(attack)
    print(cost)
    assert not cost.lost and not cost.broken
