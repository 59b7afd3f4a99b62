"""Every sequence of disk operations of a log, with a fault at each of its steps and a crash after it.

A sequence runs once to count its steps. Then it runs again for each step and each way to fail: no room or a failing device,
once, twice, for three operations, or from then on. After that the log that is in memory and the one that a start finds must
have what they should: a failed operation may be done, half done in whole segments, or not begun, and may be repeated. What
was durable stays, and what was removed durably does not come back.
"""

import errno
import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import pytest

from actors.broker.log import retention
from actors.broker.log.cleaning.replacing import withdraw
from actors.broker.log.directories.directory import ARRIVED, LEAVING, PARTITION_METADATA, read_moves
from actors.broker.log.log import PartitionLog, Unsettled
from actors.broker.log.moving import Move, Stage
from actors.broker.log.recovery import recover
from actors.broker.log.segment import LOG, SWAP
from actors.broker.log.truncation import truncate_fully, truncate_to
from actors.ports import DiskFailed, DiskFull, Sync
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import logs
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT, NOW, drive, keyed, latest, steps
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, put
from tests.unit.broker.log.test_moving import ID, batches, two
from tests.unit.broker.log.test_moving import step as next_step

pytestmark = pytest.mark.long

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)
FAILED = (errno.EIO, errno.ESTALE, errno.EROFS)
HOWS = 6
"""Ways to crash: see `crash`."""
LASTS = {"once": 1, "also on the way back": 2, "for a time": 3, "from now on": 1 << 30}


class Adversary:
    """Lets operations of a disk fail from one step on."""

    def __init__(self, step: int, numbers: tuple[int, ...], lasts: int) -> None:
        self.steps = 0
        self._numbers = numbers
        self._fails = range(step, step + lasts)

    def __call__(self, operation: str, path: str) -> int:
        self.steps += 1
        return self._numbers[self.steps % len(self._numbers)] if self.steps in self._fails else 0


class Case(NamedTuple):
    """One sequence."""

    make: Callable[[], PartitionLog]
    """A log that is durable."""
    run: Callable[[PartitionLog], None]
    holds: Callable[[Any, PartitionLog, bool], None]
    """(what `before` said, a log, the whole sequence is done): raises AssertionError."""
    before: Callable[[PartitionLog], Any]
    final: bool = False
    """A device that fails here ends the use of the log: it is not gone on with."""
    cuts: bool = False
    """The log is cut inside a segment."""
    ordered: Callable[[PartitionLog], None] = lambda log: None
    """What holds as well of a log that a start has opened."""


def sync(log: PartitionLog) -> None:
    flush(log)


# ---- the sequences


