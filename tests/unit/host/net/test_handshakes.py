"""The order at the door: how many handshakes begin, whose turn it is, and who gives up a place."""

import itertools
from typing import NamedTuple

from actors.host.net import handshakes
from actors.host.net.handshakes import Handshakes


class One(NamedTuple):
    host: str
    number: int


NUMBERS = itertools.count()


def come(door: Handshakes[One], host: str, count: int, now_s: float) -> list[One]:
    """Those that are to be closed for them."""
    return [one for _ in range(count) if (one := door.arrive(One(host, next(NUMBERS)), now_s)) is not None]


def begun(door: Handshakes[One], first_s: float, last_s: float, ends: bool = True) -> list[One]:
    """Those that begin from one time to another. `ends`: each is over at once."""
    found = []
    for step in range(int((last_s - first_s) * 100)):
        for one in door.verdict(first_s + step / 100).begin:
            found.append(one)
            if ends:
                door.over(one)
    return found


def test_one_that_comes_alone_begins_at_once_and_a_crowd_a_few_at_a_time() -> None:
    door = Handshakes[One]()
    come(door, "a", 1, 5.0)
    assert len(door.verdict(5.0).begin) == 1 and not door.waits
    for number in range(20):
        come(door, f"h{number}", 20, 6.0)
    at_once = [len(door.verdict(6.0 + step / 100).begin) for step in range(50)]
    assert max(at_once) == handshakes.AT_ONCE and max(at_once[1:]) <= 4
    assert sum(at_once) <= handshakes.AT_ONCE + handshakes.A_SECOND / 2
    assert len(door.verdict(60.0).begin) == handshakes.AT_ONCE, "a silent minute does not save up"


def test_of_one_host_a_third_as_many_begin_in_a_second() -> None:
    door = Handshakes[One]()
    come(door, "a", handshakes.WAITING_OF_A_HOST, 1.0)
    first = begun(door, 1.0, 1.5)
    come(door, "a", handshakes.WAITING_OF_A_HOST, 1.5)
    assert len(first) + len(begun(door, 1.5, 2.0)) == handshakes.A_SECOND_OF_A_HOST
    assert len(begun(door, 2.0, 3.0)) > 0


def test_hosts_take_turns_and_each_keeps_its_order() -> None:
    door = Handshakes[One]()
    come(door, "a", 50, 1.0)
    come(door, "b", 50, 1.0)
    begun(door, 1.0, 1.1)
    come(door, "late", 1, 1.1)
    found = begun(door, 1.1, 1.2)
    assert "late" in [one.host for one in found[:3]]
    for host in "ab":
        own = [one for one in found if one.host == host]
        assert own == sorted(own) and abs(len(own) - len(found) / 2) <= 1


def test_who_waits_too_long_a_line_is_the_newest_of_the_longest() -> None:
    door = Handshakes[One]()
    assert len(come(door, "a", handshakes.WAITING_OF_A_HOST + 5, 1.0)) == 5, "the host has its share"
    for host in "bcdef":
        come(door, host, (handshakes.WAITING - handshakes.WAITING_OF_A_HOST) // 5, 1.0)
    (closed,) = come(door, "new", 1, 1.0)
    assert closed.host == "a"
    assert closed not in begun(door, 1.0, 9.0) and not door.waits


def test_slow_handshakes_of_a_crowd_make_room_for_another_host() -> None:
    door = Handshakes[One]()
    now_s = 1.0
    while now_s < 9.0:
        for host in "abcde":
            come(door, host, 1, now_s)
        door.verdict(now_s)
        now_s += 0.01
    come(door, "new", 1, now_s)
    begin, close = door.verdict(now_s)
    assert "new" in [one.host for one in begin], "it comes in at once"
    assert close and all(one.host in "abcde" for one in close), "and the crowd makes room"


def test_no_more_are_under_way_than_are_allowed() -> None:
    door, live = Handshakes[One](), set[One]()
    for step in range(1_500):
        now_s = 1.0 + step / 100
        come(door, f"h{step % 7}", 5, now_s)
        begin, close = door.verdict(now_s)
        live |= set(begin)
        live -= set(close)
        for one in close:
            door.over(one)  # its task ends after it has lost its place
        assert len(live) <= handshakes.UNDER_WAY
        for host in {one.host for one in live}:
            assert sum(one.host == host for one in live) <= handshakes.UNDER_WAY_OF_A_HOST
    assert len(live) == handshakes.UNDER_WAY


def test_a_host_alone_keeps_itself_out_for_two_seconds_and_not_longer() -> None:
    door = Handshakes[One]()
    come(door, "a", handshakes.WAITING_OF_A_HOST, 1.0)
    assert len(begun(door, 1.0, 1.5, ends=False)) == handshakes.UNDER_WAY_OF_A_HOST
    assert not begun(door, 2.0, 2.9, ends=False), "nobody has to go for one of the same host"
    assert begun(door, 1.0 + handshakes.SLOW_S + 0.1, 4.0, ends=False), "but who is slow"


def test_memory_is_given_back_when_many_have_ended() -> None:
    door = Handshakes[One]()
    told = []
    for number in range(handshakes.MANY):
        come(door, f"h{number}", 1, float(number))
        told += [door.over(one) for one in door.verdict(float(number)).begin]
    assert told == [False] * (handshakes.MANY - 1) + [True]


def test_when_the_node_ends_nobody_waits() -> None:
    door = Handshakes[One]()
    come(door, "a", 3, 1.0)
    assert len(door.give_up()) == 3 and not door.waits and not door.verdict(2.0).begin
