"""The loop over real sockets, with a node that only echoes."""

import datetime
import os
import resource
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from actors.host import loop as loop_module
from actors.host.loop import LOOK_FOR_ENDS_S, Loop
from actors.host.net import handshakes
from actors.host.net import tls as tls_module
from actors.host.net.read_budget import ReadBudget
from actors.host.net.server import ConnectionLimits, Listeners, PortTaken
from actors.host.net.tls_link import FIRST_BYTES, RECORD_BYTES, TlsLink
from actors.host.security.certificates import authority, issue
from actors.host.work import descriptors
from actors.node.metrics.family import GAUGE, Family, Sample
from actors.ports import Work
from actors.settings.keys import ConfigError
from actors.settings.node_config import node_config
from tests.numbers import numbers
from tests.unit.host.echo import EchoNode

pytestmark = pytest.mark.long
DEADLINE_S = 60
"""A machine with other work may let a thread wait for seconds."""


class Lines:
    """A log that tests read."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)

    warning = error = info


def broker(**settings: str) -> dict[str, str]:
    return {
        "process.roles": "broker",
        "broker.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.connect": "127.0.0.1:9093",
    } | {name.replace("_", "."): value for name, value in settings.items()}


class Running:
    """A loop in a thread, its node and the port of its listener."""

    def __init__(self, settings: dict[str, str], listen: list[str]) -> None:
        config = node_config(settings)
        self.log = Lines()
        self.node = EchoNode(listen)
        self.listeners = Listeners(config)
        self.port = self.listeners.ports()["PLAINTEXT"]
        self.loop = Loop(config, self.listeners, self.log)
        self.events: list[tuple[str, str]] = []
        self.stop: object = None
        started = threading.Event()

        def event(what: str, listener: str) -> None:
            self.events.append((what, listener))
            started.set()

        def run() -> None:
            self.stop = self.loop.run(lambda: self.node, event)  # type: ignore[arg-type,return-value]

        self.thread = threading.Thread(target=run)
        self.thread.start()
        assert started.wait(DEADLINE_S)

    def connect(self, listener: str = "") -> socket.socket:
        """To the first listener, or to one by name, as soon as it answers."""
        deadline = time.monotonic() + DEADLINE_S
        port = self.listeners.ports()[listener] if listener else self.port
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def wake(self) -> None:
        """Make the loop take a turn."""
        self.loop._loop.call_soon_threadsafe(self.loop._schedule)

    def until(self, holds) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < deadline, (self.node.seen, self.events)
            time.sleep(0.005)

    def end(self) -> None:
        if self.thread.is_alive():
            self.loop.shutdown()
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()


@pytest.fixture
def running() -> Iterator[Running]:
    one = Running(broker(), ["PLAINTEXT"])
    yield one
    one.end()


def test_what_a_node_has_read_at_its_start_is_set_aside_once(running: Running, set_aside: list[bool]) -> None:
    with closing(running.connect()) as sock:
        sock.sendall(frame(b"the first request"))
        exactly(sock, 21)
    assert set_aside == [True]


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        assert part, "closed too early"
        data += part
    return bytes(data)


def test_a_link_hands_over_no_more_frames_than_the_node_takes_and_goes_on_when_told(running: Running) -> None:
    """What was read already waits at the link, the halves of frames too, and everything comes in its order."""
    running.node.frames_max = 3
    came: list[bytes] = []
    turns: list[int] = []

    def act(conn: int, frame: memoryview) -> None:
        came.append(bytes(frame))
        turns.append(running.node.turns)
        running.node.extra = {"resume": [conn]}

    numbers = [number.to_bytes(4, "big") * (1 + number % 50) for number in range(1000)]
    running.node.act = act
    with closing(running.connect()) as sock:
        sent = b"".join(frame(one) for one in numbers)
        half = len(sent) // 2 + 1
        sock.sendall(sent[:half])
        running.until(lambda: len(came) > 100)
        sock.sendall(sent[half:])
        running.until(lambda: len(came) == 1000)
    assert came == numbers
    assert max(turns.count(turn) for turn in set(turns)) <= 3


@pytest.mark.parametrize(
    "size", [0, 1, 3, 100, 65_531, 65_532, 65_533, 65_536, 1_000_000, 4 << 20, (4 << 20) + 1, 20_000_000]
)
def test_a_frame_comes_back_whole(running: Running, size: int) -> None:
    data = bytes(i * 31 % 251 for i in range(1000)) * (size // 1000 + 1)
    with closing(running.connect()) as sock:
        sender = threading.Thread(target=sock.sendall, args=(frame(data[:size]) + frame(b"next"),))
        sender.start()
        assert exactly(sock, 4 + size) == frame(data[:size])
        assert exactly(sock, 8) == frame(b"next")
        sender.join()


def test_frames_cut_anywhere_come_back_whole(running: Running) -> None:
    with closing(running.connect()) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b"".join(frame(b"x" * n) for n in (0, 1, 2, 5, 17))
        for byte in data:
            sock.send(bytes([byte]))
            time.sleep(0.001)
        assert exactly(sock, len(data)) == data


def test_many_small_frames_are_answered_in_order_and_in_few_turns(running: Running) -> None:
    with closing(running.connect()) as sock:
        data = b"".join(frame(str(i).encode()) for i in range(20_000))
        before = running.node.turns
        sender = threading.Thread(target=sock.sendall, args=(data,))
        sender.start()
        assert exactly(sock, len(data)) == data
        sender.join()
        assert running.node.turns - before < 2_000


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x06\x40\x00\x01"])
def test_a_length_that_cannot_be_closes_the_connection(running: Running, length: bytes) -> None:
    with closing(running.connect()) as sock:
        sock.sendall(length)
        with pytest.raises((ConnectionResetError, AssertionError)):
            exactly(sock, 1)
    running.until(lambda: any("frame of" in line for line in running.log.lines))


def test_a_length_is_only_believed_as_bytes_arrive(running: Running) -> None:
    """A hundred connections that each promise 100 MB cost next to nothing."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    before = resident()
    socks = [running.connect() for _ in range(100)]
    for sock in socks:
        sock.sendall((100_000_000).to_bytes(4, "big") + b"x" * 100)
    running.until(lambda: sum(seen[0] == "connected" for seen in running.node.seen) >= 100)
    time.sleep(0.1)
    grown = resident() - before
    for sock in socks:
        sock.close()
    assert grown < 30_000_000


