"""The rows T1 to T23 of a leader's ISR changes (KIP-497), each as data, and the rules behind them."""

import random

import pytest

from actors.broker.replication.followers import Follower, Position
from actors.broker.replication.isr_transitions import (
    TRANSITIONS,
    Effect,
    Event,
    Isr,
    Stage,
    View,
    eligible,
    high_watermark,
    joins,
    wanted,
)

S, Q, OUT, A, R = Stage.SETTLED, Stage.QUEUED, Stage.SENT, Stage.ACKNOWLEDGED, Stage.REFUSED

ROWS = [
    ("T1", S, Event.WANTED, Q, {1, 2, 3}),
    ("T2", S, Event.WANTED, Q, {1, 2}),
    ("T3", Q, Event.WANTED, Q, {1, 2, 3}),
    ("T4", Q, Event.CONTENT, S, {1, 2}),
    ("T5", Q, Event.FLUSH, OUT, {1, 2, 3}),
    ("T6", OUT, Event.WANTED, OUT, {1, 2, 3}),
    ("T7", OUT, Event.TRANSIENT, OUT, {1, 2, 3}),
    ("T8", OUT, Event.APPLIED, A, {1, 2, 3}),
    ("T9", A, Event.APPLIED, A, {1, 2, 3}),
    ("T10", OUT, Event.APPLIED_STATE, S, {1, 2, 3}),
    ("T11", OUT, Event.APPLIED_OTHER, OUT, {1, 2, 3}),
    ("T12", OUT, Event.STALE, R, {1, 2, 3}),
    ("T13", OUT, Event.FINAL, S, {1, 2}),
    ("T14", A, Event.UPDATE_NEWER, S, {1, 2, 3}),
    ("T15", OUT, Event.UPDATE_SAME, OUT, {1, 2, 3}),
    ("T16", R, Event.UPDATE_OLDER, R, {1, 2, 3}),
    ("T17", OUT, Event.OTHER_LEADER, S, {1, 2}),
    ("T18", Q, Event.LEADER_AGAIN, S, {1, 2, 3}),
    ("T19", A, Event.REMOVED, S, {1, 2}),
    ("T20", A, Event.FOREIGN, A, {1, 2, 3}),
    ("T21", OUT, Event.LEASE_ENDED, OUT, {1, 2, 3}),
    ("T22", OUT, Event.LEASE_RENEWED, OUT, {1, 2, 3}),
    ("T23", OUT, Event.CONTROLLER_CHANGED, OUT, {1, 2, 3}),
]
"""(row, stage, event, stage afterwards, maximal ISR afterwards), with {1, 2} committed and {1, 2, 3} proposed."""


def at(stage: Stage) -> Isr:
    """A partition with ISR {1, 2} of version 7, its proposal for {1, 2, 3} in the stage given."""
    isr = Isr((1, 2), 7)
    if stage is S:
        return isr
    isr.decide(frozenset((1, 2, 3)), {3: 33})
    if stage is Q:
        return isr
    proposal = isr.flushed()
    if stage is A:
        isr.answered(proposal, Event.APPLIED)
    elif stage is R:
        isr.answered(proposal, Event.STALE)
    return isr


def happen(isr: Isr, event: Event, want: set[int]) -> None:
    """Make `event` happen the way the broker does."""
    if event in (Event.WANTED, Event.CONTENT):
        isr.decide(frozenset(want if event is Event.WANTED else isr.isr), {})
    elif event is Event.FLUSH:
        isr.flushed()
    elif event in (Event.UPDATE_NEWER, Event.LEADER_AGAIN):
        isr.updated((1, 2, 3), 8, again=event is Event.LEADER_AGAIN)
    elif event in (Event.UPDATE_SAME, Event.UPDATE_OLDER):
        isr.updated((1,), 7 if event is Event.UPDATE_SAME else 6)
    elif event in (Event.OTHER_LEADER, Event.REMOVED, Event.LEASE_ENDED, Event.LEASE_RENEWED, Event.CONTROLLER_CHANGED):
        isr.happened(event)
    elif event is Event.FOREIGN:
        isr.answered(at(OUT).proposal, Event.FINAL)  # type: ignore[arg-type]
    else:
        assert isr.proposal is not None
        isr.answered(isr.proposal, event, isr=(1, 2, 3), partition_epoch=8, until_ms=500)


