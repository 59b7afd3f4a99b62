"""Times, spans and lists in sentences. Times are UTC. A date stands only where it is not that of the moment looked at."""

import datetime
from collections.abc import Sequence

NOBODY = "the log does not say who changed it"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LAST_MS = int((datetime.datetime.max.replace(tzinfo=datetime.UTC) - EPOCH).total_seconds()) * 1000 - 86_400_000
AT_ONCE_MS = 50
"""What lies nearer than this is said to be at the same time."""


def clock(time_ms: int, now_ms: int) -> str:
    """A time of the day, with its date if that is another day than `now_ms` is."""
    time, now = _time(time_ms), _time(now_ms)
    return f"{time:%H:%M:%S}" if time.date() == now.date() else f"{time:%Y-%m-%d %H:%M:%S}"


def _time(time_ms: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(milliseconds=min(max(time_ms, 0), LAST_MS))


def span(length_ms: int) -> str:
    """A length of time in a unit that suits it."""
    seconds = length_ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def since(time_ms: int, now_ms: int) -> str:
    """` since 08:59:28`, or nothing if the time is not known (-1)."""
    return f" since {clock(time_ms, now_ms)}" if time_ms >= 0 else ""


def apart(time_ms: int, other_ms: int) -> str:
    """How a time lies to another one: `0.5 s after`, `as`, `2 min before`."""
    distance = time_ms - other_ms
    if abs(distance) < AT_ONCE_MS:
        return "as"
    return f"{span(abs(distance))} {'after' if distance > 0 else 'before'}"


def counted(number: int, noun: str) -> str:
    """A number of things: `1 broker`, `1,000 brokers`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def partitions(number: int) -> str:
    """A number of partitions."""
    return counted(number, "partition")


def few(names: Sequence[str], number: int) -> str:
    """Some names of a number of things."""
    more = f" and {number - len(names):,} more" if number > len(names) else ""
    return ", ".join(names) + more
