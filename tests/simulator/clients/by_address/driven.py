"""The real client (`actors/client`) as a process of the world: the third of its drivers, beside blocking and asyncio's.

This file alone decides what a driver owes to the client, and what the client owes to its driver. Rules:

1. Bytes come in pieces of any size, as from a socket. An effect is carried out in the turn that asked for it.
2. No operation is under way behind its deadline, whatever the cluster does.
3. A client rests: it has no turn after turn without anything to do, and in a second it sends no more than REQUESTS_MAX
   requests, and dials no more than DIALS_MAX times.
4. A process that dies takes its connections with it; what waited for an operation is told `Died`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple, TypeVar

from actors.client.asks import Steps
from actors.client.client import Client, Effects
from actors.client.errors import ClientError
from actors.client.properties import client_config
from actors.client.tasks import Task
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Resume, Tasks, Wait
from tests.simulator.cluster import PORT
from tests.simulator.world import HERE, Link, SeededRandom, World, frames

T = TypeVar("T")
LATE_US = 1_000_000
"""How far behind its deadline an operation may end: the time of a turn."""
FRUITLESS_MAX = 200
REQUESTS_MAX, DIALS_MAX = 1_500, 300
SECOND_US = 1_000_000


class Died(ClientError):
    """The client's process has died: nobody knows what became of the operation."""


class _Waiting(NamedTuple):
    """An operation, and who waits for it."""

    task: Task[Any]
    resume: Resume


