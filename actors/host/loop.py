"""The loop that gives one node its sockets, clocks, disk and threads.

    sockets and completions of one poll -> both clocks once -> node.turn -> effects in their order -> sleep

This file alone decides when a node's turn runs: once after each poll that brought anything, and at the node's deadline.
What arrives is handed to the node at once and handled in that turn. The loop never looks into a frame.
"""

import asyncio
import contextlib
import math
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import uvloop

from actors.host.net.client import dial
from actors.host.net.handshakes import AGAIN_S as ADMIT_AGAIN_S
from actors.host.net.handshakes import HANDSHAKE_BYTES, UNDER_WAY, Handshakes
from actors.host.net.link import Link, Reader
from actors.host.net.read_budget import ReadBudget
from actors.host.net.server import Listeners, PortTaken
from actors.host.net.tls import HANDSHAKE_TIMEOUT_S, SHUTDOWN_TIMEOUT_S, Contexts, Peer, Tls, reason
from actors.host.net.tls_link import TlsLink, accepted
from actors.host.net.zookeeper_connection import Door
from actors.host.storage import unusable
from actors.host.work.garbage import set_aside
from actors.host.work.kernel import give_back_memory
from actors.host.work.shortages import AGAIN_S
from actors.host.work.syncs import Syncs
from actors.host.work.time_slice import SHORT_NS, ask_for
from actors.host.work.workers import HELD_BYTES_MAX
from actors.node.api.forwarding import CONTROLLER_REQUEST_BYTES_MAX
from actors.node.metrics.family import GAUGE, Family, Sample
from actors.node.metrics.partitions import Columns
from actors.node.net.request_channel import REQUEST_BYTES_MAX
from actors.node.runtime.answers import MORE_MEMORY
from actors.node.runtime.effects import NOTHING, Dial, Effects, Stop
from actors.node.runtime.steps import LONG_NS
from actors.ports import DiskFailed, DiskFull, Now
from actors.ports.zookeeper import Event as ZooKeeperEvent
from actors.settings.node_config import NodeConfig

if TYPE_CHECKING:
    from actors.node.node import Node
    from actors.node.runtime.runtime import Log

BUDGET_NS = 4_000_000
"""The time that each lane may take of a turn. What is left waits for the next turn. Sockets are read between turns
only; heartbeats are sent and timers run within each turn."""
CONTROL_PARTIAL_BYTES_MAX = 64 << 20
"""The memory for unfinished frames on controllers' listeners, and on the control-plane listener."""
LATE_EVERY_S = 0.1
LOOK_FOR_ENDS_S = 1.0
NOTE_EVERY_NS = 1_000_000_000
"""How often the share of idle time is looked at."""
SWITCH_INTERVAL_S = 1e-4
STOP_TIMEOUT_S = 2.0
ACCEPT_AGAIN_S = 0.2
ANSWER_BYTES_MAX = (1 << 31) - 1
METRICS_TIMEOUT_S = 10.0
METRICS_SLICE_NS = 1_000_000
IDLE = Family(
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    GAUGE,
    "The share of the last minute in which no socket of clients was read, 0 to 1.",
    (),
    "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent",
)
PLANE_IDLE = Family(
    "kafka_network_socketserver_controlplanenetworkprocessoravgidle_percent",
    GAUGE,
    "The same of the control-plane listener; NaN without one.",
    (),
    "KIP-291: SocketServer,name=ControlPlaneNetworkProcessorAvgIdlePercent",
)
PLANE_ANSWERS = Family(
    "kafka_network_requestchannel_controlplaneresponsequeuesize",
    GAUGE,
    "Answers of the control-plane listener that the kernel has not taken.",
    (),
    "KIP-291: RequestChannel,name=ControlPlaneResponseQueueSize",
)
TLS = Family(
    "kafka_server_socket_server_metrics_connections_tls_info",
    GAUGE,
    "Open connections with TLS, by what they speak.",
    ("listener", "cipher", "protocol", "networkProcessor"),
    "kafka.server:type=socket-server-metrics,cipher=X,protocol=X,listener=X,networkProcessor=0,name=connections",
)
OF_SOCKETS = (IDLE, PLANE_IDLE, PLANE_ANSWERS, TLS)
Parts = list[Sample | Columns]


