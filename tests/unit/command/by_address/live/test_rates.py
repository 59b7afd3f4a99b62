"""Rates out of looks: what counts from when."""

from actors.command.by_address.live.rates import LOOKS, Growth

TWO = {"t": 2}


def rates(growth: Growth, now_s: float, topics: dict[str, int], **ends: dict[int, int]) -> dict[str, float | None]:
    found = growth.topics(
        now_s, topics, {(name, number): end for name, of in ends.items() for number, end in of.items()}
    )
    return {one.name: one.rates[-1] for one in found}


def test_a_topic_grows_by_what_its_partitions_grow() -> None:
    growth = Growth()
    assert rates(growth, 10.0, TWO, t={0: 0, 1: 100}) == {"t": None}, "nothing is known after one look"
    assert rates(growth, 12.0, TWO, t={0: 30, 1: 100}) == {"t": 15.0}
    assert rates(growth, 13.0, TWO, t={0: 30, 1: 100}) == {"t": 0.0}
    (one,) = growth.topics(14.0, TWO, {("t", 0): 31, ("t", 1): 102})
    assert (one.partitions, one.end, one.rates) == (2, 133, (None, 15.0, 0.0, 3.0))


def test_a_partition_that_does_not_answer_counts_over_the_whole_time_when_it_does() -> None:
    growth = Growth()
    rates(growth, 0.0, TWO, t={0: 0, 1: 0})
    assert rates(growth, 1.0, TWO, t={0: 10}) == {"t": 10.0}
    assert rates(growth, 2.0, TWO) == {"t": None}
    assert rates(growth, 4.0, TWO, t={0: 10, 1: 40}) == {"t": 10.0}, "nothing in three seconds, and 40 in four"


def test_a_log_that_was_cut_or_made_anew_counts_from_there() -> None:
    growth = Growth()
    rates(growth, 0.0, TWO, t={0: 500, 1: 0})
    assert rates(growth, 1.0, TWO, t={0: 3, 1: 5}) == {"t": 5.0}
    assert rates(growth, 2.0, TWO, t={0: 4, 1: 5}) == {"t": 1.0}


def test_what_is_gone_is_forgotten_and_begins_anew() -> None:
    growth = Growth()
    rates(growth, 0.0, {"t": 3, "u": 1}, t={0: 1, 1: 1, 2: 1}, u={0: 1})
    assert rates(growth, 1.0, {"t": 1}, t={0: 1, 2: 9}, u={0: 9}) == {"t": 0.0}
    assert growth._ends.keys() == {("t", 0)}
    assert rates(growth, 2.0, {"t": 1, "u": 1}, t={0: 1}, u={0: 50}) == {"t": 0.0, "u": None}


def test_two_looks_at_one_time_and_many_looks() -> None:
    growth = Growth()
    rates(growth, 1.0, {"t": 1}, t={0: 1})
    assert rates(growth, 1.0, {"t": 1}, t={0: 9}) == {"t": None}, "no division by nothing"
    for n in range(100):
        rates(growth, 2.0 + n, {"t": 1}, t={0: 9})
    (one,) = growth.topics(200.0, {"t": 1}, {})
    assert len(one.rates) == LOOKS


def test_a_group_catches_up_falls_behind_or_is_not_known() -> None:
    growth = Growth()
    (one,) = growth.groups(0.0, {"g": 100})
    assert (one.lag, one.rates, one.lags) == (100, (None,), (100,))
    (one,) = growth.groups(2.0, {"g": 0})
    assert (one.lag, one.rates[-1]) == (0, -50.0)
    (one,) = growth.groups(3.0, {"g": None})
    assert (one.lag, one.rates[-1]) == (None, None)
    (one,) = growth.groups(5.0, {"g": 9})
    assert (one.rates[-1], one.lags) == (3.0, (100, 0, None, 9)), "over the time in which nothing was known"
    assert growth.groups(6.0, {}) == [] and growth.groups(7.0, {"g": 9})[0].rates == (None,)
