"""Random sequences of all that makes a log longer, shorter or other, with shortages in between, and crashes.

The enumerations (`test_failing_disk.py`) let one sequence fail at each step. Here a log is cut after its start has moved,
while it is cleaned, before what had left it is unlinked, and so on. A crash is a kill, or a power cut that keeps all changes
of names that are not durable, or some. A model knows which states the log may have then: what all have must be there.
"""

import errno
import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from actors.broker.log.cleaning.cleaner import Cleaned, CleaningSlice, Durable, LogCleaning
from actors.broker.log.cleaning.replacing import SegmentsChanged, withdraw
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.retention import drop_segments
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFull, Sync
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT, keyed, steps
from tests.unit.broker.log.logs import content, reopen

pytestmark = pytest.mark.long

SHORT = ("rename", "create", "open", "open to write", "remove", "truncate", "append", "replace", "exists", "settle")
SEEDS, STEPS = 400, 100


class State(NamedTuple):
    """What a log may be."""

    start: int
    end: int
    keys: dict[int, bytes]
    """The key of each record, by offset: its leader's number, and the offset."""


class World:
    """One log, which has the keys of all records apart, so that a cleaning takes none away."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log: PartitionLog = logs.new(**COMPACT)
        self.disk = self.log.disk
        self.shortage = 0.0
        self.leader = 1
        self.keys: dict[int, bytes] = {}
        self.states = [State(0, 0, {})]
        """The last durable state, and those since."""
        self.recovery_point = 0
        """As the checkpoints say."""
        self.jobs: list[Any] = []
        self.cleaning: tuple[LogCleaning, Generator[Any, Any, Cleaned]] | None = None
        self.result: object = None
        """What the cleaning waits for."""
        assert isinstance(self.disk, VirtualDisk)
        self.disk.fault = self.fault

    def begin(self) -> None:
        """Begin without a record, as nothing says whose the files are that are there."""
        assert isinstance(self.disk, VirtualDisk)
        self.disk.remove(self.log.directory)
        self.sync(self.disk.directory(""), self.disk.directory(self.log.directory))
        self.log = PartitionLog(self.disk, self.log.directory, self.log.settings, self.log.topic_id)
        self.keys, self.states = {}, [State(0, 0, {})]

    def fault(self, operation: str, path: str) -> int:
        short = self.shortage and operation in SHORT and self.random.random() < self.shortage
        return self.random.choice((errno.ENOSPC, errno.EMFILE)) if short else 0

    def sync(self, *files: Any) -> None:
        assert isinstance(self.disk, VirtualDisk)
        self.disk.sync(Sync(0, files, []))

    def step(self) -> None:
        often = [self.grow] * 6 + [self.flush] * 2 + [self.clean] * 3 + [self.retain, self.cut, self.crash] * 2
        self.random.choice([*often, self.unlink, self.short, self.begin_elsewhere])()
        assert self.log.torn is None
        self.log.check()

    def short(self) -> None:
        self.shortage = self.random.choice((0.0, 0.0, 0.0, 0.02, 0.1, 0.3))

    def note(self) -> None:
        log = self.log
        self.keys = {offset: key for offset, key in self.keys.items() if offset < log.log_end_offset}
        self.states.append(State(log.log_start_offset, log.log_end_offset, dict(self.keys)))

    def grow(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            offset = self.log.log_end_offset
            data = keyed(key := b"%d.%d" % (self.leader, offset), b"v")
            headers = batch.accept(data, 0, len(data), offset, self.leader, now_ms=1_000).headers
            try:
                self.log.append(data, headers, 1_000)
            except (DiskFull, Unsettled):
                break
            self.keys[offset] = key
        self.note()

    def flush(self) -> None:
        log = self.log
        try:
            wanted = log.flush()
            logs.sync(log, wanted)
        except DiskFull:
            return
        log.flushed(wanted)
        self.recovery_point = log.checkpointed_offset = log.recovery_point
        self.states.clear()
        self.note()

    @property
    def lowest_end(self) -> int:
        """Where the log may be cut."""
        return max(self.log.log_start_offset, self.log.log_end_offset - 40)

    @property
    def cleanable_end(self) -> int:
        """Up to where the log may be cleaned."""
        return self.recovery_point

    def cut(self) -> None:
        log = self.log
        if self.lowest_end >= log.log_end_offset:
            return
        end = self.random.randrange(self.lowest_end, log.log_end_offset)
        try:
            self.jobs += truncate_to(log, end)
        except DiskFull:  # a kill may find a part of it done
            left = {offset: key for offset, key in self.keys.items() if offset < end}
            self.states.append(State(log.log_start_offset, max(left, default=-1) + 1, left))
        else:
            self.leader += 1
        self.note()

    def begin_elsewhere(self) -> None:
        """As a follower whose log does not overlap with its leader's. It asks for nothing before that is durable."""
        log = self.log
        start, end = log.log_start_offset, log.log_end_offset
        offset = self.random.choice((0, start, end, end + 5, max(0, start - 3), self.random.randrange(start, end + 1)))
        try:
            self.jobs += truncate_fully(log, offset)
        except DiskFull:
            self.states.append(State(offset, offset, {}))
            self.note()
            return
        self.leader, self.keys = self.leader + 1, {}
        self.note()
        if self.random.random() < 0.4:
            self.random.choice((self.unlink, lambda: None))()
            self.crash()
        else:
            with self.enough():
                self.flush()

    @contextmanager
    def enough(self) -> Iterator[None]:
        """A context in which nothing is short."""
        shortage, self.shortage = self.shortage, 0.0
        yield
        self.shortage = shortage

    def retain(self) -> None:
        log = self.log
        if len(log.segments) < 3:
            return
        count = self.random.randrange(1, 3)
        start = log.segments[count].base_offset
        try:
            self.jobs += drop_segments(log, count)
        except DiskFull:  # as for a cut
            self.states.append(State(start, log.log_end_offset, dict(self.keys)))
        self.note()

    def unlink(self) -> None:
        jobs, self.jobs = [*self.jobs, *self.log.left_over()], []
        for job in jobs:
            try:
                job()
            except DiskFull:
                self.jobs.append(job)

    def clean(self) -> None:
        if self.cleaning is None:
            end = self.cleanable_end
            found = steps(self.log, upper=end) if len(self.log.segments) > 2 else None
            if found is None or not found._found.cleanable_bytes or end < 8:
                return
            self.cleaning, self.result = (found, found.steps()), None
        cleaning, running = self.cleaning
        try:
            for _ in range(self.random.randrange(1, 25)):
                if cleaning.outdated:
                    raise SegmentsChanged
                wish, self.result = running.send(self.result), None
                if isinstance(wish, CleaningSlice):
                    self.result = wish.job()
                elif isinstance(wish, Durable):
                    if self.random.random() < 0.15:  # while the sync is under way
                        self.random.choice((self.cut, self.retain, self.grow, self.unlink, self.crash))()
                        if self.cleaning is None:
                            return
                    self.sync(*wish.files)
                else:
                    self.jobs += wish.jobs
        except StopIteration:
            self.cleaning = None
        except (DiskFull, SegmentsChanged):
            self.give_up(cleaning, running)

    def give_up(self, cleaning: LogCleaning, running: Generator[Any, Any, Cleaned]) -> None:
        """As the log cleaner does."""
        self.cleaning, log, left = None, self.log, cleaning.leftover
        running.close()
        if cleaning.retired is not None:
            self.jobs += cleaning.retired.jobs
        if left is not None:
            try:
                if log.standing is left:
                    withdraw(log)
                self.sync(log.names.listing)
                self.jobs.append(left.delete())
            except DiskFull:
                pass

    def crash(self) -> None:
        shortage, self.shortage, disk = self.shortage, 0.0, self.disk
        assert isinstance(disk, VirtualDisk)
        how, coin = self.random.randrange(4), lambda change: self.random.random() < 0.5
        if how:
            disk.crash(self.random if how == 3 else None, keeps=coin if how > 1 else None)
        self.cleaning, self.jobs = None, []
        if not disk.found(f"{self.log.directory}/partition.metadata"):
            assert not self.recovery_point
            self.begin()
            self.shortage = shortage
            return
        known = {"recovery_point": self.recovery_point, "log_start_offset": 0, "cleaned_offset": 0}
        again = reopen(self.log, topic_id=self.log.topic_id, **known).log
        assert again.damaged is None
        self.check(again)
        self.log, self.leader = again, self.leader + 1
        self.keys = keys(again)
        self.note()
        self.flush()
        self.shortage = shortage

    def check(self, log: PartitionLog) -> None:
        found = keys(log)
        start, end = max(one.start for one in self.states), min(one.end for one in self.states)
        assert set(range(start, end)) <= set(found), "what was durable is gone"
        assert not found or list(found) == list(range(min(found), max(found) + 1)), "offsets are missing"
        for offset, key in found.items():
            assert any(one.keys.get(offset) == key for one in self.states), "what was cut is back"
        leaders = [int(key.partition(b".")[0]) for key in found.values()]
        assert leaders == sorted(leaders), "old records behind new ones"


def keys(log: PartitionLog) -> dict[int, bytes]:
    """The keys of all records, by offset, as a consumer reads them."""
    data = content(log)
    records = [one for head in batch.headers(data) for one in batch.records(data, head.position)]
    return {one.offset: one.key for one in records if one.key is not None}


@pytest.mark.parametrize("block", range(4))
def test_no_mixture_of_changes_loses_what_is_durable(block: int) -> None:
    for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4):
        world, done = World(seed), 0
        try:
            while done < STEPS:
                world.step()
                done += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {done}: {error}") from error
