"""Room, descriptors or memory are short while a log changes, and then they are not any more.

That is no fault of a disk. So no log is torn by it: at each moment it is what it was, or what it is to become, and what it
tells its caller is that there is no room. When the shortage is over the caller goes on, without a start: the log takes
records, and is then byte for byte what it is where nothing was ever short, in memory and for the next start.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from actors.broker.log.log import PartitionLog
from actors.broker.log.truncation import truncate_to
from actors.ports import DiskFull, Sync
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.cleaning.test_cleaner import latest
from tests.unit.broker.log.logs import build, content, flush, put
from tests.unit.broker.log.test_failing_disk import CASES, Adversary, Case, Checkpoint, clean
from tests.unit.broker.log.transactions import aborted, end, write

pytestmark = pytest.mark.long

SHORT_OF = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
LASTS = (1, 2, 3, 5, 1 << 30)
"""For how many operations it lasts, from one on. The last: until the caller has tried in vain three times."""
TRIES = 4
COMMON = 9
"""Up to there two leaders have the same."""


def led(later: bool) -> PartitionLog:
    """A log of transactions. What the `later` leader has from COMMON on is something else: what is committed in one log is
    aborted in the other, and their batches are not as long."""
    log = logs.new(segment_bytes=400, index_interval_bytes=100)
    write(log, 9, 0)  # open until the end
    sequences = {7: 0, 8: 0}
    for number in range(10):
        other, producer = later and log.log_end_offset >= COMMON, 7 + number % 2
        count = 2 if other else 1
        write(log, producer, sequences[producer], count)
        sequences[producer] += count
        end(log, producer, commit=bool(number // 2 % 2) is not other)
    end(log, 9, commit=not later)
    flush(log)
    return log


LEADER = content(led(True))
LITTLE = LEADER[: next(one.position for one in batch.headers(LEADER) if one.base_offset == 12)]
"""What a follower has of it that has hardly begun again: no snapshot of producers is newer than those that were cut."""


def follow(log: PartitionLog, leader: bytes = LEADER) -> None:
    """As a follower does that is told where the later leader's log is another one."""
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    jobs = []
    with disk.readable():
        differs = not leader.startswith(content(log))
    if differs:
        jobs = truncate_to(log, COMMON)
    if log.refusing is not None:
        flush(log)
    for head in batch.headers(leader):
        if head.base_offset >= log.log_end_offset:
            log.append_fetched(leader[head.position : head.position + head.size], 1_000)
    flush(log)
    for job in jobs:
        job()


def follows(leader: bytes) -> Case:
    def one_of_both(before: bytes, log: PartitionLog, done: bool) -> None:
        found = content(log)
        assert found == leader if done else before == found or leader.startswith(found)

    return Case(lambda: led(False), lambda log: follow(log, leader), one_of_both, content, cuts=True)


FOLLOWS = follows(LEADER)
SEQUENCES = {**CASES, "follow another leader": FOLLOWS, "follow another leader a little": follows(LITTLE)}
State = Callable[[PartitionLog], Any]


def state(log: PartitionLog) -> Any:
    """All that a log says."""
    log.check()
    epochs = log.epochs.epochs, log.epochs.starts
    told = aborted(log, log.log_start_offset, log.log_end_offset)
    offsets = log.log_start_offset, log.log_end_offset, log.sparse
    return content(log), offsets, epochs, told, log.producers.snapshot()


def cleaned_state(log: PartitionLog) -> Any:
    """All that a log says but for what a second cleaning of the same takes away besides: batches without a record."""
    return latest(log), *state(log)[2:]


def opened(log: PartitionLog) -> PartitionLog:
    """What a start finds after a kill."""
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    disk.crash()
    return Checkpoint(log).open(log)


