"""The wires follow their rules, and know who dials."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from bench.ports import free_port
from tests.integration.faults.links import CLIENT
from tests.integration.faults.targets import Wires

DIAL = """
import socket, sys
sys.stdin.readline()
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5) as sock:
    sock.settimeout(float(sys.argv[2]))
    try:
        sock.sendall(b"ping")
        print(sock.recv(10).decode() or "closed")
    except TimeoutError:
        print("silence")
    except ConnectionError:
        print("reset")
"""


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends everything back."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(sock: socket.socket) -> None:
            with sock, contextlib.suppress(ConnectionError):
                while data := sock.recv(1000):
                    sock.sendall(data)

        def accept() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wired(echo: int) -> Iterator[tuple[Wires, int]]:
    """Wires with one node, `n`, and its port."""
    port = free_port()
    wires = Wires()
    try:
        wires.tell("route", "n", port, echo)
        yield wires, port
    finally:
        wires.close()


def dial(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=5)
    sock.settimeout(10)
    return sock


def test_bytes_pass_and_wait_in_a_hole_and_go_on(wired: tuple[Wires, int]) -> None:
    wires, port = wired
    with dial(port) as sock:
        sock.sendall(b"one")
        assert sock.recv(10) == b"one"
        wires.cut(CLIENT, "n", "hole")
        sock.sendall(b"two")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(10)
        with dial(port) as other:
            other.sendall(b"new")
            other.settimeout(0.3)
            with pytest.raises(TimeoutError):
                other.recv(10)
            wires.tell("heal")
            for one, text in ((sock, b"two"), (other, b"new")):
                one.settimeout(10)
                assert one.recv(10) == text


def test_a_hole_of_one_direction_swallows_the_answers_only(wired: tuple[Wires, int]) -> None:
    wires, port = wired
    with dial(port) as sock:
        sock.sendall(b"one")
        assert sock.recv(10) == b"one"
        wires.tell("set", "n", CLIENT, "hole")
        sock.sendall(b"two")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(10)
        wires.tell("heal")
        sock.settimeout(10)
        assert sock.recv(10) == b"two"


def test_a_cut_resets_what_is_there_and_what_comes(wired: tuple[Wires, int]) -> None:
    wires, port = wired
    with dial(port) as sock:
        sock.sendall(b"one")
        assert sock.recv(10) == b"one"
        wires.cut(CLIENT, "n")
        with pytest.raises(ConnectionError):
            sock.recv(10)
    with pytest.raises(ConnectionError), dial(port) as sock:  # the reset may come while it still dials
        sock.recv(10)
    wires.tell("heal")
    with dial(port) as sock:
        sock.sendall(b"two")
        assert sock.recv(10) == b"two"


def test_a_node_that_is_about_to_die_refuses_and_its_end_arrives(wired: tuple[Wires, int]) -> None:
    wires, port = wired
    with dial(port) as sock:
        sock.sendall(b"one")
        assert sock.recv(10) == b"one"
        wires.tell("refuse", "n")
        with pytest.raises(ConnectionRefusedError):
            dial(port)
        sock.sendall(b"two")
        assert sock.recv(10) == b"two", "connections that are there go on"
    wires.tell("accept", "n")
    dial(port).close()


def test_the_dialler_is_known_by_its_process(wired: tuple[Wires, int]) -> None:
    wires, port = wired
    command = [sys.executable, "-c", DIAL, str(port), "0.5"]
    node, stranger = (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    wires.tell("pids", {"m": node.pid, "me": os.getpid()})
    wires.cut("m", "n", "hole")
    assert node.communicate("\n")[0] == "silence\n"
    assert stranger.communicate("\n")[0] == "ping\n"
