"""Durability and slow jobs outside the loop: `Sync` and `Work` in, (token, result) out.

This file alone decides how the disk is waited for. A sync without replacements goes to `fastpath.flusher`, whose thread
needs the GIL for nothing; one with replacements (quorum-state, a checkpoint) goes to a single thread in order, so that
two versions of a small file never overtake each other. Several syncs that wait at once share one fdatasync a file.
Descriptors are pinned before a thread gets to see them and handed back by `drain`, both on the loop's thread.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from actors.host.disk import LocalFile
from actors.ports import DiskFailed, DiskFull, Sync, Work
from fastpath.flusher import Flusher

WORKERS = 2


class Syncs:
    """The threads that wait for the disk. `wake` is called from them when there is something to `drain`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.flusher = Flusher()
        self._wake = wake
        self._done: deque[tuple[int, object]] = deque()
        self._ordered: deque[tuple[Sync, list[int], list[int]]] = deque()
        """Syncs with replacements: what to sync, and for each replacement the `departures` of its disk."""
        self._pinned: dict[int, list[tuple[LocalFile, list[int]]]] = {}
        """What `drain` hands back, by token."""
        self._there = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write, name="control-plane-sync", daemon=True)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="data-plane-work")
        self._writer.start()

    def submit(self, sync: Sync) -> None:
        """Start a sync."""
        pinned = self._pinned.setdefault(sync.token, [])
        try:
            for file in sync.files:
                assert isinstance(file, LocalFile)
                pinned.append((file, file.pin()))
        except DiskFailed as error:
            self._done.append((sync.token, error))
            self._wake()
            return
        fds = [fd for _, several in pinned for fd in several]
        if sync.replacements:
            asked = [disk.departures for disk, _, _ in sync.replacements]  # type: ignore[attr-defined]
            with self._there:
                self._ordered.append((sync, fds, asked))
                self._there.notify()
        else:
            self.flusher.submit(sync.token, fds)

    def work(self, work: Work) -> None:
        """Start a job."""

        def ended(future: Future[object]) -> None:
            error = future.exception()
            self._done.append((work.token, error if error is not None else future.result()))
            self._wake()

        self._workers.submit(work.job).add_done_callback(ended)

    def drain(self) -> list[tuple[int, object]]:
        """Everything that has ended since the last call: (token, None, a result or an exception)."""
        done: list[tuple[int, object]] = []
        for token, errno in self.flusher.drain():
            done.append((token, DiskFailed(errno, f"fdatasync: {os.strerror(errno)}") if errno else None))
        while self._done:
            done.append(self._done.popleft())
        for token, _ in done:
            for file, fds in self._pinned.pop(token, ()):
                file.unpin(fds)
        return done

    def close(self) -> None:
        """Finish what was submitted, then end the threads."""
        with self._there:
            self._closing = True
            self._there.notify()
        self._writer.join()
        self._workers.shutdown(wait=True)
        self.flusher.close()

    def _write(self) -> None:
        while True:
            with self._there:
                while not self._ordered and not self._closing:
                    self._there.wait()
                if not self._ordered:
                    return
                syncs = list(self._ordered)
                self._ordered.clear()
            self._done.extend(_perform(syncs))
            self._wake()


def _perform(syncs: Sequence[tuple[Sync, Sequence[int], Sequence[int]]]) -> list[tuple[int, object]]:
    """Every file once, then the replacements in order. An error of the device is the answer to all that come after it, want
    of room only to whose small file it was."""
    failed: OSError | None = None
    try:
        for fd in dict.fromkeys(fd for _, fds, _ in syncs for fd in fds):
            os.fdatasync(fd)
    except OSError as error:
        failed = DiskFailed(error.errno, f"fdatasync: {error.strerror}")
    results: list[tuple[int, object]] = []
    for sync, _, asked in syncs:
        full: DiskFull | None = None
        for (disk, path, content), departures in zip(sync.replacements, asked, strict=True):
            if failed is None and full is None:
                try:
                    disk.replace(path, content, departures)  # type: ignore[attr-defined]
                except DiskFull as error:
                    full = error
                except OSError as error:
                    failed = error
        results.append((sync.token, failed or full))
    return results
