"""Apache Kafka's rates, token buckets and order of quotas, written down one rule after the other: slow, and the twin of
`actors/quotas`."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass
class Sample:
    """What was counted since `start`. `last`: the time of the newest count."""

    start: int
    last: int
    value: Fraction


class Rate:
    """Samples stand in a ring. One that is out of date is emptied where it stands, and counts as begun now."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.samples, self.sample_ms = samples, sample_ms
        self.ring: list[Sample] = []
        self.current = 0

    def record(self, value: Fraction, now: int) -> None:
        """Count `value`."""
        if not self.ring:
            self.ring.append(Sample(now, now, Fraction(0)))
        if now - self.ring[self.current].start >= self.sample_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            fresh = Sample(now, now, Fraction(0))
            if self.current < len(self.ring):
                self.ring[self.current] = fresh
            else:
                self.ring.append(fresh)
        self.ring[self.current].value += value
        self.ring[self.current].last = now

    def purge(self, now: int) -> None:
        """Empty what is out of date."""
        for place, sample in enumerate(self.ring):
            if now - sample.last >= self.samples * self.sample_ms:
                self.ring[place] = Sample(now, now, Fraction(0))

    def covered_ms(self, now: int) -> int:
        """The time by which the sum is divided."""
        self.purge(now)
        if not self.ring:
            self.ring.append(Sample(now, now, Fraction(0)))
        elapsed = now - min(sample.start for sample in self.ring)
        whole = elapsed // self.sample_ms
        if whole < self.samples - 1:
            elapsed += (self.samples - 1 - whole) * self.sample_ms
        return max(elapsed, 1)

    def measure(self, now: int) -> Fraction:
        """The rate, a second."""
        covered = self.covered_ms(now)
        return sum((sample.value for sample in self.ring), Fraction(0)) * 1000 / covered

    def throttle_ms(self, bound: Fraction, now: int) -> Fraction:
        """How long to wait, not rounded; 0: within the bound."""
        rate = self.measure(now)
        return (rate - bound) / bound * self.covered_ms(now) if rate > bound else Fraction(0)


class Bucket:
    """Tokens that come back with time, from far before the first use on."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self.samples, self.sample_ms = samples, sample_ms
        self.tokens = Fraction(0)
        self.at = -(10**12)

    def refill(self, bound: Fraction, now: int) -> Fraction:
        """What there is now."""
        most = self.samples * Fraction(self.sample_ms, 1000) * bound
        self.tokens = min(most, self.tokens + bound * Fraction(now - self.at, 1000))
        self.at = now
        return self.tokens

    def take(self, value: Fraction, bound: Fraction, now: int) -> None:
        """Take so many."""
        self.tokens = self.refill(bound, now) - value


Quotas = dict[tuple[str, str], float]
"""(user, client id) -> bound. `*` is the default, an empty part is not named."""


def find(quotas: Quotas, user: str, client_id: str) -> tuple[str, str, float] | None:
    """(user and client id of those who share the rate, bound) in the order of KIP-257."""
    if client_id and (user, client_id) in quotas:
        return user, client_id, quotas[user, client_id]
    if client_id and (user, "*") in quotas:
        return user, client_id, quotas[user, "*"]
    if (user, "") in quotas:
        return user, "", quotas[user, ""]
    if client_id and ("*", client_id) in quotas:
        return user, client_id, quotas["*", client_id]
    if client_id and ("*", "*") in quotas:
        return user, client_id, quotas["*", "*"]
    if ("*", "") in quotas:
        return user, "", quotas["*", ""]
    if client_id and ("", client_id) in quotas:
        return "", client_id, quotas["", client_id]
    if client_id and ("", "*") in quotas:
        return "", client_id, quotas["", "*"]
    return None
