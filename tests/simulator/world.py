"""The third host, for whole nodes exactly as `actors.node` composes them, on a virtual clock, network and disk.

One heap of events decides everything, so a seed replays a world exactly. Rules:

1. Time is virtual microseconds. A node sees milliseconds, as from its own clocks.
2. A connection delivers in order, with a delay drawn for each frame. Faults act on links (pairs of processes), never on
   frames in the middle of a connection: a real TCP connection is cut or stalls, but loses no bytes in between.
3. Sync and work end later than they begin. A job runs at the end of its virtual time.
4. Nothing here is ordered by a set or by an id of the interpreter. `digest` covers every input of every process: two
   runs of a seed have the same one.
"""

import contextlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from zlib import crc32

from actors.metadata.image import Image
from actors.node.node import Node
from actors.node.runtime.effects import Effects
from actors.node.runtime.storage import Storage
from actors.ports import DiskFailed, DiskFull, Now, Sync, SyncClass, to_end
from tests.served import TABLE
from tests.simulator.disk import VirtualDisk

EPOCH_WALL_MS = 1_600_000_000_000
TURN_BUDGET_NS = 4_000_000
READING_NS = (1_000, 60_000)
"""How much a node's stopwatch moves from one reading to the next: a turn handles at least 67 requests of each lane."""
SYNC_US = (80, 600)
"""How long a sync takes."""
WORK_US = (100, 3_000)
"""How long a job takes."""
STALLS = 16
"""Where threads are held up, one job in so many is."""
HERE = "127.0.0.1"
"""The address of every process, and of clients without one of their own."""
RESEND_US, RESEND_US_MAX = 50_000, 3_200_000
"""The wait of a sender whose bytes do not get through before it tries again. It doubles with each try, up to the
limit."""

API_NAMES = {key: api.name for (_, key), api in TABLE.items()}


class SeededRandom:
    """The Random port over the world's generator."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def below(self, n: int) -> int:
        return self._generator.randrange(n)

    def uuid(self) -> bytes:
        while True:
            data = bytearray(self._generator.randbytes(16))
            data[6] = data[6] & 0x0F | 0x40
            data[8] = data[8] & 0x3F | 0x80
            if data[0] >> 2 != 62 and any(data[:15]):
                return bytes(data)


class Lines:
    """The Log port of a node: the world keeps the lines, with virtual time."""

    def __init__(self, world: "World", name: str) -> None:
        self._world = world
        self._name = name

    def info(self, text: str) -> None:
        self._world.say(self._name, text)

    def warning(self, text: str) -> None:
        self._world.say(self._name, f"WARN {text}")

    def error(self, text: str) -> None:
        self._world.say(self._name, f"ERROR {text}")
        self._world.errors.append(f"{self._name}: {text}")


class Stopwatch:
    """Nanoseconds that pass with each reading, from a random stream of its own: the seed decides where turns end."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}-stopwatch-{name}")
        self._ns = 0

    def __call__(self) -> int:
        self._ns += self._random.randint(*READING_NS)
        return self._ns


