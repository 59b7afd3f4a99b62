"""What waits, waits here: for a metadata offset, for a key to be signalled, for a time.

Nothing else in a node keeps a list of waiters. A waiter is a function that is called once, in the turn in which its
reason arrives; it may come back by waiting anew. Order is by arrival, so that a seed decides it.
"""

import heapq
from collections.abc import Callable, Hashable, Sequence

FAR_MS = 1 << 62
SWEPT_FROM = 1024
"""Timers below this number are not worth looking for cancelled ones."""


class Timer:
    """One function at one monotonic time. `cancel()` is cheap: the entry stays in the heap and is skipped, or swept out."""

    __slots__ = ("at_ms", "function")

    def __init__(self, at_ms: int, function: Callable[[], None]) -> None:
        self.at_ms = at_ms
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Never call the function. Idempotent."""
        self.function = None


class Timers:
    """Functions ordered by (time, arrival)."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._sweep_at = SWEPT_FROM

    def at(self, mono_ms: int, function: Callable[[], None]) -> Timer:
        """Call `function` in the first turn at or after `mono_ms`."""
        if len(self._heap) >= self._sweep_at:
            # Nearly all are cancelled long before their time, which for some never comes.
            self._heap = [entry for entry in self._heap if entry[2].function is not None]
            heapq.heapify(self._heap)
            self._sweep_at = max(SWEPT_FROM, 2 * len(self._heap))
        timer = Timer(mono_ms, function)
        self._sequence += 1
        heapq.heappush(self._heap, (mono_ms, self._sequence, timer))
        return timer

    def run(self, mono_ms: int) -> None:
        """Call what is due. What a function schedules for now runs in the next turn, so that a turn ends."""
        due = []
        while self._heap and self._heap[0][0] <= mono_ms:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            function = timer.function
            if function is not None:
                timer.function = None
                function()

    def deadline_ms(self) -> int:
        """The next due time, FAR_MS if there is none."""
        while self._heap and self._heap[0][2].function is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else FAR_MS


class _Entry:
    """A parked waiter. Invariant: `again` is None once it was called; then every key has let go of it."""

    __slots__ = ("again", "keys", "timer")

    def __init__(self, keys: Sequence[Hashable], again: Callable[[bool], None]) -> None:
        self.keys = keys
        self.again: Callable[[bool], None] | None = again
        self.timer: Timer | None = None


class Waiting:
    """The one place. `held` waits for an offset, `parked` for keys or time, `timers` for time alone."""

    def __init__(self) -> None:
        self.timers = Timers()
        self._held: list[tuple[int, int, Callable[[bool], None]]] = []
        self._sequence = 0
        self._parked: dict[Hashable, dict[_Entry, None]] = {}
        self._signalled: dict[Hashable, None] = {}

    def hold(self, offset: int, release: Callable[[bool], None]) -> None:
        """`release(True)` once the metadata high watermark has passed `offset`; `release(False)` if leadership is lost
        before."""
        self._sequence += 1
        heapq.heappush(self._held, (offset, self._sequence, release))

    def committed(self, high_watermark: int) -> None:
        """Release whatever waits for an offset below the high watermark (the first offset that is not committed)."""
        while self._held and self._held[0][0] < high_watermark:
            heapq.heappop(self._held)[2](True)

    def lost(self) -> None:
        """Leadership is gone: nothing held will be committed by this node."""
        held, self._held = sorted(self._held, key=lambda entry: entry[:2]), []
        for _, _, release in held:
            release(False)

    def park(self, keys: Sequence[Hashable], deadline_ms: int, again: Callable[[bool], None]) -> None:
        """`again(False)` when one of `keys` is signalled, `again(True)` at `deadline_ms`; whichever comes first."""
        entry = _Entry(keys, again)
        for key in keys:
            waiters = self._parked.get(key)
            if waiters is None:
                self._parked[key] = {entry: None}
            else:
                waiters[entry] = None
        entry.timer = self.timers.at(deadline_ms, lambda: self._fire(entry, True))

    def waits(self, key: Hashable) -> bool:
        """Whether anybody waits for `key`."""
        return key in self._parked

    def signal(self, key: Hashable) -> None:
        """Something about `key` changed; its waiters look again at the end of the turn. Cheap when nobody waits."""
        if key in self._parked:
            self._signalled[key] = None

    def run(self) -> bool:
        """Let everybody look again whose key was signalled; whether anyone did."""
        if not self._signalled:
            return False
        signalled, self._signalled = self._signalled, {}
        entries: dict[_Entry, None] = {}
        for key in signalled:
            entries.update(self._parked.get(key, {}))
        for entry in entries:
            self._fire(entry, False)
        return bool(entries)

    def _fire(self, entry: _Entry, expired: bool) -> None:
        again, entry.again = entry.again, None
        if again is None:
            return
        for key in entry.keys:
            waiters = self._parked.get(key)
            if waiters is not None:
                waiters.pop(entry, None)
                if not waiters:
                    del self._parked[key]
        if entry.timer is not None:
            entry.timer.cancel()
        again(expired)
