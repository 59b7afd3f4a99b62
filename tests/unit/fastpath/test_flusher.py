"""The flusher on real files: every token comes back once, in order, with the error of its own files."""

import ctypes
import errno
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.flusher import Flusher


@pytest.fixture
def flusher() -> Iterator[Flusher]:
    made = Flusher()
    yield made
    made.close()


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    made = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    yield made
    os.close(made)


def results(flusher: Flusher, count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < count:
        assert select.select([flusher.fileno()], [], [], 30)[0], f"only {found} came back"
        found += flusher.drain()
    return found


def test_tokens_come_back_in_order_and_once(flusher: Flusher, fd: int) -> None:
    for token in range(500):
        os.write(fd, b"x")
        flusher.submit(token, [fd])
    assert results(flusher, 500) == [(token, 0) for token in range(500)]
    assert 1 <= flusher.syncs <= 500
    assert flusher.drain() == []
    assert not select.select([flusher.fileno()], [], [], 0)[0]


def test_a_file_named_twice_is_synced_once(flusher: Flusher, fd: int) -> None:
    flusher.submit(-(2**63), [fd, fd, fd])
    assert results(flusher, 1) == [(-(2**63), 0)]
    assert flusher.syncs == 1


def test_a_job_without_files_is_done(flusher: Flusher) -> None:
    flusher.submit(7, [])
    assert results(flusher, 1) == [(7, 0)]


def test_an_error_belongs_to_the_jobs_that_named_the_file(flusher: Flusher, fd: int) -> None:
    read_end, write_end = os.pipe()
    flusher.submit(1, [fd])
    flusher.submit(2, [fd, write_end])
    flusher.submit(3, [fd])
    flusher.submit(4, [-1])
    assert results(flusher, 4) == [(1, 0), (2, errno.EINVAL), (3, 0), (4, errno.EBADF)]
    os.close(read_end)
    os.close(write_end)


def test_it_needs_no_gil(flusher: Flusher, fd: int) -> None:
    """This thread sleeps with the GIL in its hand and never offers it: the result must be there all the same."""
    os.write(fd, b"x" * 4096)
    usleep = ctypes.PyDLL(None).usleep  # PyDLL: keeps the GIL
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        flusher.submit(1, [fd])
        found: list[tuple[int, int]] = []
        for _ in range(1000):
            usleep(10_000)
            found = flusher.drain()
            if found:
                break
    finally:
        sys.setswitchinterval(before)
    assert found == [(1, 0)]


def test_close_finishes_what_was_submitted(fd: int) -> None:
    flusher = Flusher()
    flusher.submit(1, [fd])
    flusher.close()
    flusher.close()
    for use in (flusher.drain, flusher.fileno, lambda: flusher.submit(1, []), lambda: flusher.syncs):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_large_files_that_grow_and_shrink_are_synced(flusher: Flusher, fd: int) -> None:
    """They go to the device in pieces, from where the last sync ended."""
    for token, size in enumerate((20 << 20, 60 << 20, 1 << 20, 30 << 20)):
        os.ftruncate(fd, size)
        os.pwrite(fd, b"x" * 4096, size - 4096)
        flusher.submit(token, [fd])
        assert results(flusher, 1) == [(token, 0)]
    pipe = os.pipe()
    flusher.submit(9, [fd, pipe[1]])
    assert results(flusher, 1) == [(9, errno.EINVAL)]
    for end in pipe:
        os.close(end)


def test_a_wrong_submission_leaves_nothing_behind(flusher: Flusher) -> None:
    for fds, kind in (([2**40], OverflowError), (["a"], TypeError), (None, TypeError)):
        with pytest.raises(kind):
            flusher.submit(1, fds)
    flusher.submit(2, [])
    assert results(flusher, 1) == [(2, 0)]


def test_forgotten_flushers_end_their_thread() -> None:
    """In a process of its own: here others' threads come and go."""
    look = (
        "import os, time\n"
        "from fastpath.flusher import Flusher\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "before = count()\n"
        "for _ in range(20): Flusher()\n"
        "until = time.monotonic() + 30\n"
        "while count() > before and time.monotonic() < until: time.sleep(0.01)\n"  # the kernel lists it a little longer
        "print(count() - before)\n"
    )
    more = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert more == "0\n"
