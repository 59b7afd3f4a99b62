"""Which role follows which, and what of a replica's state never goes back."""

import pytest

from actors.raft import HardState, Role
from actors.raft.messages import NO_LEADER, Error, FetchRequest, FetchResponse
from actors.raft.state import EPOCH_MAX, OBSERVERS, TRANSITIONS, Core, Leading
from tests.unit.raft.replica import KEYS, LIMITS, Replica

LOG = {"log": [(3, 0)], "end_offset": 10}


def core(replica: Replica) -> Core:
    return replica.raft._core


def test_only_votes_lead_to_leadership_and_it_ends_in_no_other_way_than_these() -> None:
    assert {role for role, ways in TRANSITIONS.items() if Role.LEADER in ways} == {Role.CANDIDATE}
    assert {role for role, ways in TRANSITIONS.items() if Role.CANDIDATE in ways} == {Role.PROSPECTIVE}
    assert {role for role, ways in TRANSITIONS.items() if Role.RESIGNED in ways} == {Role.LEADER}
    assert all(ways >= OBSERVERS for ways in TRANSITIONS.values()), "a higher epoch is learned in any role"


@pytest.mark.parametrize("role", [role for role in Role if role not in TRANSITIONS[Role.FOLLOWER]])
def test_a_role_is_entered_along_the_table_alone(role: Role) -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    with pytest.raises(AssertionError):
        core(replica).become(role)


@pytest.mark.parametrize(
    "hard",
    [
        HardState(2, None, 2),
        HardState(3, KEYS[3], 2),
        HardState(3, KEYS[1], 3),
        HardState(3, KEYS[1], NO_LEADER),
        HardState(EPOCH_MAX + 1),
    ],
)
def test_epoch_vote_and_leader_do_not_go_back(hard: HardState) -> None:
    replica = Replica(hard=HardState(3, KEYS[1], 2), **LOG)
    with pytest.raises(AssertionError):
        core(replica).become(Role.FOLLOWER, hard)


def test_a_leader_that_stopped_comes_back_resigned_and_names_no_leader() -> None:
    replica = Replica(hard=HardState(3, KEYS[1], 1), **LOG)
    assert (replica.raft.role, replica.raft.leader_id) == (Role.RESIGNED, NO_LEADER)
    assert replica.asked(FetchRequest(0, KEYS[2], 3, 0, 0, -1, 0, 1), 2).error is Error.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_in_the_log_counts_before_that_of_quorum_state() -> None:
    replica = Replica(hard=HardState(3, KEYS[1]), log=[(7, 0)], end_offset=5)
    assert (replica.raft.epoch, replica.raft.voted) == (7, -1)


def test_an_observer_asks_and_never_stands() -> None:
    replica = Replica(9, **LOG)
    said = replica.run(20 * LIMITS.election_timeout_ms)
    assert {type(one) for _, one in replica.said + said} == {FetchRequest}
    assert replica.raft.role in OBSERVERS
    with pytest.raises(AssertionError):
        core(replica).become(Role.PROSPECTIVE)


def test_what_is_committed_never_falls_and_lies_in_the_log() -> None:
    replica = Replica(hard=HardState(3, None, 2), **LOG)
    one = core(replica)
    one.raise_high_watermark(7)
    one.raise_high_watermark(4)
    assert replica.raft.high_watermark == 7
    one.raise_high_watermark(1000)
    assert replica.raft.high_watermark == 10


def test_whoever_is_parked_at_a_leader_hears_that_it_leads_no_more() -> None:
    replica = Replica()
    replica.elect()
    end = replica.raft.log_end_offset
    replica.fetched(2, end)
    waiting = replica.fetched(2, end, replica.raft.high_watermark)
    assert not [one for _, one in waiting if isinstance(one, FetchResponse)]
    assert isinstance(core(replica).leading, Leading)
    replica.raft.resign()
    answers = [(to, one.error) for to, one in replica.drain() if isinstance(one, FetchResponse)]
    assert answers == [(2, Error.NOT_LEADER_OR_FOLLOWER)]
    assert any(ready.lost for ready in replica.taken) and core(replica).leading is None


def test_followers_of_a_silent_leader_do_not_doubt_it_at_the_same_time() -> None:
    waits = {core(Replica(id, hard=HardState(3, None, 2), **LOG)).fetch_wait_ms() for id in (1, 3)}
    assert waits == {
        LIMITS.fetch_timeout_ms + LIMITS.hint_stagger_ms,
        LIMITS.fetch_timeout_ms + 2 * LIMITS.hint_stagger_ms,
    }
