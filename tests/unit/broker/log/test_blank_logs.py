"""A log without records is a few numbers: its parts are made when they are needed, and nobody can tell."""

import sys
from typing import Any

import pytest

from actors.broker.log.index_cache import IndexCache
from actors.broker.log.leader_epochs import EpochCache
from actors.broker.log.log import MADE_LATE, PartitionLog
from actors.broker.log.moving import Move
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, new, put, reopen, settings, stop


def asked_of_an_idle_replica(log: PartitionLog) -> None:
    """What a broker does with a replica that nobody writes to."""
    assert log.directory == DIRECTORY and log.size == 0
    log.start_epoch(3)
    assert log.end_offset_for_epoch(3) == (3, 0) and log.end_offset_for_epoch(2) == (2, 0)
    found = log.read(0, 1 << 20)
    assert found is not None and not found.data
    assert log.offset_for_time(-1) is not None and log.offset_for_time(-2) is not None
    log.configure(settings(retention_ms=5))
    assert log.left_over() == []
    flush(log)
    log.delete_records(0)
    log.forget_indexes()
    log.release()
    log.check()


def test_what_is_asked_of_an_idle_replica_makes_no_part_of_its_log() -> None:
    log = new()
    asked_of_an_idle_replica(log)
    assert log.blank and log.indexes.begun == 0 and log.disk.names("") == []
    sizes = sum(sys.getsizeof(part) for part in (log, log.directory, log.epochs))
    assert sizes < 450, "the log, its name and its epochs"


def test_the_first_record_makes_the_log_what_it_always_was() -> None:
    blank, indexes = new(), IndexCache()
    asked_of_an_idle_replica(blank)
    other = PartitionLog(VirtualDisk(), DIRECTORY, settings(retention_ms=5), bytes(range(16)), indexes=indexes)
    for name in MADE_LATE:
        getattr(other, name)
    assert indexes.begun == 1, "a log begins once"
    other.start_epoch(3)
    for log in (blank, other):
        put(log, build(3), epoch=3)
        assert not log.blank
        log.check()
        flush(log)
        assert log.recovery_point == 3
    assert content(blank) == content(other) and blank.disk.names(DIRECTORY) == other.disk.names(DIRECTORY)
    for log in (blank, other):
        again = reopen(log).log
        assert content(again) == content(log) and not again.blank and again.epochs.starts == (0,)
        stop(log)


@pytest.mark.parametrize("name", sorted(MADE_LATE))
def test_each_part_that_is_asked_for_ends_that_a_log_is_blank(name: str) -> None:
    log = new()
    part: Any = getattr(log, name)
    assert getattr(log, name) is part, "it is made once"
    assert not log.blank and log.indexes.begun == 1
    log.check()
    put(log, build())
    flush(log)
    log.check()
    assert log.recovery_point == 1


def test_a_log_has_no_other_parts() -> None:
    with pytest.raises(AttributeError, match="no segment"):
        _ = new().segment


def test_a_flush_that_was_asked_for_while_a_log_was_blank_says_nothing_of_what_came_meanwhile() -> None:
    log = new()
    wanted = log.flush()
    put(log, build(2))
    log.flushed(wanted)
    assert log.recovery_point == 0 and log.names.flush_wanted
    flush(log)
    assert log.recovery_point == 2


def test_what_a_check_says_of_a_blank_log_is_not_taken_from_a_flag() -> None:
    log = new()
    put(log, build())
    log.blank = True
    with pytest.raises(AssertionError):
        log.check()


def test_a_blank_log_moves_to_another_directory() -> None:
    current, future = new(), PartitionLog(VirtualDisk(), "topic-0.future", settings(), bytes(range(16)))
    move = Move(current, future)
    future.begin_file(0)
    flush(future)
    move.take_over(0)
    assert future.directory == DIRECTORY and not future.blank
    put(future, build(2))
    flush(future)
    future.check()
    assert content(reopen(future).log) == content(future)


def test_logs_with_the_same_few_epochs_share_the_table() -> None:
    one, other = EpochCache(), EpochCache()
    for table in (one, other):
        table.assign(7, 0)
    assert one.epochs is other.epochs and one.starts is other.starts
    other.assign(9, 5)
    assert (one.epochs, one.starts) == ((7,), (0,)), "a table of its own from here on"
    assert (other.epochs, other.starts) == ((7, 9), (0, 5))
    copied = other.copy()
    other.truncate_end(3)
    assert copied.latest == 9 and other.latest == 7
    assert EpochCache.parse(copied.encode()).epochs == copied.epochs
