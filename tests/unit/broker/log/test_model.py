"""Random sequences of everything a log can do, against a list of batches that does the obvious.

The model is a list of (base offset, last offset, epoch, bytes). Every operation is done to both; then every offset is read.
"""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.log import Appended, OffsetOutOfRange, PartitionLog, Unsettled
from actors.broker.log.truncation import truncate_to
from actors.ports import DiskFull
from fastpath.records import batch
from tests.unit.broker.log.logs import build, content, flush, new, put, reopen, retained, settings, stop

Entry = tuple[int, int, int, bytes]


class LogMachine(RuleBasedStateMachine):
    """The log, its model, and the rules."""

    log: PartitionLog

    @initialize(
        segment=st.sampled_from([200, 500, 100_000]),
        interval=st.sampled_from([0, 120, 4096]),
        cache=st.sampled_from([0, 1 << 20]),
    )
    def begin(self, segment: int, interval: int, cache: int) -> None:
        self.changes = {"segment_bytes": segment, "index_interval_bytes": interval, "retention_ms": -1}
        self.log = new(IndexCache(cache), **self.changes)
        self.entries: list[Entry] = []
        self.start = self.end = 0
        self.epoch = 0
        self.clock = 1000

    @rule(count=st.integers(1, 4), size=st.integers(0, 150))
    def append(self, count: int, size: int) -> None:
        self.clock += 10
        data = build(count, size, self.clock)
        appended = put(self.log, data, self.epoch)
        assert appended == Appended(self.end, self.end + count - 1)
        self.entries.append((self.end, self.end + count - 1, self.epoch, bytes(data)))
        self.end += count

    @rule(gap=st.integers(0, 5), counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def append_fetched(self, gap: int, counts: list[int]) -> None:
        offset, data = self.end + gap, bytearray()
        for count in counts:
            one = build(count, 20, self.clock)
            batch.patch(one, 0, offset, self.epoch)
            self.entries.append((offset, offset + count - 1, self.epoch, bytes(one)))
            data += one
            offset += count
        try:
            self.log.append_fetched(data, self.clock)
        except Unsettled:  # what was cut is not durable yet: a follower fetches again after the flush
            flush(self.log)
            self.log.append_fetched(data, self.clock)
        self.end = offset

    @rule(size=st.integers(0, 100))
    def append_to_a_full_disk(self, size: int) -> None:
        self.log.disk.room = 20  # type: ignore[attr-defined]
        try:
            put(self.log, build(2, size), self.epoch)
            raise AssertionError("there was no room")
        except DiskFull:
            pass
        finally:
            self.log.disk.room = None  # type: ignore[attr-defined]

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    @precondition(lambda self: self.end > 0)
    def roll(self) -> None:
        if self.log.active is not None and self.log.active.size:
            self.log.roll(self.clock)

    @rule(back=st.integers(0, 12))
    def truncate(self, back: int) -> None:
        offset = max(0, self.end - back)
        jobs = truncate_to(self.log, offset)
        for job in jobs:
            job()
        if offset < self.start:
            self.entries, self.start, self.end = [], offset, offset
        else:
            self.entries = [entry for entry in self.entries if entry[1] < offset]
            if offset < self.end:
                base = self.log.segments[-1].base_offset
                self.end = max(self.start, base, self.entries[-1][1] + 1 if self.entries else 0)
        self.epoch += 1

    @rule(forward=st.integers(0, 8))
    def delete_records(self, forward: int) -> None:
        offset = min(self.start + forward, self.end)
        self.log.delete_records(offset)
        self.start = max(self.start, offset)

    @rule(surplus=st.integers(0, 600))
    def retain(self, surplus: int) -> None:
        self.log.settings = settings(**self.changes, retention_bytes=max(0, self.log.size - surplus))
        result = retained(self.log, self.clock, self.end)
        for job in result.jobs:
            job()
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset
        first = self.log.segments[0].base_offset if self.log.segments else 0
        self.entries = [entry for entry in self.entries if entry[1] >= min(first, self.start)]

    @rule()
    def flush(self) -> None:
        flush(self.log)

    @rule()
    def stop_cleanly(self) -> None:
        stop(self.log)
        found = reopen(self.log, clean=True)
        assert found.cuts == ()
        self.log = found.log

    @rule()
    def kill(self) -> None:
        """The process is gone, the page cache is not."""
        found = reopen(self.log)
        assert found.cuts == ()
        self.log = found.log

    @invariant()
    def the_same_batches(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        log.check()
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        wanted = [entry for entry in self.entries if entry[1] >= self.start]
        assert content(log) == b"".join(entry[3] for entry in wanted)
        for offset in {self.start, (self.start + self.end) // 2, self.end - 1} & set(range(self.start, self.end)):
            expected = next((entry[3] for entry in wanted if entry[1] >= offset), b"")
            found = log.read(offset, 1)
            found = log.cold_read(offset, 1)() if found is None else found
            assert bytes(found.data) == expected
        for outside in (self.start - 1, self.end + 1):
            try:
                log.read(outside, 100)
                raise AssertionError("outside of the log")
            except OffsetOutOfRange:
                pass

    @invariant()
    def the_same_epochs(self) -> None:
        if not hasattr(self, "log"):
            return
        for base_offset, _, epoch, _ in self.entries:
            if base_offset >= self.start:
                assert self.log.epochs.epoch_at(base_offset) == epoch


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = hypothesis_settings(max_examples=50, stateful_step_count=30, deadline=None)
