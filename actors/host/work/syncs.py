"""Syncs and slow jobs outside the loop: `Sync` and `Work` in, (token, result) out.

This file alone decides how the disk is waited for. Rules:

1. Each class of syncs (`ports.SyncClass`) has a queue of its own, with two threads and an order. So a vote or a commit
   of the quorum does not wait behind a gigabyte of a partition. Rules 2 and 3 hold within a class.
2. Only one thread calls fdatasync on a file, that of `fastpath.flusher`, which never needs the GIL. The kernel reports
   a lost write once for each descriptor: of two threads one would get the error, and the other success. Therefore a
   file belongs to one class. Several syncs that wait at once share one fdatasync for each file. After an error all
   later syncs of the class on that disk get the same error.
3. A single thread makes replacements (quorum-state, a checkpoint) in the order of their syncs. So two versions of a
   small file never overtake each other, and none is replaced before the files of its own sync are durable.
4. Descriptors are pinned before a thread can see them and given back by `drain`, both on the loop's thread. The syncs of a
   class hold at most `descriptors.pins_max()` at once: what is over is pinned when others are given back, so a sync of
   more files than that is made in parts. Where there are fewer descriptors than that, a part is what there are. Files become
   durable in the order in which their sync names them, and none behind one that could not be made so.
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

from actors.host.work import descriptors
from actors.host.work.disk import LocalDirectory, LocalFile
from actors.host.work.download import begin
from actors.host.work.shortages import AGAIN_S
from actors.host.work.workers import Workers
from actors.ports import DiskFailed, DiskFull, Download, Sync, SyncClass, Work
from fastpath.flusher import Flusher

AGAIN_MS = int(AGAIN_S * 1000)


class Ordered:
    """A sync with replacements, and the value of `departures` of each one's disk."""

    __slots__ = ("departures", "failed", "flushed", "sync")

    def __init__(self, sync: Sync, flushed: bool) -> None:
        self.sync = sync
        self.departures: list[int] = [disk.departures for disk, _, _ in sync.replacements]  # type: ignore[attr-defined]
        self.flushed = flushed
        """Whether the flusher has finished the sync's files."""
        self.failed: OSError | None = None
        """The error of the sync's files, if any."""


class Unpinned:
    """A sync and how far it has come: its files before `next` have been handed to the flusher."""

    __slots__ = ("failed", "next", "sync")

    def __init__(self, sync: Sync) -> None:
        self.sync = sync
        self.next = 0
        self.failed: DiskFailed | None = None
        """The error of a file that could not be opened; those behind it are not tried."""


class FlusherPart:
    """The files of a sync that the flusher has."""

    __slots__ = ("disks", "last", "of", "pinned")

    def __init__(self, of: Unpinned) -> None:
        self.of = of
        self.pinned: list[tuple[LocalFile | LocalDirectory, list[int]]] = []
        """Each file with the descriptors that its `unpin` takes back."""
        self.disks: frozenset[object] = frozenset()
        """The disks of these files."""
        self.last = False
        """Whether the sync is done when this part is."""


