"""How many long requests are in memory at once, read and not answered.

A request with many entries takes far more memory when it is read than its frame does: eight megabytes may name a partition
half a million times, which are objects of 300 MB, and they stay while the request is worked through in slices. This file
alone decides which of them are read. Rules:

1. A request whose entries fit in one slice is done before another is read, and is not counted. Others count for
   `ENTRY_BYTES` an entry from when they are read until they are answered, wait, are passed on, or their connection is gone.
   The entries of an Envelope are those of the request in it.
2. Those of up to `LONG_ENTRIES` and those of more have a bound each, so that the longest, which take seconds, do not keep
   the others waiting. While a bound is reached, such a request waits in its frame, and what is behind it on its connection
   with it. The last one that is read may go above the bound, whatever its size: so each is read in the end.
3. Hosts take turns, and within a host its connections. A request that comes meanwhile stands behind those that wait.
4. A follower's connection never waits: what others wait for may be waiting for its Fetch. Nor does the first Fetch of one,
   where rights tell who is a broker (`api/dispatch.py`).
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from actors.node.runtime.slices import ENTRIES_A_SLICE
from actors.node.runtime.turns import Turns

ENTRY_BYTES = 1000
"""What an entry takes at most when it is read, with its part of the answer, over every API (`test_heaviest_memory.py`). A
partition of a Fetch takes as much; a topic with one partition, which is two entries, takes 1.3 KB."""
BYTES_MAX = 64 << 20
"""The bound of each of the two kinds."""
LONG_ENTRIES = 5_000
COUNTED_FROM = 1024
"""The size in bytes from which on a frame may have more entries than a slice."""


class Asking(Protocol):
    """A connection whose next request may be long."""

    @property
    def id(self) -> int:
        """The host's number of the connection."""

    @property
    def peer_host(self) -> str:
        """The host that the connection comes from."""

    @property
    def replica(self) -> bool:
        """Whether a follower fetches on the connection."""


class Read(Protocol):
    """The place of a request that was read."""

    read_bytes: int
    """What it takes; 0: it is not counted."""


class _Kind:
    """Requests with more than so many entries."""

    __slots__ = ("bytes", "called", "entries", "line")

    def __init__(self, entries: int) -> None:
        self.entries = entries
        self.bytes = 0
        """What those take that are read."""
        self.line: Turns[int] = Turns()
        """The connections whose next request waits."""
        self.called: set[int] = set()
        """The connections whose turn it is, and whose request has not been handled since. Invariant: none is in `line`."""

    def waits(self, connection: Asking) -> bool:
        """Whether the connection stands in the line."""
        return connection.id in self.line.hosts.get(connection.peer_host, ())


class LongRequests:
    """The long requests of a node that are read."""

    def __init__(self) -> None:
        self._longest = _Kind(LONG_ENTRIES)
        self._long = _Kind(ENTRIES_A_SLICE)
        self._kinds = (self._longest, self._long)

    @property
    def bytes(self) -> int:
        """What all take that are read."""
        return self._long.bytes + self._longest.bytes

    def read(self, slot: Read, entries: int) -> None:
        """Note that a request was read."""
        if entries > ENTRIES_A_SLICE and not slot.read_bytes:
            slot.read_bytes = entries * ENTRY_BYTES
            self._of(slot).bytes += slot.read_bytes

    def over(self, slot: Read) -> None:
        """Note that what was read for a slot is not kept any more. A second call does nothing."""
        if slot.read_bytes:
            self._of(slot).bytes -= slot.read_bytes
            slot.read_bytes = 0

    def may_be_read(self, connection: Asking, is_longer: Callable[[int], bool]) -> bool:
        """Whether the next request of a connection may be read. False: the connection stands in the line, until `next`
        names it. `is_longer(entries)`: whether the request has more entries than that."""
        if connection.replica:
            return True
        for kind in self._kinds:
            if connection.id in kind.called:
                kind.called.discard(connection.id)
                if kind.bytes < BYTES_MAX:
                    return True
                kind.line.put_back(connection.peer_host, connection.id, connection.id)
                return False
            if kind.waits(connection):
                return False
        for kind in self._kinds:
            if (kind.bytes >= BYTES_MAX or kind.line.hosts) and is_longer(kind.entries):
                kind.line.put(connection.peer_host, connection.id, connection.id)
                return False
        return True

    def next(self) -> Iterator[int]:
        """The connections whose turn it is now: one of each kind that has room."""
        for kind in self._kinds:
            if kind.line.hosts and kind.bytes < BYTES_MAX:
                conn = kind.line.take()
                kind.called.add(conn)
                yield conn

    def forget(self, connection: Asking) -> None:
        """A connection is gone; its slots are given back by themselves."""
        for kind in self._kinds:
            kind.line.drop(connection.peer_host, connection.id)
            kind.called.discard(connection.id)

    def _of(self, slot: Read) -> _Kind:
        return self._longest if slot.read_bytes > LONG_ENTRIES * ENTRY_BYTES else self._long
