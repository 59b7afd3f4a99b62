"""How many partitions a broker leads, and how many of those lack replicas in sync.

This file alone decides how a partition counts. Each is counted when something of it changes, so asking costs nothing,
however many there are (the gauges of Apache Kafka's `ReplicaManager`).
"""

from functools import lru_cache
from typing import NamedTuple, Protocol


class Standing(NamedTuple):
    """What is counted of one partition; each is 0 or 1."""

    here: int = 0
    led: int = 0
    under_replicated: int = 0
    """A partition that is led here lacks replicas in sync. Those that a reassignment adds are not missed yet: as in Apache
    Kafka, the ISR is held against the number of the others."""
    under_min_isr: int = 0
    at_min_isr: int = 0
    moving: int = 0
    """The replicas of a partition that is led here are being changed."""


NOWHERE = Standing()
FOLLOWS = Standing(here=1)


class Counted(Protocol):
    """A partition, as far as it is counted."""

    standing: Standing
    replicas: tuple[int, ...]
    moving: bool
    adding: int
    removed: bool

    @property
    def leads(self) -> bool: ...
    @property
    def members(self) -> int: ...
    @property
    def min_insync(self) -> int: ...


class Census:
    """The sums over all partitions of a broker."""

    def __init__(self) -> None:
        self.here = self.led = self.under_replicated = self.under_min_isr = self.at_min_isr = self.moving = 0

    def note(self, partition: Counted) -> None:
        """Count a partition as it is now, in place of what it was."""
        was, now = partition.standing, _standing(partition)
        if was == now:
            return
        partition.standing = now
        self.here += now.here - was.here
        self.led += now.led - was.led
        self.under_replicated += now.under_replicated - was.under_replicated
        self.under_min_isr += now.under_min_isr - was.under_min_isr
        self.at_min_isr += now.at_min_isr - was.at_min_isr
        self.moving += now.moving - was.moving


def _standing(partition: Counted) -> Standing:
    if partition.removed:
        return NOWHERE
    if not partition.leads:
        return FOLLOWS
    members, least = partition.members, partition.min_insync
    wanted = len(partition.replicas) - partition.adding
    return _led(members < wanted, members < least, members == least, partition.moving)


@lru_cache(maxsize=16)
def _led(under_replicated: bool, under_min_isr: bool, at_min_isr: bool, moving: bool) -> Standing:
    """The one value for all partitions that stand so."""
    return Standing(1, 1, int(under_replicated), int(under_min_isr), int(at_min_isr), int(moving))