def test_the_port_refuses_until_the_node_answers_and_then_closes_what_it_does_not_keep() -> None:
    one = Running(broker(), [])

    def turned_away() -> bool:
        with socket.create_connection(("127.0.0.1", one.port), timeout=DEADLINE_S) as sock:
            sock.settimeout(DEADLINE_S)
            return sock.recv(1) == b""

    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", one.port), timeout=DEADLINE_S)
        one.node.extra = {"turn_away": ["PLAINTEXT"]}
        one.wake()
        one.until(lambda: one.node.extra is None or not one.node.extra)
        for _ in range(2):
            assert turned_away()
            one.node.extra = {"listen": ["PLAINTEXT", "PLAINTEXT"]}
            one.wake()
            one.until(lambda: one.events[-1] == ("listening", "PLAINTEXT"))
            one.connect().close()
            one.node.extra = {"turn_away": ["PLAINTEXT", "PLAINTEXT"]}
            one.wake()
            one.until(lambda: one.events[-1] == ("refusing", "PLAINTEXT"))
        assert turned_away()
    finally:
        one.end()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", one.port), timeout=DEADLINE_S)
    assert one.events[0] == ("started", "")


def test_a_port_that_is_taken_is_one_sentence(running: Running) -> None:
    running.connect().close()
    with pytest.raises(PortTaken, match=rf"127\.0\.0\.1:{running.port}, which another process uses"):
        Listeners(node_config(broker(listeners=f"PLAINTEXT://127.0.0.1:{running.port}")))


@pytest.mark.parametrize("host", ["a..b", "x" * 70])
def test_a_host_that_cannot_be_one_is_one_sentence(host: str) -> None:
    with pytest.raises(PortTaken, match=rf"has the host {host}, which is not known"):
        Listeners(
            node_config(broker(listeners=f"PLAINTEXT://{host}:9092", **{"advertised.listeners": "PLAINTEXT://h:1"}))
        )


def test_a_dial_tells_refused_from_lost(running: Running) -> None:
    from actors.node.runtime.effects import Dial

    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        running.node.extra = {
            "dial": [
                Dial(-1, "127.0.0.1", nobody.getsockname()[1]),
                Dial(-2, "127.0.0.1", running.port),
                Dial(-3, "no-such-host.invalid", 1),
                Dial(-4, "localhost", nobody.getsockname()[1]),
            ]
        }
        running.wake()
        running.until(lambda: {seen[1] for seen in running.node.seen} >= {-1, -2, -3, -4})
    assert ("closed", -1, True) in running.node.seen
    assert ("connected", -2, "", "127.0.0.1") in running.node.seen
    assert ("closed", -3, False) in running.node.seen
    assert ("closed", -4, True) in running.node.seen


