"""The values of a sink's protocol: what a task attempt leaves, what the ledger holds, and what a driver asks for.

This file alone decides them. All are plain values, so that the same protocol runs in Spark, in Ray Data and in a model.
"""

from enum import StrEnum
from typing import NamedTuple

from actors.client.errors import ClientError

LEDGER = "rayft-sinks"
"""The ledger's topic, unless the options say otherwise."""


class Attempt(NamedTuple):
    """A task attempt that has written everything and left its transaction open."""

    id: str
    """The transactional id of its own."""
    producer_id: int
    epoch: int
    counts: tuple[tuple[str, int, int, int], ...]
    """(topic, partition, how many rows, the offset of the last one or -1 if it is not known)."""


class State(StrEnum):
    """How far a sink is, as the ledger says."""

    OPEN = "open"
    """A driver has begun; nothing is decided and not carried out."""
    DECIDED = "decided"
    """The transactions of a batch are to be committed, by whoever comes here."""
    DONE = "done"
    """The transactions of the batch are committed, and no others were left open."""


class Record(NamedTuple):
    """What the ledger holds of a sink: its newest record is all that counts."""

    state: State
    opening: int
    """Counts how often drivers have begun. One that is behind may decide nothing."""
    batch: int
    """The last batch that was decided; -1: none."""
    query: str
    """The query whose batches these are; empty: those of single jobs."""
    run: str
    """The run of that query that decided the last batch; empty: none that can be told from others."""
    base: int
    """The opening with which the transactional ids of that run begin."""
    attempts: tuple[Attempt, ...] = ()
    """The attempts of the batch, as long as it is decided and not done."""


class Grant(NamedTuple):
    """What a driver that has opened a sink gives to its tasks."""

    sink: str
    opening: int
    decided: int
    """The last batch that was decided: none up to it is written again."""
    query: str
    run: str
    base: int
    ledger: str = LEDGER
    cluster: str = ""
    """The cluster's id."""
    claim: tuple[int, int] | None = None
    """The producer id and epoch of the driver's own transactional id. They change before the batch is decided. None: they
    are not known."""
    ahead_ms: int = 0
    """How far the brokers' clock is ahead of the driver's, ms."""

    def base_of(self, run: str) -> int:
        """The opening with which the transactional ids of a run begin. A run keeps the first one, so that ids are few."""
        return self.base if run and run == self.run else self.opening


class Seen(NamedTuple):
    """What a coordinator says of a transactional id."""

    producer_id: int
    epoch: int
    is_open: bool
    left_ms: int | None
    """How long the transaction may stay open; None: there is no limit."""
    limit_ms: int = 0
    """The transaction.timeout.ms that it has."""


class Fate(StrEnum):
    """What became of a transaction, as far as its topics show it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The topics do not show it: the records are gone."""


# ---- what a driver asks of a cluster


class Claim(NamedTuple):
    """Take the driver's own transactional id: nobody who took it before can write to the ledger any more."""


class Read(NamedTuple):
    """Read the newest record of the sink in the ledger, behind everything that was written before: a Record or None."""


class Write(NamedTuple):
    """Write a record in a transaction of the last claim: None, or the ClientError of one that may not have been written."""

    record: Record


class Inspect(NamedTuple):
    """Ask what is open: `Seen` by transactional id."""

    attempts: tuple[Attempt, ...]
    ahead_ms: int = 0
    """How far the brokers' clock is ahead of the driver's, ms."""


class Commit(NamedTuple):
    """Commit transactions: the attempts that could not be, each with the reason."""

    attempts: tuple[Attempt, ...]


class Trace(NamedTuple):
    """Look what became of transactions that could not be committed: `Fate` by transactional id."""

    attempts: tuple[Attempt, ...]


class List(NamedTuple):
    """The transactional ids of the sink's tasks."""

    all: bool = False
    """Whether those are wanted too that have no open transaction."""


class Fence(NamedTuple):
    """Abort the transactions of some ids, and whatever else their producers do."""

    ids: tuple[str, ...]


Effect = Claim | Read | Write | Inspect | Commit | Trace | List | Fence


# ---- errors


class SinkFailed(ClientError):
    """A sink cannot go on. The text is one sentence."""


class Overtaken(SinkFailed):
    """Another driver has opened the sink."""


class OtherQuery(SinkFailed):
    """The sink belongs to another query."""


class NotOpen(SinkFailed):
    """A transaction has ended, or will soon, before its batch was decided: nothing is written, and nothing lost."""


class RowsLost(SinkFailed):
    """A transaction ended after the batch was decided: its rows are in no topic, or nobody can say whether they are."""


class LedgerLost(SinkFailed):
    """The ledger lacks what the sink has written to it."""


class WentBack(SinkFailed):
    """A batch is in front of the last one that was decided."""
