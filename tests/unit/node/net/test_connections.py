"""Order, number in flight and memory of inbound connections."""

from actors.node.net.connections import FAIR_BYTES, IN_FLIGHT_MAX, UNREAD_BYTES_MAX, Connection, Connections
from actors.node.runtime.calls import Listener


def opened(connections: Connections, id: int = 1) -> Connection:
    connection = Connection(id, Listener.CLIENT, "PLAINTEXT", "127.0.0.1")
    connections.opened(connection)
    return connection


def frame(size: int = 10) -> memoryview:
    return memoryview(bytearray(size))


def test_answers_leave_in_request_order_whatever_the_order_of_work() -> None:
    connections = Connections(1 << 20)
    connection = opened(connections)
    first, second, third = (connections.begin(connection, frame()) for _ in range(3))
    assert first and second and third
    connections.answer(third, [b"3"])
    connections.answer(second, [b"2"])
    assert connections.sends == []
    connections.answer(first, [b"1"])
    assert connections.sends == [(1, [b"1", b"2", b"3"])]


def test_an_empty_answer_keeps_its_place_and_sends_nothing() -> None:
    connections = Connections(1 << 20)
    connection = opened(connections)
    first, second = connections.begin(connection, frame()), connections.begin(connection, frame())
    assert first and second
    connections.answer(second, [b"2"])
    connections.answer(first, [])
    assert connections.sends == [(1, [b"2"])]


def test_the_seventeenth_request_waits_and_reading_pauses() -> None:
    connections = Connections(1 << 20)
    connection = opened(connections)
    slots = [connections.begin(connection, frame()) for _ in range(IN_FLIGHT_MAX)]
    assert all(slots)
    late = frame(99)
    assert connections.begin(connection, late) is None
    assert list(connections.pauses) == [1]
    assert slots[0] is not None
    freed = connections.answer(slots[0], [b"x"])
    assert [len(data) for data, _ in freed] == [99]
    assert list(connections.resumes) == [1]


def test_memory_above_the_budget_pauses_all_data_connections_until_it_falls() -> None:
    connections = Connections(100)
    busy, idle = opened(connections, 1), opened(connections, 2)
    slot = connections.begin(busy, frame(101))
    assert slot
    connections.throttle(0, 500)
    assert sorted(connections.pauses) == [1, 2]
    newcomer = opened(connections, 3)
    assert idle.paused and not newcomer.paused
    assert connections.begin(newcomer, frame(0))
    assert newcomer.paused
    connections.answer(slot, [b"x"])
    connections.throttle(0, 500)
    assert sorted(connections.resumes) == [1, 2, 3]
    assert connections.bytes_held == 0


def test_connections_are_read_again_below_three_quarters_of_the_budget() -> None:
    connections = Connections(100)
    opened(connections, 1)
    kept, gone, last = (
        connections.begin(opened(connections, id), frame(size)) for id, size in ((2, 74), (3, 26), (4, 1))
    )
    assert kept and gone and last
    connections.throttle(0, 500)
    assert sorted(connections.pauses) == [1, 2, 3, 4]
    connections.answer(gone, [b"x"])
    connections.throttle(0, 500)
    assert connections.bytes_held == 75 and not connections.resumes
    connections.answer(last, [b"x"])
    connections.throttle(0, 500)
    assert sorted(connections.resumes) == [1, 2, 3, 4]


def test_a_follower_is_read_whatever_is_held_because_what_is_held_waits_for_it() -> None:
    connections = Connections(100)
    client, follower = opened(connections, 1), opened(connections, 2)
    connections.replicates(2)
    held = connections.begin(client, frame(101))
    assert held
    connections.throttle(0, 500)
    assert client.paused and not follower.paused
    assert connections.begin(follower, frame()) and not follower.paused
    again = opened(connections, 3)
    asked = connections.begin(again, frame())
    assert asked and again.paused
    connections.replicates(3)
    assert not again.paused
    assert (list(connections.pauses), list(connections.resumes)) == ([1], [3])
    connections.answer(asked, [b"x"])
    assert not again.paused


