"""Ports for servers that start later: the one place that chooses them for benchmarks and for tests.

A port that the system gave for the asking is free again once it is let go, and the next connection of anybody may have it.
These lie below the range from which the system gives, and whoever has one keeps its name until its process ends, so that
nobody else who asks here gets the same.
"""

import contextlib
import random
import socket
import sys
from pathlib import Path

FIRST = 10_000
_GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Where Linux says from which port to which it gives."""
_GIVES_FROM = 32_768
"""Where it cannot be asked: Linux's own default, and below that of macOS."""

_kept: dict[int, socket.socket | None] = {}
"""The ports that this process has chosen, each with the socket that holds its name."""


def _first_given() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return max(int(_GIVEN.read_text().split()[0]), FIRST + 1_000)
    return _GIVES_FROM


def _held(port: int) -> bool:
    """Whether the port's name is this process's now. It is a name among sockets, which goes with the process that has it."""
    name = None
    if sys.platform == "linux":
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"\0rayft-port-{port}")
        except OSError:
            name.close()
            return False
    _kept[port] = name
    return True


def _bound(port: int) -> bool:
    """Whether a server could have the port, on loopback and on every address."""
    try:
        for host in ("127.0.0.1", ""):
            with socket.create_server((host, port)):
                pass
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports on loopback that are free and that nobody else is given, `count` of them, each another."""
    return [_row(1).start for _ in range(count)]


def free_port() -> int:
    """A port on loopback that is free and that nobody else is given."""
    return _row(1).start


def first_of(count: int) -> int:
    """The first of `count` ports in a row that are free and that nobody else is given."""
    return _row(count).start


def _row(count: int) -> range:
    end = _first_given() - count
    while True:
        first = random.randrange(FIRST, end)
        row = range(first, first + count)
        if all(port not in _kept and _bound(port) and _held(port) for port in row):
            return row
