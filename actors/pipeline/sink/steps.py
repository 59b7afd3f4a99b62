"""What a sink's driver does, step by step: opening a sink, deciding a batch, and giving one up.

This file alone decides the order, in the tables OPENING, DECIDING and GIVING_UP: a row has what is asked of the cluster, and
what comes next by the answer. Nothing is asked here (`driver.py` does), so each crash point can be tried. Rules:

1. Each task attempt writes in a transaction of its own and leaves it open. A batch is decided by one record in the ledger,
   which names the attempts whose transactions are to be committed. They are committed after that, never before, and by
   anybody who opens the sink later, before he does anything else (roll forward).
2. A decision is compared with what the ledger says: claim the driver's transactional id, which fences every other driver;
   read; write only if no other driver has opened the sink since. A write whose outcome is not known is cleared up in the
   same way: claim, read, and see whether it is there.
3. The batch's number alone says whether it was written. Spark may cut a repeated batch into other tasks, so what single
   tasks wrote says nothing.
4. Before a batch is decided its transactions must be open, and not about to be timed out. One that ended after the decision
   means rows that are lost: the error names partitions and batch. It comes again at each opening until the user says that
   he goes on without them.
5. A commit that cannot be carried out says nothing about rows: coordinators forget a transactional id some days after its
   last transaction. What became of the transaction is looked up in its topics.
6. A ledger without a record is that of a new sink only if none of its tasks is known, since they begin behind the first
   record; and a query's batches follow each other, so one that does not was decided elsewhere, or by a ledger that is lost.
   A batch in front of the decided one is an error: Spark may have put other rows into it.
7. What is open and not decided is fenced, once the batch is committed or given up: attempts that lost or whose answer was
   lost are found by the family of their ids. A driver fences only ids that began with its own opening or an earlier one, so
   one that was overtaken cannot harm its successor. DONE says that this was done too. The run of a query keeps its ids as
   long as no other opening lies between its batches.

KIP-98 (transactions), KIP-664 (listing them).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.pipeline.sink.names import base_of
from actors.pipeline.sink.values import (
    LEDGER,
    Attempt,
    Claim,
    Commit,
    Effect,
    Fate,
    Fence,
    Grant,
    Inspect,
    LedgerLost,
    List,
    NotOpen,
    OtherQuery,
    Overtaken,
    Read,
    Record,
    RowsLost,
    Seen,
    SinkFailed,
    State,
    Trace,
    WentBack,
    Write,
)

CLAIMS_MAX = 8
"""How often a driver tries to write what another one keeps it from writing."""
LEFT_MIN_MS = 10_000
"""A transaction must stay open so much longer to be decided, or a quarter of its limit if that is less."""
NAMED_MAX = 8
"""How many partitions an error names."""
DECIDED, ABORTED = "decided", "aborted"
"""What became of a batch."""


@dataclass
class Facts:
    """What a driver knows while it works."""

    sink: str
    opening: int = 0
    """The opening that it works under."""
    batch: int = -1
    query: str = ""
    run: str = ""
    base: int = 0
    attempts: tuple[Attempt, ...] = ()
    """The attempts that were chosen for the batch, those with rows."""
    accepted: int = -1
    """A batch whose lost rows the user goes on without; -1: none."""
    ledger: str = LEDGER
    ahead_ms: int = 0
    """How far the brokers' clock is ahead of the driver's, ms."""
    follows: bool = False
    """Whether the batch has to be the one behind the decided one, as a query's batches are."""
    record: Record | None = None
    """What the ledger said last."""
    claims: int = 0
    losers: tuple[str, ...] = ()
    failed: tuple[tuple[Attempt, str], ...] = ()
    """What could not be committed, and why."""


class Step(NamedTuple):
    """One step: what is asked, and what comes next: the name of a step, or a result."""

    effect: Callable[[Facts], Effect]
    take: Callable[[Facts, Any], Any]
    without: Any = None
    """The result where brokers refuse or do not answer; None: their error is raised."""


Steps = Mapping[str, Step]


class Work:
    """Going through the steps of a table."""

    def __init__(self, steps: Steps, facts: Facts, first: str = "claim") -> None:
        self.facts = facts
        self.at = first
        self.result: Any = None
        """What came of it; None: it is not over."""
        self._steps = steps

    @property
    def effect(self) -> Effect:
        """What is to be asked now."""
        return self._steps[self.at].effect(self.facts)

    def refused(self) -> bool:
        """Whether the work is over, and well, though what was asked now cannot be had."""
        self.result = self._steps[self.at].without
        return self.result is not None

    def take(self, answer: Any) -> None:
        """Go on with the answer. Raises SinkFailed."""
        found = self._steps[self.at].take(self.facts, answer)
        if isinstance(found, str) and found in self._steps:
            self.at = found
        else:
            self.result = found


