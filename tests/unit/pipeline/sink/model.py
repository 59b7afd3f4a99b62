"""A model of everything around a sink's protocol: brokers with transactions, a ledger, drivers, and tasks that crash.

A run is a function of its seed. Its agents (drivers, task attempts) take turns in an order of chance; the brokers lose
answers, time transactions out, and carry out what a dead agent asked. The rows that a reader of committed records sees are
counted after each step.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.pipeline.sink import names, steps, values
from actors.pipeline.sink.values import Attempt, Fate, Grant, LedgerLost, Record, RowsLost, Seen, SinkFailed, WentBack

SINK = "orders"
TOPIC = "out"


class Wrong(AssertionError):
    """What no run may show."""


@dataclass
class Transaction:
    """The state of one transactional id."""

    epoch: int = 0
    rows: list[str] | None = None
    """What the open transaction has written; None: none is open."""
    last: tuple[int, str] = (-1, "")
    """The epoch and the end of the last transaction."""
    writer: Any = None
    is_forgotten: bool = False
    """Whether its coordinator has dropped the id."""


@dataclass
class Brokers:
    """Transactions and a ledger."""

    chance: random.Random
    ids: dict[str, Transaction] = field(default_factory=dict)
    visible: Counter[str] = field(default_factory=Counter)
    claimed: int = 0
    ledger: Record | None = None
    history: list[Record] = field(default_factory=list)
    timed_out: dict[tuple[str, int], int] = field(default_factory=dict)
    """(id, epoch) of transactions that were timed out -> how many effects there were before."""
    inspected: dict[tuple[str, int], int] = field(default_factory=dict)
    effects: int = 0
    decided_too_late: bool = False
    """Whether a batch was decided with a transaction that had ended when it was looked at last, or was never looked at."""
    fences: bool = True
    """Whether a claim keeps earlier ones from writing; False is a planted mistake."""
    fates: dict[tuple[str, int], Fate] = field(default_factory=dict)
    """(id, epoch) -> how the transaction ended, as its topics show it."""
    remembers: bool = True
    """Whether topics show what became of transactions; False is a planted mistake."""

    def begin(self, id: str, writer: Any) -> int:
        """InitProducerId: what is open is aborted."""
        one = self.ids.setdefault(id, Transaction())
        self.abort(id)
        one.writer, one.is_forgotten = writer, False
        return one.epoch

    def abort(self, id: str) -> None:
        """Raise the epoch, and abort what is open."""
        one = self.ids[id]
        if one.rows is not None:
            self.fates[id, one.epoch] = Fate.ABORTED
        one.epoch, one.rows = one.epoch + 1, None

    def forget(self) -> None:
        """Drop the ids whose transactions and tasks are over, as coordinators do after some days."""
        for one in self.ids.values():
            one.is_forgotten = one.is_forgotten or (one.rows is None and one.writer is not None and one.writer.over)

    def write(self, id: str, epoch: int, row: str) -> None:
        """Add a row to the open transaction."""
        one = self.ids[id]
        if one.epoch != epoch:
            raise SinkFailed("fenced")
        one.rows = [*(one.rows or []), row]

    def end(self, id: str, epoch: int) -> str:
        """EndTxn with a commit: why it could not be done; empty: it is."""
        one = self.ids[id]
        if one.is_forgotten:
            return "INVALID_PRODUCER_ID_MAPPING"
        if one.epoch != epoch:
            return "PRODUCER_FENCED"
        if one.rows is None:
            return "" if one.last == (epoch, "commit") else "INVALID_TXN_STATE"
        for row in one.rows:
            self.visible[row] += 1
            if self.visible[row] > 1:
                raise Wrong(f"row {row} is there twice")
        one.rows, one.last = None, (epoch, "commit")
        self.fates[id, epoch] = Fate.COMMITTED
        return ""

    def time_out(self) -> None:
        """End one of the open transactions."""
        found = [(id, one) for id, one in self.ids.items() if one.rows is not None]
        if found:
            id, one = self.chance.choice(found)
            self.timed_out[id, one.epoch] = self.effects
            self.abort(id)

    # ---- what a driver asks

    def carry_out(self, effect: Any, claim: list[int]) -> Any:
        """Do what a driver asks. `claim`: its last claim."""
        self.effects += 1
        if isinstance(effect, values.Claim):
            self.claimed += 1
            claim[:] = [self.claimed]
            return None
        if isinstance(effect, values.Read):
            return self.ledger
        if isinstance(effect, values.Write):
            if self.fences and claim[0] != self.claimed:
                return SinkFailed("the ledger: fenced")
            if self.chance.random() < 0.05:
                if self.chance.random() < 0.5:
                    self._record(effect.record)
                return SinkFailed("the ledger: the answer was lost")
            self._record(effect.record)
            return None
        if isinstance(effect, values.Inspect):
            self.inspected |= {(one.id, one.epoch): self.effects for one in effect.attempts}
            return {
                one.id: Seen(0, self.ids[one.id].epoch, self.ids[one.id].rows is not None, None)
                for one in effect.attempts
            }
        if isinstance(effect, values.Commit):
            told = [(one, self.end(one.id, one.epoch)) for one in effect.attempts]
            return tuple((one, why) for one, why in told if why)
        if isinstance(effect, values.Trace):
            shown = self.fates if self.remembers else {}
            return {one.id: shown.get((one.id, one.epoch), Fate.ABORTED) for one in effect.attempts}
        if isinstance(effect, values.List):
            prefix = f"{names.FAMILY}/{SINK}/"
            return tuple(
                id for id, one in self.ids.items()
                if id.startswith(prefix) and not one.is_forgotten and (effect.all or one.rows is not None)
            )  # fmt: skip
        assert isinstance(effect, values.Fence)
        for id in effect.ids:
            self.abort(id)
        return None

    def _record(self, record: Record) -> None:
        for one in record.attempts:
            key = one.id, one.epoch
            self.decided_too_late |= self.timed_out.get(key, 1 << 30) <= self.inspected.get(key, 1 << 30) - 1
        self.ledger = record
        self.history.append(record)


@dataclass
class Message:
    """What a task gives back to its driver."""

    attempt: Attempt | None


@dataclass(eq=False)
class Task:
    """One attempt at the rows of one task."""

    brokers: Brokers
    grant: Grant
    run: str
    ids: Any
    partition: int
    rows: list[str]
    batch: int
    dedup: Any
    looks: bool = True
    """Whether it looks in the end if it comes too late; False is a planted mistake."""
    over: bool = False
    message: Message | None = None
    ended_at: int = -1

    def steps(self) -> Iterator[None]:
        """Begin, write row by row, and give a message back."""
        if not self.dedup(self):
            self.message = Message(None)
            return
        id = self.ids.take(self.grant, self.run)
        yield
        epoch = self.brokers.begin(id, self)
        for row in self.rows:
            yield
            self.brokers.write(id, epoch, row)
        yield
        if self.looks and self.rows and self.grant.claim != (0, self.brokers.claimed):
            now = self.brokers.ledger
            if now is None or now.opening != self.grant.opening or now.batch >= self.batch:
                if self.brokers.ids[id].epoch == epoch:
                    self.brokers.abort(id)
                raise SinkFailed("this task attempt comes too late")
        counts = ((TOPIC, self.partition, len(self.rows), 0),)
        self.message = Message(Attempt(id, 0, epoch, counts) if self.rows else None)


def writes(task: Task) -> bool:
    """Whether a task writes: its batch was not decided."""
    return task.batch > task.grant.decided


@dataclass
class Worker:
    """A process that writes for tasks, one after the other."""

    ids: Any
    task: Task | None = None


class World:
    """A query with its drivers, one after the other, and sometimes beside each other."""

    def __init__(
        self, seed: int, crashes: float = 0.02, timeouts: float = 0.0, late: float = 0.0, forgets: float = 0.0,
        losses: float = 0.0, backwards: float = 0.0, tables: dict[str, Any] | None = None,
    ):  # fmt: skip
        """How often something happens at a step: `late`: an attempt of an older opening begins; `forgets`: coordinators drop
        ids; `losses`: the ledger is deleted. `backwards`: how often a query begins with an older checkpoint."""
        self.chance = random.Random(seed)
        self.brokers = Brokers(self.chance)
        self.crashes, self.timeouts = crashes, timeouts
        self.late, self.forgets, self.losses, self.backwards = late, forgets, losses, backwards
        self.tables = {
            "opening": steps.OPENING, "deciding": steps.DECIDING, "giving_up": steps.GIVING_UP
        } | (tables or {})  # fmt: skip
        batches = self.chance.randint(2, 4)
        self.rows = [[f"{n}.{k}" for k in range(self.chance.randint(0, 6))] for n in range(batches)]
        self.committed = -1
        """The last batch that Spark's checkpoint has as committed."""
        self.agents: list[tuple[Any, Iterator[None]]] = []
        self.now = 0
        self.begun_at: dict[int, int] = {}
        """When a piece of work began to commit."""
        self.works: list[steps.Work] = []
        self.workers: dict[str, list[Worker]] = {}
        """The processes of a run."""
        self.ids: Any = names.Ids
        """The transactional ids of a process."""
        self.given: list[tuple[Grant, str, int, int, list[str]]] = []
        """The tasks that were given to workers."""
        self.looks = True
        self.ends_all = True
        """Whether all tasks that came to their end have ended their transactions when the query is over."""
        self.dedup: Any = writes
        self.slow: set[Any] = set()
        """Drivers that hardly come to anything while others do."""
        self.turning: Any = None
        """Whose turn it is."""
        self.slows = 0.02
        """How often, at a step, such a driver becomes slow."""
        self.beside = 0.3
        """How often a driver begins while another one still runs."""
        self.lost: RowsLost | None = None
        self.refused: SinkFailed | None = None
        """The error with which the query cannot go on: it lacks its ledger, or has an older checkpoint."""
        self.has_gone_back = False
        self.overtaken = 0

    # ---- agents

    def driver(self, run: str) -> Iterator[None]:
        """A driver from its checkpoint to the last batch."""
        claim: list[int] = []
        for batch in range(self.committed + 1, len(self.rows)):
            grant = yield from self.work(steps.opening(SINK, steps=self.tables["opening"]), claim)
            grant = grant._replace(claim=(0, claim[0]))
            tasks = self.tasks(grant, run, batch)
            messages = yield from self.awaited(tasks, grant, run, batch)
            if messages is None:
                yield from self.work(steps.giving_up(grant, batch, "q", self.tables["giving_up"]), claim)
                raise SinkFailed("the batch has failed")
            attempts = tuple(one.attempt for one in messages if one.attempt is not None)
            work = steps.deciding(grant, batch, attempts, "q", run, follows=True, steps=self.tables["deciding"])
            try:
                result = yield from self.work(work, claim)
            except SinkFailed as error:
                if isinstance(error, RowsLost | LedgerLost | WentBack):
                    raise
                yield from self.work(steps.giving_up(grant, batch, "q", self.tables["giving_up"]), claim)
                raise
            if result == steps.DECIDED:
                self.nothing_left(work.facts.opening, self.begun_at[id(work)])
            self.committed = max(self.committed, batch)
            yield

    def work(self, work: steps.Work, claim: list[int]) -> Iterator[Any]:
        """Carry out a piece of work, with a step of the others between any two."""
        self.begun_at[id(work)] = self.now
        self.works.append(work)
        while work.result is None:
            yield
            effect = work.effect
            if isinstance(effect, values.Commit):
                self.begun_at[id(work)] = self.now
                for one in effect.attempts:  # each end is a request of its own
                    yield
                    self.brokers.carry_out(values.Commit((one,)), claim)
            answer = self.brokers.carry_out(effect, claim)
            if self.chance.random() < self.crashes / 2:
                raise SinkFailed("the brokers gave no answer in time")
            work.take(answer)
        return work.result

    def tasks(self, grant: Grant, run: str, batch: int) -> list[list[str]]:
        """The rows of a batch, cut into tasks: anew at each repetition."""
        cut = self.chance.randint(1, 3)
        rows = self.rows[batch]
        return [rows[n::cut] for n in range(cut)]

    def attempt(self, grant: Grant, run: str, batch: int, number: int, rows: list[str]) -> Task:
        """Begin an attempt. Some workers write several of a batch."""
        self.given.append((grant, run, batch, number, rows))
        own = self.workers.setdefault(run, [])
        idle = [one for one in own if one.task is None or one.task.over]
        if not idle or self.chance.random() < 0.1:
            own.append(Worker(self.ids(f"{run}.{len(own)}")))
            idle = own[-1:]
        worker = self.chance.choice(idle)
        task = worker.task = Task(self.brokers, grant, run, worker.ids, number, rows, batch, self.dedup, self.looks)
        self.agents.append((task, task.steps()))
        return task

    def awaited(self, tasks: list[list[str]], grant: Grant, run: str, batch: int) -> Iterator[Any]:
        """Run tasks with failures and speculation. Returns one message a task; None: too many attempts have failed."""
        chosen: list[Message] = []
        for number, rows in enumerate(tasks):
            running = [self.attempt(grant, run, batch, number, rows)]
            found: Message | None = None
            for _ in range(200):
                yield
                if self.chance.random() < 0.1 and len(running) < 3:
                    running.append(self.attempt(grant, run, batch, number, rows))
                done = [one for one in running if one.message is not None]
                if done:
                    one = self.chance.choice(done)
                    if self.chance.random() < 0.1:
                        running.remove(one)  # its message was lost with its executor
                    else:
                        found = one.message
                        break
                if all(one.over for one in running):
                    if len(running) > 2:
                        return None
                    running.append(self.attempt(grant, run, batch, number, rows))
            if found is None:
                return None
            chosen.append(found)
        return chosen

    # ---- the run

    def nothing_left(self, opening: int, before: int) -> None:
        """Check that nothing is open that had ended before the batch was committed."""
        now = self.brokers.ledger
        if now is None or now.opening != opening or now.state is not values.State.DONE:
            return  # whoever has opened the sink, or will, deals with it
        for id, one in self.brokers.ids.items():
            if one.rows is not None and one.writer is not None and one.writer.over and one.writer.ended_at < before:
                raise Wrong(f"transaction {id} is left open")

    def turn(self, index: int) -> SinkFailed | None:
        """Let one agent take a step. Returns the error with which it ended."""
        agent, going = self.agents[index]
        self.now += 1
        self.turning = agent
        error: SinkFailed | None = None
        try:
            next(going)
            if self.chance.random() >= self.crashes:
                return None
        except StopIteration:
            pass
        except SinkFailed as failed:
            error = failed
        self.end(agent)
        return error

    def end(self, agent: Any) -> None:
        self.agents = [one for one in self.agents if one[0] is not agent]
        if isinstance(agent, Task):
            agent.over, agent.ended_at = True, self.now

    def go(self) -> None:
        """Run the query to its end, whatever crashes. Raises Wrong."""
        runs = 0
        while self.committed < len(self.rows) - 1 and self.lost is None and self.refused is None:
            runs += 1
            if runs > 40:
                raise Wrong("the query does not come to its end")
            if runs > 12:
                self.crashes = self.timeouts = self.late = self.forgets = self.losses = self.backwards = 0.0
            if self.backwards and self.committed > 0 and self.chance.random() < self.backwards:
                self.go_back()
            name = f"run{runs}"
            self.agents.append((name, self.driver(name)))
            beside = runs <= 12 and self.chance.random() < self.beside
            for _ in range(self.chance.randint(1, 60) if beside else 4000):
                if beside and self.chance.random() < self.slows:
                    self.slow.add(name)
                if not any(agent == name for agent, _ in self.agents):
                    break
                self.step()
        for _ in range(3000):
            if not self.agents:
                break
            self.step()
        self.check()

    def go_back(self) -> None:
        """Begin with a checkpoint that is older by two batches or more, from which they are planned in another way."""
        self.has_gone_back = True
        for agent, _ in list(self.agents):
            self.end(agent)
        self.committed = self.chance.randrange(-1, self.committed - 1)
        left = [row for rows in self.rows[self.committed + 1 :] for row in rows]
        cut = self.chance.randint(1, 3)
        self.rows[self.committed + 1 :] = [left[len(left) * n // cut : len(left) * (n + 1) // cut] for n in range(cut)]

    def step(self) -> None:
        """One step of anybody."""
        if self.timeouts and self.chance.random() < self.timeouts:
            self.brokers.time_out()
        if self.forgets and self.chance.random() < self.forgets:
            self.brokers.forget()
        if self.losses and self.chance.random() < self.losses:
            self.brokers.ledger = None
        if self.late and self.given and self.chance.random() < self.late:
            self.attempt(*self.chance.choice(self.given[-8:]))
        index = self.chance.randrange(len(self.agents))
        if self.agents[index][0] in self.slow and len(self.agents) > 1 and self.chance.random() < 0.97:
            return
        error = self.turn(index)
        if isinstance(error, RowsLost):
            self.lost = error
        if isinstance(error, LedgerLost) or (isinstance(error, WentBack) and self.has_gone_back):
            self.refused = error  # else it is a driver beside one that was faster
        self.overtaken += isinstance(error, values.Overtaken)

    def check(self) -> None:
        """Check what readers see in the end."""
        for batch, rows in enumerate(self.rows[: self.committed + 1]):
            missing = [row for row in rows if not self.brokers.visible[row]]
            if missing and self.lost is None and self.refused is None:
                raise Wrong(f"rows {missing} of batch {batch} are missing")
        if self.lost is not None and (not self.brokers.timed_out or self.brokers.decided_too_late):
            raise Wrong(f"rows were lost, and no transaction was timed out behind a decision: {self.lost}")
        ledger = self.brokers.ledger
        if ledger is not None and ledger.state is values.State.DONE and self.refused is None and self.ends_all:
            for id, one in self.brokers.ids.items():
                if one.rows is not None and one.writer is not None and one.writer.message is not None:
                    raise Wrong(f"transaction {id} of a task that came to its end is left open")
