"""The writes of a group that is many records, each of which holds one thing under a key of its own (KIP-848, KIP-1071).

This file alone decides what is written again after a failure, and when somebody is answered. Rules:

1. A change of a group names the keys of the records that it touches; what they say is the group's state when they are
   written.
2. Keys whose write has failed are written again with the next change: the log may have them or not.
3. Nobody is answered with what depended on a write that has failed.
4. Many records are written as several writes of a bounded size, of which a part makes sense to the next coordinator.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from actors.broker.coordinators.coordination import Record, Then
from actors.ports import Now
from actors.wire.errors import ErrorCode

K = TypeVar("K")
"""The key of a record inside its group."""
WRITE_BYTES_MAX = 1 << 18
"""The most bytes of the records of one write."""


class _Flight(Generic[K]):
    """A write that is under way. `spoiled`: an earlier write of the group has failed."""

    __slots__ = ("keys", "spoiled", "thens")

    def __init__(self, keys: Iterable[K]) -> None:
        self.keys = keys
        self.thens: list[Callable[[ErrorCode], None]] = []
        self.spoiled = False


class KeyedWrites(Generic[K]):
    """The writes of one group. They are not remembered: the next coordinator begins anew, with all keys of which it is
    not sure `behind`."""

    __slots__ = ("_flights", "behind")

    def __init__(self) -> None:
        self.behind: dict[K, None] = {}
        """Keys of which the log may have another value than the group."""
        self._flights: dict[int, _Flight[K]] = {}

    def idle(self) -> bool:
        """Whether nothing is being written, nor to be written again."""
        return not (self.behind or self._flights)

    def unsettled(self) -> list[K]:
        """The keys of which the log may have another value than the one that is committed: they are being written, or
        such a write has failed."""
        return [*(key for flight in self._flights.values() for key in flight.keys), *self.behind]

    def commit(
        self,
        touched: Mapping[K, None],
        record: Callable[[K], Record],
        write: Callable[[Sequence[Record], Then], int],
        then: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Write what is touched. `then` is called when it is committed, and all that was under way before. `record`:
        the record of a key as the group is now. `write`: begins one write, and gives its token."""
        keys = {**self.behind, **touched}
        self.behind.clear()
        if not keys:
            if then is not None and self._flights:
                self._flights[next(reversed(self._flights))].thens.append(then)
            elif then is not None:
                then(ErrorCode.NONE)
            return
        flight = _Flight[K]([])
        for part, records in _portions(keys, record):
            flight = _Flight(part)
            self._flights[write(records, self._ended(flight))] = flight
        if then is not None:
            flight.thens.append(then)

    def _ended(self, flight: _Flight[K]) -> Then:
        def ended(error: ErrorCode, now: Now) -> None:
            for token in [token for token, one in self._flights.items() if one is flight]:
                del self._flights[token]
            if error is not ErrorCode.NONE:
                self.behind.update(dict.fromkeys(flight.keys))
                for other in self._flights.values():
                    other.spoiled = True
            elif flight.spoiled:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            for then in flight.thens:
                then(error)

        return ended


def _portions(keys: Iterable[K], record: Callable[[K], Record]) -> list[tuple[list[K], list[Record]]]:
    """The records of these keys, in writes of a bounded size."""
    portions: list[tuple[list[K], list[Record]]] = []
    left = 0
    for key in keys:
        written = record(key)
        size = len(written[0]) + len(written[1] or b"")
        if not portions or size > left:
            portions.append(([], []))
            left = WRITE_BYTES_MAX
        left -= size
        portions[-1][0].append(key)
        portions[-1][1].append(written)
    return portions
