"""Who votes at an offset of the log."""

import pytest

from actors.raft import ReplicaKey, Voter, VoterHistory, Voters


def of(*ids: int) -> Voters:
    return Voters(ReplicaKey(id, bytes([id]) * 16) for id in ids)


def test_a_set_counts_from_its_record_and_is_undone_with_it() -> None:
    history = VoterHistory(Voters(), [(-1, of(1, 2))])
    history.append(5, of(1, 2, 3))
    history.append(9, of(1, 3))
    assert [history.at(end) for end in (0, 5, 6, 9, 10)] == [of(1, 2), of(1, 2), of(1, 2, 3), of(1, 2, 3), of(1, 3)]
    assert (history.newest, history.before, history.newest_offset) == (of(1, 3), of(1, 2, 3), 9)
    history.truncate(9)
    assert (history.newest, history.newest_offset) == (of(1, 2, 3), 5)
    history.truncate(0)
    assert (history.newest, history.newest_offset, history.recorded) == (of(1, 2), -1, True)
    assert history.before == of(1, 2)


def test_what_counts_at_the_start_of_the_log_stays() -> None:
    history = VoterHistory(Voters(), [(-1, of(1)), (3, of(1, 2)), (7, of(2))])
    history.cut_front(6)
    assert history.at(6) == of(1, 2)
    assert history.at(3) is None
    history.cut_front(8)
    assert (history.at(8), history.newest_offset) == (of(2), 7)


def test_a_snapshot_says_who_votes() -> None:
    history = VoterHistory(Voters(), [(-1, of(1)), (3, of(1, 2))])
    history.restart_at(40, of(2, 3))
    assert (history.newest, history.newest_offset, history.at(40)) == (of(2, 3), 39, of(2, 3))


def test_without_records_those_vote_that_were_given() -> None:
    history = VoterHistory(of(1, 2, 3))
    assert (history.newest, history.recorded, history.at(99)) == (of(1, 2, 3), False, None)
    history.truncate(0)
    assert history.newest == of(1, 2, 3)


def test_one_voter_more_less_or_elsewhere() -> None:
    moved = Voter(ReplicaKey(2, bytes([2]) * 16), (("CONTROLLER", "moved", 7),))
    assert of(1, 2).with_voter(Voter(ReplicaKey(3, bytes([3]) * 16))) == of(1, 2, 3)
    assert of(1, 2, 3).without(ReplicaKey(3, bytes([3]) * 16)) == of(1, 2)
    assert of(1, 2, 3).without(ReplicaKey(3, bytes(16))) == of(1, 2, 3)
    changed = of(1, 2).with_voter(moved)
    assert changed.keys == of(1, 2).keys
    assert changed != of(1, 2)
    assert changed.member(moved.key) == moved
    with pytest.raises(ValueError, match="share an id"):
        Voters([*of(1).keys, ReplicaKey(1)])