def opening(sink: str, accepted: int = -1, ledger: str = LEDGER, steps: "Steps | None" = None) -> Work:
    """Open a sink for a batch. Its result is a Grant."""
    return Work(steps or OPENING, Facts(sink, accepted=accepted, ledger=ledger))


def deciding(
    grant: Grant,
    batch: int,
    attempts: tuple[Attempt, ...],
    query: str = "",
    run: str = "",
    accepted: int = -1,
    follows: bool = False,
    steps: "Steps | None" = None,
) -> Work:
    """Decide a batch and commit it. `attempts`: those that Spark has chosen, one a task that had rows. `follows`: whether it
    has to be the one behind the last. Its result is DECIDED."""
    facts = Facts(
        grant.sink, grant.opening, batch, query, run, grant.base_of(run), attempts, accepted, grant.ledger, grant.ahead_ms,
        follows,
    )  # fmt: skip
    return Work(steps or DECIDING, facts)


def giving_up(grant: Grant, batch: int, query: str = "", steps: "Steps | None" = None) -> Work:
    """Abort what a batch has written, unless it was decided: then it is committed. Its result is ABORTED or DECIDED."""
    return Work(steps or GIVING_UP, Facts(grant.sink, grant.opening, batch, query, ledger=grant.ledger))


# ---- steps that the tables share


def _claim(facts: Facts) -> Effect:
    facts.claims += 1
    return Claim()


def _claimed(facts: Facts, answer: Any) -> str:
    return "read"


def _list(facts: Facts) -> Effect:
    return List()


def _fence(facts: Facts) -> Effect:
    return Fence(facts.losers)


def _losers(facts: Facts, ids: tuple[str, ...]) -> bool:
    """Note what is to be fenced. Whether there is anything."""
    bases = {id: base_of(id, facts.sink, facts.ledger) for id in ids}
    facts.losers = tuple(id for id, base in bases.items() if base is not None and base <= facts.opening)
    return bool(facts.losers)


def _again(facts: Facts, error: SinkFailed) -> str:
    """Claim once more, since nobody knows whether a record was written."""
    if facts.claims >= CLAIMS_MAX:
        raise error
    return "claim"


def _ended(facts: Facts, failed: tuple[tuple[Attempt, str], ...]) -> bool:
    """Whether all transactions of a decided batch are committed, or the user goes on without the others."""
    assert facts.record is not None
    facts.failed = failed
    return not failed or facts.accepted == facts.record.batch


def _is_carried_out(facts: Facts, now: Record | None) -> bool:
    """Whether the ledger says something else than what could not be carried out: then another driver has carried it out,
    gone on, and uses the same transactional ids again. Raises LedgerLost."""
    record = facts.record
    assert record is not None
    if now is None:
        raise _gone(facts)
    return now.state is not State.DECIDED or now.attempts != record.attempts


def _gone(facts: Facts) -> LedgerLost:
    return LedgerLost(f"sink {facts.sink}: its record in the ledger is gone: do not delete the ledger's topic")


def _trace(facts: Facts) -> Effect:
    return Trace(tuple(one for one, _ in facts.failed))


def _check_fates(facts: Facts, fates: Mapping[str, Fate]) -> None:
    """Check that the transactions that could not be committed had been. Raises RowsLost."""
    record = facts.record
    assert record is not None
    told = []
    for fate, words, count in (
        (Fate.ABORTED, "had been ended by the brokers before they were committed", "{} rows are not in {}"),
        (Fate.UNKNOWN, "are not known to the brokers any more", "nobody can say whether their {} rows are in {}"),
    ):
        found = [(one, why) for one, why in facts.failed if fates.get(one.id, Fate.UNKNOWN) is fate]
        if found:
            rows, named = _rows([one for one, _ in found])
            of = f"{len(found)} of its {len(record.attempts)} transactions"
            told.append(f"{of} {words} ({found[0][1]}): {count.format(rows, named)}")
    if told:
        raise RowsLost(
            f"sink {facts.sink}: batch {record.batch} was decided, and {', and '.join(told)}; write what is missing by hand "
            f"and go on with acceptLostBatch={record.batch}, and raise kafka.transaction.timeout.ms"
        )


