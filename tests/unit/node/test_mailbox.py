"""Whose request is handled next."""

import random

from actors.node.net.connections import Connection, Slot
from actors.node.net.mailbox import SHARE_NS, Line, Mailbox
from actors.node.runtime.calls import Lane, Listener

LONG_NS = 30_000_000


def put(line: Line, conn: int, count: int = 1, host: str = "h") -> None:
    connection = Connection(conn, Listener.CLIENT, "PLAINTEXT", host)
    for number in range(count):
        line.put((conn, memoryview(bytes([number % 256])), Slot(connection, 1)))


def taken(line: Line, spent_ns: int) -> int | None:
    item = line.take()
    if item is None:
        return None
    line.charge(spent_ns)
    return item[0]


def test_a_client_that_asks_now_and_then_waits_for_one_request_of_forty_that_ask_for_much() -> None:
    line, choose = Line(), random.Random(1)
    for conn in range(40):
        put(line, conn, 10)
    for _ in range(100):
        taken(line, choose.randrange(LONG_NS))
    for _ in range(50):
        put(line, 99)
        assert 99 in (taken(line, 1000), taken(line, choose.randrange(LONG_NS)))


def test_connections_share_the_time_and_not_the_requests() -> None:
    line, spent = Line(), {1: 0, 2: 0}
    put(line, 1, 1000)
    put(line, 2, 1000)
    for _ in range(300):
        cost = SHARE_NS if line.at_work is None else SHARE_NS // 10
        conn = taken(line, cost)
        assert conn is not None
        spent[conn] += cost
    assert abs(spent[1] - spent[2]) <= 2 * SHARE_NS


def test_hosts_share_the_time_however_many_connections_each_has() -> None:
    line, spent = Line(), {"one": 0, "many": 0}
    put(line, 0, 1000, "one")
    for conn in range(1, 51):
        put(line, conn, 100, "many")
    for _ in range(1000):
        conn = taken(line, SHARE_NS)
        spent["many" if conn else "one"] += SHARE_NS
    assert abs(spent["one"] - spent["many"]) <= 51 * SHARE_NS


def test_a_host_whose_other_connections_are_silent_or_gone_has_its_whole_share() -> None:
    line, spent = Line(), {1: 0, 2: 0}
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
    line, spent = Line(), {1: 0, 2: 0}
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
    line = Line()
    put(line, 1, 100)
    put(line, 2, 100)
    order = [taken(line, SHARE_NS // 5) for _ in range(20)]
    assert order == [1] * 5 + [2] * 5 + [1] * 5 + [2] * 5


def test_every_request_is_taken_once_and_in_the_order_of_its_connection() -> None:
    choose, line = random.Random(1), Line()
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
    mailbox = Mailbox(500)
    connection = Connection(1, Listener.CLIENT, "PLAINTEXT", "h")
    for conn in range(1, 41):
        for _ in range(17):
            mailbox.put(Lane.DATA, conn, memoryview(b""), Slot(connection, 0))
    for conn in range(1, 41):
        assert mailbox.size(Lane.DATA) == 17 * (41 - conn)
        mailbox.drop(conn)
    assert mailbox.take(Lane.DATA) is None and not mailbox.ready()
