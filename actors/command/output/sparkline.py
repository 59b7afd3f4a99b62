"""A row of numbers as small bars of one character each."""

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"
UNKNOWN = " "


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last `width` numbers, the newest at the right. A bar's height is its part of the largest of them: the lowest bar
    is zero or next to it. What is not known or below zero is a blank."""
    shown = list(values)[-width:] if width > 0 else []
    most = max((one for one in shown if one is not None), default=0.0)
    return "".join(_bar(one, most) for one in shown).rjust(width)


def _bar(value: float | None, most: float) -> str:
    if value is None or value < 0:
        return UNKNOWN
    return BARS[round(value / most * (len(BARS) - 1))] if most > 0 else BARS[0]
