"""Order, number in flight and memory of inbound connections."""

from actors.node.connections import IN_FLIGHT_MAX, Connection, Connections
from actors.node.registry import Listener


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
