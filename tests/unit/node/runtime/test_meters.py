"""Meters, histograms, idle shares: numbers that follow from the events alone."""

import pytest

from actors.node.runtime.meters import Histogram, Idle, Meter


def test_r631_204_a_thousand_records_in_ten_seconds_are_a_hundred_a_second() -> None:
    meter = Meter()
    for second in range(10):
        meter.mark(100, second * 1000)
    assert meter.count == 1000
    assert meter.mean_rate(10_000) == meter.rate(1, 10_000) == meter.rate(15, 10_000) == 100


def test_rates_forget_what_is_long_ago_the_short_ones_first() -> None:
    meter = Meter()
    for second in range(1200):
        meter.mark(10, second * 1000)
    assert meter.rate(1, 1_200_000) == pytest.approx(10, rel=0.02)
    later = 1_200_000 + 300_000
    assert meter.rate(1, later) < 0.1 < meter.rate(5, later) < meter.rate(15, later) < 10
    assert Meter().rate(1, 5) == Meter().mean_rate(5) == 0


def test_r291_11_idle_is_what_was_not_busy() -> None:
    idle = Idle()
    assert idle.share(0) == 1.0
    idle.note(1_000_000_000)
    idle.busy_ns += 25_000_000
    assert idle.share(1_100_000_000) == 0.75


def test_idle_looks_back_a_minute() -> None:
    idle = Idle()
    for second in range(200):
        idle.note(second * 1_000_000_000)
        idle.busy_ns += 1_000_000_000 if second < 100 else 0
    assert idle.share(199_000_000_000) == 1.0
    idle.busy_ns += 10**12
    assert idle.share(199_000_000_000) == 0.0


def test_quantiles() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.99) == 0
    for value in range(100):
        histogram.add(value)
    assert (histogram.quantile(0.5), histogram.quantile(0.99), histogram.quantile(1)) == (50, 99, 99)
    assert histogram.count == 100