@pytest.mark.parametrize("served", [True, False])
def test_a_silent_address_leaves_time_for_the_next(
    running: Running, served: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address whose connections nobody takes drops what more come; it is not refused, whatever the next one is."""
    from actors.node.runtime.effects import Dial

    monkeypatch.setattr("actors.host.net.client.CONNECT_TIMEOUT_S", 1.0)
    with ExitStack() as sockets:
        silent = sockets.enter_context(closing(socket.socket()))
        silent.bind(("127.0.0.2", running.port if served else 0))
        silent.listen(0)
        port = silent.getsockname()[1]
        for _ in range(4):
            waiting = sockets.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.2", port))
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]

        async def both(*_: object, **__: object) -> list[tuple[object, ...]]:
            return rows

        monkeypatch.setattr(running.loop._loop, "getaddrinfo", both, raising=False)
        running.node.extra = {"dial": [Dial(-1, "two.invalid", port)]}
        running.wake()
        running.until(lambda: any(seen[1] == -1 for seen in running.node.seen))
    assert (("connected", -1, "", "127.0.0.1") if served else ("closed", -1, False)) in running.node.seen


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\udcff", "a\0b"])
def test_a_name_that_cannot_be_one_is_not_known(running: Running, host: str) -> None:
    """It comes from the registration of another broker."""
    from actors.node.runtime.effects import Dial

    running.node.extra = {"dial": [Dial(-1, host, 1)]}
    running.wake()
    running.until(lambda: running.node.seen)
    assert running.node.seen == [("closed", -1, False)]


def test_what_was_sent_before_a_close_arrives(running: Running) -> None:
    running.node.act = lambda conn, data: running.node.extra.update(
        send=[(conn, [frame(b"y" * 3_000_000)])], close=[conn]
    )
    with closing(running.connect()) as sock:
        sock.sendall(frame(b"go"))
        assert exactly(sock, 3_000_004) == frame(b"y" * 3_000_000)
        assert sock.recv(1) == b""
    assert not any(seen[0] == "closed" for seen in running.node.seen), "the node closed it, so it is not told"


def test_a_peer_that_does_not_read_its_answers_is_not_read(running: Running) -> None:
    with closing(running.connect()) as sock:
        sock.settimeout(1)
        big = frame(b"z" * 1_000_000)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                sock.sendall(big)
        with closing(running.connect()) as other:
            other.sendall(frame(b"others are served"))
            assert exactly(other, 21) == frame(b"others are served")


def test_a_paused_connection_is_not_read_until_it_is_resumed(running: Running) -> None:
    with closing(running.connect()) as sock:
        running.until(lambda: running.node.seen)
        running.node.extra = {"pause": [1]}
        running.wake()
        time.sleep(0.05)
        sock.sendall(frame(b"later"))
        sock.settimeout(0.2)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        running.node.extra = {"resume": [1]}
        running.wake()
        sock.settimeout(DEADLINE_S)
        assert exactly(sock, 9) == frame(b"later")


def test_work_and_its_errors_come_back(running: Running) -> None:
    def broken() -> object:
        raise KeyError("no")

    running.node.extra = {"work": [Work(1, lambda: 42), Work(2, broken)]}
    running.wake()
    running.until(lambda: sum(seen[0] == "done" for seen in running.node.seen) == 2)
    done = {seen[1]: seen[2] for seen in running.node.seen if seen[0] == "done"}
    assert done[1] == 42
    assert isinstance(done[2], KeyError)


def test_the_node_is_woken_at_its_deadline(running: Running) -> None:
    running.until(lambda: running.node.turns > 0)
    time.sleep(0.2)
    turns = running.node.turns
    time.sleep(0.2)
    assert running.node.turns == turns, "an idle node sleeps"
    running.node.deadline = time.monotonic_ns() // 1_000_000 + 600
    running.wake()
    time.sleep(0.2)
    assert running.node.turns == turns + 1
    running.until(lambda: running.node.turns > turns + 1)
    running.node.deadline = 1 << 62


def test_more_connections_than_allowed_are_closed_on_arrival() -> None:
    one = Running(broker(), ["PLAINTEXT"])
    one.node.settings["max.connections"] = 2
    try:
        with closing(one.connect()) as first, closing(one.connect()) as second:
            for sock in (first, second):
                sock.sendall(frame(b"in"))
                assert exactly(sock, 6) == frame(b"in")
            with closing(one.connect()) as third:
                assert third.recv(1) == b""
        one.until(lambda: sum(seen[0] == "closed" for seen in one.node.seen) == 2)
        with closing(one.connect()) as fourth:
            fourth.sendall(frame(b"in"))
            assert exactly(fourth, 6) == frame(b"in")
    finally:
        one.end()


def test_a_silent_connection_is_closed_and_a_busy_one_stays() -> None:
    one = Running(broker(connections_max_idle_ms="200"), ["PLAINTEXT"])
    try:
        with closing(one.connect()) as silent, closing(one.connect()) as busy:
            silent.settimeout(DEADLINE_S)
            for _ in range(10):
                busy.sendall(frame(b"here"))
                assert exactly(busy, 8) == frame(b"here")
                time.sleep(0.05)
            assert silent.recv(1) == b""
    finally:
        one.end()


def test_a_broken_node_ends_the_process_with_the_story_in_the_log(running: Running) -> None:
    def broken(conn: int, data: memoryview) -> None:
        raise AssertionError("an invariant")

    running.node.act = broken
    with closing(running.connect()) as sock:
        sock.sendall(frame(b"go"))
        running.thread.join(DEADLINE_S)
    assert running.stop is not None
    assert running.stop.code == 1  # type: ignore[attr-defined]
    assert any("an invariant" in line and "Traceback" in line for line in running.log.lines)


PLANE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CP://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CP:PLAINTEXT",
    "control.plane.listener.name": "CP",
}


PLANE_ANSWERS = "kafka_network_requestchannel_controlplaneresponsequeuesize"
PLANE_IDLE = "kafka_network_socketserver_controlplanenetworkprocessoravgidle_percent"


def shown(one: Running) -> dict[str, float]:
    return numbers(one.loop.metrics())


def test_r291_10_30_31_the_control_plane_has_its_own_port_reader_and_queue_of_answers() -> None:
    one = Running(broker() | PLANE, ["PLAINTEXT", "CP"])
    try:
        ports = one.listeners.ports()
        assert ports["CP"] != ports["PLAINTEXT"]
        with closing(one.connect()) as data, closing(socket.create_connection(("127.0.0.1", ports["CP"]))) as control:
            for sock in (data, control):
                sock.sendall(frame(b"in"))
                assert exactly(sock, 6) == frame(b"in")
            assert (one.loop._data.frames, one.loop._plane_reader.frames) == (1, 1)
            assert shown(one)[PLANE_ANSWERS] == 0
            assert 0 <= shown(one)[PLANE_IDLE] <= 1
            control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.node.act = lambda conn, heard: one.node.extra.setdefault("send", []).extend(
                (conn, [bytes(3 << 20)]) for _ in range(5)
            )
            control.sendall(frame(b"in"))
            one.until(lambda: shown(one).get(PLANE_ANSWERS, 0) >= 3)  # nobody reads them
    finally:
        one.end()


def test_what_many_connections_have_sent_does_not_come_before_a_request_of_the_control_plane() -> None:
    """60 of them have a frame of 100 KB in the sockets when the loop looks again. Between two turns it reads a bounded part
    of that, and all arrive in the end."""
    one = Running(broker() | PLANE, ["PLAINTEXT", "CP"])
    size, go_on, came = 100_000, threading.Event(), []

    def act(conn: int, heard: memoryview) -> None:
        came.append(len(heard))
        if len(heard) == 4:  # the loop stands still until all have sent
            assert go_on.wait(DEADLINE_S)

    one.node.act = act
    try:
        with ExitStack() as stack:
            control = stack.enter_context(closing(one.connect("CP")))
            peers = [stack.enter_context(closing(one.connect())) for _ in range(60)]
            one.until(lambda: len(one.node.seen) == 61)
            peers[0].sendall(frame(b"wait"))
            one.until(lambda: came)
            for peer in peers:
                peer.sendall(frame(bytes(size)))
            control.sendall(frame(b"control"))
            go_on.set()
            one.until(lambda: len(came) == 62)
        assert came.index(7) <= 12, came.index(7)
    finally:
        go_on.set()
        one.end()


def test_what_clients_have_sent_is_read_in_small_pieces_when_a_controller_has_said_something(running: Running) -> None:
    left = []
    running.node.act = lambda conn, heard: left.append(running.loop._budget.left)
    with closing(running.connect()) as peer:
        for controlled in (False, True):
            running.node.controlled = controlled
            peer.sendall(frame(b"in"))
            running.until(lambda: len(left) == 1 + controlled)  # noqa: B023
    assert left[0] > 0 and left[1] == 0


def test_r291_16_without_a_control_plane_its_idle_share_is_no_number(running: Running) -> None:
    found = shown(running)
    assert found[PLANE_IDLE] != found[PLANE_IDLE]
    assert PLANE_ANSWERS not in found and "kafka_network_socketserver_networkprocessoravgidle_percent" in found


def test_r291_49_a_full_broker_still_takes_control_connections() -> None:
    one = Running(broker() | PLANE, ["PLAINTEXT", "CP"])
    one.node.settings["max.connections"] = 1
    try:
        with closing(one.connect()) as first, closing(one.connect()) as second:
            first.sendall(frame(b"in"))
            assert exactly(first, 6) == frame(b"in") and second.recv(1) == b""
            with closing(socket.create_connection(("127.0.0.1", one.listeners.ports()["CP"]))) as control:
                control.sendall(frame(b"in"))
                assert exactly(control, 6) == frame(b"in")
    finally:
        one.end()


def test_r291_50_tasks_are_named_by_their_plane() -> None:
    one = Running(broker() | PLANE, ["PLAINTEXT", "CP"])
    names: list[str] = []
    whole = one.loop._loop.create_task

    def create_task(task, *, name=None):  # type: ignore[no-untyped-def]
        names.append(name)
        return whole(task, name=name)

    one.loop._create_task = create_task
    try:
        with closing(one.connect()), closing(one.connect("CP")):
            one.until(lambda: len(names) == 2)
        assert {name.split("-")[0] for name in names} == {"data", "control"}
    finally:
        one.end()


def test_a_start_whose_effects_the_system_refuses_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be there, silent, and nobody would start it again."""
    config, log = node_config(broker()), Lines()
    loop = Loop(config, Listeners(config), log)
    node = EchoNode(["PLAINTEXT"])
    monkeypatch.setattr(loop, "_listen", Mock(side_effect=RuntimeError("can't start new thread")))
    late = threading.Timer(2, loop.shutdown)
    late.start()
    assert loop.run(lambda: node).code == 1  # type: ignore[arg-type,return-value]
    late.cancel()
    assert "can't start new thread" in log.lines[0]


def test_a_shutdown_that_is_asked_for_before_there_is_a_node_is_not_lost() -> None:
    """Under Ray the loop is known to its actor before it runs; so it is to who asks for metrics."""
    config = node_config(broker())
    loop = Loop(config, Listeners(config), Lines())
    node = EchoNode(["PLAINTEXT"])
    found: list[object] = []

    loop.shutdown()
    early = threading.Thread(target=lambda: found.append(loop.metrics()))
    early.start()
    thread = threading.Thread(target=lambda: found.append(loop.run(lambda: node)))  # type: ignore[arg-type,return-value]
    thread.start()
    for one in (thread, early):
        one.join(DEADLINE_S)
    assert not thread.is_alive()
    assert sorted(map(str, found), key=len) == ["[]", str(node.stopping)]
    loop.shutdown()
    assert loop.metrics() == []


@pytest.mark.parametrize("nohup", [False, True])
def test_a_terminal_that_goes_away_begins_the_shutdown(nohup: bool) -> None:
    config = node_config(broker())
    loop = Loop(config, Listeners(config), Lines())
    node = EchoNode(["PLAINTEXT"])
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else lambda *_: None)
    try:
        loop.signals()
        loop._loop.call_soon(os.kill, os.getpid(), signal.SIGHUP)
        loop._loop.call_later(0.5, os.kill, os.getpid(), signal.SIGTERM)
        began = time.monotonic()
        assert loop.run(lambda: node) == node.stopping  # type: ignore[arg-type,return-value]
        assert (time.monotonic() - began >= 0.5) == nohup
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_r500_41_each_signal_begins_the_shutdown(number: signal.Signals) -> None:
    config = node_config(broker())
    loop = Loop(config, Listeners(config), Lines())
    node, late = EchoNode(["PLAINTEXT"]), list[bool]()
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def end() -> None:
        late.append(True)
        os.kill(os.getpid(), signal.SIGHUP)

    for one in before:
        signal.signal(one, lambda *_: None)
    try:
        loop.signals()
        loop._loop.call_soon(os.kill, os.getpid(), number)
        fallback = loop._loop.call_later(30, end)
        assert loop.run(lambda: node) == node.stopping  # type: ignore[arg-type,return-value]
        fallback.cancel()
        assert not late, "nothing has begun by itself"
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def reset(sock: socket.socket) -> None:
    """Close so that the other side hears of an error, not of an end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@contextmanager
def unharmed(one: Running) -> Iterator[None]:
    """What its peers do meanwhile raises nothing in the loop; a connection is served afterwards, and none is counted."""
    errors: list[object] = []
    one.loop._loop.set_exception_handler(lambda loop, context: errors.append(context))
    try:
        yield
        with closing(one.connect()) as after:
            after.sendall(frame(b"in"))
            assert exactly(after, 6) == frame(b"in")
        one.until(lambda: one.listeners.limits._all == 0)
        assert not errors
        assert not one.listeners.limits._by_host
    finally:
        one.end()


def test_a_peer_that_is_gone_before_it_is_accepted_is_no_error() -> None:
    one = Running(broker(), ["PLAINTEXT"])
    with unharmed(one):
        one.connect().close()
        busy = threading.Event()
        one.loop._loop.call_soon_threadsafe(busy.wait)
        for _ in range(10):
            reset(one.connect())
        busy.set()


def test_a_peer_that_is_gone_between_its_acceptance_and_its_connection_is_no_error() -> None:
    one = Running(broker(), ["PLAINTEXT"])
    one.node.settings["max.connections"] = 2
    going: list[socket.socket] = []
    whole = one.loop._create_task

    def create_task(task, *, name=None):  # type: ignore[no-untyped-def]
        while going:
            reset(going.pop())
        return whole(task, name=name)

    one.loop._create_task = create_task
    held, busy = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        busy.wait()

    with unharmed(one):
        for _ in range(3):
            held.clear()
            busy.clear()
            one.loop._loop.call_soon_threadsafe(hold)
            assert held.wait(DEADLINE_S)  # else the loop could accept before it is known who is to go
            going.append(one.connect())
            busy.set()
            one.until(lambda: not going and one.listeners.limits._all == 0)


def test_a_silent_peer_that_never_reads_its_answers_is_closed_too() -> None:
    one = Running(broker(connections_max_idle_ms="200"), ["PLAINTEXT"])
    one.node.act = lambda conn, data: one.node.extra.update(send=[(conn, [frame(bytes(30_000_000))])])
    try:
        with closing(one.connect()) as deaf:
            deaf.sendall(frame(b"go"))
            one.until(lambda: ("closed", 1, False) in one.node.seen)
            assert one.listeners.limits._all == 0
    finally:
        one.end()


def test_a_peer_that_reads_a_long_answer_slowly_is_not_silent() -> None:
    one = Running(broker(connections_max_idle_ms="600", socket_send_buffer_bytes="65536"), ["PLAINTEXT"])
    size = 6_000_000
    one.node.act = lambda conn, data: one.node.extra.update(send=[(conn, [frame(bytes(size))])])
    try:
        with closing(one.connect()) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            slow.sendall(frame(b"go"))
            for _ in range(24):
                assert exactly(slow, 250_000)
                time.sleep(0.05)
            assert exactly(slow, 4)
    finally:
        one.end()


@pytest.mark.parametrize("end", ["close", "half", "reset"])
def test_the_end_of_a_connection_that_is_not_read_is_seen(running: Running, end: str) -> None:
    """Its peer has sent more than the node took before it closed."""
    running.node.frames_max = 1
    sock, other = running.connect(), running.connect()
    with closing(other), closing(sock):
        for one in (sock, other):
            one.sendall(frame(b"first") + frame(b"second"))
        for one in (sock, other):  # answered: neither is read any more, and nothing is left to write that would fail
            assert exactly(one, 9) == frame(b"first")
        if end == "half":
            sock.shutdown(socket.SHUT_WR)
        elif end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
        else:
            sock.close()
        running.until(lambda: ("left", 1) in running.node.seen)
        time.sleep(1.5 * LOOK_FOR_ENDS_S)
        assert [one for one in running.node.seen if one[0] == "left"] == [("left", 1)], "once, and nobody else"
        assert ("closed", 1, False) not in running.node.seen, "what it has sent may count"


def test_a_turn_that_takes_long_is_handed_to_the_node(running: Running) -> None:
    def act(conn: int, frame: memoryview) -> None:
        if frame == b"long":
            time.sleep(0.02)

    running.node.act = act
    with closing(running.connect()) as sock:
        sock.sendall(frame(b"long"))
        running.until(lambda: running.node.long_turns_ns)
        assert max(running.node.long_turns_ns) >= 20_000_000


@pytest.mark.parametrize("muted", [True, False])
def test_a_client_that_is_over_its_quota_keeps_no_room_from_others(muted: bool) -> None:
    """It is not read in the middle of a large frame, and decides itself for how long. What this node pauses for reasons of
    its own keeps its room."""
    one = Running(broker(queued_max_request_bytes=str(2 << 20)), ["PLAINTEXT"])
    size = 1 << 20
    try:
        with closing(one.connect()) as first, closing(one.connect()) as second:
            first.sendall(size.to_bytes(4, "big") + bytes(size // 2))
            one.until(lambda: one.loop._data.room.held >= size)
            if muted:
                one.node.over_quota.add(1)
            one.node.extra["pause"] = [1]
            one.wake()
            one.until(lambda: one.loop._links[1]._paused_by_node)
            second.sendall(size.to_bytes(4, "big") + bytes(size))
            if muted:
                assert exactly(second, size + 4)[4:] == bytes(size)
                assert any("others wait for its memory" in line for line in one.log.lines)
            else:
                time.sleep(2)
                assert not one.log.lines and 1 in one.loop._links
    finally:
        one.end()


def test_metrics_are_put_together_in_slices_and_turns_come_between(running: Running) -> None:
    """A page as large as clients like, and nobody waits for the whole of it."""
    turns = []

    def parts() -> Iterator[list[Any]]:
        for _ in range(30):
            running.loop._schedule()
            turns.append(running.node.turns)
            time.sleep(0.002)
            yield [Sample(Family("a", GAUGE, "a number"), (), 1.0)]

    running.node.metrics = parts()
    found = running.loop.metrics()
    assert sum(one.family.name == "a" for one in found) == 30
    assert turns[-1] - turns[0] >= 28, "a turn behind each slice"


def test_metrics_for_which_nobody_waits_any_more_are_left(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "METRICS_TIMEOUT_S", 0.1)
    told = []

    def parts() -> Iterator[list[Any]]:
        for number in range(1000):
            told.append(number)
            time.sleep(0.01)
            yield []

    running.node.metrics = parts()
    assert running.loop.metrics() == []
    time.sleep(0.1)
    count = len(told)
    time.sleep(0.1)
    assert len(told) == count < 100


def test_whoever_waits_for_metrics_when_the_loop_ends_is_told_at_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "METRICS_TIMEOUT_S", 3600.0)
    begun = threading.Event()

    def parts() -> Iterator[list[Any]]:
        while True:
            begun.set()
            time.sleep(0.002)
            yield []

    running.node.metrics = parts()
    found: list[list[Sample]] = []
    scrape = threading.Thread(target=lambda: found.append(running.loop.metrics()), daemon=True)
    scrape.start()
    assert begun.wait(DEADLINE_S)
    running.end()
    scrape.join(10)
    assert found == [[]]


class _Ending:
    """The transport of a link whose TLS has ended, and that has not heard of it."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def test_a_connection_whose_tls_has_just_ended_hides_no_end_of_others(running: Running) -> None:
    running.node.frames_max = 1
    sock, other = running.connect(), running.connect()
    with closing(other), closing(sock):
        for one in (other, sock):
            one.sendall(frame(b"first") + frame(b"second"))
        running.until(lambda: [link.unread() for link in running.loop._links.values()] == [True, True])
        link = running.loop._links[1]
        link.transport = _Ending(link.transport)  # type: ignore[assignment]
        (sock if sock.getsockname()[1] == running.loop._links[2].peer_port else other).close()
        running.until(lambda: ("left", 2) in running.node.seen)


