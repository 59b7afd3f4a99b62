"""Worlds in which any operation of any disk may fail, and what is at rest rots.

`Adversary` is asked before every operation of `ports.Disk`. It lets operations of one kind fail, or of every kind: once, a
few times, for a while, or until the process ends; with each error that a kernel has for them. A write that the device ends
may be short, and a small file may be replaced although its writer is told otherwise.

This file alone decides which of it may happen together with the faults of `faults.py`. Rules:

1. No room (ENOSPC, EDQUOT), no descriptor (EMFILE): at any time, on any disk. A broker waits, and nothing is lost.
2. An error of the device (EIO, ESTALE, EROFS) ends the process if it is of the first directory, and else takes the directory
   offline until the next start. Nothing is lost by it, so any number may come together. But who is hit leaves its ISRs, so
   nobody may rely on it, and it begins only where a kill might.
3. A sync that fails may lose what was not durable. It is guarded like a power cut: if no guard is to be had, the device
   keeps what it has been given.
4. An operator restarts a broker whose directory is offline, in order or by a kill. Then its device works, or fails once
   more while the process starts.
5. Rot is put where two other members of the ISR are sound. Scrubbing is on, so at the end nothing is rotten.

A third of the worlds has one thing more (`MORE`): replicas that go away and come back, records without a time, a topic
that is compacted no more, little memory for indexes, which cannot be written then, or for what is read.
"""

import errno
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

from actors.broker.replication.replicas import Offline
from actors.node.roles.broker.log import scrubber
from actors.ports import DiskFailed, DiskFull
from tests.simulator import simulation
from tests.simulator.checkers.blamed_disks import BlamedDisks
from tests.simulator.checkers.due_work import Cleaning, Retention
from tests.simulator.checkers.durable_points import DurablePoints
from tests.simulator.checkers.hooks import Violation
from tests.simulator.clients.process import Client
from tests.simulator.clients.topics import alter
from tests.simulator.clients.transactions.transactional import Plan
from tests.simulator.directories import FailingDirectories
from tests.simulator.disk import VirtualDisk
from tests.simulator.planted.aimed import RelocatedFaults
from tests.simulator.planted.registry import Patch, instead
from tests.simulator.planted.rough import CONFIG
from tests.simulator.simulation import Shape, Simulation, Topic
from tests.simulator.world import Process

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)
FAILED = (errno.EIO, errno.ESTALE, errno.EROFS)
READING = {"open", "open to write", "read", "names", "exists", "space"}
"""Operations that need no room."""
OPERATIONS: Sequence[frozenset[str]] = (
    frozenset(),
    *3 * (frozenset({"rename"}),),
    frozenset({"rename", "create", "remove"}),
    frozenset({"create"}),
    frozenset({"append"}),
    frozenset({"replace"}),
    frozenset({"sync"}),
    frozenset({"sync", "settle"}),
    frozenset({"remove"}),
    frozenset({"truncate", "overwrite"}),
    frozenset({"open", "open to write", "read"}),
    frozenset({"names", "exists", "space"}),
)
"""What an adversary lets fail: one of these; none named: every operation."""
MENU = {
    "operations fail": 14, "broker loses power": 3, "unnoticed power cut": 1, "controllers lose power": 1, "kill": 2,
    "rot": 3, "rot in an index": 2, "orderly restart": 1, "leader falls behind": 2, "follower freezes": 1,
    "dies in a move": 1, "disk full": 1,
}  # fmt: skip
MENDED_MS = 40_000
"""Within that time of health nothing is rotten any more."""