@pytest.mark.parametrize(("row", "stage", "event", "after", "maximal"), ROWS, ids=[row[0] for row in ROWS])
def test_each_row(row: str, stage: Stage, event: Event, after: Stage, maximal: set[int]) -> None:
    isr = at(stage)
    happen(isr, event, {1, 2} if row == "T2" else {1, 2, 3})
    if row == "T2":
        isr = Isr((1, 2, 3), 7)
        isr.decide(frozenset((1, 2)), {})
        maximal = {1, 2, 3}
    assert isr.stage is after
    assert isr.maximal == maximal
    assert (isr.proposal is None) is (after is S)
    assert row in TRANSITIONS[stage, event].name.split()


def test_the_table_has_every_row_once_by_name() -> None:
    names = {name for row in TRANSITIONS.values() for name in row.name.split()}
    assert names == {f"T{number}" for number in range(1, 24)}


@pytest.mark.parametrize(
    ("stage", "event"), [(S, Event.FLUSH), (S, Event.APPLIED), (Q, Event.FINAL), (R, Event.APPLIED)]
)
def test_an_illegal_move_is_an_assertion_and_changes_nothing(stage: Stage, event: Event) -> None:
    isr = at(stage)
    before = (isr.stage, isr.isr, isr.maximal, isr.proposal)
    with pytest.raises(AssertionError):
        isr._move(event)
    assert before == (isr.stage, isr.isr, isr.maximal, isr.proposal)


@pytest.mark.parametrize("stage", [Stage.SENT, Stage.ACKNOWLEDGED, Stage.REFUSED])
def test_r497_34_no_second_proposal_before_the_first_one_is_settled(stage: Stage) -> None:
    isr = at(stage)
    proposal = isr.proposal
    assert proposal is not None and proposal.want == {1, 2, 3}
    for want in ((1,), (1, 2)):
        assert not isr.decide(frozenset(want), {})
        assert isr.stage is stage and isr.proposal is proposal
    isr.updated((1, 2, 3), isr.partition_epoch + 1)
    assert isr.decide(frozenset((1, 2)), {})


def test_r497_35_a_sent_proposal_is_not_changed_a_queued_one_is() -> None:
    isr = at(Q)
    isr.decide(frozenset((1,)), {})
    assert isr.proposal is not None and isr.proposal.want == {1}
    sent = isr.flushed()
    isr.decide(frozenset((1, 2, 3)), {})
    assert isr.proposal is sent and sent.want == {1}


def test_r497_31_an_update_settles_and_the_late_answer_is_ignored() -> None:
    isr = at(OUT)
    proposal = isr.proposal
    assert proposal is not None
    row = isr.updated((1, 2), 8)
    assert row.name == "T14" and Effect.EVALUATE in row.effects
    isr.decide(frozenset((1, 2, 3)), {})
    second = isr.flushed()
    assert isr.answered(proposal, Event.FINAL).name == "T20"
    assert isr.proposal is second and isr.stage is OUT


def test_r497_13_a_definitive_refusal_holds_the_replica_off_until_an_update() -> None:
    isr = at(OUT)
    isr.answered(isr.proposal, Event.FINAL, until_ms=500)  # type: ignore[arg-type]
    follower = caught_up(3)
    assert not joins(view(mono_ms=499, followers={3: follower}), isr, follower)
    assert joins(view(mono_ms=500, followers={3: follower}), isr, follower)
    isr.held_off = {3: 10_000}
    isr.updated((1, 2), 8)
    assert joins(view(mono_ms=499, followers={3: follower}), isr, follower)


def caught_up(replica: int, log_end: int = 10, epoch: int | None = None, at_ms: int = 0) -> Follower:
    follower = Follower(replica, at_ms)
    follower.fetched(Position(log_end, 0, replica * 11 if epoch is None else epoch, 10, at_ms))
    return follower


