"""Which change of the voters a leader makes, what it asks before, and what it objects to (KIP-853)."""

from typing import Any

import pytest

from actors.raft import Role
from actors.raft.change import ASKED_MAX
from actors.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    Error,
    ProbeRequest,
    ProbeResponse,
    RemoveVoterRequest,
    ReplicaKey,
    UpdateVoterRequest,
    Voter,
)
from tests.unit.raft.replica import KEYS, LIMITS, Replica, voter

SUPPORTS = (0, 1)
NEW = voter(4, 9004)


def leader(voters: tuple[int, ...] = (1, 2, 3), *, caught_up: tuple[int, ...] = (4,), **more: Any) -> Replica:
    """A leader whose epoch is established, and replicas that have everything."""
    replica = Replica(voters=voters, changing=True, **more)
    replica.elect()
    assert replica.raft.role is Role.LEADER
    for id in (*(id for id in voters if id != 1), *caught_up, *(id for id in voters if id != 1), *caught_up):
        replica.fetched(id, replica.raft.log_end_offset)
    return replica


def answers(said: list[tuple[int, Any]]) -> list[ChangeResponse]:
    return [one for _, one in said if isinstance(one, ChangeResponse)]


def probe(replica: Replica, request: Any) -> ProbeRequest:
    """The question to the endpoint that a request makes the leader ask."""
    (asked,) = [one for _, one in replica.step(request, 77) if isinstance(one, ProbeRequest)]
    return asked


def test_a_voter_is_added_when_it_has_answered_and_committed_when_the_new_majority_has_it() -> None:
    replica = leader()
    asked = probe(replica, AddVoterRequest(5, NEW, True))
    assert asked.voter == NEW
    assert not answers(replica.step(ProbeResponse(asked.serial, (0, 7)), 4)), "it is written, not committed"
    assert replica.raft.voters.member(KEYS[4]) == NEW._replace(kraft_versions=(0, 7)), "it counts from now on"
    end = replica.raft.log_end_offset
    replica.fetched(2, end)
    assert replica.raft.changing, "two of four are no majority"
    (told,) = answers(replica.fetched(3, end))
    assert (told.serial, told.error) == (5, Error.NONE) and not replica.raft.changing


def test_who_does_not_wait_is_answered_when_it_is_written() -> None:
    replica = leader()
    asked = probe(replica, AddVoterRequest(5, NEW, False))
    (told,) = answers(replica.step(ProbeResponse(asked.serial, SUPPORTS), 4))
    assert told.error is Error.NONE and replica.raft.high_watermark < replica.raft.log_end_offset


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (ProbeResponse(0, None, failed="NETWORK"), Error.REQUEST_TIMED_OUT, "returned an error NETWORK"),
        (ProbeResponse(0, SUPPORTS, other="broker 9"), Error.INVALID_REQUEST, "at host:9004 there is broker 9"),
        (
            ProbeResponse(0, (0, 0)),
            Error.INVALID_REQUEST,
            r"range (min: 0, max: 0) doesn't support the finalized version 1",
        ),
        (ProbeResponse(0, None), Error.INVALID_REQUEST, "(min: 0, max: 0)"),
    ],
)
def test_an_endpoint_that_is_another_or_too_old_adds_nobody(answer: ProbeResponse, error: Error, reason: str) -> None:
    replica = leader()
    asked = probe(replica, AddVoterRequest(5, NEW, True))
    (told,) = answers(replica.step(answer._replace(serial=asked.serial), 4))
    assert told.error is error and told.reason is not None and reason in told.reason
    assert KEYS[4] not in replica.raft.voters


