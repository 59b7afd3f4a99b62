"""Compressed batches on their way in: where their records are looked at, and that no request overtakes another.

This file alone decides what is done at once and what in a thread. Rules:

1. The records of a small batch are looked at in the turn. What one batch costs there is bounded, and so is what all batches
   of a turn cost; a batch that costs more is finished by a thread, in slices.
2. A batch that its topic wants in another codec gets it while it is looked at (`compression.type`, KIP-390). What a request
   holds in new forms is bounded, and so is what all requests hold that wait for a thread: the next one waits for room.
3. A request with such a batch is appended when all its batches are judged. Produce requests of its connection that come
   after it wait for that, so that the batches of a producer keep their order (KIP-98).
"""

from collections import deque
from collections.abc import Generator
from typing import Any

from actors.broker.log.slices import BATCH_COST, Sliced, Step, Steps, compression_factor, cost
from actors.broker.replication.admission import RequestRefused, outgrown, refusal
from actors.node.net.request_channel import RequestChannel
from actors.node.runtime.runtime import Runtime
from actors.settings.topics import TopicSettings
from actors.wire.errors import ErrorCode
from fastpath.records import compression
from fastpath.records.batch import HEADER_SIZE, CorruptBatch
from fastpath.records.inspection import Rules, TooLarge, inspect
from fastpath.records.recompression import Outgrown, Recompression, Target

BATCH_COST_MAX = 512 << 10
"""The most cost of one batch in the turn: below a millisecond."""
TURN_FACTOR_MAX, TURN_BYTES_MAX = 16, 16 << 10
"""The bounds for giving a batch another form in the turn: its compression is no dearer, and as it came it is no
larger."""
TURN_COST_MAX = 4 << 20
"""The most cost of all batches in the turn."""
CODEC_BYTE, CODEC = 22, 0x07

REQUEST_BYTES_MAX = 100 << 20
"""The most bytes of all batches of a request that get another form, in that form."""
WAITING_BYTES_MAX = 64 << 20
"""The most bytes of recompressed batches of all requests that wait for a thread. One request alone may have more."""
ROOM = ("room for recompressed batches",)
"""Waiting key: a recompressed batch is done."""

InspectionVerdict = int | bytearray | RequestRefused
"""The result of an inspection: the largest timestamp of the records, or the batch in the form that its topic wants, or
why it is refused."""


