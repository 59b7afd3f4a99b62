"""A full disk, a small file system of its own: what makes room finds some, records do not take it, and it is kept again."""

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.host.work.disk import LocalDisk
from actors.host.work.kept_room import NAME, Rooms, of_records
from actors.ports import DiskFull

KEPT = 1 << 20
VOLUME = 8 << 20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "volume"
    place.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={VOLUME}", "tmpfs", str(place)], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


class Lines:
    """What was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(f"INFO {text}")

    def error(self, text: str) -> None:
        self.lines.append(f"ERROR {text}")


@pytest.fixture
def reserving(tmp_path: Path) -> Iterator[Path]:
    """A file system that reserves two fifths of its blocks for root."""
    place, image = tmp_path / "reserving", tmp_path / "image"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(4 * VOLUME)
    for command in (["mkfs.ext4", "-q", "-m", "40", str(image)], ["mount", "-o", "loop", str(image), str(place)]):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip(f"there is no {command[0]}")
        if done.returncode:
            pytest.skip(f"such a file system cannot be had here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: LocalDisk, path: str = "t-0/00000000000000000000.log", piece: int = 4096) -> int:
    """Append records until there is no room; how many bytes found some."""
    file, taken = disk.open(path, create=True), 0
    with pytest.raises(DiskFull):
        while taken <= 4 * VOLUME:
            file.append([bytes(piece)])
            taken += piece
    file.close()
    return taken


def look(rooms: Rooms, disk: LocalDisk) -> None:
    """As often as it takes for what was begun to be done."""
    for _ in range(3):
        rooms.look()
        for thread in rooms._keeping.values():
            thread.join()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_without_a_thread_room_is_kept_a_second_later(
    volume: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    disk = LocalDisk(str(volume), kept_bytes=KEPT)
    rooms = Rooms(Lines())
    rooms.watch([disk])
    assert disk.give_room(disk.room.given) and disk.lacks_room

    def none(_: threading.Thread) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        rooms.look()
    assert disk.lacks_room
    look(rooms, disk)
    assert not disk.lacks_room


def test_a_full_disk_can_be_freed_and_comes_back_by_itself(volume: Path) -> None:
    disk, said = LocalDisk(str(volume), kept_bytes=KEPT), Lines()
    rooms = Rooms(said)
    rooms.watch([disk])
    assert (volume / NAME).stat().st_blocks * 512 >= KEPT
    taken = fill(disk)
    assert VOLUME - KEPT - (1 << 17) < taken <= VOLUME - KEPT
    assert (volume / NAME).exists(), "records do not take it"
    look(rooms, disk)
    assert said.lines == []

    for number in range(20):  # checkpoints, snapshots of producers, metadata, names, indexes, a roll
        disk.replace(f"checkpoint-{number}", bytes(9000))
    metadata = disk.open("__cluster_metadata-0/00000000000000000000.log", create=True)
    metadata.append([bytes(50_000), bytes(50_000)])
    index = disk.open("t-0/00000000000000000000.index", create=True)
    index.append([bytes(8000)])
    disk.rename("t-0/00000000000000000000.index", "t-0/00000000000000000000.index.deleted")
    disk.open("t-0/00000000000000000007.log", create=True)
    assert not (volume / NAME).exists()
    for path in (
        "t-0/00000000000000000007.log",
        "t-0/00000000000000000000.log.cleaned",
        "t-1/00000000000000000009.log",
    ):
        assert fill(disk, path, 1) == 0, "nor do they take it now that it is in use"
    look(rooms, disk)
    look(rooms, disk)
    assert len(said.lines) == 1 and said.lines[0].startswith(f"ERROR {volume} is full: no records are taken there")

    assert disk.open("t-0/00000000000000000000.log").read_cold(0, 10) == bytes(10), "consumers are served"
    disk.remove("t-0/00000000000000000000.log")
    look(rooms, disk)
    assert (volume / NAME).exists() and not disk.lacks_room
    assert len(said.lines) == 2 and said.lines[1].startswith(f"INFO {volume} has room again")
    assert fill(disk, "t-1/00000000000000000009.log") > VOLUME // 2


def test_a_little_room_is_not_enough(volume: Path) -> None:
    disk, said = LocalDisk(str(volume), kept_bytes=KEPT), Lines()
    rooms = Rooms(said)
    rooms.watch([disk])
    fill(disk)
    disk.replace("checkpoint", bytes(9000))
    small = volume / "t-0" / "00000000000000000000.log"
    os.truncate(small, small.stat().st_size - KEPT // 2)
    look(rooms, disk)
    assert disk.lacks_room and not (volume / NAME).exists()
    os.truncate(small, small.stat().st_size - KEPT)
    look(rooms, disk)
    assert not disk.lacks_room and (volume / NAME).exists()


def test_what_is_reserved_for_root_is_room_of_root(reserving: Path) -> None:
    """It has used that too until the disk was full: else it would take records again a twentieth of the disk later."""
    disk, rooms = LocalDisk(str(reserving), kept_bytes=KEPT), Rooms(Lines())
    rooms.watch([disk])
    first = disk.open("t-1/00000000000000000000.log", create=True)
    first.append([bytes(4 * KEPT)])
    first.close()
    fill(disk)
    disk.replace("checkpoint", bytes(300_000))
    look(rooms, disk)
    assert disk.lacks_room
    disk.remove("t-1/00000000000000000000.log")
    assert disk.space().usable_bytes == 0
    look(rooms, disk)
    assert not disk.lacks_room and fill(disk, "t-2/00000000000000000000.log") > KEPT


def test_what_was_kept_is_used_up_at_the_end(volume: Path) -> None:
    """Then there is no room, as without it; nothing of what failed is kept."""
    disk = LocalDisk(str(volume), kept_bytes=KEPT)
    fill(disk)
    metadata = disk.open("__kafka_metadata-0/00000000000000000000.log", create=True)
    with pytest.raises(DiskFull):
        while metadata.size < VOLUME:
            metadata.append([bytes(4096)])
    assert KEPT - (1 << 17) < metadata.size <= KEPT and (volume / metadata.path).stat().st_size == metadata.size
    with pytest.raises(DiskFull):
        disk.replace("checkpoint", bytes(9000))
    assert not (volume / "checkpoint.tmp").exists()
    disk.remove("t-0/00000000000000000000.log")
    metadata.append([bytes(4096)])
    disk.replace("checkpoint", bytes(9000))


def test_a_disk_that_is_full_from_the_beginning(volume: Path) -> None:
    (volume / "other").write_bytes(bytes(VOLUME - KEPT // 2))
    disk, rooms = LocalDisk(str(volume), kept_bytes=KEPT), Rooms(Lines())
    rooms.watch([disk])
    assert disk.lacks_room and not (volume / NAME).exists()
    assert fill(disk) == 0
    disk.replace("checkpoint", bytes(9000))
    (volume / "other").unlink()
    look(rooms, disk)
    assert not disk.lacks_room and fill(disk) > 0


def test_a_small_disk_keeps_an_eighth(volume: Path) -> None:
    disk = LocalDisk(str(volume), kept_bytes=1 << 30)
    assert disk.room.size == VOLUME // 8 == (volume / NAME).stat().st_size and not disk.lacks_room


def test_no_room_is_kept_without_the_setting(tmp_path: Path) -> None:
    LocalDisk(str(tmp_path), kept_bytes=4096)
    assert (tmp_path / NAME).exists()
    disk = LocalDisk(str(tmp_path))
    assert not (tmp_path / NAME).exists() and not disk.lacks_room


def test_a_disk_without_such_files_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", fails)
    disk = LocalDisk(str(tmp_path), kept_bytes=4096)
    assert not disk.lacks_room and not (tmp_path / NAME).exists()
    disk.open("t-0/00000000000000000000.log", create=True).append([b"data"])


STEPS: dict[str, tuple[str, Callable[[LocalDisk], Any]]] = {
    "rename": ("rename", lambda disk: disk.rename("old", "new")),
    "create": ("open", lambda disk: disk.open("t-9/00000000000000000000.log", create=True)),
    "replace": ("replace", lambda disk: disk.replace("checkpoint", b"x")),
    "remove a file": ("unlink", lambda disk: disk.remove("old")),
    "append metadata": ("pwrite", lambda disk: disk.open("__cluster_metadata-0/1.log").append([b"more"])),
    "append an index": ("pwritev", lambda disk: disk.open("index").append([b"mo", b"re"])),
    "overwrite": ("pwrite", lambda disk: disk.open("index").overwrite(0, b"xx")),
}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", STEPS)
def test_each_operation_that_may_have_it_gets_it_once(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, do = STEPS[name]
    real, kept = getattr(os, call), tmp_path / "kept" / NAME

    def full(*arguments: Any, **named: Any) -> Any:
        if lacking and arguments[0] != str(kept) and (kept.exists() or disk.root.endswith("none")):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, full)
    for directory, size in (("none", 0), ("kept", 4096)):
        lacking = False
        (tmp_path / directory).mkdir()
        disk = LocalDisk(str(tmp_path / directory), kept_bytes=size)
        for path in ("old", "index", "__cluster_metadata-0/1.log"):
            disk.open(path, create=True).append([b"begin"])
        lacking = True
        if not size:
            with pytest.raises(DiskFull):
                do(disk)
    do(disk)
    assert disk.lacks_room and disk.room.given == 1
    with pytest.raises(DiskFull, match="kept back"):
        disk.open("t-0/00000000000000000000.log", create=True).append([b"record"])


def test_which_files_hold_records() -> None:
    for path in (
        "t-0/00000000000000000000.log",
        "t-0/00000000000000000000.log.cleaned",
        "t-0.x-future/00000000000000000007.log",
    ):
        assert of_records(path)
    for path in (
        "t-0/00000000000000000000.index",
        "__cluster_metadata-0/00000000000000000000.log",
        "checkpoint",
        "t.log-0",
    ):
        assert not of_records(path)


def test_no_records_are_taken_from_before_the_room_is_given_up(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread gives it up: what the loop appends while the file is being removed would take the room."""
    disk = LocalDisk(str(volume), kept_bytes=KEPT)
    file = disk.open("t-0/00000000000000000000.log", create=True)
    file.append([b"before"])
    seen: list[bool] = []
    unlink = os.unlink

    def looked(path: str) -> None:
        disk.crowded = False  # as a use of a descriptor may say that began a moment ago
        with pytest.raises(DiskFull):
            file.append([b"record"])
        seen.append(disk.lacks_room)
        unlink(path)

    monkeypatch.setattr(os, "unlink", looked)
    assert disk.give_room(disk.room.given)
    assert seen == [True] and disk.lacks_room


def test_an_append_uses_room_that_a_thread_has_given_up_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(str(tmp_path), kept_bytes=4096)
    file = disk.open(f"t-0/{'0' * 20}.index", create=True)
    pwrite, failed = os.pwrite, list[int]()

    def first_fails(fd: int, data: bytes, position: int) -> int:
        if not failed:
            failed.append(position)
            assert disk.give_room(0), "another thread found none either"
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", first_fails)
    assert file.append([b"entry"]) == 5 and failed == [0]
