"""A line in which hosts take turns, and within a host its connections, by one entry each.

Those of a connection are taken in the order in which they were put. A host that goes to the end of the line, goes there with
what its other connections have; so many connections, or many entries of one, delay another host by one entry.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Entries of connections, by host. Invariant: neither a host nor a connection is kept without an entry; so the line is
    empty when `hosts` is."""

    __slots__ = ("hosts",)

    def __init__(self) -> None:
        self.hosts: OrderedDict[str, OrderedDict[int, deque[T]]] = OrderedDict()

    def put(self, host: str, conn: int, entry: T) -> None:
        """Put an entry behind the others of its connection."""
        self._of(host, conn).append(entry)

    def put_back(self, host: str, conn: int, entry: T) -> None:
        """Put an entry that was taken before all others, so that it is taken next."""
        self._of(host, conn).appendleft(entry)
        self.hosts[host].move_to_end(conn, last=False)
        self.hosts.move_to_end(host, last=False)

    def take(self) -> T:
        """Take the next entry; the line must not be empty."""
        host, connections = next(iter(self.hosts.items()))
        conn, queue = next(iter(connections.items()))
        entry = queue.popleft()
        if queue:
            connections.move_to_end(conn)
        else:
            del connections[conn]
        if connections:
            self.hosts.move_to_end(host)
        else:
            del self.hosts[host]
        return entry

    def drop(self, host: str, conn: int) -> list[T]:
        """Take out the entries of a connection."""
        connections = self.hosts.get(host)
        if connections is None or conn not in connections:
            return []
        queue = connections.pop(conn)
        if not connections:
            del self.hosts[host]
        return list(queue)

    def firsts(self) -> Iterator[T]:
        """The first entry of each connection. The line must not be changed while the caller iterates."""
        for connections in self.hosts.values():
            for queue in connections.values():
                yield queue[0]

    def _of(self, host: str, conn: int) -> deque[T]:
        connections = self.hosts.get(host)
        if connections is None:
            connections = self.hosts[host] = OrderedDict()
        queue = connections.get(conn)
        if queue is None:
            queue = connections[conn] = deque()
        return queue
