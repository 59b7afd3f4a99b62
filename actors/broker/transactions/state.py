"""What a transactional id is: its producer, the state of its transaction, and which state may follow which.

This file alone decides which steps are legal. What a request makes of a state is in `rules.py`. Rules:

1. A `Transaction` is a value. A step makes a new one; it holds once its record is committed.
2. A state follows only those that `PREVIOUS` names. PREPARE_EPOCH_FENCE is never written: it names an abort that the
   coordinator itself begins with a raised epoch.
3. Up to transaction version 1 only an Ongoing transaction is ended. From version 2 on an abort may end one that has no
   partition: the client need not know whether a batch has arrived.
4. A producer that comes back may keep the transaction that it left open (KIP-939). That one goes on under the ids that
   its batches have; the client gets a pair of its own, `next_id` and `next_epoch`, so that whoever had the one before is
   fenced. With the end that pair, raised once more, is the producer.
"""

import enum
from typing import Any, NamedTuple

NO_ID = -1
NO_EPOCH = -1
NO_TIME_MS = -1
EPOCH_MAX = 2**15 - 1
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of transactions that take part in a two-phase commit (KIP-939): they have none."""

TopicPartition = tuple[str, int]


class TransactionState(enum.Enum):
    """States of a transaction: number in the record, and the name that Kafka's tools show."""

    EMPTY = 0, "Empty"
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    def __init__(self, number: int, shown: str) -> None:
        self.number = number
        self.shown = shown


BY_NUMBER = {state.number: state for state in TransactionState}
BY_NAME = {state.shown: state for state in TransactionState}

COMPLETE = frozenset((TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))
PREPARED = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
AT_REST = COMPLETE | {TransactionState.EMPTY}
"""The states in which no transaction is open, and none is being ended."""
COMPLETION = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}

PREVIOUS: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: AT_REST,
    TransactionState.ONGOING: AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.ONGOING,)),
    TransactionState.PREPARE_ABORT: AT_REST | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset((TransactionState.PREPARE_COMMIT,)),
    TransactionState.COMPLETE_ABORT: frozenset((TransactionState.PREPARE_ABORT,)),
    TransactionState.DEAD: AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset((TransactionState.ONGOING,)),
}
"""The states that a state may follow."""


class IllegalStep(AssertionError):
    """A mistake in the rules: a state that may not follow the present one."""


class Transaction(NamedTuple):
    """A transactional id as its last record says. Times are wall milliseconds, NO_TIME_MS without one."""

    producer_id: int
    producer_epoch: int
    """The epoch of the producer; NO_EPOCH: the id was just made, and nothing is written of it yet."""
    last_epoch: int
    """The epoch before the present one, of which a request may be repeated; NO_EPOCH: none. It is not in the record."""
    previous_id: int
    """The producer id of the record before."""
    next_id: int
    """The producer id that takes over when the transaction has ended, because the epochs of the present one are used
    up, or because the client has another one: see `next_epoch`."""
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    """The partitions of the transaction. Invariant: empty where no transaction is open, save while an abort without
    partitions is on its way."""
    started_ms: int
    """When the open transaction, or else the last one, began."""
    updated_ms: int
    client_version: int
    """The transaction version of the client that took the last step: 0, or 2 where each end raises the epoch."""
    next_epoch: int = NO_EPOCH
    """The epoch that belongs to `next_id`, once a producer has kept its open transaction; NO_EPOCH: none has, and a
    `next_id` begins with 0."""

    @property
    def kept(self) -> bool:
        """Whether a producer has come back and kept the transaction: it may only end it."""
        return self.state is TransactionState.ONGOING and self.next_epoch != NO_EPOCH

    @property
    def held_by(self) -> tuple[int, int]:
        """The producer id and epoch that the client has. Those of a kept transaction are not `producer_id` and
        `producer_epoch`, with which its batches and markers are written."""
        return (self.next_id, self.next_epoch) if self.kept else (self.producer_id, self.producer_epoch)

    @property
    def epochs_used_up(self) -> bool:
        """Whether no epoch is left to give to a producer: the last one is kept for fencing it."""
        return used_up(self.producer_epoch)

    def step(self, state: TransactionState, **changes: Any) -> "Transaction":
        """The transaction with another state and other fields. Raises IllegalStep if the state may not follow, or there
        is no producer."""
        if self.state not in PREVIOUS[state]:
            raise IllegalStep(f"{state.shown} cannot follow {self.state.shown}")
        found = self._replace(state=state, **{"previous_id": self.producer_id, **changes})
        if found.producer_id < 0 or (found.producer_epoch < 0 and state is not TransactionState.DEAD):
            raise IllegalStep(f"{state.shown} without a producer: id {found.producer_id}, epoch {found.producer_epoch}")
        return found


def used_up(epoch: int) -> bool:
    """Whether a producer with this epoch cannot get a higher one under the same id."""
    return epoch >= EPOCH_MAX - 1


def created(producer_id: int, timeout_ms: int, wall_ms: int) -> Transaction:
    """A transactional id that was not known before."""
    return Transaction(
        producer_id,
        NO_EPOCH,
        NO_EPOCH,
        NO_ID,
        NO_ID,
        timeout_ms,
        TransactionState.EMPTY,
        frozenset(),
        NO_TIME_MS,
        wall_ms,
        0,
    )
