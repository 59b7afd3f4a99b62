"""The way of requests between the sockets and the handlers: they come in, wait in the request queue, are handled, and their
answers leave.

This file alone decides where a frame waits, and when a connection is forgotten. `request_queue.py` decides which waiting
request is handled next; what a request means is decided above. Rules:

1. Requests of a control-plane listener stand in a queue of 20 (KIP-291). What has no place there waits outside, first come,
   first served; a peer that does not read its answers gives its places back.
2. A request waits with those behind it while its peer does not read, or while an earlier one writes what it reads.
3. A connection that its peer has closed stays until what `farewell.py` keeps of it is handled.
4. On a listener with SASL a peer may only log in, until it has.
5. A connection of an address that opens too many (KIP-612) is closed after a while, and nothing of it is read.
"""

from collections import deque
from collections.abc import Callable

from actors.node.net.connections import (
    ALL_BEHIND_BYTES_MAX,
    CONNECTION_BYTES,
    UNREAD_BYTES_MAX,
    Connection,
    Connections,
    Inbound,
    Slot,
)
from actors.node.net.farewell import Farewell
from actors.node.net.long_requests import BYTES_MAX
from actors.node.net.request_queue import RequestQueue
from actors.node.runtime.calls import Lane, Listener, Served
from actors.node.runtime.meters import Idle
from actors.node.runtime.runtime import Runtime
from actors.node.runtime.steps import LONG_NS
from actors.ports import Buffer
from actors.settings.node_config import NodeConfig
from fastpath.meters.request_times import Door
from fastpath.meters.spread import Spread

REQUEST_BYTES_MAX = 256 << 20
MUTE_LOOK_MS = 60_000
"""How often in ms a connection that is muted for longer is checked for whether it is still there."""
LOGIN = (17, 18, 36)
"""The API keys that a peer may use before it has logged in: SaslHandshake, ApiVersions, SaslAuthenticate."""
CONTROL_PLANE, CONTROL, DATA = Listener.CONTROL_PLANE, Lane.CONTROL, Lane.DATA
"""Module names, because every request uses them and the look-up of an enum member costs more."""
LARGE_BYTES = 512 << 10
"""The bytes of requests after which a lane has had its part of a turn, however little time that took by then: large
requests come to their end in swarms, and what controllers say would wait for them all. The cost of a turn is small
beside that of so many bytes."""
NS_SHIFT = 6
"""Times in ns are kept to 64 of them."""
NOTE_EVERY_MS = 1000
"""How often in ms the share of idle time is noted."""

Run = Callable[[Connection, Slot, memoryview], None]
"""Handles one request; its answer goes to the slot, now or later."""