class Process:
    """A process of the world: a node, its disk, its connections. `life` grows with every start. Events of an older life
    are dropped."""

    def __init__(self, world: "World", name: str, config: Any, storage: Callable[[VirtualDisk], Storage]) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.disk = VirtualDisk()
        """The disk of the first log directory, which holds the metadata log."""
        self.more: list[VirtualDisk] = []
        """The disks of the other log directories."""
        self._storage = storage
        self.node: Node | None = None
        self.life = 0
        self.frozen = False
        self.stopped_with: tuple[int, str] | None = None
        self.wall_ms = EPOCH_WALL_MS
        """What its wall clock showed at the world's beginning. A jump of the clock changes it."""
        self.listening: set[str] = set()
        """Listeners whose connections are kept."""
        self.answering: set[str] = set()
        """Listeners whose port does not refuse connections."""
        self.peers: dict[int, Link] = {}
        self.principal: str | None = None
        """The principal that the process's certificate names to peers that it dials; None: it shows none."""
        self.fruitless = 0
        """The number of turns in a row without an input before and an effect after."""
        self.fruitless_since_us = 0
        self._next_conn = 0
        self._turn_at: int | None = None
        self._replaced_us = dict.fromkeys(SyncClass, 0)
        """For each class the time at which its last sync with small files is done."""
        self._inbox: list[Callable[[], None]] = []
        self._beside: dict[int, Sync] = {}
        """Syncs under way with runs, by token."""

    @property
    def disks(self) -> list[VirtualDisk]:
        """The disks of all log directories."""
        return [self.disk, *self.more]

    @property
    def alive(self) -> bool:
        """Whether a node runs here (frozen or not)."""
        return self.node is not None

    @property
    def image(self) -> Image:
        """The metadata that its node goes by: that of the controller if it is one, else what its broker has replayed."""
        node = self.node
        assert node is not None
        if node.controller is not None:
            return node.controller.image
        assert node.broker is not None
        return node.broker.cache.image

    def start(self) -> None:
        """Start the process on its disk."""
        assert self.node is None
        self.life += 1
        self.stopped_with = None
        self.frozen = False
        self._turn_at = None
        node = self._made()
        # A stream of its own: the lanes' readings, and with them the worlds, stay as they are.
        node.runtime.waiting.stopwatch = Stopwatch(self.world.seed, f"{self.name}-{self.life}-waiting")
        self.world.note("start", self.name)
        self.node = node
        self.perform(node.start(self.now()))
        self.wake()

    def _made(self) -> Node:
        """The node, before it starts."""
        return Node(
            self.config,
            self._storage(self.disk),
            SeededRandom(self.world.random),
            Lines(self.world, self.name),
            Stopwatch(self.world.seed, f"{self.name}-{self.life}"),
        )

    def crash(self) -> None:
        """kill -9 and loss of what was not synced, as the disk decides; every connection is reset."""
        self.kill()
        for disk in self.disks:
            disk.crash(self.world.power)

    def kill(self) -> None:
        """Kill the process as kill -9 does: the page cache outlives it."""
        self.world.note("kill", self.name)
        for function in self.world.ended:
            function(self)
        self._break_off()
        self.node = None
        self.life += 1
        self._turn_at = None
        self._inbox.clear()
        self.listening.clear()
        self.answering.clear()
        for link in list(self.peers.values()):
            link.cut(self)
        self.peers.clear()

    def _break_off(self) -> None:
        """Of the runs that are made durable beside each other some are done, some begun, some not."""
        for token, sync in self._beside.items():
            # A draw of its own: what others draw stays as it is.
            seed = crc32(f"{self.world.seed} {self.name} {self.life} {token}".encode())
            steps = sum(len(run.files) + len(run.replacements) for run in sync.runs)
            with contextlib.suppress(DiskFailed, DiskFull):
                for _ in islice(self.disk.syncing(sync, seed), seed % (steps + 1)):
                    pass
        self._beside.clear()

    def now(self) -> Now:
        """The time on both clocks of this process."""
        ms = self.world.time_us // 1000
        return Now(ms + 1, self.wall_ms + ms)

    def input(self, function: Callable[[], None]) -> None:
        """Give something to the node. While the node is frozen, it waits in the kernel."""
        if self.node is None:
            return
        if self.frozen:
            self._inbox.append(function)
            return
        self.fruitless = 0
        function()
        self.wake()

    def freeze(self) -> None:
        """Freeze the process, as SIGSTOP does."""
        self.frozen = True

    def thaw(self) -> None:
        """Thaw the process, as SIGCONT does."""
        self.frozen = False
        inbox, self._inbox = self._inbox, []
        for function in inbox:
            function()
        self._turn_at = None
        self.wake()

    def wake(self) -> None:
        """Schedule a turn soon."""
        self._schedule(self.world.time_us + 20)

    def _schedule(self, at_us: int) -> None:
        if self._turn_at is not None and self._turn_at <= at_us:
            return
        self._turn_at = at_us
        life = self.life
        self.world.at(at_us, lambda: self._turn(life, at_us))

    def _turn(self, life: int, at_us: int) -> None:
        if life != self.life or self.node is None or self.frozen or self._turn_at != at_us:
            return
        self._turn_at = None
        self.world.turns += 1
        effects = self.node.turn(self.now(), TURN_BUDGET_NS)
        if any(effects):
            self.fruitless = 0
            self.perform(effects)
            if self.node is None:
                return
            if effects.send:
                self.node.sent(self.node.runtime.stopwatch())
        else:
            if self.fruitless == 0:
                self.fruitless_since_us = at_us
            self.fruitless += 1
        for function in self.world.turned:
            function(self)
        deadline_ms = self.node.deadline_ms()
        at = max(self.world.time_us + 50, (deadline_ms - 1) * 1000)
        if at < self.world.time_us + 3_600_000_000:
            self._schedule(at)

    def perform(self, effects: Effects) -> None:
        """Perform what a turn returned, in order."""
        node, world, life = self.node, self.world, self.life
        assert node is not None
        for conn, parts in effects.send:
            link = self.peers.get(conn)
            if link is not None:
                link.send(self, b"".join(parts))
        for sync in effects.sync:
            at = world.time_us + world.random.randint(*SYNC_US)
            if sync.replacements or any(run.replacements for run in sync.runs):
                # As on the real host: two versions of a small file never overtake each other.
                at = self._replaced_us[sync.kind] = max(at, self._replaced_us[sync.kind])
            if sync.runs:
                self._beside[sync.token] = sync
            world.at(at, lambda sync=sync: self._done(life, sync.token, lambda: self.disk.sync(sync)))
        for work in effects.work:
            world.after(
                world.work_us(),
                lambda work=work: self._done(life, work.token, lambda: to_end(work.job)),
            )
        for wanted in effects.download:
            world.after(1000, lambda wanted=wanted: self._done(life, wanted.token, lambda: OSError("no network")))
        for request in effects.zookeeper:
            assert world.zookeeper is not None, "a node asks for a ZooKeeper that this world does not have"
            world.zookeeper.perform(self, request)
        for dial in effects.dial:
            world.dial(self, dial.conn, dial.host, dial.port)
        self.listening.update(effects.listen)
        self.answering.update(effects.listen, effects.turn_away)
        self.listening.difference_update(effects.turn_away)
        for conn in effects.close:
            link = self.peers.pop(conn, None)
            if link is not None:
                link.close(self)
        if effects.stop is not None:
            self.stopped_with = (effects.stop.code, effects.stop.sentence)
            world.say(self.name, f"stopped with {effects.stop.code}: {effects.stop.sentence}")
            for function in world.ended:
                function(self)
            self._break_off()
            self.node = None
            self.life += 1
            self._turn_at = None
            self._inbox.clear()
            self.listening.clear()
            self.answering.clear()
            for link in list(self.peers.values()):
                link.close(self)
            self.peers.clear()

    def accept(self, link: "Link", listener: str) -> int:
        """Take a connection of a peer. Returns its number."""
        self._next_conn += 1
        conn = self._next_conn
        self.peers[conn] = link
        peer = link.other(self)
        host, principal = getattr(peer, "host", HERE), peer.principal
        self.input(lambda: self.node and self.node.connected(conn, listener, host, 0, principal))
        return conn

    def turn_away(self) -> int:
        """A peer connects, and nothing reads what it sends."""
        self._next_conn += 1
        return self._next_conn

    def _done(self, life: int, token: int, job: Callable[[], object]) -> None:
        if life != self.life or self.node is None:
            return
        self._beside.pop(token, None)
        try:
            result = job()
        except Exception as error:
            result = error
        self.world.note("done", self.name)
        node = self.node
        self.input(lambda: node.done(token, result))


