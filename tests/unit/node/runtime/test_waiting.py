"""What waits is called once, for the right reason, in the order of arrival."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from actors.node.net.connections import Connection
from actors.node.runtime.calls import Listener
from actors.node.runtime.waiting import FAR_MS, FORGOTTEN_KEYS, Timers, Waiting


def test_timers_run_in_order_of_time_then_arrival() -> None:
    timers, seen = Timers(), []
    timers.at(20, lambda: seen.append("b"))
    timers.at(10, lambda: seen.append("a"))
    timers.at(20, lambda: seen.append("c"))
    assert timers.deadline_ms() == 10
    timers.run(20)
    assert seen == ["a", "b", "c"]
    assert timers.deadline_ms() == FAR_MS


def test_a_cancelled_timer_never_runs_and_has_no_deadline() -> None:
    timers, seen = Timers(), []
    timers.at(10, lambda: seen.append("a")).cancel()
    assert timers.deadline_ms() == FAR_MS
    timers.run(100)
    assert seen == []


def test_cancelled_timers_are_let_go_of_long_before_their_time_and_the_others_keep_their_order() -> None:
    timers, seen = Timers(), []
    for number in range(100):
        timers.at(100 - number // 2, lambda number=number: seen.append(number))
    for _ in range(20_000):
        timers.at(FAR_MS, lambda: None).cancel()
    assert len(timers.heap) < 3_000
    timers.run(100)
    assert seen == sorted(range(100), key=lambda number: (100 - number // 2, number))


def test_what_a_timer_schedules_for_now_waits_for_the_next_turn() -> None:
    timers, seen = Timers(), []

    def again() -> None:
        seen.append(len(seen))
        timers.at(0, again)

    timers.at(0, again)
    timers.run(0)
    assert seen == [0]
    timers.run(0)
    assert seen == [0, 1]


def test_held_answers_leave_in_offset_order_once_committed() -> None:
    waiting, seen = Waiting(), []
    waiting.hold(7, lambda committed: seen.append((7, committed)))
    waiting.hold(5, lambda committed: seen.append((5, committed)))
    waiting.committed(5)
    assert seen == []
    waiting.committed(6)
    assert seen == [(5, True)]
    waiting.committed(100)
    assert seen == [(5, True), (7, True)]


def test_lost_leadership_releases_everything_held_as_not_committed() -> None:
    waiting, seen = Waiting(), []
    waiting.hold(5, lambda committed: seen.append(committed))
    waiting.lost()
    waiting.committed(100)
    assert seen == [False]


def test_a_signal_wakes_only_waiters_of_its_key_and_only_once() -> None:
    waiting, seen = Waiting(), []
    waiting.park(["x", "y"], 1000, lambda expired: seen.append(("xy", expired)))
    waiting.park(["z"], 1000, lambda expired: seen.append(("z", expired)))
    waiting.signal("y")
    waiting.signal("x")
    waiting.signal("unknown")
    assert waiting.run()
    assert seen == [("xy", False)]
    waiting.signal("x")
    assert not waiting.run()
    waiting.expire(1000)
    assert seen == [("xy", False), ("z", True)]


def test_a_waiter_may_park_again_on_the_same_key() -> None:
    waiting, seen = Waiting(), []

    def look(expired: bool) -> None:
        seen.append(expired)
        if not expired:
            waiting.park(["x"], 50, look)

    waiting.park(["x"], 50, look)
    waiting.signal("x")
    waiting.run()
    waiting.expire(50)
    assert seen == [False, True]
    assert not waiting._parked, "nobody waits, so no key is remembered"


class Turns:
    """Turns of a node in which each waiter takes 1000 ns by the stopwatch."""

    def __init__(self) -> None:
        self.ns = 0
        self.waiting = Waiting(lambda: self.ns)
        self.seen: list[tuple[object, bool]] = []

    def look(self, name: object) -> Callable[[bool], None]:
        def again(expired: bool) -> None:
            self.ns += 1000
            self.seen.append((name, expired))

        return again

    def turn(self, mono_ms: int, budget_ns: int = 3000) -> list[object]:
        """The names of those that were called."""
        before = len(self.seen)
        self.waiting.begin_turn(budget_ns)
        self.waiting.expire(mono_ms)
        self.waiting.run()
        return [name for name, _ in self.seen[before:]]


def peer(conn: int, host: str) -> Connection:
    return Connection(conn, Listener.CLIENT, "PLAINTEXT", host)


def test_waiters_that_a_turn_has_no_time_for_are_called_in_the_next_turns_and_until_then_one_is_due() -> None:
    turns = Turns()
    for number in range(8):
        turns.waiting.park(["x"], 1000, turns.look(number))
    turns.waiting.signal("x")
    called = []
    while len(turns.seen) < 8:
        called.append(turns.turn(1))
        assert turns.waiting.deadline_ms() == (0 if len(turns.seen) < 8 else FAR_MS)
    assert called == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert turns.seen == [(number, False) for number in range(8)]
    assert turns.waiting.deadline_ms() == FAR_MS
    assert not turns.turn(2000), "nobody is called twice"
    assert not turns.waiting._parked


def test_a_turn_without_time_calls_one_waiter() -> None:
    turns = Turns()
    for number in range(3):
        turns.waiting.park(["x"], 1000, turns.look(number))
    turns.waiting.signal("x")
    assert [turns.turn(1, 0) for _ in range(4)] == [[0], [1], [2], []]


def test_waiters_whose_time_is_over_at_once_are_called_over_several_turns() -> None:
    turns = Turns()
    for number in range(8):
        turns.waiting.park(["x"], 10, turns.look(number))
    assert [turns.turn(10) for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7], []]
    assert all(expired for _, expired in turns.seen)


def test_those_that_were_signalled_and_those_whose_time_is_over_share_the_time_of_a_turn() -> None:
    turns = Turns()
    for number in range(4):
        turns.waiting.park(["x"], 1000, turns.look(("signalled", number)))
        turns.waiting.park(["y"], 10, turns.look(("over", number)))
    turns.waiting.signal("x")
    assert [len(turns.turn(10)) for _ in range(4)] == [3, 3, 2, 0]


def test_a_waiter_that_is_late_and_whose_time_comes_is_called_once_as_expired() -> None:
    turns = Turns()
    for number in range(6):
        turns.waiting.park(["x"], 10, turns.look(number))
    turns.waiting.signal("x")
    turns.turn(1)
    turns.waiting.signal("x")
    turns.turn(10)
    assert turns.seen == [(0, False), (1, False), (2, False), (3, True), (4, True), (5, True)]
    assert not turns.turn(20)


def test_hosts_and_then_connections_take_turns_among_those_that_are_late() -> None:
    turns = Turns()
    greedy = [peer(conn, "greedy") for conn in range(100)]
    for number in range(400):
        turns.waiting.park(["x"], 1000, turns.look(("greedy", number % 100)), greedy[number % 100])
    turns.waiting.signal("x")
    turns.turn(1)
    turns.waiting.park(["y"], 1000, turns.look("other 1"), peer(200, "other"))
    turns.waiting.park(["y"], 1000, turns.look("other 2"), peer(201, "other"))
    turns.waiting.park(["y"], 1000, turns.look("own"))
    turns.waiting.signal("y")
    assert turns.turn(1)[1:] == ["other 1", "own"]
    assert "other 2" in turns.turn(1)
    while turns.turn(1):
        pass
    late = [name[1] for name, _ in turns.seen if isinstance(name, tuple)][3:]
    assert sorted(late[:97]) == list(range(3, 100)), "each connection of the host was called once"
    assert len(turns.seen) == 403


def test_waiters_of_a_connection_are_called_in_order_though_some_of_them_come_while_others_are_late() -> None:
    turns = Turns()
    one = peer(1, "h")
    for number in range(7):
        turns.waiting.park(["x"], 1000, turns.look(number), one)
    turns.waiting.signal("x")
    turns.turn(1)
    turns.waiting.park(["y"], 1000, turns.look(7), one)
    turns.waiting.signal("y")
    assert turns.waiting.waits("x"), "who is late still waits"
    while turns.turn(1):
        pass
    assert [name for name, _ in turns.seen] == list(range(8))


def test_a_signal_that_says_how_far_a_key_has_come_wakes_those_who_need_no_more() -> None:
    waiting, seen = Waiting(), []
    for offset in (5, 3, 9):
        waiting.park(["x"], 1000, lambda expired, offset=offset: seen.append(offset), None, [offset])
    waiting.park(["x"], 1000, lambda expired: seen.append("any news"))
    waiting.signal("x", 4)
    waiting.run()
    assert seen == [3, "any news"]
    waiting.signal("x", 6)
    waiting.signal("x", 4)
    waiting.run()
    assert seen[2:] == [5]
    waiting.signal("x", 7)
    assert not waiting.run()
    waiting.signal("x")
    waiting.signal("x", 7)
    assert waiting.run()
    assert seen[3:] == [9]


def test_a_waiter_for_several_keys_is_woken_by_the_first_that_has_come_far_enough() -> None:
    waiting, seen = Waiting(), []
    waiting.park(["x", "y", "x"], 1000, seen.append, None, [5, 7, 9])
    waiting.signal("x", 4)
    waiting.signal("y", 6)
    assert not waiting.run()
    waiting.signal("x", 5)
    assert waiting.run()
    assert seen == [False]
    assert not waiting._parked


def test_answers_to_calls_come_at_the_end_of_the_turn_in_their_order_and_once() -> None:
    waiting, seen = Waiting(), []
    for call in (1, 2, 3):
        waiting.ask(call, 100, lambda answer, call=call: seen.append((call, answer)))
    waiting.answer(3, "c")
    waiting.answer(1, "a")
    assert seen == []
    assert waiting.run() and seen == [(3, "c"), (1, "a")]
    waiting.expire(100)
    assert seen[2:] == [(2, None)], "the time of the others is cancelled"
    waiting.answer(2, "too late")
    assert not waiting.run() and len(seen) == 3


def test_a_call_that_is_late_when_its_time_comes_still_gets_its_answer() -> None:
    clock = [0]
    waiting, seen = Waiting(lambda: clock[0]), []

    def slow(answer: object) -> None:
        clock[0] += 10
        seen.append(answer)

    for call in (1, 2):
        waiting.ask(call, 100, slow)
        waiting.answer(call, f"answer {call}")
    waiting.begin_turn(5)
    waiting.run()
    assert seen == ["answer 1"]
    waiting.begin_turn(5)
    waiting.expire(100)
    waiting.run()
    assert seen == ["answer 1", "answer 2"]


def test_a_signal_behind_the_waiters_of_a_turn_makes_the_next_turn_due_at_once() -> None:
    waiting, seen = Waiting(), list[bool]()
    waiting.park(["key"], 100, seen.append)
    waiting.run()
    assert waiting.deadline_ms() == 100
    waiting.signal("key")
    assert waiting.deadline_ms() == 0
    waiting.run()
    assert seen == [False] and waiting.deadline_ms() == FAR_MS
    waiting.signal("key")
    assert waiting.deadline_ms() == FAR_MS, "nobody waits for it"


def test_who_has_nothing_of_a_signal_stays_where_it_is() -> None:
    waiting, seen, left = Waiting(), [], ["one"]

    def take(name: str) -> Callable[[bool], None]:
        return lambda expired: seen.append((name, expired, left.pop() if left else None))

    for name in ("a", "b"):
        waiting.park(["queue", "other"], 50, take(name), idle=lambda key: key == "queue" and not left)
    waiting.signal("queue")
    assert waiting.run() and seen == [("a", False, "one")], "b is asked after a has taken what there was"
    waiting.signal("queue")
    assert not waiting.run() and len(seen) == 1
    left.append("two")
    waiting.signal("queue")
    assert waiting.run() and seen[1:] == [("b", False, "two")]


def test_another_key_several_keys_and_the_time_are_not_asked_about() -> None:
    waiting, seen = Waiting(), []
    asked: list[object] = []

    def idle(key: object) -> bool:
        asked.append(key)
        return True

    for name in ("a", "b"):
        waiting.park([f"{name}1", f"{name}2"], 50, lambda expired, name=name: seen.append((name, expired)), idle=idle)
    waiting.signal("a1")
    waiting.signal("a2")
    assert waiting.run() and seen == [("a", False)], "more than one has come, so it looks for itself"
    assert asked == []
    waiting.signal("b1")
    assert not waiting.run() and asked == ["b1"]
    waiting.expire(50)
    assert seen == [("a", False), ("b", True)] and asked == ["b1"]


def test_to_ask_thousands_whether_they_have_something_takes_the_turn_s_time_too() -> None:
    now_ns = 0

    def idle(key: object) -> bool:
        nonlocal now_ns
        now_ns += 10
        asked.append(key)
        return True

    waiting, asked, seen = Waiting(lambda: now_ns), list[object](), list[int]()
    for number in range(100):
        waiting.park(["queue"], 50, lambda expired, number=number: seen.append(number), idle=idle)
    waiting.begin_turn(200)
    waiting.signal("queue")
    waiting.run()
    assert len(asked) == 20 and waiting.deadline_ms() == 0, "the others are late, and look for themselves"
    while waiting.deadline_ms() == 0:
        waiting.begin_turn(200)
        waiting.run()
    assert seen == list(range(20, 100))


def test_what_is_forgotten_is_called_no_more_and_lets_its_keys_go_in_portions() -> None:
    waiting, called = Waiting(), list[str]()
    many = [("many", number) for number in range(2 * FORGOTTEN_KEYS)]
    asked = list[Any]()

    def idle(key: Any) -> bool:
        asked.append(key)
        return False

    forget = [
        waiting.park(many, 50, lambda expired: called.append("many"), idle=idle),
        waiting.park(["few"], 50, lambda expired: called.append("few"), idle=idle),
    ]
    waiting.park(["few", ("many", 7)], 60, lambda expired: called.append("stays"))
    for one in forget:
        one()
        one()
    waiting.signal(("many", 7))
    assert waiting.run() and called == ["stays"] and not asked
    sizes = []
    while waiting.deadline_ms() == 0:
        waiting.begin_turn(1)
        sizes.append(len(waiting._parked))
    assert len(sizes) == 3 and sizes[-1] == 0 and min(a - b for a, b in pairwise(sizes)) <= FORGOTTEN_KEYS
    waiting.expire(100)
    assert called == ["stays"] and waiting.deadline_ms() == FAR_MS


def test_who_was_called_or_is_late_is_forgotten_too() -> None:
    now_ns = [0]
    waiting, called = Waiting(lambda: now_ns[0]), list[int]()

    def again(number: int) -> None:
        called.append(number)
        now_ns[0] += 10

    forget = [waiting.park(["key"], 50, lambda expired, one=one: again(one)) for one in range(3)]  # type: ignore[misc]
    waiting.begin_turn(1)
    waiting.signal("key")
    waiting.run()
    assert called == [0]
    forget[0]()
    forget[1]()
    for _ in range(3):
        waiting.begin_turn(1)
        waiting.run()
    assert called == [0, 2] and not waiting.waits("key")
