"""The node: runtime, requests, quorum and roles wired into one single-threaded machine with a mailbox.

Still no IO. Inputs are `connected`, `closed`, `received`, `done`, `shutdown`; `turn` acts on what has come and returns
the effects. This file alone fixes the order within a turn, and decides nothing else:

    completions -> control lane -> quorum -> timers and roles -> data lane up to the budget
    -> the controller's batches into the log -> quorum -> waiters that were signalled or are late -> effects

A broker hears a controller in the control lane. A turn of a broker that had something there leaves the data lane to the next
turn: the answer leaves before clients are served. Never two turns in a row do so. And for `TALK_MS` the data lane has a
quarter of its time, since the controller's next word waits for this answer, and comes soon.

Hosts import it, and nothing inside the node does.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from actors.node.api import handlers, table
from actors.node.api.contexts import BrokerContext, ControllerContext
from actors.node.api.dispatch import Dispatch
from actors.node.api.own_requests import OwnRequests
from actors.node.metrics import Part, parts, samples
from actors.node.metrics.family import Sample
from actors.node.net.channels import Channels
from actors.node.net.dial_login import DialLogins
from actors.node.net.request_channel import RequestChannel
from actors.node.quorum.replica import QuorumReplica
from actors.node.roles.broker.role import BrokerRole
from actors.node.roles.controller.role import ControllerRole
from actors.node.runtime.calls import Lane, Listener
from actors.node.runtime.effects import NOTHING, Effects
from actors.node.runtime.runtime import Log, Runtime
from actors.node.runtime.storage import Storage
from actors.ports import Now, Random
from actors.ports.zookeeper import Event
from actors.settings.node_config import NodeConfig

handlers.load()

ALWAYS_OPEN = (Listener.CONTROLLER, Listener.CONTROL_PLANE, Listener.BRIDGE)
TALK_MS = 20
"""How long a broker expects more of a controller that has said something."""
BEHIND_MS = 5_000
"""How long a controller may lack committed records and yet be ready: as long as it lacks no more than the newest."""
CONTROL, DATA = Lane.CONTROL, Lane.DATA
"""Module names, because every turn uses them and the look-up of an enum member costs more."""


class Node:
    """One node of the cluster: a controller, a broker, or both. It has the parts, and calls them in the order of a turn."""

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
        self.storage = storage
        self.runtime = runtime = Runtime(config, random, log, stopwatch)
        self.channels = Channels(
            runtime.waiting.timers,
            lambda: runtime.now.mono_ms,
            f"rayft-{self.id}",
            lambda: self.quorum.leader_address(),
            DialLogins(config, random),
            log,
        )
        served = table.served(storage.family, config.is_pushed or config.pushes)
        self.requests = RequestChannel(runtime, config, served, self.channels.received, self.channels.lane)
        self.quorum = QuorumReplica(runtime, self.channels, storage, self.id)
        self.controller = self.broker = None
        if "controller" in config.roles:
            self.controller = ControllerRole(runtime, self.requests, self.channels, self.quorum, storage)
        if "broker" in config.roles:
            self.broker = BrokerRole(runtime, self.requests, self.channels, self.quorum, storage)
        self._roles: Sequence[Any] = [role for role in (self.controller, self.broker) if role is not None]
        self.quorum.attach(self._roles)
        self.dispatch = Dispatch(
            runtime,
            self.requests,
            self.channels,
            self.quorum,
            BrokerContext.of(runtime, self.requests, self.quorum, storage, self.broker),
            ControllerContext.of(runtime, self.requests, self.quorum, storage, self.controller),
        )
        if self.broker is not None:
            self.channels.ask_itself = OwnRequests(self.dispatch, served).ask
        self.sent = self.requests.connections.sent
        """Notes that the answers of the last turn have been handed to the kernel: (now, by the stopwatch)."""
        self._connected: deque[int] = deque()
        self._stopping = False
        self._data_waits = False
        """Whether the last turn has left the data lane to the next one."""
        self._talks_until_ms = 0
        """Until when a controller is expected to say more, by the monotonic clock."""
        self._active_controller = -1
        self._opened = False
        """Whether other nodes are listened to."""
        self._caught_up_ms = -BEHIND_MS
        """When the controller had last replayed all that is committed."""

    @property
    def id(self) -> int:
        """The number that this node has in the quorum: its controller id if it has that role, else its broker id."""
        return self.config.controller_id if "controller" in self.config.roles else self.config.broker_id

    # ---- inputs

    def start(self, now: Now) -> Effects:
        """Recover what is on the disk and begin. Raises what storage raises; nothing has been sent then."""
        self.runtime.now = now
        self.quorum.recover()
        for role in self._roles:
            role.start()
        self.dispatch.start()
        return self.turn(now, 0)

    def connected(
        self,
        conn: int,
        listener: str,
        peer_host: str,
        peer_port: int = 0,
        principal: str | None = None,
        good_for_ms: int = 0,
    ) -> None:
        """Take a connection that a peer has opened to `listener`, or a dial of ours that succeeded (`conn` below zero).
        `peer_port`: 0: not known. `principal`: the one that its certificate names. `good_for_ms`: how long the
        certificate is good; 0: not known."""
        if conn < 0:
            self._connected.append(conn)
        else:
            self.requests.connected(conn, listener, peer_host, peer_port, principal, good_for_ms)

    def closed(self, conn: int, refused: bool) -> None:
        """A connection is gone. `refused`: the peer's machine answered that nobody listens there."""
        self.requests.closed(conn, refused)

    def congested(self, conn: int, congested: bool) -> None:
        """The host has more for a peer than it should hold; or that is over. Its requests wait meanwhile."""
        self.requests.congested(conn, congested)

    def muted(self, conn: int) -> bool:
        """Whether a connection is not read because its client is over a quota."""
        connection = self.requests.connections.get(conn)
        return connection is not None and connection.muted

    def left(self, conn: int) -> None:
        """A peer has closed its connection, which is not read: what it has sent before may not be read yet."""
        self.requests.left(conn)

    def received(self, conn: int, frame: memoryview) -> bool:
        """One whole frame without its length. The buffer is the node's from now on.

        False: hand over nothing more of this connection before `Effects.resume` names it.
        """
        return self.requests.received(conn, frame)

    @property
    def controlled(self) -> bool:
        """Whether a controller has said something that this broker has not handled yet. False of a controller."""
        return self.controller is None and self.requests.queue.size(CONTROL) > 0

    def done(self, token: int, result: object) -> None:
        """A `Sync` or `Work` has ended; `result` is its value or the exception."""
        self.runtime.done(token, result)

    def happened(self, event: Event) -> None:
        """ZooKeeper says something by itself. Only of an active controller with a bridge."""
        if self.controller is not None and self.controller.bridge is not None:
            self.controller.bridge.happened(event)

    def took(self, spent_ns: int) -> None:
        """The last turn took so long, effects included. Told where that is `LONG_NS` or more."""
        self.runtime.steps.turn_took(self.runtime.waiting.last, spent_ns)

    def shutdown(self) -> None:
        """Stop in order: a broker first asks for its controlled shutdown, a leader hands over; then `Effects.stop`."""
        if not self._stopping:
            self._stopping = True
            if self.broker is not None:
                self.broker.shutdown()
            else:
                self.quorum.retire()

    # ---- the turn

    def turn(self, now: Now, budget: int) -> Effects:
        """Act on what has come. `budget`: nanoseconds that each lane may take; one request of each that runs is always
        handled."""
        runtime, requests, quorum = self.runtime, self.requests, self.quorum
        runtime.now = now
        requests.begin_turn()
        runtime.waiting.begin_turn(budget)
        quorum.begin_turn()
        runtime.complete()
        while self._connected:
            self.channels.connected(self._connected.popleft())
        controlled = requests.run_lane(CONTROL, self.dispatch.run, budget)
        requests.forget_closed(self.channels.closed)
        quorum.advance()
        self._follow_controller()
        runtime.waiting.expire(now.mono_ms)
        quorum.tick(now)
        self.channels.settle()
        for role in self._roles:
            role.tick(now)
        if controlled and self.controller is None:
            self._talks_until_ms = now.mono_ms + TALK_MS
            self._data_waits = not self._data_waits
        else:
            self._data_waits = False
        if not self._data_waits:
            talks = now.mono_ms < self._talks_until_ms
            requests.run_lane(DATA, self.dispatch.run, budget // 4 if talks else budget)
        if self.controller is not None:
            for batch in self.controller.flush():
                quorum.append(batch)
            if quorum.write_change():
                self.controller.passed(quorum.raft.log_end_offset)
        quorum.advance()
        if self.broker is not None:
            self.broker.append()
        answered = len(requests.connections.sends)
        self.dispatch.credentials.look()
        if runtime.waiting.run():
            # What has waited is answered first: a record reaches consumers before its producer hears that it is there.
            requests.connections.first(answered)
        for role in self._roles:
            role.end()
        if self.controller is not None and self.controller.image.next_offset >= quorum.raft.committed_offset:
            self._caught_up_ms = now.mono_ms
        if not (self._opened or quorum.loads):
            self._open()
        requests.end_turn()
        return self._effects()

    def value(self, name: str) -> Any:
        """A setting of this node as it is now: a broker's may have been changed since its start (KIP-226)."""
        return self.runtime.config.value(name) if self.broker is None else self.broker.cache.value(name)

    def lacks(self) -> str:
        """What this node lacks to do its work, in words; empty: nothing. A broker serves clients; a controller knows the
        leader of the quorum, and has replayed all that was committed some time in the last `BEHIND_MS`: while records keep
        coming it may lack the newest at any moment."""
        if self._stopping:
            return "it is stopping"
        if self.quorum.leader_id < 0:
            return "it knows no active controller"
        if self.controller is not None:
            if self.quorum.raft.told_high_watermark < 0:
                return "its controller has not heard from the active one yet"
            if self.quorum.raft.out_of_touch:
                return "its controller hears nothing of the active one"
            behind = self.quorum.raft.committed_offset - self.controller.image.next_offset
            if behind > 0 and self.runtime.now.mono_ms - self._caught_up_ms >= BEHIND_MS:
                return f"its controller is {behind} metadata records behind, and was so for {BEHIND_MS} ms"
        if self.broker is not None and not self.broker.availability.serving:
            return f"its broker serves no clients, its state is {self.broker.lifecycle.state.name}"
        return ""

    def metrics(self) -> list[Sample]:
        """What the node can be asked about itself, as of its last turn."""
        return samples(self.runtime, self.requests, self.quorum, self.controller, self.broker)

    def metric_parts(self) -> Iterator[Part]:
        """The metrics of the node, part by part; turns may come in between."""
        return parts(self.runtime, self.requests, self.quorum, self.controller, self.broker)

    def deadline_ms(self) -> int:
        """When the next turn is due if nothing comes; 0: at once."""
        if self.requests.queue.ready() or self.channels.unsettled:
            return 0
        due, quorum_ms = self.runtime.waiting.deadline_ms(), self.quorum.deadline_ms()
        if quorum_ms < due:
            due = quorum_ms
        for role in self._roles:
            role_ms = role.deadline_ms()
            if role_ms < due:
                due = role_ms
        return due

    # ---- inside

    def _open(self) -> None:
        """Listen to other nodes, once there is no snapshot to be loaded with which this process begins: before, this node
        knows no access rule, and would let in whom one shuts out."""
        self._opened = True
        for listener in self.config.listeners:
            if Listener(listener.kind) in ALWAYS_OPEN:
                self.requests.listen(listener.name)
        if self.broker is not None:
            self.broker.listen()

    def _follow_controller(self) -> None:
        leader = self.quorum.leader_id
        if leader >= 0 and leader != self._active_controller:
            self._active_controller = leader
            self.channels.controller_moved()

    def _effects(self) -> Effects:
        """What has gathered leaves; the next turn begins with nothing."""
        inbound, outbound = self.requests.taken(), self.channels.taken()
        listens = self.requests.taken_listens()
        syncs, works, downloads = self.runtime.taken()
        zookeeper = self.runtime.taken_zookeeper() if self.runtime.zookeeper else ()
        stop = self.runtime.stopped
        sends = [*outbound.sends, *inbound.sends] if outbound.sends else inbound.sends
        decided = (
            inbound.closes or inbound.pauses or inbound.resumes or inbound.known or outbound.dials or outbound.closes
        )
        if not (decided or listens or syncs or works or downloads or zookeeper or stop):
            return Effects(sends) if sends else NOTHING
        for conn in outbound.closes:
            self.requests.queue.drop(conn)
        return Effects(
            send=sends,
            sync=syncs,
            work=works,
            dial=outbound.dials,
            listen=[name for name, keep in listens.items() if keep],
            turn_away=[name for name, keep in listens.items() if not keep],
            close=[*outbound.closes, *inbound.closes],
            pause=inbound.pauses,
            resume=inbound.resumes,
            download=downloads,
            known=inbound.known,
            zookeeper=zookeeper,
            stop=stop,
        )
