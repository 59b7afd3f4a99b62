"""Who waits for whom among the jobs of a node."""

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from actors.host.work import workers
from actors.host.work.workers import Jobs, Workers
from actors.ports import More, Work, WorkKind


class Ended:
    """Results by token, in order of arrival."""

    def __init__(self) -> None:
        self.results: dict[int, object] = {}
        self.workers = Workers(self._note)

    def _note(self, token: int, result: object) -> None:
        self.results[token] = result

    def until(self, count: int) -> dict[int, object]:
        end = time.monotonic() + 20
        while len(self.results) < count and time.monotonic() < end:
            time.sleep(0.005)
        assert len(self.results) == count
        return self.results


@pytest.fixture
def ended() -> Iterator[Ended]:
    one = Ended()
    yield one
    one.workers.close()


def nothing() -> None:
    """A job."""


def job_of(slices: int, held_bytes: int = 0, ran: Callable[[], object] = nothing) -> Callable[[], object]:
    left = deque(range(slices))

    def job() -> object:
        ran()
        left.popleft()
        return More(held_bytes) if left else slices

    return job


def test_hosts_take_turns_and_so_do_the_connections_of_a_host() -> None:
    turns = Jobs()
    owners = [("a", 1), ("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 4)]
    for token, owner in enumerate(owners):
        turns.put(Work(token, nothing, WorkKind.RECORDS, owner))
    order = []
    while (work := turns.take()) is not None:
        order.append(work.owner)
        turns.back(work, more=False)
    assert order == [("a", 1), ("b", 4), ("a", 2), ("b", 4), ("a", 3), ("a", 1)]


def test_an_owner_has_one_job_at_a_time() -> None:
    turns = Jobs()
    for token in range(2):
        turns.put(Work(token, nothing, WorkKind.RECORDS, ("a", 1)))
    first = turns.take()
    assert first is not None and turns.take() is None
    turns.back(first, more=True)
    again = turns.take()
    assert again is first, "a job that wants another slice is before the others of its owner"
    turns.back(again, more=False)
    second = turns.take()
    assert second is not None and second.token == 1


def test_long_jobs_of_one_client_let_a_short_one_of_another_pass(ended: Ended) -> None:
    def slow() -> None:
        time.sleep(0.002)

    for token in range(16):
        ended.workers.submit(Work(token, job_of(100, 0, slow), WorkKind.RECORDS, ("bad", token)))
    ended.workers.submit(Work(99, job_of(1), WorkKind.RECORDS, ("good", 1)))
    assert next(iter(ended.until(17))) == 99


def test_the_nodes_own_work_does_not_wait_for_clients(ended: Ended) -> None:
    free = threading.Event()
    for token in range(8):
        ended.workers.submit(Work(token, lambda: free.wait(20), WorkKind.RECORDS, ("a", token)))
    ended.workers.submit(Work(100, job_of(3)))
    try:
        assert ended.until(1) == {100: 3}
    finally:
        free.set()


def test_jobs_that_wait_hold_no_more_than_there_is_room_for(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "HELD_BYTES_MAX", 100)
    begun: set[int] = set()
    most = 0

    def job(token: int) -> Callable[[], object]:
        left = deque(range(5))

        def run() -> object:
            nonlocal most
            begun.add(token)
            most = max(most, len(begun))
            time.sleep(0.001)
            left.popleft()
            if left:
                return More(40)
            begun.discard(token)
            return None

        return run

    for token in range(12):
        ended.workers.submit(Work(token, job(token), WorkKind.RECORDS, ("a", token)))
    ended.until(12)
    assert most <= 2 + workers.THREADS[WorkKind.RECORDS], "two may wait with 40 bytes each; the others go on at once"


def test_an_exception_arrives_without_what_its_job_held(ended: Ended) -> None:
    class Buffer:
        pass

    def broken() -> None:
        held = Buffer()
        try:
            raise KeyError(str(held))
        except KeyError as error:
            raise ValueError("broken") from error

    ended.workers.submit(Work(1, broken, WorkKind.RECORDS, ("a", 1)))
    error = ended.until(1)[1]
    assert isinstance(error, ValueError) and error.__traceback__ is None and error.__context__ is None
    assert not [one for one in gc.get_objects() if isinstance(one, Buffer)]


def test_the_end_finishes_the_nodes_own_jobs_and_drops_those_of_clients() -> None:
    one = Ended()
    one.workers.submit(Work(1, lambda: More(0), WorkKind.RECORDS, ("a", 1)))
    for token in range(2, 12):
        one.workers.submit(Work(token, job_of(3, 0, lambda: time.sleep(0.001))))
    one.workers.close()
    one.workers.close()
    assert set(one.results) == set(range(2, 12))
