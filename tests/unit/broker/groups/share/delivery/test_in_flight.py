"""Runs of records in flight: cut where something happens to a part, joined when they are alike again."""

from actors.broker.groups.share.delivery.delivery_states import DeliveryState
from actors.broker.groups.share.delivery.in_flight import (
    NEVER_MS,
    NOBODY,
    DeliveryChange,
    InFlightBatch,
    InFlightRun,
    StateBatch,
)

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState


def batch(first: int = 10, last: int = 19) -> InFlightBatch:
    run = InFlightRun(first, last, AVAILABLE, 0)
    run.acquire("m", 500)
    return InFlightBatch([run])


def shown(one: InFlightBatch) -> list[tuple[int, int, DeliveryState]]:
    return [(run.first, run.last, run.state) for run in one.runs]


def test_a_part_is_cut_out_and_the_rest_stays_as_it_was() -> None:
    one = batch()
    (part,) = one.cut(12, 14)
    part.become(ACKNOWLEDGED)
    assert shown(one) == [(10, 11, ACQUIRED), (12, 14, ACKNOWLEDGED), (15, 19, ACQUIRED)]
    assert [(run.member, run.lock_ms, run.count) for run in one.runs] == [
        ("m", 500, 1),
        (NOBODY, NEVER_MS, 1),
        ("m", 500, 1),
    ]
    assert [run.first for run in one.within(11, 15)] == [10, 12, 15] and [*one.within(20, 30)] == []
    assert len(one) == 10, "a batch that is cut is as long as before"


def test_a_cut_over_several_runs_gives_the_parts_in_order() -> None:
    one = batch()
    one.cut(12, 14)[0].become(ARCHIVED)
    assert [(run.first, run.last) for run in one.cut(11, 15)] == [(11, 11), (12, 14), (15, 15)]
    assert [(run.first, run.last) for run in one.runs] == [(10, 10), (11, 11), (12, 14), (15, 15), (16, 19)]
    assert one.cut(30, 40) == [] and [(run.first, run.last) for run in one.cut(0, 99)][-1] == (16, 19)


def test_neighbours_that_are_alike_are_one_run_and_others_are_not() -> None:
    one = batch()
    for first, last in ((10, 12), (13, 15)):
        for run in one.cut(first, last):
            run.become(ACKNOWLEDGED)
    one.join()
    assert shown(one) == [(10, 15, ACKNOWLEDGED), (16, 19, ACQUIRED)]
    (part,) = one.cut(18, 19)
    part.change = DeliveryChange()
    one.join()
    assert [run.first for run in one.runs] == [10, 16, 18], "what is being written is not alike"
    part.change = None
    part.lock_ms += 1
    one.join()
    assert [run.first for run in one.runs] == [10, 16, 18], "nor what is held for longer"
    part.lock_ms -= 1
    one.join()
    assert [run.first for run in one.runs] == [10, 16]


def test_records_that_are_being_written_are_not_held_any_more() -> None:
    (run,) = batch().runs
    assert run.held and not run.available and not run.over
    run.change = DeliveryChange()
    assert not run.held and run.state is ACQUIRED
    run.become(AVAILABLE)
    assert run.available and run.change is None and run.count == 1, "the delivery has counted"


def test_what_a_change_writes_is_as_few_batches_as_possible() -> None:
    change = DeliveryChange()
    for one in ((0, 4, 2, 1), (5, 5, 2, 1), (6, 6, 4, 1), (8, 9, 4, 1), (10, 10, 4, 2)):
        change.add(*one)
    assert change.batches == [
        StateBatch(0, 5, 2, 1),
        StateBatch(6, 6, 4, 1),
        StateBatch(8, 9, 4, 1),
        StateBatch(10, 10, 4, 2),
    ]
