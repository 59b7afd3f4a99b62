"""Clients of a two-phase commit (KIP-939): what becomes of their transactions is decided elsewhere, in a store that outlives
them all, and by it alone.

Several have one transactional id, one after the other or at the same time. Each takes the store over first, so that nobody
before it decides any more, and then the transaction that is open. It commits that one if the store says so, and aborts it
otherwise. A client dies at any step, for longer than any timeout of others. What it was about to ask may arrive long after:
an end as it was decided, or an abort of what was not. So may the first try of an end that was asked for again.

That is the whole promise, so it is told at once: a transaction counts as aborted from its first record on, and as committed
from the moment of the decision.
"""

from typing import Any, NamedTuple

from actors.wire.messages import message
from tests.simulator.checkers.committed_transactions import Told
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.clients.transactions.transactional import (
    TIMEOUT_MS,
    TRANSACTION,
    GiveUp,
    Late,
    Plan,
    Transactional,
)

NOBODY = -1, -1
STEPS, KEPT_STEPS = 9, 4
"""A client dies at one step of so many, on the average; once it has kept a transaction."""
REPEATED = 2
"""One end of so many has a first try that arrives late."""
GHOST_MS = 150, 600, 12_000
"""What is late arrives within so long."""
DEATHS_MS = 10, 10, 100, 1_000, TIMEOUT_MS + 3_000


class Decision(NamedTuple):
    """What the store says of a transaction that was prepared."""

    name: str
    producer: tuple[int, int]
    """Producer id and epoch of its records."""
    commit: bool


class Store:
    """The database beside the cluster. Who owns it may decide; `decided`: what was not carried out yet, as far as it is
    known there."""

    def __init__(self) -> None:
        self.owners = 0
        self.decided: Decision | None = None

    def own(self) -> int:
        """Take it over from whoever had it."""
        self.owners += 1
        return self.owners


class Preparer(Transactional):
    """One client of a transactional id."""

    def __init__(self, client: Client, told: Told, plan: Plan, id: str, store: Store) -> None:
        super().__init__(client, told, plan, id, "")
        self.store = store
        self._owner = 0
        self._commits = False
        """Whether it is decided that the open transaction is committed."""

    async def run(self) -> None:
        """Transactions, until the client stops; what is open then is ended, since nobody else does it."""
        client = self.client
        while not client.stopping:
            try:
                await self._come_back()
                while not client.stopping:
                    await self._transaction()
                    await client.sleep(client.random.randint(1, 2 * self.plan.pause_ms))
            except GiveUp:
                await client.sleep(50)
        while True:
            try:
                await self._come_back()
                return
            except GiveUp:  # the other one came back as well
                await client.sleep(client.random.randint(50, 1_000))

    async def _come_back(self) -> None:
        """Take over, and end what is open as it was decided."""
        self._owner = self.store.own()
        request = message("InitProducerIdRequest")(
            transactional_id=self.transactional_id, transaction_timeout_ms=1, enable2_pc=True, keep_prepared_txn=True
        )
        reply = await self._ask(TRANSACTION, "InitProducerId", 6, request, lambda reply: reply.error_code)
        self._now(reply.producer_id, reply.producer_epoch)
        kept = reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch
        counts = self.client.history.counts
        self._check_owner()
        decided = self.store.decided
        if kept != NOBODY:
            counts["transactions kept"] += 1
            commit = self._commits = decided is not None and decided.commit and decided.producer == kept
            if decided is not None and decided.producer != kept:
                raise Violation("decided_transactions", f"{decided} is not carried out, and {kept} is open")
            await self._may_die(KEPT_STEPS)
            await self._finish(commit)
        elif decided is not None:
            counts["transactions that had ended"] += 1
        self.store.decided = None

    async def _transaction(self) -> None:
        name, told, random = self._begins(), self.told, self.client.random
        self._commits = False
        places = [
            (topic, number) for topic, count in self.plan.topics.items() if topic != self.plan.output
            for number in range(count)
        ]  # fmt: skip
        random.shuffle(places)
        parts = {part: random.choice((1, 1, 3)) for part in places[: 1 + random.randrange(3)]}
        told.records[name], told.aborted[name] = parts, None
        try:
            for part, count in parts.items():
                await self._write(part, name, [str(one) for one in range(count)])
                await self._may_die()
        except Late:
            await self._finish(False)
            raise GiveUp from None
        # Everything is written: that is the preparation. Who does not own the store any more decides nothing.
        self._check_owner()
        commit = self._commits = random.randrange(4) > 0
        self.store.decided = Decision(name, (self.id, self.epoch), commit)
        if commit:
            del told.aborted[name]
            told.committed[name] = None
        self.client.history.counts["transactions prepared"] += 1
        await self._may_die()
        await self._finish(commit)
        self._check_owner()
        self.store.decided = None

    async def _finish(self, commit: bool) -> None:
        random = self.client.random
        if not random.randrange(REPEATED):
            self.client.spawn(self._ghost(self._ends(commit)))
        reply = await self._ask(TRANSACTION, "EndTxn", 5, self._ends(commit), lambda reply: reply.error_code)
        self.client.history.counts["transactions ended as decided"] += 1
        self._now(reply.producer_id, reply.producer_epoch)
        await self._may_die()

    def _ends(self, commit: bool) -> Any:
        return message("EndTxnRequest")(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )

    async def _may_die(self, steps: int = STEPS) -> None:
        random = self.client.random
        if not self.client.stopping and not random.randrange(steps):
            self.client.spawn(self._ghost(self._ends(self._commits)))
            await self.client.sleep(random.choice(DEATHS_MS))
            raise GiveUp

    async def _ghost(self, request: Any) -> None:
        """A request that was given up arrives late. Nobody hears the answer."""
        random = self.client.random
        await self.client.sleep(random.randrange(random.choice(GHOST_MS)))
        target = self._coordinators[TRANSACTION]
        if target is not None:
            await self.client.ask(target, "EndTxn", 5, request, 8_000)

    def _check_owner(self) -> None:
        if self._owner != self.store.owners:
            raise GiveUp
