"""Share partitions against a slow twin that knows each record by itself, and rule by rule."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.broker.groups.share.delivery.acknowledgement import AcknowledgementBatch, check_form
from actors.broker.groups.share.delivery.acquisition import Acquired, AcquisitionRequest, Extent
from actors.broker.groups.share.delivery.delivery_states import DeliveryState, Event
from actors.broker.groups.share.delivery.in_flight import DeliveryChange, StateBatch
from actors.broker.groups.share.delivery.keys import SharePartitionKey
from actors.broker.groups.share.delivery.share_partition import ShareLimits, SharePartition
from actors.broker.replication.admission import RequestRefused
from actors.wire.errors import ErrorCode
from tests.reference.share_partition import SlowSharePartition

LOCK_MS = 30_000
STATES = {Event.ACCEPT: "acknowledged", Event.REJECT: "archived", Event.GAP: "archived", Event.RELEASE: "available"}


class Scene:
    """A share partition over a log of batches of ten records, or of the given extents."""

    def __init__(
        self, *, records: int = 100, start: int = 0, limit: int = 5, in_flight: int = 2000, **more: Any
    ) -> None:
        self.log = more.pop("log", [Extent(first, first + 9) for first in range(0, records, 10)])
        self.limits = ShareLimits(LOCK_MS, limit, in_flight, more.pop("renewals", True), False)
        self.now_ms = 0
        self.share = SharePartition(SharePartitionKey("g", b"t" * 16, 0), 1)
        self.share.load(start, 0, more.pop("stored", ()))
        assert not more

    @property
    def window(self):
        assert self.share.window is not None
        return self.share.window

    def fetch(
        self, member: str = "m", records: int = 10_000, *, strict: bool = False, batch: int = 500, upto: int = 10**9
    ):
        """Acquire of what can be read at the next offset."""
        if not self.share.can_acquire(self.limits):
            return []
        offset = self.share.next_offset()
        extents = [one for one in self.log if one.last >= offset and one.first <= upto]
        limits = self.limits
        ask = AcquisitionRequest(
            member, records, batch, strict, self.now_ms + LOCK_MS, limits.delivery_limit, limits.in_flight_max
        )
        acquired = self.share.acquire(ask, offset, extents, ())
        self.window.check()
        return acquired

    def say(self, event: Event, first: int, last: int, member: str = "m") -> DeliveryChange | None:
        batch = AcknowledgementBatch(first, last, [event.value])
        change = self.share.acknowledge(member, [batch], self.now_ms, self.limits)
        self.window.check()
        return change

    def write(self, code: ErrorCode = ErrorCode.NONE):
        write = self.share.next_write()
        if write is not None:
            self.share.written(code, self.now_ms)
            self.window.check()
        return write

    def store(self, event: Event, first: int, last: int, member: str = "m"):
        self.say(event, first, last, member)
        return self.write()

    def refused(self, event: Event, first: int, last: int, member: str = "m") -> ErrorCode:
        with pytest.raises(RequestRefused) as refused:
            self.say(event, first, last, member)
        return refused.value.code


def test_new_records_go_to_one_member_in_batches_of_the_log() -> None:
    scene = Scene()
    assert scene.fetch("a", 15) == [Acquired(0, 19, 1)]
    assert scene.fetch("b", 10) == [Acquired(20, 29, 1)]
    assert scene.fetch("b", 50, batch=20) == [Acquired(30, 49, 1), Acquired(50, 69, 1), Acquired(70, 79, 1)]
    assert scene.fetch("b", 100, batch=25) == [Acquired(80, 99, 1)]
    assert scene.fetch("c") == []


def test_a_strict_limit_divides_a_batch_and_the_rest_is_available() -> None:
    scene = Scene()
    assert scene.fetch("a", 3, strict=True) == [Acquired(0, 2, 1)]
    assert scene.fetch("b", 4, strict=True) == [Acquired(3, 6, 1)]
    assert scene.fetch("c", 100, strict=True) == [Acquired(7, 9, 1), Acquired(10, 99, 1)]


def test_what_is_acknowledged_holds_once_it_is_written() -> None:
    scene = Scene()
    scene.fetch()
    change = scene.say(Event.ACCEPT, 0, 49)
    assert change is not None and not change.done and scene.window.start == 0
    assert scene.refused(Event.ACCEPT, 0, 9) == ErrorCode.INVALID_RECORD_STATE
    write = scene.write()
    assert write is not None and (write.start_offset, write.complete_count) == (0, 50)
    assert write.batches == [StateBatch(0, 49, DeliveryState.ACKNOWLEDGED, 1)]
    assert change.done and not change.error and scene.window.start == 50


def test_a_write_that_fails_gives_the_records_back_to_their_member() -> None:
    scene = Scene()
    scene.fetch()
    change = scene.say(Event.ACCEPT, 0, 49)
    scene.write(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert change is not None and change.error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.store(Event.ACCEPT, 0, 99).complete_count == 100
    assert (scene.window.start, scene.window.batches) == (100, [])


def test_a_write_that_fails_after_the_lock_has_ended_makes_the_records_available() -> None:
    scene = Scene()
    scene.fetch()
    scene.say(Event.ACCEPT, 0, 9)
    scene.now_ms = LOCK_MS
    assert scene.share.expire(scene.now_ms, scene.limits)
    scene.write(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert scene.share.expire(scene.now_ms, scene.limits)
    assert scene.fetch("b") == [Acquired(0, 99, 2)]


def test_records_that_are_given_back_come_again_until_the_limit() -> None:
    scene = Scene(records=10, limit=2)
    assert scene.fetch() == [Acquired(0, 9, 1)]
    scene.store(Event.RELEASE, 0, 9)
    assert scene.fetch("b") == [Acquired(0, 9, 2)]
    assert scene.store(Event.RELEASE, 0, 9, "b").batches == [StateBatch(0, 9, DeliveryState.ARCHIVED, 2)]
    assert scene.fetch() == [] and scene.window.start == 10


def test_suspect_records_go_out_in_small_parts_and_for_the_last_time_alone() -> None:
    scene = Scene(records=10, limit=4)
    for _ in range(2):
        scene.fetch()
        scene.store(Event.RELEASE, 0, 9)
    assert scene.fetch() == [Acquired(0, 4, 3)]
    assert scene.fetch() == [Acquired(5, 9, 3)]
    scene.store(Event.RELEASE, 0, 9)
    assert [scene.fetch() for _ in range(3)] == [[Acquired(offset, offset, 4)] for offset in range(3)]


def test_a_lock_ends_and_a_renewal_makes_it_last() -> None:
    scene = Scene(records=20)
    scene.fetch()
    scene.now_ms = LOCK_MS - 1
    assert not scene.share.expire(scene.now_ms, scene.limits)
    assert scene.say(Event.RENEW, 0, 9) is None
    scene.now_ms = LOCK_MS
    assert scene.share.expire(scene.now_ms, scene.limits)
    assert scene.fetch("b") == [Acquired(10, 19, 2)]
    assert scene.refused(Event.ACCEPT, 10, 19) == ErrorCode.INVALID_RECORD_STATE
    assert scene.say(Event.ACCEPT, 0, 9) is not None
    scene.now_ms = 2 * LOCK_MS
    assert scene.share.expire(scene.now_ms, scene.limits)


def test_a_group_that_does_not_renew() -> None:
    scene = Scene(renewals=False)
    scene.fetch()
    assert scene.refused(Event.RENEW, 0, 9) == ErrorCode.INVALID_RECORD_STATE


def test_the_end_of_a_session_gives_back_what_its_member_has() -> None:
    scene = Scene(records=30)
    scene.fetch("a", 10)
    scene.fetch("b", 10)
    scene.say(Event.ACCEPT, 0, 3, "a")
    scene.share.give_back("a", scene.limits)
    write = scene.write()
    assert write.batches == [
        StateBatch(0, 3, DeliveryState.ACKNOWLEDGED, 1),
        StateBatch(4, 9, DeliveryState.AVAILABLE, 1),
    ]
    assert scene.fetch("c") == [Acquired(4, 9, 2), Acquired(20, 29, 1)]


def test_a_full_window_gives_only_what_is_available_inside_it() -> None:
    scene = Scene(in_flight=20)
    assert scene.fetch() == [Acquired(0, 19, 1)]
    assert scene.fetch("b") == []
    scene.store(Event.RELEASE, 10, 14)
    assert scene.fetch("b") == [Acquired(10, 14, 2)]
    scene.store(Event.ACCEPT, 0, 9)
    assert scene.fetch("b") == [Acquired(20, 29, 1)]


def test_a_gap_of_a_load_is_given_out_as_far_as_there_is_room_in_the_window() -> None:
    scene = Scene(in_flight=30, stored=[StateBatch(10, 28, 2, 1)])
    assert scene.fetch("a", strict=True) == [Acquired(0, 0, 1)]


def test_the_log_starts_later_and_what_nobody_has_is_lost() -> None:
    scene = Scene()
    scene.fetch("a", 50)
    scene.store(Event.RELEASE, 0, 19, "a")
    scene.share.log_starts_at(35)
    assert (scene.window.start, scene.share.next_offset()) == (35, 50)
    scene.share.give_back("a", scene.limits)
    assert [tuple(one) for one in scene.write().batches] == [(20, 34, 4, 1), (35, 49, 0, 1)]
    assert scene.share.next_offset() == 35
    assert scene.fetch("b", upto=49) == [Acquired(35, 49, 2)]
    scene.share.log_starts_at(80)
    assert (scene.window.start, scene.window.end) == (80, 80)
    assert scene.fetch("c") == [Acquired(80, 99, 1)]


def test_offsets_that_compaction_has_taken_are_archived() -> None:
    scene = Scene()
    scene.fetch("a", 50)
    scene.store(Event.RELEASE, 0, 49, "a")
    scene.log = [Extent(30, 39), Extent(60, 69)]
    assert scene.fetch("b") == [Acquired(30, 49, 2), Acquired(50, 69, 1)]
    scene.store(Event.ACCEPT, 30, 69, "b")
    assert scene.window.start == 70


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("left", [[Extent(100, 199)], [Extent(95, 99), Extent(100, 199)], [Extent(105, 199)]])
def test_a_full_window_whose_tail_compaction_has_taken_gives_nothing_behind_it(left: Any, strict: bool) -> None:
    log = [Extent(0, 89), Extent(90, 99), *left]
    scene = Scene(log=[*log[:2], Extent(100, 199)], in_flight=100)
    assert scene.fetch("a", 90, strict=True) == [Acquired(0, 89, 1)]
    assert scene.fetch("b", 10, strict=True) == [Acquired(90, 99, 1)]
    scene.store(Event.RELEASE, 90, 99, "b")
    scene.log = [log[0], *left]
    kept = [Acquired(95, 99, 2)] if left[0].first == 95 else []
    assert scene.fetch("c", 10, strict=strict) == kept
    assert scene.store(Event.ACCEPT, 0, 89, "a").batches == [(0, 89, DeliveryState.ACKNOWLEDGED, 1)]
    if kept:
        scene.store(Event.ACCEPT, 95, 99, "c")
    assert scene.window.start == 100
    assert [one.first for one in scene.fetch("d")] == [left[-1].first]


def test_what_a_member_has_below_the_log_s_start_brings_no_done_record_back() -> None:
    """6 and 10 were acknowledged before, and are not in the window any more."""
    stored = [StateBatch(5, 5, 0, 1), StateBatch(6, 6, 2, 1), StateBatch(10, 10, 2, 1)]
    scene = Scene(log=[Extent(0, 19)], start=5, stored=stored)
    assert scene.fetch("a", 1, strict=True) == [Acquired(5, 5, 2)]
    assert scene.fetch("a", 3, strict=True) == [Acquired(7, 9, 1)]
    scene.share.log_starts_at(10)
    assert scene.window.start == 11
    assert scene.fetch("c", 2, strict=True) == [Acquired(11, 12, 1)]
    scene.store(Event.RELEASE, 5, 9, "a")
    assert scene.fetch("c", 2, strict=True) == [Acquired(13, 14, 1)]


def test_gaps_of_a_load_are_new_records() -> None:
    stored = [StateBatch(10, 19, 2, 1), StateBatch(30, 39, 0, 3)]
    scene = Scene(stored=stored)
    assert scene.share.next_offset() == 0
    assert scene.fetch("a", 5) == [Acquired(0, 9, 1)]
    assert scene.share.next_offset() == 20
    assert scene.fetch("a", 10) == [Acquired(20, 29, 1)]
    assert scene.fetch("a") == [Acquired(30, 34, 4)]
    assert scene.window.start == 0


def test_a_gap_that_was_filled_piece_by_piece_does_not_hold_up_the_window() -> None:
    """Found in world `shared` of seed 1."""
    scene = Scene(log=[Extent(0, 19), Extent(20, 29)], stored=[StateBatch(20, 29, 2, 1)])
    assert scene.fetch("a", 8, strict=True) == [Acquired(0, 7, 1)]
    assert scene.fetch("a", 12, strict=True) == [Acquired(8, 19, 1)]
    scene.store(Event.ACCEPT, 0, 19, "a")
    assert scene.window.start == 30


def test_a_gap_that_compaction_has_taken_does_not_hold_up_the_window() -> None:
    scene = Scene(stored=[StateBatch(10, 19, 0, 1)], log=[Extent(10, 19), Extent(20, 29)])
    assert scene.fetch("a", upto=19) == [Acquired(10, 19, 2)]
    assert scene.fetch("b") == [Acquired(20, 29, 1)]
    scene.store(Event.ACCEPT, 10, 19, "a")
    assert scene.window.start == 20


@pytest.mark.parametrize(
    "stored",
    [[(5, 9, 0, 1)], [(10, 19, 2, 1), (19, 20, 0, 1)], [(10, 9, 0, 1)], [(10, 19, 3, 1)], [(10, 19, 1, 1)]],
)
def test_a_state_that_makes_no_sense_is_refused(stored: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(ValueError):
        Scene(start=10, stored=[StateBatch(*one) for one in stored])


def test_aborted_transactions_go_to_nobody() -> None:
    scene = Scene(records=30)
    ask = AcquisitionRequest("a", 100, 100, False, LOCK_MS, 5, 2000)
    acquired = scene.share.acquire(ask, 0, scene.log, [Extent(0, 9), Extent(15, 16)])
    assert acquired == [Acquired(10, 14, 1), Acquired(17, 29, 1)]
    assert scene.window.start == 10
    scene.store(Event.ACCEPT, 10, 14, "a")
    scene.store(Event.ACCEPT, 17, 29, "a")
    assert scene.window.start == 30


def test_only_aborted_records_do_not_fill_the_window() -> None:
    scene = Scene(records=30, in_flight=20)
    ask = AcquisitionRequest("a", 100, 100, False, LOCK_MS, 5, 20)
    assert scene.share.acquire(ask, 0, scene.log[:2], [Extent(0, 19)]) == []
    assert scene.fetch("b") == [Acquired(20, 29, 1)]


def test_all_batches_of_a_request_hold_or_none() -> None:
    scene = Scene()
    scene.fetch("a", 10)
    batches = [AcknowledgementBatch(0, 4, [1]), AcknowledgementBatch(5, 10, [1])]
    with pytest.raises(RequestRefused) as refused:
        scene.share.acknowledge("a", batches, 0, scene.limits)
    assert refused.value.code == ErrorCode.INVALID_REQUEST  # 10 is behind what was acquired
    assert scene.share.idle and scene.say(Event.ACCEPT, 0, 9, "a") is not None


def test_one_type_for_each_record() -> None:
    scene = Scene(records=10)
    scene.fetch("a")
    scene.share.acknowledge("a", [AcknowledgementBatch(0, 9, [1, 1, 2, 2, 3, 0, 0, 1, 1, 1])], 0, scene.limits)
    assert [tuple(one) for one in scene.write().batches] == [(0, 1, 2, 1), (2, 3, 0, 1), (4, 6, 4, 1), (7, 9, 2, 1)]
    assert scene.fetch("b") == [Acquired(2, 3, 2)]


@pytest.mark.parametrize(
    ("batches", "renewing"),
    [
        ([(5, 4, [1])], False),
        ([(0, 9, [1]), (5, 12, [1])], False),
        ([(0, 9, [])], False),
        ([(0, 9, [1, 2])], False),
        ([(0, 0, [5])], True),
        ([(0, 0, [-1])], False),
        ([(0, 0, [4])], False),
    ],
)
def test_batches_that_make_no_sense(batches: list[Any], renewing: bool) -> None:
    with pytest.raises(RequestRefused) as refused:
        check_form([AcknowledgementBatch(*one) for one in batches], renewals=True, renewing=renewing)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_another_leader_fences_what_waits() -> None:
    scene = Scene()
    scene.fetch()
    first, second = scene.say(Event.ACCEPT, 0, 9), None
    scene.share.next_write()
    second = scene.say(Event.ACCEPT, 10, 19)
    scene.share.written(ErrorCode.FENCED_LEADER_EPOCH, 0)
    assert first is not None and second is not None
    assert first.error == second.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not scene.share.can_acquire(scene.limits) and scene.share.idle
    assert scene.refused(Event.ACCEPT, 20, 29) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_record_is_not_twice_in_one_write() -> None:
    scene = Scene(records=10)
    scene.fetch("a")
    scene.say(Event.ACCEPT, 0, 0, "a")
    assert scene.share.next_write() is not None
    scene.now_ms = LOCK_MS
    scene.share.expire(scene.now_ms, scene.limits)
    scene.fetch("b", upto=9)
    scene.say(Event.ACCEPT, 1, 9, "b")
    scene.share.written(ErrorCode.NONE, scene.now_ms)
    assert [tuple(one) for one in scene.write().batches] == [(1, 9, 0, 1)]
    assert [tuple(one) for one in scene.write().batches] == [(1, 9, 2, 2)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fetch", "strict", "say", "say", "say", "write", "fail", "close", "wait", "log"]),
        st.sampled_from("abc"),
        st.integers(0, 40),
        st.integers(0, 12),
        st.sampled_from([Event.ACCEPT, Event.ACCEPT, Event.REJECT, Event.RELEASE, Event.RENEW]),
    ),
    max_size=60,
)


FETCH, WAIT = ("fetch", "a", 0, 0, Event.ACCEPT), ("wait", "a", 30, 0, Event.ACCEPT)
SPENT = [*[FETCH] * 2, WAIT, FETCH, WAIT]
"""The first record was delivered twice, and its lock is over: it is archived, which is not written yet, and is passed with
whatever comes next, as with Apache Kafka."""


@settings(max_examples=400, deadline=None)
@example([*SPENT, FETCH], [1, 1], 2, 4)
@example([*SPENT, ("fail", "a", 0, 0, Event.ACCEPT)], [1, 1], 2, 4)
@example([*SPENT, FETCH, ("fail", "a", 0, 0, Event.ACCEPT), ("say", "a", 0, 0, Event.ACCEPT)], [1, 1], 2, 4)
@given(STEPS, st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(2, 5), st.integers(4, 60))
def test_it_does_what_the_slow_twin_allows(steps: list[Any], sizes: list[int], limit: int, in_flight: int) -> None:
    log, end = [], 0
    for size in sizes:
        log.append(Extent(end, end + size - 1))
        end += size
    scene, slow = Scene(log=log, limit=limit, in_flight=in_flight), SlowSharePartition(0, limit)
    told: list[tuple[DeliveryChange, list[tuple[int, int, str]]]] = []

    def fetch(member: str, records: int, *, strict: bool) -> None:
        before = scene.window.start
        taken = scene.fetch(member, records, strict=strict)
        for first, last, count in taken:
            slow.acquired(member, first, last, count, scene.now_ms + LOCK_MS)
        if strict:
            assert sum(one.last - one.first + 1 for one in taken) <= records
        assert scene.window.start in (before, slow.first_undone())
        slow.start = max(slow.start, scene.window.start)

    def finish(code: ErrorCode) -> None:
        write = scene.share.next_write()
        if write is None:
            return
        complete = slow.complete()
        scene.share.written(code, scene.now_ms)
        scene.window.check()
        for change, pieces in [one for one in told if one[0].done]:
            for first, last, state in pieces:
                slow.end(first, last, state if not change.error else "acquired")
        told[:] = [one for one in told if not one[0].done]
        assert write.complete_count >= complete  # what is being written counts beside it
        assert scene.window.start in (slow.start, slow.first_undone())
        slow.start = max(slow.start, slow.first_undone() if not code else scene.window.start)

    for kind, member, at, length, event in steps:
        if kind in ("fetch", "strict"):
            fetch(member, max(1, at), strict=kind == "strict")
        elif kind == "say":
            first, last = at, at + length
            may = slow.may_acknowledge(member, first, last)
            try:
                change = scene.say(event, first, last, member)
            except RequestRefused:
                assert not may
                continue
            assert may
            if event is Event.RENEW:
                for offset in range(max(first, slow.start), last + 1):
                    slow.locks_ms[offset] = scene.now_ms + LOCK_MS
            elif change is not None:
                slow.begin(max(first, slow.start), last)
                told.append((change, [(max(first, slow.start), last, STATES[event])]))
        elif kind in ("write", "fail"):
            finish(ErrorCode.NONE if kind == "write" else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif kind == "close":
            held = slow.held(member)
            before = [change for changes in scene.share._waiting for change in changes]
            scene.share.give_back(member, scene.limits)
            after = [change for changes in scene.share._waiting for change in changes if change not in before]
            assert bool(after) is bool(held)
            if held:
                for offset in held:
                    slow.begin(offset, offset)
                told.append((after[0], [(offset, offset, "available") for offset in held]))
        elif kind == "wait":
            scene.now_ms += at * 1_000
            expired = slow.expire(scene.now_ms)
            assert scene.share.expire(scene.now_ms, scene.limits) is bool(expired)
        elif kind == "log":
            start = min(at, end)
            scene.share.log_starts_at(start)
            scene.log = [one for one in log if one.last >= start]
            slow.log_starts_at(start)
            slow.start = max(slow.start, slow.first_undone())
        assert scene.window.start == slow.first_undone() or scene.window.start == slow.start
    # Whatever has happened: every record that is left is delivered and done in the end.
    for _ in range(1_000):
        if scene.window.start >= end:
            break
        scene.now_ms += LOCK_MS
        slow.expire(scene.now_ms)
        scene.share.expire(scene.now_ms, scene.limits)
        while not scene.share.idle:
            finish(ErrorCode.NONE)
        for first, last, count in scene.fetch("d"):
            slow.acquired("d", first, last, count, scene.now_ms + LOCK_MS)
            scene.say(Event.ACCEPT, first, last, "d")
            slow.begin(first, last)
            told.append((scene.share._waiting[-1][-1], [(first, last, "acknowledged")]))
        while not scene.share.idle:
            finish(ErrorCode.NONE)
    assert scene.window.start >= end and scene.window.records == 0
