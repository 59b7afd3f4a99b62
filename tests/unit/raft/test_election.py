"""For which replica a voter votes, when it stands itself, and what it waits for in between."""

import pytest

from actors.raft import EPOCH_MAX, NO_LEADER, HardState, Role, RunsTwice
from actors.raft.messages import EndQuorumEpochRequest, Error, FetchRequest, FetchResponse, VoteRequest, VoteResponse
from tests.unit.raft.replica import KEYS, LIMITS, Replica

LOG = {"log": [(3, 0)], "end_offset": 10}
"""A log of ten records of epoch 3."""


def ask(epoch: int, id: int = 2, last_epoch: int = 3, end_offset: int = 10, *, pre: bool = False) -> VoteRequest:
    return VoteRequest(0, KEYS[id], KEYS[1], epoch, last_epoch, end_offset, pre)


def following(**more: object) -> Replica:
    """A voter that has heard from the leader of its epoch."""
    replica = Replica(hard=HardState(3, None, 2), **LOG, **more)  # type: ignore[arg-type]
    (serial,) = [one.serial for _, one in replica.said if hasattr(one, "bytes_max")]  # type: ignore[union-attr]
    replica.step(FetchResponse(serial, Error.NONE, 2, 3, high_watermark=10))
    return replica


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "granted"),
    [(3, 10, True), (3, 11, True), (4, 1, True), (3, 9, False), (2, 99, False)],
)
def test_a_vote_goes_to_a_log_that_is_not_behind(last_epoch: int, end_offset: int, granted: bool) -> None:
    replica = Replica(hard=HardState(3), **LOG)
    assert replica.asked(ask(5, 2, last_epoch, end_offset)).granted is granted
    assert replica.raft.epoch == 5


def test_an_epoch_has_one_vote_which_is_durable_before_it_is_told() -> None:
    replica = Replica(hard=HardState(3), **LOG)
    assert not [one for _, one in replica.step(ask(5), synced=False) if isinstance(one, VoteResponse)]
    ready = replica.taken[-1]
    assert ready.hard_state == HardState(5, KEYS[2]) and ready.sync is not None
    assert [one.granted for _, one in ready.after_sync if isinstance(one, VoteResponse)] == [True]
    assert replica.asked(ask(5)).granted, "the same candidate may ask again"
    assert not replica.asked(ask(5, 3), 3).granted
    assert replica.asked(ask(6, 3), 3).granted


def test_an_epoch_that_a_candidate_begins_is_durable_before_it_is_told() -> None:
    """An observer that knew it would refuse the leader of the one before, where the candidate comes back without it."""
    replica = Replica(hard=HardState(3), **LOG)
    asked = next(one for _, one in replica.run(LIMITS.election_timeout_ms) if isinstance(one, VoteRequest))
    replica.step(VoteResponse(asked.serial, Error.NONE, NO_LEADER, 3, True), synced=False)
    assert (replica.raft.role, replica.raft.epoch) == (Role.CANDIDATE, 4)
    question = FetchRequest(0, KEYS[4], 3, 10, 3, 10, 500, 1 << 20)
    assert replica.step(question, 4, synced=False) == []
    assert [(to, one.epoch) for to, one in replica.taken[-1].after_sync if isinstance(one, FetchResponse)] == [(4, 4)]
    for token in replica.held:
        replica.raft.synced(token)
    assert [(to, one.epoch) for to, one in replica.step(question, 4) if isinstance(one, FetchResponse)] == [(4, 4)]


def test_no_vote_where_the_leader_of_the_epoch_is_known() -> None:
    replica = following()
    answer = replica.asked(ask(3, 3), 3)
    assert (answer.granted, answer.leader_id) == (False, 2)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (ask(2), Error.FENCED_LEADER_EPOCH),
        (ask(3 + 101), Error.INVALID_REQUEST),
        (ask(5, last_epoch=5), Error.INVALID_REQUEST),
        (ask(5)._replace(voter=KEYS[9]), Error.INVALID_VOTER_KEY),
    ],
)
def test_a_request_that_cannot_be_is_refused_and_changes_no_epoch(request_: VoteRequest, error: Error) -> None:
    replica = Replica(hard=HardState(3), **LOG)
    answer = replica.asked(request_)
    assert (answer.error, answer.granted, replica.raft.epoch) == (error, False, 3)


