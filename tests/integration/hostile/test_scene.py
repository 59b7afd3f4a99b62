"""The scene itself: it measures what an attack costs, and a quiet cluster costs nothing."""

import time
from pathlib import Path

import pytest

from tests.integration.hostile.scene import Peer, Scene, attackers, framed


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


def test_an_attack_that_has_not_ended_in_time_fails_the_test() -> None:
    with (
        pytest.raises(AssertionError, match=r"^the attack sleep\(30\) has not ended after 0.5 s: 1 of 2 attacks"),
        attackers(time.sleep, [(0,), (30,)], 0.5),
    ):
        pass


def test_an_attack_without_an_end_is_killed(tmp_path: Path) -> None:
    began = time.monotonic()
    with attackers(_write_and_sleep, [(tmp_path / "begun",)], 1, endless=True):
        pass
    assert time.monotonic() - began < 20
    assert (tmp_path / "begun").exists()


@pytest.mark.parametrize("error", [AssertionError, TimeoutError])
def test_an_attack_that_fails_fails_the_test(error: type[Exception]) -> None:
    """A node that is silent is a failure too, unless the attack expects it."""
    with (
        pytest.raises(AssertionError, match=rf"^the attack _fail\({error.__name__}\) failed"),
        attackers(_fail, [(error,)]),
    ):
        pass


def test_a_closed_connection_is_the_end_of_an_attack() -> None:
    with attackers(_fail, [(ConnectionResetError,)]):
        pass


def _write_and_sleep(path: Path) -> None:
    path.touch()
    time.sleep(60)


def _fail(error: type[Exception]) -> None:
    raise error
