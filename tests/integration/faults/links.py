"""Wires that can be cut: a TCP proxy in front of every node, in a process of its own.

    python -m tests.integration.faults.links     commands come as lines of JSON on standard input, each answered by a line

A node listens on a port of its own, and everyone else knows it by its proxy's port. The proxy finds out from the
kernel's tables who dialled (the dialler's port leads to a socket, the socket to a process). So each pair of nodes has a
wire of its own although all share a port. A process that is no node is called `client`.

    open      bytes pass, each way after `delay_ms`
    hole      nothing passes and nobody is told: bytes and new connections wait. What waited goes on later
    cut       connections are reset, new ones too

A rule is for one direction of bytes, so a wire can be a hole in one direction only; `cut` applies if either direction
says so. A node that is about to be killed `refuses`: its port must answer a dial as the port of a dead process does.
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from collections import deque
from pathlib import Path
from typing import Any

import uvloop

CLIENT = "client"
PAUSE_BYTES = 1 << 20
RETRY_S = 0.05


class Rule:
    """The rule for bytes from one end to another."""

    def __init__(self) -> None:
        self.state = "open"
        self.delay_ms = 0


class End(asyncio.Protocol):
    """One of the two sockets of a wire. What it receives goes to the other under the rule of its direction."""

    def __init__(self, wire: "Wire", rule: Rule) -> None:
        self.wire, self.rule = wire, rule
        self.transport: Any = None
        self.other: End
        self.waiting: deque[tuple[float, bytes | None]] = deque()
        """(due, bytes); None: the end of the stream."""
        self.paused = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.pump()
        self.other.pump()

    def data_received(self, data: bytes) -> None:
        self._take(data)

    def eof_received(self) -> bool:
        self._take(None)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._take(None)
        self.transport = None
        if self.other.transport is None and not self.waiting and not self.other.waiting:
            self.wire.forget()

    def _take(self, data: bytes | None) -> None:
        loop = asyncio.get_running_loop()
        self.waiting.append((loop.time() + self.rule.delay_ms / 1000, data))
        if not self.paused and sum(len(part or b"") for _, part in self.waiting) > PAUSE_BYTES and self.transport:
            self.paused = True
            self.transport.pause_reading()
        self.pump()

    def pump(self) -> None:
        """Pass on what is due."""
        loop = asyncio.get_running_loop()
        target = self.other.transport
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if target is None or self.rule.state != "open":
            return
        now = loop.time()
        while self.waiting and self.waiting[0][0] <= now:
            data = self.waiting.popleft()[1]
            if data is not None:
                target.write(data)
            else:
                target.close()
                if self.transport is not None:
                    self.transport.close()
        if self.waiting:
            self.timer = loop.call_at(self.waiting[0][0], self.pump)
        elif self.paused and self.transport is not None and not self.transport.is_closing():
            self.paused = False
            self.transport.resume_reading()

    def reset(self) -> None:
        """End the connection with a reset."""
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Wire:
    """One connection through a proxy."""

    def __init__(self, switchboard: "Switchboard", source: str, target: str) -> None:
        self.switchboard = switchboard
        self.pair = source, target
        self.near = End(self, switchboard.rule(source, target))
        self.far = End(self, switchboard.rule(target, source))
        self.near.other, self.far.other = self.far, self.near
        switchboard.wires[self] = None

    @property
    def is_cut(self) -> bool:
        return "cut" in (self.near.rule.state, self.far.rule.state)

    async def run(self, sock: socket.socket, port: int) -> None:
        """Connect both ends. While the way to the target is a hole, connect only the near one."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: self.near, sock)
            while self.near.rule.state == "hole" or self.far.rule.state == "hole":
                await asyncio.sleep(RETRY_S)
            if not self.is_cut:
                await loop.create_connection(lambda: self.far, "127.0.0.1", port)
                return
        except OSError:
            pass
        self.reset()

    def reset(self) -> None:
        """Reset both ends at once."""
        self.near.reset()
        self.far.reset()
        self.forget()

    def forget(self) -> None:
        """The connection is over."""
        self.switchboard.wires.pop(self, None)


class Switchboard:
    """All proxies and their rules."""

    def __init__(self) -> None:
        self.wires: dict[Wire, None] = {}
        self._rules: dict[tuple[str, str], Rule] = {}
        self._ports: dict[str, tuple[int, int]] = {}
        self._bound: dict[str, socket.socket] = {}
        self._servers: dict[str, socket.socket] = {}
        self._pids: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def rule(self, source: str, target: str) -> Rule:
        """The rule for bytes from one to the other."""
        return self._rules.setdefault((source, target), Rule())

    # ---- commands

    def route(self, name: str, port: int, target: int) -> None:
        """Add a node: the port by which it is known, and the one on which it listens."""
        self._ports[name] = port, target
        self._bound[name] = _bind(port)
        self.accept(name)

    def pids(self, pids: dict[str, int]) -> None:
        """Processes of the nodes."""
        self._pids = {pid: name for name, pid in pids.items()}

    def accept(self, name: str) -> None:
        """The node's port accepts."""
        if name not in self._servers:
            sock = self._servers[name] = _bind(self._ports[name][0])
            sock.listen(128)
            asyncio.get_running_loop().add_reader(sock.fileno(), self._accepted, name)

    def refuse(self, name: str) -> None:
        """The node's port refuses from now on. Existing connections go on."""
        sock = self._servers.pop(name, None)
        if sock is not None:
            asyncio.get_running_loop().remove_reader(sock.fileno())
            sock.close()

    def set(self, source: str, target: str, state: str, delay_ms: int = 0) -> None:
        """Set a rule, which applies at once."""
        rule = self.rule(source, target)
        rule.state, rule.delay_ms = state, delay_ms
        for wire in list(self.wires):
            if wire.pair in ((source, target), (target, source)):
                if wire.is_cut:
                    wire.reset()
                else:
                    wire.near.pump()
                    wire.far.pump()

    def heal(self) -> None:
        """Every wire is open again."""
        for rule in self._rules.values():
            rule.state, rule.delay_ms = "open", 0
        for wire in list(self.wires):
            wire.near.pump()
            wire.far.pump()

    # ---- connections

    def _accepted(self, name: str) -> None:
        listener = self._servers.get(name)
        if listener is None:
            return
        try:
            sock, peer = listener.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire = Wire(self, self._dialler(peer[1], self._ports[name][0]), name)
        if wire.is_cut:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            wire.forget()
            return
        task = asyncio.get_running_loop().create_task(wire.run(sock, self._ports[name][1]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _dialler(self, port: int, to: int) -> str:
        inode = _inode(port, to)
        if inode is not None:
            wanted = f"socket:[{inode}]"
            for pid, name in self._pids.items():
                with contextlib.suppress(OSError):
                    for descriptor in os.listdir(f"/proc/{pid}/fd"):
                        with contextlib.suppress(OSError):
                            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == wanted:
                                return name
        return CLIENT


def _bind(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.setblocking(False)
    return sock


def _inode(own: int, other: int) -> str | None:
    """The inode of the socket with these ports; one port alone serves several connections."""
    endings = f":{own:04X}", f":{other:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split(None, 10)
        if columns[1].endswith(endings[0]) and columns[2].endswith(endings[1]):
            return columns[9]
    return None


async def main() -> None:
    """Read commands until the input ends."""
    switchboard = Switchboard()
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        name, arguments = json.loads(line)
        getattr(switchboard, name)(*arguments)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
