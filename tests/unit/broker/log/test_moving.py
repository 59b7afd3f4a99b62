"""A log on its way to another directory: it is filled, cut and ended as the current log is, and takes its place whole."""

import errno
import random
from collections.abc import Callable
from typing import Any

import pytest

from actors.broker.log.directories.directory import (
    ARRIVED,
    LEAVING,
    future_name,
    move_mark,
    move_of,
    parse_name,
    read_moves,
)
from actors.broker.log.log import PartitionLog
from actors.broker.log.moving import SLICE_BYTES, Copied, Copy, MissingBatch, Move, Next, Stage, common_end
from actors.broker.log.producers.markers import CONTROL, Marker
from actors.broker.log.producers.markers import build as build_marker
from actors.broker.log.recovery import recover
from actors.broker.log.retention import A_CHECK, drop_segments
from actors.broker.log.truncation import Preparation, truncate_fully, truncate_to
from actors.ports import DiskFailed, DiskFull, Sync
from fastpath.records import batch
from fastpath.records.batch import CorruptBatch
from tests.simulator.disk import VirtualDisk
from tests.unit.broker.log import transactions
from tests.unit.broker.log.cleaning.test_cleaner import COMPACT, NOW, clean, keyed, latest
from tests.unit.broker.log.logs import DIRECTORY, build, content, flush, put, retained, settings

NAME = future_name("topic", 0, bytes(range(16)))
ID = bytes(range(16))


def two(**changes: Any) -> tuple[PartitionLog, PartitionLog]:
    """A log and an empty future log on another disk."""
    assert NAME is not None
    chosen = settings(**{"segment_bytes": 400, **changes})
    return PartitionLog(VirtualDisk(), DIRECTORY, chosen, ID), PartitionLog(VirtualDisk(), NAME, chosen, ID)


def settle(move: Move) -> None:
    """The flush with which the future log settles."""
    future = move.future
    wanted = future.flush()
    assert isinstance(future.disk, VirtualDisk)
    future.disk.sync(Sync(0, wanted.files, [*wanted.replacements, move.settlement()]))
    future.flushed(wanted)
    move.settled()


def step(move: Move, high_watermark: int = 1 << 40, bytes_max: int = SLICE_BYTES) -> bool:
    """One step; False: the future log has taken the place."""
    wanted = move.look(1_000, bytes_max)
    if wanted is Next.TAKE_OVER:
        move.take_over(high_watermark)
        return False
    if wanted is Next.MARK:
        assert isinstance(move.current.disk, VirtualDisk)
        move.current.disk.sync(Sync(0, [], [move.mark()]))
        move.marked()
    elif wanted is Next.SETTLE:
        settle(move)
    elif wanted is Next.FLUSH:
        flush(move.future)
    elif isinstance(wanted, Copy):
        found = wanted()
        assert isinstance(found, Copied)
        move.take(found, 1_000, high_watermark)
    else:
        assert isinstance(wanted, Preparation)
        move.cut(wanted, wanted())
    move.jobs.clear()
    return True


def filled(current: PartitionLog, future: PartitionLog, count: int) -> Move:
    """The move of a log of so many batches, of which the future log has all."""
    for number in range(count):
        put(current, build(timestamp_ms=1_000 + number))
    flush(current)
    move = Move(current, future)
    move.begin(1_000)
    while move.lag:
        step(move)
    return move


def test_what_a_failed_cut_has_left_goes_under_the_name_that_the_directory_has_then() -> None:
    current, future = two(segment_bytes=300)
    for _ in range(12):
        put(current, build())
    move = Move(current, future)
    while move.lag:
        step(move)
    disk = future.disk
    assert isinstance(disk, VirtualDisk) and len(future.segments) > 3
    second = future.segments[1].log.path
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "rename" and path == second else 0
    with pytest.raises(DiskFull):
        drop_segments(future, 2)
    disk.fault = None
    current.delete_records(future.log_start_offset)
    drop_segments(current, 1)
    finish(move)
    for job in future.left_over():
        job()
    assert not [name for name in disk.names(future.directory) if name.endswith(".deleted")]


