"""Outbound connections: who hears what when a connection, or the active controller, is another."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from actors.authentication.client import ScramLogin
from actors.authentication.scram import Mechanism
from actors.node.net.channels import ChannelError, Channels
from actors.node.runtime.calls import Lane
from actors.node.runtime.waiting import Timers
from actors.wire import framing
from actors.wire.messages import message

FIRST, SECOND = ("c1", 1), ("c2", 1)
ADDRESS = ("127.0.0.1", 9093)
PURPOSE = ("raft", 1002)
NOBODY_ASKS: Any = SimpleNamespace(begin=lambda to_controller, listener: None, listener=lambda to_controller: "")
SILENT: Any = SimpleNamespace(error=lambda text: None)


class Net:
    """Channels with a controller that can be moved."""

    def __init__(self) -> None:
        self.leader: tuple[str, int] | None = FIRST
        self.answers: list[Any] = []
        self.channels = Channels(Timers(), lambda: 0, "n", lambda: self.leader, NOBODY_ASKS, SILENT)

    def ask(self, purpose: str) -> None:
        self.channels.controller("AlterIsr", message("AlterIsrRequest")(), self.answers.append, purpose=purpose)


def test_r497_48_a_request_to_a_frozen_controller_is_lost_as_soon_as_another_one_leads() -> None:
    net = Net()
    net.ask("isr")
    net.channels.connected(net.channels.dials[0].conn)
    net.leader = None
    net.channels.controller_moved()
    assert not net.answers  # nobody to turn to yet
    net.leader = SECOND
    net.channels.controller_moved()
    (lost,) = net.answers
    assert isinstance(lost, ChannelError) and lost.reason == "lost"
    assert net.channels.closes == [net.channels.dials[0].conn]
    net.ask("isr")
    assert (net.channels.dials[1].host, net.channels.dials[1].port) == SECOND


def test_a_request_to_the_controller_that_leads_stays() -> None:
    net = Net()
    net.ask("isr")
    net.ask("heartbeat")
    net.channels.peer(("fetch", 2), ("b2", 1), "Fetch", message("FetchRequest")(), net.answers.append)
    net.channels.controller_moved()
    net.leader = SECOND
    net.ask("heartbeat")
    net.channels.settle()
    assert [answer.reason for answer in net.answers] == ["lost"]
    net.channels.controller_moved()
    assert len(net.answers) == 2  # the fetch from a broker is none of it


def test_r291_61_of_a_channel_that_is_dropped_what_this_turn_was_to_send_does_not_leave() -> None:
    net = Net()
    update = message("UpdateMetadataRequest")()
    for broker in (1, 2):
        net.channels.peer(("push", broker), (f"b{broker}", 1), "UpdateMetadata", update, net.answers.append)
        net.channels.connected(net.channels.dials[-1].conn)
    first, second = (dial.conn for dial in net.channels.dials)
    net.channels.drop(("push", 1), unsent=True)
    assert [conn for conn, _ in net.channels.sends] == [second] and net.channels.closes == [first]
    net.channels.settle()
    assert [answer.reason for answer in net.answers] == ["lost"]


def _moves(net: Net, ask: Callable[[str], None]) -> None:
    ask("b2")
    net.channels.connected(net.channels.dials[-1].conn)
    ask("b3")


def _unknown(net: Net, ask: Callable[[str], None]) -> None:
    net.leader = None
    net.ask("isr")


def _dropped(net: Net, ask: Callable[[str], None]) -> None:
    ask("b2")
    net.channels.drop(("fetch", 2))


def _unsupported(net: Net, ask: Callable[[str], None]) -> None:
    net.channels.peer(("push", 2), ("b2", 1), "UpdateMetadata", None, net.answers.append, versions=range(3, 7))
    conn = net.channels.dials[-1].conn
    net.channels.connected(conn)
    hello = message("ApiVersionsResponse")()
    net.channels.received(conn, memoryview(b"".join(framing.encode_response("ApiVersions", 3, 1, hello))[4:]))


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(_moves, "lost"), (_unknown, "unknown"), (_dropped, "lost"), (_unsupported, "unsupported")],
)
def test_nobody_is_told_inside_the_call_that_asks(happens: Any, reason: str) -> None:
    net = Net()

    def ask(host: str) -> None:
        net.channels.peer(("fetch", 2), (host, 1), "Fetch", message("FetchRequest")(), net.answers.append)

    happens(net, ask)
    assert not net.answers and net.channels.unsettled
    net.channels.settle()
    assert [answer.reason for answer in net.answers] == [reason] and not net.channels.unsettled


def test_a_host_that_answers_while_it_is_asked_is_found_out() -> None:
    net = Net()
    net.channels.ask_itself = lambda name, request, then: then(None)
    with pytest.raises(AssertionError, match="inside a call that asks"):
        net.channels.itself("WriteTxnMarkers", None, net.answers.append)
    net.channels.settle()  # the call is over, though it has failed


def test_who_asks_again_when_a_channel_moves_leaves_no_connection_open() -> None:
    net = Net()
    asked: list[str] = []

    def ask(host: str) -> None:
        asked.append(host)
        request = message("FetchRequest")()
        net.channels.peer(("fetch", 2), (host, 1), "Fetch", request, lambda reply: len(asked) < 6 and ask("b3"))

    for host in ("b2", "b2", "b3"):
        ask(host)
    net.channels.settle()
    channels = net.channels
    dialled = [dial.conn for dial in channels.dials]
    assert asked == ["b2", "b2", "b3", "b3", "b3"] and channels.closes == dialled[:1] and len(dialled) == 2
    channels.connected(dialled[1])
    assert [conn for conn, _ in channels.sends] == [dialled[1]] * 3


def test_who_asks_again_after_silence_asks_on_a_new_connection() -> None:
    net = Net()
    timers = Timers()
    now = [0]
    channels = Channels(timers, lambda: now[0], "n", lambda: None, NOBODY_ASKS, SILENT)

    def ask(then: Callable[[Any], None]) -> None:
        channels.peer(("fetch", 2), ("b2", 1), "Fetch", message("FetchRequest")(), then, 1_000)

    ask(lambda reply: (net.answers.append(reply), ask(net.answers.append)))  # type: ignore[func-returns-value]
    channels.connected(channels.dials[0].conn)
    now[0] = 1_000
    timers.run(1_000)
    assert [answer.reason for answer in net.answers] == ["timeout"]
    assert channels.closes == [channels.dials[0].conn] and len(channels.dials) == 2
    channels.connected(channels.dials[1].conn)
    assert [conn for conn, _ in channels.sends] == [dial.conn for dial in channels.dials]


class Link:
    """Channels and a clock; what was lost, and what was answered."""

    def __init__(self) -> None:
        self.channels = Channels(Timers(), lambda: 0, "test", lambda: ADDRESS, NOBODY_ASKS, SILENT)
        self.lost: list[bool] = []
        self.replies: list[object] = []
        self.channels.watch(PURPOSE, self.lost.append)

    def ask(self) -> None:
        request = message("ApiVersionsRequest")()
        self.channels.peer(PURPOSE, ADDRESS, "ApiVersions", request, self.replies.append, version=3)

    def dialled(self) -> int:
        """The number of the only new dial, 0 for none."""
        dials, self.channels.dials = self.channels.dials, []
        assert len(dials) <= 1
        return dials[0].conn if dials else 0

    def answer(self, conn: int, correlation: int) -> None:
        reply = message("ApiVersionsResponse")()
        frame = b"".join(framing.encode_response("ApiVersions", 3, correlation, reply))[4:]
        self.channels.received(conn, memoryview(frame))


def test_a_broken_connection_that_worked_is_redialled_once_and_a_refusal_is_told() -> None:
    link = Link()
    link.ask()
    conn = link.dialled()
    link.channels.connected(conn)
    link.answer(conn, 1)
    link.channels.closed(conn, False)
    assert link.lost == [False]
    again = link.dialled()
    assert again != 0
    link.channels.closed(again, True)
    assert link.lost == [False, True]
    assert link.dialled() == 0


def test_who_takes_connections_and_breaks_them_is_not_dialled_in_a_circle() -> None:
    link = Link()
    link.ask()
    first = link.dialled()
    link.channels.connected(first)
    link.answer(first, 1)
    link.channels.closed(first, False)
    again = link.dialled()
    link.channels.connected(again)
    link.channels.closed(again, False)
    assert link.dialled() == 0, "until somebody asks"
    assert link.lost == [False, False]
    link.ask()
    third = link.dialled()
    link.channels.connected(third)
    link.channels.closed(third, False)
    assert link.dialled() == 0
    assert [type(reply) for reply in link.replies[1:]] == [ChannelError]


def test_who_asked_hears_at_once_that_the_answer_cannot_be_read() -> None:
    link = Link()
    link.ask()
    link.ask()
    conn = link.dialled()
    link.channels.connected(conn)
    link.channels.received(conn, memoryview(b"\0\0\0\1\0\0\x7f"))
    assert [type(reply) for reply in link.replies] == [ChannelError, ChannelError]
    assert [reply.reason for reply in link.replies] == ["damaged", "damaged"]
    assert link.channels.closes == [conn]


def test_correlation_ids_begin_again_behind_the_largest_int32() -> None:
    """A channel between busy nodes makes 2^31 requests within days. The first request is still in flight when its id
    comes up again: it keeps it."""
    link = Link()
    link.ask()
    conn = link.dialled()
    link.channels.connected(conn)
    (channel,) = link.channels._by_conn.values()
    channel.next_correlation = 2**31 - 3
    for _ in range(4):
        link.ask()
    frames = [b"".join(frame)[4:] for _, frame in link.channels.sends]
    sent = [framing.decode_request_header(frame)[0].correlation_id for frame in frames]
    assert sent == [1, 2**31 - 2, 2**31 - 1, 0, 2]
    assert list(channel.in_flight) == sent


class Clock:
    """Channels on a clock that a test moves; what probes have found."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timers = Timers()
        self.channels = Channels(self.timers, lambda: self.now_ms, "n", lambda: None, NOBODY_ASKS, SILENT)
        self.found: list[bool] = []
        self.channels.probe(ADDRESS, self.found.append)

    def wait(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.now_ms += 1
            self.timers.run(self.now_ms)

    def dialled(self) -> int:
        dials, self.channels.dials = self.channels.dials, []
        return dials[0].conn if dials else 0


def test_a_probe_that_is_refused_says_so_and_one_that_lasts_says_no() -> None:
    refused, lasting, unreachable = Clock(), Clock(), Clock()
    refused.channels.closed(refused.dialled(), True)
    assert refused.found == [True]
    unreachable.channels.closed(unreachable.dialled(), False)
    assert unreachable.found == [False], "a timeout says nothing"
    conn = lasting.dialled()
    lasting.channels.connected(conn)
    assert not lasting.found
    lasting.wait(1000)
    assert (lasting.found, lasting.channels.closes) == ([False], [conn])


def test_a_probe_taken_by_a_dying_process_is_made_again() -> None:
    """Its connections end before its listener: the connect is taken into the backlog and broken."""
    clock = Clock()
    for _ in range(3):
        conn = clock.dialled()
        assert conn
        clock.channels.connected(conn)
        clock.wait(2)
        clock.channels.closed(conn, False)
        assert not clock.found
        assert not clock.dialled(), "not in a circle"
        clock.wait(20)
    clock.channels.closed(clock.dialled(), True)
    assert clock.found == [True]
    clock.wait(1000)
    assert clock.found == [True]


def test_a_probe_broken_again_and_again_ends() -> None:
    clock = Clock()
    while not clock.found:
        conn = clock.dialled()
        if conn:
            clock.channels.connected(conn)
            clock.channels.closed(conn, False)
        clock.wait(1)
        assert clock.now_ms < 10_000
    assert clock.found == [False]
    clock.wait(1000)
    assert not clock.dialled()


class Refused:
    """Channels that log in with SCRAM, at a node that says that it has PLAIN only."""

    def __init__(self) -> None:
        self.logins: Any = SimpleNamespace(
            begin=lambda to_controller, listener: (
                "SCRAM-SHA-512",
                ScramLogin(Mechanism.SCRAM_SHA_512, "n", "secret", b"x" * 16),
            ),
            listener=lambda to_controller: "",
        )
        self.said: list[str] = []
        log: Any = SimpleNamespace(error=self.said.append)
        self.channels = Channels(Timers(), lambda: 0, "n", lambda: None, self.logins, log)
        self.replies: list[Any] = []

    def answer(self, conn: int, correlation: int, name: str, version: int, reply: Any) -> None:
        frame = b"".join(framing.encode_response(name, version, correlation, reply))[4:]
        self.channels.received(conn, memoryview(frame))


@pytest.mark.parametrize("error", [33, 0])
def test_a_node_that_offers_a_weaker_mechanism_is_told_no_password(error: int) -> None:
    """33: it refuses SCRAM. 0: it goes on, and its list has PLAIN alone."""
    link = Refused()
    link.channels.peer(PURPOSE, ADDRESS, "Metadata", message("MetadataRequest")(topics=[]), link.replies.append)
    conn = link.channels.dials[0].conn
    link.channels.connected(conn)
    offered = message("SaslHandshakeResponse")(error_code=error, mechanisms=["PLAIN"])
    link.answer(conn, 1, "SaslHandshake", 1, offered)
    sent = b"".join(b"".join(parts) for _, parts in link.channels.sends)
    assert b"secret" not in sent and b"SCRAM-SHA-512" in sent
    if error:
        assert len(link.said) == 1 and "cannot log in at 127.0.0.1:9093 with SCRAM-SHA-512" in link.said[0]
        link.channels.settle()
        assert link.channels.closes == [conn] and isinstance(link.replies[0], ChannelError)
    else:
        assert b"n,,n=n,r=" in sent, "its proof tells nothing to who does not know the password"


def served(link: Link, conn: int, versions: dict[int, int]) -> None:
    """The answer to the question that comes first, of a broker that serves these."""
    kind = message("ApiVersionsResponse")
    keys = [kind.ApiVersion(api_key=key, min_version=0, max_version=newest) for key, newest in versions.items()]
    frame = b"".join(framing.encode_response("ApiVersions", 3, 1, kind(api_keys=keys)))[4:]
    link.channels.received(conn, memoryview(frame))


@pytest.mark.parametrize(("newest", "spoken"), [(11, None), (12, 12), (16, 16), (18, 17)])
def test_to_a_broker_in_zookeeper_mode_a_request_leaves_in_the_newest_version_that_both_know(
    newest: int, spoken: int | None
) -> None:
    link = Link()
    request = message("FetchRequest")(replica_id=2)
    link.channels.peer(PURPOSE, ADDRESS, "Fetch", request, link.replies.append, versions=range(12, 18))
    conn = link.dialled()
    link.channels.connected(conn)
    (_, hello), *early = link.channels.sends
    assert b"".join(hello)[4:8] == bytes((0, 18, 0, 3)) and not early, "it is asked first, in a version that 2.8 knows"
    link.channels.sends.clear()
    served(link, conn, {1: newest, 18: 3})
    link.channels.settle()
    if spoken is None:
        assert [reply.reason for reply in link.replies] == ["unsupported"] and not link.channels.sends  # type: ignore[attr-defined]
        return
    ((_, frame),) = link.channels.sends
    assert b"".join(frame)[4:8] == bytes((0, 1, 0, spoken))


def test_a_broker_that_is_of_apache_kafka_from_now_on_is_asked_on_a_new_connection() -> None:
    link = Link()
    request = message("FetchRequest")(replica_id=2)
    link.channels.peer(PURPOSE, ADDRESS, "Fetch", request, link.replies.append, version=17)
    first = link.dialled()
    link.channels.connected(first)
    link.channels.peer(PURPOSE, ADDRESS, "Fetch", request, link.replies.append, versions=range(12, 18))
    assert link.dialled() not in (0, first) and link.channels.closes == [first]
    link.channels.settle()
    assert [reply.reason for reply in link.replies] == ["lost"]  # type: ignore[attr-defined]


def test_r291_47_an_answer_waits_in_the_lane_of_what_was_asked() -> None:
    """What still comes of a connection that was dropped is thrown away when it is looked at, which is soon."""
    net = Net()
    net.ask("isr")
    metadata = message("MetadataRequest")()
    net.channels.peer(("told", 2), ("b2", 1), "Metadata", metadata, net.answers.append, lane=Lane.DATA)
    conns = [dial.conn for dial in net.channels.dials]
    for conn in conns:
        net.channels.connected(conn)
    assert [net.channels.lane(conn) for conn in conns] == [Lane.CONTROL, Lane.DATA]
    net.channels.drop(("told", 2))
    assert net.channels.lane(conns[1]) is Lane.CONTROL
