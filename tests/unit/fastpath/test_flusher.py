"""The flusher on real files: every token comes back once, in order, with the error of its own files."""

import ctypes
import errno
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastpath.flusher import Flusher, sync_beside


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
        found += [(token, failures[0][1] if failures else 0) for token, failures in flusher.drain()]
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
        found: list[tuple[int, tuple[tuple[int, int], ...]]] = []
        for _ in range(1000):
            usleep(10_000)
            found = flusher.drain()
            if found:
                break
    finally:
        sys.setswitchinterval(before)
    assert found == [(1, ())]


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


@pytest.fixture
def several(tmp_path: Path) -> Iterator[list[int]]:
    made = [os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR) for number in range(6)]
    yield made
    for one in made:
        os.close(one)


def test_nothing_behind_a_file_that_failed_is_synced(several: list[int]) -> None:
    """Wherever it is named: what is named behind it rests upon it."""
    ends = os.pipe()
    orders = [several, several[::-1], several[3:] + several[:3]]
    for order in orders:
        for place in range(len(order) + 1):
            flusher = Flusher()
            flusher.submit(1, [*order[:place], ends[1], *order[place:]])
            flusher.submit(2, [])
            assert results(flusher, 2) == [(1, errno.EINVAL), (2, 0)]
            assert flusher.syncs == place + 1
            flusher.close()
    for end in ends:
        os.close(end)


def test_a_run_ends_where_it_fails_and_the_others_go_on(several: list[int]) -> None:
    """The files behind the runs wait for all of them, and are not synced when one has failed."""
    ends = os.pipe()
    lost = ends[1]
    one, two, three, four, five, six = several
    for fds, runs, failures, syncs in (
        ([one, lost, two, three, four, five, six], (3, 5), ((1, errno.EINVAL),), 4),
        ([one, two, three, lost, lost, five, six], (2, 4, 5), ((3, errno.EINVAL), (4, errno.EINVAL)), 4),
        ([one, two, three, four, five, six, lost], (2, 4), ((6, errno.EINVAL),), 7),
        ([one, two, one, three, two, four, five], (2, 4, 6), (), 5),
        ([lost, -1, one], (0, 0, 1, 1, 2, 2, 2), ((0, errno.EINVAL), (1, errno.EBADF)), 2),
    ):
        flusher = Flusher()
        flusher.submit(1, fds, runs)
        found: list[tuple[int, tuple[tuple[int, int], ...]]] = []
        while not found:
            assert select.select([flusher.fileno()], [], [], 30)[0]
            found = flusher.drain()
        assert found == [(1, failures)]
        assert flusher.syncs == syncs
        flusher.close()
    for end in ends:
        os.close(end)


def test_impossible_runs_are_refused(flusher: Flusher, fd: int) -> None:
    for runs in ((2,), (-1,), (1, 0)):
        with pytest.raises(ValueError, match="ascending"):
            flusher.submit(1, [fd], runs)
    flusher.submit(2, [fd], (0, 1, 1))
    assert results(flusher, 1) == [(2, 0)]


def test_files_without_an_order_each_have_their_error(several: list[int]) -> None:
    assert sync_beside([]) == []
    assert sync_beside([several[0], -1, *several]) == [0, errno.EBADF, 0, 0, 0, 0, 0, 0]


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#define SEEN(name) \
    int name(int fd) { \
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, #name); \
        FILE* to = fopen("order", "a"); \
        fprintf(to, "%d\n", fd); \
        fclose(to); \
        return real(fd); \
    }
SEEN(fdatasync)
SEEN(fsync)  /* where there is no fdatasync */
"""
JOBS = """
import os, select
from fastpath.flusher import Flusher
first = os.open("first", os.O_CREAT | os.O_RDWR)
fds = [first] + [os.dup(first) for _ in range(9)]
flusher, drained = Flusher(), 0
jobs = [[9, 2, 5], [5, 9, 0, 8], [], [1, 2, 0, 7, 7]]
for token, job in enumerate(jobs):
    flusher.submit(token, [fds[one] for one in job])
while drained < len(jobs):
    select.select([flusher.fileno()], [], [])
    drained += len(flusher.drain())
print(" ".join(str(fds.index(int(line))) for line in open("order")))
"""


def ran(code: str, at: Path) -> str:
    """What a script prints that finds the syncs of its process in the file `order`."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to see the calls with")
    (at / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=at, check=True)
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "LD_PRELOAD": str(at / "shim.so"), "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=at, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_files_are_synced_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    """However many jobs the thread took at once: what it took together is a run of jobs, each of whose files it syncs
    once."""
    jobs = [[9, 2, 5], [5, 9, 0, 8], [], [1, 2, 0, 7, 7]]
    possible = set()
    for cuts in range(1 << 3):
        runs: list[list[int]] = [[]]
        for place, job in enumerate(jobs):
            if place and cuts >> (place - 1) & 1:
                runs.append([])
            runs[-1] += job
        possible.add(" ".join(str(one) for run in runs for one in dict.fromkeys(run)))
    assert ran(JOBS, tmp_path) in possible


RUNS = """
import os, select
from fastpath.flusher import Flusher
first = os.open("first", os.O_CREAT | os.O_RDWR)
fds = [first] + [os.dup(first) for _ in range(499)]
flusher = Flusher()
flusher.submit(1, fds, range(5, 496, 5))
select.select([flusher.fileno()], [], [])
assert flusher.drain() == [(1, ())]
print(" ".join(str(fds.index(int(line))) for line in open("order")))
"""


def test_each_run_keeps_its_order_and_what_is_behind_them_comes_last(tmp_path: Path) -> None:
    """99 runs of five files each, and five behind them."""
    order = [int(one) for one in ran(RUNS, tmp_path).split()]
    assert sorted(order) == list(range(500)), "each once"
    assert order[495:] == [495, 496, 497, 498, 499]
    for run in range(99):
        places = [order.index(file) for file in range(5 * run, 5 * run + 5)]
        assert places == sorted(places), f"run {run} is synced out of order"
    assert order != sorted(order), "they go beside each other"