def test_without_descriptors_connections_wait_and_the_loop_does_not_spin(running: Running) -> None:
    sock = socket.socket()
    sock.settimeout(DEADLINE_S)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(running.connect()) as served, closing(sock):
        served.sendall(frame(b"in"))
        assert exactly(served, 6) == frame(b"in")
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            began_s = time.process_time()
            sock.connect(("127.0.0.1", running.port))
            sock.sendall(frame(b"late"))
            time.sleep(0.5)
            assert time.process_time() - began_s < 0.25
            served.sendall(frame(b"in"))
            assert exactly(served, 6) == frame(b"in")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert exactly(sock, 8) == frame(b"late")
    assert sum("descriptors" in line for line in running.log.lines) == 1


def test_a_flood_of_connections_leaves_descriptors_for_files() -> None:
    """Without them the next checkpoint would be an error of the disk, and the end of the node."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    flood = [socket.socket() for _ in range(120)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (flood[-1].fileno() + 100, before[1]))
    files: list[int] = []
    one = Running(broker(), ["PLAINTEXT"])
    try:
        one.connect().close()
        for sock in flood:
            sock.connect(("127.0.0.1", one.port))
        one.until(lambda: any("descriptors" in line for line in one.log.lines))
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                files.append(os.open("/dev/null", os.O_RDONLY))
        assert len(files) >= 30
        first = flood.pop(0)
        first.settimeout(DEADLINE_S)
        first.sendall(frame(b"in"))
        assert exactly(first, 6) == frame(b"in")
        first.close()
    finally:
        for file in files:
            os.close(file)
        for sock in flood:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        one.end()


def test_descriptors_are_raised_to_what_is_allowed_and_divided() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        assert descriptors.handles_max(1, 4096) == 512
        assert descriptors.handles_max(4, 4096) == 128
        assert descriptors.connections_end() == 960
        assert descriptors.connections_end(limited=False) == 992, "other nodes get in where clients do not"
        assert descriptors.pins_max() == 128
        assert "1024 files and connections" in (descriptors.too_few() or "")
        assert descriptors.raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_a_limit_for_one_address_holds_however_it_is_written(host: str) -> None:
    limits = ConnectionLimits(node_config(broker(max_connections_per_ip_overrides=f"{host}:1")))
    address = "::1" if ":" in host else "127.0.0.1"
    assert limits.take(address, 9, 9) and not limits.take(address, 9, 9)
    assert not limits.take("10.0.0.9", 1, 9) and limits.take("10.0.0.9", 1, 9, protected=True)
    limits.give("10.0.0.9")
    assert limits.take("10.0.0.1", 9, 9) and limits.take("10.0.0.1", 9, 9)


@pytest.mark.parametrize("text", ["no-such-host.invalid:5", "127.0.0.1", "127.0.0.1:x", "a..b:1", ":1"])
def test_a_limit_for_nobody_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        ConnectionLimits(node_config(broker(max_connections_per_ip_overrides=text)))


def encrypted(keystore: Path, **more: str) -> Running:
    """A loop with a listener CLIENTS that speaks TLS."""
    settings = broker(
        listeners="CLIENTS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        listener_security_protocol_map="CLIENTS:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
        ssl_keystore_location=str(keystore),
        **more,
    )
    return Running(settings, ["CLIENTS", "PLAINTEXT"])


def refused_later(sock: socket.socket) -> bool:
    """Whether the node closes it, whatever it has sent."""
    try:
        while sock.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def test_slow_tls_handshakes_make_room_and_every_connection_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    (tmp_path / "node.pem").write_bytes(issue(by, "node", now, ["localhost"]).pem)
    monkeypatch.setattr(handshakes, "UNDER_WAY_OF_A_HOST", 3)
    monkeypatch.setattr(handshakes, "WAITING_OF_A_HOST", 4)
    monkeypatch.setattr(handshakes, "SLOW_S", 0.3)
    one = encrypted(tmp_path / "node.pem")
    limits = one.listeners.limits
    try:
        with ExitStack() as kept:
            slow = [kept.enter_context(closing(one.connect("CLIENTS"))) for _ in range(3)]
            one.until(lambda: limits._all == 3)
            context = ssl.create_default_context(cadata=by.certificate.decode())
            # The three are slow, and it waits until the oldest of them has had its time.
            with context.wrap_socket(one.connect("CLIENTS"), server_hostname="localhost") as good:
                good.sendall(frame(b"served"))
                assert exactly(good, 10) == frame(b"served")
                assert refused_later(slow[0])
                one.until(lambda: limits._all == 3)
            one.until(lambda: limits._all == 2)
            # None is slow while they come, however long this machine takes for that: else each finds the place of another.
            monkeypatch.setattr(handshakes, "SLOW_S", 1e6)
            waiting = [kept.enter_context(closing(one.connect("CLIENTS"))) for _ in range(8)]
            one.until(lambda: any("too many wait for a TLS handshake" in line for line in one.log.lines))
            assert refused_later(waiting[-1])
            monkeypatch.setattr(handshakes, "SLOW_S", 0.3)
            one.until(lambda: any("its TLS handshake lasts, and others wait" in line for line in one.log.lines))
        one.until(lambda: limits._all == 0 and not limits._by_host)
    finally:
        one.end()


def test_a_connection_that_the_node_closes_is_counted_once(running: Running) -> None:
    limits = running.listeners.limits

    def act(conn: int, frame: memoryview) -> None:
        running.node.extra = {"close": [conn]}

    with closing(running.connect()), closing(running.connect()) as closed:
        running.until(lambda: limits._all == 2)
        running.node.act = act
        closed.sendall(frame(b"enough"))
        assert refused_later(closed)
        with closing(running.connect()):
            running.until(lambda: limits._all == 2)
    running.until(lambda: limits._all == 0 and not limits._by_host)


def test_a_session_whose_certificate_is_over_is_closed_and_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    (tmp_path / "ca.pem").write_bytes(by.certificate)
    for name in ("node", "alice"):
        (tmp_path / f"{name}.pem").write_bytes(issue(by, name, now, ["localhost"], days=1).pem)
    one = encrypted(
        tmp_path / "node.pem", ssl_truststore_location=str(tmp_path / "ca.pem"), ssl_client_auth="required"
    )  # fmt: skip
    limits = one.listeners.limits
    context = ssl.create_default_context(cadata=by.certificate.decode())
    context.load_cert_chain(tmp_path / "alice.pem")
    try:
        with context.wrap_socket(one.connect("CLIENTS"), server_hostname="localhost") as good:
            good.sendall(frame(b"served"))
            assert exactly(good, 10) == frame(b"served")
            session = good.session
        one.until(lambda: limits._all == 0)

        class Later(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> "Later":
                return super().now(tz) + datetime.timedelta(days=1)

        monkeypatch.setattr(tls_module, "datetime", SimpleNamespace(datetime=Later, UTC=datetime.UTC))
        goes_on = []
        for _ in range(3):
            sock = one.connect("CLIENTS")
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as over:
                assert refused_later(over)
                goes_on.append(over.session_reused)
        assert goes_on == [True, False, False], "no session goes on after one that was found to be over"
        assert any("the certificate of User:CN=alice is over" in line for line in one.log.lines)
        one.until(lambda: limits._all == 0 and not limits._by_host)
    finally:
        one.end()


def test_connections_that_wait_for_tls_are_closed_when_the_node_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    (tmp_path / "node.pem").write_bytes(issue(authority("test", now), "node", now, ["localhost"]).pem)
    monkeypatch.setattr(handshakes, "UNDER_WAY_OF_A_HOST", 1)
    one = encrypted(tmp_path / "node.pem")
    try:
        with ExitStack() as kept:
            waiting = [kept.enter_context(closing(one.connect("CLIENTS"))) for _ in range(5)]
            one.until(lambda: one.listeners.limits._all == 5)
            one.end()
            assert all(refused_later(sock) for sock in waiting[1:])
    finally:
        one.end()


@pytest.mark.parametrize("size", [1, 700])
def test_records_of_tls_count_whatever_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """A quarter of a megabyte of records with a byte each is a lot of work, and not 11,000 bytes."""
    now = datetime.datetime.now(datetime.UTC)
    by = authority("test", now)
    (tmp_path / "node.pem").write_bytes(issue(by, "node", now, ["localhost"]).pem)
    one = encrypted(tmp_path / "node.pem")
    taken: list[tuple[int, int]] = []
    charged: list[int] = []
    updated, took = TlsLink.buffer_updated, ReadBudget.took

    def count(link: TlsLink, nbytes: int) -> None:
        before = link._reads
        updated(link, nbytes)
        taken.append((nbytes, link._reads - before))

    def charge(budget: ReadBudget, link: object, nbytes: int) -> bool:
        charged.append(nbytes)
        return took(budget, link, nbytes)  # type: ignore[arg-type]

    monkeypatch.setattr(TlsLink, "buffer_updated", count)
    monkeypatch.setattr(ReadBudget, "took", charge)
    try:
        context = ssl.create_default_context(cadata=by.certificate.decode())
        with context.wrap_socket(one.connect("CLIENTS"), server_hostname="localhost") as sock:
            sock.sendall(frame(b"first"))
            assert exactly(sock, 9) == frame(b"first")
            taken.clear()
            charged.clear()
            one.loop._loop.call_soon_threadsafe(time.sleep, 0.5)
            data = frame(bytes(number % 251 for number in range(5_000 * size)))
            for start in range(0, len(data), size):
                sock.send(data[start : start + size])
            assert exactly(sock, len(data)) == data
    finally:
        one.end()
    assert sum(nbytes for nbytes, _ in taken) == len(data)
    assert sum(records for _, records in taken) >= 5_000
    assert max(records for _, records in taken) <= FIRST_BYTES
    assert sum(charged) >= len(data) + (5_000 - len(taken)) * RECORD_BYTES


@pytest.mark.parametrize("goes", [True, False])
def test_a_dial_whose_authority_is_taken_out_during_its_handshake_is_closed(tmp_path: Path, goes: bool) -> None:
    """The other side decides how long that takes."""
    from actors.node.runtime.effects import Dial

    now = datetime.datetime.now(datetime.UTC)
    by, other = authority("test", now), authority("another", now)
    (tmp_path / "ca.pem").write_bytes(by.certificate)
    for name in ("node", "peer"):
        (tmp_path / f"{name}.pem").write_bytes(issue(by, name, now, ["localhost"], days=1).pem)
    one = encrypted(tmp_path / "node.pem", ssl_truststore_location=str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "peer.pem")
    try:
        with closing(socket.create_server(("127.0.0.1", 0))) as peer:
            peer.settimeout(10)
            one.node.extra = {"dial": [Dial(-1, "localhost", peer.getsockname()[1], "CLIENTS")]}
            one.wake()
            with closing(peer.accept()[0]) as sock:
                (tmp_path / "ca.pem").write_bytes((b"" if goes else by.certificate) + other.certificate)
                contexts = one.loop._tls
                one.loop._loop.call_soon_threadsafe(lambda: one.loop.distrust(contexts.renew()))
                served = contexts.get("CLIENTS")
                assert served is not None
                one.until(lambda: other.certificate.decode() in (served.trusted or ""))
                with context.wrap_socket(sock, server_side=True) as shaken:
                    one.until(lambda: any(seen[:2] == ("connected", -1) for seen in one.node.seen))
                    if goes:
                        one.until(lambda: ("closed", -1, False) in one.node.seen)
                    else:
                        shaken.settimeout(DEADLINE_S)
                        for _ in range(5):
                            shaken.sendall(frame(b"still here"))
                            assert exactly(shaken, 14) == frame(b"still here")
                            time.sleep(0.02)
        assert goes == any("is not trusted any more" in line for line in one.log.lines)
    finally:
        one.end()
