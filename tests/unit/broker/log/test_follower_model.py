"""Random lives of a follower's log: its leaders, its disk, and power cuts that keep a part of what was not synced.

A world has the batches of whoever leads, a follower's log on a disk in memory, and lists of what the log has and of what is
durable. Leaders change and write other batches from some offset on, or retention moves their start. The follower fetches, is
cut, begins anew (also inside a batch), flushes, writes its checkpoints, and deletes what is too old or too much; its unlinks
come late and in any order. It is killed, stops cleanly, or loses power; room or descriptors are short for a while. Behind a
start the log must have what it had, or at least what was durable, nothing else, without a hole, and its epochs and producers
must be those of its batches.

This file alone decides how these come together: `test_model.py` has neither power cuts nor checkpoints that are behind, and
the enumerations of `test_failing_disk.py` have sequences that somebody thought of. A world is made of its seed alone.
"""

import errno
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

import pytest

from actors.broker.log import recovery, retention
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.recovery import Left, recover
from actors.broker.log.segment import Job, Segment
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFull
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.simulator.planted.registry import Patch, instead
from tests.unit.broker.log import logs
from tests.unit.broker.log.logs import DIRECTORY, build, content

STEPS = 120
"""The steps of a life, if the log is not lost before."""
NOW_MS = 1_000
LATE_MS = 1 << 40
"""When all records are too old, if their age counts."""
PRODUCER = 7
"""The one producer, whose sequence numbers are the offsets."""
OPERATIONS = (None, None, "rename", "create", "append", "remove", "truncate", "open")
"""Which operation of the disk is refused for a while; None: any."""


class Batch(NamedTuple):
    """One batch as a leader has written it."""

    first_offset: int
    next_offset: int
    data: bytes
    epoch: int


def spans(batches: Sequence[Batch]) -> list[tuple[int, int]]:
    return [one[:2] for one in batches]


