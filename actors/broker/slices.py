"""Long jobs in slices: a generator that yields the cost of each step becomes a job that pauses in time.

This code has no clock, so cost is counted in bytes of output. zlib needs about four times the time of the other codecs
for a byte, and each batch has a fixed cost besides.
"""

from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

from actors.ports import More
from fastpath.records.compression import GZIP

SLICE_COST = 4 << 20
"""The cost of one slice: about 5 ms."""
BATCH_COST = 16 << 10
GZIP_FACTOR = 4

Result = TypeVar("Result")


class Step(NamedTuple):
    """One step of a job: its cost, and the memory that the job holds now."""

    cost: int
    held_bytes: int


Steps = Generator[Step, None, Result]


def cost(codec: int, output_bytes: int) -> int:
    """The cost of this many bytes of output."""
    return output_bytes * GZIP_FACTOR if codec == GZIP else output_bytes


class Sliced(Generic[Result]):
    """A job made of steps. Each call runs a slice and returns `More`; the last call returns the generator's result."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps

    def __call__(self) -> More | Result:
        """Run one slice."""
        spent = held = 0
        while spent < SLICE_COST:
            try:
                step = next(self._steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            spent += step.cost
            held = step.held_bytes
        return More(held)
