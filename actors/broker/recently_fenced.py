"""Brokers that left a moment ago: clients go on hearing of them for LINGER_MS.

A client that misses a broker in the list throws away what it has for it, at the very time when it moves partitions from
there to their new leaders. librdkafka then loses the leaders that it has just learnt, and looks again half a second later.
Nothing is wrong with naming a broker that is gone: it leads nothing any more, its replicas count as offline, and before it
was missed it was named too.
"""

from collections.abc import Iterator

from actors.metadata.image import Broker

LINGER_MS = 2000
"""Longer than a client takes to move; most brokers that were only started again are back by then."""


class RecentlyFenced:
    """Registrations, and those that ended not long ago."""

    def __init__(self) -> None:
        self._present: dict[int, Broker] = {}
        self._left: dict[int, tuple[Broker, int]] = {}

    @property
    def present(self) -> list[int]:
        """Whose registration was noted last."""
        return list(self._present)

    def note(self, id: int, registration: Broker | None, mono_ms: int) -> None:
        """The registration of a broker as it is now; None: it is gone."""
        before = self._present.pop(id, None)
        self._left.pop(id, None)
        if registration is not None:
            self._present[id] = registration
        elif before is not None:
            self._left[id] = before, mono_ms + LINGER_MS

    def lingering(self, mono_ms: int) -> Iterator[Broker]:
        """Who left not long ago."""
        for registration, until_ms in self._left.values():
            if mono_ms < until_ms:
                yield registration