def test_a_replica_that_lags_is_not_added() -> None:
    replica = leader(caught_up=())
    asked = probe(replica, AddVoterRequest(5, NEW, True))
    (told,) = answers(replica.step(ProbeResponse(asked.serial, SUPPORTS), 4))
    assert told.error is Error.REQUEST_TIMED_OUT and told.reason is not None and "lagging" in told.reason


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (AddVoterRequest(5, voter(2, 1), True), Error.DUPLICATE_VOTER),
        (AddVoterRequest(5, Voter(ReplicaKey(2, b"another disk....")), True), Error.DUPLICATE_VOTER),
        (RemoveVoterRequest(5, KEYS[4]), Error.VOTER_NOT_FOUND),
        (RemoveVoterRequest(5, ReplicaKey(2, b"another disk....")), Error.VOTER_NOT_FOUND),
        (UpdateVoterRequest(5, 1, voter(4, 1)), Error.VOTER_NOT_FOUND),
        (UpdateVoterRequest(5, 1, voter(2, 1)._replace(kraft_versions=(2, 3))), Error.INVALID_REQUEST),
        (UpdateVoterRequest(5, 0, voter(2, 1)), Error.FENCED_LEADER_EPOCH),
        (UpdateVoterRequest(5, 2, voter(2, 1)), Error.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_before_anybody_is_asked(request_: Any, error: Error) -> None:
    replica = leader()
    assert replica.raft.epoch == 1
    said = replica.step(request_, 77)
    assert [one.error for one in answers(said)] == [error] and not [
        one for _, one in said if isinstance(one, ProbeRequest)
    ]
    assert not replica.raft.changing


def test_one_change_at_a_time() -> None:
    replica = leader()
    replica.step(RemoveVoterRequest(5, KEYS[3]), 77)
    (told,) = answers(replica.step(AddVoterRequest(6, NEW, True), 78))
    assert told.error is Error.REQUEST_TIMED_OUT and told.serial == 6
    assert KEYS[3] not in replica.raft.voters


def test_an_endpoint_that_is_asked_keeps_no_other_change_out() -> None:
    replica = leader()
    first = probe(replica, AddVoterRequest(5, NEW, True))
    (busy,) = answers(replica.step(AddVoterRequest(6, NEW, True), 78))
    assert busy.error is Error.REQUEST_TIMED_OUT, "one question at a time for each voter"
    replica.step(RemoveVoterRequest(7, KEYS[3]), 79)
    assert KEYS[3] not in replica.raft.voters
    (told,) = answers(replica.step(ProbeResponse(first.serial, SUPPORTS), 4))
    assert told.error is Error.REQUEST_TIMED_OUT, "all objections are checked anew"


def test_not_more_than_so_many_endpoints_are_asked() -> None:
    replica = leader()
    keys = [ReplicaKey(100 + n, bytes(16)) for n in range(ASKED_MAX + 1)]
    said = [replica.step(AddVoterRequest(n, Voter(key), True), 77) for n, key in enumerate(keys)]
    assert [bool(answers(one)) for one in said] == [False] * ASKED_MAX + [True]


def test_no_change_before_a_record_of_this_epoch_is_committed() -> None:
    replica = Replica(changing=True)
    replica.elect()
    (told,) = answers(replica.step(RemoveVoterRequest(5, KEYS[3]), 77))
    assert told.error is Error.REQUEST_TIMED_OUT and told.reason is not None and "establish HWM" in told.reason


def test_voters_that_no_record_names_cannot_be_changed() -> None:
    replica = Replica()
    replica.elect()
    for id in (2, 3):
        replica.fetched(id, replica.raft.log_end_offset)
    (told,) = answers(replica.step(RemoveVoterRequest(5, KEYS[3]), 77))
    assert told.error is Error.UNSUPPORTED_VERSION and told.reason is not None
    assert "removing voter because the kraft.version feature is 0" in told.reason


def test_nobody_is_removed_where_those_that_stay_are_silent() -> None:
    replica = leader((1, 2, 3))
    replica.now_ms += LIMITS.fetch_timeout_ms + 1
    replica.fetched(2, replica.raft.log_end_offset)
    (told,) = answers(replica.step(RemoveVoterRequest(5, KEYS[2]), 77))
    assert told.error is Error.REQUEST_TIMED_OUT and told.reason is not None and "have not fetched" in told.reason
    replica.step(RemoveVoterRequest(6, KEYS[3]), 77)
    assert KEYS[3] not in replica.raft.voters, "the silent one may go"


def test_the_only_voter_stays() -> None:
    replica = leader((1,), caught_up=())
    (told,) = answers(replica.step(RemoveVoterRequest(5, KEYS[1]), 77))
    assert told.error is Error.INVALID_REQUEST and told.reason is not None and "only one" in told.reason


def test_a_leader_that_removes_itself_leads_until_the_others_have_that() -> None:
    replica = leader()
    replica.step(RemoveVoterRequest(5, KEYS[1]), 77)
    end = replica.raft.log_end_offset
    assert replica.raft.role is Role.LEADER and KEYS[1] not in replica.raft.voters
    assert not answers(replica.fetched(2, end)), "one of the two that stay"
    said = replica.fetched(3, end)
    assert [one.error for one in answers(said)] == [Error.NONE]
    replica.run(replica.raft.deadline_ms() - replica.now_ms)
    assert replica.raft.role is Role.RESIGNED


def test_an_id_that_stands_for_something_else_is_no_voter() -> None:
    replica = leader(other_use=lambda id: "broker 4" if id == 4 else None)
    (told,) = answers(replica.step(AddVoterRequest(5, NEW, True), 77))
    assert told.error is Error.INVALID_REQUEST and told.reason is not None and "that of broker 4" in told.reason


def test_a_change_is_answered_at_its_time_and_its_record_stays() -> None:
    replica = leader()
    replica.step(RemoveVoterRequest(5, KEYS[3]), 77)
    replica.now_ms += LIMITS.request_timeout_ms
    replica.raft.tick(replica.now)
    (told,) = answers(replica.drain())
    assert told.error is Error.REQUEST_TIMED_OUT and KEYS[3] not in replica.raft.voters


def test_an_update_that_says_nothing_new_writes_nothing() -> None:
    replica = leader()
    end = replica.raft.log_end_offset
    (told,) = answers(replica.step(UpdateVoterRequest(5, 1, voter(2)), 77))
    assert told.error is Error.NONE and replica.raft.log_end_offset == end
    asked = probe(replica, UpdateVoterRequest(6, 1, voter(2, 9002)))
    (told,) = answers(replica.step(ProbeResponse(asked.serial, None), 2))
    assert told.error is Error.NONE and replica.raft.voters.member(KEYS[2]) == voter(2, 9002)
