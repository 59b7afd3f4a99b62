"""Meters, histograms and idle shares, small and without a clock of their own (KIP-631, New Metrics; reading A53)."""

import math
from collections import deque
from typing import ClassVar


class Meter:
    """A count of events, with their rate per second: over the whole time, and weighted over one, five and fifteen
    minutes."""

    WINDOWS_MS: ClassVar[dict[int, int]] = {1: 60_000, 5: 300_000, 15: 900_000}

    def __init__(self) -> None:
        self.count = 0
        self._rates = dict.fromkeys(self.WINDOWS_MS, 0.0)
        self._since_ms: int | None = None
        self._at_ms = 0

    def mark(self, events: int, mono_ms: int) -> None:
        """Count `events` that have happened now."""
        if self._since_ms is None:
            self._since_ms = self._at_ms = mono_ms
        self._decay(mono_ms)
        for minutes, window_ms in self.WINDOWS_MS.items():
            self._rates[minutes] += events * 1000 / window_ms
        self.count += events

    def rate(self, minutes: int, mono_ms: int) -> float:
        """The rate per second, exponentially weighted over 1, 5 or 15 minutes; before so much time has passed, the
        plain mean."""
        if self._since_ms is None:
            return 0.0
        if mono_ms - self._since_ms < self.WINDOWS_MS[minutes]:
            return self.mean_rate(mono_ms)
        self._decay(mono_ms)
        return self._rates[minutes]

    def mean_rate(self, mono_ms: int) -> float:
        """The events per second since the first event."""
        if self._since_ms is None:
            return 0.0
        return self.count * 1000 / max(1000, mono_ms - self._since_ms)

    def _decay(self, mono_ms: int) -> None:
        if mono_ms > self._at_ms:
            for minutes, window_ms in self.WINDOWS_MS.items():
                self._rates[minutes] *= math.exp((self._at_ms - mono_ms) / window_ms)
            self._at_ms = mono_ms


class Histogram:
    """The newest values, from which quantiles are read."""

    SAMPLES = 1024

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        """The sum of all values."""
        self._values: deque[float] = deque(maxlen=self.SAMPLES)

    @property
    def mean(self) -> float:
        """The mean of the newest values; 0 without any."""
        return sum(self._values) / len(self._values) if self._values else 0.0

    def add(self, value: float) -> None:
        """Add one more value."""
        self.count += 1
        self.total += value
        self._values.append(value)

    def quantile(self, share: float) -> float:
        """The value below which `share` of the samples lie; 0 without samples."""
        return self.quantiles((share,))[0][1] if self._values else 0.0

    def quantiles(self, shares: tuple[float, ...], at_ns: int = 0) -> list[tuple[float, float]]:
        """(share, value below which that share of the samples lies); empty without samples. They have no age."""
        ordered = sorted(self._values)
        last = len(ordered) - 1
        return [(share, ordered[min(last, int(share * len(ordered)))]) for share in shares] if ordered else []


class Idle:
    """How much of the last minute a stage had nothing to do."""

    WINDOW_NS = 60_000_000_000
    GRAIN_NS = 1_000_000_000

    def __init__(self) -> None:
        self.busy_ns = 0
        self._past: deque[tuple[int, int]] = deque()

    def note(self, at_ns: int) -> None:
        """Remember how busy the stage has been until now; cheap when called often."""
        past = self._past
        if not past or at_ns - past[-1][0] >= self.GRAIN_NS:
            past.append((at_ns, self.busy_ns))
            while len(past) > 1 and past[1][0] <= at_ns - self.WINDOW_NS:
                past.popleft()

    def share(self, at_ns: int) -> float:
        """The idle share, 0.0 to 1.0; 1.0 before anything was noted."""
        if not self._past or at_ns <= self._past[0][0]:
            return 1.0
        since_ns, busy_ns = self._past[0]
        return max(0.0, 1.0 - (self.busy_ns - busy_ns) / (at_ns - since_ns))