class Adversary:
    """Lets operations of one disk fail."""

    def __init__(
        self,
        choose: random.Random,
        operations: frozenset[str],
        numbers: Sequence[int],
        skip: int,
        lasts: int,
        endings: tuple[str, ...] = ("",),
    ) -> None:
        """`skip`: how many such operations work first. `lasts`: how many fail then. `endings`: of which files."""
        self._choose, self._operations, self._numbers = choose, operations, numbers
        self._skip, self._left, self._endings = skip, lasts, endings
        self.hits = 0
        self.synced = False
        """Whether a sync has failed: what was not durable by then may be gone."""

    @property
    def device(self) -> bool:
        """Whether the errors are those of a device."""
        return self._numbers[0] in FAILED

    @property
    def over(self) -> bool:
        """Whether no more operation fails."""
        return self._left <= 0

    def __call__(self, operation: str, path: str) -> int:
        if self._left <= 0 or (self._operations and operation not in self._operations):
            return 0
        if not path.endswith(self._endings):
            return 0
        numbers = _errors(operation, self._numbers)
        if not numbers:
            return 0
        if self._skip > 0:
            self._skip -= 1
            return 0
        self._left -= 1
        self.hits += 1
        self.synced |= operation == "sync"
        return self._choose.choice(numbers)


def _errors(operation: str, numbers: Sequence[int]) -> list[int]:
    """Those of the error numbers that an operation has: a sync of a file never says that there is no room, what reads needs
    none, and nothing is read-only to it."""
    if operation in ("sync", "read", "exists", "space"):
        return [one for one in numbers if one in (errno.EIO, errno.ESTALE)]
    if operation in READING:
        return [one for one in numbers if one in (errno.EIO, errno.ESTALE, errno.EMFILE)]
    if operation in ("append", "truncate", "overwrite"):
        return [one for one in numbers if one != errno.EMFILE]
    return list(numbers)


class Untouched(FailingDirectories):
    """Directories fail by their operations alone."""

    def begin(self) -> None:
        """Let none fail altogether."""


