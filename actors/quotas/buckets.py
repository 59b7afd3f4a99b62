"""The token bucket of changes that the controller makes for a client (KIP-599).

A bucket holds as many tokens as the quota gives in all of its windows, and is full at first. A change takes as many as it
makes or deletes partitions, and may take more than there are: then nothing is left for so long as the quota needs to give
them. So one large request goes through, and the next one waits.
"""

from actors.quotas.rates import THROTTLE_MS_MAX, Window

TOKENS_MIN = 1e-9
"""Tokens owed below this are owed to rounding alone: a client that has waited as long as it was told owes nothing."""


class TokenBucket:
    """Tokens that come back with time. `tokens` is below zero while more was taken than there was."""

    __slots__ = ("_at_ms", "tokens", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self.tokens: float | None = None
        """The tokens in the bucket; None: it is full, whatever the quota is."""
        self._at_ms = 0

    def take(self, tokens: float, bound: float, now_ms: int) -> None:
        """Take `tokens` out of the bucket. `bound`: how many tokens come back in a second."""
        self.tokens = self.refill(bound, now_ms) - tokens

    def refill(self, bound: float, now_ms: int) -> float:
        """How many tokens there are now."""
        most = self.window.samples * self.window.sample_ms / 1000 * bound
        if self.tokens is None:
            self.tokens = most
        else:
            self.tokens = min(most, self.tokens + bound * (now_ms - self._at_ms) / 1000)
            if -TOKENS_MIN < self.tokens < 0:
                self.tokens = 0.0
        self._at_ms = now_ms
        return self.tokens

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How many ms to wait until no token is owed; 0: none is."""
        tokens = self.refill(bound, now_ms)
        return int(min(-tokens / bound * 1000 + 0.5, THROTTLE_MS_MAX)) if tokens < 0 else 0