class InspectionRoom:
    """How much the batches of one request may still have in new forms, in bytes."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = REQUEST_BYTES_MAX


class Inspection:
    """The inspection of one batch that is compressed, or is to be. `verdict` is None until all its records were looked
    at."""

    __slots__ = ("_codec", "_data", "_factor", "_recompression", "_records", "_room", "_settings", "_target", "verdict")

    def __init__(
        self, data: Any, rules: Rules, settings: TopicSettings, target: Target | None, room: InspectionRoom
    ) -> None:
        """An inspection that has not begun. `target`: the form that the topic wants; None: the batch stays as it is."""
        self._data = data
        self._codec = data[CODEC_BYTE] & CODEC
        self._settings = settings
        self._target = target
        self._room = room
        self._recompression: Recompression | None = None
        if target is None:
            self._factor = 0
            self._records: Generator[int, None, int] = inspect(data, rules)
        else:
            self._factor = compression_factor(target.codec, target.level)
            self._recompression = Recompression(data, target)
            self._records = self._recompression.steps(data, rules)
        self.verdict: InspectionVerdict | None = None

    @property
    def in_turn(self) -> bool:
        """Whether a piece of the batch is short enough for the turn."""
        return (self._factor <= TURN_FACTOR_MAX and len(self._data) <= TURN_BYTES_MAX) or not self._factor

    @property
    def form_bytes(self) -> int:
        """How many bytes the batch may have in its new form; 0: it has none."""
        if self._target is None or isinstance(self.verdict, RequestRefused):
            return 0
        return len(self.verdict) if isinstance(self.verdict, bytearray) else self._target.bytes_max

    def go_on(self, cost_max: int) -> int:
        """Look at more of the batch. Returns what that cost."""
        spent = BATCH_COST
        while spent < cost_max:
            try:
                size = next(self._records)
                spent += cost(self._codec, size) + size * self._factor
            except StopIteration as end:
                self.verdict = self._end(int(end.value))
                break
            except Outgrown:
                self.verdict = outgrown(self._settings)
                break
            except TooLarge as error:
                text = f"{error}: send fewer records in a batch"
                self.verdict = RequestRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
                break
            except CorruptBatch as error:
                self.verdict = refusal(error)
                break
        return spent

    def _end(self, latest: int) -> InspectionVerdict:
        if self._recompression is None:
            return latest
        made, self._recompression = self._recompression.batch, None
        self._room.left -= len(made)
        if self._room.left < 0:
            text = (
                f"recompressed, the batches of a request have more than {REQUEST_BYTES_MAX} bytes: send fewer at once"
            )
            return RequestRefused(ErrorCode.MESSAGE_TOO_LARGE, text)
        return made

    def steps(self) -> Steps[None]:
        """The rest of the inspection, for a thread."""
        held = compression.held_bytes(self._codec, memoryview(self._data)[HEADER_SIZE:])
        if self._target is not None:
            held += compression.compressor_bytes(self._target.codec, self._target.level) + self._target.bytes_max
        while self.verdict is None:
            yield Step(self.go_on(2 * BATCH_COST), held)


def rest(inspections: list[Inspection]) -> Sliced[None]:
    """The job that finishes inspections."""

    def steps() -> Steps[None]:
        for one in inspections:
            yield from one.steps()

    return Sliced(steps())


class Order:
    """The order of the Produce requests of each connection, and how much of the turn is left."""

    def __init__(self, runtime: Runtime, requests: RequestChannel) -> None:
        self._runtime = runtime
        self._requests = requests
        self._waiting: dict[int, deque[object]] = {}
        """Requests that wait for a thread, or behind one that does, by connection and in order. No queue is empty."""
        self._turn: object = None
        self._left = 0
        self._reserved: dict[int, int] = {}
        """The bytes of the recompressed batches of a connection's request that waits for a thread, by connection."""

    def budget(self) -> int:
        """The cost that is left in this turn for batches of any request."""
        if self._turn is not self._runtime.now:
            self._turn, self._left = self._runtime.now, TURN_COST_MAX
        return self._left

    def spend(self, cost: int) -> None:
        """Take a cost off the budget of this turn."""
        self._left -= cost

    def reserve(self, connection: int, size: int) -> bool:
        """Make room for what the first request of a connection has in new forms, until it leaves. Returns False if it
        must wait for `ROOM`."""
        if size and self._reserved and sum(self._reserved.values()) + size > WAITING_BYTES_MAX:
            return False
        if size and connection in self._waiting:  # else it is closed, and nobody would give the room back
            self._reserved[connection] = size
        return True

    def _release(self, connection: int) -> None:
        if self._reserved.pop(connection, 0):
            self._runtime.waiting.signal(ROOM)

    def free(self, connection: int) -> bool:
        """Whether no request of that connection waits."""
        return connection not in self._waiting

    def enter(self, connection: int, request: object) -> None:
        """Put a waiting request behind all others of its connection."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            waiting = self._waiting[connection] = deque()
            self._requests.when_closed(connection, "produce", lambda: self._forget(connection))
        waiting.append(request)

    def first(self, connection: int, request: object) -> bool:
        """Whether a request is the first of its connection."""
        waiting = self._waiting.get(connection)
        return waiting is not None and waiting[0] is request

    def leave(self, connection: int, request: object) -> None:
        """Take the first request of a connection, which is appended, out of the line; the one behind it is next.
        Nothing is left of a connection that is closed."""
        waiting = self._waiting.get(connection)
        if waiting is None:
            return
        assert waiting[0] is request
        self._release(connection)
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
        self._release(connection)
