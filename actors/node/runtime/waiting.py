"""All requests and functions of a node that wait: for a metadata offset, for a key to be signalled, for the answer to a
call, for a time.

Nothing else in a node keeps a list of waiters. A waiter is a function that is called once, in the turn in which its
reason arrives; it may come back by waiting anew. Rules:

1. Order is by arrival, so that a seed decides it.
2. One signal, or one millisecond, may be the reason of thousands of requests. Requests that waited have the time of a
   lane in a turn, at least one of them is called, and the others are late: they are called in the turns that follow.
3. While some are late, all queue behind them. Then hosts take turns, and within a host its connections, by one waiter each;
   those of a connection are called in the order in which they became due. A waiter that is late and whose time comes is
   called once, as expired.
4. What waits for a peer that has gone is forgotten, however long it would have waited: else a client that connects,
   asks and goes, again and again, fills the memory. That costs a look at each of its keys, so it is done in portions.
5. The node's own timers are few. They are called when they are due, before requests whose time is over.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from actors.node.runtime.steps import LONG_NS, called
from actors.node.runtime.turns import Turns

FAR_MS = 1 << 62
FAR_NS = 1 << 62
WAIT_MS_MAX = 600_000
"""The longest wait for data that a client gets: behind it the answer leaves with what there is."""
FORGOTTEN_KEYS = 5_000
"""How many keys of forgotten waiters are looked at in one turn."""
SWEPT_FROM = 1024
"""The number of timers from which on it is worth looking for cancelled ones."""


class Asker(Protocol):
    """The connection whose request waits, and the host that it comes from."""

    id: int
    peer_host: str


class Timer:
    """A function that waits for one monotonic time. `cancel()` is cheap: the entry stays in the heap and is skipped, or
    swept out."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], None]) -> None:
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Never call the function. A second call does nothing."""
        self.function = None


class _Timed(Protocol):
    """An entry that a time may come for. `function` is None once it was called or cancelled."""

    function: Callable[..., None] | None


T = TypeVar("T", bound=_Timed)


class Times(Generic[T]):
    """Things ordered by (time, arrival)."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, T]] = []
        """The heap of (time, arrival, entry). Read only, for callers that ask in every turn."""
        self._sequence = 0
        self._sweep_at = SWEPT_FROM

    def put(self, mono_ms: int, timed: T) -> None:
        """Add an entry that is due at `mono_ms`, unless it is cancelled before."""
        if len(self.heap) >= self._sweep_at:
            # Nearly all are cancelled long before their time, which for some never comes.
            self.heap = [entry for entry in self.heap if entry[2].function is not None]
            heapq.heapify(self.heap)
            self._sweep_at = max(SWEPT_FROM, 2 * len(self.heap))
        self._sequence += 1
        heapq.heappush(self.heap, (mono_ms, self._sequence, timed))

    def due(self, mono_ms: int) -> list[T]:
        """Take out the entries that are due and were not cancelled."""
        due = []
        heap = self.heap
        while heap and heap[0][0] <= mono_ms:
            timed = heapq.heappop(heap)[2]
            if timed.function is not None:
                due.append(timed)
        return due

    def deadline_ms(self) -> int:
        """The next due time, FAR_MS if there is none."""
        heap = self.heap
        while heap and heap[0][2].function is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else FAR_MS


class Timers(Times[Timer]):
    """The node's own functions that wait for a time."""

    def at(self, mono_ms: int, function: Callable[[], None]) -> Timer:
        """Call `function` in the first turn at or after `mono_ms`."""
        timer = Timer(function)
        self.put(mono_ms, timer)
        return timer

    def run(self, mono_ms: int) -> None:
        """Call the functions that are due. What a function schedules for now runs in the next turn, so that a turn
        ends."""
        for timer in self.due(mono_ms):
            function = timer.function
            if function is not None:
                timer.function = None
                function()


class _Entry:
    """A waiter that is parked. Invariant: `function` is None once it was called or forgotten; then every key has let go
    of it, unless it still stands among the forgotten."""

    __slots__ = ("connection", "expired", "function", "idle", "keys", "late")

    def __init__(
        self,
        keys: Sequence[Hashable],
        function: Callable[[bool], None],
        connection: Asker | None,
        idle: Callable[[Hashable], bool] | None,
    ) -> None:
        self.keys = keys
        self.function: Callable[[bool], None] | None = function
        self.connection = connection
        """The connection whose request waits; None: the node itself waits."""
        self.idle = idle
        self.late = False
        """Whether the waiter stands in the line of those that are late."""
        self.expired = False
        """Whether the waiter's time came while it stood there."""

    def stays(self, key: Hashable) -> bool:
        """Whether the signal of that key has brought nothing for the waiter."""
        return self.idle is not None and self.idle(key)