def view(
    *,
    mono_ms: int = 0,
    followers: dict[int, Follower] | None = None,
    replicas: tuple[int, ...] = (1, 2, 3),
    high: int = 5,
    epoch_start: int = 6,
    unfenced: dict[int, int] | None = None,
    own_end: int = 10,
) -> View:
    return View(
        1,
        replicas,
        followers or {},
        {1: 11, 2: 22, 3: 33} if unfenced is None else unfenced,
        10,
        own_end,
        high,
        epoch_start,
        30_000,
        mono_ms,
    )


@pytest.mark.parametrize(
    ("follower", "registered", "may"),
    [
        (caught_up(3), None, True),
        (caught_up(3, log_end=4), None, False),
        (caught_up(3, log_end=5), None, False),
        (caught_up(3, log_end=6), None, True),
        (caught_up(3), {1: 11, 2: 22}, False),
        (caught_up(3, epoch=32), None, False),
        (caught_up(3, epoch=-1), None, False),
    ],
    ids=[
        "joins",
        "below the high watermark",
        "below the epoch's start",
        "at both",
        "fenced",
        "older epoch",
        "no epoch",
    ],
)
def test_r497_43_each_condition_alone(follower: Follower, registered: dict[int, int] | None, may: bool) -> None:
    isr = Isr((1, 2), 7)
    found = view(followers={2: caught_up(2), 3: follower}, unfenced=registered)
    assert (3 in wanted(found, isr)) is may
    assert eligible(found, follower) or not may


def test_r497_43_an_unassigned_follower_never_joins() -> None:
    found = view(followers={2: caught_up(2), 4: caught_up(4, epoch=44)}, unfenced={1: 11, 2: 22, 4: 44})
    assert wanted(found, Isr((1, 2), 7)) == {1, 2}


@pytest.mark.parametrize(("log_end", "late_ms", "stays"), [(9, 30_000, True), (9, 30_001, False), (10, 90_000, True)])
def test_r497_44_lag_counts_time_since_caught_up(log_end: int, late_ms: int, stays: bool) -> None:
    found = view(mono_ms=late_ms, followers={2: caught_up(2, log_end=log_end)}, replicas=(1, 2))
    assert (2 in wanted(found, Isr((1, 2), 7))) is stays


def test_nobody_leaves_a_leader_that_cannot_read_its_replica() -> None:
    """It would be the only member, and nobody could take over what it cannot give. Who has everything joins still."""
    behind, beside = caught_up(2, log_end=9), caught_up(3)
    found = view(mono_ms=30_001, followers={2: behind, 3: beside})
    assert wanted(found, Isr((1, 2), 7)) == {1, 3}
    assert wanted(found._replace(readable=False), Isr((1, 2), 7)) == {1, 2, 3}


def test_r497_45_waits_for_one_that_may_join_only() -> None:
    outside = caught_up(3, log_end=7)
    isr = Isr((1, 2), 7)
    near = view(followers={2: caught_up(2), 3: outside}, mono_ms=1)
    assert high_watermark(near, isr, 1) == 7
    fenced = view(followers={2: caught_up(2), 3: outside}, unfenced={1: 11, 2: 22}, mono_ms=1)
    assert high_watermark(fenced, isr, 1) == 10
    stale = view(followers={2: caught_up(2), 3: caught_up(3, log_end=7, epoch=1)}, mono_ms=1)
    assert high_watermark(stale, isr, 1) == 10
    late = view(followers={2: caught_up(2, at_ms=40_000), 3: outside}, mono_ms=40_000)
    assert high_watermark(late, isr, 1) == 10


def test_r497_53_stays_while_the_committed_isr_is_too_small() -> None:
    isr = Isr((1,), 7)
    alone = view(followers={2: caught_up(2), 3: caught_up(3)})
    assert high_watermark(alone, isr, 2) == 5
    assert high_watermark(alone, isr, 1) == 10
    assert high_watermark(view(replicas=(1,)), isr, 2) == 10, "one replica needs one"


