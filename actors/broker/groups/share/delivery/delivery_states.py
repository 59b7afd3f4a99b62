"""What may happen to a record of a share partition, and what becomes of it then (KIP-932, in-flight records).

This file alone decides the states, as a table. Rules:

1. A record is acquired by one member at a time. What that member, the end of its lock or the end of its session makes of it
   is in the table; what the table does not have cannot happen.
2. A record that is given back goes to nobody any more once it was delivered as often as the group allows
   (`share.delivery.count.limit`), or when it is below the start of the share partition: it is archived.
3. ACKNOWLEDGED and ARCHIVED are final.
"""

import enum


class DeliveryState(enum.IntEnum):
    """The state of a record's delivery, with the number that `__share_group_state` has for it. ACQUIRED is in memory
    alone."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class Event(enum.Enum):
    """What happens to a record. The first five are AcknowledgeTypes of the protocol."""

    GAP = 0
    """A member found no record at that offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member needs more time (KIP-1222)."""
    ACQUIRE = 5
    EXPIRE = 6
    """The record's lock has lasted its time."""
    END_SESSION = 7
    LOSE = 8
    """The record is below the start, or the cleaner has taken it."""
    ABORT = 9
    """The record belongs to a transaction that was aborted, and the group reads committed records only."""


TRANSITIONS: dict[tuple[DeliveryState, Event], DeliveryState] = {
    (DeliveryState.AVAILABLE, Event.ACQUIRE): DeliveryState.ACQUIRED,
    (DeliveryState.AVAILABLE, Event.LOSE): DeliveryState.ARCHIVED,
    (DeliveryState.ACQUIRED, Event.ACCEPT): DeliveryState.ACKNOWLEDGED,
    (DeliveryState.ACQUIRED, Event.REJECT): DeliveryState.ARCHIVED,
    (DeliveryState.ACQUIRED, Event.GAP): DeliveryState.ARCHIVED,
    (DeliveryState.ACQUIRED, Event.ABORT): DeliveryState.ARCHIVED,
    (DeliveryState.ACQUIRED, Event.RENEW): DeliveryState.ACQUIRED,
    (DeliveryState.ACQUIRED, Event.RELEASE): DeliveryState.AVAILABLE,
    (DeliveryState.ACQUIRED, Event.EXPIRE): DeliveryState.AVAILABLE,
    (DeliveryState.ACQUIRED, Event.END_SESSION): DeliveryState.AVAILABLE,
}
FINAL = frozenset((DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED))


def after(state: DeliveryState, event: Event, *, spent: bool) -> DeliveryState:
    """The state that follows. `spent`: the record is not delivered any more (rule 2). Raises KeyError if the event
    cannot happen in that state."""
    following = TRANSITIONS[state, event]
    return DeliveryState.ARCHIVED if spent and following is DeliveryState.AVAILABLE else following
