"""Fetch sessions: which one a request finds, which partitions are looked at, and for whom there is room."""

import random

import pytest

from actors.broker.replication import fetch_sessions
from actors.broker.replication.fetch_sessions import EPOCH_MAX, IDLE_MS, Session, Sessions, Wanted
from actors.wire.errors import ErrorCode


def made(slots: int = 3) -> Sessions:
    return Sessions(random.Random(1).randrange, slots)


def wanted(count: int) -> list[Wanted]:
    return [Wanted("t", number, 0, -1, -1, -1, 1 << 20) for number in range(count)]


def test_whoever_only_claims_to_be_a_replica_finds_no_more_room_than_clients() -> None:
    held = made(slots=3)
    for claimed in range(10):
        held.open(0, 0, claimed, True, 0)
    assert len(held) == 3
    assert len(held.evict(IDLE_MS + 1)) == 3, "and expires like a client's"
    for registered in range(10):
        opened = held.open(0, 0, registered, True, 0, registered=True).session
        assert opened is not None and opened.id
    assert not held.evict(IDLE_MS + 1)


def test_all_clients_together_have_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "ENTRIES_MAX", 10)
    held = made()
    first, second, broker = (held.open(0, 0, -1, True, 0, registered=one == 2).session for one in range(3))
    assert first and second and broker
    assert held.grew(broker, len(broker.want(wanted(50))))
    assert held.grew(first, len(first.want(wanted(6))))
    assert not held.grew(second, len(second.want(wanted(6)))), "it cannot be found again"
    assert second.id == 0 and len(held) == 2
    held.close(first)
    third = held.open(0, 0, -1, True, 0).session
    assert third and held.grew(third, len(third.want(wanted(10))))


def test_a_session_that_turns_out_to_be_a_brokers_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "ENTRIES_MAX", 10)
    held = made()
    early = held.open(0, 0, 2, True, 0).session
    assert early and held.grew(early, len(early.want(wanted(8))))
    assert held.open(early.id, 1, 2, True, 0, registered=True).session is early
    client = held.open(0, 0, -1, True, 0).session
    assert client and held.grew(client, len(client.want(wanted(10))))


def numbers(session: Session) -> list[int]:
    """The partitions that are to be looked at, in order."""
    return [one.number for one in session.dirty]


def opened(held: Sessions, replica: int = -1, uses_ids: bool = True, registered: bool = False) -> Session:
    found = held.open(0, 0, replica, uses_ids, 0, registered=registered).session
    assert found is not None
    return found


def test_a_request_finds_its_session_by_id_epoch_and_the_way_it_names_topics() -> None:
    held = made()
    session = opened(held)
    for epoch in (1, 2):
        found = held.open(session.id, epoch, -1, True, 0)
        assert (found.error, found.session, found.incremental) == (0, session, True)
    for id, epoch, uses_ids, error in (
        (session.id, 2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (session.id, 4, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (session.id, 3, False, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        (session.id + 1, 3, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 3, True, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ):
        refused = held.open(id, epoch, -1, uses_ids, 0)
        assert (refused.error, refused.session) == (error, None)
    assert held.open(session.id, 3, -1, True, 0).session is session, "what was refused has not counted"


def test_the_epoch_of_a_session_behind_the_last_one_is_the_first() -> None:
    """Never 0, which would ask for a new session."""
    found = made()
    session = found.open(0, 0, -1, True, 0).session
    assert session is not None
    session.epoch = EPOCH_MAX - 1
    for epoch, wrong in ((EPOCH_MAX - 1, EPOCH_MAX), (EPOCH_MAX, 1), (1, 0x7FFFFFFE), (2, EPOCH_MAX)):
        assert found.open(session.id, wrong, -1, True, 0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert found.open(session.id, epoch, -1, True, 0).session is session
    assert session.epoch == 3


@pytest.mark.parametrize("epoch", [fetch_sessions.FINAL_EPOCH, fetch_sessions.INITIAL_EPOCH])
def test_a_session_that_is_named_ends(epoch: int) -> None:
    held = made()
    session = opened(held)
    found = held.open(session.id, epoch, -1, True, 0)
    assert found.ended == [session] and not found.incremental and found.session is not None
    assert bool(found.session.id) == (epoch == fetch_sessions.INITIAL_EPOCH) and len(held) == bool(found.session.id)


def test_a_broker_has_one_session_and_a_new_one_ends_the_others() -> None:
    held = made()
    first, other = opened(held, 1, registered=True), opened(held, 2, registered=True)
    again = held.open(0, 0, 1, True, 0, registered=True)
    assert again.ended == [first] and held.replica_sessions(1) == [again.session]
    assert held.replica_sessions(2) == [other]


def test_only_what_is_named_or_has_changed_is_looked_at() -> None:
    session = opened(made())
    added = session.want(wanted(4))
    assert [one.number for one in added] == numbers(session) == [0, 1, 2, 3]
    session.clean(added)
    assert numbers(session) == [] and added[2].stir() is session
    assert session.want(wanted(2)[1:]) == [] and numbers(session) == [2, 1]
    assert session.want(wanted(3)[2:]) == [] and numbers(session) == [1, 2], "what is named goes to the end"
    session.soil([added[3]])
    assert numbers(session) == [3, 1, 2], "what did not fit goes to the front"
    assert session.forget([("t", 2), ("t", 9)]) == [added[2]] and numbers(session) == [3, 1]
    session.isolate(committed_only=True)
    assert sorted(numbers(session)) == [0, 1, 3], "there may be more to read anywhere"


def test_a_broker_that_names_a_partition_again_gets_a_complete_answer() -> None:
    for replica, complete in ((-1, False), (2, True)):
        session = opened(made(), replica)
        (entry,) = session.want(wanted(1))
        entry.sent_high_watermark = entry.sent_log_start = 7
        entry.fresh = False
        session.want(wanted(1))
        assert (entry.sent_high_watermark == entry.sent_log_start == fetch_sessions.UNSENT) is complete and entry.fresh
