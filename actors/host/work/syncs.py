"""Syncs and slow jobs outside the loop: `Sync` and `Work` in, (token, result) out.

This file alone decides how the disk is waited for. Rules:

1. Each class of syncs (`ports.SyncClass`) has a queue of its own, with two threads and an order. So a vote or a commit
   of the quorum does not wait behind a gigabyte of a partition. Rules 2 and 3 hold within a class.
2. Only one thread calls fdatasync on a file, one of `fastpath.flusher`, which never needs the GIL. The kernel reports
   a lost write once for each descriptor: of two threads one would get the error, and the other success. Therefore a
   file belongs to one class. Several syncs that wait at once share one fdatasync for each file. After an error all
   later syncs of the class on that disk get the same error.
3. A single thread makes replacements (quorum-state, a checkpoint) in the order of their syncs. So two versions of a
   small file never overtake each other, and none is replaced before the files of its own sync are durable. The small
   files of a sync's runs go beside each other (`replacements.py`), before those that have an order. A file whose content is
   made while it is written, as a snapshot of the metadata is, takes seconds, so it has a thread of its own.
4. Descriptors are pinned before a thread can see them and given back by `drain`, both on the loop's thread. The syncs of a
   class hold at most `descriptors.pins_max()` at once: what is over is pinned when others are given back, so a sync of
   more files than that is made in parts, one after the other. Where there are fewer descriptors than that, a part is what
   there are. The files of a run, and those of no run, become durable in the order in which their sync names them, and none
   behind one that could not be made so. The directory in which several new files of a part have their names is synced once.
5. What was closed while it was pinned is closed by a thread: the file may have been unlinked meanwhile, and the kernel frees
   its blocks when it is closed, for which it takes milliseconds.
"""

import errno
import os
import select
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from queue import SimpleQueue

from actors.host.work import descriptors
from actors.host.work.disk import LocalDirectory, LocalDisk, LocalFile, Named
from actors.host.work.download import begin
from actors.host.work.kept_errors import bare
from actors.host.work.replacements import Replacement, replace_beside
from actors.host.work.shortages import AGAIN_S
from actors.host.work.workers import Workers
from actors.ports import Directory, DiskFailed, DiskFull, Download, File, NotMade, Sync, SyncClass, Work
from fastpath.flusher import Flusher

AGAIN_MS = int(AGAIN_S * 1000)


class Ordered:
    """A sync with replacements, and the value of `departures` of each one's disk."""

    __slots__ = ("beside", "departures", "failed", "flushed", "sync")

    def __init__(self, sync: Sync, flushed: bool) -> None:
        self.sync = sync
        asked = iter(sync.asked())
        self.beside: list[Replacement] = [
            Replacement(disk, path, content, next(asked))  # type: ignore[arg-type]
            for run in sync.runs
            for disk, path, content in run.replacements
        ]
        """The replacements of its runs."""
        self.departures: list[int] = list(asked)
        self.flushed = flushed
        """Whether the flusher has finished the sync's files."""
        self.failed: OSError | None = None
        """The error of the sync's files, if any."""


class Unpinned:
    """A sync and how far it has come: its files before `next` have been handed to the flusher."""

    __slots__ = ("ends", "failed", "files", "flying", "next", "sync")

    def __init__(self, sync: Sync) -> None:
        self.sync = sync
        self.files: list[File | Directory] = [*chain.from_iterable(run.files for run in sync.runs), *sync.files]
        """The files of the runs, then those of no run."""
        self.ends: list[int] = list(accumulate(len(run.files) for run in sync.runs))
        """Where the runs end in `files`."""
        self.next = 0
        self.flying = False
        """Whether the flusher has a part of it. The next one waits, as it may not be tried if this fails."""
        self.failed: DiskFailed | None = None
        """The error of a file that could not be opened or synced; those of later parts are not tried."""


