"""Compressed batches on their way in: where their records are looked at, and that no request overtakes another.

This file alone decides what is done at once and what in a thread. Rules:

1. The records of a small batch are looked at in the turn. What one batch costs there is bounded, and so is what all batches
   of a turn cost; a batch that costs more is finished by a thread, in slices.
2. A request with such a batch is appended when all its batches are judged. Produce requests of its connection that come
   after it wait for that, so that the batches of a producer keep their order (KIP-98).
"""

from collections import deque
from collections.abc import Generator
from typing import Any

from actors.broker.admission import Refused, refusal
from actors.broker.slices import BATCH_COST, Sliced, Step, Steps, cost
from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.runtime import Runtime
from actors.wire.errors import ErrorCode
from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE, CorruptBatch
from fastpath.records.inspection import Rules, TooLarge, inspect

BATCH_COST_MAX = 512 << 10
"""Of one batch in the turn: below a millisecond."""
TURN_COST_MAX = 4 << 20
"""Of all batches in the turn."""
CODEC_BYTE, CODEC = 22, 0x07

Verdict = int | Refused
"""Largest timestamp of the records, or why the batch is refused."""


class Inspection:
    """One compressed batch. `verdict` is None until all its records were looked at."""

    __slots__ = ("_codec", "_data", "_records", "verdict")

    def __init__(self, data: Any, rules: Rules) -> None:
        self._data = data
        self._codec = data[CODEC_BYTE] & CODEC
        self._records: Generator[int, None, int] = inspect(data, rules)
        self.verdict: Verdict | None = None

    def go_on(self, cost_max: int) -> int:
        """Look at more of it; what that cost."""
        spent = BATCH_COST
        while spent < cost_max:
            try:
                spent += cost(self._codec, next(self._records))
            except StopIteration as end:
                self.verdict = int(end.value)
                break
            except TooLarge as error:
                text = f"{error}: send fewer records in a batch"
                self.verdict = Refused(ErrorCode.MESSAGE_TOO_LARGE, text)
                break
            except CorruptBatch as error:
                self.verdict = refusal(error)
                break
        return spent

    def steps(self) -> Steps[None]:
        """The rest of it, for a thread."""
        held = compression.held_bytes(self._codec, memoryview(self._data)[HEADER_SIZE:])
        while self.verdict is None:
            yield Step(self.go_on(2 * BATCH_COST), held)


def rest(inspections: list[Inspection]) -> Sliced[None]:
    """The job that finishes them."""

    def steps() -> Steps[None]:
        for one in inspections:
            yield from one.steps()

    return Sliced(steps())


class Order:
    """Which Produce request of each connection is next, and how much of the turn is left."""

    def __init__(self, runtime: Runtime, requests: RequestChannel) -> None:
        self._runtime = runtime
        self._requests = requests
        self._waiting: dict[int, deque[object]] = {}
        """Requests that wait for a thread, or behind one that does, by connection and in order. No queue is empty."""
        self._turn: object = None
        self._left = 0

    def budget(self) -> int:
        """Cost that is left in this turn for batches of any request."""
        if self._turn is not self._runtime.now:
            self._turn, self._left = self._runtime.now, TURN_COST_MAX
        return self._left

    def spend(self, cost: int) -> None:
        """So much of it is gone."""
        self._left -= cost

    def free(self, connection: int) -> bool:
        """Whether no request of that connection waits."""
        return connection not in self._waiting

    def enter(self, connection: int, request: object) -> None:
        """A request waits, behind all others of its connection."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = deque()
            self._requests.when_closed(connection, "produce", lambda: self._forget(connection))
        waiting.append(request)

    def first(self, connection: int, request: object) -> bool:
        """Whether it is that request's turn."""
        waiting = self._waiting.get(connection)
        return waiting is not None and waiting[0] is request

    def leave(self, connection: int, request: object) -> None:
        """The first request is appended; the one behind it is next. Nothing is left of a connection that is closed."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            return
        assert waiting[0] is request
        waiting.popleft()
        if waiting:
            self._runtime.waiting.signal(self.key(connection))
        else:
            del self._waiting[connection]

    def key(self, connection: int) -> tuple[str, int]:
        """Waiting key: another request of the connection is next."""
        return "produce", connection

    def _forget(self, connection: int) -> None:
        self._waiting.pop(connection, None)