def test_a_stranger_gets_no_vote_and_raises_no_epoch() -> None:
    replica = Replica(hard=HardState(3), **LOG)
    answer = replica.asked(ask(5, 9), 9)
    assert (answer.granted, replica.raft.epoch) == (False, 3)


def test_a_pre_vote_promises_nothing_and_is_refused_while_a_leader_is_heard() -> None:
    replica = Replica(hard=HardState(3), **LOG)
    assert replica.asked(ask(3, pre=True)).granted and replica.asked(ask(3, 3, pre=True), 3).granted
    assert replica.raft.voted == -1 and replica.raft.epoch == 3
    heard = following()
    assert not heard.asked(ask(3, 3, pre=True), 3).granted
    heard.raft.link_lost(2, True, heard.now)
    assert heard.asked(ask(3, 3, pre=True), 3).granted, "nothing listens where the leader was"


def test_a_candidate_needs_a_majority_of_pre_votes_then_of_votes() -> None:
    replica = Replica(voters=(1, 2, 3, 4, 5), hard=HardState(3), **LOG)
    asked = [
        (to, one) for to, one in replica.said + replica.run(LIMITS.election_timeout_ms) if isinstance(one, VoteRequest)
    ]
    assert {(to, one.epoch, one.pre_vote) for to, one in asked} == {(to, 3, True) for to in (2, 3, 4, 5)}

    def grant(round: list[tuple[int, VoteRequest]], to: int, epoch: int) -> list[tuple[int, VoteRequest]]:
        (serial,) = [one.serial for target, one in round if target == to]
        said = replica.step(VoteResponse(serial, Error.NONE, -1, epoch, True), to)
        return [(target, one) for target, one in said if isinstance(one, VoteRequest)]

    assert not grant(asked, 2, 3) and replica.raft.role is Role.PROSPECTIVE
    votes = grant(asked, 3, 3)
    assert replica.raft.role is Role.CANDIDATE and replica.raft.voted == 1
    assert {(to, one.epoch, one.pre_vote) for to, one in votes} == {(to, 4, False) for to in (2, 3, 4, 5)}
    grant(votes, 4, 4)
    assert replica.raft.role is Role.CANDIDATE
    grant(votes, 5, 4)
    assert replica.raft.role is Role.LEADER and replica.raft.leader_id == 1


def test_a_vote_counts_once_and_only_in_its_epoch() -> None:
    replica = Replica(voters=(1, 2, 3, 4, 5), hard=HardState(3), **LOG)
    asked = [
        (to, one) for to, one in replica.said + replica.run(LIMITS.election_timeout_ms) if isinstance(one, VoteRequest)
    ]
    serials = {to: one.serial for to, one in asked}
    for _ in range(3):
        replica.step(VoteResponse(serials[2], Error.NONE, -1, 3, True), 2)
    replica.step(VoteResponse(serials[3], Error.NONE, -1, 2, True), 3)
    assert replica.raft.role is Role.PROSPECTIVE


def test_a_leader_that_resigns_names_who_stands_first() -> None:
    waits = {}
    for place, preferred in enumerate([(1, 3), (3, 1)]):
        replica = following()
        keys = tuple(KEYS[id] for id in preferred)
        assert replica.asked(EndQuorumEpochRequest(0, 2, 3, keys)).error is Error.NONE
        waits[place] = replica.raft.deadline_ms() - replica.now_ms
    assert waits[0] == 0 and waits[1] == LIMITS.hint_stagger_ms


def test_nobody_stands_in_the_last_epoch() -> None:
    replica = Replica(hard=HardState(EPOCH_MAX), **LOG)
    assert not [one for _, one in replica.run(5000) if isinstance(one, VoteRequest)]
    assert replica.raft.exhausted


def test_a_voter_whose_key_another_process_has_stops() -> None:
    replica = Replica(hard=HardState(3), **LOG)
    said = replica.said + replica.run(LIMITS.election_timeout_ms)
    serial = next(one.serial for _, one in said if isinstance(one, VoteRequest))
    with pytest.raises(RunsTwice):
        replica.raft.step(2, VoteResponse(serial, Error.DUPLICATE_BROKER_REGISTRATION, -1, 3, False), replica.now)
