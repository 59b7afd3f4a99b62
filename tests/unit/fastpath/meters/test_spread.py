"""How values are spread, against all of them sorted."""

import random

import pytest

from fastpath.meters.spread import WINDOW_NS, Spread

SHARES = (0.0, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)


def quantile(spread: Spread, share: float, at_ns: int) -> int:
    ((_, found),) = spread.quantiles((share,), at_ns)
    return found


@pytest.mark.parametrize("shift", [0, 6])
@pytest.mark.parametrize("most", [10, 1_000, 50_000_000, 10**12])
def test_quantiles_are_off_by_three_percent_at_most(shift: int, most: int) -> None:
    chance = random.Random(most + shift)
    values = [chance.randrange(1, most) for _ in range(3_000)]
    spread = Spread(shift)
    for value in values:
        spread.add(value, 1)
    assert spread.count == len(values) and spread.total == sum(values)
    ordered = sorted(values)
    for share in SHARES:
        true = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        assert abs(quantile(spread, share, 1) - true) <= true / 31 + (1 << shift), share
    assert spread.quantiles(SHARES, 1) == [(share, quantile(spread, share, 1)) for share in SHARES]


@pytest.mark.parametrize("value", [0, 1, 15, 16, 17, 31, 32, 1 << 20, (1 << 40) - 1, (1 << 62), -5])
def test_any_value_has_a_place(value: int) -> None:
    spread = Spread()
    assert spread.quantiles(SHARES, 0) == [], "before there is one"
    spread.add(value, 0)
    assert spread.count == 1 and spread.total == max(0, value)
    if value < 1 << 41:
        assert abs(quantile(spread, 0.5, 0) - max(0, value)) <= max(0, value) / 31


def test_quantiles_forget_what_is_older_than_two_windows_and_sums_do_not() -> None:
    spread = Spread()
    spread.add(1_000_000, 0)
    for at in (1, WINDOW_NS + 1, WINDOW_NS + 2):
        spread.add(10, at)
    assert quantile(spread, 1.0, WINDOW_NS + 2) > 900_000, "it is in the window before"
    spread.add(10, 2 * WINDOW_NS + 5)
    assert quantile(spread, 1.0, 2 * WINDOW_NS + 5) == 10
    spread.add(10_000, 5 * WINDOW_NS)
    assert quantile(spread, 0.0, 5 * WINDOW_NS) > 9_000, "both windows are over"
    assert spread.count == 6 and spread.total == 1_010_040


def test_values_grow_old_while_nothing_is_added() -> None:
    spread = Spread()
    spread.add(1_000_000, 0)
    spread.add(10, WINDOW_NS + 1)
    assert quantile(spread, 1.0, 2 * WINDOW_NS) > 900_000
    assert quantile(spread, 1.0, 2 * WINDOW_NS + 1) == 10, "the first one is older than two windows may be"
    assert quantile(spread, 1.0, 3 * WINDOW_NS) == 10
    assert spread.quantiles(SHARES, 3 * WINDOW_NS + 1) == []
    assert spread.count == 2 and spread.total == 1_000_010