class TlsArrival:
    """A connection to a listener that speaks TLS, until its handshake is over."""

    __slots__ = ("host", "link", "sock", "task")

    def __init__(self, link: Link, sock: socket.socket) -> None:
        self.link = link
        self.host = link.peer_host
        self.sock = sock
        self.task: asyncio.Task[None] | None = None
        """The task of the loop; None: it is not running."""


class Withheld(NamedTuple):
    """What a node that is cut off the network has wanted of it, in order."""

    sends: list[tuple[int, Any]]
    dials: list[Dial]
    closes: list[Link]


T = TypeVar("T")
Event = Callable[[str, str], None]
"""`event(what, listener name or "")`; `what` is started, listening or refusing."""


def nobody(what: str, listener: str) -> None:
    """An `Event` that does nothing."""


stopwatch = time.monotonic_ns
"""Nanoseconds, to measure how long a turn has taken. A name of the function itself: every request asks for it."""


def clocks() -> Now:
    """The time on both clocks, in milliseconds."""
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Loop:
    """Runs one node until it stops. There is one in each process (or, under Ray, in a thread)."""

    def __init__(self, config: NodeConfig, listeners: Listeners, log: "Log", tls: Contexts | None = None) -> None:
        self._listeners = listeners
        self._log = log
        self._tls = tls if tls is not None else Contexts(config, log)
        self._handshakes: dict[bool, Handshakes[TlsArrival]] = {limited: Handshakes() for limited in (False, True)}
        """By whether max.connections applies to the listener: clients keep no controller from another."""
        self._doors_watched: set[bool] = set()
        """The doors for which a call of `_admit` is scheduled."""
        self._frame_bytes_max = config.value("socket.request.max.bytes")
        self._login_bytes_max = config.value("sasl.server.max.receive.size")
        self._ask = {name for name, security in config.security.items() if security.mechanisms}
        """The listeners on which a peer has to log in."""
        self._idle_ms = config.value("connections.max.idle.ms")
        self._only_controls = "broker" not in config.roles
        """Whether the node is a controller and nothing else. Such a one does little, and everybody waits for it: its loop is
        to be woken at once (`time_slice.py`)."""
        self._loop = uvloop.new_event_loop()
        self._create_task = self._loop.create_task
        self._syncs = Syncs(self._wake)
        self._door = Door(self._syncs.ended, self._happened)
        self._node: Node
        self._links: dict[int, Link] = {}
        self._open: set[str] = set()
        """Listeners whose connections are kept."""
        self._answering: set[str] = set()
        """Listeners whose port does not refuse connections. Invariant: holds all of `_open`."""
        self._crowded: set[str] = set()
        """Listeners whose connections wait for file descriptors."""
        self._beside: list[tuple[str, Callable[[], int], str]] = []
        """Others of this process that keep something for peers."""
        self._congested: dict[Link, None] = {}
        """The connections whose peers do not read."""
        self._waiting = False
        """Whether a call of `_go_on` is scheduled."""
        self._watching = False
        """Whether a call of `_close_late` is scheduled."""
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._speaking: dict[tuple[str, str, str], int] = {}
        """How many connections of peers speak TLS, by listener, cipher and protocol."""
        self._dialled: dict[int, Tls] = {}
        """The TLS of connections that this node has dialled."""
        queued_max = config.value("queued.max.request.bytes")
        self._budget = ReadBudget()
        self._data = Reader(queued_max if queued_max > 0 else REQUEST_BYTES_MAX, self._budget)
        self._control = Reader(CONTROL_PARTIAL_BYTES_MAX)
        self._plane = config.control_plane_listener
        self._plane_reader = Reader(CONTROL_PARTIAL_BYTES_MAX)
        """The reader of the control-plane listener and of nothing else (KIP-291)."""
        self._next_conn = 1
        self._withheld: Withheld | None = None
        """The wishes of the node while it is cut off the network; None: it is not."""
        self._ahead_ms = 0
        """How far the node's time of day is ahead of the true one."""
        self._due = False
        self._passing = False
        """Whether a call of `_pass` is scheduled."""
        self._note_ns = 0
        """When the share of idle time is looked at next."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._began = self._unwanted = False
        """Whether the loop has its node, and whether the node's end was asked for before that."""
        self._stop: Stop | None = None
        self._awaited: list[Future[Any]] = []
        """Metrics that other threads wait for. Invariant: none is left waiting when the loop is closed."""
        self._event: Event = nobody

    def run(self, make: Callable[[], "Node"], event: Event = nobody) -> Stop:
        """Make the node, start it, run it until it stops, and tell `event` about it."""
        self._event = event
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        if self._only_controls:
            ask_for(SHORT_NS)
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.call_soon(self._begin, make)
            self._loop.run_forever()
            assert self._stop is not None
            return self._stop
        finally:
            self.close()
            asyncio.set_event_loop(None)

    def close(self) -> None:
        """Give back everything that the loop has taken, whether it has run or not. May be called more than once."""
        self._door.close()
        self._syncs.close()
        self._listeners.close()
        self._loop.close()
        for found in list(self._awaited):  # nothing comes to these any more
            found.cancel()

    def every_second(self, function: Callable[[], None]) -> None:
        """Call `function` about once a second while the loop runs."""

        def again() -> None:
            function()
            self._loop.call_later(1.0, again)

        self._loop.call_later(1.0, again)

    def shutdown(self) -> None:
        """Ask the node for a controlled shutdown. Safe from any thread, at any time."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._shutdown)

    def metrics(self) -> Parts:
        """Every metric of the node and of its sockets. For other threads. Empty when the loop has ended or does not
        answer in time."""
        return self._asked(lambda found: self._collect(found, self._metrics(), [])) or []

    def lacks(self) -> str | None:
        """What the node lacks to do its work, in words; empty: nothing. For other threads. None when the loop has ended
        or does not answer in time."""

        def look(found: "Future[str]") -> None:
            if found.set_running_or_notify_cancel():
                found.set_result(self._node.lacks() if self._began else "it is starting")

        return self._asked(look)

    def _asked(self, ask: "Callable[[Future[T]], None]") -> T | None:
        """What the loop's thread answers to another one; None: it does not answer in time, or has ended."""
        found: Future[T] = Future()
        self._awaited.append(found)
        try:
            self._loop.call_soon_threadsafe(ask, found)
            return found.result(METRICS_TIMEOUT_S)
        except (RuntimeError, TimeoutError, CancelledError):
            found.cancel()  # nobody goes on with it
            return None
        finally:
            self._awaited.remove(found)

    def _collect(self, found: "Future[Parts]", parts: Iterator[Parts], samples: Parts) -> None:
        """Put metrics together for a millisecond, then let a turn run."""
        until_ns = stopwatch() + METRICS_SLICE_NS
        for part in parts:
            samples += part
            if stopwatch() >= until_ns:
                if not found.cancelled():
                    self._loop.call_soon(self._collect, found, parts, samples)
                return
        if found.set_running_or_notify_cancel():
            found.set_result(samples)

    def _metrics(self) -> Iterator[Parts]:
        if self._began:
            yield from self._node.metric_parts()
            yield self._of_sockets()

    def _own(self) -> None:
        """Say what is kept here for peers."""
        ledger, syncs = self._node.runtime.ledger, self._syncs
        readers = {reader.room: None for reader in (self._data, self._control, self._plane_reader)}
        ledger.owner("UnfinishedRequests", lambda: sum([room.held for room in readers]), "queued.max.request.bytes")
        ledger.owner(
            "AnswersInSockets",
            lambda: sum([link.unsent_bytes() for link in self._congested]),
            "one answer a connection",
        )
        ledger.owner(
            "Handshakes",
            lambda: HANDSHAKE_BYTES * sum([door.under_way for door in self._handshakes.values()]),
            f"{2 * UNDER_WAY} handshakes",
        )
        for name, bytes_kept, bounded_by in self._beside:
            ledger.owner(name, bytes_kept, bounded_by)
        ledger.owner("WaitingJobs", lambda: syncs.held_bytes, f"{HELD_BYTES_MAX >> 20} MiB a kind")

    def own(self, name: str, bytes_kept: Callable[[], int], bounded_by: str) -> None:
        """Let somebody beside the loop say what it keeps for peers, before the loop runs."""
        self._beside.append((name, bytes_kept, bounded_by))

    def _of_sockets(self) -> Parts:
        at_ns = stopwatch()
        there = self._plane is not None
        idle = self._plane_reader.idle.share(at_ns) if there else math.nan
        found: Parts = [Sample(IDLE, (), self._data.idle.share(at_ns)), Sample(PLANE_IDLE, (), idle)]
        if there:
            unsent = sum(link.unsent() for link in self._links.values() if link.reader is self._plane_reader)
            found.append(Sample(PLANE_ANSWERS, (), unsent))
        found += [Sample(TLS, (*key, "0"), number) for key, number in self._speaking.items()]
        return found

    def signals(self) -> None:
        """Let SIGTERM and SIGINT begin the shutdown, and SIGHUP unless nohup has disabled it. Main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._loop.add_signal_handler(number, self._shutdown)

    def on_signal(self, number: int, function: Callable[[], None]) -> None:
        """Call `function` when the signal comes. Main thread only."""
        self._loop.add_signal_handler(number, function)

    def suffer(self, cut: bool, ahead_ms: int) -> None:
        """Let the node be cut off the network, or no more, and its time of day be ahead by so much: faults, by which others
        test what they have built. What was sent meanwhile, either way, arrives when the network is whole again."""
        self._ahead_ms = ahead_ms
        if cut and self._withheld is None:
            self._withheld = Withheld([], [], [])
            for name in self._answering:
                self._loop.remove_reader(self._listeners.fileno(name))
            for link in list(self._links.values()):
                link.cut_off(True)
        elif not cut and self._withheld is not None:
            held, self._withheld = self._withheld, None
            for name in self._answering:
                self._watch(name)
            for conn, parts in held.sends:
                if conn in self._links:
                    self._links[conn].send(parts)
            for wanted in held.dials:
                self._begin_dial(wanted)
            for link in held.closes:
                link.close()
            for link in list(self._links.values()):
                link.cut_off(False)
        if self._began:
            self._schedule()

    # ---- turns

    def _begin(self, make: Callable[[], "Node"]) -> None:
        try:
            self._node = make()
            effects = self._node.start(clocks())
        except (DiskFull, DiskFailed) as error:
            self._end(Stop(1, unusable(error)))
            return
        except Exception as error:
            self._fail(error)
            return
        self._began = True
        self._own()
        set_aside()
        for descriptor in self._syncs.filenos():
            self._loop.add_reader(descriptor, self._drain)
        if self._idle_ms > 0:
            self._loop.call_later(self._idle_ms / 2000, self._sweep)
        self._loop.call_later(LOOK_FOR_ENDS_S, self._look_for_ends)
        self._event("started", "")
        try:
            self._perform(effects)
        except Exception as error:
            self._fail(error)
            return
        self._schedule()
        if self._unwanted:
            self._shutdown()

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._due = False
        if self._stop is not None:
            return
        at_ns = time.monotonic_ns()
        if at_ns >= self._note_ns:
            self._note_ns = at_ns + NOTE_EVERY_NS
            self._plane_reader.idle.note(at_ns)
            self._data.idle.note(at_ns)
        try:
            wall_ms = time.time_ns() // 1_000_000 + self._ahead_ms
            effects = self._node.turn(Now(at_ns // 1_000_000, wall_ms), BUDGET_NS)
            if effects is not NOTHING:
                self._perform(effects)
            deadline = self._node.deadline_ms()
        except Exception as error:
            self._fail(error)
            return
        ended_ns = time.monotonic_ns()
        if effects.send:
            self._node.sent(ended_ns)
        if ended_ns - at_ns >= LONG_NS:
            self._node.took(ended_ns - at_ns)
        now = ended_ns // 1_000_000
        if deadline <= now:
            self._schedule()
        elif self._timer is None or deadline < self._timer_ms or self._timer_ms <= now:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = deadline
            self._timer = self._loop.call_later((deadline - now) / 1000, self._expired)

    def _expired(self) -> None:
        self._timer = None
        self._schedule()

    def _shutdown(self) -> None:
        if not self._began:
            self._unwanted = True
        elif self._stop is None:
            self._node.shutdown()
            self._schedule()

    def _fail(self, error: Exception) -> None:
        """A bug, or storage that cannot be used: the process ends, and its supervisor decides what follows."""
        self._log.error("".join(traceback.format_exception(error)).rstrip())
        self._end(Stop(1, f"{type(error).__name__}: {error}"))

    # ---- effects

    def _perform(self, effects: Effects) -> None:
        links = self._links
        if self._withheld is not None:
            self._withheld.sends.extend(effects.send)
        for conn, parts in effects.send if self._withheld is None else ():
            link = links.get(conn)
            if link is not None:
                link.active = True
                link.send(parts)
                if link.reader is self._plane_reader:
                    link.wrote(sum(map(len, parts)))
        if not any(effects[1:]):
            return
        for sync in effects.sync:
            self._syncs.submit(sync)
        if self._syncs.lacks:
            self._again()
        for work in effects.work:
            self._syncs.work(work)
        for document in effects.download:
            self._syncs.download(document)
        for request in effects.zookeeper:
            self._door.perform(request)
        for wanted in effects.dial:
            if self._withheld is None:
                self._begin_dial(wanted)
            else:
                self._withheld.dials.append(wanted)
        for name in effects.listen:
            self._listen(name)
        for name in effects.turn_away:
            self._answer(name)
            if name in self._open:
                self._open.remove(name)
                self._event("refusing", name)
        for conn in effects.known:
            if conn in links:
                links[conn].frame_bytes_max = self._bytes_max(links[conn].listener)
        for conn in effects.close:
            self._close(conn)
        for conn in effects.pause:
            if conn in links:
                links[conn].pause(True)
        for conn in effects.resume:
            if conn in links:
                links[conn].pause(False)
        if effects.stop is not None:
            self._end(effects.stop)

    def _listen(self, name: str) -> None:
        """Keep the connections of a listener. The node may ask again for one that is open."""
        if name not in self._open and self._answer(name):
            self._open.add(name)
            self._event("listening", name)

    def _answer(self, name: str) -> bool:
        """Let a port accept connections from now on. False if it cannot."""
        if name not in self._answering:
            try:
                self._listeners.listen(name)
            except PortTaken as error:
                self._end(Stop(1, str(error)))
                return False
            self._answering.add(name)
            self._watch(name)
        return True

    def _begin_dial(self, wanted: Dial) -> None:
        self._dials[wanted.conn] = self._loop.create_task(self._dial(wanted), name=f"dial-{wanted.host}:{wanted.port}")

    async def _dial(self, wanted: Dial) -> None:
        def make(address: str) -> Link:
            return Link(self, self._control, wanted.conn, "", ANSWER_BYTES_MAX, address)

        tls = self._tls.get(wanted.listener)
        if tls is not None:
            self._dialled[wanted.conn] = tls
        trusted = tls.trusted if tls is not None else None
        refused = await dial(wanted.host, wanted.port, make, tls.client if tls is not None else None)
        self._dials.pop(wanted.conn, None)
        if refused is not None:
            self._dialled.pop(wanted.conn, None)
            self._node.closed(wanted.conn, refused)
            self._schedule()
        elif tls is not None and tls.trusted != trusted:  # the authorities were read again during the handshake
            self.distrust([tls])

    def _close(self, conn: int) -> None:
        """The node closes a connection, so it is not told when the connection is gone."""
        if (task := self._dials.pop(conn, None)) is not None:
            task.cancel()
        self._dialled.pop(conn, None)
        if self._withheld is not None:
            self._withheld.dials[:] = [one for one in self._withheld.dials if one.conn != conn]
        if (link := self._links.pop(conn, None)) is not None:
            self._forget(link)
            if self._withheld is None:
                link.close()
            else:
                self._withheld.closes.append(link)

    def _end(self, stop: Stop) -> None:
        """Hand what was sent to the kernel, then end the loop."""
        if self._stop is not None:
            return
        self._stop = stop
        for task in self._dials.values():
            task.cancel()
        for door in self._handshakes.values():
            for arrival in door.give_up():
                self._turn_away(arrival)
        for link in self._links.values():
            link.close()
        until = self._loop.time() + STOP_TIMEOUT_S
        self._loop.call_soon(self._leave, until)

    def _leave(self, until: float) -> None:
        if self._links and self._loop.time() < until:
            self._loop.call_later(0.001, self._leave, until)
        else:
            self._loop.stop()

    # ---- connections: `link.LinkOwner`

    def _accept(self, name: str) -> None:
        if self._listeners.accept(name, self._accepted):
            self._crowded.discard(name)
            return
        # The port stays ready as long as a connection waits, and looking at it again and again would take all the
        # loop's time.
        if name not in self._crowded:
            self._crowded.add(name)
            self._log.warning(f"connections to {name} wait until there are descriptors again: raise ulimit -n.")
        self._loop.remove_reader(self._listeners.fileno(name))
        self._loop.call_later(ACCEPT_AGAIN_S, self._watch, name)

    def _watch(self, name: str) -> None:
        if self._withheld is None:
            self._loop.add_reader(self._listeners.fileno(name), self._accept, name)

    def _accepted(self, sock: socket.socket, listener: str, host: str) -> None:
        if listener not in self._open:
            sock.close()
            return
        limited = self._listeners.limited(listener)
        if self._stop is not None or (limited and not self._takes(host, listener)):
            sock.close()
            return
        conn, self._next_conn = self._next_conn, self._next_conn + 1
        reader = self._data if limited else self._plane_reader if listener == self._plane else self._control
        frame_bytes_max = self._bytes_max(listener)
        if listener in self._ask:
            frame_bytes_max = min(frame_bytes_max, self._login_bytes_max)
        kind = Link if self._tls.get(listener) is None else TlsLink
        link = kind(self, reader, conn, listener, frame_bytes_max, host)
        link.counted = limited
        if self._tls.get(listener) is None:
            self._create_task(self._adopt(link, sock), name=self._called(link))
            return
        turned_away = self._handshakes[limited].arrive(TlsArrival(link, sock), time.monotonic())
        if turned_away is not None:
            self._log.warning(
                f"closed a connection of {turned_away.host} to {listener}: too many wait for a TLS handshake"
            )
            self._turn_away(turned_away)
        if limited not in self._doors_watched:
            self._doors_watched.add(limited)
            self._loop.call_soon(self._admit, limited)

    def _called(self, link: Link) -> str:
        """The name of the task that makes a connection."""
        plane = "data" if self._listeners.limited(link.listener) else "control"
        return f"{plane}-plane-{link.listener}-{link.conn}"

    def _admit(self, limited: bool) -> None:
        """Begin the handshakes whose turn it is, as long as any wait."""
        door = self._handshakes[limited]
        verdict = door.verdict(time.monotonic())
        for one in verdict.close:
            self._log.warning(
                f"closed a connection of {one.host} to {one.link.listener}: its TLS handshake lasts, and others wait"
            )
            self._turn_away(one)
        for one in verdict.begin:
            one.task = self._create_task(self._adopt(one.link, one.sock, one), name=self._called(one.link))
        if door.waits:
            self._loop.call_later(ADMIT_AGAIN_S, self._admit, limited)
        else:
            self._doors_watched.discard(limited)

    def _turn_away(self, arrival: TlsArrival) -> None:
        """Close a connection that waits, or whose handshake is under way."""
        if arrival.task is not None:
            arrival.task.cancel()
            return
        arrival.sock.close()
        self._forget(arrival.link)

    def _takes(self, host: str, listener: str) -> bool:
        value = self._node.value
        return self._listeners.limits.take(
            host,
            value("max.connections"),
            value("max.connections.per.ip"),
            protected=self._listeners.protected(listener),
        )

    def _bytes_max(self, listener: str) -> int:
        """The largest request of a peer that is known."""
        if self._listeners.limited(listener):
            return int(self._frame_bytes_max)
        return min(int(self._frame_bytes_max), CONTROLLER_REQUEST_BYTES_MAX)

    async def _adopt(self, link: Link, sock: socket.socket, arrival: TlsArrival | None = None) -> None:
        tls = self._tls.get(link.listener)
        limited = self._listeners.limited(link.listener)
        try:
            if tls is None:
                await self._loop.connect_accepted_socket(lambda: link, sock)
            else:
                accepted.set(sock)
                await self._loop.connect_accepted_socket(
                    lambda: link,
                    sock,
                    ssl=tls.server,
                    ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except (OSError, asyncio.CancelledError) as error:
            if isinstance(error, OSError) and tls is not None:
                self._log.warning(f"no TLS with {link.peer_host} on {link.listener}: {reason(error)}")
            sock.close()
            if not link.open:  # one that is open is counted until it is lost
                self._forget(link)
        finally:
            if arrival is not None and self._handshakes[limited].over(arrival):
                _ = self._loop.run_in_executor(None, give_back_memory)

    def opened(self, link: Link) -> None:
        """A connection is open. The node is told, unless it is about to stop or has given up the dial."""
        if self._stop is not None or (link.conn < 0 and link.conn not in self._dials):
            link.abort()
            return
        try:
            peer = self._peer(link)
        except ValueError as error:
            self._log.warning(f"closed a connection of {link.peer_host} to {link.listener}: {error}")
            link.abort()
            return
        self._links[link.conn] = link
        if self._withheld is not None:
            link.cut_off(True)
        if isinstance(link, TlsLink):
            cipher = link.transport.get_extra_info("cipher") or ("", "")
            link.speaks = (link.listener, str(cipher[0]), str(cipher[1]))
            self._speaking[link.speaks] = self._speaking.get(link.speaks, 0) + 1
        principal, good_for_ms = peer or (None, 0)
        self._node.connected(link.conn, link.listener, link.peer_host, link.peer_port, principal, good_for_ms)
        self._schedule()

    def _peer(self, link: Link) -> Peer | None:
        """The peer that a certificate names; None: none was shown. Raises ValueError if the certificate is over or not
        trusted."""
        tls = self._tls.get(link.listener) if link.conn > 0 else None
        if tls is None:
            return None
        shown = link.transport.get_extra_info("ssl_object")
        peer = tls.peer(shown, logs_in=link.listener in self._ask)
        if peer is not None and peer.good_for_ms <= 0:
            if shown.context is tls.server:  # else that has been done since this handshake began
                tls.forget_sessions()
            raise ValueError(f"the certificate of {peer.principal} is over")
        if peer is not None and shown.context is not tls.server:  # the authorities were read again during the handshake
            shows = shown.getpeercert(binary_form=True)
            if not tls.issued([shows]):
                raise ValueError(f"no authority that is trusted now has issued the certificate of {peer.principal}")
        return peer

    def distrust(self, changed: Iterable[Tls]) -> None:
        """Close the connections whose certificate was not issued by an authority that is trusted now. Signatures take time,
        which another thread has."""
        for tls in changed:
            shown: dict[int, bytes] = {}
            for conn, link in self._links.items():
                own = self._dialled.get(conn) if conn < 0 else self._tls.get(link.listener)
                peer = link.transport.get_extra_info("ssl_object") if own is tls else None
                data = peer.getpeercert(binary_form=True) if peer is not None else None
                if data is not None:
                    shown[conn] = data
            if shown:
                asked = asyncio.ensure_future(
                    self._loop.run_in_executor(None, tls.issued, set(shown.values())), loop=self._loop
                )
                asked.add_done_callback(partial(self._close_distrusted, shown))

    def _close_distrusted(self, shown: Mapping[int, bytes], issued: "asyncio.Future[set[bytes]]") -> None:
        for conn, data in shown.items():
            link = self._links.get(conn)
            if data not in issued.result() and link is not None:
                self._log.warning(
                    f"closed the connection of {link.peer_host}{' on ' if link.listener else ''}{link.listener}: the "
                    f"authority of its certificate is not trusted any more"
                )
                link.abort()

    def received(self, conn: int, frame: memoryview) -> bool:
        """Hand a whole frame to the node. Returns whether the node takes another one now."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._turn)
        more = self._node.received(conn, frame)
        if self._node.controlled:
            self._budget.hurry()
        return more

    def stands(self, link: Link) -> None:
        """A connection has brought its share: another pass begins before the next poll."""
        if not self._passing:
            self._passing = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self._passing = self._budget.renew()
        if self._passing:
            self._loop.call_soon(self._pass)

    def congested(self, link: Link, congested: bool) -> None:
        """A peer does not read what it is sent, or reads again."""
        if congested:
            self._congested[link] = None
        else:
            self._congested.pop(link, None)
        self._node.congested(link.conn, congested)
        if not congested and self._began:
            self._schedule()

    def lost(self, link: Link) -> None:
        """A connection is gone, closed by the peer or by an error."""
        self._forget(link)
        self._dialled.pop(link.conn, None)
        self._congested.pop(link, None)
        if self._links.pop(link.conn, None) is not None and self._stop is None:
            self._node.closed(link.conn, False)
            self._schedule()

    def no_memory(self, link: Link, size: int) -> None:
        """The system gives no memory for a peer's frame."""
        self._log.warning(
            f"closed the connection of {link.peer_host} on {link.listener}: no memory is left for a frame of {size} bytes;"
            f" {MORE_MEMORY}"
        )
        self._loop.call_soon(link.abort)

    def too_large(self, link: Link, size: int) -> None:
        """A peer begins a frame that it may not send."""
        why = f"a frame of {size} bytes; 0 to {link.frame_bytes_max} are allowed"
        if link.frame_bytes_max < size <= self._bytes_max(link.listener):
            why += " to a peer that has not logged in (sasl.server.max.receive.size: raise it if clients show longer tokens)"
        self.malformed(link, why)

    def malformed(self, link: Link, why: str) -> None:
        """The peer has sent bytes that are not a frame of Kafka's protocol."""
        self._log.warning(
            f"closed the connection of {link.peer_host}{' on ' if link.listener else ''}{link.listener}: {why}"
        )
        link.abort()

    def waits(self, link: Link) -> None:
        """A frame waits for room. From now on the frames that hold it must arrive in time."""
        if not self._watching:
            self._watching = True
            self._loop.call_later(LATE_EVERY_S, self._close_late)

    def _close_late(self) -> None:
        now_ms = time.monotonic_ns() // 1_000_000
        rooms = [reader.room for reader in (self._data, self._control, self._plane_reader)]
        for room in rooms:
            for link, size in room.late(now_ms):
                assert isinstance(link, Link)
                self.malformed(link, f"a request of {size} bytes does not arrive, and others wait for its memory")
        self._watching = any(room.waits() for room in rooms)
        if self._watching:
            self._loop.call_later(LATE_EVERY_S, self._close_late)

    def muted(self, link: Link) -> bool:
        """Whether the client of a connection is over its quota, so that it is not read."""
        return self._node.muted(link.conn)

    def _forget(self, link: Link) -> None:
        """Stop counting a connection. Whatever ends a connection calls this, and the first call counts."""
        if link.counted:
            link.counted = False
            self._listeners.limits.give(link.peer_host)
        if link.speaks is not None:
            left = self._speaking[link.speaks] - 1
            if left:
                self._speaking[link.speaks] = left
            else:
                del self._speaking[link.speaks]
            link.speaks = None

    def _sweep(self) -> None:
        """Close connections that were silent over two sweeps. It runs twice in the allowed idle time."""
        for link in list(self._links.values()):
            if link.conn > 0 and link.idle():
                link.abort()  # close() would wait for a peer that reads nothing
        self._loop.call_later(self._idle_ms / 2000, self._sweep)

    def _look_for_ends(self) -> None:
        """Tell the node of connections that it does not read and that their peers have closed."""
        found: dict[int, Link] = {}
        looked = select.poll()
        for link in self._links.values():
            if link.conn > 0 and link.unread() and not link.left:
                sock = link.transport.get_extra_info("socket")  # None: TLS has ended, and the link hears of it soon
                descriptor = -1 if sock is None else sock.fileno()
                if descriptor >= 0:
                    found[descriptor] = link
                    looked.register(descriptor, select.POLLRDHUP)
        for descriptor, _ in looked.poll(0) if found else ():
            link = found[descriptor]
            link.left = True
            self._node.left(link.conn)
            self._schedule()
        self._loop.call_later(LOOK_FOR_ENDS_S, self._look_for_ends)

    def _happened(self, event: ZooKeeperEvent) -> None:
        """ZooKeeper says something by itself. Called by a thread of its client."""

        def tell() -> None:
            if self._stop is None:
                self._node.happened(event)
                self._schedule()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(tell)

    # ---- completions

    def _wake(self) -> None:
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        for token, result in self._syncs.drain():
            self._node.done(token, result)
        if self._syncs.lacks:
            self._again()
        self._schedule()

    def _again(self) -> None:
        """Drain soon, because files wait for descriptors that nobody has promised."""
        if not self._waiting:
            self._waiting = True
            self._loop.call_later(AGAIN_S, self._go_on)

    def _go_on(self) -> None:
        self._waiting = False
        self._drain()
