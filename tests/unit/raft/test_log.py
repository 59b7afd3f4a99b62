"""Where epochs begin and end in the quorum's log, and how much of it is durable."""

import pytest

from actors.ports import Batch
from actors.raft.log import NO_SNAPSHOT, EpochTable, Log
from actors.raft.messages import OffsetAndEpoch, SnapshotId
from tests.unit.raft.replica import Nothing


def batch(first: int, last: int, epoch: int, size: int = 10) -> Batch:
    return Batch(first, last, epoch, bytes(size))


def log(*batches: Batch, start: SnapshotId = NO_SNAPSHOT) -> Log:
    """A log with these batches, of which the node has written nothing."""
    made = Log(EpochTable(start=start), Nothing(), start)
    for one in batches:
        made.append(one)
    return made


TABLE = EpochTable([(1, 0), (3, 10), (4, 15)], end_offset=20)


@pytest.mark.parametrize(
    ("epoch", "offset", "known"), [(0, 0, 0), (1, 10, 1), (2, 10, 1), (3, 15, 3), (4, 20, 4), (9, 20, 4)]
)
def test_an_epoch_ends_where_the_next_one_begins(epoch: int, offset: int, known: int) -> None:
    assert TABLE.end_of(epoch) == OffsetAndEpoch(offset, known)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (1, 1), (10, 1), (11, 3), (15, 3), (16, 4), (20, 4)])
def test_the_epoch_of_an_offset_is_that_of_the_record_below_it(offset: int, epoch: int) -> None:
    assert TABLE.epoch_at(offset) == epoch


def test_epochs_and_offsets_only_rise() -> None:
    table = EpochTable()
    table.append(batch(0, 4, 2))
    table.append(batch(5, 5, 2))
    table.append(batch(6, 9, 5))
    assert table.entries() == [(2, 0), (5, 6)] and (table.end_offset, table.last_epoch) == (10, 5)
    with pytest.raises(AssertionError):
        table.append(batch(10, 10, 4))
    with pytest.raises(AssertionError):
        table.append(batch(11, 11, 5))


def test_a_cut_forgets_the_epochs_that_began_behind_it() -> None:
    table = EpochTable(TABLE.entries(), end_offset=20)
    table.truncate(15)
    assert table.entries() == [(1, 0), (3, 10)] and table.last_epoch == 3
    table.truncate(10)
    assert table.entries() == [(1, 0)]
    table.truncate(0)
    assert (table.entries(), table.last_epoch) == ([], 0)


def test_a_log_that_begins_at_a_snapshot_knows_the_epoch_before_it() -> None:
    table = EpochTable(TABLE.entries(), end_offset=20)
    table.cut_front(SnapshotId(12, 3))
    assert table.entries() == [(3, 12), (4, 15)] and table.epoch_at(12) == 3
    assert table.end_of(1) == OffsetAndEpoch(12, 3)
    table.cut_front(SnapshotId(30, 6))
    assert (table.entries(), table.end_offset, table.last_epoch) == ([], 30, 6)


def test_durable_is_what_a_finished_sync_had_covered_when_it_began() -> None:
    one = log(batch(0, 4, 1))
    one.sync_started(1, 7)
    one.append(batch(5, 9, 1))
    assert one.durable_offset == 0 and one.syncing
    one.synced(1)
    assert (one.durable_offset, one.durable_epoch, one.syncing) == (5, 7, False)
    one.sync_started(2, 8)
    one.sync_started(3, 8)
    one.synced(3)
    assert (one.durable_offset, one.durable_epoch) == (10, 8), "every earlier sync is done too"


def test_what_was_cut_is_not_durable_even_if_its_sync_ends_later() -> None:
    one = log(batch(0, 4, 1), batch(5, 9, 1))
    one.unwritten = []
    one.sync_started(1, 1)
    one.truncate(5)
    one.append(batch(5, 6, 2))
    one.synced(1)
    assert one.durable_offset == 5, "the new records at 5 and 6 were not there when it began"


def test_a_log_that_begins_anew_is_durable_up_to_its_snapshot_only_where_it_was() -> None:
    one = log(batch(0, 9, 1))
    one.unwritten = []
    one.sync_started(1, 1)
    one.synced(1)
    one.restart_at(SnapshotId(50, 3))
    assert (one.start_offset, one.end_offset, one.durable_offset, one.latest) == (50, 50, 10, SnapshotId(50, 3))


def test_batches_that_are_not_written_yet_are_read_too() -> None:
    one = log(batch(0, 4, 1, 10), batch(5, 9, 1, 10), batch(10, 14, 1, 10))
    assert [found.base_offset for found in one.read(7, 20) or ()] == [5, 10]
    assert [found.base_offset for found in one.read(7, 1) or ()] == [5], "one at least"
    one.unwritten = one.unwritten[1:]
    assert one.read(0, 100) == [], "the node has the first one"
