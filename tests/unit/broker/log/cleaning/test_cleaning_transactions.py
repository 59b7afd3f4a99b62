"""Cleaning a log with aborted transactions: what a reader of committed records makes of it stays as it was.

Random histories of several producers, whose transactions interleave, are cleaned, opened again and cleaned once more. A
model in this file remembers which records were committed.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.log.aborted_transactions import aborted_transactions, take_rebuilt
from actors.broker.log.cleaning.cleaner import Cleaned, Durable
from actors.broker.log.cleaning.replacing import SegmentsChanged
from actors.broker.log.log import PartitionLog
from actors.broker.log.producers.transaction_index import Aborted, entries
from fastpath.records import batch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import transactions
from tests.unit.broker.log.cleaning.test_cleaner import NOW, clean, drive, keyed, new, steps
from tests.unit.broker.log.logs import content, flush, put, reopen, stop, sync
from tests.unit.broker.log.transactions import TRANSACTIONAL, last_stable

pytestmark = pytest.mark.long

RETENTION_MS = 1_000
CONTROL = 0x20
Values = dict[bytes, tuple[int, bytes]]


class History:
    """Writes to `log`, and knows what a reader of committed records is to see."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = new(delete_retention_ms=RETENTION_MS, segment_bytes=self.random.choice([400, 700, 1500]))
        self.sequences = dict.fromkeys(range(1, 5), 0)
        self.running: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        self.committed: list[tuple[int, bytes, bytes | None]] = []
        self.dropped: set[int] = set()
        """Offsets of aborted records."""

    def write(self, count: int) -> "History":
        for _ in range(count):
            self.step()
        flush(self.log)
        return self

    def step(self) -> None:
        choice, producer = self.random.random(), self.random.randint(1, 4)
        if choice < 0.3 and self.running:
            self.end(self.random.choice(sorted(self.running)), self.random.random() < 0.4)
            return
        value = b"%d" % self.log.log_end_offset if self.random.random() < 0.85 else None
        self.data(producer if choice < 0.85 else -1, b"k%d" % self.random.randrange(8), value)

    def data(self, producer: int, key: bytes, value: bytes | None) -> None:
        header: dict[str, Any] = {}
        if producer > 0:
            attributes = TRANSACTIONAL | self.random.choice([0, 0, 1])
            header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            header["attributes"] = attributes
            self.sequences[producer] += 1
        offset = put(self.log, keyed(key, value, **header)).base_offset
        (self.running.setdefault(producer, []) if producer > 0 else self.committed).append((offset, key, value))

    def end(self, producer: int, commit: bool) -> int:
        rows = self.running.pop(producer, [])
        if commit:
            self.committed += rows
        else:
            self.dropped.update(offset for offset, *_ in rows)
        return transactions.end(self.log, producer, commit)

    def reopen(self, **changes: Any) -> "History":
        found = reopen(self.log, **{"cleaned_offset": self.log.cleaned_offset, **changes})
        assert not found.cuts and not found.rebuilt and found.log.damaged is None
        self.log = found.log
        return self

    def first_unstable(self) -> int:
        return min((rows[0][0] for rows in self.running.values()), default=self.log.log_end_offset)

    def wanted(self) -> Values:
        """Key -> (offset, value) of its last committed record, below the first unstable offset."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, key, value in sorted(row for row in self.committed if row[0] < self.first_unstable()):
            found[key] = offset, value
        return {key: (offset, value) for key, (offset, value) in found.items() if value is not None}

    def clean(self, now_ms: int = NOW) -> None:
        clean(self.log, now_ms, upper=last_stable(self.log, self.log.log_end_offset))

    def check(self) -> None:
        """The reader's view, and what holds of the indexes."""
        log = self.log
        log.check()
        stable = last_stable(log, log.log_end_offset)
        assert stable == self.first_unstable()
        for bytes_max in (1, 500, 1 << 20):
            assert self.seen(bytes_max, stable) == self.wanted()
        data = content(log)
        markers = {
            (head.producer_id, head.last_offset)
            for head in batch.headers(data)
            if head.attributes & CONTROL and head.count
        }
        rows = indexed(log)
        assert {(one.producer_id, one.last_offset) for one in rows} <= markers, "an entry without its marker"
        for head in batch.headers(data):
            if head.base_offset in self.dropped and head.count:
                assert [one for one in rows if covers(one, head)], "an aborted record that no entry covers"
        assert log.aborted.segments == [one for one in log.segments if one.aborted.exists]
        on_disk = {name for name in log.disk.names(log.directory) if ".txnindex" in name}
        assert on_disk <= {one.aborted.path.rpartition("/")[2] for one in log.aborted.segments}

    def seen(self, bytes_max: int, stable: int) -> Values:
        """As a consumer reads: it drops a producer's data from an entry's first offset to the next abort marker."""
        found: dict[bytes, tuple[int, bytes | None]] = {}
        committed = {offset for offset, *_ in self.committed}
        offset = self.log.log_start_offset
        while offset < stable:
            read = self.log.cold_read(offset, bytes_max, stable)()
            if not read.data:
                break
            told = sorted((first, producer) for producer, first in transactions.aborted(self.log, offset, stable))
            dropping: set[int] = set()
            for head in batch.headers(read.data):
                while told and told[0][0] <= head.last_offset:
                    dropping.add(told.pop(0)[1])
                if head.attributes & CONTROL:
                    if head.count and aborts(read.data, head):
                        dropping.discard(head.producer_id)
                elif not (head.attributes & TRANSACTIONAL and head.producer_id in dropping):
                    for one in batch.records(read.data, head.position):
                        assert one.offset in committed, "an aborted record"
                        assert one.key is not None
                        found[one.key] = one.offset, one.value
            offset = read.next_offset
        return {key: (offset, value) for key, (offset, value) in found.items() if value is not None}