class FailingDisks(RelocatedFaults):
    """Adversaries on the disks of all processes, beside other faults."""

    def __init__(self, *args: Any) -> None:
        self.adversaries: dict[VirtualDisk, tuple[Process, Adversary]] = {}
        self._losing: set[VirtualDisk] = set()
        """Disks whose adversary is guarded."""
        self.often: frozenset[str] | None = None
        """What every second adversary lets fail; None: none is preferred."""
        self.often_of: tuple[str, ...] = ("",)
        """The endings of the files of which it does."""
        self.restless = False
        """Whether brokers die soon after each start, and every disk may fail as soon as they are there."""
        self.returning = False
        """Whether brokers die soon after a replica has come back to them."""
        self._instances: dict[tuple[str, bytes, int], int] = {}
        """Which of the logs of its directory each replica had last."""
        super().__init__(*args, menu=MENU)
        self.directories = Untouched(self)

    def _more(self) -> dict[str, Callable[[], bool]]:
        return {
            **super()._more(),
            "operations fail": self.operations_fail,
            "rot in an index": self.index_rot,
        }

    def begin(self) -> None:
        """Let faults come from now on, and an operator look at brokers."""
        super().begin()
        for process in self.cluster.brokers.values():
            self._after(1_000, lambda process=process, life=process.life: self._look(process, life))

    # ---- who is hurt

    def _known(self, process: Process) -> bool:
        return not self._ill(process) and super()._known(process)

    def _reliable(self, row: int) -> set[int]:
        """Who has no room for what is written leaves the ISR, too."""
        brokers = self.cluster.brokers
        return {id for id in super()._reliable(row) if not any(disk in self.adversaries for disk in brokers[id].disks)}

    def _ill(self, process: Process) -> bool:
        """Whether a device of a process fails, or is offline until the next start."""
        found = [self.adversaries.get(disk) for disk in process.disks]
        if any(one is not None and one[1].device for one in found):
            return True
        return self._offline(process)

    @staticmethod
    def _offline(process: Process) -> bool:
        """Whether a broker has given up a directory, or files that could not be read, until its next start."""
        broker = process.node.broker if process.node is not None else None
        if broker is None:
            return False
        # What only lacks room or descriptors comes back by itself.
        failed = any(disk.refused for disk in process.disks)
        given_up = failed and Offline.FAILED in broker.replicas.offline.values()
        return given_up or broker.logs.directories.offline_count > 0

    def is_rotten(self, name: str, directory: str) -> bool:
        """Whether rot was put there and is still there: scrubbing may have mended it."""
        if not super().is_rotten(name, directory):
            return False
        here = self.cluster.brokers[int(name[1:])].disks
        for disk, path, position, _, value in self._flipped.get((name, directory), ()):
            inode = disk.files.get(path)
            if disk in here and inode is not None and inode.data[position : position + 1] == bytes((value,)):
                return True
        del self.rotten[name, directory]
        return False

    # ---- what has come back

    def _turned(self, process: Process) -> None:
        super()._turned(process)
        broker = process.node.broker if process.node is not None else None
        if not self.returning or self.over or broker is None:
            return
        for partition in broker.replicas.written():
            key, instance = (process.name, partition.topic_id, partition.number), partition.log.instance
            if self._instances.setdefault(key, instance) != instance:
                self._instances[key] = instance
                if self.choose.randrange(2):
                    self._after(self._between(50, 700), lambda: self._kill(process, "soon after a replica came back"))

    # ---- the adversary

    def operations_fail(self) -> bool:
        """Operations of some disk fail."""
        process = self._some(self._all())
        if not process.alive or process.frozen:
            return False
        disk = process.disks[self.choose.randrange(len(process.disks))]
        device = bool(self.choose.randrange(5) > 1)
        if disk in self.adversaries or ((device or self.rotten) and process not in self._free()):
            return False
        operations = self._operations()
        if device and process.name[0] == "b" and not self.would_be_alone(process) and self._guard(process):
            self._losing.add(disk)
        self._set(process, disk, operations, FAILED if device else FULL)
        return True

    def _operations(self) -> frozenset[str]:
        if self.often is not None and self.choose.randrange(2):
            return self.often
        return self.choose.choice(OPERATIONS)

    def _set(self, process: Process, disk: VirtualDisk, operations: frozenset[str], numbers: Sequence[int]) -> None:
        skip = self.choose.choice((0, 0, 1, 2, 4, 8, 30)) if operations else self.choose.randrange(300)
        lasts = self.choose.choice((1, 1, 2, 5, 1 << 30))
        endings = self.often_of if operations is self.often else ("",)
        adversary = disk.fault = Adversary(self.choose, operations, numbers, skip, lasts, endings)
        disk.short = self.choose if self.choose.randrange(2) else None
        self.adversaries[disk] = process, adversary
        named = " and ".join(sorted(operations)) or "every operation"
        errors = ", ".join(errno.errorcode[one] for one in numbers)
        self.world.say(
            process.name,
            f"FAULT {named} of directory {process.disks.index(disk)} fails, {'once' if lasts == 1 else f'{lasts} times'} "
            f"after {skip}, with {errors}{', guarded' if disk in self._losing else ''}",
        )
        self._after(self._between(200, 2_500), lambda: self._over(disk, adversary))

    def _over(self, disk: VirtualDisk, adversary: Adversary) -> None:
        """The time of an adversary is over, unless its process has ended."""
        if self.adversaries.get(disk, (None, None))[1] is adversary:
            self._lift(disk)

    def _lift(self, disk: VirtualDisk) -> None:
        """The disk works. If a sync has failed under a guard, its process is to end before that is over."""
        process, adversary = self.adversaries.pop(disk)
        disk.fault = disk.short = None
        guarded = disk in self._losing
        lost = guarded and adversary.synced
        if guarded and not lost:
            self._losing.discard(disk)
            if process.alive:
                self._unguard(process)
        if process.alive and lost:
            self._after(self._between(100, 2_000), lambda life=process.life: self._repair(process, life))

    def _unguard(self, process: Process) -> None:
        registration = self.metadata.image.broker(int(process.name[1:]))
        if registration is not None and self.guarded.get(process.name) == registration.epoch:
            del self.guarded[process.name]

    def _repair(self, process: Process, life: int) -> None:
        """An operator restarts a broker, as soon as that does no harm."""
        if process.life != life or process.node is None:
            return
        mine = any(disk in self._losing for disk in process.disks)
        if process.frozen or not (mine or process in self._free_brokers()):
            self._after(300, lambda: self._repair(process, life))
        elif mine or self.over or self.choose.randrange(2):
            self.world.say(process.name, "FAULT killed, for its disk")
            process.kill()
        else:
            self._shutdown(process)
            self._after(3_000, lambda: self._repair(process, life))

    # ---- ends and starts

    def _ended(self, process: Process) -> None:
        for disk in process.disks:
            if disk in self.adversaries:
                self._lift_ended(disk)
            elif disk in self._losing:
                self._lose(process, disk)
        super()._ended(process)

    def _lift_ended(self, disk: VirtualDisk) -> None:
        process, adversary = self.adversaries.pop(disk)
        disk.fault = disk.short = None
        if disk in self._losing:
            if adversary.synced:
                self._lose(process, disk)
            self._losing.discard(disk)

    def _lose(self, process: Process, disk: VirtualDisk) -> None:
        """The kernel forgets what it could not write, where another member of each ISR has it."""
        self._losing.discard(disk)
        if self._may_lose(process) and not self.would_be_alone(process):
            self.world.after(0, lambda: disk.crash(self.world.power))

    def _start(self, process: Process) -> None:
        if process.alive or process.name in self._down:
            return
        if not self.over and (self.restless or not self.choose.randrange(5)) and self._spared(process):
            disk = process.disks[self.choose.randrange(len(process.disks))]
            if disk not in self.adversaries:
                device = bool(self.choose.randrange(2)) and not self._on_guard() and process.name not in self.guarded
                self._set(process, disk, self._operations(), FAILED if device else FULL)
        super()._start(process)
        if process.node is not None and process.name[0] == "b":
            self._after(1_000, lambda life=process.life: self._look(process, life))
            if self.restless and not self.over:
                self._after(self._between(600, 2_000), lambda: self._kill(process, "again"))

    def _look(self, process: Process, life: int) -> None:
        """An operator looks at a broker from time to time."""
        if process.life != life or process.node is None:
            return
        if self._offline(process) and not any(disk in self.adversaries for disk in process.disks):
            self._repair(process, life)
        else:
            self._after(1_000, lambda: self._look(process, life))

    def _may_fail(self, process: Process, error: Exception) -> bool:
        """Whether a start may end like that: its disk was touched."""
        hit = [disk for disk in process.disks if disk in self.adversaries and self.adversaries[disk][1].hits]
        if not hit or not isinstance(error, (DiskFull, DiskFailed)):
            return super()._may_fail(process, error)
        for disk in process.disks:
            disk.refused = disk.failed_syncs = disk.lacked = 0
            if disk in self.adversaries:
                self._lift_ended(disk)
        return True

    def end(self) -> None:
        """End all faults. Who has a directory that is offline is started again."""
        self.over = True
        self.world.after(STALLED_MS * 1000, self._hold_up_no_more)
        for disk in list(self.adversaries):
            self._lift(disk)
        super().end()

    def _hold_up_no_more(self) -> None:
        """Threads go on: what is due is due within a time."""
        self.world.stalls_us = 0

    # ---- rot

    def index_rot(self) -> bool:
        """One bit flips in an index of a sealed, committed segment. It can be made anew from the segment."""
        process, segments = self._may_rot()
        files = [
            (disk, f"{directory}/{file.removesuffix('.log')}{end}")
            for disk, directory, file in segments
            for end in (".index", ".timeindex")
        ]
        files = [(disk, path) for disk, path in files if path in disk.files and disk.files[path].data]
        if not files:
            return False
        disk, path = files[self.choose.randrange(len(files))]
        position = self.choose.randrange(len(disk.files[path].data))
        disk.corrupt(path, position, 1 << self.choose.randrange(8))
        key = process.name, path.rpartition("/")[0]
        self._flipped.setdefault(key, [])
        self.world.say(process.name, f"FAULT rot in {path}")
        return True


