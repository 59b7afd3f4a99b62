"""What the explanations ask of the past.

A metadata log answers (`actors/replay/timeline/past.py`). Where there is none, nothing is known of the past: NO_PAST.
"""

from typing import NamedTuple, Protocol

from actors.why.facts import TroubledPartition

NEAR_MS = 60_000
"""A fencing counts as the cause of what happens so long before or after it."""


class PastEvent(NamedTuple):
    """Something that has happened."""

    time_ms: int
    """ms since 1970."""
    how: str
    """A word: `fenced`, `shut down`, `gone` (one of both), `unregistered`, `registered`; `left`, `made`; `lost`, `moved`,
    `set`."""
    offset: int = -1


class Past(Protocol):
    """The time before a moment."""

    def away(self, broker: int) -> PastEvent | None:
        """Since when a broker is not active, and how that came: `fenced`, `shut down`, `unregistered`. None: not known."""

    def near(self, broker: int, time_ms: int) -> PastEvent | None:
        """What took a broker away around a time, at most NEAR_MS before or after it; as `away`."""

    def fencings(self, broker: int, since_ms: int) -> int:
        """How often a broker has been fenced since a time."""

    def left(self, part: TroubledPartition, broker: int) -> PastEvent | None:
        """When a replica left the ISR that lacks it: `left`; `made`: it has not been in it since the partition was made."""

    def lost(self, part: TroubledPartition) -> PastEvent | None:
        """When a partition lost its leader."""

    def moved(self, part: TroubledPartition) -> PastEvent | None:
        """When the leader that it has now took over."""

    def set(self, broker: int, setting: str) -> PastEvent | None:
        """When a setting of a broker was changed last."""


class _NoPast:
    """The past where there is no log to look into."""

    def away(self, broker: int) -> PastEvent | None:
        return None

    def near(self, broker: int, time_ms: int) -> PastEvent | None:
        return None

    def fencings(self, broker: int, since_ms: int) -> int:
        return 0

    def left(self, part: TroubledPartition, broker: int) -> PastEvent | None:
        return None

    def lost(self, part: TroubledPartition) -> PastEvent | None:
        return None

    def moved(self, part: TroubledPartition) -> PastEvent | None:
        return None

    def set(self, broker: int, setting: str) -> PastEvent | None:
        return None


NO_PAST: Past = _NoPast()
