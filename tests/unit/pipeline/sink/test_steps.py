"""A sink's protocol step by step: a driver that crashes at each point, what the next one makes of it."""

import random
from collections import Counter
from typing import Any

import pytest

from actors.pipeline.sink import steps
from actors.pipeline.sink.names import base_of, task_id
from actors.pipeline.sink.values import (
    Attempt,
    Claim,
    Commit,
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
from tests.unit.pipeline.sink.model import SINK, Brokers

ROWS = {0: ["a", "b", "c", "d"], 1: ["e", "f"]}


class Crash(Exception):
    """The driver is gone."""


class Driver:
    """One driver of a query. It crashes at its `crash`-th effect: before it or, with `answered` False, behind it."""

    def __init__(self, brokers: Brokers, run: str, crash: int = 1 << 30, behind: bool = False) -> None:
        self.brokers, self.run, self.crash, self.behind = brokers, run, crash, behind
        self.claim: list[int] = []
        self.effects: list[str] = []

    def go(self, work: steps.Work) -> Any:
        while work.result is None:
            effect = work.effect
            single = [Commit((one,)) for one in effect.attempts] if isinstance(effect, Commit) else []
            for one in single:  # the requests of an effect may be carried out in part
                self.count(one)
            work.take(self.count(effect))
        return work.result

    def count(self, effect: Any) -> Any:
        self.effects.append(type(effect).__name__)
        last = len(self.effects) == self.crash
        if last and not self.behind:
            raise Crash
        answer = self.brokers.carry_out(effect, self.claim)
        if last:
            raise Crash
        return answer

    def batch(self, batch: int, cut: int, losers: bool = True) -> Any:
        """Write a batch in `cut` tasks; each has an attempt besides that is not chosen."""
        grant: Grant = self.go(steps.opening(SINK))
        attempts = []
        slot = 0
        for number in range(cut):
            if batch <= grant.decided:
                continue
            for chosen in (False, True) if losers else (True,):
                id = task_id(SINK, grant.base_of(self.run), self.run, slot)
                slot += 1
                epoch = self.brokers.begin(id, None)
                rows = ROWS[batch][number::cut]
                for row in rows:
                    self.brokers.write(id, epoch, row)
                if chosen and rows:
                    attempts.append(Attempt(id, 0, epoch, (("out", number, len(rows), 7),)))
        return self.go(steps.deciding(grant, batch, tuple(attempts), "q", self.run))


class Quiet(random.Random):
    """A chance by which nothing happens."""

    def random(self) -> float:
        return 1.0


def brokers() -> Brokers:
    return Brokers(Quiet())


def effects_of_a_batch() -> list[str]:
    driver = Driver(brokers(), "one")
    driver.batch(0, 2)
    return driver.effects


EFFECTS = effects_of_a_batch()


def test_a_batch_takes_these_steps() -> None:
    assert EFFECTS == [
        "Claim", "Read", "List", "Write", "List",
        "Claim", "Read", "Inspect", "Write", "Commit", "Commit", "Commit", "List", "Fence", "Write",
    ]  # fmt: skip


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("crash", range(1, len(EFFECTS) + 1))
@pytest.mark.parametrize("cut", [1, 3])
def test_a_driver_that_crashes_anywhere_is_followed_by_one_that_cuts_the_batch_otherwise(
    crash: int, behind: bool, cut: int
) -> None:
    model = brokers()
    with pytest.raises(Crash):
        Driver(model, "one", crash, behind).batch(0, 2)
    two = Driver(model, "two")
    two.batch(0, cut)
    two.batch(1, 2)
    assert model.visible == Counter(ROWS[0] + ROWS[1])
    assert not [id for id, one in model.ids.items() if one.rows is not None], "nothing is left open"
    assert model.ledger is not None and (model.ledger.state, model.ledger.batch) == (State.DONE, 1)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("crash", range(6, len(EFFECTS) + 1))
def test_a_batch_that_fails_behind_its_beginning_is_given_up_or_carried_out(crash: int, behind: bool) -> None:
    """Spark calls abort when commit has raised, whatever was decided."""
    model = brokers()
    one = Driver(model, "one", crash, behind)
    with pytest.raises(Crash):
        one.batch(0, 2)
    one.crash = 0
    decided = model.ledger is not None and model.ledger.batch == 0
    result = one.go(steps.giving_up(Grant(SINK, 1, -1, "", "", 0), 0, "q"))
    assert model.visible == Counter(ROWS[0] if decided else [])
    assert (result == steps.DECIDED) <= decided
    assert not [id for id, state in model.ids.items() if state.rows is not None], "nothing is left open"
    Driver(model, "two").batch(0, 1)
    assert model.visible == Counter(ROWS[0])


def test_ids_of_a_run_are_used_again_and_those_of_another_are_not() -> None:
    model = brokers()
    one = Driver(model, "one")
    one.batch(0, 2)
    one.batch(1, 2)
    assert {base_of(id, SINK) for id in model.ids} == {1}
    Driver(model, "two").go(steps.opening(SINK))
    ROWS[2] = ["g"]
    Driver(model, "two").batch(2, 1)
    assert {base_of(id, SINK) for id in model.ids} == {1, 4}


def test_a_driver_that_was_overtaken_decides_nothing_and_harms_nobody() -> None:
    model = brokers()
    one, two = Driver(model, "one"), Driver(model, "two")
    old: Grant = one.go(steps.opening(SINK))
    new: Grant = two.go(steps.opening(SINK))
    ids = {name: task_id(SINK, grant.opening, name, 0) for name, grant in (("one", old), ("two", new))}
    for id in ids.values():
        model.write(id, model.begin(id, None), id)
    with pytest.raises(Overtaken, match="sink orders: another query or job has begun to write with this sinkId"):
        one.go(steps.deciding(old, 0, (Attempt(ids["one"], 0, 1, (("out", 0, 1, 7),)),), "q", "one"))
    one.go(steps.giving_up(old, 0, "q"))
    assert (
        two.go(steps.deciding(new, 0, (Attempt(ids["two"], 0, 1, (("out", 0, 1, 7),)),), "q", "two")) == steps.DECIDED
    )
    assert model.visible == Counter([ids["two"]])
    assert model.ids[ids["one"]].rows is None, "what the first had open is aborted"


def test_an_opening_of_the_overtaken_fences_nothing_of_its_successor() -> None:
    work = steps.opening(SINK)
    for answer in (None, Record(State.OPEN, 6, -1, "", "", 0), None):
        work.take(answer)
    assert work.effect == List()
    work.take((*(task_id(SINK, base, "w", 0) for base in (3, 7, 8)), "rayft-sink/orders-2/1/w/0", "else"))
    assert work.effect == Fence((task_id(SINK, 3, "w", 0), task_id(SINK, 7, "w", 0)))


def test_two_queries_are_told_apart() -> None:
    model = brokers()
    Driver(model, "one").batch(0, 1)
    grant: Grant = Driver(model, "two").go(steps.opening(SINK))
    with pytest.raises(OtherQuery, match="sink orders has batches up to 0 of query q, and this is query p"):
        steps.check_query(SINK, grant.decided, grant.query, "p")
    with pytest.raises(OtherQuery, match="this is jobs without a query"):
        steps.check_query(SINK, grant.decided, grant.query, "")
    steps.check_query(SINK, -1, "", "p")


def timed_out() -> Brokers:
    """Brokers that timed one of two transactions out behind the decision."""
    model = brokers()
    with pytest.raises(Crash):
        Driver(model, "one", EFFECTS.index("Commit") + 1).batch(0, 2)
    assert model.ledger is not None
    state = model.ids[model.ledger.attempts[1].id]
    state.epoch, state.rows = state.epoch + 1, None
    return model


def test_rows_that_were_timed_out_behind_the_decision_are_named_until_the_user_goes_on() -> None:
    model = timed_out()
    words = r"batch 0 was decided, and 1 of its 2 transactions .* 2 rows are not in out/1 \(2\); .*acceptLostBatch=0"
    for run in ("two", "three"):
        with pytest.raises(RowsLost, match=words):
            Driver(model, run).batch(0, 1)
    assert model.visible == Counter(ROWS[0][0::2])
    with pytest.raises(RowsLost):
        Driver(model, "four").go(steps.opening(SINK, accepted=1))
    grant: Grant = Driver(model, "five").go(steps.opening(SINK, accepted=0))
    assert grant.decided == 0
    Driver(model, "six").batch(1, 1)
    assert model.visible == Counter(ROWS[0][0::2] + ROWS[1])


def test_transactions_that_have_ended_or_will_soon_are_not_decided() -> None:
    for change, words in (
        (lambda seen: seen._replace(is_open=False), "has ended before batch 0 was decided"),
        (lambda seen: seen._replace(epoch=5), "has ended before batch 0 was decided"),
        (lambda seen: seen._replace(producer_id=5), "has ended before batch 0 was decided"),
        (lambda seen: seen._replace(left_ms=9_999, limit_ms=60_000), "would end in 9999 ms"),
        (lambda seen: seen._replace(left_ms=999, limit_ms=4_000), "would end in 999 ms"),
    ):
        work, seen = inspecting()
        with pytest.raises(NotOpen, match=words):
            work.take({id: change(one) for id, one in seen.items()})
    for left, limit in ((10_000, 60_000), (1_000, 4_000), (None, 0)):
        work, seen = inspecting()
        work.take({id: one._replace(left_ms=left, limit_ms=limit) for id, one in seen.items()})
        assert isinstance(work.effect, Write)
    work, _ = inspecting()
    with pytest.raises(NotOpen):
        work.take({})


def inspecting() -> tuple[steps.Work, dict[str, Any]]:
    """A decision before its transactions are looked at."""
    model = brokers()
    driver = Driver(model, "one")
    grant: Grant = driver.go(steps.opening(SINK))
    id = task_id(SINK, 1, "w", 0)
    model.write(id, model.begin(id, None), "a")
    work = steps.deciding(grant, 0, (Attempt(id, 0, 1, (("out", 0, 1, 7),)),), "q", "one")
    work.take(model.carry_out(work.effect, driver.claim))
    work.take(model.carry_out(work.effect, driver.claim))
    assert isinstance(work.effect, Inspect)
    return work, model.carry_out(work.effect, driver.claim)


def test_a_record_that_cannot_be_written_is_tried_a_few_times() -> None:
    work = steps.opening(SINK)
    error = SinkFailed("no leader")
    with pytest.raises(SinkFailed, match="no leader"):
        for _ in range(100):
            work.take(error if isinstance(work.effect, Write) else () if isinstance(work.effect, List) else None)
    assert work.facts.claims == steps.CLAIMS_MAX


def test_a_ledger_whose_record_is_gone_is_refused() -> None:
    work = steps.deciding(Grant(SINK, 3, -1, "", "", 0), 0, (Attempt("x", 0, 0, ()),), "q")
    assert work.effect == Claim()
    work.take(None)
    assert work.effect == Read()
    with pytest.raises(SinkFailed, match="its record in the ledger is gone"):
        work.take(None)


def test_a_batch_without_rows_is_decided_too() -> None:
    model = brokers()
    driver = Driver(model, "one")
    grant: Grant = driver.go(steps.opening(SINK))
    driver.effects = []
    assert driver.go(steps.deciding(grant, 4, (), "q", "one")) == steps.DECIDED
    assert driver.effects == ["Claim", "Read", "Write", "List", "Write"]
    assert model.ledger == Record(State.DONE, 1, 4, "q", "one", 1)


def test_a_run_takes_new_ids_behind_an_opening_of_another_one() -> None:
    """The other one may still fence what began with the ids of before."""
    model = brokers()
    one, two = Driver(model, "one"), Driver(model, "two")
    one.batch(0, 1)
    assert one.go(steps.opening(SINK)).base_of("one") == 1
    two.go(steps.opening(SINK))
    assert one.go(steps.opening(SINK)).base_of("one") == 4


def test_a_batch_that_is_committed_is_decided_though_nobody_can_sweep_behind_it() -> None:
    one = Attempt(task_id(SINK, 1, "w", 0), 7, 0, (("t", 0, 3, 7),))
    record = Record(State.OPEN, 1, -1, "", "", 1)
    for answers in (6, 7):  # brokers do not answer to the list, or to the fence
        work = steps.deciding(Grant(SINK, 1, -1, "", "", 1), 0, (one,))
        told: list[Any] = [None, record, {one.id: Seen(7, 0, True, None)}, None, (), (task_id(SINK, 1, "w", 1),)]
        for number, answer in enumerate(told[: answers - 1]):
            assert number > 4 or not work.refused(), "an error before the end of the commit is raised"
            work.take(answer)
        assert isinstance(work.effect, (List, Fence)) and work.result is None
        assert work.refused() and work.result == steps.DECIDED


def test_a_record_that_is_gone_behind_a_commit_that_failed_is_no_success() -> None:
    one = Attempt(task_id(SINK, 1, "w", 0), 7, 0, (("t", 0, 3, 7),))
    work = steps.deciding(Grant(SINK, 1, -1, "", "", 1), 0, (one,))
    record = Record(State.OPEN, 1, -1, "", "", 1)
    for answer in (None, record, {one.id: Seen(7, 0, True, None)}, None, ((one, "PRODUCER_FENCED"),)):
        work.take(answer)
    with pytest.raises(SinkFailed, match="is gone"):
        work.take(None)


def test_what_became_of_forgotten_transactions_is_looked_up_in_their_topics() -> None:
    """Coordinators say the same of one that was committed and of one that was aborted (transactional.id.expiration.ms)."""
    ids = [task_id(SINK, 1, "w", number) for number in range(3)]
    attempts = tuple(Attempt(id, 7 + n, 0, (("out", n, 10 + n, 99),)) for n, id in enumerate(ids))
    failed = tuple((one, "INVALID_PRODUCER_ID_MAPPING") for one in attempts)
    record = Record(State.DECIDED, 4, 3, "q", "r", 1, attempts)
    for work in opened(record, failed), decided(record, failed):
        assert work.effect == Trace(attempts)
        work.take(dict.fromkeys(ids, Fate.COMMITTED))
        assert isinstance(work.effect, (Write, List)), "all rows are there, so it goes on"
    for work in opened(record, failed), decided(record, failed):
        words = (
            r"batch 3 was decided, and 1 of its 3 transactions had been ended .* 11 rows are not in out/1 \(11\), and "
            r"1 of its 3 transactions are not known .* nobody can say whether their 12 rows are in out/2 \(12\); .*=3"
        )
        with pytest.raises(RowsLost, match=words):
            work.take(dict(zip(ids, (Fate.COMMITTED, Fate.ABORTED, Fate.UNKNOWN), strict=True)))
    for work in opened(record, failed), decided(record, failed):
        with pytest.raises(RowsLost, match="nobody can say whether their 33 rows"):
            work.take({})


def opened(record: Record, failed: Any) -> steps.Work:
    """An opening behind a commit that could not be carried out."""
    work = steps.opening(SINK)
    for answer in (None, record, failed, record):
        work.take(answer)
    return work


def decided(record: Record, failed: Any) -> steps.Work:
    """A decision whose commit could not be carried out."""
    grant = Grant(SINK, record.opening, record.batch - 1, "q", "r", record.base)
    work = steps.deciding(grant, record.batch, record.attempts, "q", "r")
    for answer in (None, record, failed, record):
        work.take(answer)
    return work


def test_a_ledger_without_a_record_is_a_new_sinks_only_if_none_of_its_tasks_is_known() -> None:
    for ids, is_new in (
        ((), True), ((task_id("other", 1, "w", 0), task_id(SINK, 1, "w", 0, "other-ledger")), True),
        ((task_id(SINK, 1, "w", 0),), False),
    ):  # fmt: skip
        work = steps.opening(SINK)
        for answer in (None, None):
            work.take(answer)
        assert work.effect == List(all=True)
        if is_new:
            work.take(ids)
            assert work.effect == Write(Record(State.OPEN, 1, -1, "", "", 0))
        else:
            with pytest.raises(
                LedgerLost, match="topic rayft-sinks, has no record of it, though its tasks have written"
            ):
                work.take(ids)


@pytest.mark.parametrize(
    "attempts", [(), (Attempt(task_id(SINK, 1, "w", 0), 7, 0, (("t", 0, 3, 7),)),)], ids=["none", "one"]
)
def test_a_batch_in_front_of_the_decided_one_is_no_success(attempts: tuple[Attempt, ...]) -> None:
    work = steps.deciding(Grant(SINK, 4, 7, "q", "r", 4), 6, attempts, "q", "r")
    work.take(None)
    with pytest.raises(WentBack, match="batch 6 comes behind batch 7, which is written: is this an older checkpoint"):
        work.take(Record(State.DONE, 4, 7, "q", "r", 4))


def test_the_batches_of_a_query_follow_each_other() -> None:
    steps.check_batch(SINK, 4, 5, follows=True)
    steps.check_batch(SINK, 4, 4, follows=True)
    steps.check_batch(SINK, -1, 0, follows=True)
    steps.check_batch(SINK, 4, 20261129)
    with pytest.raises(
        LedgerLost, match=r"batch 6 follows no batch in the ledger, where its last one is 4: .*firstBatch=6"
    ):
        steps.check_batch(SINK, 4, 6, follows=True)
    with pytest.raises(LedgerLost, match="batch 1 follows no batch in the ledger, where there is none"):
        steps.check_batch(SINK, -1, 1, follows=True)
    work = steps.deciding(Grant(SINK, 1, -1, "", "", 0), 6, (), "q", "r", follows=True)
    work.take(None)
    with pytest.raises(LedgerLost):
        work.take(Record(State.OPEN, 1, -1, "", "", 0))
