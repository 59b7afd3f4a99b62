"""How long the next target assignment of a group has to wait (`group.*.assignment.interval.ms`).

The time of the last one is in the log, in wall time, since another broker may have made it. This file alone decides what it
means. A time that lies ahead of this broker's clock says nothing: that clock was set back, or another broker's was wrong.
Nobody waits for the one to catch up with the other.
"""


def left_ms(made_wall_ms: int, interval_ms: int, wall_ms: int) -> int:
    """The milliseconds from `wall_ms` until the interval is over, 0 to `interval_ms`. `made_wall_ms`: when the last
    assignment was made; 0: none was."""
    left = made_wall_ms + interval_ms - wall_ms
    return left if made_wall_ms and 0 < left <= interval_ms else 0
