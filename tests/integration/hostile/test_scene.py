"""The scene itself: it sees what an attack costs, and that a quiet cluster costs nothing."""

import time

from tests.integration.hostile.scene import Peer, Scene, framed


def test_a_quiet_cluster_costs_nothing_and_answers(small: Scene) -> None:
    cost = small.measured(lambda: time.sleep(1))
    assert not cost.lost and not cost.broken, cost
    assert all(one < 0.5 for one in cost.cpu_s.values()), cost
    assert cost.ping_max_ms > 0


def test_bytes_that_are_no_request_close_their_connection_only(small: Scene) -> None:
    def attack() -> None:
        with Peer(small.brokers()[0]) as peer:
            peer.send(framed(b"\x7f\xff" * 10))
            assert peer.closed()

    cost = small.measured(attack)
    assert not cost.lost and not cost.broken, cost
