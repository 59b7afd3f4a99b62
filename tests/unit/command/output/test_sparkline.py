"""Bars of one character."""

from actors.command.output.sparkline import sparkline


def test_bars_are_as_high_as_their_part_of_the_largest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, 1e18], 2) == "▁█" and sparkline([5, 5], 2) == "██"


def test_nothing_is_no_trouble() -> None:
    assert sparkline([], 3) == "   " and sparkline([0, 0], 3) == " ▁▁" and sparkline([None, None], 2) == "  "
    assert sparkline([None, 2, -1], 3) == " █ " and sparkline([1, 2], 0) == ""


def test_the_newest_are_at_the_right() -> None:
    assert sparkline([7, 0, 7], 2) == "▁█" and sparkline([7], 3) == "  █"
