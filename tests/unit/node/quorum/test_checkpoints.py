"""Files of checkpoints: which are kept, what is received, and what a power cut has left half done."""

import errno

import pytest

from actors.metadata.snapshot import PIECE_BYTES
from actors.node.quorum.checkpoints import HEAD_BYTES, Checkpoints, verify
from actors.node.quorum.files import DELETED, PART, TEMPORARY, DamagedFile
from actors.ports import Buffer, DiskFailed, DiskFull
from actors.raft import SnapshotId
from fastpath.records.batch import Builder
from tests.simulator.disk import VirtualDisk

OLD, NEW, NEWER = SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(20, 2)


def batch(value: bytes) -> bytes:
    builder = Builder(base_offset=0, timestamp_ms=1)
    builder.append(None, value)
    return bytes(builder.build())


WHOLE = batch(b"a") + batch(b"b" * 500)


def stored(disk: VirtualDisk, path: str, data: Buffer = WHOLE) -> None:
    disk.open(path, create=True).append((data,))


def made(*ids: SnapshotId) -> tuple[VirtualDisk, Checkpoints]:
    disk = VirtualDisk()
    held = Checkpoints(disk, "log")
    for one in ids:
        stored(disk, held.path(one))
    held.recover()
    return disk, held


def test_what_was_left_half_done_is_removed_and_the_newest_is_by_offset_and_epoch() -> None:
    disk, held = made(NEWER, OLD, NEW)
    for end in (PART, DELETED, TEMPORARY):
        stored(disk, held.path(SnapshotId(99, 9)) + end)
    stored(disk, "log/leader-epochs")
    held.recover()
    assert held.ids == [OLD, NEW, NEWER] and held.latest == NEWER
    assert [name for name in disk.names("log") if not name.endswith(".checkpoint")] == ["leader-epochs"]


def test_a_checkpoint_is_given_in_slices() -> None:
    disk, held = made(NEW)
    found = b""
    while len(found) < len(WHOLE):
        part = held.slice(NEW, len(found), 100)
        assert part is not None and part.size == len(WHOLE) and 0 < len(part.data) <= 100
        found += bytes(part.data)
    assert found == WHOLE
    for position in (len(WHOLE), len(WHOLE) + 1, 1 << 62, -1):
        end = held.slice(NEW, position, 100)
        assert end is not None and end.size == len(WHOLE) and not end.data
    with pytest.raises(FileNotFoundError):
        held.slice(OLD, 0, 100)
    disk.cold = lambda *_: True
    assert held.slice(NEW, 7, 100) is None and held.missed is not None
    job, take = held.missed
    data = job()
    take(data)
    warm = held.slice(NEW, 7, 50)
    assert bytes(data) == WHOLE[7:107] and warm is not None and bytes(warm.data) == WHOLE[7:57]
    assert held.slice(NEW, 8, 50) is None, "of another place nothing is at hand"


@pytest.mark.parametrize("operation", ["open", "read"])
def test_a_slice_for_which_there_is_no_descriptor_is_left_to_a_job(operation: str) -> None:
    disk, held = made(NEW)
    disk.fault = lambda one, path: errno.EMFILE if one == operation else 0
    assert held.slice(NEW, 7, 50) is None and held.missed is not None
    job, take = held.missed
    with pytest.raises(DiskFull):
        job()
    disk.fault = None
    take(job())
    found = held.slice(NEW, 7, 50)
    assert found is not None and bytes(found.data) == WHOLE[7:57]


@pytest.mark.parametrize("operation", ["open", "read"])
def test_what_is_wrong_with_a_device_under_a_slice_is_found_by_the_job(operation: str) -> None:
    """A request of another node's takes no harm from it."""
    disk, held = made(NEW)
    disk.fault = lambda one, path: errno.EIO if one == operation else 0
    assert held.slice(NEW, 7, 50) is None and held.missed is not None
    with pytest.raises(DiskFailed):
        held.missed.job()


def test_a_checkpoint_that_has_gone_while_it_was_opened_is_not_kept_open() -> None:
    disk, held = made(NEW)
    disk.fault = lambda one, path: errno.EMFILE if one == "open" else 0
    assert held.slice(NEW, 0, 50) is None and held.missed is not None
    disk.fault = None
    job, take = held.missed
    file = job()
    held.ids.clear()
    take(file)
    assert file.closed