class Leaders:
    """What whoever leads has: the log of the present leader."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.batches: list[Batch] = []
        self.epoch = 0
        self.start = 0
        self._written = 0

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start

    def write(self) -> None:
        offset = self.end
        self._written += 1  # no two batches are alike
        count = self.chance.randint(1, 3)
        header = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": offset}
        data = build(count, self.chance.randint(1, 20), NOW_MS + self._written, **header)
        batch.accept(data, 0, len(data), offset, self.epoch, now_ms=NOW_MS)
        self.batches.append(Batch(offset, offset + count, bytes(data), self.epoch))

    def elect(self) -> None:
        """Another leader, which may lack the last batches."""
        self.epoch += 1
        if self.batches and self.chance.random() < 0.7:
            kept = self.chance.randint(max(0, len(self.batches) - 8), len(self.batches))
            self.batches = self.batches[:kept]
        self.start = min(self.start, self.end)

    def retain(self) -> None:
        """The start moves to a batch. What is in front may still be sent: it is in the same segment."""
        if self.batches:
            self.start = max(self.start, self.chance.choice(self.batches).first_offset)


class World:
    """A follower's log, and what it must have."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        segment_bytes = self.chance.choice([100, 200, 400])
        self.log = logs.new(segment_bytes=segment_bytes, retention_bytes=self.chance.choice([-1, 200, 500]))
        assert isinstance(self.log.disk, VirtualDisk)
        self.disk = self.log.disk
        self.leaders = Leaders(self.chance)
        self.done: list[str] = []
        """The names of the steps, for whoever reads why a life has failed."""
        self.lost = False
        """The power was cut before the log was durable at all: there is none any more."""
        self.recovery_point = 0
        self.start_offset = 0
        """The checkpoints of the broker."""
        self.jobs: list[Job] = []
        """What unlinks files later."""
        self.batches: list[Batch] = []
        """What the log has."""
        self.durable: list[Batch] = []
        """What it had at the last flush, or behind the last start."""
        self.since: list[Batch] = []
        """What has come since then, and may be there behind a power cut."""
        self.lowest_end = 0
        """The lowest end of the log since then: what was durable in front of it stays."""
        self.anew = False
        """It has begun anew since then: it may have what it had, or what has come, or nothing."""
        self.unsure = False
        """A step has failed since then, and it is not known how much of it was done."""

    # ---- what a broker does

    def flush(self) -> None:
        log, wanted = self.log, self.log.flush()
        logs.sync(log, wanted)
        if wanted.cut:
            if self.chance.random() < 0.15:
                self._all_is_durable()
                self.lose_power()
                return
            self.checkpoint()
        log.flushed(wanted)
        self._all_is_durable()

    def checkpoint(self) -> None:
        log = self.log
        self.recovery_point = log.recovery_point if log.segments else 0
        moved = log.segments and log.log_start_offset > log.segments[0].base_offset
        self.start_offset = log.log_start_offset if moved else 0

    def fetch(self) -> None:
        """What one answer of the leader makes the follower do."""
        leaders, end = self.leaders, self.log.log_end_offset
        there = {one.first_offset: one for one in leaders.batches}
        other = next((one for one in self.batches if there.get(one.first_offset) != one), None)
        if other is not None and other.next_offset > leaders.start:
            self._cut(other.first_offset)
        elif end > leaders.end:
            self._cut(leaders.end)
        elif end < leaders.start:
            self._begin_anew(leaders.start)
        elif end in there:
            self._append(there[end])
        elif end != leaders.end:
            self._go_on_inside(end)

    def retain(self) -> None:
        log = self.log
        if not log.segments:
            return
        if self.chance.random() < 0.3:
            size, age = self.chance.choice([-1, 100, 200, 500]), self.chance.choice([-1, -1, 0])
            log.settings = logs.settings(
                segment_bytes=log.settings.segment_bytes, retention_bytes=size, retention_ms=age
            )
        for _ in range(self.chance.randint(1, 3)):
            found = retention.retain(log, LATE_MS, log.log_end_offset)
            self.jobs += found.jobs
            first = log.segments[0].base_offset if log.segments else log.log_start_offset
            self.batches = [one for one in self.batches if one.first_offset >= first]
            if found.warm:
                for job in found.warm:
                    job()
            elif not found.behind:
                return
            elif self.chance.random() < 0.7:
                self.flush()
                if self.lost or self.log is not log:
                    return
            else:
                logs.prepare(log, found)

    def unlink(self) -> None:
        """Some of what is to be unlinked goes, in any order."""
        count = self.chance.randint(0, len(self.jobs))
        self.chance.shuffle(self.jobs)
        for job in self.jobs[:count]:
            job()
        self.jobs = self.jobs[count:]

    def _append(self, one: Batch) -> None:
        try:
            self.log.append_fetched(one.data, NOW_MS)
        except Unsettled:
            self.flush()
            return
        self.batches.append(one)
        self.since.append(one)

    def _go_on_inside(self, end: int) -> None:
        """The log ends inside a batch of the leader."""
        one = next((one for one in self.leaders.batches if one.first_offset < end < one.next_offset), None)
        if one is None:
            return
        offset = self.log.begins_inside(one.data, self.leaders.start)
        if offset is None:
            self._begin_anew(self.chance.choice(self.leaders.batches).first_offset)
        else:
            self._begin_anew(offset, inside=True)
            self._append(one)

    def _begin_anew(self, offset: int, *, inside: bool = False) -> None:
        self.anew = True
        self.jobs += truncate_fully(self.log, offset, NOW_MS, inside=inside)
        self.batches = []
        self.lowest_end = min(self.lowest_end, offset)

    def _cut(self, offset: int) -> None:
        self.anew = self.anew or offset < self.log.log_start_offset
        self.jobs += truncate_to(self.log, offset)
        end = self.log.log_end_offset
        self.lowest_end = min(self.lowest_end, end)
        self.batches = [one for one in self.batches if one.next_offset <= end]

    def _all_is_durable(self) -> None:
        self.durable, self.since = list(self.batches), []
        self.lowest_end = self.log.log_end_offset
        self.anew = self.unsure = False

    # ---- how it ends, and what a start finds

    def kill(self) -> None:
        had, half_done = self.batches, bool(self.log.names.owed)
        self.log.release()
        self._start()
        self.batches = found = self._found()
        self._epochs_and_producers_fit()
        had = [one for one in had if one.next_offset > self.log.log_start_offset]
        if half_done:  # there was no room for the way back either: a start finds whole segments gone, as was wanted
            had = had[had.index(found[0]) :][: len(found)] if found else []
            self.lowest_end = min(self.lowest_end, self.log.log_end_offset)
        assert found == had, f"a kill leaves {spans(found)} of {spans(had)}"

    def stop(self) -> None:
        if not self.log.segments:
            self.kill()
            return
        wanted, end = self.log.close(), self.log.log_end_offset
        logs.sync(self.log, wanted)
        self.log.flushed(wanted)
        self.checkpoint()
        self._all_is_durable()
        self.log.release()
        self._start(clean=True)
        found, had = self._found(), [one for one in self.batches if one.next_offset > self.log.log_start_offset]
        assert (found, self.log.log_end_offset) == (had, end), f"a clean stop leaves {spans(found)} of {spans(had)}"

    def lose_power(self) -> None:
        self.disk.fault = None
        start, end = self.log.log_start_offset, self.log.log_end_offset
        how, coins = self.chance.random(), random.Random(self.chance.getrandbits(32))
        if how < 0.15:
            self.disk.crash(None)
        elif how < 0.3:
            self.disk.crash(None, keeps=lambda change: False)
        else:
            self.disk.crash(coins, keeps=lambda change: coins.randrange(2) == 0)
        metadata = self.disk.files.get(f"{DIRECTORY}/partition.metadata")
        self.lost = metadata is None or not metadata.durable
        if self.lost:
            return
        self._start()
        log, found = self.log, self._found()
        holes = [one.next_offset for one, after in pairwise(found) if one.next_offset != after.first_offset]
        assert not holes, f"there are holes at {holes}"
        foreign = set(found) - {*self.durable, *self.since}
        assert not foreign, f"batches that were gone are back: {spans(sorted(foreign))}"
        if not self.anew and not self.unsure:
            needed = [one for one in self.durable if one.first_offset >= start and one.next_offset <= self.lowest_end]
            assert {*needed} <= {*found}, f"of {spans(needed)}, which was durable, there is {spans(found)}"
            assert log.log_start_offset <= start or not self.durable, (
                f"it begins at {log.log_start_offset}, not {start}"
            )
            lowest = min(self.lowest_end, end)
            assert log.log_end_offset >= lowest, f"it ends at {log.log_end_offset}, not at {lowest} or behind it"
        self.batches = found
        self._epochs_and_producers_fit()
        self._all_is_durable()

    def _start(self, *, clean: bool = False) -> None:
        opened = recover(
            self.disk,
            self.log.directory,
            self.log.settings,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.start_offset,
            topic_id=self.log.topic_id,
        )
        self.log = opened.log
        self.log.check()
        left = list(self.log.left_over())
        self.jobs = left if self.chance.random() < 0.8 else []
        assert self.log.damaged is None, f"it is called damaged: {self.log.damaged}"

    def _found(self) -> list[Batch]:
        """What the log has, with the whole batch that holds its start."""
        log = self.log
        first = log.segments[0].base_offset if log.segments else 0
        data = content(log, max(first, log.log_start_offset))
        return [
            Batch(one.base_offset, one.last_offset + 1, bytes(data[one.position : one.position + one.size]), one.epoch)
            for one in batch.headers(data)
        ]

    def _epochs_and_producers_fit(self) -> None:
        log = self.log
        for one in self.batches:
            if one.first_offset >= log.log_start_offset:
                known = log.epochs.epoch_at(one.first_offset)
                assert known == one.epoch, f"epoch {one.epoch} of {one.first_offset} is taken for {known}"
        if self.batches:
            producer = log.producers.by_id.get(PRODUCER)
            known = -1 if producer is None else producer.batches[-1].last_sequence
            assert known == self.batches[-1].next_offset - 1, f"the producer is known up to {known}"

    # ---- a life

    def live(self) -> None:
        """Raises AssertionError, or what the log has raised."""
        try:
            for _ in range(STEPS):
                if not self.lost:
                    self._step()
        except Exception as error:
            error.add_note(f"the last of {len(self.done)} steps: {', '.join(self.done[-12:])}")
            raise

    def _step(self) -> None:
        steps: dict[Callable[[], None], float] = {
            self.leaders.write: 8,
            self.fetch: 14,
            self.flush: 3,
            self.checkpoint: 1,
            self.retain: 3,
            self.unlink: 2,
            self.leaders.elect: 1,
            self.leaders.retain: 0.5,
            self.kill: 0.6,
            self.lose_power: 0.8,
            self.stop: 0.2,
        }
        step = self.chance.choices([*steps], [*steps.values()])[0]
        self.done.append(step.__qualname__)
        if step in (self.fetch, self.flush, self.retain, self.unlink) and self.chance.random() < 0.12:
            self._in_a_shortage(step)
        else:
            step()

    def _in_a_shortage(self, step: Callable[[], None]) -> None:
        """Refuse some operations of the disk, the first after a few, and go on with what the log says that it has."""
        before, lasts = self.chance.randint(0, 8), self.chance.choice([1, 2, 3, 99])
        number, only = self.chance.choice([errno.ENOSPC, errno.EMFILE]), self.chance.choice(OPERATIONS)
        asked = 0

        def refused(operation: str, path: str) -> int:
            nonlocal asked
            asked += only is None or operation == only
            return number if (only is None or operation == only) and before < asked <= before + lasts else 0

        self.disk.fault = refused
        try:
            step()
        except DiskFull:
            self.done.append("no room")
            self.disk.fault = None
            self.unsure = True
            self.batches = self._found()
            self.lowest_end = min(self.lowest_end, self.log.log_end_offset)
            self.since += [one for one in self.batches if one not in self.durable and one not in self.since]
        finally:
            self.disk.fault = None


