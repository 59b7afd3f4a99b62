"""Durability and slow jobs outside the loop: `Sync` and `Work` in, (token, result) out.

This file alone decides how the disk is waited for. Rules:

1. Each class of syncs (`ports.SyncClass`) has a queue of its own, with two threads and an order. So a vote or a commit
   of the quorum does not wait behind a gigabyte of a partition. Rules 2 and 3 hold within a class.
2. Only one thread calls fdatasync on a file, that of `fastpath.flusher`, which never needs the GIL. The kernel reports
   a lost write once for each descriptor: of two threads one would get the error, and the other success. Therefore a
   file belongs to one class. Several syncs that wait at once share one fdatasync for each file. After an error all
   later syncs of the class on that disk get the same error.
3. A single thread makes replacements (quorum-state, a checkpoint) in the order of their syncs. So two versions of a
   small file never overtake each other, and none is replaced before the files of its own sync are durable.
4. Descriptors are pinned before a thread can see them and given back by `drain`, both on the loop's thread.
5. What was closed while it was pinned is closed by a thread: the file may have been unlinked meanwhile, and the kernel frees
   its blocks when it is closed, for which it takes milliseconds.
"""

import errno
import os
import select
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from actors.host.disk import LocalFile
from actors.host.download import begin
from actors.host.workers import Workers
from actors.ports import DiskFailed, DiskFull, Download, Sync, SyncClass, Work
from fastpath.flusher import Flusher


class Ordered:
    """A sync with replacements, and the value of `departures` of each one's disk."""

    __slots__ = ("departures", "failed", "flushed", "sync")

    def __init__(self, sync: Sync, flushed: bool) -> None:
        self.sync = sync
        self.departures: list[int] = [disk.departures for disk, _, _ in sync.replacements]  # type: ignore[attr-defined]
        self.flushed = flushed
        """Whether the flusher has finished its files."""
        self.failed: OSError | None = None
        """The error of its files, if any."""


class Queue:
    """The two threads of one class of syncs: one makes files durable, the other replaces small files."""

    def __init__(self, name: str, done: deque[tuple[int, object]], wake: Callable[[], None]) -> None:
        """Results are appended to `done`. Those of syncs without replacements are returned by `flushed`."""
        self.flusher = Flusher()
        self._wake = wake
        self._done = done
        self._ordered: deque[Ordered] = deque()
        self._flushing: dict[int, Ordered] = {}
        """Syncs with replacements whose files the flusher has, by token."""
        self._disks: dict[int, frozenset[object]] = {}
        """The disks of the files that the flusher has, by token."""
        self._lost: dict[object, DiskFailed] = {}
        """Disk -> the error of the first file on it that could not be made durable."""
        self._there = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write, name=f"{name}-sync", daemon=True)
        self._writer.start()

    def submit(self, sync: Sync, fds: Sequence[int]) -> None:
        """Start a sync whose files have these descriptors."""
        if sync.replacements:
            one = Ordered(sync, flushed=not fds)
            if fds:
                self._flushing[sync.token] = one
            with self._there:
                self._ordered.append(one)
                self._there.notify()
        if fds or not sync.replacements:
            self._disks[sync.token] = frozenset(file.disk for file in sync.files)  # type: ignore[attr-defined]
            self.flusher.submit(sync.token, fds)

    def flushed(self) -> list[tuple[int, object]]:
        """Results of the flusher for syncs without replacements. The other syncs now wait for their replacements."""
        done: list[tuple[int, object]] = []
        for token, error in self.flusher.drain():
            disks = self._disks.pop(token, frozenset())
            if error:
                for disk in disks:
                    self._lost.setdefault(disk, DiskFailed(error, f"fdatasync: {os.strerror(error)}"))
            lost = next((self._lost[disk] for disk in disks if disk in self._lost), None)
            one = self._flushing.pop(token, None)
            if one is None:
                done.append((token, lost))
                continue
            with self._there:
                one.failed, one.flushed = lost, True
                self._there.notify()
        return done

    def close(self) -> None:
        """Finish what was submitted, then end the threads. May be called more than once."""
        while self._flushing:
            ended = select.poll()
            ended.register(self.flusher.fileno(), select.POLLIN)
            ended.poll()
            self.flushed()
        with self._there:
            self._closing = True
            self._there.notify()
        self._writer.join()
        self.flusher.close()

    def _write(self) -> None:
        while True:
            with self._there:
                while not (syncs := self._durable()):
                    if self._closing and not self._ordered:
                        return
                    self._there.wait()
            self._done.extend(_perform(syncs))
            self._wake()

    def _durable(self) -> list[Ordered]:
        """Take the first syncs of the queue, up to the first whose files are not durable yet."""
        syncs = []
        while self._ordered and self._ordered[0].flushed:
            syncs.append(self._ordered.popleft())
        return syncs


