"""Meters and histograms, small and without a clock of their own (KIP-631, New Metrics; reading A53)."""

import math
from collections import deque


class Meter:
    """Events per second, over one minute and over the whole time, and their count."""

    WINDOW_MS = 60_000

    def __init__(self) -> None:
        self.count = 0
        self._rate = 0.0
        self._since_ms: int | None = None
        self._at_ms = 0

    def mark(self, events: int, mono_ms: int) -> None:
        """`events` have happened."""
        if self._since_ms is None:
            self._since_ms = self._at_ms = mono_ms
        self._decay(mono_ms)
        self._rate += events * 1000 / self.WINDOW_MS
        self.count += events

    def one_minute_rate(self, mono_ms: int) -> float:
        """Exponentially weighted, per second; in the first minute the plain mean."""
        if self._since_ms is None:
            return 0.0
        if mono_ms - self._since_ms < self.WINDOW_MS:
            return self.mean_rate(mono_ms)
        self._decay(mono_ms)
        return self._rate

    def mean_rate(self, mono_ms: int) -> float:
        """Per second since the first event."""
        if self._since_ms is None:
            return 0.0
        return self.count * 1000 / max(1000, mono_ms - self._since_ms)

    def _decay(self, mono_ms: int) -> None:
        if mono_ms > self._at_ms:
            self._rate *= math.exp((self._at_ms - mono_ms) / self.WINDOW_MS)
            self._at_ms = mono_ms


class Histogram:
    """The newest values, for quantiles."""

    SAMPLES = 1024

    def __init__(self) -> None:
        self.count = 0
        self._values: deque[float] = deque(maxlen=self.SAMPLES)

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        self._values.append(value)

    def quantile(self, share: float) -> float:
        """The value below which `share` of the samples lie; 0 without samples."""
        if not self._values:
            return 0.0
        ordered = sorted(self._values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
