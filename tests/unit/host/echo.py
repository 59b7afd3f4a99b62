"""A node that answers each frame with itself, to test the loop without Kafka in between."""

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from actors.ledger import Ledger
from actors.node.runtime.effects import Effects, Stop
from actors.ports import Buffer, Now


class EchoNode:
    """Keeps what it was told in `seen`; `act`, when set, turns a frame into effects instead of the echo."""

    def __init__(self, listen: list[str]) -> None:
        self.listen = listen
        self.seen: list[tuple[Any, ...]] = []
        self.frames: list[tuple[int, memoryview]] = []
        self.extra: dict[str, list[Any]] = {}
        self.stopping: Stop | None = None
        self.deadline = 1 << 62
        self.turns = 0
        self.frames_max = 1 << 62
        """It has enough of a connection when it holds so many frames, of whomever."""
        self.act: Callable[[int, memoryview], None] | None = None
        self.controlled = False
        self.over_quota: set[int] = set()
        self.long_turns_ns: list[int] = []
        self.metrics: Iterable[list[Any]] = []
        self.settings = {"max.connections": 1 << 30, "max.connections.per.ip": 1 << 30}
        """As they are now."""
        self.runtime = SimpleNamespace(ledger=Ledger())

    def value(self, name: str) -> int:
        return self.settings[name]

    def start(self, now: Now) -> Effects:
        return Effects(listen=self.listen)

    def connected(
        self,
        conn: int,
        listener: str,
        peer_host: str,
        peer_port: int,
        principal: str | None = None,
        good_for_ms: int = 0,
    ) -> None:
        self.seen.append(("connected", conn, listener, peer_host))

    def closed(self, conn: int, refused: bool) -> None:
        self.seen.append(("closed", conn, refused))

    def received(self, conn: int, frame: memoryview) -> bool:
        self.frames.append((conn, frame))
        return len(self.frames) < self.frames_max

    def congested(self, conn: int, congested: bool) -> None:
        self.seen.append(("congested", conn, congested))

    def muted(self, conn: int) -> bool:
        return conn in self.over_quota

    def left(self, conn: int) -> None:
        self.seen.append(("left", conn))

    def done(self, token: int, result: object) -> None:
        self.seen.append(("done", token, result))

    def shutdown(self) -> None:
        self.stopping = Stop(0, "stopped as asked")

    def turn(self, now: Now, budget: int) -> Effects:
        self.turns += 1
        send: list[tuple[int, list[Buffer]]] = []
        for conn, frame in self.frames:
            if self.act is not None:
                self.act(conn, frame)
            else:
                send.append((conn, [len(frame).to_bytes(4, "big"), frame]))
        self.frames.clear()
        extra, self.extra = self.extra, {}
        return Effects(**{"send": send, "stop": self.stopping, **extra})

    def took(self, spent_ns: int) -> None:
        self.long_turns_ns.append(spent_ns)

    def metric_parts(self) -> Iterator[list[Any]]:
        return iter(self.metrics)

    def sent(self, at_ns: int) -> None:
        """Answers have been sent."""

    def deadline_ms(self) -> int:
        return self.deadline
