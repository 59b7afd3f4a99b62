"""Waiting for the disk, on a real one."""

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.host.work import replacements
from actors.host.work.disk import LocalDisk, LocalFile
from actors.host.work.syncs import Ordered, Syncs, _perform
from actors.node.runtime.runtime import Runtime
from actors.ports import DiskFailed, DiskFull, NotMade, Run, Sync, SyncClass, Work


class Waiting:
    """Syncs with a wake that a test can wait for."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.syncs = Syncs(self.woken.set)

    def until(self, count: int) -> dict[int, object]:
        done: dict[int, object] = {}
        for _ in range(500):
            done.update(self.syncs.drain())
            if len(done) >= count:
                return done
            self.woken.wait(0.1)
            self.woken.clear()
        raise AssertionError(done)


@pytest.fixture
def waiting() -> Iterator[Waiting]:
    one = Waiting()
    yield one
    one.syncs.close()


def test_files_and_replacements(waiting: Waiting, tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    file = disk.open("topic-0/0.log", create=True)
    file.append([b"data"])
    waiting.syncs.submit(Sync(1, [file], []))
    waiting.syncs.submit(Sync(2, [file], [(disk, "quorum-state", b"one"), (disk, "sub/dir/small", b"x")]))
    waiting.syncs.submit(Sync(3, [], [(disk, "quorum-state", b"two")]))
    assert waiting.until(3) == {1: None, 2: None, 3: None}
    assert (tmp_path / "quorum-state").read_bytes() == b"two"
    assert (tmp_path / "sub/dir/small").read_bytes() == b"x"


@pytest.mark.parametrize("synced", [True, False])
def test_a_disk_that_is_not_waited_for_has_everything_and_no_sync(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool
) -> None:
    files: list[int] = []
    monkeypatch.setattr(os, "fsync", files.append)
    disk = LocalDisk(str(tmp_path), synced=synced)
    file = disk.open("topic-0/0.log", create=True)
    file.append([b"data"])
    waiting.syncs.submit(Sync(1, [file, disk.directory("topic-0")], [(disk, "sub/state", b"one")]))
    waiting.syncs.submit(Sync(2, [file], []))
    assert waiting.until(2) == {1: None, 2: None}
    disk.settle("topic-0")
    assert (tmp_path / "sub/state").read_bytes() == b"one" and (tmp_path / "topic-0/0.log").read_bytes() == b"data"
    assert (len(files) > 2) == synced
    assert (waiting.syncs.queues[Sync(1, [], []).kind].flusher.syncs > 0) == synced


def test_replacements_of_one_file_keep_their_order(waiting: Waiting, tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    for token in range(100):
        waiting.syncs.submit(Sync(token, [], [(disk, "state", str(token).encode())]))
    assert len(waiting.until(100)) == 100
    assert (tmp_path / "state").read_bytes() == b"99"


class Slow:
    """A disk that is busy with its only small file until it is let go."""

    departures = 0

    def __init__(self) -> None:
        self.busy, self.free = threading.Event(), threading.Event()

    def replace(self, path: str, content: bytes, departures: int) -> None:
        self.busy.set()
        assert self.free.wait(10)


def test_a_small_file_of_a_directory_that_went_is_not_written_into_its_namesake(
    waiting: Waiting, tmp_path: Path
) -> None:
    """A topic is deleted and made again while the disk is busy."""
    disk, slow = LocalDisk(str(tmp_path)), Slow()
    waiting.syncs.submit(Sync(0, [], [(slow, "small", b"")]))  # type: ignore[list-item]
    assert slow.busy.wait(10)
    file = disk.open("t-0/0.log", create=True)
    waiting.syncs.submit(Sync(1, [file], [(disk, "t-0/7.snapshot", b"old"), (disk, "checkpoint", b"all")]))
    disk.rename("t-0", "t-0.1-delete")
    disk.open("t-0/0.log", create=True)
    waiting.syncs.submit(Sync(2, [], [(disk, "t-0/9.snapshot", b"new")]))
    slow.free.set()
    assert waiting.until(3) == {0: None, 1: None, 2: None}
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == ["0.log", "9.snapshot"]
    assert (tmp_path / "checkpoint").read_bytes() == b"all"


def test_the_quorum_waits_for_no_partition(waiting: Waiting, tmp_path: Path) -> None:
    """Neither its log nor its vote: a slow file of a partition is being made durable, and a small one written."""
    disk, slow = LocalDisk(str(tmp_path)), Slow()
    waiting.syncs.submit(Sync(0, [], [(slow, "small", b"")]))  # type: ignore[list-item]
    assert slow.busy.wait(10)
    log = disk.open("metadata/0.log", create=True)
    log.append([b"data"])
    waiting.syncs.submit(Sync(1, [], [(disk, "checkpoint", b"x")]))
    waiting.syncs.submit(Sync(2, [log], [(disk, "metadata/quorum-state", b"x")], SyncClass.QUORUM))
    assert waiting.until(1) == {2: None}
    assert (tmp_path / "metadata/quorum-state").exists() and not (tmp_path / "checkpoint").exists()
    slow.free.set()
    assert waiting.until(2) == {0: None, 1: None}


class Lost(LocalFile):
    """A file whose descriptor cannot be synced: the kernel refuses a pipe."""

    def __init__(self, disk: LocalDisk) -> None:
        super().__init__(disk, "lost", 0, False)
        self.ends = os.pipe()

    def pin(self, named: object = None) -> list[int]:
        return [self.ends[1]]

    def unpin(self, fds: list[int]) -> int:
        for fd in self.ends:
            os.close(fd)
        return -1


def test_one_thread_alone_hears_what_became_of_a_file(waiting: Waiting, tmp_path: Path) -> None:
    """Another that asked about the same descriptor would hear that all is well, and tell it the quorum."""
    disk = LocalDisk(str(tmp_path))
    file = disk.open("log", create=True)
    file.append([b"data"])
    waiting.syncs.submit(Sync(1, [file], [(disk, "epochs", b"1")]))
    waiting.until(1)
    assert waiting.syncs.queues[SyncClass.DATA].flusher.syncs == 2, "the file and the directory that names it"
    waiting.syncs.submit(Sync(2, [Lost(disk)], [(disk, "epochs", b"2")]))
    waiting.syncs.submit(Sync(3, [], [(disk, "quorum-state", b"1")]))
    done = waiting.until(2)
    assert isinstance(done[2], DiskFailed)
    assert (tmp_path / "epochs").read_bytes() == b"1", "what was not durable is not named"


def test_a_file_that_was_lost_says_nothing_of_another_disk(waiting: Waiting, tmp_path: Path) -> None:
    """A broker goes on with the log directories whose device has not failed."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    broken, well = LocalDisk(str(tmp_path / "a")), LocalDisk(str(tmp_path / "b"))
    log = well.open("log", create=True)
    waiting.syncs.submit(Sync(1, [Lost(broken)], [(broken, "epochs", b"1")]))
    waiting.syncs.submit(Sync(2, [log], [(well, "epochs", b"2")]))
    waiting.syncs.submit(Sync(3, [log], []))
    done = waiting.until(3)
    assert isinstance(done[1], DiskFailed) and (done[2], done[3]) == (None, None)
    assert (tmp_path / "b" / "epochs").read_bytes() == b"2"


