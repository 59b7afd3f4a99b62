"""How a member loses records that it has not acknowledged: its lock ends, or its session does."""

from actors.broker.groups.share.delivery import acquisition_locks
from actors.broker.groups.share.delivery.acquisition import Acquired
from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event
from actors.broker.groups.share.delivery.in_flight import NEVER_MS, StateBatch
from tests.unit.broker.groups.share.delivery.test_share_partition import LOCK_MS, Scene


def states(scene: Scene) -> list[tuple[int, int, DeliveryState]]:
    return [(run.first, run.last, run.state) for _, run in scene.window.runs()]


def test_nothing_ends_before_its_time_and_the_next_end_is_told() -> None:
    scene = Scene(records=20)
    scene.fetch("a", 10)
    scene.now_ms = 1_000
    scene.fetch("b", 10)
    assert acquisition_locks.expire(scene.window, LOCK_MS - 1, 5) == (None, LOCK_MS)
    change, due_ms = acquisition_locks.expire(scene.window, LOCK_MS, 5)
    assert due_ms == LOCK_MS + 1_000
    assert change is not None and change.batches == [StateBatch(0, 9, DeliveryState.AVAILABLE, 1)]
    assert states(scene) == [(0, 9, DeliveryState.AVAILABLE), (10, 19, DeliveryState.ACQUIRED)]
    change, due_ms = acquisition_locks.expire(scene.window, LOCK_MS + 1_000, 5)
    assert change is not None and due_ms == NEVER_MS
    assert acquisition_locks.expire(scene.window, 1 << 62, 5) == (None, NEVER_MS)


def test_others_have_at_once_what_was_locked_too_long() -> None:
    scene = Scene(records=10)
    scene.fetch("a")
    acquisition_locks.expire(scene.window, LOCK_MS, 5)
    assert scene.fetch("b") == [Acquired(0, 9, 2)], "nothing was written yet"


def test_records_delivered_as_often_as_may_be_are_archived() -> None:
    scene = Scene(records=10, limit=1)
    scene.fetch("a")
    change, _ = acquisition_locks.expire(scene.window, LOCK_MS, 1)
    assert change is not None and change.batches == [StateBatch(0, 9, DeliveryState.ARCHIVED, 1)]
    assert scene.fetch("b") == []


def test_what_is_being_written_has_no_lock_that_could_end() -> None:
    scene = Scene(records=20)
    scene.fetch("a")
    scene.say(Event.ACCEPT, 0, 9, "a")
    change, _ = acquisition_locks.expire(scene.window, LOCK_MS, 5)
    assert change is not None and change.batches == [StateBatch(10, 19, DeliveryState.AVAILABLE, 1)]
    assert states(scene)[0] == (0, 9, DeliveryState.ACQUIRED)


def test_records_below_the_start_are_archived_and_others_of_the_batch_are_not() -> None:
    scene = Scene(records=10)
    scene.fetch("a")
    scene.share.log_starts_at(4)
    change, _ = acquisition_locks.expire(scene.window, LOCK_MS, 5)
    assert change is not None
    assert change.batches == [StateBatch(0, 3, DeliveryState.ARCHIVED, 1), StateBatch(4, 9, DeliveryState.AVAILABLE, 1)]


def test_the_end_of_a_session_gives_back_the_members_records_and_no_others_once_that_is_written() -> None:
    scene = Scene(records=20)
    scene.fetch("a", 10)
    scene.fetch("b", 10)
    change = acquisition_locks.give_back(scene.window, "a", 5)
    assert change is not None and change.batches == [StateBatch(0, 9, DeliveryState.AVAILABLE, 1)]
    assert scene.fetch("c") == [], "it is not written yet"
    assert states(scene) == [(0, 9, DeliveryState.ACQUIRED), (10, 19, DeliveryState.ACQUIRED)]
    assert acquisition_locks.give_back(scene.window, "a", 5) is None
    assert acquisition_locks.give_back(scene.window, "nobody", 5) is None