def test_what_was_decided_last_in_a_turn_holds() -> None:
    """The host pauses first and resumes then: a connection may be in one of both only."""
    connections = Connections(100)
    connection = opened(connections)
    slots = [connections.begin(connection, frame(1)) for _ in range(IN_FLIGHT_MAX)]
    assert connections.begin(connection, frame(200)) is None
    assert slots[0]
    connections.pauses.clear()
    connections.answer(slots[0], [b"x"])
    assert list(connections.resumes) == [1]
    connections.throttle(0, 500)
    assert (list(connections.pauses), list(connections.resumes)) == ([1], [])


def test_a_closed_connection_holds_nothing_and_tells_who_asked() -> None:
    connections = Connections(100)
    connection = opened(connections)
    seen: list[str] = []
    connection.when_closed["broker"] = lambda: seen.append("gone")
    slot = connections.begin(connection, frame(50))
    assert slot
    connections.gone(1)
    assert seen == ["gone"] and connections.bytes_held == 0
    connections.answer(slot, [b"late"])
    assert connections.sends == []


def test_a_connection_has_room_for_one_answer_until_it_is_on_its_way() -> None:
    connections = Connections(1 << 20)
    connection = opened(connections)
    slots = [connections.begin(connection, frame()) for _ in range(3)]
    assert slots[0] and slots[1] and slots[2]
    connections.answer(slots[0], [b"head", bytes(96)])
    assert connections.room(1, 1000) == 900
    connections.begin_turn()
    assert connections.room(1, 1000) == 1000, "nothing is said of the peer: it takes what it is sent"
    connections.answer(slots[2], [bytes(100), bytes(200)])
    connections.begin_turn()
    assert connections.room(1, 1000) == 700, "this one waits for the one before it"
    connections.answer(slots[1], [bytes(100), bytes(100)])
    connections.congested(1, True)
    connections.begin_turn()
    assert connections.room(1, 1000) == 500
    connections.congested(1, False)
    assert connections.room(1, 1000) == 1000


def test_what_is_being_read_for_an_answer_has_no_room_left_for_others() -> None:
    connections = Connections(1 << 20)
    opened(connections)
    connections.promise(1, 1500)
    connections.begin_turn()
    assert connections.room(1, 1000) == 0
    connections.promise(1, -1500)
    assert connections.room(1, 1000) == 1000


def test_all_that_is_not_read_leaves_a_fair_share_for_those_who_read_and_all_for_followers() -> None:
    connections = Connections(1 << 20)
    for id in range(1, 4):
        opened(connections, id)
    connections.replicates(3)
    large = 50 * FAIR_BYTES
    connections.promise(1, UNREAD_BYTES_MAX - 2 * FAIR_BYTES)
    assert [connections.room(id, large) for id in (1, 2, 3)] == [0, 2 * FAIR_BYTES, large]
    connections.promise(1, 2 * FAIR_BYTES)
    assert [connections.room(id, large) for id in (2, 3)] == [FAIR_BYTES, large]
    connections.promise(2, FAIR_BYTES)
    assert [connections.room(id, large) for id in (2, 3)] == [0, large]
    connections.gone(1)
    assert connections.room(2, large) == large - FAIR_BYTES
    assert connections.room(1, large) == 0, "nobody is there"


def test_who_has_waited_is_answered_first_unless_its_connection_has_an_answer_before() -> None:
    connections = Connections(1 << 20)
    for id, parts in ((1, [b"asked"]), (2, [b"asked"]), (3, [b"waited"]), (4, [b"waited"])):
        slot = connections.begin(opened(connections, id), frame())
        assert slot
        connections.answer(slot, parts)
    connections.first(2)
    assert [conn for conn, _ in connections.taken().sends] == [3, 4, 1, 2]

    connection = opened(connections, 5)
    early, late = (connections.begin(connection, frame()) for _ in range(2))
    assert early and late
    connections.answer(early, [b"asked"])
    connections.answer(late, [b"waited"])
    connections.first(1)
    assert [parts for _, parts in connections.taken().sends] == [[b"asked"], [b"waited"]]