def test_a_sync_in_parts_ends_with_the_one_that_was_lost(waiting: Waiting, tmp_path: Path) -> None:
    disk, log = LocalDisk(str(tmp_path)), LocalDisk(str(tmp_path)).open("log", create=True)
    queue = waiting.syncs.queues[SyncClass.DATA]
    queue.pins_max = 1
    waiting.syncs.submit(Sync(1, [Lost(disk), log], [(disk, "epochs", b"1")]))
    assert isinstance(waiting.until(1)[1], DiskFailed)
    assert queue.flusher.syncs == 1 and not (tmp_path / "epochs").exists()


def run_of(disk: LocalDisk, name: str, *files: LocalFile) -> Run:
    """A run with a log, and two small files behind it."""
    log = disk.open(f"{name}/0.log", create=True)
    log.append([b"data"])
    return Run([log, *files], [(disk, f"{name}/epochs", name.encode()), (disk, f"{name}/7.snapshot", b"7")])


def test_runs_are_durable_beside_each_other_and_before_what_is_behind_them(waiting: Waiting, tmp_path: Path) -> None:
    """600 small files: more than are open at once."""
    disk = LocalDisk(str(tmp_path))
    runs = [run_of(disk, f"t-{number}") for number in range(300)]
    for again in range(2):
        waiting.syncs.submit(Sync(again, [], [(disk, "checkpoint", b"%d" % again)], runs=runs))
        assert waiting.until(1) == {again: None}
        assert (tmp_path / "checkpoint").read_bytes() == b"%d" % again
        assert {(tmp_path / f"t-{number}/epochs").read_bytes() for number in range(300)} == {
            b"t-%d" % number for number in range(300)
        }
        assert all((tmp_path / f"t-{number}/7.snapshot").read_bytes() == b"7" for number in range(300))
    assert not list(tmp_path.rglob("*.tmp"))
    queue = waiting.syncs.queues[SyncClass.DATA]
    assert queue.flusher.syncs == 300 + 300 + 1 + 300, "each log, its directory and the one above once; then each log"


