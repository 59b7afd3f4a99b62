"""Compacted topic logs, with gaps, delete horizons and batches without a record, as Arrow and read by time."""

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.broker.log.cleaning.cleanable import cleanable
from actors.broker.log.cleaning.cleaner import CleaningSlice, LogCleaning
from actors.broker.log.log import PartitionLog
from actors.host.work.disk import LocalDisk
from fastpath.records import batch
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT, LIMITS, NOW
from tests.unit.broker.log.logs import content, put, settings
from tests.unit.replay.columns.test_record_columns import rows, slow


def cleaned(log: PartitionLog) -> None:
    log.checkpointed_offset = log.log_end_offset
    cleaning = LogCleaning(log, cleanable(log, log.log_end_offset, NOW), LIMITS, bytes(16), NOW)
    steps, result = cleaning.steps(), None
    while True:
        try:
            wish = steps.send(result)
        except StopIteration as end:
            log.cleaned_offset = end.value.end_offset
            return
        result = wish.job() if isinstance(wish, CleaningSlice) else None


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = PartitionLog(LocalDisk(str(tmp_path)), "topic-0", settings(**COMPACT), bytes(range(16)))
    for number in range(80):
        builder = batch.Builder(
            timestamp_ms=NOW + number, producer_id=7, producer_epoch=0, base_sequence=3 * number, attributes=number % 5
        )
        for key in range(3):
            dies = number % 9 == key
            builder.append(
                b"k%d" % ((number * 3 + key) % 11), None if dies else b"v%d" % number, NOW + 10 * number + key
            )
        put(log, builder.build())
    cleaned(log)
    log.flush()
    return log


def test_all_that_is_left_is_read(log: PartitionLog, tmp_path: Path) -> None:
    data = content(log)
    heads = batch.headers(data)
    assert any(not head.count for head in heads) and any(head.attributes & 0x40 for head in heads)
    assert any(head.count <= head.last_offset_delta for head in heads)
    wanted = slow(data, "topic", 0)
    assert rows(tmp_path / "topic-0") == wanted
    assert replay.open(tmp_path / "topic-0", "log").ends() == {("topic", 0): 240}


def test_offsets_are_found_by_time(log: PartitionLog) -> None:
    """The first record that is left at or after a time, and the first of those with the largest."""
    data: Any = content(log)
    left = [one for head in batch.headers(data) for one in batch.records(data, head.position)]
    for timestamp in range(NOW - 1, NOW + 810, 7):
        search = log.offset_for_time(timestamp)
        found = search() if callable(search) else None
        first = next((one for one in left if one.timestamp >= timestamp), None)
        assert (found and found.offset) == (first and first.offset)
    largest = log.offset_for_time(-3)
    assert callable(largest)
    newest = max(left, key=lambda one: (one.timestamp, -one.offset))
    found = largest()
    assert found is not None and (found.offset, found.timestamp) == (newest.offset, newest.timestamp)


def test_a_consumer_gets_beyond_what_has_no_record(log: PartitionLog) -> None:
    """From every offset the next record that is left comes with the next answers, however little they may hold."""
    data: Any = content(log)
    left = [one.offset for head in batch.headers(data) for one in batch.records(data, head.position)]
    for offset in range(240):
        for read in (log.read(offset, 1, pass_empty=True), log.cold_read(offset, 1, pass_empty=True)()):
            assert read is not None
            got = [one.offset for head in batch.headers(read.data) for one in batch.records(read.data, head.position)]
            assert next(one for one in got if one >= offset) == next(one for one in left if one >= offset)