def _rows(attempts: list[Attempt]) -> tuple[int, str]:
    """How many rows attempts have, and in which partitions."""
    rows: dict[tuple[str, int], int] = {}
    for attempt in attempts:
        for topic, partition, count, _ in attempt.counts:
            rows[topic, partition] = rows.get((topic, partition), 0) + count
    named = [f"{topic}/{number} ({count})" for (topic, number), count in sorted(rows.items())]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return sum(rows.values()), ", ".join(named[:NAMED_MAX]) + more


# ---- opening


def _opened_read(facts: Facts, record: Record | None) -> str:
    facts.record = record
    facts.opening = (record.opening if record is not None else 0) + 1
    if record is None:
        return "look for tasks"
    return "forward" if record.state is State.DECIDED else "open"


def _is_new(facts: Facts, ids: tuple[str, ...]) -> str:
    if any(base_of(id, facts.sink, facts.ledger) is not None for id in ids):
        raise LedgerLost(
            f"sink {facts.sink}: the ledger, topic {facts.ledger}, has no record of it, though its tasks have written "
            f"before: was the topic deleted? Nobody can say which batch was the last one: look what is written, and go on "
            f"with another sinkId"
        )
    return "open"


def _forward(facts: Facts) -> Effect:
    assert facts.record is not None
    return Commit(facts.record.attempts)


def _forwarded(facts: Facts, failed: tuple[tuple[Attempt, str], ...]) -> str:
    return "open" if _ended(facts, failed) else "look again"


def _not_forwarded(facts: Facts, record: Record | None) -> str:
    return "claim" if _is_carried_out(facts, record) else "trace"


def _forwarded_before(facts: Facts, fates: Mapping[str, Fate]) -> str:
    _check_fates(facts, fates)
    return "open"


def _open(facts: Facts) -> Effect:
    before = facts.record
    if before is None:
        return Write(Record(State.OPEN, facts.opening, -1, "", "", 0))
    return Write(before._replace(state=State.OPEN, opening=facts.opening, attempts=()))


def _opened(facts: Facts, error: SinkFailed | None) -> Any:
    if error is not None:
        return _again(facts, error)
    left = facts.record is None or facts.record.state is not State.DONE
    return "list" if left else _granted(facts)


def _granted(facts: Facts, answer: Any = None) -> Grant:
    before = facts.record or Record(State.OPEN, 0, -1, "", "", 0)
    run = before.run if before.state is not State.OPEN else ""  # else another run may have opened it in between
    return Grant(facts.sink, facts.opening, before.batch, before.query, run, before.base, facts.ledger)


def _opened_list(facts: Facts, ids: tuple[str, ...]) -> Any:
    return "fence" if _losers(facts, ids) else _granted(facts)


OPENING: dict[str, Step] = {
    "claim": Step(_claim, _claimed),
    "read": Step(lambda facts: Read(), _opened_read),
    "look for tasks": Step(lambda facts: List(all=True), _is_new),
    "forward": Step(_forward, _forwarded),
    "look again": Step(lambda facts: Read(), _not_forwarded),
    "trace": Step(_trace, _forwarded_before),
    "open": Step(_open, _opened),
    "list": Step(_list, _opened_list),
    "fence": Step(_fence, _granted),
}  # fmt: skip


# ---- deciding


def _current(facts: Facts, record: Record | None) -> Record:
    """The record, if no other driver has opened the sink. Raises Overtaken, SinkFailed."""
    facts.record = record
    if record is None:
        raise _gone(facts)
    if record.opening != facts.opening:
        raise Overtaken(
            f"sink {facts.sink}: another query or job has begun to write with this sinkId, so batch {facts.batch} is not "
            f"committed here: give each its own sinkId"
        )
    return record


def check_query(sink: str, decided: int, owner: str, query: str) -> None:
    """Check that the batches of a sink are those of a query. Raises OtherQuery."""
    if decided >= 0 and owner != query:
        raise OtherQuery(
            f"sink {sink} has batches up to {decided} of {_query(owner)}, and this is {_query(query)}, whose batches "
            f"have the same numbers: give it another sinkId, or start it from the checkpoint of the first"
        )


def check_batch(sink: str, decided: int, batch: int, follows: bool = False) -> None:
    """Check that a batch is the one that was decided last, or a later one. `follows`: or the next one. Raises WentBack,
    LedgerLost."""
    if batch < decided:
        raise WentBack(
            f"sink {sink}: batch {batch} comes behind batch {decided}, which is written: is this an older checkpoint? Its "
            f"rows may be others than those that were written under its number, so nothing is; go on with another sinkId if "
            f"they are to be written"
        )
    if follows and batch > decided + 1:
        last = f"its last one is {decided}" if decided >= 0 else "there is none"
        raise LedgerLost(
            f"sink {sink}: batch {batch} follows no batch in the ledger, where {last}: if the query has written the earlier "
            f"ones elsewhere, go on with firstBatch={batch}; if the ledger was lost, batch {batch} may be written already"
        )


