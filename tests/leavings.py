"""What a run of tests has started ends with it, also where the run is killed: clusters that are detached, Java's processes.

Each pytest has a mark in its environment, which all that it starts inherits. A process beside it waits for the end of its
input, which comes with the end of that pytest, however it ends; then it ends whatever has the mark.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "RAYFT_TEST_RUN"
"""The environment variable. Tests that make an environment of their own hand it on."""
GRACE_S = 5.0
"""How long what ends by itself may take: a supervisor that has lost its program removes its directory."""
STOP_S = 30.0
"""How long a controlled stop may take."""
KILL_S = 10.0
_kept: list["subprocess.Popen[bytes]"] = []


def watch() -> None:
    """Let whatever this process starts from now on end with it."""
    mark = uuid.uuid4().hex
    os.environ.pop(MARK, None)  # the process that watches has none
    command = [sys.executable, "-I", "-S", __file__, mark]
    _kept.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True))
    os.environ[MARK] = mark


def marked(mark: str) -> list[int]:
    """The processes that have this mark."""
    found, wanted = [], f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def end(mark: str) -> None:
    """End the processes that have this mark: as those who have lost their program, by SIGTERM, by SIGKILL."""
    for number, time_s in ((0, GRACE_S), (signal.SIGTERM, STOP_S), (signal.SIGKILL, KILL_S)):
        until, told = time.monotonic() + time_s, set[int]()
        while found := marked(mark):
            for pid in found:
                if pid not in told:  # one that has been started since is told too
                    told.add(pid)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            if time.monotonic() > until:
                break
            time.sleep(0.2)
        else:
            return


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    end(sys.argv[1])
