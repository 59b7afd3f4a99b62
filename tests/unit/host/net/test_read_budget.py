"""Who is read on, and who waits, when connections bring more than a turn should wait for."""

from actors.host.net.read_budget import CROWD_BYTES, LEAST_BYTES, PASS_BYTES, ReadBudget


class Peer:
    """A connection that always has more."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.peer_host = host
        self.share, self.share_of = 0, -1
        self.stands = False
        self.held = False
        """Whether it is not read for another reason."""

    def stand(self, stands: bool) -> bool:
        assert stands is not self.stands
        self.stands = stands
        return not (stands or self.held)


def read(budget: ReadBudget, peer: Peer) -> int:
    """Let one bring what it may in this pass; how much that was."""
    size = 0
    while True:
        share = budget.share(peer)
        size += share
        if budget.took(peer, share):
            return size


def test_one_alone_brings_a_whole_pass_and_goes_on_in_the_next() -> None:
    budget, one = ReadBudget(), Peer()
    for _ in range(3):
        assert read(budget, one) == PASS_BYTES and one.stands
        assert not budget.renew() and not one.stands


def test_several_bring_a_quarter_of_a_pass_and_take_turns() -> None:
    budget, peers = ReadBudget(), [Peer() for _ in range(2)]
    assert budget.share(peers[0]) == PASS_BYTES, "one alone is not read in small pieces"
    for peer in peers:
        read(budget, peer)
    for number in range(4):
        budget.renew()
        turn = peers[number % 2]
        assert [peer.stands for peer in peers] == [peer is not turn for peer in peers]
        assert read(budget, turn) == CROWD_BYTES == PASS_BYTES // 4


def test_many_bring_a_pass_and_the_least_of_each() -> None:
    budget, peers = ReadBudget(), [Peer() for _ in range(50)]
    brought = [read(budget, peer) for peer in peers]
    assert brought == [PASS_BYTES] + [LEAST_BYTES] * 49
    assert all(peer.stands for peer in peers)


def test_the_line_takes_turns() -> None:
    budget, peers = ReadBudget(), [Peer() for _ in range(10)]
    for peer in peers:
        read(budget, peer)
    let_in = []
    for _ in range(10):
        budget.renew()
        reading = [peer for peer in peers if not peer.stands]
        let_in.append([peers.index(peer) for peer in reading])
        assert sum(read(budget, peer) for peer in reading) == CROWD_BYTES
    assert let_in == [[number] for number in range(10)]


def test_a_host_with_many_connections_gets_as_much_as_a_host_with_one() -> None:
    budget, many, one = ReadBudget(), [Peer("10.0.0.1") for _ in range(20)], Peer("10.0.0.2")
    for peer in (*many, one):
        read(budget, peer)
    brought = {"10.0.0.1": 0, "10.0.0.2": 0}
    for _ in range(10):
        budget.renew()
        for peer in (*many, one):
            if not peer.stands:
                brought[peer.peer_host] += read(budget, peer)
    assert brought["10.0.0.1"] == brought["10.0.0.2"] == 5 * CROWD_BYTES


def test_one_that_does_not_stand_is_read_while_others_do() -> None:
    budget, peers, small = ReadBudget(), [Peer() for _ in range(9)], Peer()
    for peer in peers:
        read(budget, peer)
    assert budget.renew()
    for peer in peers:
        if not peer.stands:
            read(budget, peer)
    assert budget.left == 0
    assert budget.share(small) == LEAST_BYTES
    assert not budget.took(small, 100)


def test_one_that_is_not_read_anyway_takes_no_place() -> None:
    budget, peers = ReadBudget(), [Peer() for _ in range(10)]
    for peer in peers:
        read(budget, peer)
        peer.held = peer in peers[:5]
    budget.renew()
    assert [peers.index(peer) for peer in peers if not peer.stands and not peer.held] == [5]


def test_one_that_is_gone_leaves_the_line() -> None:
    budget, peers = ReadBudget(), [Peer("10.0.0.1"), Peer("10.0.0.2")]
    for peer in peers:
        read(budget, peer)
    budget.leave(peers[0])
    assert not budget.renew()
    assert peers[0].stands and not peers[1].stands


def test_who_has_not_begun_brings_the_least_when_a_controller_has_said_something() -> None:
    budget, begun, late = ReadBudget(), Peer(), Peer("10.0.0.2")
    budget.share(begun)
    budget.took(begun, LEAST_BYTES)
    budget.hurry()
    assert budget.share(begun) == PASS_BYTES - LEAST_BYTES
    assert read(budget, late) == LEAST_BYTES
    budget.hurry()
    assert not budget.renew() and budget.left == PASS_BYTES and budget.share(late) == PASS_BYTES