def _query(id: str) -> str:
    return f"query {id}" if id else "jobs without a query"


def _decided_read(facts: Facts, record: Record | None) -> str:
    now = _current(facts, record)
    check_query(facts.sink, now.batch, now.query, facts.query)
    check_batch(facts.sink, now.batch, facts.batch, facts.follows)
    if now.batch < facts.batch:
        return "inspect" if facts.attempts else "decide"
    if now.state is State.DECIDED and now.attempts == facts.attempts:
        return "commit"  # the record was written, though the answer was lost
    if not facts.attempts or now.state is State.DONE:
        return DECIDED  # a batch that was written before, and not by these tasks
    raise SinkFailed(f"sink {facts.sink}: batch {facts.batch} is decided already, with other tasks")


def _inspected(facts: Facts, seen: Mapping[str, Seen]) -> str:
    for one in facts.attempts:
        found = seen.get(one.id)
        if found is None or not found.is_open or (found.producer_id, found.epoch) != (one.producer_id, one.epoch):
            raise NotOpen(
                f"sink {facts.sink}: transaction {one.id} has ended before batch {facts.batch} was decided: nothing of the "
                f"batch is written; raise kafka.transaction.timeout.ms if tasks take longer than that"
            )
        if found.left_ms is not None and found.left_ms < min(LEFT_MIN_MS, found.limit_ms // 4):
            raise NotOpen(
                f"sink {facts.sink}: transaction {one.id} would end in {max(found.left_ms, 0)} ms, too soon to decide batch "
                f"{facts.batch}: nothing of the batch is written; raise kafka.transaction.timeout.ms"
            )
    return "decide"


def _decided(facts: Facts) -> Record:
    return Record(State.DECIDED, facts.opening, facts.batch, facts.query, facts.run, facts.base, facts.attempts)


def _decision(facts: Facts, error: SinkFailed | None) -> str:
    if error is not None:
        return _again(facts, error)
    facts.record = _decided(facts)
    return "commit" if facts.attempts else "list"


def _commit(facts: Facts) -> Effect:
    assert facts.record is not None
    return Commit(facts.record.attempts)


def _committed(facts: Facts, failed: tuple[tuple[Attempt, str], ...]) -> str:
    return "list" if _ended(facts, failed) else "look again"


def _not_committed(facts: Facts, record: Record | None) -> str:
    return DECIDED if _is_carried_out(facts, record) else "trace"


def _committed_before(facts: Facts, fates: Mapping[str, Fate]) -> str:
    _check_fates(facts, fates)
    return "list"


def _swept(facts: Facts, ids: tuple[str, ...]) -> str:
    return "fence" if _losers(facts, ids) else "done"


def _done(facts: Facts) -> Effect:
    assert facts.record is not None
    return Write(facts.record._replace(state=State.DONE, attempts=()))


ENDING: dict[str, Step] = {
    "commit": Step(_commit, _committed),
    "look again": Step(lambda facts: Read(), _not_committed),
    "trace": Step(_trace, _committed_before),
    "list": Step(_list, _swept, DECIDED),  # the batch is committed, and the next opening sweeps, as nothing says DONE
    "fence": Step(_fence, lambda facts, answer: "done", DECIDED),
    "done": Step(_done, lambda facts, error: DECIDED),  # else whoever comes next does it again, which changes nothing
}
"""The steps behind a decision, which are the same for whoever finds it in the ledger."""

DECIDING: dict[str, Step] = {
    "claim": Step(_claim, _claimed),
    "read": Step(lambda facts: Read(), _decided_read),
    "inspect": Step(lambda facts: Inspect(facts.attempts, facts.ahead_ms), _inspected),
    "decide": Step(lambda facts: Write(_decided(facts)), _decision),
    **ENDING,
}


# ---- giving up


def _given_up_read(facts: Facts, record: Record | None) -> str:
    facts.record = record
    if record is None or record.opening != facts.opening:
        return ABORTED  # whoever has opened the sink fences what is left here
    if record.state is State.DECIDED:
        return "commit"
    return "abort"


GIVING_UP: dict[str, Step] = {
    "claim": Step(_claim, _claimed),
    "read": Step(lambda facts: Read(), _given_up_read),
    "abort": Step(_list, lambda facts, ids: "fence all" if _losers(facts, ids) else ABORTED),
    "fence all": Step(_fence, lambda facts, answer: ABORTED),
    **ENDING,
}
