"""Which records a member of a share group gets of what was read: in which pieces, how many, which alone (KIP-932)."""

from collections.abc import Sequence
from typing import Any

import pytest

from actors.broker.groups.share.delivery.acquisition import (
    Acquired,
    AcquisitionRequest,
    Extent,
    acquire,
    can_acquire,
    without,
)  # fmt: skip
from actors.broker.groups.share.delivery.delivery_states import DeliveryState
from actors.broker.groups.share.delivery.in_flight_window import Window

AVAILABLE, _, ACKNOWLEDGED, ARCHIVED = DeliveryState
LOCK_MS = 500


def asking(member: str = "m", **more: Any) -> AcquisitionRequest:
    base = dict(records_max=100, batch_size=100, strict=False, lock_ms=LOCK_MS, delivery_limit=5, in_flight_max=1000)
    return AcquisitionRequest(member, **(base | more))  # type: ignore[arg-type]


def taken(window: Window, extents: Sequence[tuple[int, int]], ask: AcquisitionRequest, **more: Any) -> list[Acquired]:
    """What a member gets of batches that were read from where the window goes on."""
    found = [Extent(*one) for one in extents]
    acquired = acquire(window, ask, more.pop("offset", found[0].first if found else 0), found, **more)
    window.check()
    return acquired


def given_back(window: Window, first: int, last: int, state: DeliveryState = AVAILABLE) -> None:
    """What a member has acquired is available again, or done."""
    for batch, _ in list(window.runs()):
        if batch.first <= last and first <= batch.last:
            for run in batch.cut(max(first, batch.first), min(last, batch.last)):
                run.become(state)
            batch.join()
    window.look()
    window.advance()


def deliveries(window: Window) -> list[tuple[int, int, int]]:
    return [(run.first, run.last, run.count) for _, run in window.runs()]


def test_new_records_are_divided_at_the_ends_of_batches_in_the_log() -> None:
    extents = [(0, 3), (4, 6), (7, 11), (12, 12)]
    assert taken(Window(0), extents, asking(batch_size=5)) == [
        Acquired(0, 6, 1),
        Acquired(7, 11, 1),
        Acquired(12, 12, 1),
    ]
    assert taken(Window(0), extents, asking(batch_size=4)) == [
        Acquired(0, 3, 1),
        Acquired(4, 11, 1),
        Acquired(12, 12, 1),
    ]
    assert taken(Window(0), extents, asking(batch_size=50)) == [Acquired(0, 12, 1)]


def test_the_last_batch_may_go_beyond_what_was_asked_for_unless_the_limit_is_strict() -> None:
    extents = [(0, 3), (4, 9)]
    assert taken(Window(0), extents, asking(records_max=6)) == [Acquired(0, 9, 1)]
    assert taken(Window(0), extents, asking(records_max=4)) == [Acquired(0, 3, 1)]
    window = Window(0)
    assert taken(window, extents, asking(records_max=6, strict=True)) == [Acquired(0, 5, 1)]
    assert deliveries(window) == [(0, 5, 1), (6, 9, 0)]
    assert taken(window, extents, asking("n")) == [Acquired(6, 9, 1)], "the rest is available"


def test_what_is_available_goes_out_again_before_new_records_and_in_its_batches() -> None:
    window = Window(0)
    taken(window, [(0, 4), (5, 9)], asking(batch_size=5))
    given_back(window, 0, 9)
    assert taken(window, [(0, 4), (5, 9), (10, 14)], asking("n")) == [
        Acquired(0, 4, 2), Acquired(5, 9, 2), Acquired(10, 14, 1)
    ]  # fmt: skip


def test_what_another_member_has_is_not_given() -> None:
    window = Window(0)
    taken(window, [(0, 4)], asking())
    assert taken(window, [(0, 4)], asking("n")) == []
    assert taken(window, [(0, 4), (5, 9)], asking("n"), offset=0) == [Acquired(5, 9, 1)]


def test_a_full_window_gives_out_only_what_is_inside_it() -> None:
    window = Window(0)
    full = asking(in_flight_max=5)
    assert can_acquire(window, 5)
    taken(window, [(0, 4)], full)
    assert not can_acquire(window, 5) and can_acquire(window, 6)
    assert taken(window, [(5, 9)], full) == []
    given_back(window, 0, 4)
    assert can_acquire(window, 5)
    assert taken(window, [(0, 4), (5, 9)], full, offset=0) == [Acquired(0, 4, 2)]