def live(seed: int) -> None:
    try:
        World(seed).live()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise


def test_a_log_has_what_is_durable_behind_each_start() -> None:
    for seed in range(1, 101):
        live(seed)


@pytest.mark.long
def test_more_logs_have_what_is_durable_behind_each_start() -> None:
    for seed in range(101, 601):
        live(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 11_000, 2_000))
def test_thousands_of_logs_have_what_is_durable_behind_each_start(first: int) -> None:
    for seed in range(first, first + 2_000):
        live(seed)


# ---- mistakes


def empty_file_goes_whatever_was_in_front_of_it() -> Sequence[Patch]:
    """All was too old, and the power was cut before the last names were durable. The empty file alone says up to where the
    log had come, and is taken for one of a log that was to begin anew there: offsets are given again."""
    forget = recovery._forget_empty

    def of_nothing(log: PartitionLog, trusted: int, left: Left) -> None:
        forget(log, trusted, left._replace(front={}))

    return [instead(recovery, "_forget_empty", of_nothing)]


def segments_go_in_front_of_a_file_that_is_not_durable() -> Sequence[Patch]:
    """The last segment was too old, and its successor is lost with a power cut: the log begins at 0."""

    def at_once(log: PartitionLog, count: int) -> tuple[list[Job], list[Segment]]:
        return retention.drop_segments(log, count), []

    return [instead(retention, "_in_front", at_once)]