# ---- the worlds

SCRUBBED = {"rayft.log.scrub.bytes.per.second": "1000000", "rayft.log.scrub.interval.ms": "3000"}
LATER = {
    "log.retention.check.interval.ms": "1000",
    "replica.lag.time.max.ms": "500",
    "log.segment.delete.delay.ms": "500",
}


def shape(seed: int) -> Shape:
    """The cluster of a seed."""
    return MORE[more(seed)](plain(seed))


def plain(seed: int) -> Shape:
    """Brokers with two or three directories, and one kind of work besides plain records: compacted topics, moves between
    directories, deleted records, or transactions."""
    choose = random.Random(f"failing disks {seed}")
    directories = choose.choice((2, 2, 3))
    config = {
        **CONFIG,
        **SCRUBBED,
        **LATER,
        "metadata.log.max.record.bytes.between.snapshots": str(choose.choice((1_000, 5_000))),
        "internal.metadata.log.segment.bytes": str(choose.choice((2_048, 8_192))),
    }
    flushed: Mapping[str, str] = {"flush.messages": "1"} if choose.randrange(2) else {}
    topics = [
        _topic("t0", 1, 3, "1", "1000", flushed),
        _topic("t1", 2, choose.choice((2, 3)), choose.choice("12"), choose.choice(("1000", "4000")), {}),
    ]
    found = Shape(
        choose.choice((1, 2)), choose.choice((1, 1, 3)), 3, config, topics, 2, 1, not choose.randrange(4), 0,
        directories=directories,
    )  # fmt: skip
    work = choose.choice(("plain", "deleted", "compacted", "compacted", "moved", "moved", "transactions"))
    if work == "deleted":
        return found._replace(purge=True)
    if work == "compacted":
        keyed = simulation.compacted_topic("k0", 1, 3, choose.choice((500, 900)), retention_ms=60_000)
        return found._replace(topics=topics[:1], compacted=(keyed,), config=config | simulation.CLEANER, producers=1)
    if work == "moved":
        speed = {"replica.alter.log.dirs.io.max.bytes.per.second": choose.choice(("3000", "20000", str(1 << 40)))}
        found = found._replace(relocated=True, config=config | speed)
        if choose.randrange(2):
            return found
        keyed = simulation.compacted_topic("k0", 1, 3, 700, retention_ms=500)
        return found._replace(
            topics=topics[:1], compacted=(keyed,), config=config | speed | simulation.CLEANER, producers=1
        )
    if work == "transactions":
        plan = Plan(choose.choice((0, 2)), {"x0": 1}, "", 1, 0, 150)
        return found._replace(
            topics=topics[:1], transactions=plan, config=config | simulation.TRANSACTIONS, producers=1
        )
    return found