class Waiting:
    """The one place where requests and functions wait. `held` waits for an offset, `parked` for keys or time, `asked`
    for an answer or time, `timers` for time alone."""

    def __init__(
        self, stopwatch: Callable[[], int] = lambda: 0, long: Callable[[str, int], None] = lambda name, ns: None
    ) -> None:
        """`stopwatch` counts nanoseconds; it decides how many requests that waited a turn calls, and nothing else.
        `long(name, nanoseconds)`: told of calls that took `LONG_NS` or more, where they are measured."""
        self.stopwatch = stopwatch
        self._long = long
        self.last: Callable[..., None] | None = None
        """The waiter that was called last in this turn."""
        self.timers = Timers()
        self._held: list[tuple[int, int, Callable[[bool], None]]] = []
        self._sequence = 0
        self._parked: dict[Hashable, dict[_Entry, int]] = {}
        """The waiters by key, with the offset that each needs; those that are late are among them."""
        self._asked: dict[int, Any] = {}
        """The answers to calls, by the number of the call; None: the answer has not come. Such a call is parked, and
        its number is the key, which nothing outside this file signals."""
        self._deadlines: Times[_Entry] = Times()
        self._signalled: dict[Hashable, int | None] = {}
        """The keys that changed, and what offset each has reached; None: something else changed too."""
        self._late: Turns[_Entry] = Turns()
        """The waiters that a turn had no time for. Those of the node itself count as those of one host."""
        self._forgotten: deque[tuple[_Entry, Iterator[Hashable]]] = deque()
        """The waiters that are not called any more, with the keys that have not let go of them yet."""
        self._left_ns = FAR_NS
        """The time in ns that requests which waited have left of this turn."""
        self._called = False
        """Whether this turn has called one of them."""

    def hold(self, offset: int, release: Callable[[bool], None]) -> None:
        """Keep `release` for an offset: `release(True)` is called once the metadata high watermark has passed `offset`,
        `release(False)` if leadership is lost before."""
        self._sequence += 1
        heapq.heappush(self._held, (offset, self._sequence, release))

    def committed(self, high_watermark: int) -> None:
        """Release every waiter for an offset below the high watermark (the first offset that is not committed)."""
        while self._held and self._held[0][0] < high_watermark:
            heapq.heappop(self._held)[2](True)

    def lost(self) -> None:
        """Release all held waiters with False: leadership is gone, and this node commits nothing of theirs."""
        held, self._held = sorted(self._held, key=lambda entry: entry[:2]), []
        for _, _, release in held:
            release(False)

    def park(
        self,
        keys: Sequence[Hashable],
        deadline_ms: int,
        again: Callable[[bool], None],
        connection: Asker | None = None,
        offsets: Sequence[int] = (),
        idle: Callable[[Hashable], bool] | None = None,
    ) -> Callable[[], None]:
        """Keep `again` for keys and a time: `again(False)` is called when one of `keys` is signalled, `again(True)` at
        `deadline_ms`; whichever comes first. `connection`: whose request waits. `offsets`: one for each key that the
        key must reach; without them, every signal counts. `idle(key)`: asked before `again(False)` where that key alone
        was signalled; true: it stays parked. The result forgets it all; it does nothing once `again` was called."""
        entry = _Entry(keys, again, connection, idle)
        parked = self._parked
        first = offsets[0] if offsets else 0
        for key in keys:
            waiters = parked.get(key)
            if waiters is None:
                parked[key] = {entry: first}
            else:
                waiters[entry] = first
        if offsets and len(keys) > 1:
            needed: dict[Hashable, int] = {}
            for key, offset in zip(keys, offsets, strict=True):
                needed[key] = min(offset, needed.get(key, offset))
            for key, offset in needed.items():
                parked[key][entry] = offset
        self._deadlines.put(deadline_ms, entry)
        return partial(self._forget, entry)

    def ask(self, call: int, deadline_ms: int, then: Callable[[Any], None], connection: Asker | None = None) -> None:
        """Keep `then` for the answer to a call: `then(answer)` is called at the end of the turn in which `answer` is
        called for that call, `then(None)` at `deadline_ms`; whichever comes first. `connection`: as in `park`."""
        assert call not in self._asked, call
        self._asked[call] = None
        self.park((call,), deadline_ms, lambda expired: then(self._asked.pop(call)), connection)

    def answer(self, call: int, answer: object) -> None:
        """Take the answer to a call. It is dropped if the call does not wait any more."""
        if call in self._asked:
            assert self._asked[call] is None, f"call {call} is answered twice"
            self._asked[call] = answer
            self.signal(call)

    def waits(self, key: Hashable) -> bool:
        """Whether a request waits for `key`."""
        return key in self._parked

    def signal(self, key: Hashable, reached: int | None = None) -> None:
        """Note that something about `key` changed; its waiters look again at the end of the turn. This is cheap if the
        key has no waiters. `reached`: nothing has changed but that the key has come to this offset; waiters that need a
        later one are left alone."""
        if key in self._parked:
            if reached is not None and key in self._signalled:
                before = self._signalled[key]
                reached = None if before is None else max(before, reached)
            self._signalled[key] = reached

    def begin_turn(self, budget_ns: int) -> None:
        """Begin a turn in which the requests that waited may take so many nanoseconds."""
        self._left_ns = budget_ns
        self._called = False
        if self._forgotten:
            self._let_go()
        self.last = None

    def expire(self, mono_ms: int) -> None:
        """Call the timers that are due; let the requests look again whose time is over."""
        heap = self.timers.heap
        if heap and heap[0][0] <= mono_ms:
            self.timers.run(mono_ms)
        requests = self._deadlines.heap
        if requests and requests[0][0] <= mono_ms:
            due = self._deadlines.due(mono_ms)
            if due:
                self._call(due, True)

    def run(self) -> bool:
        """Call the waiters whose key was signalled, and those that are late. Returns whether any was called."""
        called = False
        while self._signalled or (self._late.hosts and (self._left_ns > 0 or not self._called)):
            if self._signalled:
                key = next(iter(self._signalled)) if len(self._signalled) == 1 else None
                found = self._found()
                if found:
                    called = self._call(found, False, key) or called
            else:
                called = self._called = True
                entry = self._late.take()
                began_ns = self.stopwatch()
                self._fire(entry, entry.expired)
                self._spent(self.stopwatch() - began_ns)
        return called

    def deadline_ms(self) -> int:
        """The time when the next waiter is due, FAR_MS if there is none; 0: a waiter is late, or was signalled after
        `run`."""
        if self._late.hosts or self._signalled or self._forgotten:
            return 0
        timers_ms, requests_ms = self.timers.deadline_ms(), self._deadlines.deadline_ms()
        return timers_ms if timers_ms < requests_ms else requests_ms

    def _found(self) -> list[_Entry]:
        """The waiters for what was signalled, in order."""
        signalled, self._signalled = self._signalled, {}
        if len(signalled) == 1:
            ((key, reached),) = signalled.items()
            waiters = self._parked.get(key)
            if waiters is None:
                return []
            return [entry for entry, offset in waiters.items() if reached is None or offset <= reached]
        found: dict[_Entry, int] = {}
        for key, reached in signalled.items():
            waiters = self._parked.get(key)
            if waiters is None:
                continue
            if reached is None:
                found.update(waiters)
            else:
                found.update((entry, offset) for entry, offset in waiters.items() if offset <= reached)
        return list(found)

    def _call(self, entries: list[_Entry], expired: bool, key: Hashable | None = None) -> bool:
        """Call waiters as long as the turn has time; the others are late. Returns whether any was called. `key`: they
        were found by that one alone."""
        if len(entries) == 1 and not self._late.hosts:  # nearly always; no other waiter is kept waiting
            if key is not None and entries[0].stays(key):
                return False
            self._called = True
            self._fire(entries[0], expired)
            return True
        called = False
        at_ns = self.stopwatch()
        for entry in entries:
            if entry.late:
                entry.expired = entry.expired or expired
            elif entry.function is None:
                continue
            elif self._late.hosts or self._left_ns <= 0:
                entry.expired = expired
                self._put_late(entry)
            else:
                if key is None or not entry.stays(key):
                    called = self._called = True
                    self._fire(entry, expired)
                since_ns, at_ns = at_ns, self.stopwatch()
                self._spent(at_ns - since_ns)
        return called

    def _put_late(self, entry: _Entry) -> None:
        connection = entry.connection
        host, conn = ("", 0) if connection is None else (connection.peer_host, connection.id)
        self._late.put(host, conn, entry)
        entry.late = True

    def _spent(self, spent_ns: int) -> None:
        """Note how long the last call of a waiter has taken."""
        self._left_ns -= spent_ns
        if spent_ns >= LONG_NS and self.last is not None:
            self._long(called(self.last), spent_ns)

    def _fire(self, entry: _Entry, expired: bool) -> None:
        again, entry.function = entry.function, None
        if again is None:
            return
        self.last = again
        self._drop(entry, entry.keys)
        entry.keys = ()
        again(expired)

    def _forget(self, entry: _Entry) -> None:
        if entry.function is not None:
            entry.function = entry.idle = entry.connection = None
            keys, entry.keys = entry.keys, ()
            self._forgotten.append((entry, iter(keys)))

    def _let_go(self) -> None:
        """Take forgotten waiters out of some of their keys."""
        left = FORGOTTEN_KEYS
        while self._forgotten and left > 0:
            entry, keys = self._forgotten[0]
            some = list(islice(keys, left))
            left -= 1 + len(some)
            self._drop(entry, some)
            if left >= 0:
                self._forgotten.popleft()

    def _drop(self, entry: _Entry, keys: Iterable[Hashable]) -> None:
        parked = self._parked
        for key in keys:
            waiters = parked.get(key)
            if waiters is not None:
                waiters.pop(entry, None)
                if not waiters:
                    del parked[key]
