"""The rate of a client over samples, and how long the client waits until its rate is within its quota again (KIP-13).

This file alone decides what a rate is: the sum of the samples, by the time that they cover. Rules, which are those of Apache
Kafka's Rate, so that the same traffic gives the same throttle times:

1. A sample lasts one window; the next charge behind its end begins a new one. One more sample is kept than the window
   has, since the oldest one may reach into it.
2. A sample whose last charge is as old as all windows together counts as empty, and as begun now.
3. The time covered begins with the oldest sample. It is never shorter than all windows but one: else the first second of
   traffic would look like a burst.
4. A client above its bound waits until the same sum, over a longer time, is at the bound.
"""

from typing import NamedTuple

THROTTLE_MS_MAX = 0x7FFFFFFF
"""The longest throttle time in ms, since the field in answers has 32 bits."""


class Window(NamedTuple):
    """Over how many samples a rate is taken, and how long one lasts."""

    samples: int
    sample_ms: int


class Rate:
    """A sum of samples divided by the seconds that they cover. Invariant: the lists have one entry for each sample,
    `samples + 1` at most; `_current` is the place of the newest."""

    __slots__ = ("_current", "_lasts", "_starts", "_values", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self._starts: list[int] = []
        self._lasts: list[int] = []
        self._values: list[float] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value` now. A value below zero takes back what was counted in this millisecond."""
        starts = self._starts
        if not starts:
            self._begin(0, now_ms)
        elif now_ms - starts[self._current] >= self.window.sample_ms:
            self._current = (self._current + 1) % (self.window.samples + 1)
            self._begin(self._current, now_ms)
        self._values[self._current] += value
        self._lasts[self._current] = now_ms

    def covered_ms(self, now_ms: int) -> int:
        """The time in ms over which the sum is taken."""
        if self._starts:
            self._purge(now_ms)
        else:
            self._begin(0, now_ms)
        elapsed = now_ms - min(self._starts)
        missing = self.window.samples - 1 - elapsed // self.window.sample_ms
        return max(1, elapsed + max(0, missing) * self.window.sample_ms)

    def measure(self, now_ms: int) -> float:
        """The rate, a second."""
        covered = self.covered_ms(now_ms)
        return sum(self._values) / (covered / 1000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How many ms to wait until the rate is at `bound`; 0: it is not above it."""
        rate = self.measure(now_ms)
        if rate <= bound:
            return 0
        return _rounded((rate - bound) / bound * self.covered_ms(now_ms))

    def _begin(self, place: int, now_ms: int) -> None:
        if place == len(self._starts):
            self._starts.append(now_ms)
            self._lasts.append(now_ms)
            self._values.append(0.0)
        else:
            self._starts[place] = self._lasts[place] = now_ms
            self._values[place] = 0.0

    def _purge(self, now_ms: int) -> None:
        expired_ms = now_ms - self.window.samples * self.window.sample_ms
        for place, last_ms in enumerate(self._lasts):
            if last_ms <= expired_ms:
                self._begin(place, now_ms)


class Average:
    """The mean of the newest values: of those of this half minute and of the one before."""

    __slots__ = ("_before", "_began_ms", "_count", "_sum")

    HALF_MS = 30_000

    def __init__(self) -> None:
        self._began_ms = 0
        self._sum, self._count = 0.0, 0
        self._before = (0.0, 0)

    def record(self, value: float, now_ms: int) -> None:
        """Count one more value."""
        self._turn(now_ms)
        self._sum += value
        self._count += 1

    def measure(self, now_ms: int) -> float:
        """The mean of the newest values; 0 without values."""
        self._turn(now_ms)
        count = self._count + self._before[1]
        return (self._sum + self._before[0]) / count if count else 0.0

    def _turn(self, now_ms: int) -> None:
        passed = now_ms - self._began_ms
        if passed >= self.HALF_MS:
            self._before = (self._sum, self._count) if passed < 2 * self.HALF_MS else (0.0, 0)
            self._sum, self._count, self._began_ms = 0.0, 0, now_ms


def _rounded(ms: float) -> int:
    return int(min(ms + 0.5, THROTTLE_MS_MAX))