def compacted() -> PartitionLog:
    log = logs.new(**COMPACT)
    for number in range(34):
        put(log, keyed(b"k%d" % (number % 9), b"v%d" % number), epoch=number // 20)
    flush(log)
    log.checkpointed_offset = log.recovery_point
    return log


def joined() -> PartitionLog:
    """Its next cleaning makes one segment of several, so that producer snapshots go with them."""
    log = logs.new(**COMPACT)
    for number in range(24):
        put(log, keyed(b"old%d" % (number % 3), b"v%d" % number))
    flush(log)
    list(drive(steps(log), log))
    for number in range(24):
        put(log, keyed(b"k%d" % (number % 9), b"w%d" % number))
    flush(log)
    log.checkpointed_offset = log.recovery_point
    return log


def clean(log: PartitionLog) -> None:
    cleaning = steps(log)
    try:
        list(drive(cleaning, log))
    except (DiskFull, DiskFailed):
        left, disk = cleaning.leftover, log.disk
        assert isinstance(disk, VirtualDisk)
        if left is not None:  # as the log cleaner does
            try:
                if log.standing is left:
                    withdraw(log)
                disk.sync(Sync(0, [log.names.listing], []))
                left.delete()()
            except (DiskFull, DiskFailed):
                pass
        raise


def same_keys(before: Any, log: PartitionLog, done: bool) -> None:
    assert latest(log) == before


def plain(segment_bytes: int = 400, **changes: int) -> PartitionLog:
    log = logs.new(segment_bytes=segment_bytes, retention_bytes=800, **changes)
    for number in range(16):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        put(log, build(**header), epoch=number // 6)
    flush(log)
    return log


def flushed() -> PartitionLog:
    """No checkpoint says yet that it is durable. Many segments may go."""
    log = plain(segment_bytes=100)
    log.recovery_point = 0
    return log


def retain(log: PartitionLog) -> None:
    found = retention.retain(log, 10_000, log.log_end_offset)
    flush(log)
    for job in found.jobs:
        job()


def old() -> PartitionLog:
    """All of it is too old."""
    log = plain()
    log.settings = logs.settings(segment_bytes=400, retention_ms=0)
    return log


def retain_all(log: PartitionLog) -> None:
    jobs = []
    while (
        log.log_start_offset < log.log_end_offset
    ):  # without room for the next segment the last one stays until a check
        jobs += logs.retained(log, 1 << 50, log.log_end_offset).jobs
    flush(log)
    for job in jobs:
        job()


def a_place(before: bytes, log: PartitionLog, done: bool) -> None:
    found = content(log)
    assert before.endswith(found) and log.log_end_offset == 16
    assert not done or (found == b"" and log.log_start_offset == 16)


def an_end(before: bytes, log: PartitionLog, done: bool) -> None:
    found = content(log)
    assert before.endswith(found) and log.log_end_offset == 16
    assert len(found) >= 800 and (not done or len(found) < 800 + 500)
    heads = batch.headers(found)
    assert heads[0].base_offset == log.log_start_offset


def cut(log: PartitionLog) -> None:
    jobs = truncate_to(log, 5)
    flush(log)
    for job in jobs:
        job()


def a_begin(before: bytes, log: PartitionLog, done: bool) -> None:
    found = content(log)
    assert before.startswith(found)
    assert log.log_end_offset >= 5 and (not done or log.log_end_offset == 5)
    assert len(batch.headers(found)) == log.log_end_offset
    producer = log.producers.by_id[7]
    assert producer.batches[-1].last_sequence == log.log_end_offset - 1


def cut_and_grow(log: PartitionLog) -> None:
    jobs = truncate_to(log, 5) if log.epochs.latest < 9 else []
    for number in range(log.log_end_offset, 15):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        put(log, build(timestamp_ms=9_000, **header), epoch=9)
    flush(log)
    for job in jobs:
        job()


def grown(before: bytes, log: PartitionLog, done: bool) -> None:
    heads = batch.headers(content(log))
    assert [one.base_offset for one in heads] == list(range(log.log_end_offset))
    old = [one for one in heads if one.max_timestamp != 9_000]
    assert len(old) >= 5 and heads[: len(old)] == old
    assert not done or (len(old), len(heads)) == (5, 15)
    for head in heads:
        assert log.epochs.epoch_at(head.base_offset) == head.epoch


def begin_anew(log: PartitionLog) -> None:
    jobs = truncate_fully(log, 40)
    put(log, build(), epoch=9)
    flush(log)
    for job in jobs:
        job()


def one_of_two(before: bytes, log: PartitionLog, done: bool) -> None:
    found = content(log)
    if log.log_start_offset >= 40:
        assert log.log_end_offset in (40, 41)
    else:
        assert found in before and not done, "a part of what there was, without a hole"


def grow(log: PartitionLog) -> None:
    for number in range(log.log_end_offset, 26):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        put(log, build(**header), epoch=number // 6)
    flush(log)


def longer(before: bytes, log: PartitionLog, done: bool) -> None:
    found = content(log)
    assert found.startswith(before)
    assert [one.base_offset for one in batch.headers(found)] == list(range(log.log_end_offset))
    assert not done or log.log_end_offset == 26
    assert log.producers.by_id[7].batches[-1].last_sequence == log.log_end_offset - 1


def single() -> PartitionLog:
    """No small file changes when it is cut: only names do."""
    log = logs.new(segment_bytes=400)
    for _ in range(16):
        put(log, build())
    flush(log)
    return log


def cut_and_pass(log: PartitionLog) -> None:
    """The last segment passes those that were behind it. What is to be unlinked stays for a while."""
    if log.log_end_offset != 15:
        truncate_to(log, 5)
    if log.log_end_offset == 5:
        put(log, build(10, 1, timestamp_ms=9_000))
    flush(log)


def passed(before: bytes, log: PartitionLog, done: bool) -> None:
    heads = batch.headers(content(log))
    assert not done or [one.last_offset for one in heads] == [0, 1, 2, 3, 4, 14]
    assert log.log_end_offset == heads[-1].last_offset + 1 and len(heads) >= 5


def no_mixture(log: PartitionLog) -> None:
    """Also where pages reach the device in any order: nothing is appended before the cut is durable."""
    old = [one for one in batch.headers(content(log)) if one.max_timestamp != 9_000]
    assert len(old) in (5, len(batch.headers(content(log)))), "old records behind a cut, and new ones behind them"


def leader_that_was_compacted() -> list[bytes]:
    """Its batches, the first of which follow each other. Then there are gaps."""
    log = logs.new(**COMPACT)
    for number in range(40):
        put(log, keyed(b"k%d" % (number if number < 8 else 8 + number % 7), b"v%d" % number), epoch=number // 20)
    flush(log)
    clean(log)
    data = content(log)
    found = [data[one.position : one.position + one.size] for one in batch.headers(data)]
    assert len(found) < log.log_end_offset and batch.headers(found[3])[0].last_offset == 3
    return found


FROM_A_LEADER = leader_that_was_compacted()


def fetched() -> PartitionLog:
    """A follower of a topic that is not compacted, with the first batches of a leader that was."""
    log = logs.new(segment_bytes=400, index_interval_bytes=100)
    log.append_fetched(b"".join(FROM_A_LEADER[:4]), 1_000)
    flush(log)
    assert not log.sparse
    return log


def fetch(log: PartitionLog) -> None:
    for one in FROM_A_LEADER:
        if batch.headers(one)[0].base_offset >= log.log_end_offset:
            log.append_fetched(one, 1_000)
    flush(log)


def gaps_are_known(before: bytes, log: PartitionLog, done: bool) -> None:
    found, everything = content(log), b"".join(FROM_A_LEADER)
    assert everything.startswith(found) and found.startswith(before) and (found == everything or not done)
    heads = batch.headers(found)
    has_gaps = len(found) and heads[-1].last_offset - heads[0].base_offset >= sum(one.count for one in heads)
    assert log.sparse or not has_gaps, "readers would call it damaged"


CASES = {
    "clean and replace": Case(compacted, clean, same_keys, latest),
    "clean and join": Case(joined, clean, same_keys, latest),
    "retain": Case(plain, retain, an_end, content),
    "retain before the checkpoint": Case(flushed, retain, an_end, content),
    "retain all": Case(old, retain_all, a_place, content),
    "truncate": Case(plain, cut, a_begin, content, cuts=True),
    "truncate and grow": Case(plain, cut_and_grow, grown, content, True, True, no_mixture),
    "truncate and pass": Case(single, cut_and_pass, passed, content, True, True, no_mixture),
    "begin anew": Case(plain, begin_anew, one_of_two, content, final=True),
    "append and roll": Case(plain, grow, longer, content, final=True),
    "fetch what has gaps": Case(fetched, fetch, gaps_are_known, content, final=True),
}


# ---- the enumeration


class Checkpoint:
    """What the checkpoints say, which are older than the log: as they were when the sequence began, or when it was done."""

    def __init__(self, log: PartitionLog) -> None:
        self.recovery_point = log.recovery_point
        self.log_start_offset = 0
        self.cleaned_offset = log.cleaned_offset

    def open(self, log: PartitionLog) -> PartitionLog:
        return recover(
            log.disk,
            log.directory,
            log.settings,
            clean=False,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            cleaned_offset=self.cleaned_offset,
            topic_id=log.topic_id,
        ).log


def crash(disk: VirtualDisk, how: int) -> None:
    """0: a kill. Else a power cut, that keeps all names, none, or some."""
    if how == 1:
        disk.crash(None)
    elif how == 2:
        disk.crash(None, keeps=lambda change: False)
    elif how > 2:
        coins = random.Random(how)
        disk.crash(coins, keeps=lambda change: coins.randrange(2) == 0)


def run(case: Case, step: int, numbers: tuple[int, ...], lasts: int, how: int) -> bool:
    """Whether the fault has come."""
    log = case.make()
    before, disk = case.before(log), log.disk
    assert isinstance(disk, VirtualDisk)
    checkpoint = Checkpoint(log)
    disk.fault = adversary = Adversary(step, numbers, lasts)
    failed: OSError | None = None
    try:
        case.run(log)
    except (DiskFull, DiskFailed) as error:
        failed = error
        assert error.disk is disk, f"nobody knows whose {error!r} is"
    disk.fault = None
    assert log.torn is None or numbers is not FULL, f"torn, and nothing has failed: {log.torn!r}"
    if failed is None:
        case.holds(before, log, True)
        checkpoint = Checkpoint(log)
    elif log.torn is None and not (isinstance(failed, DiskFailed) and case.final):
        log.check()
        try:
            case.holds(before, log, False)
            if how % 2:  # life goes on
                case.run(log)
                case.holds(before, log, True)
        except DiskFailed as error:
            assert error is failed, error  # the file in which an operation failed fails for good
    crash(disk, how)
    again = checkpoint.open(log)
    again.check()
    if again.damaged is not None:
        # The page in which the last file was cut has reached the device, and none of the names behind it. So nobody knows
        # what was going on; the replica is fetched anew from the leader by whose word it was cut.
        assert case.cuts and how > 1 and failed is not None, again.damaged
        return adversary.steps >= step
    case.holds(before, again, failed is None)
    case.ordered(again)
    flush(again)
    crash(disk, how)
    case.holds(before, checkpoint.open(again), failed is None)
    return adversary.steps >= step


Way = tuple[tuple[str, int], tuple[int, ...], int]
"""((kind, how many operations fail), the errors that they have, the crash behind them)."""


def fail_each_step(
    name: str, ways: Callable[[int], Iterable[Way]], once: Callable[[int, tuple[int, ...], int, int], bool]
) -> None:
    """Let each step of a sequence fail in these ways. `once` makes one run, of (step, errors, how many operations fail,
    crash), and says whether the fault has come; the first that does not is behind the last step."""
    faults, step = 0, 0
    while True:
        step += 1
        for (kind, lasts), numbers, how in ways(step):
            try:
                came = once(step, numbers, lasts, how)
            except AssertionError as error:
                what = errno.errorcode[numbers[0]]
                raise AssertionError(f"step {step} fails with {what}, {kind}; crash {how}: {error}") from error
            if not came:
                print(f"{name}: {step - 1} steps, {faults} faults")
                assert step > 5
                return
            faults += 1


def every(number: int, hows: int = HOWS) -> Callable[[int], Iterable[Way]]:
    """Each fault, with one of `number` of the crashes behind it, other ones at the next step."""
    return lambda step: product(LASTS.items(), (FULL, FAILED), range(step % number, hows, number))


@pytest.mark.parametrize("name", CASES)
def test_a_fault_at_each_step_and_a_crash_behind_it(name: str) -> None:
    fail_each_step(name, every(3), partial(run, CASES[name]))


SHORT = ({"truncate", "overwrite"}, {"truncate", "overwrite", "settle", "create", "append", "replace"})
"""Operations that may want room, of a cut and of all behind it."""


@pytest.mark.parametrize("operations", SHORT, ids=["cuts", "bytes"])
@pytest.mark.parametrize("name", ["truncate", "truncate and grow"])
def test_a_cut_that_finds_no_room_is_made_when_there_is_some(name: str, operations: set[str]) -> None:
    """Nothing is torn: before there is room the log is whole."""
    case, came = CASES[name], 0
    for first, lasts in product(range(40), (1, 2, 1 << 30)):
        log = plain(index_interval_bytes=0)
        before, disk = case.before(log), log.disk
        assert isinstance(disk, VirtualDisk)
        steps = [0]

        def fault(operation: str, path: str, steps: list[int] = steps, first: int = first, lasts: int = lasts) -> int:
            steps[0] += operation in operations
            return errno.ENOSPC if operation in operations and first < steps[0] <= first + lasts else 0

        disk.fault = fault
        try:
            case.run(log)
        except DiskFull:
            came += 1
            assert log.torn is None, (first, lasts)
        disk.fault = None
        log.check()
        case.holds(before, log, False)
        case.run(log)
        case.holds(before, log, True)
        flush(log)
        crash(disk, 0)
        case.holds(before, Checkpoint(log).open(log), True)
    assert came > 3


def test_what_a_log_has_that_began_anew_in_front_of_its_end_is_checked() -> None:
    """It had no record, so nothing is cut; but the checkpoints say that all is durable up to where it ended."""
    starts = set[int]()
    for seed in range(40):
        log = logs.new(retention_ms=1)
        for _ in range(40):
            put(log, build())
        flush(log)
        logs.retained(log, 1 << 50, 40)
        flush(log)
        checkpoint, disk = Checkpoint(log), log.disk
        assert log.size == 0 and checkpoint.recovery_point == 40 and isinstance(disk, VirtualDisk)
        truncate_fully(log, 20)
        for number in range(20, 50):
            builder = batch.Builder(timestamp_ms=1_000)
            builder.append(b"key", random.Random(number).randbytes(2_000), 1_000)  # no zeros, as a lost page is
            data = builder.build()
            headers = batch.accept(data, 0, len(data), number, 7, now_ms=1_000).headers
            try:
                log.append(data, headers, 1_000, client=False)
            except Unsettled:
                flush(log)
                checkpoint = Checkpoint(log)
                log.append(data, headers, 1_000, client=False)
        disk.crash(random.Random(seed))
        again = checkpoint.open(log)
        found = content(again)
        starts.add(again.log_start_offset)
        for head in batch.headers(found):
            try:
                batch.verify(found, head.position)
            except batch.CorruptBatch as error:
                raise AssertionError(f"a start believes what is half written: {error}, seed {seed}") from error
        assert again.damaged is None and again.log_end_offset == again.log_start_offset + len(batch.headers(found)), (
            seed
        )
    assert starts <= {20, 40}, "nothing says where it began"


# ---- sequences over two disks, and over two processes


def move(step: int, failing: int, numbers: tuple[int, ...], lasts: int, how: int) -> bool:
    """A replica moves; whether the fault has come. The other disk works."""
    current, future = two()
    for number in range(16):
        header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": number}
        put(current, build(**header), epoch=number // 6)
    flush(current)
    wanted, disks = batches(current), (current.disk, future.disk)
    point = current.recovery_point
    adversary = Adversary(step, numbers, lasts)
    disk = disks[failing]
    assert isinstance(disk, VirtualDisk)
    disk.fault = adversary
    moving = Move(current, future)
    try:
        for _ in range(100):
            try:
                if moving.stage is Stage.TAKEN or not next_step(moving):
                    flush(future)
                    disks[0].remove(DIRECTORY)  # the old files go, when the new name is on the disk
                    disks[0].settle("")
                    break
            except DiskFull as error:
                assert error.disk is disk
                if moving.stage is not Stage.TAKEN:
                    moving.again()
    except DiskFailed as error:
        assert error.disk is disk, "the sound one is blamed"
    disk.fault = None
    if moving.stage is not Stage.TAKEN and failing:
        assert batches(current) == wanted, "it is served where it is"
    for one in disks:
        assert isinstance(one, VirtualDisk)
        one.fault = None
        crash(one, how)
    mark = read_moves(disks[1], DIRECTORY, ARRIVED)
    taken = bool(mark) and read_moves(disks[0], DIRECTORY, LEAVING) in (mark, [])
    found = recover(
        disks[taken], DIRECTORY, current.settings, clean=False, recovery_point=0 if taken else point, topic_id=ID
    ).log
    assert batches(found) == wanted and found.producers.by_id[7].batches[-1].last_sequence == 15
    return adversary.steps >= step


@pytest.mark.parametrize("failing", [0, 1])
def test_a_move_with_a_fault_at_each_step_of_one_disk(failing: int) -> None:
    def once(step: int, numbers: tuple[int, ...], lasts: int, how: int) -> bool:
        return move(step, failing, numbers, lasts, how)

    fail_each_step(f"move, disk {failing}", every(2), once)


def write_keys(log: PartitionLog, first: int, count: int = 24) -> None:
    for number in range(first, first + count):
        put(log, keyed(b"k%d" % (number % 5), b"v%d" % number))
    flush(log)
    log.checkpointed_offset = log.recovery_point


def clean_at(log: PartitionLog, now_ms: int) -> None:
    list(drive(steps(log, now_ms), log))


def move_over_a_start(stop: int, step: int, numbers: tuple[int, ...], lasts: int, how: int) -> tuple[bool, bool]:
    """The directory to which a replica moves fails at a step of the move, and is back with the next start. Meanwhile the
    replica is cleaned where it is, until a tombstone has gone. Then the move goes on, and a step of the disk fails. Whether
    the move was under way at the first step, and whether the fault has come."""
    current, future = two(**COMPACT, delete_retention_ms=1_000)
    put(current, keyed(b"deleted", b"value"))
    write_keys(current, 0)
    put(current, keyed(b"deleted", None))
    write_keys(current, 24)
    moving = Move(current, future)
    under_way = all(next_step(moving, bytes_max=300) for _ in range(stop))
    if not under_way:
        return False, False
    for place in range(3):
        write_keys(current, 48 + 24 * place)
        clean_at(current, NOW + 86_400_000 * place)
    assert b"deleted" not in latest(current)
    wanted = batches(current)
    disks = current.disk, future.disk
    for one in disks:
        assert isinstance(one, VirtualDisk)
        crash(one, how)

    def opened(log: PartitionLog) -> PartitionLog:
        known = log.recovery_point, log.cleaned_offset
        if not log.disk.exists(f"{log.directory}/{PARTITION_METADATA}"):  # nobody knows whose it is: it begins anew
            if log.disk.exists(log.directory):
                log.disk.remove(log.directory)
            return PartitionLog(log.disk, log.directory, log.settings, ID)
        return recover(
            log.disk,
            log.directory,
            log.settings,
            clean=False,
            recovery_point=known[0],
            cleaned_offset=known[1],
            topic_id=ID,
        ).log

    current, future = opened(current), opened(future)
    assert batches(current) == wanted, "the move has changed nothing yet"
    assert isinstance(disks[1], VirtualDisk)
    disks[1].fault = adversary = Adversary(step, numbers, lasts)
    moving = Move(current, future)
    try:
        for _ in range(200):
            try:
                if not next_step(moving, bytes_max=300):
                    break
            except DiskFull:
                moving.again()
    except DiskFailed as error:
        assert error.disk is disks[1]
    disks[1].fault = None
    served = future if moving.stage is Stage.TAKEN else current
    assert batches(served) == wanted, "what was cleaned away is back, or something is missing"
    assert latest(served) == latest(current)
    return True, adversary.steps >= step


def test_a_move_that_a_start_interrupts_takes_what_there_is_then() -> None:
    faults = 0
    for stop in range(1_000):
        came, step = True, 0
        while came:
            step += 1
            lasts, numbers = (1, 2, 1 << 30)[(step + stop) % 3], (FULL, FAILED)[step // 2 % 2]
            what = f"stopped at {stop}, step {step} fails with {errno.errorcode[numbers[0]]}, {lasts} times"
            try:
                under_way, came = move_over_a_start(stop, step, numbers, lasts, (step + stop) % HOWS)
            except AssertionError as error:
                raise AssertionError(f"{what}: {error}") from error
            faults += came
        if not under_way:
            print(f"move over a start: {stop} stops, {faults} faults")
            assert stop > 5 and faults > 100
            return
    raise AssertionError("the move never ended")


class Stopped(Exception):
    """The process dies."""


def test_a_start_that_finds_a_cleaning_half_done_fails_at_each_step() -> None:
    """And the next one finds all that there was."""
    faults = starts = 0
    for stop_at in range(1, 1_000):
        log = compacted()
        before, disk, count = latest(log), log.disk, 0
        assert isinstance(disk, VirtualDisk)
        checkpoint = Checkpoint(log)

        def dies(operation: str, path: str, stop_at: int = stop_at) -> int:
            nonlocal count
            count += operation in ("rename", "sync")
            if count == stop_at:
                raise Stopped
            return 0

        disk.fault = dies
        try:
            clean(log)
        except Stopped:
            pass
        else:
            print(f"start: {starts} starts, {faults} faults")
            assert stop_at > 30
            return
        disk.fault = None
        crash(disk, stop_at % HOWS)
        for step in range(stop_at % 2 + 1, 1_000, 2):
            numbers = (FULL, FAILED)[step // 2 % 2]
            disk.fault = adversary = Adversary(step, numbers, (1, 1 << 30)[step // 4 % 2])
            starts += 1
            try:
                assert latest(checkpoint.open(log)) == before
            except (DiskFull, DiskFailed):
                faults += 1
            disk.fault = None
            crash(disk, (step + stop_at) % HOWS)
            if adversary.steps < step:
                break
        assert latest(checkpoint.open(log)) == before
    raise AssertionError("the cleaning never ended")


@pytest.mark.parametrize("named", [False, True])
def test_a_cleaned_segment_without_its_name_is_not_lost_in_the_next_cleaning(named: bool) -> None:
    """There is no room for its name, or none for the sync behind it, and the next cleaning stops at one of its steps."""

    def short(operation: str, path: str) -> int:
        nonlocal placed
        placed += operation == "rename" and path.endswith(LOG + SWAP)
        return errno.ENOSPC if placed and operation == ("sync" if named else "rename") else 0

    def dies(operation: str, path: str) -> int:
        nonlocal count
        count += operation in ("rename", "sync", "create", "append")
        if count == stop_at:
            raise Stopped
        return 0

    for stop_at, how in product(range(1, 1_000), range(HOWS)):
        log, placed, count = logs.new(**COMPACT), 0, 0
        for number in range(34):
            put(log, keyed(b"k%d" % (number if number < 4 else number % 9 + 4), b"v%d" % number))
        flush(log)
        disk = log.disk
        assert isinstance(disk, VirtualDisk)
        disk.fault = short
        with pytest.raises(DiskFull):
            clean(log)
        checkpoint, before, disk.fault = Checkpoint(log), latest(log), dies
        try:
            clean(log)
        except Stopped:
            pass
        else:
            assert stop_at > 20
            return
        disk.fault = None
        crash(disk, how)
        assert latest(checkpoint.open(log)) == before, (stop_at, how)
    raise AssertionError("the cleaning never ended")