class Syncs:
    """The threads that wait for the disk. `wake` is called from them when there is something to `drain`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._done: deque[tuple[int, object]] = deque()
        self.queues = {kind: Queue(kind.value, self._done, wake) for kind in SyncClass}
        self._pinned: dict[int, list[tuple[LocalFile, list[int]]]] = {}
        """The syncs in progress, by token, with the descriptors that `drain` gives back."""
        self._workers = Workers(self.ended)
        self._left: SimpleQueue[int] = SimpleQueue()
        """Descriptors that are to be closed; below zero: no more will come."""
        self._closer = threading.Thread(target=self._close_left, name="close", daemon=True)
        self._closer.start()

    def filenos(self) -> list[int]:
        """Descriptors that are readable when there is something to `drain`. For other results `wake` is called."""
        return [queue.flusher.fileno() for queue in self.queues.values()]

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
        self.queues[sync.kind].submit(sync, [fd for _, several in pinned for fd in several])

    def work(self, work: Work) -> None:
        """Start a job."""
        self._workers.submit(work)

    def download(self, wanted: Download) -> None:
        """Start to fetch a document."""
        begin(wanted, self.ended)

    def ended(self, token: int, result: object) -> None:
        """Something that was begun outside has ended. Any thread may say so."""
        self._done.append((token, result))
        self._wake()

    def drain(self) -> list[tuple[int, object]]:
        """Everything that has ended since the last call: (token, None, a result or an exception)."""
        done = [one for queue in self.queues.values() for one in queue.flushed()]
        while self._done:
            done.append(self._done.popleft())
        for token, _ in done:
            for file, fds in self._pinned.pop(token, ()):
                if (fd := file.unpin(fds)) >= 0:
                    self._left.put(fd)
        return done

    def close(self) -> None:
        """Finish what was submitted, then end the threads. May be called more than once."""
        for queue in self.queues.values():
            queue.close()
        self._workers.close()
        self._left.put(-1)
        self._closer.join()

    def _close_left(self) -> None:
        while (fd := self._left.get()) >= 0:
            os.close(fd)


def _perform(syncs: Sequence[Ordered]) -> list[tuple[int, object]]:
    """Make the replacements in order. An error of a device is the result of all later syncs on it too. Lack of room is
    the result of that sync alone."""
    lost: dict[object, OSError] = {}
    results: list[tuple[int, object]] = []
    for one in syncs:
        failed = one.failed or next((lost[disk] for disk, _, _ in one.sync.replacements if disk in lost), None)
        full: DiskFull | None = None
        for (disk, path, content), departures in zip(one.sync.replacements, one.departures, strict=True):
            if failed is None and full is None:
                try:
                    disk.replace(path, content, departures)  # type: ignore[attr-defined]
                except DiskFull as error:
                    full = error
                except OSError as error:
                    failed = error
                except Exception as error:  # lack of memory, say: the node that waits must learn of it
                    failed = DiskFailed(errno.EIO, f"replace failed: {error!r}", path)
        if failed is not None:
            lost.update({disk: failed for disk, _, _ in one.sync.replacements})
        results.append((one.sync.token, failed or full))
    return results
