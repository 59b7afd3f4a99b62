"""How often objects that live long are looked at for cycles: once.

Python looks at all objects of a process whenever there are a quarter more of them. A broker that takes 750,000 replicas
would stand still for a second each time. Nearly all objects of a node go by their counts of references alone, so after a
look that has taken long all that is left is set aside (`gc.freeze`). This file alone decides what long is. What a later look
takes is then given by what has come since, and a node that does not grow sets nothing aside any more.
"""

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

LONG_NS = 10_000_000
"""Processor time of a look after which what is left is set aside."""
OLDEST = 2


class LongLooks:
    """Sets aside what long looks leave: a callback of the collector."""

    def __init__(
        self, clock_ns: Callable[[], int] = time.thread_time_ns, freeze: Callable[[], None] = gc.freeze
    ) -> None:
        """`clock_ns`: the processor time of this thread."""
        self._clock_ns = clock_ns
        self._freeze = freeze
        self._began_ns = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """Note that a look begins or has ended."""
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._began_ns = self._clock_ns()
        elif self._clock_ns() - self._began_ns >= LONG_NS:
            self._freeze()


def set_aside() -> None:
    """Set aside all that there is, and from now on what long looks leave."""
    gc.collect()
    gc.freeze()
    if not any(isinstance(one, LongLooks) for one in gc.callbacks):
        gc.callbacks.append(LongLooks())
