"""Rates and buckets beside their slow twins, and the figures that KIP-13 and KIP-599 give."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.quotas.buckets import TokenBucket
from actors.quotas.rates import THROTTLE_MS_MAX, Average, Rate, Window
from tests.reference import quotas as twin

STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 7, 400, 999, 1000, 1001, 2500, 10_999, 11_000, 11_001, 40_000]) | st.integers(0, 30_000),
        st.integers(-50, 5000),
        st.booleans(),
    ),
    max_size=60,
)


@given(st.integers(1, 12), st.sampled_from([1, 10, 1000, 5000]), st.integers(1, 3000), STEPS)
def test_a_rate_is_that_of_its_twin(
    samples: int, sample_ms: int, bound: int, steps: list[tuple[int, int, bool]]
) -> None:
    ours, theirs, now = Rate(Window(samples, sample_ms)), twin.Rate(samples, sample_ms), 5
    for passed, value, counted in steps:
        now += passed
        if counted:
            ours.record(value, now)
            theirs.record(Fraction(value), now)
        assert ours.covered_ms(now) == theirs.covered_ms(now)
        assert ours.measure(now) == pytest.approx(float(theirs.measure(now)))
        wait = theirs.throttle_ms(Fraction(bound), now)
        assert abs(ours.throttle_ms(bound, now) - wait) <= Fraction(51, 100)


@given(st.integers(1, 12), st.sampled_from([10, 1000]), st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 90),
       st.sampled_from([1, 2, 5]), st.booleans()), max_size=40))  # fmt: skip
def test_a_bucket_is_that_of_its_twin(samples: int, sample_ms: int, steps: list[tuple[int, int, int, bool]]) -> None:
    ours, theirs, now = TokenBucket(Window(samples, sample_ms)), twin.Bucket(samples, sample_ms), 5
    for passed, value, bound, taken in steps:
        now += passed
        if taken:
            ours.take(value, bound, now)
            theirs.take(Fraction(value), Fraction(bound), now)
        left = theirs.refill(Fraction(bound), now)
        assert ours.refill(bound, now) == pytest.approx(float(left))
        assert abs(ours.throttle_ms(bound, now) - max(Fraction(0), -left / bound * 1000)) <= Fraction(51, 100)


def test_the_first_burst_is_measured_over_ten_windows() -> None:
    rate = Rate(Window(11, 1000))
    rate.record(20_000, 0)
    assert rate.measure(0) == 2000 and rate.throttle_ms(1000, 0) == 10_000
    assert rate.throttle_ms(2000, 0) == 0, "who is at the bound does not wait"
    assert rate.measure(20_000) == 0, "and after all samples are old nothing is left of it"


def test_who_waits_as_told_is_within_the_quota_again() -> None:
    rate, now = Rate(Window(11, 1000)), 0
    sent = 0
    while now < 120_000:
        rate.record(5000, now)
        sent += 5000
        now += max(rate.throttle_ms(1000, now), 50)
    assert 0.9 < sent / now < 1.1


def test_what_is_taken_back_was_never_there() -> None:
    rate = Rate(Window(11, 1000))
    rate.record(500, 1000)
    rate.record(9000, 1200)
    rate.record(-9000, 1200)
    assert rate.measure(1200) == pytest.approx(500 / 10.2)


def test_a_large_change_goes_through_and_the_next_one_waits() -> None:
    bucket = TokenBucket(Window(11, 1000))
    assert bucket.refill(2, 0) == 22, "full at first"
    bucket.take(30, 2, 0)
    assert bucket.throttle_ms(2, 0) == 4000
    assert bucket.throttle_ms(2, 3999) == 1 and bucket.throttle_ms(2, 4000) == 0


def test_a_throttle_time_fits_into_its_field() -> None:
    rate, bucket = Rate(Window(11, 1000)), TokenBucket(Window(11, 1000))
    rate.record(1e15, 0)
    bucket.take(1e12, 0.001, 0)
    assert rate.throttle_ms(1e-9, 0) == bucket.throttle_ms(0.001, 0) == THROTTLE_MS_MAX


def test_an_average_forgets() -> None:
    average = Average()
    average.record(10, 0)
    average.record(30, 29_000)
    assert average.measure(31_000) == 20 and average.measure(200_000) == 0