class RequestChannel:
    """The requests of a node's peers, and the answers to what it has asked of others."""

    def __init__(
        self,
        runtime: Runtime,
        config: NodeConfig,
        served: Served,
        answers: Callable[[int, memoryview], None],
        answers_lane: Callable[[int], Lane],
    ) -> None:
        """`served` is the table of APIs. `answers`: takes a frame of a connection that this node has dialled, and
        `answers_lane` says in which lane that connection's frames wait."""
        self._runtime = runtime
        self._served = served
        self._answers = answers
        self._answers_lane = answers_lane
        queued_max = config.value("queued.max.request.bytes")
        self.connections = Connections(queued_max if queued_max > 0 else REQUEST_BYTES_MAX, runtime.stopwatch)
        held = self.connections
        runtime.ledger.owner("Requests", lambda: held.bytes_held, "queued.max.request.bytes")
        runtime.ledger.owner(
            "LongRequests",
            lambda: held.long_requests.bytes,
            f"{BYTES_MAX >> 20} MiB and one request, of each of two kinds",
        )
        runtime.ledger.owner("RequestsOfWaitingClients", lambda: held.bytes_apart, "queued.max.request.bytes")
        runtime.ledger.owner("AnswersBehindEarlierOnes", lambda: held.behind_bytes, f"{ALL_BEHIND_BYTES_MAX >> 20} MiB")
        runtime.ledger.owner("AnswersWithUnreadRecords", lambda: held.unread_bytes, f"{UNREAD_BYTES_MAX >> 20} MiB")
        runtime.ledger.owner("Connections", lambda: CONNECTION_BYTES * len(held), "max.connections")
        self.queue = RequestQueue(config.value("queued.max.requests"))
        self.farewell = Farewell(self.connections, self.queue, lambda slot: self.answer(slot, []))
        self.idle = {Lane.CONTROL: Idle(), Lane.DATA: Idle()}
        """How much of the time each lane has had nothing to do (KIP-291)."""
        self.failed_logins = 0
        """How often a login has failed."""
        self.doors = {listener.name: Door() for listener in config.listeners}
        """What has come through each listener."""
        self.api_names = {key: api.name for rows in served.values() for key, api in rows.items()}
        """The names of the APIs by key."""
        self.control_waits, self.control_works = Spread(NS_SHIFT), Spread(NS_SHIFT)
        """How long what stands in the control lane waits, and how long it is handled, in ns."""
        self._ends_ms = 0
        """The monotonic time when the first certificate ends, and is looked at; 0: none is waited for."""
        self.expired = [0, 0]
        """How many connections were closed because their login was no longer good: [all others, those of the
        control-plane listener]."""
        self._noted_ms = -NOTE_EVERY_MS
        self._kinds = {listener.name: Listener(listener.kind) for listener in config.listeners}
        self._strangers = {
            name: {key: served[kind][key] for key in LOGIN if key in served[kind]}
            for name, kind in self._kinds.items()
            if config.security[name].mechanisms
        }
        """The listeners on which a peer has to log in, each with the APIs that it may use before."""
        self._closed: deque[tuple[int, bool]] = deque()
        """Connections that have ended since the last turn, and whether a dial was refused."""
        self._outside: dict[int, None] = {}
        """Connections of the control-plane listener whose requests wait for a place in its queue, and whose peers read
        their answers."""
        self.delay_of: Callable[[str], int] | None = None
        """Charges a connection to its address: it returns after how many milliseconds the connection is closed, 0: it
        is served. None: no address has a limit."""
        self._delayed: dict[int, None] = {}
        """Connections that will be closed, and that their peers have not closed yet."""
        self._listens: dict[str, bool] = {}
        """The listeners about which this turn has decided: keep what arrives, or turn it away."""

    # ---- inputs

    def connected(
        self,
        conn: int,
        listener: str,
        peer_host: str,
        peer_port: int = 0,
        principal: str | None = None,
        good_for_ms: int = 0,
    ) -> None:
        """Take a connection that a peer has opened to `listener`. `peer_port`: 0: not known. `principal`: the one that
        its certificate names. `good_for_ms`: how long the certificate is good from now on; 0: not known."""
        kind = self._kinds[listener]
        if self.delay_of is not None and kind is Listener.CLIENT and (delay_ms := self.delay_of(peer_host)):
            self._delayed[conn] = None
            self._runtime.waiting.timers.at(self._runtime.now.mono_ms + delay_ms, lambda: self._close_delayed(conn))
            return
        rows = self._strangers.get(listener, self._served[kind])
        connection = Connection(conn, kind, listener, peer_host, rows, peer_port, self.doors[listener])
        if principal is not None and listener not in self._strangers:
            connection.principal = principal
        if good_for_ms:
            connection.ends_ms = self._runtime.now.mono_ms + good_for_ms
            self._wait_for_end(connection.ends_ms)
        self.connections.opened(connection)

    def identified(self, connection: Connection, principal: str, expires_ms: int, by_token: bool = False) -> None:
        """Serve the peer of a connection from now on, since it has logged in. `expires_ms`: until when, in monotonic
        time; 0: as long as the connection. `by_token`: it has logged in with a delegation token."""
        connection.principal = principal
        connection.door.logins += 1
        connection.by_token = by_token
        connection.expires_ms = expires_ms
        if self.is_stranger(connection):
            self.connections.known.append(connection.id)
            connection.apis = self._served[connection.kind]

    def expire(self, connection: Connection) -> None:
        """Close a connection whose peer asks for something when its login is no longer good (KIP-368)."""
        self.expired[connection.kind is CONTROL_PLANE] += 1
        connection.door.expired += 1
        self.close(connection, f"the login of {connection.principal} is no longer good, and it was not renewed")

    def end_credentials(self, gone: Callable[[Connection], str | None]) -> None:
        """Close each connection whose peer has logged in with credentials that have been removed. `gone`: another
        reason to close a connection."""
        for connection in self.connections.all():
            if connection.kept is not None and not connection.kept():
                self.close(connection, f"the login of {connection.principal} was taken back")
            elif (why := gone(connection)) is not None:
                self.close(connection, why)

    def _wait_for_end(self, ends_ms: int) -> None:
        if not self._ends_ms or ends_ms < self._ends_ms:
            self._ends_ms = ends_ms
            self._runtime.waiting.timers.at(ends_ms, lambda: self._end_certificates(ends_ms))

    def _end_certificates(self, due_ms: int) -> None:
        """Close the connections whose certificate is over, and wait for the next one."""
        if due_ms != self._ends_ms:
            return  # one that ends earlier is waited for
        self._ends_ms, now_ms, following_ms = 0, self._runtime.now.mono_ms, 0
        for connection in self.connections.all():
            if connection.ends_ms and connection.ends_ms <= now_ms:
                self.close(connection, f"the certificate of {connection.principal} is no longer good")
            elif connection.ends_ms:
                following_ms = min(following_ms or connection.ends_ms, connection.ends_ms)
        if following_ms:
            self._wait_for_end(following_ms)

    def is_stranger(self, connection: Connection) -> bool:
        """Whether the peer of a connection has to log in before it is served."""
        return connection.apis is self._strangers.get(connection.listener_name)

    def closed(self, conn: int, refused: bool) -> None:
        """Take the end of a connection. `refused`: the peer's machine answered that nothing listens there."""
        self._closed.append((conn, refused))

    def congested(self, conn: int, congested: bool) -> None:
        """Note that the host has more for a peer than it should hold, or that this is over. The peer's requests wait
        meanwhile."""
        self.connections.congested(conn, congested)
        if congested:
            self._set_apart(self.connections.get(conn))
        else:
            self.queue.go_on(conn)
            connection = self.connections.get(conn)
            if connection is not None and connection.kind is Listener.CONTROL_PLANE and connection.waiting:
                self._outside[conn] = None

    def left(self, conn: int) -> None:
        """Note that the peer has closed a connection that is not read, behind what it has sent. The answers to its
        waiting requests are not taken, so those go, and the connection is read to its end."""
        connection = self.connections.get(conn)
        if connection is not None:
            for slot in list(connection.slots):
                if slot.parked is not None and slot.writer is None:
                    slot.give_up()
                    self.answer(slot, [])

    def received(self, conn: int, frame: memoryview) -> bool:
        """Take one whole frame without its length. The buffer is the node's from now on. False: hand over nothing more
        of this connection before `Effects.resume` names it."""
        if conn < 0:
            self.queue.put(self._answers_lane(conn), conn, frame, None)
            return True
        connection = self.connections.get(conn)
        if connection is None:
            return False
        if connection.kind is CONTROL_PLANE and (connection.waiting or self.queue.control_requests_full):
            self.connections.wait(connection, frame)
            self._outside[conn] = None
        else:
            slot = self.connections.begin(connection, frame)
            if slot is not None:
                self._queue(connection, frame, slot)
            elif connection.kind is CONTROL_PLANE:  # 16 of its own are under way
                self._outside[conn] = None
        return not connection.paused

    # ---- the turn

    def begin_turn(self) -> None:
        """Begin a turn: what was sent before is on its way, requests in slices may go on, and idle shares are noted."""
        self.connections.begin_turn()
        if self.queue.rests:
            self.queue.begin_turn()
        now_ms = self._runtime.now.mono_ms
        if now_ms >= self._noted_ms + NOTE_EVERY_MS:
            self._noted_ms, at_ns = now_ms, self._runtime.stopwatch()
            for idle in self.idle.values():
                idle.note(at_ns)
            self._runtime.steps.look()

    def run_lane(self, lane: Lane, run: Run, budget_ns: int) -> bool:
        """Handle what waits in a lane until it is empty, its time is over, or much was handled; one request always.
        Returns whether anything was handled."""
        take = self.queue.take
        item = take(lane)
        if item is None:
            return False
        queue, handle, stopwatch = self.queue, self._handle, self._runtime.stopwatch
        at_ns = began_ns = stopwatch()
        size = 0
        while item is not None:
            conn, frame, slot = item
            if slot is None or slot.sliced is None:  # the slices of a request bring nothing more
                size += len(frame)
            handle(run, conn, frame, slot)
            if self._outside:
                self._let_in()
            since_ns, at_ns = at_ns, stopwatch()
            spent_ns = at_ns - since_ns
            queue.last.charge(spent_ns)
            if slot is not None:
                slot.handled(since_ns, spent_ns)
                if lane is CONTROL:
                    self.control_waits.add(since_ns - slot.arrived_ns, at_ns)
                    self.control_works.add(spent_ns, at_ns)
            if spent_ns >= LONG_NS:
                api = None if slot is None else slot.api
                self._runtime.steps.took("Answer" if api is None else api.name, spent_ns)
            if at_ns - began_ns >= budget_ns or size >= LARGE_BYTES:
                break
            item = take(lane)
        self.idle[lane].busy_ns += at_ns - began_ns
        return True

    def forget_closed(self, lost: Callable[[int, bool], None]) -> None:
        """Forget connections that have ended, except those with requests that outlive them. `lost`: called for one that
        this node had dialled."""
        while self._closed:
            conn, refused = self._closed.popleft()
            if conn < 0:
                self.queue.drop(conn)
                lost(conn, refused)
            elif self._delayed and conn in self._delayed:
                del self._delayed[conn]
            elif not self.farewell.stays(conn):
                self._forget(conn)
        if self._outside:  # a connection that was closed leaves its places to others
            self._let_in()

    def end_turn(self) -> None:
        """Forget connections whose last requests were handled, and let long requests be read that there is room for."""
        for conn in self.connections.long_requests.next():
            self.queue.go_on(conn)
        if self.farewell.staying:
            for conn in self.farewell.over():
                self._forget(conn)

    def taken(self) -> Inbound:
        """What this turn has decided about connections; before that, whether they are read is decided by what is queued
        and held."""
        self.connections.throttle(self.queue.data.size, self.queue.data_requests_max)
        return self.connections.taken()

    def taken_listens(self) -> dict[str, bool]:
        """The listeners about which this turn has decided."""
        found = self._listens
        if found:
            self._listens = {}
        return found

    # ---- what handlers and roles ask for

    def answer(self, slot: Slot, parts: list[Buffer]) -> None:
        """Take the answer of a slot."""
        connections = self.connections
        if slot.writer is not None:
            self.queue.go_on(slot.connection.id)
        crammed = connections.crammed
        for frame, place in connections.answer(slot, parts):
            self._queue(slot.connection, frame, place)
        if connections.held_back:
            self._start_held_back(slot.connection.id, crammed and not connections.crammed)

    def _start_held_back(self, conn: int, room: bool) -> None:
        """Start requests that were held back, since the answers of that connection may have left; with `room`, those of
        all connections."""
        held_back = self.connections.held_back
        for one in list(held_back) if room else [conn]:
            if one in held_back:
                del held_back[one]
                self.queue.go_on(one)

    def go_on_later(self, slot: Slot, frame: memoryview) -> None:
        """Call `slot.sliced` in the next turn, before any later request of its connection."""
        connection = slot.connection
        if not connection.closed:
            lane, plane = _place(slot)
            self.queue.rest(lane, (connection.id, frame, slot), plane=plane)

    def may_read(self, slot: Slot, frame: memoryview, is_longer: Callable[[int], bool]) -> bool:
        """Whether a request may be read; if not, it waits with those behind it, since others that are read take the
        memory. `is_longer(entries)`: whether it has more entries than that."""
        connection = slot.connection
        if connection.kind is CONTROL_PLANE or self.connections.long_requests.may_be_read(connection, is_longer):
            return True
        self._set_aside(frame, slot)
        return False

    def close(self, connection: Connection, why: str) -> None:
        """Close one inbound connection and say why."""
        if not connection.closed:
            text = f"closed the connection of {connection.peer_host} on {connection.listener_name}: {why}"
            self._runtime.peer_lines.of_host(self._runtime.log.warning, connection.peer_host, text)
            self.queue.drop(connection.id)
            crammed = self.connections.crammed
            self.connections.close(connection)
            self._start_held_back(connection.id, crammed and not self.connections.crammed)

    def mute(self, connection: Connection, ms: int) -> None:
        """Read and handle nothing of a connection for so long; answers leave all the same (KIP-219)."""
        until_ms = self._runtime.now.mono_ms + ms
        if connection.closed or until_ms <= connection.muted_until_ms:
            return
        connection.muted_until_ms = until_ms
        if not connection.muted:
            self.connections.mute(connection, True)
            self._set_apart(connection)
            self._look_at_muted(connection)

    def when_closed(self, conn: int, name: str, function: Callable[[], None]) -> None:
        """Call `function` once when that inbound connection is gone; a later one of the same name replaces it."""
        connection = self.connections.get(conn)
        if connection is not None:
            connection.when_closed[name] = function

    def listen(self, name: str) -> None:
        """Answer on a listener, and keep what arrives."""
        self._listens[name] = True

    def turn_away(self, name: str) -> None:
        """Answer on a listener, and close what arrives."""
        self._listens[name] = False

    # ---- inside

    def _handle(self, run: Run, conn: int, frame: memoryview, slot: Slot | None) -> None:
        if slot is None:
            self._answers(conn, frame)
        elif slot.sliced is not None:
            go_on, slot.sliced = slot.sliced, None
            go_on()
        elif slot.connection.waits or (
            (slot.connection.writing or slot.connection.behind or self.connections.crammed) and self._must_wait(slot)
        ):
            self._set_aside(frame, slot)
        elif not slot.connection.closed:
            run(slot.connection, slot, frame)

    def _must_wait(self, slot: Slot) -> bool:
        """Whether a request waits for an earlier one of its connection: for what that writes, or for its answer to
        leave."""
        connections = self.connections
        return (slot.connection.writing > 0 and connections.behind(slot)) or not connections.may_start(slot)

    def _set_apart(self, connection: Connection | None) -> None:
        """Count what a connection has sent apart, since it is muted or its peer does not read, so that it takes no room
        of others."""
        if connection is not None:
            self.connections.set_apart(connection, *self.queue.not_begun(connection.id))

    def _look_at_muted(self, connection: Connection) -> None:
        """End the mute of a connection if it is over, else look again later."""
        now_ms = self._runtime.now.mono_ms
        if connection.closed:
            return
        if now_ms < connection.muted_until_ms:
            again_ms = min(connection.muted_until_ms, now_ms + MUTE_LOOK_MS)
            self._runtime.waiting.timers.at(again_ms, lambda: self._look_at_muted(connection))
            return
        self.connections.mute(connection, False)
        self.queue.go_on(connection.id)

    def _close_delayed(self, conn: int) -> None:
        if conn in self._delayed:
            del self._delayed[conn]
            self.connections.closes.append(conn)

    def _set_aside(self, frame: memoryview, slot: Slot) -> None:
        """Put aside a request that cannot run yet, with those behind it on its connection. In the queue of the
        control-plane listener they leave their places to others: its peer alone decides when they may run, and 20 of
        them would keep all others out."""
        connection = slot.connection
        lane, plane = _place(slot)
        if not plane:
            self.queue.set_aside(lane, (connection.id, frame, slot))
            return
        behind = self.queue.withdraw_control_requests(connection.id)
        self.connections.take_back(connection, [frame, *behind])
        self._outside[connection.id] = None

    def _let_in(self) -> None:
        """Fill the queue of the control-plane listener with what waits outside, first come, first served."""
        for conn in list(self._outside):
            connection = self.connections.get(conn)
            if connection is not None and not connection.congested:
                while not self.queue.control_requests_full and (found := self.connections.placed(connection)):
                    self._queue(connection, *found)
            if connection is None or connection.congested or not connection.waiting:
                del self._outside[conn]
            if self.queue.control_requests_full:
                break

    def _queue(self, connection: Connection, frame: memoryview, slot: Slot) -> None:
        if connection.kind is CONTROL_PLANE:
            self.queue.put_control_request(connection.id, frame, slot)
        else:
            api = slot.api
            self.queue.put(api.lane if api is not None else DATA, connection.id, frame, slot)

    def _forget(self, conn: int) -> None:
        """Forget a peer's connection that is closed, and of which nothing is handled any more."""
        self.queue.drop(conn)
        crammed = self.connections.crammed
        self.connections.gone(conn)
        self._start_held_back(conn, crammed and not self.connections.crammed)


def _place(slot: Slot) -> tuple[Lane, bool]:
    """The lane of a request, and whether it is in the queue of the control-plane listener."""
    if slot.connection.kind is Listener.CONTROL_PLANE:
        return Lane.CONTROL, True
    return (slot.api.lane if slot.api is not None else Lane.DATA), False
