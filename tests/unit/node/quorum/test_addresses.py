"""Whose word counts for the address of a controller."""

import pytest

from actors.node.quorum.addresses import Addresses
from actors.node.quorum.voters import VoterSet
from actors.raft import ReplicaKey, Voter, Voters

RECORDED = (Voter(ReplicaKey(1001, b"d" * 16), (("CONTROLLER", "recorded", 3),)),)


@pytest.mark.parametrize(
    ("connect", "own", "expected"),
    [
        ([(1001, "outside", 19093)], ("0.0.0.0", 9093), ("outside", 19093)),
        ([(1001, "outside", 0)], ("inside", 9093), ("inside", 9093)),
        ([(None, "outside", 19093)], ("inside", 9093), ("inside", 9093)),
        ([(1002, "outside", 19093)], ("", 9093), ("recorded", 9093)),
        ([(None, "outside", 19093)], ("0.0.0.0", 9093), ("recorded", 9093)),
        ([(None, "outside", 19093)], ("::", 9093), ("recorded", 9093)),
        ([(1001, "outside", 19093)], None, None),
    ],
)
def test_a_controller_behind_a_forwarded_port_is_called_as_others_call_it(
    connect: list[tuple[int | None, str, int]], own: tuple[str, int] | None, expected: tuple[str, int] | None
) -> None:
    addresses = Addresses(connect, 1001, own)
    addresses.record(RECORDED)
    assert addresses.own == expected


@pytest.mark.parametrize(
    ("connect", "own", "advertised", "expected"),
    [
        ([(1001, "outside", 19093)], ("0.0.0.0", 9093), ("told", 29093), ("told", 29093)),
        ([(None, "outside", 19093)], ("told", 29093), ("told", 29093), ("told", 29093)),
        ([(1001, "outside", 19093)], ("0.0.0.0", 9093), ("told", 0), ("outside", 19093)),
        ([(None, "outside", 19093)], ("0.0.0.0", 9093), None, None),
        ([], ("", 9093), None, None),
    ],
)
def test_a_controller_is_called_as_it_says_and_never_by_a_guess(
    connect: list[tuple[int | None, str, int]],
    own: tuple[str, int],
    advertised: tuple[str, int] | None,
    expected: tuple[str, int] | None,
) -> None:
    assert Addresses(connect, 1001, own, advertised).own == expected


def test_what_the_quorum_said_last_counts_more_than_files() -> None:
    addresses = Addresses([(1002, "given", 1)], 1001, None)
    assert addresses.find(1002) == ("given", 1)
    addresses.learn(1002, "learned", 2)
    assert addresses.find(1002) == ("learned", 2)
    addresses.record(RECORDED)
    assert Addresses([], 7, None).find(1001) is None


def test_what_a_leader_said_of_itself_counts_as_long_as_it_leads() -> None:
    """It may have named a place where nobody reaches it: the next leader finds it where files and the record say."""
    addresses = Addresses([(1002, "given", 1)], 7, None)
    addresses.record(RECORDED)
    addresses.learn(1001, "wrong", 4)
    assert addresses.find(1001) == ("wrong", 4)
    addresses.learn(1002, "wrong", 5)
    assert (addresses.find(1001), addresses.find(1002)) == (("recorded", 3), ("wrong", 5))
    addresses.learn(1003, "third", 6)
    assert addresses.find(1002) == ("given", 1)
    addresses.learn(1001, "right", 7)
    assert addresses.find(1001) == ("right", 7)
    assert addresses.find(1003) == ("third", 6), "there is nothing better"
    addresses.led_by(7)
    assert addresses.find(1001) == ("recorded", 3), "this replica leads itself"


def test_a_voter_that_moved_is_where_the_newest_record_says() -> None:
    addresses = Addresses([(1001, "given", 1)], 7, None)
    addresses.record(RECORDED)
    assert addresses.find(1001) == ("given", 1)
    addresses.moved(RECORDED[0])
    assert addresses.find(1001) == ("recorded", 3)


def test_a_leader_that_is_no_voter_here_is_found_as_long_as_no_other_one_is_named() -> None:
    addresses = Addresses([], 7, None)
    addresses.learn_stranger(1004, "fourth", 4)
    assert addresses.find(1004) == ("fourth", 4)
    addresses.learn_stranger(1005, "fifth", 5)
    assert addresses.find(1004) is None
    assert addresses.find(1005) == ("fifth", 5)


def test_a_voter_that_was_removed_and_comes_back_elsewhere_is_there() -> None:
    """Its machine was lost, and `controller.connect` of nodes that run still names that one."""
    addresses = Addresses([(1001, "lost", 1), (1002, "second", 2)], 1002, None)
    known = VoterSet(addresses)
    first = Voter(ReplicaKey(1001, bytes(16)), (("CONTROLLER", "lost", 1),))
    second = Voter(ReplicaKey(1002, bytes(16)), (("CONTROLLER", "second", 2),))
    known.adopt(Voters([first, second]))
    assert addresses.find(1001) == ("lost", 1), "as the file says it: the port may be forwarded"
    known.adopt(Voters([second]))
    back = Voter(ReplicaKey(1001, bytes([1]) * 16), (("CONTROLLER", "new", 3),))
    known.adopt(Voters([second, back]))
    assert addresses.find(1001) == ("new", 3)