def test_r497_20_a_replica_that_is_being_removed_still_counts() -> None:
    isr = Isr((1, 2), 7)
    found = view(followers={2: caught_up(2, log_end=6)}, replicas=(1, 2), mono_ms=40_000)
    assert isr.decide(wanted(found, isr), {}) and isr.proposal is not None and isr.proposal.want == {1}
    assert high_watermark(found, isr, 1) == 6
    isr.flushed()
    isr.updated((1,), 8)
    assert high_watermark(found, isr, 1) == 10


def test_r497_22_a_replica_that_was_asked_for_counts_from_then_on() -> None:
    isr = Isr((1, 2), 7)
    third = caught_up(3)
    found = view(followers={2: caught_up(2), 3: third})
    isr.decide(wanted(found, isr), {})
    third.log_end = 8
    assert high_watermark(view(followers=dict(found.followers), mono_ms=99_999), isr, 1) == 8


def test_r497_23_twin_of_the_high_watermark() -> None:
    dice = random.Random(4)
    for _ in range(3000):
        replicas = tuple(range(1, dice.randint(2, 5)))
        followers = {
            r: caught_up(r, dice.randint(0, 10), dice.choice((r * 11, -1)), dice.choice((0, 50_000)))
            for r in replicas
            if r != 1
        }
        registered = {r: r * 11 for r in replicas if dice.random() < 0.8}
        found = view(followers=followers, replicas=replicas, unfenced=registered, mono_ms=60_000, high=0)
        isr = Isr({1} | {r for r in replicas if dice.random() < 0.6}, 7)
        want = frozenset({1} | {r for r in replicas if dice.random() < 0.6})
        isr.decide(want, {})
        ends = {r: followers[r].log_end for r in replicas if r != 1} | {1: 10}
        maximal = isr.isr | want
        awaited = {
            r
            for r, one in followers.items()
            if registered.get(r) == one.broker_epoch and (one.log_end == 10 or 60_000 - one.caught_up_ms <= 30_000)
        }
        assert high_watermark(found, isr, 1) == min(ends[r] for r in replicas if r in maximal | awaited)


def test_r497_43_position_and_epoch_come_from_one_fetch() -> None:
    follower = Follower(3, 0)
    follower.fetched(Position(10, 0, 33, 10, 1))
    follower.fetched(Position(2, 0, 34, 10, 2))
    follower.fetched(Position(10, 0, 33, 10, 3))
    found = view(followers={2: caught_up(2), 3: follower}, unfenced={1: 11, 2: 22, 3: 34})
    assert wanted(found, Isr((1, 2), 7)) == {1, 2}


def test_a_follower_one_round_trip_behind_is_caught_up() -> None:
    follower = Follower(2, 0)
    for turn in range(1, 50):
        follower.fetched(Position(turn * 10, 0, 22, turn * 10 + 10, turn * 1000))
    assert follower.caught_up_ms == 48_000
    assert not follower.lags(500, 60_000, 30_000)


def test_a_fetch_that_came_before_its_leader_led_does_not_turn_back_time() -> None:
    follower = Follower(2, 1_000)
    follower.fetched(Position(10, 0, 22, 20, 990))
    assert (follower.caught_up_ms, follower.fetch_ms) == (1_000, 1_000)
    follower.fetched(Position(20, 0, 22, 30, 1_500))
    follower.fetched(Position(20, 0, 22, 30, 1_400))
    assert (follower.caught_up_ms, follower.fetch_ms) == (1_000, 1_500)


def test_an_idle_follower_does_not_lag_when_the_leader_appends() -> None:
    follower = Follower(2, 0)
    follower.fetched(Position(10, 0, 22, 10, 0))
    follower.attached = True
    follower.passed(10, 59_900)
    assert not follower.lags(11, 60_000, 30_000)
    gone = Follower(3, 0)
    gone.fetched(Position(10, 0, 33, 10, 0))
    gone.attached = True
    gone.passed(10, 20_000)
    assert gone.lags(11, 60_000, 30_000)