def test_a_record_that_was_delivered_often_goes_out_with_fewer_and_fewer_and_at_last_alone() -> None:
    window, got = Window(0), []
    for _ in range(5):
        acquired = taken(window, [(0, 7)], asking(delivery_limit=6), offset=0)
        got.append([(one.first, one.last, one.delivery_count) for one in acquired])
        given_back(window, acquired[0].first, acquired[-1].last)
    assert got[:3] == [[(0, 7, 1)], [(0, 7, 2)], [(0, 7, 3)]]
    assert got[3] == [(0, 3, 4)] and got[4] == [(0, 1, 5)]
    acquired = taken(window, [(0, 7)], asking(delivery_limit=6), offset=0)
    assert [(one.first, one.last, one.delivery_count) for one in acquired] == [(0, 0, 6)], "its last delivery"


def test_nothing_else_goes_out_with_a_suspect_batch() -> None:
    window = Window(0)
    for _ in range(3):
        taken(window, [(0, 3)], asking(delivery_limit=6), offset=0)
        given_back(window, 0, 3)
    acquired = taken(window, [(0, 3), (4, 9)], asking(delivery_limit=6), offset=0)
    assert acquired == [Acquired(0, 1, 4)]


def test_a_suspect_batch_does_not_go_out_behind_others() -> None:
    window, ask = Window(0), asking(delivery_limit=6, batch_size=4)
    taken(window, [(0, 3), (4, 9)], ask)
    for _ in range(2):
        given_back(window, 4, 9)
        taken(window, [(4, 9)], ask)
    given_back(window, 0, 9)
    assert taken(window, [(0, 3), (4, 9)], ask, offset=0) == [Acquired(0, 3, 2)]
    assert taken(window, [(0, 3), (4, 9)], ask, offset=0) == [Acquired(4, 6, 4)]


def test_the_last_delivery_is_of_one_record_however_few_there_were_before() -> None:
    window = Window(0)
    for _ in range(2):
        taken(window, [(0, 7)], asking(delivery_limit=3), offset=0)
        given_back(window, 0, 7)
    assert taken(window, [(0, 7)], asking(delivery_limit=3), offset=0) == [Acquired(0, 0, 3)]


def test_offsets_that_are_gone_from_the_log_are_archived() -> None:
    window = Window(0)
    taken(window, [(0, 9)], asking())
    given_back(window, 0, 9)
    assert taken(window, [(5, 9)], asking("n"), offset=0) == [Acquired(5, 9, 2)]
    assert window.start == 5


def test_records_of_aborted_transactions_go_to_nobody() -> None:
    window = Window(0)
    acquired = taken(window, [(0, 3), (4, 6), (7, 9)], asking(), aborted=[Extent(4, 6)])
    assert acquired == [Acquired(0, 3, 1), Acquired(7, 9, 1)]
    states = {(run.first, run.last): run.state for _, run in window.runs()}
    assert states[4, 6] is ARCHIVED


@pytest.mark.parametrize(("extents", "more"), [([], {}), ([(0, 9)], {"records_max": 0}), ([(0, 4)], {"start": 5})])
def test_nothing_is_made_of_nothing(extents: list[tuple[int, int]], more: dict[str, int]) -> None:
    window = Window(more.pop("start", 0))
    assert taken(window, extents, asking(**more)) == [] and not window.batches


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        ([], [(0, 4), (5, 9)]),
        ([(0, 9)], []),
        ([(2, 2)], [(0, 1), (3, 4), (5, 9)]),
        ([(3, 6)], [(0, 2), (7, 9)]),
        ([(0, 0), (4, 5), (9, 9)], [(1, 3), (6, 8)]),
        ([(20, 30)], [(0, 4), (5, 9)]),
    ],
)
def test_what_is_gone_is_cut_out(gone: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    acquired = [Acquired(0, 4, 3), Acquired(5, 9, 1)]
    found = without(acquired, [Extent(*one) for one in gone])
    assert [(one.first, one.last) for one in found] == left
    assert all(one.delivery_count == (3 if one.last <= 4 else 1) for one in found)
