"""Every sequence of disk operations of the metadata log, with a fault at each of its steps and a crash after it.

A sequence runs once to count its steps, then again for each step and each way to fail. Where there is no room or no
descriptor it tries again, as a node does that waits for room; where the device fails the process ends. Then comes a kill or
a power cut, and a start that may itself fail at a step. In the end what was durable is there, in its order, nothing of what
was cut is mixed with what took its place, the log begins at a snapshot or with its first record, and a vote that was
answered is known.
"""

import random
from collections.abc import Callable
from functools import partial

import pytest

from actors.host.storage import Voter, first_checkpoint
from actors.node.quorum.checkpoints import verify
from actors.node.quorum.log import MetadataLog, Segment
from actors.node.quorum.store import NO_SNAPSHOT, Store
from actors.ports import Batch, DiskFailed, DiskFull, File, Sync
from actors.raft import EpochTable, HardState, ReplicaKey, SnapshotId
from tests.simulator.disk import VirtualDisk
from tests.simulator.planted.registry import instead
from tests.unit.broker.log.test_failing_disk import FAILED, HOWS, Adversary, crash, every, fail_each_step
from tests.unit.node.quorum.test_log import DIRECTORY, batch, contents

pytestmark = pytest.mark.long

SEGMENT_BYTES = 1500
TRIES = 5
"""After so many a shortage has ended."""
WAYS = 2 * HOWS
"""Ways to crash: see `power_cut`."""
STARTS = 4
"""In one of so many runs the start fails as well."""
VOTED = HardState(9, ReplicaKey(1, bytes(16)), -1)
CONTENT = memoryview(first_checkpoint([Voter(1, "localhost", 9093, bytes(16), "CONTROLLER")]))
"""The content of every snapshot here."""


class Ended(Exception):
    """The device has failed, and with that the process ends."""