def more(seed: int) -> str:
    """What the world of a seed has besides."""
    return BESIDES.get(seed % 32, "")


def _away_and_back(found: Shape) -> Shape:
    """Partitions get other replicas, again and again, which take a while to have everything. Segments are long, so little is
    flushed, and checkpoints are rarely written: they tell of replicas that have gone."""
    long = {"index.interval.bytes": "200", "flush.ms": "600"}
    topics = [_topic("t0", 1, 3, "1", "100000", long), _topic("t1", 1, 2, "1", "100000", long)]
    rare = {"replica.high.watermark.checkpoint.interval.ms": "1600", "replica.fetch.max.bytes": "400"}
    return found._replace(
        reassigned=True, purge=False, relocated=False, compacted=(), transactions=None, topics=topics,
        config=found.config | rare,
    )  # fmt: skip


def _once_compacted(found: Shape) -> Shape:
    """A topic is compacted for a while only, and its replicas go away and come back."""
    keyed = simulation.compacted_topic("k0", 1, 3, 700)
    rare = {"replica.high.watermark.checkpoint.interval.ms": "900"}
    return found._replace(
        topics=found.topics[:1], transactions=None, purge=False, relocated=False, reassigned=True, compacted=(keyed,),
        config=found.config | simulation.CLEANER | rare, producers=1,
    )  # fmt: skip


