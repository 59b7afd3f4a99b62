"""The bound on how much is read between two turns of the node, and of which connections.

A turn begins when everything has been read that one poll found. Without a bound a hundred connections that send requests of
1 MB bring half a gigabyte in one poll, and for that time, 200 ms and more, the node hears of nothing that controllers say.
This file alone decides how much the connections of a plane may bring in one pass. Rules:

1. All together may bring `PASS_BYTES` in a pass, or `CROWD_BYTES` if several want more than their share. That is the share
   of one, too; when it is used up, others may still bring `LEAST_BYTES` each. So a small request passes whatever other
   connections do, and one connection alone is not read in small pieces.
2. A connection that has brought its share, and may have more, stands in a line and is not read. When no other
   connection stands there it goes on as long as there is room in the pass.
3. The next pass lets in one of the line. Hosts take turns, and so do the connections of a host.
4. When a controller has said something, those that have not begun in this pass bring `LEAST_BYTES`: the turn begins soon.

What comes over TLS counts by its records too (`tls_link.py`).

Connections that this node has opened, and those of listeners for nodes alone, have no budget.
"""

from typing import Protocol

from actors.node.runtime.turns import Turns

PASS_BYTES = 1 << 20
CROWD_BYTES = PASS_BYTES // 4
"""How many bytes several connections bring in a pass. A controller's word waits for it, and for what the node does with
it."""
LEAST_BYTES = 16 << 10


class BudgetedConnection(Protocol):
    """A connection, as the budget sees it."""

    peer_host: str
    share: int
    """How many bytes the connection may still bring in pass `share_of`."""
    share_of: int

    def stand(self, stands: bool) -> bool:
        """Put the connection into the line, where it is not read, or take it out. Returns whether it is read now."""
        ...


class ReadBudget:
    """The bytes that the connections of a plane may bring in a pass."""

    def __init__(self) -> None:
        self._pass = 0
        self.left = PASS_BYTES
        """Bytes that all together may still bring in this pass, before each gets the least."""
        self._share = PASS_BYTES
        """Bytes that one connection may bring at once in this pass."""
        self._line: Turns[BudgetedConnection] = Turns()
        """The connections that wait to be read on."""

    def share(self, one: BudgetedConnection) -> int:
        """How many bytes `one` may bring at once; more than 0."""
        if one.share_of != self._pass:
            one.share_of, one.share = self._pass, self._share if self.left > 0 else LEAST_BYTES
        return one.share

    def took(self, one: BudgetedConnection, size: int) -> bool:
        """Note that `one` has brought `size` bytes after it was asked for its share. Returns whether it stands in the
        line now."""
        self.left -= size
        one.share -= size
        if one.share > 0:
            return False
        if not self._line.hosts and self.left > 0:
            one.share = min(self._share, self.left)
            return False
        self._line.put(one.peer_host, id(one), one)
        one.stand(True)
        return True

    def hurry(self) -> None:
        """Let the turn begin soon, since a controller has said something."""
        self.left = min(self.left, 0)

    def renew(self) -> bool:
        """Begin the next pass. Returns whether any connection still stands in the line."""
        self._pass += 1
        hosts = self._line.hosts
        several = len(hosts) > 1 or any(len(connections) > 1 for connections in hosts.values())
        self.left = self._share = CROWD_BYTES if several else PASS_BYTES
        while hosts and not self._line.take().stand(False):
            pass
        return bool(hosts)

    def leave(self, one: BudgetedConnection) -> None:
        """Take a connection that is gone out of the line."""
        self._line.drop(one.peer_host, id(one))
