"""What waits is called once, for the right reason, in the order of arrival."""

from actors.node.waiting import FAR_MS, Timers, Waiting


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
    assert len(timers._heap) < 3_000
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
    waiting.timers.run(1000)
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
    waiting.timers.run(50)
    assert seen == [False, True]
    assert not waiting._parked, "nobody waits, so no key is remembered"
