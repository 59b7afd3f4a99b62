"""Whose request is handled next."""

import random

from actors.node.net.connections import Connection, Slot
from actors.node.net.request_queue import IN_LINE, SHARE_NS, RequestQueue, TurnsOfConnections, _Place
from actors.node.runtime.calls import Lane, Listener

LONG_NS = 30_000_000


def put(line: TurnsOfConnections, conn: int, count: int = 1, host: str = "h") -> None:
    connection = Connection(conn, Listener.CLIENT, "PLAINTEXT", host)
    for number in range(count):
        line.put((conn, memoryview(bytes([number % 256])), Slot(connection, 1)))


def taken(line: TurnsOfConnections, spent_ns: int) -> int | None:
    item = line.take()
    if item is None:
        return None
    line.charge(spent_ns)
    return item[0]


def test_a_client_that_asks_now_and_then_waits_for_one_request_of_forty_that_ask_for_much() -> None:
    line, choose = TurnsOfConnections(), random.Random(1)
    for conn in range(40):
        put(line, conn, 10)
    for _ in range(100):
        taken(line, choose.randrange(LONG_NS))
    for _ in range(50):
        put(line, 99)
        assert 99 in (taken(line, 1000), taken(line, choose.randrange(LONG_NS)))


def test_connections_share_the_time_and_not_the_requests() -> None:
    line, spent = TurnsOfConnections(), {1: 0, 2: 0}
    put(line, 1, 1000)
    put(line, 2, 1000)
    for _ in range(300):
        cost = SHARE_NS if line.at_work is None else SHARE_NS // 10
        conn = taken(line, cost)
        assert conn is not None
        spent[conn] += cost
    assert abs(spent[1] - spent[2]) <= 2 * SHARE_NS


def test_hosts_share_the_time_however_many_connections_each_has() -> None:
    line, spent = TurnsOfConnections(), {"one": 0, "many": 0}
    put(line, 0, 1000, "one")
    for conn in range(1, 51):
        put(line, conn, 100, "many")
    for _ in range(1000):
        conn = taken(line, SHARE_NS)
        spent["many" if conn else "one"] += SHARE_NS
    assert abs(spent["one"] - spent["many"]) <= 51 * SHARE_NS


def test_a_host_whose_other_connections_are_silent_or_gone_has_its_whole_share() -> None:
    line, spent = TurnsOfConnections(), {1: 0, 2: 0}
    for conn in range(10, 40):
        put(line, conn, 1, "one")
        taken(line, 1000)
        if conn % 2:
            line.drop(conn)
    put(line, 1, 1000, "one")
    put(line, 2, 1000, "two")
    for _ in range(200):
        conn = taken(line, SHARE_NS)
        assert conn is not None
        spent[conn] += SHARE_NS
    assert abs(spent[1] - spent[2]) <= 2 * SHARE_NS


def test_connections_that_go_while_they_stand_in_the_line_no_longer_count_against_their_host() -> None:
    line, spent = TurnsOfConnections(), {1: 0, 2: 0}
    put(line, 0, 1, "other")
    for conn in (1, *range(10, 40)):
        put(line, conn, 1000, "one")
    put(line, 2, 1000, "two")
    for conn in range(10, 40):
        line.drop(conn)
    assert taken(line, 0) == 0
    for _ in range(20):
        conn = taken(line, SHARE_NS)
        assert conn is not None
        spent[conn] += SHARE_NS
    assert spent[1] == spent[2]


