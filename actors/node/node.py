"""The node: composition of quorum, roles, connections and waiting into one single-threaded machine with a mailbox.

Still no IO. Inputs are `connected`, `closed`, `received`, `done`, `shutdown`; `turn` acts on what has come and returns
the effects. The order within a turn is fixed here and nowhere else:

    completions -> control lane -> quorum -> timers and roles -> data lane up to the budget
    -> the controller's batches into the log -> quorum -> waiters that were signalled or are late -> effects
"""

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from actors.config import NodeConfig
from actors.node import rpc
from actors.node.broker_role import BrokerRole
from actors.node.channels import Channels
from actors.node.connections import Connection, Connections, Slot
from actors.node.controller_role import ControllerRole
from actors.node.dispatch import Dispatch
from actors.node.effects import Effects, Stop
from actors.node.farewell import Farewell
from actors.node.mailbox import Mailbox
from actors.node.meters import Idle
from actors.node.metrics import Sample, samples
from actors.node.quorum import Quorum
from actors.node.registry import CLIENTS_OWN, Lane, Listener
from actors.node.storage import Storage
from actors.node.waiting import Waiting
from actors.ports import Buffer, Disk, File, Now, Owner, Random, Sync, SyncClass, Work, WorkKind

REQUEST_BYTES_MAX = 256 << 20
NOTE_EVERY_MS = 1000
"""How often the share of idle time is looked at."""

rpc.load()


