"""The memory for frames that are not whole yet: which connections are read, which wait, and which are closed.

This file alone decides how much unfinished frames may hold over all connections of a plane. Rules:

1. The first `FREE_BYTES` of a frame are always read. So small requests pass whatever other connections do.
2. A larger frame is read beyond that when there is room for all of it. Frames up to `ORDINARY_BYTES_MAX` have half of
   the room, and larger ones have the other half: so large frames delay only each other. A frame that is larger than its
   half is let in when no other is.
3. A frame that finds no room waits in a queue, first come, first served. Its connection is not read meanwhile.
4. While frames wait, a frame that holds room must arrive in time. Its connection is closed when nothing of it has come
   for `STALLED_MS`, or when it takes longer than `SLOW_MS` and a second for each MiB.
"""

from collections.abc import Iterator
from typing import Protocol

FREE_BYTES = 64 << 10
ORDINARY_BYTES_MAX = 2 << 20
STALLED_MS = 1000
SLOW_MS = 10_000


class Frame(Protocol):
    """An unfinished frame, as the room sees it."""

    moved_ms: int
    """The time when bytes of the frame arrived last, or reading was resumed (monotonic ms)."""

    def let_in(self) -> None:
        """Called when there is room for the frame, so that it is read on."""
        ...

    def held_up(self) -> bool:
        """Whether this side has stopped reading the connection for now: then the frame cannot be late."""
        ...


class _Half:
    """Room for one class of frames. Invariant: `held` is the sum of the sizes in `inside`."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self.inside: dict[Frame, tuple[int, int]] = {}
        """(size, time when it was let in) of each frame with room."""
        self.line: dict[Frame, int] = {}
        """The sizes of the frames that wait, in order of arrival."""

    def fits(self, size: int) -> bool:
        return not self.inside or self.held + size <= self.bytes_max


class FrameRoom:
    """Room for the unfinished frames of a plane."""

    def __init__(self, bytes_max: int) -> None:
        self._halves = (_Half(bytes_max // 2), _Half(bytes_max // 2))

    @property
    def held(self) -> int:
        """Bytes of the frames that were let in, whether they have arrived or not."""
        return sum(half.held for half in self._halves)

    def ask(self, frame: Frame, size: int, now_ms: int) -> bool:
        """Ask for room for a whole frame of `size` bytes. False: there is none yet, and `let_in` is called when there
        is."""
        half = self._halves[size > ORDINARY_BYTES_MAX]
        if half.line or not half.fits(size):
            half.line[frame] = size
            return False
        half.held += size
        half.inside[frame] = size, now_ms
        return True

    def leave(self, frame: Frame, now_ms: int) -> None:
        """Give up the room of a frame that is whole, or whose connection is gone. Frames that wait may be let in."""
        for half in self._halves:
            half.line.pop(frame, None)
            half.held -= half.inside.pop(frame, (0, 0))[0]
            while half.line:
                first, size = next(iter(half.line.items()))
                if not half.fits(size):
                    break
                del half.line[first]
                half.held += size
                half.inside[first] = size, now_ms
                first.moved_ms = now_ms
                first.let_in()

    def waits(self) -> bool:
        """Whether a frame waits for room."""
        return any(half.line for half in self._halves)

    def late(self, now_ms: int) -> Iterator[tuple[Frame, int]]:
        """(frame, size) of those that hold room for which others wait, and that do not arrive in time."""
        for half in self._halves:
            if half.line:
                for frame, (size, since_ms) in list(half.inside.items()):
                    slow = now_ms - since_ms > SLOW_MS + size * 1000 // (1 << 20)
                    if (slow or now_ms - frame.moved_ms > STALLED_MS) and not frame.held_up():
                        yield frame, size
