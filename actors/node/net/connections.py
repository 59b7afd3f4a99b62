"""Inbound connections: order, the number in flight, and the memory that they hold.

Requests of a connection start in arrival order and are answered in request order. One that reads or writes what an earlier
one is still writing starts when that is answered, by the rows of the table in `api/table.py`: Apache Kafka, which takes one
request of a connection at a time, answers a ListOffsets behind a Produce with what was produced. At most `IN_FLIGHT_MAX`
may be under way (queued, parked, held, forwarded) at once; the next frame waits in the connection until one is answered,
and what is behind it stays in the socket. A connection that is muted, because its client is over a quota, is not read, and
what it has sent is not handled.

When too many requests are queued, a connection is read only while it has none under way. Bytes are
budgeted over all connections: above the budget data connections are not read until it falls below three quarters.
Those on which followers fetch are read always: the requests that hold the bytes may wait for just these followers. So a
connection that comes above the budget is read up to its first request, which tells whose it is. A request that waits for
what its peer may put off holds none of these bytes: its frame is let go, and counts until no view of it is left.

Requests that a client has sent and that have not begun, while it is over its quota or does not read, wait for that
client alone. They are counted apart, so that no other client is kept from sending; above the same budget each
connection has one request at a time, and what is apart no longer grows.

Answers that are known and may not leave, since an earlier one of their connection is not known yet, are held too. Above
`BEHIND_BYTES_MAX` of them a connection starts none but its first request, and above `ALL_BEHIND_BYTES_MAX` over all
connections no connection does. The answer to its first request leaves at once, so no client waits for another one's
peer.

What peers ask for and do not read is held too. `room` says how many bytes of records the next answer may bring: no more
than one answer's worth for a connection, and what `UNREAD_BYTES_MAX` leaves for all but followers, but a fair share always:
some slow peers must not slow the others. Apache Kafka needs no such rule: it takes one request of a connection at a time,
and its kernel sends records from the files.
"""

import struct
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from actors.authentication.exchange import Exchange
from actors.authorization.addresses import canonical
from actors.node.net.long_requests import LongRequests
from actors.node.runtime.calls import Api, Listener, Subject
from actors.ports import Buffer
from fastpath.meters.request_times import Door, RequestTimes, Timing, note_all

IN_FLIGHT_MAX = 16
UNREAD_BYTES_MAX = 256 << 20
FAIR_BYTES = 1 << 20
BEHIND_BYTES_MAX = 1 << 20
ALL_BEHIND_BYTES_MAX = 64 << 20
CONNECTION_BYTES = 6 << 10
"""The bytes that an open connection takes by itself: here, in the request queue and in the host."""
LET_GO_FROM = 4096
"""The size in bytes from which on a frame is let go while its request waits: 16 smaller ones are little, and most
requests are so short."""
GONE = memoryview(b"")
"""The value in place of a frame that was let go."""
NOTHING_SERVED: Mapping[int, Api] = {}
DATA_KINDS = (Listener.CLIENT, Listener.INTER_BROKER)

FETCH = 1
_key_and_version = struct.Struct(">hh").unpack_from


class Apart(NamedTuple):
    """The requests of a connection that wait for what their own client decides. `queued`: how many of them stand in the
    data lane's queue."""

    queued: int
    bytes: int


NOTHING_APART = Apart(0, 0)


class Meters(dict[int, RequestTimes]):
    """The times of requests by API key, from the first request on."""

    def __missing__(self, key: int) -> RequestTimes:
        meter = self[key] = RequestTimes(key == FETCH)
        return meter