def _without_times(found: Shape) -> Shape:
    """No record has a time, and those that are too old go."""
    kept = {"cleanup.policy": "delete", "retention.ms": "4000"}
    keyed = simulation.compacted_topic("k0", 1, 3, 700, **kept)
    return found._replace(
        topics=found.topics[:1], transactions=None, purge=False, relocated=False, compacted=(keyed,), timeless=1,
        config=found.config | {"log.initial.task.delay.ms": "0"}, producers=1,
    )  # fmt: skip


def _some_without_times(found: Shape) -> Shape:
    """Some records of a compacted topic have no time, and each is to be cleaned within a minute."""
    keyed = simulation.compacted_topic("k0", 1, 3, 600, retention_ms=60_000, **{"max.compaction.lag.ms": "60000"})
    return found._replace(
        topics=found.topics[:1], transactions=None, purge=False, relocated=False, compacted=(keyed,), timeless=2,
        config=found.config | simulation.CLEANER, producers=1,
    )  # fmt: skip


def _cold(found: Shape) -> Shape:
    """What a compacted topic has is often not in memory, and short segments are replaced while they are read."""
    keyed = simulation.compacted_topic("k0", 1, 3, 500, retention_ms=60_000, **{"file.delete.delay.ms": "0"})
    return found._replace(
        topics=found.topics[:1], transactions=None, purge=False, relocated=False, compacted=(keyed,),
        config=found.config | simulation.CLEANER, producers=1,
    )  # fmt: skip


def _few_indexes(found: Shape) -> Shape:
    """What is in several directories is read from the beginning again and again, and most indexes are not in memory."""
    keyed = simulation.compacted_topic("k0", 3, 3, 500, **{"cleanup.policy": "delete"})
    return found._replace(
        topics=found.topics[:1], transactions=None, purge=False, relocated=False, compacted=(keyed,), producers=1
    )


MORE: Mapping[str, Callable[[Shape], Shape]] = {
    "": lambda found: found,
    "away and back": _away_and_back,
    "once compacted": _once_compacted,
    "without times": _without_times,
    "some without times": _some_without_times,
    "few indexes": _few_indexes,
    "cold": _cold,
}
"""What a world may have besides, and what that makes of its cluster."""
BESIDES: Mapping[int, str] = {
    0: "cold", 3: "away and back", 5: "once compacted", 6: "without times", 7: "some without times", 10: "few indexes",
    14: "once compacted", 17: "cold", 19: "away and back", 21: "once compacted", 22: "without times", 26: "few indexes",
    28: "away and back",
}  # fmt: skip
"""What a seed leaves divided by 32 -> what its world has besides. The others are as they were before there was this."""
INDEX_BYTES = 60
"""The memory for indexes in worlds with few of them."""
STALLS_US = 150_000
"""How long a thread of theirs may be held up."""
STALLED_MS = 10_000
"""For how long threads are held up once the faults are over."""
COLD, COLD_MS = 3, 40
"""In cold worlds one file in so many is not in memory, for so long."""
INDEXES = (".index", ".timeindex")


def often() -> Sequence[Patch]:
    """Whether a reading of what is at rest is due is looked at each second."""
    return [instead(scrubber, "IDLE_MS", 1_000)]


def _topic(name: str, partitions: int, factor: int, min_insync: str, segment: str, more: Mapping[str, str]) -> Topic:
    configs = {"min.insync.replicas": min_insync, "internal.segment.bytes": segment, **more}
    return Topic(name, partitions, factor, configs)


