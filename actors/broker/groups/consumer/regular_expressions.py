"""Which topics the regular expressions of a consumer group's members match, and when that is looked up (KIP-848).

Matching is done outside the loop, of all expressions of the group together. A member gets the topics of a new one with a
later heartbeat. This file alone decides when it is time for that, and what a result changes. Rules:

1. A new expression is matched at once. The others are matched anew when topics have come or gone, not oftener than each
   `LEAST_INTERVAL_MS`, and in any case each `group.consumer.regex.refresh.interval.ms`.
2. An expression finds only topics of which the client may know that has caused the look.
"""

from collections.abc import Callable, Mapping, Sequence

from actors.broker.groups.consumer.records import REGEX, RecordKey
from actors.broker.groups.consumer.requests import Visible
from actors.broker.groups.consumer.state import ConsumerGroup, Member, Resolved
from actors.broker.groups.patterns import Pattern
from actors.ports import Now

LEAST_INTERVAL_MS = 10_000
"""The shortest time between two matchings of regular expressions while topics come and go, ms."""
Found = Mapping[str, Sequence[str]]
"""The topics that each regular expression matches."""


def is_due(group: ConsumerGroup, member: Member, version: int, refresh_ms: int, now: Now) -> bool:
    """Whether to match a group's regular expressions now. `member`: the one whose heartbeat this is. `version`: of the
    metadata."""
    way = group.way
    if not group.regexes or way.resolving:
        return False
    age_ms = now.mono_ms - way.resolved_ms
    new = any(regex not in group.resolved for regex in group.regexes) if member.subscription.regex else False
    late = way.resolved_version != version and age_ms >= LEAST_INTERVAL_MS
    return bool(new or late or age_ms >= refresh_ms)


def matching(regexes: Sequence[str], topics: Sequence[str]) -> Callable[[], Found]:
    """A job that matches expressions with topics, outside the loop."""
    return lambda: {regex: list(filter(Pattern(regex).fullmatch, topics)) for regex in regexes}


def take(
    group: ConsumerGroup, found: Found, visible: Visible, version: int, now: Now
) -> tuple[dict[RecordKey, None], bool]:
    """Take in what was found. Returns the keys that this touches, and whether the group is subscribed to other topics
    now."""
    touched: dict[RecordKey, None] = {}
    moved = False
    for regex, names in found.items():
        if regex not in group.regexes:
            continue
        topics = frozenset(filter(visible, names))
        present = group.resolved.get(regex)
        if present is None or present.topics != topics:
            group.resolved[regex] = Resolved(topics, version, now.wall_ms)
            touched[RecordKey(REGEX, regex)] = None
            moved = moved or topics != (frozenset() if present is None else present.topics)
    return touched, moved


def forget(group: ConsumerGroup, regex: str) -> dict[RecordKey, None]:
    """Forget a regular expression if no member names it any more. Returns the keys that are touched."""
    if regex and regex not in group.regexes and group.resolved.pop(regex, None) is not None:
        return {RecordKey(REGEX, regex): None}
    return {}