class Link:
    """One connection between two processes. Frames arrive in order, each not before the one ahead of it."""

    def __init__(self, world: "World", a: Any, b: Any) -> None:
        self.world = world
        self.ends = (a, b)
        self.conns: dict[str, int] = {}
        self.lives = {a.name: a.life, b.name: b.life}
        self.open = True
        self._ready_us = {a.name: 0, b.name: 0}
        self._queues: dict[str, deque[bytes | None]] = {a.name: deque(), b.name: deque()}
        """For each end what is on the way to it; None: the orderly end of the connection."""
        self._due = {a.name: 0, b.name: 0}
        """How much of a queue would have arrived if it got through."""

    def other(self, end: Any) -> Any:
        return self.ends[1] if end is self.ends[0] else self.ends[0]

    def send(self, sender: Any, data: bytes | None) -> None:
        """Queue whole frames towards the other end."""
        receiver = self.other(sender)
        if data is not None and self.world.sent:
            for frame in frames(data):
                for function in self.world.sent:
                    function(self, sender, frame)
        if data is not None and self.world.answered and sender is self.ends[1]:
            for frame in frames(data):
                for function in self.world.answered:
                    function(self, sender, frame)
        at = max(self._ready_us[receiver.name], self.world.time_us + self.world.delay(sender, receiver))
        self._ready_us[receiver.name] = at
        self._queues[receiver.name].append(data)
        self.world.at(at, lambda: self._arrive(sender, receiver))

    def _arrive(self, sender: Any, receiver: Any) -> None:
        name = receiver.name
        self._due[name] += 1
        if self._due[name] == 1:
            self._through(sender, receiver, RESEND_US)

    def _through(self, sender: Any, receiver: Any, again_us: int) -> None:
        """Deliver what is due. If the link is blocked, try again later, as TCP does."""
        name = receiver.name
        if not self.open or self.lives[name] != receiver.life:
            return
        if self.world.blocked(sender, receiver):
            later = min(2 * again_us, RESEND_US_MAX)
            self.world.after(again_us, lambda: self._through(sender, receiver, later))
            return
        due, self._due[name] = self._due[name], 0
        for _ in range(due):
            data = self._queues[name].popleft()
            if data is None:
                self._gone(receiver, False)
                return
            self._deliver(sender, receiver, data)

    def _deliver(self, sender: Any, receiver: Any, data: bytes) -> None:
        world, conn = self.world, self.conns[receiver.name]
        if conn not in receiver.peers:
            return
        world.note(receiver.name, data)
        for sent in frames(data):
            frame = memoryview(bytearray(sent))  # the node may write into it
            world.deliveries += 1
            if world.keep_log:
                world.say(receiver.name, f"<- {sender.name} {describe(conn, frame)}")
            if world.asked and receiver is self.ends[1]:
                for function in world.asked:
                    function(self, receiver, sent)
            receiver.input(lambda frame=frame: receiver.node and receiver.node.received(conn, frame))

    def close(self, end: Any) -> None:
        """Orderly close by one end: what was sent before still arrives."""
        if self.open:
            self.send(end, None)

    def cut(self, end: Any) -> None:
        """Reset the connection: nothing more arrives. The other end learns of it unless the network is partitioned."""
        if not self.open:
            return
        self.open = False
        other = self.other(end)
        self._notify(end, other)

    def cut_here(self, end: Any) -> None:
        """The end that was cut off learns of it too, at once, because its kernel had the reset."""
        self._gone(end, False)

    def _notify(self, end: Any, other: Any) -> None:
        if self.world.blocked(end, other):
            self.world.after(50_000, lambda: self._notify(end, other))
            return
        self.world.after(self.world.delay(end, other), lambda: self._gone(other, False))

    def _gone(self, end: Any, refused: bool) -> None:
        self.open = False
        conn = self.conns.get(end.name)
        if conn is None or self.lives[end.name] != end.life:
            return
        if end.peers.pop(conn, None) is not None:
            end.input(lambda: end.node and end.node.closed(conn, refused))


