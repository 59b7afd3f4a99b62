"""The real disk: all or nothing appends, cached and cold reads, errors with a place, few descriptors for many files."""

import errno
import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.host.work.descriptors import Reserve
from actors.host.work.disk import LocalDisk, LocalFile
from actors.ports import DiskFailed, DiskFull
from tests.descriptors import opened, settled


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    return LocalDisk(str(tmp_path))


def move_away(tmp_path: Path) -> None:
    """The whole log directory has another name now."""
    tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-gone"))


def test_bytes_come_back(disk: LocalDisk, tmp_path: Path) -> None:
    file = disk.open("a-0/x.log", create=True)
    assert file.append((b"abc", bytearray(b"de"), memoryview(b"f"))) == 6
    assert file.append((b"gh",)) == 8
    assert bytes(file.read(2, 4) or b"") == b"cdef"
    assert bytes(file.read(6, 100) or b"") == b"gh"
    assert bytes(file.read_cold(0, 100)) == b"abcdefgh"
    assert bytes(file.read(8, 5) or b"") == bytes(file.read_cold(9, 5)) == b""
    assert (tmp_path / "a-0/x.log").read_bytes() == b"abcdefgh"


def test_a_large_read_comes_from_the_pool(disk: LocalDisk) -> None:
    file = disk.open("x", create=True)
    content = os.urandom(300_000)
    file.append((content,))
    assert bytes(file.read(1, 200_000) or b"") == content[1:200_001]
    assert bytes(file.read_cold(5, 250_000)) == content[5:250_005]


def test_more_parts_than_the_kernel_takes_at_once(disk: LocalDisk) -> None:
    file = disk.open("x", create=True)
    parts = [bytes([n % 256]) * (n % 3) for n in range(3000)]
    assert file.append(parts) == sum(map(len, parts))
    assert bytes(file.read_cold(0, 10_000)) == b"".join(parts)


