"""The mailbox: two lanes with bounds (KIP-291).

Control runs before data, always. Both lanes are first in, first out. The bound of a lane is back-pressure, never loss: a
full lane stops the reading of the connections that feed it, and what has been read is kept.

The control lane takes the answers to what this node asked of controllers, the quorum's traffic, and requests on a
control-plane listener: these stand in a queue of 20 of their own, behind the answers, in order of arrival; what is read
beyond that waits for its place (R291-32, R291-33). The data lane takes client requests and replica traffic
(`queued.max.requests`).
"""

from collections import deque

from actors.node.connections import Slot
from actors.node.registry import Lane

CONTROL_REQUESTS_MAX = 20
"""Capacity of the queue of a control-plane listener; KIP-291 fixes it."""

Item = tuple[int, memoryview, Slot | None]


class Mailbox:
    """Frames that wait for a turn. An item is (connection, frame, slot); answers of peers have no slot."""

    def __init__(self, data_requests_max: int) -> None:
        self._lanes: tuple[deque[Item], deque[Item]] = (deque(), deque())
        self._requests: deque[Item] = deque()
        """Of the control-plane listener."""
        self.data_requests_max = data_requests_max

    def put(self, lane: Lane, connection: int, frame: memoryview, slot: Slot | None) -> None:
        """Queue one frame."""
        self._lanes[lane].append((connection, frame, slot))

    def put_control_request(self, connection: int, frame: memoryview, slot: Slot) -> None:
        """Queue one request of a control-plane listener."""
        self._requests.append((connection, frame, slot))

    def take(self, lane: Lane) -> Item | None:
        """The oldest frame of a lane, or None. In the control lane answers come before requests."""
        queue = self._lanes[lane]
        if queue:
            return queue.popleft()
        return self._requests.popleft() if lane is Lane.CONTROL and self._requests else None

    def size(self, lane: Lane) -> int:
        """Frames waiting in a lane."""
        return len(self._lanes[lane]) + (len(self._requests) if lane is Lane.CONTROL else 0)

    @property
    def control_requests(self) -> int:
        """Requests in the control-plane listener's queue, 20 at most (R291-09)."""
        return min(len(self._requests), CONTROL_REQUESTS_MAX)

    def drop(self, connection: int) -> None:
        """Forget what a closed connection had sent and nobody has looked at."""
        for queue in (*self._lanes, self._requests):
            kept = [item for item in queue if item[0] != connection]
            if len(kept) != len(queue):
                queue.clear()
                queue.extend(kept)