class Queue:
    """The two threads of one class of syncs: one makes files durable, the other replaces small files."""

    def __init__(
        self,
        name: str,
        done: deque[tuple[int, object]],
        wake: Callable[[], None],
        leave: Callable[[int], None],
    ) -> None:
        """Results are appended to `done`. Those of syncs without replacements are returned by `flushed`. `leave` takes a
        descriptor that is to be closed."""
        self.flusher = Flusher()
        self._wake = wake
        self._done = done
        self._ordered: deque[Ordered] = deque()
        self._flushing: dict[int, Ordered] = {}
        """Syncs with replacements whose files the flusher has, by token."""
        self.pins_max = descriptors.pins_max()
        """How many descriptors its syncs may hold at once. One file is pinned whatever the number says."""
        self._pins = 0
        """How many descriptors the syncs hold now."""
        self._unpinned: deque[Unpinned] = deque()
        """Syncs of which not all files have been handed to the flusher, in their order."""
        self._parts: deque[FlusherPart] = deque()
        """The parts that the flusher has, in the order in which its results come."""
        self._leave = leave
        self._lost: dict[object, DiskFailed] = {}
        """The error of the first file on each disk that could not be made durable."""
        self._there = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write, name=f"{name}-sync", daemon=True)
        self._writer.start()

    def submit(self, sync: Sync) -> None:
        """Begin a sync, behind those that were begun before."""
        if sync.replacements:
            one = Ordered(sync, flushed=not sync.files)
            if sync.files:
                self._flushing[sync.token] = one
            with self._there:
                self._ordered.append(one)
                self._there.notify()
        if sync.files or not sync.replacements:
            self._unpinned.append(Unpinned(sync))
            self._pin()

    def flushed(self) -> list[tuple[int, object]]:
        """Results of the flusher for syncs without replacements. The other syncs now wait for their replacements. What was
        pinned for them is given back, and the next files are pinned."""
        done: list[tuple[int, object]] = []
        for token, error in self.flusher.drain():
            part = self._parts.popleft()
            for file, fds in part.pinned:
                self._pins -= len(fds)
                if (fd := file.unpin(fds)) >= 0:
                    self._leave(fd)
            if error:
                for disk in part.disks:
                    self._lost.setdefault(disk, DiskFailed(error, f"fdatasync: {os.strerror(error)}"))
                part.of.failed = part.of.failed or DiskFailed(error, f"fdatasync: {os.strerror(error)}")
            if not part.last:
                continue
            disks = frozenset(file.disk for file in part.of.sync.files)  # type: ignore[union-attr]
            lost = part.of.failed or next((self._lost[disk] for disk in disks if disk in self._lost), None)
            one = self._flushing.pop(token, None)
            if one is None:
                done.append((token, lost))
                continue
            with self._there:
                one.failed, one.flushed = lost, True
                self._there.notify()
        self._pin()
        return done

    @property
    def lacks(self) -> bool:
        """Whether files wait for descriptors, and nothing is under way that will give some back."""
        return bool(self._unpinned) and not self._parts

    def _pin(self) -> None:
        """Hand the flusher files, those of the oldest sync first, as many as there are descriptors for."""
        while self._unpinned:
            one = self._unpinned[0]
            files = one.sync.files
            part = FlusherPart(one)
            while one.next < len(files) and one.failed is None and (self._pins < self.pins_max or self._pins == 0):
                file = files[one.next]
                assert isinstance(file, LocalFile | LocalDirectory)
                try:
                    fds = file.pin()
                except DiskFull:
                    break
                except DiskFailed as error:
                    one.failed = error
                else:
                    part.pinned.append((file, fds))
                    self._pins += len(fds)
                    one.next += 1
            part.last = one.next == len(files) or one.failed is not None
            if part.last or part.pinned:
                part.disks = frozenset(file.disk for file, _ in part.pinned)
                self._parts.append(part)
                synced = [fds for file, fds in part.pinned if file.disk.synced]
                self.flusher.submit(one.sync.token, [fd for fds in synced for fd in fds])
            if not part.last:
                return
            self._unpinned.popleft()

    def close(self) -> None:
        """Finish what was submitted, then end the threads. A second call does nothing."""
        while self._flushing or self._unpinned:
            ended = select.poll()
            ended.register(self.flusher.fileno(), select.POLLIN)
            ended.poll(AGAIN_MS)
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
        self._left: SimpleQueue[int] = SimpleQueue()
        """Descriptors that a thread has to close; below zero: no more will come."""
        self.queues = {kind: Queue(kind.value, self._done, wake, self._left.put) for kind in SyncClass}
        self._workers = Workers(self.ended)
        self._closer = threading.Thread(target=self._close_left, name="close", daemon=True)
        self._closer.start()

    def filenos(self) -> list[int]:
        """Descriptors that are readable when there is something to `drain`. For other results `wake` is called."""
        return [queue.flusher.fileno() for queue in self.queues.values()]

    def submit(self, sync: Sync) -> None:
        """Start a sync in the queue of its class."""
        self.queues[sync.kind].submit(sync)

    @property
    def held_bytes(self) -> int:
        """The bytes that jobs hold while they wait for their next slice."""
        return self._workers.held_bytes

    @property
    def lacks(self) -> bool:
        """Whether a sync waits that only another call of `drain` goes on with."""
        return any(queue.lacks for queue in self.queues.values())

    def work(self, work: Work) -> None:
        """Start a job in a thread of its kind."""
        self._workers.submit(work)

    def download(self, wanted: Download) -> None:
        """Start to fetch a document."""
        begin(wanted, self.ended)

    def ended(self, token: int, result: object) -> None:
        """Take the end of something that was begun outside. Any thread may call it."""
        self._done.append((token, result))
        self._wake()

    def drain(self) -> list[tuple[int, object]]:
        """Everything that has ended since the last call: (token, None, a result or an exception)."""
        done = [one for queue in self.queues.values() for one in queue.flushed()]
        while self._done:
            done.append(self._done.popleft())
        return done

    def close(self) -> None:
        """Finish what was submitted, then end the threads. A second call does nothing."""
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
                except MemoryError:
                    full = DiskFull(errno.ENOMEM, "there is no memory to replace the file", path)
                except OSError as error:
                    failed = error
                except Exception as error:  # whatever it is: the node that waits must learn of it
                    failed = DiskFailed(errno.EIO, f"replace failed: {error!r}", path)
        if failed is not None:
            whose = getattr(failed, "disk", None)
            lost.update({disk: failed for disk, _, _ in one.sync.replacements if whose in (None, disk)})
        results.append((one.sync.token, failed or full))
    return results
