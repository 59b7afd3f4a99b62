"""How long the next target assignment waits, whatever the clock of who made the last one was."""

import pytest

from actors.broker.groups.assignment_interval import left_ms


@pytest.mark.parametrize(
    ("made_wall_ms", "interval_ms", "left"),
    [(0, 1000, 0), (9_000, 1000, 0), (9_001, 1000, 1), (10_000, 1000, 1000), (10_000, 0, 0), (9_000, 0, 0)],
)
def test_what_is_left_of_the_interval(made_wall_ms: int, interval_ms: int, left: int) -> None:
    assert left_ms(made_wall_ms, interval_ms, 10_000) == left


@pytest.mark.parametrize("ahead_ms", [1, 1_568_669])
def test_an_assignment_of_the_future_keeps_nobody_waiting(ahead_ms: int) -> None:
    assert left_ms(10_000 + ahead_ms, 1000, 10_000) == 0