def test_small_requests_of_one_connection_run_together_for_its_share() -> None:
    line = TurnsOfConnections()
    put(line, 1, 100)
    put(line, 2, 100)
    order = [taken(line, SHARE_NS // 5) for _ in range(20)]
    assert order == [1] * 5 + [2] * 5 + [1] * 5 + [2] * 5


def test_every_request_is_taken_once_and_in_the_order_of_its_connection() -> None:
    choose, line = random.Random(1), TurnsOfConnections()
    left, seen = {conn: 60 for conn in range(5)}, {conn: -1 for conn in range(5)}
    connection = Connection(1, Listener.CLIENT, "PLAINTEXT", "h")
    while any(left.values()) or line.size:
        conn = choose.randrange(5)
        if left[conn]:
            line.put((conn, memoryview(bytes([60 - left[conn]])), Slot(connection, 1)))
            left[conn] -= 1
        if choose.randrange(3):
            item = line.take()
            if item is not None:
                assert item[1][0] == seen[item[0]] + 1
                seen[item[0]] += 1
                line.charge(choose.randrange(2 * SHARE_NS))
    assert set(seen.values()) == {59}
    assert line.take() is None and not line.ready()


def test_a_connection_that_goes_costs_what_it_had_queued() -> None:
    queue = RequestQueue(500)
    connection = Connection(1, Listener.CLIENT, "PLAINTEXT", "h")
    for conn in range(1, 41):
        for _ in range(17):
            queue.put(Lane.DATA, conn, memoryview(b""), Slot(connection, 0))
    for conn in range(1, 41):
        assert queue.size(Lane.DATA) == 17 * (41 - conn)
        queue.drop(conn)
    assert queue.take(Lane.DATA) is None and not queue.ready()


def test_a_request_whose_slices_use_up_every_turn_lets_in_whoever_stands_in_the_line() -> None:
    for aside in (False, True):
        line, connection = TurnsOfConnections(), Connection(1, Listener.CLIENT, "PLAINTEXT", "mallory")
        slow = (1, memoryview(b"x"), Slot(connection, 1))
        line.put(slow)
        order = []
        for turn in range(12):
            line.begin_turn()
            line.go_on(1)
            if turn in (3, 7):
                put(line, 2, 1, "alice")
                put(line, 3, 1, "bob")
            item = line.take()
            assert item is not None
            order.append(item[0])
            if item[0] == 1:
                line.back(slow, _Place.ASIDE if aside else _Place.RESTING)
            line.charge(LONG_NS)
        assert order == [1, 1, 1, 1, 2, 3, 1, 1, 2, 3, 1, 1]


def test_a_client_that_asks_again_as_soon_as_it_is_answered_does_not_go_before_those_in_the_line() -> None:
    line = TurnsOfConnections()
    put(line, 1)
    order = []
    for turn in range(6):
        if turn == 1:
            put(line, 2)
            put(line, 3)
        item = line.take()
        assert item is not None
        order.append(item[0])
        if item[0] == 1:
            put(line, 1)
        line.charge(LONG_NS)
    assert order == [1, 1, 2, 3, 1, 1]


def test_nobody_is_taken_twice_while_one_who_has_had_less_stands_in_the_line() -> None:
    """Whatever slices and requests cost, and whichever rest, are put aside, come anew or go."""
    choose, line = random.Random(3), TurnsOfConnections()
    connections = {conn: Connection(conn, Listener.CLIENT, "PLAINTEXT", f"h{conn % 3}") for conn in range(9)}
    for _ in range(20_000):
        if not choose.randrange(3):
            line.begin_turn()
        conn = choose.randrange(9)
        match choose.randrange(6):
            case 0:
                line.go_on(conn)
            case 1 | 2 | 3 if line.size < 40:
                line.put((conn, memoryview(b"x"), Slot(connections[conn], 1)))
            case 4 if not choose.randrange(20):
                line.drop(conn)
        item = line.take()
        if item is None:
            continue
        taken = line.at_work
        assert taken is not None and line._share_ns < SHARE_NS
        before = taken.used_ns - line._share_ns * len(connections)
        assert all(before <= one.used_ns for *_, one in line._line if one.items and one.place is IN_LINE)
        if not choose.randrange(3):
            line.back(item, choose.choice((_Place.RESTING, _Place.ASIDE)))
        line.charge(choose.choice((0, SHARE_NS // 3, SHARE_NS, LONG_NS)))
        assert line.at_work is None or (line.at_work.place is IN_LINE and line._share_ns < SHARE_NS)
    assert line.size
