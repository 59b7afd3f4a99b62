"""CPU seconds of process trees, a measure that other users of the machine hardly distort."""

import os
from collections.abc import Iterable
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds(roots: Iterable[int] = ()) -> float:
    """User and system time of this process, of `roots` and of all their descendants, including those that have
    ended."""
    rows: dict[int, tuple[int, int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        rows[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in rows.items():
        below.setdefault(parent, []).append(pid)
    total, waiting, seen = 0, [os.getpid(), *roots], set()
    while waiting:
        pid = waiting.pop()
        if pid not in seen and pid in rows:
            seen.add(pid)
            total += rows[pid][1]
            waiting += below.get(pid, [])
    return total / TICKS
