"""The request queue of a node: the requests that wait for a turn, in two lanes (KIP-291).

This file alone decides what is handled next of a lane; `node/node.py` decides which lane has its turn. Rules:

1. In the control lane the answers to what this node asked of controllers run first, then the
   quorum's requests, then those of a control-plane listener, which have a queue of 20 of their own.
2. Within a lane the connection that has had the least time goes first (start-time fair queueing): a connection counts
   the time that its requests took, and one that comes back from a rest counts from where the others are. So a client
   that asks now and then waits for one request of the others, however many these are and however long theirs take. A
   connection may go on for `SHARE_NS`, since answers that leave together cost one call of the kernel. The connections
   of a host share what one connection of another host gets: their time counts as many times over as the host has
   connections with something queued.
3. Requests of a connection run in the order in which they came. One that cannot run yet is put back, and its connection
   is passed over until `go_on`.
4. A request that works in slices runs one slice a turn, and its connection's later requests stay behind it. Connections
   that came into the line meanwhile go first, however long the slice took.
5. Nothing is dropped unless its connection is gone, and that costs what this connection had queued. `farewell.py`
   decides what is still handled of a connection that its peer has closed.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum

from actors.node.net.connections import Slot
from actors.node.runtime.calls import Lane

CONTROL_REQUESTS_MAX = 20
"""Capacity of the queue of a control-plane listener; KIP-291 fixes it."""

SHARE_NS = 250_000
"""How long in ns the requests of a connection run one behind the other before another connection may come."""

Item = tuple[int, memoryview, Slot | None]
"""An entry of the queue: (connection, frame, slot). Answers of peers have no slot."""


class _Place(Enum):
    """The place where the queue of a connection stands."""

    IN_LINE = "in line"
    RESTING = "its first request goes on in the next turn"
    ASIDE = "its first request waits for `go_on`"


IN_LINE, DATA = _Place.IN_LINE, Lane.DATA
"""Module names, because every request uses them and the look-up of an enum member costs more."""


class _Host:
    """The connections of one host in a lane. `queues` of it are known. Invariant: `lined` is the number of those that are
    lined."""

    __slots__ = ("lined", "queues")

    def __init__(self) -> None:
        self.lined = self.queues = 0


class _Queue:
    """What one connection has in a lane. `used_ns` is the time that it has had, each part of it multiplied by `host.lined`,
    or where the others were when it came back. `lined`: whether it stands in the line or is at work, where it is passed
    over unless its place is IN_LINE. Invariant: it stands there once at most."""

    __slots__ = ("host", "items", "lined", "name", "place", "used_ns")

    def __init__(self, name: Hashable, host: _Host) -> None:
        self.name = name
        self.host = host
        self.items: deque[Item] = deque()
        self.place = IN_LINE
        self.lined = False
        self.used_ns = 0


class TurnsOfConnections:
    """Queues of connections that take turns. `size` is the number of requests in all of them."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        """The queues of connections that have ever had something here, until they are dropped."""
        self._hosts: dict[Hashable, _Host] = {}
        """The hosts by address; a peer that this node dialled counts as a host of its own."""
        self._line: list[tuple[int, bool, int, _Queue]] = []
        """A heap by (used_ns, not rested, arrival). A queue without items was dropped, and is passed over."""
        self._arrivals = 0
        self.at_work: _Queue | None = None
        """The queue whose turn it is; until its share is used up, or another `take` finds that it has nothing left.
        Invariant: once its request is charged it does not rest, has not been put aside, and has had less than a share.
        """
        self._share_ns = 0
        """How long in ns that queue has been at work."""
        self._now_ns = 0
        """The value of `used_ns` of the queue at work when its turn began: a queue that has rested begins there."""
        self._resting: list[_Queue] = []
        self.size = 0

    def put(self, item: Item) -> None:
        """Queue one frame behind the others of its connection."""
        queue = self._queues.get(item[0])
        if queue is None:
            queue = self._open(item)
        queue.items.append(item)
        if not queue.lined and queue.place is IN_LINE:
            queue.host.lined += 1
            self._push(queue)
        self.size += 1

    def take(self) -> Item | None:
        """The first request of the connection whose turn it is, or None."""
        queue = self.at_work
        while queue is None or not queue.items or queue.place is not IN_LINE:
            if queue is not None:
                self.at_work = None
                self._leave(queue)
            if not self._line:
                return None
            self._now_ns, _, _, queue = heapq.heappop(self._line)
            self.at_work, self._share_ns = queue, 0
        self.size -= 1
        return queue.items.popleft()

    def charge(self, spent_ns: int) -> None:
        """Charge a connection for its request that was taken last, which took `spent_ns`. Those in the line come before
        another request of that connection if its share is used up, or if it goes on later."""
        queue = self.at_work
        if queue is None:
            return
        queue.used_ns += spent_ns * queue.host.lined
        self._share_ns += spent_ns
        if queue.place is not IN_LINE or (self._share_ns >= SHARE_NS and not queue.items):
            self.at_work = None
            self._leave(queue)
        elif self._share_ns >= SHARE_NS:
            self.at_work = None
            self._push(queue, False)

    def back(self, item: Item, place: _Place) -> None:
        """Put a request before the others of its connection, which all wait with it."""
        queue = self._queues.get(item[0])
        if queue is None:
            queue = self._open(item)
        queue.items.appendleft(item)
        self.size += 1
        if queue.place is not _Place.RESTING:
            queue.place = place
            if place is _Place.RESTING:
                self._resting.append(queue)

    def begin_turn(self) -> None:
        """Let requests that work in slices go on."""
        resting, self._resting = self._resting, []
        for queue in resting:
            self._stand_in_line(queue)

    def go_on(self, connection: int) -> None:
        """Let a connection that was passed over go on: what its first request waited for may have come."""
        queue = self._queues.get(connection)
        if queue is not None and queue.place is _Place.ASIDE:
            self._stand_in_line(queue)

    def sift(self, connection: int, wanted: Callable[[memoryview, Slot], bool]) -> None:
        """Drop what a connection has queued, except the requests that are wanted."""
        queue = self._queues.get(connection)
        if queue is None:
            return
        kept = [item for item in queue.items if item[2] is not None and wanted(item[1], item[2])]
        self.size -= len(queue.items) - len(kept)
        queue.items = deque(kept)

    def drop(self, connection: int) -> None:
        """Forget a connection and what it has queued."""
        queue = self._queues.pop(connection, None)
        if queue is not None:
            self.size -= len(queue.items)
            queue.items.clear()
            self._leave(queue)
            queue.host.queues -= 1
            if not queue.host.queues:
                del self._hosts[queue.name]

    def withdraw(self, connection: int) -> list[memoryview]:
        """Take out the frames that a connection has queued, in order. It keeps the time that it has had."""
        queue = self._queues.get(connection)
        if queue is None:
            return []
        frames = [frame for _, frame, _ in queue.items]
        self.size -= len(frames)
        queue.items.clear()
        return frames

    def not_begun(self, connection: int) -> tuple[int, int]:
        """How many requests of a connection wait that have not begun, and their bytes that are held."""
        queue = self._queues.get(connection)
        items = () if queue is None else queue.items
        sizes = [slot.bytes_held for _, _, slot in items if slot is not None and slot.sliced is None]
        return len(sizes), sum(sizes)

    def ready(self) -> bool:
        """Whether a request can run now or in the next turn."""
        return bool(self._line or self._resting or (self.at_work is not None and self.at_work.items))

    def _stand_in_line(self, queue: _Queue) -> None:
        queue.place = IN_LINE
        if queue.items and not queue.lined:
            queue.host.lined += 1
            self._push(queue)

    def _leave(self, queue: _Queue) -> None:
        if queue.lined:
            queue.lined = False
            queue.host.lined -= 1

    def _open(self, item: Item) -> _Queue:
        conn, _, slot = item
        name = conn if slot is None else slot.connection.peer_host
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = _Host()
        host.queues += 1
        queue = self._queues[conn] = _Queue(name, host)
        return queue

    def _push(self, queue: _Queue, rested: bool = True) -> None:
        queue.lined = True
        if queue.used_ns < self._now_ns:
            queue.used_ns = self._now_ns
        if self.at_work is None and not self._line:
            self._now_ns = queue.used_ns
            self.at_work, self._share_ns = queue, 0
            return
        self._arrivals += 1
        heapq.heappush(self._line, (queue.used_ns, not rested, self._arrivals, queue))


class RequestQueue:
    """The frames that wait for a turn."""

    def __init__(self, data_requests_max: int) -> None:
        self._plane = TurnsOfConnections()
        """Requests of the control-plane listener."""
        self.data = TurnsOfConnections()
        """The queues of the data lane. Read only, for callers that ask in every turn."""
        self._lines: tuple[tuple[TurnsOfConnections, ...], tuple[TurnsOfConnections, ...]] = (
            (TurnsOfConnections(), TurnsOfConnections(), self._plane),
            (self.data,),
        )
        """The queues of each lane; the one that runs first comes first: answers, requests, requests of the
        control-plane listener."""
        self._all = (*self._lines[Lane.CONTROL], *self._lines[Lane.DATA])
        self.last = self._plane
        """The queue from which the last request came: that request's time is charged there."""
        self.rests = False
        """Whether a request was told to go on in the next turn."""
        self.data_requests_max = data_requests_max

    def put(self, lane: Lane, connection: int, frame: memoryview, slot: Slot | None) -> None:
        """Queue one frame of a connection in a lane."""
        line = self._lines[lane][0 if slot is None or lane is DATA else 1]
        line.put((connection, frame, slot))

    def put_control_request(self, connection: int, frame: memoryview, slot: Slot) -> None:
        """Queue one request of a control-plane listener."""
        self._plane.put((connection, frame, slot))

    def rest(self, lane: Lane, item: Item, *, plane: bool) -> None:
        """Put back a request that has done a slice of its work: it goes on in the next turn, before the others of its
        connection."""
        self.rests = True
        self._line(lane, plane).back(item, _Place.RESTING)

    def set_aside(self, lane: Lane, item: Item) -> None:
        """Put back a request that cannot run yet: its connection is passed over until `go_on`."""
        self._line(lane, False).back(item, _Place.ASIDE)

    def withdraw_control_requests(self, connection: int) -> list[memoryview]:
        """Take out what a connection has in the control-plane listener's queue, in order."""
        return self._plane.withdraw(connection)

    def begin_turn(self) -> None:
        """Let requests that work in slices go on."""
        self.rests = False
        for line in self._all:
            line.begin_turn()

    def go_on(self, connection: int) -> None:
        """Let a connection that was passed over go on: what its first request waited for may have come."""
        for line in self._all:
            if line.size:
                line.go_on(connection)

    def take(self, lane: Lane) -> Item | None:
        """Take the next entry of a lane; None: there is none that can run."""
        for line in self._lines[lane]:
            if line.at_work is not None or line.size:
                item = line.take()
                if item is not None:
                    self.last = line
                    return item
        return None

    def not_begun(self, connection: int) -> tuple[int, int]:
        """How many requests of a connection wait in the data lane that have not begun, and the bytes of all such
        requests of it."""
        found = [line.not_begun(connection) for line in self._all]
        return self.data.not_begun(connection)[0], sum(size for _, size in found)

    def size(self, lane: Lane) -> int:
        """How many frames wait in a lane."""
        return sum([line.size for line in self._lines[lane]])

    def ready(self) -> bool:
        """Whether something can run now or in the next turn."""
        for line in self._all:  # noqa: SIM110 - every turn asks, and a generator costs more
            if line.size and line.ready():
                return True
        return False

    @property
    def control_requests(self) -> int:
        """How many requests are in the control-plane listener's queue, 20 at most (R291-09)."""
        return self._plane.size

    @property
    def control_requests_full(self) -> bool:
        """Whether that queue has no place."""
        return self._plane.size >= CONTROL_REQUESTS_MAX

    def sift(self, connection: int, wanted: Callable[[memoryview, Slot], bool]) -> None:
        """Drop what a closed connection had sent, except the requests that are wanted."""
        for line in self._all:
            line.sift(connection, wanted)

    def drop(self, connection: int) -> None:
        """Forget what a closed connection had sent and has not begun."""
        for line in self._all:
            line.drop(connection)

    def _line(self, lane: Lane, plane: bool) -> TurnsOfConnections:
        return self._plane if plane else self._lines[lane][0 if lane is DATA else 1]