def checkpoints_of_a_log_that_begins_in_front_of_them_are_believed() -> Sequence[Patch]:
    """A log has lost its files, or begins anew inside a batch, below its recovery point: a start believes what is appended
    there before the checkpoints say less."""
    return [instead(PartitionLog, "reach", property(lambda log: 0, lambda log, offset: None))]


FOUND_BY: dict[Callable[[], Sequence[Patch]], tuple[int, str]] = {
    empty_file_goes_whatever_was_in_front_of_it: (339, "it ends at 27, not at 28 or behind it"),
    segments_go_in_front_of_a_file_that_is_not_durable: (96, "it ends at 0, not at 44 or behind it"),
    checkpoints_of_a_log_that_begins_in_front_of_them_are_believed: (8536, "which was durable, there is"),
}
"""The seed of a life that finds a mistake, and what is said then: each is one of those that are lived without it above."""


@pytest.mark.parametrize("plant", FOUND_BY, ids=lambda plant: plant.__name__)
def test_a_life_finds_a_planted_mistake(plant: Callable[[], Sequence[Patch]]) -> None:
    seed, said = FOUND_BY[plant]
    live(seed)  # it is the mistake that is found
    with ExitStack() as stack, pytest.raises(AssertionError, match=said):
        for one in plant():
            stack.enter_context(one)
        live(seed)
