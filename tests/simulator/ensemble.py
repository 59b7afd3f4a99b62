"""A ZooKeeper as the processes of a world reach it: over a connection that takes time, breaks, and loses its session.

Rules, those of a real one:

1. A session answers in order. What was asked when the connection broke was done or not; nobody is told.
2. While the ensemble is away no session expires; it goes on when the ensemble is back.
3. A request that is too large is not answered; its connection breaks.
4. A process that dies leaves its session to expire: what is ephemeral goes after `SESSION_US`.
"""

from typing import Any

from actors.ports.zookeeper import Away, Began, Close, Event, Lost, Multi, Open, Reads, request_bytes
from tests.simulator.zookeeper import ZooKeeper

SESSION_US = 6_000_000
CONNECT_US = 20_000


class Line:
    """The connection of one life of one process."""

    def __init__(self, process: Any, session: int) -> None:
        self.process = process
        self.life = process.life
        self.session = session
        self.up = True
        self.ready_us = 0
        """No answer comes before this time: they keep their order."""


class Ensemble:
    """The znodes, and the lines to them."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.data = ZooKeeper()
        self.is_up = True
        self.bytes_max = 1 << 20
        """The value of jute.maxbuffer: a larger request is not answered, and its connection breaks."""
        self.slow_us = 0
        """How much longer each request takes."""
        self._lines: dict[str, Line] = {}
        self._wanted: dict[str, int] = {}
        """Process -> its life, of those that want a session and have none."""
        world.zookeeper = self
        world.ended.append(self._ended)

    # ---- what the node asks

    def perform(self, process: Any, request: Any) -> None:
        """An effect of a node."""
        if isinstance(request, Open):
            self._wanted[process.name] = process.life
            self.world.after(CONNECT_US, lambda: self._connect(process, process.life))
        elif isinstance(request, Close):
            self._wanted.pop(process.name, None)
            line = self._lines.pop(process.name, None)
            if line is not None:
                self.world.after(self.world.random.randint(200, 2000), lambda: self.data.end(line.session))
        else:
            self._ask(process, request)

    def _ask(self, process: Any, request: Reads | Multi) -> None:
        line = self._lines.get(process.name)
        if line is None or not line.up:
            self.world.after(100, lambda: self._told(process, process.life, request.token, Away("no connection")))
            return
        at = max(line.ready_us, self.world.time_us + self.slow_us + self.world.random.randint(200, 3000))
        line.ready_us = at
        self.world.at(at, lambda: self._arrived(line, request))

    def _arrived(self, line: Line, request: Reads | Multi) -> None:
        """Let a request reach the ensemble, if it still can; the answer comes back, if it still can."""
        if self._lines.get(line.process.name) is not line or not line.up or not self.is_up:
            self._told(line.process, line.life, request.token, Away("lost"))
            return
        self.world.note("zookeeper", repr(request))
        if isinstance(request, Multi) and request_bytes(request.changes) > self.bytes_max:
            self.cut(line.process)
            return
        result = self.data.answer(line.session, request)
        at = max(line.ready_us, self.world.time_us + self.world.random.randint(200, 1000))
        line.ready_us = at
        self.world.at(
            at, lambda: self._told(line.process, line.life, request.token, result if line.up else Away("lost"))
        )

    # ---- what happens to it

    def stop(self) -> None:
        """Stop the ensemble, so that every connection breaks."""
        self.is_up = False
        for line in list(self._lines.values()):
            self._break(line)

    def start(self) -> None:
        """Bring the ensemble back, with all sessions."""
        self.is_up = True
        for line in list(self._lines.values()):
            self.world.after(self.world.random.randint(CONNECT_US, 10 * CONNECT_US), lambda line=line: self._back(line))
        for process in list(self.world.processes.values()):
            if process.name in self._wanted and process.name not in self._lines:
                self.world.after(CONNECT_US, lambda process=process: self._connect(process, process.life))

    def cut(self, process: Any) -> None:
        """The connection of a process breaks, and comes back."""
        line = self._lines.get(process.name)
        if line is not None and line.up:
            self._break(line)
            self.world.after(500_000, lambda: self._back(line))

    def expire(self, process: Any) -> None:
        """The session of a process expires; it begins another one."""
        line = self._lines.pop(process.name, None)
        if line is not None:
            self._break(line)
            self.data.end(line.session)
            self.world.after(CONNECT_US, lambda: self._connect(process, line.life))

    def _break(self, line: Line) -> None:
        if line.up:
            line.up = False
            self.data.forget_watches(line.session)
            self._happens(line, Lost())

    def _back(self, line: Line) -> None:
        if self._lines.get(line.process.name) is line and not line.up and self.is_up and self._lives(line):
            line.up = True
            self._happens(line, Began(line.session))

    def _connect(self, process: Any, life: int) -> None:
        if process.life != life or self._wanted.get(process.name) != life or not self.is_up:
            return
        if process.name in self._lines and self._lives(self._lines[process.name]):
            return
        line = self._lines[process.name] = Line(process, 0)
        line.session = self.data.begin(lambda event: self._happens(line, event))
        self._happens(line, Began(line.session))

    def _ended(self, process: Any) -> None:
        self._wanted.pop(process.name, None)
        line = self._lines.pop(process.name, None)
        if line is not None:
            line.up = False
            self.world.after(SESSION_US, lambda: self.data.end(line.session))

    def _lives(self, line: Line) -> bool:
        return line.process.node is not None and line.process.life == line.life

    def _happens(self, line: Line, event: Event) -> None:
        """An event on its way to the process, behind what was sent before it."""
        at = max(line.ready_us, self.world.time_us + 200)
        line.ready_us = at

        def tell() -> None:
            if self._lives(line) and (line.up or isinstance(event, Lost)):
                self.world.note("zookeeper", repr(event))
                line.process.input(lambda: line.process.node.happened(event))

        self.world.at(at, tell)

    def _told(self, process: Any, life: int, token: int, result: object) -> None:
        if process.life == life and process.node is not None:
            process.input(lambda: process.node.done(token, result))
