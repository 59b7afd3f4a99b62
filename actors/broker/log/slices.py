"""Long jobs in slices: a generator that yields the cost of each step becomes a job that pauses in time.

This code has no clock, so cost is counted in decompressed bytes. zlib needs about four times the time of the other codecs
for a byte, and each batch has a fixed cost besides. Compression costs more than that, and the more the higher its level.
"""

from collections.abc import Generator
from typing import Generic, NamedTuple, TypeVar

from actors.ports import More
from fastpath.records.compression import GZIP, LZ4, LZ4_DEFAULT_LEVEL, SNAPPY, ZSTD

SLICE_COST = 4 << 20
"""The cost of one slice: about 5 ms."""
BATCH_COST = 16 << 10
GZIP_FACTOR = 4
GZIP_LEVEL_FACTORS = (8, 12, 16)
"""The factors of gzip at levels 1 to 3, 4 to 6 (and -1), 7 to 9."""
ZSTD_LEVEL_FACTORS = ((1, 4), (4, 8), (9, 40), (15, 400), (22, 1_000))
"""The factors of zstd: (up to this level, factor)."""
LZ4_LEVEL_FACTORS = ((10, 12), (17, 50))
LZ4_FACTOR = SNAPPY_FACTOR = 2

Result = TypeVar("Result")


class Step(NamedTuple):
    """One step of a job: its cost, and the memory that the job holds now."""

    cost: int
    held_bytes: int


Steps = Generator[Step, None, Result]


def cost(codec: int, output_bytes: int) -> int:
    """The cost of this many bytes of output."""
    return output_bytes * GZIP_FACTOR if codec == GZIP else output_bytes


def compression_factor(codec: int, level: int) -> int:
    """What compressing a byte costs at one of Apache Kafka's levels."""
    if codec == GZIP:
        return GZIP_LEVEL_FACTORS[1 if level < 1 else (level - 1) // 3]
    if codec == ZSTD:
        return next(factor for highest, factor in ZSTD_LEVEL_FACTORS if level <= highest)
    if codec == LZ4 and level != LZ4_DEFAULT_LEVEL:
        return next(factor for highest, factor in LZ4_LEVEL_FACTORS if level <= highest)
    return {LZ4: LZ4_FACTOR, SNAPPY: SNAPPY_FACTOR}.get(codec, 0)


class Sliced(Generic[Result]):
    """A job made of steps. Each call runs a slice and returns `More`; the last call returns the generator's result."""

    def __init__(self, steps: Steps[Result]) -> None:
        self._steps = steps

    def __call__(self) -> More | Result:
        """Run one slice of the job."""
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
