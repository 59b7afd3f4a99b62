"""Long jobs in slices: a generator that tells what each step cost becomes a job that stops in time.

There is no clock here, so cost is counted in bytes of output. zlib writes a byte in about four times the time of the other
codecs, and each batch costs something to begin with.
"""

from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

from actors.ports import More
from fastpath.records.compression import GZIP

SLICE_COST = 4 << 20
"""About 5 ms."""
BATCH_COST = 16 << 10
GZIP_FACTOR = 4

Result = TypeVar("Result")


class Step(NamedTuple):
    """One step of a job: what it cost, and the memory that the job holds now."""

    cost: int
    held_bytes: int


Steps = Generator[Step, None, Result]


def cost(codec: int, output_bytes: int) -> int:
    """Of so much output."""
    return output_bytes * GZIP_FACTOR if codec == GZIP else output_bytes


class Sliced(Generic[Result]):
    """The job. It returns `More` until the generator has returned."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps

    def __call__(self) -> More | Result:
        """One slice."""
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
