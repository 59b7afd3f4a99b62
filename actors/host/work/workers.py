"""Threads for slow jobs: `Work` in, (token, result) out.

This file alone decides which job waits for which. Rules:

1. Each kind of work has threads of its own: jobs for clients never delay the node's own reads and unlinking.
2. Owners take turns: first the hosts, then the connections of a host. An owner has one job running; its others wait.
3. A job that returns `More` goes to the end of its owner's queue. But if the memory of all such jobs would then pass
   `HELD_BYTES_MAX`, it goes on at once, until it holds little again.
4. The exception of a job loses its traceback, because the frames of a job hold buffers.
"""

import threading
from collections import deque
from collections.abc import Callable

from actors.node.runtime.turns import Turns
from actors.ports import More, Owner, Work, WorkKind

THREADS = {WorkKind.DISK: 2, WorkKind.RECORDS: 2, WorkKind.TELEMETRY: 1, WorkKind.CLEANING: 4}
HELD_BYTES_MAX = 256 << 20
"""The memory that jobs may hold together while they wait for their next slice."""


class Jobs:
    """Jobs in the order in which they may run. Only one thread may use it at a time."""

    def __init__(self) -> None:
        self._line: Turns[Owner] = Turns()
        """Owners with a job that may run."""
        self._jobs: dict[Owner, deque[Work]] = {}
        """The jobs that wait, of each owner in the line and of each with a job that runs."""

    def put(self, work: Work) -> None:
        """A new job, behind the others of its owner."""
        owner = work.owner or ("", work.token)
        if owner not in self._jobs:
            self._jobs[owner] = deque()
            self._line.put(*owner, owner)
        self._jobs[owner].append(work)

    def take(self) -> Work | None:
        """The next job. Its owner gets no other until `back`."""
        return self._jobs[self._line.take()].popleft() if self._line.hosts else None

    def back(self, work: Work, *, more: bool) -> None:
        """A job that was taken has ended or, with `more`, needs another slice."""
        owner = work.owner or ("", work.token)
        jobs = self._jobs[owner]
        if more:
            jobs.appendleft(work)
        if jobs:
            self._line.put(*owner, owner)
        else:
            del self._jobs[owner]


class Pool:
    """The threads of one kind of work."""

    def __init__(self, name: str, threads: int, ended: Callable[[int, object], None]) -> None:
        self._ended = ended
        self._there = threading.Condition()
        self._jobs = Jobs()
        self._held: dict[int, int] = {}
        """The bytes that each job holds while it waits for its next slice, by token."""
        self._closing = self._dropping = False
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Work) -> None:
        """Run a job when its turn comes."""
        with self._there:
            self._jobs.put(work)
            self._there.notify()

    @property
    def held_bytes(self) -> int:
        """The bytes that jobs hold while they wait for their next slice."""
        with self._there:
            return sum(self._held.values())

    def close(self, *, finish: bool) -> None:
        """End the threads: when all jobs are done (`finish`), or at the end of the slices that run."""
        with self._there:
            self._closing = True
            self._dropping = not finish
            self._there.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._there:
                while self._dropping or (work := self._jobs.take()) is None:
                    if self._closing:
                        return
                    self._there.wait()
                self._held.pop(work.token, None)
            result = _slice(work)
            while isinstance(result, More) and not self._wait(work, result):
                result = _slice(work)
            if not isinstance(result, More):
                self._ended(work.token, result)
                with self._there:
                    self._jobs.back(work, more=False)
                    self._there.notify()

    def _wait(self, work: Work, more: More) -> bool:
        """Let a job wait for its next slice, if there is room for the memory that it holds meanwhile."""
        with self._there:
            if more.held_bytes and sum(self._held.values()) + more.held_bytes > HELD_BYTES_MAX:
                return False
            self._held[work.token] = more.held_bytes
            self._jobs.back(work, more=True)
            self._there.notify()
            return True


class Workers:
    """The pools of threads, one for each kind of work. `ended(token, result or exception)` is called from their
    threads."""

    def __init__(self, ended: Callable[[int, object], None]) -> None:
        self._pools = {kind: Pool(f"work-{kind.value}", count, ended) for kind, count in THREADS.items()}

    def submit(self, work: Work) -> None:
        """Start a job in the pool of its kind."""
        self._pools[work.kind].submit(work)

    @property
    def held_bytes(self) -> int:
        """The bytes that jobs hold while they wait for their next slice."""
        return sum([pool.held_bytes for pool in self._pools.values()])

    def close(self) -> None:
        """Finish the node's own jobs and drop those of clients. A second call does nothing."""
        for kind, pool in self._pools.items():
            pool.close(finish=kind is WorkKind.DISK)


def _slice(work: Work) -> object:
    try:
        return work.job()
    except BaseException as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