class Quorum:
    """The directory of a metadata log, and what its node has told others."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.store = Store(self.disk, DIRECTORY, SEGMENT_BYTES, 1 << 40)
        self.start = self.store.recover(0).latest
        self.written: list[list[Batch]] = [[]]
        """All that was ever in the log: the histories, of which a later one takes the place of an earlier one's end."""
        self.durable = 0
        """The offset below which the newest history is durable."""
        self.may_be = [0]
        """To which of the histories a start may go back: the newest whose cut is durable, and those behind it."""
        self.hard: HardState = HardState()
        self.asked: HardState = HardState()
        self.snapshot: SnapshotId = NO_SNAPSHOT
        """The newest snapshot that is durable."""

    def again(self, operation: Callable[[], object]) -> None:
        """Do something, again while there is no room for it. Raises Ended."""
        for tried in range(TRIES + 1):
            if tried == TRIES:
                self.disk.fault = None
            try:
                operation()
                return
            except DiskFull as error:
                assert error.disk is self.disk
            except DiskFailed as error:
                assert error.disk is self.disk
                raise Ended from error
        raise AssertionError("there is room, and it is refused")

    def append(self, first: int, last: int, epoch: int) -> None:
        """Append batches of one record each."""
        log = self.store.log
        made = [batch(offset, epoch, size=100) for offset in range(first, last)]
        self.written[-1] += made
        self.again(lambda: log.append([one for one in made if one.base_offset >= log.end_offset], 0))

    def cut(self, offset: int) -> None:
        """Cut the log, so that another history goes on there."""
        self.written.append([one for one in self.written[-1] if one.base_offset < offset])
        self.may_be.append(len(self.written) - 1)
        self.durable = min(self.durable, offset)
        self.again(lambda: self.store.log.truncate(offset))

    def sync(self, hard: HardState | None = None) -> None:
        """Make all durable that there is."""
        dirty, end = self.store.log.take_dirty(), self.store.log.end_offset
        if hard is not None:
            self.asked = hard
        replaced = self.store.replacements(hard, self.table())
        self.again(lambda: self.disk.sync(Sync(0, [one.file for one in dirty], replaced)))
        self.durable, self.may_be = end, [len(self.written) - 1]
        if hard is not None:
            self.hard = hard
        self.again(lambda: self.store.log.synced(dirty))

    def table(self) -> EpochTable:
        """The epochs of the newest history."""
        entries: list[tuple[int, int]] = []
        for one in self.written[-1]:
            if not entries or entries[-1][0] < one.epoch:
                entries.append((one.epoch, one.base_offset))
        return EpochTable(entries, NO_SNAPSHOT, self.store.log.end_offset)

    def take_snapshot(self, end: int) -> None:
        """Store a snapshot of what is below an offset, and give up what is superfluous."""
        snapshot, store = SnapshotId(end, 1), self.store
        store.take_in(snapshot, CONTENT)
        taken = store.next_taken(end, 0)
        assert taken is not None
        path = store.checkpoints.path(snapshot)
        self.again(lambda: self.disk.sync(Sync(0, (), [(self.disk, path, CONTENT)])))
        self.snapshot = snapshot
        try:
            begin = store.stored(snapshot, CONTENT, self.start)
            if begin is not None:
                self.start = begin
                store.log.delete_below(begin.end_offset)
        except DiskFull:
            pass  # superfluous metadata stays until the next snapshot
        except DiskFailed as error:
            raise Ended from error

    def receive(self, end: int) -> None:
        """Take over a snapshot of the leader in the place of everything."""
        snapshot, parts = SnapshotId(end, 9), list[File]()
        for position in range(0, len(CONTENT), 100):
            part = CONTENT[position : position + 100]
            self.again(
                lambda at=position, part=part: parts.append(self.store.checkpoints.write_part(snapshot, at, part))
            )
        self.again(lambda: self.disk.sync(Sync(0, [parts[-1]], ())))
        self.again(lambda: verify(parts[-1]))
        self.written.append([])
        self.may_be.append(len(self.written) - 1)
        self.again(lambda: self.store.adopt(snapshot, 0))
        self.snapshot = snapshot

    def sweep(self) -> None:
        """Unlink what is superfluous."""
        for _, error in self.store.unlink(self.store.take_garbage()):
            if isinstance(error, DiskFailed):
                raise Ended from error

    def keep_mark(self) -> None:
        """Write the durable mark."""
        made = self.store.mark.write(self.durable, 0)
        self.again(lambda: self.disk.sync(Sync(0, (), [made])))
        self.store.mark.written(True)

    def check(self, fault: Adversary | None = None) -> None:
        """A start finds what it must. `fault`: what happens in the start. Raises DiskFull, DiskFailed: it does not start."""
        store = Store(self.disk, DIRECTORY, SEGMENT_BYTES, 1 << 40)
        self.disk.fault = fault
        try:
            found = store.recover(0)
        finally:
            self.disk.fault = None
        log, latest = store.log, found.latest
        assert found.hard in (self.hard, self.asked)
        assert latest.end_offset >= self.snapshot.end_offset, "a snapshot that was durable is gone"
        assert max(log.end_offset, latest.end_offset) >= self.durable, "what was durable is gone"
        assert latest == NO_SNAPSHOT or bytes(store.checkpoints.head()) == CONTENT
        had = plain(contents(log, log.start_offset))
        assert any(self._is_of(had, log.start_offset, log.end_offset, one) for one in self.may_be), (had, self.may_be)

    def _is_of(self, had: list[tuple[int, int, bytes]], start: int, end: int, history: int) -> bool:
        written = plain(self.written[history])
        return had == [one for one in written if start <= one[0] < end]


def plain(batches: list[Batch]) -> list[tuple[int, int, bytes]]:
    """Offsets, epochs and bytes."""
    return [(one.base_offset, one.epoch, bytes(one.data)) for one in batches]


