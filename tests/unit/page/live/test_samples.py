"""Series over time in a bounded memory, against lists that keep everything."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.page.live import samples
from actors.page.live.samples import MINUTE_MS, MINUTES, RECENT, Samples

SAMPLES = st.lists(st.tuples(st.integers(1, 90_000), st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1000))))


def line(found: Samples, keys: list[Any], is_day: bool = False) -> list[tuple[int, float]]:
    one = found.line(keys, is_day)
    return list(zip(one.times.tolist(), one.values.tolist(), strict=True))


@given(SAMPLES, st.sets(st.sampled_from("abcd")))
def test_the_sum_of_series_is_that_of_what_was_sampled(steps: list[tuple[int, dict[str, int]]], keys: set[str]) -> None:
    found, time_ms = Samples(), 1_700_000_000_000
    expected = []
    for step, values in steps:
        time_ms += step
        found.add(time_ms, values)
        known = [values[key] for key in keys if key in values]
        if known:
            expected.append((time_ms, float(sum(known))))
    assert line(found, sorted(keys)) == expected


def test_an_hour_and_a_day_are_kept_and_no_more() -> None:
    found = Samples()
    for at in range(RECENT + MINUTES + 50):
        found.add(at * MINUTE_MS, {"a": at})
    last = RECENT + MINUTES + 49
    assert line(found, ["a"]) == [(at * MINUTE_MS, at) for at in range(last - RECENT + 1, last + 1)]
    assert line(found, ["a"], is_day=True) == [(at * MINUTE_MS, at) for at in range(last - MINUTES + 1, last + 1)]


def test_the_newest_of_each_series() -> None:
    found = Samples()
    assert np.isnan(found.newest(["a"])).all() and len(found.newest([])) == 0
    found.add(1, {"a": 1, "b": 2})
    found.add(2, {"c": 3, "a": 4})
    assert np.nan_to_num(found.newest(["c", "b", "a", "none"]), nan=-1).tolist() == [3, -1, 4, -1]


def test_a_minute_has_its_last_sample() -> None:
    found = Samples()
    for at in range(30):
        found.add(at * 10_000, {"a": at})
    assert [value for _, value in line(found, ["a"], is_day=True)] == [5, 11, 17, 23, 29]


def test_series_beyond_the_bound_are_counted_and_cost_nothing() -> None:
    found = Samples(series_max=100)
    for at in range(3):
        found.add(at, {number: number for number in range(1_000)})
    assert found.left_out == 900 and len(found.keys()) == 100
    assert found.bytes == 100 * (RECENT + MINUTES) * 4


def test_a_series_that_is_gone_for_a_day_gives_its_place() -> None:
    found = Samples(series_max=1)
    found.add(0, {"old": 1})
    found.add(MINUTE_MS, {"new": 2})
    assert found.left_out == 1
    found.add((MINUTES + 2) * MINUTE_MS, {"new": 3})
    assert found.left_out == 0 and line(found, ["old"]) == []
    assert line(found, ["new"]) == [((MINUTES + 2) * MINUTE_MS, 3)], "nothing of the series that was there before"


def test_all_series_at_their_bound_take_72_mb() -> None:
    """They took 118, as room for them was doubled once too often."""
    found = Samples()
    found.add(0, dict.fromkeys(range(samples.SERIES_MAX + 1), 1.0))
    assert found.bytes == 72_000_000


@pytest.mark.parametrize("is_day", [False, True])
def test_a_clock_that_is_set_back_goes_on(is_day: bool) -> None:
    found = Samples()
    at_ms = 100 * 86_400_000
    for time_ms in (at_ms, at_ms + 7_200_000, at_ms + 60_000, at_ms + 120_000):
        found.add(time_ms, {"a": time_ms - at_ms})
    assert found.line(["a"], is_day).times.tolist() == [at_ms, at_ms + 60_000, at_ms + 120_000]
    assert found.line(["a"], is_day).values.tolist() == [0, 60_000, 120_000]