class Driven(Tasks):
    """A process with one client of the cluster. `settings`: by Kafka's own names."""

    def __init__(
        self, world: World, name: str, brokers: list[str], random: Random, settings: Mapping[str, str]
    ) -> None:
        self.world = world
        self.name = name
        self.life = 1
        self.random = random
        self.principal: str | None = None
        self.host = HERE
        self.peers: dict[int, Link] = {}
        self.stopping = False
        self.hurries = False
        """Whether a reader is to read on to the end, without a pause."""
        self.running = 0
        self.done = 0
        """How many pieces of work were done: it must grow when the cluster is healthy again."""
        self.reached: dict[tuple[str, int], int] = {}
        """The offset behind what a reader was given, by partition: in the end that of the log."""
        self.config = client_config({
            "bootstrap.servers": ",".join(f"{one}:{PORT}" for one in brokers), "client.id": name, **settings,
        })  # fmt: skip
        self.node: Driven | None = self  # the links speak to `.node`
        self._waiting: list[_Waiting] = []
        self._up: set[int] = set()
        self._abandoned: set[int] = set()
        """Connections that the client has given up before they were open."""
        self._turn_at: int | None = None
        self._sent: deque[int] = deque()
        self._dialled: deque[int] = deque()
        """When requests were sent within the last second, and servers dialled."""
        self._fruitless = 0
        self._pieces = Random(f"pieces of {name} {world.seed}")
        self.client = self._made()

    def _made(self) -> Client:
        return Client(self.config, SeededRandom(self.random))

    # ---- tasks

    async def do(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Carry out an operation of the client. Raises ClientError; `Died` if the process died meanwhile."""
        found = await Wait(lambda resume: self._begin(steps, timeout_ms, resume))
        if isinstance(found, Died):
            raise found
        return found.result()  # type: ignore[no-any-return]

    async def all(self, several: list[Steps[T]], timeout_ms: int | None = None) -> list[T]:
        """Carry out several operations at once. Raises ClientError if one of them fails, when all are over."""
        found: list[Any] = await Wait(lambda resume: self._begin_all(several, timeout_ms, resume))
        for one in found:
            if isinstance(one, Died):
                raise one
        return [one.result() for one in found]

    def _begin_all(self, several: list[Steps[Any]], timeout_ms: int | None, resume: Resume) -> None:
        found: list[Any] = []

        def one_more(result: Any) -> None:
            found.append(result)
            if len(found) == len(several):
                resume(found)

        for one in several:
            self._begin(one, timeout_ms, one_more)

    def _begin(self, steps: Steps[Any], timeout_ms: int | None, resume: Resume) -> None:
        task = self.client.start(steps, self.world.time_us, timeout_ms)
        self._waiting.append(_Waiting(task, resume))
        self.world.at(task.deadline_us + LATE_US, lambda: self._in_time(task))
        self._schedule(self.world.time_us)

    def _in_time(self, task: Task[Any]) -> None:
        if any(one.task is task for one in self._waiting):
            raise Violation("no_operation_hangs", f"{self.name}: {task.stack} is under way behind its deadline")

    def die(self) -> None:
        """The process dies as by kill -9, and begins anew at once: nothing that it knew is left."""
        self.world.say(self.name, "dies")
        self.life += 1
        links, self.peers = list(self.peers.values()), {}
        for link in links:
            link.cut(self)
        self._up.clear()
        self._abandoned.clear()
        self._turn_at = None
        self.client = self._made()
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.resume(Died("the process died"))

    # ---- turns

    def _schedule(self, at_us: int) -> None:
        if self._turn_at is not None and self._turn_at <= at_us:
            return
        self._turn_at = at_us
        life = self.life
        self.world.at(at_us, lambda: self._turn(life, at_us))

    def _turn(self, life: int, at_us: int) -> None:
        if life != self.life or self._turn_at != at_us:
            return
        self._turn_at = None
        self.world.turns += 1
        effects = self.client.turn(self.world.time_us)
        done = [one for one in self._waiting if one.task.done]
        self._waiting = [one for one in self._waiting if not one.task.done]
        rests = not (done or effects.closes or effects.dials or effects.sends)
        self._fruitless = self._fruitless + 1 if rests else 0
        if self._fruitless > FRUITLESS_MAX:
            raise Violation("clients_rest", f"{self.name} has turn after turn, and nothing to do")
        self._perform(effects)
        if effects.deadline_us is not None:
            self._schedule(max(effects.deadline_us, self.world.time_us + 100))
        for one in done:
            one.resume(one.task)

    def _perform(self, effects: Effects) -> None:
        for conn in effects.closes:
            link = self.peers.pop(-conn, None)
            if conn in self._up:
                self._up.discard(conn)
            else:
                self._abandoned.add(conn)
            if link is not None and conn not in self._abandoned:
                link.close(self)
            elif link is not None:
                self.peers[-conn] = link  # it is closed once it is open
        self._count(self._dialled, len(effects.dials), DIALS_MAX, "dialled")
        for dial in effects.dials:
            self.world.dial(self, -dial.conn, dial.host, dial.port)
        for conn, parts in effects.sends:
            link = self.peers.get(-conn)
            data = b"".join(parts)
            self._count(self._sent, sum(1 for _ in frames(data)), REQUESTS_MAX, "sent a request")
            if link is not None:
                link.send(self, data)

    def _count(self, times: deque[int], more: int, most: int, what: str) -> None:
        now_us = self.world.time_us
        times.extend([now_us] * more)
        while times and times[0] <= now_us - SECOND_US:
            times.popleft()
        if len(times) > most:
            raise Violation("clients_rest", f"{self.name} has {what} {len(times)} times within a second")

    # ---- what the links call

    def input(self, function: Callable[[], Any]) -> None:
        self._fruitless = 0
        function()
        self._schedule(self.world.time_us + 20)

    def connected(self, conn: int, listener: str, host: str) -> None:
        if -conn in self._abandoned:
            self._abandoned.discard(-conn)
            self.peers.pop(conn).close(self)
            return
        self._up.add(-conn)
        self.client.connected(-conn, self.world.time_us)

    def received(self, conn: int, frame: memoryview) -> None:
        data = memoryview(len(frame).to_bytes(4, "big") + bytes(frame))
        while data:
            count = len(data) if self._pieces.randrange(4) else self._pieces.randint(1, len(data))
            self.client.received(-conn, data[:count], self.world.time_us)
            data = data[count:]

    def closed(self, conn: int, refused: bool) -> None:
        self._up.discard(-conn)
        self._abandoned.discard(-conn)
        self.client.lost(-conn, "the connection was refused" if refused else "the connection ended", self.world.time_us)