@pytest.mark.parametrize("pins_max", [1, 2, 3, 1000])
def test_a_run_that_is_lost_takes_nothing_behind_it_and_no_other_disk(
    waiting: Waiting, tmp_path: Path, pins_max: int
) -> None:
    """However the sync is cut into parts."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    broken, well = LocalDisk(str(tmp_path / "a")), LocalDisk(str(tmp_path / "b"))
    queue = waiting.syncs.queues[SyncClass.DATA]
    queue.pins_max = pins_max
    behind = broken.open("behind", create=True)
    runs = [run_of(well, "t-0"), run_of(broken, "t-1", Lost(broken), behind), run_of(well, "t-2")]
    waiting.syncs.submit(Sync(1, [], [(well, "checkpoint", b"1")], runs=runs))
    lost = waiting.until(1)[1]
    assert isinstance(lost, DiskFailed) and lost.disk is broken
    assert pins_max > 1 or behind._created, "it was not even tried, as it is in a later part"
    assert not (tmp_path / "a/t-1/epochs").exists() and not (tmp_path / "b/checkpoint").exists()
    waiting.syncs.submit(Sync(2, [], [(well, "checkpoint", b"2")], runs=[run_of(well, "t-3")]))
    waiting.syncs.submit(Sync(3, [], [], runs=[run_of(broken, "t-4")]))
    done = waiting.until(2)
    assert done[2] is None and isinstance(done[3], DiskFailed)
    assert (tmp_path / "b/t-3/epochs").read_bytes() == b"t-3" and (tmp_path / "b/checkpoint").read_bytes() == b"2"


class Held:
    """A flusher whose results come when they are let go."""

    def __init__(self) -> None:
        self.submitted: list[tuple[int, list[int]]] = []
        self.results: list[tuple[int, tuple[tuple[int, int], ...]]] = []

    def submit(self, token: int, fds: list[int], ends: object) -> None:
        self.submitted.append((token, fds))

    def drain(self) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
        results, self.results = self.results, []
        return results


def test_a_part_of_a_sync_waits_for_what_comes_of_the_one_before_it(tmp_path: Path) -> None:
    """Also where another sync gives back descriptors meanwhile."""
    syncs, disk, flusher = Syncs(lambda: None), LocalDisk(str(tmp_path)), Held()
    queue = syncs.queues[SyncClass.DATA]
    queue.flusher, real = flusher, queue.flusher  # type: ignore[assignment]
    queue.pins_max = 2
    other, first, behind = (disk.open(name, create=True) for name in ("other", "first", "behind"))
    for file in (other, first, behind):
        file._created = False
    queue.submit(Sync(0, [other], []))
    queue.submit(Sync(1, [first, behind], []))
    assert [token for token, _ in flusher.submitted] == [0, 1]
    flusher.results = [(0, ())]
    assert queue.flushed() == [(0, None)]
    assert len(flusher.submitted) == 2, "it may not be tried if the first file fails"
    flusher.results = [(1, ((0, errno.EIO),))]
    assert queue.flushed() == [] and flusher.submitted[2:] == [(1, [])]
    flusher.results = [(1, ())]
    ((token, lost),) = queue.flushed()
    assert token == 1 and isinstance(lost, DiskFailed)
    queue.flusher = real
    syncs.close()


@pytest.mark.parametrize("call", [0, 1])
def test_a_small_file_that_cannot_be_made_durable_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """Neither the file nor, behind its name, the directory."""
    disk, calls = LocalDisk(str(tmp_path)), []

    def failing(fds: Iterable[int]) -> list[int]:
        calls.append(list(fds))
        return [errno.EIO if len(calls) - 1 == call and place == 0 else 0 for place in range(len(calls[-1]))]

    monkeypatch.setattr(replacements, "sync_beside", failing)
    for name in ("t-0", "t-1"):
        (tmp_path / name).mkdir()
    runs = [Run([], [(disk, f"{name}/epochs", b"x")]) for name in ("t-0", "t-1")]
    ((_, failed),) = _perform([Ordered(Sync(1, [], [(disk, "checkpoint", b"1")], runs=runs), flushed=True)])
    assert isinstance(failed, DiskFailed) and failed.errno == errno.EIO and failed.disk is disk
    assert (tmp_path / "t-0/epochs").exists() == bool(call), "what is not durable gets no name"
    assert (tmp_path / "t-1/epochs").exists() and not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("beside", [False, True])
def test_a_small_file_in_a_new_directory_is_durable_with_the_name_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """The first vote of a voter whose log is open and empty: nothing else syncs the directory above."""
    disk, fsync, sync_beside = LocalDisk(str(tmp_path)), os.fsync, replacements.sync_beside
    synced: list[str] = []
    fails = [errno.EIO]

    def one(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        if synced[-1] == "." and fails:
            raise OSError(fails.pop(), "fails")
        fsync(fd)

    def many(fds: Iterable[int]) -> list[int]:
        found = sync_beside(list(fds))
        for place, fd in enumerate(fds):
            try:
                one(fd)
            except OSError as error:
                found[place] = error.errno or 0
        return found

    monkeypatch.setattr(os, "fsync", one)
    monkeypatch.setattr(replacements, "sync_beside", many)

    def replaced(path: str) -> BaseException | None:
        synced.clear()
        if beside:
            return replacements.replace_beside([replacements.Replacement(disk, path, b"x", 0)])[0]
        try:
            return disk.replace(path, b"x")
        except DiskFailed as failed:
            return failed

    disk.open("a/t-0/0.log", create=True)
    assert isinstance(replaced("a/t-0/quorum-state"), DiskFailed), (
        "the names are not durable, and the caller hears of it"
    )
    assert replaced("a/t-0/quorum-state") is None and {"a/t-0", "a", "."} <= set(synced), "again, as it is not known"
    assert replaced("a/t-0/quorum-state") is None and not {"a", "."} & set(synced), "they are durable now"


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("what", ["a killed process", "only just made", "made again meanwhile"])
def test_a_directory_whose_name_may_not_be_durable_is_named_with_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool, what: str
) -> None:
    """It was made by a process that was killed; it is there and its maker goes on in a moment; or another one had its name
    when that was made durable."""
    disk, fsync, sync_beside, mkdir = LocalDisk(str(tmp_path)), os.fsync, replacements.sync_beside, os.mkdir
    synced: list[str] = []
    then: list[Callable[[], object]] = []

    def one(fd: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), tmp_path))
        fsync(fd)
        if synced[-1] == "." and then:
            then.pop()()

    def many(fds: Iterable[int]) -> list[int]:
        for fd in list(fds):
            one(fd)
        return sync_beside(list(fds))

    def replaced() -> bool:
        synced.clear()
        if beside:
            (failed,) = replacements.replace_beside(
                [replacements.Replacement(disk, "t-0/epochs", b"x", disk.departures)]
            )
            assert failed is None
        else:
            disk.replace("t-0/epochs", b"x", disk.departures)
        return "." in synced

    monkeypatch.setattr(os, "fsync", one)
    monkeypatch.setattr(replacements, "sync_beside", many)
    if what == "a killed process":
        LocalDisk(str(tmp_path)).open("t-0/0.log", create=True)
    elif what == "only just made":

        def made(path: str, mode: int) -> None:
            mkdir(path, mode)
            assert replaced()

        monkeypatch.setattr(os, "mkdir", made)
        disk.open("t-0/0.log", create=True)
        return
    else:
        disk.open("t-0/0.log", create=True)
        then.append(lambda: (disk.rename("t-0", "t-0.1-delete"), disk.open("t-0/0.log", create=True)))
        assert replaced()
    assert replaced() and not replaced()


def test_a_small_file_of_a_run_that_fails_takes_nothing_behind_it(waiting: Waiting, tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    (tmp_path / "t-1/epochs/taken").mkdir(parents=True)
    runs = [run_of(disk, "t-0"), run_of(disk, "t-1"), run_of(disk, "t-2")]
    waiting.syncs.submit(Sync(1, [], [(disk, "checkpoint", b"1")], runs=runs))
    failed = waiting.until(1)[1]
    assert isinstance(failed, DiskFailed) and failed.disk is disk
    assert not (tmp_path / "checkpoint").exists()
    assert (tmp_path / "t-2/epochs").read_bytes() == b"t-2", "those beside it are not held up"


def test_runs_without_room_are_tried_again(tmp_path: Path) -> None:
    """No mock: the kernel refuses the large one (RLIMIT_FSIZE)."""
    disk = LocalDisk(str(tmp_path))
    runs = [Run([], [(disk, "large", bytes(4096))]), Run([], [(disk, "small", b"x")])]
    sync = Sync(1, [], [(disk, "behind-them", b"x")], runs=runs)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        ((_, full),) = _perform([Ordered(sync, flushed=True)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(full, DiskFull) and full.disk is disk
    assert disk.names("") == ["small"]
    assert _perform([Ordered(sync, flushed=True)]) == [(1, None)]
    assert disk.names("") == ["behind-them", "large", "small"]


def test_small_files_of_a_directory_that_went_or_was_never_there(waiting: Waiting, tmp_path: Path) -> None:
    disk, slow = LocalDisk(str(tmp_path)), Slow()
    waiting.syncs.submit(Sync(0, [], [(slow, "small", b"")]))  # type: ignore[list-item]
    assert slow.busy.wait(10)
    runs = [run_of(disk, "t-0"), run_of(disk, "t-1"), Run([], [(disk, "new/dir/small", b"x")])]
    waiting.syncs.submit(Sync(1, [], [], runs=runs))
    disk.rename("t-0", "t-0.1-delete")
    disk.open("t-0/0.log", create=True)
    slow.free.set()
    assert waiting.until(2) == {0: None, 1: None}
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == ["0.log"]
    assert (tmp_path / "t-1/epochs").exists() and (tmp_path / "new/dir/small").read_bytes() == b"x"


class Made:
    """A content that is made piece by piece."""

    def __init__(self, *pieces: bytes, wait: threading.Event | None = None) -> None:
        self.pieces, self.wait = pieces, wait
        self.times = 0
        self.began = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        self.times += 1
        self.began.set()
        for piece in self.pieces:
            assert self.wait is None or self.wait.wait(10)
            yield piece


def test_what_is_made_while_it_is_written_holds_nobody_up(waiting: Waiting, tmp_path: Path) -> None:
    disk, free = LocalDisk(str(tmp_path)), threading.Event()
    made = Made(b"a" * 100_000, b"", b"b", wait=free)
    waiting.syncs.submit(Sync(1, [], [(disk, "snapshot", made)]))
    assert made.began.wait(10)
    waiting.syncs.submit(Sync(2, [], [(disk, "checkpoint", b"x")]))
    assert waiting.until(1) == {2: None}
    assert not (tmp_path / "snapshot").exists()
    free.set()
    assert waiting.until(1) == {1: None}
    assert (tmp_path / "snapshot").read_bytes() == b"a" * 100_000 + b"b"
    waiting.syncs.submit(Sync(3, [], [(disk, "last", Made(b"words"))]))
    waiting.syncs.close()
    assert (tmp_path / "last").read_bytes() == b"words", "closing waits for it"


def test_what_cannot_be_made_or_finds_no_room_is_told(tmp_path: Path) -> None:
    disk, before = LocalDisk(str(tmp_path)), resource.getrlimit(resource.RLIMIT_FSIZE)

    class Broken(Made):
        def __iter__(self) -> Iterator[bytes]:
            yield b"x"
            raise self.error

        error: Exception = ZeroDivisionError()

    class Misread(Broken):
        error = OSError(errno.EIO, "not of this disk")

    for broken in (Broken(), Misread()):
        ((_, failed),) = _perform([Ordered(Sync(1, [], [(disk, "snapshot", broken)]), flushed=True)])
        assert isinstance(failed, NotMade) and disk.names("") == []

    class Starved(Broken):
        error = MemoryError()

    ((_, starved),) = _perform([Ordered(Sync(1, [], [(disk, "snapshot", Starved())]), flushed=True)])
    assert isinstance(starved, DiskFull) and disk.names("") == []
    large = Made(bytes(600), bytes(600))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        ((_, full),) = _perform([Ordered(Sync(2, [], [(disk, "snapshot", large)]), flushed=True)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(full, DiskFull) and not (tmp_path / "snapshot").exists()
    assert _perform([Ordered(Sync(3, [], [(disk, "snapshot", large)]), flushed=True)]) == [(3, None)]
    assert large.times == 2 and (tmp_path / "snapshot").stat().st_size == 1200


def test_nothing_is_durable_behind_a_file_that_was_lost(waiting: Waiting, tmp_path: Path) -> None:
    """The kernel says so once: the next sync of that log would be a success, and overtakes one with a small file."""
    disk, slow = LocalDisk(str(tmp_path)), Slow()
    log = disk.open("log", create=True)
    log.append([b"data"])
    waiting.syncs.submit(Sync(0, [], [(slow, "small", b"")]))  # type: ignore[list-item]
    assert slow.busy.wait(10)
    waiting.syncs.submit(Sync(1, [Lost(disk)], [(disk, "epochs", b"1")]))
    while waiting.syncs.queues[SyncClass.DATA].flusher.syncs < 1:
        waiting.woken.wait(0.01)
    waiting.syncs.submit(Sync(2, [log], []))
    assert isinstance(waiting.until(1)[2], DiskFailed)
    slow.free.set()
    assert isinstance(waiting.until(2)[1], DiskFailed)


def test_a_failure_is_the_answer(waiting: Waiting, tmp_path: Path) -> None:
    disk = LocalDisk(str(tmp_path))
    (tmp_path / "taken").mkdir()
    waiting.syncs.submit(Sync(1, [], [(disk, "taken", b"a directory stands there")]))
    assert isinstance(waiting.until(1)[1], OSError)


def test_whatever_happens_to_a_small_file_is_answered(waiting: Waiting, tmp_path: Path) -> None:
    """Nobody else writes them, and who waits for one would wait for ever."""

    class Small:
        departures = 0

        def replace(self, path: str, content: bytes, departures: int) -> None:
            raise {"memory": MemoryError(), "fault": ZeroDivisionError()}[path]

    waiting.syncs.submit(Sync(1, [], [(Small(), "fault", b"")]))  # type: ignore[list-item]
    assert isinstance(waiting.until(1)[1], DiskFailed)
    waiting.syncs.submit(Sync(3, [], [(Small(), "memory", b"")]))  # type: ignore[list-item]
    assert isinstance(waiting.until(1)[3], DiskFull), "lack of memory is no error of the device"
    waiting.syncs.submit(Sync(2, [], [(LocalDisk(str(tmp_path)), "small", b"")]))
    assert waiting.until(1) == {2: None}


def test_who_finds_no_room_fails_alone(tmp_path: Path) -> None:
    """No mock: the kernel refuses the large one (RLIMIT_FSIZE)."""
    disk = LocalDisk(str(tmp_path))
    large = Sync(1, [], [(disk, "checkpoint", bytes(4096)), (disk, "behind-it", b"x")])
    small = Sync(2, [], [(disk, "quorum-state", b"x")])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        results = dict(_perform([Ordered(large, flushed=True), Ordered(small, flushed=True)]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(results[1], DiskFull)
    assert results[2] is None
    assert disk.names("") == ["quorum-state"]


def test_closing_finishes_what_was_submitted(tmp_path: Path) -> None:
    one = Waiting()
    disk = LocalDisk(str(tmp_path))
    file = disk.open("log", create=True)
    file.append([b"data"])
    ran = []
    one.syncs.work(Work(1, lambda: ran.append(1)))
    one.syncs.submit(Sync(2, [file], [(disk, "last", b"words")]))
    one.syncs.close()
    one.syncs.close()
    assert ran == [1]
    assert (tmp_path / "last").read_bytes() == b"words"


def test_a_file_that_was_removed_while_it_was_synced_is_closed_by_a_thread(
    waiting: Waiting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(str(tmp_path))
    file = disk.open("log", create=True)
    file.append([b"data"])
    closed: dict[int, str] = {}
    close = os.close

    def noting(fd: int) -> None:
        closed[fd] = threading.current_thread().name
        close(fd)

    monkeypatch.setattr(os, "close", noting)
    descriptor = file.fileno()
    waiting.syncs.submit(Sync(1, [file], []))
    file.close()
    disk.remove("log")
    assert descriptor not in closed, "a sync waits for it"
    waiting.until(1)
    waiting.syncs.close()
    assert closed[descriptor] == "close"


def _open_now() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


class Few:
    """Only so many more descriptors than there are now."""

    def __init__(self, more: int) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.more = more

    def __enter__(self) -> None:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        self.plugs = [os.open(os.devnull, os.O_RDONLY)]
        while self.plugs[-1] < highest:
            self.plugs.append(os.open(os.devnull, os.O_RDONLY))
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.plugs[-1] + 1 + self.more, self.before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self.before)
        for fd in self.plugs:
            os.close(fd)


def test_one_sync_of_more_files_than_there_are_descriptors_is_made_in_parts(tmp_path: Path) -> None:
    """400 partitions that are new: each pins its file and its directory."""
    waiting, disk = Waiting(), LocalDisk(str(tmp_path), handles_max=64)
    files = [disk.open(f"t-{number}/0.log", create=True) for number in range(400)]
    for file in files:
        file.append([b"data"])
    queue = waiting.syncs.queues[SyncClass.DATA]
    queue.pins_max = 10**6
    small = disk.open("small", create=True)
    with Few(40):
        waiting.syncs.submit(Sync(1, files, [(disk, "checkpoint", b"1")]))
        waiting.syncs.submit(Sync(2, [small], []))
        waiting.syncs.submit(Sync(3, [], [(disk, "checkpoint", b"3")]))
        assert waiting.until(3) == {1: None, 2: None, 3: None}
    assert queue.flusher.syncs >= 802, "each file and its directory"
    assert (tmp_path / "checkpoint").read_bytes() == b"3"
    waiting.syncs.close()


def test_the_syncs_of_a_class_hold_no_more_descriptors_than_they_may(tmp_path: Path) -> None:
    waiting, disk = Waiting(), LocalDisk(str(tmp_path), handles_max=16)
    files = [disk.open(f"t-{number}/0.log", create=True) for number in range(100)]
    queue = waiting.syncs.queues[SyncClass.DATA]
    queue.pins_max = 12
    before, most, done = _open_now(), 0, {}
    for token in range(4):
        waiting.syncs.submit(Sync(token, files[token * 25 : token * 25 + 25], []))
    while len(done) < 4:
        most = max(most, _open_now() - before)
        waiting.woken.wait(0.001)
        done.update(waiting.syncs.drain())
    assert most <= 12 + 2 + 16
    waiting.syncs.close()


def test_a_sync_waits_for_a_descriptor_and_nothing_has_failed(tmp_path: Path) -> None:
    waiting, disk = Waiting(), LocalDisk(str(tmp_path))
    file = disk.open("t-0/0.log", create=True)
    with Few(1):
        waiting.syncs.submit(Sync(1, [file], [(disk, "checkpoint", b"x")]))
        assert waiting.syncs.drain() == [] and waiting.syncs.lacks, "its directory, which is new, is to be synced too"
    assert waiting.until(1) == {1: None}
    waiting.syncs.close()


def test_a_small_file_waits_for_a_descriptor(tmp_path: Path) -> None:
    waiting, disk = Waiting(), LocalDisk(str(tmp_path))
    with Few(0):
        waiting.syncs.submit(Sync(1, [], [(disk, "quorum-state", b"x")]))
        assert not waiting.woken.wait(0.2) and waiting.syncs.drain() == []
    assert waiting.until(1) == {1: None}
    waiting.syncs.close()


@pytest.mark.parametrize("more", [2, 30])
def test_small_files_go_beside_each_other_as_far_as_there_are_descriptors(tmp_path: Path, more: int) -> None:
    """None waits for those that the others hold."""
    waiting, disk = Waiting(), LocalDisk(str(tmp_path))
    names = [f"t-{number}" for number in range(100)]
    for name in names:
        (tmp_path / name).mkdir()
    runs = [Run([], [(disk, f"{name}/epochs", name.encode())]) for name in names]
    with Few(more):
        waiting.syncs.submit(Sync(1, [], [(disk, "checkpoint", b"x")], runs=runs))
        assert waiting.until(1) == {1: None}
    assert [(tmp_path / name / "epochs").read_bytes() for name in names] == [name.encode() for name in names]
    waiting.syncs.close()


@pytest.mark.parametrize("there", [0, 3])
def test_small_files_go_beside_each_other_as_far_as_there_are_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int
) -> None:
    """As where pids.max of a container says so."""
    waiting, disk, plain, began = Waiting(), LocalDisk(str(tmp_path)), threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        began.append(thread)
        if len(began) > there:
            raise RuntimeError("can't start new thread")
        plain(thread)

    names = [f"t-{number}" for number in range(20)]
    for name in names:
        (tmp_path / name).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        waiting.syncs.submit(Sync(1, [], [], runs=[Run([], [(disk, f"{name}/epochs", b"x")]) for name in names]))
        assert waiting.until(1) == {1: None}
    assert all((tmp_path / name / "epochs").exists() for name in names) and len(began) > there
    waiting.syncs.close()


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_no_thread_to_write_what_is_made_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    waiting, disk = Waiting(), LocalDisk(str(tmp_path))

    def none(_: threading.Thread) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none)
        waiting.syncs.submit(Sync(1, [], [(disk, "snapshot", Made(b"x"))]))
    assert isinstance(waiting.until(1)[1], DiskFull) and disk.names("") == []
    waiting.syncs.submit(Sync(2, [], [(disk, "snapshot", Made(b"x"))]))
    assert waiting.until(1) == {2: None}
    waiting.syncs.close()


def test_no_memory_to_sync_small_files_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, before = LocalDisk(str(tmp_path)), _open_now()

    def none(_: Iterable[int]) -> list[int]:
        raise MemoryError

    monkeypatch.setattr(replacements, "sync_beside", none)
    sync = Sync(1, [], [(disk, "behind-them", b"x")], runs=[Run([], [(disk, "small", b"x")])])
    ((_, full),) = _perform([Ordered(sync, flushed=True)])
    assert isinstance(full, DiskFull) and full.errno == errno.ENOMEM
    assert disk.names("") == [], "nor under a name for a while"
    assert _open_now() == before


@pytest.mark.parametrize("beside", [False, True])
def test_an_error_that_is_kept_holds_no_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool) -> None:
    disk = LocalDisk(str(tmp_path))

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "the device failed")

    monkeypatch.setattr("os.replace", fails)
    one = [(disk, "small", b"x" * 10_000)]
    sync = Sync(1, [], [], runs=[Run([], one)]) if beside else Sync(1, [], one)
    ((_, failed),) = _perform([Ordered(sync, flushed=True)])
    assert isinstance(failed, DiskFailed) and "the device failed" in str(failed)
    assert failed.__traceback__ is None and failed.__context__ is None and failed.__cause__ is None


def test_closing_finishes_a_sync_that_is_made_in_parts(tmp_path: Path) -> None:
    waiting, disk = Waiting(), LocalDisk(str(tmp_path))
    files = [disk.open(f"t-{number}/0.log", create=True) for number in range(100)]
    waiting.syncs.queues[SyncClass.DATA].pins_max = 4
    waiting.syncs.submit(Sync(1, files, [(disk, "checkpoint", b"x")]))
    waiting.syncs.close()
    assert (tmp_path / "checkpoint").read_bytes() == b"x"


@pytest.mark.parametrize("beside", [False, True])
def test_a_small_file_goes_with_its_directory_in_the_turn_in_which_it_was_asked_for(
    waiting: Waiting, tmp_path: Path, beside: bool
) -> None:
    """The host gets what was asked for at the end of the turn. By then another replica may have the name."""
    disk = LocalDisk(str(tmp_path))
    disk.open("t-0/0.log", create=True)
    config: Any = SimpleNamespace(value=lambda _name: 1 << 20)
    log: Any = SimpleNamespace(info=None, warning=None, error=None)
    runtime = Runtime(config, None, log)  # type: ignore[arg-type]
    small = [(disk, "t-0/leader-epoch-checkpoint", b"old")]
    runtime.sync((), () if beside else small, lambda _: None, runs=[Run((), small)] if beside else ())
    disk.rename("t-0", "t-0.1-delete")
    disk.open("t-0/0.log", create=True)
    (sync,) = runtime.syncs
    waiting.syncs.submit(sync)
    assert waiting.until(1) == {sync.token: None}
    assert disk.names("t-0") == ["0.log"]
