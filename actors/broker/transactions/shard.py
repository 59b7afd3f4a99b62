"""One partition of `__transaction_state` in the memory of its coordinator: transactional ids, and what is on its way.

It alone decides what memory counts as used. Invariant: `entries` has what is committed, and nothing until `loaded`.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from actors.broker.transactions.records import TransactionLine
from actors.broker.transactions.state import AT_REST, Transaction, TransactionState
from actors.ports import Now

ENTRY_BYTES = 800
"""The bytes that a transactional id takes in memory, besides its name."""
PARTITION_BYTES = 250
"""The bytes that a partition of a transaction takes in memory."""


class WaitingRequest(NamedTuple):
    """A request that waits for the end of a transaction. `again` asks once more, and waits no more."""

    until_ms: int
    again: Callable[[Now], None]


class TransactionEntry:
    """A transactional id in memory. `pending`: the state that is being written; nothing else may begin meanwhile.
    `held`: requests for the next transaction that wait for the end of this one."""

    __slots__ = ("held", "id", "pending", "transaction")

    def __init__(self, id: str, transaction: Transaction) -> None:
        self.id = id
        self.transaction = transaction
        self.pending: TransactionState | None = None
        self.held: list[WaitingRequest] = []

    @property
    def bytes(self) -> int:
        """The memory that the id takes, about."""
        return ENTRY_BYTES + len(self.id) + PARTITION_BYTES * len(self.transaction.partitions)


class Shard:
    """One partition of `__transaction_state` that this broker leads, in one leader epoch: the coordinator epoch of its
    markers."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch
        self.loaded = False
        self.entries: dict[str, TransactionEntry] = {}
        self.strange: dict[str, str] = {}
        """Ids whose last record cannot be read here, and why: kept in the log, and refused."""
        self.open: dict[str, None] = {}
        """Transactional ids with an open transaction, whose time may run out."""
        self.resting: OrderedDict[str, None] = OrderedDict()
        """Transactional ids at rest, the one first that has been so for longest."""
        self.bytes = 0
        """The memory that the entries take, about."""

    def take(self, line: TransactionLine) -> None:
        """Take in a record of the log."""
        self.strange.pop(line.id, None)
        if line.transaction is None:
            self.drop(line.id)
            if line.strange:
                self.strange[line.id] = line.strange
        elif (entry := self.entries.get(line.id)) is None:
            self.put(TransactionEntry(line.id, line.transaction))
        else:
            self.set(entry, line.transaction)

    def put(self, entry: TransactionEntry) -> None:
        """Add a new transactional id."""
        self.entries[entry.id] = entry
        self.bytes += entry.bytes
        self._note(entry)

    def set(self, entry: TransactionEntry, transaction: Transaction) -> None:
        """Replace the transaction of an id by what is committed."""
        self.bytes -= entry.bytes
        entry.transaction = transaction
        self.bytes += entry.bytes
        self._note(entry)

    def drop(self, id: str) -> None:
        """Remove a transactional id."""
        entry = self.entries.pop(id, None)
        if entry is not None:
            self.bytes -= entry.bytes
            self.open.pop(id, None)
            self.resting.pop(id, None)

    def _note(self, entry: TransactionEntry) -> None:
        if entry.transaction.state is TransactionState.ONGOING:
            self.open[entry.id] = None
        else:
            self.open.pop(entry.id, None)
        self.resting.pop(entry.id, None)
        if entry.transaction.state in AT_REST:
            self.resting[entry.id] = None

    def check(self) -> None:
        """Assert the invariants; called after each step in tests."""
        assert self.bytes == sum(entry.bytes for entry in self.entries.values())
        ongoing = {id for id, entry in self.entries.items() if entry.transaction.state is TransactionState.ONGOING}
        assert set(self.open) == ongoing
        assert set(self.resting) == {id for id, one in self.entries.items() if one.transaction.state in AT_REST}
        for entry in self.entries.values():
            transaction = entry.transaction
            assert transaction.state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
            assert not (transaction.state in AT_REST and transaction.partitions)
