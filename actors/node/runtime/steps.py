"""Steps of work that take too long, found by what is measured and by what is counted.

A node has one thread: a step that goes on keeps all other requests waiting. This file alone decides what becomes of one
that is too long. Rules:

1. A step is one call of a handler, a slice of it, or one call of what has waited. Where it is measured anyway, it is handed
   in if it took `LONG_NS` or more: that is what a whole lane has of a turn. So is a turn of which no step was so long.
2. The log tells once of each name that a step took `TOLD_NS` or more. Less may be the machine's doing: it runs others too.
3. What a step looks at is counted by its `SliceCount` (`slices.py`). One that counts a second slice before it has given up
   the first, or `AT_ONCE_MAX` entries in one go, has overrun whatever the machine. That is a mistake in the source: the log
   tells once of each function, and tests and the simulator fail.

Names are those of APIs, and of functions of the source: there is no end of steps, but there is one of names.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

LONG_NS = 4_000_000
TOLD_NS = 100_000_000
AT_ONCE_MAX = 3_000
"""The most entries that a step may count in one go: ten slices. More than that is a loop that does not look at the
time."""


class Counted:
    """The counts of all steps of this process. They belong to the source, as the functions do: nodes that share a
    process share them."""

    __slots__ = ("overruns", "slices")

    def __init__(self) -> None:
        self.slices = 0
        """How often a step has given up its slice."""
        self.overruns: dict[str, int] = {}
        """Function -> the most entries that it has counted without giving up a slice."""

    def overran(self, function: str, entries: int) -> None:
        """Note that a function has counted so many entries without giving up its slice."""
        self.overruns[function] = max(entries, self.overruns.get(function, 0))


COUNTED = Counted()


class Long(NamedTuple):
    """The long steps of one name."""

    times: int
    longest_ns: int


class Steps:
    """The long steps of a node, by name."""

    def __init__(self, warn: Callable[[str], None], counted: Counted = COUNTED) -> None:
        """`warn` writes a line of the log."""
        self._warn = warn
        self._counted = counted
        self.long: dict[str, Long] = {}
        self.longest_turn_ns = 0
        """The longest of the turns that are handed in."""
        self._told: set[str] = set()
        self._named = False
        """Whether a step of this turn was handed in."""

    def took(self, name: str, spent_ns: int) -> None:
        """Note that a step took `LONG_NS` or more."""
        self._named = True
        times, longest_ns = self.long.get(name, (0, 0))
        self.long[name] = Long(times + 1, max(longest_ns, spent_ns))
        if spent_ns >= TOLD_NS and name not in self._told:
            self._told.add(name)
            self._warn(
                f"{name} took {spent_ns // 1_000_000} ms in one step, and all others waited for it; this is told once, and"
                " LongStepMaxMs has the longest"
            )

    def turn_took(self, last: Callable[..., Any] | None, spent_ns: int) -> None:
        """Note that a turn took `LONG_NS` or more. `last`: the last waiter that was called in it."""
        self.longest_turn_ns = max(self.longest_turn_ns, spent_ns)
        if not self._named:
            self.took("Turn" if last is None else f"Turn:{called(last)}", spent_ns)
        self._named = False

    def look(self) -> None:
        """Tell of functions that have overrun by what they count. It is called about once a second."""
        for function, entries in self._counted.overruns.items():
            if function not in self._told:
                self._told.add(function)
                self._warn(f"{function} looked at {entries} entries in one step: a mistake in rayft, please report it")


def called(function: Callable[..., Any]) -> str:
    """The name of a function that is called: the API's if it goes on with a request, else its own."""
    slot = getattr(function, "__self__", None)
    api = getattr(slot, "api", None)
    name = getattr(api, "name", None)
    return str(name or getattr(function, "__qualname__", type(function).__name__))
