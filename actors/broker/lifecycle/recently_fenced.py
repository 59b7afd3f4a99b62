"""Brokers that were fenced or unregistered a moment ago: Metadata answers list them for LINGER_MS more.

A client that no longer finds a broker in the list drops its state for that broker, at the very time when it moves
partitions from there to their new leaders. librdkafka then loses the leaders that it has just learned, and asks again
half a second later. Listing a broker that is gone does no harm: it leads nothing any more, its replicas count as
offline, and before it was found to be gone it was listed too.
"""

from collections.abc import Iterator

from actors.metadata.image import Broker

LINGER_MS = 2000
"""How long an ended registration is listed, ms: longer than a client needs to move its partitions. Most brokers that
are only restarted are back by then."""


class RecentlyFenced:
    """The present registrations, and those that ended a short time ago."""

    def __init__(self) -> None:
        self._present: dict[int, Broker] = {}
        self._left: dict[int, tuple[Broker, int]] = {}

    @property
    def present(self) -> list[int]:
        """The ids of the brokers that are registered now."""
        return list(self._present)

    def note(self, id: int, registration: Broker | None, mono_ms: int) -> None:
        """Note the registration of a broker as it is now; None: it is gone."""
        before = self._present.pop(id, None)
        self._left.pop(id, None)
        if registration is not None:
            self._present[id] = registration
        elif before is not None:
            self._left[id] = before, mono_ms + LINGER_MS

    def lingering(self, mono_ms: int) -> Iterator[Broker]:
        """The registrations that ended less than LINGER_MS ago."""
        for registration, until_ms in self._left.values():
            if mono_ms < until_ms:
                yield registration