def aborts(data: memoryview, head: batch.Header) -> bool:
    (record,) = batch.records(data, head.position)
    assert record.key is not None
    return record.key[3] == 0


def covers(entry: Aborted, head: batch.Header) -> bool:
    return entry.producer_id == head.producer_id and entry.first_offset <= head.base_offset <= entry.last_offset


def indexed(log: PartitionLog) -> list[Aborted]:
    found: list[Aborted] = []
    for segment in log.aborted.segments:
        data = segment.aborted.read(cold=True)
        assert data is not None
        found += entries(data)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_reader_of_committed_records_sees_what_it_saw_before(seed: int) -> None:
    history = History(seed).write(120)
    history.check()
    now_ms, restart = NOW, history.random.choice(["kill", "stop", "lost checkpoint"])
    for _ in range(4):
        history.clean(now_ms)
        history.check()
        if restart == "stop":
            stop(history.log)
            history.reopen(clean=True)
        else:
            history.reopen(**({"recovery_point": 0} if restart == "lost checkpoint" else {}))
        history.check()
        now_ms += RETENTION_MS + 1
        history.write(history.random.randint(1, 40))
        history.check()


def test_entries_and_markers_go_in_the_end() -> None:
    history = History(1)
    for number in range(20):
        history.data(1, b"k%d" % number, b"aborted")
        history.end(1, False)
        history.data(-1, b"other", b"%d" % number)
    flush(history.log)
    before = len(indexed(history.log))
    history.clean()
    cleaned = [one for one in indexed(history.log) if one.last_offset < history.log.cleaned_offset]
    assert before == 20 and cleaned, "a reader that has the data still needs them"
    for passed in range(1, 7):  # neighbours are joined, and their ends may go, one after the other
        history.write(0).clean(NOW + passed * (RETENTION_MS + 1))
        history.check()
    below = [one for one in batch.headers(content(history.log)) if one.last_offset < history.log.cleaned_offset]
    empty = {one.last_offset for one in below if not one.count}
    left = {one.last_offset for one in below if one.count and one.attributes & CONTROL}
    entries_left = {one.last_offset for one in indexed(history.log) if one.last_offset < history.log.cleaned_offset}
    assert len(left) < 5 and entries_left <= left
    assert {offset - 1 for offset in left} <= empty, "only where an empty batch of data ends a segment"


def test_a_crash_at_any_step_shows_no_aborted_record() -> None:
    for stop_at in range(1, 400):
        history = History(7).write(100)
        disk = history.log.disk
        assert isinstance(disk, VirtualDisk)
        history.clean()
        history.write(40)
        upper = last_stable(history.log, history.log.log_end_offset)
        running = drive(steps(history.log, NOW + RETENTION_MS + 1, upper=upper), history.log)
        done = None
        for _ in range(stop_at):
            done = next(running)
        disk.crash(random.Random(stop_at))
        history.reopen(cleaned_offset=0).check()
        flush(history.log)  # it replaces indexes that may have been lost
        history.clean(NOW + 2 * RETENTION_MS + 2)
        history.check()
        if isinstance(done, Cleaned):
            assert stop_at > 15
            return
    raise AssertionError("the cleaning never ended")


class Crash(Exception):
    pass


