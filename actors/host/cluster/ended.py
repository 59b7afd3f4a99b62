"""Whether a process of ours has ended, for a thread that Ctrl-C may interrupt at any place.

This file alone decides how the main thread looks. `Popen.poll` and `Popen.wait` take a lock, and an interruption just behind
that leaves it taken: whoever waits for the process later, waits for ever. So one thread that nothing interrupts waits with
`Popen.wait`, and the main thread asks the kernel, which keeps the process's end for the one that waits.
"""

import os
import subprocess
import time

LOOK_S = 0.05
"""The longest pause between two looks in s."""


def has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether a child has ended, waited for or not. It takes no lock."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # the one that waits has just been told
        return True


def ends_within(process: "subprocess.Popen[bytes]", timeout_s: float) -> bool:
    """Wait for a child to end. Returns whether it has ended within so many seconds."""
    until, pause = time.monotonic() + timeout_s, 0.0005
    while not has_ended(process):
        left = until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = min(2 * pause, LOOK_S)
    return True
