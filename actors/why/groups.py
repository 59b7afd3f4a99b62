"""Groups that stand still, out of two looks at what they have committed.

This file alone decides when a group stands still: its committed offset of a partition is the same in both looks and below
the partition's end in both, and the looks are STANDS_MS or more apart. A group that catches up slowly does not stand still,
nor does one that has read everything. Whether it has members says only why.
"""

from collections.abc import Mapping
from typing import NamedTuple

from actors.why.facts import EXAMPLES_MAX, GroupFacts

STANDS_MS = 60_000
Part = tuple[str, int]
"""A partition of a topic: (topic, number)."""


class GroupSample(NamedTuple):
    """One look at a group."""

    time_ms: int
    members: int
    committed: Mapping[Part, int]
    """Partition -> the offset that is committed."""
    ends: Mapping[Part, int]
    """Partition -> its end."""


def standing(
    before: Mapping[str, GroupSample], now: Mapping[str, GroupSample], stands_ms: int = STANDS_MS
) -> list[GroupFacts]:
    """The groups that stand still, by name. `before`, `now`: group -> an earlier look and the present one."""
    found = []
    for group, look in sorted(now.items()):
        earlier = before.get(group)
        if earlier is None or look.time_ms - earlier.time_ms < stands_ms:
            continue
        still = sorted(part for part in look.committed if _stands(earlier, look, part))
        if still:
            lag = sum(max(look.ends.get(part, 0) - offset, 0) for part, offset in look.committed.items())
            names = tuple(f"{topic}-{number}" for topic, number in still[:EXAMPLES_MAX])
            found.append(GroupFacts(group, look.members, lag, names, look.time_ms - earlier.time_ms))
    return found


def _stands(earlier: GroupSample, look: GroupSample, part: Part) -> bool:
    """Whether a group was behind in a partition before, and has committed nothing there since."""
    offset = look.committed[part]
    return earlier.committed.get(part) == offset and offset < min(earlier.ends.get(part, 0), look.ends.get(part, 0))
