"""A peer's lines in the log: a few of each, so that nobody hides what is said of others."""

from collections.abc import Callable

from actors.node.runtime import peer_lines
from actors.node.runtime.peer_lines import INTERVAL_MS, LINES_A_PRINCIPAL, LINES_MAX, SOURCES_MAX, PeerLines


class Log:
    def __init__(self) -> None:
        self.now_ms = 5_000
        self.lines: list[str] = []
        self.due: list[tuple[int, Callable[[], None]]] = []
        self.peers = PeerLines(lambda: self.now_ms, lambda ms, function: self.due.append((ms, function)))

    def tell(self, source: str, text: str) -> None:
        self.peers.of_principal(self.lines.append, source, text)

    def later(self, ms: int) -> None:
        self.now_ms += ms
        due, self.due = self.due, [one for one in self.due if one[0] > self.now_ms]
        for at_ms, function in due:
            if at_ms <= self.now_ms:
                function()


def test_one_source_hides_nobody_and_what_is_left_out_is_counted() -> None:
    log = Log()
    for number in range(500):
        log.tell("User:mallory", f"denied {number}")
    log.tell("User:bob", "denied one")
    assert log.lines == [f"denied {number}" for number in range(LINES_A_PRINCIPAL)] + ["denied one"]
    log.lines.clear()
    log.later(INTERVAL_MS)
    assert log.lines == [f"{500 - LINES_A_PRINCIPAL} more lines about User:mallory in 10 s"]
    log.tell("User:mallory", "again")
    assert log.lines[-1] == "again" and not log.due


def test_many_sources_leave_room_for_what_the_node_says() -> None:
    log = Log()
    for number in range(5 * SOURCES_MAX):
        log.tell(f"10.0.{number // 250}.{number % 250}", f"closed {number}")
    assert len(log.lines) == LINES_MAX
    log.lines.clear()
    log.later(INTERVAL_MS)
    assert len(log.lines) == peer_lines.SOURCES_TOLD + 1
    assert sum(int(line.split()[0]) for line in log.lines) == 5 * SOURCES_MAX - LINES_MAX
    assert len(log.peers._written) <= SOURCES_MAX + 1 and not log.peers._left_out


def test_a_client_that_tries_again_and_again_hides_nobody_of_its_host() -> None:
    log = Log()
    for _ in range(500):
        log.peers.of_host(log.lines.append, "10.0.0.1", "10.0.0.1: its login failed: 'old'")
    log.peers.of_host(log.lines.append, "10.0.0.1", "10.0.0.1: its login failed: 'bob'")
    assert log.lines == ["10.0.0.1: its login failed: 'old'"] * 3 + ["10.0.0.1: its login failed: 'bob'"]
    assert set(log.peers._same.values()) == {3, 1}, "what is not written is not remembered"
    log.lines.clear()
    log.later(INTERVAL_MS)
    assert log.lines == ["497 more lines about 10.0.0.1 in 10 s"]


def test_a_long_line_is_cut() -> None:
    log = Log()
    log.tell("User:mallory", "x" * 100_000)
    assert len(log.lines[0]) <= peer_lines.CHARACTERS_MAX + 3
