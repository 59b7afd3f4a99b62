"""Ports for tests' servers: nobody else is given them, be it by the system or by another run beside this one."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bench import ports

ROOT = Path(__file__).resolve().parents[2]
CHOOSES = "import sys; from bench import ports; print(*ports.free_ports(400), flush=True); sys.stdin.read()"


def chooses(end: int) -> subprocess.Popen[str]:
    narrow = f"from bench import ports; ports._first_given = lambda: {end}; "
    return subprocess.Popen(
        [sys.executable, "-c", narrow + CHOOSES], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@pytest.mark.skipif(sys.platform != "linux", reason="names of sockets that go with their process are Linux's")
def test_two_processes_are_given_no_port_both() -> None:
    with chooses(ports.FIRST + 1_200) as one, chooses(ports.FIRST + 1_200) as two:
        given = [one.stdout.readline().split(), two.stdout.readline().split()]  # type: ignore[union-attr]
        for process in (one, two):
            assert process.stdin
            process.stdin.close()
    assert [len(set(each)) for each in given] == [400, 400]
    assert not set(given[0]) & set(given[1])


def test_none_lies_where_the_system_gives_ports_from() -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] >= ports._first_given()
    assert all(ports.FIRST <= port < ports._first_given() for port in ports.free_ports(50))


def test_what_somebody_listens_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ports.first_of(2)
    for port in (taken, taken + 1):
        if name := ports._kept.pop(port):
            name.close()
    wanted = iter([taken, taken + 1])
    monkeypatch.setattr(ports.random, "randrange", lambda *_: next(wanted))
    with socket.create_server(("127.0.0.1", taken)):
        assert ports.free_port() == taken + 1
