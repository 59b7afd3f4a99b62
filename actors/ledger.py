"""The memory that a node keeps for its peers, by owner and by principal.

Whoever keeps something whose size peers decide, longer than a turn, says here, under a name, how many bytes that are now.
This file alone decides what may be kept together. Rules:

1. An owner that is *counted* keeps the numbers itself and has a bound of its own, which `bounded_by` names
   (docs/operations.md). An owner that is *charged* has an `Account`: it asks before it keeps something.
2. An account refuses what is above its own bound, above what one principal may have in all accounts together
   (`rayft.peer.memory.principal.bytes`), or above what all have (`rayft.peer.memory.bytes`). What then becomes of a request,
   its handler decides: it gets the protocol's own error, or is served without being remembered.
3. Peers that nobody has asked who they are have one name and are many: for them the bound of a principal does not count.
   No bound counts for `NODES`: the cluster's own brokers are as many as it has, and what its logs say is kept in any case.
   What is theirs takes no room of others.
4. What is counted costs nothing before somebody asks. What is charged costs two additions.

Bytes are estimates of what Python keeps, not of what has arrived: a number of four bytes in a request may be an object of a
hundred.
"""

from collections.abc import Callable, Iterator

EVERYBODY = "User:ANONYMOUS"
"""The principal of peers on a listener without authentication."""
NODES = ""
"""In place of a principal: for a node of the cluster, or for nobody in particular, as its logs say."""
NO_BOUND = 1 << 62


class Account:
    """What one owner keeps, by principal. Invariant: `bytes` is the sum of `by_principal`, where no value is 0."""

    __slots__ = ("_ledger", "by_principal", "bytes", "bytes_max", "name", "refused")

    def __init__(self, ledger: "Ledger", name: str, bytes_max: int) -> None:
        self._ledger = ledger
        self.name = name
        self.bytes_max = bytes_max
        self.bytes = 0
        self.by_principal: dict[str, int] = {}
        self.refused = 0
        """How often there was no room."""

    def has_room(self, principal: str, size: int) -> bool:
        """Whether `size` bytes more may be kept for a principal."""
        ledger = self._ledger
        if principal == NODES or (
            self.bytes - self.by_principal.get(NODES, 0) + size <= self.bytes_max
            and ledger.charged - ledger.by_principal.get(NODES, 0) + size <= ledger.bytes_max
            and (principal == EVERYBODY or ledger.by_principal.get(principal, 0) + size <= ledger.principal_bytes_max)
        ):
            return True
        self.refused += 1
        return False

    def charge(self, principal: str, size: int) -> bool:
        """Keep `size` bytes more for a principal. False: there is no room, and nothing was charged."""
        if not self.has_room(principal, size):
            return False
        self._add(principal, size)
        return True

    def keep(self, principal: str, size: int) -> None:
        """Keep so much more, which was asked for before or cannot be refused. Below zero: less."""
        self._add(principal, size)

    def give_back(self, principal: str, size: int) -> None:
        """Note that `size` bytes that were charged for a principal are kept no more."""
        self._add(principal, -size)

    def _add(self, principal: str, size: int) -> None:
        self.bytes += size
        self._ledger.charged += size
        for sums in (self.by_principal, self._ledger.by_principal):
            now = sums.get(principal, 0) + size
            if now:
                sums[principal] = now
            else:
                sums.pop(principal, None)


class Ledger:
    """The owners of a node."""

    def __init__(self, bytes_max: int = NO_BOUND, principal_bytes_max: int = NO_BOUND) -> None:
        """Bounds of what is charged: of all together, and of one principal."""
        self.bytes_max = bytes_max
        self.principal_bytes_max = principal_bytes_max
        self.charged = 0
        """Invariant: the sum of `bytes` over all accounts."""
        self.by_principal: dict[str, int] = {}
        """Invariant: the sums over all accounts; no value is 0."""
        self._owners: dict[str, Callable[[], int]] = {}
        self.accounts: dict[str, Account] = {}
        self.bounds: dict[str, str] = {}
        """Owner -> what bounds it, as an operator may read it."""

    def owner(self, name: str, bytes_kept: Callable[[], int], bounded_by: str) -> None:
        """An owner that is counted. `bytes_kept()`: how much is kept under that name now. It looks at few numbers."""
        assert name not in self._owners, f"{name} has an owner"
        self._owners[name] = bytes_kept
        self.bounds[name] = bounded_by

    def account(self, name: str, bytes_max: int) -> Account:
        """An owner that is charged."""
        found = self.accounts[name] = Account(self, name, bytes_max)
        self.owner(name, lambda: found.bytes, f"{bytes_max >> 20} MiB")
        return found

    def kept(self) -> Iterator[tuple[str, int]]:
        """Each owner, and how many bytes it keeps."""
        for name, bytes_kept in self._owners.items():
            yield name, bytes_kept()

    def refused(self) -> Iterator[tuple[str, int]]:
        """Each owner that is charged, and how often it had no room."""
        for name, one in self.accounts.items():
            yield name, one.refused

    def largest(self, count: int) -> list[tuple[str, int]]:
        """The principals for which most is kept, and how many bytes."""
        return sorted(self.by_principal.items(), key=lambda one: (-one[1], one[0]))[:count]

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.charged == sum(one.bytes for one in self.accounts.values())
        sums: dict[str, int] = {}
        for one in self.accounts.values():
            assert one.bytes == sum(one.by_principal.values()) and 0 not in one.by_principal.values()
            assert all(size > 0 for size in one.by_principal.values()), (one.name, one.by_principal)
            for principal, size in one.by_principal.items():
                sums[principal] = sums.get(principal, 0) + size
        assert sums == self.by_principal