def append_and_roll(quorum: Quorum) -> None:
    for first in range(30, 60, 5):
        quorum.append(first, first + 5, 1 + first // 40)
        quorum.sync()
    quorum.keep_mark()


def append_while_a_sync_is_late(quorum: Quorum) -> None:
    for first in range(30, 60, 4):
        quorum.append(first, first + 4, 1)
    quorum.sync()


def vote(quorum: Quorum) -> None:
    quorum.append(30, 32, 1)
    quorum.sync(VOTED)
    quorum.append(32, 34, 1)
    quorum.sync(VOTED._replace(epoch=10, voted=None, leader_id=3))


def cut(quorum: Quorum) -> None:
    quorum.append(30, 44, 1)
    quorum.cut(26)
    quorum.append(26, 30, 2)
    quorum.sync()
    quorum.append(30, 40, 2)
    quorum.sync()
    quorum.cut(13)
    quorum.append(13, 17, 3)
    quorum.sync()
    quorum.sweep()


def take_snapshots(quorum: Quorum) -> None:
    quorum.take_snapshot(10)
    quorum.append(30, 36, 1)
    quorum.sync()
    quorum.take_snapshot(20)
    quorum.sweep()
    quorum.append(36, 44, 1)
    quorum.sync()
    quorum.take_snapshot(44)
    quorum.append(44, 60, 1)
    quorum.sync()
    quorum.take_snapshot(55)
    quorum.sweep()


def receive_a_snapshot(quorum: Quorum) -> None:
    quorum.take_snapshot(10)
    quorum.receive(60)
    quorum.append(60, 70, 9)
    quorum.sync()
    quorum.sweep()


def cut_to_the_start(quorum: Quorum) -> None:
    quorum.receive(60)
    for epoch in (9, 11, 13):
        quorum.append(60, 63, epoch)
        quorum.sync()
        quorum.cut(60)
        quorum.append(60, 63, epoch + 1)
        quorum.cut(60)
    quorum.append(60, 76, 15)
    quorum.sync()
    quorum.sweep()


SEQUENCES = (
    append_and_roll,
    append_while_a_sync_is_late,
    vote,
    cut,
    cut_to_the_start,
    take_snapshots,
    receive_a_snapshot,
)


def made() -> Quorum:
    """A metadata log with thirty batches that are durable, in several segments."""
    quorum = Quorum()
    quorum.append(0, 30, 1)
    quorum.sync()
    quorum.durable = 12
    quorum.keep_mark()
    quorum.durable = 30
    return quorum


def power_cut(disk: VirtualDisk, how: int, chance: random.Random) -> None:
    """As `crash`, and with higher numbers pages of what was not synced are kept or lost as well, in any order."""
    if how < HOWS:
        crash(disk, how)
    else:
        disk.crash(chance)


def run(sequence: Callable[[Quorum], None], step: int, numbers: tuple[int, ...], lasts: int, how: int) -> bool:
    """Whether the fault has come."""
    quorum = made()
    quorum.disk.fault = adversary = Adversary(step, numbers, lasts)
    ended = False
    try:
        sequence(quorum)
    except Ended:
        ended = True
        assert numbers is FAILED, "a shortage is no failure of the device"
    quorum.disk.fault = None
    assert ended or plain(contents(quorum.store.log, quorum.store.log.start_offset)) == [
        one for one in plain(quorum.written[-1]) if one[0] >= quorum.store.log.start_offset
    ]
    chance = random.Random(f"{step} {numbers} {lasts} {how}")
    power_cut(quorum.disk, how, chance)
    if not chance.randrange(STARTS):
        try:
            quorum.check(Adversary(chance.randrange(1, 40), numbers, lasts))
        except (DiskFull, DiskFailed) as error:
            assert error.disk is quorum.disk
        power_cut(quorum.disk, chance.randrange(WAYS), chance)
    quorum.check()
    power_cut(quorum.disk, how, chance)
    quorum.check()
    return adversary.steps >= step


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_fault_at_each_step_of_the_metadata_log_and_a_crash_behind_it(sequence: Callable[[Quorum], None]) -> None:
    fail_each_step(sequence.__name__, every(6, WAYS), partial(run, sequence))


@pytest.mark.slow
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_each_fault_at_each_step_of_the_metadata_log(sequence: Callable[[Quorum], None]) -> None:
    fail_each_step(sequence.__name__, every(1, WAYS), partial(run, sequence))


def test_the_enumeration_finds_what_goes_into_a_file_of_which_all_was_cut() -> None:
    """A mistake that is planted: a power cut keeps what is new, and undoes the cut behind it."""
    active = MetadataLog._active

    def same_file(log: MetadataLog, batch: Batch, now_ms: int) -> Segment:
        if log.segments and not log.segments[-1].file.size:
            return log.segments[-1]
        return active(log, batch, now_ms)

    with instead(MetadataLog, "_active", same_file), pytest.raises(AssertionError, match=r"step .* fails"):
        test_a_fault_at_each_step_of_the_metadata_log_and_a_crash_behind_it(cut_to_the_start)
