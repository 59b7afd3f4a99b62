"""How long a commit of the quorum waits for the disk while a partition's data is flushed at the same time.

    python -m bench.sync_latency [--directory DIR] [--mib 96 1024]

Two files of one directory: a metadata log that gets a small append and a sync every 20 ms, and a partition's segment
that got --mib MiB before its sync. Prints the latencies of the small syncs in ms: alone, and while the large one runs.
`one queue` gives both to the same threads, as before there were classes of syncs.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Sequence

from actors.host.work.disk import LocalDisk
from actors.host.work.syncs import Syncs
from actors.ports import Sync, SyncClass

SMALL_BYTES = 300
PAUSE_S = 0.02
PIECE_BYTES = 1 << 20


def measure(root: str, mib: int, kind: SyncClass) -> tuple[list[float], float]:
    """Latencies (ms) of the small syncs beside one of `mib` MiB (0: none, for a second), and the time of that one
    (s)."""
    woken = threading.Event()
    syncs = Syncs(woken.set)
    disk = LocalDisk(root)
    log, data = disk.open("metadata/0.log", create=True), disk.open("data-0/0.log", create=True)
    ended: dict[int, float] = {}

    def drain() -> None:
        for token, error in syncs.drain():
            assert error is None, error
            ended[token] = time.monotonic()

    def wait(token: int) -> float:
        while token not in ended:
            woken.wait(0.0002)
            woken.clear()
            drain()
        return ended[token]

    try:
        for token, file in ((1, log), (2, data)):
            file.append([b"x"])
            syncs.submit(Sync(token, [file], [], kind))
            wait(token)
        piece = os.urandom(PIECE_BYTES)
        for _ in range(mib):
            data.append([piece])
        began = time.monotonic()
        if mib:
            syncs.submit(Sync(3, [data], []))
        latencies = []
        token = 10
        while (3 not in ended) if mib else time.monotonic() < began + 1:
            token += 1
            log.append([bytes(SMALL_BYTES)])
            at = time.monotonic()
            syncs.submit(Sync(token, [log], [], kind))
            latencies.append(1000 * (wait(token) - at))
            time.sleep(PAUSE_S)
            drain()
        return latencies, ended.get(3, began) - began
    finally:
        syncs.close()


def line(name: str, latencies: Sequence[float], took_s: float) -> str:
    """One row of the table."""
    ordered = sorted(latencies)
    middle, worst = ordered[len(ordered) // 2], ordered[-1]
    return f"{name:28} {len(ordered):4} syncs, median {middle:8.2f} ms, largest {worst:8.2f} ms, flush {took_s:6.2f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", default=".", help="on the file system that is to be measured")
    parser.add_argument("--mib", type=int, nargs="+", default=[96, 1024])
    options = parser.parse_args()
    for mib in (0, *options.mib):
        for name, kind in (("one queue", SyncClass.DATA), ("a queue a class", SyncClass.QUORUM)):
            with tempfile.TemporaryDirectory(dir=options.directory) as root:
                print(line(f"{mib} MiB, {name}", *measure(root, mib, kind)), flush=True)


if __name__ == "__main__":
    main()