def crash_at(patched: pytest.MonkeyPatch, stop_at: int) -> None:
    rename, count = VirtualDisk.rename, 0

    def failing(self: VirtualDisk, old: str, new: str) -> None:
        nonlocal count
        count += 1
        if count == stop_at:
            raise Crash
        rename(self, old, new)

    patched.setattr(VirtualDisk, "rename", failing)


def test_a_crash_at_any_rename_keeps_the_index_of_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    for stop_at in range(1, 400):
        history = History(11).write(100)
        disk, ended = history.log.disk, False
        assert isinstance(disk, VirtualDisk)
        history.clean()
        history.write(40)
        now_ms = NOW + RETENTION_MS + 1
        with monkeypatch.context() as patched:
            crash_at(patched, stop_at)
            try:
                history.clean(now_ms)
                ended = True
            except Crash:
                pass
        disk.crash(random.Random(stop_at))
        with monkeypatch.context() as patched:  # the start that brings it to its end crashes, too
            crash_at(patched, 1 + stop_at % 4)
            try:
                reopen(history.log, cleaned_offset=0)
            except Crash:
                disk.crash(random.Random(stop_at))
        history.reopen(cleaned_offset=0).check()
        expected = {one.last_offset for one in indexed(history.log)}
        lost = History(11).write(100)
        lost.clean()
        lost.write(40)
        both = {one.last_offset for one in indexed(lost.log)}
        lost.clean(now_ms)
        assert {one.last_offset for one in indexed(lost.log)} <= expected <= both, (
            "an index was lost, or an old one is left"
        )
        flush(history.log)  # it replaces indexes of which nobody knew whose they were
        history.clean(now_ms + RETENTION_MS + 1)
        history.check()
        if ended:
            assert stop_at > 30
            return
    raise AssertionError("the cleaning never ended")


# ---- what may happen meanwhile


def with_index(history: History, chosen: Callable[[int], bool] = lambda place: True) -> Any:
    """A sealed segment with entries, which lie in the file."""
    return next(
        one
        for place, one in enumerate(history.log.aborted.segments)
        if one is not history.log.active and not one.aborted.in_memory and chosen(place)
    )


def damage(history: History) -> Any:
    segment = with_index(history)
    assert isinstance(history.log.disk, VirtualDisk)
    history.log.disk.corrupt(segment.aborted.path, 0)
    return segment


def test_a_damaged_index_is_built_again_from_the_log() -> None:
    history = History(3).write(120)
    damage(history)
    history.clean()
    history.check()
    history.reopen().check()


def test_an_index_that_a_flush_is_to_replace_keeps_its_segment() -> None:
    """The sync may write it at any time, and would write it over that of the new segment."""
    history = History(3).write(120)
    log, segment = history.log, damage(history)
    transactions.aborted(log, 0, log.log_end_offset)
    assert log.aborted.rebuilt == [segment]
    with pytest.raises(SegmentsChanged):
        history.clean()
    flush(log)
    assert not log.aborted.rebuilt
    history.clean()
    history.check()


def test_a_late_sync_of_an_old_index_is_made_good() -> None:
    """Two flushes had it to replace, and the second one's sync comes when the cleaner is through."""
    history = History(3).write(120)
    log, segment = history.log, damage(history)
    transactions.aborted(log, 0, log.log_end_offset)
    first, second = log.flush(), log.flush()
    assert first.indexes and second.indexes
    sync(log, first)
    log.flushed(first)
    for passed in range(4):
        history.clean(NOW + passed * (RETENTION_MS + 1))
    assert segment not in log.segments
    history.check()
    sync(log, second)
    log.flushed(second)
    flush(log)
    history.check()
    history.reopen().check()


def test_a_search_that_began_before_says_nothing_of_the_new_segments() -> None:
    history = History(3).write(120)
    log = history.log
    damaged = damage(history)
    search = aborted_transactions(log, 0, log.log_end_offset)
    assert not isinstance(search, list)
    running = drive(steps(log, upper=last_stable(log, log.log_end_offset)), log)
    while not isinstance(next(running), Durable):
        pass
    found = search()
    assert [one.segment for one in found.rebuilt] == [damaged]
    list(running)
    assert not take_rebuilt(log, found) and not log.aborted.rebuilt
    history.check()


def test_the_handle_of_an_index_is_open_as_long_as_its_segment_may_be_read() -> None:
    """A sync has it."""
    history = History(3)
    for _ in range(120):
        history.step()
    flushing = history.log.flush()
    sync(history.log, flushing)
    history.log.flushed(flushing)
    indexes = [one for one in flushing.files if ".txnindex" in one.path]
    history.clean()
    assert len(indexes) > 3 and not [one for one in indexes if one.closed]  # type: ignore[attr-defined]
