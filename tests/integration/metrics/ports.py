"""Ports beside each other that are free now, for nodes that show metrics: the first node gets the first."""

import socket
from contextlib import ExitStack


def beside_each_other(count: int) -> int:
    """The first of `count` free ports in a row."""
    for base in range(20_000, 32_000, count):
        with ExitStack() as held:
            try:
                for port in range(base, base + count):
                    sock = held.enter_context(socket.socket())
                    sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return base
    raise AssertionError("no ports are free")
