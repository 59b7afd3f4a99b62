"""What Linux alone has, and what takes its place on another system, as macOS.

All other code uses POSIX; `tests/unit/host/work/test_kernel.py` has the list of what else knows Linux and is content without
it (time slices, metrics of the process, direct reads). This file alone decides how one does without:

1. A node ends with its supervisor by a signal of the kernel; elsewhere a thread looks for its parent again and again.
2. A process is known by what /proc tells of it; elsewhere by its id alone, which a later process may have been given.
3. Keys reach OpenSSL in memory; elsewhere in a file of the temporary directory that only this user can read, for a moment.
4. Room on a disk is taken without writing it; elsewhere it is written.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

LINUX = hasattr(os, "pidfd_open") and hasattr(os, "memfd_create")
"""Whether the kernel is Linux, with what it has had since 5.3."""
LIBC = ctypes.CDLL(None)
"""The C library: loaded before a fork, behind which it could wait for ever."""
PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
LOOK_S = 0.2
"""How often a thread looks whether the parent is there, where the kernel does not tell."""
ZEROS = bytes(1 << 20)


def end_with_parent(parent: int, number: int) -> bool:
    """Let this process be sent a signal when its parent has ended. False: it has ended already. Where a thread has to look
    for the parent, that is over when the process executes another program."""
    if LINUX:
        LIBC.prctl(PR_SET_PDEATHSIG, number)
    else:
        threading.Thread(target=_follow, args=(parent, number), name="parent", daemon=True).start()
    return os.getppid() == parent


def _follow(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), number)


def call_process(name: str) -> None:
    """Give this process a name for `ps` and `top`."""
    if LINUX:
        LIBC.prctl(PR_SET_NAME, name.encode())


def parent_of(pid: int) -> int | None:
    """The parent of a process; None: there is no such process."""
    try:
        if LINUX:
            with open(f"/proc/{pid}/stat", "rb") as told:
                return int(told.read().rpartition(b")")[2].split()[1])
        told_by_ps = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return int(told_by_ps.stdout)
    except (OSError, ValueError, IndexError):
        return None


def has_open(pid: int, file: tuple[int, int], looking: int) -> bool:
    """Whether a process has a file open, by device and inode. `looking`: the descriptor by which this one looks at it.
    Elsewhere: whether there is such a process."""
    if not LINUX:
        return _exists(pid)
    own = str(looking) if pid == os.getpid() else ""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for one in numbers:
        if one == own:
            continue
        with contextlib.suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{one}")
            if (found.st_dev, found.st_ino) == file:
                return True
    return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def send(pid: int, number: int, is_it: Callable[[], bool]) -> bool:
    """Send a signal to a process, if it is still the one that is meant (`is_it`). False: it is not. On Linux no later
    process with the same id can be hit."""
    if not LINUX:
        if not is_it():
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not is_it():  # it ended between the two looks, and the number may be another process's
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal. Elsewhere: True."""
    if not LINUX:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="latin-1") as told:
        for line in told:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> number - 1 & 1)
    return False


def is_root() -> bool:
    """Whether a file system takes this process for root: the root of a user namespace is another user outside."""
    if not LINUX:
        return os.geteuid() == 0
    try:
        with open("/proc/self/uid_map") as file:
            return os.geteuid() == 0 and file.readline().split()[:2] == ["0", "0"]
    except OSError:
        return False


@contextlib.contextmanager
def unseen_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content that no other user can open, for as long as the context."""
    if LINUX:
        with os.fdopen(os.memfd_create("keys", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="rayft-") as named:  # with mode 0600
            named.write(content)
            named.flush()
            yield named.name


def take_room(fd: int, size: int) -> None:
    """Take `size` bytes of the file system for a file, whose size that becomes. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        for position in range(0, size, len(ZEROS)):
            os.pwrite(fd, ZEROS[: size - position], position)
    os.ftruncate(fd, size)


def limit_file_size(pid: int, full: bool) -> None:
    """Let each write of a process that makes a file longer fail with EFBIG, or do so no more. Raises OSError: ENOTSUP where
    a process cannot be given limits by another one, ProcessLookupError."""
    if not hasattr(resource, "prlimit"):
        raise OSError(errno.ENOTSUP, "this system gives no limits to other processes")
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if full else hard, hard))


def give_back_memory() -> None:
    """Give the system what the buffers of ended handshakes leave in the C library's heap: glibc keeps them, in pieces, and
    each wave of connections would add to them. It takes some milliseconds: not for the loop's thread."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        LIBC.malloc_trim(0)
