"""The rule that every turn ends: a node that computes for ever inside one turn is a violation, and the run does not
hang.

Virtual time stands still inside a turn, so only this file looks at processor time. When a limit of it has gone by
without a single turn, the running code is interrupted wherever it is.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.simulator.checkers.hooks import Violation

CPU_S_MAX = 20.0
"""Thousands of times the processor time of a turn."""


@contextmanager
def turns_end(turns: Callable[[], int], cpu_s_max: float = CPU_S_MAX) -> Iterator[None]:
    """Raise Violation (`turns_end`) inside the block when `turns()` does not change for `cpu_s_max` seconds of
    processor time. For the main thread."""
    seen = -1

    def look(*_: object) -> None:
        nonlocal seen
        before, seen = seen, turns()
        if before == seen:
            raise Violation("turns_end", f"turn {seen + 1} does not end")

    handler = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, cpu_s_max, cpu_s_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)
