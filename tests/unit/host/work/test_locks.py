"""Who holds a directory, and that nobody else gets a signal for it."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.host.cluster import local_controllers, on_processes
from actors.host.cluster import plan as plans
from actors.host.cluster_error import ClusterError
from actors.host.work import locks
from actors.import_path import python_path

pytestmark = pytest.mark.long

HOLDS = (
    "import sys; from actors.host.work.locks import Lock; lock = Lock(sys.argv[1]); print('held', flush=True); input()"
)


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has nothing to do with it."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def holding(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds the directory `held`."""
    (tmp_path / "held").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "held")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": python_path()},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def claim(path: Path, pid: object) -> None:
    """Write another number into the lock, as one of another namespace or machine would stand there."""
    with (path / ".lock").open("r+b") as file:
        file.write(str(pid).ljust(31).encode() + b"\n")


def test_the_holder_gets_the_signal(tmp_path: Path, holding: "subprocess.Popen[bytes]") -> None:
    held = str(tmp_path / "held")
    assert locks.holder(held) == locks.Holder(holding.pid)
    assert on_processes._signalled([held], signal.SIGTERM)
    assert holding.wait(10) == -signal.SIGTERM
    assert locks.holder(held) is None and not locks.send(held, signal.SIGTERM)


@pytest.mark.parametrize("number", ["a bystander's", "nobody's", "none", "this process's"])
def test_nobody_else_gets_it(
    tmp_path: Path, holding: "subprocess.Popen[bytes]", bystander: "subprocess.Popen[bytes]", number: str
) -> None:
    """The number in a lock is of another namespace of processes, or was used again."""
    held = tmp_path / "held"
    written = {"a bystander's": bystander.pid, "nobody's": 1 << 22, "none": "", "this process's": os.getpid()}
    claim(held, written[number])
    assert locks.holder(str(held)) == locks.Holder(None)
    for sent in (signal.SIGTERM, signal.SIGKILL, signal.SIGHUP):
        with pytest.raises(ClusterError, match="cannot be seen from here"):
            on_processes._signalled([str(held)], sent)
        with pytest.raises(ClusterError, match="cannot be seen from here"):
            local_controllers._wake(held)
    assert bystander.poll() is None and holding.poll() is None
    assert not on_processes._given_back([str(held)], 0.1), "it is held all the same"


def test_one_that_cannot_be_seen_spares_all(tmp_path: Path, holding: "subprocess.Popen[bytes]") -> None:
    """Half of a cluster is not ended."""
    (tmp_path / "other").mkdir()
    other = locks.Lock(str(tmp_path / "other"))
    claim(tmp_path / "other", 1 << 22)
    with pytest.raises(ClusterError, match="other is held"):
        on_processes._signalled([str(tmp_path / "held"), str(tmp_path / "other")], signal.SIGKILL)
    assert holding.poll() is None
    other.close()


def test_down_ends_nobody_whom_it_cannot_prove(
    tmp_path: Path, holding: "subprocess.Popen[bytes]", bystander: "subprocess.Popen[bytes]"
) -> None:
    plans.create(tmp_path / "cluster", 1, 1, common={})
    (tmp_path / "held" / ".lock").rename(tmp_path / "cluster" / ".lock")
    claim(tmp_path / "cluster", bystander.pid)
    with pytest.raises(ClusterError, match="cannot be seen from here"):
        on_processes.down(tmp_path / "cluster", 0.2)
    with pytest.raises(ClusterError, match="cannot be seen from here"):
        local_controllers.remove(tmp_path / "cluster", 1001)
    assert bystander.poll() is None and holding.poll() is None
    assert (tmp_path / "cluster" / "node-1").exists() or (tmp_path / "cluster" / "controller-1001").exists()


def test_a_process_that_cannot_say_who_it_is_does_not_start(tmp_path: Path) -> None:
    """On a full disk. Its directory would count as free."""
    code = (
        "import resource, signal, sys; from actors.host.work.locks import Lock, StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n"
        "try: Lock(sys.argv[1])\n"
        "except StorageError as error: print(error)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": python_path()},
    ).stdout  # fmt: skip
    assert said.startswith(
        f"{tmp_path}/.lock cannot be written (File too large), and nobody could tell who uses {tmp_path}: "
    )
    assert locks.holder(str(tmp_path)) is None
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0


def test_whose_child_a_process_is(bystander: "subprocess.Popen[bytes]") -> None:
    assert locks.is_child(bystander.pid, os.getpid())
    assert not locks.is_child(bystander.pid, 1)
    assert not locks.is_child(1 << 22, os.getpid())


def test_a_holder_has_a_moment_to_say_who_it_is(tmp_path: Path) -> None:
    """Between taking the lock and writing its number a process is not to be taken for one of another machine."""
    fd = os.open(tmp_path / locks.LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        said = threading.Timer(0.05, lambda: os.pwrite(fd, b"%d" % os.getpid(), 0))
        said.start()
        assert locks.seen(str(tmp_path)) == os.getpid()
        said.join()
    finally:
        os.close(fd)


def test_who_holds_for_a_moment_holds_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path / locks.LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    ended = threading.Timer(0.05, lambda: os.close(fd))
    ended.start()
    assert locks.seen(str(tmp_path)) is None
    ended.join()