class Near:
    """The dialling end of a connection of a process to itself: an end of its own, so that its link has two."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self.name = f"{process.name} dials"

    @property
    def life(self) -> int:
        return self._process.life

    @property
    def node(self) -> Any:
        return self._process.node

    @property
    def principal(self) -> str | None:
        return self._process.principal

    @property
    def peers(self) -> Any:
        return self._process.peers

    def input(self, function: Callable[[], Any]) -> None:
        self._process.input(function)


class NearLink:
    """What the process has of it: a link that is always used from the dialling end."""

    def __init__(self, link: Link, near: Near) -> None:
        self._link = link
        self._near = near

    def send(self, sender: Any, data: bytes | None) -> None:
        self._link.send(self._near, data)

    def close(self, end: Any) -> None:
        self._link.close(self._near)

    def cut(self, end: Any) -> None:
        self._link.cut(self._near)

    def cut_here(self, end: Any) -> None:
        self._link.cut_here(self._near)

    def other(self, end: Any) -> Any:
        return self._link.other(self._near)


def frames(data: bytes) -> Iterator[memoryview]:
    """Whole frames without their lengths, where they lie."""
    view, position = memoryview(data), 0
    while position < len(view):
        size = int.from_bytes(view[position : position + 4], "big")
        yield view[position + 4 : position + 4 + size]
        position += 4 + size


def describe(conn: int, frame: memoryview) -> str:
    """A frame in a few words. The receiver's connection tells whether it is a request."""
    correlation = int.from_bytes(frame[4:8] if conn > 0 else frame[:4], "big")
    if conn < 0:
        return f"answer {correlation}, {len(frame)} bytes"
    key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
    return f"{API_NAMES.get(key, key)} v{version} {correlation}, {len(frame)} bytes"