class OnFailingDisks(Simulation):
    """One run of one seed."""

    def __init__(self, seed: int, *, keep_log: bool = False) -> None:
        super().__init__(seed, keep_log=keep_log)
        assert isinstance(self.faults, FailingDisks)
        self._more = more(seed)
        if self._more == "cold":
            self.world.stalls_us = STALLS_US
        if self._more == "few indexes":
            self.faults.restless = True
            self.faults.often, self.faults.often_of = frozenset({"open to write", "create", "append"}), INDEXES
        self.faults.returning = self._more == "away and back"
        configs = {topic.name: topic.configs for topic in self.shape.compacted}
        limits = {name: int(one["retention.ms"]) for name, one in configs.items() if "retention.ms" in one}
        retention, points = Retention(self.world, limits), DurablePoints()
        compacted = [name for name, one in configs.items() if "compact" in one["cleanup.policy"]]
        self._cleaning = Cleaning(compacted, self.faults.was_rotten)
        self._turned = [
            self._sound_moves_end, *self.world.turned, BlamedDisks().turned, retention.turned, points.turned,
        ]  # fmt: skip
        self.world.ended += [retention.ended, points.ended]
        self.world.turned[:] = [self._looked]
        for process in self.cluster.brokers.values():
            for disk in process.disks:
                if self._more == "cold":
                    disk.cold = partial(self._is_cold, process.name)
                disk.clock = lambda process=process: process.now().wall_ms

    def _looked(self, process: Process) -> None:
        """Let those look at a node who do so after each of its turns: nothing fails for them."""
        broker = process.node.broker if process.node is not None and self._more == "few indexes" else None
        indexes = None if broker is None else broker.logs._loader._indexes
        if indexes is not None:
            indexes.bytes_max = 1 << 30  # or those who look would do the node's work, and find no disk that fails
        for disk in process.disks:
            disk.looked_at = True
        try:
            for function in self._turned:
                function(process)
        finally:
            for disk in process.disks:
                disk.looked_at = False
            if indexes is not None:
                indexes.bytes_max = INDEX_BYTES

    def _is_cold(self, name: str, path: str, position: int, size: int) -> bool:
        """Whether a file is not in memory now; the same for all reads of a turn."""
        now_ms = self.world.time_us // 1000
        return crc32(f"{name} {path} {now_ms // COLD_MS}".encode()) % COLD == 0

    def _sound_moves_end(self, process: Process) -> None:
        """A move between directories is given up only where what is copied is damaged."""
        for text in self.world.errors:
            if "is not moved: it has" in text and not self.faults.was_rotten(process.name):
                raise Violation("sound_moves_are_not_given_up", text)

    def _work(self) -> None:
        super()._work()
        if self._more == "once compacted":
            client = self._client("policy")
            client.spawn(self._compact_no_more(client))

    async def _compact_no_more(self, client: Client) -> None:
        await client.sleep(2_000)
        for topic in self.shape.compacted:
            await alter(client, topic.name, {"cleanup.policy": "delete"})

    def _finish(self) -> None:
        """Check that what was rotten is mended and what is dirty cleaned, and then all else."""
        faults, brokers = self.faults, self.cluster.brokers.values()
        if not self._until(lambda: not any([faults.is_rotten(*one) for one in list(faults.rotten)]), MENDED_MS):
            raise Violation("rot_is_mended", f"{sorted(faults.rotten)} are rotten after {MENDED_MS} ms of health")
        if not self._until(lambda: not self._cleaning.dirty(brokers), MENDED_MS):
            self.world.stalls_us = 0  # a cleaner that is held up may be behind its producer for ever
        if not self._until(lambda: not self._cleaning.dirty(brokers), MENDED_MS):
            raise Violation(Cleaning.name, f"{self._cleaning.dirty(brokers)} after {MENDED_MS} ms of health")
        super()._finish()