class Log(Protocol):
    """Where a node says what an operator should know. One sentence a line."""

    def info(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...
    def error(self, text: str) -> None: ...


class Node:
    """One node of the cluster: a controller, a broker, or both.

    `now` is the time of the running turn. Handlers and roles use the node as their facade: `waiting`, `channels`,
    `quorum`, `controller`, `broker`, `sync`, `work`, `answer`.
    """

    def __init__(
        self,
        config: NodeConfig,
        storage: Storage,
        random: Random,
        log: Log,
        stopwatch: Callable[[], int] = lambda: 0,
    ) -> None:
        """`stopwatch`: nanoseconds; it decides how many requests a turn handles, and nothing else."""
        self.config = config
        self.stopwatch = stopwatch
        self.control_handler, self.data_handler = Idle(), Idle()
        self.storage = storage
        self.random = random
        self.log = log
        self.now = Now(0, 0)
        self.waiting = Waiting(stopwatch)
        queued_max = config.value("queued.max.request.bytes")
        self.connections = Connections(queued_max if queued_max > 0 else REQUEST_BYTES_MAX)
        self.mailbox = Mailbox(config.value("queued.max.requests"))
        self.farewell = Farewell(self.connections, self.mailbox, lambda slot: self.answer(slot, []))
        self.channels = Channels(
            self.waiting.timers, lambda: self.now.mono_ms, f"rayft-{self.id}", self._controller_address
        )
        self.dispatch = Dispatch(self)
        self._kinds = {listener.name: Listener(listener.kind) for listener in config.listeners}
        self._completions: deque[tuple[int, object]] = deque()
        self._closed: deque[tuple[int, bool]] = deque()
        self._connected: deque[int] = deque()
        self._then: dict[int, Callable[[Any], None]] = {}
        self._next_token = 0
        self._syncs: list[Sync] = []
        self._works: list[Work] = []
        self._outside: dict[int, None] = {}
        """Connections of the control-plane listener whose requests wait for a place in its queue, and whose peers read
        their answers."""
        self._listens: dict[str, bool] = {}
        """Listeners about which this turn decided last: keep what arrives, or turn it away."""
        self._stop: Stop | None = None
        self._stopping = False
        self._noted_ms = -NOTE_EVERY_MS
        self._active_controller = -1
        self.controller = ControllerRole(self) if "controller" in config.roles else None
        self.broker = BrokerRole(self) if "broker" in config.roles else None
        roles = [role for role in (self.controller, self.broker) if role is not None]
        self._roles: Sequence[Any] = roles
        self.quorum = Quorum(self, roles)

    @property
    def id(self) -> int:
        """The number that this node has in the quorum: its controller id if it has that role, else its broker id."""
        return self.config.controller_id if "controller" in self.config.roles else self.config.broker_id

    # ---- inputs

    def start(self, now: Now) -> Effects:
        """Recover what is on the disk and begin. Raises what storage raises; nothing has been sent then."""
        self.now = now
        self.quorum.recover()
        for role in self._roles:
            role.start()
        for listener in self.config.listeners:
            if Listener(listener.kind) in (Listener.CONTROLLER, Listener.CONTROL_PLANE):
                self.listen(listener.name)
        return self.turn(now, 0)

    def connected(self, conn: int, listener: str, peer_host: str) -> None:
        """A peer connected to `listener`, or a dial of ours succeeded (`conn` below zero)."""
        if conn < 0:
            self._connected.append(conn)
        else:
            self.connections.opened(Connection(conn, self._kinds[listener], listener, peer_host))

    def closed(self, conn: int, refused: bool) -> None:
        """A connection is gone. `refused`: the peer's machine answered that nobody listens there."""
        self._closed.append((conn, refused))

    def congested(self, conn: int, congested: bool) -> None:
        """The host has more for a peer than it should hold; or that is over. Its requests wait meanwhile."""
        self.connections.congested(conn, congested)
        if not congested:
            self.mailbox.go_on(conn)
            connection = self.connections.get(conn)
            if connection is not None and connection.kind is Listener.CONTROL_PLANE and connection.waiting:
                self._outside[conn] = None

    def received(self, conn: int, frame: memoryview) -> bool:
        """One whole frame without its length. The buffer is the node's from now on.

        False: hand over nothing more of this connection before `Effects.resume` names it.
        """
        if conn < 0:
            self.mailbox.put(self.channels.lane(conn), conn, frame, None)
            return True
        connection = self.connections.get(conn)
        if connection is None:
            return False
        if connection.kind is Listener.CONTROL_PLANE and (connection.waiting or self.mailbox.control_requests_full):
            self.connections.wait(connection, frame)
            self._outside[conn] = None
        else:
            slot = self.connections.begin(connection, frame)
            if slot is not None:
                self._queue(connection, frame, slot)
            elif connection.kind is Listener.CONTROL_PLANE:  # 16 of its own are under way
                self._outside[conn] = None
        return not connection.paused

    def done(self, token: int, result: object) -> None:
        """A `Sync` or `Work` has ended; `result` is its value or the exception."""
        self._completions.append((token, result))

    def shutdown(self) -> None:
        """Stop in order: a broker first asks for its controlled shutdown, a leader hands over; then `Effects.stop`."""
        if not self._stopping:
            self._stopping = True
            if self.broker is not None:
                self.broker.shutdown()
            else:
                self.retire()

    # ---- the turn

    def turn(self, now: Now, budget: int) -> Effects:
        """Act on what has come. `budget`: nanoseconds that each lane may take; one request of each is always handled."""
        self.now = now
        self.connections.begin_turn()
        if self.mailbox.rests:
            self.mailbox.begin_turn()
        if now.mono_ms >= self._noted_ms + NOTE_EVERY_MS:
            self._noted_ms, at_ns = now.mono_ms, self.stopwatch()
            self.control_handler.note(at_ns)
            self.data_handler.note(at_ns)
        self.waiting.begin_turn(budget)
        while self._completions:
            token, result = self._completions.popleft()
            then = self._then.pop(token, None)
            if then is not None:
                then(result)
        while self._connected:
            self.channels.connected(self._connected.popleft())
        self._run_lane(Lane.CONTROL, self.control_handler, budget)
        while self._closed:
            conn, refused = self._closed.popleft()
            if conn < 0:
                self.mailbox.drop(conn)
                self.channels.closed(conn, refused)
            elif not self.farewell.stays(conn):
                self._forget(conn)
        if self._outside:  # a connection that was closed leaves its places to others
            self._let_in()
        self.quorum.advance()
        self._follow_controller()
        self.waiting.expire(now.mono_ms)
        self.quorum.tick(now)
        for role in self._roles:
            role.tick(now)
        self._run_lane(Lane.DATA, self.data_handler, budget)
        if self.controller is not None:
            for batch in self.controller.flush():
                self.quorum.append(batch)
        self.quorum.advance()
        self.waiting.run()
        for role in self._roles:
            role.end()
        if self.farewell.staying:
            for conn in self.farewell.over():
                self._forget(conn)
        return self._effects()

    def metrics(self) -> list[Sample]:
        """What the node can be asked about itself, as of its last turn."""
        return samples(self)

    def deadline_ms(self) -> int:
        """When the next turn is due if nothing comes; 0: at once."""
        if self.mailbox.ready():
            return 0
        due = min(self.waiting.deadline_ms(), self.quorum.deadline_ms())
        for role in self._roles:
            due = min(due, role.deadline_ms())
        return due

    def _forget(self, conn: int) -> None:
        """A peer's connection is closed, and nothing of it is handled any more."""
        self.mailbox.drop(conn)
        self.connections.gone(conn)

    def _follow_controller(self) -> None:
        leader = self.quorum.leader_id
        if leader >= 0 and leader != self._active_controller:
            self._active_controller = leader
            self.channels.controller_moved()

    def _run_lane(self, lane: Lane, handler: Idle, budget: int) -> None:
        """Handle what waits in a lane until it is empty or its time is over."""
        take = self.mailbox.take
        item = take(lane)
        if item is None:
            return
        mailbox, handle, stopwatch = self.mailbox, self._handle, self.stopwatch
        at_ns = began_ns = stopwatch()
        while item is not None:
            handle(*item)
            if self._outside:
                self._let_in()
            since_ns, at_ns = at_ns, stopwatch()
            mailbox.last.charge(at_ns - since_ns)
            if at_ns - began_ns >= budget:
                break
            item = take(lane)
        handler.busy_ns += at_ns - began_ns

    def _let_in(self) -> None:
        """Fill the queue of the control-plane listener with what waits outside, first come, first served."""
        for conn in list(self._outside):
            connection = self.connections.get(conn)
            if connection is not None and not connection.congested:
                while not self.mailbox.control_requests_full and (found := self.connections.placed(connection)):
                    self._queue(connection, *found)
            if connection is None or connection.congested or not connection.waiting:
                del self._outside[conn]
            if self.mailbox.control_requests_full:
                break

    def _queue(self, connection: Connection, frame: memoryview, slot: Slot) -> None:
        if connection.kind is Listener.CONTROL_PLANE:
            self.mailbox.put_control_request(connection.id, frame, slot)
        else:
            api = slot.api
            self.mailbox.put(api.lane if api is not None else Lane.DATA, connection.id, frame, slot)

    def _handle(self, conn: int, frame: memoryview, slot: Slot | None) -> None:
        if slot is None:
            self.channels.received(conn, frame)
        elif slot.sliced is not None:
            go_on, slot.sliced = slot.sliced, None
            go_on()
        elif slot.connection.congested or (slot.connection.writing and self.connections.behind(slot)):
            self._set_aside(frame, slot)
        elif not slot.connection.closed:
            self.dispatch.run(slot.connection, slot, frame)

    def _set_aside(self, frame: memoryview, slot: Slot) -> None:
        """A request cannot run yet, and those behind it on its connection wait with it.

        In the queue of the control-plane listener they leave their places to others: its peer alone decides when they may
        run, and 20 of them would keep everybody else out."""
        connection = slot.connection
        lane, plane = self._place(slot)
        if not plane:
            self.mailbox.set_aside(lane, (connection.id, frame, slot))
            return
        behind = self.mailbox.withdraw_control_requests(connection.id)
        self.connections.take_back(connection, [frame, *behind])
        self._outside[connection.id] = None

    def _place(self, slot: Slot) -> tuple[Lane, bool]:
        """The lane of a request, and whether it is in the queue of the control-plane listener."""
        if slot.connection.kind is Listener.CONTROL_PLANE:
            return Lane.CONTROL, True
        return (slot.api.lane if slot.api is not None else Lane.DATA), False

    def _effects(self) -> Effects:
        self.connections.throttle(self.mailbox.size(Lane.DATA), self.mailbox.data_requests_max)
        connections, channels = self.connections, self.channels
        for conn in channels.closes:
            self.mailbox.drop(conn)
        effects = Effects(
            send=[*channels.sends, *connections.sends],
            sync=self._syncs,
            work=self._works,
            dial=channels.dials,
            listen=[name for name, keep in self._listens.items() if keep] if self._listens else (),
            turn_away=[name for name, keep in self._listens.items() if not keep] if self._listens else (),
            close=[*channels.closes, *connections.closes],
            pause=list(connections.pauses),
            resume=list(connections.resumes),
            stop=self._stop,
        )
        channels.sends, connections.sends, channels.dials = [], [], []
        channels.closes, connections.closes, connections.pauses, connections.resumes = [], [], {}, {}
        self._syncs, self._works, self._listens = [], [], {}
        return effects

    # ---- the facade of handlers and roles

    def sync(
        self,
        files: Sequence[File],
        replacements: Sequence[tuple[Disk, str, bytes]],
        then: Callable[[Any], None],
        kind: SyncClass = SyncClass.DATA,
    ) -> None:
        """Make files durable and replace small ones; `then(None)`, `then(DiskFailed)` or `then(DiskFull)`."""
        self._syncs.append(Sync(self._token(then), files, replacements, kind))

    def work(
        self,
        job: Callable[[], object],
        then: Callable[[Any], None],
        kind: WorkKind = WorkKind.DISK,
        owner: Owner | None = None,
    ) -> None:
        """Run `job` outside the loop; `then(result)` or `then(exception)` in a later turn."""
        self._works.append(Work(self._token(then), job, kind, owner))

    def answer(self, slot: Slot, parts: list[Buffer]) -> None:
        """The answer of a slot is known."""
        if slot.writer is not None:
            self.mailbox.go_on(slot.connection.id)
        for frame, place in self.connections.answer(slot, parts):
            self._queue(slot.connection, frame, place)

    def go_on_later(self, slot: Slot, frame: memoryview) -> None:
        """Call `slot.sliced` in the next turn, before any later request of its connection."""
        connection = slot.connection
        if not connection.closed:
            lane, plane = self._place(slot)
            self.mailbox.rest(lane, (connection.id, frame, slot), plane=plane)

    def admitted(self, connection: Connection, api_key: int) -> bool:
        """Whether a request may be looked at, or be answered later on; if not, its connection is closed."""
        broker = self.broker
        clients = connection.kind is Listener.CLIENT or (
            connection.kind is Listener.INTER_BROKER and api_key in CLIENTS_OWN
        )
        if clients and broker is not None and not (broker.serving or broker.admits(connection.id, api_key)):
            self.close_connection(connection, "this broker is fenced")
            return False
        return True

    def close_connection(self, connection: Connection, why: str) -> None:
        """Close one inbound connection and say why."""
        if not connection.closed:
            self.log.warning(f"closed the connection of {connection.peer_host} on {connection.listener_name}: {why}")
            self.mailbox.drop(connection.id)
            self.connections.close(connection)

    def failed(self, connection: Connection, api: str, error: Exception) -> None:
        """A handler broke: a mistake in the source. The peer sees a closed connection, the log the whole story."""
        trace = "".join(traceback.format_exception(error))
        self.log.error(f"{api} failed: {error!r}\n{trace}")
        self.close_connection(connection, f"{api} failed inside the node")

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

    def retire(self) -> None:
        """Whatever must happen before this node ends has happened, save that a leader hands over."""
        self.quorum.resign()
        self.stop(0, "stopped as asked")

    def stop(self, code: int, sentence: str) -> None:
        """End the process after this turn's effects. The first reason stands."""
        if self._stop is None:
            self._stop = Stop(code, sentence)

    # ---- inside

    def _token(self, then: Callable[[Any], None]) -> int:
        self._next_token += 1
        self._then[self._next_token] = then
        return self._next_token

    def _controller_address(self) -> tuple[str, int] | None:
        return self.quorum.leader_address()
