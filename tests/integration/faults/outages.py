"""How long no client could write: for each fault the longest silence of a partition, and of metadata changes.

A silence counts for the last fault before it began, and ends with an acknowledgement. So it includes the client's own
part (its retries, its refresh of metadata), as a user sees it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tests.integration.faults.clients import Acks

NOTABLE_S = 0.25
"""Silences shorter than this are the producers' own rhythm on a busy machine."""


class Outage(NamedTuple):
    """The outage of one fault, in seconds."""

    at_s: float
    what: str
    longest_s: float
    partitions: int
    """How many partitions were silent for longer than NOTABLE_S."""
    metadata_s: float

    def __str__(self) -> str:
        data = f"{self.longest_s * 1000:5.0f} ms ({self.partitions} partitions)" if self.partitions else "none"
        return f"{self.at_s:7.1f} s  {self.what:52} outage {data:24} metadata {self.metadata_s * 1000:5.0f} ms"


def outages(faults: Sequence[tuple[float, str]], acks: Acks, begin_s: float, end_s: float) -> list[Outage]:
    """`faults`: (when, what) in order; the clock is the one of `acks`."""
    found = []
    for place, (at, what) in enumerate(faults):
        next_at = faults[place + 1][0] if place + 1 < len(faults) else end_s
        silent = [_longest([time for time, _ in times], at, next_at, end_s) for times in acks.times]
        metadata = _longest([time for time, _ in acks.metadata], at, next_at, end_s)
        found.append(Outage(at - begin_s, what, max(silent), sum(seconds > NOTABLE_S for seconds in silent), metadata))
    return found


def _longest(times: Sequence[float], from_s: float, to_s: float, end_s: float) -> float:
    """The longest pause between two acknowledgements that begins in [from, to); the first counts from `from_s`."""
    longest, last = 0.0, from_s
    for time in times:
        if time < from_s:
            continue
        if time >= to_s:
            return max(longest, (to_s if to_s - last < NOTABLE_S else time) - last)
        longest, last = max(longest, time - last), time
    return max(longest, end_s - last)