class Slot(Timing):
    """The place of one answer in its connection's order.

    Invariant: `parts` is None until the answer is known; an empty list means that nothing is sent (acks=0).
    """

    __slots__ = (
        "answer_bytes",
        "api",
        "behind_bytes",
        "bytes_held",
        "forget",
        "frame",
        "kept",
        "parked",
        "read_bytes",
        "sliced",
        "writer",
    )

    def __init__(self, connection: "Connection", bytes_held: int, api: Api | None = None) -> None:
        self.connection = connection
        self.api = api
        """The row of the request; None: its listener does not serve it."""
        self.bytes_held = bytes_held
        self.read_bytes = 0
        """What the request takes since it was read; 0: it is short, or nothing of it is kept."""
        self.answer_bytes = 0
        self.behind_bytes = 0
        """The size of the answer, if it is known and waits for an earlier one."""
        self.parked: Callable[[Any], None] | None = None
        """Goes on with the request that waits. It is dropped with the connection, and the request with it."""
        self.kept: Callable[[], None] | None = None
        """Gives back what is charged to the ledger while the request waits."""
        self.forget: Callable[[], None] | None = None
        """Removes the waiter of the request from the place where it waits."""
        self.writer: Api | None = None
        """The row of the request, if it is under way and writes what others read."""
        self.frame: memoryview | None = None
        """The frame of that request; empty if it was let go. Invariant: None where `writer` is None."""
        self.sliced: Callable[[], None] | None = None
        """Goes on, in a later turn, with a request that has done a slice of its work."""

    def go_on(self, came: Any) -> None:
        """Go on with the request, since what it waits for has come, or its time. `came`: whether it was the time, or
        the answer to its call."""
        parked, self.parked = self.parked, None
        if self.kept is not None:
            self._give_back()
        if parked is not None:
            if self.meter is not None:
                self.meter.waiting -= 1
            parked(came)

    def waits(self, parked: Callable[[Any], None]) -> None:
        """Let the request wait. `parked` goes on with it."""
        self.parked = parked
        if self.meter is not None:
            self.meter.waiting += 1

    def give_up(self) -> None:
        """Drop what goes on with the request, since its peer does not take the answer any more."""
        if self.parked is not None and self.meter is not None:
            self.meter.waiting -= 1
        self.parked = self.sliced = None
        if self.kept is not None:
            self._give_back()
        forget, self.forget = self.forget, None
        if forget is not None:
            forget()

    def _give_back(self) -> None:
        kept, self.kept = self.kept, None
        if kept is not None:
            kept()


ANONYMOUS = "User:ANONYMOUS"
"""The principal of a peer on a listener without authentication."""


class Connection:
    """One inbound connection. Invariant: `slots` are in request order; `waiting` is empty while fewer are in flight."""

    __slots__ = (
        "answered",
        "apart",
        "apis",
        "behind",
        "by_token",
        "closed",
        "congested",
        "door",
        "ends_ms",
        "exchange",
        "expires_ms",
        "id",
        "kept",
        "kind",
        "listener_name",
        "mechanism",
        "muted",
        "muted_until_ms",
        "paused",
        "peer_host",
        "peer_port",
        "principal",
        "replica",
        "sent",
        "slots",
        "taken",
        "unread",
        "waiting",
        "waits",
        "when_closed",
        "writing",
    )

    def __init__(
        self,
        id: int,
        kind: Listener,
        listener_name: str,
        peer_host: str,
        apis: Mapping[int, Api] = NOTHING_SERVED,
        peer_port: int = 0,
        door: Door | None = None,
    ) -> None:
        """`apis` are the rows that the listener serves, by API key. `peer_port`: 0: not known. `door`: counts what comes
        through the listener; None: only this connection counts there."""
        self.id = id
        self.door = door or Door()
        self.kind = kind
        self.apis = apis
        self.listener_name = listener_name
        self.peer_host = canonical(peer_host)
        self.peer_port = peer_port
        self.principal = ANONYMOUS
        self.by_token = False
        """Whether the peer has logged in with a delegation token (KIP-48)."""
        self.mechanism = ""
        """The SASL mechanism that the peer has chosen; empty: none yet."""
        self.ends_ms = 0
        """The monotonic time when the peer's certificate is no longer good; 0: the peer has none."""
        self.kept: Callable[[], bool] | None = None
        """Tells whether the credentials with which the peer has logged in still exist; None: they cannot be removed."""
        self.exchange: Exchange | None = None
        """The exchange of a peer that is logging in; None: no login is under way."""
        self.expires_ms = 0
        """The monotonic time when the login is no longer good; 0: never (KIP-368)."""
        self.slots: deque[Slot] = deque()
        self.waiting: deque[memoryview] = deque()
        self.writing = 0
        """How many of the `slots` have a `writer`."""
        self.paused = False
        self.replica = False
        """Whether a follower fetches on the connection."""
        self.closed = False
        self.congested = False
        """Whether the host says that the peer does not take what is sent."""
        self.muted = False
        """Whether the connection's client is over a quota."""
        self.muted_until_ms = 0
        self.waits = False
        """Whether the connection is congested or muted, so that its requests are not handled."""
        self.apart = NOTHING_APART
        """The requests of the connection that are counted apart. Invariant: none unless it `waits`."""
        self.behind = 0
        """Bytes of answers that wait for an earlier one. Invariant: the sum of `behind_bytes` over `slots`."""
        self.unread = 0
        """Bytes of answers with records that the peer cannot have read: promised, not sent yet, or among `sent`."""
        self.sent = 0
        """The part of `unread` that was sent in this turn, or while the peer was congested."""
        self.answered = self.taken = 0
        """How much has come into `unread` by answers since the connection is there, and how much of that has left it."""
        self.when_closed: dict[str, Callable[[], None]] = {}