def test_short_writes_are_continued(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("x", create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, at: real(fd, b"".join(parts)[:5], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    assert file.append((b"abcd", b"", b"efghijkl", b"m")) == 13
    assert file.append((b"0123456789",)) == 23
    assert bytes(file.read_cold(0, 30)) == b"abcdefghijklm0123456789"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_keeps_nothing_of_the_append(
    disk: LocalDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = disk.open("x", create=True)
    file.append((b"kept",))
    real = os.pwrite

    def write(fd: int, data: bytes, at: int) -> int:
        if at > 6:
            raise OSError(code, "full")
        return real(fd, bytes(data)[:3], at)

    monkeypatch.setattr(os, "pwrite", write)
    with pytest.raises(DiskFull, match="byte 4"):
        file.append((b"lost lost",))
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == b"kept"
    assert file.append((b"!",)) == 5
    assert (tmp_path / "x").read_bytes() == b"kept!"


def test_a_file_size_limit_counts_as_full(disk: LocalDisk, tmp_path: Path) -> None:
    """No mock: the kernel refuses the write (RLIMIT_FSIZE), after having taken a part of it."""
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = disk.open("x", create=True)
    file.append((b"12345",))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        with pytest.raises(DiskFull):
            file.append((b"6789abcdef",))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "x").read_bytes() == b"12345"
    assert file.size == 5


def test_an_error_of_the_device_is_final_and_says_where(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("dir-0/x", create=True)
    file.append((b"abc",))

    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(DiskFailed, match="append failed at byte 3") as caught:
        file.append((b"d",))
    assert str(caught.value.filename).endswith("dir-0/x")
    monkeypatch.undo()
    for call in (lambda: file.append((b"d",)), lambda: file.read(0, 1), lambda: file.read_cold(0, 1), file.pin):
        with pytest.raises(DiskFailed):
            call()


def test_a_cold_read_that_fails_says_where(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("x", create=True)
    file.append((bytes(100),))

    def fail(fd: int, buffers: Any, at: int, *_: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(DiskFailed, match="read failed at byte 7"):
        file.read_cold(7, 10)


@pytest.mark.parametrize("answer", [BlockingIOError(errno.EAGAIN, "cold"), 40])
def test_what_is_not_cached_is_none(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    file = disk.open("x", create=True)
    file.append((bytes(100),))
    disk.nowait = True

    def read(fd: int, buffers: Any, at: int, flags: int = 0) -> int:
        assert flags == os.RWF_NOWAIT
        if isinstance(answer, OSError):
            raise answer
        return int(answer)

    monkeypatch.setattr(os, "preadv", read)
    assert file.read(0, 100) is None


def test_a_file_system_that_cannot_tell_is_read_plainly(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("x", create=True)
    file.append((b"abc",))
    real = os.preadv

    def read(fd: int, buffers: Any, at: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "no")
        return real(fd, buffers, at)

    disk.nowait = True
    monkeypatch.setattr(os, "preadv", read)
    assert bytes(file.read(1, 5) or b"") == b"bc"
    assert not disk.nowait


def test_truncate_and_overwrite(disk: LocalDisk, tmp_path: Path) -> None:
    file = disk.open("x", create=True)
    file.append((b"abcdef",))
    file.overwrite(1, b"XY")
    file.truncate(4)
    file.append((b"!",))
    assert (tmp_path / "x").read_bytes() == b"aXYd!"
    with pytest.raises(AssertionError):
        file.overwrite(4, b"12")


def test_a_missing_file_is_made_only_on_request(disk: LocalDisk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("none-0/x")
    assert disk.names("none-0") == []
    disk.open("none-0/x", create=True)
    assert disk.names("") == ["none-0"]
    assert disk.exists("none-0/x") and not disk.exists("none-0/y")


def test_a_rename_is_followed_by_open_files(disk: LocalDisk, tmp_path: Path) -> None:
    file = disk.open("a-0/x", create=True)
    file.append((b"abc",))
    disk.rename("a-0/x", "a-0/x.deleted")
    disk.rename("a-0", "a-0.gone-delete")
    disk.forget(file)
    assert file.path == "a-0.gone-delete/x.deleted"
    assert bytes(file.read_cold(0, 3)) == b"abc"
    disk.remove("a-0.gone-delete")
    assert os.listdir(tmp_path) == []
    disk.remove("a-0.gone-delete")


@pytest.mark.parametrize("how", ["append", "overwrite", "truncate", "rename"])
def test_what_is_written_and_missing_has_failed(disk: LocalDisk, tmp_path: Path, how: str) -> None:
    """The whole directory was unmounted or moved away. A FileNotFoundError would say that the node has removed it."""
    file = disk.open("t-0/0.log", create=True)
    file.append((b"abc",))
    file.close()
    file = disk.open("t-0/0.log")
    move_away(tmp_path)
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: file.append((b"d",)),
        "overwrite": lambda: file.overwrite(0, b"d"),
        "truncate": lambda: file.truncate(0),
        "rename": lambda: disk.rename("t-0", "t-1"),
    }
    with pytest.raises(DiskFailed):
        calls[how]()


def test_replace_does_not_bring_the_log_directory_back(disk: LocalDisk, tmp_path: Path) -> None:
    disk.open("t-0/0.log", create=True)
    move_away(tmp_path)
    for path in ("checkpoint", "t-0/partition.metadata"):
        with pytest.raises(DiskFailed):
            disk.replace(path, b"x")
    assert not tmp_path.exists()


def test_replace_writes_a_small_file_whole(disk: LocalDisk, tmp_path: Path) -> None:
    disk.replace("some/quorum-state", b"one")
    disk.replace("some/quorum-state", b"two")
    assert (tmp_path / "some/quorum-state").read_bytes() == b"two"
    assert disk.names("some") == ["quorum-state"]


def test_replace_does_not_bring_a_deleted_partition_back(disk: LocalDisk) -> None:
    disk.open("a-0/x", create=True)
    disk.rename("a-0", "a-0.1-delete")
    disk.replace("a-0/leader-epoch-checkpoint", b"late")
    disk.remove("a-0.1-delete")
    assert disk.names("") == []
    disk.open("a-0/x", create=True)
    disk.replace("a-0/leader-epoch-checkpoint", b"new")
    assert disk.names("a-0") == ["leader-epoch-checkpoint", "x"]


def test_names_that_are_gone_are_not_remembered_for_ever(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.host.work.disk.GONE_MAX", 3)
    for number in range(9):
        disk.open(f"a-{number}/x", create=True)
        disk.rename(f"a-{number}", f"a-{number}.1-delete")
        disk.remove(f"a-{number}.1-delete")
    assert len(disk._gone) == 3
    disk.replace("a-8/leader-epoch-checkpoint", b"late")
    assert disk.names("") == []


def test_replace_on_a_full_disk_keeps_the_old_file(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.replace("f", b"old")

    def write(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(DiskFull):
        disk.replace("f", b"new")
    monkeypatch.undo()
    assert disk.names("") == ["f"]
    assert bytes(disk.open("f").read_cold(0, 9)) == b"old"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[LocalDisk]:
    yield LocalDisk(str(tmp_path), handles_max=4)


def test_many_files_need_few_descriptors(small: LocalDisk) -> None:
    before = settled()
    files = [small.open(f"t-{n}/x", create=True) for n in range(50)]
    for turn in range(3):
        for number, file in enumerate(files):
            file.append((f"{number} {turn};".encode(),))
    assert small.handles == 4
    assert opened() == before + 4
    assert bytes(files[7].read(0, 100) or b"") == b"7 0;7 1;7 2;"
    for file in files:
        file.close()
        file.close()
    assert (small.handles, opened()) == (0, before)


def test_the_descriptor_used_longest_ago_goes_first(small: LocalDisk) -> None:
    files = [small.open(f"{n}", create=True) for n in range(5)]
    for file in files[:4]:
        file.append((b"x",))
    files[0].read(0, 1)
    files[4].append((b"x",))
    assert [small.holds(file) for file in files] == [True, False, True, True, True]


def test_a_pinned_descriptor_stays_open(small: LocalDisk) -> None:
    first = small.open("first", create=True)
    first.append((b"x",))
    fds = first.pin()
    assert len(fds) == 2, "the file and, its name being new, the directory"
    for number in range(20):
        small.open(str(number), create=True).append((b"x",))
    first.close()
    for fd in fds:
        os.fdatasync(fd)
    before = settled()
    assert first.unpin(fds) == fds[0]
    os.close(fds[0])
    assert opened() == before - 2
    again = first.pin()
    assert len(again) == 1
    first.unpin(again)


def test_a_removed_file_has_nothing_to_sync(small: LocalDisk) -> None:
    file = small.open("x", create=True)
    small.remove("x")
    assert file.pin() == []
    file.unpin([])


def test_a_cold_read_survives_the_loss_of_the_descriptor(small: LocalDisk) -> None:
    file = small.open("x", create=True)
    file.append((b"abc",))
    for number in range(9):
        small.open(str(number), create=True).append((b"y",))
    assert not small.holds(file)
    before = settled()
    assert bytes(file.read_cold(0, 3)) == b"abc"
    assert opened() == before


def test_a_file_whose_directory_was_removed_has_nothing_to_sync(disk: LocalDisk, tmp_path: Path) -> None:
    """By the node itself in a thread, or by somebody at the shell: the loop must not end of it."""
    file = disk.open("t-0/0.log", create=True)
    file.append((b"x",))
    shutil.rmtree(tmp_path / "t-0")
    before = settled()
    fds = file.pin()
    assert fds == []
    file.unpin(fds)
    assert opened() == before
    file.close()


def test_the_first_sync_in_a_new_directory_covers_its_name_too(disk: LocalDisk, tmp_path: Path) -> None:
    """Else a power cut could take the directory away, with what was synced in it."""
    first, second = disk.open("a/t-0/0.log", create=True), disk.open("a/t-0/1.log", create=True)

    def synced(file: Any) -> list[int]:
        fds = file.pin()
        inodes = [os.fstat(fd).st_ino for fd in fds]
        file.unpin(fds)
        return inodes

    paths = ["a/t-0/0.log", "a/t-0", "a", "."]
    assert synced(first) == [os.stat(tmp_path / path).st_ino for path in paths]
    assert synced(second) == [os.stat(tmp_path / path).st_ino for path in ("a/t-0/1.log", "a/t-0")]
    assert len(synced(first)) == 1
    third = disk.open("a/t-1/0.log", create=True)
    assert synced(third) == [os.stat(tmp_path / path).st_ino for path in ("a/t-1/0.log", "a/t-1", "a")]


def test_the_first_sync_covers_the_name_of_a_directory_that_a_killed_process_has_made(
    disk: LocalDisk, tmp_path: Path
) -> None:
    """What is flushed in it would go with it in a power cut. The directory itself, which a flush names first, is not synced
    again for a file that was there."""
    LocalDisk(str(tmp_path)).open("t-0/0.log", create=True)
    file = disk.open("t-0/0.log")

    def synced(named: set[tuple[LocalDisk, str]]) -> list[str]:
        fds = file.pin(named)
        found = [os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path) for fd in fds]
        file.unpin(fds)
        return found

    named: set[tuple[LocalDisk, str]] = set()
    assert synced(named) == ["t-0/0.log", "."] and named == {(disk, "")}
    assert synced(set()) == ["t-0/0.log"]
    disk.rename("t-0", "t-0.1-future")
    disk.rename("t-0.1-future", "t-0")
    assert synced(set()) == ["t-0/0.log", "."], "it has that name anew"
    disk.rename("t-0", "t-1")
    tmp_path.rename(tmp_path.parent / "elsewhere")
    assert len(synced(set())) == 1, "whoever moved it away takes nothing from the sync of the file"
    (tmp_path.parent / "elsewhere").rename(tmp_path)


def test_a_directory_that_cannot_be_opened_for_a_sync_is_a_failure_and_is_asked_again(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("t-0/0.log", create=True)
    file.append((b"x",))

    def refused(path: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "directory_descriptor", refused)
        with pytest.raises(DiskFailed, match="Input/output error"):
            file.pin()


def test_more_files_than_the_system_allows_are_used_in_turn(disk: LocalDisk) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened() + 20, before[1]))
    try:
        files = [disk.open(f"t-{number}/0.log", create=True) for number in range(50)]
        for number, file in enumerate(files):
            file.append((b"%d" % number,))
        for number, file in enumerate(files):
            assert bytes(file.read(0, 9) or b"") == b"%d" % number
            assert bytes(file.read_cold(0, 9)) == b"%d" % number
            file.unpin(file.pin())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for file in files:
        file.close()


def test_a_partition_that_goes_and_comes_back_while_its_small_file_is_written_is_no_error(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic is deleted and made again under a slow fsync: the temporary file has gone with the old directory."""
    disk.open("t-0/0.log", create=True)
    fsync = os.fsync

    def slow(fd: int) -> None:
        fsync(fd)
        if not disk.departures:
            disk.rename("t-0", "t-0.1-delete")
            disk.open("t-0/0.log", create=True)

    monkeypatch.setattr(os, "fsync", slow)
    disk.replace("t-0/leader-epoch-checkpoint", b"old", disk.departures)
    assert disk.names("t-0") == ["0.log"]


def test_no_descriptor_is_closed_while_a_thread_copies_it(small: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = small.open("x", create=True)
    file.append((b"x",))
    fds = file.pin()
    file.close()
    close, unguarded = os.close, []

    def watched(fd: int) -> None:
        if fd == fds[0] and not small.closing.locked():
            unguarded.append(fd)
        close(fd)

    monkeypatch.setattr(os, "close", watched)
    file.unpin(fds)
    assert unguarded == []


def test_the_volume_has_a_size(disk: LocalDisk, tmp_path: Path) -> None:
    """KIP-827: as `df` shows it to a user who is not root."""
    volume = os.statvfs(tmp_path)
    space = disk.space()
    assert space.total_bytes == volume.f_frsize * volume.f_blocks > 0
    assert (
        abs(space.usable_bytes - volume.f_frsize * volume.f_bavail) < 1 << 30 and space.usable_bytes < space.total_bytes
    )
    with pytest.raises(DiskFailed, match="statvfs"):
        LocalDisk(str(tmp_path / "gone")).space()


class Full:
    """No descriptor is left in this process."""

    def __init__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def __enter__(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self.before)


def test_a_lack_of_descriptors_is_no_error_of_the_device(disk: LocalDisk) -> None:
    file = disk.open("t-0/0.log", create=True)
    file.append((b"data",))
    file.close()
    with Full():
        for refused in (
            lambda: file.append((b"more",)),
            lambda: file.overwrite(0, b"D"),
            lambda: file.truncate(2),
            lambda: file.read_cold(0, 4),
            lambda: disk.open("t-1/0.log", create=True),
            lambda: disk.replace("checkpoint", b"x"),
            file.pin,
        ):
            with pytest.raises(DiskFull):
                refused()
        assert file.read(0, 4) is None, "a thread reads it"
    assert file.append((b"more",)) == 8
    assert bytes(file.read_cold(0, 9)) == b"datamore"
    file.unpin(file.pin())
    disk.replace("checkpoint", b"x")


def test_what_a_file_that_cannot_be_pinned_said_of_new_directories_is_said_again(disk: LocalDisk) -> None:
    file = disk.open("a/b/0.log", create=True)
    file.append((b"data",))
    with Full(), pytest.raises(DiskFull):
        file.pin()
    fds = file.pin()
    assert len(fds) == 4, "the file, b, a, and the root"
    file.unpin(fds)


def test_the_reserve_is_for_what_finds_no_descriptor(tmp_path: Path) -> None:
    reserve = Reserve(2)
    disk = LocalDisk(str(tmp_path), reserve=reserve)
    # Plugs, so that the numbers below the limit are taken: the kernel gives the lowest free one.
    plugs = [os.open(os.devnull, os.O_RDONLY)]
    while plugs[-1] < max(map(int, os.listdir("/proc/self/fd"))) - 1:
        plugs.append(os.open(os.devnull, os.O_RDONLY))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (plugs[-1] + 1, before[1]))
    try:
        disk.open("one", create=True).append((b"x",))
        assert reserve.lent == 1
        disk.open("two", create=True).append((b"x",))
        assert reserve.lent == 1 and disk.handles == 1, "what can be opened again is closed first"
        assert reserve.lend() and reserve.lent == 2 and not reserve.lend()
        assert not reserve.fill()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert reserve.fill()
    reserve.close()
    for fd in plugs:
        os.close(fd)


def test_a_thread_waits_for_a_descriptor(disk: LocalDisk) -> None:
    file = disk.open("0.log", create=True)
    file.append((b"data",))
    file.close()
    found: list[bytes] = []
    with Full():
        thread = threading.Thread(target=lambda: found.append(bytes(file.read_cold(0, 4))))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and not found
    thread.join(10)
    assert found == [b"data"]


@pytest.mark.parametrize("times", [1, 3])
def test_a_cold_read_follows_a_file_that_is_renamed_while_it_is_opened(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Another file has the old name by the time at which the thread opens it."""
    file = disk.open("t-0/0.log", create=True)
    file.append((b"old",))
    disk.loosen(file)  # as when many files are open
    path, left = LocalFile._absolute, list(range(times))

    def absolute(self: LocalFile) -> str:
        asked = path(self)
        if self is file and left and not disk.naming.locked():
            number = left.pop()
            disk.rename(file.path, f"t-0/{number}.deleted")
            disk.open(asked.removeprefix(f"{disk.root}/"), create=True).append((b"new bytes",))
        return asked

    monkeypatch.setattr(LocalFile, "_absolute", absolute)
    assert bytes(file.read_cold(0, 100)) == b"old" and not left


def test_a_file_says_when_it_was_written_before_it_was_opened(disk: LocalDisk, tmp_path: Path) -> None:
    made = disk.open("t-0/0.log", create=True)
    made.append((b"x",))
    assert made.modified_ms is None
    os.utime(tmp_path / "t-0" / "0.log", ns=(0, 1_700_000_000_123_456_789))
    assert disk.open("t-0/0.log").modified_ms == 1_700_000_000_123


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE])
def test_a_rename_that_fails_says_why_and_on_which_disk(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    disk.open("t-0/0.log", create=True)

    def fails(old: str, new: str) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "rename", fails)
    with pytest.raises(DiskFull if number in (errno.ENOSPC, errno.EDQUOT) else DiskFailed) as found:
        disk.rename("t-0/0.log", "t-0/1.log")
    assert found.value.disk is disk and found.value.errno == number and disk.exists("t-0/0.log")


def test_a_rename_whose_answer_was_lost_has_been_done(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a server of files that is slow to answer."""
    file = disk.open("t-0/0.log", create=True)
    rename = os.rename

    def done(old: str, new: str) -> None:
        rename(old, new)
        raise OSError(errno.EIO, "no answer")

    monkeypatch.setattr(os, "rename", done)
    disk.rename("t-0/0.log", "t-0/1.log")
    assert file.path == "t-0/1.log" and disk.names("t-0") == ["1.log"]


@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.EOPNOTSUPP])
def test_what_is_at_rest_is_read_past_the_cache_or_not(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Whatever the file system says to such a read, where it has none."""
    file = disk.open("a-0/x.log", create=True)
    content = os.urandom(20_000)
    file.append((content,))
    opened, asked = os.open, list[str]()

    def refuses(path: str, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_DIRECT:
            asked.append(path)
            if number:
                raise OSError(number, os.strerror(number))
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuses)
    for position, size in ((0, 20_000), (1, 4095), (4095, 2), (8192, 4096), (19_999, 1), (12_345, 50_000)):
        assert bytes(file.read_at_rest(position, size)) == content[position : position + size]
    assert asked and not len(file.read_at_rest(20_000, 1))


@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, DiskFailed), (errno.ENOSPC, DiskFull)])
def test_what_cannot_be_read_at_rest_says_whose_fault_it_is(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    file = disk.open("a-0/x.log", create=True)
    file.append((bytes(100),))

    def fails(*args: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "preadv", fails)
        with pytest.raises(kind) as caught:
            file.read_at_rest(0, 100)
    assert caught.value.errno == number  # type: ignore[attr-defined]
