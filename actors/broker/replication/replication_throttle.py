"""Limits on the bytes a second of replication, so that moving replicas leaves room for clients (KIP-73).

This file alone decides when replication is over its rate, and which replicas a topic's list names. A broker has two
throttles: one for what it sends as a leader, one for what it takes in as a follower. Rules:

1. Every byte of a listed replica is counted; held back is only a listed replica that is not in sync. So a move never puts a
   replica out of the ISR.
2. The rate is Apache Kafka's `SimpleRate`: the bytes of the last `windows` windows over the time since the oldest of them
   began, and over one window at least.
"""

from collections import deque
from functools import lru_cache

NO_LIMIT = (1 << 63) - 1
"""The default of the settings: so many bytes a second that nothing is held back."""
RECHECK_MS = 1_000
"""The longest time until a held back fetch is looked at again, since the rate may have been changed."""
ALL = ("*",)


class ReplicationThrottle:
    """One rate and what was counted against it. Times are monotonic ms."""

    __slots__ = ("_bytes_per_s", "_samples", "_window_ms", "_windows", "limited")

    def __init__(self, windows: int = 11, window_ms: int = 1_000) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self._bytes_per_s = NO_LIMIT
        self.limited = False
        """Whether there is a rate at all."""
        self._samples: deque[list[int]] = deque()
        """[time of its first bytes, bytes] of each window, oldest first; at most `windows` + 1."""

    def limit(self, bytes_per_s: int) -> None:
        """Set the rate. What was counted before counts."""
        self._bytes_per_s = bytes_per_s
        self.limited = bytes_per_s < NO_LIMIT

    def count(self, size: int, now_ms: int) -> None:
        """Count bytes of a listed replica that were sent or taken in."""
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, size])
        else:
            self._samples[-1][1] += size

    def rate(self, now_ms: int) -> float:
        """The rate now, in bytes a second."""
        self._forget(now_ms)
        if not self._samples:
            return 0.0
        return self._total() * 1_000 / max(now_ms - self._samples[0][0], self._window_ms)

    def over(self, now_ms: int) -> bool:
        """Whether more was counted than the rate allows."""
        return self.limited and self.rate(now_ms) > self._bytes_per_s

    def due_ms(self, now_ms: int) -> int:
        """The time at which to look again, if `over` holds: when it would hold no longer without more bytes, at most
        `RECHECK_MS` from now."""
        latest = now_ms + RECHECK_MS
        if self._bytes_per_s <= 0 or not self._samples:
            return latest
        allowed_ms = max(self._window_ms, -(-self._total() * 1_000 // self._bytes_per_s))
        return min(latest, max(now_ms + 1, self._samples[0][0] + allowed_ms))

    def _total(self) -> int:
        return sum(sample[1] for sample in self._samples)

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._windows * self._window_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()


def lists(replicas: tuple[str, ...], partition: int, broker: int) -> bool:
    """Whether a topic's `leader.` or `follower.replication.throttled.replicas` names a replica: `*`, or
    `partition:broker` pairs."""
    if not replicas:
        return False
    return replicas == ALL or partition in _by_broker(replicas).get(broker, ())


@lru_cache(maxsize=32)
def _by_broker(replicas: tuple[str, ...]) -> dict[int, frozenset[int]]:
    """The partitions of each broker in a list: each partition of a topic looks into the same list, which may have
    thousands of pairs."""
    found: dict[int, set[int]] = {}
    for pair in replicas:
        if pair:
            partition, _, broker = pair.partition(":")
            found.setdefault(int(broker), set()).add(int(partition))
    return {broker: frozenset(partitions) for broker, partitions in found.items()}
