"""Numbers, times and spans in sentences."""

import datetime

import pytest

from actors.why import phrases
from actors.why.phrases import apart, clock, counted, few, span

NOON_MS = int(datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC).timestamp() * 1000)
DAY_MS = 86_400_000


def test_one_thing_is_no_several() -> None:
    assert [counted(number, "broker") for number in (0, 1, 2, 12_345)] == [
        "0 brokers", "1 broker", "2 brokers", "12,345 brokers",
    ]  # fmt: skip
    assert few(["a", "b"], 2) == "a, b" and few(["a", "b"], 1_002) == "a, b and 1,000 more"


def test_a_time_of_another_day_has_its_date() -> None:
    assert clock(NOON_MS, NOON_MS + 1) == "12:00:00"
    assert clock(NOON_MS, NOON_MS + DAY_MS) == "2026-11-29 12:00:00"


@pytest.mark.parametrize("time_ms", [-1, -(1 << 63), (1 << 63) - 1])
def test_a_time_that_no_calendar_has_is_no_error(time_ms: int) -> None:
    """Records of others may have any."""
    assert clock(time_ms, NOON_MS)[0] in "19" and phrases.apart(time_ms, NOON_MS)


def test_spans_have_units_that_suit_them() -> None:
    wanted = {0: "0.0 s", 9_949: "9.9 s", 10_000: "10 s", 120_000: "2 min", 7_200_000: "2 h", 2 * DAY_MS: "2 days"}
    assert {ms: span(ms) for ms in wanted} == wanted
    assert [apart(NOON_MS + ms, NOON_MS) for ms in (0, 49, -49, 500, -180_000)] == [
        "as", "as", "as", "0.5 s after", "3 min before",
    ]  # fmt: skip
