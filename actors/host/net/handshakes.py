"""The TLS handshakes of a node: which one begins next, and which one gives up its place.

A handshake takes a signature in the one thread that also carries heartbeats, and `HANDSHAKE_BYTES` until it is over.
This file alone decides how many there are, and of which hosts. Rules:

1. `A_SECOND` handshakes begin in a second, and no more than `AT_ONCE` of them together, so that a crowd never takes the
   loop for longer than these last. `A_SECOND_OF_A_HOST` of one host begin.
2. A connection that cannot begin waits. Hosts take turns, so that a peer from another address than a crowd waits for
   one handshake of each host and not for the crowd. `WAITING` connections wait, and `WAITING_OF_A_HOST` of one host.
3. `UNDER_WAY` handshakes last at the same time, and `UNDER_WAY_OF_A_HOST` of one host.
4. When places are taken, the host that has the most gives one to a host that has at least two fewer: of connections that
   wait the newest, of handshakes under way the oldest. A handshake that has lasted `SLOW_S` gives its place to any.

Clients, and the peers of a controller, have limits of their own: the loop has one `Handshakes` for each.
"""

from collections import Counter
from typing import Generic, NamedTuple, Protocol, TypeVar

A_SECOND = 300
A_SECOND_OF_A_HOST = 100
AT_ONCE = 10
WAITING = 500
WAITING_OF_A_HOST = 100
UNDER_WAY = 320
UNDER_WAY_OF_A_HOST = 80
SLOW_S = 2.0
"""The age in s from which on a handshake may lose its place to any other. A client that wants to get in needs two round
trips and a signature."""
AGAIN_S = 0.01
"""The time in s after which to look again while connections wait: as long as three handshakes may take at that rate."""
MANY = 100
"""The number of handshakes after which their memory is given back to the system once none is under way."""
HANDSHAKE_BYTES = 600 << 10
"""The most memory of a handshake under way: OpenSSL takes a first message of 128 KiB, and buffers of 256 KiB and more
are around it. For a peer that sends nothing it is 55 KiB."""


class Arrival(Protocol):
    """A connection that has been accepted."""

    @property
    def host(self) -> str: ...


A = TypeVar("A", bound=Arrival)


class HandshakesNow(NamedTuple, Generic[A]):
    """The handshakes that begin now, and the connections to be closed, whether they wait or are under way."""

    begin: list[A]
    close: list[A]


class Places(Generic[A]):
    """A number of places that hosts share, in the order in which they were taken."""

    def __init__(self, places: int, of_a_host: int) -> None:
        self._places = places
        self._of_a_host = of_a_host
        self._taken = 0
        self.by_host: dict[str, dict[A, float]] = {}
        """Each host's connections, the oldest first, with the second in which they came. No host has an empty table."""

    def __len__(self) -> int:
        return self._taken

    def loser(self, host: str, slow_before_s: float | None) -> A | None:
        """The connection that has to give its place to one of `host`; None: there is a free place. Raises LookupError
        if no connection has to. `slow_before_s`: of a host the oldest goes first, and a connection that came before
        that time goes in any case; None: the newest goes first."""
        own = len(self.by_host.get(host, ()))
        if own >= self._of_a_host:
            rich = host
        elif self._taken >= self._places:
            rich = max(self.by_host, key=lambda one: len(self.by_host[one]))
        else:
            return None
        candidates = self.by_host[rich]
        found = next(iter(candidates)) if slow_before_s is not None else next(reversed(candidates))
        if len(candidates) > own + 1 or (slow_before_s is not None and candidates[found] < slow_before_s):
            return found
        raise LookupError

    def take(self, one: A, now_s: float) -> None:
        """Give a connection a place."""
        self.by_host.setdefault(one.host, {})[one] = now_s
        self._taken += 1

    def leave(self, one: A) -> None:
        """Free the place of a connection, if it has one."""
        own = self.by_host.get(one.host)
        if own is not None and own.pop(one, None) is not None:
            self._taken -= 1
            if not own:
                del self.by_host[one.host]

    def next_in_turn(self, host: str) -> A:
        """Take out the oldest connection of a host. Its others come behind all other hosts."""
        own = self.by_host.pop(host)
        one = next(iter(own))
        del own[one]
        self._taken -= 1
        if own:
            self.by_host[host] = own
        return one


class Handshakes(Generic[A]):
    """The connections of some listeners before TLS and in its handshake. Seconds are of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: Places[A] = Places(WAITING, WAITING_OF_A_HOST)
        self._under_way: Places[A] = Places(UNDER_WAY, UNDER_WAY_OF_A_HOST)
        self._allowed = float(AT_ONCE)
        """How many handshakes may begin now."""
        self._since_s = 0.0
        self._second = 0
        self._begun: Counter[str] = Counter()
        """How many handshakes of each host have begun in this second."""
        self._ended = 0
        """How many handshakes have ended since memory was given back."""

    @property
    def under_way(self) -> int:
        """How many handshakes are under way now."""
        return len(self._under_way)

    def arrive(self, one: A, now_s: float) -> A | None:
        """Let an accepted connection wait for `verdict`. Returns the connection to be closed for it, which may be
        itself; None: none."""
        try:
            loser = self._waiting.loser(one.host, None)
        except LookupError:
            return one
        if loser is not None:
            self._waiting.leave(loser)
        self._waiting.take(one, now_s)
        return loser

    def verdict(self, now_s: float) -> HandshakesNow[A]:
        """The handshakes that begin now and the connections to be closed. It is called after arrivals, and `AGAIN_S`
        later as long as any connection `waits`."""
        self._allowed = min(AT_ONCE, self._allowed + (now_s - self._since_s) * A_SECOND)
        self._since_s = now_s
        if int(now_s) != self._second:
            self._second = int(now_s)
            self._begun.clear()
        found: HandshakesNow[A] = HandshakesNow([], [])
        while self._allowed >= 1 and self._waiting and self._admit(now_s, found):
            self._allowed -= 1
        return found

    def _admit(self, now_s: float, found: HandshakesNow[A]) -> bool:
        """Let the next connection in. Returns whether there was one."""
        for host in self._waiting.by_host:
            if self._begun[host] >= A_SECOND_OF_A_HOST:
                continue
            try:
                loser = self._under_way.loser(host, now_s - SLOW_S)
            except LookupError:
                continue
            if loser is not None:
                self._under_way.leave(loser)
                found.close.append(loser)
            one = self._waiting.next_in_turn(host)
            self._under_way.take(one, now_s)
            self._begun[host] += 1
            found.begin.append(one)
            return True
        return False

    @property
    def waits(self) -> bool:
        """Whether any connection waits."""
        return bool(self._waiting)

    def over(self, one: A) -> bool:
        """Note that a handshake that had begun has ended, in whatever way. Returns whether many have, so that memory
        should be given back."""
        self._under_way.leave(one)
        self._ended += 1
        if self._ended < (UNDER_WAY if self._under_way else MANY):
            return False
        self._ended = 0
        return True

    def give_up(self) -> list[A]:
        """Take out the connections that wait, since the node ends."""
        gone = [one for own in self._waiting.by_host.values() for one in own]
        for one in gone:
            self._waiting.leave(one)
        return gone