def test_a_future_log_forgets_no_file_that_waits_to_be_unlinked_when_it_takes_the_place() -> None:
    """The job that had it looked where the log had been: the files stayed until the next start."""
    current, future = two()
    move = filled(current, future, 40)
    current.delete_records(30)
    finish(move)
    jobs = [*move.jobs, *future.left_over()]
    assert jobs
    for job in jobs:
        job()
    assert not [name for name in future.disk.names(future.directory) if name.endswith(".deleted")]


def test_a_look_drops_no_more_segments_than_a_check_of_retention_does() -> None:
    """DeleteRecords of all records of a log with 4,000 segments took one turn a second, where it was on its way."""
    current, future = two(segment_bytes=100)
    move = filled(current, future, 150)
    current.delete_records(149)
    before = len(future.segments)
    assert before == 150
    while len(future.segments) > 1:
        step(move)
        assert before - len(future.segments) <= A_CHECK
        before = len(future.segments)
        if move.stage is Stage.TAKEN:
            break
    assert future.log_start_offset == 149


def finish(move: Move) -> None:
    """As far as it goes."""
    for _ in range(1_000):
        if not step(move):
            return
    raise AssertionError(f"{move.stage}: the future log lacks {move.lag}")


def same(current: PartitionLog, future: PartitionLog) -> None:
    """Everything that readers and followers are told."""
    assert content(future).endswith(content(current)[-1:]) and future.log_end_offset == current.log_end_offset
    assert batches(future) == batches(current)
    assert future.log_start_offset == current.log_start_offset
    assert (future.epochs.epochs, future.epochs.starts) == (current.epochs.epochs, current.epochs.starts)
    assert future.producers.equals(current.producers)
    assert committed(future) == committed(current)
    future.check()


def committed(log: PartitionLog) -> list[int]:
    """Offsets of the batches that a reader of committed records takes for committed, as Kafka's consumer finds out."""
    left = sorted(transactions.aborted(log, log.log_start_offset, log.log_end_offset), key=lambda one: one[1])
    aborted, found = set[int](), []
    for header in batch.headers(batches(log)):
        while left and left[0][1] <= header.base_offset:
            aborted.add(left.pop(0)[0])
        if header.attributes & CONTROL:
            aborted.discard(header.producer_id)
        elif header.producer_id not in aborted:
            found.append(header.base_offset)
    return found


def batches(log: PartitionLog) -> bytes:
    """The bytes from the log's start on, of whole batches."""
    parts, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        read = log.cold_read(offset, 1 << 20)()
        assert read.data, f"nothing at {offset}"
        parts.append(bytes(read.data))
        offset = read.next_offset
    return b"".join(parts)


