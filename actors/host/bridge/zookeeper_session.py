"""A session with ZooKeeper for a command, which asks, waits and goes on.

This file alone decides how long a command waits. Nodes do not wait: they use `host/net/zookeeper_connection.py` as it is.
"""

import queue
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from actors.bridge.reading import Snapshot, everything
from actors.host.net.zookeeper_connection import Door
from actors.ports.zookeeper import Away, Began, Change, Close, Event, Multi, Open, Read, Reads

SESSION_MS = 6_000
"""The length of the session in ms, shorter than CONNECT_S: a server that has just been started may take a connection
and never answer on it."""
CONNECT_S = 15.0
ANSWER_S = 30.0


class Session:
    """A session for the time of a block: `with Session("host:2181/chroot") as session: session.read([...])`. Raises
    OSError if no server answers."""

    def __init__(self, connect: str, connect_s: float = CONNECT_S) -> None:
        self._connect = connect
        self._connect_s = connect_s
        self._inbox: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()
        self._door = Door(lambda token, result: self._inbox.put((token, result)), self._happened)
        self._token = 0

    def __enter__(self) -> "Session":
        self._door.perform(Open(self._connect, SESSION_MS))
        try:
            self._await(0, self._connect_s)
        except queue.Empty:
            self._door.perform(Close())
            raise OSError(
                f"no ZooKeeper answers at {self._connect} within {self._connect_s:.0f} s: write what the brokers have in "
                f"zookeeper.connect."
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._door.perform(Close())

    def read(self, reads: Sequence[Read]) -> Any:
        """Read znodes; the results come in order. Raises OSError."""
        return self._answer(Reads(self._next(), reads))

    def change(self, changes: Sequence[Change]) -> Any:
        """Make all changes or none. Raises OSError, and Rejected if ZooKeeper refuses."""
        return self._answer(Multi(self._next(), changes))

    def everything(self) -> Snapshot:
        """Read all that a takeover needs. Raises OSError, and BadZnode."""
        rounds = everything()
        results: Iterable[Any] | None = None
        while True:
            try:
                reads = next(rounds) if results is None else rounds.send(results)  # type: ignore[arg-type]
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            results = self.read(reads)

    def _next(self) -> int:
        self._token += 1
        return self._token

    def _answer(self, request: Reads | Multi) -> Any:
        self._door.perform(request)
        try:
            result = self._await(request.token, ANSWER_S)
        except queue.Empty:
            raise OSError(f"ZooKeeper at {self._connect} does not answer.") from None
        if isinstance(result, Away):
            raise OSError(f"the connection to ZooKeeper at {self._connect} was lost: {result}.")
        if isinstance(result, Exception):
            raise result
        return result

    def _await(self, token: int, seconds: float) -> object:
        end = time.monotonic() + seconds
        while True:
            found, result = self._inbox.get(timeout=max(0.0, end - time.monotonic()))
            if found == token:
                return result

    def _happened(self, event: Event) -> None:
        if isinstance(event, Began):
            self._inbox.put((0, None))