def short(case: Case, step: int, lasts: int, said: State, wanted: Any) -> bool:
    """Whether the shortage has come."""
    log = case.make()
    before, disk = case.before(log), log.disk
    assert isinstance(disk, VirtualDisk)
    disk.fault = adversary = Adversary(step, SHORT_OF, lasts)
    for attempt in range(TRIES):
        if attempt == TRIES - 1:
            disk.fault = None
        try:
            case.run(log)
            break
        except DiskFull as full:
            assert full.disk is disk, f"nobody knows whose {full!r} is"
            assert disk.fault is not None, f"it is over, and there is no room: {full!r}"
        with disk.readable():
            assert log.torn is None, f"torn: {log.torn!r}"
            log.check()
            case.holds(before, log, False)
    disk.fault = None
    assert log.torn is None, f"torn: {log.torn!r}"
    case.holds(before, log, True)
    put(log, build(), epoch=20)
    flush(log)
    assert log.refusing is None
    assert said(log) == wanted, "it is not what it is without the shortage"
    for job in log.left_over():
        job()
    disk.sync(Sync(0, [log.names.listing], []))
    assert said(opened(log)) == wanted, "the next start finds something else"
    return adversary.steps >= step


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_log_goes_on_without_a_start_when_a_shortage_is_over(name: str) -> None:
    case, faults, step = SEQUENCES[name], 0, 0
    said = cleaned_state if case.run is clean else state
    without = case.make()
    case.run(without)
    put(without, build(), epoch=20)
    flush(without)
    wanted = said(without)
    while True:
        step += 1
        for lasts in LASTS:
            try:
                came = short(case, step, lasts, said, wanted)
            except AssertionError as error:
                raise AssertionError(f"short from step {step} on, for {lasts} operations: {error}") from error
            if not came:
                print(f"{name}: {step - 1} steps, {faults} shortages")
                assert step > 5
                return
            faults += 1


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_log_goes_on_where_its_caller_has_given_up(name: str) -> None:
    """As where a follower that could not cut its log leads now: what it takes is there after a kill."""
    case, step, came = SEQUENCES[name], 0, True
    said = cleaned_state if case.run is clean else state  # a start may let a cleaned segment take its place
    while came:
        step += 1
        for lasts in LASTS:
            log = case.make()
            disk = log.disk
            assert isinstance(disk, VirtualDisk)
            disk.fault = adversary = Adversary(step, SHORT_OF, lasts)
            try:
                case.run(log)
            except DiskFull:
                with suppress(DiskFull):
                    log.flush()
            disk.fault = None
            put(log, build(timestamp_ms=5_000), epoch=20)
            flush(log)
            log.check()
            found = said(log)
            assert batch.headers(content(log))[-1].max_timestamp == 5_000
            again = said(opened(log))
            assert again == found, f"the next start finds something else; short from step {step} on, {lasts} times"
            came = adversary.steps >= step
    assert step > 5


def test_no_snapshot_of_what_was_cut_is_believed_while_it_cannot_be_removed() -> None:
    """Nor is anything appended: a start would find it behind the log's end, and drop it."""
    log = led(False)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    stale = [one for one in log.snapshots.offsets if one > COMMON]
    assert stale
    disk.fault = lambda operation, path: errno.EMFILE * (operation == "remove")
    truncate_to(log, COMMON)
    assert log.log_end_offset == COMMON and not set(stale) & set(log.snapshots.offsets)
    assert all(disk.found(log.snapshots.path(one)) for one in stale)
    for _ in range(2):
        with pytest.raises(DiskFull):
            put(log, build())
        with pytest.raises(DiskFull):
            log.flush()
    disk.fault = None
    follow(log)
    assert content(log) == LEADER and log.refusing is None
    assert state(opened(log)) == state(led(True))


def test_names_that_have_changed_in_part_are_changed_back_however_often_that_fails() -> None:
    """Before anything else of the log changes."""
    case, half = FOLLOWS, 0
    for step, gap in product(range(1, 40), range(1, 8)):
        log = case.make()
        before, disk = case.before(log), log.disk
        assert isinstance(disk, VirtualDisk)
        steps = [0]

        def fault(operation: str, path: str, steps: list[int] = steps, step: int = step, gap: int = gap) -> int:
            steps[0] += operation in ("rename", "remove")
            failing = operation in ("rename", "remove") and steps[0] >= step and steps[0] % gap == 0
            return SHORT_OF[steps[0] % len(SHORT_OF)] if failing and steps[0] < step + 20 else 0

        disk.fault = fault
        for _ in range(40):
            try:
                case.run(log)
                break
            except DiskFull:
                half += log.names.owed
                with disk.readable():
                    log.check()
                    case.holds(before, log, False)
        disk.fault = None
        case.run(log)
        case.holds(before, log, True)
        assert log.torn is None and not log.names.owed
        assert state(opened(log))[0] == LEADER
    assert half > 10


def test_a_snapshot_that_a_late_flush_has_written_is_removed_before_anything_is_appended() -> None:
    """The log was cut while the sync ran, and there is no descriptor to remove what it has written."""
    log = led(False)
    disk = log.disk
    assert isinstance(disk, VirtualDisk)
    log.roll(1_000)
    (late,) = log.snapshots.pending
    flushing = log.flush()
    truncate_to(log, COMMON)
    logs.sync(log, flushing)
    disk.fault = lambda operation, path: errno.EMFILE * (operation == "remove")
    log.flushed(flushing)
    assert disk.found(log.snapshots.path(late)) and log.names.owed
    with pytest.raises(DiskFull):
        put(log, build())
    disk.fault = None
    follow(log)
    assert not disk.found(log.snapshots.path(late)) or late in log.snapshots.offsets
    assert state(opened(log)) == state(led(True))