def test_a_received_file_has_its_name_only_when_it_is_whole() -> None:
    disk, held = made(OLD)
    half = len(WHOLE) // 2
    file = held.write_part(NEW, 0, WHOLE[:half])
    assert held.receives(file) and held.latest == OLD and disk.exists(held.path(NEW) + PART)
    held.write_part(NEW, half, WHOLE[half:])
    assert verify(file) is None
    held.adopt_part(NEW)
    assert held.ids == [OLD, NEW] and bytes(held.head()) == WHOLE and not disk.exists(held.path(NEW) + PART)


def test_another_snapshot_or_a_new_beginning_takes_the_place_of_what_was_received() -> None:
    disk, held = made()
    first = held.write_part(OLD, 0, b"half")
    second = held.write_part(NEW, 0, b"other")
    assert not held.receives(first) and held.receives(second) and disk.exists(held.path(OLD) + PART + DELETED)
    third = held.write_part(NEW, 0, b"again")
    assert third.size == 5 and held.receives(third) and not held.receives(second)


def test_what_was_received_and_finds_no_room_for_its_other_name_goes_with_the_next_try() -> None:
    """On a disk that is full already it lay there until the next start."""
    disk, held = made()
    first = held.write_part(OLD, 0, b"half")
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "rename" else 0
    with pytest.raises(DiskFull):
        held.write_part(NEW, 0, b"other")
    disk.fault = None
    second = held.write_part(NEW, 0, b"other")
    assert held.receives(second) and held.garbage == [(held.path(OLD) + PART + DELETED, first)]
    assert not disk.exists(held.path(OLD) + PART)


def test_what_is_not_kept_goes_by_another_name_first() -> None:
    disk, held = made(OLD, NEW)
    held.head()
    stored(disk, held.path(NEWER))
    held.keep([NEW], NEWER)
    assert held.ids == [NEW, NEWER] and not disk.exists(held.path(OLD))
    assert [path for path, _ in held.garbage] == [held.path(OLD) + DELETED], "the loop unlinks nothing"
    stored(disk, held.path(SnapshotId(5, 1)))
    held.discard(SnapshotId(5, 1))
    assert held.ids == [NEW, NEWER] and len(held.garbage) == 2


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (b"", 0),
        (WHOLE[:-1], len(batch(b"a"))),
        (WHOLE[:5], 0),
        (WHOLE[:-1] + b"\x01", len(batch(b"a"))),
        (WHOLE + b"\x00", len(WHOLE)),
    ],
)
def test_damage_is_told_with_its_place_and_what_to_do(data: bytes, position: int) -> None:
    damage = verify(data)
    assert damage is not None and damage.position == position
    disk, held = made()
    stored(disk, held.path(NEW), data)
    held.recover()
    with pytest.raises(
        DamagedFile, match=f"damaged at byte {position} .*Restore it from a copy, or empty the directory"
    ):
        held.head()


def test_without_a_checkpoint_there_is_nothing_to_load() -> None:
    _, held = made()
    assert held.latest is None and bytes(held.head()) == b""


class Pieces:
    """A checkpoint that says how much of it is read at once."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)
        self.most = 0

    def read_cold(self, position: int, size: int) -> memoryview:
        piece = self._data[position : position + size]
        self.most = max(self.most, len(piece))
        return piece


@pytest.mark.parametrize("damaged", [False, True])
def test_a_large_checkpoint_is_never_in_memory_as_a_whole(damaged: bool) -> None:
    """A new node receives one of 70 MB for a million partitions, and checks it before it loads it."""
    one = batch(bytes(1 << 18))
    data = bytearray(one * 12)
    if damaged:
        data[-1] ^= 1
    file = Pieces(bytes(data))
    damage = verify(file)
    assert (damage is not None and damage.position == 11 * len(one)) if damaged else damage is None
    assert 0 < file.most <= PIECE_BYTES < file.size


def test_a_start_reads_the_head_of_a_checkpoint_and_no_more() -> None:
    disk, held = made()
    stored(disk, held.path(NEW), batch(b"head") + batch(bytes(1 << 20)))
    held.recover()
    assert len(held.head()) == HEAD_BYTES
