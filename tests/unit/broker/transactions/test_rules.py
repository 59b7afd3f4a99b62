"""What a request makes of a transaction, case by case: who is fenced, which epoch comes next, what is repeated."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.broker.transactions.rules import (
    ENDS,
    ENDS_BEFORE_2,
    End,
    Fence,
    Init,
    add,
    completed,
    end,
    init,
    producer_error,
    verify,
)  # fmt: skip
from actors.broker.transactions.state import (
    AT_REST,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    NO_TIMEOUT_MS,
    PREPARED,
    Transaction,
    TransactionState,
    created,
    used_up,
)  # fmt: skip
from actors.wire.errors import ErrorCode

S = TransactionState
T0, T1 = ("t", 0), ("t", 1)
LAST = EPOCH_MAX - 1
"""The epoch from which no producer gets a higher one under its id."""
WALL_MS = 1000


def at(state: TransactionState = S.EMPTY, **more: Any) -> Transaction:
    """A transactional id of producer 7 in epoch 3, whose transaction is in a state."""
    known = dict(producer_epoch=3, state=state, partitions=frozenset([T0]) if state not in AT_REST else frozenset())
    return created(7, 5000, 10)._replace(**(known | more))


def take_id() -> int | None:
    return 99


def no_id() -> int | None:
    return None


def begun(present: Transaction, request: Init, take: Callable[[], int | None] = take_id) -> Any:
    return init(present, request, take, WALL_MS)


def ended(present: Transaction, request: End, take: Callable[[], int | None] = take_id) -> Any:
    return end(present, request, take, WALL_MS)


def test_a_producer_that_begins_anew_gets_the_next_epoch_and_fences_the_one_before() -> None:
    found = begun(at(), Init(6000))
    assert (found.producer_id, found.producer_epoch, found.last_epoch, found.timeout_ms) == (7, 4, NO_EPOCH, 6000)
    assert found.state is S.EMPTY and found.updated_ms == WALL_MS
    assert producer_error(found, 7, 3) is ErrorCode.PRODUCER_FENCED and producer_error(found, 7, 4) is ErrorCode.NONE
    assert producer_error(found, 8, 4) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_last_epoch_is_given_to_nobody() -> None:
    found = begun(at(producer_epoch=LAST), Init(6000))
    assert (found.producer_id, found.producer_epoch, found.previous_id) == (99, 0, 7)
    assert begun(at(producer_epoch=LAST), Init(6000), no_id) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert begun(at(producer_epoch=LAST - 1), Init(6000)).producer_epoch == LAST


def test_a_producer_that_names_what_it_was_goes_on_or_has_its_answer_again() -> None:
    first = begun(at(), Init(6000, 7, 3))
    assert (first.producer_epoch, first.last_epoch) == (4, 3)
    again = begun(first, Init(6000, 7, 3))
    assert (again.producer_epoch, again.last_epoch) == (4, 3), "the answer was lost, and nothing is raised"
    assert begun(first, Init(6000, 7, 2)) is ErrorCode.PRODUCER_FENCED
    assert begun(first, Init(6000, 8, 3)) is ErrorCode.PRODUCER_FENCED
    over = begun(at(producer_epoch=LAST), Init(6000, 7, LAST))
    assert (over.producer_id, over.producer_epoch) == (99, 0)
    assert begun(over, Init(6000, 7, LAST)).producer_id == 99, "it may say what it was before"


def test_an_open_transaction_is_aborted_first_and_one_that_ends_is_waited_for() -> None:
    assert isinstance(begun(at(S.ONGOING), Init(6000)), Fence)
    assert isinstance(begun(at(S.ONGOING), Init(6000, 7, 3)), Fence)
    for state in PREPARED:
        assert begun(at(state), Init(6000)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert ended(at(state), End(7, 3, True, 2)) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert add(at(state), frozenset([T1]), 2, WALL_MS) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert verify(at(state), [T0]) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_two_phase_commit_has_no_timeout_and_nobody_else_has_none() -> None:
    assert begun(at(), Init(5, two_phase=True)).timeout_ms == NO_TIMEOUT_MS
    assert begun(at(), Init(NO_TIMEOUT_MS)).timeout_ms == NO_TIMEOUT_MS - 1


def test_a_kept_transaction_goes_on_under_its_own_ids_and_may_only_be_ended() -> None:
    kept = begun(at(S.ONGOING), Init(6000, keep=True))
    assert kept.kept and (kept.producer_id, kept.producer_epoch) == (7, 3) and kept.held_by == (7, 4)
    assert kept.partitions == {T0} and kept.timeout_ms == 5000
    assert producer_error(kept, 7, 4) is ErrorCode.INVALID_TXN_STATE
    assert producer_error(kept, 7, 3) is ErrorCode.PRODUCER_FENCED
    assert ended(kept, End(7, 3, True, 2)) is ErrorCode.PRODUCER_FENCED
    assert ended(kept, End(7, 4, True, 0)) is ErrorCode.PRODUCER_FENCED
    prepared = ended(kept, End(7, 4, True, 2))
    assert prepared.state is S.PREPARE_COMMIT and prepared.producer_epoch == 4
    done = completed(prepared, WALL_MS)
    assert done.state is S.COMPLETE_COMMIT and (done.producer_id, done.producer_epoch) == (7, 5)
    assert ended(done, End(7, 4, True, 2)) is ErrorCode.NONE, "repeated, its answer was lost"


def test_a_fenced_producer_does_not_abort_what_may_be_prepared() -> None:
    lasting = at(S.ONGOING, timeout_ms=NO_TIMEOUT_MS)
    assert begun(lasting, Init(6000, 7, 2)) is ErrorCode.PRODUCER_FENCED
    assert isinstance(begun(lasting, Init(6000, 7, 3)), Fence)
    assert isinstance(begun(at(S.ONGOING), Init(6000, 7, 2)), Fence), "of other transactions it does"


def test_partitions_are_added_and_verified() -> None:
    begun_now = add(at(), frozenset([T0]), 2, WALL_MS)
    assert isinstance(begun_now, Transaction) and (begun_now.state, begun_now.started_ms) == (S.ONGOING, WALL_MS)
    more = add(begun_now, frozenset([T1]), 2, WALL_MS + 5)
    assert isinstance(more, Transaction) and more.partitions == {T0, T1} and more.started_ms == WALL_MS
    assert add(more, frozenset([T0]), 2, WALL_MS) is ErrorCode.NONE
    assert verify(begun_now, [T0, T1]) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_an_end_raises_the_epoch_from_version_2_on(commit: bool, state: TransactionState) -> None:
    first = ended(at(S.ONGOING), End(7, 3, commit, 2))
    assert (first.state, first.producer_epoch, first.last_epoch) == (state, 4, 3)
    former = ended(at(S.ONGOING), End(7, 3, commit, 0))
    assert (former.state, former.producer_epoch) == (state, 3)
    own = ended(at(S.ONGOING), End(7, 3, commit, 0, own=True))
    assert own.producer_epoch == 4, "the producer before is fenced"


def test_an_end_is_of_the_present_producer() -> None:
    assert ended(at(S.ONGOING), End(7, 2, True, 0)) is ErrorCode.PRODUCER_FENCED
    assert ended(at(S.ONGOING), End(8, 3, True, 2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ended(at(S.ONGOING), End(7, 2, True, 2)) is ErrorCode.PRODUCER_FENCED, "a transaction has begun since"


def test_an_end_that_uses_up_the_epochs_goes_on_with_another_producer_id() -> None:
    prepared = ended(at(S.ONGOING, producer_epoch=LAST), End(7, LAST, True, 2))
    assert (prepared.producer_epoch, prepared.next_id) == (EPOCH_MAX, 99)
    done = completed(prepared, WALL_MS)
    assert (done.producer_id, done.producer_epoch, done.previous_id, done.next_id) == (99, 0, 7, NO_ID)
    assert not done.partitions
    assert ended(done, End(7, LAST, True, 2)) is ErrorCode.NONE, "repeated under the id of before"
    assert ended(done, End(7, LAST, False, 2)) is ErrorCode.INVALID_TXN_STATE
    assert ended(done, End(7, 5, True, 2)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING, "that was long before"
    full = at(S.ONGOING, producer_epoch=LAST)
    assert ended(full, End(7, LAST, True, 2), no_id) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_end_without_a_transaction_is_answered_by_the_tables() -> None:
    assert {state for state, _ in ENDS} == set(ENDS_BEFORE_2) == set(AT_REST)
    for (state, again), (commit, abort) in ENDS.items():
        for outcome, request in (
            (commit, End(7, 2 if again else 3, True, 2)),
            (abort, End(7, 2 if again else 3, False, 2)),
        ):
            found = ended(at(state), request)
            assert found.state is S.PREPARE_ABORT if outcome.abort else found is outcome.code
    for state, (commit, abort) in ENDS_BEFORE_2.items():
        assert (
            ended(at(state), End(7, 3, True, 0)) is commit.code and ended(at(state), End(7, 3, False, 0)) is abort.code
        )


EPOCHS = st.sampled_from([NO_EPOCH, 0, 1, 2, LAST - 1, LAST, EPOCH_MAX])
IDS = st.sampled_from([NO_ID, 7, 8, 99])
ASKED = st.one_of(
    st.builds(Init, st.just(6000), IDS, EPOCHS, st.booleans(), st.booleans()),
    st.builds(End, IDS, EPOCHS, st.booleans(), st.sampled_from([0, 2]), st.booleans()),
    st.sampled_from([frozenset([T0]), frozenset([T1])]),
    st.just(None),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ASKED, max_size=25))
def test_no_history_of_requests_moves_an_epoch_back_or_takes_an_illegal_step(requests: list[Any]) -> None:
    """`IllegalStep` would be raised. Under one id the epoch never falls, and the last one is given to no producer."""
    present, ids = created(7, 5000, 10), iter(range(100, 10_000))
    for request in requests:
        if isinstance(request, Init):
            found: Any = init(present, request, lambda: next(ids), WALL_MS)
        elif isinstance(request, End):
            found = end(present, request, lambda: next(ids), WALL_MS)
        elif request is None:
            found = completed(present, WALL_MS) if present.state in PREPARED else None
        elif producer_error(present, present.producer_id, present.producer_epoch) is ErrorCode.NONE:
            found = add(present, request, 2, WALL_MS)
        else:
            continue
        if not isinstance(found, Transaction):
            continue
        assert found.producer_id != present.producer_id or found.producer_epoch >= present.producer_epoch
        if found.state is S.EMPTY:
            assert not used_up(found.producer_epoch) or found.producer_epoch == LAST
        present = found