def test_a_log_is_moved_whole() -> None:
    current, future = two()
    for number in range(30):
        put(
            current,
            build(3, producer_id=number % 3, producer_epoch=0, base_sequence=number // 3 * 3),
            epoch=number // 10,
        )
    flush(current)
    move = Move(current, future)
    finish(move)
    same(current, future)
    assert move.stage is Stage.TAKEN and future.directory == DIRECTORY and not future.disk.exists(str(NAME))
    assert future.producers is current.producers and future.disk.names(DIRECTORY)
    unique = move_of(str(NAME))
    assert read_moves(future.disk, DIRECTORY, ARRIVED) == read_moves(current.disk, DIRECTORY, LEAVING) == [unique]
    put(future, build(), epoch=2)
    flush(future)
    again = recover(future.disk, DIRECTORY, future.settings, clean=True, topic_id=ID).log
    assert again.log_end_offset == future.log_end_offset
    assert batches(again) == batches(future) and again.epochs.starts == future.epochs.starts


def test_an_empty_log_is_moved_and_has_its_directory() -> None:
    """Else the next start would put the replica anywhere."""
    current, future = two()
    move = Move(current, future)
    finish(move)
    assert future.disk.exists(DIRECTORY) and future.log_end_offset == 0
    current, future = two()
    truncate_fully(current, 50)
    finish(Move(current, future))
    assert (future.log_start_offset, future.log_end_offset) == (50, 50)


def test_what_is_appended_meanwhile_is_moved_too() -> None:
    current, future = two(segment_bytes=100_000)
    for _ in range(20):
        put(current, build(5))
    move = Move(current, future)
    for number in range(200):
        if number < 60:
            put(current, build(2), epoch=number // 20)
        if not step(move):
            break
    assert move.stage is Stage.TAKEN
    same(current, future)


def test_no_more_is_promised_of_the_current_log_than_the_future_log_has() -> None:
    """A flush of the current log that is under way when the copy has settled: who waits for it would be told that records
    are durable which are not, in the log that counts then."""
    current, future = two(segment_bytes=100_000)
    put(current, build(5))
    move = Move(current, future)
    while move.look(1_000) is not Next.SETTLE:
        step(move)
    settle(move)
    put(current, build(5))
    asked = current.flush()
    assert move.look(1_000) is Next.SETTLE and future.log_end_offset == 10
    settle(move)
    assert future.recovery_point == 10 == asked.offset
    assert move.look(1_000) is Next.TAKE_OVER
    move.take_over(10)
    assert future.recovery_point == current.recovery_point == 0  # its name may not be on the disk
    flush(future)
    assert future.recovery_point == 10


def test_a_cut_of_the_current_log_cuts_the_future_log() -> None:
    current, future = two()
    for _ in range(20):
        put(current, build(2), epoch=1)
    move = Move(current, future)
    while move.look(1_000) is not Next.SETTLE:
        step(move)
    truncate_to(current, 21)
    for _ in range(12):
        put(current, build(2, size=12), epoch=2)
    assert common_end(current, future) == 20
    finish(move)
    same(current, future)


def test_a_slice_that_was_read_before_a_cut_is_left_out() -> None:
    current, future = two(segment_bytes=100_000)
    for _ in range(20):
        put(current, build(2), epoch=1)
    move = Move(current, future)
    wanted = move.look(1_000)
    assert isinstance(wanted, Copy)
    found = wanted()
    truncate_to(current, 4)
    move.take(found, 1_000, 0)
    assert future.log_end_offset == 0
    finish(move)
    same(current, future)


def test_a_log_that_begins_anew_is_copied_anew() -> None:
    current, future = two()
    for _ in range(20):
        put(current, build(2), epoch=1)
    move = Move(current, future)
    while move.look(1_000) is not Next.SETTLE:
        step(move)
    truncate_fully(current, 500)
    put(current, build(3), epoch=4)
    finish(move)
    same(current, future)
    assert future.log_start_offset == 500


def test_the_start_of_the_log_follows() -> None:
    current, future = two()
    for _ in range(20):
        put(current, build(2))
    move = Move(current, future)
    while move.look(1_000) is not Next.SETTLE:
        step(move)
    current.delete_records(25)
    retained(current, 1_000, current.log_end_offset)
    finish(move)
    same(current, future)
    assert future.segments[0].base_offset > 0


def test_retention_that_outruns_the_copy() -> None:
    current, future = two()
    for _ in range(20):
        put(current, build(2))
    move = Move(current, future)
    wanted = move.look(1_000)
    assert isinstance(wanted, Copy)
    current.delete_records(30)
    for job in retained(current, 1_000, current.log_end_offset).jobs:
        job()
    with pytest.raises(FileNotFoundError):
        wanted()
    move.again()
    finish(move)
    same(current, future)


def test_transactions_that_began_below_the_first_file_are_known() -> None:
    """An aborted one would be read as committed, were the copy to begin without what the log has kept of its producer."""
    current, future = two(segment_bytes=300)
    transactions.write(current, 7, 0, epoch=0)
    for _ in range(12):
        put(current, build(1))
    current.delete_records(current.segments[2].base_offset)
    retained(current, 1_000, current.log_end_offset)
    assert current.segments[0].base_offset > 0
    transactions.write(current, 7, 1, epoch=0)
    transactions.end(current, 7, False)
    put(current, build(1))
    flush(current)
    assert transactions.aborted(current, current.log_start_offset, current.log_end_offset) == [(7, 0)]
    finish(Move(current, future))
    same(current, future)


def test_open_transactions_go_on() -> None:
    current, future = two()
    transactions.write(current, 7, 0, epoch=0)
    put(current, build(1))
    finish(Move(current, future))
    transactions.end(future, 7, False)
    assert transactions.aborted(future, 0, future.log_end_offset) == [(7, 0)]


def test_a_compacted_log_keeps_its_gaps_and_what_is_clean() -> None:
    current, future = two(cleanup_policy=("compact",))
    for number in range(30):
        if number % 3:
            current.log_end_offset += 2  # a leader's log had others there
        put(current, build(1))
    current.cleaned_offset = 40
    finish(Move(current, future))
    same(current, future)
    assert future.sparse and future.cleaned_offset == 40


def test_damage_of_the_current_log_is_noticed() -> None:
    current, future = two(segment_bytes=100_000)
    put(current, build(2))
    current.disk.corrupt(current.segments[0].path(".log"), 70)  # type: ignore[attr-defined]
    wanted = Move(current, future).look(1_000)
    assert isinstance(wanted, Copy)
    with pytest.raises(CorruptBatch):
        wanted()
    current, future = two(segment_bytes=100_000)
    put(current, build(2))
    current.segments[0].log.truncate(0)
    move = Move(current, future)
    wanted = move.look(1_000)
    assert isinstance(wanted, Copy)
    with pytest.raises(MissingBatch):
        move.take(wanted(), 1_000, 0)


@pytest.mark.parametrize("field", [7, 11, 15])
@pytest.mark.parametrize("near", [False, True])
def test_damage_that_no_checksum_covers_is_noticed(field: int, near: bool) -> None:
    """A batch's first offset, length and epoch. What came a moment ago is checked inside the loop first."""
    current, future = two()
    put(current, build(2))
    move = Move(current, future)
    if near:
        while move.stage is not Stage.SETTLED:
            step(move)
    for _ in range(12):
        put(current, build(2))
    current.disk.corrupt(current.segments[2].path(".log"), field, 1 << 4)  # type: ignore[attr-defined]
    with pytest.raises((CorruptBatch, MissingBatch)):
        finish(move)
    assert committed(future) == committed(current)[: len(committed(future))]


def test_no_room_leaves_both_as_they_were() -> None:
    current, future = two(segment_bytes=100_000)
    for _ in range(5):
        put(current, build(2))
    assert isinstance(future.disk, VirtualDisk)
    future.disk.room = 10
    move = Move(current, future)
    wanted = move.look(1_000)
    assert isinstance(wanted, Copy)
    with pytest.raises(DiskFull):
        move.take(wanted(), 1_000, 0)
    assert future.log_end_offset == 0
    future.disk.room = None
    move.again()
    finish(move)
    same(current, future)


def test_a_name_that_cannot_be_changed_changes_nothing() -> None:
    current, future = two()
    put(current, build(2))
    move = Move(current, future)
    while move.stage is not Stage.SETTLED:
        step(move)
    future.disk.fail(reads=False)  # type: ignore[attr-defined]
    with pytest.raises(DiskFailed):
        move.take_over(2)
    assert future.directory == NAME and move.stage is not Stage.TAKEN


def test_names_and_counts() -> None:
    assert NAME is not None and parse_name(NAME) == ("topic", 0, "future")
    assert future_name("t" * 249, 0, bytes(16)) is None
    assert future_name("t" * 213, 0, bytes(16)) is not None and future_name("t" * 215, 0, bytes(16)) is None
    disk = VirtualDisk()
    assert read_moves(disk, "t-0", ARRIVED) == []
    disk.replace("t-0/arrived", move_mark("ab"))
    assert read_moves(disk, "t-0", ARRIVED) == ["ab"] and read_moves(disk, "t-0", LEAVING) == []
    disk.replace("t-0/arrived", move_mark("ab", ("cd", "ef")))
    assert read_moves(disk, "t-0", ARRIVED) == ["ab", "cd", "ef"]
    for content_ in (b"", b"\xff", b"version: 1\nmove: ab", b"version: 0"):
        disk.replace("t-0/arrived", content_)
        assert read_moves(disk, "t-0", ARRIVED) == []


def test_a_log_that_is_opened_again_is_not_leaving() -> None:
    """It is used on: the mark of a move that was not ended must not speak against what comes."""
    current, future = two()
    put(current, build())
    move = Move(current, future)
    while move.stage is not Stage.SETTLED:
        step(move)
    assert current.disk.exists(f"{DIRECTORY}/{LEAVING}")
    again = recover(current.disk, DIRECTORY, current.settings, clean=False, topic_id=ID).log
    assert not again.disk.exists(f"{DIRECTORY}/{LEAVING}")


def reopened(log: PartitionLog, power: random.Random | None) -> PartitionLog:
    """What the next process finds after a kill, or a power cut."""
    assert isinstance(log.disk, VirtualDisk)
    if power is not None:
        log.disk.crash(power)
    if not log.disk.exists(f"{log.directory}/partition.metadata"):
        log.disk.remove(log.directory)  # nobody knows whose it was: the start sets it aside
    return recover(
        log.disk,
        log.directory,
        log.settings,
        clean=False,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        cleaned_offset=log.cleaned_offset,
        topic_id=ID,
    ).log


@pytest.mark.parametrize("after", [1, 5])
def test_a_slice_ends_where_the_log_ended_when_it_was_asked_for(after: int) -> None:
    """The thread reads later: by then a leader may have begun an epoch of which the slice knows nothing."""
    current, future = two(segment_bytes=1 << 20)
    for _ in range(20):
        put(current, build())
    flush(current)
    move = Move(current, future)
    wanted = move.look(1_000)
    assert isinstance(wanted, Copy)
    current.start_epoch(1)
    for _ in range(after):
        put(current, build(), epoch=1)
    assert [one.last_offset for one in wanted().headers] == list(range(20))
    move.take(wanted(), 1_000, 0)
    finish(move)
    same(current, move.future)


@pytest.mark.parametrize("copied", [1, 2, 3, 1_000])
def test_a_future_log_that_was_away_while_the_log_was_cleaned_brings_nothing_back(copied: int) -> None:
    """Neither a deleted key nor the data of an aborted transaction, however much of it was copied before."""
    current, future = two(**COMPACT, delete_retention_ms=1_000)

    def more(count: int) -> None:
        for number in range(count):
            put(current, keyed(b"other%d" % (number % 5), b"v%d" % current.log_end_offset))
        flush(current)
        current.checkpointed_offset = current.recovery_point

    put(current, keyed(b"deleted", b"value"))
    header = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    put(current, keyed(b"aborted", b"never", attributes=transactions.TRANSACTIONAL, **header))
    more(12)
    put(current, keyed(b"deleted", None))
    data = build_marker(7, 0, Marker(False, 0), NOW)
    accepted = batch.accept(data, 0, len(data), current.log_end_offset, 0, now_ms=NOW, client=False)
    current.append(data, accepted.headers, NOW, client=False)
    more(30)
    move = Move(current, future)
    for _ in range(copied):
        if not move.lag:
            break
        step(move)
    flush(future)
    future.release()  # its directory fails; the files stay
    for day in range(3):
        clean(current, NOW + day * 86_400_000)
        more(30)
    wanted = latest(current)
    assert wanted.get(b"deleted", (0, None))[1] is None and b"aborted" not in wanted
    move = Move(reopened(current, None), reopened(future, None))
    finish(move)
    assert latest(move.future) == wanted
    assert move.future.cleaned_offset <= move.current.cleaned_offset
    same(move.current, move.future)


@pytest.mark.parametrize("seed", range(100))
def test_anything_in_any_order(seed: int) -> None:
    """Appends, cuts, deletions, rolls, flushes and crashes while the replica is moved: it arrives as it is."""
    choose = random.Random(seed)
    current, future = two(segment_bytes=choose.choice((300, 1_000, 50_000)))
    move = Move(current, future)
    epoch = sequence = 0

    def append() -> None:
        nonlocal sequence
        if current.shortened:
            flush(current)
        producer = choose.choice((-1, 11, 12))
        state = current.producers.by_id.get(producer)
        if producer < 0:
            put(current, build(choose.randint(1, 4)), epoch=epoch)
        elif state is not None and state.transaction_offset >= 0 and choose.randrange(2):
            data = build_marker(producer, 0, Marker(bool(choose.randrange(2)), 0), 1_000)
            accepted = batch.accept(data, 0, len(data), current.log_end_offset, epoch, now_ms=1_000, client=False)
            current.append(data, accepted.headers, 1_000, client=False)
        else:
            first = sequence = sequence + 1
            if state is not None:
                first = state.batches[-1].last_sequence + 1 if state.batches else 0
            header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": first}
            put(current, build(1, attributes=transactions.TRANSACTIONAL, **header), epoch=epoch)

    def cut() -> None:
        nonlocal epoch
        if current.log_end_offset > current.log_start_offset:
            truncate_to(current, choose.randint(current.log_start_offset, current.log_end_offset))
            epoch += 1

    def delete() -> None:
        current.delete_records(choose.randint(current.log_start_offset, current.log_end_offset))
        for job in retained(current, 1_000, current.log_end_offset).jobs:
            job()

    def crash() -> None:
        nonlocal current, move, epoch
        epoch += 1  # as with every leader that begins
        power = random.Random(choose.random()) if choose.randrange(2) else None
        current = reopened(current, power)
        move = Move(current, reopened(move.future, power))

    def roll() -> None:
        if current.active is not None and current.active.size:
            current.roll(1_000)

    deeds: list[Callable[[], Any]] = [append] * 8 + [cut, delete, crash, roll, lambda: flush(current)]
    for _ in range(120):
        choose.choice(deeds)()
        for _ in range(choose.choice((0, 0, 1, 2))):
            try:
                if not step(move, choose.randint(0, current.log_end_offset)):
                    same(current, move.future)
                    assert move.future.recovery_point <= current.recovery_point
                    current = move.future
                    flush(current)  # its name is on the disk; only then does the old one go
                    move = Move(current, PartitionLog(VirtualDisk(), str(NAME), current.settings, ID))
            except FileNotFoundError:
                move.again()
    finish(move)
    same(current, move.future)


def test_the_device_of_the_log_that_is_copied_is_named_as_soon_as_it_fails() -> None:
    """Not first by a job that begins later: the directory goes offline in the turn that was told."""
    current, future = two()
    for _ in range(4):
        put(current, build())
    moving = Move(current, future)
    for _ in range(100):
        if moving._near:
            break
        step(moving)
    put(current, build())
    assert isinstance(current.disk, VirtualDisk)
    current.disk.fault = lambda operation, path: errno.EIO if operation == "read" else 0
    with pytest.raises(DiskFailed) as failed:
        moving.look(0)
    assert moving._near and failed.value.disk is current.disk and future.torn is None
