"""The faults of a world, and which of them may happen together so that the promises still hold.

This file alone decides which fault may begin when. Rules:

1. A power cut loses what a broker had not synced. So at most ISR-1 members of a partition suffer one until they are
   back in the ISR, and the other members stay untouched until the controller has noticed. Controllers sync everything:
   they may lose power at any time, all at once. A broker that has been asked to stop leaves its ISRs, so no broker
   loses power meanwhile.
2. A killed process loses nothing, and any number may be killed. But the controller assumes that every new process
   without a clean stop may have lost data, so no broker loses power before the controller knows of all that were
   killed. The last sound member of an ISR is not killed while another member is damaged, nor is a damaged member once
   it is alone. The order in which members leave an ISR is not foreseen, so members count as the controller knows them,
   and all lose power only while nothing is damaged. Rotten data is committed: all members of the ISR have it. A broker
   that may soon be fenced, because its heartbeats get no answer, does not count as a reliable member: another one that
   loses power might be the last. Nobody loses a disk while its wish to be the last is on its way.
3. Every fault ends by itself. A stopped process is started again, as a supervisor does. No part of one begins once the
   faults are over.
4. Log directories beside the first one fail by rules of their own (`directories.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from random import Random

from actors.broker.log.directories.directory import partition_name
from actors.ports import DiskFull
from tests.simulator.checkers.hooks import Hooks, Violation
from tests.simulator.checkers.metadata_log import MetadataLog
from tests.simulator.cluster import Cluster
from tests.simulator.directories import FailingDirectories
from tests.simulator.disk import VirtualDisk
from tests.simulator.world import EPOCH_WALL_MS, Process, World

PAUSE_MS = (200, 8_000)
"""The time between the beginnings of two faults."""


class Faults:
    """The faults of one run."""

    def __init__(self, world: World, cluster: Cluster, metadata: MetadataLog, hooks: Hooks, choose: Random) -> None:
        self.world = world
        self.cluster = cluster
        self.metadata = metadata
        self.hooks = hooks
        self.choose = choose
        self.counts: Counter[str] = Counter()
        self.over = True
        self.all_flushed = False
        """Whether every partition, internal ones included, waits for the disk: flush.messages=1."""
        self.guarded: dict[str, int] = {}
        """Broker processes that lost power -> their broker epoch. Others stay untouched until that epoch is gone."""
        self._menu: list[tuple[int, str, Callable[[], bool]]] = [
            (4, "kill", self.kill),
            (3, "controllers lose power", self.controllers_lose_power),
            (4, "broker loses power", self.broker_loses_power),
            (3, "freeze", self.freeze),
            (3, "partition", self.partition),
            (3, "one-way partition", self.one_way),
            (3, "connections cut", self.cut),
            (2, "slow link", self.slow),
            (2, "orderly restart", self.restart),
            (1, "rolling restart", self.rolling),
            (1, "no majority of controllers", self.no_majority),
            (2, "sync fails", self.sync_fails),
            (2, "disk full", self.disk_full),
            (1, "disk lost", self.disk_lost),
            (2, "rot in a sealed segment", self.rot),
            (1, "clock jumps", self.clock_jumps),
            (1, "all brokers lose power", self.brokers_lose_power),
        ]
        self.rotten: dict[tuple[str, str], VirtualDisk] = {}
        """(process, directory of a partition) with a damaged segment -> the disk it was on."""
        self._flipped: dict[tuple[str, str], list[tuple[VirtualDisk, str, int, int, int]]] = {}
        """(disk, path, position, bits, value after it) of every byte that rotted, under the keys of `rotten`."""
        self._down: dict[str, None] = {}
        """Processes that stay down for now."""
        self.directories = FailingDirectories(self)
        world.ended.append(self._ended)

    def begin(self) -> None:
        """Let faults come from now on."""
        self.over = False
        self._next()
        self.directories.begin()

    def end(self) -> None:
        """End all faults, and begin no new one."""
        self.over = True
        self.world.heal()
        self._down.clear()
        for process in self._all():
            process.disk.room = None
            if process.alive:
                process.disk.sync_fails = None
        for process in self._all():
            if process.frozen:
                process.thaw()
            if not process.alive:
                self._start(process)
        self.directories.end()

    # ---- when

    def _next(self) -> None:
        self.world.after(self.choose.randint(*PAUSE_MS) * 1000, self._one)

    def _one(self) -> None:
        if self.over:
            return
        weights = [weight for weight, _, _ in self._menu]
        _, name, begin = self.choose.choices(self._menu, weights)[0]
        if begin():
            self.counts[name] += 1
        self._next()

    def _later(self, low_ms: int, high_ms: int, function: Callable[[], None]) -> None:
        self.world.after(self.choose.randint(low_ms, high_ms) * 1000, function)

    # ---- processes

    def _all(self) -> list[Process]:
        return [*self.cluster.controllers.values(), *self.cluster.brokers.values()]

    def _some(self, processes: list[Process]) -> Process:
        return processes[self.choose.randrange(len(processes))]

    def _free(self) -> list[Process]:
        """Running processes that may be hurt now. Brokers are not among them while one has lost power and is not known
        to have."""
        controllers = [process for process in self.cluster.controllers.values() if process.alive]
        return controllers + self._free_brokers()

    def _free_brokers(self) -> list[Process]:
        if self._on_guard():
            return []
        return [process for process in self.cluster.brokers.values() if process.alive and self._spared(process)]

    def _spared(self, process: Process) -> bool:
        """Whether every partition with a damaged replica keeps a sound member of its ISR without this broker."""
        image, me = self.metadata.image, int(process.name[1:])
        if not self.rotten or image.broker(me) is None:
            return True
        rows = [int(row) for row in image.rows_in_isr(me)]
        damaged = [row for row in rows if set(image.isr(row)) != self._sound(row)]
        return all(self._reliable(row) - {me} for row in damaged)

    def _on_guard(self) -> bool:
        image = self.metadata.image
        for name, epoch in list(self.guarded.items()):
            registration = image.broker(int(name[1:]))
            if registration is None or registration.epoch != epoch or self.directories.given_up(name):
                del self.guarded[name]
        return bool(self.guarded)

    def _known(self, process: Process) -> bool:
        """Whether a broker runs and is meant to go on, most of its lease is left, and the controller has registered its
        present process."""
        broker = process.node.broker if process.node is not None else None
        registration = self.metadata.image.broker(int(process.name[1:]))
        if broker is None or process.frozen or broker.lifecycle.stopping or registration is None:
            return False
        if self.directories.ill(process):
            return False
        lease_left_ms = broker.lifecycle.lease_until_ms - self.world.time_us // 1000
        return registration.epoch == broker.lifecycle.epoch and lease_left_ms > broker.lifecycle.lease_ms // 2

    def _ended(self, process: Process) -> None:
        if process.disk.sync_fails is not None:
            # The kernel forgets what it could not write: a restarted process finds only what is on the device.
            process.disk.sync_fails = None
            self.world.after(0, lambda: process.disk.crash(self.world.power))
        self.directories.ended(process)
        self._later(50, 4_000, lambda: self._start(process))

    def _start(self, process: Process) -> None:
        if process.alive or process.name in self._down:
            return
        self.world.say(process.name, "starts")
        try:
            process.start()
        except Exception as error:
            if not self._may_fail(process, error):
                raise Violation("restarts_succeed", f"{process.name} does not start: {error!r}") from error
            process.node = None
            self._later(500, 1_000, lambda: self._start(process))

    def _may_fail(self, process: Process, error: Exception) -> bool:
        """Whether a start may end like that: it is tried again."""
        return isinstance(error, DiskFull)

    def kill(self) -> bool:
        """Kill some processes with kill -9."""
        free = self._free()
        if not free:
            return False
        process = self._some(free)
        self.world.say(process.name, "FAULT killed")
        process.kill()
        return True

    def restart(self) -> bool:
        """Restart some process with an orderly shutdown."""
        free = [process for process in self._free() if not process.frozen]
        if not free:
            return False
        self._shutdown(self._some(free))
        return True

    def controllers_lose_power(self) -> bool:
        """One of them, or all at once."""
        alive = [process for process in self.cluster.controllers.values() if process.alive]
        if not alive:
            return False
        hit = alive if not self.choose.randrange(3) else [self._some(alive)]
        for process in hit:
            self.world.say(process.name, "FAULT power cut")
            process.crash()
        return True

    def broker_loses_power(self) -> bool:
        """A broker loses its unsynced bytes, where rule 1 allows it."""
        process = self._some(list(self.cluster.brokers.values()))
        if not self._guard(process):
            return False
        self.world.say(process.name, "FAULT power cut")
        process.crash()
        return True

    def _guard(self, process: Process) -> bool:
        """Whether a broker may lose what it has not synced. Until it is known to have lost it, the others are safe from
        faults."""
        return self._calm() and self._guarded(process)

    def _calm(self) -> bool:
        """Whether no broker is guarded, the network is whole and every broker is known."""
        brokers = self.cluster.brokers.values()
        return not self._on_guard() and not self.world.partitions and all(self._known(one) for one in brokers)

    def _guarded(self, process: Process) -> bool:
        """Guard a broker, if every partition has another member of its ISR."""
        if not self._may_lose(process):
            return False
        registration = self.metadata.image.broker(int(process.name[1:]))
        self.guarded[process.name] = registration.epoch if registration is not None else -1
        return True

    def _may_lose(self, process: Process) -> bool:
        """Whether every partition keeps a member of its ISR."""
        image, me = self.metadata.image, int(process.name[1:])
        if image.broker(me) is None:
            return False
        rows = [int(row) for row in image.rows_in_isr(me)]
        return all(self._sound(row) - {me} or self.directories.lacks(process, row) for row in rows)

    def would_be_alone(self, process: Process) -> bool:
        """Whether a leader's wish to be the only member of an ISR is on its way, and may be granted after its death. What is
        not durable it acknowledges no more, but nobody may take from it what is."""
        node, me = process.node, int(process.name[1:])
        proposals = [one.isr.proposal for one in node.broker.replicas] if node is not None else []
        return any(one is not None and one.want <= {me} for one in proposals)

    def _sound(self, row: int) -> set[int]:
        """Members of an ISR whose log is whole."""
        image = self.metadata.image
        directory = partition_name(image.topic_name(image.topic_of(row)), image.number(row))
        return {member for member in image.isr(row) if not self.is_rotten(f"b{member}", directory)}

    def _reliable(self, row: int) -> set[int]:
        """The sound members of an ISR that will not leave it because of a fault that has already happened."""
        return {member for member in self._sound(row) if self._known(self.cluster.brokers[member])}

    def is_rotten(self, name: str, directory: str) -> bool:
        """Whether rot was put there and is still there."""
        disk = self.rotten.get((name, directory))
        if disk is None:
            return False
        if disk not in self.cluster.brokers[int(name[1:])].disks or not disk.holds(directory):
            del self.rotten[name, directory]
            return False
        return True

    @contextmanager
    def without_rot(self, name: str, directory: str) -> Iterator[bool]:
        """A context in which every byte of a replica that rot has changed has its old value. Gives whether there is
        one.

        A replica that was fetched anew is not rotten, though its directory exists.
        """
        here = self.cluster.brokers[int(name[1:])].disks
        whole = []
        for disk, path, position, mask, value in reversed(self._flipped.get((name, directory), ())):
            inode = disk.files.get(path)
            if disk in here and inode is not None and inode.data[position : position + 1] == bytes((value,)):
                inode.data[position] ^= mask
                whole.append((inode, position, mask))
        try:
            yield bool(whole)
        finally:
            for inode, position, mask in whole:
                inode.data[position] ^= mask

    def was_rotten(self, name: str) -> bool:
        """Whether rot was ever put on the disk of a process."""
        return any(process == name for process, _ in self._flipped)

    def freeze(self) -> bool:
        """SIGSTOP, for a moment or for longer than a lease."""
        free = [process for process in self._free() if not process.frozen]
        if not free:
            return False
        thaw = self._freeze(self._some(free))
        self._later(*self.choose.choice(((50, 1_000), (1_000, 25_000))), thaw)
        return True

    def _freeze(self, process: Process) -> Callable[[], None]:
        """Freeze a process, as SIGSTOP does. Returns the function that thaws it, as SIGCONT does."""
        if self.over:
            return lambda: None
        process.freeze()
        self.world.say(process.name, "FAULT frozen")
        life = process.life

        def thaw() -> None:
            if process.life == life and process.frozen:
                self.world.say(process.name, "thaws")
                process.thaw()

        return thaw

    def rolling(self) -> bool:
        """Every broker in turn is asked to stop, and starts again."""
        if not self._free_brokers():
            return False
        for place, process in enumerate(self.cluster.brokers.values()):
            self.world.after(place * 6_000_000, lambda process=process: self._roll(process))
        return True

    def _roll(self, process: Process) -> None:
        """Restart a broker whose turn it is in a rolling restart. If it may not be hurt yet, that is tried again a
        little later."""
        if process in self._free_brokers():
            self._shutdown(process)
        elif process.alive and not self.over:
            self._later(500, 1_500, lambda: self._roll(process))

    def _shutdown(self, process: Process) -> None:
        if process.node is not None and not process.frozen and not self.over:
            self.world.say(process.name, "FAULT shutdown")
            process.node.shutdown()
            process.wake()

    def no_majority(self) -> bool:
        """More than half of the controllers are down for a while."""
        controllers = list(self.cluster.controllers.values())
        hit = self.choose.sample(controllers, len(controllers) // 2 + 1)
        for process in hit:
            self._down[process.name] = None
            if process.alive:
                self.world.say(process.name, "FAULT killed for a while")
                process.kill()
        self._later(1_000, 15_000, lambda: self._up(hit))
        return True

    def _up(self, processes: list[Process]) -> None:
        """Let these processes start again."""
        for process in processes:
            self._down.pop(process.name, None)
            self._start(process)

    def brokers_lose_power(self) -> bool:
        """All brokers at once, if every partition waits for the disk."""
        if self._on_guard() or not self.all_flushed or any(self.is_rotten(*place) for place in list(self.rotten)):
            return False
        for process in self.cluster.brokers.values():
            if process.alive:
                self.world.say(process.name, "FAULT power cut")
                process.crash()
        return True

    # ---- disks and clocks

    def sync_fails(self) -> bool:
        """The device refuses to write log files. A node that notices must stop. A broker loses what it had not
        synced."""
        controllers = list(self.cluster.controllers.values())
        process = self._some([*controllers, *self.cluster.brokers.values()])
        if not process.alive or process.frozen or (process.name[0] == "b" and not self._guard(process)):
            return False
        process.disk.sync_fails = lambda path: path.endswith(".log")
        self.world.say(process.name, "FAULT syncs fail")
        life = process.life

        def works() -> None:
            if process.life == life:
                process.disk.sync_fails = None

        self._later(500, 3_000, works)
        return True

    def disk_full(self) -> bool:
        """Hardly anything more fits."""
        process = self._some(self._all())
        process.disk.room = self.choose.randrange(3_000)
        self.world.say(process.name, f"FAULT disk has {process.disk.room} bytes left")

        def room() -> None:
            process.disk.room = None

        self._later(500, 10_000, room)
        return True

    def disk_lost(self) -> bool:
        """A broker comes back with an empty disk of another id."""
        process = self._some(list(self.cluster.brokers.values()))
        if self.would_be_alone(process) or not self._guard(process):
            return False
        self.world.say(process.name, "FAULT disk lost")
        process.kill()
        process.disk = VirtualDisk()
        process.disk.id = self.choose.randbytes(15) + b"d"
        for function in self.hooks.lost_disk:
            function(process)
        return True

    def rot(self) -> bool:
        """One bit flips in a sealed, committed segment, where the ISR has two more members that can be relied on."""
        process, files = self._may_rot()
        if not files:
            return False
        disk, directory, file = files[self.choose.randrange(len(files))]
        size = len(disk.files[f"{directory}/{file}"].data)
        path, position, mask = f"{directory}/{file}", self.choose.randrange(size), 1 << self.choose.randrange(8)
        disk.corrupt(path, position, mask)
        self.rotten[process.name, directory] = disk
        flipped = self._flipped.setdefault((process.name, directory), [])
        flipped.append((disk, path, position, mask, disk.files[path].data[position]))
        self.world.say(process.name, f"FAULT rot in {directory}/{file}")
        return True

    def _may_rot(self) -> tuple[Process, list[tuple[VirtualDisk, str, str]]]:
        """Some broker, and those of its committed segments of which two more members of the ISR can be relied on."""
        process = self._some(list(self.cluster.brokers.values()))
        image, me = self.metadata.image, int(process.name[1:])
        if self._on_guard() or image.broker(me) is None or process.node is None or process.node.broker is None:
            return process, []
        rows = [int(row) for row in image.rows_in_isr(me) if len(self._reliable(int(row)) - {me}) > 1]
        return process, [found for row in rows for found in self._committed_segments(process, row)]

    def _committed_segments(self, process: Process, row: int) -> list[tuple[VirtualDisk, str, str]]:
        """(disk, directory, file) of each sealed segment of a user's topic that is durable here and committed as a whole."""
        image = self.metadata.image
        topic, number = image.topic_name(image.topic_of(row)), image.number(row)
        directory, replica = partition_name(topic, number), process.node.broker.replicas.get(topic, number)
        if topic[0] not in "tx" or replica is None:
            return []
        disk = replica.log.disk
        logs = [file for file in disk.listed(directory) if file.endswith(".log")]
        return [
            (disk, directory, file)
            for file, behind in pairwise(logs)
            if int(behind.split(".")[0]) <= replica.high_watermark and disk.files[f"{directory}/{file}"].durable
        ]

    def clock_jumps(self) -> bool:
        """A wall clock is up to an hour wrong from now on. Records from further ahead are refused (KIP-937)."""
        process = self._some(self._all())
        off_ms = self.choose.randint(-3_600_000, 3_600_000)
        process.wall_ms = EPOCH_WALL_MS + off_ms
        self.world.clocks_agreed = False
        self.world.say(process.name, f"FAULT clock is {off_ms} ms off")
        return True

    # ---- network

    def _names(self) -> list[str]:
        return [process.name for process in self._all()]

    def partition(self) -> bool:
        """Two groups of nodes that do not receive anything from each other."""
        return self._split(both=True)

    def one_way(self) -> bool:
        """One group receives nothing from the other."""
        return self._split(both=False)

    def _split(self, *, both: bool) -> bool:
        if self.world.partitions or self._on_guard():
            return False
        names = self._names()
        apart = [name for name in names if not self.choose.randrange(3)] or [names[0]]
        rest = [name for name in names if name not in apart]
        for one in apart:
            for other in rest:
                self.world.block(one, other)
                if both:
                    self.world.block(other, one)
        self.world.say("network", f"FAULT {apart} {'and' if both else 'not heard by'} {rest} apart")

        def heal() -> None:
            self.world.say("network", "heals")
            self.world.partitions.clear()

        self._later(*self.choose.choice(((100, 2_000), (2_000, 20_000))), heal)
        return True

    def cut(self) -> bool:
        """All connections of one process are reset."""
        processes = [process for process in self._all() if process.peers]
        if not processes:
            return False
        self._reset(self._some(processes))
        return True

    def _reset(self, process: Process) -> None:
        self.world.say(process.name, "FAULT connections cut")
        for link in list(process.peers.values()):
            link.cut(process)
            link.cut_here(process)

    def slow(self) -> bool:
        """Messages in one direction between two processes take long."""
        names = self._names()
        pair = (names[self.choose.randrange(len(names))], names[self.choose.randrange(len(names))])
        self.world.slow_us[pair] = self.choose.randint(5_000, 400_000)
        self.world.say("network", f"FAULT {pair[0]} to {pair[1]} is slow")
        self._later(1_000, 15_000, lambda: self.world.slow_us.pop(pair, None))
        return True