class World:
    """All processes, the network, and the heap of events."""

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.power = random.Random(f"{seed}-power")
        """Decides which pages a power cut leaves."""
        self.stalls_us = 0
        """For how long a thread may be held up; 0: none is."""
        self.time_us = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self.processes: dict[str, Process] = {}
        self.addresses: dict[tuple[str, int], tuple[Process, str]] = {}
        self.partitions: dict[tuple[str, str], None] = {}
        self.slow_us: dict[tuple[str, str], int] = {}
        self.late_us = 0
        """When the last that a slow link has taken arrives: also where it was healed meanwhile, and for a dial too."""
        self.deliveries = 0
        self.turns = 0
        self.errors: list[str] = []
        self.lines: list[str] = []
        self.keep_log = keep_log
        self.digest = 0
        self.checks: list[Callable[[], None]] = []
        """Called after every event."""
        self.turned: list[Callable[[Process], None]] = []
        """Called after every turn of a node."""
        self.ended: list[Callable[[Process], None]] = []
        """Called when a process is about to end, however it does."""
        self.sent: list[Callable[[Link, Any, memoryview], None]] = []
        """Called for every frame that leaves."""
        self.asked: list[Callable[[Any, Process, memoryview], None]] = []
        """Called with (connection, process, frame) for every request that reaches a process."""
        self.answered: list[Callable[[Any, Process, memoryview], None]] = []
        """Called in the same way for every answer that leaves one."""
        self.zookeeper: Any = None
        """The `Ensemble` that nodes with a bridge reach; None: there is none."""
        self.clocks_agreed = True
        """No wall clock has ever been wrong."""

    # ---- events

    def at(self, time_us: int, function: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_us, self.time_us), self._sequence, function))

    def work_us(self) -> int:
        """How long a job takes."""
        took_us = self.random.randint(*WORK_US)
        if self.stalls_us and not self.random.randrange(STALLS):
            took_us += self.random.randrange(self.stalls_us)
        return took_us

    def after(self, delay_us: int, function: Callable[[], None]) -> None:
        self.at(self.time_us + delay_us, function)

    def run(self, until_us: int) -> None:
        """Run the events up to `until_us`; every check runs after every event."""
        heap, pop, checks = self._heap, heapq.heappop, self.checks
        while heap and heap[0][0] <= until_us:
            self.time_us, _, function = pop(heap)
            function()
            for check in checks:
                check()
        self.time_us = until_us

    def run_for(self, milliseconds: int) -> None:
        self.run(self.time_us + milliseconds * 1000)

    def run_until(self, condition: Callable[[], bool], milliseconds_max: int) -> bool:
        """Move until the condition holds. False if it does not within the time."""
        end = self.time_us + milliseconds_max * 1000
        while not condition():
            if self.time_us >= end:
                return False
            self.run(min(end, self.time_us + 1000))
        return True

    def say(self, who: str, text: str) -> None:
        """Log one event in one line."""
        if self.keep_log:
            self.lines.append(f"{self.time_us / 1e6:12.6f} {who:10} {text}")

    def note(self, what: str, data: str | bytes) -> None:
        """Add an event to the digest."""
        if isinstance(data, str):
            data = data.encode()
        self.digest = crc32(data, crc32(f"{self.time_us} {what}".encode(), self.digest))

    # ---- processes and network

    def add(self, process: Process) -> None:
        self.processes[process.name] = process
        for listener in process.config.listeners:
            self.addresses[listener.host, listener.port] = (process, listener.name)

    def delay(self, a: Any, b: Any) -> int:
        delay_us = self.random.randint(30, 400)
        slow_us = self.slow_us.get((a.name, b.name))
        if slow_us is not None:
            delay_us += slow_us
            self.late_us = max(self.late_us, self.time_us + delay_us)
        return delay_us

    def blocked(self, a: Any, b: Any) -> bool:
        return (a.name, b.name) in self.partitions

    def block(self, a: str, b: str) -> None:
        """Block everything from `a` to `b`."""
        self.partitions[a, b] = None

    def heal(self) -> None:
        """Every link works again."""
        self.partitions.clear()
        self.slow_us.clear()

    def dial(self, source: Any, conn: int, host: str, port: int) -> None:
        """A process opens a connection."""
        life = source.life
        target, listener = self.addresses.get((host, port), (None, ""))
        if target is None:
            self.after(500, lambda: self._refuse(source, life, conn, True))
            return
        if self.blocked(source, target) or self.blocked(target, source):
            self.after(3_000_000, lambda: self._refuse(source, life, conn, False))
            return
        self.after(self.delay(source, target), lambda: self._knock(source, life, conn, target, listener))

    def _knock(self, source: Any, life: int, conn: int, target: Process, listener: str) -> None:
        if not target.alive or listener not in target.answering:
            self.after(self.delay(target, source), lambda: self._refuse(source, life, conn, True))
            return
        if source.life != life:
            return
        near = source if source is not target else Near(target)
        link = Link(self, near, target)
        link.conns[near.name] = conn
        kept = listener in target.listening
        link.conns[target.name] = target.accept(link, listener) if kept else target.turn_away()
        source.peers[conn] = link if near is source else NearLink(link, near)
        self.after(self.delay(target, source), lambda: self._connected(source, life, conn, link, kept))

    def _connected(self, source: Any, life: int, conn: int, link: Link, kept: bool) -> None:
        if source.life == life and link.open:
            source.input(lambda: source.node and source.node.connected(conn, "", "127.0.0.1"))
            if not kept:
                link.close(link.ends[1])

    def _refuse(self, source: Any, life: int, conn: int, refused: bool) -> None:
        if source.life == life:
            source.input(lambda: source.node and source.node.closed(conn, refused))
