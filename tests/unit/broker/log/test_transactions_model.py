"""Random histories of transactions on a leader and a follower, against a model that walks over all batches.

Both logs roll, are cut, closed, killed and opened again, lose records and have their indexes damaged. After each step, for
both: the last stable offset, the aborted transactions of any range, and what a consumer makes of them, are the model's.
"""

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from actors.broker.log.log import PartitionLog
from actors.broker.log.truncation import truncate_fully, truncate_to
from tests.reference import transactions as model
from tests.reference.transactions import ABORT, COMMIT, PLAIN, TRANSACTIONAL, Batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, stop
from tests.unit.broker.log.transactions import aborted, end, last_stable, write

PRODUCERS = st.integers(1, 4)
SIDES = st.sampled_from([0, 1])


class TransactionMachine(RuleBasedStateMachine):
    """`logs[0]` leads; `logs[1]` holds a part of what it has."""

    logs: list[PartitionLog]

    @initialize(segment=st.sampled_from([250, 600, 100_000]))
    def begin(self, segment: int) -> None:
        self.logs = [new(segment_bytes=segment, retention_ms=-1) for _ in range(2)]
        self.batches: list[Batch] = []
        self.high_watermark = 0
        self.shown = [0, 0]
        """The highest last stable offset that each log has given."""

    # ---- the leader

    def add(self, count: int, kind: str, producer: int = -1, epoch: int = -1, sequence: int = -1) -> None:
        base = self.batches[-1].last + 1 if self.batches else 0
        self.batches.append(Batch(base, base + count - 1, kind, producer, epoch, sequence))

    @rule(count=st.integers(1, 3))
    def plain(self, count: int) -> None:
        put(self.logs[0], build(count))
        self.add(count, PLAIN)

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def transactional(self, producer: int, count: int) -> None:
        epoch, sequence = model.next_of(self.batches, producer)
        known = self.logs[0].producers.by_id.get(producer)
        if known is not None and sequence and not known.batches:
            return  # its batches were deleted, its marker was not: it needs a new epoch, as with Apache Kafka
        assert not write(self.logs[0], producer, sequence, count, epoch).duplicate
        self.add(count, TRANSACTIONAL, producer, epoch, sequence)

    @rule(producer=PRODUCERS, commit=st.booleans(), rises=st.booleans())
    def ended(self, producer: int, commit: bool, rises: bool) -> None:
        epoch = model.next_of(self.batches, producer)[0] + rises
        end(self.logs[0], producer, commit, epoch)
        self.add(1, COMMIT if commit else ABORT, producer, epoch)

    # ---- replication

    @rule(size=st.integers(1, 2000))
    def replicate(self, size: int) -> None:
        leader, follower = self.logs
        offset = follower.log_end_offset
        if leader.log_start_offset > offset:
            truncate_fully(follower, leader.log_start_offset)
            flush(follower)
        elif offset < leader.log_end_offset:
            found = leader.cold_read(offset, size)()
            follower.append_fetched(found.data, 0)

    @rule()
    def advance(self) -> None:
        self.high_watermark = max(self.high_watermark, min(log.log_end_offset for log in self.logs))

    @rule()
    def other_leader(self) -> None:
        """The follower leads, and the old leader is cut to what it has."""
        old, leader = self.logs
        if leader.log_end_offset < self.high_watermark or not leader.segments:
            return
        if old.log_start_offset <= leader.log_end_offset:
            for job in truncate_to(old, leader.log_end_offset):
                job()
            flush(old)  # a cut is durable before anything else is fetched
            self.batches = [one for one in self.batches if one.last < leader.log_end_offset]
            self.logs = [leader, old]
            self.shown.reverse()

    # ---- files

    @rule(side=SIDES)
    def roll(self, side: int) -> None:
        log = self.logs[side]
        if log.active is not None and log.active.size:
            log.roll(1000)

    @rule(side=SIDES)
    def flush(self, side: int) -> None:
        flush(self.logs[side])

    @rule(side=SIDES)
    def stop_cleanly(self, side: int) -> None:
        stop(self.logs[side])
        self.logs[side] = reopen(self.logs[side], clean=True).log

    @rule(side=SIDES)
    def kill(self, side: int) -> None:
        """The process is gone, the page cache is not."""
        self.logs[side] = reopen(self.logs[side]).log

    @rule(side=SIDES)
    def cut_the_power(self, side: int) -> None:
        """What was not synced is gone. It comes back as a follower does, or the leader tells no more of it."""
        log = self.logs[side]
        if log.recovery_point < self.high_watermark or log.shortened:
            flush(log)
        disk = log.disk
        assert isinstance(disk, VirtualDisk)
        disk.crash()
        self.logs[side] = log = reopen(log).log
        if side == 0:
            self.batches = [one for one in self.batches if one.last < log.log_end_offset]
            if self.logs[1].log_end_offset > log.log_end_offset:
                truncate_to(self.logs[1], log.log_end_offset)
                flush(self.logs[1])

    @rule(side=SIDES, clean=st.booleans(), place=st.integers(0, 100), bit=st.integers(0, 7))
    def damage_an_index(self, side: int, clean: bool, place: int, bit: int) -> None:
        """Found at the start, or by the next reader."""
        log = self.logs[side]
        assert isinstance(log.disk, VirtualDisk)
        flush(log)
        files = [inode for name, inode in log.disk.files.items() if name.endswith(".txnindex") and inode.data]
        if not files:
            return
        files[place % len(files)].data[place % 2] ^= 1 << bit  # of the version, so that it is noticed
        if clean:
            stop(log)
        found = reopen(log, clean=clean)
        assert len(found.rebuilt) == 1
        self.logs[side] = found.log

    @rule(forward=st.integers(0, 8))
    def delete_records(self, forward: int) -> None:
        offset = min(self.logs[0].log_start_offset + forward, self.high_watermark)
        for log in self.logs:
            log.delete_records(max(log.log_start_offset, min(offset, log.log_end_offset)))

    # ---- what holds

    def of(self, log: PartitionLog) -> list[Batch]:
        return [one for one in self.batches if one.last < log.log_end_offset]

    @invariant()
    @precondition(lambda self: hasattr(self, "logs"))
    def the_same_offsets_are_stable(self) -> None:
        for side, log in enumerate(self.logs):
            log.check()
            if log.log_end_offset == log.log_start_offset:
                continue
            high_watermark = min(self.high_watermark, log.log_end_offset)
            if high_watermark < log.log_start_offset:
                continue
            lowest, highest = model.last_stable_offset(self.of(log), log.log_start_offset, high_watermark)
            found = last_stable(log, high_watermark)
            assert lowest <= found <= highest
            if log.log_start_offset == 0:
                assert lowest == highest
            if high_watermark == self.high_watermark:
                assert found >= self.shown[side]
                self.shown[side] = found

    @invariant()
    @precondition(lambda self: hasattr(self, "logs"))
    def a_consumer_takes_in_what_was_committed(self) -> None:
        for log in self.logs:
            batches, start = self.of(log), log.log_start_offset
            stable = last_stable(log, min(self.high_watermark, log.log_end_offset))
            for offset in {start, (start + stable) // 2}:
                for upper in {stable, (offset + stable + 1) // 2}:
                    told = aborted(log, offset, upper)
                    assert len(told) == len(set(told))
                    if start == 0:
                        assert set(told) == model.aborted(batches, offset, upper)
                    inside = [one for one in batches if one.last >= offset and one.last < upper]
                    assert model.consumed(inside, told) == model.visible(batches, offset, upper)

    @invariant()
    @precondition(lambda self: hasattr(self, "logs"))
    def the_follower_has_the_same_bytes(self) -> None:
        leader, follower = self.logs
        begin = max(log.log_start_offset for log in self.logs)
        stop_at = follower.log_end_offset
        if begin < stop_at <= leader.log_end_offset:
            assert content(follower, begin, stop_at) == content(leader, begin, stop_at)


TestTransactionMachine = pytest.mark.long(TransactionMachine.TestCase)
TestTransactionMachine.settings = hypothesis_settings(max_examples=250, stateful_step_count=50, deadline=None)


def test_a_few_histories_for_each_commit() -> None:
    settings = hypothesis_settings(max_examples=10, stateful_step_count=50, deadline=None)
    run_state_machine_as_test(TransactionMachine, settings=settings)
