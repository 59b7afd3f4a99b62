"""Handlers that work through the entries of a long request in slices, so that others run in between.

Such a handler is a generator: it counts what it has done with a `Pace`, yields where a slice is over, and returns its
answer. A request that is shorter than a slice is answered in one go. Between two slices anything may happen: other requests,
new metadata, the end of a lease. So a handler looks up again, after a yield, whatever it had looked up before; a connection
that closes, or that may not be answered any more, takes the rest of the work with it.
"""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any, TypeVar

from actors.node.runtime.answers import Answer, Sliced
from actors.node.runtime.calls import Call

ENTRIES_A_SLICE = 300
"""An entry takes 2 to 15 microseconds."""

Steps = Generator[None, None, Answer]
"""Work that yields at the end of a slice, and returns the answer."""


C = TypeVar("C")
"""The context of a handler."""


def in_slices(handler: Callable[[C, Any, Call], Steps]) -> Callable[[C, Any, Call], Answer]:
    """The handler that does the work of `handler` slice by slice."""

    @wraps(handler)
    def begin(context: C, request: Any, call: Call) -> Answer:
        return go_on(handler(context, request, call))

    return begin


def go_on(steps: Steps) -> Answer:
    """Do one slice; the answer, if it was the last."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    return Sliced(lambda: go_on(steps))


class Pace:
    """Counts the entries of a slice."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ENTRIES_A_SLICE

    def over(self, entries: int = 1) -> bool:
        """Count entries that were worked on; whether the slice is over. Then the next one has begun."""
        self._left -= entries
        if self._left > 0:
            return False
        self._left = ENTRIES_A_SLICE
        return True
