"""The window of a share partition: how it is loaded, where it reads next, and how its start moves."""

import pytest

from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event
from actors.broker.groups.share.delivery.in_flight import InFlightBatch, InFlightRun, StateBatch
from actors.broker.groups.share.delivery.in_flight_window import NO_GAP, Window

AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = DeliveryState


def acquired(window: Window, first: int, last: int) -> InFlightBatch:
    """A batch that a member has acquired at the end of the window, as it is read."""
    run = InFlightRun(first, last, AVAILABLE, 0)
    run.acquire("m", 500)
    batch = InFlightBatch([run])
    window.insert(batch)
    window.end = max(window.end, last)
    window.check()
    return batch


def become(window: Window, batch: InFlightBatch, first: int, last: int, state: DeliveryState) -> bool:
    for run in batch.cut(first, last):
        run.become(state)
    batch.join()
    moved = window.advance()
    window.check()
    return moved


def test_the_start_moves_over_what_is_done_and_not_over_what_is_not() -> None:
    window = Window(10)
    first, second = acquired(window, 10, 14), acquired(window, 15, 19)
    assert (window.start, window.end, window.records, window.next_offset()) == (10, 19, 10, 20)
    assert not become(window, second, 15, 19, ACKNOWLEDGED) and window.complete == 5
    assert become(window, first, 10, 11, ACKNOWLEDGED) and window.start == 12 and len(window.batches) == 2
    assert become(window, first, 12, 14, ARCHIVED)
    assert (window.start, window.end, window.records, window.batches) == (20, 20, 0, [])
    assert window.next_offset() == window.follows == 20


def test_what_is_available_is_read_again_before_what_follows() -> None:
    window = Window(0)
    first, second = acquired(window, 0, 4), acquired(window, 5, 9)
    become(window, second, 7, 8, AVAILABLE)
    assert window.next_offset() == 10, "nobody has said that there is something"
    window.look()
    assert window.next_offset() == 7
    become(window, first, 0, 4, AVAILABLE)
    assert window.next_offset() == 0
    for batch in (first, second):
        for run in batch.runs:
            if run.available:
                run.acquire("n", 600)
    assert window.next_offset() == 10


def test_batches_are_found_by_their_offsets() -> None:
    window = Window(0)
    made = [acquired(window, first, first + 4) for first in (0, 5, 20)]
    assert [window.floor(offset) for offset in (-1, 0, 4, 5, 19, 20, 99)] == [-1, 0, 0, 1, 1, 2, 2]
    assert window.covering(4, 5) == made[:2] and window.covering(10, 19) == [] and window.covering(9, 20) == made[1:]
    assert window.between(1, 20) == made[1:] and window.between(0, 4) == made[:1]


def test_records_that_the_log_has_lost_are_archived_unless_a_member_has_them() -> None:
    window = Window(0)
    free, had = acquired(window, 0, 4), acquired(window, 5, 9)
    become(window, free, 0, 4, AVAILABLE)
    window.log_starts_at(8)
    window.check()
    assert window.start == 8 and had in window.batches and free not in window.batches
    assert window.next_offset() == 10
    window.log_starts_at(7)
    assert window.start == 8, "a log does not begin earlier than it did"
    window.log_starts_at(50)
    assert (window.start, window.end, window.next_offset()) == (50, 50, 50)


def test_only_records_of_that_state_are_archived() -> None:
    window = Window(0)
    batch = acquired(window, 0, 9)
    become(window, batch, 4, 9, AVAILABLE)
    assert window.archive(0, 6, Event.LOSE)
    assert [(run.first, run.last, run.state) for run in batch.runs] == [
        (0, 3, ACQUIRED), (4, 6, ARCHIVED), (7, 9, AVAILABLE),
    ]  # fmt: skip
    assert not window.archive(0, 6, Event.LOSE)


def test_what_was_stored_is_loaded_and_gaps_in_it_are_read_first() -> None:
    window = Window.loaded(10, [StateBatch(12, 14, AVAILABLE, 1), StateBatch(18, 19, ACKNOWLEDGED, 1)])
    window.check()
    assert (window.start, window.end, window.gap, window.has_gap) == (10, 19, 10, True)
    assert window.next_offset() == 10, "of 10 and 11 nothing was stored"
    acquired(window, 10, 11)
    window.passed(12)
    assert window.next_offset() == 12
    acquired_runs = [run for batch, run in window.runs() if run.available]
    for run in acquired_runs:
        run.acquire("m", 500)
    assert window.next_offset() == 15, "the gap behind"
    acquired(window, 15, 17)
    window.passed(18)
    assert window.gap == NO_GAP and window.next_offset() == 20


def test_what_is_done_in_front_of_a_load_is_passed() -> None:
    window = Window.loaded(10, [StateBatch(10, 14, ACKNOWLEDGED, 1), StateBatch(15, 15, AVAILABLE, 2)])
    assert (window.start, window.gap, window.next_offset()) == (15, NO_GAP, 15)
    empty = Window.loaded(10, [])
    assert (empty.start, empty.end, empty.records, empty.next_offset()) == (10, 10, 0, 10)


@pytest.mark.parametrize(
    "stored",
    [
        [StateBatch(9, 12, AVAILABLE, 1)],
        [StateBatch(12, 11, AVAILABLE, 1)],
        [StateBatch(10, 12, AVAILABLE, 1), StateBatch(12, 13, AVAILABLE, 1)],
        [StateBatch(10, 12, ACQUIRED, 1)],
        [StateBatch(10, 12, 3, 1)],
    ],
)
def test_what_makes_no_sense_is_not_loaded(stored: list[StateBatch]) -> None:
    with pytest.raises(ValueError, match=r"does not follow|is stored as acquired|3 is not a valid"):
        Window.loaded(10, stored)
