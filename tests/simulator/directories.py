"""Log directories of brokers that fail and come back: the part of `faults.py` for worlds whose brokers have two of
them.

This file alone decides when a directory fails and what is in it afterwards. Rules:

1. Once or twice in a world the second directory of a broker fails: from then on every write, rename and sync in it
   raises, in half of the failures every read from the disk too, and in a quarter no name in it is found any more, as after
   an unmount. Only one directory fails at a time. The first directory holds the metadata log; a broker does not go on
   without it, and other faults hit it.
2. The directory comes back with a new process of its broker, however the old one ended. It is then in one of four
   states: whole, with all that was written; cut, with what a power cut leaves; new, an empty one with an id of its own;
   or away, an empty one now, and the old one again with a later process.
3. A directory that is cut or new has lost data. So the failure is guarded as a power cut is: every partition keeps
   another sound member of its ISR, and nothing else is done to brokers until the broker has given up the replicas
   there. If there is no such guard, or the broker does not notice in time, no data is lost: the directory is whole, or
   away. Replicas may have begun anew in the first directory by then: of the two copies the broker takes the later one.
4. While it is away, the last member of an ISR has no files. Kafka promises that no replica leads the partition then.
   The old directory brings everything back. What was written into the empty one meanwhile is lost when the old one
   returns, so this return is guarded too.
5. A broker that misses a directory cannot know that a partition was never written to. It does not lead the partition if
   it is the only member of the ISR, until an operator says otherwise. So a directory is not taken away if there is such a
   partition. If one was made meanwhile, the first directory's note of the empty one is removed when the old one
   returns.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from actors.broker.log.directories.directory import partition_name
from actors.broker.log.directories.losses import DIRECTORY_IDS
from tests.simulator.disk import VirtualDisk
from tests.simulator.world import Process

if TYPE_CHECKING:
    from tests.simulator.faults import Faults

FIRST_MS, AGAIN_MS = (2_000, 40_000), (5_000, 40_000)
"""The time from the beginning of the faults to the first failure, and from the return of a directory to the second
failure."""
BACK_MS = (1_000, 25_000)
"""The time from the failure to the restart that brings the directory back."""
NOTICED_MS = 10_000
"""A broker that has not noticed the failure by then loses nothing by it, so that the others need not be kept safe for
longer."""
RETRY_MS = 500


class FailingDirectories:
    """The failures and returns of one run."""

    first_ms, back_ms = FIRST_MS, BACK_MS

    def __init__(self, faults: "Faults") -> None:
        self._faults = faults
        self._choose = Random(f"{faults.world.seed}-failing directories")
        self._left = 0
        """How many failures are still to come."""
        self._failed: tuple[Process, VirtualDisk] | None = None
        """The broker whose directory has failed, and that directory."""
        self._away: tuple[Process, VirtualDisk] | None = None
        """The broker that has an empty directory, and the old directory that it will have again."""
        self._losing = False
        """Whether the content of the failed directory may be lost. Then the failure is guarded."""

    # ---- for the other faults

    def ill(self, process: Process) -> bool:
        """Whether a directory of this broker has failed or is away. Then no ISR may rely on the broker."""
        return any(one is not None and one[0] is process for one in (self._failed, self._away))

    def lacks(self, process: Process, row: int) -> bool:
        """Whether this broker has no files of a partition because the directory is away. Then it cannot lose any."""
        if self._away is None or self._away[0] is not process or process.node is None:
            return False
        image = self._faults.metadata.image
        key = image.topic_id(image.topic_of(row)) or b"", image.number(row)
        return key in process.node.broker.replicas.offline or not self._has_files(process, row)

    def given_up(self, name: str) -> bool:
        """Whether the broker of that name is no longer in any ISR with a replica in its failed directory."""
        return self._failed is not None and self._failed[0].name == name and not self._in_isr(*self._failed)

    # ---- when

    def begin(self) -> None:
        """Let directories fail from now on, if brokers have a second one."""
        if any(process.more for process in self._faults.cluster.brokers.values()):
            self._left = self._choose.choice((1, 2, 2))
            self._later(self.first_ms, self._fail)

    def end(self) -> None:
        """Let no further directory fail. A failed one comes back soon."""
        self._left = 0
        if self._failed is not None:
            self._restart(self._failed, self._back)
        if self._away is not None:
            self._restart(self._away, self._return)

    def ended(self, process: Process) -> None:
        """A process ends, in whatever way: the directory that failed comes back."""
        if self._failed is not None and self._failed[0] is process:
            self._faults.world.after(0, lambda: self._back(process))

    def _later(self, between_ms: tuple[int, int], function: Callable[[], Any]) -> None:
        self._faults.world.after(self._choose.randint(*between_ms) * 1000, function)

    # ---- the failure

    def _fail(self) -> None:
        """The second directory of a broker fails, now or a little later."""
        faults = self._faults
        if not self._left or faults.over:
            return
        brokers = self._candidates()
        if self._failed is not None or self._away is not None or not brokers:
            self._later((RETRY_MS, RETRY_MS), self._fail)
            return
        self._left -= 1
        process = brokers[self._choose.randrange(len(brokers))]
        disk = process.more[0]
        self._losing = not faults.would_be_alone(process) and faults._guard(process)
        self._failed = failed = process, disk
        kind = self._choose.randrange(4)
        disk.fail(reads=kind < 2, gone=kind == 2)
        faults.counts["log directory fails"] += 1
        faults.world.say(process.name, f"FAULT the second log directory fails{', guarded' if self._losing else ''}")
        faults.world.after(NOTICED_MS * 1000, lambda: self._unnoticed(failed))
        self._later(self.back_ms, lambda: self._failed is failed and self._restart(failed, self._back))

    def _candidates(self) -> list[Process]:
        """Brokers whose directory may fail now."""
        return [one for one in self._faults.cluster.brokers.values() if one.alive and not one.frozen]

    def _unnoticed(self, failed: tuple[Process, VirtualDisk]) -> None:
        """The time for the broker to notice the failure is over."""
        process, disk = failed
        if self._failed is failed and self._losing and self._in_isr(process, disk):
            self._losing = False
            self._faults.guarded.pop(process.name, None)

    def _in_isr(self, process: Process, disk: VirtualDisk) -> bool:
        """Whether the broker counts as in sync with anything in that directory."""
        return any(disk.holds(self._name(row)) for row in self._rows(process))

    def _rows(self, process: Process) -> list[int]:
        """Partitions whose ISR has this broker, which may be registered or not."""
        image, me = self._faults.metadata.image, int(process.name[1:])
        rows = [int(row) for topic in image.topics() for row in image.topic_partitions(topic)]
        return [row for row in rows if me in image.isr(row)]

    def _name(self, row: int) -> str:
        image = self._faults.metadata.image
        return partition_name(image.topic_name(image.topic_of(row)), image.number(row))

    def _has_files(self, process: Process, row: int) -> bool:
        return any(disk.holds(self._name(row)) for disk in process.disks)

    def _bare(self, process: Process) -> bool:
        """Whether the broker is the only member of an ISR of a partition that was never written to."""
        image, me = self._faults.metadata.image, int(process.name[1:])
        return any(set(image.isr(row)) == {me} and not self._has_files(process, row) for row in self._rows(process))

    # ---- the return

    def _restart(self, failed: tuple[Process, VirtualDisk], then: Callable[[Process], None]) -> None:
        """An operator who has repaired the disk restarts the broker in order, or kills it, as soon as that does no
        harm."""
        process, _ = failed
        if failed not in (self._failed, self._away):
            return
        faults = self._faults
        if faults.over:
            self._release()
        if then == self._return:
            if self._may_return(process):
                faults.world.say(process.name, "FAULT killed, for the old log directory")
                process.kill()
                then(process)
                return
        elif process.alive and not process.frozen and process in faults._free_brokers():
            faults.world.say(process.name, "restarts for its log directory")
            process.node.shutdown()
            process.wake()
            return
        faults.world.after(RETRY_MS * 1000, lambda: self._restart(failed, then))

    def _back(self, process: Process) -> None:
        """The process has ended. The next one has a directory that works."""
        if self._failed is None:
            return
        faults, (_, disk) = self._faults, self._failed
        kinds = self._kinds(process, disk)
        kind = "whole" if faults.over else kinds[self._choose.randrange(len(kinds))]
        self._failed, self._losing = None, False
        disk.work()
        faults.world.say(process.name, f"its second log directory is {kind}")
        faults.counts[f"log directory is {kind}"] += 1
        if kind == "cut":
            disk.crash(faults.world.power)
        if kind in ("new", "away"):
            process.more[0] = empty = VirtualDisk()
            empty.id = self._choose.randbytes(15) + b"n"
        if kind == "away":
            self._away = away = process, disk
            self._later(self.back_ms, lambda: self._restart(away, self._return))
        elif self._left:
            self._later(AGAIN_MS, self._fail)

    def _release(self) -> None:
        """The faults are over. A guarded broker whose process goes on has lost nothing, so its guard ends."""
        for name, epoch in list(self._faults.guarded.items()):
            process = self._faults.cluster.brokers[int(name[1:])]
            if process.node is not None and process.node.broker.lifecycle.epoch == epoch and not self.ill(process):
                del self._faults.guarded[name]

    def _kinds(self, process: Process, disk: VirtualDisk) -> list[str]:
        """The states that the directory may have for the next process. A likelier one is listed more often."""
        losing = (self._losing and process.name in self._faults.guarded) or not self._in_isr(process, disk)
        bare = any(not self._has_files(process, row) for row in self._rows(process))  # it may become the only member
        kinds = ["whole", "whole"] + ([] if bare else ["away", "away"])
        kinds += (["cut", "cut"] + ([] if bare else ["new", "new"])) if losing else []
        return kinds

    def _may_return(self, process: Process) -> bool:
        """Whether the content of the empty directory may be lost, by the rules for a power cut of this broker."""
        away, self._away = self._away, None
        try:
            return process.alive and not process.frozen and self._guarded_without(process, away)
        finally:
            self._away = away

    def _guarded_without(self, process: Process, away: tuple[Process, VirtualDisk] | None) -> bool:
        if not self._faults._calm() or self._faults.would_be_alone(process):
            return False
        self._away = away
        return self._faults._guarded(process)

    def _return(self, process: Process) -> None:
        """The old directory is there again."""
        assert self._away is not None
        _, disk = self._away
        if self._bare(process):
            process.disk.remove(DIRECTORY_IDS)
        self._away = None
        process.more[0] = disk
        self._faults.world.say(process.name, "its old second log directory is back")
        if self._left:
            self._later(AGAIN_MS, self._fail)
