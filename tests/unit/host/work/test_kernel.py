"""What takes the place of Linux's own calls, run on Linux; and where else Linux is known."""

import errno
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actors.host.work import kernel

ROOT = Path(__file__).parents[4]
CALLS = re.compile(
    r"/proc\b|\bprctl|\bpidfd|\bmemfd|\bsched_|\bprlimit|\bposix_fallocate|\bpipe2|\bSOCK_(?:CLOEXEC|NONBLOCK)|\bO_DIRECT\b|\bRWF_"
    r"|\bmalloc_trim|\baccept4|\beventfd|\bepoll\b|\binotify|\bsignalfd|\bsplice\(|\bsendfile|\bO_(?:PATH|TMPFILE)|\bSO_PEERCRED"
    r"|\bCLOCK_BOOTTIME|\bsync_file_range|\bctypes\b"
)
CONTENT = {
    "actors/host/work/kernel.py": "all the rest goes through it",
    "actors/host/work/time_slice.py": "a slice that cannot be had is not asked for",
    "actors/host/work/disk.py": "without O_DIRECT reads go through the page cache, without RWF_NOWAIT by a thread",
    "actors/host/metrics/process.py": "numbers that are not to be had are absent",
    "actors/page/freed_memory.py": "with another C library than glibc only Arrow's allocator is changed",
}
"""Who knows Linux, and how it is content without it."""
WAIT_S = 60


def test_nobody_else_knows_linux() -> None:
    knowing = set()
    for path in (ROOT / "actors").rglob("*.py"):
        text = path.read_text()
        if CALLS.search(text) and CALLS.search(re.sub(r'"""(?:.|\n)*?"""|(?<!["\'])#.*', "", text)):
            knowing.add(str(path.relative_to(ROOT)))
    assert knowing == set(CONTENT)


@pytest.fixture(params=["linux", "elsewhere"])
def both(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each test runs with Linux's own calls and without; whether with them."""
    if request.param == "elsewhere":
        monkeypatch.setattr(kernel, "LINUX", False)
        for module, name in ((os, "posix_fallocate"), (resource, "prlimit")):
            monkeypatch.delattr(module, name)
    return request.param == "linux"


@pytest.mark.usefixtures("both")
def test_a_process_is_known_and_is_sent_a_signal_unless_it_is_another() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert kernel.parent_of(child.pid) == os.getpid()
        assert not kernel.send(child.pid, signal.SIGKILL, lambda: False)
        assert child.poll() is None
        assert kernel.send(child.pid, signal.SIGKILL, lambda: True)
        assert child.wait(WAIT_S) == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()
    assert kernel.parent_of(child.pid) is None
    assert not kernel.has_open(child.pid, (0, 0), -1)


def test_who_has_a_file_open(both: bool, tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as file:
        found = os.fstat(file.fileno())
        assert kernel.has_open(os.getpid(), (found.st_dev, found.st_ino), -1)
        assert kernel.has_open(os.getpid(), (found.st_dev, found.st_ino), file.fileno()) is not both


def test_a_process_ends_with_its_parent(both: bool, tmp_path: Path) -> None:
    """A parent forks a child and is killed. The child ends without a word."""
    program = f"""
import os, signal, sys, time
from actors.host.work import kernel
kernel.LINUX = {both}
parent = os.getpid()
if os.fork() == 0:
    assert kernel.end_with_parent(parent, signal.SIGKILL)
    print(os.getpid(), flush=True)
    time.sleep({WAIT_S})
    print("it lived on", flush=True)
else:
    time.sleep({WAIT_S})
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    assert parent.stdout.readline().strip().isdecimal()
    parent.kill()
    began = time.monotonic()
    assert parent.stdout.read() == "", "the pipe is closed when the child has ended"
    assert time.monotonic() - began < WAIT_S / 2
    parent.wait()
    parent.stdout.close()


@pytest.mark.usefixtures("both")
def test_a_file_that_no_other_user_can_open() -> None:
    with kernel.unseen_file(b"secret") as path, open(path, "rb") as file:
        assert file.read() == b"secret"
        assert os.fstat(file.fileno()).st_mode & 0o077 == 0 or path.startswith("/proc/self/fd/")
    assert not os.path.exists(path)


@pytest.mark.usefixtures("both")
def test_room_is_taken(tmp_path: Path) -> None:
    size = (3 << 20) + 5
    with (tmp_path / "room").open("w+b") as file:
        kernel.take_room(file.fileno(), size)
        found = os.fstat(file.fileno())
        assert found.st_size == size and found.st_blocks * 512 >= size


def test_limits_of_another_process(both: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        if both:
            kernel.limit_file_size(child.pid, True)
            assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE)[0] == 0
            kernel.limit_file_size(child.pid, False)
            assert resource.prlimit(child.pid, resource.RLIMIT_FSIZE)[0] != 0
        else:
            with pytest.raises(OSError, match="gives no limits") as refused:
                kernel.limit_file_size(child.pid, True)
            assert refused.value.errno == errno.ENOTSUP
    finally:
        child.kill()
        child.communicate()


@pytest.mark.usefixtures("both")
def test_the_rest_does_no_harm() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert kernel.catches(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    kernel.is_root()
    kernel.give_back_memory()
    kernel.call_process("pytest")
