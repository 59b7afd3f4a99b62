"""A peer that is no node: its connections to listeners of simulated processes, which draw nothing from the world's random.

What it sends arrives at once; what it is answered is counted and otherwise forgotten.
"""

from typing import Any

from actors.wire import framing
from tests.simulator.world import Process, World

HOST = "10.0.0.66"


class Connection:
    """One connection to a listener of a process. To the process it looks like a `Link`."""

    def __init__(self, world: World, process: Process, listener: str) -> None:
        self.process = process
        self.open = True
        self.answers: list[bytes] = []
        process._next_conn += 1
        self.conn = process._next_conn
        self._life = process.life
        self._world = world
        process.peers[self.conn] = self  # type: ignore[assignment]
        process.input(lambda: process.node and process.node.connected(self.conn, listener, HOST))

    @property
    def usable(self) -> bool:
        """Whether the process still reads it."""
        return self.open and self._life == self.process.life and self.process.alive

    def tell(self, frame: bytes) -> None:
        """A frame without its length arrives."""
        process, life = self.process, self._life
        self._world.note(process.name, frame)
        if self.usable:
            data = memoryview(bytearray(frame))
            process.input(lambda: process.node and process.life == life and process.node.received(self.conn, data))

    def ask(self, name: str, version: int, body: Any) -> None:
        """A request arrives."""
        self.tell(b"".join(framing.encode_request(name, version, 1, "stranger", body))[4:])

    def leave(self) -> None:
        """The stranger closes it."""
        process, usable = self.process, self.usable
        self.open = False
        if usable and process.peers.pop(self.conn, None) is not None:
            process.input(lambda: process.node and process.node.closed(self.conn, False))

    # ---- what the process calls

    def send(self, process: Process, data: bytes) -> None:
        self.answers.append(data)

    def close(self, process: Process) -> None:
        self.open = False

    cut = close