class FlusherPart:
    """The files of a sync that the flusher has."""

    __slots__ = ("ends", "last", "named", "of", "owners", "pinned")

    def __init__(self, of: Unpinned) -> None:
        self.of = of
        self.pinned: list[tuple[LocalFile | LocalDirectory, list[int]]] = []
        """Each file with the descriptors that its `unpin` takes back."""
        self.owners: list[tuple[LocalDisk, int]] = []
        """What the flusher is given: each descriptor, behind its disk."""
        self.ends: list[int] = []
        """Where the runs end in `owners`."""
        self.named: Named = set()
        """The directories that are synced with it."""
        self.last = False
        """Whether the sync is done when this part is."""

    def take(self, file: LocalFile | LocalDirectory, fds: list[int]) -> None:
        """Add the next file of the sync, which is pinned."""
        self.pinned.append((file, fds))
        if file.disk.synced:
            self.owners += [(file.disk, fd) for fd in fds]

    def end_runs(self, first: int) -> None:
        """Note the runs that have ended with the file that was added last; `first`: the first run of the sync that had not
        ended. A run of which the rest comes in another part is one here too."""
        of = self.of
        while first + len(self.ends) < len(of.ends) and of.ends[first + len(self.ends)] <= of.next:
            self.ends.append(len(self.owners))


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
        small = bool(sync.replacements) or any(run.replacements for run in sync.runs)
        files = bool(sync.files) or any(run.files for run in sync.runs)
        if small:
            one = Ordered(sync, flushed=not files)
            if files:
                self._flushing[sync.token] = one
            with self._there:
                self._ordered.append(one)
                self._there.notify()
        if files or not small:
            self._unpinned.append(Unpinned(sync))
            self._pin()

    def flushed(self) -> list[tuple[int, object]]:
        """Results of the flusher for syncs without replacements. The other syncs now wait for their replacements. What was
        pinned for them is given back, and the next files are pinned."""
        done: list[tuple[int, object]] = []
        for token, failures in self.flusher.drain():
            part = self._parts.popleft()
            part.of.flying = False
            for file, fds in part.pinned:
                self._pins -= len(fds)
                if (fd := file.unpin(fds)) >= 0:
                    self._leave(fd)
            for place, error in failures:
                disk = part.owners[place][0]
                failed = DiskFailed(error, f"fdatasync: {os.strerror(error)}")
                failed.disk = disk
                self._lost.setdefault(disk, failed)
                part.of.failed = part.of.failed or failed
            if not part.last:
                continue
            disks = dict.fromkeys(file.disk for file in part.of.files)  # type: ignore[union-attr]
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
        while self._unpinned and not self._unpinned[0].flying:
            one = self._unpinned[0]
            part = FlusherPart(one)
            runs = bisect_right(one.ends, one.next)
            while one.next < len(one.files) and one.failed is None and (self._pins < self.pins_max or self._pins == 0):
                file = one.files[one.next]
                assert isinstance(file, LocalFile | LocalDirectory)
                try:
                    fds = file.pin(part.named)
                except DiskFull:
                    break
                except DiskFailed as error:
                    one.failed = error
                else:
                    part.take(file, fds)
                    self._pins += len(fds)
                    one.next += 1
                    part.end_runs(runs)
            part.last = one.next == len(one.files) or one.failed is not None
            if part.last or part.pinned:
                if runs + len(part.ends) < len(one.ends):
                    part.ends.append(len(part.owners))  # the run that is cut here
                one.flying = True
                self._parts.append(part)
                self.flusher.submit(one.sync.token, [fd for _, fd in part.owners], part.ends)
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
        self._making: list[threading.Thread] = []
        """The threads that write what is made meanwhile."""
        self._workers = Workers(self.ended)
        self._closer = threading.Thread(target=self._close_left, name="close", daemon=True)
        self._closer.start()

    def filenos(self) -> list[int]:
        """Descriptors that are readable when there is something to `drain`. For other results `wake` is called."""
        return [queue.flusher.fileno() for queue in self.queues.values()]

    def submit(self, sync: Sync) -> None:
        """Start a sync in the queue of its class, or alone if its content is made while it is written."""
        if any(not isinstance(content, bytes) for _, _, content in sync.replacements):
            assert not sync.files and not sync.runs, "nothing waits for it, and it waits for nothing"
            one = Ordered(sync, flushed=True)
            self._making = [thread for thread in self._making if thread.is_alive()]
            thread = threading.Thread(target=self._make, args=(one,), name="made", daemon=True)
            try:
                thread.start()
            except (RuntimeError, MemoryError):
                _, path, _ = sync.replacements[0]
                self.ended(sync.token, DiskFull(errno.EAGAIN, "there is no thread to write the file now", path))
            else:
                self._making.append(thread)
            return
        self.queues[sync.kind].submit(sync)

    def _make(self, one: Ordered) -> None:
        self._done.extend(_perform([one]))
        self._wake()

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
        for thread in self._making:
            thread.join()
        self._workers.close()
        self._left.put(-1)
        self._closer.join()

    def _close_left(self) -> None:
        while (fd := self._left.get()) >= 0:
            os.close(fd)


def _perform(syncs: Sequence[Ordered]) -> list[tuple[int, object]]:
    """Make the replacements in order. An error of a device is the result of all later syncs on it too. Lack of room is
    the result of that sync alone, and so is a content that could not be made."""
    lost: dict[object, OSError] = {}
    results: list[tuple[int, object]] = []
    for one in syncs:
        disks = dict.fromkeys([*(small.disk for small in one.beside), *(disk for disk, _, _ in one.sync.replacements)])
        failed = one.failed or next((lost[disk] for disk in disks if disk in lost), None)
        full: DiskFull | NotMade | None = None
        for error in replace_beside(one.beside) if failed is None else ():
            if isinstance(error, DiskFull):
                full = full or error
            elif error is not None:
                failed = failed or error
                lost.setdefault(getattr(error, "disk", None), error)
        for (disk, path, content), departures in zip(one.sync.replacements, one.departures, strict=True):
            if failed is None and full is None:
                try:
                    disk.replace(path, content, departures)  # type: ignore[attr-defined]
                except (DiskFull, NotMade) as error:
                    full = bare(error)
                except MemoryError:
                    full = DiskFull(errno.ENOMEM, "there is no memory to replace the file", path)
                except OSError as error:
                    failed = bare(error)
                except Exception as error:  # whatever it is: the node that waits must learn of it
                    failed = DiskFailed(errno.EIO, f"replace failed: {error!r}", path)
        if failed is not None:
            whose = getattr(failed, "disk", None)
            lost.update({disk: failed for disk in disks if whose in (None, disk)})
        results.append((one.sync.token, failed or full))
    return results