class Inbound(NamedTuple):
    """What a turn has decided about connections of peers."""

    sends: Sequence[tuple[int, list[Buffer]]] = ()
    closes: Sequence[int] = ()
    pauses: Sequence[int] = ()
    resumes: Sequence[int] = ()
    known: Sequence[int] = ()
    """Connections whose peers have logged in."""


NOTHING = Inbound()


class Connections:
    """The inbound connections of a node, by the host's number."""

    def __init__(self, bytes_max: int, stopwatch: Callable[[], int] = lambda: 0) -> None:
        """`stopwatch` counts nanoseconds; it measures requests, and decides nothing."""
        self._stopwatch = stopwatch
        self.meters = Meters()
        """The times of the requests that have been answered."""
        self._heard_ns = 0
        """When the first request came since the last turn began: those that come before the next one count from there."""
        self._left: list[Slot] = []
        """Requests whose answers have left, and may not be sent yet."""
        self._by_id: dict[int, Connection] = {}
        self.bytes_max = bytes_max
        self.bytes_held = 0
        """Bytes of requests that this node has to do with. Invariant: those of `apart` are not among them."""
        self.bytes_apart = 0
        """The bytes of `apart` over all connections."""
        self.queued_apart = 0
        """The requests of `apart` in the data lane's queue, over all connections."""
        self.long_requests = LongRequests()
        """The long requests that are read and not answered."""
        self.sends: list[tuple[int, list[Buffer]]] = []
        self.closes: list[int] = []
        self.known: list[int] = []
        self.pauses: dict[int, None] = {}
        self.resumes: dict[int, None] = {}
        """What was decided in this turn about reading connections. Invariant: no connection is in both, as the host
        knows no order between them."""
        self.behind_bytes = 0
        """The sum of `behind` over all connections."""
        self.crammed = False
        """Whether `behind_bytes` is above its bound."""
        self.held_back: dict[int, None] = {}
        """Connections with a request that has not been started because of such answers."""
        self._letting_go: list[tuple[Slot, weakref.ref[Any]]] = []
        """Requests that let their frames go, with the blocks of memory in which these are: a view of a block may be
        left."""
        self._throttled = False
        """Whether too many bytes are held."""
        self._crowded = False
        """Whether too many requests are queued, or too many bytes are apart."""
        self._unread = 0
        """The sum of `unread` over all connections."""
        self.shared_bytes = 0
        """How much of what is unread belongs to an owner that counts it by itself."""
        self._fresh: dict[int, None] = {}
        """Connections that were sent records since the last `begin_turn`."""

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers with records that peers cannot have read. What several of them share is counted by its owner."""
        return max(0, self._unread - self.shared_bytes)

    def taken(self) -> Inbound:
        """What this node has decided about inbound connections since the last call, for the host to do."""
        if not (self.sends or self.closes or self.pauses or self.resumes or self.known):
            return NOTHING
        assert not self.pauses.keys() & self.resumes.keys(), (self.pauses, self.resumes)
        taken = Inbound(self.sends, self.closes, list(self.pauses), list(self.resumes), self.known)
        self.sends, self.closes, self.pauses, self.resumes = [], [], {}, {}
        if self.known:
            self.known = []
        return taken

    def opened(self, connection: Connection) -> None:
        """Add a connection that a peer has opened."""
        self._by_id[connection.id] = connection
        connection.door.opened += 1

    def replicates(self, id: int) -> None:
        """Note that a follower fetches on that connection: it stays when this broker is fenced, and is read whatever is
        held."""
        connection = self._by_id.get(id)
        if connection is not None and not connection.replica:
            connection.replica = True
            self._read_on(connection)

    def replica(self, id: int) -> bool:
        """Whether a follower fetches on that connection."""
        connection = self._by_id.get(id)
        return connection is not None and connection.replica

    def room(self, id: int, bytes_max: int) -> int:
        """How many bytes of records an answer may bring, if none may bring more than `bytes_max`."""
        connection = self._by_id.get(id)
        if connection is None:
            return 0
        own = bytes_max - connection.unread
        if not connection.replica:
            own = min(own, max(UNREAD_BYTES_MAX - self.unread_bytes, FAIR_BYTES - connection.unread))
        return max(0, own)

    def promise(self, id: int, size: int) -> None:
        """Note that `size` bytes are being read for an answer; below zero: they have been."""
        connection = self._by_id.get(id)
        if connection is not None:
            connection.unread += size
            self._unread += size

    def congested(self, id: int, congested: bool) -> None:
        """Note that the host has more for a peer than it should hold, or that this is over."""
        connection = self._by_id.get(id)
        if connection is not None:
            connection.congested = congested
            connection.waits = congested or connection.muted
            if not connection.waits:
                self._together(connection)
            self._taken(connection)

    def mute(self, connection: Connection, muted: bool) -> None:
        """Stop reading and handling a connection, or go on with it. Its answers leave all the same."""
        connection.muted = muted
        connection.waits = muted or connection.congested
        if not connection.waits:
            self._together(connection)
        if muted:
            self._pause(connection)
        else:
            self._read_on(connection)

    def set_apart(self, connection: Connection, queued: int, queued_bytes: int) -> None:
        """Count a connection's requests apart, since it waits for its own client: those in queues that have not begun,
        and those that have no place yet. `queued`: how many of them stand in the data lane's queue."""
        if connection.waits and connection.apart is NOTHING_APART:
            apart = connection.apart = Apart(queued, queued_bytes + sum(map(len, connection.waiting)))
            self.bytes_held -= apart.bytes
            self.bytes_apart += apart.bytes
            self.queued_apart += queued

    def _together(self, connection: Connection) -> None:
        """Count a connection's requests with those of others again."""
        apart, connection.apart = connection.apart, NOTHING_APART
        self.bytes_held += apart.bytes
        self.bytes_apart -= apart.bytes
        self.queued_apart -= apart.queued

    def begin_turn(self) -> None:
        """Note that what was sent before, and did not congest its connection, is on its way."""
        self._heard_ns = 0
        if self._left:  # the host has not said when they were sent
            note_all(self._left, self._stopwatch())
        if self._fresh:
            for id in self._fresh:
                connection = self._by_id.get(id)
                if connection is not None:
                    self._taken(connection)
            self._fresh.clear()

    def get(self, id: int) -> Connection | None:
        """The open connection of that number, or None."""
        return self._by_id.get(id)

    def all(self) -> list[Connection]:
        """Every open connection, in order of arrival."""
        return list(self._by_id.values())

    def begin(self, connection: Connection, frame: memoryview) -> Slot | None:
        """A place for the answer to `frame`; None (and the frame is kept for later) if too many are in flight."""
        if len(connection.slots) >= IN_FLIGHT_MAX or connection.waiting:
            self.wait(connection, frame)
            return None
        if (self._throttled or self._crowded) and _limited(connection):
            self._pause(connection)
        return self._place(connection, frame)

    def wait(self, connection: Connection, frame: memoryview) -> None:
        """Keep a frame that has no place yet in its connection, which is not read meanwhile."""
        connection.waiting.append(frame)
        self.bytes_held += len(frame)
        self._pause(connection)

    def sift(self, connection: Connection, wanted: Callable[[memoryview], bool]) -> None:
        """Drop the frames that wait for a place, except those that are wanted."""
        self._together(connection)
        kept = deque(frame for frame in connection.waiting if wanted(frame))
        self.bytes_held -= sum(map(len, connection.waiting)) - sum(map(len, kept))
        connection.waiting = kept

    def take_back(self, connection: Connection, frames: list[memoryview]) -> None:
        """Take back the places of a connection's last requests, which have not begun; they wait for new ones."""
        for frame in reversed(frames):
            slot = connection.slots.pop()
            assert slot.parts is None and slot.bytes_held == len(frame)
            connection.waiting.appendleft(frame)
        self._pause(connection)

    def placed(self, connection: Connection) -> tuple[memoryview, Slot] | None:
        """The first frame that waits and the place that it has now, or None."""
        if not connection.waiting or len(connection.slots) >= IN_FLIGHT_MAX:
            return None
        frame = connection.waiting.popleft()
        self.bytes_held -= len(frame)
        slot = self._place(connection, frame)
        self._read_on(connection)
        return frame, slot

    def writes(self, slot: Slot, frame: memoryview) -> None:
        """Note that a request is under way that writes what others read."""
        if slot.writer is None and slot.parts is None and not slot.connection.closed:
            slot.writer = slot.api
            slot.frame = frame
            slot.connection.writing += 1

    def let_go(self, slot: Slot, frame: memoryview) -> None:
        """Let the frame of a request go, which may wait for long and does not need it any more."""
        try:
            block = weakref.ref(frame.obj)
        except TypeError:  # a short one
            block = None
        if slot.frame is not None:
            slot.frame = GONE
        try:
            frame.release()
        except BufferError:  # a reader still has a view of its memory
            return
        if block is None:
            self.give_back(slot)
        else:
            self._letting_go.append((slot, block))

    def give_back(self, slot: Slot) -> None:
        """Stop counting a request's bytes. A second call does nothing."""
        self.bytes_held -= slot.bytes_held
        slot.bytes_held = 0
        if slot.read_bytes:
            self.long_requests.over(slot)

    def may_start(self, slot: Slot) -> bool:
        """Whether a request may be started, by what the answers of its connection, and of all, hold that cannot leave."""
        connection = slot.connection
        if connection.kind is Listener.CONTROL_PLANE or connection.slots[0] is slot:
            return True
        if connection.behind < BEHIND_BYTES_MAX and not self.crammed:
            return True
        self.held_back[connection.id] = None
        return False

    def behind(self, slot: Slot) -> bool:
        """Whether a request must wait for an earlier one of its connection."""
        api = slot.api
        subjects = Subject.LOGIN if api is None else api.reads | api.writes
        for earlier in slot.connection.slots:
            if earlier is slot:
                break
            writer = earlier.writer
            if (
                writer is not None
                and writer.writes & subjects
                and not (api is not None and api.pipelined and writer is api)
            ):
                return True
        return False

    def answer(self, slot: Slot, parts: list[Buffer]) -> list[tuple[memoryview, Slot]]:
        """Take the answer to a request, and send whatever is now first in line. Frames that waited for a place are
        returned with the place that they now have."""
        connection = slot.connection
        if slot.parts is not None or connection.closed:
            return []
        slot.parts = parts
        if slot.writer is not None:
            slot.writer = slot.frame = None
            connection.writing -= 1
        if len(parts) > 1:  # records are parts of their own
            slot.answer_bytes = sum(map(len, parts))
            connection.answered += slot.answer_bytes
            connection.unread += slot.answer_bytes
            self._unread += slot.answer_bytes
        self.give_back(slot)
        if connection.slots[0] is not slot:
            slot.behind_bytes = sum(map(len, parts))
            connection.behind += slot.behind_bytes
            self._behind(slot.behind_bytes)
        ready: list[Buffer] = []
        while connection.slots and (first := connection.slots[0]).parts is not None:
            connection.slots.popleft()
            if first is not slot:
                first.left_ns = self._stopwatch()
            self._left.append(first)
            ready.extend(first.parts or ())
            if first.behind_bytes:
                connection.behind -= first.behind_bytes
                self._behind(-first.behind_bytes)
            if first.answer_bytes:
                connection.sent += first.answer_bytes
                self._fresh[connection.id] = None
        if ready:
            self.sends.append((connection.id, ready))
        freed: list[tuple[memoryview, Slot]] = []
        if connection.waiting and connection.kind is not Listener.CONTROL_PLANE:  # that queue has a bound of its own
            while (frame := self.placed(connection)) is not None:
                freed.append(frame)
        if connection.paused:
            self._read_on(connection)
        return freed

    def _behind(self, size: int) -> None:
        self.behind_bytes += size
        self.crammed = self.behind_bytes >= ALL_BEHIND_BYTES_MAX

    def first(self, place: int) -> None:
        """Send the answers from `place` on, in the order of this turn's answers, before the others, unless a connection
        has answers among both: its order is kept."""
        before, sends = self.sends[:place], self.sends[place:]
        if before and sends and {conn for conn, _ in before}.isdisjoint([conn for conn, _ in sends]):
            self.sends = [*sends, *before]

    def close(self, connection: Connection) -> None:
        """Close a connection from this side: nothing that was queued is run or answered."""
        if not connection.closed:
            self.closes.append(connection.id)
            self.gone(connection.id)

    def gone(self, id: int) -> Connection | None:
        """Forget a connection that either side has closed."""
        connection = self._by_id.pop(id, None)
        if connection is None:
            return None
        connection.closed = True
        connection.door.closed += 1
        self._together(connection)
        self.bytes_held -= sum(len(frame) for frame in connection.waiting)
        self._unread -= connection.unread
        self._behind(-connection.behind)
        self.held_back.pop(id, None)
        self.long_requests.forget(connection)
        connection.waiting.clear()
        for slot in connection.slots:
            slot.give_up()
            self.give_back(slot)
        connection.slots.clear()
        for function in list(connection.when_closed.values()):
            function()
        return connection

    def sent(self, at_ns: int) -> None:
        """Note when the host has sent the answers that have left, by the stopwatch."""
        if self._left:
            note_all(self._left, at_ns)

    def throttle(self, requests_queued: int, requests_max: int) -> None:
        """Pause or resume the reading of data connections by what is held in memory and queued."""
        if self._letting_go:
            left = []
            for slot, block in self._letting_go:
                if slot.bytes_held:
                    if block() is None:
                        self.give_back(slot)
                    else:
                        left.append((slot, block))
            self._letting_go = left
        held = self.bytes_held
        throttled = held > self.bytes_max or (self._throttled and held >= self.bytes_max * 3 // 4)
        crowded = (
            requests_queued - self.queued_apart >= (max(1, requests_max * 3 // 4) if self._crowded else requests_max)
        ) or self.bytes_apart >= (self.bytes_max * 3 // 4 if self._crowded else self.bytes_max)
        if throttled is self._throttled and crowded is self._crowded:
            return
        self._throttled, self._crowded = throttled, crowded
        for connection in self._by_id.values():
            if not self._read_on(connection) and not connection.paused:
                self._pause(connection)

    def _read_on(self, connection: Connection) -> bool:
        """Resume the reading of a connection if it may be read; whether it may."""
        if (
            connection.waiting
            or connection.muted
            or (_limited(connection) and (self._throttled or (self._crowded and len(connection.slots) > 0)))
        ):
            return False
        if connection.paused:
            self._resume(connection)
        return True

    def _place(self, connection: Connection, frame: memoryview) -> Slot:
        size = len(frame)
        key, version = _key_and_version(frame) if size >= 4 else (-1, -1)
        api = connection.apis.get(key)
        slot = Slot(connection, size, api)
        if not self._heard_ns:
            self._heard_ns = self._stopwatch()
        slot.arrived(self._heard_ns, version, size, None if api is None else self.meters[key], connection.door)
        self.bytes_held += size
        connection.slots.append(slot)
        return slot

    def _taken(self, connection: Connection) -> None:
        if not connection.congested:
            connection.taken += connection.sent
            connection.unread -= connection.sent
            self._unread -= connection.sent
            connection.sent = 0

    def _pause(self, connection: Connection) -> None:
        if not connection.paused:
            connection.paused = True
            self.resumes.pop(connection.id, None)
            self.pauses[connection.id] = None

    def _resume(self, connection: Connection) -> None:
        connection.paused = False
        self.pauses.pop(connection.id, None)
        self.resumes[connection.id] = None


def _limited(connection: Connection) -> bool:
    return connection.kind in DATA_KINDS and not connection.replica
