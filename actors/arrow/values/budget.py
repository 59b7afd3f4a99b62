"""How much one value may become: what it claims to hold is whatever somebody has written."""

import math

EXACT = 1 << 53
"""Whole numbers beyond this are told as texts: a browser would round them."""
DEPTH_MAX = 64
NAME_CHARS = 256
"""How many characters of a name in a schema count as a part: a value of few bytes may have it as often as it likes."""


class Unreadable(ValueError):
    """A value, or a schema, that is not what it says. The text is one sentence."""


class TooMuch(Unreadable):
    """A value that has more parts than are looked at."""


class Budget:
    """The number of parts that a value may still have, and how deep it is."""

    def __init__(self, parts: int) -> None:
        self._left = parts
        self._parts = parts
        self._depth = 0

    def spend(self, count: int = 1) -> None:
        """Take some parts. Raises Unreadable."""
        self._left -= count
        if self._left < 0:
            raise TooMuch(f"larger than {self._parts:,} parts")

    def name(self, name: str) -> None:
        """Take what a name of the schema costs beside the part that it names: nothing, unless it is long. Raises
        Unreadable."""
        if len(name) >= NAME_CHARS:
            self.spend(len(name) // NAME_CHARS)

    def __enter__(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise Unreadable(f"it is nested deeper than {DEPTH_MAX}")

    def __exit__(self, *_: object) -> None:
        self._depth -= 1


def whole(value: int) -> int | str:
    """A whole number as JSON has it."""
    return value if -EXACT <= value <= EXACT else str(value)


def real(value: float) -> float | str:
    """A number as JSON has it, which knows no infinity."""
    return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
